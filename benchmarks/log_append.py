"""How fast the event log appends, beside bare chained inserts with the same sync mode.

Run `python benchmarks/log_append.py [--smoke]`. One line a case: appends per second through
`EventLog.append` from 1 and from 16 producers, and the ratio to a loop of bare inserts (one
connection, one thread, one transaction a row, the same table, chain and canonical JSON).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sqlite3
import tempfile
import time
from pathlib import Path

import anyio

from clawhive_core.model.canonical import canonical, canonical_text
from clawhive_core.model.events import Blob, Event
from clawhive_core.storage.sqlite.database import open_database
from clawhive_core.storage.sqlite.log import EventLog, now
from clawhive_core.storage.sqlite.schema import INSERT, SCHEMA, TIP

BODY = {
    "step": {"name": "tool.file.read", "label": "file.read", "ordinal": 1},
    "tool_call": {"id": "call_1", "name": "file.read", "catalog_revision": "f" * 16},
    "input_preview": '{"path":"docs/index.md"}',
    "capability_level": "L0",
    "risk": "safe",
    "contract_hash": "c" * 64,
    "requested_capabilities": ["fs.read:${workspace}/docs/index.md"],
    "granted_capabilities": [{"capability": "fs.read:${workspace}/**", "grant_id": "grant_1"}],
    "decision": "allow",
    "rules": ["starter"],
    "approval_required": False,
    "approval_result": None,
    "idempotency_key": "k" * 32,
    "parent_invocation_id": None,
    "note": "n" * 300,
}


def event(ordinal: int) -> Event:
    """Return the intent of a call, as the executor makes it."""
    call = {**BODY["tool_call"], "input": Blob({"path": "docs/index.md"})}
    return Event(
        "invocation.start",
        {**BODY, "tool_call": call},
        trace_id="trace_0123456789abcdef",
        run_id="run_0123456789abcdef",
        step_id=f"step_{ordinal:016x}",
        invocation_id=f"inv_{ordinal:016x}",
        principal="agent:default",
        tool="file.read",
        provider_id="builtin",
        status="intended",
        prechecked=True,
    )


def bare(path: Path, count: int, sync: bool) -> float:
    connection = open_database(path, (SCHEMA,))
    connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
    start = time.perf_counter()
    for ordinal in range(count):
        insert_bare(connection, ordinal)
    seconds = time.perf_counter() - start
    connection.close()
    return count / seconds


def insert_bare(connection: sqlite3.Connection, ordinal: int) -> None:
    call = {**BODY["tool_call"], "input": {"$value": {"path": "docs/index.md"}}}
    body = canonical_text({**BODY, "tool_call": call})
    connection.execute("BEGIN IMMEDIATE")
    seq, prev = connection.execute(TIP).fetchone() or (0, "0" * 64)
    ids = ("trace_0123456789abcdef", "run_0123456789abcdef", None, f"step_{ordinal:016x}")
    tail = (f"inv_{ordinal:016x}", None, "agent:default", "file.read", "builtin", "intended")
    row = (seq + 1, now(), "invocation.start", 1, *ids, *tail, body, prev)
    digest = hashlib.sha256(canonical(row)).hexdigest()
    connection.execute(INSERT, (*row, digest, None))
    connection.execute("COMMIT")


async def through_log(path: Path, count: int, producers: int, sync: bool) -> float:
    log = EventLog.open(path)

    async def produce(first: int) -> None:
        for ordinal in range(first, count, producers):
            await log.append(event(ordinal), sync=sync)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for first in range(producers):
            group.start_soon(produce, first)
    seconds = time.perf_counter() - start
    log.close()
    return count / seconds


def measure(count: int, repeats: int, sync: bool) -> dict[str, float]:
    best = {"bare": 0.0, "1 producer": 0.0, "16 producers": 0.0}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            figures = {
                "bare": bare(root / "bare.db", count, sync),
                "1 producer": anyio.run(through_log, root / "one.db", count, 1, sync),
                "16 producers": anyio.run(through_log, root / "many.db", count, 16, sync),
            }
        best = {name: max(best[name], figure) for name, figure in figures.items()}
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
    smoke = parser.parse_args().smoke
    for sync, count in ((False, 500 if smoke else 5_000), (True, 100 if smoke else 1_000)):
        best = measure(count, 1 if smoke else 3, sync)
        for name, figure in best.items():
            row = {
                "case": name,
                "synchronous": "FULL" if sync else "NORMAL",
                "appends_per_second": round(figure),
                "ratio_to_bare": round(figure / best["bare"], 2),
            }
            print(json.dumps(row))


if __name__ == "__main__":
    main()
