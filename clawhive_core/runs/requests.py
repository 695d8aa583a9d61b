"""From options to a run: its scope, its rights, its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from clawhive_core.capabilities import below, normalise, path_capability
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.config.config import Config
from clawhive_core.errors import NotReplayable, UnknownModel, UnknownTaskType, UsageError
from clawhive_core.execution.scope import AllowList, RunScope
from clawhive_core.execution.skill_library import SkillLibrary
from clawhive_core.model.canonical import preview
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import Caching, dataclass
from clawhive_core.model.principal import DEFAULT_AGENT, Principal
from clawhive_core.model.runs import Task
from clawhive_core.model.tools import ToolDef
from clawhive_core.policy.boundary import within
from clawhive_core.policy.grants import GrantBook, derived
from clawhive_core.policy.grounding import CONTRACT, Grounds, skill_grounds
from clawhive_core.policy.protected import protection_of
from clawhive_core.policy.revocations import Revocations
from clawhive_core.policy.rules import Rules
from clawhive_core.policy.starter import Target, starter_grants
from clawhive_core.policy.suspension import bound
from clawhive_core.protocols.ledger import Ledger, SessionAt
from clawhive_core.runs.agents import Agent, agent_of, allow_list, budget_limits
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.conversation import Conversations, last_turn, messages_of
from clawhive_core.runs.offers import OfferBuilder, OfferCache
from clawhive_core.runs.options import RunOptions, SafeAsker, listener_of, prompt_of, require_input
from clawhive_core.runs.plans.elevation import DeclaredRights, step_permissions
from clawhive_core.runs.plans.tasks import find_task_type, make_task, permissions_of
from clawhive_core.runs.record.lineage import ancestry
from clawhive_core.runs.record.ownership import fence_of
from clawhive_core.runs.replays.recorded_run import RecordedRun, add_recorded_calls
from clawhive_core.runs.run import (
    CODE,
    Continuation,
    Contract,
    ModelSetup,
    RunLimits,
    RunRequest,
    SpawnedBy,
)
from clawhive_core.runs.toolsets import Offer, SkillTools, Toolset, active_before
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.skills.discovery.skill_set import Entry


@dataclass(frozen=True, slots=True)
class RequestMaker(Caching):
    """Makes run requests for one project."""

    config: Config
    catalog: CatalogStore
    skills: Sequence[Skill]
    env: Mapping[str, str]
    log: Ledger
    library: SkillLibrary
    left_out: Sequence[Entry] = ()
    """Skills that are not loaded, so that the answer to their tasks' names can say why."""
    offers: OfferCache = field(default_factory=OfferCache)

    def prompt(self, text: str, options: RunOptions, again: RunRequest | None = None) -> RunRequest:
        """Return the request of a prompt.

        One that is made `again` comes after the same words as the recorded run, and its agent sees
        no more tools than whoever started it let it see.

        Raises:
            UnknownModel: No model is named, by option or configuration.
            UsageError: A skill that is to be active is unknown, not loaded or not trusted.
        """
        from clawhive_core.runs.delegation import startable, started_by_words

        text = prompt_of(text)
        principal = agent_of(self.config, options.agent)
        agent = Agent.read(self.config, principal)
        turn = None
        if again is None:
            allow = allow_list(self.config, principal)
            if options.session is not None:
                # Before the rest is read: what is answered meanwhile is found at the start.
                turn = SessionAt(options.session, last_turn(self.log, options.session))
            said = self._conversations.before(options.session)
            continuation = Continuation(said.run_id, said.messages, said.history(), turn)
        else:
            allow, before = again.scope.allow, again.continuation
            continuation = Continuation(before.run_id, before.messages)
        opened = active_before(self.log, continuation.run_id)
        setup = self.model_setup(agent, options)
        offer = self.offer(agent, allow, options.skills, opened, in_code=setup.planner == CODE)
        request = self.assemble(
            Task(new_id("task"), prompt=text), options, principal, title=preview(text, 80)
        )
        return replace(
            request,
            continuation=continuation,
            delegates=started_by_words(startable(self.config, self.catalog, principal), text),
            setup=setup,
            offer=offer,
            limits=self.prompt_limits(request.limits),
        )

    def model_setup(
        self, agent: Agent, options: RunOptions, model: str | None = None
    ) -> ModelSetup:
        """Return what an agent answers a prompt with.

        Args:
            agent: The agent.
            options: What the user chose.
            model: What answers where neither the user nor the agent names a model.

        Raises:
            UnknownModel: No model is named.
        """
        chosen = options.model or agent.model or model or self.config.get("model.default")
        if not chosen:
            raise UnknownModel(
                "no model is chosen for this prompt",
                place="--model",
                fix="try `--model scripted:demo`, or set `default` under [model] in clawhive.toml",
            )
        planner = options.planner or agent.planner or self.config.get("model.planner")
        return ModelSetup(chosen, planner, agent.persona)

    def offer(
        self,
        agent: Agent,
        allow: AllowList | None,
        active: Sequence[str] = (),
        opened: Sequence[str] = (),
        *,
        in_code: bool = False,
    ) -> Offer:
        """Return what an agent's model is offered, of the tools that the agent sees.

        Args:
            agent: The agent.
            allow: The tools that it sees.
            active: The skills that the user named.
            opened: Those that were active in the conversation before.
            in_code: Whether the model calls them from programs.

        Raises:
            UsageError: A skill that is to be active is unknown, not loaded or not trusted.
        """
        found = self._offer_builder(agent, allow, in_code=in_code).build(agent, active, opened)
        return Offer(self.catalog.current.revision) if found is None else found

    def prompt_limits(self, limits: RunLimits) -> RunLimits:
        """Return limits with those of a prompt's answers, as the configuration has them."""
        return replace(
            limits,
            max_tokens=self.config.get("model.max_tokens"),
            compact_at_tokens=self.config.get("loop.compact_at_tokens"),
        )

    def _offer_builder(
        self, agent: Agent, allow: AllowList | None, *, in_code: bool
    ) -> OfferBuilder:
        root = str(self.config.root)
        denies, variables = self._expanded("policy.deny", root), self._variables(root)
        library = self.library.only(agent.skills)
        return OfferBuilder(
            self.catalog.current, self.offers, library, allow, denies, variables, in_code=in_code
        )

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return what a running agent is offered by now; None under the revision that it has."""
        del step_id
        now = self.catalog.current.revision
        if now == revision:
            return None
        agent = Agent.read(self.config, request.principal)
        skills = request.offer.skills
        in_code = request.setup.planner == CODE
        builder = self._offer_builder(agent, request.scope.allow, in_code=in_code)
        return builder.build(agent, skills.active, skills.opened)

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return the tools of these names, as far as a running agent may have them."""
        del step_id
        agent = Agent.read(self.config, request.principal)
        in_code = request.setup.planner == CODE
        builder = self._offer_builder(agent, request.scope.allow, in_code=in_code)
        return builder.tools_named(names)

    def task(self, name: str, given: Mapping[str, Any], options: RunOptions) -> RunRequest:
        """Return the request of a task type by name.

        Raises:
            UnknownTaskType: No loaded skill has it.
            UsageError: The input is no object; `skill_disabled`: its skill is switched off.
            InvalidInput: The input fails the type's schema.
        """
        from clawhive_core.runs.delegation import startable, started_by_type

        require_input(given)
        principal = agent_of(self.config, options.agent)
        known = Agent.read(self.config, principal).skills
        skills = [each for each in self.skills if known is None or each.id in known]
        full_name, skill, task_type = find_task_type(skills, name, self.left_out)
        task = make_task(full_name, task_type, given)
        rights = self._declared(skill, task_type)
        contract = Contract(task_type.to_dict(), rights, skill_grounds(skill))
        request = self.assemble(task, options, principal, title=full_name, contract=contract)
        starts = started_by_type(startable(self.config, self.catalog, principal), full_name)
        return replace(request, delegates=starts)

    def hypothetical(self, options: RunOptions, task: str | None = None) -> RunRequest:
        """Return the request of a run that nobody starts, of a task type or of none.

        Raises:
            UnknownTaskType: No loaded skill has it.
            UsageError: There is no such agent.
        """
        agent = agent_of(self.config, options.agent)
        if task is None:
            return self.assemble(Task(new_id("task")), options, agent)
        full_name, skill, task_type = find_task_type(self.skills, task, self.left_out)
        contract = Contract(task_type.to_dict(), self._declared(skill, task_type))
        return self.assemble(Task(new_id("task"), full_name), options, agent, contract=contract)

    def assemble(
        self,
        task: Task,
        options: RunOptions,
        principal: Principal = DEFAULT_AGENT,
        *,
        title: str = "",
        contract: Contract | None = None,
    ) -> RunRequest:
        """Return a request with a fresh run, its rights and its artifacts folder.

        Args:
            task: What the run is for.
            options: How to run it.
            principal: Who acts.
            title: What listings call it.
            contract: What the skill of its task type declares.
        """
        run_id = new_id("run")
        artifacts = run_folder(self.config, options.out, run_id)
        session = options.session or new_id("conv")
        target = Target(task.task_id, str(principal), self._variables(artifacts))
        given = derived(self._counting(options.session, principal), task.task_id, str(principal))
        variables = target.variables
        contract = contract or Contract()
        declared = replace(contract.rights or DeclaredRights(), variables=variables)
        given += target.grants(declared.of_task(), "skill")
        grants = self._grants(target, options, declared.permissions, given)
        scope = RunScope(
            trace_id=new_id("trace"),
            task_id=task.task_id,
            run_id=run_id,
            conversation_id=session,
            user_id=self.config.get("user.id"),
            root=str(self.config.root),
            home=self.config.home,
            artifacts=artifacts,
            rules=self.rules(grants, artifacts),
            allow=allow_list(self.config, principal),
            grounds=initial_grounds(task, contract.task_type, options.words),
            fence=1,
        )
        return RunRequest(
            task,
            self._surrounded(scope, options),
            principal,
            title,
            options.words,
            tuple(grants),
            replace(contract, rights=declared if contract.rights else None),
            offer=Offer(self.catalog.current.revision),
            limits=self.limits(principal, options.max_tool_rounds),
        )

    def limits(self, principal: Principal, max_tool_rounds: int | None = None) -> RunLimits:
        """Return the bounds of a run, of the rounds those that its caller chose."""
        rounds = max_tool_rounds
        if rounds is None:
            rounds = self.config.get("loop.max_tool_rounds")
        return RunLimits(rounds, budget=budget_limits(self.config, principal))

    def resumed(self, run_id: str, options: RunOptions) -> RunRequest:
        """Return the request of a recorded run that goes on, with the rights that it still has.

        Raises:
            NotReplayable: Its task type is gone.
            StorageError: `foreign_database`: somebody else wrote an event of it.
        """
        self.log.require_own(run_id)
        record = RecordedRun.load(self.log, run_id)
        request = self.recorded(record)
        run = request.scope
        book, present = self._book(), datetime.now(UTC)
        rights = book.of_task(run.task_id, present) + book.of_steps(run.run_id, present)
        since = self._counting(run.conversation_id, request.principal)
        if run.parent_run_id is not None:  # what it has for good its parent gave it
            since = [each for each in since if each.scope == "session"]
        variables = self._variables(run.artifacts)
        declared = replace(
            self._permitted(request), variables=variables, ended_steps=record.ended_steps
        )
        rights += within(since, declared.permissions, variables)
        scope = replace(
            run,
            rules=self.rules(rights, run.artifacts),
            asked=record.asked_steps,
            grounds=self._remembered(request, record),
            fence=fence_of(self.log, run_id) + 1,
        )
        contract = replace(request.contract, rights=declared)
        return replace(request, scope=self._surrounded(scope, options), contract=contract)

    def _remembered(self, request: RunRequest, record: RecordedRun) -> Grounds:
        """Return what a recorded run may take destinations from, and what taints those above it."""
        above = None
        if request.scope.parent_run_id is not None:
            self.log.require_own(request.scope.parent_run_id)
            parent = RecordedRun.load(self.log, request.scope.parent_run_id)
            above = self._remembered(self.recorded(parent), parent)
        grounds = initial_grounds(request.task, request.contract.task_type, request.words)
        add_recorded_calls(grounds, record, self.catalog.current)
        return grounds if above is None else grounds.below(above)

    def rules(self, grants: Sequence[CapabilityGrant], artifacts: str) -> Rules:
        """Return grants with the denies and asks of the configuration."""
        denies = (*self._expanded("policy.deny", artifacts), *reserved(self.config))
        return Rules(grants, denies, tuple(self._expanded("policy.ask", artifacts)))

    def _permitted(self, request: RunRequest) -> DeclaredRights:
        """Return what the skill of a request's task type says of rights today."""
        if request.task.task_type is None:
            return DeclaredRights()
        _, skill, task_type = find_task_type(self.skills, request.task.task_type)
        return self._declared(skill, task_type)

    def _declared(self, skill: Skill, task_type: TaskType) -> DeclaredRights:
        permissions = permissions_of(skill, task_type, self.skills)
        return DeclaredRights(permissions, skill.trusted, step_permissions(task_type.steps))

    def _book(self) -> GrantBook:
        return GrantBook(self.config.user_dir, self.log)

    def _counting(self, session: str | None, principal: Principal) -> list[CapabilityGrant]:
        """Return the grants that a person gave a session, or for good, and that hold now."""
        return self._book().counting(session, principal, datetime.now(UTC))

    def given_since(self) -> Callable[[RunRequest], list[CapabilityGrant]]:
        """Return what finds a long run's new grants: those that a person gave since it last looked.

        It looks where the user's file or the log changed.
        """
        seen: list[object] = [self._book().mark()]

        def find(request: RunRequest) -> list[CapabilityGrant]:
            book = self._book()
            if (mark := book.mark()) == seen[0]:
                return []
            seen[0] = mark
            run, who = request.scope, request.principal
            held = run.rules.every
            known = {each.grant_id for each in held} | {each.parent_grant for each in held}
            now = book.counting(run.conversation_id, who, datetime.now(UTC))
            return derived(
                [each for each in now if each.grant_id not in known], run.task_id, str(who)
            )

        return find

    @cached_property
    def _conversations(self) -> Conversations:
        return Conversations(self.log)

    @cached_property
    def revocations(self) -> Revocations:
        """The watch for revocations made elsewhere, for all runs of this process."""
        return Revocations(self.log, self.config.user_dir)

    def _surrounded(self, scope: RunScope, options: RunOptions) -> RunScope:
        """Return a scope with what surrounds a run today: the caller, the user, the secrets."""
        asker = None if options.ask is None else SafeAsker(options.ask)
        return replace(
            scope,
            command=options.command,
            profile=self.config.get("user.profile") or {},
            secrets=self.env.get,
            signal=listener_of(options),
            streams=options.stream,
            approve=options.approve,
            ask=asker,
            reply=None if asker is None else asker.reply,
            revocations=self.revocations,
        )

    def recorded(self, record: RecordedRun) -> RunRequest:
        """Return the request of a recorded run, with today's task type.

        Raises:
            NotReplayable: Its task type is gone.
        """
        event, body = record.start.event, record.start.event.body
        row = body["task"]
        task = Task(
            row["task_id"], row["task_type"], record.resolve_blobs(row["input"]), row["prompt"]
        )
        contract = Contract()
        if task.task_type is not None:
            skill, found = self._todays(task.task_type, record.run_id)
            contract = Contract(found.to_dict(), grounds=skill_grounds(skill))
        scope = RunScope(
            trace_id=str(event.trace_id),
            task_id=task.task_id,
            run_id=record.run_id,
            conversation_id=str(event.conversation_id),
            user_id=self.config.get("user.id"),
            root=str(self.config.root),
            home=self.config.home,
            artifacts=body["artifacts"],
            rules=Rules(()),
            allow=allow_list(self.config, *(each for _, each in ancestry(self.log, record.run_id))),
            parent_run_id=body["parent_run_id"],
        )
        return RunRequest(
            task,
            scope,
            Principal.parse(str(event.principal)),
            body["title"],
            record.resolve_blobs(body.get("words")),
            contract=contract,
            setup=ModelSetup(
                body["model"], body["planner"], record.resolve_blobs(body.get("persona", ""))
            ),
            offer=Offer(
                body["catalog_revision"],
                tuple(ToolDef(*each) for each in record.resolve_blobs(body["tools"])),
                SkillTools.from_dict(record.resolve_blobs(body.get("skills"))),
                frozenset(body.get("polling", ())),
                record.resolve_blobs(body.get("instructions", "")),
            ),
            limits=RunLimits(
                body["max_tool_rounds"],
                body.get("max_tokens", 4096),
                body.get("compact_at_tokens", 2**53),
                BudgetLimits.from_dict(body.get("budget", {})),
            ),
            continuation=Continuation(
                body.get("continues"), messages_of(self.log, body.get("continues"))
            ),
            spawned_by=SpawnedBy(body.get("parent_step_id")),
            delegates=tuple(body.get("delegates", ())),
            replays=body.get("replays"),
        )

    def _todays(self, name: str, run_id: str) -> tuple[Skill, TaskType]:
        try:
            return find_task_type(self.skills, name)[1:]
        except UnknownTaskType as error:
            message = f"the run's task type `{name}` is not there any more"
            raise NotReplayable(message, place=run_id, fix=error.fix) from None

    def _grants(
        self,
        target: Target,
        options: RunOptions,
        permissions: Sequence[str],
        given: Sequence[CapabilityGrant],
    ) -> list[CapabilityGrant]:
        """Return the task's first grants: the meet of the user's side and the skill's."""
        side = [*starter_grants(target.task_id, target.subject, target.variables), *given]
        side += target.grants(self.config.get("policy.allow"), "config")
        named = target.grants(options.grants, "user")
        side += [bound(each, self.catalog.current.meta_of) for each in named]
        found = within(side, permissions, target.variables)
        return target.members(found) if permissions else found

    def _expanded(self, key: str, artifacts: str) -> list[str]:
        if not (patterns := self.config.get(key)):
            return []
        variables = self._variables(artifacts)
        return [normalise(pattern, variables) for pattern in patterns]

    def _variables(self, artifacts: str) -> dict[str, str]:
        return {
            "workspace": str(self.config.root),
            "run": artifacts,
            "home": self.config.home,
        }


