"""Tools of this process: added and removed while it runs, or named in the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any, cast

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.catalog.store import LOCAL, CatalogStore
from clawhive_core.catalog.validation import unusable
from clawhive_core.config.config import Config
from clawhive_core.errors import (
    ClawHiveError,
    ConfigError,
    PluginError,
    ToolError,
    UnknownId,
    UsageError,
)
from clawhive_core.model.events import Blob, Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.plugins.tool import ToolDeclaration, ToolOptions, declaration_of
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import Ledger

PROVIDER_ID = LOCAL
_CONTEXT = "ctx"
_KEY = "tools"
_OPTIONS = frozenset(ToolOptions.__annotations__) - {"name"}
_KEYS = frozenset({"name", "function"}) | _OPTIONS


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool and the function that it calls."""

    meta: ToolMeta
    declaration: ToolDeclaration
    typed: bool = False
    """Whether input becomes the types of the function's annotations, as with `@tool`."""


class LocalProvider:
    """Offers functions of this process (`clawhive_core.ToolProvider`)."""

    provider_id = PROVIDER_ID

    def __init__(self) -> None:
        self.tools: dict[str, LocalTool] = {}

    async def list_tools(self) -> list[ToolMeta]:
        """Return what was added and not removed."""
        return [tool.meta for tool in self.tools.values()]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Call a tool's function: an `async def` is awaited, a `def` runs in a worker thread.

        Raises:
            ToolError: `tool_not_found` where it was removed meanwhile; else as the function.
        """
        from clawhive_core.plugins.invocation import invoke, invoke_with

        tool = self.tools.get(tool_name)
        if tool is None:
            raise ToolError(f"the tool `{tool_name}` was removed", code="tool_not_found")
        if tool.typed:
            return await invoke(tool.declaration, input, ctx)
        arguments = _arguments(tool.declaration.function, input, ctx)
        return await invoke_with(tool.declaration, arguments, ctx.tool_call_id)

    async def close(self) -> None:
        """Do nothing: functions need no closing."""


class ToolsFacade:
    """Adds and removes tools while the process runs: `hive.tools`.

    Example:
        ::

            async def zone() -> str:
                return "UTC"

            schema = {"type": "object", "additionalProperties": False}
            meta = ToolMeta("clock.zone", "Name the time zone.", schema, "local", risk="safe")
            hive.tools.add(meta, zone)
            hive.tools.remove("clock.zone")
    """

    def __init__(
        self, catalog: CatalogStore, log: Ledger, configured: Sequence[LocalTool] = ()
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._provider = LocalProvider()
        self._provider.tools = {tool.meta.name: tool for tool in configured}

    def open(self) -> None:
        """List what the configuration names, beside the tools of other providers."""
        if self._provider.tools:
            self._catalog.put(self._provider, self._metas())

    def add(self, meta: ToolMeta, function: Callable[..., Any]) -> str:
        """Offer a function as a tool, at once; one of the same name that was added is replaced.

        Input comes as keyword arguments; a parameter `ctx` gets the InvokeContext. Its provider is
        `local`, which stands just before `stub` unless `preferred_provider_order` names it.

        Args:
            meta: All of the tool; its provider_id becomes `local`.
            function: A `def`, which runs in a worker thread, or an `async def`.

        Returns:
            The new catalog revision.

        Raises:
            UsageError: `invalid_tool`: the definition or the function cannot be a tool's.
        """
        own = replace(meta, provider_id=PROVIDER_ID)
        problem = problem_of_tool(own) or unusable(own) or _problem_of_function(own, function)
        if problem is not None:
            raise _invalid(str(meta.name), problem)
        declaration = ToolDeclaration(function, function.__name__, {})
        self._provider.tools[own.name] = LocalTool(own, declaration)
        return self._renew()

    def remove(self, name: str) -> str:
        """Withdraw a tool that was added here, and return the new catalog revision.

        Raises:
            UnknownId: No tool of that name was added.
        """
        if name not in self._provider.tools:
            added = ", ".join(self._provider.tools) or "none"
            raise UnknownId(
                f"no tool `{name}` was added while this runs",
                place=name,
                fix=f"added are: {added}; tools of plugins are switched off with --no-plugins",
            )
        del self._provider.tools[name]
        return self._renew()

    def _metas(self) -> list[ToolMeta]:
        return [tool.meta for tool in self._provider.tools.values()]

    def _renew(self) -> str:
        before = self._catalog.current.revision
        now = self._catalog.put(self._provider, self._metas())
        if now.revision != before:
            self._log.post(revised(now))
        return now.revision


def revised(catalog: Catalog) -> Event:
    """Return that there is another revision of the catalog."""
    revision, tools = catalog.revision, [tool.meta for tool in catalog]
    rows = [
        {
            "name": meta.name,
            "provider_id": meta.provider_id,
            "contract_hash": meta.contract_hash,
            "text_hash": meta.text_hash,
        }
        for meta in tools
    ]
    return Event("catalog.revision", {"catalog_revision": revision, "tools": Blob(rows)})


def _arguments(
    function: Callable[..., Any], input: Mapping[str, Any], ctx: InvokeContext
) -> dict[str, Any]:
    arguments = dict(input)
    signature = inspect.signature(function)
    if _CONTEXT in signature.parameters:
        arguments[_CONTEXT] = ctx
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ToolError(
            f"the tool's function does not take this input: {error}",
            code="invalid_input",
            fix="give what the tool's schema names",
        ) from None
    return arguments


def _problem_of_function(meta: ToolMeta, function: object) -> str | None:
    """Return why a function cannot serve a tool, or None."""
    if not isinstance(function, FunctionType | MethodType):
        return f"{type(function).__name__} is no function; wrap it in a `def`"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "its function yields; return a list"
    return _problem_of_signature(meta.input_schema, inspect.signature(function).parameters)


def _problem_of_signature(
    schema: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> str | None:
    """Return where a schema and a function differ in the names of arguments, or None."""
    kinds = {each.kind for each in parameters.values()}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        return "its function takes arguments by position; remove the `/`"
    properties, required = schema.get("properties", {}), schema.get("required", ())
    takes_all = inspect.Parameter.VAR_KEYWORD in kinds
    for name in properties:
        if name == _CONTEXT or (name not in parameters and not takes_all):
            return f"its schema names `{name}`, which its function does not take from the input"
    for name, each in parameters.items():
        if name != _CONTEXT and name not in required and _is_needed(each):
            return f"its function needs `{name}`, which its schema does not require"
    return None


def _is_needed(parameter: inspect.Parameter) -> bool:
    named = parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
    return named and parameter.default is parameter.empty


def _invalid(name: str, problem: str) -> UsageError:
    return UsageError(
        f"`{name}` cannot be a tool: {problem}",
        code="invalid_tool",
        place=name,
        fix="correct the ToolMeta or the function",
    )


def configured_tools(config: Config, note: Callable[[str], None]) -> list[LocalTool]:
    """Return the tools of `[[tools]]`; one whose function cannot be used is noted and left out.

    A table holds `name`, `function = "module:attr"` and, where the function is no `@tool`, what
    `@tool` may be told. Its risk is `unknown` unless the table or the `@tool` says another. They
    count from the user's own configuration, or from a project that the user trusts.

    Raises:
        ConfigError: A table lacks `name` or `function`, holds an unknown key, or repeats a name.
    """
    tables = cast("Sequence[Mapping[str, Any]]", config.get(_KEY))
    origin = config.origin(_KEY)
    found: list[LocalTool] = []
    names: set[str] = set()
    for number, table in enumerate(tables, 1):
        place = f"{origin}: [[tools]] {number}"
        _check_table(table, place)
        name = str(table["name"])
        if name in names:
            raise ConfigError(
                f"two [[tools]] are called `{name}`", place=place, fix="rename one of them"
            )
        names.add(name)
        try:
            found.append(_tool_of(table))
        except ClawHiveError as error:
            note(f"the configured tool `{name}` is left out: {error.message}")
    return found


def _check_table(table: Mapping[str, Any], place: str) -> None:
    for key in ("name", "function"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise ConfigError(
                f"a [[tools]] table needs the text `{key}`",
                place=place,
                fix='write name = "notes.count" and function = "module:attr"',
            )
    for key in table:
        if key not in _KEYS:
            from clawhive_core.diagnostics.suggestions import nearest

            guess = nearest(key, _KEYS)
            raise ConfigError(
                f"[[tools]] has no key `{key}`",
                place=place,
                fix=f"did you mean `{guess}`?" if guess else f"use: {', '.join(sorted(_KEYS))}",
            )


def _tool_of(table: Mapping[str, Any]) -> LocalTool:
    function = _imported(str(table["function"]))
    declared = declaration_of(function)
    base: Mapping[str, Any] = {"risk": "unknown"} if declared is None else declared.options
    given = {key: table[key] for key in _OPTIONS if key in table}
    options = cast("ToolOptions", {**base, **given, "name": table["name"]})
    declaration = ToolDeclaration(function, function.__name__, options)
    for problem, fix in declaration.problems():
        declaration.refuse(problem, fix)
    meta = replace(declaration.meta(PROVIDER_ID), provider_id=PROVIDER_ID)
    if (problem := problem_of_tool(meta)) is not None:
        declaration.refuse(problem, "correct the [[tools]] table")
    return LocalTool(meta, declaration, typed=True)


def _imported(text: str) -> Callable[..., Any]:
    """Import what `module:attr` names.

    Raises:
        PluginError: It cannot be imported, or is no function.
    """
    from importlib import import_module

    module_name, _, attribute = text.partition(":")
    try:
        value: object = import_module(module_name)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as error:  # the isolation boundary: a module's code
        raise PluginError(
            f"`{text}` cannot be imported: {type(error).__name__}: {error}",
            fix='name a function of an installed module: function = "module:attr"',
            code="import_failed",
        ) from error
    if not isinstance(value, FunctionType):
        raise PluginError(
            f"`{text}` is no function", fix="name a `def` or `async def`", code="invalid_tool"
        )
    return value
