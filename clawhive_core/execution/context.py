"""The InvokeContext of the executor, which a tool is given of the call that it serves."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

from clawhive_core.capabilities import Capability, concrete, matches, parse, path_capability
from clawhive_core.errors import ToolError
from clawhive_core.execution.nested import NestedCalls
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.pending import idempotency_key
from clawhive_core.execution.scope import CallScope, Reach, RunScope, Signal
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import Event
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.model.principal import Principal
from clawhive_core.model.questions import Answer, Question
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import Artifact, ToolResult
from clawhive_core.policy.grounding import SkillGrounds
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.context import Store, Stream
from clawhive_core.protocols.http import HttpClient

if TYPE_CHECKING:
    from clawhive_core.execution.files.workspace import FileWorkspace
    from clawhive_core.execution.http.guard import Guard


_KEPT_OUTPUT = 64 * 1024
_PERSON_SECONDS = 600.0
"""Seconds that a person has for a tool's question."""
_MAX_SIGNALS = 10_000


def _no_time(_: float) -> None:
    """Leave the end of a call where it is: nobody measures it."""


class Services(Protocol):
    """The services that the executor lends to a tool."""

    async def call_nested(
        self, context: ToolContext, name: str, input: Mapping[str, Any], label: str
    ) -> Outcome:
        """Call another tool on this call's behalf."""
        ...

    async def require_nested(self, context: ToolContext, capability: str) -> tuple[str, ...]:
        """Decide about a right of this call."""
        ...

    async def complete_nested(self, context: ToolContext, request: LlmRequest) -> LlmResponse:
        """Ask a model on this call's behalf."""
        ...

    async def embed_nested(
        self, context: ToolContext, texts: Sequence[str], model: str | None
    ) -> Embeddings:
        """Ask an embedder on this call's behalf."""
        ...

    def guard(self) -> Guard:
        """Return the connections for requests."""
        ...

    def redact(self, secret: str) -> None:
        """Keep a value out of the log from now on."""
        ...

    def note(self, event: Event, run: RunScope) -> None:
        """Record what the tool was given."""
        ...

    def store_for(self, scope: CallScope, namespace: str) -> Store:
        """Return the store of one namespace."""
        ...


