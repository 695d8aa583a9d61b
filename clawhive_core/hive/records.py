"""The records of a project's log, read page by page: for programs, panels and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import (
    ApprovalsWhere,
    EventsWhere,
    GrantsWhere,
    InvocationsWhere,
    RunsWhere,
    StepsWhere,
    Window,
)

if TYPE_CHECKING:
    from clawhive_core.model.approvals import Approval
    from clawhive_core.model.events import StoredEvent
    from clawhive_core.model.records import (
        GrantRecord,
        InvocationRecord,
        Page,
        RunRecord,
        StepRecord,
    )
    from clawhive_core.protocols.ledger import Ledger

LIMIT = 50
"""The number of records of a page where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a project, read at once from its own file; nothing is changed by a look.

    Each method takes filters, of which all must hold, `limit`, and `after`: the `next` of the page
    before. A page has `items`, `next` and `total`, and iterates over its items. A moment is RFC
    3339 in UTC, as records hold it.

    Raises:
        StorageError: The log cannot be read.
        UsageError: `after` is no page's `next`.

    Example:
        ::

            page = hive.records.runs(status="failed", limit=50)
            print(page.total, [run.title for run in page])
            while page.next is not None:
                page = hive.records.runs(status="failed", limit=50, after=page.next)
    """

    log: Ledger

    def runs(
        self,
        *,
        status: str | None = None,
        run_id: str | None = None,
        task_id: str | None = None,
        parent_run_id: str | None = None,
        conversation_id: str | None = None,
        principal: str | None = None,
        task_type: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[RunRecord]:
        """Return runs, newest first; `since` and `until` are moments of their start."""
        query = RunsWhere(
            status,
            run_id,
            task_id,
            parent_run_id,
            conversation_id,
            principal,
            task_type,
            since,
            until,
        )
        return self.log.find(query, Window(limit, after, counted=True))

    def steps(
        self,
        run_id: str,
        *,
        status: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[StepRecord]:
        """Return the steps of a run in their order."""
        return self.log.find(StepsWhere(run_id, status), Window(limit, after, counted=True))

    def invocations(
        self,
        *,
        run_id: str | None = None,
        step_id: str | None = None,
        tool: str | None = None,
        status: str | None = None,
        decision: str | None = None,
        principal: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[InvocationRecord]:
        """Return calls, newest first; one that was tried again is there for each attempt."""
        query = InvocationsWhere(run_id, step_id, tool, status, decision, principal)
        return self.log.find(query, Window(limit, after, counted=True))

    def approvals(
        self,
        *,
        state: str | None = None,
        run_id: str | None = None,
        tool: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[Approval]:
        """Return approvals, oldest first, as they stand in the log.

        One whose time is over is `pending` until somebody looks by `hive.approvals`.
        """
        query = ApprovalsWhere(state, run_id, tool)
        return self.log.find(query, Window(limit, after, counted=True))

    def grants(
        self,
        *,
        ended: bool | None = None,
        scope: str | None = None,
        scope_id: str | None = None,
        subject: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[GrantRecord]:
        """Return the grants of tasks, steps and sessions, oldest first, ended ones too.

        `ended` finds those that were revoked, used up, or ended with their scope, or the others;
        `expires_at` tells what expired. Grants for good are the user's, and not in here.
        """
        query = GrantsWhere(ended, scope, scope_id, subject)
        return self.log.find(query, Window(limit, after, counted=True))

    def events(
        self,
        *,
        run_id: str | None = None,
        trace_id: str | None = None,
        task_id: str | None = None,
        step_id: str | None = None,
        parent_run_id: str | None = None,
        tool: str | None = None,
        principal: str | None = None,
        kind: str | None = None,
        status: str | None = None,
        decision: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = LIMIT,
        after: str | None = None,
    ) -> Page[StoredEvent]:
        """Return events, newest first; `kind` may be the part of a kind before its dot."""
        query = EventsWhere(
            run_id,
            trace_id,
            task_id,
            step_id,
            parent_run_id,
            tool,
            principal,
            kind,
            status,
            decision,
            since,
            until,
        )
        return self.log.find(query, Window(limit, after, counted=True))
