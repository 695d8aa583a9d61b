"""One call of a `@tool` function."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.errors import ClawHiveError, ToolError
from clawhive_core.model.tools import ToolResult
from clawhive_core.plugins.result import to_result
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
