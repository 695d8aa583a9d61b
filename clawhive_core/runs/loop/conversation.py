"""What was said in a conversation before: the messages of its last run, from the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawhive_core.events.log import EventLog
from clawhive_core.execution.nested.recorded import answer_of, full
from clawhive_core.execution.scope import is_nested
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.messages import LlmMessage, block_from_json
from clawhive_core.model.patterns import pattern
from clawhive_core.runs.record.lineage import end_of, start_of

_TURN = pattern(r"[^/]*/r[0-9]+")
"""The step of a turn of the loop; planners and compactions ask models in steps of other names."""


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

    What a planner, a compaction or a tool asked a model is no part of it. A run that came to its
    output without a turn said its prompt and that output.

    Raises:
        ClawHiveError: Bodies of the run were pruned.
    """
    later: list[LlmMessage] = []
    while run_id is not None:
        if said := _turns(log, run_id):
            return (*said, *later)
        later = [*_without_turns(log, run_id), *later]
        run_id = start_of(log, run_id).get("continues")
    return tuple(later)


def answers_before(log: EventLog, run_id: str) -> int:
    """Return how many answers models gave in the runs that a run continues.

    Plans and answers that were of no use count too, unlike in `messages_of`.
    """
    count, run = 0, start_of(log, run_id).get("continues")
    while run is not None:
        ends = [stored.event for stored in log.events(run_id=run, kinds=("model.end",))]
        given = [event for event in ends if event.status == "succeeded"]
        count += sum(not is_nested(event.step_id) for event in given)
        run = start_of(log, run).get("continues")
    return count


def is_turn(step_id: str | None) -> bool:
    """Whether a step is a turn of a run's loop."""
    return step_id is not None and _TURN.fullmatch(step_id) is not None


def _turns(log: EventLog, run_id: str) -> list[LlmMessage]:
    """Return what the turns of a run said, with all before; nothing where it had none."""
    sent: list[LlmMessage] = []
    said: list[LlmMessage] = []
    last, plans = None, 0
    for stored in log.events(run_id=run_id):
        event = stored.event
        if is_nested(event.step_id):
            continue
        if event.kind == "model.start":
            # All of them: each records what is new since the one before, whoever made that.
            new = [message_from_json(each) for each in full(log, event.body["new"])]
            sent = [*sent[: event.body["history"]["count"] - len(new)], *new]
            said = sent if is_turn(event.step_id) else said
        elif event.kind == "model.end" and event.status == "succeeded" and is_turn(event.step_id):
            last = stored
        elif event.kind == "plan.made":
            plans += 1
    if last is None:
        return []
    answer = LlmMessage("assistant", answer_of(log, last).content)
    return [*(_without_plans(said, plans) if plans else said), answer]


def _without_plans(said: Sequence[LlmMessage], plans: int) -> list[LlmMessage]:
    """Return the prompt and the report of the steps as what the user said, after the rest.

    Between them stand the plans, and before each but the first that the one before it failed.
    """
    first = len(said) - 1 - 2 * plans
    return [*said[:first], LlmMessage("user", (*said[first].content, *said[-1].content))]


def _without_turns(log: EventLog, run_id: str) -> list[LlmMessage]:
    start, end = start_of(log, run_id), end_of(log, run_id)
    output = None if end is None else full(log, end.event.body["output"])
    if output is None:
        return []
    text = output if isinstance(output, str) else canonical_text(output)
    asked = LlmMessage.text("user", start["task"]["prompt"] or "")
    return [asked, LlmMessage.text("assistant", text)]


def message_from_json(value: Mapping[str, Any]) -> LlmMessage:
    """Return the message that `message_to_json` wrote."""
    return LlmMessage(value["role"], tuple(block_from_json(each) for each in value["content"]))
