"""The scope of a call: its run, its caller, its step, and the tools that the caller may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from clawhive_core.capabilities import Capability, contains, parse
from clawhive_core.events.rows import now
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass, per_call
from clawhive_core.model.principal import Principal
from clawhive_core.model.questions import Answer, Question
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.grounding import Grounds, SkillGrounds
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.ledger import RunOwnedBy

ApproveMode = Literal["ask", "park", "deny"]
"""The fate of a call that a person must answer: somebody is asked here, the run waits for an answer
from elsewhere, or the call is refused."""

CORE = "core"
"""The provider of the core's own tools, which every principal may call."""

Ask = Callable[[Approval], Awaitable[None]]
"""Shows an approval to a person and resolves it; one that returns without doing so lets the run
park."""

Reply = Callable[[Question], Awaitable[Answer]]
"""Puts the question of a tool to a person."""


NESTED = ">"
"""The separator between a step's id and the number of a call that its tool made."""


@per_call
class Signal:
    """Something a running call lets its listeners know at once; not part of the log."""

    kind: Literal["progress", "output", "show", "step", "text", "thinking", "again"]
    """A step tells how many of its run's have ended, and by `text` that it begins; `text` and
    `thinking` are pieces of a model's answer; after `again` the answer begins anew."""
    step_id: str
    tool: str
    stream: str = ""
    data: bytes = b""
    done: float = 0
    total: float | None = None
    text: str = ""
    card: Mapping[str, Any] | None = None
    """The card that is shown: `type`, `card_type` and `data`."""


def ignore_signal(_: Signal) -> None:
    """Let a signal pass where nobody listens."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The tools that a skill's handler may call, beside those of the core."""

    skill_id: str
    tools: Mapping[str, str | None]
    """Canonical name or alias to the provider that must serve it; None for any."""
    is_open: bool = False
    """Whether it may call what it does not declare, too (`contracts.phase = "compat"`)."""

    def resolve(self, name: str) -> str:
        """Return the name that a bare one stands for: an own tool, else an imported one."""
        if "." in name:
            return name
        own = f"{self.skill_id}.{name}"
        if own in self.tools:
            return own
        return next((each for each in self.tools if each.rpartition(".")[2] == name), name)

    def allows(self, name: str, meta: ToolMeta | None) -> bool:
        """Whether a call by `name`, of the tool that it names where there is one, is declared."""
        if self.is_open:
            return True
        if meta is None:
            return name in self.tools
        names = (name, meta.name, *meta.aliases)
        return meta.provider_id == CORE or any(
            each in self.tools and self.tools[each] in {None, meta.provider_id} for each in names
        )


