"""Whether a log may still be written: not closed, not forked, and no fact of it lost."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from clawhive_core.errors import LogWriteFailed, StorageError
from clawhive_core.protocols.ledger import Unmet
from clawhive_core.storage.sqlite.append import Append
from clawhive_core.storage.sqlite.faults import storage_error


class Usability:
    """The state in which a log may be written, and the errors where it may not.

    Args:
        path: The log's file.
    """

    def __init__(self, path: Path) -> None:
        self.thread: int | None = None
        """The writer's own, which may not append."""
        self.closing = False
        self.ended = False
        """Whether the writer's thread has ended."""
        self._path = path
        self._process_id = os.getpid()
        self._lost: LogWriteFailed | None = None
        self._lost_is_known = False

    def require(self) -> None:
        """Refuse where the log is closed, or events that nobody waited for were lost.

        Raises:
            LogWriteFailed: It is so.
        """
        # A forked child has no writer; asking the thread itself whether it lives takes locks.
        ends = self.closing or self.ended or os.getpid() != self._process_id
        if not ends and self._lost is None and threading.get_ident() != self.thread:
            return  # as nearly always, and every append passes here
        self.require_whole()
        if ends:
            raise self.unusable("The event log is closed in this process", "Open it again")
        raise self.unusable(
            "A listener or projection runs in the writer itself and cannot append",
            "Append from the code that reacts to the event",
        )

    def require_whole(self) -> None:
        """Refuse where events that nobody waited for were lost.

        Raises:
            LogWriteFailed: It is so.
        """
        if (loss := self.loss()) is not None:
            raise loss

    def loss(self) -> LogWriteFailed | None:
        """Return a further report of what was lost, with its own traceback; None of nothing."""
        if (lost := self._lost) is None:
            return None
        self._lost_is_known = True
        failure = LogWriteFailed(lost.message, place=lost.place, fix=lost.fix, data=lost.data)
        failure.__cause__ = lost
        return failure

    def unheard_loss(self) -> LogWriteFailed | None:
        """Return what `loss` does, where nobody was told yet."""
        return None if self._lost_is_known else self.loss()

    def note_lost(self, batch: Iterable[Append]) -> None:
        """From a lost event that nobody waits for on, the log says so to everyone.

        One whose run has another owner by now is no fact of that run: its executor hears of it.
        """
        for item in batch:
            if item.error is None or not item.is_posted or isinstance(item.error, Unmet):
                continue
            if self._lost is None:
                self._lost = self.failure(item.error)

    def unusable(self, what: str, fix: str) -> LogWriteFailed:
        """Return the refusal of an append."""
        return LogWriteFailed(f"{what}.", place=str(self._path), fix=f"{fix}.")

    def failure(self, error: BaseException) -> LogWriteFailed:
        """Return a failed commit as its callers hear of it."""
        if isinstance(error, LogWriteFailed):
            return error
        if isinstance(error, sqlite3.Error | OSError):
            known = storage_error(error, self._path)
        else:
            known = StorageError(f"{type(error).__name__}: {error}.")
        failure = LogWriteFailed(
            f"The event was not written. {known.message}",
            place=str(self._path),
            fix=known.fix,
            data=known.data,
        )
        failure.__cause__ = error
        return failure
