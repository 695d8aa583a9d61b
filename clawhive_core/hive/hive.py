"""A project opened: its catalog, policy, executor, log and runs, for one program to use."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from clawhive_core.audit.checkpoints import Checkpoints
from clawhive_core.audit.sinks import SinkFanout
from clawhive_core.catalog.assembly import Preferences
from clawhive_core.catalog.configured import configured_tools
from clawhive_core.catalog.local import ToolsFacade
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.config.opening import open_config
from clawhive_core.errors import ClawHiveError, RunError, UsageError
from clawhive_core.events.log import EventLog
from clawhive_core.execution.approval import Approvals
from clawhive_core.execution.considered import consider
from clawhive_core.execution.core_tools import CoreProvider, CoreTool
from clawhive_core.execution.door import Outcome
from clawhive_core.execution.executor import Executor, ExecutorLimits, Wiring
from clawhive_core.execution.sandbox import SandboxBroker, SandboxProvider
from clawhive_core.execution.scope import CallScope
from clawhive_core.hive.contributed import Contributed
from clawhive_core.hive.project_log import follow, open_founded
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import LOCAL_USER, Principal
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolCall
from clawhive_core.plugins.configured import open_plugins
from clawhive_core.plugins.manager import PluginManager
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.policy.explain import in_force
from clawhive_core.policy.persistent import read_persistent
from clawhive_core.protocols.sandbox import SandboxEngine, SandboxLimits
from clawhive_core.runs.models import Models
from clawhive_core.runs.orchestrator import Orchestrator, RunRequest, RunResult
from clawhive_core.runs.ownership import beside, owned, recover
from clawhive_core.runs.repeat import repeat
from clawhive_core.runs.replay import Record, ReplayReport
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.resume import Live, require_task, resume
from clawhive_core.runs.session import Session
from clawhive_core.runs.view import find_run, run_json
from clawhive_core.skills.load import load_skills

__all__ = ["Hive", "RunOptions"]

_ONE_CALL = RunOptions(command="clawhive tools call", approve="deny")
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
        if (problem := read_persistent(config.user_dir).problem) is not None:
            self.notes.append(problem)
        self.catalog = CatalogStore(Preferences.of(config), self.notes.append)
        self._contributed = contributed = Contributed(plugins)
        sources = contributed.values("clawhive_skill_sources")
        self.skill_set = load_skills(config, sources, env=env)
        self.skills = self.skill_set.loaded
        self.notes += self.skill_set.notes
        self.approvals = ApprovalBook(log)
        self.models = Models(contributed.adapters, log)
        self.tools = ToolsFacade(self.catalog, log, configured_tools(config, self.notes.append))
        self._requests = RequestMaker(
            config, self.catalog, self.skills, env, log, self.skill_set.left_out
        )
        self._sinks = SinkFanout(
            log, contributed.values("clawhive_audit_sinks"), config.get("audit.required_sinks")
        )
        self.executor = Executor(self._wiring(), _executor_limits(config))
        self._orchestrator = Orchestrator(self.executor, self.models, log, contributed.planners())

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
            StorageError: (on entering) `.clawhive/hive.db` cannot be opened; `forged_rights`: a
                table of it gives a right that the log does not.
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
        chosen = options or _ONE_CALL
        async with self.session(options=replace(chosen, title=name)) as session:
            return session.run_id, await session.invoke(name, input)

    @asynccontextmanager
    async def session(
        self, principal: str | Principal = LOCAL_USER, options: RunOptions | None = None
    ) -> AsyncGenerator[Session]:
        """Open a session of one caller: its calls share rights, a run and a sandbox folder."""
        who = Principal.parse(principal) if isinstance(principal, str) else principal
        chosen = options or _ONE_CALL
        if chosen.approve == "park":
            chosen = replace(chosen, approve="deny")  # nothing could go on with a caller's own code
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

    def rules(self, options: RunOptions | None = None) -> dict[str, Any]:
        """Return the rules that a run started now would have; nothing is recorded."""
        request = self._requests.assemble(Task(new_id("task")), options or RunOptions())
        return in_force(request.principal, request.scope.rules)

    async def explain(
        self, name: str, input: Mapping[str, Any], options: RunOptions | None = None
    ) -> dict[str, Any]:
        """Say what would be decided about a call of a tool in a run, and why; nothing is done."""
        request = self._requests.assemble(Task(new_id("task")), options or RunOptions())
        scope = CallScope(request.scope, request.principal, f"{request.scope.run_id}/explain")
        call = ToolCall("explain", name, dict(input))
        return await consider(call, scope, self.catalog.current, self._contributed.checks)

    async def replay(self, run: str, mode: str = "exact") -> ReplayReport:
        """Run today's planner, loop and orchestrator on a run's recorded answers.

        Raises:
            NotReplayable: The run was a session's calls, without plan or prompt.
            UnknownId: No such run.
        """
        record = Record.load(self.log, find_run(self.log, run))
        request = self._requests.recorded(record)
        return await repeat(record, request, self._contributed.planners(), mode)

    async def resume(self, run: str, options: RunOptions | None = None) -> dict[str, Any]:
        """Go on with a run that waits for a person or was interrupted.

        Args:
            run: The run's id, a unique prefix, or `last`.
            options: How to go on; `approve`, `ask`, `command` and `on_signal` count.

        Returns:
            The run, as the JSON object of schema `run/1`.

        Raises:
            UnknownId: No such run.
            RunBusy: Another living process owns it.
            RunError: `not_resumable`: it has ended, or it goes another way than its log says.
        """
        chosen = options or RunOptions(command="clawhive runs resume")
        run_id = find_run(self.log, run)
        request = self._requests.resumed(Record.load(self.log, run_id), chosen)
        require_task(request)
        live = Live(self.log, self.executor, self.models, self.catalog, self.approvals)
        async with self._owned(request):
            await resume(live, self._orchestrator, request)
        return run_json(self.log, run_id)

    async def events(self, since: int = 0) -> AsyncGenerator[StoredEvent]:
        """Yield the log's events after a sequence number, then those to come."""
        async for stored in follow(self.log, since):
            yield stored

    @asynccontextmanager
    async def _owned(self, request: RunRequest) -> AsyncGenerator[None]:
        """Keep a run's heartbeat while it goes on, and sign the log's tip at its end."""
        run_id = request.scope.run_id
        try:
            async with owned(self.log, run_id):
                yield
        except RunError as error:
            if error.code != "cancelled" or request.is_session:
                raise
        finally:
            self._checkpoint(run_id)

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
            async with beside(self._sinks.pump()):
                yield
        finally:
            await self._close()

    async def _assemble(self) -> None:
        broker = _broker(self.config, self._contributed.values("clawhive_sandboxes"))
        await self.catalog.add_foreign(*self.plugins.providers())
        await self.catalog.add(SandboxProvider(broker))
        await self.catalog.add(CoreProvider(self._core_tools()))
        self.tools.open()

    def _core_tools(self) -> tuple[CoreTool, ...]:
        return ()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.catalog.close_providers()
            await self._contributed.close()
            await self._sinks.close()
        self.log.close()

    def _wiring(self) -> Wiring:
        return Wiring(
            self.catalog,
            self.log,
            self._contributed.checks,
            self._sinks.problem,
            self.models,
            redact=self.log.redactor.add,
            approvals=Approvals(self.approvals),
        )


@asynccontextmanager
async def _opened(
    kind: type[Hive],
    path: str | os.PathLike[str] | None,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    plugins: LoadPlugins,
) -> AsyncGenerator[Hive]:
    config = open_config(path, flags, env)
    log = open_founded(config)
    try:
        hive = kind(config, log, plugins(config, env), env)
    except BaseException:
        log.close()
        raise
    async with hive.working():
        yield hive


def _executor_limits(config: Config) -> ExecutorLimits:
    return ExecutorLimits(call_depth=config.get("limits.call_depth"))


def _broker(config: Config, engines: Sequence[SandboxEngine]) -> SandboxBroker:
    limits = SandboxLimits(
        **{name: config.get(f"sandbox.{name}") for name in SandboxLimits.__dataclass_fields__}
    )
    folder = config.root / config.get("sandbox.workspace")
    return SandboxBroker(lambda: engines, config.get("sandbox.commands"), limits, folder)
