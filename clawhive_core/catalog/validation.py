"""Schemas: compiled once, by jsonschema-rs, else by jsonschema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema, ToolMeta

_MAX_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One place where a value fails its schema."""

    path: str
    """A JSON pointer into the value, empty for the whole."""
    message: str


Check = Callable[[Any], list[SchemaProblem]]
"""Returns what is wrong with a value; empty where nothing is."""


class Validators:
    """Compiled schemas by key (a contract hash), so that each is compiled once."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def problems(self, key: str, schema: JsonSchema, value: Any) -> list[SchemaProblem]:
        """Return where `value` fails `schema`, at most five places."""
        check = self._checks.get(key)
        if check is None:
            check = self._checks[key] = compile_schema(schema)
        return check(value)


def compile_schema(schema: JsonSchema) -> Check:
    """Return a check for a JSON Schema (draft 2020-12 unless it says otherwise).

    References to other documents are not followed: a tool's schema reads no file and no address. A
    schema that cannot be compiled refuses every value, with the reason.
    """
    try:
        return _compiled(schema)
    except _Unusable as error:
        problem = SchemaProblem("", f"the tool's schema cannot be used: {error}")
        return lambda _: [problem]


def unusable(meta: ToolMeta) -> str | None:
    """Return why no input could be checked against a tool's schema, or None."""
    try:
        _compiled(meta.input_schema)
    except _Unusable as error:
        return f"its input schema cannot be used: {error}"
    return None


class _Unusable(Exception):
    """A schema that cannot be compiled; the text says why."""


def _compiled(schema: JsonSchema) -> Check:
    try:
        import jsonschema_rs
    except ImportError:
        return _fallback(schema)
    try:
        validator: Any = jsonschema_rs.validator_for(dict(schema), retriever=_retrieve_nothing)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise _Unusable(preview(str(error))) from error

    def check(value: Any) -> list[SchemaProblem]:
        try:
            if validator.is_valid(value):
                return []
            found: list[Any] = list(islice(validator.iter_errors(value), _MAX_PROBLEMS))
        except (ValueError, RecursionError) as error:
            return [SchemaProblem("", f"it cannot be checked: {preview(str(error))}")]
        return [_problem(error.instance_path, error.message) for error in found]

    return check


def _fallback(schema: JsonSchema) -> Check:
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from referencing import Registry
    except ImportError as error:
        raise _Unusable("no JSON Schema library: pip install jsonschema-rs") from error
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise _Unusable(preview(str(error))) from error
    validator: Any = Draft202012Validator(schema, registry=Registry())

    def check(value: Any) -> list[SchemaProblem]:
        try:
            found: list[Any] = list(islice(validator.iter_errors(value), _MAX_PROBLEMS))
        except Exception as error:  # noqa: BLE001 - an unresolvable reference has many classes
            return [SchemaProblem("", f"it cannot be checked: {preview(str(error))}")]
        return [_problem(error.absolute_path, error.message) for error in found]

    return check


def _retrieve_nothing(uri: str) -> Any:
    raise ValueError(f"a tool's schema may not refer to {uri}")


def _problem(path: Iterable[str | int], message: str) -> SchemaProblem:
    """Return a problem, its place as a JSON pointer (RFC 6901)."""
    pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return SchemaProblem(pointer, preview(message))


def describe(problems: list[SchemaProblem]) -> str:
    """Return the problems as one sentence for the caller."""
    return "; ".join(f"{problem.path or 'the input'}: {problem.message}" for problem in problems)
