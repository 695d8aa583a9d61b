"""The arrays and objects that some facts leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.document import Undecided
from clawhive_core.skills.compatibility.expansion import OtherKey
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
        """The first place from which on all places are the same."""

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


_MAX_PATTERNS = 4
_MOST_ADDED = 64


@dataclass(frozen=True, slots=True)
class Makers:
    """The rest of the search, as reasoning about objects asks for it."""

    solve: Solve
    another: Another
    make: Callable[[str, Any], Literal]
    """Returns the wanted literal of a schema of one keyword, the same for the same."""
    holds: Callable[[Literal, Any], bool]
    """Whether a real validator says of a value what a literal asks for."""


class Objects:
    """The objects that all the facts are true of."""

    def __init__(self, atoms: list[Atom], makers: Makers) -> None:
        self._makers = makers
        self._atoms = atoms
        self._least = max([each.value for each in atoms if each.kind == "least"], default=0)
        self._most = min([each.value for each in atoms if each.kind == "most"], default=None)
        self._absent: set[str] = set(self._values("absent"))
        self._given: list[tuple[str, Literal]] = self._values("value")
        self._demands: list[OtherKey] = self._values("other")
        self._present = dict.fromkeys(
            [*(name for name, _ in self._given), *self._values("present")]
        )
        self._open: list[Literal] = self._values("additionalProperties")
        self._shaped: list[Literal] = self._values("patternProperties")
        self._names: list[Literal] = [
            each.below("propertyNames", wanted=True) for each in self._values("propertyNames")
        ]
        self._known = self._all_names()

    def _values(self, kind: str) -> list[Any]:
        return [each.value for each in self._atoms if each.kind == kind]

    def _all_names(self) -> dict[str, None]:
        """Return every name that something speaks of, those that must be there first."""
        found = dict(self._present)
        for each in self._values("properties"):
            found |= dict.fromkeys(each.schema["properties"])
        for each in self._open:
            found |= dict.fromkeys(each.schema.get("properties", ()))
        for demand in self._demands:
            found |= dict.fromkeys(sorted(demand.names))
        return found | dict.fromkeys(sorted(self._absent))

    def _matches(self, pattern: str, name: str) -> bool:
        return self._makers.holds(self._makers.make("pattern", pattern), name)

    def _of(self, name: str) -> list[Literal]:
        """Return what the value under a name must meet."""
        found = [each for given, each in self._given if given == name]
        found += [
            each.below("properties", name, wanted=True)
            for each in self._values("properties")
            if name in each.schema["properties"]
        ]
        found += [
            each.below("patternProperties", pattern, wanted=True)
            for each in self._shaped
            for pattern in each.schema["patternProperties"]
            if self._matches(pattern, name)
        ]
        found += [
            each.below("additionalProperties", wanted=True)
            for each in self._open
            if name not in each.schema.get("properties", ())
            and not any(
                self._matches(one, name) for one in each.schema.get("patternProperties", ())
            )
        ]
        return found

    def _possible(self, name: str, more: Sequence[Literal] = ()) -> bool:
        """Whether nothing proves that there is no property of this name."""
        if name in self._absent:
            return False
        if not all(self._makers.holds(each, name) for each in self._names):
            return False
        return self._makers.solve([*self._of(name), *more]).state != "empty"

    def refuted(self) -> bool:
        """Whether it is proven that there is none."""
        least = max(self._least, len(self._present))
        if self._most is not None and least > self._most:
            return True
        if not all(map(self._possible, self._present)):
            return True
        if any(next(self._ways(demand), None) is None for demand in self._demands):
            return True
        if self._least <= len(self._present):
            return False
        return self._least > sum(map(self._possible, self._known)) and not any(self._kinds())

    def _patterns(self) -> list[str]:
        """Return every pattern that tells unknown names apart.

        Raises:
            Undecided: There are too many.
        """
        found: dict[str, None] = {}
        for each in (*self._shaped, *self._open):
            found |= dict.fromkeys(each.schema.get("patternProperties", ()))
        for demand in self._demands:
            found |= dict.fromkeys((*demand.inside, *demand.outside))
        if len(found) > _MAX_PATTERNS:
            raise Undecided("too many patterns of property names to compare")
        return list(found)

    def _kinds(
        self, demand: OtherKey | None = None
    ) -> Iterator[tuple[list[Literal], list[Literal]]]:
        """Yield, for each kind of unknown name that is possible, what name and value must meet."""
        patterns = self._patterns()
        for chosen in product((False, True), repeat=len(patterns)):
            matched = {each for each, inside in zip(patterns, chosen, strict=True) if inside}
            if demand and (
                not matched.issuperset(demand.inside) or not matched.isdisjoint(demand.outside)
            ):
                continue
            name, value = self._name(matched, patterns), self._unnamed(matched)
            if demand:
                name, value = [*name, *demand.named], [*value, *demand.values]
            states = {self._makers.solve(name).state, self._makers.solve(value).state}
            if "empty" not in states:
                yield name, value

    def _name(self, matched: set[str], patterns: list[str]) -> list[Literal]:
        found = [
            each if pattern in matched else each.opposite
            for pattern in patterns
            for each in [self._makers.make("pattern", pattern)]
        ]
        known = self._makers.make("enum", list(self._known))
        return [*found, self._makers.make("type", "string"), *self._names, known.opposite]

    def _unnamed(self, matched: set[str]) -> list[Literal]:
        found = [
            each.below("patternProperties", pattern, wanted=True)
            for each in self._shaped
            for pattern in each.schema["patternProperties"]
            if pattern in matched
        ]
        return found + [
            each.below("additionalProperties", wanted=True)
            for each in self._open
            if matched.isdisjoint(each.schema.get("patternProperties", ()))
        ]

    def _ways(self, demand: OtherKey) -> Iterator[tuple[Any, list[Literal]]]:
        """Yield the properties that could answer a demand: a name or its literals; its value's."""
        is_full = self._most is not None and len(self._present) >= self._most
        for name in self._present if is_full else self._known:
            if name not in demand.names and self._answers(name, demand):
                more = list(demand.values)
                if self._possible(name, more):
                    yield name, [*self._of(name), *more]
        if not is_full:
            yield from self._kinds(demand)

    def _answers(self, name: str, demand: OtherKey) -> bool:
        return (
            all(self._makers.holds(each, name) for each in demand.named)
            and all(self._matches(each, name) for each in demand.inside)
            and not any(self._matches(each, name) for each in demand.outside)
        )

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Yield objects that are likely to be among them."""
        found: dict[str, Any] = {}
        for name in self._present:
            outcome = self._makers.solve(self._of(name))
            if outcome.state != "found":
                return
            found[name] = outcome.value
        if not self._demands:
            yield from self._completed(found)
            return
        first, *rest = self._demands
        for name, literals in self._ways(first):
            built = self._with(dict(found), name, literals)
            for demand in rest:
                way = next(self._ways(demand), None)
                built = self._with(built, *way) if built and way else {}
            if built:
                yield from self._completed(built)

    def _with(self, found: dict[str, Any], name: Any, literals: list[Literal]) -> dict[str, Any]:
        """Return the object with one property more; empty where none was found."""
        if not isinstance(name, str):
            word = self._makers.another(name, list(found))
            if word.state != "found":
                return {}
            name = word.value
        outcome = self._makers.solve(literals)
        return {**found, name: outcome.value} if outcome.state == "found" else {}

    def _completed(self, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the object with as many properties as it must have, and with an optional one."""
        if len(found) >= self._least:
            yield found
        for name in self._known:
            if len(found) < self._least and name not in found and self._possible(name):
                found = self._with(found, name, self._of(name)) or found
        missing = self._least - len(found)
        if missing > _MOST_ADDED:
            return
        for kind in self._kinds() if missing > 0 else ():
            while len(found) < self._least and (more := self._with(found, *kind)):
                found = more
        if missing > 0 or len(found) == self._least:
            yield found
