"""One call of a `@tool` function, and its value as a ToolResult."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, cast

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.errors import ClawHiveError, ToolError
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.json_values import MAX_STRUCTURED, is_larger
from clawhive_core.model.tools import ToolResult
from clawhive_core.plugins.tool import ToolDeclaration
from clawhive_core.protocols.context import InvokeContext


async def invoke(
    declaration: ToolDeclaration, input: Mapping[str, Any], ctx: InvokeContext
) -> ToolResult:
    """Call a tool function with a JSON input and return its result.

    An `async def` is awaited; a `def` runs in a worker thread, which a cancelled call leaves behind
    (Python cannot stop a thread).

    Raises:
        ToolError: `invalid_input`, `invalid_output`, the tool's own, or `tool_failed` for any other
            exception, with its file:line.
    """
    arguments = declaration.schema.arguments(input, ctx)
    return await invoke_with(declaration, arguments, ctx.tool_call_id)


async def invoke_with(
    declaration: ToolDeclaration, arguments: Mapping[str, Any], tool_call_id: str
) -> ToolResult:
    """Call a tool function with Python arguments, as `invoke` does once it has them.

    Raises:
        ToolError: As `invoke`.
    """
    function = declaration.function
    try:
        if inspect.iscoroutinefunction(function):
            value = await function(**arguments)
        else:
            value = await _in_thread(function, arguments)
        return to_result(value, tool_call_id)
    except ClawHiveError:
        raise
    except (
        Exception,
        SystemExit,
    ) as error:  # the isolation boundary: a tool's code may do anything
        raise _failure(declaration, error) from error


async def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    from asyncio import CancelledError, ensure_future, shield, wait

    from anyio import to_thread

    def call() -> Any:
        try:
            value = function(**arguments)
        except StopIteration as error:  # would end the waiting coroutine instead of failing it
            raise RuntimeError("StopIteration") from error
        if inspect.iscoroutine(value):
            value.close()
            raise ToolError(
                "the tool function returned a coroutine",
                fix="declare it with `async def`",
                code="invalid_output",
            )
        return value

    def outcome() -> tuple[Any, BaseException | None]:
        try:
            return call(), None
        except BaseException as error:  # noqa: BLE001 - raised again below: a task must not end by SystemExit
            return None, error

    # Cancelled, this waits for the thread, which nothing can stop: only so can the executor tell a
    # tool that stopped from one that it must call abandoned. It cancels twice.
    thread = ensure_future(to_thread.run_sync(outcome, abandon_on_cancel=True))
    try:
        value, error = await shield(thread)
    except CancelledError:
        with suppress(CancelledError):
            await wait((thread,))
        await wait((thread,))
        raise
    if error is not None:
        raise error
    return value


def _failure(declaration: ToolDeclaration, error: BaseException) -> ToolError:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    source = inspect.unwrap(declaration.function).__code__.co_filename
    own = [frame for frame in frames if frame.filename == source]
    place = f"{shown_path(own[-1].filename)}:{own[-1].lineno}" if own else declaration.place
    text = str(error)
    name = type(error).__name__
    return ToolError(
        f"{name}: {text}" if text else name,
        place=place,
        fix="this is an error of the tool itself; report it to the plugin's author",
        data={"exception": name},
    )


@cache
def _leaves() -> tuple[type[Any], ...]:
    from decimal import Decimal
    from uuid import UUID

    return dt.date, dt.time, dt.timedelta, Decimal, UUID, PurePath, set, frozenset


def to_result(value: object, tool_call_id: str) -> ToolResult:
    """Return a tool function's value as the result of the call.

    A ToolResult stays as it is, text is the output, None an empty one. Dicts, lists, tuples,
    numbers, booleans, dataclasses and pydantic models become structured, with their canonical JSON
    as text; dates, paths and the like may stand inside them.

    Raises:
        ToolError: `invalid_output` for everything else; `place` is the JSON pointer of what has no
            JSON form.
    """
    if isinstance(value, ToolResult):
        return dataclasses.replace(value, tool_call_id=tool_call_id)
    if value is None:
        return ToolResult(tool_call_id, "")
    if isinstance(value, str):
        return ToolResult(tool_call_id, str(value.value if isinstance(value, Enum) else value))
    if not _is_structure(value):
        raise _invalid(value, "")
    try:
        structured = _json(value, "")
        # What is refused for its size gets no text, which would be as large.
        text = "" if is_larger(structured, MAX_STRUCTURED) else canonical_text(structured)
        return ToolResult(tool_call_id, text, structured=structured)
    except (RecursionError, ValueError) as error:  # or a number of thousands of digits
        raise ToolError(
            "the tool returned a value that cannot be written: nested too deeply, or too large",
            fix="return a flat value",
            code="invalid_output",
        ) from error


def _is_structure(value: object) -> bool:
    if isinstance(value, int | float | list | tuple | Mapping):
        return True
    return not isinstance(value, type) and (
        dataclasses.is_dataclass(value) or hasattr(value, "model_dump")
    )


def _json(value: Any, place: str) -> Any:
    """Return the JSON form of a value."""
    if isinstance(value, Enum):
        return _json(value.value, place)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise _invalid(value, place)
    if isinstance(value, Mapping):
        return _json_object(cast("Mapping[Any, Any]", value), place)
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_json(item, f"{place}/{index}") for index, item in enumerate(items)]
    return _json_of_instance(value, place)


def _json_object(value: Mapping[Any, Any], place: str) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise _invalid(key, place, "as a key, which must be text")
    return {str(key): _json(item, f"{place}/{key}") for key, item in value.items()}


def _json_of_instance(value: Any, place: str) -> Any:
    if isinstance(value, type):
        raise _invalid(value, place)
    if hasattr(value, "model_dump"):
        return _json(value.model_dump(mode="json", by_alias=True), place)
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {
            field.name: _json(getattr(value, field.name), f"{place}/{field.name}")
            for field in fields
        }
    if isinstance(value, _leaves()):
        return _json_of_leaf(value, place)
    raise _invalid(value, place)


def _json_of_leaf(value: Any, place: str) -> Any:
    """Write dates, paths and the like as pydantic does, since the schema is pydantic's."""
    if isinstance(value, set | frozenset):
        members = [_json(item, place) for item in cast("set[Any]", value)]
        return sorted(members, key=canonical_text)
    if isinstance(value, PurePath):
        return str(value)
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def _invalid(value: object, place: str, role: str = "") -> ToolError:
    what = repr(value) if isinstance(value, float) else f"a {type(value).__qualname__}"
    where = f" at {place}" if place else ""
    return ToolError(
        f"the tool returned {what}{where}{' ' if role else ''}{role}, which has no JSON form",
        place=place or None,
        fix="return text, a number, a dict, a list, a dataclass, a pydantic model or a ToolResult",
        code="invalid_output",
    )
