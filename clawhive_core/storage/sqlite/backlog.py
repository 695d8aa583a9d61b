"""The appends that wait to be committed, in their order."""

from __future__ import annotations

from collections import deque
from time import monotonic

from clawhive_core.storage.sqlite.append import Append

BACKLOG = 100_000
"""The number of appends that may wait; beyond it posting is refused."""

FEW = 64
MUCH = 256 * 1024
"""The most that is committed in a caller's thread: appends, and about the bytes of all."""

_MANY = 60
"""The number of appends that is enough for a batch."""


class Backlog:
    """A queue that any thread may put appends into; one at a time takes all."""

    __slots__ = ("_bytes", "_pressing", "_settled", "_since", "items")

    def __init__(self) -> None:
        self.items: deque[Append] = deque()
        self._bytes = 0
        self._pressing = 0
        self._settled = 0
        self._since = 0.0

    def put(self, item: Append) -> None:
        """Queue an append."""
        self._pressing += item.is_pressing
        self._bytes += item.size
        if not self.items:
            self._since = monotonic()
        self.items.append(item)

    def due(self, seconds: float) -> float:
        """Return the seconds until the first append has waited that long; none where none waits."""
        return self._since + seconds - monotonic() if self.items else 0.0

    def put_back(self, items: list[Append]) -> None:
        """Queue appends again, before those that came meanwhile."""
        self.items.extendleft(reversed(items))
        for item in items:
            self._bytes += item.size

    def take(self) -> list[Append]:
        """Return all appends, which are queued no longer."""
        taken: list[Append] = []
        self._bytes = 0
        while self.items:
            taken.append(self.items.popleft())
        return taken

    def settle(self, items: list[Append]) -> None:
        """Take notice that appends were committed: until then they are pressing."""
        for item in items:
            self._settled += item.is_pressing

    def is_full(self, item: Append) -> bool:
        """Whether with an append so much would wait, or such, that it is to be committed now."""
        if self._pressing != self._settled or len(self.items) >= _MANY:
            return True
        return self._bytes + item.size >= MUCH // 2
