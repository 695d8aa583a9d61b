"""The core tool `run_program`: a model's program that calls tools as async functions.

One program takes the place of many turns, and only what it returns and prints goes back to the
model: "code mode", after smolagents and Cloudflare's. The functions are made from the tools'
schemas; each call of one goes through the executor like any other, with a decision of its own.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from clawhive_core.catalog.catalog import Catalog
from clawhive_core.errors import ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.core_tools import CoreTool
from clawhive_core.execution.handlers.handlers import HandlerRequests, run_in_first
from clawhive_core.execution.sandbox.tools import LIMIT_TEXT
from clawhive_core.execution.scope import CORE
from clawhive_core.model.tools import ToolDef, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext, Stream
from clawhive_core.protocols.sandbox import (
    HandlerCall,
    HandlerEngine,
    HandlerOutcome,
    Isolation,
    SandboxEngine,
    SandboxLimits,
    Unsupported,
)

RUN_PROGRAM = "run_program"

_SCRIPT = "program.py"
_PRINTED = 16 * 1024
"""Bytes of what a program printed that go back to the model; the last ones."""
_DOC = 200
_DESCRIPTION = """\
Run one Python program that calls tools; prefer it to many single calls. Define \
`async def main():` and return a JSON value from it: only that value and what the program prints \
come back. The tools are async functions that exist already (await them; asyncio.gather runs \
several at once). Each answers a JSON value; a call that is refused or fails raises RuntimeError \
with its code and reason. There are no files and no network but by these functions."""
_META = ToolMeta(
    name=RUN_PROGRAM,
    description=_DESCRIPTION,
    input_schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["code"],
        "properties": {
            "code": {
                "type": "string",
                "description": "The program, which defines `async def main():`.",
                "maxLength": 200_000,
            }
        },
    },
    output_schema={
        "type": "object",
        "required": ["value", "printed", "engine", "engine_version", "isolation"],
        "properties": {"printed": {"type": "string"}, "engine": {"type": "string"}},
    },
    provider_id=CORE,
    capability_level="L2",
    risk="safe",
    effects={"": "sandbox.exec:python"},
    timeout_ms=600_000,
    category="sandbox",
    keywords=("code", "program", "many", "calls"),
)


def function_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names under which a program calls tools, to the tools' canonical names.

    `file.read` is `file_read`; of several tools that come to one name, and of those that come to
    a word of the language, each gets its place among them behind it.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        plain = "".join(char if char.isalnum() else "_" for char in name)
        plain = plain if plain.isidentifier() else f"t_{plain}"
        found.setdefault(plain, []).append(name)
    table: dict[str, str] = {}
    for plain, several in found.items():
        taken = len(several) > 1 or keyword.iskeyword(plain) or hasattr(builtins, plain)
        for number, name in enumerate(several, 1):
            table[f"{plain}_{number}" if taken else plain] = name
    return table


def with_returns(tool: ToolDef, catalog: Catalog) -> ToolDef:
    """Return a tool as programs need it: its description says what it answers, if that is known."""
    meta = catalog.meta_of(tool.name)
    if meta is None or not meta.output_schema or "." not in tool.name:
        return tool
    description = f"{tool.description}\nReturns {_type(meta.output_schema, shown=True)}"
    return replace(tool, description=description)


def as_program(tools: Sequence[ToolDef]) -> tuple[ToolDef, ...]:
    """Return what a model is shown of its tools in code mode.

    The core's own, of one segment, stay as they are, since what they answer may concern the
    conversation; all others become functions in the description of `run_program`.
    """
    shown = [tool for tool in tools if "." not in tool.name and tool.name != RUN_PROGRAM]
    program = next((tool for tool in tools if tool.name == RUN_PROGRAM), None)
    if program is None:
        return tuple(tools)
    by_name = {tool.name: tool for tool in tools if "." in tool.name}
    stubs = [_stub(plain, by_name[name]) for plain, name in function_names(by_name).items()]
    listed = "\n".join(stubs) or "# there are none"
    description = f"{program.description}\n\n```python\n{listed}\n```"
    return (*shown, replace(program, description=description))


def program_tool(
    engines: Callable[[], Sequence[SandboxEngine]],
    limits: SandboxLimits,
    minimum: Isolation,
    catalog: Callable[[], Catalog],
) -> CoreTool:
    """Return `run_program`.

    Args:
        engines: The sandbox engines, preferred first.
        limits: What one program may use, and how many calls it may make.
        minimum: The weakest isolation in which one may run.
        catalog: The catalog of today, whose tools programs call.
    """

    async def run(input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        context = cast("ToolContext", ctx)  # the executor's own, which alone calls providers
        code = str(input["code"])
        source = source_of(code, [tool.meta for tool in catalog()])
        printed = bytearray()

        def output(stream: Stream, data: bytes) -> None:
            printed.extend(data)
            del printed[:-_PRINTED]
            context.output("stderr" if stream == "stderr" else "stdout", data)

        call = HandlerCall(source, _SCRIPT, _ENTRY, {}, {}, limits)
        host = HandlerRequests(context, limits.tool_calls)
        refusals: list[ToolError] = []
        ended = await run_in_first(engines(), minimum, call, host, output, _unsupported, refusals)
        if ended is None:
            raise refusals[0] if refusals else _no_engine()
        engine, outcome = ended
        return _result(ctx.tool_call_id, engine, outcome, limits, bytes(printed))

    return CoreTool(_META, run)


def source_of(code: str, tools: Iterable[ToolMeta]) -> str:
    """Return a program with the functions that it uses behind it, so that its lines keep theirs.

    Raises:
        ToolError: `invalid_input`: it is no Python, or has no `async def main():`.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ToolError(
            f"{_SCRIPT}:{line}: {getattr(error, 'msg', error)}",
            code="invalid_input",
            place="/code",
            fix="mend the program",
        ) from None
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef)
    }
    if "main" not in defined:
        raise ToolError(
            "the program defines no `main`",
            code="invalid_input",
            place="/code",
            fix="write `async def main():` around it, and return the value from there",
        )
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    metas = {meta.name: meta for meta in tools if "." in meta.name}
    table = function_names(metas)
    functions = [
        _function(plain, metas[table[plain]]) for plain in sorted(used - defined) if plain in table
    ]
    return "\n".join([code, _RUNTIME, *functions])


