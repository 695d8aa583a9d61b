"""Google's Gemini models, over the official SDK `google-genai`."""

from __future__ import annotations

from clawhive_core import HookContext, LlmAdapter, hookimpl
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import read_settings

__all__ = ["GeminiAdapter", "clawhive_llm_adapters"]


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return the adapter; the key is read, and the SDK imported, by the first call."""
    return [GeminiAdapter(read_settings(ctx.settings, ctx.env), ctx.env)]
