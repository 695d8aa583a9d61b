"""A project's database: whose it is, its adoption by a person, and a fresh one in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import field
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.errors import ClawHiveError, StorageError, UnknownId, UsageError
from clawhive_core.events.kinds import DATABASE_ADOPTED
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.storage.folders import require_unlinked
from clawhive_core.storage.sqlite.claims import Claims
from clawhive_core.storage.sqlite.database import rename_database
from clawhive_core.storage.sqlite.inspection import inspect
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.seals import seal_rows
from clawhive_core.storage.sqlite.tables import PROJECT, SqliteLedgers


def adopt_signed(log: EventLog, user_dir: Path) -> bool:
    """Take a database for the user's where a checkpoint that the user signed fits; close it then.

    So databases of before there were keys stay their user's, up to the last signed row. What came
    after counts once a person adopts it.

    Raises:
        StorageError: The log, the checkpoints or the key cannot be read or written.
    """
    from clawhive_core.audit.checkpoints import Checkpoints

    checkpoints = Checkpoints(user_dir, log.id)
    if not checkpoints.path.is_file():
        return False
    for each in reversed(checkpoints.read().checkpoints):
        if not checkpoints.is_genuine(each):
            continue
        rows = log.rows(("seq", "hash"), since=each.seq - 1, limit=1)
        if [tuple(row) for row in rows] != [(each.seq, each.hash)]:
            return False  # the last that is genuine decides: another log continues the same rows
        _seal(log, user_dir, (each.seq, each.hash))
        return True
    return False


def _seal(log: EventLog, user_dir: Path, tip: tuple[int, str]) -> None:
    name, path = log.id, log.path
    log.close()
    DatabaseKeys(user_dir).adopt(name, lambda key: seal_rows(path, key, *tip))


@dataclass(frozen=True, slots=True)
class Database:
    """One database file of a project, and what it would give."""

    path: Path
    id: str
    is_foreign: bool
    tip: tuple[int, str] | None
    claims: Claims = field(default_factory=Claims)


class Databases:
    """The databases of one project: the one in use, and those that were set aside.

    Args:
        config: The project's configuration.

    Raises:
        UsageError: Its log is no file.
    """

    def __init__(self, config: Config) -> None:
        url = str(config.get("storage.url"))
        if url.partition(":")[0] != SqliteLedgers.scheme:
            raise UsageError(
                "the log is no file of the project's, so that nobody ships one with it",
                place="storage.url",
                fix="there is nothing to adopt or to set aside",
            )
        self.path = SqliteLedgers().path(url, str(config.root))
        self._user_dir = config.user_dir

    def find(self, text: str) -> Database:
        """Return the database of an id or the beginning of one, as a foreign one opened to look.

        Raises:
            UnknownId: There is none here, or several.
            StorageError: It cannot be read; `altered_schema`; `forged_rights`: its tables say more
                than its log.
        """
        found = [
            path
            for path, name in self._ids()
            if name.removeprefix("db_").startswith(text.removeprefix("db_"))
        ]
        if len(found) != 1:
            what = "names several databases" if found else "names no database of this project"
            raise UnknownId(
                f"`{text}` {what}", place=text, fix="clawhive audit verify --json prints the id"
            )
        return self._look(found[0])

    def adopt(self, database: Database) -> None:
        """Let all rows of a database count as the user's, and work with it from now on.

        Raises:
            StorageError: `foreign_database`: it changed since it was looked at, or is no whole
                chain; or it cannot be written, or is in use.
        """
        if self._look(database.path) != database:
            raise StorageError(
                "The database changed while you looked at it; nothing was adopted.",
                place=str(database.path),
                fix="look again",
                code="foreign_database",
            )
        if database.tip is not None:
            keys = DatabaseKeys(self._user_dir)
            path, tip = database.path, database.tip
            keys.adopt(database.id, lambda key: seal_rows(path, key, *tip))
        if database.path != self.path:
            if self.path.exists():
                self.set_aside()
            rename_database(database.path, self.path)
        gives = {kind: len(lines) for kind, lines in database.claims.to_dict().items()}
        body = {"rows": 0 if database.tip is None else database.tip[0], "gives": gives}
        with closing(self._open(self.path)) as log:
            log.append_now(Event(DATABASE_ADOPTED, body, principal=str(LOCAL_USER)), sync=True)
            newest = log.tip()
            if newest is not None:
                from clawhive_core.audit.checkpoints import Checkpoints

                Checkpoints(self._user_dir, log.id, self.path).write(*newest)

    def set_aside(self) -> Path:
        """Give the database in use another name, so that the next run begins a fresh one.

        Returns:
            Its path from now on.

        Raises:
            StorageError: There is none, or another process uses it.
        """
        require_unlinked(self.path)
        if not self.path.exists():
            raise StorageError(
                "There is no database to set aside.",
                place=str(self.path),
                fix="the next run makes one",
            )
        name = next((found for path, found in self._ids() if path == self.path), "unknown")
        stem = f"{self.path.stem}-{name.removeprefix('db_')[:8]}"
        target, number = self.path.with_name(f"{stem}.db"), 1
        while os.path.lexists(target):
            number += 1
            target = self.path.with_name(f"{stem}-{number}.db")
        rename_database(self.path, target)
        return target

    def _ids(self) -> Iterator[tuple[Path, str]]:
        """Yield the path and the id of each database that can be read."""
        for path in (self.path, *sorted(self.path.parent.glob(f"{self.path.stem}-*.db"))):
            with suppress(ClawHiveError), inspect(path) as found:
                yield path, found.id

    def _open(self, path: Path) -> EventLog:
        return EventLog.open(path, PROJECT, keys=DatabaseKeys(self._user_dir))

    def _look(self, path: Path) -> Database:
        with closing(self._open(path)) as log:
            if differences := log.compare():
                raise StorageError(
                    f"The tables of {', '.join(each.table for each in differences)} say other "
                    "things than the log does: they would not give what is shown.",
                    place=str(path),
                    fix="clawhive audit rebuild",
                    code="forged_rights",
                )
            return Database(path, log.id, log.is_foreign, log.tip(), log.claims())
