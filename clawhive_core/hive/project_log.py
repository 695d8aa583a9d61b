"""A project's event log: opened, signed, verified, its approvals awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from clawhive_core.config.config import Config
from clawhive_core.errors import ClawHiveError
from clawhive_core.events.kinds import TABLES_REBUILT
from clawhive_core.events.redaction import Redactor
from clawhive_core.model.approvals import Approval
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import LOCAL_USER
from clawhive_core.model.records import Difference
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.storage.sqlite.database import LOADS_EXTENSIONS, SOFTWARE
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import PROJECT

if TYPE_CHECKING:
    from clawhive_core.audit.checkpoints import Checkpoints, Signer
    from clawhive_core.audit.verify import VerifyReport

__all__ = ["LOADS_EXTENSIONS", "SOFTWARE"]


def open_log(config: Config) -> Ledger:
    """Open a project's log with the tables of every room, to look at it."""
    path = config.root / ".clawhive" / "hive.db"
    redactor = Redactor(by_form=True)
    return EventLog.open(path, PROJECT, redactor=redactor)


def open_founded(config: Config) -> Ledger:
    """Open a project's log to work with it.

    Raises:
        StorageError: `forged_rights`: a table gives a right that the log does not.
    """
    log = open_log(config)
    try:
        log.require_rights()
    except BaseException:
        log.close()
        raise
    return log


def rebuild_tables(log: Ledger) -> tuple[Difference, ...]:
    """Make the tables of all rooms anew from the log, and record it where they differed.

    Returns:
        How they differed.

    Raises:
        StorageError: It cannot be read, applied or written; nothing was changed.
    """
    found = log.rebuild()
    if found:
        body = {"differences": [each.to_dict() for each in found]}
        log.append_now(Event(TABLES_REBUILT, body, principal=str(LOCAL_USER)), sync=True)
    return found


def approval_book(log: Ledger, config: Config, env: Mapping[str, str]) -> ApprovalBook:
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
        async with self.log.heard() as wait:
            while not self.is_over():
                found = {each.approval_id: each for each in self.pending()}
                told &= found.keys()
                for approval_id in [each for each in found if each not in told]:
                    told.add(approval_id)
                    if self.find(approval_id).state == "pending":  # an answer may have come
                        yield found[approval_id]
                await wait()


def checkpoints_of(log: Ledger, user_dir: Path) -> Checkpoints:
    """Return where the tips of a project's log are signed, outside of it."""
    from clawhive_core.audit.checkpoints import Checkpoints

    return Checkpoints(user_dir, log.id, Path(log.place))


def signer_of(log: Ledger, user_dir: Path) -> Signer:
    """Return what signs the tip of a project's log as it grows."""
    from clawhive_core.audit.checkpoints import Signer

    return Signer(checkpoints_of(log, user_dir), log.tip)


def checkpoint(log: Ledger, checkpoints: Checkpoints, run_id: str) -> str | None:
    """Sign the log's tip now; return why it could not be, as a note."""
    try:
        if (tip := log.tip()) is not None:
            checkpoints.write(*tip, run_id)
    except ClawHiveError as error:
        return unsigned(error)
    return None


def unsigned(error: ClawHiveError) -> str:
    """Return the note of a log that could not be signed."""
    return f"no checkpoint was written: {error.message}"


def verify_database(path: Path | str, checkpoints: Path | str | Checkpoints) -> VerifyReport:
    """Check a database file as `audit.verify.verify` does, without opening it to work with.

    Raises:
        StorageError: The database or the checkpoints cannot be read.
    """
    from clawhive_core.audit.verify import verify
    from clawhive_core.storage.sqlite.inspection import inspect

    with inspect(path) as found:
        return verify(found, checkpoints)
