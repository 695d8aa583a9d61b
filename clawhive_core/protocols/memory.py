"""Embeddings and memory: seams of plugins/memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clawhive_core.model.late import dataclass


class Embedder(Protocol):
    """Turns texts into vectors, in this process or by a provider."""

    @property
    def model(self) -> str:
        """The model's id; vectors of different models never mix."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one unit vector a text, in order."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One remembered piece of text, with where it came from."""

    item_id: str
    partition: str
    """The session or agent that wrote it."""
    text: str
    source: str
    score: float = 0.0


class MemoryStore(Protocol):
    """Remembers text by partition; who may read which partition is policy's business."""

    async def add(self, partition: str, text: str, *, source: str, **facts: Any) -> str:
        """Keep a text and return its id."""
        ...

    async def search(
        self, query: str, *, partitions: Sequence[str], limit: int = 10
    ) -> list[MemoryItem]:
        """Return the best matches among the partitions, best first."""
        ...

    async def forget(self, item_id: str) -> bool:
        """Forget one item; whether it was there."""
        ...