_ENTRY = "_main_"
_RUNTIME = """
_unset_ = ["not given"]
async def _call_(name, given):
    chosen = {}
    for key in given:
        if given[key] is not _unset_:
            chosen[key] = given[key]
    value = await _context_[0].call(name, chosen)
    if isinstance(value, dict):
        code, message = value.get("error"), value.get("message")
        if isinstance(code, str) and isinstance(message, str):
            raise RuntimeError(code + ": " + message)
    return value
_context_ = [None]
async def _main_(input, ctx):
    _context_[0] = ctx
    value = main()
    if str(type(value)) == "<class 'coroutine'>":
        value = await value
    return value
"""


def _function(plain: str, meta: ToolMeta) -> str:
    name = json.dumps(meta.name)
    if (fields := _fields(meta.input_schema)) is None:
        return f"async def {plain}(**given):\n    return await _call_({name}, given)"
    words = ", ".join(field if required else f"{field}=_unset_" for field, _, required in fields)
    given = ", ".join(f'"{field}": {field}' for field, _, _ in fields)
    return f"async def {plain}({words}):\n    return await _call_({name}, {{{given}}})"


def _stub(plain: str, tool: ToolDef) -> str:
    fields = _fields(tool.parameters)
    words = "**arguments: Any"
    if fields is not None:
        words = ", ".join(
            f"{field}: {_type(schema)}{'' if required else ' = ...'}"
            for field, schema, required in fields
        )
    text, _, returns = tool.description.partition("\nReturns ")
    line = " ".join(text.split())[:_DOC]
    return f"async def {plain}({words}) -> {returns or 'Any'}: ...  # {line}"


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, Any, bool]] | None:
    """Return the arguments, required ones first; None where they cannot be Python's own.

    Their order is that of `required` and of the alphabet: the log keeps no order of properties.
    """
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or ()
    if any(not name.isidentifier() or keyword.iskeyword(name) for name in properties):
        return None
    if not properties and schema.get("additionalProperties", True) is not False:
        return None
    first = [name for name in required if name in properties]
    others = sorted(set(properties) - set(first))
    return [(name, properties[name], name in first) for name in (*first, *others)]


