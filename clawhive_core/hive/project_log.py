"""A project's event log with the tables of every room, and following it as it grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.config.config import Config
from clawhive_core.errors import ClawHiveError, StorageError
from clawhive_core.events.kinds import TABLES_REBUILT
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution import store
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.policy import approval_rows, ledger, quotas, subscriptions
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.runs.record import schema as runs_schema
from clawhive_core.storage.sqlite.expectations import Founding
from clawhive_core.storage.sqlite.founded import require_founded
from clawhive_core.storage.sqlite.log import EventLog, Projections
from clawhive_core.storage.sqlite.rebuild import Difference, compare, rebuild
from clawhive_core.storage.sqlite.schema import TIP

if TYPE_CHECKING:
    from clawhive_core.audit.checkpoints import Checkpoints, Signer

FOLLOW_SECONDS = 0.5
"""How often whoever follows a log looks for events of other processes."""

_ROOMS = (runs_schema, ledger, approval_rows, store, quotas, subscriptions)
SCHEMAS = tuple(room.SCHEMA for room in _ROOMS)
_TABLES = (
    "runs",
    "grants",
    "grant_sets",
    "approvals",
    store.TABLE,
    quotas.TABLE,
    subscriptions.TABLE,
)
"""What the projections write, and nothing else does."""
FOUNDINGS: Mapping[str, Founding] = {"approvals": approval_rows.require_given}
"""What compares a room's table with the log before it gives a right in an append."""


def open_log(config: Config) -> EventLog:
    """Open a project's log with the tables of every room, to look at it."""
    path = config.root / ".clawhive" / "hive.db"
    redactor = Redactor(by_form=True)
    return EventLog.open(path, SCHEMAS, _merged(), redactor=redactor, foundings=FOUNDINGS)


def open_founded(config: Config) -> EventLog:
    """Open a project's log to work with it.

    Raises:
        StorageError: `forged_rights`: a table gives a right that the log does not.
    """
    log = open_log(config)
    try:
        require_founded(log, *ledger.STANDING, approval_rows.STANDING, subscriptions.STANDING)
    except BaseException:
        log.close()
        raise
    return log


def check_tables(log: EventLog) -> tuple[Difference, ...]:
    """Return how the tables of all rooms differ from a replay of the log; nothing is changed.

    Raises:
        StorageError: The log cannot be read, or a row of it cannot be applied.
    """
    return compare(log, _merged(), _TABLES)


def rebuild_tables(log: EventLog) -> tuple[Difference, ...]:
    """Make the tables of all rooms anew from the log, and record it where they differed.

    Returns:
        How they differed.

    Raises:
        StorageError: As for `check_tables`, or it cannot be written; nothing was changed.
    """
    found = rebuild(log, _merged(), _TABLES)
    if found:
        body = {"differences": [each.to_dict() for each in found]}
        log.append_now(Event(TABLES_REBUILT, body, principal=str(LOCAL_USER)), sync=True)
    return found


def _merged() -> Projections:
    projections: dict[str, Any] = {}
    for room in (each.PROJECTIONS for each in _ROOMS):
        for kind, applied in room.items():
            projections[kind] = (*projections.get(kind, ()), *applied)
    return projections


def approval_book(log: EventLog, config: Config, env: Mapping[str, str]) -> ApprovalBook:
    """Return what reads and answers a project's approvals."""
    home = env.get("HOME") or str(Path.home())
    return ApprovalBook(log, config.user_dir, {"workspace": str(config.root), "home": home})


@dataclass(frozen=True, slots=True)
class Awaited(ApprovalBook):
    """The approvals of an open project, which a program may wait for."""

    is_over: Callable[[], bool] = lambda: False
    """Whether none is to come, because the log is being closed."""

    async def waiting(self) -> AsyncGenerator[Approval]:
        """Yield what waits for a person, oldest first, then what comes, until the hive is closed.

        Each comes once. Those of other processes come a little later.

        Example:
            ::

                async for approval in hive.approvals.waiting():
                    hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
        """
        told = set[str]()
        async with heard(self.log) as wait:
            while not self.is_over():
                found = {each.approval_id: each for each in self.pending()}
                told &= found.keys()
                for approval_id in [each for each in found if each not in told]:
                    told.add(approval_id)
                    if self.find(approval_id).state == "pending":  # an answer may have come
                        yield found[approval_id]
                await wait()


def checkpoints_of(log: EventLog, user_dir: Path) -> Checkpoints:
    """Return where the tips of a project's log are signed, outside of it."""
    from clawhive_core.audit.checkpoints import Checkpoints

    return Checkpoints(user_dir, log.database_id, log.path)


def signer_of(log: EventLog, user_dir: Path) -> Signer:
    """Return what signs the tip of a project's log as it grows."""
    from clawhive_core.audit.checkpoints import Signer

    return Signer(checkpoints_of(log, user_dir), partial(_tip, log))


def checkpoint(log: EventLog, checkpoints: Checkpoints, run_id: str) -> str | None:
    """Sign the log's tip now; return why it could not be, as a note."""
    try:
        if (tip := _tip(log)) is not None:
            checkpoints.write(*tip, run_id)
    except ClawHiveError as error:
        return unsigned(error)
    return None


def unsigned(error: ClawHiveError) -> str:
    """Return the note of a log that could not be signed."""
    return f"no checkpoint was written: {error.message}"


def _tip(log: EventLog) -> tuple[int, str] | None:
    rows = log.read(TIP)
    return (rows[0]["seq"], rows[0]["hash"]) if rows else None


async def follow(
    log: EventLog, since: int = 0, is_over: Callable[[], bool] = lambda: False
) -> AsyncGenerator[StoredEvent]:
    """Yield the log's events after a sequence number, then those to come.

    Those of other processes come a little later, since nobody tells of them.

    Args:
        log: The log, which may be closed meanwhile.
        since: The sequence number.
        is_over: Whether none is to come, because the log is being closed.
    """
    async with heard(log) as wait:
        while True:
            try:
                for stored in log.events(since=since):
                    since = stored.seq
                    yield stored
            except StorageError:
                if not is_over():
                    raise
            if is_over():
                return
            await wait()


@asynccontextmanager
async def heard(log: EventLog) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Give what waits for events: this process's at once, those of others after a moment."""
    from asyncio import get_running_loop

    loop, ready = get_running_loop(), anyio.Event()

    def wake() -> None:
        ready.set()

    async def wait() -> None:
        nonlocal ready
        with anyio.move_on_after(FOLLOW_SECONDS):
            await ready.wait()
        ready = anyio.Event()

    stop = log.listen(lambda _: _tell(loop, wake))
    try:
        yield wait
    finally:
        stop()


def _tell(loop: Any, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closing: nobody listens any more
        loop.call_soon_threadsafe(callback)
