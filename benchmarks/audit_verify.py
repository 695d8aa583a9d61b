"""How fast the log is verified, beside the twenty lines of the log's page.

Run `python benchmarks/audit_verify.py [--smoke]`. A log of calls is written, then checked by
`audit.verify` (chain, bodies, checkpoints, tombstones) and by the page's loop (chain alone). CPU
microseconds a row, the ratio, and rows a second.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from functools import partial
from pathlib import Path

import measure
from log_append import event

from clawhive_core.audit.verify import verify
from clawhive_core.storage.sqlite.inspection import inspect
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.schema import SELECT

_BATCH = 500


def written(path: Path, rows: int) -> None:
    log = EventLog.open(path)
    for start in range(0, rows, _BATCH):
        log.append_now(*(event(number) for number in range(start, min(rows, start + _BATCH))))
    log.close()


def ours(path: Path, rows: int) -> measure.Sample:
    def work() -> None:
        with inspect(path) as log:
            report = verify(log, path.parent / "user")
        assert report.ok
        assert report.rows == rows

    return measure.clock(work).per(rows)


def page(path: Path, rows: int) -> measure.Sample:
    def work() -> None:
        log = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        (name,) = log.execute("SELECT value FROM meta WHERE key = 'database_id'").fetchone()
        tip = hashlib.sha256(f"clawhive.log/1:{name}".encode()).hexdigest()
        for *columns, digest in log.execute(f"{SELECT} ORDER BY seq"):
            text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
            assert columns[-1] == tip
            assert hashlib.sha256(text.encode()).hexdigest() == digest
            tip = digest
        log.close()

    return measure.clock(work).per(rows)


def main() -> None:
    smoke = measure.arguments(__doc__).smoke
    rows, rounds = (2_000, 2) if smoke else (50_000, 5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hive.db"
        written(path, rows)
        cases = {"the page's loop": partial(page, path, rows), "verify": partial(ours, path, rows)}
        found = measure.alternate(cases, rounds)
    floor, mine = found["the page's loop"], found["verify"]
    measure.costs(found.values(), floor, measure.micros, "us")
    measure.finish(
        "audit_verify",
        {
            "rows": rows,
            "ratio": round(mine.ratio(floor), 2),
            "rows_per_cpu_second": round(1 / mine.cpu()),
            "rows_per_second": round(1 / mine.wall()),
        },
    )


if __name__ == "__main__":
    measure.start(main)
