"""The entries by which clients find `clawhive serve mcp`, each as the client writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entry = Mapping[str, Any]
Style = Callable[[Sequence[str]], Entry]
"""Makes the entry of a command."""
WebStyle = Callable[[str], Entry]
"""Makes the entry of an address, with the token as the variable `CLAWHIVE_TOKEN` where it can."""

TOKEN = "CLAWHIVE_TOKEN"  # noqa: S105 - the name of a variable
NAME = "clawhive"


@dataclass(frozen=True, slots=True)
class Kind:
    """One client's configuration."""

    file: str
    keys: tuple[str, ...]
    """The tables above the entry."""
    command: Style
    address: WebStyle | None
    is_toml: bool = False
    starts_elsewhere: bool = False
    """Whether it starts servers outside of the project, so that the entry must name the project."""


def _plain(words: Sequence[str]) -> Entry:
    return {"command": words[0], "args": [*words[1:]]}


def _typed(words: Sequence[str]) -> Entry:
    return {"type": "stdio", **_plain(words)}


def _opencode(words: Sequence[str]) -> Entry:
    return {"type": "local", "command": [*words], "enabled": True}


def _zed(words: Sequence[str]) -> Entry:
    return {"source": "custom", **_plain(words), "env": {}}


def _bearer(variable: str) -> Entry:
    return {"headers": {"Authorization": f"Bearer {variable}"}}


CLIENTS: Mapping[str, Kind] = {
    "claude-code": Kind(
        ".mcp.json",
        ("mcpServers",),
        _typed,
        lambda url: {"type": "http", "url": url, **_bearer(f"${{{TOKEN}}}")},
    ),
    "claude-desktop": Kind(
        "claude_desktop_config.json", ("mcpServers",), _plain, None, starts_elsewhere=True
    ),
    "codex": Kind(
        "~/.codex/config.toml",
        ("mcp_servers",),
        _plain,
        lambda url: {"url": url, "bearer_token_env_var": TOKEN},
        is_toml=True,
    ),
    "cursor": Kind(
        ".cursor/mcp.json",
        ("mcpServers",),
        _plain,
        lambda url: {"url": url, **_bearer(f"${{env:{TOKEN}}}")},
    ),
    "gemini-cli": Kind(
        ".gemini/settings.json",
        ("mcpServers",),
        _plain,
        lambda url: {"httpUrl": url, **_bearer(f"${TOKEN}")},
    ),
    "opencode": Kind(
        "opencode.json",
        ("mcp",),
        _opencode,
        lambda url: {
            "type": "remote",
            "url": url,
            **_bearer(f"{{env:{TOKEN}}}"),
            "enabled": True,
        },
    ),
    "vscode": Kind(
        ".vscode/mcp.json",
        ("servers",),
        _typed,
        lambda url: {"type": "http", "url": url, **_bearer(f"${{env:{TOKEN}}}")},
    ),
    "windsurf": Kind(
        "~/.codeium/windsurf/mcp_config.json",
        ("mcpServers",),
        _plain,
        lambda url: {"serverUrl": url, **_bearer(f"${{env:{TOKEN}}}")},
        starts_elsewhere=True,
    ),
    "zed": Kind(
        "~/.config/zed/settings.json",
        ("context_servers",),
        _zed,
        lambda url: {"source": "custom", "url": url, **_bearer("TOKEN")},
    ),
}
"""The known clients; sources: their own documentation."""


def entry(client: str, words: Sequence[str], url: str | None = None) -> dict[str, Any] | None:
    """Return what a client's file must hold; None where the client speaks no HTTP.

    Args:
        client: One of `CLIENTS`.
        words: The command line that serves it.
        url: The address where it is served, instead of a command.
    """
    kind = CLIENTS[client]
    value: Any = kind.command(words)
    if url is not None:
        if kind.address is None:
            return None
        value = kind.address(url)
    value = {NAME: value}
    for key in reversed(kind.keys):
        value = {key: value}
    return value


def written(client: str, value: Mapping[str, Any]) -> str:
    """Return an entry as the client's file has it."""
    kind = CLIENTS[client]
    if not kind.is_toml:
        return json.dumps(value, indent=2, ensure_ascii=False)
    inner = value
    for key in (*kind.keys, NAME):
        inner = inner[key]
    lines = [f"[{'.'.join((*kind.keys, NAME))}]"]
    # A JSON text or list of texts is the same in TOML.
    lines += [f"{key} = {json.dumps(each, ensure_ascii=False)}" for key, each in inner.items()]
    return "\n".join(lines)
