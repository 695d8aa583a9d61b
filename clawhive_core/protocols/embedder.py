"""The seam for models that turn texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clawhive_core.model.embeddings import Embeddings


class Embedder(Protocol):
    """Converts requests and responses of one provider of embeddings, in this process or not.

    Rights, budget, retries, deadline and log are the core's, which also brings each vector to
    length 1 and to 32-bit floats.
    """

    @property
    def name(self) -> str:
        """The part of `PROVIDER:NAME` before the colon."""
        ...

    @property
    def host(self) -> str | None:
        """The host it talks to, None where nothing leaves the process."""
        ...

    @property
    def default_host(self) -> str | None:
        """The provider's own host; another `host` needs a right of its own."""
        ...

    @property
    def default_model(self) -> str:
        """The model that is asked where nobody names one."""
        ...

    async def embed(self, texts: Sequence[str], model: str) -> Embeddings:
        """Return one vector a text, in order, by the model of a name after the colon.

        Raises:
            ModelError: With a code and, where known, `data["retry_after"]` in seconds.
        """
        ...

    async def close(self) -> None:
        """Release connections and weights."""
        ...
