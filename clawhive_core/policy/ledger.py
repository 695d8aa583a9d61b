"""The events of grants: issued, used, a use given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clawhive_core.errors import RunError
from clawhive_core.events.grant_sets import divided
from clawhive_core.events.kinds import GRANT_ISSUED
from clawhive_core.model.events import Event
from clawhive_core.model.grants import CapabilityGrant


def issued(grants: Sequence[CapabilityGrant], run: str = "", **ids: Any) -> Event:
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


def used(grant_ids: Sequence[str], **columns: Any) -> Event:
    """Return the event that counts a call as a use of grants, with all that they derive from."""
    return Event("grant.used", {"grant_ids": list(grant_ids)}, **columns)


def returned(grant_ids: Sequence[str], **columns: Any) -> Event:
    """Return the event that gives a use back, as its call never started."""
    return Event("grant.returned", {"grant_ids": list(grant_ids)}, **columns)


def used_up(grant_ids: Sequence[str]) -> RunError:
    """Return the error `grant_used_up` of grants without a use left; `data` names them."""
    return RunError(
        "every use of the right was made, or it was revoked",
        code="grant_used_up",
        fix="clawhive grants issue CAP --uses N",
        data={"grant_ids": list(grant_ids)},
    )
