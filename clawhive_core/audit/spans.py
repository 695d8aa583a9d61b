"""Events folded into spans: what a tracing system shows of a run, its model requests and calls.

Names follow OpenTelemetry's conventions for generative AI; what they have no name for begins with
`clawhive.`. Texts of prompts, arguments and results are left out unless they are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.version import VERSION

Attribute = str | bool | int | float | tuple[str, ...]
Load = Callable[[Any], Any]
"""Returns the value behind a body's reference."""

_OTLP_KINDS = {"internal": 1, "client": 3}
_OTLP_ERROR = 2
_FAILED = frozenset({"failed", "refused", "cancelled", "abandoned", "unknown"})


@dataclass(frozen=True, slots=True)
class Span:
    """One span, as every tracing system has it."""

    trace_id: str
    """32 hexadecimal digits, derived from the trace's id: the same at every export."""
    span_id: str
    """16 hexadecimal digits, derived from the id of what the span is about."""
    parent_id: str | None
    name: str
    kind: Literal["internal", "client"]
    start: int
    """Nanoseconds since 1970, UTC."""
    end: int
    attributes: Mapping[str, Attribute]
    error: str | None = None
    """The error, None where there was none."""


@dataclass(slots=True)
class _Open:
    """A span whose end has not been seen."""

    stored: StoredEvent
    """The event that it begins with."""
    span_id: str
    parent_id: str | None
    name: str
    kind: Literal["internal", "client"] = "internal"
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


class SpanFold:
    """Takes events in the log's order and gives each span when its end is seen.

    It holds what is open and nothing else.

    Args:
        load: What resolves bodies (`Ledger.load`): arguments and results of tools become
            attributes then. They hold what tools were given and gave; leave it out for a
            destination that must not see that.
    """

    def __init__(self, load: Load | None = None) -> None:
        self._load = load
        self._runs: dict[str, _Open] = {}
        self._calls: dict[str, _Open] = {}
        self._requests: dict[tuple[str | None, str | None], list[_Open]] = {}
        self._approvals: dict[str, str] = {}
        self._handlers: Mapping[str, Callable[[StoredEvent], Iterable[Span]]] = {
            "run.end": self._run_end,
            "run.status": self._run_status,
            "approval.requested": self._asked,
            "approval.resolved": self._answered,
            "invocation.start": self._started,
            "invocation.refused": self._refused,
            "invocation.end": self._ended,
            "model.start": self._requested,
            "model.end": self._replied,
            "embedding.start": self._requested,
            "embedding.end": self._replied,
        }

    def take(self, stored: StoredEvent) -> list[Span]:
        """Take the next event; return the spans that end with it."""
        run_id, kind = stored.event.run_id, stored.event.kind
        if run_id is None or (kind != "run.start" and kind not in self._handlers):
            return []
        if run_id not in self._runs:
            self._runs[run_id] = _run(stored)
        return [] if kind == "run.start" else list(self._handlers[kind](stored))

    def finish(self) -> list[Span]:
        """Return what never ended, as far as it came, and forget it."""
        left = [
            *self._calls.values(),
            *(each for open_ in self._requests.values() for each in open_),
        ]
        spans = [_closed(each, each.stored, "unfinished") for each in (*left, *self._runs.values())]
        for held in (self._runs, self._calls, self._requests, self._approvals):
            held.clear()
        return spans

    def _run_end(self, stored: StoredEvent) -> Iterator[Span]:
        run = self._runs.pop(str(stored.event.run_id))
        yield from self._broken_off(stored, "unknown")
        parked = [key for key, each in self._calls.items() if _is_of(each, stored)]
        for key in parked:
            yield _closed(self._calls.pop(key), stored, "refused")
        self._approvals = {k: v for k, v in self._approvals.items() if v in self._calls}
        run.attributes.update(_usage(stored.event.body.get("usage")))
        yield _closed(run, stored, stored.event.status, *_problem(stored.event.body))

    def _run_status(self, stored: StoredEvent) -> Iterator[Span]:
        if stored.event.status == "interrupted":
            yield from self._broken_off(stored, "unknown")

    def _broken_off(self, stored: StoredEvent, status: str) -> Iterator[Span]:
        """End what a run had begun when its process was gone; calls that wait for a person stay."""
        for key, each in list(self._calls.items()):
            if _is_of(each, stored) and each.attributes["clawhive.status"] != "parked":
                yield _closed(self._calls.pop(key), stored, status)
        for key in [key for key in self._requests if key[0] == stored.event.run_id]:
            for each in self._requests.pop(key):
                yield _closed(each, stored, status)

    def _asked(self, stored: StoredEvent) -> tuple[Span, ...]:
        call = self._begun(stored)
        approval_id = str(stored.event.body["approval_id"])
        self._approvals[approval_id] = str(stored.event.invocation_id)
        call.attributes["clawhive.approval.id"] = approval_id
        call.attributes["clawhive.approval.requested_at"] = stored.ts
        return ()

    def _answered(self, stored: StoredEvent) -> tuple[Span, ...]:
        call = self._calls.get(self._approvals.get(str(stored.event.body["approval_id"]), ""))
        if call is not None and stored.event.status != "consumed":
            call.attributes["clawhive.approval.result"] = str(stored.event.status)
            call.attributes["clawhive.approval.by"] = str(stored.event.body["by"])
            call.attributes["clawhive.approval.resolved_at"] = stored.ts
        return ()

    def _started(self, stored: StoredEvent) -> tuple[Span, ...]:
        self._begun(stored)
        return ()

    def _begun(self, stored: StoredEvent) -> _Open:
        """Open a call's span; one that waited for a person begins when it is made."""
        key = str(stored.event.invocation_id)
        call = _call(stored, self._runs[str(stored.event.run_id)])
        waited = self._calls.get(key)
        if waited is not None:
            approval = {k: v for k, v in waited.attributes.items() if "approval" in k}
            call.attributes = {**approval, **call.attributes}
        if self._load is not None:
            given = self._load(stored.event.body["tool_call"]["input"])
            call.attributes["gen_ai.tool.call.arguments"] = canonical_text(given)
        self._calls[key] = call
        return call

    def _refused(self, stored: StoredEvent) -> Iterator[Span]:
        call = self._begun(stored)
        del self._calls[str(stored.event.invocation_id)]
        refusal = stored.event.body["refusal"]
        yield _closed(call, stored, "refused", refusal["error"], refusal["message"])

    def _ended(self, stored: StoredEvent) -> Iterator[Span]:
        call = self._calls.pop(str(stored.event.invocation_id), None)
        if call is None:
            return
        body = stored.event.body
        if self._load is not None:
            result = canonical_text(self._load(body["output"]))
            call.attributes["gen_ai.tool.call.result"] = result
        yield _closed(call, stored, stored.event.status, *_problem(body))

    def _requested(self, stored: StoredEvent) -> tuple[Span, ...]:
        parent = self._caller(stored)
        key = (stored.event.run_id, stored.event.step_id)
        self._requests.setdefault(key, []).append(
            _request(stored, parent, self._runs[str(stored.event.run_id)])
        )
        return ()

    def _caller(self, stored: StoredEvent) -> str:
        """Return whose request it is: a tool's that is running in this step, else the run's."""
        for each in self._calls.values():
            if _is_of(each, stored) and each.stored.event.step_id == stored.event.step_id:
                return each.span_id
        return _span_id("run", stored.event.run_id)

    def _replied(self, stored: StoredEvent) -> Iterator[Span]:
        key = (stored.event.run_id, stored.event.step_id)
        waiting = self._requests.get(key)
        if not waiting:
            return
        request = waiting.pop(0)
        if not waiting:
            del self._requests[key]
        body = stored.event.body
        request.attributes.update(_usage(body.get("usage")))
        if body.get("stop_reason"):
            request.attributes["gen_ai.response.finish_reasons"] = (str(body["stop_reason"]),)
        yield _closed(request, stored, stored.event.status, *_problem(body))


