"""Grounding: whether a call's destinations come from the user, or from what a tool happened to say.

Values only: no I/O, no clock. Words ground what they name. Outputs of trusted tools do, too. Of any
other output only the fields that its tool declares as the user's own records do, and only for sinks
of that kind and type; all the rest of it is taint. More untrusted output never grounds anything,
more words never un-ground anything, and the order in which they come changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from clawhive_core.model.sinks import Place, SinkKind, leaves, picked, place_of
from clawhive_core.model.tools import ToolMeta, ToolResult
from clawhive_core.policy.occurrence import canonical_value, occurs
from clawhive_core.protocols.check import CheckResult

MAX_WORDS = 1024 * 1024
"""Characters of words and trusted output that a run keeps; what comes later grounds nothing."""
MAX_RECORDS = 20_000
MAX_TAINT = 4 * 1024 * 1024
"""Characters of untrusted output that a run keeps; beyond it every value may come from there."""
_MAX_LEAVES = 100_000
_UNREAD = 64

WORDS = "the user's words"
CONTRACT = "the task's contract"


@dataclass(frozen=True, slots=True)
class _Record:
    """A field of the user's own records."""

    kind: SinkKind
    type: str
    source: str
    asked: tuple[str, ...]
    """What the call that returned it asked for: it counts where the user named all of that."""


class Grounds:
    """What one run may take destinations from; it only grows.

    Args:
        words: What the user said: a prompt, a task's input.
    """

    def __init__(self, *words: Any) -> None:
        self._texts: dict[str, str] = {}
        self._room = MAX_WORDS
        self._records: defaultdict[tuple[SinkKind, str], dict[_Record, None]] = defaultdict(dict)
        self._record_count = 0
        self._taint: dict[str, None] = {}
        self._taint_room = MAX_TAINT
        self._unread: list[ToolResult] = []
        self._above: Grounds | None = None
        for each in words:
            self.say(each)

    def say(self, value: Any, source: str = WORDS) -> None:
        """Take a text, or every text and number in a value, as the user's."""
        for text in islice(leaves(value), _MAX_LEAVES):
            if text not in self._texts and len(text) <= self._room:
                self._texts[text] = source
                self._room -= len(text)

    @property
    def words(self) -> tuple[str, ...]:
        """The texts that the user said."""
        return tuple(text for text, source in self._texts.items() if source == WORDS)

    def below(self, above: Grounds) -> Grounds:
        """Let what taints another run's destinations taint these: that run writes this one's task.

        What grounds them there grounds nothing here.
        """
        self._above = above
        return self

    def learn(self, tool: ToolMeta, input: Mapping[str, Any], result: ToolResult) -> None:
        """Take what a call came to."""
        if tool.output_trust == "trusted" and not result.is_error:
            self.say((result.structured, result.output), f"output of {tool.name}")
            return
        if tool.records and not result.is_error:
            asked = () if tool.side_effects else tuple(islice(leaves_of_values(input), 100))
            for text in tool.records:
                self.record(place_of(text), result.value, f"records of {tool.name}", asked)
        self._unread.append(result)
        if len(self._unread) >= _UNREAD:
            self._read()

    def record(self, place: Place, value: Any, source: str, asked: tuple[str, ...] = ()) -> None:
        """Take the values at a place as the user's own records."""
        kind = place.kind or "value"
        record = _Record(kind, place.type, source, asked)
        for each in picked(value, place.path):
            if isinstance(each, bool) or not isinstance(each, str | int):
                continue
            if self._record_count >= MAX_RECORDS:
                return
            held = self._records[kind, canonical_value(kind, str(each))]
            self._record_count += record not in held
            held[record] = None

    def source(self, place: Place, kind: SinkKind, value: str) -> str | None:
        """Return what grounds a value, None where nothing does."""
        for text, source in self._texts.items():
            if occurs(kind, value, text):
                return source
        for record in self._records.get((kind, canonical_value(kind, value)), ()):
            if record.type in {"", place.type} and all(map(self._is_said, record.asked)):
                return record.source
        return None

    def is_tainted(self, kind: SinkKind, value: str) -> bool:
        """Whether an untrusted output names a value, or may have."""
        self._read()
        if self._taint_room < 0 or any(occurs(kind, value, text) for text in self._taint):
            return True
        return self._above is not None and self._above.is_tainted(kind, value)

    def _is_said(self, asked: str) -> bool:
        return any(occurs("recipient", asked, text) for text in self._texts)

    def _read(self) -> None:
        """Keep the texts of outputs; it waits until a sink needs them."""
        for result in self._unread:
            value = result.structured
            texts = (result.output,) if value is None else leaves((value, result.output))
            for text in islice(texts, _MAX_LEAVES):
                if text in self._taint:
                    continue
                self._taint_room -= len(text)
                if self._taint_room < 0:
                    break
                self._taint[text] = None
        self._unread.clear()


def leaves_of_values(input: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that a call asks for; numbers and switches choose nothing."""
    for value in input.values():
        if not isinstance(value, int | float):
            yield from leaves(value)


@dataclass(frozen=True, slots=True)
class Destination:
    """One value of a sink, and what grounds it."""

    argument: str
    kind: SinkKind
    value: str
    source: str | None
    """None where nothing grounds it."""
    tainted: bool = False
    """Whether an untrusted output names it, where nothing grounds it."""


def destinations(
    tool: ToolMeta, input: Mapping[str, Any], grounds: Grounds, *, inside: bool = False
) -> Iterator[Destination]:
    """Yield each destination of a call.

    Args:
        tool: The tool; `sinks` says where destinations stand.
        input: The validated input.
        grounds: What the run may take them from.
        inside: Whether the call stays within the run's own folders, so that paths are none.
    """
    for place in map(place_of, tool.sinks):
        kind = place.kind or _kind_by_effect(tool, place.argument)
        if kind == "path" and inside:
            continue
        for value in leaves(list(picked(input, place.path))):
            source = grounds.source(place, kind, value)
            tainted = source is None and grounds.is_tainted(kind, value)
            yield Destination(place.argument, kind, value, source, tainted)


def weigh_sinks(
    tool: ToolMeta, input: Mapping[str, Any], grounds: Grounds, *, inside: bool = False
) -> tuple[CheckResult, ...]:
    """Return what a call's destinations say: nothing where all are grounded, else ask.

    An unsafe tool is denied a destination that an untrusted output names; a person in a hurry would
    say yes to it.
    """
    found: dict[CheckResult, None] = {}
    for each in destinations(tool, input, grounds, inside=inside):
        if each.source is not None:
            continue
        if each.tainted and tool.risk == "unsafe":
            found[CheckResult("deny", f"tainted.{each.argument}")] = None
        else:
            found[CheckResult("ask", f"sink.{each.argument}")] = None
    return tuple(found)


def _kind_by_effect(tool: ToolMeta, argument: str) -> SinkKind:
    effect = tool.effects.get(argument, "")
    verbs = (effect,) if isinstance(effect, str) else effect
    if any(verb.startswith("fs.") for verb in verbs):
        return "path"
    return "url" if any(verb.startswith("net.") for verb in verbs) else "value"
