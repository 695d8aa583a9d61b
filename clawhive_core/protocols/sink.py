"""The seam for places that events go to beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clawhive_core.model.events import StoredEvent


class AuditSink(Protocol):
    """Receives events after they are committed, in order, redacted.

    A required sink that raises stops effects until it has taken all events since then, some of them
    twice: `seq` tells. Others are skipped and counted.
    """

    @property
    def name(self) -> str:
        """The sink's name in the log and in `doctor`."""
        ...

    @property
    def required(self) -> bool:
        """Whether effects must stop when it fails."""
        ...

    async def write(self, events: Sequence[StoredEvent]) -> None:
        """Take a batch."""
        ...

    async def close(self) -> None:
        """Flush and release."""
        ...
