"""Runs, model requests and tool calls as OpenTelemetry spans, sent by OTLP over HTTP."""

from __future__ import annotations

from clawhive_core import AuditSink, HookContext, hookimpl
from clawhive_otel.settings import read_settings
from clawhive_otel.sink import OtlpSink

__all__ = ["OtlpSink", "clawhive_audit_sinks"]


@hookimpl
def clawhive_audit_sinks(ctx: HookContext) -> list[AuditSink]:
    """Return the sink, where settings or environment say where to send."""
    settings = read_settings(ctx.settings, ctx.env)
    return [] if settings is None else [OtlpSink(settings)]
