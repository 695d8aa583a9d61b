"""What is left of the arrays by their elements, lengths and repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from clawhive_core.skills.compatibility.literal import Atom, Literal, Outcome

Solve = Callable[[Sequence[Literal]], Outcome]
"""Decides about the values that meet literals; of two answers for the same, the same."""
Another = Callable[[Sequence[Literal], Sequence[Any]], Outcome]
"""Finds one that is none of some values."""
_LONGEST = 300
_MAX_PLACEMENTS = 16


class Arrays:
    """The arrays that all the facts are true of."""

    def __init__(self, atoms: list[Atom], solve: Solve, another: Another) -> None:
        self._solve = solve
        self._another = another
        self._atoms = atoms
        self._least = max([each.value for each in atoms if each.kind == "least"], default=0)
        self._most = min([each.value for each in atoms if each.kind == "most"], default=None)
        self._demands: list[tuple[int, Literal]] = self._values("element")
        self._fixed: list[tuple[int, Literal]] = self._values("at")
        starts = [self._start(each) for each in self._values("items")]
        starts += [len(each.schema["prefixItems"]) for each in self._values("prefixItems")]
        starts += [place + 1 for place, _ in self._fixed] + [start for start, _ in self._demands]
        self._tail = max(starts, default=0)
        """The first place from which on all places are alike."""

    def _values(self, kind: str) -> list[Any]:
        return [each.value for each in self._atoms if each.kind == kind]

    @staticmethod
    def _start(items: Literal) -> int:
        return len(items.schema.get("prefixItems", ()))

    def _at(self, place: int) -> list[Literal]:
        """Return what an element must meet by its place."""
        found = [each for at, each in self._fixed if at == place] + self._values("all")
        for each in self._values("items"):
            if place >= self._start(each):
                found.append(each.below("items", wanted=True))
        for each in self._values("prefixItems"):
            if place < len(each.schema["prefixItems"]):
                found.append(each.below("prefixItems", place, wanted=True))
        return found

    def _limit(self) -> int | None:
        """Return the most elements there can be: up to the first place nothing can stand at."""
        for place in range(self._tail + 1):
            if self._most is not None and place >= self._most:
                return self._most
            if self._solve(self._at(place)).state == "empty":
                return place
        return self._most

    def refuted(self) -> bool:
        """Whether it is proven that there is none."""
        if self._most is not None and self._least > self._most:
            return True
        kinds = {each.kind for each in self._atoms}
        if {"unique", "same"} <= kinds:
            return True
        limit = self._limit()
        if limit is not None and self._least > limit:
            return True
        return any(not self._options(demand, limit) for demand in self._demands)

    def _options(self, demand: tuple[int, Literal], limit: int | None) -> list[int]:
        start, literal = demand
        return [
            place
            for place in range(start, self._tail + 1)
            if (limit is None or place < limit)
            and self._solve([*self._at(place), literal]).state != "empty"
        ]

    def candidates(self) -> Iterator[list[Any]]:
        """Yield arrays that are likely to be among them."""
        limit = self._limit()
        ways = [self._options(each, limit) for each in self._demands]
        for count, chosen in enumerate(product(*(reversed(each) for each in ways))):
            if count == _MAX_PLACEMENTS:
                return
            for merged in (False, True):
                built = self._built(chosen, merged=merged)
                if built is not None:
                    yield built

    def _built(self, chosen: Sequence[int], *, merged: bool) -> list[Any] | None:
        wants: dict[int, list[Literal]] = {}
        following = self._tail
        for place, (_, literal) in zip(chosen, self._demands, strict=True):
            if place == self._tail and not merged:
                place, following = following, following + 1  # noqa: PLW2901 - its own place
            wants.setdefault(place, []).append(literal)
        length = max([self._least, *(place + 1 for place in wants)])
        if length > _LONGEST:
            return None
        return self._filled(length, wants)

    def _filled(self, length: int, wants: dict[int, list[Literal]]) -> list[Any] | None:
        kinds = {each.kind for each in self._atoms}
        found: list[Any] = []
        for place in range(length):
            literals = [*self._at(min(place, self._tail)), *wants.get(place, ())]
            if "unique" in kinds and found:
                outcome = self._another(literals, found)
            else:
                outcome = self._solve(literals)
            if outcome.state != "found":
                return None
            found.append(outcome.value)
        if "same" in kinds and length > 1:
            found[-1] = found[-2]
        return found
