"""ClawHive: `Hive.run` with policy, validation and the event log on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    import clawhive_core

    _ = clawhive_core.Hive
    return through


def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
    """Run a prompt in a fresh project, again and again; opening the project is not counted."""
    from loop_rounds import runs_through_hive

    found = runs_through_hive(rounds, tools, calls, len(bench.runs()))
    bench.costs += [each.cpu for each in found]
    bench.executed += len(found) * rounds * calls  # it fails where it counted others


@asynccontextmanager
async def load_many(bench: Any, rounds: int, pause: float) -> AsyncIterator[Any]:
    """Give what makes one run of many in one project: `$BENCH_ROOT`, of the user of `$HOME`."""
    from many_hive import CALLS, opened

    async with opened(Path(os.environ["BENCH_ROOT"]), rounds, pause) as (hive, called):

        async def one() -> None:
            run: Mapping[str, Any] = await hive.run(
                "Add.", model="scripted:many", max_tool_rounds=rounds + 1
            )
            assert run["status"] == "succeeded", run["error"]
            bench.executed += rounds

        yield one
        await hive.log.flush()
        rows = dict(map(tuple, hive.log.read(CALLS)))
        bench.facts["calls"] = rows
        bench.facts["executed"] = called()
