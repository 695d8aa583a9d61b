"""The keys of the user's databases: whoever has a database's key wrote what it seals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.private_file import PrivateFile
from clawhive_core.errors import ConfigError, StorageError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

_ID = pattern(r"db_[0-9a-f]{32}")
_SCHEMA = "database-key/1"
_BYTES = 32
_FOLDER = "databases"


@dataclass(frozen=True, slots=True)
class DatabaseKeys:
    """One key a database, by its id, in the user's own directory (0700, each file 0600).

    A path is no identity, since projects move, nor is the id alone, since a file can be replaced.
    """

    user_dir: Path

    def find(self, database_id: str) -> bytes | None:
        """Return a database's key, None where this user has none.

        Raises:
            StorageError: `database_key`: the file cannot be used.
        """
        if _ID.fullmatch(database_id) is None:
            return None
        file = self._file(database_id)
        try:
            data = file.read()
            return None if data is None else _read(data)
        except (ConfigError, ValueError, RecursionError) as error:
            raise StorageError(
                f"The key of a database cannot be used: {error}",
                place=str(file.path),
                fix=f"chmod 600 '{file.path}', or restore it from a backup. Without it, move it "
                "away: the database then counts as somebody else's.",
                code="database_key",
            ) from None

    def make(self, database_id: str) -> bytes | None:
        """Return a database's key, made where there is none; None where none can be kept.

        Raises:
            StorageError: `database_key`: the file cannot be used.
        """
        if _ID.fullmatch(database_id) is None:
            return None
        file = self._file(database_id)
        try:
            with self._locked(file):
                if (found := self.find(database_id)) is None:
                    found = os.urandom(_BYTES)
                    file.write({"schema": _SCHEMA, "key": found.hex()})
                return found
        except StorageError as error:
            if error.code == "database_key":
                raise
            return None

    def adopt(self, database_id: str, seal: Callable[[bytes], None]) -> None:
        """Let a function seal rows with a database's key, then keep the key where it is new.

        Raises:
            StorageError: The key cannot be used or written; or what `seal` raises.
        """
        file = self._file(database_id)
        with self._locked(file):
            key = self.find(database_id)
            made = os.urandom(_BYTES) if key is None else key
            seal(made)
            if key is None:
                file.write({"schema": _SCHEMA, "key": made.hex()})

    def replace(self, database_id: str) -> bool:
        """Make another key for a database, so that nothing of before counts; False without one.

        Raises:
            StorageError: It cannot be written.
        """
        if self.find(database_id) is None:
            return False
        file = self._file(database_id)
        with self._locked(file):
            file.write({"schema": _SCHEMA, "key": os.urandom(_BYTES).hex()})
        return True

    def may_be_made(self) -> bool:
        """Whether keys can be kept: the user's own directory can be written to."""
        folder = self.user_dir / _FOLDER
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

    def ids(self) -> list[str]:
        """Return the ids of the databases that this user has keys of."""
        return sorted(
            file.stem
            for file in (self.user_dir / _FOLDER).glob("*.json")
            if _ID.fullmatch(file.stem) is not None
        )

    @contextmanager
    def _locked(self, file: PrivateFile) -> Generator[None]:
        # What lies above it must be private too, and `mkdir` makes parents as the umask says.
        with suppress(OSError):  # `locked` says what is wrong
            self.user_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file.locked():
            yield

    def _file(self, database_id: str) -> PrivateFile:
        return PrivateFile(self.user_dir / _FOLDER, f"{database_id}.json", "the key of a database")


def _read(data: bytes) -> bytes:
    document: Any = json.loads(data)
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if known.get("schema") != _SCHEMA:
        raise ValueError(f"it is not in the form {_SCHEMA}")
    key = bytes.fromhex(str(known.get("key")))
    if len(key) != _BYTES:
        raise ValueError(f"it holds {len(key)} bytes instead of {_BYTES}")
    return key
