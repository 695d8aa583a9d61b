"""A project's event log: opened, signed, verified, its approvals awaited."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawhive_core.config.config import Config
from clawhive_core.config.database_keys import DatabaseKeys
from clawhive_core.errors import ClawHiveError, StorageError
from clawhive_core.events.redaction import Redactor
from clawhive_core.model.approvals import Approval
from clawhive_core.model.late import dataclass
from clawhive_core.plugins.manager import PluginManager, open_plugins
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.ledger import Ledger, LedgerOpener
from clawhive_core.storage.sqlite.database import LOADS_EXTENSIONS, SOFTWARE
from clawhive_core.storage.sqlite.log import EventLog
from clawhive_core.storage.sqlite.tables import SqliteLedgers

if TYPE_CHECKING:
    from clawhive_core.audit.checkpoints import Checkpoints, Signer
    from clawhive_core.audit.verify import VerifyReport

__all__ = ["LOADS_EXTENSIONS", "SOFTWARE"]


OPEN_SECONDS = 30.0
"""The seconds that a plugin may take to open the log."""
_EVERY = tuple(name for name in dir(Ledger) if not name.startswith("_"))

LoadPlugins = Callable[[], PluginManager]


def open_log(
    config: Config, plugins: LoadPlugins | None = None, redactor: Redactor | None = None
) -> Ledger:
    """Open a project's log with the tables of every room, to look at it.

    Args:
        config: Says by `storage.url` which ledger it is.
        plugins: Gives the plugins, asked where it is none of ClawHive's own; unset: the installed.
        redactor: Where secrets are registered that must not be written.

    Raises:
        StorageError: It cannot be opened; `unknown_ledger`: nothing here opens such addresses;
            `ledger_failed`: the plugin that does raises, hangs, or lacks what a ledger has.
    """
    opener, url = _opener(config, plugins)
    redactor = redactor or Redactor(by_form=True)
    seconds, root = config.get("storage.lease_seconds"), str(config.root)

    def open_it() -> Ledger:
        return opener.open(url, root=root, redactor=redactor, lease_seconds=seconds)

    if not isinstance(opener, SqliteLedgers):
        return _opened(url, open_it)
    log = opener.open(url, root=root, redactor=redactor, lease_seconds=seconds)
    if not log.is_foreign:
        return log
    from clawhive_core.hive.databases import adopt_signed

    return open_it() if adopt_signed(log, config.user_dir) else log


def has_log(config: Config, plugins: LoadPlugins | None = None) -> bool:
    """Return whether anything was ever recorded in a project; looking makes no log.

    Raises:
        StorageError: As `open_log`.
    """
    opener, url = _opener(config, plugins)
    return opener.is_made(url, root=str(config.root))


def verify_log(
    config: Config, checkpoints: Checkpoints | None = None, plugins: LoadPlugins | None = None
) -> VerifyReport:
    """Check a project's log as `audit.verify.verify` does, without opening it to work with.

    Raises:
        StorageError: The log or the checkpoints cannot be read.
    """
    from clawhive_core.audit.verify import verify

    opener, url = _opener(config, plugins)
    with opener.inspect(url, root=str(config.root)) as found:
        return verify(found, checkpoints or config.user_dir)


def _opener(config: Config, plugins: LoadPlugins | None) -> tuple[LedgerOpener, str]:
    url = str(config.get("storage.url"))
    scheme = url.partition(":")[0]
    if scheme == SqliteLedgers.scheme:
        return SqliteLedgers(DatabaseKeys(config.user_dir)), url
    manager = (plugins or partial(open_plugins, config, dict(os.environ)))()
    for each in manager.contributions("clawhive_ledgers"):
        if each.value.scheme == scheme:
            return each.value, url
    for failed in manager.failed_hooks("clawhive_ledgers"):
        raise StorageError(
            f"No log is opened at `{scheme}:...`, and the plugin `{failed.id}`, which opens logs, "
            f"has failed: {failed.error}",
            place="storage.url",
            fix=f"clawhive plugins check {failed.id}",
            code="ledger_failed",
        )
    raise StorageError(
        f"Nothing here opens a log at `{scheme}:...`.",
        place="storage.url",
        fix='Install the plugin that does, or write `url = "sqlite:"` under [storage].',
        code="unknown_ledger",
    )


def _opened(url: str, open_it: Callable[[], Ledger]) -> Ledger:
    """Return what a plugin opens, in its time and complete."""
    from threading import Thread

    found: list[Any] = []

    def work() -> None:
        try:
            found.append(open_it())
        except BaseException as error:  # noqa: BLE001 - what the plugin raises is told below
            found.append(error)

    thread = Thread(target=work, name="clawhive-open-ledger", daemon=True)
    thread.start()
    thread.join(OPEN_SECONDS)
    given: Any = found[0] if found else TimeoutError(f"no answer within {OPEN_SECONDS:g} s")
    if isinstance(given, ClawHiveError):
        raise given
    if isinstance(given, BaseException):
        what = f"cannot be opened: {type(given).__name__}: {given}"
    elif lacks := [name for name in _EVERY if not hasattr(given, name)]:
        what = f"is opened by a plugin whose ledger lacks {', '.join(lacks)}"
    else:
        return given
    raise StorageError(
        f"The log {what}.",
        place=url.partition("@")[2] or url,
        fix="Report it to the plugin's author, or look at the store; "
        "`clawhive_core.testing.check_ledger` tells what a ledger must do.",
        code="ledger_failed",
    )


def open_verified(
    config: Config, plugins: LoadPlugins | None = None, redactor: Redactor | None = None
) -> Ledger:
    """Open a project's log to work with it.

    Raises:
        StorageError: As `open_log`; `forged_rights`: a table gives a right that the log does not;
            `foreign_database`: it is somebody else's; `older_database`: it was newer before.
    """
    log = open_log(config, plugins, redactor)
    try:
        log.require_rights()
        require_newest(log, config.user_dir)
    except BaseException:
        log.close()
        raise
    return log


def require_newest(log: Ledger, user_dir: Path) -> None:
    """Raise where a log lacks what the user signed of it: it is an older copy, or was cut.

    Rights that were revoked since, uses, and answers that were used, would count again in it. Whose
    signature it is, is not asked: who can write there has the key, too.

    Raises:
        StorageError: `older_database`; or the checkpoints cannot be read.
    """
    if not isinstance(log, EventLog):
        return
    newest = checkpoints_of(log, user_dir).newest()
    if newest is None or newest.seq < 1:
        return
    rows = log.rows(("seq", "hash"), since=newest.seq - 1, limit=1)
    if [tuple(row) for row in rows] == [(newest.seq, newest.hash)]:
        return
    tip = log.tip()
    raise StorageError(
        f"The database {log.id} is not as it was: on {newest.ts[:19]} it had row {newest.seq}, and "
        f"now it ends at row {0 if tip is None else tip[0]} or holds another there. It is an older "
        "copy, or lost rows: rights that were revoked since, and uses, would count again.",
        place=log.place,
        fix=f"Put the newer file back; or take this one as it is, after `clawhive grants list`: "
        f"`clawhive trust --database {log.id}`; or begin a new one: `clawhive trust --fresh`.",
        code="older_database",
        data={"database_id": log.id, "seq": newest.seq},
    )


def claims_of(log: Ledger) -> list[str]:
    """Return what rows of a log would give that others wrote, and that counts nothing.

    Raises:
        StorageError: `forged_rights`: a table says more than the log.
    """
    if not isinstance(log, EventLog):
        return []
    return [f"{kind}: {line}" for kind, lines in log.claims().to_dict().items() for line in lines]


def approval_book(log: Ledger, config: Config) -> ApprovalBook:
    """Return what reads and answers a project's approvals."""
    variables = {"workspace": str(config.root), "home": config.home}
    return ApprovalBook(log, config.user_dir, variables)


@dataclass(frozen=True, slots=True)
class AwaitableApprovals(ApprovalBook):
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


def sign_changes(log: Ledger, user_dir: Path, before: tuple[int, str] | None) -> str | None:
    """Sign the log's tip where it is another than before; return why it could not be, as a note.

    So a right that was revoked is not given back by an older copy of the file.
    """
    try:
        if (tip := log.tip()) is not None and tip != before:
            checkpoints_of(log, user_dir).write(*tip)
    except ClawHiveError as error:
        return unsigned(error)
    return None


def unsigned(error: ClawHiveError) -> str:
    """Return the note of a log that could not be signed."""
    return f"no checkpoint was written: {error.message}"
