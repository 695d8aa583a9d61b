"""From a call to the request of the sub-agent that it starts: less rights, fewer tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clawhive_core.capabilities import normalise
from clawhive_core.config.config import Config
from clawhive_core.errors import RunError
from clawhive_core.execution.scope import CallScope, RunScope
from clawhive_core.model.canonical import preview
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.model.runs import Task
from clawhive_core.policy.boundary import handed_on
from clawhive_core.policy.grants import derived
from clawhive_core.policy.grounding import Grounds
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.offering.agents import Agent, allow_list, budget_limits
from clawhive_core.runs.record.lineage import line_of, start_of
from clawhive_core.runs.requests import RequestMaker, RunOptions
from clawhive_core.runs.run import RunRequest

_OWN_FOLDER = ("fs.read:${run}/**", "fs.write:${run}/**")
_SUFFIX = 8


@dataclass(frozen=True, slots=True)
class Nursery:
    """Makes the requests of sub-agents."""

    config: Config
    log: Ledger
    maker: RequestMaker

    def child(self, agent: Agent, task: str, call: CallScope) -> RunRequest:
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
        line = [principal for _, principal in line_of(self.log, parent.run_id)]
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
            **aside(parent),
        )
        model = start_of(self.log, parent.run_id)["model"]
        return RunRequest(
            wanted,
            scope,
            agent.principal,
            self.maker.catalog.current.revision,
            max_tool_rounds=self.config.get("loop.max_tool_rounds"),
            budget=budget_limits(self.config, agent.principal),
            grants=tuple(grants),
            title=preview(task, 80),
            parent_run_id=parent.run_id,
            parent_step_id=call.step_id,
            words=parent.grounds.words,
            most_agents=self.config.get("limits.agents_total"),
            **self.maker.answering(agent, allow, RunOptions(), model),
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


def aside(parent: RunScope) -> dict[str, object]:
    """Return what a sub-agent's scope does otherwise than its parent's.

    Nobody is asked while its parent's call runs: it parks, and its parent with it, whose time does
    not run while a person thinks.
    """
    return {
        "approve": "deny" if parent.approve == "deny" else "park",
        "ask": None,
        "streams": False,
        "asked": frozenset[str | None](),
    }


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
