"""Opening SQLite files: folder, pragmas, migrations, transactions."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from clawhive_core.errors import StorageError
from clawhive_core.storage.folders import make_folder, require_unlinked
from clawhive_core.storage.sqlite.faults import storage_error
from clawhive_core.storage.sqlite.migrations import (
    RoomSchema,
    empty_database,
    is_current,
    migrate,
    schema_differences,
)

SOFTWARE = f"SQLite {sqlite3.sqlite_version}"
LOADS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
"""Whether this Python's sqlite3 can load further functions, such as those for vectors."""

BUSY_SECONDS = 30.0
"""The seconds for which a connection waits for another one's write before it gives up."""

SIDES = ("", "-wal", "-shm", "-journal")
"""The endings of the names of a database's files."""

_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05

CHECKPOINT_PAGES = 4000
"""The pages of the write-ahead log from which they go into the file; each time syncs the disk."""

_PRAGMAS = (
    "PRAGMA synchronous = NORMAL",
    # No table of ours refers to another; one of others that does would have its triggers fired.
    "PRAGMA foreign_keys = OFF",
    # Without it `INSERT OR REPLACE` would delete rows behind the back of DELETE triggers.
    "PRAGMA recursive_triggers = ON",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
    "PRAGMA journal_size_limit = 67108864",
)


def open_database(
    path: Path | str,
    schemas: Sequence[RoomSchema] = (),
    *,
    read_only: bool = False,
    known: str = "",
) -> sqlite3.Connection:
    """Open a SQLite file in WAL mode with its rooms' tables up to date.

    The folder is made if missing (0700, with a `.gitignore` of everything), the file 0600. Several
    processes may open a new file at once. The connection is in autocommit mode, so that
    transactions are written down (`transaction`), and may be used from any one thread at a time.

    Args:
        path: The file.
        schemas: The tables; with them, each object is compared with what the migrations make.
        read_only: Neither make nor change anything, also while others write.
        known: The fingerprint of what the schemas make, which makes comparing quick.

    Raises:
        DatabaseTooNew: A room's tables were written by a newer version of ClawHive.
        StorageError: The file cannot be opened; `place` is its path. `altered_schema`: somebody
            changed an object of ours, or put a trigger or an index on a table of ours.
    """
    path = Path(path)
    try:
        for each in SIDES:
            require_unlinked(path.with_name(path.name + each))
        if path.is_dir():
            raise IsADirectoryError("a folder stands in its place")
        if read_only:
            return _open_read_only(path, schemas)
        if path.exists():
            _sweep(path)
        else:
            _make_file(path, tuple(schemas))
        return _open_writable(path, schemas, known)
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise storage_error(error, path) from error


@cache
def may_distrust_schemas() -> bool:
    """Whether our own views work where a schema may call harmless functions only.

    SQLite 3.40, for one, counts its JSON functions among the others.
    """
    with closing(sqlite3.connect(":memory:")) as probe:
        probe.execute("CREATE VIEW v AS SELECT json_extract('{}', '$')")
        probe.execute("PRAGMA trusted_schema = OFF")
        try:
            probe.execute("SELECT * FROM v").fetchall()
        except sqlite3.OperationalError:
            return False
    return True


def has_room_to_move(path: Path) -> bool:
    """Whether the disk has room for all of a file's write-ahead log once more, in the file itself.

    Where it has not, moving pages would take what room is left, and then stop half way.
    """
    if not hasattr(os, "statvfs"):
        return True
    try:
        disk = os.statvfs(path)
        return os.stat(f"{path}-wal").st_size <= disk.f_bavail * disk.f_frsize  # noqa: PTH116 - as a text
    except OSError:  # there is none, or the folder is gone
        return True


def rename_database(path: Path, target: Path) -> None:
    """Rename a database with all that belongs to it.

    Raises:
        StorageError: Another process uses it, or the system refuses.
    """
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path, timeout=2)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        try:
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        except sqlite3.OperationalError as error:
            raise StorageError(
                "Another process uses the database.",
                place=str(path),
                fix="End it, then repeat.",
                data={"cause": "busy"},
            ) from error
    try:
        for side in SIDES:
            old = path.with_name(path.name + side)
            if os.path.lexists(old):
                old.rename(target.with_name(target.name + side))
    except OSError as error:
        raise StorageError(
            f"The database cannot be renamed: {error.strerror or error}.",
            place=str(path),
            fix="Make the folder writable for this user.",
        ) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Run a block inside `BEGIN IMMEDIATE`: committed at its end, undone if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        undo(connection)
        raise


def begin(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """Begin a transaction in which nobody else can write.

    Args:
        connection: One whose own `busy_timeout` is 0.
        wait_seconds: How long to wait for another connection's write, in seconds.

    Raises:
        sqlite3.OperationalError: Somebody still writes (`is_busy`), or it cannot begin at all.
    """
    give_up, pause = time.monotonic() + wait_seconds, _SHORTEST_PAUSE
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() + pause > give_up:
                raise
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return


def is_busy(error: BaseException) -> bool:
    """Whether an error only says that somebody else has the file at this moment."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def undo(connection: sqlite3.Connection) -> None:
    """Roll back what is open; SQLite has already done so after some failures."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _make_file(path: Path, schemas: tuple[RoomSchema, ...]) -> None:
    """Make a file with its tables, whole or not at all; whoever else makes it may be quicker.

    SQLite would make it with the umask's rights.
    """
    make_folder(path.parent)
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    whole = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with open(os.open(whole, flags | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - opened above
            file.write(empty_database(schemas))
        with suppress(OSError):  # it is there by now, or nothing can be linked here
            os.link(whole, path)
            return
    finally:
        whole.unlink(missing_ok=True)
    os.close(os.open(path, flags, 0o600))  # an empty file is an empty database


def _sweep(path: Path) -> None:
    """Remove what killed processes left of a new file; it is there by now, whoever made it."""
    with os.scandir(path.parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(f".{path.name}.")]
    for each in left:
        with suppress(OSError):
            os.unlink(each)  # noqa: PTH108 - as a text


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    if may_distrust_schemas():
        connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _open_writable(path: Path, schemas: Sequence[RoomSchema], known: str) -> sqlite3.Connection:
    connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
    try:
        _use_wal(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        if is_current(connection, schemas, path):
            schema_differences(connection, schemas, known).require_none(path)
        else:
            with transaction(connection):
                migrate(connection, schemas, path)
                schema_differences(connection, schemas, known).require_none(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite answers `busy` at once where another process switches too."""
    give_up = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def _open_read_only(path: Path, schemas: Sequence[RoomSchema]) -> sqlite3.Connection:
    if not path.exists():
        raise StorageError(
            "There is no database yet.",
            place=str(path),
            fix="Run something first, or name the project with --root.",
            data={"cause": "missing"},
        )
    connection = _connect(f"{path.absolute().as_uri()}?{_read_only_mode(path)}")
    try:
        connection.execute("PRAGMA query_only = ON")
        is_current(connection, schemas, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_only_mode(path: Path) -> str:
    """Without a WAL and the right to make one, only the file as it lies can be read."""
    wal = path.with_name(path.name + "-wal")
    return "mode=ro" if wal.exists() or os.access(path.parent, os.W_OK) else "immutable=1"
