"""The sink: events folded into spans, and each batch sent when its spans end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from clawhive_core import ClawHiveError, Span, SpanFold, StoredEvent, __version__
from clawhive_otel.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan


class OtlpSink:
    """Sends spans to one collector."""

    name = "otel"

    def __init__(self, settings: Settings) -> None:
        self.required = settings.required
        self._settings = settings
        self._fold = SpanFold()
        self._lock = threading.Lock()
        self._exporter: OTLPSpanExporter | None = None

    async def write(self, events: Sequence[StoredEvent]) -> None:
        """Send the spans that end with these events.

        Raises:
            ClawHiveError: The collector did not take them within the time.
        """
        spans = [span for event in events for span in self._fold.take(event)]
        if spans:
            await anyio.to_thread.run_sync(self._send, spans)

    async def close(self) -> None:
        """Give the connection back."""
        if self._exporter is not None:
            await anyio.to_thread.run_sync(self._exporter.shutdown)

    def _send(self, spans: Sequence[Span]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        with self._lock:
            exporter = self._exporter = self._exporter or self._made()
            result = exporter.export([_readable(span) for span in spans])
        if result is not SpanExportResult.SUCCESS:
            raise ClawHiveError(
                f"the collector did not take {len(spans)} spans",
                place=self._settings.endpoint,
                fix="start the collector, or mend `plugins.otel.endpoint`",
            )

    def _made(self) -> OTLPSpanExporter:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(
            endpoint=self._settings.endpoint,
            headers=dict(self._settings.headers),
            timeout=self._settings.timeout,
        )


def _readable(span: Span) -> ReadableSpan:
    """Return a span as the SDK's exporters take it."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(span_id: str) -> SpanContext:
        return SpanContext(
            int(span.trace_id, 16),
            int(span_id, 16),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )

    return ReadableSpan(
        span.name,
        context=context(span.span_id),
        parent=None if span.parent_id is None else context(span.parent_id),
        resource=Resource({"service.name": "clawhive", "service.version": __version__}),
        attributes=dict(span.attributes),
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=span.start,
        end_time=span.end,
        instrumentation_scope=InstrumentationScope("clawhive", __version__),
    )
