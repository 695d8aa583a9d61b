"""The record of a call in the log, and the answer that it gives instead of a second execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from clawhive_core.errors import ModelError
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.model.approvals import edits
from clawhive_core.model.embeddings import Embeddings, unpacked
from clawhive_core.model.events import Blob, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmResponse, Usage, block_from_json
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, Enablement, ToolCall, ToolResult
from clawhive_core.protocols.ledger import Ledger

CALL_KINDS = frozenset(
    {"approval.requested", "invocation.start", "invocation.refused", "invocation.end"}
)
"""The events that say what became of a call."""

LOST_BODIES = frozenset({"pruned", "damaged_body"})
"""The codes of a body that the log does not have any more."""


@dataclass(slots=True)
class RecordedCall:
    """One call of the log: what was asked, how often it was begun, how the last attempt ended."""

    first: StoredEvent
    """The first event of the call."""
    asked: StoredEvent = field(init=False)
    """Its last start or refusal; before these, that a person was asked."""
    attempts: int = 0
    end: StoredEvent | None = None
    """The last attempt's end, None where it has none."""

    def __post_init__(self) -> None:
        self.asked = self.first

    @property
    def is_parked(self) -> bool:
        """Whether the last attempt stopped for a person who must answer a call of its own."""
        return self.end is not None and self.end.event.status == "parked"

    def take(self, stored: StoredEvent) -> None:
        """Take the next event of the call; `CALL_KINDS` are those that count."""
        kind = stored.event.kind
        if kind == "invocation.end":
            self.end = stored
        elif kind == "invocation.start":
            self.asked, self.end, self.attempts = stored, None, self.attempts + 1
        elif kind == "invocation.refused":
            self.asked, self.end = stored, None

    def outcome(self, log: Ledger, call_id: str) -> Outcome | None:
        """Return what the call came to; None where it never ended, or is parked.

        Raises:
            ClawHiveError: The log lost what it answered (`pruned`, `damaged_body`).
        """
        if self.asked.event.kind == "invocation.refused":
            return read_refusal(self.asked.event.body["refusal"])
        if self.end is None or self.is_parked:
            return None
        body = self.end.event.body
        output = resolve_blobs(log, body["output"])
        artifacts = tuple(Artifact.from_dict(each) for each in body["artifacts"])
        return ToolResult(
            call_id,
            output["output"],
            output["is_error"],
            output["structured"],
            artifacts,
            self._edited(log),
            self._enables(body, output),
        )

    def _enables(self, body: Mapping[str, Any], output: Mapping[str, Any]) -> Enablement | None:
        """Return what the call enabled; older logs say it of the skill that was opened only."""
        if (found := body.get("enables")) is not None:
            return Enablement(tuple(found["names"]), found["expires_at_turn"], found["skill"])
        structured = output["structured"]
        is_skill = self.asked.event.tool == "skill_open" and not output["is_error"]
        if not is_skill or not isinstance(structured, dict):
            return None
        page = cast("dict[str, Any]", structured)
        return Enablement((), skill=str(page["name"])) if page.get("path") is None else None

    def _edited(self, log: Ledger) -> str:
        """Return what a person changed of the call before it was made."""
        body = self.asked.event.body
        if "asked_input" not in body:
            return ""
        return edits(
            resolve_blobs(log, body["asked_input"]), resolve_blobs(log, body["tool_call"]["input"])
        )


def asked_call(log: Ledger, stored: StoredEvent) -> ToolCall:
    """Return the call of a start, refusal or question as it was asked for: before an edit."""
    body = stored.event.body
    asked = body["tool_call"]
    return ToolCall(
        asked["id"], asked["name"], resolve_blobs(log, body.get("asked_input", asked["input"]))
    )


def response_of(log: Ledger, end: StoredEvent) -> LlmResponse:
    """Return a model's answer from its `model.end`.

    Raises:
        ModelError: The model failed.
        ClawHiveError: The log lost what it answered.
    """
    body = _body_of(log, end)
    blocks = resolve_blobs(log, body["response"])
    return LlmResponse(
        tuple(block_from_json(block) for block in blocks),
        body["stop_reason"],
        Usage.from_dict(body["usage"]),
        body.get("answered_by"),
        body.get("response_id"),
        body.get("raw_stop_reason"),
    )


def embeddings_of(log: Ledger, end: StoredEvent) -> Embeddings:
    """Return an embedder's answer from its `embedding.end`.

    Raises:
        ModelError: The embedder failed.
        ClawHiveError: The log lost what it answered.
    """
    body = _body_of(log, end)
    vectors = unpacked(resolve_blobs(log, body["vectors"]), body["dimension"])
    return Embeddings(body["answered_by"], vectors, Usage.from_dict(body["usage"]))


def _body_of(log: Ledger, end: StoredEvent) -> Mapping[str, Any]:
    """Return what a model or an embedder answered.

    Raises:
        ModelError: It failed; `data["partial"]` is the text that came before.
    """
    body = end.event.body
    if body["error"] is not None:
        error = body["error"]
        data = {"partial": resolve_blobs(log, body["partial"])} if "partial" in body else None
        raise ModelError(error["message"], code=error["code"], fix=error.get("fix"), data=data)
    return body


def resolve_blobs(log: Ledger, body: Any) -> Any:
    """Return a body with its blobs resolved, stored or not yet.

    Raises:
        ClawHiveError: A stored body is lost.
    """
    if isinstance(body, Blob):
        return resolve_blobs(log, body.value)
    if isinstance(body, Mapping):
        facts = cast("Mapping[str, Any]", body)
        if facts.keys() & {"$blob", "$value"}:
            return log.load(facts)
        return {key: resolve_blobs(log, value) for key, value in facts.items()}
    if isinstance(body, list | tuple):
        return [resolve_blobs(log, item) for item in cast("list[Any]", body)]
    return body


def read_refusal(value: Mapping[str, Any]) -> Refusal:
    """Return a refusal from its JSON object."""
    known = {"error", "message", "reason", "next"}
    extra = {key: item for key, item in value.items() if key not in known}
    return Refusal(value["error"], value["message"], value["next"], extra)
