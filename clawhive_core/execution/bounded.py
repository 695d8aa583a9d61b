"""Running what may hang, as executions see it (the work is done in `catalog.bounded`)."""

from __future__ import annotations

from clawhive_core.catalog.bounded import Bounded, Escaped, Overdue, run_bounded

__all__ = ["Bounded", "Escaped", "Overdue", "run_bounded"]
