"""Sinks and records: destinations in a tool's input, and the user's own records in its output.

A declaration is a text: `to`, `to:recipient`, `attachments/*/file_id:selector.file`. Its segments
are keys of objects, or `*` for each item of a list or each value of an object, or `*[KEY=TEXT]` for
those that hold this text there. Then comes a kind, and after a dot a type of the tool's choice, so
that the id of an event is none of a file. A sink that ends in `!` is strict: it is denied, not
asked about, what only a stranger's words name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, cast, get_args

from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern

SinkKind = Literal["recipient", "url", "account", "path", "selector", "value"]
"""The thing that an argument names: a person who gets something, an address of the web, a place
where money goes, a file, the thing that is changed, or a text that must be the user's own, such as
a new password."""

KINDS: tuple[SinkKind, ...] = get_args(SinkKind)
EACH = "*"
_LISTS = (list, tuple)
_NUMBERS = (int, float)
_TYPE = pattern(r"[A-Za-z0-9_-]{1,64}")
_WHERE = pattern(r"\*\[([^\[\]=]+)=([^\[\]=]+)\]")


@dataclass(frozen=True, slots=True)
class Place:
    """One declaration, read."""

    path: tuple[str, ...]
    kind: SinkKind | None = None
    """None where it names no kind: what the argument's effect says, else `value`."""
    type: str = ""
    strict: bool = False
    """Whether a value that only a stranger's words name is denied."""

    @property
    def argument(self) -> str:
        """The first segment: the argument, for a sink."""
        return self.path[0]


@lru_cache(maxsize=4096)
def place_of(text: str) -> Place:
    """Return what a declaration says.

    Raises:
        ValueError: It cannot be read; the message says why.
    """
    path, colon, what = text.rpartition(":")
    if not colon:
        path, what = text, ""
    strict = what.endswith("!")
    kind, dot, type_ = what.removesuffix("!").partition(".")
    segments = tuple(path.split("/"))
    if not all(segments):
        raise ValueError(f"{text!r} has an empty segment; write ARGUMENT or ARGUMENT/*/KEY")
    if any("[" in each and _WHERE.fullmatch(each) is None for each in segments):
        raise ValueError(f"{text!r} has a condition that cannot be read; write *[KEY=TEXT]")
    if not colon:
        return Place(segments)
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind; use one of: {', '.join(KINDS)}")
    if dot and _TYPE.fullmatch(type_) is None:
        raise ValueError(f"{type_!r} is no type: write letters, digits, `_` and `-`")
    return Place(segments, kind, type_, strict)


def sink_problems(
    declared: Iterable[object], arguments: Iterable[str] | None, *, records: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with declarations, as pairs of problem and fix.

    Args:
        declared: Sinks or records.
        arguments: What sinks may name; None for anything.
        records: Whether they are records.
    """
    for text in declared:
        if not isinstance(text, str):
            yield f"{text!r} is no text", "write PLACE:KIND or PLACE:KIND.TYPE"
            continue
        try:
            place = place_of(text)
        except ValueError as error:
            yield f"{text!r} cannot be read: {error}", "write PLACE:KIND or PLACE:KIND.TYPE"
            continue
        if records and place.strict:
            yield f"the record {text!r} ends in `!`, which only a sink may", "leave the `!` out"
        if arguments is not None and place.argument not in arguments:
            yield f"the sink {text!r} is no parameter", f"name one of: {', '.join(arguments)}"


def names_of(sinks: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments that sinks name, each once."""
    return tuple(dict.fromkeys(place_of(sink).argument for sink in sinks))


def picked(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values at a path; where nothing is, nothing."""
    if not path:
        yield value
        return
    segment, rest = path[0], path[1:]
    if (where := _WHERE.fullmatch(segment)) is not None:
        items = (each for each in picked(value, (EACH,)) if _holds(each, *where.groups()))
        for item in items:
            yield from picked(item, rest)
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        if segment == EACH:
            for item in fields.values():
                yield from picked(item, rest)
        elif segment in fields:
            yield from picked(fields[segment], rest)
    elif segment == EACH and isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from picked(item, rest)


def _holds(item: Any, key: str, text: str) -> bool:
    return isinstance(item, Mapping) and cast("Mapping[str, Any]", item).get(key) == text


def leaves(value: Any) -> Iterator[str]:
    """Yield every text and number in a value, as text; keys of objects too."""
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if item:
                yield item
        elif isinstance(item, _NUMBERS):
            if not isinstance(item, bool):
                yield str(item)
        elif isinstance(item, _LISTS):
            left += item[::-1]
        elif isinstance(item, Mapping):
            for key, inner in [*cast("Mapping[Any, Any]", item).items()][::-1]:
                left += (inner, key)
