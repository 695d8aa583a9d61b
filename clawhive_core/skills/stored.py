"""A small JSON file of ClawHive's own: read whole, replaced whole, by one process at a time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from clawhive_core.errors import StorageError

_MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file with one list in it, readable and writable by its owner only."""

    path: Path
    schema: str
    key: str

    def entries(self) -> list[Any]:
        """Return the list, empty where there is no file.

        Raises:
            StorageError: The file is damaged, cannot be read, or others may write it.
        """
        try:
            if os.name == "posix" and self.path.stat().st_mode & 0o022:
                raise self._unusable("others may write it", f"chmod 600 '{self.path}'")
            with self.path.open("rb") as stream:
                data = stream.read(_MAX_BYTES)
            document: Any = json.loads(data)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unusable(error.strerror or str(error), "mend its rights") from None
        except (ValueError, RecursionError) as error:
            raise self._unusable(str(error), "move the file away") from None
        return self._list(document)

    def change(self, edit: Callable[[list[Any]], list[Any]]) -> None:
        """Replace the list by what `edit` makes of it; equal lists leave the file untouched.

        Raises:
            StorageError: The file cannot be used or written; it is as it was.
        """
        with self._locked():
            before = self.entries()
            after = edit(list(before))
            if after != before:
                self._write(after)

    def _list(self, document: Any) -> list[Any]:
        known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        entries: Any = known.get(self.key)
        if known.get("schema") != self.schema or not isinstance(entries, list):
            raise self._unusable(f"it is not in the form {self.schema}", "move the file away")
        return cast("list[Any]", entries)

    def _unusable(self, why: str, fix: str) -> StorageError:
        return StorageError(
            f"the file cannot be used: {why}", place=str(self.path), fix=f"{fix}, then repeat"
        )

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the folder, so that two changes do not lose one another."""
        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = folder / ".gitignore"
            if folder.name == ".clawhive" and not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            handle = os.open(folder, os.O_RDONLY) if os.name == "posix" else None
        except OSError as error:
            raise self._unusable(error.strerror or str(error), "mend its rights") from None
        try:
            if handle is not None:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def _write(self, entries: list[Any]) -> None:
        temporary: Path | None = None
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.stem}-", dir=self.path.parent)
            temporary = Path(name)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump({"schema": self.schema, self.key: entries}, stream, indent=2)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self.path)
        except OSError as error:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            raise self._unusable(
                f"writing it failed: {error.strerror or error}", "free space or mend its rights"
            ) from None
