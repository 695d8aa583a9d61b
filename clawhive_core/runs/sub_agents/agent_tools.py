"""Agents as tools of the catalog: `agent.NAME` runs a sub-agent and answers what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

import anyio

from clawhive_core.catalog.listing import problem_of
from clawhive_core.errors import NeedHumanApproval, RunBusy, ToolError
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.recorded import full
from clawhive_core.execution.scope import CallScope, Signal
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmMessage, LlmRequest
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import ENDED
from clawhive_core.model.tools import Artifact, ToolMeta, ToolResult
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.offering.agents import AGENTS, Agent
from clawhive_core.runs.record.lineage import below, child_of_step, end_of, start_of
from clawhive_core.runs.record.ownership import recover, run_of
from clawhive_core.runs.requests import RunOptions
from clawhive_core.runs.responses import no_answer
from clawhive_core.runs.run import RunRequest
from clawhive_core.runs.sub_agents.child import Nursery

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
    nursery: Callable[[], Nursery]
    runner: Runner
    at_once: int
    """How many sub-agents one run may have at work at the same time."""
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
                request = self.nursery().child(agent, task, call)
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
        runs = {run_id, *below(self.log, run_id)}
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
            output = full(self.log, body["output"])
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
        files = (Artifact(**row) for row in rows)
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
        """Nothing is held."""


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
