"""A recorded run, read back from the log, and the places where a repetition differs from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.errors import NotReplayable
from clawhive_core.execution.pending import as_recorded
from clawhive_core.execution.recorded import (
    CALL_KINDS,
    RecordedCall,
    asked_call,
    embeddings_of,
    resolve_blobs,
    response_of,
)
from clawhive_core.execution.scope import CallScope, is_nested
from clawhive_core.model.approvals import changed
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmResponse, Usage
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.policy.grounding import Grounds, SkillGrounds
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.record.journal import ENDED

COMPARED = frozenset(
    {
        "plan.made",
        "step.end",
        "model.start",
        "model.end",
        "embedding.start",
        "embedding.end",
        "tools.enabled",
        "tools.changed",
        "run.end",
    }
)
"""The events that a replay must repeat exactly; a call's rows are compared where it is answered."""


ANSWERS = frozenset({"model.end", "embedding.end"})
"""The events that end a request to a provider, and say what it used."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay differs from its record."""

    seq: int | None
    """The recorded event's number; None where the record has no such event."""
    kind: str
    step_id: str | None
    recorded: str
    repeated: str

    @property
    def message(self) -> str:
        """The difference as a sentence."""
        where = "no event" if self.seq is None else f"event {self.seq}"
        step = "" if self.step_id is None else f" of step {self.step_id}"
        return f"{where} ({self.kind}{step}) differs: recorded {self.recorded}, now {self.repeated}"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        return {
            "seq": self.seq,
            "kind": self.kind,
            "step_id": self.step_id,
            "recorded": self.recorded,
            "repeated": self.repeated,
            "message": self.message,
        }


class Diverged(BaseException):
    """The replay stops here: a difference, or the end of an unfinished record."""

    def __init__(self, difference: Difference | None) -> None:
        super().__init__("the replay differs from its record")
        self.difference = difference


@dataclass(slots=True)
class RecordedRun:
    """A recorded run, its events that wait to be repeated, by step and kind."""

    log: Ledger
    run_id: str
    start: StoredEvent
    pending: dict[tuple[str | None, str], deque[StoredEvent]]
    calls: dict[str | None, RecordedCall]
    """The calls of the planner or loop by step; a tool's own calls are repeated by the tool."""
    finished: bool
    asked_steps: frozenset[str | None] = frozenset()
    """The steps whose call waited for a person, a tool's own calls too."""
    ended_steps: frozenset[str | None] = frozenset()
    """The steps whose own grants ended with them."""
    compared: int = 0

    @classmethod
    def load(cls, log: Ledger, run_id: str) -> RecordedRun:
        """Read a run's events.

        Raises:
            NotReplayable: The log has no start of this run, or bodies of it were pruned.
        """
        pending: dict[tuple[str | None, str], deque[StoredEvent]] = defaultdict(deque)
        calls: dict[str | None, RecordedCall] = {}
        start: StoredEvent | None = None
        finished = False
        asked_steps: set[str | None] = set()
        ended_steps: set[str | None] = set()
        for stored in log.events(run_id=run_id):
            kind, step = stored.event.kind, stored.event.step_id
            if kind == "approval.requested":
                asked_steps.add(step)
            if kind == "run.start":
                start = stored
            elif kind == "run.end" and stored.event.status == "cancelled":
                continue  # it was broken off, so its record ends in the middle
            elif kind == "grant.revoked" and stored.event.body.get("reason") == ENDED:
                ended_steps.add(step)
            elif kind in COMPARED:
                pending[step, kind].append(stored)
                finished = finished or kind == "run.end"
            elif kind in CALL_KINDS and not is_nested(step):
                calls.setdefault(step, RecordedCall(stored)).take(stored)
        if start is None:
            raise NotReplayable(f"the log holds no start of run {run_id}", place=run_id)
        if pruned := log.pruned_bodies(run_id):
            what = f"{pruned} of run {run_id}'s bodies were pruned; only their digests are left"
            fix = "nothing brings them back; `clawhive runs show RUN` shows the rest"
            raise NotReplayable(what, place=run_id, fix=fix)
        return cls(
            log,
            run_id,
            start,
            pending,
            calls,
            finished,
            frozenset(asked_steps),
            frozenset(ended_steps),
        )

    def take(self, step_id: str | None, kind: str) -> StoredEvent | None:
        """Return the next recorded event of a step and kind."""
        queue = self.pending.get((step_id, kind))
        return queue.popleft() if queue else None

    def take_call(self, call: ToolCall, scope: CallScope) -> RecordedCall | None:
        """Return the recorded call of a step, None where it has none.

        Raises:
            Diverged: The recorded call is another one.
        """
        recorded = self.calls.pop(scope.step_id, None)
        if recorded is not None:
            _compare_call(self, recorded.first, call, scope)
        return recorded

    def resolve_blobs(self, body: Any) -> Any:
        """Return a body with its blobs resolved, stored or not yet."""
        return resolve_blobs(self.log, body)

    def first_unrepeated(self) -> Difference | None:
        """Return the first recorded event that was not repeated; what tools asked for is not."""
        rest = [
            stored
            for (step, _), queue in self.pending.items()
            for stored in queue
            if not is_nested(step)
        ]
        rest += [call.asked for call in self.calls.values()]
        if not rest:
            return None
        first = min(rest, key=lambda stored: stored.seq)
        event = first.event
        return Difference(
            first.seq,
            event.kind,
            event.step_id,
            short_text(self.resolve_blobs(event.body)),
            "nothing",
        )

    def used_by_tools(self) -> Usage:
        """Return what the model calls of tools used: they count for the run, and do not repeat."""
        used = Usage()
        for (step, kind), queue in self.pending.items():
            if kind in ANSWERS and is_nested(step):
                for stored in queue:
                    used += Usage.from_dict(stored.event.body["usage"])
        return used