@dataclass(frozen=True, slots=True)
class CatalogToolSource:
    """The catalog as the source of what running models are offered (`ToolSource`)."""

    requests: Callable[[], RequestMaker]

    def updated_offer(self, request: RunRequest, revision: str, step_id: str) -> Offer | None:
        """Return what is offered from a turn on, None where the revision is still the current."""
        return self.requests().updated_offer(request, revision, step_id)

    def tools_named(self, request: RunRequest, names: Sequence[str], step_id: str) -> Toolset:
        """Return the tools of these names, as far as the agent may have them."""
        return self.requests().tools_named(request, names, step_id)


_VERBS = ("fs.read", "fs.write", "fs.delete", "fs.exec")


def run_folder(config: Config, out: str | os.PathLike[str] | None, run_id: str) -> str:
    """Return a run's artifacts folder, absolute: the one that is named, else its own.

    Raises:
        UsageError: The folder lies inside .clawhive, is none, or the one that is named cannot be
            made or written to; `linked_folder`: it, or what it lies in below the project's root,
            is a link.
    """
    if out is None:
        folder = _folder_of_all(config.root, config.get("run.out")) + run_id
    else:
        folder = _usable(_outside_own(Path(out).absolute()))
    _refuse_links(str(config.root), folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):  # noqa: PTH112 - never raises
        raise UsageError(
            f"{folder} is no folder", place="--out", fix="name a folder, there or to be made"
        )
    return folder


