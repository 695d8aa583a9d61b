"""What comes with ClawHive itself: file tools, the engine `monty`, the `scripted` model, a stub."""

from __future__ import annotations

from clawhive_builtin.files import file_list, file_read
from clawhive_builtin.monty import MontyEngine
from clawhive_builtin.scripted import ScriptedAdapter
from clawhive_builtin.search import file_search
from clawhive_builtin.stub import StubProvider
from clawhive_core import HookContext, LlmAdapter, SandboxEngine, ToolProvider, hookimpl

__all__ = [
    "MontyEngine",
    "ScriptedAdapter",
    "StubProvider",
    "clawhive_llm_adapters",
    "clawhive_sandboxes",
    "clawhive_tool_providers",
    "file_list",
    "file_read",
    "file_search",
]


@hookimpl
def clawhive_tool_providers(ctx: HookContext) -> list[ToolProvider]:  # noqa: ARG001 - the hook's signature
    """Return the stub of `web.search`."""
    return [StubProvider()]


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return the `scripted` model."""
    return [ScriptedAdapter(ctx.root)]


@hookimpl
def clawhive_sandboxes(ctx: HookContext) -> list[SandboxEngine]:  # noqa: ARG001 - the hook's signature
    """Return the engine `monty`."""
    return [MontyEngine()]