def _compare_call(
    record: RecordedRun, stored: StoredEvent, call: ToolCall, scope: CallScope
) -> None:
    body, asked = stored.event.body, asked_call(record.log, stored)
    recorded = {
        "id": asked.id,
        "tool": asked.name,
        "label": body["step"]["label"],
        "ordinal": body["step"]["ordinal"],
        "input": asked.input,
    }
    now = {
        "id": call.id,
        "tool": call.name,
        "label": scope.label,
        "ordinal": scope.ordinal,
        "input": as_recorded(call),
    }
    if canonical_text(recorded) != canonical_text(now):
        raise Diverged(difference_of(stored, recorded, now))
    record.compared += 1


def difference_of(stored: StoredEvent, recorded: Any, now: Any) -> Difference:
    """Return the difference between what is recorded of an event and what came now."""
    before, after = _part(recorded, now)
    return Difference(stored.seq, stored.event.kind, stored.event.step_id, before, after)


def _part(recorded: Any, now: Any) -> tuple[str, str]:
    """Return the smallest parts that differ, with the path to them."""
    path = ""
    while True:
        key = _differing_key(recorded, now)
        if key is None:
            return f"{path} {short_text(recorded)}".strip(), short_text(now)
        path = f"{path}.{key}".lstrip(".")
        recorded, now = recorded[key], now[key]


def _differing_key(recorded: Any, now: Any) -> Any:
    if isinstance(recorded, dict) and isinstance(now, dict):
        one, other = cast("dict[str, Any]", recorded), cast("dict[str, Any]", now)
        if one.keys() != other.keys():
            return None
        return next((k for k in sorted(one) if not _equal(one[k], other[k])), None)
    if isinstance(recorded, list | tuple) and isinstance(now, list | tuple):
        first, second = cast("list[Any]", recorded), cast("list[Any]", now)
        if len(first) != len(second):
            return None
        return next((i for i in range(len(first)) if not _equal(first[i], second[i])), None)
    return None


def _equal(one: Any, other: Any) -> bool:
    return canonical_text(one) == canonical_text(other)


def short_text(value: Any) -> str:
    """Return a value on one line, cut."""
    return preview(value if isinstance(value, str) else canonical_text(value), 160)


def recorded_embedder(record: RecordedRun, scope: CallScope) -> str | None:
    """Return the model that a step of a record asked for vectors, None where it asked none."""
    queue = record.pending.get((scope.step_id, "embedding.start"))
    return queue[0].event.body["model"] if queue else None


def recorded_embeddings(record: RecordedRun, scope: CallScope) -> Embeddings:
    """Return an embedder's recorded answer.

    Raises:
        ModelError: It is recorded that the embedder failed.
        Diverged: The record ends before the answer.
    """
    return embeddings_of(record.log, _next_of(record, scope, "embedding.end"))


def recorded_answer(record: RecordedRun, scope: CallScope) -> LlmResponse:
    """Return a model's recorded answer.

    Raises:
        ModelError: It is recorded that the model failed.
        Diverged: The record ends before the answer.
    """
    return response_of(record.log, _next_of(record, scope, "model.end"))


def _next_of(record: RecordedRun, scope: CallScope, kind: str) -> StoredEvent:
    """Return the next recorded event of a kind in a step.

    Raises:
        Diverged: The record ends before it.
    """
    queue = record.pending.get((scope.step_id, kind))
    if not queue:
        raise Diverged(None)
    return queue[0]


def add_recorded_calls(grounds: Grounds, record: RecordedRun, catalog: Catalog) -> None:
    """Add what the calls of a recorded run came to, its tools' own calls too.

    A call counts as what its tool is today only where the tool's contract is the recorded one;
    else its output is nobody's record.
    """
    calls: dict[str | None, RecordedCall] = {}
    for stored in record.log.events(run_id=record.run_id):
        if stored.event.kind in CALL_KINDS:
            step = stored.event.step_id
            call = calls.pop(step, None) or RecordedCall(stored)
            call.take(stored)
            calls[step] = call  # last where it ended last: what it returned was known since then
    for call in calls.values():
        add_recorded_call(grounds, call, record, catalog)


def add_recorded_call(
    grounds: Grounds, call: RecordedCall, record: RecordedRun, catalog: Catalog
) -> None:
    """Add what one call of a recorded run came to."""
    asked = call.asked.event.body
    given = record.resolve_blobs(asked["tool_call"]["input"])
    if "asked_input" in asked:
        grounds.say(changed(record.resolve_blobs(asked["asked_input"]), given))
    tool = catalog.find(str(call.first.event.tool))
    outcome = call.outcome(record.log, "")
    if tool is None or not isinstance(outcome, ToolResult):
        return
    meta = tool.meta
    by = _contract_grounds(meta, asked.get("grounds"))
    if meta.contract_hash != asked["contract_hash"]:
        meta, by = replace(meta, records=(), output_trust="untrusted"), None
    grounds.learn(meta, given, outcome, by, str(call.first.event.step_id))


def _contract_grounds(meta: ToolMeta, row: Mapping[str, Any] | None) -> SkillGrounds | None:
    """Return what the skill's contract said of a call when it was made."""
    return None if row is None else SkillGrounds(row["skill"], {meta.name: tuple(row["places"])})


def recorded_calls(record: RecordedRun) -> list[RecordedCall]:
    """Return every call of a run in order, those that tools made too."""
    calls: dict[str | None, RecordedCall] = {}
    for stored in record.log.events(run_id=record.run_id):
        if stored.event.kind in CALL_KINDS:
            calls.setdefault(stored.event.step_id, RecordedCall(stored)).take(stored)
    return list(calls.values())
