"""The bodies that a row refers to: digests of the blobs which are kept outside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from clawhive_core.events.rows import is_reference
from clawhive_core.storage.sqlite.log import EventLog

_CHUNK = 500


def references(body: str) -> Iterator[str]:
    """Yield the digests of the blobs that a stored body refers to.

    A value that only looks like a reference stands under `$value` and holds none.
    """
    # Most bodies hold none, and reading their JSON is what costs.
    if '"$blob"' in body:
        yield from _in_value(json.loads(body))


def _in_value(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _in_value(item)
    elif is_reference(value):
        yield str(value["$blob"])
    elif isinstance(value, dict) and "$value" not in value:
        for item in cast("dict[str, Any]", value).values():
            yield from _in_value(item)


def pruned_bodies(log: EventLog, run_id: str) -> int:
    """Return how many of the bodies that a run's events refer to were pruned.

    Raises:
        StorageError: The log cannot be read.
    """
    sql = "SELECT body FROM events WHERE run_id = ? AND instr(body, '\"$blob\"')"
    bodies = list({sha for row in log.read(sql, (run_id,)) for sha in references(row[0])})
    pruned = 0
    for start in range(0, len(bodies), _CHUNK):
        chunk = bodies[start : start + _CHUNK]
        places = ", ".join("?" * len(chunk))
        sql = f"SELECT count(*) FROM blobs WHERE data IS NULL AND sha256 IN ({places})"  # noqa: S608 - question marks
        pruned += log.read(sql, chunk)[0][0]
    return pruned
