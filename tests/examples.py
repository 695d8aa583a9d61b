"""How many examples a property gets whose every example costs much."""

from hypothesis import settings

_FEWEST = 3


def share(part):
    """Return settings with a part of the profile's examples."""
    return settings(max_examples=max(_FEWEST, round(settings().max_examples * part)))
