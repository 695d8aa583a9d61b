"""ClawHive: plugins, skill contracts and a policed, audited, replayable runtime for agent tools.

The names below are the public ones; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clawhive_core.model.version import VERSION as __version__  # noqa: N811 - the name that Python's tools look for

if TYPE_CHECKING:
    from clawhive_core.audit.spans import Span, SpanFold
    from clawhive_core.errors import ClawHiveError, ModelError, SandboxUnavailable, ToolError
    from clawhive_core.hive.hive import Hive
    from clawhive_core.model.constrained import (
        ToolProbe,
        choice_schema,
        constrained_request,
        constrained_response,
    )
    from clawhive_core.model.events import Event, StoredEvent
    from clawhive_core.model.failures import model_failure, retry_after, status_code, without_key
    from clawhive_core.model.messages import (
        ContentBlock,
        LlmMessage,
        LlmRequest,
        LlmResponse,
        MediaBlock,
        ProviderBlock,
        StopReason,
        TextBlock,
        ThinkingBlock,
        Usage,
    )
    from clawhive_core.model.principal import Principal
    from clawhive_core.model.refusal import Refusal
    from clawhive_core.model.runs import Plan, PlannedStep, Task
    from clawhive_core.model.tools import Artifact, ToolCall, ToolDef, ToolMeta, ToolResult
    from clawhive_core.model.wire_names import WireTable, WireTools, wire_name
    from clawhive_core.plugins.hookspecs import HookContext, hookimpl
    from clawhive_core.plugins.tool import tool
    from clawhive_core.protocols.adapter import LlmAdapter, StreamEvent
    from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest
    from clawhive_core.protocols.context import Entry, InvokeContext, Stream, Workspace
    from clawhive_core.protocols.memory import Embedder, MemoryItem, MemoryStore
    from clawhive_core.protocols.planner import PlanContext, Planner
    from clawhive_core.protocols.provider import ToolProvider
    from clawhive_core.protocols.sandbox import (
        HandlerCall,
        HandlerEngine,
        HandlerHost,
        HandlerOutcome,
        Limit,
        SandboxCommand,
        SandboxEngine,
        SandboxLimits,
        SandboxOutcome,
        Unsupported,
    )
    from clawhive_core.protocols.sink import AuditSink
    from clawhive_core.protocols.stores import (
        Channel,
        RunStore,
        SkillSource,
        Subscription,
        SubscriptionStore,
    )

_HOMES = {
    "audit.spans": ("Span", "SpanFold"),
    "errors": ("ClawHiveError", "ModelError", "SandboxUnavailable", "ToolError"),
    "hive.hive": ("Hive",),
    "model.constrained": (
        "ToolProbe",
        "choice_schema",
        "constrained_request",
        "constrained_response",
    ),
    "model.events": ("Event", "StoredEvent"),
    "model.failures": ("model_failure", "retry_after", "status_code", "without_key"),
    "model.messages": (
        "ContentBlock",
        "LlmMessage",
        "LlmRequest",
        "LlmResponse",
        "MediaBlock",
        "ProviderBlock",
        "StopReason",
        "TextBlock",
        "ThinkingBlock",
        "Usage",
    ),
    "model.principal": ("Principal",),
    "model.refusal": ("Refusal",),
    "model.runs": ("Plan", "PlannedStep", "Task"),
    "model.tools": ("Artifact", "ToolCall", "ToolDef", "ToolMeta", "ToolResult"),
    "model.wire_names": ("WireTable", "WireTools", "wire_name"),
    "plugins.hookspecs": ("HookContext", "hookimpl"),
    "plugins.tool": ("tool",),
    "protocols.adapter": ("LlmAdapter", "StreamEvent"),
    "protocols.check": ("CheckResult", "PolicyCheck", "PolicyRequest"),
    "protocols.context": ("Entry", "InvokeContext", "Stream", "Workspace"),
    "protocols.memory": ("Embedder", "MemoryItem", "MemoryStore"),
    "protocols.planner": ("PlanContext", "Planner"),
    "protocols.provider": ("ToolProvider",),
    "protocols.sandbox": (
        "HandlerCall",
        "HandlerEngine",
        "HandlerHost",
        "HandlerOutcome",
        "Limit",
        "SandboxCommand",
        "SandboxEngine",
        "SandboxLimits",
        "SandboxOutcome",
        "Unsupported",
    ),
    "protocols.sink": ("AuditSink",),
    "protocols.stores": (
        "Channel",
        "RunStore",
        "SkillSource",
        "Subscription",
        "SubscriptionStore",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Artifact",
    "AuditSink",
    "Channel",
    "CheckResult",
    "ClawHiveError",
    "ContentBlock",
    "Embedder",
    "Entry",
    "Event",
    "HandlerCall",
    "HandlerEngine",
    "HandlerHost",
    "HandlerOutcome",
    "Hive",
    "HookContext",
    "InvokeContext",
    "Limit",
    "LlmAdapter",
    "LlmMessage",
    "LlmRequest",
    "LlmResponse",
    "MediaBlock",
    "MemoryItem",
    "MemoryStore",
    "ModelError",
    "Plan",
    "PlanContext",
    "PlannedStep",
    "Planner",
    "PolicyCheck",
    "PolicyRequest",
    "Principal",
    "ProviderBlock",
    "Refusal",
    "RunStore",
    "SandboxCommand",
    "SandboxEngine",
    "SandboxLimits",
    "SandboxOutcome",
    "SandboxUnavailable",
    "SkillSource",
    "Span",
    "SpanFold",
    "StopReason",
    "StoredEvent",
    "Stream",
    "StreamEvent",
    "Subscription",
    "SubscriptionStore",
    "Task",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "ToolDef",
    "ToolError",
    "ToolMeta",
    "ToolProbe",
    "ToolProvider",
    "ToolResult",
    "Unsupported",
    "Usage",
    "WireTable",
    "WireTools",
    "Workspace",
    "__version__",
    "choice_schema",
    "constrained_request",
    "constrained_response",
    "hookimpl",
    "model_failure",
    "retry_after",
    "status_code",
    "tool",
    "wire_name",
    "without_key",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'clawhive_core' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"clawhive_core.{home}"), name)
    globals()[name] = value
    return value