_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "None",
}
_DEPTH = 3
_FEW = 8


def _type(schema: Any, depth: int = 0, *, shown: bool = False) -> str:
    """Return a schema as a Python type; with `shown` an object as its fields."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return "Any"
    facts = cast("dict[str, Any]", schema)
    options = facts.get("enum")
    if isinstance(options, list) and len(cast("list[Any]", options)) <= _FEW:
        return f"Literal[{', '.join(repr(each) for each in cast('list[Any]', options))}]"
    if alternatives := _alternatives(facts):
        parts = [_type(each, depth + 1, shown=shown) for each in alternatives]
        return " | ".join(dict.fromkeys(parts))
    kind = facts.get("type")
    if kind == "array" and "items" in facts:
        return f"list[{_type(facts['items'], depth + 1, shown=shown)}]"
    if kind == "object" and shown and facts.get("properties"):
        fields: Mapping[str, Any] = facts["properties"]
        parts = [f'"{name}": {_type(each, depth + 1, shown=True)}' for name, each in fields.items()]
        return f"{{{', '.join(parts)}}}"
    return _TYPES.get(str(kind), "Any")


def _alternatives(facts: Mapping[str, Any]) -> list[Any]:
    either = facts.get("anyOf") or facts.get("oneOf")
    if isinstance(either, list):
        return cast("list[Any]", either)
    kinds = facts.get("type")
    if not isinstance(kinds, list):
        return []
    return [{**facts, "type": each} for each in cast("list[Any]", kinds)]


def _unsupported(engine: HandlerEngine, problem: Unsupported) -> ToolError:
    return ToolError(
        f"line {problem.line}: the engine `{engine.name}` cannot run {problem.what}",
        code="sandbox_unavailable",
        place=f"{_SCRIPT}:{problem.line}:{problem.column}",
        fix="write the program without that",
    )


def _no_engine() -> ToolError:
    return ToolError(
        "no sandbox engine here runs programs that call tools",
        code="sandbox_unavailable",
        fix="switch the plugin `builtin` on",
    )


def _result(
    call_id: str,
    engine: HandlerEngine,
    outcome: HandlerOutcome,
    limits: SandboxLimits,
    printed: bytes,
) -> ToolResult:
    text = printed.decode("utf-8", "replace")
    facts = {
        "value": outcome.value,
        "printed": text,
        "engine": engine.name,
        "engine_version": getattr(engine, "version", ""),
        "isolation": engine.isolation,
    }
    if outcome.killed_by is None and outcome.error is None:
        shown = json.dumps(outcome.value, ensure_ascii=False)
        return ToolResult(call_id, f"{text}{shown}", structured=facts)
    if outcome.killed_by is not None:
        why = LIMIT_TEXT[outcome.killed_by].format(limits)
        error = {"code": "limit_reached", "message": f"the program was stopped: {why}"}
    else:
        place = f"{_SCRIPT}:{outcome.line}: " if outcome.line is not None else ""
        error = {"code": "program_failed", "message": f"{place}{outcome.error}"}
    return ToolResult(
        call_id,
        f"{text}[{error['message']}]",
        is_error=True,
        structured={**facts, "error": error},
    )
