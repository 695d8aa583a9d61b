"""From options to a run: its scope, its rights, its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawhive_core.capabilities import below, normalise, path_capability
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.errors import NotReplayable, UnknownModel, UnknownTaskType, UsageError
from clawhive_core.events.log import EventLog
from clawhive_core.execution.scope import CORE, ApproveMode, Ask, RunScope, Signal
from clawhive_core.execution.skill_library import SkillLibrary
from clawhive_core.model.canonical import preview
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.model.principal import DEFAULT_AGENT, Principal
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolDef
from clawhive_core.policy.boundary import within
from clawhive_core.policy.grants import GrantBook, derived
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import Target, starter_grants
from clawhive_core.policy.suspension import bound
from clawhive_core.runs.agents import agent_of, allow_list, budget_limits
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.conversation import last_run, messages_of
from clawhive_core.runs.grounds import grounds_of, remember
from clawhive_core.runs.orchestrator import RunRequest
from clawhive_core.runs.skill_prompt import skill_prompt
from clawhive_core.runs.tasks import find_task_type, make_task, permissions_of
from clawhive_core.skills.skill import Skill, TaskType
from clawhive_core.skills.skill_set import Entry

if TYPE_CHECKING:
    from clawhive_core.runs.replay import Record

STUB = "stub"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is started with, beside its task."""

    model: str | None = None
    grants: Sequence[str] = ()
    """Capabilities that the user gives this task, as `--grant` does."""
    session: str | None = None
    out: Path | None = None
    """The artifacts folder; `clawhive-out/RUN_ID` below the project root otherwise."""
    max_tool_rounds: int | None = None
    command: str = "clawhive run"
    """The command line that refusals extend by `--grant`."""
    title: str = ""
    """What a session is called in listings."""
    on_start: Callable[[RunRequest], None] = lambda _: None
    on_signal: Callable[[Signal], None] = lambda _: None
    stream: bool = False
    """Whether `on_signal` gets a model's answer piece by piece."""
    approve: ApproveMode = "park"
    """What happens with a call that a person must answer."""
    skills: Sequence[str] = ()
    """Skills whose text a prompt's model is told from the start."""
    agent: str | None = None
    """The agent of `[agents.NAME]` that acts; the default one otherwise."""
    words: Sequence[str] | None = None
    """What the user said, where the prompt or the task's input is somebody else's: for a sub-agent,
    or for a session of an agent. Destinations that occur in it are not asked about."""
    ask: Ask | None = None
    """Who asks the person, where `approve` is `ask`; without it the run parks."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the skill of a task type says of rights."""

    permissions: Sequence[str] = ()
    """The most that its tasks may get; nothing is cut where there are none."""
    counts: bool = False
    """Whether they are given too: a trusted skill's are."""


