"""What a value is asked for: to meet, or to fail, a schema; and the parts such an ask comes to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.document import Document
from clawhive_core.skills.compatibility.steps import Undecided


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A sub-schema that a value must meet (`wanted`), or must fail."""

    schema: Any
    document: Document
    pointer: str | None
    """Where it stands in its document; None where it was made for a comparison."""
    wanted: bool = True

    @property
    def opposite(self) -> Literal:
        """The same schema, asked for the other way."""
        return replace(self, wanted=not self.wanted)

    def below(self, *path: str | int, wanted: bool) -> Literal:
        """Return the literal of a schema inside this one."""
        found, pointer = self.schema, self.pointer
        for part in path:
            found = found[part]
            if pointer is not None:
                pointer += "/" + str(part).replace("~", "~0").replace("/", "~1")
        return Literal(found, self.document, pointer, wanted)

    @property
    def text(self) -> str:
        """A text that is equal only where the schemas mean the same."""
        return self.document.text(self.schema)

    def allows(self, value: Any, *, formats: bool) -> bool:
        """Whether a real validator says of a value what is asked for.

        Raises:
            Undecided: It says nothing.
        """
        accepts = self.document.accepts(self.schema, self.pointer, formats=formats)
        try:
            return accepts(value) is self.wanted
        except Exception as error:  # two libraries, each with many classes of errors
            raise Undecided(f"a validator fails: {str(error)[:120]}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """One fact about a value of a known type, for the reasoning about that type."""

    kind: str
    """A keyword, or a fact that no keyword states: `absent`, `value`, `other`, `at`, `element`."""
    value: Any = None
    wanted: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A part that is a branch of its own."""

    branch: Branch


@dataclass(frozen=True, slots=True, eq=False)
class Later:
    """Parts that are looked at once nothing else contradicts: a proof seldom needs them."""

    parts: list[Part]


Part = Literal | Atom | Choice | Later
Branch = list[list[Part]]
"""Ways to go on, of which one must hold; each is a list of parts that hold together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of the values that meet a list of literals."""

    state: str
    """`empty`: proven that there is none; `found`: a real validator agrees; `unknown`."""
    value: Any = None
    why: str = ""


EMPTY = Outcome("empty")


def unknown(why: str) -> Outcome:
    """Return that nothing is known, and why."""
    return Outcome("unknown", None, why)
