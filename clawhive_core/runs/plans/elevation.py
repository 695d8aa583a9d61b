"""Rights of one step: given when it starts, taken back when it ends, and no other step has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from itertools import chain
from typing import Any

from clawhive_core.capabilities import Capability, overlaps, parse
from clawhive_core.execution.scope import RunScope
from clawhive_core.model.grants import CapabilityGrant, Mode
from clawhive_core.model.ids import new_id
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.policy.boundary import within
from clawhive_core.policy.terms import on_terms
from clawhive_core.runs.record.journal import ENDED, Journal, end_grants, run_event

PROCEDURE = "procedure"
"""The planner whose steps are the skill's own words."""


@dataclass(frozen=True, slots=True)
class DeclaredRights:
    """The rights that the skill of a task type declares."""

    permissions: Sequence[str] = ()
    """The most that its tasks may get; nothing is cut where there are none."""
    is_trusted: bool = False
    """Whether the skill is trusted: only then they are given too."""
    stated: Sequence[str] = ()
    """The capabilities that its steps state for themselves."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The absolute paths of `workspace`, `run` and `home`."""
    ended_steps: Collection[str | None] = ()
    """The ids of steps that had ended before the run was resumed: they get nothing again."""

    def of_task(self) -> list[str]:
        """Return what the skill gives the whole task: what none of its steps states for itself."""
        stated = [self._read(text) for text in self.stated]
        return [
            text
            for text in (self.permissions if self.is_trusted else ())
            if not any(overlaps(self._read(text), each) for each in stated)
        ]

    def of_step(
        self, step_id: str, permissions: Sequence[str], principal: Principal, planner: str
    ) -> list[CapabilityGrant]:
        """Return what a step gets beside its task, cut down to what the skill permits.

        It is allowed where the skill is trusted and permits it. Else a person is asked for each
        call: where the skill is not trusted, states no permissions, or another planner made the
        step.

        Raises:
            CapabilityError: A permission cannot be used.
        """
        if step_id in self.ended_steps:
            return []
        vouched = self.is_trusted and bool(self.permissions) and planner == PROCEDURE
        mode: Mode = "allow" if vouched else "ask"
        blank = CapabilityGrant("", "", str(principal), "step", step_id, "skill", mode)
        wanted = [
            on_terms(replace(blank, grant_id=new_id("grant")), parse(text, self.variables))
            for text in permissions
        ]
        return within(wanted, self.permissions, self.variables)

    def of_each(
        self, task_type: Mapping[str, Any], run_id: str, principal: Principal
    ) -> dict[str, list[CapabilityGrant]]:
        """Return what each step of a task type gets when it starts, by its name.

        Raises:
            CapabilityError: A permission cannot be used.
        """
        return {
            row["name"]: self.of_step(
                f"{run_id}/{row['name']}", row.get("permissions", ()), principal, PROCEDURE
            )
            for row in task_type["steps"]
        }

    def _read(self, text: str) -> Capability:
        return parse(text, self.variables).unconstrained


def step_permissions(steps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the permissions that the steps of a task type state for themselves."""
    return tuple(dict.fromkeys(chain.from_iterable(step.get("permissions", ()) for step in steps)))


@dataclass(slots=True)
class Elevation:
    """The state of a step whose grants count."""

    ended: bool = False
    """Whether it has ended, so that a resumed run does not give them again."""


@asynccontextmanager
async def elevated(
    journal: Journal, run: RunScope, principal: Principal, grants: Sequence[CapabilityGrant]
) -> AsyncGenerator[Elevation]:
    """Let the grants of a step count inside the block; however it is left, they end.

    Raises:
        LogWriteFailed: The log cannot be written; nothing was given.
    """
    elevation = Elevation()
    if not grants:
        yield elevation
        return
    step_id = grants[0].scope_id
    body = {"grants": [grant.to_dict() for grant in grants]}
    event = run_event(run, principal, "grant.issued", body, step_id=step_id)
    await journal.append(event, expects=run.owned)
    run.rules.extend(grants)
    try:
        yield elevation
    finally:
        gone = run.rules.revoke([grant.grant_id for grant in grants])
        reason = ENDED if elevation.ended else "its step waits, or was broken off"
        end_grants(journal, run, principal, gone, reason)
