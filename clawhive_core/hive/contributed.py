"""The contributions of plugins to a hive, asked of each hook once and at the first need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import anyio

from clawhive_core.catalog.bounded import run_bounded
from clawhive_core.errors import PluginError
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.plugins.plugin import PluginRecord
from clawhive_core.policy.checks import FailedCheck
from clawhive_core.policy.subscriptions import FailedSubscriptions, SubscriptionBook
from clawhive_core.protocols.adapter import LlmAdapter, StreamEvent
from clawhive_core.protocols.check import PolicyCheck
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.protocols.planner import Planner
from clawhive_core.protocols.sandbox import SandboxEngine
from clawhive_core.protocols.stores import SkillSource, SubscriptionStore

_GRACE_SECONDS = 1.0


class Contributed:
    """The objects of the plugins' hooks, as the rooms above want them.

    Args:
        plugins: Whose hooks are asked.
        close_seconds: How long one adapter may take to close.
    """

    def __init__(self, plugins: PluginManager, close_seconds: float = 10.0) -> None:
        self._plugins = plugins
        self._close_seconds = close_seconds

    def values(self, hook: str) -> list[Any]:
        """Return what a hook gave, in the plugins' order."""
        return [contribution.value for contribution in self._plugins.contributions(hook)]

    def adapters(self) -> Mapping[str, LlmAdapter]:
        """Return the model adapters by name; of two with one name the first plugin's.

        A plugin that failed is there under its id, to say why.
        """
        return self._adapters

    def embedders(self) -> Mapping[str, Embedder]:
        """Return the embedders by name, chosen as the adapters are."""
        return self._embedders

    def checks(self) -> Sequence[PolicyCheck]:
        """Return the policy checks, and one that denies for each plugin whose own failed."""
        return self._checks

    def planners(self) -> dict[str, Planner]:
        """Return the planners by name; nobody replaces ClawHive's own."""
        from clawhive_core.runs.plans.planners import LlmPlanner, ProcedurePlanner

        own: list[Planner] = [ProcedurePlanner(), LlmPlanner()]
        found: Sequence[Planner] = self.values("clawhive_planners")
        return {planner.name: planner for planner in (*found, *own)}

    def sandboxes(self) -> Sequence[SandboxEngine]:
        """Return the engines that run programs and handlers, preferred first."""
        return self.values("clawhive_sandboxes")

    def skill_sources(self) -> Sequence[SkillSource]:
        """Return where further skills lie."""
        return self.values("clawhive_skill_sources")

    def subscriptions(self, log: Ledger | None) -> SubscriptionStore:
        """Return who knows the subscribers: the first plugin that does, else the log.

        Where such a plugin failed nobody knows: the log's own list is not what was meant.
        """
        found: Sequence[SubscriptionStore] = self.values("clawhive_subscription_stores")
        for record in self._plugins.failed_hooks("clawhive_subscription_stores"):
            return FailedSubscriptions(record.id)
        return found[0] if found else SubscriptionBook(log)

    async def close(self) -> None:
        """Close adapters and embedders that were made, at the same time, each within its time."""
        made = (self.__dict__.get(name, {}) for name in ("_adapters", "_embedders"))
        async with anyio.create_task_group() as group:
            for each in (each for table in made for each in table.values()):
                group.start_soon(self._close, each)

    async def _close(self, made: LlmAdapter | Embedder) -> None:
        with suppress(Exception):
            await run_bounded(made.close(), self._close_seconds, _GRACE_SECONDS)

    @cached_property
    def _adapters(self) -> dict[str, LlmAdapter]:
        found: Sequence[LlmAdapter] = self.values("clawhive_llm_adapters")
        failed = self._plugins.failed_hooks("clawhive_llm_adapters")
        stand_ins: list[LlmAdapter] = [_FailedAdapter(record) for record in failed]
        return {adapter.name: adapter for adapter in (*stand_ins, *reversed(found))}

    @cached_property
    def _embedders(self) -> dict[str, Embedder]:
        found: Sequence[Embedder] = self.values("clawhive_embedders")
        failed = self._plugins.failed_hooks("clawhive_embedders")
        stand_ins: list[Embedder] = [_FailedAdapter(record) for record in failed]
        return {each.name: each for each in (*stand_ins, *reversed(found))}

    @cached_property
    def _checks(self) -> list[PolicyCheck]:
        checks: list[PolicyCheck] = self.values("clawhive_policy_checks")
        failed = self._plugins.failed_hooks("clawhive_policy_checks")
        return [*checks, *(FailedCheck(record.id) for record in failed)]


class _FailedAdapter:
    """Stands for the adapters and embedders of a plugin that failed to load: it says why."""

    host = None
    default_host = None
    supports_tools = False
    default_model = ""

    def __init__(self, record: PluginRecord) -> None:
        self.name = record.id
        self._failure = record.error

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        del request
        raise self._error()

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        yield StreamEvent("done", response=await self.chat(request))

    async def embed(self, texts: Sequence[str], model: str) -> Embeddings:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        del texts, model
        raise self._error()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _error(self) -> PluginError:
        failure = self._failure
        if failure is None:
            return PluginError(f"the plugin `{self.name}` could not be loaded")
        return PluginError(
            f"the plugin `{self.name}` could not be loaded: {failure.message}",
            place=failure.place,
            fix=failure.fix,
            code=failure.code,
        )
