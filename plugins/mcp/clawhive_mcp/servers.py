"""The servers of a project: read from the configuration, the environment and pasted JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast
from urllib.parse import urlsplit

from clawhive_mcp.errors import log, printable

Era = Literal["auto", "legacy", "2026-07-28"]

_NAME = re.compile(r"[a-z0-9_]+")
_VARIABLE = re.compile(r"\$\{(?:env:|secret:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SHOWN = 200
_STREAMABLE = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})


@dataclass(frozen=True, slots=True)
class Server:
    """One server, and how it is reached; `problem` says why it cannot be."""

    name: str
    """`[a-z0-9_]+`."""
    command: tuple[str, ...] = ()
    """Program and arguments of a server over stdio."""
    url: str | None = None
    """The address of a server over HTTP."""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout_ms: int = 30_000
    """Milliseconds that a call may take."""
    connect_timeout_ms: int = 10_000
    """Milliseconds that starting it and listing its tools may take."""
    protocol: Era = "auto"
    trusts_annotations: bool = False
    sampling: str = ""
    """The model that it may ask, as `PROVIDER:NAME`; none where empty."""
    sandbox: bool = False
    """Whether it runs in the jail."""
    disabled: bool = False
    problem: str = ""

    @property
    def provider_id(self) -> str:
        """The id of its provider."""
        return f"mcp_{self.name}"

    @property
    def where(self) -> str:
        """The address or command, for people: no variable or header, which may be secret."""
        return self.url or shlex.join(self.command)


def read_servers(config: Mapping[str, Any], env: Mapping[str, str], root: str) -> list[Server]:
    """Return the servers of `[mcp]` and of its environment variables, by distinct names.

    A server of the environment goes before one of the same name in a file. What is wrong with one
    is logged, or stands in its `problem`; the others stay.

    Args:
        config: The table `[mcp]` of the configuration, environment variables included.
        env: The values of `${NAME}` in commands, variables, headers and addresses.
        root: The directory that servers start in, and that a relative `cwd` counts from.
    """
    found: dict[str, Server] = {}
    named = [(name, table, True) for name, table in _of_environment(config)]
    tables: Mapping[str, Any] = config.get("servers") or {}
    taken = {name for name, _, _ in named}
    named += [(name, table, False) for name, table in folded(tables, taken)]
    for name, table, wins in named:
        if name in found and not wins:
            log.warning("mcp.server.skipped server=%s: the environment has one of the name", name)
            continue
        found.setdefault(name, _server(name, table, config, env, root))
    return list(found.values())


def folded(
    servers: Mapping[str, Any], taken: Iterable[str] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield pasted servers under names of `[a-z0-9_]+`; equal ones are numbered.

    A server of which the name is already right keeps it, whatever the order; those in `taken` are
    not renamed, but others do not get their names.
    """
    right = {name for name in servers if _NAME.fullmatch(name)}
    used = {*taken, *right}
    for name, table in servers.items():
        if not isinstance(table, Mapping):
            log.warning("mcp.server.skipped server=%s: it is no table", printable(name))
            continue
        yield (
            name if name in right else _free(name, used),
            cast("Mapping[str, Any]", table),
        )


def pasted(text: str) -> Mapping[str, Any]:
    """Return the servers of JSON as other clients have it, by the names that it gives.

    Raises:
        ValueError: It is no JSON object of servers.
    """
    value = json.loads(text)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        for key in ("mcpServers", "servers", "context_servers"):
            if isinstance(table.get(key), dict):
                return cast("Mapping[str, Any]", table[key])
        if table and all(isinstance(each, dict) for each in table.values()):
            return table
    raise ValueError("it has no `mcpServers` object")


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Return a text with each `${NAME}`, `${secret:NAME}` and `${NAME:-default}` replaced.

    `${env:NAME}` is what other clients write. What is read from a variable for a secret is kept out
    of the log, as `secret:` has its value.

    Raises:
        KeyError: A variable is not set and has no default.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in env:
            return env[name]
        if default is None:
            raise KeyError(name)
        return default

    return _VARIABLE.sub(value, text)


def _free(name: str, used: set[str]) -> str:
    base = re.sub(r"[^a-z0-9_]", "_", name.lower()) or "server"
    free, number = base, 2
    while free in used:
        free, number = f"{base}_{number}", number + 1
    used.add(free)
    return free


