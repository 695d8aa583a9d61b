"""One append on its way through the writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from clawhive_core.events.rows import Row
from clawhive_core.protocols.ledger import Expectation

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

Effect = Callable[[sqlite3.Connection], None]
"""A change that this adapter makes first in an append's transaction; no other room has any."""


class Append:
    """Rows in; sequence numbers or an error out; and whoever waits for them."""

    __slots__ = (
        "_done",
        "_future",
        "effect",
        "error",
        "expects",
        "is_posted",
        "is_pressing",
        "loop",
        "rows",
        "seqs",
        "size",
        "sync",
    )

    def __init__(
        self,
        rows: Sequence[Row] = (),
        *,
        sync: bool = False,
        expects: Sequence[Expectation] = (),
        effect: Effect | None = None,
    ) -> None:
        self.rows = rows
        self.sync = sync
        self.expects = expects
        """The expectations, checked in its transaction before anything of it is written."""
        self.effect = effect
        self.size = 0
        """About the bytes that it adds to the file."""
        for row in rows:
            self.size += row.size
        self.seqs: list[int] = []
        self.error: BaseException | None = None
        self.is_posted = False
        """Whether nobody waits for it."""
        self.is_pressing = False
        """Whether it is not to wait for company longer than until something follows it."""
        self.loop: AbstractEventLoop | None = None
        self._future: Future[None] | None = None
        self._done: threading.Lock | None = None

    def waits_in(self, loop: AbstractEventLoop) -> Future[None]:
        """Return the future of that loop that ends with this append."""
        self.loop = loop
        self._future = loop.create_future()
        return self._future

    def waits_blocking(self) -> threading.Lock:
        """Return a held lock that is released when this append has ended."""
        self._done = threading.Lock()
        self._done.acquire()
        return self._done

    @property
    def is_flush(self) -> bool:
        """Whether it writes nothing and only waits for what was queued before it."""
        return not self.rows and self.effect is None and not self.expects

    def release(self) -> None:
        """Wake a blocking caller."""
        if self._done is not None:
            self._done.release()

    def settle(self) -> None:
        """End the future, in its loop's thread."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def result(self) -> list[int]:
        """Return the sequence numbers, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        return self.seqs


def wake(items: Iterable[Append], here: AbstractEventLoop | None = None) -> None:
    """Wake everyone who waits, each event loop with a single call; `here` is the caller's own."""
    by_loop: dict[AbstractEventLoop, list[Append]] = {}
    for item in items:
        if item.loop is None:
            item.release()
        elif item.loop is here:
            item.settle()
        else:
            by_loop.setdefault(item.loop, []).append(item)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, waiting)
        except RuntimeError:  # the loop was closed: nobody waits any more
            continue


def _settle(items: Sequence[Append]) -> None:
    for item in items:
        item.settle()