_UNDECLARED = Declared()


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """Makes run requests for one project."""

    config: Config
    catalog: CatalogStore
    skills: Sequence[Skill]
    env: Mapping[str, str]
    log: EventLog
    library: SkillLibrary
    left_out: Sequence[Entry] = ()
    """Skills that are not loaded, so that the answer to their tasks' names can say why."""

    def prompt(self, text: str, options: RunOptions) -> RunRequest:
        """Return the request of a prompt.

        Raises:
            UnknownModel: No model is named, by option or configuration.
            UsageError: A skill that is to be active is unknown, not loaded or not trusted.
        """
        model = options.model or self.config.get("model.default")
        if not model:
            raise UnknownModel(
                "no model is chosen for this prompt",
                place="--model",
                fix="try `--model scripted:demo`, or set `default` under [model] in clawhive.toml",
            )
        agent = agent_of(self.config, options.agent)
        tools = self.offered_tools(agent)
        continues = None if options.session is None else last_run(self.log, options.session)
        return self.assemble(
            Task(new_id("task"), prompt=text),
            options,
            agent,
            title=preview(text, 80),
            model=model,
            tools=tools,
            polling=self._polling(tools),
            max_tokens=self.config.get("model.max_tokens"),
            compact_at_tokens=self.config.get("loop.compact_at_tokens"),
            before=messages_of(self.log, continues),
            continues=continues,
            instructions=skill_prompt(self.library, options.skills, (tool.name for tool in tools)),
        )

    def task(self, name: str, given: Mapping[str, Any], options: RunOptions) -> RunRequest:
        """Return the request of a task type by name.

        Raises:
            UnknownTaskType: No loaded skill has it.
            UsageError: `skill_disabled`, where a skill that is switched off has it.
            InvalidInput: The input fails the type's schema.
        """
        full_name, skill, task_type = find_task_type(self.skills, name, self.left_out)
        task = make_task(full_name, task_type, given)
        return self.assemble(
            task,
            options,
            agent_of(self.config, options.agent),
            skill=Declared(self._permissions(skill, task_type), counts=skill.trusted),
            title=full_name,
            task_type=task_type.to_dict(),
        )

    def assemble(
        self,
        task: Task,
        options: RunOptions,
        principal: Principal = DEFAULT_AGENT,
        skill: Declared = _UNDECLARED,
        **more: Any,
    ) -> RunRequest:
        """Return a request with a fresh run, its rights and its artifacts folder.

        Args:
            task: What the run is for.
            options: How to run it.
            principal: Who acts.
            skill: What the skill of its task type declares.
            **more: Further fields of the request.
        """
        run_id = new_id("run")
        artifacts = self._artifacts(options, run_id)
        session = options.session or new_id("conv")
        target = Target(task.task_id, str(principal), self._variables(artifacts))
        given = derived(self._counting(session, principal), task.task_id, str(principal))
        given += target.grants(skill.permissions if skill.counts else (), "skill")
        grants = self._grants(target, options, skill.permissions, given)
        scope = RunScope(
            trace_id=new_id("trace"),
            task_id=task.task_id,
            run_id=run_id,
            conversation_id=session,
            user_id=self.config.get("user.id"),
            root=str(self.config.root),
            artifacts=artifacts,
            rules=self._rules(grants, artifacts),
            allow=allow_list(self.config, principal),
            grounds=grounds_of(task, more.get("task_type"), options.words),
            **self._surroundings(options),
        )
        rounds = options.max_tool_rounds
        return RunRequest(
            task,
            scope,
            principal,
            self.catalog.current.revision,
            max_tool_rounds=self.config.get("loop.max_tool_rounds") if rounds is None else rounds,
            budget=budget_limits(self.config, principal),
            grants=tuple(grants),
            words=options.words,
            **more,
        )

    def resumed(self, run_id: str, options: RunOptions) -> RunRequest:
        """Return the request of a recorded run that goes on, with the rights that it still has.

        Raises:
            NotReplayable: Its task type is gone.
        """
        from clawhive_core.runs.replay import Record

        record = Record.load(self.log, run_id)
        request = self.recorded(record)
        run = request.scope
        present = datetime.now(UTC)
        rights = self._book().of_task(run.task_id, present)
        rights += self._book().of_steps(run.run_id, present)
        since = self._counting(run.conversation_id, request.principal)
        rights += within(since, self._permitted(request), self._variables(run.artifacts))
        rules = self._rules(rights, run.artifacts)
        grounds = grounds_of(request.task, request.task_type, request.words)
        remember(grounds, record, self.catalog.current)
        scope = replace(
            run,
            rules=rules,
            asked=record.asked,
            grounds=grounds,
            **self._surroundings(options),
        )
        return replace(request, scope=scope)

    def _rules(self, grants: Sequence[CapabilityGrant], artifacts: str) -> Rules:
        denies = (*self._expanded("policy.deny", artifacts), *self._reserved())
        return Rules(grants, denies, tuple(self._expanded("policy.ask", artifacts)))

    def _permitted(self, request: RunRequest) -> Sequence[str]:
        """Return what the skill of a request's task type permits today."""
        if request.task.task_type is None:
            return ()
        _, skill, task_type = find_task_type(self.skills, request.task.task_type)
        return self._permissions(skill, task_type)

    def _permissions(self, skill: Skill, task_type: TaskType) -> tuple[str, ...]:
        return permissions_of(skill, task_type, self.skills)

    def _book(self) -> GrantBook:
        return GrantBook(self.config.user_dir, self.log)

    def _counting(self, session: str, principal: Principal) -> list[CapabilityGrant]:
        """Return the grants that a person gave the session, or for good, and that hold now."""
        return self._book().counting(session, principal, datetime.now(UTC))

    def _surroundings(self, options: RunOptions) -> dict[str, Any]:
        return {
            "command": options.command,
            "profile": self.config.get("user.profile") or {},
            "secrets": self.env.get,
            "signal": options.on_signal,
            "streams": options.stream,
            "approve": options.approve,
            "ask": options.ask,
            "revocations": Revocations(self.log, self.config.user_dir),
        }

    def offered_tools(self, agent: Principal = DEFAULT_AGENT) -> tuple[ToolDef, ...]:
        """Return what an agent's model is offered: what its list has, but the stub's tools."""
        allow = allow_list(self.config, agent)
        return tuple(
            tool.meta.to_def()
            for tool in self.catalog.current
            if tool.meta.provider_id != STUB
            and (allow is None or tool.meta.provider_id == CORE or allow.has(tool.meta))
        )

    def _polling(self, tools: Sequence[ToolDef]) -> frozenset[str]:
        current = self.catalog.current.tools
        return frozenset(tool.name for tool in tools if current[tool.name].meta.polling)

    def recorded(self, record: Record) -> RunRequest:
        """Return the request of a recorded run, with today's task type.

        Raises:
            NotReplayable: Its task type is gone.
        """
        event, body = record.start.event, record.start.event.body
        row = body["task"]
        task = Task(row["task_id"], row["task_type"], record.full(row["input"]), row["prompt"])
        task_type = None
        if task.task_type is not None:
            task_type = self._todays(task.task_type, record.run_id).to_dict()
        scope = RunScope(
            trace_id=str(event.trace_id),
            task_id=task.task_id,
            run_id=record.run_id,
            conversation_id=str(event.conversation_id),
            user_id=self.config.get("user.id"),
            root=str(self.config.root),
            artifacts=body["artifacts"],
            rules=Rules(()),
            allow=allow_list(self.config, Principal.parse(str(event.principal))),
        )
        return RunRequest(
            task,
            scope,
            Principal.parse(str(event.principal)),
            body["catalog_revision"],
            tools=tuple(ToolDef(*each) for each in record.full(body["tools"])),
            task_type=task_type,
            model=body["model"],
            max_tool_rounds=body["max_tool_rounds"],
            budget=BudgetLimits(**body.get("budget", {})),
            polling=frozenset(body.get("polling", ())),
            max_tokens=body.get("max_tokens", 4096),
            compact_at_tokens=body.get("compact_at_tokens", 2**53),
            before=messages_of(self.log, body.get("continues")),
            continues=body.get("continues"),
            planner=body["planner"],
            title=body["title"],
            instructions=record.full(body.get("instructions", "")),
            words=record.full(body.get("words")),
        )

    def _todays(self, name: str, run_id: str) -> TaskType:
        try:
            return find_task_type(self.skills, name)[2]
        except UnknownTaskType as error:
            raise NotReplayable(
                f"the run's task type `{name}` is not there any more",
                place=run_id,
                fix=error.fix,
            ) from None

    def _artifacts(self, options: RunOptions, run_id: str) -> str:
        folder = options.out
        if folder is None:
            folder = self.config.root / self.config.get("run.out") / run_id
        absolute = folder.absolute()
        if ".clawhive" in absolute.parts:
            raise UsageError(
                "a run's files cannot lie inside .clawhive",
                place="--out",
                fix="name another folder",
            )
        if os.path.lexists(absolute) and not os.path.isdir(absolute):  # noqa: PTH112 - never raises
            raise UsageError(
                f"{absolute} is no folder", place="--out", fix="name a folder, there or to be made"
            )
        return str(absolute)

    def _grants(
        self,
        target: Target,
        options: RunOptions,
        permissions: Sequence[str],
        given: Sequence[CapabilityGrant],
    ) -> list[CapabilityGrant]:
        """Return the task's first grants: the meet of the user's side and the skill's."""
        side = starter_grants(target.task_id, target.subject, target.variables)
        side += given
        side += target.grants(self.config.get("policy.allow"), "config")
        named = target.grants(options.grants, "user")
        side += [bound(each, self.catalog.current.meta_of) for each in named]
        return within(side, permissions, target.variables)

    def _reserved(self) -> list[str]:
        """Return the denies of the folders that are no tool's: the user's own, the sandboxes'."""
        folders = (self.config.user_dir, self.config.root / self.config.get("sandbox.workspace"))
        return [
            below(path_capability(verb, os.path.realpath(folder))).text
            for folder in folders
            for verb in ("fs.read", "fs.write", "fs.delete", "fs.exec")
        ]

    def _expanded(self, key: str, artifacts: str) -> list[str]:
        variables = self._variables(artifacts)
        return [normalise(pattern, variables) for pattern in self.config.get(key)]

    def _variables(self, artifacts: str) -> dict[str, str]:
        return {
            "workspace": str(self.config.root),
            "run": artifacts,
            "home": self.env.get("HOME") or str(Path.home()),
        }
