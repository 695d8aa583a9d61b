"""Grants as rows: those that stand, and the proof that the log gives them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clawhive_core.errors import ClawHiveError
from clawhive_core.events.chain import row_hash
from clawhive_core.events.grants import MOST, member_id, read, set_of
from clawhive_core.events.kinds import GRANT_ISSUED, GRANT_USED
from clawhive_core.events.rows import body_of
from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.records import RightRecord
from clawhive_core.protocols.ledger import RightsWhere
from clawhive_core.storage.sqlite.evidence import ProjectedRights, altered_event, forged_rights
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.seals import SEALED
from clawhive_core.storage.sqlite.writer import Projections

# Version 6: only what stands is a row, which names the event that issued it; what has ended is in
# the log, from which the view takes it.
_ACTIVE_ONLY = """
DROP VIEW v_grants;
DROP INDEX grants_standing;
ALTER TABLE grants RENAME TO grants_before;
CREATE TABLE grants(
  grant_id TEXT PRIMARY KEY, capability TEXT NOT NULL, subject TEXT NOT NULL,
  scope TEXT NOT NULL, scope_id TEXT NOT NULL, issuer TEXT NOT NULL, mode TEXT NOT NULL,
  expires_at TEXT, parent_grant TEXT, uses INTEGER, uses_left INTEGER, delegate TEXT, tool TEXT,
  issued_at TEXT NOT NULL, seq INTEGER NOT NULL
);
INSERT INTO grants SELECT grant_id, capability, subject, scope, scope_id, issuer, mode, expires_at,
    parent_grant, uses, uses_left, delegate, tool, issued_at, coalesce((
      SELECT e.seq FROM events AS e, json_each(e.body, '$.grants') AS g
      WHERE e.kind IN ('grant.issued', 'grant.revoked') AND e.kind = 'grant.issued'
        AND e.ts = b.issued_at AND json_extract(g.value, '$.grant_id') = b.grant_id
    ), 0)
  FROM grants_before AS b WHERE ended_at IS NULL ORDER BY rowid;
DROP TABLE grants_before;
CREATE INDEX grants_of_scope ON grants(scope, scope_id);
CREATE INDEX grants_below ON grants(parent_grant) WHERE parent_grant IS NOT NULL;
"""

# A grant ends with what revokes it, with its task or step, and with what it derives from.
_EACH = """
  SELECT json_extract(g.value, '$.grant_id') AS grant_id,
    json_extract(g.value, '$.capability') AS capability,
    json_extract(g.value, '$.subject') AS subject, json_extract(g.value, '$.scope') AS scope,
    json_extract(g.value, '$.scope_id') AS scope_id, json_extract(g.value, '$.issuer') AS issuer,
    json_extract(g.value, '$.mode') AS mode, json_extract(g.value, '$.expires_at') AS expires_at,
    json_extract(g.value, '$.parent_grant') AS parent_grant,
    json_extract(g.value, '$.uses') AS uses, json_extract(g.value, '$.delegate') AS delegate,
    e.ts AS issued_at, e.seq AS seq
  FROM events AS e, json_each(e.body, '$.grants') AS g
  WHERE e.kind IN ('grant.issued', 'grant.revoked') AND e.kind = 'grant.issued'
"""
_MEMBERS = """
  UNION ALL
  SELECT printf('grant_%02x', m.key) || json_extract(e.body, '$.set.id'),
    replace(json_extract(m.value, '$[0]'), '${run}', json_extract(e.body, '$.set.run')),
    json_extract(e.body, '$.set.subject'), 'task', json_extract(e.body, '$.set.task_id'),
    json_extract(m.value, '$[1]'), json_extract(m.value, '$[2]'), NULL, NULL, NULL, NULL,
    e.ts, e.seq
  FROM events AS e LEFT JOIN blobs AS b
    ON b.sha256 = json_extract(e.body, '$.set.members."$blob"')
  JOIN json_each(coalesce(
    CAST(b.data AS TEXT), json_extract(e.body, '$.set.members."$value"'), '[]')) AS m
  WHERE e.kind IN ('grant.issued', 'grant.revoked') AND e.kind = 'grant.issued'
    AND json_extract(e.body, '$.set.id') IS NOT NULL
"""


def _view(issued: str) -> str:
    return f"""
