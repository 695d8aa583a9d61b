"""The accounts that a sub-agent draws on where it goes on without the runs above it."""

from __future__ import annotations

from collections.abc import Container, Generator
from contextlib import contextmanager
from itertools import pairwise

from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.budget import BudgetLimits
from clawhive_core.runs.models import Models
from clawhive_core.runs.record.lineage import line_of, start_of, used_so_far


@contextmanager
def accounts_above(
    log: Ledger, models: Models, run_id: str, here: Container[str]
) -> Generator[None]:
    """Hold the accounts of the runs above a run open, each with what was used of it by now.

    Args:
        log: The log that says so.
        models: Where the accounts are.
        run_id: A run that is resumed by itself; what it used it charges itself.
        here: The runs that are at work in this process: their accounts are open.
    """
    line = [each for each, _ in line_of(log, run_id)]
    opened: list[str] = []
    try:
        for above, below in pairwise(line):
            if above not in here:
                start = start_of(log, above)
                limits = BudgetLimits(**start.get("budget", {}))
                account = models.allot(above, limits, start["parent_run_id"])
                account.charge(used_so_far(log, above, but=below))
                opened.append(above)
        yield
    finally:
        for above in opened:
            if above not in here:  # else it was taken up meanwhile, with an account of its own
                models.used(above)