@dataclass(slots=True)
class ToolContext:
    """One call, as its tool sees it (protocols: InvokeContext)."""

    scope: CallScope
    tool: str
    tool_call_id: str
    granted: tuple[str, ...]
    """The capabilities of this call, each allowed."""
    deadline: float
    services: Services
    namespace: str
    reach: Reach | None = None
    """The tools that it may call, where it acts as a skill."""
    grounds: SkillGrounds | None = None
    """The grounds of its own calls, where a skill makes them."""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The call's own arguments, which constraints speak of."""
    suspended: tuple[CapabilityGrant, ...] = ()
    """The grants that do not count for its tool, which changed."""
    nested: NestedCalls = field(default_factory=NestedCalls)
    extend: Callable[[float], None] = _no_time
    """Moves the end of the call's time."""
    nested_artifacts: list[Artifact] = field(default_factory=list[Artifact])
    """The artifacts of nested calls, which belong to this call's result."""
    partial: dict[str, bytearray] = field(default_factory=dict[str, bytearray])
    signals: int = 0

    @property
    def trace_id(self) -> str:
        """The trace."""
        return self.scope.run.trace_id

    @property
    def task_id(self) -> str:
        """The task."""
        return self.scope.run.task_id

    @property
    def run_id(self) -> str:
        """The run."""
        return self.scope.run.run_id

    @property
    def step_id(self) -> str:
        """The step."""
        return self.scope.step_id

    @property
    def invocation_id(self) -> str:
        """This execution."""
        return self.scope.invocation_id

    @property
    def conversation_id(self) -> str:
        """The session."""
        return self.scope.run.conversation_id

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.scope.principal

    @property
    def user_id(self) -> str:
        """The user at the root."""
        return self.scope.run.user_id

    @property
    def skill_id(self) -> str | None:
        """The skill whose handler this is."""
        return self.namespace.removeprefix("skill_") if self.namespace[:6] == "skill_" else None

    @property
    def profile(self) -> Mapping[str, Any]:
        """The facts about the user in the configuration."""
        return self.scope.run.profile

    @property
    def idempotency_key(self) -> str:
        """Equal for every execution of the same ToolCall."""
        return idempotency_key(self.scope, self.tool_call_id)

    @property
    def workspace(self) -> FileWorkspace:
        """The project's files, as far as this call was granted them."""
        from clawhive_core.execution.files.workspace import FileWorkspace

        return FileWorkspace(self.scope.run.root, self._allows)

    @property
    def http(self) -> HttpClient:
        """Requests under the rights of this call."""
        from clawhive_core.execution.http.client import GuardedClient
        from clawhive_core.execution.http.target import Rights

        rights = Rights(self._require_once, self._names_host)
        return GuardedClient(self.services.guard, rights, self.remaining)

    @property
    def artifacts(self) -> str:
        """The run's artifacts folder, created now.

        Raises:
            ToolError: `linked_folder`, or `io_error`.
        """
        from clawhive_core.execution.files.nofollow import made_folder

        run = self.scope.run
        try:
            with made_folder(run.root, run.artifacts):
                return run.artifacts
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            raise ToolError(
                f"the folder {run.artifacts} cannot be used: {error.strerror or error}",
                code="linked_folder" if is_link else "io_error",
                place=run.artifacts,
                fix="remove the link" if is_link else "check permissions and free space",
            ) from error

    @property
    def store(self) -> Store:
        """The tool's own namespace."""
        return self.services.store_for(self.scope, self.namespace)

    def restrict(self, rules: Rules) -> None:
        """Make further calls with no more rights than these."""
        self.scope = replace(self.scope, run=replace(self.scope.run, rules=rules))

    def act_as(self, principal: Principal, rules: Rules, reach: Reach) -> None:
        """Make further calls as a skill: under its own name, within its rights and its reach."""
        self.restrict(rules)
        self.scope = replace(self.scope, principal=principal)
        self.reach = reach

    def end(self) -> None:
        """Let no further call begin on behalf of this one."""
        self.deadline = min(self.deadline, time.monotonic())

    def remaining(self) -> float:
        """Return the seconds until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    async def call(self, name: str, input: Mapping[str, Any]) -> Any:
        """Call another tool through the executor."""
        outcome = await self.invoke(name, input)
        return outcome.to_dict() if isinstance(outcome, Refusal) else outcome.value

    async def invoke(self, name: str, input: Mapping[str, Any], label: str = "") -> Outcome:
        """Call another tool and return the whole result or refusal, under a plan's name for it."""
        outcome = await self.services.call_nested(self, name, input, label)
        if isinstance(outcome, ToolResult):
            self.nested_artifacts.extend(outcome.artifacts)
        return outcome

    async def read(self, path: str) -> Any:
        """Return what the skill saved under a path, None where it saved nothing."""
        return (await self._call_core("read", {"path": path})).get("data")

    async def save(self, path: str, data: Any) -> None:
        """Save a JSON value below the skill's own namespace."""
        await self._call_core("save", {"path": path, "data": data})

    async def show(self, card_type: str, data: Mapping[str, Any] | None = None) -> None:
        """Show the user a card."""
        given: Mapping[str, Any] = {} if data is None else data
        await self._call_core("show", {"type": "card", "card_type": card_type, "data": given})

    async def _call_core(self, name: str, input: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a tool of the core, where nothing but its value will do."""
        answer = await self.call(name, input)
        if "error" in answer:
            raise ToolError(answer["message"], code=answer["error"])
        return answer

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """Ask a model under the run's rights, budget and log."""
        return await self.services.complete_nested(self, request)

    async def embed(self, texts: Sequence[str], model: str | None = None) -> Embeddings:
        """Ask an embedder under the run's rights, budget and log."""
        return await self.services.embed_nested(self, texts, model)

    async def require(self, capability: str) -> None:
        """Ask for a right that only shows midway."""
        self.granted += await self.services.require_nested(self, capability)

    def secret(self, name: str) -> str:
        """Return a secret that this call has the right to, and redact it from here on."""
        needed = concrete("secret.use", name)
        if not self._has_right(needed):
            raise ToolError(
                f"`{self.tool}` has no right to the secret `{name}`",
                code="denied",
                fix=f'declare the effect {{"": "{needed}"}}, or `await ctx.require("{needed}")`',
            )
        value = self.scope.run.secrets(name)
        if value is None:
            raise ToolError(
                f"no secret is named `{name}`",
                code="secret_not_found",
                fix=f"export {name}=... before starting clawhive",
            )
        self.services.redact(value)
        event = self.scope.event("secret.used", {"name": name, "tool": self.tool})
        self.services.note(event, self.scope.run)
        return value

    async def ask(self, question: Question) -> Answer:
        """Put a question to the person at the terminal, while the call's own time stands still."""
        run = self.scope.run
        if run.approve != "ask" or run.reply is None:
            return Answer("cancel")
        import anyio

        answer, ends = Answer("cancel"), time.monotonic() + _PERSON_SECONDS
        self._give_time(_PERSON_SECONDS)
        try:
            with anyio.move_on_after(_PERSON_SECONDS):
                answer = await run.reply(question)
        finally:
            self._give_time(min(0.0, time.monotonic() - ends))
        body = {"source": question.source, "tool": self.tool, "action": answer.action}
        names = sorted(answer.values)
        self.services.note(self.scope.event("question.answered", {**body, "names": names}), run)
        return answer

    def _give_time(self, seconds: float) -> None:
        self.deadline += seconds
        self.extend(seconds)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell listeners how far the call is."""
        self._signal(
            Signal("progress", self.step_id, self.tool, done=done, total=total, text=text[:200])
        )

    def output(self, stream: Stream, data: bytes) -> None:
        """Give listeners output at once; the last part is kept for the case of a timeout."""
        kept = self.partial.setdefault(stream, bytearray())
        kept += data[-_KEPT_OUTPUT:]
        del kept[:-_KEPT_OUTPUT]
        self._signal(Signal("output", self.step_id, self.tool, stream=stream, data=data))

    def card(self, card: Mapping[str, Any]) -> None:
        """Give listeners a card at once."""
        self._signal(Signal("show", self.step_id, self.tool, card=card))

    def _signal(self, signal: Signal) -> None:
        self.signals += 1
        if self.signals <= _MAX_SIGNALS:
            self.scope.run.signal(signal)

    def _allows(self, verb: str, path: str) -> bool:
        """Whether this call may touch a real path: covered by what it asked for, and not denied."""
        return self._has_right(path_capability(verb, path))

    async def _require_once(self, capability: str) -> None:
        """Ask for a right that this call was not given already."""
        if not self._has_right(parse(capability)):
            await self.require(capability)

    def _names_host(self, capability: Capability) -> bool:
        """Whether a grant allows this request and names its host, by no wildcard."""
        host = capability.parts[1]
        return any(
            grant.mode == "allow" and parse(grant.capability).parts[1] == host
            for grant in self.scope.rules.covering(capability, self.input)
        )

    def _has_right(self, capability: Capability) -> bool:
        """Whether a capability is covered by what this call asked for, and not denied by now."""
        rules = self.scope.rules
        if not covers(self.granted, capability):
            return False
        return rules.authority(capability, self.input, self.suspended).verdict != "deny"


def covers(granted: tuple[str, ...], capability: Capability) -> bool:
    """Whether one of the granted capabilities contains this one."""
    if capability.text in granted:
        return True
    return any(matches(parse(text), capability) for text in granted)