CREATE VIEW v_grants AS
WITH RECURSIVE issued AS ({issued}),
ended(grant_id, seq, ts) AS (
  SELECT json_extract(body, '$.grant_id'), seq, ts FROM events WHERE kind = 'grant.revoked'
  UNION
  SELECT i.grant_id, e.seq, e.ts FROM issued AS i JOIN events AS e
    ON e.kind = 'run.end' AND e.task_id = i.scope_id AND e.seq > i.seq WHERE i.scope = 'task'
  UNION
  SELECT i.grant_id, e.seq, e.ts FROM issued AS i JOIN events AS e
    ON e.run_id = substr(i.scope_id, 1, instr(i.scope_id, '/') - 1) AND e.invocation_id IS NULL
      AND (e.kind = 'run.end' OR e.kind = 'run.status' AND e.status <> 'running'
        AND i.issuer = 'skill') AND e.seq > i.seq
    WHERE i.scope = 'step'
  UNION
  SELECT i.grant_id, ended.seq, ended.ts FROM ended JOIN issued AS i
    ON i.parent_grant = ended.grant_id AND i.seq < ended.seq
)
SELECT grant_id, capability, subject, scope, scope_id, issuer, mode, expires_at, parent_grant, uses,
  CASE WHEN uses IS NOT NULL THEN coalesce(
    (SELECT uses_left FROM grants AS g WHERE g.grant_id = i.grant_id),
    (SELECT min(i.uses, i.uses + sum(iif(e.kind = 'grant.used', -1, 1))) FROM events AS e,
      json_each(e.body, '$.grant_ids') AS u WHERE e.kind IN ('grant.used', 'grant.returned')
      AND e.seq > i.seq AND u.value = i.grant_id),
    uses
  ) END AS uses_left,
  delegate, issued_at,
  (SELECT ts FROM ended AS x WHERE x.grant_id = i.grant_id AND x.seq > i.seq ORDER BY x.seq LIMIT 1)
    AS ended_at
FROM issued AS i;
"""  # noqa: S608 - constants


# Version 7: what many tasks share is a set, which a task refers to by one row.
_SETS = """
DROP VIEW v_grants;
CREATE TABLE grant_sets(
  set_id TEXT PRIMARY KEY, subject TEXT NOT NULL, task_id TEXT NOT NULL, run TEXT NOT NULL,
  members TEXT NOT NULL, revoked TEXT NOT NULL, issued_at TEXT NOT NULL, seq INTEGER NOT NULL
);
CREATE INDEX grant_sets_of_task ON grant_sets(task_id);
DROP INDEX grants_below;
CREATE INDEX grants_below ON grants(substr(parent_grant, 9)) WHERE parent_grant IS NOT NULL;
"""

SCHEMA = RoomSchema(
    "policy",
    (
        """
        CREATE TABLE grants(
          grant_id TEXT PRIMARY KEY, capability TEXT NOT NULL, subject TEXT NOT NULL,
          scope TEXT NOT NULL, scope_id TEXT NOT NULL, issuer TEXT NOT NULL, mode TEXT NOT NULL,
          expires_at TEXT, parent_grant TEXT, issued_at TEXT NOT NULL, ended_at TEXT
        );
        CREATE INDEX grants_scope ON grants(scope, scope_id);
        CREATE VIEW v_grants AS SELECT * FROM grants;
        """,
        """
        CREATE INDEX grants_standing ON grants(grant_id) WHERE ended_at IS NULL;
        DROP VIEW v_grants;
        CREATE VIEW v_grants AS SELECT grant_id, capability, subject, scope, scope_id, issuer, mode,
          expires_at, parent_grant, issued_at, ended_at FROM grants;
        """,
        """
        ALTER TABLE grants ADD COLUMN uses INTEGER;
        ALTER TABLE grants ADD COLUMN uses_left INTEGER;
        ALTER TABLE grants ADD COLUMN delegate TEXT;
        DROP VIEW v_grants;
        CREATE VIEW v_grants AS SELECT grant_id, capability, subject, scope, scope_id, issuer, mode,
          expires_at, parent_grant, uses, uses_left, delegate, issued_at, ended_at FROM grants;
        """,
        "ALTER TABLE grants ADD COLUMN tool TEXT;",
        # One index for two: it finds what stands, and among that what a scope has. Grants that have
        # ended are found by their ids alone.
        """
        DROP INDEX grants_scope;
        DROP INDEX grants_standing;
        CREATE INDEX grants_standing ON grants(scope, scope_id) WHERE ended_at IS NULL;
        """,
        _ACTIVE_ONLY + _view(_EACH),
        _SETS + _view(_EACH + _MEMBERS),
    ),
)


_LINE = """
    WITH RECURSIVE line(id) AS (
      SELECT value FROM json_each(?)
      UNION SELECT parent_grant FROM grants JOIN line ON grant_id = line.id
      WHERE parent_grant IS NOT NULL
    )
