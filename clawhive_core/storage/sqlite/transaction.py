"""The rows of one transaction: linked as they come, inserted together."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from clawhive_core.events.chain import link
from clawhive_core.events.rows import Body
from clawhive_core.protocols.ledger import RunOwnedBy
from clawhive_core.storage.sqlite.append import Append
from clawhive_core.storage.sqlite.schema import INSERT
from clawhive_core.storage.sqlite.seals import Seals

StoredRow = tuple[Any, ...]
"""A row as `events` holds it, in the order of `chain.COLUMNS`, and its seal."""

_BLOB = (
    "INSERT INTO blobs (sha256, type, data) VALUES (?, ?, ?) ON CONFLICT (sha256)"
    " DO UPDATE SET data = excluded.data WHERE blobs.data IS NULL"
)


class Place(NamedTuple):
    """The number and hash of the row before."""

    seq: int
    hash: str


class Transaction:
    """Continues the chain in a transaction, in which nobody else can write.

    Args:
        connection: The writing connection, on which a transaction has begun.
        tip: What the next row follows.
        seals: What seals each row.
    """

    __slots__ = (
        "_blobs",
        "_connection",
        "_hash",
        "_seal",
        "_seq",
        "_written",
        "bytes",
        "owned",
        "rows",
    )

    def __init__(self, connection: sqlite3.Connection, tip: Place, seals: Seals) -> None:
        self.rows: list[StoredRow] = []
        self._connection = connection
        self._seal = seals.of
        self._seq, self._hash = tip
        self._blobs: dict[str, Body] = {}
        self._written = 0
        self.bytes = 0
        """About how much was added."""
        self.owned: set[RunOwnedBy] = set()
        """The runs that are known to be owned, as no table changed since."""

    def add(self, item: Append) -> None:
        """Give an append's rows their place; `write` inserts them."""
        seq, prev, seal = self._seq, self._hash, self._seal
        for columns, inner, blobs, _ in item.rows:
            for blob in blobs:
                self._blobs[blob.sha256] = blob
            seq += 1
            digest = link(seq, inner, prev)
            self.rows.append((seq, *columns, prev, digest, seal(digest)))
            item.seqs.append(seq)
            prev = digest
        self._seq, self._hash = seq, prev
        self.bytes += item.size

    def write(self) -> None:
        """Insert what was added since the last time."""
        if self._blobs:
            self._connection.executemany(_BLOB, self._blobs.values())
            self._blobs = {}
        if self._written == len(self.rows):
            return
        rows = self.rows[self._written :] if self._written else self.rows
        self._connection.executemany(INSERT, rows)
        self._written = len(self.rows)

    def savepoint(self) -> Place:
        """Insert what was added, and mark the place to which `undo` returns."""
        self.write()
        self._connection.execute("SAVEPOINT append")
        return Place(self._seq, self._hash)

    def undo(self, place: Place) -> None:
        """Take back what was added and done since the savepoint."""
        self._connection.execute("ROLLBACK TO append")
        self._connection.execute("RELEASE append")
        self._blobs = {}
        self.rows = [row for row in self.rows if row[0] <= place.seq]
        self._written = len(self.rows)
        self._seq, self._hash = place

    def release(self) -> None:
        """Keep what was done since the savepoint."""
        self._connection.execute("RELEASE append")

    def commit(self) -> Place:
        """Insert what is left and commit; return what the next row follows."""
        self.write()
        self._connection.execute("COMMIT")
        return Place(self._seq, self._hash)
