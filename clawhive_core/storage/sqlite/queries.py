"""The typed queries of the log: each a value, answered from the views and tables of the rooms."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from clawhive_core.errors import UsageError
from clawhive_core.events.chain import COLUMNS
from clawhive_core.events.rows import stored
from clawhive_core.model.approvals import Approval
from clawhive_core.model.late import dataclass
from clawhive_core.model.records import (
    GrantRecord,
    InvocationRecord,
    Page,
    QuotaRecord,
    RevocationRecord,
    RunRecord,
    StepRecord,
    ValueRecord,
)
from clawhive_core.protocols.ledger import (
    ActiveGrants,
    ApprovalsWhere,
    DescentOf,
    EventsWhere,
    GrantsWhere,
    IdsWhere,
    InvocationsWhere,
    QuotasWhere,
    RevocationsWhere,
    RightsWhere,
    RunsWhere,
    StepsWhere,
    SubscriptionsWhere,
    ValuesWhere,
    Window,
)
from clawhive_core.protocols.stores import Subscription
from clawhive_core.storage.sqlite.grants import active_of, descent_of, rights
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.stored_values import value_of
from clawhive_core.storage.sqlite.subscriptions import is_given


@dataclass(frozen=True, slots=True)
class _Answer:
    """The way in which one kind of query is answered."""

    columns: str
    source: str
    key: tuple[str, ...]
    """The columns of its order, which tell any two rows apart."""
    where: Mapping[str, str]
    """By field of the query, the condition where it is given."""
    record: Callable[[sqlite3.Row], Any]
    newest_first: bool = False
    always: str = ""
    """A condition of every answer."""


def _equal(*names: str) -> dict[str, str]:
    return {name: f"{name} = :{name}" for name in names}


def _begins(column: str, name: str) -> str:
    return f"substr({column}, 1, length(:{name})) = :{name}"


_ABOVE = """run_id IN (
    WITH RECURSIVE line(id, parent) AS (
      SELECT run_id, parent_run_id FROM runs WHERE run_id = :above
      UNION ALL
      SELECT r.run_id, r.parent_run_id FROM runs AS r JOIN line ON r.run_id = line.parent
    )
    SELECT id FROM line
)"""
_BELOW = """run_id IN (
    WITH RECURSIVE line(id) AS (
      SELECT run_id FROM runs WHERE parent_run_id = :below
      UNION ALL
      SELECT r.run_id FROM runs AS r JOIN line ON r.parent_run_id = line.id
    )
    SELECT id FROM line
)"""


def _loaded(row: sqlite3.Row, *names: str) -> dict[str, Any]:
    """Return a row's columns, some of them read as JSON."""
    facts: dict[str, Any] = dict(zip(row.keys(), row, strict=True))
    for name in names:
        if facts[name] is not None:
            facts[name] = json.loads(facts[name])
    return facts


def _run(row: sqlite3.Row) -> RunRecord:
    return RunRecord(**_loaded(row, "error"))


def _step(row: sqlite3.Row) -> StepRecord:
    return StepRecord(**_loaded(row, "error"))


def _invocation(row: sqlite3.Row) -> InvocationRecord:
    facts = _loaded(row, "error", "requested_capabilities", "granted_capabilities")
    facts["approval_required"] = bool(facts["approval_required"])
    return InvocationRecord(**facts)


def approval(row: sqlite3.Row) -> Approval:
    """Return the approval of a row of `approvals`."""
    facts = _loaded(row, "capabilities", "sinks", "destinations", "grants")
    facts["edited"] = facts["edited_seq"] is not None
    facts["step"] = facts["step"] or facts["step_id"].partition("#")[0]
    facts["sinks"] = dict(facts["sinks"])
    facts["capabilities"] = tuple(facts["capabilities"])
    for name in ("destinations", "grants"):
        facts[name] = tuple([dict(each) for each in facts[name]])
    return Approval(**{name: facts[name] for name in Approval.__dataclass_fields__})


