"""What is left of null, true and false."""

from __future__ import annotations

from collections.abc import Iterator

from clawhive_core.skills.compatibility.literal import Atom


class Constants:
    """The values of a type of few values that all the facts are true of."""

    def __init__(self, kind: str, atoms: list[Atom]) -> None:
        values = [None] if kind == "null" else [False, True]
        out = [each.value for each in atoms if each.kind == "enum" and not each.wanted]
        self._left = [
            each for each in values if not any(each is other for some in out for other in some)
        ]

    def refuted(self) -> bool:
        """Whether it is proven that there is none."""
        return not self._left

    def candidates(self) -> Iterator[bool | None]:
        """Yield those that may be among them."""
        yield from self._left
