"""The hive for programs without async: each call blocks until its work is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from threading import Event as Flag
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER, Principal
from clawhive_core.model.tools import ToolMeta

if TYPE_CHECKING:
    import os

    from anyio.from_thread import BlockingPortal

    from clawhive_core.catalog.local import ToolsFacade
    from clawhive_core.config.config import Config
    from clawhive_core.execution.door import Outcome
    from clawhive_core.hive.hive import Hive
    from clawhive_core.hive.replaying import ReplayMode
    from clawhive_core.hive.spawned import SubAgent
    from clawhive_core.model.events import StoredEvent
    from clawhive_core.policy.answers import Edited
    from clawhive_core.policy.approvals import ApprovalBook
    from clawhive_core.runs.replays.replay import ReplayReport
    from clawhive_core.runs.requests import RunOptions
    from clawhive_core.runs.session import Session
    from clawhive_core.skills.report import SkillReport

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class SyncTools:
    """Adds and removes tools while the process runs, as `Hive.tools` does."""

    _tools: ToolsFacade
    _loop: _Loop

    def add(self, meta: ToolMeta, function: Callable[..., Any]) -> str:
        """Offer a function as a tool, at once; return the new catalog revision."""
        return self._loop.do_now(self._tools.add, meta, function)

    def remove(self, name: str) -> str:
        """Withdraw a tool that was added here; return the new catalog revision."""
        return self._loop.do_now(self._tools.remove, name)


@dataclass(frozen=True, slots=True)
class SyncSession:
    """A session whose calls block, as `Hive.session` gives it."""

    _session: Session
    _loop: _Loop

    @property
    def inner(self) -> Session:
        """The session itself."""
        return self._session

    @property
    def run_id(self) -> str:
        """The run that records the session's calls."""
        return self._session.run_id

    @property
    def conversation_id(self) -> str:
        """The session's id."""
        return self._session.conversation_id

    def call(self, name: str, input: Mapping[str, Any]) -> Any:
        """Call a tool; return its structured value, else its text, or the refusal as a dict."""
        return self._loop.do(self._session.call, name, input)

    def invoke(self, name: str, input: Mapping[str, Any]) -> Outcome:
        """Call a tool and return the whole result or refusal."""
        return self._loop.do(self._session.invoke, name, input)


@dataclass(frozen=True, slots=True)
class SyncSubAgent:
    """A sub-agent at work, whose methods block; see `Hive.spawn`."""

    _agent: SubAgent
    _loop: _Loop

    @property
    def done(self) -> bool:
        """Whether it has ended, or waits for a person."""
        return self._agent.done

    def result(self) -> dict[str, Any]:
        """Return its run as the JSON object of `run/1`, once it has ended or waits for a person."""
        return self._loop.do(self._agent.result)

    def cancel(self) -> None:
        """End it, with all that it started, and return once that is recorded."""
        self._loop.do(self._agent.cancel)

    def merge(self) -> Any:
        """Return its output, once it has ended well."""
        return self._loop.do(self._agent.merge)


class SyncHive:
    """A Hive whose methods block; arguments, answers and errors are those of `Hive`.

    Any thread may call it. Whoever still waits when it is closed gets `cancelled`.

    Example:
        ::

            with Hive.open_sync() as hive:
                run = hive.run(task="run_code_snippet", input={"language": "python", "code": "1"})
                print(run["status"])
    """

    def __init__(self, hive: Hive, loop: _Loop) -> None:
        self._hive = hive
        self._loop = loop
        self.tools = SyncTools(hive.tools, loop)
        """Adds and removes tools while the process runs."""

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._hive.config

    @property
    def root(self) -> Path:
        """The project root."""
        return self._hive.root

    @property
    def notes(self) -> Sequence[str]:
        """What went wrong without stopping anything, as sentences."""
        return tuple(self._hive.notes)

    @property
    def approvals(self) -> ApprovalBook:
        """The calls that wait for a person, and their answers; its methods block already."""
        return self._hive.approvals

    def run(
        self,
        prompt: str | None = None,
        *,
        task: str | None = None,
        input: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Run a prompt with a model, or a task type by name, to its end; see `Hive.run`."""
        work = partial(self._hive.run, prompt, task=task, input=input, options=options, **more)
        return self._loop.do(work)

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
        work = partial(self._hive.spawn, task, agent, parent=above, options=options)
        return SyncSubAgent(self._loop.do(work), self._loop)

    def call(
        self, name: str, input: Mapping[str, Any], options: RunOptions | None = None
    ) -> tuple[str, Outcome]:
        """Call one tool, as a run of its own; return the run's id and what came of it."""
        return self._loop.do(self._hive.call, name, input, options)

    @contextmanager
    def session(
        self, principal: str | Principal = LOCAL_USER, options: RunOptions | None = None
    ) -> Generator[SyncSession]:
        """Open a session of one caller: its calls share rights, a run and a sandbox folder."""
        self._loop.check_open()
        inner = self._hive.session(principal, options)
        with _entered(self._loop.portal, inner) as session:
            yield SyncSession(session, self._loop)

    def rules(self, options: RunOptions | None = None, task: str | None = None) -> dict[str, Any]:
        """Return the rules that a run, of a task type or not, would have; nothing is recorded."""
        return self._loop.do_now(self._hive.rules, options, task)

    def explain(
        self,
        name: str,
        input: Mapping[str, Any],
        options: RunOptions | None = None,
        *,
        task: str | None = None,
        step: str | None = None,
    ) -> dict[str, Any]:
        """Say what would be decided about a call in a run, and why; nothing is done."""
        ask = partial(self._hive.explain, task=task, step=step)
        return self._loop.do(ask, name, input, options)

    def replay(
        self, run: str, mode: ReplayMode = "exact", options: RunOptions | None = None
    ) -> ReplayReport:
        """Run a run again: on its recorded answers, or with one side live."""
        return self._loop.do(self._hive.replay, run, mode, options)

    def resume(self, run: str, options: RunOptions | None = None) -> dict[str, Any]:
        """Go on with a run that waits for a person or was interrupted."""
        return self._loop.do(self._hive.resume, run, options)

    def edited(
        self, approval: str, input: Mapping[str, Any], before: Edited | None = None
    ) -> Edited | None:
        """Check other arguments for a call that waits for a person; None where nothing changed."""
        return self._loop.do(self._hive.edited, approval, input, before)

    def check_skills(self, paths: Sequence[str | os.PathLike[str]] = ()) -> SkillReport:
        """Check the skills below paths, or all that are found."""
        return self._hive.check_skills(paths)

    def events(self, since: int = 0) -> Generator[StoredEvent]:
        """Yield the log's events after a sequence number, then those to come, until it closes."""
        stream = self._hive.events(since)
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
