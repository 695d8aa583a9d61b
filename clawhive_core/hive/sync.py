"""The hive for programs without async: each call blocks until its work is done.

Its methods are derived from those of the objects that it stands for, types included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import field
from functools import partial, wraps
from pathlib import Path
from threading import Event as Flag
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, assert_type, cast

from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER, Principal

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from clawhive_core.catalog.local import ToolsFacade  # noqa: TC004 - its types are read, no value
    from clawhive_core.config.config import Config
    from clawhive_core.execution.door import Outcome
    from clawhive_core.hive.hive import Hive  # noqa: TC004 - its types are read, no value
    from clawhive_core.hive.records import Records
    from clawhive_core.hive.spawned import SubAgent  # noqa: TC004 - its types are read, no value
    from clawhive_core.model.events import StoredEvent
    from clawhive_core.policy.approvals import ApprovalBook
    from clawhive_core.runs.requests import RunOptions
    from clawhive_core.runs.session import Session  # noqa: TC004 - its types are read, no value

P = ParamSpec("P")
T = TypeVar("T")
Inner = TypeVar("Inner")


@contextmanager
def opened(hive: AbstractAsyncContextManager[Hive]) -> Generator[SyncHive]:
    """Enter a Hive in a thread with an event loop of its own, and leave it at the end.

    Raises:
        UsageError: `inside_event_loop`, where the caller's thread runs one.
    """
    from anyio.from_thread import start_blocking_portal

    _refuse_event_loop()
    with start_blocking_portal() as portal, _entered(portal, hive) as inner:
        loop = _Loop(portal)
        try:
            yield SyncHive(inner, loop)
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
def _entered(portal: BlockingPortal, manager: AbstractAsyncContextManager[T]) -> Generator[T]:
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
class _Loop:
    """Does work in the event loop's thread for callers of any other."""

    portal: BlockingPortal
    _pending: dict[Future[Any], Flag] = field(default_factory=dict[Future[Any], Flag])
    _lock: Lock = field(default_factory=Lock)
    _closed: bool = False

    def do(self, work: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return what the work answers; a caller that is interrupted cancels it.

        Raises:
            ClawHiveError: `cancelled`, where the hive is closed.
        """
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


class _Blocking(Generic[Inner]):
    """Stands for an object of the event loop, and does its work there."""

    def __init__(self, inner: Inner, loop: _Loop) -> None:
        self._inner, self._loop = inner, loop

    def derived(self, name: str, *, now: bool) -> Callable[..., Any]:
        """Return a method of the inner object as one that blocks."""
        method = getattr(self._inner, name)
        do = self._loop.do_now if now else self._loop.do

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
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

    def __get__(self, blocking: _Blocking[Any], owner: type | None = None) -> Callable[P, T]:
        return blocking.derived(self._name, now=self._now)


def _waits(of: Callable[[], Callable[Concatenate[Any, P], Awaitable[T]]]) -> _Derived[P, T]:
    return _Derived(cast("Callable[[], Callable[Concatenate[Any, P], T]]", of), now=False)


def _now(of: Callable[[], Callable[Concatenate[Any, P], T]]) -> _Derived[P, T]:
    return _Derived(of, now=True)


class SyncTools(_Blocking["ToolsFacade"]):
    """Adds and removes tools while the process runs, as `Hive.tools` does."""

    add = _now(lambda: ToolsFacade.add)
    remove = _now(lambda: ToolsFacade.remove)


class SyncSession(_Blocking["Session"]):
    """A session whose calls block, as `Hive.session` gives it."""

    call = _waits(lambda: Session.call)
    invoke = _waits(lambda: Session.invoke)

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


class SyncSubAgent(_Blocking["SubAgent"]):
    """A sub-agent at work, whose methods block; see `Hive.spawn`."""

    result = _waits(lambda: SubAgent.result)
    cancel = _waits(lambda: SubAgent.cancel)
    merge = _waits(lambda: SubAgent.merge)

    @property
    def done(self) -> bool:
        """Whether it has ended, or waits for a person."""
        return self._inner.done


class SyncHive(_Blocking["Hive"]):
    """A Hive whose methods block; arguments, answers and errors are those of `Hive`.

    Any thread may call it. Whoever still waits when it is closed gets `cancelled`.

    Example:
        ::

            with Hive.open_sync() as hive:
                run = hive.run(task="run_code_snippet", input={"language": "python", "code": "1"})
                print(run["status"])
    """

    def __init__(self, inner: Hive, loop: _Loop) -> None:
        super().__init__(inner, loop)
        self.tools = SyncTools(inner.tools, loop)
        """Adds and removes tools while the process runs."""

    run = _waits(lambda: Hive.run)
    call = _waits(lambda: Hive.call)
    explain = _waits(lambda: Hive.explain)
    replay = _waits(lambda: Hive.replay)
    resume = _waits(lambda: Hive.resume)
    edited = _waits(lambda: Hive.edited)
    rules = _now(lambda: Hive.rules)
    check_skills = _now(lambda: Hive.check_skills)

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._inner.config

    @property
    def root(self) -> Path:
        """The project root."""
        return self._inner.root

    @property
    def notes(self) -> Sequence[str]:
        """The problems that stopped nothing, as sentences."""
        return tuple(self._inner.notes)

    @property
    def records(self) -> Records:
        """The records of the log, page by page."""
        return self._inner.records

    @property
    def approvals(self) -> ApprovalBook:
        """The calls that wait for a person, and their answers; its methods block already."""
        return self._inner.approvals

    def spawn(
        self,
        task: str,
        agent: str,
        *,
        parent: SyncSession | None = None,
        options: RunOptions | None = None,
    ) -> SyncSubAgent:
        """Start a sub-agent beside this program; return its handle; see `Hive.spawn`."""
        above = None if parent is None else parent.inner
        work = partial(self._inner.spawn, task, agent, parent=above, options=options)
        return SyncSubAgent(self._loop.do(work), self._loop)

    @contextmanager
    def session(
        self, principal: str | Principal = LOCAL_USER, options: RunOptions | None = None
    ) -> Generator[SyncSession]:
        """Open a session of one caller: its calls share rights, a run and a sandbox folder."""
        self._loop.check_open()
        inner = self._inner.session(principal, options)
        with _entered(self._loop.portal, inner) as session:
            yield SyncSession(session, self._loop)

    def events(self, since: int = 0) -> Generator[StoredEvent]:
        """Yield the log's events after a sequence number, then those to come, until it closes."""
        stream = self._inner.events(since)
        try:
            while True:
                yield self._loop.do(stream.__anext__)
        except ClawHiveError as error:
            if error.code != "cancelled":
                raise
        except GeneratorExit:
            with suppress(ClawHiveError):  # the hive is closed, and the stream with it
                self._loop.do(stream.aclose)
            raise


if TYPE_CHECKING:

    def types_are_derived(hive: SyncHive, session: SyncSession) -> None:
        """Fail the type check where a derived method loses its arguments or its answer."""
        assert_type(hive.run("x", task=None), dict[str, Any])
        assert_type(hive.resume("last"), dict[str, Any])
        assert_type(session.invoke("a.tool", {}), Outcome)
        assert_type(hive.tools.remove("a.tool"), str)
        hive.explain(1, {})  # pyright: ignore[reportArgumentType] - a name is text
