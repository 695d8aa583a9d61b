"""The smallest honest executor: what `floor_door.py` measures ours against.

Honest means: it validates, resolves the path, and binds what it did to a digest of the arguments;
the intent is committed before the call and the end before the answer, so that a killed process
leaves no answer without its row; each row holds the minimum that an audit asks for (the fields of
requirement C6); rows are chained through one writer thread, and several processes may write the
same file, so the chain's tip is read inside the transaction, and that the run still is this
process's own. Nothing else.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - a script's part, which nothing else imports
import hashlib
import json
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

FILE = "docs/page.md"
RUN = "run_0123456789abcdef"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "default": 65536},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def read(path: str) -> str:
    """Return a file's text: the tool, the same for both."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return os.read(handle, 65536).decode()
    finally:
        os.close(handle)


@dataclass(slots=True)
class FloorLog:
    """Chained rows into SQLite: one writer thread, one transaction a queue."""

    path: Path
    queue: deque[tuple[str, asyncio.Future[None], bool]] = field(default_factory=deque)
    bell: SimpleQueue[str] = field(default_factory=SimpleQueue)
    thread: threading.Thread | None = None
    synced: bool = False

    def open(self) -> None:
        """Start the writer."""
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    async def append(self, row: str, *, sync: bool = False) -> None:
        """Return when the row is committed, with `sync` when the disk has it."""
        done = asyncio.get_running_loop().create_future()
        self.queue.append((row, done, sync))
        self.bell.put("now")
        await done

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        self.bell.put("close")
        if self.thread is not None:
            self.thread.join()

    def run(self) -> None:
        """Commit what is queued, again and again, until closed."""
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(
            "CREATE TABLE events(seq INTEGER PRIMARY KEY, body TEXT, prev TEXT, hash TEXT)"
        )
        connection.execute("CREATE TABLE runs(run_id TEXT PRIMARY KEY, fence INTEGER NOT NULL)")
        connection.execute("INSERT INTO runs VALUES(?, 1)", (RUN,))
        going = True
        while going:
            going = self.bell.get() != "close"
            self.commit(connection)
        connection.close()

    def commit(self, connection: sqlite3.Connection) -> None:
        """Write all that is queued in one transaction and wake who waits."""
        if not self.queue:
            return
        waiting: list[asyncio.Future[None]] = []
        rows: list[tuple[int, str, str, str]] = []
        if (wanted := any(sync for _, _, sync in list(self.queue))) is not self.synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self.synced = wanted
        connection.execute("BEGIN IMMEDIATE")
        owned = connection.execute("SELECT fence FROM runs WHERE run_id = ?", (RUN,)).fetchone()
        if owned != (1,):
            raise RuntimeError("another process took the run")
        tip = connection.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
        seq, prev = tip.fetchone() or (0, "0" * 64)
        while self.queue:
            body, done, _ = self.queue.popleft()
            seq += 1
            digest = hashlib.sha256(f"{seq},{body},{prev}".encode()).hexdigest()
            rows.append((seq, body, prev, digest))
            prev = digest
            waiting.append(done)
        connection.executemany("INSERT INTO events VALUES(?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
        waiting[0].get_loop().call_soon_threadsafe(settle, waiting)


def now() -> str:
    """Return the time as rows hold it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def settle(waiting: list[asyncio.Future[None]]) -> None:
    """Wake those whose rows are committed."""
    for done in waiting:
        if not done.done():
            done.set_result(None)


class Floor:
    """The smallest honest executor."""

    def __init__(self, root: Path, log: FloorLog, schema: Mapping[str, Any] = SCHEMA) -> None:
        import jsonschema_rs

        self.root = str(root)
        self.log = log
        self.validator = jsonschema_rs.validator_for(dict(schema))
        self.encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

    def digest(self, given: Mapping[str, Any]) -> str:
        """Validate the input; return the digest of the arguments."""
        if not self.validator.is_valid(given):
            raise ValueError("the input is invalid")
        return hashlib.sha256(self.encode(given).encode()).hexdigest()

    def checked(self, given: Mapping[str, Any]) -> tuple[str, str]:
        """Validate the input; return the real path and the digest of the arguments."""
        digest = self.digest(given)
        real = os.path.realpath(f"{self.root}/{given['path']}")
        if not real.startswith(self.root):
            raise PermissionError(real)
        return real, digest

    async def call(self, number: int) -> str:
        """Read the file."""
        given = {"path": FILE, "limit": 4096}
        real, digest = self.checked(given)
        intent = self.intent(
            number, {"name": "file.read", "input": given}, digest, f"fs.read:{real}"
        )
        await self.log.append(intent)
        output = read(real)
        await self.log.append(self.end(number, output))
        return output

    def intent(self, number: int, call: Mapping[str, Any], digest: str, *needs: str) -> str:
        """Return the row that stands before a call runs."""
        return self.encode(
            {
                "trace_id": "trace_0123456789abcdef",
                "task_id": "task_0123456789abcdef",
                "run_id": "run_0123456789abcdef",
                "step_id": f"run_0123456789abcdef/r{number}",
                "tool_call": {"id": f"call_{number}", **call},
                "digest": digest,
                "requested_capabilities": needs,
                "granted_capabilities": needs,
                "approval_required": False,
                "approval_result": None,
                "start_at": now(),
                "status": "intended",
            }
        )

    def asked(self, number: int, new: Any) -> str:
        """Return the row that stands before a model's turn: what is said that was not before."""
        call = {"name": "model", "input": new}
        digest = hashlib.sha256(self.encode(new).encode()).hexdigest()
        return self.intent(number, call, digest, "model.call:fake")

    def end(self, number: int, output: Any) -> str:
        """Return the row of what a call came to."""
        return self.encode(
            {
                "step_id": f"run_0123456789abcdef/r{number}",
                "end_at": now(),
                "status": "succeeded",
                "error": None,
                "output": output,
            }
        )
