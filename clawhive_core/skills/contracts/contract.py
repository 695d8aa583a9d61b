"""Reading a contract: exports, imports and what a skill requires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.schema import schema_problem
from clawhive_core.skills.contracts.skill import ExportedTool, Exports, Import, Requires
from clawhive_core.skills.contracts.tool_facts import KEYS as FACT_KEYS
from clawhive_core.skills.contracts.tool_facts import read_tool_facts
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Named, Place

REQUIRES_KEYS = ("tools", "bins", "env", "os", "python")

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
    )


def _system(body: Fields, path: KeyPath, value: Any) -> str:
    system = _SYSTEMS.get(value.lower()) if isinstance(value, str) else None
    if system is None:
        close = did_you_mean(value.lower(), _SYSTEMS) if isinstance(value, str) else None
        fix = close or "use linux, macos or windows"
        raise body.document.fail(path, f"`{value}` is no system", fix)
    return system
