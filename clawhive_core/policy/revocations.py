"""Revocations: what was taken back elsewhere reaches a run that lives, before its next decision."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from clawhive_core.config.private_file import FileVersion, version_of
from clawhive_core.policy.persistent import FILE, read_persistent
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.ledger import ActiveGrants, Ledger, RevocationsWhere, Window

_NEWEST = Window(limit=1)
_Mark = tuple[int | None, FileVersion | None]


class Revocations:
    """Compares rules with the log and with the user's persistent grants, where these changed.

    One serves all runs of a process: however many there are, what changed is read once.

    Args:
        log: The project's log, to which every process writes what it revokes.
        user_dir: The user's own directory: another project may have revoked a persistent grant.
    """

    def __init__(self, log: Ledger, user_dir: Path) -> None:
        self._log = log
        self._user_dir = user_dir
        self._file = os.path.join(user_dir, FILE)  # noqa: PTH118 - for each run
        self._seen: WeakKeyDictionary[Rules, _Mark] = WeakKeyDictionary()
        self._epoch: tuple[int, int] | None = None
        self._last: int | None = None
        self._told: _Mark | None = None

    def __call__(self, rules: Rules) -> None:
        """Revoke in these rules what was revoked since they were looked at.

        Raises:
            StorageError: The log cannot be read.
        """
        # Only a grant that comes from another one may come from a persistent one.
        mark = (self._last_revoked(), version_of(self._file) if rules.is_derived else None)
        if self._seen.get(rules) == mark:
            return
        if gone := self._gone(rules, revoked=mark[0] is not None):
            rules.revoke(gone)
        self._seen[rules] = mark  # what was read is at least as new

    def has_news(self) -> bool:
        """Whether a right may have been revoked since this was last asked.

        Raises:
            StorageError: The log cannot be read.
        """
        mark = (self._last_revoked(), version_of(self._file))
        has_news, self._told = mark != self._told, mark
        return has_news

    def _last_revoked(self) -> int | None:
        """Return the number of the last revocation in the log."""
        epoch = self._log.epoch()
        if epoch is None or epoch != self._epoch:
            last = self._log.find(RevocationsWhere(), _NEWEST)
            self._last, self._epoch = last.items[0].seq if last else None, epoch
        return self._last

    def _gone(self, rules: Rules, *, revoked: bool) -> set[str]:
        """Return what of the rules counts no more; `revoked` tells whether this log revoked any."""
        held = rules.every
        parents = {each.parent_grant for each in held if each.parent_grant is not None}
        # What a revocation ends further down stands no longer either.
        gone = self._revoked([each.grant_id for each in held]) if revoked else set[str]()
        if not parents:
            return gone
        stand = {entry.grant.grant_id for entry in read_persistent(self._user_dir).entries}
        stand |= set(self._log.find(ActiveGrants(tuple(parents))))
        return gone | (parents - stand)

    def _revoked(self, grant_ids: Sequence[str]) -> set[str]:
        return {each.grant_id for each in self._log.find(RevocationsWhere(tuple(grant_ids)))}
