"""Old bodies removed from the log: their digests stay, so that the chain still proves the rest."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from clawhive_core.events.kinds import BODIES_PRUNED
from clawhive_core.events.log import EventLog, Within
from clawhive_core.events.references import references
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.storage.database import open_database
from clawhive_core.storage.faults import storage_error

_BATCH = 500
"""Bodies a transaction: others wait no longer than that takes."""

_WITH_BODIES = "SELECT seq, ts, run_id, body FROM events WHERE instr(body, '\"$blob\"')"
_VALUES = "SELECT kind, body FROM events WHERE kind IN ('store.put', 'store.delete') ORDER BY seq"
_ENDED = "SELECT DISTINCT run_id FROM events WHERE kind = 'run.end' AND ts < ?"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    before: str
    bodies: int
    bytes: int
    waiting_runs: int
    """Runs that began before the moment and have not ended: they keep everything."""
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "before": self.before,
            "bodies": self.bodies,
            "bytes": self.bytes,
            "waiting_runs": self.waiting_runs,
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class _Plan:
    """What nobody needs any more, as one snapshot of the log says."""

    bodies: tuple[str, ...]
    last_seq: int
    waiting_runs: int


class _StillNeeded(Exception):
    """An event that was written meanwhile refers to one of the bodies."""


def prune(log: EventLog, before: str, *, dry_run: bool = False) -> Pruned:
    """Turn the bodies to which only events before a moment refer into tombstones.

    A run counts as a whole, from when it ended; one that has not ended keeps all of its bodies. So
    does a value that a tool keeps.
    Bodies go in batches, each in one transaction with the event `bodies.pruned` that tells of it:
    whoever ends the process leaves every body whole or gone, and what is gone recorded.

    Args:
        log: The log.
        before: The moment, as rows hold it.
        dry_run: Only say what would go.

    Raises:
        StorageError: The log cannot be read or written; what was recorded until then is gone.
    """
    plan = _plan(log, before)
    bodies = size = 0
    for start in range(0, len(plan.bodies), _BATCH):
        batch = _present(log, plan.bodies[start : start + _BATCH])
        if not dry_run:
            batch = _remove(log, batch, before, plan.last_seq)
        bodies, size = bodies + len(batch), size + sum(batch.values())
    return Pruned(before, bodies, size, plan.waiting_runs, dry_run)


def free_bytes(log: EventLog) -> int:
    """Return how much of the file is free for what will be written.

    Raises:
        StorageError: The log cannot be read.
    """
    pages, size = (log.read(f"PRAGMA {name}")[0][0] for name in ("freelist_count", "page_size"))
    return int(pages) * int(size)


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


def _plan(log: EventLog, before: str) -> _Plan:
    old: dict[str, None] = {}
    waiting: set[str] = set()
    with closing(open_database(log.path, read_only=True)) as connection:
        try:
            connection.execute("BEGIN")
            last_seq = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
            ended = {row[0] for row in connection.execute(_ENDED, (before,))}
            kept = _of_values(connection)
            for _, ts, run_id, body in connection.execute(_WITH_BODIES):
                if ts < before and (run_id is None or run_id in ended):
                    old.update(dict.fromkeys(references(body)))
                    continue
                kept.update(references(body))
                waiting.update([run_id] if ts < before else [])
        except sqlite3.Error as error:
            raise storage_error(error, log.path) from error
    return _Plan(tuple(sha for sha in old if sha not in kept), last_seq, len(waiting))


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


def _present(log: EventLog, bodies: Sequence[str]) -> dict[str, int]:
    """Return the bodies that are still there, with their sizes in bytes."""
    places = ", ".join("?" * len(bodies))
    sql = "SELECT sha256, length(data) FROM blobs WHERE data IS NOT NULL AND sha256 IN"
    return {str(row[0]): int(row[1]) for row in log.read(f"{sql} ({places})", bodies)}


def _remove(log: EventLog, batch: dict[str, int], before: str, since: int) -> dict[str, int]:
    """Remove a batch and record it; return what was removed."""
    while batch:
        body = {"before": before, "bodies": len(batch), "bytes": sum(batch.values())}
        event = Event(BODIES_PRUNED, body, principal=str(LOCAL_USER))
        needed = set[str]()
        try:
            log.append_now(event, sync=True, within=_tombstones(tuple(batch), since, needed))
        except _StillNeeded:
            batch = {sha: size for sha, size in batch.items() if sha not in needed}
            continue
        break
    return batch


def _tombstones(bodies: Sequence[str], since: int, needed: set[str]) -> Within:
    """Return the part of the transaction that removes bodies, unless one is needed since."""

    def remove(connection: sqlite3.Connection) -> None:
        newer = connection.execute(f"{_WITH_BODIES} AND seq > ?", (since,))
        needed.update({sha for row in newer for sha in references(row[3])} & set(bodies))
        if needed:
            raise _StillNeeded
        # Freed pages would keep what was pruned until something is written over them.
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        update = "UPDATE blobs SET data = NULL WHERE sha256 = ? AND data IS NOT NULL"
        connection.executemany(update, ((sha,) for sha in bodies))

    return remove
