"""The claims of rows that nobody of this user's wrote: shown before a log is adopted."""

from __future__ import annotations

from collections.abc import Mapping

from clawhive_core.errors import StorageError
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import RightsWhere
from clawhive_core.storage.sqlite import subscriptions
from clawhive_core.storage.sqlite.approvals import require_given
from clawhive_core.storage.sqlite.grants import rights
from clawhive_core.storage.sqlite.reader import Readers
from clawhive_core.storage.sqlite.seals import SEALED
from clawhive_core.storage.sqlite.stored_values import value_of

_OPEN_APPROVALS = (
    "SELECT approval_id, state, tool, preview FROM approvals"
    " WHERE state IN ('pending', 'approved') ORDER BY seq"
)
_STOPPED = (
    "SELECT run_id, status, title FROM runs WHERE status NOT IN ('succeeded', 'failed',"
    " 'cancelled') ORDER BY started_seq"
)
_VALUES = "SELECT user_id, namespace, key FROM stored_values ORDER BY user_id, namespace, key"


@dataclass(frozen=True, slots=True)
class Claims:
    """The rows that would count with adoption, each as one line of text."""

    grants: tuple[str, ...] = ()
    approvals: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        """Return the lines by kind."""
        found: Mapping[str, tuple[str, ...]] = {
            "grants": self.grants,
            "approvals": self.approvals,
            "subscriptions": self.subscriptions,
            "values": self.values,
            "runs": self.runs,
        }
        return {kind: list(lines) for kind, lines in found.items()}


def claims_of(readers: Readers) -> Claims:
    """Return what rows that this user's ClawHive did not write would give.

    Raises:
        StorageError: `forged_rights`: a table says more than the log.
    """
    with readers.snapshot():
        return Claims(
            _grants(readers),
            tuple(
                f"{tool}, {state}: {preview}"
                for approval_id, state, tool, preview in map(tuple, readers.read(_OPEN_APPROVALS))
                if not _is_own_approval(readers, approval_id)
            ),
            tuple(
                f"{user} may use what {skill} does not give for free"
                for user, skill in map(
                    tuple, readers.read("SELECT user_id, skill_id FROM subscriptions")
                )
                if not subscriptions.is_given(readers, user, skill)
            ),
            tuple(
                f"{namespace}: {key} of {user}"
                for user, namespace, key in map(tuple, readers.read(_VALUES))
                if value_of(readers, user, namespace, key) is None
            ),
            tuple(
                f"{run_id} ({status}): {title}"
                for run_id, status, title in map(tuple, readers.read(_STOPPED))
                if not all(map(readers.seals.is_own, _events_of(readers, run_id)))
            ),
        )


def _grants(readers: Readers) -> tuple[str, ...]:
    counting = {each.grant.grant_id for each in rights(readers, RightsWhere())}
    found = [each.grant for each in rights(readers, RightsWhere(checked=False))]
    return tuple(
        f"{each.capability} to {each.subject}, {each.mode}, for the {each.scope} {each.scope_id}"
        for each in found
        if each.grant_id not in counting
    )


def _is_own_approval(readers: Readers, approval_id: str) -> bool:
    try:
        require_given(readers.get(), (approval_id,), readers.seals)
    except StorageError as error:
        if error.code != "foreign_database":
            raise
        return False
    return True


def _events_of(readers: Readers, run_id: str) -> list[tuple[object, ...]]:
    return list(map(tuple, readers.read(f"{SEALED} WHERE run_id = ?", (run_id,))))
