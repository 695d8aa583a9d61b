"""Revocations: what was taken back elsewhere reaches a run that lives, before its next decision."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from clawhive_core.config.private_file import FileVersion, version_of
from clawhive_core.policy.ledger import standing_of
from clawhive_core.policy.persistent import FILE, read_persistent
from clawhive_core.policy.rules import Rules
from clawhive_core.storage.sqlite.log import EventLog

_LAST = "SELECT max(seq) FROM events WHERE kind = 'grant.revoked'"
_NAMED = (
    "SELECT json_extract(body, '$.grant_id') FROM events WHERE kind = 'grant.revoked'"
    " AND json_extract(body, '$.grant_id') IN (SELECT value FROM json_each(?))"
)
_Mark = tuple[int | None, FileVersion | None]


class Revocations:
    """Compares rules with the log and with the user's persistent grants, where these changed.

    One serves all runs of a process: however many there are, what changed is read once.

    Args:
        log: The project's log, to which every process writes what it revokes.
        user_dir: The user's own directory: another project may have revoked a persistent grant.
    """

    def __init__(self, log: EventLog, user_dir: Path) -> None:
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
            self._last, self._epoch = self._log.read(_LAST)[0][0], epoch
        return self._last

    def _gone(self, rules: Rules, *, revoked: bool) -> set[str]:
        """Return what of the rules counts no more; `revoked` tells whether this log revoked any."""
        held = rules.every
        parents = {each.parent_grant for each in held if each.parent_grant is not None}
        # What a revocation ends further down stands no longer either.
        gone = self._ids(_NAMED, (each.grant_id for each in held)) if revoked else set[str]()
        if not parents:
            return gone
        stand = {entry.grant.grant_id for entry in read_persistent(self._user_dir).entries}
        stand |= standing_of(self._log, parents)
        return gone | (parents - stand)

    def _ids(self, sql: str, grant_ids: Iterable[str]) -> set[str]:
        return {str(row[0]) for row in self._log.read(sql, (json.dumps(list(grant_ids)),))}
