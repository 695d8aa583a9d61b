"""One fact of the log, before it is appended and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypedDict

from clawhive_core.model.late import per_call


@per_call
class Event:
    """One fact to append: its kind, whose it is, and a JSON body.

    `body` may hold `Blob` values: large bodies that the log stores once, by content.
    """

    kind: str
    """A dotted past or phase, such as `run.start`."""
    body: Mapping[str, Any]
    trace_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    step_id: str | None = None
    invocation_id: str | None = None
    conversation_id: str | None = None
    principal: str | None = None
    tool: str | None = None
    provider_id: str | None = None
    status: str | None = None
    version: int = 1
    """The version of this kind's body."""
    prechecked: bool = field(default=False, compare=False, repr=False)
    """Whether its maker knows that the columns are text or nothing, and that the body holds text,
    booleans, null, small whole numbers and blobs only, under texts that are no blob's."""


class EventColumns(TypedDict, total=False):
    """The columns of an event by their names, for what makes events of others' calls."""

    trace_id: str | None
    run_id: str | None
    task_id: str | None
    step_id: str | None
    invocation_id: str | None
    conversation_id: str | None
    principal: str | None
    tool: str | None
    provider_id: str | None
    status: str | None


@per_call
class StoredEvent:
    """One row of the log, as stored."""

    seq: int
    ts: str
    """RFC 3339 with microseconds, UTC."""
    event: Event
    prev: str
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON, its columns by their names."""
        event = self.event
        return {
            "seq": self.seq,
            "ts": self.ts,
            "kind": event.kind,
            "version": event.version,
            "trace_id": event.trace_id,
            "run_id": event.run_id,
            "task_id": event.task_id,
            "step_id": event.step_id,
            "invocation_id": event.invocation_id,
            "conversation_id": event.conversation_id,
            "principal": event.principal,
            "tool": event.tool,
            "provider_id": event.provider_id,
            "status": event.status,
            "body": event.body,
            "prev": self.prev,
            "hash": self.hash,
        }


RESERVED = frozenset({"$blob", "$value"})
"""Keys of an object that stands for a blob in a stored body."""


@per_call
class Blob:
    """A value kept by content outside its row: the row holds digest, size and a preview."""

    value: Any
    """A JSON value; `str` and `bytes` are kept as they are."""
    preview: str = field(default="")
    encoded: bytes | None = field(default=None, compare=False, repr=False)
    """The canonical encoding of a JSON value, where the maker has it already."""
