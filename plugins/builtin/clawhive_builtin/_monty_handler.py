"""One call of a skill's handler, in one worker process of the engine `monty`.

The worker has no directory at all. What the handler asks its `ctx` for comes out here, several at
once where it gathers them, and is answered by the host.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import anyio

from clawhive_builtin._monty_worker import (
    UNCOUNTED,
    WORKER_ITSELF,
    Worker,
    limit_behind,
    no_worker,
    not_started,
)
from clawhive_core import HandlerCall, HandlerHost, HandlerOutcome, ToolError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from pydantic_monty import (
        AsyncFunctionSnapshot,
        AsyncFutureSnapshot,
        AsyncMontySession,
        ExternalSettledResult,
        MontyError,
        OSPolicy,
    )

    from clawhive_core import Limit, Stream

LONGEST = 16 * 1024 * 1024
"""Characters of JSON that a handler's value may take."""

_ASK = "_ask_"
"""The function of the engine that the methods of `ctx` call."""
_BEFORE = """
import json as _json_
_len_, _str_, _type_, _unsound_ = len, str, type, (TypeError, ValueError)
class Context:
    def __init__(self, facts):
        {facts}
    def call(self, *args, **kwargs):
        return _ask_("call", args, kwargs)
    def read(self, *args, **kwargs):
        return _ask_("read", args, kwargs)
    def save(self, *args, **kwargs):
        return _ask_("save", args, kwargs)
    def show(self, *args, **kwargs):
        return _ask_("show", args, kwargs)
def _text_(value):
    try:
        text = _json_.dumps(value)
    except _unsound_ as error:
        return None, _str_(error)
    if _len_(text) > {longest}:
        return None, "its JSON is longer than {longest} characters"
    return text, None
"""
_CALL = """
_value_ = {function}(_input_, _ctx_)
if _str_(_type_(_value_)) == "<class 'coroutine'>":
    _value_ = await _value_
_text_(_value_)
"""
_MODULE = "<python-input-1>"
"""The engine's name of the second text of a session: the handler's module."""


class _Methods:
    """The methods of `ctx`: bound here, because the engine loses the place of a wrong call."""

    def call(self, name: str, input: Any = None) -> None: ...
    def read(self, path: str) -> None: ...
    def save(self, path: str, data: Any) -> None: ...
    def show(self, card_type: str, data: Any = None) -> None: ...


_SIGNATURES: Mapping[str, inspect.Signature] = {
    name: inspect.signature(method)
    for name, method in vars(_Methods).items()
    if inspect.isfunction(method)
}


