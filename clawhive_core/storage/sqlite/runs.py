"""Runs as rows: the projection of the log that lists them, and who owns them now."""

from __future__ import annotations

import sqlite3

from clawhive_core.model.canonical import canonical_text
from clawhive_core.model.events import StoredEvent
from clawhive_core.storage.sqlite.migrations import RoomSchema
from clawhive_core.storage.sqlite.writer import Projections

SCHEMA = RoomSchema(
    "runs",
    (
        """
        CREATE TABLE runs(
          run_id TEXT PRIMARY KEY, trace_id TEXT NOT NULL, task_id TEXT NOT NULL,
          parent_run_id TEXT, conversation_id TEXT NOT NULL, principal TEXT NOT NULL,
          task_type TEXT, title TEXT NOT NULL, status TEXT NOT NULL, started_at TEXT NOT NULL,
          ended_at TEXT, error TEXT, artifacts TEXT NOT NULL, started_seq INTEGER NOT NULL
        );
        CREATE INDEX runs_status ON runs(status);
        CREATE TABLE run_owners(
          run_id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL,
          process_start TEXT NOT NULL, heartbeat REAL NOT NULL, cancel INTEGER NOT NULL DEFAULT 0
        );
        CREATE VIEW v_runs AS SELECT run_id, trace_id, task_id, parent_run_id, conversation_id,
          principal, task_type, title, status, started_at, ended_at, error, artifacts FROM runs;
        """,
        """
        CREATE INDEX runs_of_parent ON runs(parent_run_id) WHERE parent_run_id IS NOT NULL;
        CREATE INDEX runs_below ON runs(trace_id) WHERE parent_run_id IS NOT NULL;
        """,
        # Who executes a run is a part of it now, under a fence that each taking and each
        # interruption raises; that its worker lives is said once for all of its runs.
        """
        ALTER TABLE runs ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE runs ADD COLUMN worker TEXT;
        DROP TABLE run_owners;
        CREATE TABLE leases(
          worker TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL,
          process_start TEXT NOT NULL, until REAL NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE cancel_requests(
          run_id TEXT PRIMARY KEY, fence INTEGER NOT NULL
        ) WITHOUT ROWID;
        """,
        # A conversation's last turn is looked up in the transaction that starts the next one.
        """
        CREATE INDEX runs_of_conversation ON runs(conversation_id, started_seq)
          WHERE task_type IS NULL AND parent_run_id IS NULL;
        """,
    ),
)


def _on_start(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    event = stored.event
    task = event.body["task"]
    connection.execute(
        "INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, ?)",
        (
            event.run_id,
            event.trace_id,
            event.task_id,
            event.body["parent_run_id"],
            event.conversation_id,
            event.principal,
            task["task_type"],
            event.body["title"],
            event.status,
            stored.ts,
            event.body["artifacts"],
            stored.seq,
            event.body.get("fence", 0),
            event.body.get("worker"),
        ),
    )


def _on_status(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    event = stored.event
    connection.execute(
        "UPDATE runs SET status = ?, fence = coalesce(?, fence), worker = ? WHERE run_id = ?",
        (event.status, event.body.get("fence"), event.body.get("worker"), event.run_id),
    )


def _on_end(connection: sqlite3.Connection, stored: StoredEvent) -> None:
    error = stored.event.body["error"]
    connection.execute(
        "UPDATE runs SET status = ?, ended_at = ?, error = ?, worker = NULL WHERE run_id = ?",
        (
            stored.event.status,
            stored.ts,
            None if error is None else canonical_text(error),
            stored.event.run_id,
        ),
    )


PROJECTIONS: Projections = {
    "run.start": (_on_start,),
    "run.status": (_on_status,),
    "run.end": (_on_end,),
}
