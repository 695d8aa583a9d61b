"""A small list of ClawHive's own: read whole, replaced whole, by one process at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from clawhive_core.config.private_file import PrivateFile
from clawhive_core.errors import ConfigError, StorageError
from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One private file with one list in it, under the name of its form."""

    path: Path
    schema: str
    key: str

    def entries(self) -> list[Any]:
        """Return the list, empty where there is no file.

        Raises:
            StorageError: The file is damaged, cannot be read, or others may write it.
        """
        try:
            data = self._file.read()
            if data is None:
                return []
            document: Any = json.loads(data)
        except ConfigError as error:
            raise self._unusable(error.message, error.fix or "mend its rights") from None
        except (ValueError, RecursionError) as error:
            raise self._unusable(str(error), f"chmod 600 '{self.path}', or move it away") from None
        return self._list(document)

    def change(self, edit: Callable[[list[Any]], list[Any]]) -> None:
        """Replace the list by what `edit` makes of it; equal lists leave the file untouched.

        Raises:
            StorageError: The file cannot be used or written; it is as it was.
        """
        file = self._file
        with file.locked():
            before = self.entries()
            after = edit(list(before))
            if after != before:
                file.write({"schema": self.schema, self.key: after})

    @property
    def _file(self) -> PrivateFile:
        return PrivateFile(self.path.parent, self.path.name, f"the file {self.path.name}")

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
