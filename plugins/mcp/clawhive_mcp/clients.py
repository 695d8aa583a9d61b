"""The servers that other clients on this machine are configured with."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from clawhive_mcp.errors import printable
from clawhive_mcp.servers import folded, is_ourselves

Table = Mapping[str, Any]

_INPUT = re.compile(r"\$\{input:")


@dataclass(frozen=True, slots=True)
class Found:
    """One server of a client's configuration."""

    client: str
    file: str
    name: str
    """The name, folded."""
    table: Table
    """The table `[mcp.servers.NAME]` that says the same."""
    problem: str = ""
    """The reason why it cannot be taken over; empty where it can."""

    @property
    def reached(self) -> object:
        """What makes two servers one: how they are reached."""
        keys = ("command", "args", "url", "cwd")
        return [self.table.get(key) for key in keys]


def find_servers(home: Path, root: Path) -> tuple[list[Found], list[str]]:
    """Return the servers of all known clients, and what could not be read, as sentences.

    Args:
        home: The user's home directory.
        root: The project root, which clients have files in, too.
    """
    found: list[Found] = []
    problems: list[str] = []
    for client, place, read in _CLIENTS:
        path = home / place[2:] if place.startswith("~/") else root / place
        if not path.is_file():
            continue
        try:
            value = _read(path)
            tables = dict(read(value, root))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            problems.append(f"{client}: {path}: {printable(str(error), 200)}")
            continue
        found += servers_of(client, str(path), tables)
    return found, problems


def servers_of(client: str, file: str, tables: Mapping[str, Any]) -> list[Found]:
    """Return the servers of one configuration, as ours would have them."""
    return [_found(client, file, name, table) for name, table in folded(tables)]


def merged(found: list[Found], taken: Mapping[str, Table]) -> list[Found]:
    """Return each server once, under names that are free.

    Those that are configured already, that are ClawHive itself, or that cannot be taken over are
    left out.
    """
    kept: list[Found] = []
    names = set(taken)
    known = [Found("", "", name, table).reached for name, table in taken.items()]
    for each in found:
        if each.problem or each.reached in known:
            continue
        known.append(each.reached)
        name, number = each.name, 2
        while name in names:
            name, number = f"{each.name}_{number}", number + 1
        names.add(name)
        kept.append(Found(each.client, each.file, name, each.table))
    return kept


def _found(client: str, file: str, name: str, given: Table) -> Found:
    try:
        table = _as_ours(given)
    except (TypeError, ValueError, AttributeError) as error:
        return Found(client, file, name, {}, printable(str(error), 200))
    text = json.dumps(table)
    if _INPUT.search(text):
        return Found(client, file, name, table, "it asks for a value with `${input:...}`")
    if is_ourselves([table.get("command"), *table.get("args", ())]):
        return Found(client, file, name, table, "it is ClawHive itself")
    if given.get("type") == "sse" or (table.keys() == {"url"} and given.get("transport") == "sse"):
        return Found(client, file, name, table, "the old transport `sse` is not spoken")
    return Found(client, file, name, table)


def _as_ours(given: Table) -> dict[str, Any]:
    """Return a server's table with our names for what each client calls otherwise.

    Raises:
        ValueError: It says neither a command nor an address, or one that is no text.
    """
    command: Any = given.get("command") or given.get("cmd")
    args: list[Any] = list(given.get("args") or ())
    env: Any = given.get("env") or given.get("environment")
    if isinstance(command, Mapping):  # Zed
        inner = cast("Table", command)
        args, env = list(inner.get("args") or ()), inner.get("env") or env
        command = inner.get("path")
    if isinstance(command, list):
        first, *rest = cast("list[Any]", command)
        command, args = first, [*rest, *args]
    url = given.get("httpUrl") or given.get("serverUrl") or given.get("url")
    headers: Any = dict(given.get("headers") or given.get("http_headers") or {})
    if variable := given.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    _require_text(command or url)
    table: dict[str, Any] = {"command": str(command)} if command else {"url": str(url)}
    if args and command:
        table["args"] = [str(each) for each in args]
    if command and given.get("cwd"):
        table["cwd"] = str(given["cwd"])
    if env and command:
        table["env"] = {str(key): str(each) for key, each in env.items()}
    if headers and not command:
        table["headers"] = {str(key): str(each) for key, each in headers.items()}
    if given.get("disabled") is True or given.get("enabled") is False:
        table["disabled"] = True
    return table


def _require_text(reached: Any) -> None:
    """Refuse a command or address that is missing or of another kind.

    Raises:
        ValueError: It is.
    """
    if not reached:
        raise ValueError("it has neither a command nor an address")
    if not isinstance(reached, str):
        raise ValueError(f"its command or address must be a text, not {reached}")  # noqa: TRY004 - the value of a file


def _read(path: Path) -> Mapping[str, Any]:
    """Return a file's value.

    Raises:
        OSError, ValueError: It cannot be read, or is neither JSON (comments allowed) nor TOML.
    """
    text = path.read_text("utf-8")
    value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(plain_json(text))
    if not isinstance(value, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - the value of a file
    return cast("dict[str, Any]", value)


def plain_json(text: str) -> str:
    """Return JSON without the comments and last commas that editors allow."""
    piece = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|[^"/]+|.', re.DOTALL)
    parts = [each for each in piece.findall(text) if not each.startswith(("//", "/*"))]
    bare = "".join(parts)
    return re.sub(
        r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", bare, flags=re.DOTALL
    )


def _claude_code(value: Table, root: Path) -> Iterator[tuple[str, Any]]:
    """Yield the servers of the user, then those of this project."""
    yield from (value.get("mcpServers") or {}).items()
    project: Any = (value.get("projects") or dict[str, Any]()).get(str(root))
    if project:
        yield from (project.get("mcpServers") or dict[str, Any]()).items()


def _below(key: str) -> Callable[[Table, Path], Iterator[tuple[str, Any]]]:
    def read(value: Table, _: Path) -> Iterator[tuple[str, Any]]:
        yield from (value.get(key) or {}).items()

    return read


_CLIENTS: tuple[tuple[str, str, Callable[[Table, Path], Iterator[tuple[str, Any]]]], ...] = (
    ("claude-code", "~/.claude.json", _claude_code),
    ("claude-code", ".mcp.json", _below("mcpServers")),
    ("claude-desktop", "~/.config/Claude/claude_desktop_config.json", _below("mcpServers")),
    (
        "claude-desktop",
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        _below("mcpServers"),
    ),
    ("codex", "~/.codex/config.toml", _below("mcp_servers")),
    ("gemini-cli", "~/.gemini/settings.json", _below("mcpServers")),
    ("gemini-cli", ".gemini/settings.json", _below("mcpServers")),
    ("opencode", "~/.config/opencode/opencode.json", _below("mcp")),
    ("opencode", "opencode.json", _below("mcp")),
    ("cursor", "~/.cursor/mcp.json", _below("mcpServers")),
    ("cursor", ".cursor/mcp.json", _below("mcpServers")),
    ("vscode", "~/.config/Code/User/mcp.json", _below("servers")),
    ("vscode", ".vscode/mcp.json", _below("servers")),
    ("windsurf", "~/.codeium/windsurf/mcp_config.json", _below("mcpServers")),
    ("zed", "~/.config/zed/settings.json", _below("context_servers")),
)
"""Each client's name, file and reader; sources: the clients' own documentation."""
