"""Grounding: whether a call's destinations come from the user, or from what a tool happened to say.

Values only: no I/O, no clock. Words ground what they name. Outputs of trusted tools do, too. Of any
other output only the fields that its tool declares as the user's own records do, and only for sinks
of that kind and type; all the rest of it is taint. More untrusted output never grounds anything,
more words never un-ground anything, and the order in which they come changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass, per_call
from clawhive_core.model.sinks import Place, SinkKind, leaves, picked, place_of
from clawhive_core.model.tools import Risk, ToolMeta, ToolResult
from clawhive_core.policy.occurrence import bare, canonical_value, may_name, occurs
from clawhive_core.protocols.check import CheckResult
from clawhive_core.skills.contracts.skill import Skill

MAX_WORDS = 1024 * 1024
"""Characters of words and trusted output that a run keeps; what comes later grounds nothing."""
MAX_RECORDS = 20_000
MAX_TAINT = 4 * 1024 * 1024
"""Characters of untrusted output that a run keeps; beyond it every value may come from there."""
_MAX_LEAVES = 100_000
_UNREAD = 1024 * 1024
"""About the characters of outputs that wait until a sink needs them."""
_FLAT, _STRUCTURED = 1024, 16 * 1024
"""The characters that an output counts beside its text: by itself, and with lists or objects."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_MAX_ASKED = 100
_TOO_MUCH = ("",)
"""Words that nobody says."""

WORDS = "the user's words"
CONTRACT = "the task's contract"


@dataclass(frozen=True, slots=True)
class _Record:
    """A field of the user's own records."""

    kind: SinkKind
    type: str
    source: str
    asked: tuple[str, ...] = ()
    """The values that its call asked for: it counts where the user named all of them."""
    skill: str = ""
    """The skill for whose own reading calls alone it counts; empty for every call."""


@per_call
class Seen:
    """The call whose output named a value."""

    tool: str
    step_id: str


@per_call
class _Taint:
    """A text of an untrusted output."""

    text: str
    bare: str
    named: tuple[str, ...]
    """The documents that its call asked for by name; empty where it asked for none."""
    seen: Seen


@dataclass(frozen=True, slots=True)
class SkillGrounds:
    """Places in the outputs of a skill's own calls that its further calls may name."""

    skill_id: str
    places: Mapping[str, tuple[str, ...]]
    """A tool's canonical name or alias to places of its output."""

    def of(self, tool: ToolMeta) -> tuple[str, ...]:
        """Return the places of a tool's output."""
        names = (tool.name, *tool.aliases)
        return next((self.places[name] for name in names if name in self.places), ())

    def to_dict(self, tool: ToolMeta) -> dict[str, Any]:
        """Return what holds for a call of a tool, as its row keeps it."""
        return {"skill": self.skill_id, "places": list(self.of(tool))}


def skill_grounds(skill: Skill) -> SkillGrounds | None:
    """Return what a skill's contract grounds; None where it grounds nothing or nobody trusts it."""
    return SkillGrounds(skill.id, skill.grounds) if skill.trusted and skill.grounds else None


class Grounds:
    """The sources that one run may take destinations from; they only grow.

    Args:
        words: What the user said: a prompt, a task's input.
    """

    def __init__(self, *words: Any) -> None:
        self._texts: dict[str, str] = {}
        self._room = MAX_WORDS
        self._records: defaultdict[tuple[SinkKind, str], dict[_Record, None]] = defaultdict(dict)
        self._record_count = 0
        self._taint: dict[tuple[str, tuple[str, ...]], _Taint] = {}
        self._taint_room = MAX_TAINT
        self._unread: list[tuple[Seen, tuple[str, ...], ToolResult]] = []
        self._unread_size = 0
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

    def learn(
        self,
        tool: ToolMeta,
        input: Mapping[str, Any],
        result: ToolResult,
        by: SkillGrounds | None = None,
        step_id: str = "",
    ) -> None:
        """Take what a call came to.

        Args:
            tool: The tool.
            input: What it was asked.
            result: What it answered.
            by: What the skill whose own call it was reads on from.
            step_id: Where it was made.
        """
        if tool.output_trust == "trusted" and not result.is_error:
            self.say((result.structured, result.output), f"output of {tool.name}")
            return
        traced = tool.records or tool.output_trust == "named"
        asked = _asked(input) if traced and not tool.side_effects else ()
        if tool.records and not result.is_error:
            for text in tool.records:
                self.record(place_of(text), result.value, f"records of {tool.name}", asked)
        if by is not None and not result.is_error:
            for text in by.of(tool):
                self._lend(place_of(text), result.value, by.skill_id, tool.name)
        named = asked if tool.output_trust == "named" else ()
        self._unread.append((Seen(tool.name, step_id), named, result))
        is_flat = type(result.structured) in _SCALARS
        self._unread_size += len(result.output) + (_FLAT if is_flat else _STRUCTURED)
        if self._unread_size >= _UNREAD:
            self._read()

    def record(self, place: Place, value: Any, source: str, asked: tuple[str, ...] = ()) -> None:
        """Take the values at a place as the user's own records."""
        self._keep(place, value, _Record(place.kind or "value", place.type, source, asked))

    def _lend(self, place: Place, value: Any, skill: str, tool: str) -> None:
        """Take the values at a place as what a skill's own reading calls may name."""
        source = f"contract of {skill}: output of {tool}"
        self._keep(place, value, _Record(place.kind or "value", place.type, source, skill=skill))

    def _keep(self, place: Place, value: Any, record: _Record) -> None:
        for each in picked(value, place.path):
            if isinstance(each, bool) or not isinstance(each, str | int):
                continue
            if self._record_count >= MAX_RECORDS:
                return
            held = self._records[record.kind, canonical_value(record.kind, str(each))]
            self._record_count += record not in held
            held[record] = None

    def source(self, place: Place, kind: SinkKind, value: str, skill: str = "") -> str | None:
        """Return what grounds a value, None where nothing does.

        Args:
            place: The sink.
            kind: What it names.
            value: The value.
            skill: The skill whose own reading call it is; empty for any other call.
        """
        for text, source in self._texts.items():
            if occurs(kind, value, text):
                return source
        for record in self._records.get((kind, canonical_value(kind, value)), ()):
            if record.type not in {"", place.type} or record.skill not in {"", skill}:
                continue
            if all(map(self._is_said, record.asked)):
                return record.source
        return None

    @property
    def is_full(self) -> bool:
        """Whether untrusted outputs were more than is kept, so that any value may be theirs."""
        self._read()
        return self._taint_room < 0 or (self._above is not None and self._above.is_full)

    def seen(self, kind: SinkKind, value: str) -> Seen | None:
        """Return the untrusted output that named a value first, of those that are kept."""
        self._read()
        return next((each.seen for each in self.naming(kind, value)), None)

    def is_named(self, kind: SinkKind, value: str) -> bool:
        """Whether each untrusted output that names a value is one that the user asked for by name.

        Such are outputs of tools whose `output_trust` is `named`, where the user's words name all
        that the call asked for.
        """
        if self.is_full:
            return False
        found = self.naming(kind, value)
        return all(each.named and all(map(self._is_said, each.named)) for each in found)

    def naming(self, kind: SinkKind, value: str) -> Iterator[_Taint]:
        """Yield the untrusted outputs that name a value, here and above."""
        self._read()
        for each in self._taint.values():
            if may_name(kind, value, each.text, each.bare):
                yield each
        if self._above is not None:
            yield from self._above.naming(kind, value)

    def _is_said(self, asked: str) -> bool:
        return any(occurs("recipient", asked, text) for text in self._texts)

    def _read(self) -> None:
        """Keep the texts of outputs; it waits until a sink needs them."""
        for seen, named, result in self._unread:
            value = result.structured
            texts = (result.output,) if value is None else leaves((value, result.output))
            for text in islice(texts, _MAX_LEAVES):
                if (text, named) in self._taint:
                    continue
                self._taint_room -= len(text)
                if self._taint_room < 0:
                    break
                self._taint[text, named] = _Taint(text, bare(text), named, seen)
        self._unread.clear()
        self._unread_size = 0


