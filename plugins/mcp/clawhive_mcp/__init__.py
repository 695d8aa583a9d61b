"""Tools of MCP servers: each server is a provider, and each call is decided, bounded, recorded.

Programs that make a provider of their own import `clawhive_mcp.provider.MCPProvider`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawhive_core import HookContext, ToolProvider, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["clawhive_commands", "clawhive_tool_providers"]


@hookimpl
def clawhive_tool_providers(ctx: HookContext) -> list[ToolProvider]:
    """Return a provider for each server that is not disabled."""
    from clawhive_mcp.provider import MCPProvider
    from clawhive_mcp.servers import read_servers

    servers = read_servers(ctx.config, ctx.env, ctx.root)
    return [
        MCPProvider(server, env=ctx.env, root=ctx.root, user_dir=ctx.user_dir)
        for server in servers
        if not server.disabled
    ]


@hookimpl
def clawhive_commands(ctx: HookContext) -> list[click.Command]:
    """Return `clawhive mcp` and `clawhive serve`."""
    from clawhive_mcp.commands import mcp_command
    from clawhive_mcp.serving.commands import serve_command

    return [mcp_command(ctx), serve_command(ctx)]