class HandlerJob:
    """One run of a handler.

    Args:
        call: What to run.
        host: Answers what it asks for.
        output: Told of what it prints.
        policy: The clock and randomness that it sees.
    """

    def __init__(
        self,
        call: HandlerCall,
        host: HandlerHost,
        output: Callable[[Stream, bytes], None],
        policy: OSPolicy,
    ) -> None:
        self._call, self._host, self._output, self._policy = call, host, output, policy
        self._room = {"stdout": call.limits.stdout_bytes, "stderr": call.limits.stderr_bytes}
        self._asked: set[int] = set()
        """The calls of `ctx` that were not answered to the handler yet."""
        self._settled: dict[int, ExternalSettledResult] = {}
        self._news = anyio.Event()
        self._fatal: BaseException | None = None
        self._killed_by: Limit | None = None
        self._worker: Worker | None = None

    async def run(self) -> HandlerOutcome | MontyError:
        """Run the handler to its end.

        Returns:
            How it ended; the engine's error where it refuses the module's syntax.

        Raises:
            SandboxUnavailable: The engine cannot start here.
        """
        from pydantic_monty import AsyncMonty, MontyError

        try:
            pool = AsyncMonty(min_processes=1, max_processes=1)
            await pool.__aenter__()
        except (OSError, RuntimeError) as error:
            raise not_started(error) from error
        try:
            async with pool.checkout(**self._checkout()) as session:
                self._worker = _worker(session, self._call.limits.memory_bytes)
                return await self._drive(session)
        except MontyError as error:
            return self._failed(error)  # the worker died while its session was opened or closed
        finally:
            if self._worker is not None:
                self._worker.release()
            await pool.__aexit__(None, None, None)

    def _checkout(self) -> dict[str, Any]:
        return {
            "script_name": self._call.script,
            "limits": {
                "max_memory": self._call.limits.memory_bytes,
                "max_suspensions": UNCOUNTED,
            },
            "os_policy": self._policy,
            "assert_message_annotations": False,
        }

    async def _drive(self, session: AsyncMontySession) -> HandlerOutcome | MontyError:
        ended: HandlerOutcome | MontyError = HandlerOutcome()
        async with anyio.create_task_group() as group:
            ended = await self._both(session, group)
            group.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        return ended

    async def _both(
        self, session: AsyncMontySession, group: TaskGroup
    ) -> HandlerOutcome | MontyError:
        """Define the module's functions, then call the one that is meant."""
        from pydantic_monty import MontyError

        await self._feed(session, group, self._before(), {"_facts_": dict(self._call.facts)})
        try:
            await self._feed(session, group, self._call.source, {})
        except MontyError as error:
            return error if _is_syntax(error) else self._failed(error)
        code = _CALL.format(function=self._call.function).lstrip()
        inputs = {"_input_": dict(self._call.input)}
        try:
            text, problem = await self._feed(session, group, code, inputs)
        except MontyError as error:
            return self._failed(error)
        if (failed := await self._unawaited()) is not None:
            return HandlerOutcome(error=failed)
        if problem is not None:
            return HandlerOutcome(error=problem, not_json=True)
        return HandlerOutcome(json.loads(text))

    async def _unawaited(self) -> str | None:
        """Wait for what the handler asked for and did not await; the first error among it."""
        while self._fatal is None and not self._asked <= self._settled.keys():
            self._news = anyio.Event()
            await self._news.wait()
        answers = [self._settled[call] for call in self._asked if call in self._settled]
        errors = [answer["message"] for answer in answers if "message" in answer]
        return f"RuntimeError: {errors[0]}" if errors else None

    def _before(self) -> str:
        """Return the text that makes `ctx`, before the module can call anything by other names."""
        lines = [f"self.{name} = facts[{name!r}]" for name in self._call.facts]
        facts = "\n        ".join(lines) or "pass"
        return _BEFORE.format(facts=facts, longest=LONGEST).lstrip() + "_ctx_ = Context(_facts_)\n"

    async def _feed(
        self, session: AsyncMontySession, group: TaskGroup, code: str, inputs: dict[str, Any]
    ) -> Any:
        """Run one text of the session, answering all that it asks for."""
        from pydantic_monty import AsyncFunctionSnapshot, AsyncFutureSnapshot, MontyComplete

        state: Any = await session.feed_start(
            code, inputs=inputs, external_lookup={_ASK: _ask}, print_callback=self._print
        )
        while not isinstance(state, MontyComplete) and self._fatal is None:
            if isinstance(state, AsyncFutureSnapshot):
                state = await self._wait(state)
            elif isinstance(state, AsyncFunctionSnapshot) and state.is_os_function:
                state = await self._system(state, group)
            elif isinstance(state, AsyncFunctionSnapshot):
                state = await state.resume(self._ask(state, group))
            else:
                state = await state.resume_auto()
        return ("null", None) if self._fatal is not None else state.output

    def _ask(self, asked: AsyncFunctionSnapshot, group: TaskGroup) -> Any:
        """Begin to answer a method of `ctx`; what it answers is to be awaited."""
        try:
            method, args, kwargs = asked.args
            bound = _SIGNATURES[method].bind(None, *args, **kwargs)
        except (TypeError, ValueError, KeyError) as error:
            return {
                "exc_type": "TypeError",
                "message": f"ctx.{next(iter(asked.args), None)}(): {error}",
            }
        arguments = {name: value for name, value in bound.arguments.items() if name != "self"}
        self._asked.add(asked.call_id)
        group.start_soon(self._answer, asked.call_id, method, arguments)
        return {"future": ...}

    async def _answer(self, call_id: int, name: str, arguments: Mapping[str, Any]) -> None:
        try:
            self._settled[call_id] = {"return_value": await self._host(name, arguments)}
        except ToolError as error:
            message = f"{error.code}: {error.message}"
            self._settled[call_id] = {"exc_type": "RuntimeError", "message": message}
        except Exception as error:  # noqa: BLE001 - it is raised by `_drive`, out of the task group
            self._fatal = error
            if self._worker is not None:
                self._worker.kill()
        self._news.set()

    async def _wait(self, waiting: AsyncFutureSnapshot) -> Any:
        """Wait until one of the calls has its answer, and hand over all that have."""
        while self._fatal is None:
            ready = [call for call in waiting.pending_call_ids if call in self._settled]
            if ready:
                self._asked.difference_update(ready)
                return await waiting.resume({call: self._settled.pop(call) for call in ready})
            self._news = anyio.Event()
            await self._news.wait()
        return waiting

    async def _system(self, asked: AsyncFunctionSnapshot, group: TaskGroup) -> Any:
        """Answer what the module asks of a system: sleep and an empty environment, else nothing."""
        match str(asked.function_name), asked.args:
            case "system.sleep", (seconds, *_):
                await anyio.sleep(float(seconds))
                return await asked.resume({"return_value": None})
            case "system.async_sleep", (seconds, *_):
                group.start_soon(self._sleep, asked.call_id, float(seconds))
                return await asked.resume({"future": ...})
            case "os.environ", _:
                return await asked.resume({"return_value": {}})
            case "os.getenv", (_, default, *_):
                return await asked.resume({"return_value": default})
            case _:
                return await asked.resume_auto()

    async def _sleep(self, call_id: int, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._settled[call_id] = {"return_value": None}
        self._news.set()

    def _print(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        data = text.encode("utf-8", "replace")
        kept = data[: self._room[stream]]
        self._room[stream] -= len(kept)
        if kept:
            self._output(stream, kept)
        if len(kept) < len(data):
            self._killed_by = stream
            if self._worker is not None:
                self._worker.kill()

    def _failed(self, error: MontyError) -> HandlerOutcome:
        from pydantic_monty import MontyRuntimeError

        if self._killed_by is not None:
            return HandlerOutcome(killed_by=self._killed_by)
        if not isinstance(error, MontyRuntimeError):
            return HandlerOutcome(error=f"the engine's worker died: {error}")
        limit = limit_behind(error.exception(), str(error))
        lines = [frame.line for frame in error.traceback() if frame.filename == _MODULE]
        line = lines[-1] if lines else None
        return HandlerOutcome(error=None if limit else str(error), line=line, killed_by=limit)


def _is_syntax(error: MontyError) -> bool:
    """Whether the engine refuses a text before any of it runs."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    if isinstance(error, MontyRuntimeError):
        return isinstance(error.exception(), NotImplementedError)
    return isinstance(error, MontySyntaxError)


def _ask(*_: Any) -> None:
    """Stand for the function `_ASK`; each call of it comes out as a request instead."""


def _worker(session: AsyncMontySession, memory: int) -> Worker:
    if session.worker_pid is None:
        raise no_worker()
    worker = Worker(session.worker_pid)
    worker.fence(memory + WORKER_ITSELF)
    return worker
