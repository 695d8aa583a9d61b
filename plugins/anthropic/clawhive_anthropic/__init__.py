"""Claude models: Anthropic's Messages API over its official SDK."""

from __future__ import annotations

from clawhive_anthropic.adapter import AnthropicAdapter
from clawhive_anthropic.settings import Settings, read_settings
from clawhive_core import HookContext, LlmAdapter, hookimpl

__all__ = ["AnthropicAdapter", "Settings", "clawhive_llm_adapters", "read_settings"]


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return the adapter `anthropic`; a missing key is an error of its first call."""
    return [AnthropicAdapter(read_settings(ctx.settings, ctx.env))]
