"""Sub-agents: tools of the catalog that start them, and the requests of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

import anyio

from clawhive_core.capabilities import normalise
from clawhive_core.catalog.listing import problem_of
from clawhive_core.config.config import Config
from clawhive_core.errors import NeedHumanApproval, RunBusy, RunError, ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.recorded import resolve_blobs
from clawhive_core.execution.scope import CallScope, Signal
from clawhive_core.model.canonical import canonical_text, preview
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage, LlmRequest
from clawhive_core.model.principal import Principal
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import ENDED, Task
from clawhive_core.model.tools import Artifact, ToolMeta, ToolResult
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.policy.boundary import handed_on
from clawhive_core.policy.grants import derived
from clawhive_core.policy.grounding import Grounds
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.agents import AGENTS, Agent, allow_list
from clawhive_core.runs.record.lineage import ancestry, child_of_step, descendants, end_of, start_of
from clawhive_core.runs.record.ownership import recover, run_of
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.responses import no_answer
from clawhive_core.runs.run import CODE, RunRequest, SpawnedBy

_TIMEOUT_MS = 3_600_000
_POLL_SECONDS = 0.5

_INPUT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100_000,
            "description": "What to do, with all that the agent must know: it sees nothing else.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


class Runner(Protocol):
    """Executes runs, each with an owner and a checkpoint at its end."""

    async def run(self, request: RunRequest) -> None:
        """Execute a run to its end or its next stop."""
        ...

    async def resume(self, run_id: str, options: RunOptions) -> None:
        """Go on with a run that waits or was interrupted."""
        ...


class _Slots:
    """The number of sub-agents that a run may still have at work."""

    def __init__(self, at_once: int) -> None:
        self.free = anyio.Semaphore(at_once)


@dataclass(slots=True)
class SubAgents:
    """Starts sub-agents for calls, goes on with those that stopped, and reads what came of them."""

    log: Ledger
    book: ApprovalBook
    requests: Callable[[], SubAgentRequests]
    runner: Runner
    at_once: int
    """The number of sub-agents that one run may have at the same time."""
    _slots: WeakValueDictionary[str, _Slots] = field(
        default_factory=WeakValueDictionary[str, "_Slots"]
    )

    async def work(self, agent: Agent, task: str, call: CallScope) -> str:
        """Bring the sub-agent of a call to its end, and return its run.

        Raises:
            NeedHumanApproval: It waits for a person; `data` names the approvals.
            RunError: It may not be started, or cannot go on.
        """
        slots = self._slots.setdefault(call.run.run_id, _Slots(self.at_once))
        async with slots.free:
            run_id = child_of_step(self.log, call.run.run_id, call.step_id)
            if run_id is None:
                request = self.requests().make(agent, task, call)
                run_id = request.scope.run_id
                await self.runner.run(request)
            else:
                await self._go_on(run_id, call)
        if self._status(run_id) not in ENDED:
            raise self._waits(run_id)
        return run_id

    async def _go_on(self, run_id: str, call: CallScope) -> None:
        """Bring a sub-agent's run to its end or next stop, unless another process does."""
        run = call.run
        approve = "deny" if run.approve == "deny" else "park"
        options = RunOptions(command=run.command, on_signal=run.signal, approve=approve)
        while (status := self._status(run_id)) not in ENDED:
            if status not in {"pending", "running"}:
                with suppress(RunBusy):
                    await self.runner.resume(run_id, options)
                    return
            await anyio.sleep(_POLL_SECONDS)
            recover(self.log)

    def _status(self, run_id: str) -> str:
        return run_of(self.log, run_id).status

    def _waits(self, run_id: str) -> NeedHumanApproval:
        runs = {run_id, *descendants(self.log, run_id)}
        asked = [each.approval_id for each in self.book.pending() if each.run_id in runs]
        return NeedHumanApproval(
            "a sub-agent waits for a person",
            place=run_id,
            fix="clawhive approvals list",
            data={"run_id": run_id, "approvals": asked},
        )

    def result(self, run_id: str, call_id: str) -> ToolResult:
        """Return what an ended sub-agent came to, as its parent reads it."""
        end = end_of(self.log, run_id)
        if end is None:
            raise ToolError(f"the sub-agent's run {run_id} has no end", code="tool_failed")
        body = end.event.body
        left = self._artifacts(run_id, body["artifacts"])
        if body["error"] is None:
            output = resolve_blobs(self.log, body["output"])
            text = output if isinstance(output, str) else canonical_text(output)
            structured = None if isinstance(output, str) else output
            return ToolResult(call_id, text, structured=structured, artifacts=left)
        error = body["error"]
        next_step = {"action": "read_error", "command": f"clawhive runs show {run_id}"}
        refusal = Refusal(error["code"], f"the sub-agent failed: {error['message']}", next_step)
        value = refusal.to_dict()
        text = canonical_text(value)
        return ToolResult(call_id, text, is_error=True, structured=value, artifacts=left)

    def _artifacts(self, run_id: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Artifact, ...]:
        """Return a sub-agent's files by their paths in its parent's folder."""
        folder = PurePath(start_of(self.log, run_id)["artifacts"]).name
        files = (Artifact.from_dict(row) for row in rows)
        return tuple(replace(each, path=str(PurePath(folder, each.path))) for each in files)


