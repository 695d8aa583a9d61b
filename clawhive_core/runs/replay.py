"""Exact replay: today's planner, loop and orchestrator on a run's recorded answers."""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from clawhive_core.errors import ModelError, NeedHumanApproval, NotReplayable
from clawhive_core.events.log import EventLog
from clawhive_core.events.redaction import Redactor
from clawhive_core.events.references import pruned_bodies
from clawhive_core.execution.door import Outcome
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.events import Blob, Event, StoredEvent
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage, block_from_json
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolCall, ToolResult
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.runs.models import Models

COMPARED = frozenset({"plan.made", "step.end", "model.start", "model.end", "run.end"})
"""The events that a replay must repeat exactly; a call's rows are compared where it is answered."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay and its record part."""

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
        super().__init__("the replay and its record part")
        self.difference = difference


@dataclass(slots=True)
class Record:
    """A recorded run, its events waiting to be repeated, by step and kind."""

    log: EventLog
    run_id: str
    start: StoredEvent
    waiting: dict[tuple[str | None, str], deque[StoredEvent]]
    finished: bool
    calls: frozenset[str | None] = frozenset()
    """The steps that are tool calls: what a model was asked there, a tool asked it."""
    asked: frozenset[str | None] = frozenset()
    """The steps whose call waited for a person."""
    compared: int = 0

    @classmethod
    def load(cls, log: EventLog, run_id: str) -> Record:
        """Read a run's events.

        Raises:
            NotReplayable: The log has no start of this run, or bodies of it were pruned.
        """
        waiting: dict[tuple[str | None, str], deque[StoredEvent]] = defaultdict(deque)
        start: StoredEvent | None = None
        finished = False
        asked: set[str | None] = set()
        for stored in log.events(run_id=run_id):
            kind = stored.event.kind
            if kind == "run.start":
                start = stored
            elif kind == "approval.requested":
                asked.add(stored.event.step_id)
            elif kind == "run.end" and stored.event.status == "cancelled":
                continue  # it was broken off, so its record ends in the middle
            elif kind in COMPARED or kind.startswith("invocation."):
                waiting[stored.event.step_id, kind].append(stored)
                finished = finished or kind == "run.end"
        if start is None:
            raise NotReplayable(f"the log holds no start of run {run_id}", place=run_id)
        if pruned := pruned_bodies(log, run_id):
            what = f"{pruned} bodies of run {run_id} were pruned; only their digests are left"
            fix = "nothing brings them back; `clawhive runs show RUN` shows the rest"
            raise NotReplayable(what, place=run_id, fix=fix)
        calls = frozenset(step for step, kind in waiting if kind.startswith("invocation."))
        return cls(log, run_id, start, waiting, finished, calls, frozenset(asked))

    def take(self, step_id: str | None, kind: str) -> StoredEvent | None:
        """Return the next recorded event of a step and kind."""
        queue = self.waiting.get((step_id, kind))
        return queue.popleft() if queue else None

    def take_call(self, step_id: str | None) -> tuple[StoredEvent | None, int]:
        """Return the last recorded start or refusal of a step's call, and how many there were."""
        last, attempts = None, 0
        while event := self.take(step_id, "invocation.start"):
            last, attempts = event, attempts + 1
        # An attempt after an unfinished one may have been refused.
        return self.take(step_id, "invocation.refused") or last, attempts

    def full(self, body: Any) -> Any:
        """Return a body with its blobs resolved, stored or not yet."""
        if isinstance(body, Blob):
            return self.full(body.value)
        if isinstance(body, Mapping):
            facts = cast("Mapping[str, Any]", body)
            if facts.keys() & {"$blob", "$value"}:
                return self.log.load(facts)
            return {key: self.full(value) for key, value in facts.items()}
        if isinstance(body, list | tuple):
            return [self.full(item) for item in cast("list[Any]", body)]
        return body

    def left_over(self) -> Difference | None:
        """Return the first recorded event that was not repeated; nested calls are not."""
        rest = [
            stored
            for (step, kind), queue in self.waiting.items()
            for stored in queue
            if kind != "invocation.end" and not self._by_a_tool(step, kind, stored)
        ]
        if not rest:
            return None
        first = min(rest, key=lambda stored: stored.seq)
        event = first.event
        return Difference(
            first.seq, event.kind, event.step_id, _short(self.full(event.body)), "nothing"
        )

    def used_by_tools(self) -> Usage:
        """Return what the model calls of tools used: they count for the run, and do not repeat."""
        used = Usage()
        for (step, kind), queue in self.waiting.items():
            if kind == "model.end" and step in self.calls:
                for stored in queue:
                    usage: dict[str, Any] = stored.event.body["usage"] or {}
                    used += Usage(**usage)
        return used

    def _by_a_tool(self, step: str | None, kind: str, stored: StoredEvent) -> bool:
        asked = kind.startswith("model.") and step in self.calls
        return asked or stored.event.body.get("parent_invocation_id") is not None


