"""One client: its session, what it was shown, and its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations

from clawhive_core import Refusal
from clawhive_mcp.serving.answers import Results, answer_of, page_of, refusal_of, said
from clawhive_mcp.serving.names import STABLE, WireNames
from clawhive_mcp.serving.stable import stable_tools

if TYPE_CHECKING:
    from clawhive_core import Answer as Reply
    from clawhive_core import Hive, Question, Session, ToolMeta
    from clawhive_mcp.serving.answers import Request
    from clawhive_mcp.serving.approving import Asking

ALL_ENABLED_UP_TO = 40
"""The number of tools up to which each is enabled from the start."""
_RELIST_SECONDS = 1.0
"""The longest wait for a client to list again after tools were enabled."""
_DESCRIPTION = 2_000
"""Characters of a description that every client passes on."""
_NESTED = ">"
"""The beginning of the part of a step's id that tells a tool's own calls apart."""

Arguments = Mapping[str, Any]
Answer = CallToolResult | InputRequiredResult


@dataclass(frozen=True, slots=True)
class Bad(Exception):
    """Arguments of one of the five tools that cannot be used; the text says why."""

    text: str


class Caller:
    """One client's session with a hive.

    Args:
        hive: The project.
        session: The client's session.
        names: The names of tools for clients.
        asking: Shows the client's person what waits for them.
        changed: Tells the client's connections that its list of tools is another; returns whether
            any listens.
        stable_only: Whether nothing but the five tools is listed: for clients without an identity.
    """

    def __init__(
        self,
        hive: Hive,
        session: Session,
        names: WireNames,
        asking: Asking,
        changed: Callable[[], Awaitable[bool]],
        *,
        stable_only: bool = False,
    ) -> None:
        self.hive, self.session = hive, session
        self._names, self._tell, self._stable_only = names, changed, stable_only
        self._asking = asking
        self._results = Results(session.folder)
        self._progressing: dict[str, Request] = {}
        self._under_way: list[Request] = []
        self._relists = True
        self._revision: str | None = None
        self._listed = anyio.Event()
        self._shown: tuple[Mapping[str, ToolMeta], list[Tool]] | None = None
        session.tools.most = ALL_ENABLED_UP_TO

    def tools(self) -> list[Tool]:
        """Return the five tools, and each enabled one under its name for clients."""
        self._relists |= self._shown is not None
        self._listed.set()
        self._listed = anyio.Event()
        enabled: Mapping[str, ToolMeta] = {}
        if not self._stable_only:
            enabled = self.session.tools.enabled()
        self._revision = self.hive.catalog.current.revision
        if self._shown is None or self._shown[0] != enabled:
            self._shown = dict(enabled), self._definitions(enabled)
        return self._shown[1]

    def is_changed(self) -> bool:
        """Whether the client would list something else than it did last."""
        return self._shown is not None and self._shown[0] != self.session.tools.enabled()

    def _definitions(self, enabled: Mapping[str, ToolMeta]) -> list[Tool]:

        wire = self._names.of(enabled)
        only_reads = self.session.tools.only_reads
        more = [
            Tool(
                name=wire[name],
                title=name,
                description=meta.description[:_DESCRIPTION],
                input_schema=dict(meta.input_schema),
                annotations=_annotations(meta, only_reads=only_reads(name)),
            )
            for name, meta in enabled.items()
        ]
        return [*stable_tools(), *more]

    async def call(self, request: Request) -> Answer:
        """Answer a call of one of the five tools, or of a tool by its name for clients."""
        self._under_way.append(request)
        try:
            return await self._answer(request)
        finally:
            self._under_way.remove(request)

    async def reply(self, question: Question) -> Reply:
        """Return the answer of the client's person to a tool's question."""
        return await self._asking.reply(question, self._under_way)

    async def _answer(self, request: Request) -> Answer:
        name, arguments = request.params.name, request.params.arguments or {}
        if name not in STABLE:
            return await self._invoke(request, self._canonical(name), arguments, self._revision)
        own = {
            "tool_search": self._search,
            "tool_enable": self._enable,
            "tool_read": self._read,
            "tool_call": self._call,
            "tool_more": self._more,
        }
        try:
            return await own[name](request, arguments)
        except Bad as error:
            return refusal_of(_invalid(name, error.text))

    async def _search(self, request: Request, arguments: Arguments) -> Answer:
        del request
        query, top_k = _text(arguments, "query"), _number(arguments, "top_k", 5)
        found = await self.session.search_tools(query, min(max(top_k, 1), 50))
        return said(found.to_dict(), self._results)

    async def _enable(self, request: Request, arguments: Arguments) -> Answer:
        del request
        names = arguments.get("names")
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not all(
            isinstance(each, str) for each in cast("list[Any]", names)
        ):
            raise Bad("`names` is a list of names")
        turns = _number(arguments, "ttl_turns", 0) or None
        before = set(self.session.tools.enabled())
        wanted = [self._canonical(each) for each in cast("list[str]", names)]
        done = await self.session.enable(wanted, turns)
        if not before.issuperset(each.name for each in done.tools):
            await self._relisted()
        wire = self._names.of([each.name for each in done.tools])
        facts = done.to_dict()
        for row, meta in zip(facts["enabled"], done.tools, strict=True):
            row |= {
                "call_as": wire[meta.name],
                "description": meta.description[:_DESCRIPTION],
                "input_schema": meta.input_schema,
            }
        hint = 'call each by `call_as`, or call tool_call {"name": NAME, "args": {...}}'
        return said({**facts, "hint": hint}, self._results)

    async def _relisted(self) -> None:
        """Tell the client that there is more, and wait until it has listed again."""
        listed = self._listed
        if self._stable_only or not await self._tell() or not self._relists:
            return
        with anyio.move_on_after(_RELIST_SECONDS) as waiting:
            await listed.wait()
        # Some clients never do; they are not waited for a second time.
        self._relists = not waiting.cancelled_caught

    async def _read(self, request: Request, arguments: Arguments) -> Answer:
        name, given = self._inner(arguments)
        meta = self.hive.catalog.current.meta_of(name)
        if meta is not None and not self.session.tools.only_reads(meta.name):
            raise Bad(
                f"`{name}` does more than read, or nobody declared that it only reads: "
                "call it with tool_call"
            )
        return await self._invoke(request, name, given)

    async def _call(self, request: Request, arguments: Arguments) -> Answer:
        name, given = self._inner(arguments)
        return await self._invoke(request, name, given)

    async def _more(self, request: Request, arguments: Arguments) -> Answer:
        del request
        ref, offset = _text(arguments, "ref"), _number(arguments, "offset", 0)
        text = await anyio.to_thread.run_sync(self._results.text, ref)
        if text is None:
            raise Bad(f"there is no `{ref}` in this session, or no more: make the call again")
        if not 0 <= offset <= len(text):
            raise Bad(f"`offset` is from 0 to {len(text)}")
        return page_of(ref, text, offset)

    def _inner(self, arguments: Arguments) -> tuple[str, Arguments]:
        name, given = _text(arguments, "name"), arguments.get("args", {})
        if not isinstance(given, dict):
            raise Bad("`args` is an object")
        if name in STABLE:
            raise Bad(f"`{name}` is called directly")
        return self._canonical(name), cast("dict[str, Any]", given)

    def _canonical(self, name: str) -> str:
        """Return the tool of a name for clients; one that is none is looked for as it is."""
        found = self._names.tool(name)
        if found is None and "." not in name:
            self._names.of(self.session.tools.usable())  # it may not have been listed yet
            found = self._names.tool(name)
        return found or name

    async def _invoke(
        self, request: Request, name: str, given: Arguments, revision: str | None = None
    ) -> Answer:
        """Call a tool through the executor; what waits for a person is shown them where it may be.

        Whoever was asked in vain is told the same as where nobody could be.
        """
        with self._progress(request, name, given):
            outcome = await self.session.invoke(name, given, revision)
        if isinstance(outcome, Refusal) and outcome.error == "tool_changed":
            self._revision = None  # it was told; some clients never list again
        waiting = outcome.extra.get("approval_id") if isinstance(outcome, Refusal) else None
        if waiting is not None:
            answer = await self._asking.answer(request, waiting)
            if isinstance(answer, InputRequiredResult):
                return answer
            if answer == "approved":
                with self._progress(request, name, given):
                    outcome = await self.session.invoke(name, given)
        return (
            refusal_of(outcome)
            if isinstance(outcome, Refusal)
            else answer_of(outcome, self._results)
        )

    @contextmanager
    def _progress(self, request: Request, name: str, given: Arguments) -> Generator[None]:
        """Pass a tool's progress on meanwhile, where the client wants to know of it."""
        if not request.wants_progress:
            yield
            return
        step = self.session.step_of(name, given)
        self._progressing[step] = request
        try:
            yield
        finally:
            del self._progressing[step]

    def listens_to(self, step_id: str) -> Request | None:
        """Return the request that wants to know of the progress of a step."""
        return self._progressing.get(step_id.partition(_NESTED)[0])


def _annotations(meta: ToolMeta, *, only_reads: bool) -> ToolAnnotations:
    """Return what we decided about a tool, never what its author says of it."""
    if only_reads:
        return ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    effects = [
        text
        for effect in meta.effects.values()
        for text in ([effect] if isinstance(effect, str) else effect)
    ]
    known = meta.risk != "unknown"
    verbs = {each.partition(":")[0] for each in effects}
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=not known or meta.risk == "unsafe" or "fs.delete" in verbs,
        idempotent_hint=meta.idempotent,
        open_world_hint=not known or any(each.startswith("net.") for each in verbs),
    )


def _text(arguments: Arguments, key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value:
        raise Bad(f"`{key}` is a text, and needed")
    return value


def _number(arguments: Arguments, key: str, otherwise: int) -> int:
    value = arguments.get(key, otherwise)
    if type(value) is not int:
        raise Bad(f"`{key}` is a whole number")
    return value


def _invalid(name: str, text: str) -> Refusal:
    return Refusal("invalid_input", f"`{name}`: {text}", {"action": "fix_arguments"})
