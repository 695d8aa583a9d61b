"""Models that send nothing: what they answer is on record."""

from __future__ import annotations

from typing import cast

from clawhive_core.execution.scope import CallScope
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.runs.model_calls.models import Models


class UnsentModels(Models):
    """Models without adapters: nothing is sent, so nothing needs a right or a commit before it."""

    def adapter(self, model: str) -> tuple[LlmAdapter, str]:
        """Return no adapter: none is asked."""
        return cast("LlmAdapter", None), model

    def _allow(self, adapter: LlmAdapter, scope: CallScope) -> str:
        """Return no grant: rights were decided when the run was recorded."""
        del adapter, scope
        return ""

    def _leaves(self, adapter: LlmAdapter) -> bool:
        del adapter
        return False
