"""The composition root: the only place where everything meets."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from clawhive_core.audit.checkpoints import Checkpoints
from clawhive_core.audit.sinks import SinkFanout
from clawhive_core.catalog.assembly import Preferences
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.config.opening import open_config
from clawhive_core.errors import ClawHiveError, NotReplayable, UsageError
from clawhive_core.events.log import EventLog, Projections
from clawhive_core.execution.door import Outcome
from clawhive_core.execution.executor import Executor, ExecutorLimits, Wiring
from clawhive_core.execution.sandbox import SandboxBroker, SandboxProvider
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import LOCAL_USER, Principal
from clawhive_core.model.runs import Task
from clawhive_core.plugins.configured import open_plugins
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.policy import ledger
from clawhive_core.policy.failed_check import FailedCheck
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.check import PolicyCheck
from clawhive_core.protocols.planner import Planner
from clawhive_core.protocols.sandbox import SandboxEngine, SandboxLimits
from clawhive_core.runs import schema as runs_schema
from clawhive_core.runs.models import Models
from clawhive_core.runs.orchestrator import Orchestrator, RunRequest, RunResult
from clawhive_core.runs.ownership import beat, recover
from clawhive_core.runs.procedure import ProcedurePlanner
from clawhive_core.runs.replay import (
    Diverged,
    Record,
    RecordedDoor,
    RecordedJournal,
    RecordedModels,
    ReplayReport,
)
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.session import Session
from clawhive_core.runs.view import find_run, run_json
from clawhive_core.skills.shipped import shipped_skills

__all__ = ["Hive", "RunOptions", "open_log"]

SCHEMAS = (ledger.SCHEMA, runs_schema.SCHEMA)
LoadPlugins = Callable[[Config, Mapping[str, str]], PluginManager]


class Hive:
    """A project's catalog, policy, executor, log and runs, opened together.

    Example:
        ::

            async with Hive.open() as hive:
                run = await hive.run(
                    task="run_code_snippet", input={"language": "python", "code": "print(1)"}
                )
                print(run["output"])
    """

    def __init__(
        self, config: Config, log: EventLog, plugins: PluginManager, env: Mapping[str, str]
    ) -> None:
        self.config = config
        self.log = log
        self.plugins = plugins
        self.notes: list[str] = []
        """What went wrong without stopping anything, as sentences."""
        self.catalog = CatalogStore(_preferences(config), self.notes.append)
        self.skills = shipped_skills()
        self.models = Models(self._adapters, log)
        self._requests = RequestMaker(config, self.catalog, self.skills, env)
        self._known_adapters: dict[str, LlmAdapter] | None = None
        self._known_checks: list[PolicyCheck] | None = None
        self._sinks = SinkFanout(log, _values(plugins, "clawhive_audit_sinks"))
        self.executor = Executor(self._wiring(), _executor_limits(config))
        self._orchestrator = Orchestrator(self.executor, self.models, log, self._planners())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        flags: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        plugins: LoadPlugins | None = None,
    ) -> AbstractAsyncContextManager[Hive]:
        """Open the project at a path (its folder or clawhive.toml), else the one around here.

        Args:
            path: A folder, or a clawhive.toml.
            flags: Configuration values over everything else, by key.
            env: The environment; this process's otherwise.
            plugins: What finds the plugins; the installed ones otherwise.

        Returns:
            An async context manager that gives the Hive and closes it, providers included.

        Raises:
            ConfigError: (on entering) the configuration cannot be used.
            StorageError: (on entering) `.clawhive/hive.db` cannot be opened.
        """
        environment = dict(os.environ if env is None else env)
        return _opened(cls, path, flags or {}, environment, plugins or open_plugins)

    @property
    def root(self) -> Path:
        """The project root."""
        return self.config.root

    async def run(
        self,
        prompt: str | None = None,
        *,
        task: str | None = None,
        input: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Run a prompt with a model, or a task type by name, to its end.

        Args:
            prompt: What the user wants, for `model` or the configured default.
            task: `SKILL.TASK`, or TASK where one loaded skill has it.
            input: The task's input.
            options: How to run it.
            **more: Fields of RunOptions, where no options are given.

        Returns:
            The run, as the JSON object of schema `run/1`.

        Raises:
            UsageError: Unknown task type or model, or an input that its schema refuses.
        """
        chosen = options or RunOptions(**more)
        if (prompt is None) == (task is None):
            raise UsageError("give a prompt or a task type", fix='hive.run("...") or task="..."')
        if prompt is not None:
            request = self._requests.prompt(prompt, chosen)
            self.models.adapter(request.model or "")
        else:
            request = self._requests.task(str(task), input or {}, chosen)
        chosen.on_start(request)
        async with self._owned(request):
            await self._orchestrator.run(request)
        return run_json(self.log, request.scope.run_id)

    async def call(
        self, name: str, input: Mapping[str, Any], options: RunOptions | None = None
    ) -> tuple[str, Outcome]:
        """Call one tool, as a run of its own; return the run's id and what came of it."""
        chosen = options or RunOptions(command="clawhive tools call")
        async with self.session(options=replace(chosen, title=name)) as session:
            return session.run_id, await session.invoke(name, input)

    @asynccontextmanager
    async def session(
        self, principal: str | Principal = LOCAL_USER, options: RunOptions | None = None
    ) -> AsyncGenerator[Session]:
        """Open a session of one caller: its calls share rights, a run and a sandbox folder."""
        who = Principal.parse(principal) if isinstance(principal, str) else principal
        chosen = options or RunOptions(command="clawhive tools call")
        title = chosen.title or f"session of {who}"
        request = self._requests.assemble(Task(new_id("task")), chosen, who, title=title)
        result = RunResult("cancelled", error={"code": "cancelled", "message": "it was cancelled"})
        async with self._owned(request):
            await self._orchestrator.start(request)
            session = Session(self.executor, request)
            try:
                yield session
                result = session.result()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._orchestrator.end(request, result)

    async def replay(self, run: str, mode: str = "exact") -> ReplayReport:
        """Run today's planner, loop and orchestrator on a run's recorded answers.

        Raises:
            NotReplayable: The run was a session's calls, without plan or prompt.
            UnknownId: No such run.
        """
        run_id = find_run(self.log, run)
        if mode != "exact":
            raise NotReplayable(f"no replay mode is called `{mode}`", fix="--mode exact")
        record = Record.load(self.log, run_id)
        request = self._requests.recorded(record)
        if request.task.prompt is None and request.task.task_type is None:
            raise NotReplayable(
                f"run {run_id} is a session's calls: nothing planned them", place=run_id
            )
        report = await self._repeat(record, request, mode)
        await self.log.append(
            Event(
                "replay.end",
                report.to_dict(),
                trace_id=request.scope.trace_id,
                run_id=run_id,
                status="succeeded" if report.ok else "failed",
            )
        )
        return report

    async def _repeat(self, record: Record, request: RunRequest, mode: str) -> ReplayReport:
        again = Orchestrator(
            RecordedDoor(record),
            RecordedModels(record),
            RecordedJournal(record),
            self._planners(),
        )
        try:
            await again.run(request)
            difference = record.left_over() if record.finished else None
        except Diverged as parted:
            difference = parted.difference
        return ReplayReport(record.run_id, mode, record.compared, difference, record.finished)

    async def events(self, since: int = 0) -> AsyncGenerator[StoredEvent]:
        """Yield the log's events after a sequence number, then those to come."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        ready = anyio.Event()

        def wake() -> None:
            ready.set()

        stop = self.log.listen(lambda _: _tell(loop, wake))
        try:
            while True:
                ready = anyio.Event()
                for stored in self.log.events(since=since):
                    since = stored.seq
                    yield stored
                await ready.wait()
        finally:
            stop()

    @asynccontextmanager
    async def _owned(self, request: RunRequest) -> AsyncGenerator[None]:
        """Keep a run's heartbeat while it goes on, and sign the log's tip at its end."""
        async with _beside(beat(self.log, request.scope.run_id)):
            try:
                yield
            finally:
                self._checkpoint(request.scope.run_id)

    def _checkpoint(self, run_id: str) -> None:
        rows = self.log.read("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
        try:
            checkpoints = Checkpoints(self.config.user_dir, self.log.database_id, self.log.path)
            checkpoints.write(rows[0]["seq"], rows[0]["hash"], run_id)
        except ClawHiveError as error:
            self.notes.append(f"no checkpoint was written: {error.message}")

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """List the tools, deliver events to sinks, close everything at the end; see `open`."""
        try:
            recover(self.log)
            await self._assemble()
            async with _beside(self._sinks.pump()):
                yield
        finally:
            await self._close()

    async def _assemble(self) -> None:
        broker = _broker(self.config, _values(self.plugins, "clawhive_sandboxes"))
        await self.catalog.add_foreign(*self.plugins.providers())
        await self.catalog.add(SandboxProvider(broker))

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.catalog.close_providers()
            for adapter in (self._known_adapters or {}).values():
                with suppress(Exception):
                    await adapter.close()
            await self._sinks.close()
        self.log.close()

    def _wiring(self) -> Wiring:
        return Wiring(
            self.catalog,
            self.log,
            self._checks,
            self._sinks.problem,
            self.models,
            redact=self.log.redactor.add,
        )

    def _adapters(self) -> Mapping[str, LlmAdapter]:
        if self._known_adapters is None:
            adapters: Sequence[LlmAdapter] = _values(self.plugins, "clawhive_llm_adapters")
            self._known_adapters = {adapter.name: adapter for adapter in reversed(adapters)}
        return self._known_adapters

    def _checks(self) -> Sequence[PolicyCheck]:
        if self._known_checks is None:
            self._known_checks = _values(self.plugins, "clawhive_policy_checks")
            for record in self.plugins.failed_hooks("clawhive_policy_checks"):
                self._known_checks.append(FailedCheck(record.id))
        return self._known_checks

    def _planners(self) -> dict[str, Planner]:
        own: list[Planner] = [ProcedurePlanner()]
        found: Sequence[Planner] = _values(self.plugins, "clawhive_planners")
        return {planner.name: planner for planner in (*found, *own)}


@asynccontextmanager
async def _opened(
    kind: type[Hive],
    path: str | os.PathLike[str] | None,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    plugins: LoadPlugins,
) -> AsyncGenerator[Hive]:
    config = open_config(path, flags, env)
    log = open_log(config)
    try:
        hive = kind(config, log, plugins(config, env), env)
    except BaseException:
        log.close()
        raise
    async with hive.working():
        yield hive


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Do something while the body runs, and stop it after."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        with suppress(asyncio.CancelledError, ClawHiveError):
            task.result()


def open_log(config: Config) -> EventLog:
    """Open a project's log with the tables of every room."""
    projections: dict[str, Any] = {}
    for room in (runs_schema.PROJECTIONS, ledger.PROJECTIONS):
        for kind, applied in room.items():
            projections[kind] = (*projections.get(kind, ()), *applied)
    merged: Projections = projections
    return EventLog.open(config.root / ".clawhive" / "hive.db", SCHEMAS, merged)


def _values(plugins: PluginManager, hook: str) -> list[Any]:
    return [contribution.value for contribution in plugins.contributions(hook)]


def _tell(loop: Any, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closing: nobody listens any more
        loop.call_soon_threadsafe(callback)


def _preferences(config: Config) -> Preferences:
    return Preferences(
        tuple(config.get("tools.preferred_provider_order")),
        config.get("tools.conflict"),
        config.get("tools.pin"),
        config.get("tools.alias"),
    )


def _executor_limits(config: Config) -> ExecutorLimits:
    return ExecutorLimits(call_depth=config.get("limits.call_depth"))


def _broker(config: Config, engines: Sequence[SandboxEngine]) -> SandboxBroker:
    limits = SandboxLimits(
        **{name: config.get(f"sandbox.{name}") for name in SandboxLimits.__dataclass_fields__}
    )
    folder = config.root / config.get("sandbox.workspace")
    return SandboxBroker(lambda: engines, config.get("sandbox.commands"), limits, folder)
