"""Bearer tokens of clients over HTTP: made once, kept as hashes in the user's directory."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from clawhive_core import replace_file
from clawhive_mcp.errors import WrongUsage

PREFIX = "chmcp_"
"""The beginning of every token, so that scanners for secrets know one."""
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Token:
    """A token, as far as it is kept."""

    name: str
    """The client that it stands for, `client:mcp/NAME` in policy and log."""
    sha256: str
    created_at: int
    """The time of its making, in seconds since 1970."""

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown of it."""
        return {"name": self.name, "created_at": self.created_at}


class Tokens:
    """The tokens of a user.

    Args:
        user_dir: The user's own directory.
        env: Says whether a run asks: no run may change them.
    """

    def __init__(self, user_dir: str, env: Mapping[str, str]) -> None:
        self.path = Path(user_dir, "serve", "tokens.json")
        self._env = env
        self._read: tuple[tuple[int, int, int], list[Token]] | None = None

    def all(self) -> list[Token]:
        """Return the tokens, oldest first; the file is read again where it changed.

        Raises:
            ClawHiveError: `invalid_config`: it cannot be read, or others may read it.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._read is None or self._read[0] != mark:
            if os.name == "posix" and (found.st_mode & 0o077 or found.st_uid != os.geteuid()):
                raise self._unusable("others than you may read or change it")
            self._read = mark, self._parsed()
        return self._read[1]

    def create(self, name: str) -> str:
        """Make a token for a client; return it, which nobody can do later.

        Raises:
            ClawHiveError: `already_exists`, `inside_run`, `invalid_config`.
        """
        self._require_outside()
        known = self.all()
        if any(each.name == name for each in known):
            raise WrongUsage(
                f"there is a token of `{name}` already",
                place=str(self.path),
                fix=f"clawhive serve token revoke {name}, or another name",
                code="already_exists",
            )
        token = PREFIX + secrets.token_urlsafe(_BYTES)
        self._write([*known, Token(name, _hash(token), int(time.time()))])
        return token

    def revoke(self, name: str) -> None:
        """Let a client's token count no more, at once.

        Raises:
            ClawHiveError: `unknown_id`, `inside_run`, `invalid_config`.
        """
        self._require_outside()
        known = self.all()
        left = [each for each in known if each.name != name]
        if len(left) == len(known):
            raise WrongUsage(
                f"there is no token of `{name}`",
                place=str(self.path),
                fix="clawhive serve token list",
                code="unknown_id",
            )
        self._write(left)

    def client(self, token: str) -> str | None:
        """Return the client of a token, None where it is none."""
        given, found = _hash(token), None
        for each in self.all():
            if hmac.compare_digest(each.sha256, given):
                found = each.name
        return found

    def _parsed(self) -> list[Token]:
        try:
            rows = cast("list[dict[str, Any]]", json.loads(self.path.read_text("utf-8"))["tokens"])
            return [
                Token(str(row["name"]), str(row["sha256"]), int(row["created_at"])) for row in rows
            ]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unusable(str(error)) from error

    def _write(self, tokens: list[Token]) -> None:
        rows = [
            {"name": each.name, "sha256": each.sha256, "created_at": each.created_at}
            for each in tokens
        ]
        try:
            replace_file(self.path, json.dumps({"schema": "serve_tokens/1", "tokens": rows}))
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _unusable(self, why: str) -> WrongUsage:
        return WrongUsage(
            f"the tokens cannot be used: {why}",
            place=str(self.path),
            fix=f"mend it (chmod 600), or remove it and make new tokens: {self.path}",
            code="invalid_config",
        )

    def _require_outside(self) -> None:
        if run := self._env.get("CLAWHIVE_RUN"):
            raise WrongUsage(
                f"this was started by the run {run[:64]!r}, and no run may change tokens",
                place="CLAWHIVE_RUN",
                fix="run the command yourself, in a terminal that no run has opened",
                code="inside_run",
            )


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