def trace_id(trace: str | None) -> str:
    """Return a trace's id as tracing systems write it."""
    return hashlib.sha256(f"trace:{trace}".encode()).hexdigest()[:32]


def _span_id(kind: str, name: str | int | None) -> str:
    return hashlib.sha256(f"{kind}:{name}".encode()).hexdigest()[:16]


def nanoseconds(ts: str) -> int:
    """Return a moment of the log in nanoseconds since 1970."""
    seconds = int(datetime.fromisoformat(f"{ts[:19]}Z").timestamp())
    return seconds * 1_000_000_000 + int(ts[20:26]) * 1_000


def _is_of(open_: _Open, stored: StoredEvent) -> bool:
    return open_.stored.event.run_id == stored.event.run_id


def _run(stored: StoredEvent) -> _Open:
    """Return a run's span: from its start, or from where it was first seen."""
    event, body = stored.event, stored.event.body
    began = event.kind == "run.start"
    principal = str(event.principal)
    name = principal.partition(":")[2] or principal
    parent = body.get("parent_run_id")
    facts = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": principal,
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": event.conversation_id,
        "gen_ai.request.model": _model(str(body["model"]))[1] if began and body["model"] else None,
        "clawhive.run.id": event.run_id,
        "clawhive.task.id": event.task_id,
        "clawhive.task.type": body["task"]["task_type"] if began else None,
        "clawhive.trace.id": event.trace_id,
        "clawhive.parent_run.id": parent,
    }
    return _Open(
        stored,
        _span_id("run", event.run_id),
        None if parent is None else _span_id("run", parent),
        f"invoke_agent {name}",
        attributes=_known(facts),
    )


