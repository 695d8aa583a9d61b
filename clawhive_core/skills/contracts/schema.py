"""The schemas of a contract: what validators, providers and ECMA 262 refuse of them.

Source: JSON Schema 2020-12, core 6.4 "Regular Expressions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, cast

from clawhive_core.diagnostics.finding import Finding, Severity
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.model.effects import beyond_own_state, risk_of
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import KeyPath

_REFS = ("$ref", "$dynamicRef")
_DATA = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values, not schemas."""
_SPLIT = ("anyOf", "oneOf", "allOf", "not", "enum", "const")
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_KEY_IS_NO_TEXT = "key must be str"
_PROPERTY = pattern(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class SchemaMistake:
    """A place where a schema is not valid, and why."""

    path: KeyPath
    message: str
    code: str = "CH0503"
    severity: Severity = "error"
    fix: str | None = None


def schema_problem(schema: Mapping[str, Any]) -> SchemaMistake | None:
    """Return the first mistake of a JSON Schema (draft 2020-12 unless it says otherwise)."""
    if schema == {"type": "object"}:
        return None
    try:
        import jsonschema_rs
    except ImportError:
        return _second_library(schema)
    try:
        jsonschema_rs.validator_for(dict(schema), retriever=_retrieve_nothing)
    except jsonschema_rs.ValidationError as error:
        if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
            return _unresolved(schema, error.message)
        path = tuple(error.instance_path)
        return SchemaMistake(path, error.message[:200], fix=_type_meant(schema, path))
    except ValueError as error:
        told = _KEY_IS_NO_TEXT in str(error)  # by the document, with the place (CH0231)
        return None if told else SchemaMistake((), str(error)[:200])
    return None


def _type_meant(schema: Mapping[str, Any], path: KeyPath) -> str | None:
    """Return the suggestion for a type that is misspelt."""
    if not path or path[-1] != "type":
        return None
    value: Any = schema
    try:
        for part in path:
            value = value[part]
    except (LookupError, TypeError):  # the library leaves out an empty key
        return None
    return did_you_mean(value, _TYPES) if isinstance(value, str) else None


def _references(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield each reference with its place; the depth is bounded by the document's."""
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[Any, Any]", value).items():
            if key in _REFS and isinstance(each, str):
                yield (*path, key), each
            elif key not in _DATA:
                yield from _references(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from _references(each, (*path, index))


def _unresolved(schema: Mapping[str, Any], said: str) -> SchemaMistake:
    """Return the first reference that leads nowhere within the schema: none is ever fetched."""
    refs = list(_references(schema, ()))
    if not any(ref.lstrip("#") in said for _, ref in refs) and "$schema" in schema:
        message = f"`{schema['$schema']}` is no version of JSON Schema"
        return SchemaMistake(("$schema",), message, fix="remove `$schema`")
    found = (each for each in refs if each[1].lstrip("#") in said)
    path, ref = next(found, refs[0] if refs else ((), said))
    message = f"`{ref}` leads nowhere within the schema, and nothing is fetched"
    fix = "copy what it means to `$defs` and write `#/$defs/NAME`"
    return SchemaMistake(path, message, "CH0505", fix=fix)


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


def refused_by_providers(schema: Mapping[str, Any]) -> Iterator[SchemaMistake]:
    """Yield what the API of a model would refuse in the input schema of a tool.

    Every API wants an object at the root. OpenAI's refuses a root that is split into cases, and
    Anthropic's names of properties beyond letters, digits, `_`, `.` and `-`, 64 of them.
    """
    kind: Any = schema.get("type", "object")
    if kind != "object":
        message = f"the root is `{kind}`, and every model's API wants an object"
        fix = "write `type: object`, with the value as a property"
        yield SchemaMistake(("type",), message, "CH0504", fix=fix)
    for key in _SPLIT:
        if key in schema:
            message = f"`{key}` at the root of an input schema is refused by some models' APIs"
            fix = "move it into a property"
            yield SchemaMistake((key,), message, "CH0504", "warning", fix)
    properties: Any = schema.get("properties", {})
    for name in properties:
        if isinstance(name, str) and _PROPERTY.fullmatch(name) is None:
            message = f"the property `{name}` is refused by some models' APIs"
            fix = "use letters, digits, `_`, `.` and `-`, at most 64 of them"
            yield SchemaMistake(("properties", name), message, "CH0504", "warning", fix)


def _second_library(schema: Mapping[str, Any]) -> SchemaMistake | None:
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
    except ImportError:  # the executor refuses the call then, and names the library to install
        return None
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return SchemaMistake(tuple(error.absolute_path), error.message[:200])
    return None


_TOKEN = pattern(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*+\]?)"  # one that is not closed is read once too
    r"|\\(?:(?P<back>[1-9]|k<)|(?P<anchor>[AZz])|.)"
    r"|(?P<python>\(\?P[<=>])"
    r"|(?P<look>\(\?<?[=!])"
    r"|(?P<other>\(\?(?:#|>|[a-zA-Z-]+[:)])|[*+?}]\+)",
)
_NOT_ECMA = {
    "anchor": "begins or ends at `\\A`, `\\Z` or `\\z`",
    "python": "names a group by `(?P<`",
}


def check_patterns(schema: Mapping[str, Any] | None) -> Iterator[SchemaMistake]:
    """Yield the patterns of a schema that other validators refuse, or that may take long."""
    for path, text in _patterns(schema or {}, ()):
        kinds = {match.lastgroup for match in _TOKEN.finditer(text)}
        for kind in ("python", "anchor", "other"):
            if kind in kinds:
                how = _NOT_ECMA.get(kind, "has a form that only some languages know")
                message = f"the pattern `{text}` {how}, which ECMA-262 does not have"
                fix = "write `(?<NAME>`" if kind == "python" else "write it as JavaScript has it"
                yield SchemaMistake(path, message, "CH0508", "warning", fix)
                break
        else:
            if kinds & {"back", "look"}:
                message = (
                    f"the pattern `{text}` looks around or back: engines of linear time refuse it"
                )
                fix = "write it without, or split it into cases"
                yield SchemaMistake(path, message, "CH0508", "note", fix)


def _patterns(schema: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(schema, Mapping):
        for key, each in cast("Mapping[Any, Any]", schema).items():
            if key == "pattern" and isinstance(each, str):
                yield (*path, key), each
            elif key not in _DATA:
                yield from _patterns(each, (*path, key))
    elif isinstance(schema, list):
        for index, each in enumerate(cast("list[Any]", schema)):
            yield from _patterns(each, (*path, index))


CORE_NAMES = ("tool_search", "tool_enable", "read", "save", "show", "skill_open")
"""The core's tools of one segment: a handler that calls one by its bare name means these."""

NAMESPACES = ("core", "local", "mcp", "sandbox")
"""First segments of tools' names that ClawHive keeps for its own tools and for those of servers."""


def check_exports(contract: Fields, skill: Skill) -> Iterator[Finding]:
    """Yield what is wrong with the exported tools of a contract that could be read."""
    exports = skill.exports
    if not exports.tools:
        return
    if skill.id in NAMESPACES and exports.place is not None:
        message = f"`{skill.id}.` is the beginning of tools' names that are not a skill's"
        fix = f"rename the skill; kept are {', '.join(NAMESPACES)}"
        yield exports.place.finding("CH0408", "error", message, fix)
    body = contract.below("exports")
    functions: dict[str, ExportedTool] = {}
    for (path, value), tool in zip(body.items("tools"), exports.tools, strict=True):
        at = path if isinstance(value, dict) else body.at("contracts", tool.name)
        yield from _of_tool(contract, at, tool)
        yield from _of_risk(contract, at, tool, skill)
        other = functions.setdefault(tool.function, tool)
        if other is not tool:
            message = f"`{tool.name}` and `{other.name}` mean one function, `{tool.function}`"
            fix = f"rename one; the other stands in line {other.place.line}"
            yield tool.place.finding("CH0502", "error", message, fix)


def _of_tool(contract: Fields, at: KeyPath, tool: ExportedTool) -> Iterator[Finding]:
    for key, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if schema is None:
            message = f"`{tool.name}` states no {key}_schema"
            fix = f"add `{key}_schema: {{type: object, properties: ...}}`"
            yield tool.place.finding("CH0513", "error", message, fix)
    if tool.name in CORE_NAMES:
        message = f"`{tool.name}` is called like a tool of the core"
        fix = "rename it; a handler's bare name means the core's tool no more, else"
        yield tool.place.finding("CH0514", "warning", message, fix)
    yield from check_input_schema(contract, (*at, "input_schema"), tool.input_schema)
    yield from _placed(contract, (*at, "output_schema"), check_patterns(tool.output_schema))


def _of_risk(contract: Fields, at: KeyPath, tool: ExportedTool, skill: Skill) -> Iterator[Finding]:
    """Yield where a tool counts as safe and declares that it changes more than ClawHive's state.

    A risk that is not stated follows from the skill's permissions, as in the catalog.
    """
    stated, level = tool.facts.risk, tool.facts.level or "L0"
    if (stated or risk_of({"": skill.permissions})) != "safe":
        return
    why = beyond_own_state(tool.facts.effects, level, side_effects=tool.facts.side_effects)
    if why is None:
        return
    says = "declares itself safe" if stated else "states no risk, safe by the skill's permissions"
    message = f"`{tool.name}` {says}, and it {why}: it is decided as guarded outside of a sandbox"
    place = tool.place if stated is None else contract.document.place((*at, "risk"))
    fix = "write `guarded`" if stated else "add `risk: guarded`"
    if skill.risk_policy.beyond("L0", "guarded") is not None:
        fix = "name only what it touches: the skill's risk_policy caps it at safe"
    yield place.finding("CH0515", "warning", message, fix)


def check_input_schema(contract: Fields, at: KeyPath, schema: Any) -> Iterator[Finding]:
    """Yield what models' APIs would refuse in the schema that stands at a path."""
    yield from _placed(contract, at, refused_by_providers(cast("dict[str, Any]", schema or {})))
    yield from _placed(contract, at, check_patterns(schema))


def _placed(contract: Fields, at: KeyPath, mistakes: Iterable[SchemaMistake]) -> Iterator[Finding]:
    for each in mistakes:
        place = contract.document.place((*at, *each.path))
        yield place.finding(each.code, each.severity, each.message, each.fix)
