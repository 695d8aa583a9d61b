"""Seals: which rows of a log this user's ClawHive wrote, by a key outside of the database.

A row's seal is an HMAC-SHA256 (RFC 2104), cut to 128 bits, over its hash, which covers every
column, its number and, by the hash before it, all rows before. It stands beside the hashed columns.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.errors import StorageError
from clawhive_core.events.chain import COLUMNS, genesis, row_hash
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.storage.sqlite.database import open_database, transaction
from clawhive_core.storage.sqlite.faults import storage_error
from clawhive_core.storage.sqlite.migrations import database_id

SEALED = f"SELECT {', '.join(COLUMNS)}, seal FROM events"  # noqa: S608 - our own column names
"""The beginning of a query for rows as `Seals.is_own` takes them."""

_BYTES = 16
_PREV, _HASH = COLUMNS.index("prev"), COLUMNS.index("hash")

Owner = Literal["own", "foreign", "fleeting"]
"""The owner of a database: this user; somebody else; or nobody, as no key of it can be kept."""


@dataclass(frozen=True, slots=True)
class Seals:
    """Makes and checks the seals of one database.

    Without a key, rows get no seal and each counts: a log that is no project's.
    """

    key: bytes | None = None
    owner: Owner = "own"

    def of(self, digest: str) -> bytes | None:
        """Return the seal of a row, by its hash."""
        if self.key is None:
            return None
        return hmac.digest(self.key, digest.encode(), "sha256")[:_BYTES]

    def is_sealed(self, digest: str, seal: object) -> bool:
        """Whether a seal is that of a row, by its hash."""
        if self.key is None:
            return True
        made = self.of(digest) or b""
        return isinstance(seal, bytes) and hmac.compare_digest(made, seal)

    def is_own(self, row: Sequence[Any]) -> bool:
        """Whether a row of `SEALED` is as this user's ClawHive wrote it."""
        columns = tuple(row)[:-1]
        return row_hash(columns) == columns[-1] and self.is_sealed(columns[-1], row[-1])


NO_SEALS = Seals()


def seals_of(connection: sqlite3.Connection, keys: DatabaseKeys | None) -> Seals:
    """Return the seals of a database; a new one, without any row, gets its key.

    Raises:
        StorageError: `database_key`: the key cannot be used.
    """
    if keys is None:
        return NO_SEALS
    name = database_id(connection)
    key = keys.find(name)
    if key is None:
        is_new = connection.execute("SELECT 1 FROM events LIMIT 1").fetchone() is None
        # Another process may have made the key since, and then written.
        key = keys.make(name) if is_new else keys.find(name)
    if key is not None:
        return Seals(key)
    return Seals(os.urandom(32), "foreign" if keys.may_be_made() else "fleeting")


def seal_rows(path: Path, key: bytes, upto: int, tip: str) -> None:
    """Seal all rows up to one: they count as this user's from now on.

    Args:
        path: The database, as the current migrations make it.
        key: The database's key.
        upto: The number of the last row.
        tip: The hash that it has.

    Raises:
        StorageError: `foreign_database`: the rows are no whole chain to this hash; nothing is
            sealed.
    """
    seals = Seals(key)
    with closing(open_database(path)) as connection:
        try:
            with transaction(connection):
                prev, made = genesis(database_id(connection)), list[tuple[bytes | None, int]]()
                for row in connection.execute(f"{SEALED} WHERE seq <= ? ORDER BY seq", (upto,)):
                    columns = tuple(row)[:-1]
                    whole = row[0] == len(made) + 1 and row[_PREV] == prev
                    if not whole or row_hash(columns) != row[_HASH]:
                        raise _broken(path, row[0])
                    prev = row[_HASH]
                    made.append((seals.of(prev), row[0]))
                if prev != tip or len(made) != upto:
                    raise _broken(path, upto)
                connection.executemany("UPDATE events SET seal = ? WHERE seq = ?", made)
        except sqlite3.Error as error:
            raise storage_error(error, path) from error


def _broken(path: Path, seq: int) -> StorageError:
    return StorageError(
        f"The log is not as it was written, from row {seq} on; nothing of it was adopted.",
        place=str(path),
        fix="clawhive audit verify",
        code="foreign_database",
        data={"seq": seq},
    )


def foreign_database(path: Path | str, name: str) -> StorageError:
    """Return the error of work with a database that is not this user's."""
    return StorageError(
        f"The database {name} was not made by you, or its key is not in your own directory: it can "
        "be read, and no right, approval, value or run of it counts. Nothing is written to it.",
        place=str(path),
        fix="`clawhive trust --fresh` sets it aside and begins a new one; `clawhive trust "
        f"--database {name}` shows what it would give, and adopts it.",
        code="foreign_database",
        data={"database_id": name},
    )


def foreign_rows(path: Path | str, what: str, name: str) -> StorageError:
    """Return the error of what rows say that somebody else added to this user's log."""
    return StorageError(
        f"{what} comes from rows that somebody else wrote into the log: it does not count.",
        place=str(path),
        fix=f"`clawhive trust --database {name}` shows what they would give, and adopts them.",
        code="foreign_database",
        data={"database_id": name},
    )


def lasting(event: Event) -> str | None:
    """Return what an event gives that counts beyond the process that writes it; None of nothing."""
    body = event.body
    match event.kind:
        case "grant.issued":
            if any(each["scope"] == "session" for each in body["grants"]):
                return "A right for a session"
        case "subscription.added":
            return "A subscription"
        case "store.put":
            return f"The value `{body['key']}`"
        case "run.status" if event.status == "waiting_approval":
            return "A run that waits for an approval"
        case _:
            pass
    return None


def outlives_a_run(path: Path | str, what: str) -> StorageError:
    """Return the error of what would have to count later, where no key can be kept."""
    return StorageError(
        f"{what} would outlive this run, and your own directory cannot be written to: what is "
        "written now does not count later.",
        place=str(path),
        fix="Make it writable, or name another one: XDG_CONFIG_HOME=DIR.",
        code="read_only_home",
    )
