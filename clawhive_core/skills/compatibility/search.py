"""The search for a value that meets some schemas and fails others: found, proven empty, or neither.

A tableau over the type of the value. What is proven empty is proven whatever validators do with
formats; a value that is found was given to a real validator. A goal inside its own proof is empty:
the least value that met it would hold a smaller one (values are finite trees).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Protocol

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.containers import Arrays, Makers, Objects
from clawhive_core.skills.compatibility.document import Document, Steps, Undecided
from clawhive_core.skills.compatibility.expansion import TYPES, declared_types, expand, type_of
from clawhive_core.skills.compatibility.literal import (
    EMPTY,
    Atom,
    Branch,
    Choice,
    Constants,
    Later,
    Literal,
    Outcome,
    Part,
    unknown,
)
from clawhive_core.skills.compatibility.scalars import Numbers, Strings

_MAX_DEPTH = 40
_MANY_BRANCHES = 3
_MAX_CANDIDATES = 24
_Goal = frozenset[tuple[str, bool]]


class _Theory(Protocol):
    def refuted(self) -> bool: ...
    def candidates(self) -> Iterator[Any]: ...


@dataclass(slots=True)
class _Level:
    """The state of one value while its literals are taken apart."""

    kind: str
    asked: Sequence[Literal]
    atoms: list[Atom] = field(default_factory=list[Atom])
    branches: list[Branch] = field(default_factory=list[Branch])
    seen: dict[str, bool] = field(default_factory=dict[str, bool])
    later: list[Part] = field(default_factory=list[Part])

    def add(self, parts: Iterable[Part], steps: Steps) -> bool:
        """Take in parts and all that follows without a choice; False: a contradiction."""
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            if isinstance(part, Atom):
                self.atoms.append(part)
                continue
            if isinstance(part, Choice):
                self.branches.append(part.branch)
                continue
            if isinstance(part, Later):
                self.later += part.parts
                continue
            before = self.seen.get(part.text)
            if before is not None:
                if before is not part.wanted:
                    return False
                continue
            steps.spend()
            self.seen[part.text] = part.wanted
            for branch in expand(part, self.kind):
                if not branch:
                    return False
                waiting += branch[0] if len(branch) == 1 else [Choice(branch)]
        return True

    def choose(self) -> tuple[_Level, Branch]:
        """Return the level without the branch that says most, and that branch."""
        branch, rest = min(self.branches, key=_promise), self.copy()
        rest.branches = [each for each in rest.branches if each is not branch]
        return rest, branch

    def copy(self) -> _Level:
        """Return a level of its own with the same held."""
        copies = (list(self.atoms), list(self.branches), dict(self.seen), list(self.later))
        return _Level(self.kind, self.asked, *copies)


def _promise(branch: Branch) -> tuple[bool, int]:
    """Return what puts a branch before others: all its ways say what the value is; few ways."""
    firsts = [parts[0] for parts in branch if parts]
    return not all(isinstance(each, Literal) and each.wanted for each in firsts), len(branch)


class Search:
    """The cache of one comparison's goals."""

    def __init__(self, steps: Steps, *, formats: bool, has_formats: bool) -> None:
        self._steps = steps
        self._formats = formats
        self._has_formats = has_formats
        self._doubt = ""
        self._known: dict[_Goal, Outcome] = {}
        self._open: list[_Goal] = []
        self._lowest: int = _MAX_DEPTH + 1
        self._made: dict[tuple[str, str], Literal] = {}
        self._made_in = Document({})

    def solve(self, literals: Sequence[Literal]) -> Outcome:
        """Decide whether a value meets all the literals.

        Raises:
            Undecided: No steps are left.
        """
        goal = frozenset((each.text, each.wanted) for each in literals)
        known = self._known.get(goal)
        if known is not None:
            return known
        if any((text, not wanted) in goal for text, wanted in goal):
            return EMPTY
        for place, each in enumerate(self._open):
            if each <= goal:
                self._lowest = min(self._lowest, place)
                return EMPTY
        if len(self._open) >= _MAX_DEPTH:
            self._doubt = "the schemas are nested too deeply to compare"
            return unknown(self._doubt)
        return self._opened(goal, literals)

    def _opened(self, goal: _Goal, literals: Sequence[Literal]) -> Outcome:
        self._steps.spend()
        place, outside = len(self._open), self._lowest
        self._lowest = _MAX_DEPTH + 1
        self._open.append(goal)
        try:
            outcome = self._any_type(literals)
        finally:
            self._open.pop()
            inside, self._lowest = self._lowest, min(outside, self._lowest)
            if inside >= place:  # nothing outside this goal was leaned on
                self._lowest = outside
        if inside >= place or outcome.state == "found":
            self._known[goal] = outcome
        return outcome

    def _any_type(self, literals: Sequence[Literal]) -> Outcome:
        kinds = set(TYPES)
        for each in literals:
            if each.wanted:
                kinds &= declared_types(each.schema)
        return self._first(self._of_type(kind, literals) for kind in TYPES if kind in kinds)

    @staticmethod
    def _first(outcomes: Iterable[Outcome]) -> Outcome:
        """Return the first value found, else what keeps the whole from being empty."""
        doubt = EMPTY
        for outcome in outcomes:
            if outcome.state == "found":
                return outcome
            if outcome.state == "unknown" and doubt is EMPTY:
                doubt = outcome
        return doubt

    def _of_type(self, kind: str, literals: Sequence[Literal]) -> Outcome:
        try:
            for each in literals:
                values = _listed(each.schema) if each.wanted else None
                if values is not None:
                    return self._among(values, literals, kind)
            level = _Level(kind, literals)
            return self._searched(level) if level.add(literals, self._steps) else EMPTY
        except Undecided as error:
            self._steps.spend()  # raises again where it was the bound
            return unknown(str(error))

    def _among(self, values: Sequence[Any], literals: Sequence[Literal], kind: str) -> Outcome:
        """Decide about a list of all the values there can be."""
        doubt = EMPTY
        for value in values:
            if type_of(value) != kind:
                continue
            if self._holds_all(literals, value, formats=self._formats):
                return Outcome("found", value)
            if self._has_formats and self._holds_all(literals, value, formats=not self._formats):
                doubt = unknown("it depends on whether formats are asserted")
        return doubt

    def _holds_all(self, literals: Sequence[Literal], value: Any, *, formats: bool) -> bool:
        return all(each.allows(value, formats=formats) for each in literals)

    def _searched(self, level: _Level) -> Outcome:
        self._steps.spend()
        for atom in level.atoms:
            if atom.kind == "enum" and atom.wanted:
                return self._among(atom.value, level.asked, level.kind)
        theory = self._theory(level)
        if theory.refuted():
            return EMPTY
        if not level.branches:
            return self._postponed(level) if level.later else self._built(level, theory)
        if len(level.branches) >= _MANY_BRANCHES and not self._narrowed(level):
            return EMPTY
        if not level.branches:
            return self._searched(level)
        rest, branch = level.choose()
        return self._first(self._chosen(rest, parts) for parts in branch)

    def _postponed(self, level: _Level) -> Outcome:
        parts, level.later = level.later, []
        return self._searched(level) if level.add(parts, self._steps) else EMPTY

    def _narrowed(self, level: _Level) -> bool:
        """Leave out the ways that contradict what is held; False: a branch has none left."""
        branches, level.branches = level.branches, []
        left: list[Branch] = []
        for branch in branches:
            ways = [parts for parts in branch if self._can_hold(level, parts)]
            if not ways:
                return False
            if len(ways) > 1:
                left.append(ways)
            elif not level.add(ways[0], self._steps):
                return False
        level.branches += left
        return True

    def _can_hold(self, level: _Level, parts: list[Part]) -> bool:
        self._steps.spend()
        tried = level.copy()
        return tried.add(parts, self._steps) and not self._theory(tried).refuted()

    def _chosen(self, rest: _Level, parts: list[Part]) -> Outcome:
        level = rest.copy()
        return self._searched(level) if level.add(parts, self._steps) else EMPTY

    def _theory(self, level: _Level) -> _Theory:
        match level.kind:
            case "number":
                return Numbers(level.atoms)
            case "string":
                return Strings(level.atoms, self._steps)
            case "boolean" | "null":
                return Constants(level.kind, level.atoms)
            case "array":
                return Arrays(level.atoms, self.solve, self._another)
            case _:
                makers = Makers(self.solve, self._another, self._make, self._holds)
                return Objects(level.atoms, makers)

    def _built(self, level: _Level, theory: _Theory) -> Outcome:
        for value in islice(theory.candidates(), _MAX_CANDIDATES):
            if self._holds_all(level.asked, value, formats=self._formats):
                return Outcome("found", value)
        said = f"no {level.kind} was found that shows it, nor a proof that there is none"
        return unknown(self._doubt or said)

    def _make(self, keyword: str, value: Any) -> Literal:
        key = (keyword, repr(value))
        if key not in self._made:
            self._made[key] = Literal({keyword: value}, self._made_in, None)
        return self._made[key]

    def _holds(self, literal: Literal, value: Any) -> bool:
        """Whether a literal is met, be formats asserted or not."""
        return literal.allows(value, formats=self._formats) or (
            self._has_formats and literal.allows(value, formats=not self._formats)
        )

    def _another(self, literals: Sequence[Literal], taken: Sequence[Any]) -> Outcome:
        """Decide about the values that are none of those taken."""
        first = self.solve(literals)
        if first.state != "found" or first.value not in taken:
            return first
        return self.solve([*literals, self._make("enum", list(taken)).opposite])


def _listed(schema: Any) -> Sequence[Any] | None:
    """Return the values that a schema's own words leave, where it lists them."""
    if isinstance(schema, bool):
        return None
    return [schema["const"]] if "const" in schema else schema.get("enum")
