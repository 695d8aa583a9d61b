"""Tools that the configuration names: `[[tools]]`, each a function of an installed module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from clawhive_core.catalog.listing import problem_of_tool
from clawhive_core.catalog.local import PROVIDER_ID, LocalTool
from clawhive_core.config.config import Config
from clawhive_core.errors import ClawHiveError, ConfigError, PluginError
from clawhive_core.plugins.tool import ToolDeclaration, ToolOptions, declaration_of

_KEY = "tools"
_OPTIONS = frozenset(ToolOptions.__annotations__) - {"name"}
_KEYS = frozenset({"name", "function"}) | _OPTIONS


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
        _check(table, place)
        name = str(table["name"])
        if name in names:
            raise ConfigError(
                f"two [[tools]] are called `{name}`", place=place, fix="rename one of them"
            )
        names.add(name)
        try:
            found.append(_tool(table))
        except ClawHiveError as error:
            note(f"the configured tool `{name}` is left out: {error.message}")
    return found


def _check(table: Mapping[str, Any], place: str) -> None:
    for key in ("name", "function"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise ConfigError(
                f"a [[tools]] table needs the text `{key}`",
                place=place,
                fix='write name = "notes.count" and function = "module:attr"',
            )
    for key in table:
        if key not in _KEYS:
            from clawhive_core.diagnostics.nearest import nearest

            guess = nearest(key, _KEYS)
            raise ConfigError(
                f"[[tools]] has no key `{key}`",
                place=place,
                fix=f"did you mean `{guess}`?" if guess else f"use: {', '.join(sorted(_KEYS))}",
            )


def _tool(table: Mapping[str, Any]) -> LocalTool:
    function = _function(str(table["function"]))
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


def _function(text: str) -> Callable[..., Any]:
    """Import what `module:attr` names.

    Raises:
        PluginError: It cannot be imported, or is no function.
    """
    from importlib import import_module
    from types import FunctionType

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
