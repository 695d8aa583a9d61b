"""The events of grants: issued, used, a use given back; rights that many tasks share as one set.

A set's rights are one body of the log, by its digest. A task's own are its set's id, whom
they are for, and the folder that stands for `${run}` in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Unpack, cast

from clawhive_core.events.kinds import GRANT_ISSUED, GRANT_RETURNED, GRANT_USED
from clawhive_core.model.canonical import canonical
from clawhive_core.model.events import Blob, Event, EventColumns
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.late import dataclass

MOST = 256
"""The rights of a set; two hexadecimal digits of a member's id number it."""

_RUN = "${run}"
_ID = len("grant_00")
SHARED_ISSUERS = frozenset(("starter", "config", "skill"))
"""The issuer of what many tasks share."""

_Member = tuple[str, str, str]


def new_set_id() -> str:
    """Return a fresh id of a set: 56 random bits."""
    return os.urandom(7).hex()


def member_id(set_id: str, number: int) -> str:
    """Return the id of one of a set's rights, which has the form of every other's."""
    return f"grant_{number:02x}{set_id}"


def set_of(grant_id: str) -> str:
    """Return the id of the set that a right is a member of, where it is of one."""
    return grant_id[_ID:]


def is_shareable(grant: CapabilityGrant) -> bool:
    """Whether a grant says nothing that a member of a set cannot."""
    limits = (grant.expires_at, grant.parent_grant, grant.uses, grant.delegate, grant.tool)
    return grant.issuer in SHARED_ISSUERS and limits == (None,) * 5 and _RUN not in grant.capability


@dataclass(frozen=True, slots=True)
class GrantSet:
    """The rights that one task has of a set, as its event says."""

    set_id: str
    subject: str
    task_id: str
    run: str
    """The value of `${run}`."""
    members: tuple[_Member, ...]
    """Capability, issuer and mode of each, in the order of their numbers."""

    @property
    def body(self) -> dict[str, Any]:
        """The body of the event."""
        return {
            "id": self.set_id,
            "subject": self.subject,
            "task_id": self.task_id,
            "run": self.run,
            "members": _blob(self.members),
        }

    def grants(self) -> list[CapabilityGrant]:
        """Return the rights, each as a grant of its task."""
        found: list[CapabilityGrant] = []
        for number, (text, issuer, mode) in enumerate(self.members):
            capability, own_id = text.replace(_RUN, self.run), member_id(self.set_id, number)
            facts: Any = (own_id, capability, self.subject, "task", self.task_id, issuer, mode)
            found.append(CapabilityGrant(*facts))
        return found


def divided(
    grants: Sequence[CapabilityGrant], run: str
) -> tuple[GrantSet | None, list[CapabilityGrant]]:
    """Return the set that some grants are members of by their ids, and the other grants.

    Args:
        grants: What a task gets.
        run: The folder that `${run}` is to stand for; no set is made where it is empty.
    """
    first = next((each for each in grants if each.issuer in SHARED_ISSUERS), None)
    if first is None or not run:
        return None, list(grants)
    set_id = set_of(first.grant_id)
    mine = [each for each in grants if set_of(each.grant_id) == set_id]
    mine.sort(key=lambda each: each.grant_id)
    members = tuple([(each.capability.replace(run, _RUN), each.issuer, each.mode) for each in mine])
    made = GrantSet(set_id, first.subject, first.scope_id, run, members)
    if len(mine) < 2 or made.grants() != mine:  # noqa: PLR2004 - random ids alone never look like this
        return None, list(grants)
    return made, [each for each in grants if set_of(each.grant_id) != set_id]


def issued(grants: Sequence[CapabilityGrant], run: str = "", **ids: Unpack[EventColumns]) -> Event:
    """Return the event that issues grants.

    Args:
        grants: They; those that are members of a set by their ids are recorded as one.
        run: The folder of the run that they are for.
        **ids: Whose event it is.
    """
    members, others = divided(grants, run)
    body: dict[str, Any] = {"grants": [each.to_dict() for each in others]}
    if members is not None:
        body["set"] = members.body
    return Event(GRANT_ISSUED, body, **ids, prechecked=True)


def used(grant_ids: Sequence[str], **columns: Unpack[EventColumns]) -> Event:
    """Return the event that counts a call as a use of grants, with all that they derive from."""
    return Event(GRANT_USED, {"grant_ids": list(grant_ids)}, **columns)


def returned(grant_ids: Sequence[str], **columns: Unpack[EventColumns]) -> Event:
    """Return the event that gives a use back, as its call never started."""
    return Event(GRANT_RETURNED, {"grant_ids": list(grant_ids)}, **columns)


def read(row: Mapping[str, Any], members: object) -> GrantSet:
    """Return the set in a row of `grant_sets`, from what its members' body holds."""
    rows = tuple([(each[0], each[1], each[2]) for each in cast("list[list[str]]", members)])
    return GrantSet(row["set_id"], row["subject"], row["task_id"], row["run"], rows)


@lru_cache(maxsize=64)
def _blob(members: tuple[_Member, ...]) -> Blob:
    rows = [list(each) for each in members]
    return Blob(rows, encoded=canonical(rows))
