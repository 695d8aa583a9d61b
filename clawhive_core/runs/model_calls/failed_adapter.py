"""The stand-in for a model adapter that is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from clawhive_core.errors import PluginError
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.plugins.plugin import PluginRecord
from clawhive_core.protocols.adapter import StreamEvent


class FailedAdapter:
    """Stands for the adapters and embedders of a plugin that failed to load: it says why."""

    host = None
    default_host = None
    supports_tools = False
    default_model = ""

    def __init__(self, record: PluginRecord) -> None:
        self.name = record.id
        self._failure = record.error

    async def chat(self, request: LlmRequest) -> LlmResponse:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        del request
        raise self._error()

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamEvent]:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        yield StreamEvent("done", response=await self.chat(request))

    async def embed(self, texts: Sequence[str], model: str) -> Embeddings:
        """Fail.

        Raises:
            PluginError: Always, with what the plugin failed of.
        """
        del texts, model
        raise self._error()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _error(self) -> PluginError:
        failure = self._failure
        if failure is None:
            return PluginError(f"the plugin `{self.name}` could not be loaded")
        return PluginError(
            f"the plugin `{self.name}` could not be loaded: {failure.message}",
            place=failure.place,
            fix=failure.fix,
            code=failure.code,
        )