_ANSWERS: Mapping[type, _Answer] = {
    RunsWhere: _Answer(
        "run_id, trace_id, task_id, parent_run_id, conversation_id, principal, task_type, title,"
        " status, started_at, ended_at, error, artifacts, started_seq AS seq, fence,"
        " worker",
        "runs",
        ("started_seq",),
        {
            **_equal("status", "run_id", "task_id", "parent_run_id", "conversation_id"),
            **_equal("principal", "task_type"),
            "since": "started_at >= :since",
            "until": "started_at < :until",
            "prefix": _begins("run_id", "prefix"),
            "top_level": "(parent_run_id IS NULL) = :top_level",
            "above": _ABOVE,
            "below": _BELOW,
            "turns": "status = 'succeeded' AND task_type IS NULL AND parent_run_id IS NULL",
        },
        _run,
        newest_first=True,
    ),
    StepsWhere: _Answer(
        "step_id, run_id, name, label, ordinal, action, status, error, trace_id, provider_id,"
        " capability_level, input_preview, output_preview, seq",
        "(SELECT v.*, f.seq FROM v_steps AS v JOIN (SELECT step_id, min(seq) AS seq FROM events"
        " WHERE run_id = :run_id AND step_id IS NOT NULL GROUP BY step_id) AS f USING (step_id)"
        " WHERE v.run_id = :run_id)",
        ("seq",),
        _equal("run_id", "status"),
        _step,
    ),
    InvocationsWhere: _Answer(
        "invocation_id, run_id, step_id, trace_id, tool, provider_id, principal, capability_level,"
        " risk, requested_capabilities, granted_capabilities, decision, approval_required,"
        " approval_result, start_at, end_at, status, error, input_preview, output_preview,"
        " parent_invocation_id, seq",
        "v_invocations",
        ("seq",),
        _equal("run_id", "step_id", "tool", "status", "decision", "principal"),
        _invocation,
        newest_first=True,
    ),
    ApprovalsWhere: _Answer(
        "*",
        "approvals",
        ("seq",),
        {
            **_equal("state", "run_id", "tool", "approval_id", "step_id", "digest", "principal"),
            "prefix": _begins("approval_id", "prefix"),
            "step_prefix": _begins("step_id", "step_prefix"),
            "expires_before": "expires_at < :expires_before",
        },
        approval,
    ),
    GrantsWhere: _Answer(
        "grant_id, capability, subject, scope, scope_id, issuer, mode, expires_at, parent_grant,"
        " uses, uses_left, delegate, issued_at, ended_at",
        "v_grants",
        ("issued_at", "grant_id"),
        {
            **_equal("scope", "scope_id", "subject"),
            "ended": "(ended_at IS NOT NULL) = :ended",
        },
        lambda row: GrantRecord(*row),
    ),
    EventsWhere: _Answer(
        ", ".join(COLUMNS),
        "events",
        ("seq",),
        {
            **_equal("run_id", "trace_id", "task_id", "step_id", "tool", "principal", "status"),
            "parent_run_id": (
                "run_id IN (SELECT run_id FROM events WHERE kind = 'run.start'"
                " AND json_extract(body, '$.parent_run_id') = :parent_run_id)"
            ),
            "kind": "(kind = :kind OR substr(kind, 1, length(:kind) + 1) = :kind || '.')",
            "decision": "json_extract(body, '$.decision') = :decision",
            "since": "ts >= :since",
            "until": "ts < :until",
            "invocation_id": "invocation_id = :invocation_id",
            "steps_from": "step_id > :steps_from",
            "steps_before": "step_id < :steps_before",
            "after_seq": "seq > :after_seq",
        },
        stored,
        newest_first=True,
    ),
    RevocationsWhere: _Answer(
        "json_extract(body, '$.grant_id') AS grant_id, seq",
        "events",
        ("seq",),
        {
            "grant_ids": "json_extract(body, '$.grant_id') IN"
            " (SELECT value FROM json_each(:grant_ids))"
        },
        lambda row: RevocationRecord(*row),
        newest_first=True,
        always="kind = 'grant.revoked'",
    ),
    QuotasWhere: _Answer(
        "user_id, tool, seconds, since, used",
        "quotas",
        ("user_id", "tool", "seconds"),
        _equal("user_id", "tool", "seconds"),
        lambda row: QuotaRecord(*row),
    ),
    SubscriptionsWhere: _Answer(
        "user_id, skill_id, since",
        "subscriptions",
        ("skill_id", "user_id"),
        _equal("user_id", "skill_id"),
        lambda row: Subscription(*row),
    ),
    ValuesWhere: _Answer(
        "key, value, stored_at",
        "stored_values",
        ("key",),
        {**_equal("user_id", "namespace", "key"), "prefix": _begins("key", "prefix")},
        lambda row: ValueRecord(row[0], json.loads(row[1]), row[2]),
    ),
}


