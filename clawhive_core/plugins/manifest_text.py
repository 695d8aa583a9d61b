"""The manifest as text: deterministic, so that writing it twice changes nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolMeta
from clawhive_core.plugins.hookspecs import PROTOCOLS
from clawhive_core.plugins.manifest import TOOL_KEYS, Manifest, ManifestCommand

_HEAD = "# Written by `clawhive plugins sync` from the plugin's code: change the code, then sync.\n"
_ALWAYS = frozenset({"name", "description", "capability_level", "risk", "input_schema"})
_UNWRITABLE = pattern("[\x7f\ud800-\udfff]")


def manifest_text(manifest: Manifest) -> str:
    """Return the TOML text of a manifest; `parse_manifest` reads an equal one from it."""
    tools = sorted(manifest.tools, key=lambda tool: (tool.provider_id, tool.name))
    blocks = [
        "\n".join(_plugin(manifest)),
        *("\n".join(_command(command)) for command in manifest.commands),
        *("\n".join(_tool(tool, manifest.id)) for tool in tools),
    ]
    return _HEAD + "\n" + "\n\n".join(blocks) + "\n"


def _plugin(manifest: Manifest) -> Iterator[str]:
    yield "[plugin]"
    yield f"id = {_text(manifest.id)}"
    yield f"hook_api = {manifest.hook_api}"
    yield f"hooks = {_texts([hook for hook in PROTOCOLS if hook in manifest.hooks])}"
    if manifest.after:
        yield f"after = {_texts(manifest.after)}"
    if manifest.before:
        yield f"before = {_texts(manifest.before)}"
    if manifest.dynamic:
        yield 'tools = "dynamic"'
    if manifest.dynamic_settings:
        yield f"dynamic_settings = {_texts(manifest.dynamic_settings)}"
    if manifest.env:
        yield f"env = {_texts(manifest.env)}"


def _command(command: ManifestCommand) -> Iterator[str]:
    yield "[[commands]]"
    yield f"name = {_text(command.name)}"
    yield f"help = {_text(command.help)}"


def _tool(tool: ToolMeta, plugin_id: str) -> Iterator[str]:
    yield "[[tools]]"
    for key, kind in TOOL_KEYS.items():
        if key == "provider":
            if tool.provider_id != plugin_id:
                yield f"provider = {_text(tool.provider_id)}"
            continue
        value = getattr(tool, key)
        if key not in _ALWAYS and value == _DEFAULTS[key]:
            continue
        yield f"{key} = {_json(value) if kind in {'object', 'list'} else _value(value)}"


def _defaults() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in dataclasses.fields(ToolMeta):
        factory = field.default_factory
        found[field.name] = field.default if factory is dataclasses.MISSING else factory()
    return found


_DEFAULTS = _defaults()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        items = sorted(cast("Mapping[str, Any]", value).items())
        return "{" + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in items) + "}"
    return _texts(cast("Sequence[str]", value))


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _text(value: str) -> str:
    """Return a TOML string: JSON's escapes are TOML's, except for DEL and lone surrogates."""
    lines = value.encode("utf-8", "replace").decode().split("\n")
    quoted = [json.dumps(line, ensure_ascii=False).replace("\x7f", "\\u007f") for line in lines]
    if len(lines) == 1:
        return quoted[0]
    return '"""\n' + "\n".join(line[1:-1] for line in quoted) + '"""'


def _json(value: Any) -> str:
    """Return JSON in a TOML literal string, which knows no escapes of its own."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    text = _UNWRITABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return "'''\n" + text.replace("'''", "\\u0027\\u0027\\u0027") + "\n'''"
