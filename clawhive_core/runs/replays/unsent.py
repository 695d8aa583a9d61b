"""Models that send nothing: what they answer is on record."""

from __future__ import annotations

from typing import cast

from clawhive_core.execution.scope import CallScope
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.runs.models import Models, Provider


class UnsentModels(Models):
    """Models without adapters: nothing is sent, so nothing needs a right or a commit before it."""

    def adapter(self, model: str) -> tuple[LlmAdapter, str]:
        """Return no adapter: none is asked."""
        return cast("LlmAdapter", None), model

    def embedder(self, model: str | None, scope: CallScope) -> tuple[Embedder, str]:
        """Return no embedder, and the model by the name that the record has."""
        return cast("Embedder", None), self._recorded_embedder(scope) or model or ""

    def _recorded_embedder(self, scope: CallScope) -> str | None:
        """Return which model the record asked at a step."""
        raise NotImplementedError

    def _allow(self, adapter: Provider, scope: CallScope) -> str:
        """Return no grant: rights were decided when the run was recorded."""
        del adapter, scope
        return ""

    def _leaves(self, adapter: Provider) -> bool:
        del adapter
        return False
