"""The current catalog, its providers, and the revisions that were offered before."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.catalog.assembly import Preferences, assemble
from clawhive_core.catalog.bounded import Overdue, run_bounded
from clawhive_core.catalog.catalog import EMPTY, Catalog, Tool
from clawhive_core.catalog.declarations import Declarations
from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.catalog.validation import unusable
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import Code, ToolMeta
from clawhive_core.protocols.provider import ChangingProvider, ToolProvider

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_PAUSE_SECONDS = 0.05
"""The time in which nothing is listed again after it was: changes come in bursts."""
_KEPT_REVISIONS = 64
_KEPT_SCHEMAS = 10_000
LOCAL = "local"
"""The provider id of the user's own functions."""

RESERVED = frozenset({"core", "sandbox", LOCAL, "agents"})
"""Provider ids of ClawHive's own tools; those of skills start with `skill_`."""


@dataclass(slots=True)
class _News:
    """The providers that said that their tools changed; added to by any thread."""

    changed: deque[int] = field(default_factory=deque[int])
    loop: AbstractEventLoop | None = None
    wake: anyio.Event = field(default_factory=anyio.Event)

    def tell(self, provider: int) -> None:
        """Have a provider listed again."""
        self.changed.append(provider)
        if self.loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody lists tools any more
                self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self.wake.set()