def find(readers: Readers, query: Any, window: Window) -> Page[Any]:
    """Return a page of what a query asks for.

    Raises:
        StorageError: It cannot be read.
        UsageError: `after` is no page's `next`.
    """
    kind: type[Any] = query.__class__
    if (whole := _WHOLE.get(kind)) is not None:
        return Page(whole(readers, query), None, None)
    answer = _ANSWERS[kind]
    given = {name: getattr(query, name) for name in answer.where}
    chosen = [answer.where[name] for name, value in given.items() if value is not None]
    given = {name: _bound(value) for name, value in given.items()}
    if answer.always:
        chosen.append(answer.always)
    total = None
    if window.counted:
        count = f"SELECT count(*) FROM {answer.source}{_where(chosen)}"  # noqa: S608 - our own table
        total = int(readers.read(count, given)[0][0])
    order = "DESC" if answer.newest_first != window.reverse else "ASC"
    if window.after is not None:
        given |= _cursor(window.after, answer.key)
        keys, marks = ", ".join(answer.key), ", ".join(f":after_{key}" for key in answer.key)
        chosen.append(f"({keys}) {'<' if order == 'DESC' else '>'} ({marks})")
    by = ", ".join(f"{key} {order}" for key in answer.key)
    sql = f"SELECT {answer.columns} FROM {answer.source}{_where(chosen)} ORDER BY {by}"  # noqa: S608 - our own tables
    if window.limit is not None:
        sql += f" LIMIT {window.limit + 1}"  # one more tells whether there are more
    rows = readers.read(sql, given)
    more = window.limit is not None and len(rows) > window.limit
    rows = rows[: window.limit]
    names = [{"started_seq": "seq"}.get(key, key) for key in answer.key]
    after = json.dumps([rows[-1][name] for name in names]) if more and rows else None
    if readers.seals.key is not None and (given_by := _GIVEN.get(kind)) is not None:
        return Page([each for row in rows for each in given_by(readers, query, row)], after, total)
    return Page([answer.record(row) for row in rows], after, total)


def _own_subscription(
    readers: Readers, _: SubscriptionsWhere, row: sqlite3.Row
) -> Iterator[Subscription]:
    if is_given(readers, row["user_id"], row["skill_id"]):
        yield Subscription(*row)


def _own_value(readers: Readers, query: ValuesWhere, row: sqlite3.Row) -> Iterator[ValueRecord]:
    if (found := value_of(readers, query.user_id, query.namespace, row["key"])) is not None:
        yield found


_GIVEN: Mapping[type, Callable[[Readers, Any, sqlite3.Row], Iterator[Any]]] = {
    SubscriptionsWhere: _own_subscription,
    ValuesWhere: _own_value,
}
"""By query, what of a row this user's own events give: the others count nothing."""


def _bound(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple) else value


def _ids(readers: Readers, query: IdsWhere) -> list[str]:
    """Return the newest id of a column, or the first two that begin so, the equal one alone."""
    column = query.column
    of_run = " AND run_id = :run" if query.run_id is not None else ""
    given = {"text": query.prefix, "run": query.run_id}
    if query.prefix is None:
        newest = f"SELECT {column} FROM events WHERE {column} IS NOT NULL{of_run}"  # noqa: S608 - our own column names
        return [str(row[0]) for row in readers.read(f"{newest} ORDER BY seq DESC LIMIT 1", given)]
    # In order the exact id comes first: it may be the beginning of others.
    rows = readers.read(
        f"SELECT DISTINCT {column} FROM events WHERE {column} >= :text"  # noqa: S608 - our own column names
        f" AND {column} < :text || '{_LAST}'{of_run} ORDER BY {column} LIMIT 2",
        given,
    )
    found = [str(row[0]) for row in rows]
    return found[:1] if found[:1] == [query.prefix] else found


_LAST = "\U0010ffff"
_WHOLE: Mapping[type, Callable[[Readers, Any], Sequence[Any]]] = {
    RightsWhere: rights,
    ActiveGrants: lambda readers, query: sorted(active_of(readers, query.grant_ids)),
    DescentOf: lambda readers, query: descent_of(readers, query.grant_ids),
    IdsWhere: _ids,
}
"""The queries that are answered at once, without pages."""


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _cursor(after: str, key: Sequence[str]) -> dict[str, Any]:
    try:
        values = json.loads(after)
        return dict(zip((f"after_{name}" for name in key), values, strict=True))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"`{after}` is not what a page ends with", place="after", fix="pass `page.next`"
        ) from error
