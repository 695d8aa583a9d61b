"""Revocations: what was taken back elsewhere reaches a run that lives, before its next decision."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from clawhive_core.config.private_file import FileVersion, version_of
from clawhive_core.events.log import EventLog
from clawhive_core.policy.persistent import FILE, read_persistent
from clawhive_core.policy.rules import Rules

_LAST = "SELECT max(seq) FROM events WHERE kind = 'grant.revoked'"
_OF = "grant_id IN (SELECT value FROM json_each(?))"
_Mark = tuple[int | None, FileVersion | None]
_Epoch = tuple[tuple[int, int] | None, FileVersion | None]


class Revocations:
    """Compares rules with the log and with the user's persistent grants, where these changed.

    Args:
        log: The project's log, to which every process writes what it revokes.
        user_dir: The user's own directory: another project may have revoked a persistent grant.
    """

    def __init__(self, log: EventLog, user_dir: Path) -> None:
        self._log = log
        self._user_dir = user_dir
        self._file = os.path.join(user_dir, FILE)  # noqa: PTH118 - for each run
        self._seen: WeakKeyDictionary[Rules, _Mark] = WeakKeyDictionary()
        self._last: Rules | None = None
        self._epoch: _Epoch = (None, None)
        """When the last ones were looked at; a run asks about the same ones each time."""

    def __call__(self, rules: Rules) -> None:
        """Revoke in these rules what was revoked since they were looked at.

        Raises:
            StorageError: The log cannot be read.
        """
        changed = self._log.epoch()
        # Only a grant that comes from another one may come from a persistent one.
        version = version_of(self._file) if rules.is_derived else None
        epoch = (changed, version)
        if rules is self._last and changed is not None and epoch == self._epoch:
            return
        mark = (self._log.read(_LAST)[0][0], version)
        if self._seen.get(rules) != mark:
            if gone := self._gone(rules, revoked=mark[0] is not None):
                rules.revoke(gone)
            self._seen[rules] = mark
        self._last, self._epoch = rules, epoch  # what was read is at least as new

    def _gone(self, rules: Rules, *, revoked: bool) -> set[str]:
        """Return what of the rules counts no more; `revoked` tells whether this log ended any."""
        held = rules.every
        ended: set[str] = set()
        if revoked:
            ended = self._ids("ended_at IS NOT NULL", (each.grant_id for each in held))
        parents = {each.parent_grant for each in held if each.parent_grant is not None}
        if not parents:
            return ended
        stand = {entry.grant.grant_id for entry in read_persistent(self._user_dir).entries}
        stand |= self._ids("ended_at IS NULL", parents)
        return ended | (parents - stand)

    def _ids(self, state: str, grant_ids: Iterable[str]) -> set[str]:
        sql = f"SELECT grant_id FROM grants WHERE {state} AND {_OF}"  # noqa: S608 - two literals
        return {str(row[0]) for row in self._log.read(sql, (json.dumps(list(grant_ids)),))}
