"""Whether a JSON Schema is one, and what a model's provider would say to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

from clawhive_core.diagnostics.finding import Severity
from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
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
    """Where a schema is not valid, and why."""

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
    for part in path:
        value = value[part]
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
