"""The meaning of SQLite's failures, and what to do about them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from clawhive_core.errors import StorageError

_RESTORE = (
    "Restore the file from a backup, or move it away together with its -wal and -shm files "
    "and start with a new one."
)

MISREAD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of reading a row that ClawHive never wrote, such as one of a foreign database."""

_LACKS = ("no such table", "no such column", "no such view")
"""The beginnings of SQLite's messages where a file lacks what its version says (SQLITE_ERROR)."""

# Primary result codes (https://www.sqlite.org/rescode.html), with the sentence and the fix.
_FAULTS: Mapping[int, tuple[str, str, str]] = {
    sqlite3.SQLITE_NOTADB: ("not_a_database", "is not an SQLite database", _RESTORE),
    sqlite3.SQLITE_CORRUPT: ("corrupt", "is damaged", _RESTORE),
    sqlite3.SQLITE_FULL: ("full", "cannot grow: the disk is full", "Free some space and repeat."),
    sqlite3.SQLITE_READONLY: (
        "read_only",
        "is read-only",
        "Make the file and its folder writable for this user.",
    ),
    sqlite3.SQLITE_PERM: (
        "no_permission",
        "may not be opened",
        "Make the file and its folder readable and writable for this user.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot_open",
        "cannot be opened",
        "Check that its folder exists and that this user may read and write there.",
    ),
    sqlite3.SQLITE_BUSY: (
        "busy",
        "is locked by another process",
        "Wait until the other process is done, or end it.",
    ),
    sqlite3.SQLITE_LOCKED: (
        "busy",
        "is locked by another connection",
        "Wait until the other connection is done.",
    ),
    sqlite3.SQLITE_IOERR: (
        "io_error",
        "could not be read or written by the system",
        "Check the disk and its free space; network file systems cannot hold this file.",
    ),
}


def storage_error(error: Exception, path: Path | str) -> StorageError:
    """Return the StorageError for a failure of SQLite, the file system or `MISREAD` at `path`.

    `data["cause"]` is one of `not_a_database corrupt full read_only no_permission cannot_open
    busy io_error incomplete altered failed`.
    """
    cause, sentence, fix = _fault(error)
    return StorageError(
        f"The database {sentence} ({error}).", place=str(path), fix=fix, data={"cause": cause}
    )


def _fault(error: Exception) -> tuple[str, str, str]:
    if isinstance(error, MISREAD):
        return "altered", "holds what ClawHive never writes", _RESTORE
    if isinstance(error, PermissionError):
        return _FAULTS[sqlite3.SQLITE_PERM]
    if isinstance(error, OSError):
        return _FAULTS[sqlite3.SQLITE_CANTOPEN]
    if str(error).startswith(_LACKS):
        return "incomplete", "lacks a part of itself", _RESTORE
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _FAULTS.get(code, ("failed", "failed", "See the message in brackets."))