@dataclass(slots=True)
class Enabled:
    """The tools that a model may call by now, where it begins with a list of them."""

    names: set[str]
    """Canonical names; they grow as skills become active."""
    skills: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    """By tool, the skills that bring it when their text is opened."""
    by: str = ""
    """The tool that enables others by name; empty where none does."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """The facts that every call of one run shares."""

    trace_id: str
    task_id: str
    run_id: str
    conversation_id: str
    user_id: str
    root: str
    """The project root, absolute."""
    artifacts: str
    """The run's artifacts folder, absolute; created on first use."""
    rules: Rules
    home: str = ""
    """The value of `${home}`, empty where it is unknown."""
    command: str = ""
    """The command line that refusals extend by `--grant`; empty where a program started the run."""
    profile: Mapping[str, Any] = field(default_factory=dict[str, Any])
    secrets: Callable[[str], str | None] = lambda _: None
    signal: Callable[[Signal], None] = ignore_signal
    streams: bool = False
    """Whether listeners want a model's answer piece by piece."""
    approve: ApproveMode = "deny"
    ask: Ask | None = None
    reply: Reply | None = None
    asked: frozenset[str | None] = frozenset()
    """The steps whose call waited for a person before the run stopped."""
    grounds: Grounds = field(default_factory=Grounds)
    """The sources of destinations for its calls; it grows with each result."""
    allow: AllowList | None = None
    """The tools of the agent that runs it; None for all."""
    parent_run_id: str | None = None
    """The run that started it."""
    revocations: Callable[[Rules], None] = lambda _: None
    """Takes out of the rules what was revoked elsewhere."""

    fence: int = 0
    """Under which number its executor took it; none where it is not in the log."""

    @property
    def owned(self) -> tuple[RunOwnedBy, ...]:
        """The expectation of each append by its executor: that nobody took it since."""
        return (RunOwnedBy(self.run_id, self.fence),) if self.fence else ()

    def refresh(self) -> None:
        """Let what was revoked or has expired count no longer: before each decision."""
        self.revocations(self.rules)
        if self.rules.may_expire:
            self.rules.expire(now())

    @property
    def above(self) -> Mapping[str, str]:
        """The run that started it, as each of its calls names it in the log."""
        return {} if self.parent_run_id is None else {"parent_run_id": self.parent_run_id}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that effects may name: the project's folder and the run's."""
        return {"workspace": self.root, "run": self.artifacts}


@per_call
class CallScope:
    """One call's surroundings: its run, its principal, its step."""

    run: RunScope
    principal: Principal
    step_id: str
    label: str = ""
    """The plan's name for the step."""
    ordinal: int = 0
    attempt: int = 1
    depth: int = 0
    parent_invocation_id: str | None = None
    deadline: float | None = None
    """On the monotonic clock, in seconds; a nested call never outlives its parent."""
    approved: str | None = None
    """The approval that an unfinished attempt of this very call used: it counts once more."""
    reach: Reach | None = None
    """The tools that the caller may call, where it is a skill's handler; None for all."""
    grounds: SkillGrounds | None = None
    """The grounds of the skill whose own call it is; None where no skill makes it."""
    planned: str = ""
    """The planned step, whose items and nested calls share its grants; else a call is a step."""
    enabled: Enabled | None = None
    """The tools that the model may call; None for all that its agent sees."""
    turn: int | None = None
    """The turn of the loop that makes the call, from 0; None outside of a loop."""
    midway: Mapping[str, Any] | None = None
    """The input of the call that asks for a right midway, which constraints speak of; None for a
    call of a tool."""

    @property
    def invocation_id(self) -> str:
        """The id of this execution: equal runs give equal ids, which replay relies on."""
        return f"{self.step_id}#{self.attempt}"

    @property
    def step(self) -> str:
        """The id of the step that the call belongs to, whose grants it has."""
        return self.planned or self.step_id.partition("#")[0]

    @property
    def rules(self) -> Rules:
        """The rules of the run, with the grants of this step."""
        rules = self.run.rules
        return rules.of_step(self.step) if rules.differ_by_step else rules

    def event(
        self,
        kind: str,
        body: Mapping[str, Any],
        status: str | None = None,
        invocation_id: str | None = None,
        *,
        prechecked: bool = False,
    ) -> Event:
        """Return an event of the call's step, of a turn of a model say, its ids filled in."""
        run = self.run
        return Event(
            kind,
            body,
            run.trace_id,
            run.run_id,
            run.task_id,
            self.step_id,
            invocation_id,
            run.conversation_id,
            str(self.principal),
            status=status,
            prechecked=prechecked,
        )

    def sees(self, meta: ToolMeta) -> bool:
        """Whether the caller may know of a tool: its agent's list has it; the core's are known."""
        allow = self.run.allow
        if allow is None or self.principal.kind != "agent" or meta.provider_id == CORE:
            return True
        return allow.has(meta)

    def below(self, number: int, deadline: float) -> CallScope:
        """Return the scope of a call that the tool makes; its step is the same in every attempt."""
        return replace(
            self,
            step_id=f"{self.step_id}{NESTED}{number}",
            label="",
            attempt=1,
            depth=self.depth + 1,
            parent_invocation_id=self.invocation_id,
            deadline=deadline,
            approved=None,
            enabled=None,
        )


def is_nested(step_id: str | None) -> bool:
    """Whether a step is what a tool asked for: a call, or an answer of a model."""
    return step_id is not None and NESTED in step_id


_SKILL = "skill_"


@dataclass(frozen=True, slots=True)
class AllowList:
    """Patterns of tools' names, such as `web.*` and `file.read`, and the skills that it knows."""

    agent: str
    patterns: tuple[Capability, ...] | None = None
    """None for every name."""
    skills: frozenset[str] | None = None
    """The only skills whose tools are in the list; None for all."""
    above: AllowList | None = None
    """The list of the agent that started this one, which bounds it."""

    @classmethod
    def read(
        cls,
        agent: str,
        names: Sequence[str] | None,
        skills: Sequence[str] | None = None,
        above: AllowList | None = None,
    ) -> AllowList | None:
        """Return the list of `[agents.NAME]`, None where nothing bounds it.

        Args:
            agent: The agent.
            names: Its `allow`, None for all.
            skills: Its `skills`, None for all.
            above: What bounds it further.

        Raises:
            CapabilityError: A name cannot be one.
        """
        if names is None and skills is None:
            return above
        patterns = None if names is None else tuple(parse(f"tool.call:{name}") for name in names)
        return cls(agent, patterns, None if skills is None else frozenset(skills), above)

    def has(self, meta: ToolMeta) -> bool:
        """Whether a tool is in the list, by its name or by another spelling of it."""
        if self.above is not None and not self.above.has(meta):
            return False
        return self._knows_provider(meta.provider_id) and self._names(meta)

    def _knows_provider(self, provider_id: str) -> bool:
        if self.skills is None or not provider_id.startswith(_SKILL):
            return True
        return provider_id.removeprefix(_SKILL) in self.skills

    def _names(self, meta: ToolMeta) -> bool:
        return self.patterns is None or any(
            contains(pattern, parse(f"tool.call:{name}"))
            for pattern in self.patterns
            for name in (meta.name, *meta.aliases)
        )
