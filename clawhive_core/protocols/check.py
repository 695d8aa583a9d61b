"""Policy checks: code of plugins that can tighten a decision, never loosen it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from clawhive_core.model.late import dataclass, per_call
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import ToolMeta

Verdict = Literal["allow", "ask", "deny"]


@per_call
class PolicyRequest:
    """One call, as a decision sees it: no clock, no I/O, every name resolved."""

    tool: ToolMeta
    input: Mapping[str, Any]
    principal: Principal
    capabilities: tuple[str, ...]
    """The capabilities that the call needs, canonical."""
    task_id: str
    step_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer of a check: ask or deny, and why (for the log, not for the model)."""

    verdict: Literal["ask", "deny"]
    rule: str


class PolicyCheck(Protocol):
    """Answers ask, deny or nothing. One that raises or times out denies."""

    @property
    def name(self) -> str:
        """The name in the log's rule ids."""
        ...

    async def check(self, request: PolicyRequest) -> CheckResult | None:
        """Return a tighter verdict, or None to abstain."""
        ...
