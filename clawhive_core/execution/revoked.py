"""The end of work under way when its right is revoked: a tool and all it opened, a model's turn."""

from __future__ import annotations

from collections.abc import Callable, Collection

from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.policy.rules import Rules


def ends_with_rights(
    rules: Rules, rights: Collection[str], cut: Callable[[], None]
) -> Callable[[], object]:
    """Have what is under way cut when a grant that allowed it is revoked.

    What a person approved as this one call needs no grant, and goes on.

    Args:
        rules: What tells of revocations.
        rights: The ids of the grants.
        cut: What ends it, now or soon.

    Returns:
        What ends the watch.
    """

    def tell(ended: tuple[CapabilityGrant, ...]) -> None:
        if any(each.grant_id in rights for each in ended):
            cut()

    return rules.on_revoked(tell)
