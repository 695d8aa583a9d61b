"""Executing runs: each with an owner, its tree ended with it, and the log signed as it grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import ClawHiveError, RunError
from clawhive_core.execution.executor import Executor
from clawhive_core.hive.project_log import signer_of, unsigned
from clawhive_core.model.late import Caching, dataclass
from clawhive_core.protocols.ledger import EXECUTED
from clawhive_core.runs.orchestrator import LiveServices, Orchestrator
from clawhive_core.runs.record.ownership import cancel_below, run_busy, run_of
from clawhive_core.runs.record.watch import Watch
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.run import RunRequest, RunResult
from clawhive_core.runs.session import Session

if TYPE_CHECKING:
    from clawhive_core.audit.checkpoints import Signer
    from clawhive_core.policy.answers import Edited

_STOP_SECONDS = 10.0


@dataclass(slots=True)
class ActiveRun:
    """A run that is executed in this process."""

    task: object
    """The task of the event loop that executes it."""
    ask: Callable[[], None]
    """Asks it to end."""
    ended: anyio.Event | None = None
    """Set at its end, where somebody waits for it."""


@dataclass(frozen=True, slots=True)
class Running(Caching):
    """Executes the runs of one project in this process (`runs.sub_agents.Runner`)."""

    live: LiveServices
    executor: Executor
    orchestrator: Orchestrator
    requests: Callable[[], RequestMaker]
    user_dir: Path
    note: Callable[[str], None]
    active_runs: dict[str, ActiveRun] = field(default_factory=dict[str, "ActiveRun"])
    """The runs that are executed here."""
    told: set[str] = field(default_factory=set[str])
    """The reasons why the log could not be signed, each said once."""
    closing: Event = field(default_factory=Event)
    """Set where no more is to be executed."""

    def check(self, request: RunRequest) -> None:
        """Refuse a run that could not begin.

        Raises:
            UsageError: No planner has the name that it wants.
            UnknownModel: No adapter serves its model.
        """
        if request.setup.model is not None:
            self.live.models.adapter(request.setup.model)
        self.orchestrator.planner(request)

    async def run(self, request: RunRequest) -> None:
        """Execute a run to its end or its next stop."""
        async with self.owned(request):
            await self.orchestrator.run(request)

    async def resume(self, run_id: str, options: RunOptions) -> None:
        """Go on with a run that waits for a person or was interrupted; see `Hive.resume`."""
        from clawhive_core.runs.resume import ancestor_budgets, require_task, resume

        # Before the record is read: of a run that stands under a fence nothing is added until
        # somebody takes it under a higher one, so that what is read stays the whole of it.
        before = run_of(self.live.log, run_id)
        request = self.requests().resumed(run_id, options)
        if before.status in EXECUTED or request.scope.fence != before.fence + 1:
            raise run_busy(run_id)
        require_task(request)
        with ancestor_budgets(self.live.log, self.live.models, run_id, self.active_runs):
            async with self.owned(request):
                await resume(self.live, self.orchestrator, request)

    async def edited(
        self, approval: str, input: Mapping[str, Any], before: Edited | None
    ) -> Edited | None:
        """Check other arguments for a call that waits for a person; see `Hive.edited`."""
        from clawhive_core.execution.dry_run import CallEditor

        live = self.live
        found = live.book.find(approval)
        await live.log.flush()
        request = self.requests().resumed(found.run_id, RunOptions(approve="deny"))
        editing = CallEditor(self.executor, live.catalog, live.book)
        scope = replace(request.scope, fence=0)  # nobody executes the run: it is a person's look
        return await editing.check(found, input, scope, before)

    @asynccontextmanager
    async def owned(self, request: RunRequest) -> AsyncGenerator[None]:
        """Watch over a run while it goes on, and sign the log's tip where that is due.

        What was revoked elsewhere ends the calls that are under way with it.

        Raises:
            RunBusy: It is executed in this process.
        """
        from asyncio import current_task

        scope, run_id = request.scope, request.scope.run_id
        if run_id in self.active_runs:
            raise run_busy(run_id)
        look = partial(scope.revocations, scope.rules)
        try:
            async with self._watch.owned(run_id, scope.fence, look) as ask:
                self.active_runs[run_id] = ActiveRun(current_task(), ask)
                yield
        except RunError as error:
            if error.code != "cancelled" or request.is_session:
                raise
        finally:
            self._after(run_id)
            work = self.active_runs.pop(run_id, None)
            if work is not None and work.ended is not None:
                work.ended.set()

    async def stop(self) -> None:
        """End the runs that are left in other tasks, and wait until that is recorded.

        One whose tool cannot be stopped is waited for `_STOP_SECONDS` at most.
        """
        from asyncio import current_task

        self.closing.set()
        me, waited = current_task(), list[anyio.Event]()
        for work in self.active_runs.values():
            if work.task is not me:
                work.ended = anyio.Event()
                waited.append(work.ended)
                work.ask()
        with anyio.move_on_after(_STOP_SECONDS):
            for ended in waited:
                await ended.wait()

    @asynccontextmanager
    async def session(
        self, request: RunRequest, leave: Callable[[Session], Awaitable[None]]
    ) -> AsyncGenerator[Session]:
        """Open a session of one caller; see `Hive.session`.

        Args:
            request: Its run.
            leave: What ends the sub-agents that it started, before its run ends.
        """
        result = RunResult("cancelled", error={"code": "cancelled", "message": "it was cancelled"})
        async with self.owned(request):
            await self.orchestrator.start(request)
            session = Session(self.live, request, self.requests().given_since())
            try:
                yield session
                result = session.result()
            finally:
                with anyio.CancelScope(shield=True):
                    await leave(session)
                    await self.orchestrator.end(request, result)

    def _after(self, run_id: str) -> None:
        """End what an ended run left behind."""
        try:
            cancel_below(self.live.log, run_id)
        except ClawHiveError as error:
            self.note(f"the sub-agents of run {run_id} were not ended: {error.message}")
        self._signed(partial(self._signer.sign_if_due, run_id))

    def sign(self) -> None:
        """Sign the log's tip where runs here wrote what is newer than the last checkpoint."""
        self._signed(self._signer.sign)

    def _signed(self, sign: Callable[[], None]) -> None:
        try:
            sign()
        except ClawHiveError as error:
            if (problem := unsigned(error)) not in self.told:
                self.told.add(problem)
                self.note(problem)

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self.live.log, self._looks)

    def _looks(self) -> bool:
        """Sign the log where that is due; return whether a right may have been revoked."""
        self._signed(self._signer.sign_if_due)
        return self.requests().revocations.has_news()

    @cached_property
    def _signer(self) -> Signer:
        return signer_of(self.live.log, self.user_dir)
