"""Old bodies removed from the log: their digests stay, so that the chain still proves the rest."""

from __future__ import annotations

from typing import Any

from clawhive_core.events.kinds import BODIES_PRUNED
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.pruning import present_bodies, remove_bodies, unused_bodies

_BATCH = 500
"""Bodies a transaction: others wait no longer than that takes."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    before: str
    bodies: int
    bytes: int
    waiting_runs: int
    """Runs that began before the moment and have not ended: they keep everything."""
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "before": self.before,
            "bodies": self.bodies,
            "bytes": self.bytes,
            "waiting_runs": self.waiting_runs,
            "dry_run": self.dry_run,
        }


def prune(log: EventLog, before: str, *, dry_run: bool = False) -> Pruned:
    """Turn the bodies to which only events before a moment refer into tombstones.

    A run counts as a whole, from when it ended; one that has not ended keeps all of its bodies. So
    does a value that a tool keeps.
    Bodies go in batches, each in one transaction with the event `bodies.pruned` that tells of it:
    whoever ends the process leaves every body whole or gone, and what is gone recorded.

    Args:
        log: The log.
        before: The moment, as rows hold it.
        dry_run: Only say what would go.

    Raises:
        StorageError: The log cannot be read or written; what was recorded until then is gone.
    """
    plan = unused_bodies(log, before)
    bodies = size = 0
    for start in range(0, len(plan.bodies), _BATCH):
        batch = present_bodies(log, plan.bodies[start : start + _BATCH])
        if not dry_run:
            batch = _remove(log, batch, before, plan.last_seq)
        bodies, size = bodies + len(batch), size + sum(batch.values())
    return Pruned(before, bodies, size, plan.waiting_runs, dry_run)


def _remove(log: EventLog, batch: dict[str, int], before: str, since: int) -> dict[str, int]:
    """Remove a batch and record it; return what was removed."""
    while batch:
        body = {"before": before, "bodies": len(batch), "bytes": sum(batch.values())}
        event = Event(BODIES_PRUNED, body, principal=str(LOCAL_USER))
        needed = remove_bodies(log, tuple(batch), since, event)
        if not needed:
            break
        batch = {sha: size for sha, size in batch.items() if sha not in needed}
    return batch
