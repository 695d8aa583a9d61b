"""The wiring of the executor by the composition root, and the bounds of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.execution.access import SkillAccess
from clawhive_core.execution.approvals.approval import Approvals
from clawhive_core.execution.http.connections import Connections
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.protocols.check import PolicyCheck
from clawhive_core.protocols.context import Store
from clawhive_core.protocols.ledger import Ledger


class Completer(Protocol):
    """The way to models, for tools that ask one."""

    async def complete(self, request: LlmRequest, scope: CallScope) -> LlmResponse:
        """Answer a request under the run's rights, budget and log."""
        ...

    async def embed(self, texts: Sequence[str], model: str | None, scope: CallScope) -> Embeddings:
        """Return vectors of texts, likewise."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """Bounds of every call."""

    call_depth: int = 8
    grace_seconds: float = 2.0
    """How long a tool may take to stop after its deadline."""


@dataclass(slots=True)
class Wiring:
    """The rooms that the executor stands on."""

    catalog: CatalogStore
    log: Ledger
    checks: Callable[[], Sequence[PolicyCheck]]
    """The policy checks of plugins; raises where a required one failed to load."""
    healthy: Callable[[], str | None]
    """Why effects must stop (a required audit sink failed), or None."""
    models: Completer | None = None
    stores: Callable[[CallScope, str], Store] | None = None
    """The values of a namespace, for the user of a call."""
    redact: Callable[[str], None] = lambda _: None
    access: SkillAccess | None = None
    """Who may call what skills export; without it, whoever may call at all."""
    approvals: Approvals | None = None
    """Who asks people; without it, what must be asked is refused."""
    http: Connections = field(default_factory=Connections)
    """The connections of tools that send requests."""
