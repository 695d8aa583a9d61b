"""A task's boundary: the meet of what the user's side gives and what its skill permits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clawhive_core.capabilities import meet, normalise, parse
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.ids import new_id


def within(
    grants: Sequence[CapabilityGrant], permissions: Sequence[str], variables: Mapping[str, str]
) -> list[CapabilityGrant]:
    """Return the grants cut down to a skill's permissions; no permissions, nothing cut.

    Raises:
        CapabilityError: A permission cannot be used.
    """
    if not permissions:
        return list(grants)
    bounds = [parse(normalise(text, variables)) for text in permissions]
    found: dict[CapabilityGrant, CapabilityGrant] = {}
    for grant in grants:
        pattern = parse(grant.capability)
        for bound in bounds:
            common = meet(pattern, bound)
            if common is not None:
                cut = replace(grant, grant_id="", capability=common.text)
                found.setdefault(cut, replace(cut, grant_id=new_id("grant")))
    return list(found.values())
