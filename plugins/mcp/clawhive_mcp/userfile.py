"""The user's `config.toml`, of which only the tables of servers are changed."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clawhive_mcp.errors import WrongUsage

_HEADER = re.compile(r"\s*\[")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class UserFile:
    """The user's configuration file; every change keeps the rest of it to the letter.

    Args:
        user_dir: The user's own directory.
        env: Says whether a run asks: no run may change it.

    Raises:
        ClawHiveError: `inside_run`; `invalid_config`: the file cannot be read, or not be changed
            by a program.
    """

    def __init__(self, user_dir: str, env: Mapping[str, str]) -> None:
        if run := env.get("CLAWHIVE_RUN"):
            raise WrongUsage(
                f"this was started by the run {run[:64]!r}, and no run may change its servers",
                place="CLAWHIVE_RUN",
                fix="run the command yourself, in a terminal that no run has opened",
                code="inside_run",
            )
        self.path = Path(user_dir, "config.toml")
        try:
            self._text = self.path.read_text("utf-8") if self.path.exists() else ""
            self._parsed = tomllib.loads(self._text)
        except (OSError, ValueError) as error:
            raise self._unusable(str(error)) from error

    def servers(self) -> Mapping[str, Any]:
        """Return the tables of servers as they stand."""
        return self._parsed.get("mcp", {}).get("servers", {})

    def add(self, name: str, table: Mapping[str, Any]) -> None:
        """Add a server at the end.

        Raises:
            ClawHiveError: `already_exists`.
        """
        if name in self.servers():
            raise WrongUsage(
                f"there is a server `{name}` already",
                place=str(self.path),
                fix=f"clawhive mcp remove {name}, or another name",
                code="already_exists",
            )
        lead = "\n" if self._text and not self._text.endswith("\n\n") else ""
        text = f"{self._text}{lead}{rendered(name, table)}"
        self._change(text, {**self.servers(), name: dict(table)})

    def remove(self, name: str) -> None:
        """Remove a server.

        Raises:
            ClawHiveError: `unknown_id`: it is not there.
        """
        self._require(name)
        left = {each: table for each, table in self.servers().items() if each != name}
        self._change("".join(self._without(name)), left)

    def switch(self, name: str, *, disabled: bool) -> None:
        """Disable a server, or enable it again.

        Raises:
            ClawHiveError: `unknown_id`: it is not there.
        """
        self._require(name)
        table = {**self.servers()[name], "disabled": disabled}
        own = _headers(name, nested=False)
        lines: list[str] = []
        inside = False
        for line in self._text.splitlines(keepends=True):
            if _HEADER.match(line):
                inside = own.match(line) is not None
                lines.append(line if line.endswith("\n") else f"{line}\n")
                if inside:
                    lines.append(f"disabled = {str(disabled).lower()}\n")
            elif not (inside and re.match(r"\s*disabled\s*=", line)):
                lines.append(line)
        self._change("".join(lines), {**self.servers(), name: table})

    def _without(self, name: str) -> Iterator[str]:
        own, inside = _headers(name, nested=True), False
        for line in self._text.splitlines(keepends=True):
            if _HEADER.match(line):
                inside = own.match(line) is not None
            if not inside:
                yield line

    def _require(self, name: str) -> None:
        if name not in self.servers():
            raise WrongUsage(
                f"your configuration has no server `{name}`",
                place=str(self.path),
                fix="clawhive mcp list",
                code="unknown_id",
            )

    def _change(self, text: str, servers: Mapping[str, Any]) -> None:
        """Write a text that differs in its servers alone.

        Raises:
            ClawHiveError: `invalid_config`: it does not, so that a person must write it.
        """
        mcp = {**self._parsed.get("mcp", {}), "servers": dict(servers)}
        if not servers:
            del mcp["servers"]
        wanted = {**self._parsed, "mcp": mcp}
        if not mcp:
            del wanted["mcp"]
        try:
            is_good = tomllib.loads(text) == wanted
        except tomllib.TOMLDecodeError:
            is_good = False
        if not is_good:
            raise self._unusable("its servers are not written as tables `[mcp.servers.NAME]`")
        self._write(text)
        self._text, self._parsed = text, wanted

    def _write(self, text: str) -> None:
        """Replace the file in one step, for its owner only: servers' variables may be secret."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target = Path(os.path.realpath(self.path))
            handle, name = tempfile.mkstemp(prefix=".config-", dir=target.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, why: str) -> WrongUsage:
        return WrongUsage(
            f"your configuration cannot be changed: {why}",
            place=str(self.path),
            fix="edit the file by hand",
            code="invalid_config",
        )


def rendered(name: str, table: Mapping[str, Any]) -> str:
    """Return the TOML of a server's table."""
    lines = [f"[mcp.servers.{_key(name)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _headers(name: str, *, nested: bool) -> re.Pattern[str]:
    """Return what matches the header of a server's table, and of those inside it."""
    quoted = re.escape(name)
    inner = r"(\s*\.[^\]]+)?" if nested else ""
    return re.compile(rf"""\s*\[\s*mcp\s*\.\s*servers\s*\.\s*["']?{quoted}["']?\s*{inner}\]""")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{_key(str(key))} = {_value(each)}" for key, each in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"  # pyright: ignore[reportUnknownVariableType] - JSON
    # JSON's texts, numbers and flags are TOML's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
