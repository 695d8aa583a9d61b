"""Reading exports, imports and requirements of a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

from clawhive_core.diagnostics.suggestions import did_you_mean, nearest
from clawhive_core.model.patterns import pattern
from clawhive_core.model.sinks import Place as SinkPlace
from clawhive_core.model.sinks import place_of
from clawhive_core.model.tools import Level, Risk
from clawhive_core.skills.contracts.schema import schema_problem
from clawhive_core.skills.contracts.skill import (
    ALL_TOOLS,
    SECONDS,
    Access,
    ExportedTool,
    Exports,
    Import,
    Rate,
    Requires,
    ToolFacts,
)
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Named, Place, dotted

FACT_KEYS = (
    *("capability_level", "risk", "effects", "sinks", "records"),
    *("requires_confirm", "side_effects", "idempotent", "timeout_ms"),
)
"""The keys of an exported tool that are read here."""

_LONGEST_MS = 3_600_000


def read_tool_facts(fields: Fields) -> ToolFacts:
    """Return the facts of one exported tool.

    Raises:
        InvalidSkill: A value is not what it must be.
    """
    return ToolFacts(
        level=fields.one_of("capability_level", get_args(Level)),
        risk=fields.one_of("risk", get_args(Risk)),
        effects=dict(_effects(fields.below("effects"), _arguments(fields))),
        sinks=tuple(_sinks(fields, _arguments(fields))),
        records=tuple(_records(fields)),
        requires_confirm=fields.flag("requires_confirm"),
        side_effects=fields.flag("side_effects"),
        idempotent=fields.flag("idempotent"),
        timeout_ms=_timeout(fields),
    )


def _timeout(fields: Fields) -> int:
    value = fields.values.get("timeout_ms", ToolFacts().timeout_ms)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _LONGEST_MS:
        fix = f"write a whole number of milliseconds, at most {_LONGEST_MS} (an hour)"
        raise fields.fail("timeout_ms", f"`{value}` is no time", fix)
    return value


def _arguments(fields: Fields) -> tuple[str, ...]:
    """Return the arguments that the input schema names."""
    schema: Any = fields.values.get("input_schema")
    properties: Any = schema.get("properties") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - YAML
    return tuple(map(str, properties)) if isinstance(properties, dict) else ()  # pyright: ignore[reportUnknownArgumentType] - YAML


def _sinks(fields: Fields, arguments: tuple[str, ...]) -> Iterator[str]:
    for path, value in fields.items("sinks"):
        sink = text(fields.document, path, value)
        _check_argument(fields, path, _sink_place(fields, path, sink).argument, arguments)
        yield sink


def _records(fields: Fields) -> Iterator[str]:
    for path, value in fields.items("records"):
        record = text(fields.document, path, value)
        if _sink_place(fields, path, record).strict:
            raise fields.document.fail(path, "only a sink may end in `!`", "leave it out")
        yield record


def _sink_place(fields: Fields, path: KeyPath, declared: str) -> SinkPlace:
    try:
        return place_of(declared)
    except ValueError as error:
        fix = "write PLACE:KIND or PLACE:KIND.TYPE"
        raise fields.document.fail(path, str(error), fix) from error


def _effects(
    effects: Fields, arguments: tuple[str, ...]
) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    for argument, value in effects.values.items():
        path = effects.at(argument)
        if argument:
            _check_argument(effects, path, argument, arguments, key=True)
        if isinstance(value, list):
            listed = effects.items(argument)
            yield argument, tuple(_effect(effects, each, item, argument) for each, item in listed)
        else:
            yield argument, _effect(effects, path, value, argument)


def _effect(effects: Fields, path: KeyPath, value: Any, argument: str) -> str:
    """Return one effect: a verb of the table, for every call (`""`) with its resource."""
    from clawhive_core.capabilities.verbs import closest_verbs, verb_of

    effect = text(effects.document, path, value)
    verb, _, resource = effect.partition(":")
    if verb_of(verb) is None:
        close = closest_verbs(verb)
        fix = f"did you mean `{close[0]}`?" if close else "see docs/reference/capabilities.md"
        raise effects.document.fail(path, f"`{verb}` is no verb of a capability", fix)
    if not argument and not resource:
        fix = f'add it, such as "{verb}:**"'
        raise effects.document.fail(path, "the effect of every call names no resource", fix)
    return effect


def _check_argument(
    fields: Fields, path: KeyPath, name: str, arguments: tuple[str, ...], *, key: bool = False
) -> None:
    """Refuse the name of an argument that is none, at the value of a path or at its key."""
    if name in arguments:
        return
    free = [each for each in arguments if not key or each not in fields]
    fix = did_you_mean(name, free) or f"there are: {', '.join(arguments) or 'none'}"
    message = f"{dotted(path)}: the input schema has no property `{name}`"
    raise InvalidSkill(fields.document.finding("CH0305", path, message, fix, key=key))


ACCESS_KEYS = ("requires_subscription", "free_tools", "rate_limit")

_UNLIMITED = "unlimited"
_RATE = pattern(r"([1-9]\d{0,8})\s*/\s*([a-z]+)")
_LOOSE = pattern(r"([1-9]\d{0,8})\s*(?:/|per|a|an)\s*([a-z]+)")
_FIX = f"write N/{', N/'.join(SECONDS)} or {_UNLIMITED}, such as 50/day"


def read_access(fields: Fields) -> Access:
    """Return the `access` of a contract's exports; `rate_limit` may stand beside it too.

    Args:
        fields: The `exports`.

    Raises:
        InvalidSkill: A part is not what it must be, or names a tool that is not exported.
    """
    body = fields.below("access")
    body.closed(ACCESS_KEYS, "`access`")
    free, names = body.texts("free_tools"), set(_names(fields))
    for index, name in enumerate(free):
        _require_exported(body, body.at("free_tools", index), name, (names, {*free}))
    return Access(_flag(body), free, _rates(fields, body, names))


def _flag(body: Fields) -> bool:
    value = body.values.get("requires_subscription", False)
    if not isinstance(value, bool):
        raise body.fail("requires_subscription", "must be true or false", "write it without quotes")
    return value


def _rates(fields: Fields, body: Fields, names: set[str]) -> dict[str, Rate | None]:
    if "rate_limit" in fields and "rate_limit" in body:
        fix = "keep the one in `access`"
        raise fields.fail("rate_limit", "the rate limit is given in two places", fix)
    holder = fields if "rate_limit" in fields else body
    if "rate_limit" not in holder:
        return {}
    value = holder.values["rate_limit"]
    if not isinstance(value, Mapping):
        return {ALL_TOOLS: _rate(holder, holder.at("rate_limit"), value)}
    limits = holder.below("rate_limit")
    for name in limits.values:
        _require_exported(limits, limits.at(name), name, (names, {*limits.values}))
    return {name: _rate(limits, limits.at(name), each) for name, each in limits.values.items()}


def _rate(fields: Fields, path: KeyPath, value: Any) -> Rate | None:
    if value == _UNLIMITED:
        return None
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        for unit in SECONDS:
            if found[2] == unit:
                return Rate(int(found[1]), unit)
    message = f"`{value}` is no rate"
    raise InvalidSkill(fields.document.finding("CH0507", path, message, _meant(value) or _FIX))


def _meant(value: Any) -> str | None:
    """Return what to write for a rate that is written in another way, None where nobody knows."""
    found = _LOOSE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        return None
    short = {"s": "second", "h": "hour", "hr": "hour", "d": "day", "sec": "second", "min": "minute"}
    unit = short.get(found[2].removesuffix("s") or "s") or nearest(found[2], SECONDS)
    return None if unit is None else f"write `{found[1]}/{unit}`"


def _names(fields: Fields) -> Iterator[str]:
    """Yield the names of the exported tools, in whichever form they stand."""
    for _, value in fields.items("tools"):
        name: Any = value
        if isinstance(value, Mapping):
            name = cast("Mapping[str, Any]", value).get("name")
        if isinstance(name, str):
            yield name


def _require_exported(
    fields: Fields, path: KeyPath, name: str, known: tuple[set[str], set[str]]
) -> None:
    """Refuse a name that is not exported.

    Args:
        fields: The mapping around it.
        path: Where it stands.
        name: What is named there.
        known: The exported names, and those that are named beside it.
    """
    names, others = known
    if name in names:
        return
    listed = ", ".join(sorted(names)) or "nothing"
    fix = did_you_mean(name, sorted(names - others)) or f"the skill exports: {listed}"
    message = f"`{name}` is not among the exported tools"
    is_key = path[-1] == name
    raise InvalidSkill(fields.document.finding("CH0506", path, message, fix, key=is_key))


REQUIRES_KEYS = ("tools", "optional_tools", "bins", "env", "os", "python")

_EXPORTS_KEYS = (
    *("api_version", "tools", "contracts", "access", "deprecated", "rate_limit"),
    "data_paths",
)
_TOOL_KEYS = ("name", "description", "input_schema", "output_schema", *FACT_KEYS)
_IMPORT_KEYS = ("from", "tools", "min_version", "data_paths")
_SYSTEMS = {"darwin": "macos", "macos": "macos", "linux": "linux"} | {
    "windows": "windows",
    "win32": "windows",
}
_NAME = pattern(r"[A-Za-z0-9_-]{1,64}")
_VERSION = pattern(r"(\d{1,9})\.(\d{1,9})")


def api_version(value: str) -> tuple[int, int] | None:
    """Return `MAJOR.MINOR` as numbers, None for anything else."""
    match = _VERSION.fullmatch(value)
    return None if match is None else (int(match[1]), int(match[2]))


def read_exports(contract: Fields) -> Exports:
    """Return the `exports` of a contract, without who may call them and what goes.

    Raises:
        InvalidSkill: A part is not what it must be.
    """
    if "exports" not in contract:
        return Exports()
    body = contract.below("exports")
    body.closed(_EXPORTS_KEYS, "`exports`")
    version = "api_version" in body
    return Exports(
        _version(body, "api_version", "CH0501") if version else "",
        _exported_tools(body),
        body.place("api_version") if version else body.document.place(body.path, key=True),
    )


def _exported_tools(body: Fields) -> tuple[ExportedTool, ...]:
    contracts = body.below("contracts")
    tools: dict[str, ExportedTool] = {}
    for path, value in body.items("tools"):
        tool = _exported_tool(body, path, value, contracts)
        if tool.name in tools:
            message = f"the tool `{tool.name}` is exported twice"
            fix = f"remove one; the other stands in line {tools[tool.name].place.line}"
            raise InvalidSkill(body.document.finding("CH0502", path, message, fix))
        tools[tool.name] = tool
    for name in contracts.values:
        if name not in tools:
            free = [each for each in tools if each not in contracts]
            fix = did_you_mean(name, free) or f"add `{name}` to `tools`"
            message = f"`{name}` is not among the exported tools"
            path = contracts.at(name)
            raise InvalidSkill(body.document.finding("CH0502", path, message, fix, key=True))
    return tuple(tools.values())


def _exported_tool(body: Fields, path: KeyPath, value: Any, contracts: Fields) -> ExportedTool:
    """Return a tool that is written in full, or as a name with its schemas in `contracts`."""
    place = body.document.place(path)
    if isinstance(value, str):
        name, fields = value, contracts.below(value)
    else:
        fields = Fields.of(body.document, path, value)
        if "name" not in fields:
            fields.closed(_TOOL_KEYS, "an exported tool")
            raise fields.fail(None, "an exported tool needs `name`", "add `name: ...`")
        name, place = fields.text("name"), fields.place("name")
    fields.closed(_TOOL_KEYS, "an exported tool")
    if _NAME.fullmatch(name) is None:
        message = f"`{name}` is no name of a tool"
        fix = "use letters, digits, `_` and `-`, at most 64 of them"
        raise InvalidSkill(place.finding("CH0502", "error", message, fix))
    schemas = [_schema(fields, key) for key in ("input_schema", "output_schema")]
    facts = read_tool_facts(fields)
    return ExportedTool(name, place, fields.text("description"), *schemas, facts=facts)


def _schema(fields: Fields, key: str) -> Mapping[str, Any] | None:
    if key not in fields:
        return None
    schema = fields.below(key).values
    problem = schema_problem(schema)
    if problem is not None:
        message = f"the schema is not valid: {problem.message}"
        path = fields.at(key, *problem.path)
        raise InvalidSkill(fields.document.finding(problem.code, path, message, problem.fix))
    return schema


def _version(fields: Fields, key: str, code: str) -> str:
    value = fields.values[key]
    if isinstance(value, str) and api_version(value) is not None:
        return value
    message = f"{key} must be `MAJOR.MINOR` in quotes"
    fix = f'write `{key}: "{_guess(value)}"`'
    raise InvalidSkill(fields.document.finding(code, fields.at(key), message, fix))


def _guess(value: Any) -> str:
    match = re.match(r"v?(\d{1,9})(?:\.(\d{1,9}))?", str(value))
    return "1.0" if match is None else f"{match[1]}.{match[2] or 0}"


def read_imports(contract: Fields) -> tuple[Import, ...]:
    """Return the `imports` of a contract.

    Raises:
        InvalidSkill: A part is not what it must be.
    """
    return tuple(
        _import(Fields.of(contract.document, path, value))
        for path, value in contract.items("imports")
    )


def _import(body: Fields) -> Import:
    body.closed(_IMPORT_KEYS, "an import")
    for key in ("from", "tools"):
        if key not in body:
            raise body.fail(None, f"an import needs `{key}`", f"add `{key}: ...`")
    tools = tuple(
        Named(text(body.document, path, value), body.document.place(path))
        for path, value in body.items("tools")
    )
    versioned = "min_version" in body
    return Import(
        body.text("from"),
        body.place("from"),
        tools,
        _version(body, "min_version", "CH0605") if versioned else "",
        body.place("min_version") if versioned else None,
    )


def read_requires(contract: Fields) -> Requires:
    """Return what a contract requires; `required_tools` is another spelling of `requires.tools`.

    Raises:
        InvalidSkill: A part is not what it must be.
    """
    body = contract.below("requires")
    body.closed(REQUIRES_KEYS, "`requires`")
    tools: dict[str, Place] = {}
    for path, value in (*body.items("tools"), *contract.items("required_tools")):
        tools.setdefault(text(body.document, path, value), body.document.place(path))
    return Requires(
        tuple(tools),
        body.texts("bins"),
        body.texts("env"),
        tuple(_system(body, path, value) for path, value in body.items("os")),
        body.texts("python"),
        body.place() if "requires" in contract else None,
        tuple(tools.values()),
        body.texts("optional_tools"),
    )


def _system(body: Fields, path: KeyPath, value: Any) -> str:
    system = _SYSTEMS.get(value.lower()) if isinstance(value, str) else None
    if system is None:
        close = did_you_mean(value.lower(), _SYSTEMS) if isinstance(value, str) else None
        fix = close or "use linux, macos or windows"
        raise body.document.fail(path, f"`{value}` is no system", fix)
    return system