def _of_environment(config: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    text = config.get("servers_json")
    if text:
        try:
            return list(_of_json(text))
        except (ValueError, RecursionError) as error:
            shown = printable(text, _SHOWN)
            log.warning("mcp.servers_json.invalid: %s: %s", printable(str(error)), shown)
    return list(_single(config))


def _of_json(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read `MCP_SERVERS_JSON`: an array of `{name, cmd, cwd}`, or a pasted `mcpServers` object.

    Raises:
        ValueError: It is neither.
    """
    value = json.loads(text)
    if isinstance(value, dict):
        yield from folded(pasted(text))
        return
    if not isinstance(value, list):
        raise ValueError("it is no array")  # noqa: TRY004 - a value of JSON, not an argument
    seen: set[str] = set()
    for item in cast("list[Any]", value):
        table = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name, cmd = table.get("name"), table.get("cmd")
        problem = None
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            problem = "a server's name is made of a-z, 0-9 and _"
        elif name in seen:
            problem = "the name is there already; the first stays"
        elif not _are_texts(cmd) or not cmd or not cmd[0]:
            problem = "its `cmd` is an array with a program"
        if problem is not None:
            log.warning("mcp.server.skipped server=%s: %s", printable(repr(name), _SHOWN), problem)
            continue
        seen.add(str(name))
        yield str(name), table


def _single(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the server of `MCP_SERVER_CMD` and its kin, where there is one."""
    command = config.get("server_cmd")
    if not command:
        return
    name = config.get("server_name") or "server"
    if _NAME.fullmatch(name) is None:
        shown = printable(name, _SHOWN)
        log.warning("mcp.server.skipped server=%s: MCP_SERVER_NAME is of a-z, 0-9 and _", shown)
        return
    yield (
        name,
        {"command": command, "args": _single_args(config), "cwd": config.get("server_cwd")},
    )


def _single_args(config: Mapping[str, Any]) -> list[str]:
    text = config.get("server_args_json")
    if text:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if _are_texts(value):
            return value
        shown = printable(text, _SHOWN)
        log.warning("mcp.server_args_json.invalid: it is no array of texts: %s", shown)
    try:
        return shlex.split(config.get("server_args") or "")
    except ValueError as error:
        log.warning("mcp.server_args.invalid: %s", error)
        return []


def _server(
    name: str,
    table: Mapping[str, Any],
    config: Mapping[str, Any],
    env: Mapping[str, str],
    root: str,
) -> Server:
    protocol: Any = table.get("protocol")
    server = Server(
        name,
        timeout_ms=_milliseconds(table.get("timeout_ms"), config.get("timeout_ms"), 30_000),
        connect_timeout_ms=_milliseconds(None, config.get("connect_timeout_ms"), 10_000),
        protocol=protocol if protocol in {"legacy", "2026-07-28"} else "auto",
        trusts_annotations=table.get("trust") == "annotations",
        sampling=str(table.get("sampling") or ""),
        disabled=table.get("disabled") is True,
    )
    try:
        return _reached(server, table, env, root)
    except KeyError as error:
        variable = error.args[0]
        return replace(server, problem=f"the environment variable `{variable}` is not set")
    except ValueError as error:
        return replace(server, problem=str(error))


def _reached(server: Server, table: Mapping[str, Any], env: Mapping[str, str], root: str) -> Server:
    """Return the server with how it is reached.

    Raises:
        ValueError: The table does not say so in a usable way.
        KeyError: It names a variable that is not set.
    """
    url = table.get("url") or table.get("serverUrl") or table.get("httpUrl")
    headers = _texts_by_name(table.get("headers"), "headers", env)
    if table.get("sandbox"):
        if url:
            raise ValueError("`sandbox = true`: a server over HTTP runs elsewhere; take it out")
        if not _has_jail():
            raise ValueError(
                "`sandbox = true` needs the jail of clawhive-sandbox: pip install ./plugins/sandbox"
            )
    if url:
        return replace(server, url=_address(url, table.get("type"), env), headers=headers)
    cwd = table.get("cwd")
    is_named = isinstance(cwd, str) and bool(cwd)
    where = Path(root, expanded(str(cwd), env)) if is_named else Path(root)
    jailed = table.get("sandbox") is True
    return replace(
        server,
        command=_command(table, env),
        cwd=_seen_in_jail(where, is_named=is_named) if jailed else str(where),
        sandbox=jailed,
        env=_texts_by_name(table.get("env"), "env", env),
    )


def _has_jail() -> bool:
    try:
        return find_spec("clawhive_sandbox.jail") is not None
    except ModuleNotFoundError:
        return False


def _seen_in_jail(folder: Path, *, is_named: bool) -> str | None:
    """Return the folder that a jailed server sees: the one that its table names, if it does."""
    return os.path.realpath(folder) if is_named else None


def _command(table: Mapping[str, Any], env: Mapping[str, str]) -> tuple[str, ...]:
    given = table.get("cmd") or table.get("command")
    words = [given] if isinstance(given, str) else list(given or ())
    words += list(table.get("args") or ())
    if not words or not words[0] or not _are_texts(words):
        raise ValueError("it has neither `cmd` (an array), `command` (a text) nor `url`")
    if any("\0" in each for each in words):
        raise ValueError("its command holds a NUL character")
    if is_ourselves(words):
        raise ValueError("it is ClawHive itself, which would start itself without end")
    return tuple(expanded(each, env) for each in words)


def is_ourselves(words: Sequence[Any]) -> bool:
    """Whether a command is `clawhive serve mcp`."""
    return "serve" in words and any(Path(str(each)).name == "clawhive" for each in words)


def _address(url: Any, kind: Any, env: Mapping[str, str]) -> str:
    if kind == "sse":
        raise ValueError("the old transport `sse` is not spoken; use its streamable HTTP address")
    if kind is not None and kind not in _STREAMABLE:
        raise ValueError(f"its `type` {printable(repr(kind), 40)} is none for an address")
    address = expanded(str(url), env)
    if urlsplit(address).scheme not in {"http", "https"} or not urlsplit(address).hostname:
        raise ValueError("its `url` is no http or https address")
    return address


def _texts_by_name(value: Any, key: str, env: Mapping[str, str]) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"its `{key}` is no table of names to texts")  # noqa: TRY004 - a value of a file
    pairs = cast("Mapping[str, Any]", value).items()
    return {str(name): expanded(str(each), env) for name, each in pairs}


def _milliseconds(*given: Any) -> int:
    return next(
        each for each in given if isinstance(each, int) and not isinstance(each, bool) and each > 0
    )


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(each, str) for each in cast("list[Any]", value))