def _refuse_links(root: str, folder: str) -> None:
    """Refuse a folder that somebody who ships the project could have put elsewhere."""
    if not folder.startswith(f"{root}/"):
        return
    at = root
    for name in folder[len(root) + 1 :].split("/"):
        at = f"{at}/{name}"
        if os.path.islink(at):  # noqa: PTH114 - each run passes here
            raise UsageError(
                f"{at} is a link, and the files of runs would lie elsewhere",
                place=at,
                fix="remove the link, or name the folder that is meant: --out DIR",
                code="linked_folder",
            )


@lru_cache(maxsize=64)
def _folder_of_all(root: Path, out: str) -> str:
    """Return the folder of the runs of a project, whose root is absolute, up to their names."""
    return os.path.join(_outside_own(root / out), "")  # noqa: PTH118 - it ends with a separator


def _outside_own(folder: Path) -> str:
    for spelled in (folder, Path(os.path.realpath(folder))):
        if (kind := protection_of(spelled.parts[1:])) in {"own", "closed"}:
            where = ".clawhive" if ".clawhive" in spelled.parts else f"{spelled}, which is {kind}"
            raise UsageError(
                f"a run's files cannot lie inside {where}",
                place="--out",
                fix="name another folder",
            )
    return str(folder)


def _usable(folder: str) -> str:
    """Return a folder that a run may leave files in: told before it begins, not at its end."""
    nearest = folder
    try:
        os.lstat(folder)
    except FileNotFoundError:
        nearest = next(str(each) for each in Path(folder).parents if each.exists())
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from None
    if os.path.isdir(nearest) and not os.access(nearest, os.W_OK | os.X_OK):  # noqa: PTH112 - never raises
        raise _unusable(folder, f"you may not write to {nearest}")
    return folder


