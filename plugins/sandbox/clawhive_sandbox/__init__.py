"""Sandbox engines: interpreters in WebAssembly, and programs in a jail of the operating system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawhive_core import HookContext, SandboxEngine, hookimpl

if TYPE_CHECKING:
    import click

__all__ = ["clawhive_commands", "clawhive_sandboxes"]


@hookimpl
def clawhive_sandboxes(ctx: HookContext) -> list[SandboxEngine]:
    """Return the engines, the one with the smallest interface to the machine first."""
    from clawhive_sandbox.engine import wasm_engines
    from clawhive_sandbox.jail_engine import jail_engines

    return [*wasm_engines(ctx.env), *jail_engines(ctx.config, ctx.env)]


@hookimpl
def clawhive_commands(ctx: HookContext) -> list[click.Command]:
    """Return `clawhive sandbox`."""
    from clawhive_sandbox.commands import sandbox_command

    return [sandbox_command(ctx)]
