"""`docs/reference/hooks.md`, made from the hook specifications so that it cannot go stale."""

from __future__ import annotations

import inspect
from textwrap import dedent

from clawhive_core.plugins import hookspecs
from clawhive_core.plugins.hookspecs import HOOK_API, PROTOCOLS, HookContext

_INTRODUCTION = """\
# Hooks

A plugin implements a hook by a function of the hook's name, marked with
`clawhive_core.hookimpl`, in the module (or on the object) that its entry point in the group
`clawhive.plugins` names. Hooks are synchronous; the methods of what they return may be async. A
hook returns a list, empty where it has nothing to add. One that raises, returns a coroutine or
something else fails its plugin, and no other.

`clawhive plugins sync` writes the hooks into the plugin's manifest
([`clawhive-plugin.toml`](plugin-manifest.md)); a plugin is imported when a hook that its manifest
lists is first needed. This page describes `hook_api = {api}`.

Each hook gets one argument, a frozen `HookContext`:

| field | what it is |
| --- | --- |
{fields}
"""
_FIELDS = {
    "plugin_id": "the entry point's name",
    "settings": "the plugin's own table of the configuration, `[plugins.ID]`",
    "root": "the absolute path of the project root",
    "env": "the environment; read keys from here at the first call, not in the hook",
    "config": "the table `[ID]` of the configuration, where ClawHive has one of that name: `[mcp]`",
    "user_dir": "the absolute path of the user's own directory; it need not exist",
}


def signature(hook: str) -> str:
    """Return a hook's signature as Python writes it."""
    return f"{hook}{inspect.signature(getattr(hookspecs, hook))}".replace("'", "")


def example(hook: str) -> str:
    """Return the example of a hook's docstring, ready to run."""
    return dedent(_documentation(hook)[1]).strip("\n") + "\n"


def render() -> str:
    """Return the text of the reference page."""
    types = HookContext.__annotations__
    fields = "\n".join(f"| `{key}: {types[key]}` | {text} |" for key, text in _FIELDS.items())
    sections = [_section(hook) for hook in PROTOCOLS]
    return "\n".join([_INTRODUCTION.format(api=HOOK_API, fields=fields), *sections])


def _section(hook: str) -> str:
    text = _documentation(hook)[0].strip()
    code = f"```python\n{signature(hook)}\n```\n\n{text}\n\n```python\n{example(hook)}```\n"
    return f"## {hook}\n\n{code}"


def _documentation(hook: str) -> tuple[str, str]:
    docstring = inspect.getdoc(getattr(hookspecs, hook)) or ""
    text, _, code = docstring.partition("\nExample:\n")
    return text, code
