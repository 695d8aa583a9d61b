"""Blocking forms of what lives in an event loop: a session, a sub-agent, the tools of a hive.

Their methods are derived from those of the objects that they stand for, types included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import field
from functools import partial, wraps
from threading import Event as Flag
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyio.from_thread import BlockingPortal

    from clawhive_core.catalog.local import ToolsFacade  # noqa: TC004 - its types are read, no value
    from clawhive_core.hive.spawned import SubAgent  # noqa: TC004 - its types are read, no value
    from clawhive_core.runs.session import Session  # noqa: TC004 - its types are read, no value

P = ParamSpec("P")
T = TypeVar("T")
Inner = TypeVar("Inner")


@contextmanager
def in_thread(manager: AbstractAsyncContextManager[T]) -> Generator[tuple[T, Loop]]:
    """Enter an async context in a thread with an event loop of its own; leave it at the end.

    Returns:
        What the context gives, and what does work in its loop.

    Raises:
        UsageError: `inside_event_loop`, where the caller's thread runs one.
    """
    from anyio.from_thread import start_blocking_portal

    _refuse_event_loop()
    with start_blocking_portal() as portal, entered(portal, manager) as inner:
        loop = Loop(portal)
        try:
            yield inner, loop
        finally:
            loop.give_up()


def _refuse_event_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "an event loop runs here, which a blocking call would stop",
        code="inside_event_loop",
        place="Hive.open_sync",
        fix="async with Hive.open() as hive",
    )


@contextmanager
def entered(portal: BlockingPortal, manager: AbstractAsyncContextManager[T]) -> Generator[T]:
    """Enter an async context; what ends the caller's thread must not end the event loop too."""
    held: BaseException | None = None
    try:
        with portal.wrap_async_context_manager(manager) as inner:
            try:
                yield inner
            except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
                held = error
                raise ClawHiveError("it was interrupted", code="cancelled") from error
    except ClawHiveError:
        if held is not None:
            raise held from None
        raise


@dataclass(slots=True)
class Loop:
    """Does work in the event loop's thread for callers of any other."""

    portal: BlockingPortal
    _pending: dict[Future[Any], Flag] = field(default_factory=dict["Future[Any]", Flag])
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False

    def do(self, work: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return what the work answers; a caller that is interrupted cancels it.

        Raises:
            ClawHiveError: `cancelled`, where the hive is closed.
        """
        from concurrent.futures import CancelledError

        ended = Flag()

        async def whole() -> T:
            try:
                return await work(*args)
            finally:
                ended.set()

        with self._lock:
            self.check_open()
            future = self.portal.start_task_soon(whole)
            self._pending[future] = ended
        try:
            return future.result()
        except CancelledError:
            raise ClawHiveError("the hive was closed meanwhile", code="cancelled") from None
        finally:
            self._stop(future)

    def check_open(self) -> None:
        """Refuse work for a hive that is closed.

        Raises:
            ClawHiveError: `cancelled`.
        """
        if self._closed:
            raise ClawHiveError("the hive is closed", code="cancelled")

    def do_now(self, work: Callable[..., T], *args: Any) -> T:
        """Do what needs no waiting, where nothing else happens at the same time."""

        async def whole() -> T:
            return work(*args)

        return self.do(whole)

    def _stop(self, future: Future[Any]) -> None:
        """Cancel work that is not done, and wait until it has recorded that."""
        ended = self._pending.pop(future, None)
        if ended is not None and not future.done():
            future.cancel()
            ended.wait()

    def give_up(self) -> None:
        """Cancel what other threads still wait for, and take nothing more on."""
        with self._lock:
            self._closed = True
        for future in list(self._pending):
            self._stop(future)


class Blocking(Generic[Inner]):
    """Stands for an object of the event loop, and does its work there."""

    def __init__(self, inner: Inner, loop: Loop) -> None:
        self._inner, self._loop = inner, loop

    def derived(self, name: str, *, now: bool) -> Callable[..., Any]:
        """Return a method of the inner object as one that blocks."""
        return _through(self._loop.do_now if now else self._loop.do, getattr(self._inner, name))


def _through(do: Callable[[Callable[[], Any]], Any], method: Callable[P, Any]) -> Callable[P, Any]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        return do(partial(method, *args, **kwargs))

    return call


class _Derived(Generic[P, T]):
    """A method of the inner object, of the same name, arguments, answer and errors, that blocks.

    Args:
        of: Gives the method's type to type checkers; it is not called.
        now: Whether it needs no waiting.
    """

    def __init__(self, of: Callable[[], Callable[Concatenate[Any, P], T]], *, now: bool) -> None:
        del of
        self._name, self._now = "", now

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, blocking: Blocking[Any], owner: type | None = None) -> Callable[P, T]:
        return blocking.derived(self._name, now=self._now)


def blocking(of: Callable[[], Callable[Concatenate[Any, P], Awaitable[T]]]) -> _Derived[P, T]:
    """Return an async method as one that blocks until its work is done."""
    return _Derived(cast("Callable[[], Callable[Concatenate[Any, P], T]]", of), now=False)


def immediate(of: Callable[[], Callable[Concatenate[Any, P], T]]) -> _Derived[P, T]:
    """Return a method that waits for nothing as one for other threads."""
    return _Derived(of, now=True)


class SyncTools(Blocking["ToolsFacade"]):
    """Adds and removes tools while the process runs, as `Hive.tools` does."""

    add = immediate(lambda: ToolsFacade.add)
    remove = immediate(lambda: ToolsFacade.remove)


class SyncSession(Blocking["Session"]):
    """A session whose calls block, as `Hive.session` gives it."""

    call = blocking(lambda: Session.call)
    invoke = blocking(lambda: Session.invoke)
    search_tools = blocking(lambda: Session.search_tools)
    enable = blocking(lambda: Session.enable)
    step_of = immediate(lambda: Session.step_of)

    @property
    def inner(self) -> Session:
        """The session itself."""
        return self._inner

    @property
    def run_id(self) -> str:
        """The run that records the session's calls."""
        return self._inner.run_id

    @property
    def conversation_id(self) -> str:
        """The session's id."""
        return self._inner.conversation_id


class SyncSubAgent(Blocking["SubAgent"]):
    """A sub-agent at work, whose methods block; see `Hive.spawn`."""

    result = blocking(lambda: SubAgent.result)
    cancel = blocking(lambda: SubAgent.cancel)
    merge = blocking(lambda: SubAgent.merge)

    @property
    def done(self) -> bool:
        """Whether it has ended, or waits for a person."""
        return self._inner.done
