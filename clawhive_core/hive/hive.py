"""A project opened: its catalog, policy, executor, log and runs, for one program to use."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, assert_type

import anyio

from clawhive_core.audit.sinks import SinkFanout
from clawhive_core.catalog.assembly import Preferences
from clawhive_core.catalog.declarations import Declarations
from clawhive_core.catalog.local import ToolsFacade, configured_tools, revised
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.config.load import open_config
from clawhive_core.errors import ClawHiveError, UsageError
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution.access import SkillAccess
from clawhive_core.execution.approvals import Approvals
from clawhive_core.execution.executor import Executor, Wiring
from clawhive_core.execution.http.connections import Connections
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.skill_library import SkillLibrary
from clawhive_core.execution.store import ValueStore
from clawhive_core.hive.assembly import (
    agent_provider,
    executor_limits,
    offer_skills,
    own_providers,
    request_limits,
    sandbox_broker,
)
from clawhive_core.hive.contributed import Contributed
from clawhive_core.hive.known_tools import tools_of
from clawhive_core.hive.project_log import AwaitableApprovals, approval_book, open_verified
from clawhive_core.hive.records import Records
from clawhive_core.hive.running import Running
from clawhive_core.hive.spawned import Spawner, SubAgent
from clawhive_core.hive.sync import (
    Blocking,
    Loop,
    SyncSession,
    SyncSubAgent,
    SyncTools,
    blocking,
    entered,
    immediate,
    in_thread,
)
from clawhive_core.hive.watchdog import Watched, watched
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import LOCAL_USER, Principal
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolCall
from clawhive_core.plugins.environment import PluginEnvironment
from clawhive_core.plugins.manager import PluginManager, open_plugins
from clawhive_core.policy.persistent import read_persistent
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.concurrency import background
from clawhive_core.runs.conversation import answers_before
from clawhive_core.runs.models import Embedders, Models
from clawhive_core.runs.orchestrator import LiveServices, Orchestrator
from clawhive_core.runs.record.lineage import children_usage
from clawhive_core.runs.record.ownership import recover
from clawhive_core.runs.record.view import find_run, run_json
from clawhive_core.runs.requests import CatalogToolSource, RequestMaker, RunOptions
from clawhive_core.runs.session import Session

if TYPE_CHECKING:
    from clawhive_core.hive.replaying import ReplayMode
    from clawhive_core.policy.answers import Edited
    from clawhive_core.policy.approvals import ApprovalBook
    from clawhive_core.runs.options import RunKeywords
    from clawhive_core.runs.replays.replay import ReplayReport
    from clawhive_core.skills.report import SkillReport

__all__ = ["Hive", "RunOptions", "SyncHive"]

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
        self, config: Config, log: Ledger, plugins: PluginManager, env: Mapping[str, str]
    ) -> None:
        from clawhive_core.skills.load import load_skills

        self.config, self._env = config, env
        self.log, self.plugins = log, plugins
        self.notes: list[str] = []
        """The problems that stopped nothing, as sentences."""
        persistent = read_persistent(config.user_dir)
        if persistent.problem is not None:
            self.notes.append(persistent.problem)
        self.declarations = Declarations.of(config)
        """The user's declarations of tools that nobody else declares."""
        preferences = Preferences.of(config)
        self.catalog = CatalogStore(preferences, self.notes.append, self.declarations)
        self._contributed = contributed = Contributed(plugins)
        self.skill_set = load_skills(config, contributed.skill_sources(), env=env)
        self.skills = self.skill_set.loaded
        self._library = SkillLibrary(lambda: self.skill_set, config.user_dir)
        self.subscriptions = contributed.subscriptions(log)
        """The subscriptions: who may use what skills do not give for free."""
        book = approval_book(log, config)
        self.approvals = AwaitableApprovals(
            book.log, book.user_dir, book.variables, self._is_closing
        )
        """The calls that wait for a person, and their answers."""
        self.records = Records(log)
        """The log's records: runs, steps, calls, approvals, grants and events, page by page."""
        if persistent.pending:
            self.approvals.finish()
        embedders = Embedders(contributed.embedders, config.get("model.embedding"))
        required = config.get("audit.required_sinks")
        sinks = contributed.values("clawhive_audit_sinks")
        self._sinks = SinkFanout(log, sinks, required, config.get("audit.sink_seconds"))
        asked = (partial(request_limits, config), partial(answers_before, log), embedders)
        self.models = Models(contributed.adapters, log, *asked, self._sinks.acknowledge)
        self.tools = ToolsFacade(self.catalog, log, configured_tools(config, self.notes.append))
        self._requests = RequestMaker(config, self.catalog, self.skills, env, log, self._library)
        self._http = Connections(config.get("http.proxy"))
        self.executor = Executor(self._wiring(), executor_limits(config))
        doing = (self.executor, self.models, log, contributed.planners())
        below, source = partial(children_usage, log), CatalogToolSource(lambda: self._requests)
        engines = self._contributed.sandboxes
        self._sandbox = sandbox_broker(config, engines, env)
        ended = self._sandbox.release
        self._orchestrator = Orchestrator(*doing, children_usage=below, source=source, ended=ended)
        live = LiveServices(log, self.executor, self.models, self.catalog, self.approvals)
        parts = (live, self.executor, self._orchestrator, lambda: self._requests)
        self._running = Running(*parts, config.user_dir, self.notes.append)
        self._spawner = Spawner(self._running)

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
            ConfigError: (on entering) the configuration cannot be used; `untrusted_project`: what
                it was trusted to tighten is gone.
            StorageError: (on entering) `.clawhive/hive.db` cannot be opened; `forged_rights`: a
                table of it gives a right that the log does not.
        """
        environment = dict(os.environ if env is None else env)
        return cls._opened(path, flags or {}, environment, plugins or open_plugins)

    @classmethod
    @asynccontextmanager
    async def _opened(
        cls,
        path: str | os.PathLike[str] | None,
        flags: Mapping[str, Any],
        env: Mapping[str, str],
        plugins: LoadPlugins,
    ) -> AsyncGenerator[Hive]:
        config = open_config(path, flags, env)
        config.require_kept()
        redactor = Redactor(by_form=True)
        lent = PluginEnvironment(env, redactor.add)
        manager = plugins(config, lent)
        lent.redact(manager.secret_variables())
        log = open_verified(config, lambda: manager, redactor)
        with watched(Watched(log, config.get("limits.blocked_sec"), manager.packages)):
            try:
                hive = cls(config, log, manager, env)
            except BaseException:
                log.close()
                raise
            async with hive.working():
                yield hive

    @classmethod
    @contextmanager
    def open_sync(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        flags: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        plugins: LoadPlugins | None = None,
    ) -> Generator[SyncHive]:
        """Open a project for a program without async; arguments and errors are those of `open`.

        Returns:
            A context manager that gives a hive whose methods block.

        Raises:
            UsageError: (on entering) `inside_event_loop`, where this thread runs one.
        """
        with in_thread(cls.open(path, flags=flags, env=env, plugins=plugins)) as (hive, loop):
            yield SyncHive(hive, loop)

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
        **more: Unpack[RunKeywords],
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
        else:
            request = self._requests.task(str(task), input or {}, chosen)
        self._running.check(request)
        chosen.on_start(request)
        await self._running.run(request)
        return run_json(self.log, request.scope.run_id)

    async def spawn(
        self,
        task: str,
        agent: str,
        *,
        parent: Session | None = None,
        options: RunOptions | None = None,
    ) -> SubAgent:
        """Start a sub-agent beside this program; return its handle.

        Args:
            task: What it is to do.
            agent: Its name, of `[agents.NAME]`.
            parent: The session that starts it, whose rights bound its own; it needs
                `agent.spawn:NAME`. Without one the agent is the first of its trace.
            options: How to run it, where it has no parent.

        Raises:
            UsageError: There is no such agent.
            UnknownModel: It has no model.
        """
        if parent is not None:
            return self._spawner.of_session(task, agent, parent)
        return self._spawner.top(task, replace(options or RunOptions(), agent=agent))

    async def call(
        self, name: str, input: Mapping[str, Any], options: RunOptions | None = None
    ) -> tuple[str, Outcome]:
        """Call one tool, as a run of its own; return the run's id and what came of it."""
        chosen = replace(options or _one_call(), title=name)
        async with self.session(options=chosen) as session:
            return session.run_id, await session.invoke(name, input)

    @asynccontextmanager
    async def session(
        self, principal: str | Principal = LOCAL_USER, options: RunOptions | None = None
    ) -> AsyncGenerator[Session]:
        """Open a session of one caller: its calls share rights, a run and a sandbox folder.

        A call of a `client:...` that a person must answer is refused with the id of its approval;
        the identical call, repeated in this session or a later one, uses the answer.
        """
        who = Principal.parse(principal) if isinstance(principal, str) else principal
        chosen = options or (RunOptions() if who.kind == "client" else _one_call())
        if chosen.approve == "park" and who.kind != "client":
            chosen = replace(chosen, approve="deny")  # nothing could go on with a caller's own code
        title = chosen.title or f"session of {who}"
        request = self._requests.assemble(Task(new_id("task")), chosen, who, title=title)
        async with self._running.session(request, self._spawner.stop) as session:
            yield session

    def check_skills(self, paths: Sequence[str | os.PathLike[str]] = ()) -> SkillReport:
        """Check the skills below paths, or all that are found, as `clawhive skills check` does.

        Raises:
            UsageError: A path does not exist.
        """
        from clawhive_core.skills.load import load_skills
        from clawhive_core.skills.report import SkillReport

        sources = self._contributed.skill_sources()
        given, tools = [*map(Path, paths)], tools_of(self.catalog.current)
        check = partial(load_skills, self.config, sources, env=self._env, paths=given, tools=tools)
        return SkillReport.of(check)

    def rules(self, options: RunOptions | None = None, task: str | None = None) -> dict[str, Any]:
        """Return the rules that a run, of a task type or not, would have; nothing is recorded."""
        from clawhive_core.runs.what_if import HypotheticalCall

        return HypotheticalCall(options or RunOptions(), task).rules(self._requests)

    async def explain(
        self,
        name: str,
        input: Mapping[str, Any],
        options: RunOptions | None = None,
        *,
        task: str | None = None,
        step: str | None = None,
    ) -> dict[str, Any]:
        """Say what would be decided about a call in a run, and why; nothing is done.

        With `task` it is a run of that task type, with `step` a call in that step of it.
        """
        from clawhive_core.execution.dry_run import explain
        from clawhive_core.runs.what_if import HypotheticalCall

        scope = HypotheticalCall(options or RunOptions(), task, step).scope(self._requests)
        return await explain(ToolCall("explain", name, dict(input)), scope, self.executor)

    async def replay(
        self, run: str, mode: ReplayMode = "exact", options: RunOptions | None = None
    ) -> ReplayReport:
        """Run a run again: on its recorded answers, or with one side live.

        Args:
            run: As for `resume`.
            mode: `exact` compares planner, loop and orchestrator with the record; `tools` makes
                the calls anew on the recorded model, `model` asks a model anew over the recorded
                tools; `policy` decides every call under today's rules and executes nothing.
            options: How the run is started, but for `exact`.

        Raises:
            NotReplayable: The run was a session's calls, without plan or prompt.
            UnknownId: No such run.
        """
        from clawhive_core.hive.replaying import Replayer, replayed

        today = replace(self._orchestrator, planners=self._contributed.planners())
        parts = (self.log, self.catalog, self.executor, self._requests, today, self._running.owned)
        return await replayed(Replayer(*parts), run, mode, options)

    async def resume(self, run: str, options: RunOptions | None = None) -> dict[str, Any]:
        """Go on with a run that waits for a person or was interrupted.

        Args:
            run: The run's id, a unique prefix, or `last`.
            options: How to go on; `approve`, `ask`, `command` and `on_signal` count.

        Returns:
            The run, as the JSON object of schema `run/1`.

        Raises:
            UnknownId: No such run.
            RunBusy: A living process owns it.
            RunError: `not_resumable`: it has ended, or it goes another way than its log says.
        """
        run_id = find_run(self.log, run)
        await self._running.resume(run_id, options or RunOptions())
        return run_json(self.log, run_id)

    async def edited(
        self, approval: str, input: Mapping[str, Any], before: Edited | None = None
    ) -> Edited | None:
        """Check other arguments for a call that waits for a person; None where nothing changed.

        What it returns is approved by `approvals.resolve(id, "approve", by=..., edited=...)`, or
        changed further with it as `before`.

        Raises:
            UnknownId: No such approval.
            InvalidInput: The arguments fail the tool's schema, or name nothing usable.
            RunError: `already_resolved`, `tool_changed` or `denied`.
        """
        return await self._running.edited(approval, input, before)

    async def events(self, since: int = 0) -> AsyncGenerator[StoredEvent]:
        """Yield the log's events after a number, then those to come until the hive is closed."""
        async for stored in self.log.follow(since, is_over=self._is_closing):
            yield stored

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """List the tools, deliver events to sinks, close everything at the end; see `open`."""
        try:
            recover(self.log)
            await self._assemble()
            watching = self.catalog.watching(lambda now: self.log.post(revised(now)))
            async with background(self._sinks.pumping()), background(watching):
                yield
        finally:
            await self._close()

    async def _assemble(self) -> None:
        await self.catalog.add_foreign(*self.plugins.providers(), code_of=self.plugins.code_of)
        add, config = self.catalog.add, self.config
        engines = self._contributed.sandboxes
        await add(*own_providers(config, self._sandbox, engines, self._library, self.catalog))
        await add(agent_provider(config, self._running, self.approvals))
        self.tools.open()
        self._leave_out_unmet()
        self.notes += await offer_skills(
            config, self._contributed.sandboxes, self.skills, self.catalog, self.plugins
        )

    def _leave_out_unmet(self) -> None:
        """Leave out the skills that require a tool which is not in the catalog."""
        from clawhive_core.skills.checks.set_check import check_tools

        self.skill_set = found = check_tools(self.skill_set, tools_of(self.catalog.current))
        self.skills[:] = found.loaded
        self._requests = replace(self._requests, left_out=found.left_out)
        self.notes += found.notes

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._spawner.stop()
            await self._running.stop()
            await self.catalog.close_providers()
            await self._http.aclose()
            await self._contributed.close()
            self.notes += await self._sinks.close()
            self._running.sign()
        self.log.close()

    def _is_closing(self) -> bool:
        return self._running.closing.is_set()

    def _wiring(self) -> Wiring:
        return Wiring(
            self.catalog,
            self.log,
            self._contributed.checks,
            self.models,
            stores=lambda scope, namespace: ValueStore(self.log, scope, namespace),
            redact=self.log.redactor.add,
            access=SkillAccess(lambda: self.skills, self.subscriptions, self.log),
            approvals=Approvals(self.approvals),
            http=self._http,
            acknowledge=self._sinks.acknowledge,
        )


def _one_call() -> RunOptions:
    return RunOptions(command="clawhive tools call", approve="deny")


class SyncHive(Blocking["Hive"]):
    """A Hive whose methods block; arguments, answers and errors are those of `Hive`.

    Any thread may call it. Whoever still waits when it is closed gets `cancelled`.

    Example:
        ::

            with Hive.open_sync() as hive:
                run = hive.run(task="run_code_snippet", input={"language": "python", "code": "1"})
                print(run["status"])
    """

    def __init__(self, inner: Hive, loop: Loop) -> None:
        super().__init__(inner, loop)
        self.tools = SyncTools(inner.tools, loop)
        """Adds and removes tools while the process runs."""

    run = blocking(lambda: Hive.run)
    call = blocking(lambda: Hive.call)
    explain = blocking(lambda: Hive.explain)
    replay = blocking(lambda: Hive.replay)
    resume = blocking(lambda: Hive.resume)
    edited = blocking(lambda: Hive.edited)
    rules = immediate(lambda: Hive.rules)
    check_skills = immediate(lambda: Hive.check_skills)

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
        with entered(self._loop.portal, inner) as session:
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