def _unusable(folder: str, why: str) -> UsageError:
    fix = "name a folder, there or to be made, that you may write to"
    return UsageError(f"{folder} takes no files: {why}", place="--out", fix=fix)


def reserved(config: Config) -> list[str]:
    """Return the denies of the folders that are no tool's: the user's own, the sandboxes'."""
    folders = (config.user_dir, config.root / config.get("sandbox.workspace"))
    patterns = [_everything_below(os.path.realpath(each)) for each in folders]
    return [f"{verb}:{each}" for each in patterns for verb in _VERBS]


@lru_cache(maxsize=64)
def _everything_below(folder: str) -> str:
    """Return the resource of a folder with all that lies in it, as a pattern writes it."""
    return below(path_capability("fs.read", folder)).text.partition(":")[2]


def initial_grounds(
    task: Task, task_type: Mapping[str, Any] | None, words: Sequence[str] | None
) -> Grounds:
    """Return what a run starts with: the user's words, and what the steps of its contract name.

    Args:
        task: What the run is for; its prompt and input are the user's unless `words` are given.
        task_type: The contract's entry.
        words: What the user said instead.
    """
    grounds = Grounds(*((task.prompt, task.input) if words is None else words))
    for step in (task_type or {}).get("steps", ()):
        grounds.say(step.get("input"), CONTRACT)
    return grounds
