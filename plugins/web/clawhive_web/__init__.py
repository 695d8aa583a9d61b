"""The web: search, guarded fetching, and the main text of pages."""

from __future__ import annotations

from clawhive_core import HookContext, ToolProvider, hookimpl
from clawhive_web.fetch import fetch

__all__ = ["clawhive_tool_providers", "fetch"]


@hookimpl
def clawhive_tool_providers(ctx: HookContext) -> list[ToolProvider]:  # noqa: ARG001 - the hook's signature
    """Return the provider of what is done with pages."""
    from clawhive_web.pages import WebPages

    return [WebPages()]
