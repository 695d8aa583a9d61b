"""A demand on a value: to meet, or to fail, a schema; and the parts that such a demand comes to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.document import Document, Undecided

SAMPLES = {
    "date-time": ("2024-01-31T12:00:00Z",),
    "date": ("2024-01-31",),
    "time": ("12:00:00Z",),
    "duration": ("P1D",),
    "email": ("a@example.com",),
    "idn-email": ("a@example.com",),
    "hostname": ("example.com", "a"),
    "idn-hostname": ("example.com", "a"),
    "ipv4": ("127.0.0.1",),
    "ipv6": ("::1", "2001:db8::1"),
    "uri": ("https://example.com/a", "urn:a"),
    "iri": ("https://example.com/a", "urn:a"),
    "uri-reference": ("/a", "https://example.com/a"),
    "iri-reference": ("/a", "https://example.com/a"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "uri-template": ("/{a}", "a"),
    "json-pointer": ("/a", ""),
    "relative-json-pointer": ("1/a", "0"),
    "regex": ("^a$", "a"),
}
"""Strings of the formats that JSON Schema names; others (`int64`) refuse no value."""
OF_NO_FORMAT = ("not one", "{", "[", "a~2", "%", "::", "<", "-", "")
"""Strings of which one or another is of no such format."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A sub-schema that a value must meet (`wanted`), or must fail."""

    schema: Any
    document: Document
    pointer: str | None
    """The place in its document; None where it was made for a comparison."""
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
    """The outcome of a search for values that meet a list of literals."""

    state: str
    """`empty`: proven that there is none; `found`: a real validator agrees; `unknown`."""
    value: Any = None
    why: str = ""


EMPTY = Outcome("empty")


def unknown(why: str) -> Outcome:
    """Return that nothing is known, and why."""
    return Outcome("unknown", None, why)


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
