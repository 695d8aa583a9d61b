"""The journal of a run's events: the log, or in a replay the record it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from clawhive_core.execution.scope import RunScope
from clawhive_core.model.events import Event
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.principal import Principal
from clawhive_core.protocols.ledger import Expectation, Redaction, RunOwnedBy

ENDED: Final = "its step ended"
"""The reason why a step's grants end; a resumed run does not give them again."""


class Journal(Protocol):
    """Takes events in order. `Ledger` is one, `replay.RecordedJournal` another."""

    @property
    def redactor(self) -> Redaction:
        """Keeps secrets out of what is written."""
        ...

    async def append(
        self, *events: Event, sync: bool = False, expects: Sequence[Expectation] = ()
    ) -> list[int]:
        """Commit events where all that is expected holds; returns once they are durable."""
        ...

    def post(self, *events: Event, expects: Sequence[RunOwnedBy] = ()) -> None:
        """Queue events behind what is queued."""
        ...


class RunJournal(Journal, Protocol):
    """A journal in which runs are taken."""

    @property
    def worker(self) -> str:
        """The worker that executes the runs that are written here."""
        ...

    async def hold(self) -> None:
        """Make sure that its lease on what is taken next holds."""
        ...


def run_event(
    run: RunScope,
    principal: Principal,
    kind: str,
    body: Mapping[str, Any],
    status: str | None = None,
    step_id: str | None = None,
) -> Event:
    """Return an event of a run, or of a step of it, its ids filled in."""
    return Event(
        kind,
        body,
        trace_id=run.trace_id,
        run_id=run.run_id,
        task_id=run.task_id,
        conversation_id=run.conversation_id,
        principal=str(principal),
        step_id=step_id,
        status=status,
    )


def end_step(journal: Journal, run: RunScope, principal: Principal, step_id: str) -> None:
    """End what was granted for a step, now that it has ended."""
    if ended := run.rules.end_step(step_id):
        end_grants(journal, run, principal, ended, ENDED)


def end_grants(
    journal: Journal,
    run: RunScope,
    principal: Principal,
    grants: Iterable[CapabilityGrant],
    reason: str,
) -> None:
    """Record that grants of a step ended, and why."""
    for grant in grants:
        body = {"grant_id": grant.grant_id, "reason": reason}
        event = run_event(run, principal, "grant.revoked", body, step_id=grant.scope_id)
        journal.post(event, expects=run.owned)
