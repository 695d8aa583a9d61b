"""Whether a JSON Schema is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.place import KeyPath


@dataclass(frozen=True, slots=True)
class SchemaMistake:
    """Where a schema is not valid, and why."""

    path: KeyPath
    message: str


def schema_problem(schema: Mapping[str, Any]) -> SchemaMistake | None:
    """Return the first mistake of a JSON Schema (draft 2020-12 unless it says otherwise)."""
    if schema == {"type": "object"}:
        return None
    try:
        import jsonschema_rs
    except ImportError:
        return _second_library(schema)
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except jsonschema_rs.ValidationError as error:
        return SchemaMistake(tuple(error.instance_path), error.message[:200])
    except ValueError as error:
        return SchemaMistake((), str(error)[:200])
    return None


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
