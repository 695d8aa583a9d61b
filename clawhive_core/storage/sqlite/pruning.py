"""Removing old bodies from the log's file: what is not needed any more, and how it goes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from clawhive_core.events.kinds import BODIES_PRUNED
from clawhive_core.events.rows import references
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.model.records import Pruned
from clawhive_core.storage.sqlite.append import Effect
from clawhive_core.storage.sqlite.database import open_database
from clawhive_core.storage.sqlite.faults import storage_error
from clawhive_core.storage.sqlite.reader import Readers

Remove = Callable[[Event, Effect], None]
"""Appends an event together with a part of the transaction."""
BATCH = 500
"""Bodies a transaction: others wait no longer than that takes."""
_WITH_BODIES = "SELECT seq, ts, run_id, body FROM events WHERE instr(body, '\"$blob\"')"
# What rights were given is told as long as the log.
_RIGHTS = "SELECT body FROM events WHERE kind IN ('grant.issued', 'grant.revoked')"
_VALUES = "SELECT kind, body FROM events WHERE kind IN ('store.put', 'store.delete') ORDER BY seq"
_GOING_ON = (
    "SELECT run_id, json_extract(body, '$.continues') FROM events WHERE kind = 'run.start'"
    " AND json_extract(body, '$.continues') IS NOT NULL AND seq > ?"
)
_OF_CONVERSATION = (
    "SELECT kind, body FROM events WHERE run_id = ?"
    " AND kind IN ('run.start', 'model.start', 'model.end', 'run.end') ORDER BY seq"
)
_ENDED = "SELECT DISTINCT run_id FROM events WHERE kind = 'run.end' AND ts < ?"


@dataclass(frozen=True, slots=True)
class Unused:
    """The bodies that nobody needs any more, as one snapshot of the log says."""

    bodies: tuple[str, ...]
    last_seq: int
    waiting_runs: int


class _StillNeeded(Exception):
    """An event that was written meanwhile refers to one of the bodies."""


def vacuum(path: Path) -> None:
    """Write the database anew without free space, so that the disk gets it back.

    Others may read meanwhile; their writes wait.

    Raises:
        StorageError: Somebody writes all the time, or the disk has no room for the copy; the
            database is as it was.
    """
    with closing(open_database(path)) as connection:
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise storage_error(error, path) from error


def _unused_bodies(path: Path, before: str) -> Unused:
    """Return the bodies that only events before a moment refer to; see `Ledger.prune`.

    Raises:
        StorageError: The log cannot be read.
    """
    old: dict[str, None] = {}
    waiting: set[str] = set()
    with closing(open_database(path, read_only=True)) as connection:
        try:
            connection.execute("BEGIN")
            last_seq = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
            ended = {row[0] for row in connection.execute(_ENDED, (before,))}
            kept = _of_values(connection)
            kept.update(sha for row in connection.execute(_RIGHTS) for sha in references(row[0]))
            kept |= _of_conversations(connection, ended)
            for _, ts, run_id, body in connection.execute(_WITH_BODIES):
                if ts < before and (run_id is None or run_id in ended):
                    old.update(dict.fromkeys(references(body)))
                    continue
                kept.update(references(body))
                waiting.update([run_id] if ts < before else [])
        except sqlite3.Error as error:
            raise storage_error(error, path) from error
    return Unused(tuple(sha for sha in old if sha not in kept), last_seq, len(waiting))


def _of_values(connection: sqlite3.Connection) -> set[str]:
    """Return the bodies of the values that tools keep now; read from where they were put."""
    values: dict[tuple[Any, ...], str] = {}
    for kind, body in connection.execute(_VALUES):
        facts = json.loads(body)
        key = tuple(facts.get(name) for name in ("user_id", "namespace", "key"))
        if kind == "store.put":
            values[key] = body
        else:
            values.pop(key, None)
    return {sha for body in values.values() for sha in references(body)}


def _of_conversations(
    connection: sqlite3.Connection, ended: Collection[str], since: int = 0
) -> set[str]:
    """Return the bodies of what was said before runs that are not old, as far as they need it.

    A run of a conversation records what is new in it, and names the run that it goes on from.
    """
    found, seen = set[str](), set[str]()
    for run_id, continues in connection.execute(_GOING_ON, (since,)).fetchall():
        before = None if run_id in ended else continues
        while before is not None and before not in seen:
            seen.add(before)
            before, bodies = _said_in(connection, before)
            found |= bodies
    return found


def _said_in(connection: sqlite3.Connection, run_id: str) -> tuple[str | None, set[str]]:
    """Return the run that one goes on from, None where it holds all itself, and its own bodies."""
    found, continues, is_whole = set[str](), None, None
    for kind, body in connection.execute(_OF_CONVERSATION, (run_id,)):
        found.update(references(body))
        if kind == "run.start":
            continues = json.loads(body).get("continues")
        elif kind == "model.start" and is_whole is None:
            facts = json.loads(body)
            is_whole = facts["history"]["count"] == len(facts["new"])
    return None if is_whole else continues, found


def _present_bodies(readers: Readers, bodies: Sequence[str]) -> dict[str, int]:
    """Return the bodies that are still there, with their sizes in bytes."""
    places = ", ".join("?" * len(bodies))
    sql = "SELECT sha256, length(data) FROM blobs WHERE data IS NOT NULL AND sha256 IN"
    return {str(row[0]): int(row[1]) for row in readers.read(f"{sql} ({places})", bodies)}


def prune(readers: Readers, remove: Remove, before: str, *, dry_run: bool) -> Pruned:
    """Turn the bodies to which only events before a moment refer into tombstones.

    A run counts as a whole, from when it ended; one that has not ended keeps all of its bodies. So
    does a value that a tool keeps.
    Bodies go in batches, each in one transaction with the event `bodies.pruned` that tells of it:
    whoever ends the process leaves every body whole or gone, and what is gone recorded.

    Raises:
        StorageError: The log cannot be read or written; what was recorded until then is gone.
    """
    plan = _unused_bodies(readers.path, before)
    bodies = size = 0
    for start in range(0, len(plan.bodies), BATCH):
        batch = _present_bodies(readers, plan.bodies[start : start + BATCH])
        if not dry_run:
            batch = _remove(remove, batch, before, plan.last_seq)
        bodies, size = bodies + len(batch), size + sum(batch.values())
    return Pruned(before, bodies, size, plan.waiting_runs, dry_run)


def _remove(remove: Remove, batch: dict[str, int], before: str, since: int) -> dict[str, int]:
    """Remove a batch and record it; return what was removed.

    Where an event that was written since refers to some of it, those stay.
    """
    while batch:
        body = {"before": before, "bodies": len(batch), "bytes": sum(batch.values())}
        record = Event(BODIES_PRUNED, body, principal=str(LOCAL_USER))
        needed = set[str]()
        try:
            remove(record, _tombstones(tuple(batch), since, needed))
        except _StillNeeded:
            batch = {sha: size for sha, size in batch.items() if sha not in needed}
        else:
            break
    return batch


def pruned_bodies(readers: Readers, run_id: str) -> int:
    """Return how many of the bodies that a run's events refer to were pruned.

    Raises:
        StorageError: The log cannot be read.
    """
    sql = "SELECT body FROM events WHERE run_id = ? AND instr(body, '\"$blob\"')"
    bodies = list({sha for row in readers.read(sql, (run_id,)) for sha in references(row[0])})
    pruned = 0
    for start in range(0, len(bodies), BATCH):
        chunk = bodies[start : start + BATCH]
        places = ", ".join("?" * len(chunk))
        sql = f"SELECT count(*) FROM blobs WHERE data IS NULL AND sha256 IN ({places})"  # noqa: S608 - question marks
        pruned += readers.read(sql, chunk)[0][0]
    return pruned


def _tombstones(bodies: Sequence[str], since: int, needed: set[str]) -> Effect:
    """Return the part of the transaction that removes bodies, unless one is needed since."""

    def remove(connection: sqlite3.Connection) -> None:
        newer = connection.execute(f"{_WITH_BODIES} AND seq > ?", (since,))
        found = {sha for row in newer for sha in references(row[3])}
        found |= _of_conversations(connection, (), since)
        needed.update(found & set(bodies))
        if needed:
            raise _StillNeeded
        # Freed pages would keep what was pruned until something is written over them.
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        update = "UPDATE blobs SET data = NULL WHERE sha256 = ? AND data IS NOT NULL"
        connection.executemany(update, ((sha,) for sha in bodies))

    return remove