def _call(stored: StoredEvent, run: _Open) -> _Open:
    event, body = stored.event, stored.event.body
    parent = body["parent_invocation_id"]
    granted = [each["capability"] for each in body["granted_capabilities"]]
    facts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": body["tool_call"]["id"],
        "gen_ai.conversation.id": event.conversation_id,
        "clawhive.provider.id": event.provider_id,
        "clawhive.principal": event.principal,
        "clawhive.run.id": event.run_id,
        "clawhive.step.id": event.step_id,
        "clawhive.invocation.id": event.invocation_id,
        "clawhive.capability_level": body["capability_level"],
        "clawhive.risk": body["risk"],
        "clawhive.policy.decision": body["decision"],
        "clawhive.policy.rules": tuple(map(str, body["rules"])),
        "clawhive.policy.requested_capabilities": tuple(map(str, body["requested_capabilities"])),
        "clawhive.policy.granted_capabilities": tuple(map(str, granted)),
        "clawhive.approval.required": body["approval_required"],
        "clawhive.approval.result": body["approval_result"],
        "clawhive.status": event.status,
        **_of_run(run),
    }
    return _Open(
        stored,
        _span_id("invocation", event.invocation_id),
        _span_id("run", event.run_id) if parent is None else _span_id("invocation", parent),
        f"execute_tool {event.tool}",
        attributes=_known(facts),
    )


def _request(stored: StoredEvent, parent: str, run: _Open) -> _Open:
    event, body = stored.event, stored.event.body
    provider, model = _model(str(body["model"]))
    operation = "embeddings" if event.kind == "embedding.start" else "chat"
    facts = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": body.get("max_tokens"),
        "gen_ai.conversation.id": event.conversation_id,
        "clawhive.run.id": event.run_id,
        "clawhive.step.id": event.step_id,
        **_of_run(run),
    }
    span_id = _span_id("model", stored.seq)
    return _Open(stored, span_id, parent, f"{operation} {model}", "client", _known(facts))


def _model(text: str) -> tuple[str, str]:
    provider, _, model = text.partition(":")
    return provider, model or provider


def _problem(body: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the code and message of what went wrong."""
    error: Mapping[str, Any] = body.get("error") or {}
    return error.get("code"), error.get("message")


def _usage(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    given = usage or {}
    facts = {
        "gen_ai.usage.input_tokens": given.get("input_tokens"),
        "gen_ai.usage.output_tokens": given.get("output_tokens"),
        "clawhive.usage.cost": given.get("cost"),
    }
    return _known(facts)


def _known(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _of_run(run: _Open) -> dict[str, Any]:
    """Return what each span within a run tells of where the run belongs."""
    names = ("clawhive.trace.id", "clawhive.parent_run.id")
    return {name: run.attributes[name] for name in names if name in run.attributes}


def _closed(
    open_: _Open,
    stored: StoredEvent,
    status: str | None,
    code: str | None = None,
    message: str | None = None,
) -> Span:
    """Return a span that ends with an event."""
    failed = status in _FAILED
    attributes = {**open_.attributes, "clawhive.status": str(status)}
    attributes["clawhive.event.seq"] = stored.seq
    attributes["clawhive.event.hash"] = stored.hash
    if failed:
        attributes["error.type"] = code or str(status)
    return Span(
        trace_id(open_.stored.event.trace_id),
        open_.span_id,
        open_.parent_id,
        open_.name,
        open_.kind,
        nanoseconds(open_.stored.ts),
        nanoseconds(stored.ts),
        attributes,
        (message or str(status)) if failed else None,
    )


def traces(spans: Sequence[Span]) -> dict[str, Any]:
    """Return spans as one `TracesData` object of OTLP/JSON, the file format of collectors.

    Source: the OTLP specification (JSON Protobuf encoding) and its file exporter: each line is one
    such object; identifiers are hexadecimal, 64-bit numbers are texts.
    """
    resource = {"service.name": "clawhive", "service.version": VERSION}
    scope = {"name": "clawhive", "version": VERSION}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _otlp_attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": [_otlp_span(span) for span in spans]}],
            }
        ]
    }


def _otlp_span(span: Span) -> dict[str, Any]:
    parent = {} if span.parent_id is None else {"parentSpanId": span.parent_id}
    error = {} if span.error is None else {"code": _OTLP_ERROR, "message": span.error}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **parent,
        "name": span.name,
        "kind": _OTLP_KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _otlp_attributes(span.attributes),
        "status": error,
    }


def _otlp_attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _otlp_value(value)} for name, value in attributes.items()]


def _otlp_value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