class AgentProvider:
    """Offers the configured agents as tools (`clawhive_core.ToolProvider`).

    Args:
        agents: The agents; one whose name a tool cannot have is left out.
        sub_agents: What runs them.
    """

    provider_id = AGENTS

    def __init__(self, agents: Sequence[Agent], sub_agents: SubAgents) -> None:
        self._agents = {each.tool: each for each in agents if is_nameable(each)}
        self._sub_agents = sub_agents

    async def list_tools(self) -> list[ToolMeta]:
        """Return a tool an agent."""
        return [_meta(agent) for agent in self._agents.values()]

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Have an agent do a task, and answer what it says.

        Raises:
            ToolError: `tool_not_found`: there is no such agent.
            RunError: `agent_depth_exceeded`, `too_many_agents`, or it cannot go on.
            NeedHumanApproval: It waits for a person.
            ModelError: The one call of a `form = "call"` failed.
        """
        agent = self._agents.get(tool_name)
        if agent is None:
            raise ToolError(f"there is no agent for `{tool_name}`", code="tool_not_found")
        context, task = cast("ToolContext", ctx), str(input["task"])  # the executor makes no other
        if agent.form == "call":
            return await self._ask(agent, task, context)
        run = replace(context.scope.run, signal=partial(_relay, context))
        work = partial(self._sub_agents.work, agent, task, replace(context.scope, run=run))
        run_id = await context.nested.run(work)
        return self._sub_agents.result(run_id, ctx.tool_call_id)

    async def _ask(self, agent: Agent, task: str, context: ToolContext) -> ToolResult:
        """Make the single model call of an agent that has neither tools nor memory."""
        parent = start_of(self._sub_agents.log, context.run_id)
        model = agent.model or parent["model"]
        if not model:
            raise ToolError(
                f"no model is named for the agent `{agent.name}`",
                code="unknown_model",
                fix=f"set `model` under [agents.{agent.name}]",
            )
        message = LlmMessage.text("user", task)
        response = await context.complete(
            LlmRequest(model, (message,), system=agent.persona or None)
        )
        if (error := no_answer(response)) is not None:
            message = f"`{agent.name}`: {error.message}"
            raise ToolError(message, code=error.code, fix=error.fix)
        return ToolResult(context.tool_call_id, response.text)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def is_nameable(agent: Agent) -> bool:
    """Whether an agent's name can be a part of a tool's."""
    return problem_of(agent.tool, AGENTS) is None


def _meta(agent: Agent) -> ToolMeta:
    return ToolMeta(
        agent.tool,
        agent.description,
        _INPUT,
        AGENTS,
        capability_level="L0",
        risk="safe",  # it does nothing but by calls of its own, each decided
        effects={"": f"agent.spawn:{agent.name}"},
        side_effects=agent.form == "full",
        idempotent=True,  # it goes on with the run that the same call started
        timeout_ms=_TIMEOUT_MS,
        category="agents",
        keywords=("agent", "delegate", agent.name),
    )


def _relay(context: ToolContext, signal: Signal) -> None:
    """Let the listeners of a parent know what its sub-agent shows, and how far it is."""
    if signal.kind == "step":
        if signal.text:
            context.progress(signal.done, signal.total, signal.text)
    elif signal.kind in {"output", "show"}:
        context.scope.run.signal(signal)


_OWN_FOLDER = ("fs.read:${run}/**", "fs.write:${run}/**")
_SUFFIX = 8


@dataclass(frozen=True, slots=True)
class SubAgentRequests:
    """Makes the requests of sub-agents."""

    config: Config
    log: Ledger
    maker: RequestMaker

    def make(self, agent: Agent, task: str, call: CallScope) -> RunRequest:
        """Return the request of a sub-agent: a session of its own, in its parent's trace.

        Its rights are what its parent may give on, its tools those that its parent sees and gives
        on, and what the user said is what the user said to the first run of all.

        Args:
            agent: Who is started.
            task: What it is to do, in its parent's words.
            call: The call that starts it.

        Raises:
            RunError: `agent_depth_exceeded`: an agent above it may start none so deep.
            UnknownModel: No model is named.
        """
        parent, wanted = call.run, Task(new_id("task"), prompt=task)
        line = [principal for _, principal in ancestry(self.log, parent.run_id)]
        self._refuse_depth(agent, line)
        run_id = new_id("run")
        folder = f"{parent.artifacts}/{agent.name}-{run_id[-_SUFFIX:]}"
        rights = list(_handed_on(call, folder))
        grants = derived(rights, wanted.task_id, str(agent.principal))
        allow = allow_list(self.config, *line, agent.principal)
        scope = replace(
            parent,
            task_id=wanted.task_id,
            run_id=run_id,
            conversation_id=new_id("conv"),
            artifacts=folder,
            rules=self.maker.rules(grants, folder),
            allow=allow,
            grounds=Grounds(*parent.grounds.words).below(parent.grounds),
            parent_run_id=parent.run_id,
            fence=1,
            # Nobody is asked while its parent's call runs: it parks, and its parent with it, whose
            # time does not run while a person thinks.
            approve="deny" if parent.approve == "deny" else "park",
            ask=None,
            streams=False,
            asked=frozenset[str | None](),
        )
        model = start_of(self.log, parent.run_id)["model"]
        maker = self.maker
        setup = maker.model_setup(agent, RunOptions(), model)
        return RunRequest(
            wanted,
            scope,
            agent.principal,
            preview(task, 80),
            parent.grounds.words,
            tuple(grants),
            setup=setup,
            offer=maker.offer(agent, allow, in_code=setup.planner == CODE),
            limits=maker.prompt_limits(maker.limits(agent.principal)),
            spawned_by=SpawnedBy(call.step_id, self.config.get("limits.agents_total")),
        )

    def _refuse_depth(self, agent: Agent, line: Sequence[Principal]) -> None:
        for far, above in enumerate(reversed(line), 1):
            most = Agent.read(self.config, above).max_depth
            if far > most:
                raise RunError(
                    f"`{agent.name}` would work {far} levels below `{above}`, which may start "
                    f"sub-agents {most} deep",
                    code="agent_depth_exceeded",
                    fix="do it without a further sub-agent",
                )


def _handed_on(call: CallScope, folder: str) -> Iterator[CapabilityGrant]:
    """Yield what a call's run may give on; of its own folder the part that is the sub-agent's."""
    run = call.run
    own = {normalise(text, run.variables): text for text in _OWN_FOLDER}
    for grant in handed_on(call.rules.grants):
        text = own.get(grant.capability)
        if text is None or grant.issuer != "starter":
            yield grant
        else:
            part = normalise(text, {**run.variables, "run": folder})
            yield replace(grant, capability=part)
