"""The built-in plugin: file tools, the engine `monty`, the `scripted` model, a stub."""

from __future__ import annotations

from clawhive_builtin.edit import edit_apply, edit_propose, file_write
from clawhive_builtin.files import file_list, file_read
from clawhive_builtin.monty import MontyEngine
from clawhive_builtin.pages import PagesProvider
from clawhive_builtin.scripted import ScriptedAdapter
from clawhive_builtin.search import file_search
from clawhive_builtin.stub import StubProvider
from clawhive_core import HookContext, LlmAdapter, SandboxEngine, ToolProvider, hookimpl

__all__ = [
    "MontyEngine",
    "PagesProvider",
    "ScriptedAdapter",
    "StubProvider",
    "clawhive_llm_adapters",
    "clawhive_sandboxes",
    "clawhive_tool_providers",
    "edit_apply",
    "edit_propose",
    "file_list",
    "file_read",
    "file_search",
    "file_write",
]


@hookimpl
def clawhive_tool_providers(ctx: HookContext) -> list[ToolProvider]:
    """Return the stub of `web.search`, and the saved pages where the settings name a folder."""
    found: list[ToolProvider] = [StubProvider()]
    if "pages" in ctx.settings:
        found.append(PagesProvider(ctx.settings["pages"], ctx.root))
    return found


@hookimpl
def clawhive_llm_adapters(ctx: HookContext) -> list[LlmAdapter]:
    """Return the `scripted` model."""
    return [ScriptedAdapter(ctx.root)]


@hookimpl
def clawhive_sandboxes(ctx: HookContext) -> list[SandboxEngine]:  # noqa: ARG001 - the hook's signature
    """Return the engine `monty`."""
    return [MontyEngine()]