"""


_ISSUED = (
    "grant_id",
    "capability",
    "subject",
    "scope",
    "scope_id",
    "issuer",
    "mode",
    "expires_at",
    "parent_grant",
    "uses",
    "delegate",
    "tool",
)
"""The fields of each grant in an event; those of older versions say nothing of the last three."""

_INSERT = (
    f"INSERT INTO grants({', '.join(_ISSUED)}, uses_left, issued_at, seq)"
    f" VALUES({'?, ' * len(_ISSUED)}?, ?, ?)"
)


_OF_TASK = (
    "SELECT grant_id FROM grants WHERE scope = 'task' AND scope_id = ? UNION SELECT grant_id"
    " FROM grant_sets JOIN grants ON parent_grant IS NOT NULL AND substr(parent_grant, 9) = set_id"
    " WHERE task_id = ?"
)
_OF_STEPS = "SELECT grant_id FROM grants WHERE scope = 'step' AND scope_id BETWEEN ? AND ?"


def steps_of(run_id: str) -> tuple[str, str]:
    """Return the bounds between which the ids of a run's steps lie."""
    return f"{run_id}/", f"{run_id}0"  # the character after the slash


def _on_issued(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    ts, seq = stored.ts, stored.seq
    grants = stored.event.body["grants"]
    rows = [(*map(each.get, _ISSUED), each.get("uses"), ts, seq) for each in grants]
    connection.executemany(_INSERT, rows)
    if (members := stored.event.body.get("set")) is not None:
        connection.execute(
            "INSERT INTO grant_sets VALUES(?, ?, ?, ?, ?, '[]', ?, ?)",
            (*_of_set(members), ts, seq),
        )


def _of_set(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an event says of a set, as the columns of its row."""
    members = body["members"]
    written = members["$blob"] if "$blob" in members else canonical_text(members["$value"])
    return (*(str(body[name]) for name in ("id", "subject", "task_id", "run")), written)


def _on_used(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    _count(connection, stored, "uses_left - 1")


def _on_returned(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    _count(connection, stored, "min(uses, uses_left + 1)")


def _count(connection: sqlite3.Connection, stored: StoredEvent, left: str) -> None:
    connection.execute(
        f"UPDATE grants SET uses_left = {left}"  # noqa: S608 - one of two literals
        " WHERE uses_left IS NOT NULL AND grant_id IN (SELECT value FROM json_each(?))",
        (json.dumps(stored.event.body["grant_ids"]),),
    )


def _on_revoked(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    grant_id = stored.event.body["grant_id"]
    connection.execute(
        "UPDATE grant_sets SET revoked = json_insert(revoked, '$[#]', ?1)"
        " WHERE set_id = substr(?1, 9)"
        " AND NOT EXISTS (SELECT 1 FROM json_each(revoked) WHERE value = ?1)",
        (grant_id,),
    )
    _end(connection, "SELECT ?", grant_id)


def _on_run_end(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    task_id = stored.event.task_id
    _end(connection, _OF_TASK, task_id, task_id)
    connection.execute("DELETE FROM grant_sets WHERE task_id = ?", (task_id,))
    _end(connection, _OF_STEPS, *steps_of(str(stored.event.run_id)))


def _on_run_status(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    """End what steps had of their skill, where a run stops; they get it anew when it goes on."""
    if stored.event.status != "running":
        of_skill = f"{_OF_STEPS} AND issuer = 'skill'"
        _end(connection, of_skill, *steps_of(str(stored.event.run_id)))


def _end(connection: sqlite3.Connection, which: str, *values: str | None) -> None:
    """Remove grants and all that was derived from them: only what stands is a row."""
    connection.execute(
        f"WITH RECURSIVE gone(id) AS ({which} UNION SELECT grant_id FROM gone JOIN grants"  # noqa: S608 - constants
        " ON parent_grant IS NOT NULL AND substr(parent_grant, 9) = substr(gone.id, 9)"
        " AND parent_grant = gone.id)"
        " DELETE FROM grants WHERE grant_id IN (SELECT id FROM gone)",
        values,
    )


PROJECTIONS: Projections = {
    "grant.issued": (_on_issued,),
    "grant.revoked": (_on_revoked,),
    "grant.used": (_on_used,),
    "grant.returned": (_on_returned,),
    "run.status": (_on_run_status,),
    "run.end": (_on_run_end,),
}

# An index is used only where its own condition is repeated word for word.
_USED = "kind IN ('grant.used', 'grant.returned')"

_TABLES = ("grants", "grant_sets")
_EVENTS = f"""seq IN (
      SELECT seq FROM events WHERE kind = 'grant.issued'
        AND seq IN (SELECT seq FROM grants UNION SELECT seq FROM grant_sets)
      UNION
      SELECT seq FROM events WHERE kind = 'grant.revoked'
      UNION
      SELECT seq FROM events WHERE {_USED}
        AND EXISTS (SELECT 1 FROM grants WHERE uses IS NOT NULL)
      UNION
      SELECT seq FROM events WHERE kind = 'run.end' AND task_id IN (
        SELECT scope_id FROM grants WHERE scope = 'task' UNION SELECT task_id FROM grant_sets)
      UNION
      SELECT seq FROM events WHERE kind IN ('run.end', 'run.status') AND invocation_id IS NULL
        AND run_id IN (SELECT substr(scope_id, 1, instr(scope_id, '/') - 1) FROM grants
          WHERE scope = 'step')
    )"""  # noqa: S608 - constants
_OWN = ", ".join((*_ISSUED, "uses_left", "issued_at", "seq"))
_OF_SET = "set_id, subject, task_id, run, members, revoked, issued_at, seq"

RIGHTS = (
    ProjectedRights("grants", _OWN, "true", _EVENTS, PROJECTIONS, tables=_TABLES),
    ProjectedRights("grant_sets", _OF_SET, "true", _EVENTS, PROJECTIONS, tables=_TABLES),
)
"""Every grant that stands, as it is compared at opening."""

_BY_ID = "SELECT * FROM grants WHERE grant_id IN (SELECT value FROM json_each(?))"
_SETS_OF = "SELECT * FROM grant_sets WHERE set_id IN (SELECT value FROM json_each(?))"
_BY_SEQ = f"{SEALED} WHERE seq IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
_NAMED = (
    "SELECT seq FROM events WHERE kind = 'grant.revoked' AND json_extract(body, '$.grant_id') = ?"
    " AND seq > ?"
)
_ENDED: Mapping[str, str] = {
    "task": "SELECT 1 FROM events WHERE kind = 'run.end' AND task_id = ? AND seq > ?",
    "step": "SELECT 1 FROM events WHERE run_id = substr(?1, 1, instr(?1, '/') - 1)"
    " AND invocation_id IS NULL AND seq > ?2 AND (kind = 'run.end' OR kind = 'run.status'"
    " AND status <> 'running' AND ?3 = 'skill')",
}
_USES = f"{SEALED} WHERE {_USED} AND seq > ? ORDER BY seq"


def given(readers: Readers, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return those rows of grants whose events, and those of all they derive from, are one's own.

    Only these rows and their events are read. They are to be read in the same transaction.

    Raises:
        StorageError: `forged_rights`: one is not what the log gives; or the log cannot be read.
    """
    line = {str(row["grant_id"]): row for row in rows}
    above = _parents(line.values())
    while missing := above - line.keys():
        found = {
            str(row["grant_id"]): dict(row)
            for row in readers.read(_BY_ID, (json.dumps(sorted(missing)),))
        }
        line.update(found)
        above |= _parents(found.values())
        if not found:
            break
    others = _require_each(readers, line) if line else set[str]()
    for row in readers.read(_SETS_OF, (json.dumps(sorted({set_of(each) for each in above})),)):
        if not _require_set(readers, dict(row)):
            others |= {each for each in above if set_of(each) == row["set_id"]}
    if not others:
        return rows  # as nearly always
    return [row for row in rows if others.isdisjoint(_descent(line, str(row["grant_id"])))]


def _descent(line: Mapping[str, Mapping[str, Any]], grant_id: str | None) -> Iterator[str]:
    """Yield a grant and all that it derives from."""
    seen = set[str]()
    while grant_id is not None and grant_id not in seen:
        yield grant_id
        seen.add(grant_id)
        grant_id = line[grant_id]["parent_grant"] if grant_id in line else None


def sets_of_task(readers: Readers, task_id: str) -> list[RightRecord]:
    """Return the rights of a task that are members of a set and stand.

    Raises:
        StorageError: `forged_rights`: the log gives fewer.
        ClawHiveError: `damaged_body`: the body that holds them was changed.
    """
    found: list[RightRecord] = []
    of_task = "SELECT * FROM grant_sets WHERE task_id = ?"
    for row in map(dict[str, Any], readers.read(of_task, (task_id,))):
        if _require_set(readers, row):
            found += _rights_of_set(readers, row)
    return found


def _rights_of_set(readers: Readers, row: Mapping[str, Any]) -> list[RightRecord]:
    return [RightRecord(each, None, row["issued_at"]) for each in _members(readers, row)]


def active_of(readers: Readers, grant_ids: Iterable[str]) -> set[str]:
    """Return which of some grants stand in the log."""
    ids = sorted(grant_ids)
    found = {str(row["grant_id"]) for row in readers.read(_BY_ID, (json.dumps(ids),))}
    sets = readers.read(_SETS_OF, (json.dumps([set_of(each) for each in ids]),))
    gone = {each for row in sets for each in json.loads(row["revoked"])}
    own = {row["set_id"] for row in sets}
    return found | {each for each in ids if set_of(each) in own and each not in gone}


def _members(readers: Readers, row: Mapping[str, Any]) -> list[CapabilityGrant]:
    gone = json.loads(row["revoked"])
    members = read(row, _members_of(readers, row["members"])).grants()
    return [each for each in members if each.grant_id not in gone]


def _require_set(readers: Readers, row: Mapping[str, Any]) -> bool:
    """Whether the event of a set is one's own; raise where its row is not what the event gives.

    Raises:
        StorageError: `forged_rights`.
    """
    made: tuple[str, ...] | None = None
    is_own = True
    for event in _issuing(readers, {int(row["seq"])}):
        if (body := body_of(event["body"]).get("set")) is not None:
            made = (*_of_set(body), event["ts"])
            is_own = readers.seals.is_sealed(event["hash"], event["seal"])
    mine = tuple(row[name] for name in ("set_id", "subject", "task_id", "run", "members"))
    over = readers.read(_ENDED["task"], (row["task_id"], row["seq"]))
    if made != (*mine, row["issued_at"]) or over or _hides_revoked(readers, row):
        raise forged_rights(readers.path, "grant_sets", [row["set_id"]])
    return is_own


def _hides_revoked(readers: Readers, row: Mapping[str, Any]) -> bool:
    if not readers.read("SELECT 1 FROM events WHERE kind = 'grant.revoked' LIMIT 1"):
        return False
    told = json.loads(row["revoked"])
    ids = [member_id(row["set_id"], number) for number in range(MOST)]
    return any(each not in told and readers.read(_NAMED, (each, row["seq"])) for each in ids)


def _issuing(readers: Readers, seqs: Iterable[int]) -> Iterator[Mapping[str, Any]]:
    """Yield the issuing events among some rows of the log, each as somebody wrote it.

    Raises:
        StorageError: `forged_rights`: one is not.
    """
    for event in readers.read(_BY_SEQ, (json.dumps(sorted(seqs)),)):
        if row_hash(event[:-1]) != event["hash"]:
            raise altered_event(readers.path, event["seq"])
        if event["kind"] == GRANT_ISSUED:
            yield dict(event)


def _parents(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(row["parent_grant"]) for row in rows if row["parent_grant"] is not None}


def _require_each(readers: Readers, line: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the grants whose events others wrote; raise where a row is not what its event gives.

    Raises:
        StorageError: `forged_rights`.
    """
    issued: dict[str, dict[str, Any]] = {}
    others = set[str]()
    for event in _issuing(readers, {int(row["seq"]) for row in line.values()}):
        is_own = readers.seals.is_sealed(event["hash"], event["seal"])
        for each in body_of(event["body"])["grants"]:
            issued[each["grant_id"]] = {**each, "issued_at": event["ts"], "seq": event["seq"]}
            if not is_own:
                others.add(each["grant_id"])
    rows = [(key, row) for key, row in line.items() if key not in others]
    forged = [key for key, row in rows if not _is_given(readers, row, issued.get(key))]
    if forged:
        raise forged_rights(readers.path, "grants", sorted(forged))
    return others


def _is_given(readers: Readers, row: Mapping[str, Any], issued: Mapping[str, Any] | None) -> bool:
    """Whether a row is what its event gives, and nothing has ended it since."""
    columns = (*_ISSUED, "issued_at", "seq")
    if issued is None or any(row[key] != issued.get(key) for key in columns):
        return False
    if readers.read(_NAMED, (row["grant_id"], row["seq"])):
        return False
    ended = _ENDED.get(str(row["scope"]))
    values = (row["scope_id"], row["seq"], row["issuer"])[: 3 if row["scope"] == "step" else 2]
    if ended is not None and readers.read(ended, values):
        return False
    return row["uses_left"] == _left(readers, row)


def _left(readers: Readers, row: Mapping[str, Any]) -> int | None:
    """Return the uses that are left, counted in the log."""
    left: int | None = row["uses"]
    if left is None:
        return None
    for event in readers.read(_USES, (row["seq"],)):
        if row["grant_id"] not in body_of(event["body"])["grant_ids"]:
            continue
        if event["kind"] == GRANT_USED:
            left -= 1
        elif readers.seals.is_own(event):
            left = min(int(row["uses"]), left + 1)
    return left


def _members_of(readers: Readers, members: str) -> object:
    """Return what a row of `grant_sets` says of its members: the rows themselves, or their digest.

    Raises:
        ClawHiveError: `damaged_body`: the body is gone, or not what its digest says.
    """
    from hashlib import sha256

    if members.startswith("["):
        return json.loads(members)
    rows = readers.read("SELECT data FROM blobs WHERE sha256 = ?", (members,))
    data = rows[0]["data"] if rows else None
    if not isinstance(data, bytes) or sha256(data).hexdigest() != members:
        raise ClawHiveError(
            f"The rights of a task, in the stored body {members[:12]}, are not as they were "
            "written.",
            place=str(readers.path),
            fix="Run `clawhive audit verify`: the database may have been changed.",
            code="damaged_body",
        )
    return json.loads(data)


_ACTIVE = f"SELECT {_OWN} FROM grants"  # noqa: S608 - constants


def rights(readers: Readers, query: RightsWhere) -> list[RightRecord]:
    """Return the grants that stand and that a query asks for, oldest first, those of sets before.

    Raises:
        StorageError: `forged_rights`: a table says more than the log.
    """
    where: list[str] = []
    values: dict[str, str] = {}
    if query.grant_ids is not None:
        where.append("grant_id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(list(query.grant_ids))
    if query.scope is not None:
        where.append("scope = :scope")
        values["scope"] = query.scope
    if query.scope_id is not None:
        where.append("scope_id = :scope_id")
        values["scope_id"] = query.scope_id
    if query.steps_of is not None:
        where.append("scope = 'step' AND scope_id BETWEEN :first AND :last")
        values["first"], values["last"] = steps_of(query.steps_of)
    with readers.snapshot():
        found: list[RightRecord] = []
        if query.checked and query.scope == "task" and query.scope_id is not None:
            found = sets_of_task(readers, query.scope_id)
        elif not where:
            for row in readers.read("SELECT * FROM grant_sets ORDER BY seq"):
                if not query.checked or _require_set(readers, dict(row)):
                    found += _rights_of_set(readers, dict(row))
        sql = f"{_ACTIVE} WHERE {' AND '.join(where) or 'true'} ORDER BY seq, rowid"
        rows = [dict(row) for row in readers.read(sql, values)]
        counting = given(readers, rows) if query.checked else rows
    return found + [_right(row) for row in counting]


def _right(row: Mapping[str, Any]) -> RightRecord:
    grant = CapabilityGrant.from_dict(row)
    return RightRecord(grant, row["uses_left"], row["issued_at"])


def descent_of(readers: Readers, grant_ids: Sequence[str]) -> list[str]:
    """Return grants and all that they derive from, which never changes once they are issued."""
    values = (json.dumps(list(grant_ids)),)
    rows = readers.read(f"{_LINE} SELECT id FROM line ORDER BY id", values)  # noqa: S608 - a constant
    return [str(row[0]) for row in rows]