class RecordedJournal:
    """Takes a replay's events and holds each against the record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self.redactor = Redactor()  # idle: what is recorded holds no secrets

    async def append(
        self,
        *events: Event,
        sync: bool = False,
        within: Callable[[sqlite3.Connection], None] | None = None,
    ) -> list[int]:
        """Compare events; nothing is written."""
        del sync, within
        self.post(*events)
        return []

    def post(self, *events: Event) -> None:
        """Compare events.

        Raises:
            Diverged: An event differs from the recorded one.
        """
        for event in events:
            if event.kind in COMPARED:
                self._compare(event)

    def _compare(self, event: Event) -> None:
        stored = self._record.take(event.step_id, event.kind)
        now = [event.status, self._record.full(event.body)]
        if stored is None:
            if not self._record.finished:
                raise Diverged(None)
            raise Diverged(Difference(None, event.kind, event.step_id, "nothing", _short(now)))
        recorded = [stored.event.status, self._record.full(stored.event.body)]
        if canonical_text(recorded) != canonical_text(now):
            raise Diverged(_difference(stored, recorded, now))
        self._record.compared += 1


class RecordedDoor:
    """Answers calls from the record instead of executing them."""

    def __init__(self, record: Record) -> None:
        self._record = record

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Return what the recorded call of this step came to.

        Raises:
            Diverged: The record has another call here, or ends here.
        """
        record = self._record
        stored, _ = record.take_call(scope.step_id)
        if stored is None:
            if not record.finished and scope.step_id in record.asked:
                raise NeedHumanApproval("it waits for a person", place=scope.step_id)
            if not record.finished:
                raise Diverged(None)
            asked = f"{call.name} {_short(call.input)}"
            raise Diverged(Difference(None, "invocation", scope.step_id, "no call", asked))
        outcome = recorded_outcome(record, stored, call, scope)
        if outcome is None:
            raise Diverged(None)
        return outcome


def recorded_outcome(
    record: Record, stored: StoredEvent, call: ToolCall, scope: CallScope
) -> Outcome | None:
    """Return what a recorded call came to, None where it has no end.

    Raises:
        Diverged: The recorded call is another one.
    """
    _compare_call(record, stored, call, scope)
    if stored.event.kind == "invocation.refused":
        return _refusal(stored.event.body["refusal"])
    end = record.take(scope.step_id, "invocation.end")
    if end is None:
        return None
    record.compared += 1
    output = record.full(end.event.body["output"])
    artifacts = tuple(Artifact(**each) for each in end.event.body["artifacts"])
    return ToolResult(
        call.id, output["output"], output["is_error"], output["structured"], artifacts
    )


def _compare_call(record: Record, stored: StoredEvent, call: ToolCall, scope: CallScope) -> None:
    body = stored.event.body
    asked = body["tool_call"]
    recorded = {
        "id": asked["id"],
        "tool": asked["name"],
        "label": body["step"]["label"],
        "ordinal": body["step"]["ordinal"],
        "input": record.full(asked["input"]),
    }
    now = {
        "id": call.id,
        "tool": call.name,
        "label": scope.label,
        "ordinal": scope.ordinal,
        "input": call.input,
    }
    if canonical_text(recorded) != canonical_text(now):
        raise Diverged(_difference(stored, recorded, now))
    record.compared += 1


class RecordedModels(Models):
    """Answers model requests from the record; the requests themselves are compared."""

    def __init__(self, record: Record) -> None:
        super().__init__(dict, RecordedJournal(record))
        self._record = record

    def adapter(self, model: str) -> tuple[LlmAdapter, str]:
        """Return no adapter: none is asked."""
        return cast("LlmAdapter", None), model

    def used(self, run_id: str) -> Usage:
        """Return what was used, by what was repeated and by the tools that were not."""
        return super().used(run_id) + self._record.used_by_tools()

    def _allow(self, adapter: LlmAdapter, scope: CallScope) -> None:
        """Rights were decided when the run was recorded."""

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope
    ) -> LlmResponse:
        del adapter, request
        return recorded_answer(self._record, scope)


def recorded_answer(record: Record, scope: CallScope) -> LlmResponse:
    """Return a model's recorded answer.

    Raises:
        ModelError: It is recorded that the model failed.
        Diverged: The record ends before the answer.
    """
    queue = record.waiting.get((scope.step_id, "model.end"))
    if not queue:
        raise Diverged(None)
    body = queue[0].event.body
    if body["error"] is not None:
        raise ModelError(body["error"]["message"], code=body["error"]["code"])
    blocks = record.full(body["response"])
    return LlmResponse(
        tuple(block_from_json(block) for block in blocks),
        body["stop_reason"],
        Usage(**body["usage"]),
    )


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found."""

    run_id: str
    mode: str
    compared: int
    """How many recorded events were repeated."""
    difference: Difference | None
    complete: bool
    """False where the record ends in the middle, as an interrupted run's does."""

    @property
    def ok(self) -> bool:
        """Whether no difference was found."""
        return self.difference is None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON (schema `replay/1`)."""
        return {
            "schema": "replay/1",
            "run_id": self.run_id,
            "mode": self.mode,
            "ok": self.ok,
            "compared": self.compared,
            "complete": self.complete,
            "difference": None if self.difference is None else self.difference.to_dict(),
        }


def _difference(stored: StoredEvent, recorded: Any, now: Any) -> Difference:
    before, after = _part(recorded, now)
    return Difference(stored.seq, stored.event.kind, stored.event.step_id, before, after)


def _part(recorded: Any, now: Any) -> tuple[str, str]:
    """Return the smallest parts that differ, with the path to them."""
    path = ""
    while True:
        key = _differing_key(recorded, now)
        if key is None:
            return f"{path} {_short(recorded)}".strip(), _short(now)
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


def _short(value: Any) -> str:
    return preview(value if isinstance(value, str) else canonical_text(value), 160)


def _refusal(value: Mapping[str, Any]) -> Refusal:
    known = {"error", "message", "reason", "next"}
    extra = {key: item for key, item in value.items() if key not in known}
    return Refusal(value["error"], value["message"], value["next"], extra)
