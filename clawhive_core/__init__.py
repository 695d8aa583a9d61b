"""ClawHive: plugins, skill contracts and a policed, audited, replayable runtime for agent tools.

The public names are those imported below; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawhive_core.model.version import VERSION as __version__  # noqa: F401, N811 - the name that Python's tools look for

if TYPE_CHECKING:
    from clawhive_core.audit.spans import Span as Span
    from clawhive_core.audit.spans import SpanFold as SpanFold
    from clawhive_core.config.private_file import replace_file as replace_file
    from clawhive_core.config.root import cache_dir as cache_dir
    from clawhive_core.config.user_file import UserFile as UserFile
    from clawhive_core.errors import ClawHiveError as ClawHiveError
    from clawhive_core.errors import ModelError as ModelError
    from clawhive_core.errors import SandboxUnavailable as SandboxUnavailable
    from clawhive_core.errors import ToolError as ToolError
    from clawhive_core.execution.http.transport import origin_transport as origin_transport
    from clawhive_core.hive.hive import Hive as Hive
    from clawhive_core.model.approvals import Approval as Approval
    from clawhive_core.model.constrained import ToolProbe as ToolProbe
    from clawhive_core.model.constrained import choice_schema as choice_schema
    from clawhive_core.model.constrained import constrained_request as constrained_request
    from clawhive_core.model.constrained import constrained_response as constrained_response
    from clawhive_core.model.embeddings import Embeddings as Embeddings
    from clawhive_core.model.events import Event as Event
    from clawhive_core.model.events import StoredEvent as StoredEvent
    from clawhive_core.model.failures import model_failure as model_failure
    from clawhive_core.model.failures import retry_after as retry_after
    from clawhive_core.model.failures import status_code as status_code
    from clawhive_core.model.failures import without_key as without_key
    from clawhive_core.model.messages import ContentBlock as ContentBlock
    from clawhive_core.model.messages import LlmMessage as LlmMessage
    from clawhive_core.model.messages import LlmRequest as LlmRequest
    from clawhive_core.model.messages import LlmResponse as LlmResponse
    from clawhive_core.model.messages import MediaBlock as MediaBlock
    from clawhive_core.model.messages import ProviderBlock as ProviderBlock
    from clawhive_core.model.messages import StopReason as StopReason
    from clawhive_core.model.messages import TextBlock as TextBlock
    from clawhive_core.model.messages import ThinkingBlock as ThinkingBlock
    from clawhive_core.model.messages import Usage as Usage
    from clawhive_core.model.principal import Principal as Principal
    from clawhive_core.model.questions import Answer as Answer
    from clawhive_core.model.questions import Question as Question
    from clawhive_core.model.refusal import Refusal as Refusal
    from clawhive_core.model.runs import Plan as Plan
    from clawhive_core.model.runs import PlannedStep as PlannedStep
    from clawhive_core.model.runs import Task as Task
    from clawhive_core.model.tools import Artifact as Artifact
    from clawhive_core.model.tools import ToolCall as ToolCall
    from clawhive_core.model.tools import ToolDef as ToolDef
    from clawhive_core.model.tools import ToolMeta as ToolMeta
    from clawhive_core.model.tools import ToolResult as ToolResult
    from clawhive_core.model.wire_names import WireTable as WireTable
    from clawhive_core.model.wire_names import WireTools as WireTools
    from clawhive_core.model.wire_names import wire_name as wire_name
    from clawhive_core.plugins.hookspecs import HookContext as HookContext
    from clawhive_core.plugins.hookspecs import hookimpl as hookimpl
    from clawhive_core.plugins.tool import tool as tool
    from clawhive_core.protocols.adapter import MAX_BODY as MAX_BODY
    from clawhive_core.protocols.adapter import LlmAdapter as LlmAdapter
    from clawhive_core.protocols.adapter import StreamEvent as StreamEvent
    from clawhive_core.protocols.adapter import body_failure as body_failure
    from clawhive_core.protocols.adapter import bound_body as bound_body
    from clawhive_core.protocols.check import CheckResult as CheckResult
    from clawhive_core.protocols.check import PolicyCheck as PolicyCheck
    from clawhive_core.protocols.check import PolicyRequest as PolicyRequest
    from clawhive_core.protocols.context import Entry as Entry
    from clawhive_core.protocols.context import InvokeContext as InvokeContext
    from clawhive_core.protocols.context import Stream as Stream
    from clawhive_core.protocols.context import Workspace as Workspace
    from clawhive_core.protocols.embedder import Embedder as Embedder
    from clawhive_core.protocols.http import HttpClient as HttpClient
    from clawhive_core.protocols.http import HttpLimits as HttpLimits
    from clawhive_core.protocols.http import HttpResponse as HttpResponse
    from clawhive_core.protocols.http import HttpStream as HttpStream
    from clawhive_core.protocols.ledger import Ledger as Ledger
    from clawhive_core.protocols.ledger import LedgerOpener as LedgerOpener
    from clawhive_core.protocols.planner import PlanContext as PlanContext
    from clawhive_core.protocols.planner import Planner as Planner
    from clawhive_core.protocols.provider import ChangingProvider as ChangingProvider
    from clawhive_core.protocols.provider import ToolProvider as ToolProvider
    from clawhive_core.protocols.sandbox import HandlerCall as HandlerCall
    from clawhive_core.protocols.sandbox import HandlerEngine as HandlerEngine
    from clawhive_core.protocols.sandbox import HandlerHost as HandlerHost
    from clawhive_core.protocols.sandbox import HandlerOutcome as HandlerOutcome
    from clawhive_core.protocols.sandbox import Isolation as Isolation
    from clawhive_core.protocols.sandbox import Limit as Limit
    from clawhive_core.protocols.sandbox import SandboxCommand as SandboxCommand
    from clawhive_core.protocols.sandbox import SandboxEngine as SandboxEngine
    from clawhive_core.protocols.sandbox import SandboxHost as SandboxHost
    from clawhive_core.protocols.sandbox import SandboxInstance as SandboxInstance
    from clawhive_core.protocols.sandbox import SandboxLimits as SandboxLimits
    from clawhive_core.protocols.sandbox import SandboxMount as SandboxMount
    from clawhive_core.protocols.sandbox import SandboxOutcome as SandboxOutcome
    from clawhive_core.protocols.sandbox import SandboxSpec as SandboxSpec
    from clawhive_core.protocols.sandbox import Unsupported as Unsupported
    from clawhive_core.protocols.sink import AuditSink as AuditSink
    from clawhive_core.protocols.stores import SkillSource as SkillSource
    from clawhive_core.protocols.stores import Subscription as Subscription
    from clawhive_core.protocols.stores import SubscriptionStore as SubscriptionStore
    from clawhive_core.runs.options import RunOptions as RunOptions
    from clawhive_core.runs.session import Session as Session
    from clawhive_core.skills.contracts.skill import Skill as Skill
else:
    from clawhive_core.model.lazy import lazy_names

    __getattr__ = lazy_names(__name__)