class CatalogStore:
    """Holds the providers and the catalog assembled from what they list.

    Args:
        preferences: Who serves a contested name.
        note: Called with a sentence for each provider that could not be listed or closed, and for
            each tool that is left out.
        declarations: What the user declares of tools.
        list_seconds: How long one provider may take to list its tools.
        close_seconds: How long one provider may take to close.
        grace_seconds: How long it may then take to stop.
    """

    def __init__(
        self,
        preferences: Preferences | None = None,
        note: Callable[[str], None] = lambda _: None,
        declarations: Declarations | None = None,
        list_seconds: float = 10.0,
        close_seconds: float = 10.0,
        grace_seconds: float = 1.0,
    ) -> None:
        self.current: Catalog = EMPTY
        self._preferences = preferences or Preferences()
        self._note = note
        self._declarations = declarations or Declarations()
        self._list_seconds = list_seconds
        self._close_seconds = close_seconds
        self._grace_seconds = grace_seconds
        self._providers: list[ToolProvider] = []
        self._listings: dict[int, Sequence[tuple[ToolMeta, str | None]]] = {}
        """The tools of each provider, with the reason why a tool of it cannot be offered."""
        self._code: dict[int, Code | None] = {}
        self._contracts: dict[str, Any] = {}
        self._schemas: dict[str, str | None] = {}
        self._news = _News()
        self._subscribers: list[Callable[[], None]] = []

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each new revision, in any thread; return what ends that.

        It must not raise.
        """
        self._subscribers.append(changed)
        return partial(self._subscribers.remove, changed)

    def put(self, provider: ToolProvider, tools: Sequence[ToolMeta]) -> Catalog:
        """Register a provider of this process, or renew what it lists, without waiting."""
        if provider not in self._providers:
            self._keep(provider)
        self._hold(provider, _name_of(provider), tools)
        return self._assemble()

    async def add_foreign(
        self,
        *providers: ToolProvider,
        code_of: Callable[[ToolProvider], Code | None] = lambda _: None,
    ) -> Catalog:
        """Register providers of plugins; none may stand under a name of ClawHive's own.

        Args:
            *providers: They.
            code_of: Returns what reads the code that a provider's tools run.
        """
        good = [provider for provider in providers if not _is_reserved(_name_of(provider))]
        for provider in providers:
            if provider not in good:
                self._note(f"a plugin's provider calls itself `{_name_of(provider)}`: reserved")
        self._code.update({id(provider): code_of(provider) for provider in good})
        return await self.add(*good)

    async def add(self, *providers: ToolProvider) -> Catalog:
        """Register providers, list their tools at the same time and assemble a new revision.

        A provider that fails or takes too long stays registered, with no tools.
        """
        self._keep(*providers)
        for provider in providers:
            self._subscribe(provider)
        return await self._listed(providers)

    async def watching(self, told: Callable[[Catalog], None]) -> None:
        """List the providers again that say that their tools changed, until it is cancelled.

        Args:
            told: Called with each new revision.
        """
        from asyncio import get_running_loop

        news = self._news
        news.loop = get_running_loop()
        while True:
            news.wake = anyio.Event()
            if not news.changed:
                await news.wake.wait()
            changed = {news.changed.popleft() for _ in range(len(news.changed))}
            before = self.current.revision
            now = await self._listed([each for each in self._providers if id(each) in changed])
            if now.revision != before:
                told(now)
            await anyio.sleep(_PAUSE_SECONDS)

    def _subscribe(self, provider: ToolProvider) -> None:
        if not isinstance(provider, ChangingProvider):
            return
        try:
            provider.subscribe(partial(self._news.tell, id(provider)))
        except Exception as error:  # noqa: BLE001 - one provider must not take the others down
            what = f"cannot say when its tools change: {_text_of(error)}"
            self._note(f"provider `{_name_of(provider)}` {what}")

    async def _listed(self, providers: Sequence[ToolProvider]) -> Catalog:
        """List providers at the same time and assemble a new revision."""
        async with anyio.create_task_group() as group:
            for provider in providers:
                group.start_soon(self._list, provider)
        return self._assemble()

    async def refresh(self) -> Catalog:
        """List every provider again."""
        return await self._listed(self._providers)

    def contract_at(self, revision: str, name: str) -> str | None:
        """Return the contract hash that a tool had in a revision of this process."""
        contracts = self._contracts.get(revision)
        return None if contracts is None else contracts.get(name)

    async def close_providers(self) -> None:
        """Close every provider at the same time; failures and hangs are noted, never raised.

        A store that nobody closed does it when the interpreter exits.
        """
        _unclosed.pop(id(self), None)
        providers, self._providers = self._providers, []
        self._listings.clear()
        async with anyio.create_task_group() as group:
            for provider in providers:
                group.start_soon(self._close, provider)

    def _keep(self, *providers: ToolProvider) -> None:
        self._providers.extend(providers)
        if self._providers:
            _unclosed[id(self)] = (os.getpid(), self)

    async def _list(self, provider: ToolProvider) -> None:
        name = _name_of(provider)
        listed: Sequence[ToolMeta] = ()
        try:
            listed = await run_bounded(_listing(provider), self._list_seconds, self._grace_seconds)
        except Overdue:
            self._note(
                f"provider `{name}` did not list its tools within "
                f"{self._list_seconds:g} s; it has none now"
            )
        except Exception as error:  # noqa: BLE001 - one provider must not take the others down
            self._note(f"provider `{name}` could not list its tools: {_text_of(error)}")
        good = [meta for meta in listed if isinstance(meta, ToolMeta)]
        if len(good) < len(listed):
            self._note(f"provider `{name}` lists {len(listed) - len(good)} things that are no tool")
        self._hold(provider, name, [self._as_offered(provider, name, meta) for meta in good])

    def _as_offered(self, provider: ToolProvider, name: str, meta: ToolMeta) -> ToolMeta:
        """Return a tool with its provider's id and, where that is a plugin's, with its code.

        What others write, as a server, runs there: its text counts instead.
        """
        code = None if meta.text_counts else self._code.get(id(provider))
        code = meta.code if _is_own(name) else code
        if meta.provider_id == name and meta.code is code:
            return meta
        return replace(meta, provider_id=name, code=code)

    def _hold(self, provider: ToolProvider, name: str, tools: Sequence[ToolMeta]) -> None:
        admitted = self._as_admitted(name, tools)
        self._listings[id(provider)] = [(meta, self._problem_of(meta)) for meta in admitted]

    def _as_admitted(self, name: str, tools: Sequence[ToolMeta]) -> Sequence[ToolMeta]:
        """Return the tools as they are admitted: ClawHive's own and those of skills as they are.

        A skill's provider knows which of its handlers may run outside a sandbox engine.
        """
        if _is_own(name):
            return tools
        return [self._declarations.admitted(meta) for meta in tools]

    def _assemble(self) -> Catalog:
        tools: list[Tool] = []
        problems: dict[int, str | None] = {}
        for provider in self._providers:
            for meta, problem in self._listings.get(id(provider), ()):
                tools.append(Tool(meta, provider))
                problems[id(meta)] = problem
        before = self.current
        self.current = assemble(tools, self._preferences, lambda meta: problems[id(meta)])
        for drop in self.current.dropped:
            if drop not in before.dropped:
                self._note(f"`{drop.name}` of `{drop.provider_id}` is left out: {drop.reason}")
        self._contracts.pop(self.current.revision, None)
        self._contracts[self.current.revision] = self.current.contracts
        while len(self._contracts) > _KEPT_REVISIONS:
            del self._contracts[next(iter(self._contracts))]
        if self.current.revision != before.revision:
            for changed in (*self._subscribers,):
                changed()
        return self.current

    def _problem_of(self, meta: ToolMeta) -> str | None:
        """Return why a tool cannot be offered: providers refuse a whole request for one schema."""
        problem = problem_of_tool(meta)
        if problem is not None or _is_own(meta.provider_id):
            return problem
        contract = meta.contract_hash
        if contract not in self._schemas:
            if len(self._schemas) >= _KEPT_SCHEMAS:
                self._schemas.clear()
            self._schemas[contract] = unusable(meta)
        return self._schemas[contract]

    async def _close(self, provider: ToolProvider) -> None:
        name = _name_of(provider)
        try:
            await run_bounded(_closing(provider), self._close_seconds, self._grace_seconds)
        except Overdue:
            self._note(f"provider `{name}` did not close within its time")
        except Exception as error:  # noqa: BLE001 - closing goes on with the others
            self._note(f"provider `{name}` failed to close: {_text_of(error)}")


_unclosed: dict[int, tuple[int, CatalogStore]] = {}
"""The stores whose providers are not closed yet, by process: a forked child closes none."""


def _close_at_exit() -> None:
    stores = [store for pid, store in _unclosed.values() if pid == os.getpid()]
    if not stores:
        return
    import asyncio

    async def close() -> None:
        async with anyio.create_task_group() as group:
            for store in stores:
                group.start_soon(store.close_providers)

    asyncio.run(close())


atexit.register(_close_at_exit)


async def _listing(provider: ToolProvider) -> list[ToolMeta]:
    return list(await provider.list_tools())


async def _closing(provider: ToolProvider) -> None:
    await provider.close()


def _is_reserved(name: str) -> bool:
    return name in RESERVED or name.startswith("skill_")


def _is_own(name: str) -> bool:
    """Whether a provider is ClawHive's own, or a skill's, whose contract was checked."""
    return _is_reserved(name) and name != LOCAL


def _name_of(provider: ToolProvider) -> str:
    """Return a provider's id, its type's name where even that fails."""
    try:
        return str(provider.provider_id)
    except Exception:  # noqa: BLE001 - a broken provider is noted under some name
        return type(provider).__name__


def _text_of(error: Exception) -> str:
    return preview(str(error)) or type(error).__name__
