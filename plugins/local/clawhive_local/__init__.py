"""Models in GGUF files, run by llama.cpp within the process."""

from __future__ import annotations

from clawhive_core import HookContext, LlmAdapter, hookimpl
from clawhive_local.adapter import LocalAdapter
from clawhive_local.settings import read_settings

__all__ = ["LocalAdapter", "clawhive_llm_adapters"]


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return the adapter; a model is loaded by the first request for it."""
    return [LocalAdapter(read_settings(ctx.settings))]
