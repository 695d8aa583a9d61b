"""ClawHive: `Hive.run` with policy, validation and the event log on."""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """Import it and return what runs it."""
    import clawhive_core

    _ = clawhive_core.Hive
    return through


def through(bench: Any, rounds: int, tools: int, calls: int) -> None:
    """Run a prompt in a fresh project; opening the project is not counted."""
    from loop_rounds import through_hive

    bench.cpu += through_hive(rounds, tools, calls).cpu
    bench.executed += rounds * calls  # `through_hive` fails where it counted others
