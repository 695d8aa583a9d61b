"""What was said in a conversation before: the messages of its last run, from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.events.log import EventLog
from clawhive_core.execution.recorded import answer_of, full
from clawhive_core.execution.scope import is_nested
from clawhive_core.model.messages import LlmMessage, block_from_json


def said_before(
    log: EventLog, conversation_id: str | None
) -> tuple[str | None, tuple[LlmMessage, ...]]:
    """Return the last run of a prompt in a conversation that came to an answer, and what was said.

    Raises:
        ClawHiveError: Bodies of the run were pruned.
    """
    if conversation_id is None:
        return None, ()
    rows = log.read(
        "SELECT run_id FROM runs WHERE conversation_id = ? AND status = 'succeeded' "
        "AND task_type IS NULL AND parent_run_id IS NULL ORDER BY started_seq DESC",
        (conversation_id,),
    )
    for (run,) in map(tuple, rows):
        if messages := messages_of(log, run):
            return run, messages
    return None, ()


def messages_of(log: EventLog, run_id: str | None) -> tuple[LlmMessage, ...]:
    """Return what a run's loop and its model said, the model's last answer included.

    Raises:
        ClawHiveError: Bodies of the run were pruned.
    """
    if run_id is None:
        return ()
    messages: list[LlmMessage] = []
    last = None
    for stored in log.events(run_id=run_id):
        event = stored.event
        if is_nested(event.step_id):
            continue
        if event.kind == "model.start":
            new = [message_from_json(each) for each in full(log, event.body["new"])]
            messages = [*messages[: event.body["history"]["count"] - len(new)], *new]
        elif event.kind == "model.end" and event.status == "succeeded":
            last = stored
    if last is not None:
        messages.append(LlmMessage("assistant", answer_of(log, last).content))
    return tuple(messages)


def message_from_json(value: Mapping[str, Any]) -> LlmMessage:
    """Return the message that `message_to_json` wrote."""
    return LlmMessage(value["role"], tuple(block_from_json(each) for each in value["content"]))
