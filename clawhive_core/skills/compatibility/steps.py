"""The bound of a comparison, counted in steps so that equal schemas get equal answers."""

from __future__ import annotations


class Undecided(Exception):
    """It cannot be decided; the message says why."""


class Steps:
    """What is left of a comparison's allowance."""

    def __init__(self, allowed: int) -> None:
        self._left = allowed

    def spend(self) -> None:
        """Take one step.

        Raises:
            Undecided: None is left.
        """
        self._left -= 1
        if self._left < 0:
            raise Undecided("the schemas are too large to compare within the bound")
