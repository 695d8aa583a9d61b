"""A cache between processes: bytes by their keys, which may be gone at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Cache(Protocol):
    """A store of what can be made again.

    No method raises for the state of the store: one that is missing, damaged, locked, written by a
    newer version or not to be written holds nothing and keeps nothing.
    """

    def get_many(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the values of those keys that are there, each as it was put."""
        ...

    def put_many(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep entries, in place of those of the same keys; the oldest make room for them."""
        ...

    def close(self) -> None:
        """Let go of the store; afterwards it holds nothing."""
        ...