def _asked(input: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts that a call asks for; numbers and switches choose nothing."""
    values = (value for value in input.values() if not isinstance(value, int | float))
    texts = tuple(islice((text for value in values for text in leaves(value)), _MAX_ASKED + 1))
    return texts if len(texts) <= _MAX_ASKED else _TOO_MUCH


@dataclass(frozen=True, slots=True)
class Destination:
    """One value of a sink, and what grounds it."""

    argument: str
    kind: SinkKind
    value: str
    source: str | None
    """None where nothing grounds it."""
    tainted: bool = False
    """Whether an untrusted output names it, or may have, where nothing grounds it."""
    seen: Seen | None = None
    """The output that named it first, where it is tainted and that output is kept."""
    strict: bool = False
    """Whether its sink is, and an output that the user did not ask for by name names it."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as what a person is shown of where a value comes from."""
        seen = self.seen
        return {
            "argument": self.argument,
            "kind": self.kind,
            "value": preview(self.value),
            "source": self.source,
            "tainted": self.tainted,
            "seen_in": None if seen is None else {"tool": seen.tool, "step_id": seen.step_id},
        }


def destinations(
    tool: ToolMeta,
    input: Mapping[str, Any],
    grounds: Grounds,
    *,
    inside: bool = False,
    skill: str = "",
) -> Iterator[Destination]:
    """Yield each destination of a call.

    Args:
        tool: The tool; `sinks` says where destinations stand.
        input: The validated input.
        grounds: What the run may take them from.
        inside: Whether the call stays within the run's own folders, so that paths are none.
        skill: The skill whose own call it is, where its contract grounds what it reads.
    """
    reader = "" if tool.side_effects or tool.risk == "unsafe" else skill
    for place in map(place_of, tool.sinks):
        kind = place.kind or _kind_by_effect(tool, place.argument)
        if kind == "path" and inside:
            continue
        for value in leaves(list(picked(input, place.path))):
            source = grounds.source(place, kind, value, reader)
            seen = None if source is not None else grounds.seen(kind, value)
            tainted = source is None and (seen is not None or grounds.is_full)
            strict = place.strict and tainted and not grounds.is_named(kind, value)
            yield Destination(place.argument, kind, value, source, tainted, seen, strict)


def weigh_sinks(found: Iterable[Destination], risk: Risk) -> tuple[CheckResult, ...]:
    """Return what a call's destinations say: nothing where all are grounded, else ask.

    An unsafe tool, and a strict sink of any, is denied a destination that an untrusted output
    names; a person in a hurry would say yes to it.

    Args:
        found: The destinations.
        risk: The tool's.
    """
    results: dict[CheckResult, None] = {}
    for each in found:
        if each.source is not None:
            continue
        if each.strict or (each.tainted and risk == "unsafe"):
            results[CheckResult("deny", f"tainted.{each.argument}")] = None
        else:
            results[CheckResult("ask", f"sink.{each.argument}")] = None
    return tuple(results)


def _kind_by_effect(tool: ToolMeta, argument: str) -> SinkKind:
    effect = tool.effects.get(argument, "")
    verbs = (effect,) if isinstance(effect, str) else effect
    if any(verb.startswith("fs.") for verb in verbs):
        return "path"
    return "url" if any(verb.startswith("net.") for verb in verbs) else "value"
