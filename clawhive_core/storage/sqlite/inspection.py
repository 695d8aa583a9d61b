"""A database looked at as it lies there: read-only, in one snapshot, damaged or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from clawhive_core.model.records import BodyRecord
from clawhive_core.storage.sqlite.database import open_database
from clawhive_core.storage.sqlite.faults import MISREAD, storage_error
from clawhive_core.storage.sqlite.migrations import (
    RoomSchema,
    database_id,
    schema_differences,
    stored_schemas,
)
from clawhive_core.storage.sqlite.schema import SCHEMA, SELECT


@contextmanager
def inspect(
    path: Path | str, schemas: Sequence[RoomSchema] = (SCHEMA,)
) -> Generator[DatabaseInspection]:
    """Look at a database without changing it, while others may write.

    Args:
        path: The file.
        schemas: The tables that it may have.

    Raises:
        StorageError: It cannot be read.
    """
    with closing(open_database(path, read_only=True)) as connection:
        try:
            connection.execute("BEGIN")
            yield DatabaseInspection(connection, Path(path), schemas)
        except (sqlite3.Error, *MISREAD) as error:
            raise storage_error(error, path) from error


class DatabaseInspection:
    """One snapshot of a database (`protocols.ledger.Inspection`); use `inspect`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        schemas: Sequence[RoomSchema] = (SCHEMA,),
    ) -> None:
        self._connection = connection
        self._schema = schema_differences(connection, stored_schemas(connection, schemas))
        self.place = str(path)
        self.id = database_id(connection)

    def raw(self) -> Iterator[Sequence[Any]]:
        """Yield every row as it is stored; text that is no UTF-8 must fail its hash, not this."""
        last, careful = None, False
        while True:
            after = "" if last is None else f" WHERE seq > {int(last)}"
            try:
                for row in self._connection.execute(f"{SELECT}{after} ORDER BY seq"):
                    yield row
                    last = row[0]
            except sqlite3.OperationalError:
                if careful:
                    raise
                self._connection.text_factory, careful = _text, True
            else:
                return

    def blob(self, sha256: str) -> BodyRecord | None:
        """Return a body that rows refer to, None where it is missing."""
        found = self._connection.execute(
            "SELECT type, data FROM blobs WHERE sha256 = ?", (sha256,)
        ).fetchone()
        return None if found is None else BodyRecord(*found)

    def problems(self) -> Sequence[str]:
        """Return what of the schema is not as the migrations made it, as sentences."""
        return self._schema.problems

    def notes(self) -> Sequence[str]:
        """Return what others put beside our tables, as sentences."""
        return self._schema.others


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
