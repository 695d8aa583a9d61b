"""Spans as OTLP/JSON: the file format of OpenTelemetry's collectors, one object a line.

Source: the OTLP specification (JSON Protobuf encoding) and its file exporter: each line is one
`TracesData` object; identifiers are hexadecimal, 64-bit numbers are texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawhive_core.audit.spans import Attribute, Span
from clawhive_core.model.version import VERSION

_KINDS = {"internal": 1, "client": 3}
_ERROR = 2


def traces(spans: Sequence[Span]) -> dict[str, Any]:
    """Return spans as one `TracesData` object."""
    resource = {"service.name": "clawhive", "service.version": VERSION}
    scope = {"name": "clawhive", "version": VERSION}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": [_span(span) for span in spans]}],
            }
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    parent = {} if span.parent_id is None else {"parentSpanId": span.parent_id}
    error = {} if span.error is None else {"code": _ERROR, "message": span.error}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **parent,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
        "status": error,
    }


def _attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
