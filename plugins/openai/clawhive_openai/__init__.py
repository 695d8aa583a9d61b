"""Models of OpenAI, and of servers with a compatible API, over the official SDK."""

from __future__ import annotations

from clawhive_core import HookContext, LlmAdapter, hookimpl
from clawhive_openai.adapter import OpenAIAdapter
from clawhive_openai.settings import Server, read_settings

__all__ = ["OpenAIAdapter", "Server", "clawhive_llm_adapters"]


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return `openai`, `openai-chat`, and an adapter for each server of the settings."""
    return [OpenAIAdapter(server, ctx.env) for server in read_settings(ctx.settings, ctx.env)]
