"""ClawHive: `Hive.run` with policy, validation and the event log on."""

from __future__ import annotations

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
