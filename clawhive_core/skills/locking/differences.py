"""The differences of skills from their lock, and the promises that these break."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema, Level, Risk
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.deprecation import WINDOW
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.documents.place import Place
from clawhive_core.skills.locking.lock_file import (
    NAME,
    RELOCK,
    Lock,
    LockedImport,
    LockedSkill,
    LockedTool,
    LockFile,
)
from clawhive_core.skills.locking.locker import GIVEN

if TYPE_CHECKING:
    from clawhive_core.skills.compatibility import Compatibility


Side = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Promises:
    """Each skill's side of what was locked, checked against what is there now.

    Equal digests are not looked at further; each pair of schemas is compared once.
    """

    old: Lock
    new: Lock
    skills: Mapping[str, Skill]
    today: date
    _compared: dict[tuple[Side, str, str], Compatibility] = field(
        default_factory=dict[tuple[Side, str, str], "Compatibility"]
    )

    def of(self, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
        """Yield what a skill promised, or was promised, and is not so any more."""
        skill = self.skills[now.id]
        if before.exports != now.exports:
            yield from self._exported(skill, before, now)
        if before.imports != now.imports:
            yield from self._imported(skill, before, now)

    def _imported(self, skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
        for each in skill.imports:
            for named in each.tools:
                name = f"{each.skill}.{named.name}"
                old, new = before.imports.get(name), now.imports.get(name)
                if old is None or new is None or old == new:
                    continue
                found = list(self._of_import(skill, named.place, name, (old, new)))
                yield from found
                if not each.min_version and not found and _major(old) < _major(new):
                    message = (
                        f"`{each.skill}` has the api_version {new.api_version}, a later major than"
                        f" {old.api_version} when `{skill.id}` was locked; what was locked still"
                        " fits"
                    )
                    fix = f'try it, then write `min_version: "{_major(new)}.0"`'
                    yield each.place.finding("CH0604", "warning", message, fix)

    def _of_import(
        self, skill: Skill, place: Place, name: str, pair: tuple[LockedImport, LockedImport]
    ) -> Iterator[Finding]:
        for side, old, new in _sides(*pair):
            result = self._compare(side, old, new)
            there = self._tool(name).place
            if result.verdict == "breaking":
                value = _shown(result.witness)
                what = (
                    f"`{name}` refuses what `{skill.id}` was locked to send: {value}"
                    if side == "input"
                    else f"`{name}` may answer what `{skill.id}` was locked not to get: {value}"
                )
                message = f"{what} ({_why(result)}); it stands in {there}"
                fix = f"let `{name}` be as it was, or adapt `{skill.id}`, then: {RELOCK}"
                yield place.finding("CH0815", "error", message, fix)
            elif result.verdict == "unknown":
                message = (
                    f"the {side} schema of `{name}` ({there}) is another one than `{skill.id}` was"
                    f" locked to, and whether it still fits cannot be told: {result.reason}"
                )
                fix = f"try it, then accept it: {RELOCK}"
                yield place.finding("CH0816", "warning", message, fix)

    def _exported(self, skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
        for name, old in sorted(before.exports.items()):
            new = now.exports.get(name)
            if new is None:
                yield from self._removed(skill, name, before, now)
            elif not _may_break(before.api_version, now.api_version):
                yield from self._broken(skill, name, old, new)

    def _broken(
        self, skill: Skill, name: str, old: LockedTool, new: LockedTool
    ) -> Iterator[Finding]:
        version, place = skill.exports.api_version or "none", self._tool(f"{skill.id}.{name}").place
        for side, one, other in _sides(old, new):
            result = self._compare(side, one, other)
            if result.verdict == "unknown":
                message = (
                    f"whether the {side} schema of `{skill.id}.{name}` still fits the one that was"
                    f" locked cannot be told: {result.reason}"
                )
                yield place.finding("CH0816", "note", message, f"try it, then: {RELOCK}")
            if result.verdict != "breaking":
                continue
            does = "refuses what it took" if side == "input" else "may answer what it did not"
            message = (
                f"`{skill.id}.{name}` {does} when it was locked, {_shown(result.witness)}"
                f" ({_why(result)}), and the api_version is {version} still"
            )
            fix = (
                f'write `api_version: "{_next_breaking(version)}"`, or let it be as it was; never'
                f" released: {RELOCK}"
            )
            yield (skill.exports.place or place).finding("CH0801", "error", message, fix)

    def _removed(
        self, skill: Skill, name: str, before: LockedSkill, now: LockedSkill
    ) -> Iterator[Finding]:
        known = {each.tool: each for each in skill.exports.deprecated}
        entry, locked = known.get(name), before.deprecated.get(name)
        stated = entry or locked
        why = "nothing announced that"
        if stated is not None and stated.announced is not None:
            notice = stated.removal_date - stated.announced
            if notice >= WINDOW and stated.removal_date <= self.today:
                return
            why = f"that was announced on {stated.announced}, for {stated.removal_date}"
        used = ", ".join(self._uses(f"{skill.id}.{name}"))
        message = (
            f"`{skill.id}` exports `{name}` no more, which was locked, and {why}: users have"
            f" {WINDOW.days} days at least{f'; it is used in {used}' if used else ''}"
        )
        fix = f"export it again, and deprecate it with `removal_date: {self.today + WINDOW}`"
        if renamed := _renamed(name, before, now):
            fix = f"{fix} and `replacement: {renamed}`"
        start = Place(shown_path(skill.file), 1, 1)
        place = entry.place if entry is not None else skill.exports.place or start
        yield place.finding("CH0705", "error", message, fix)

    def _uses(self, name: str) -> list[str]:
        """Return where a tool is imported: the id and the place."""
        owner, _, tool = name.rpartition(".")
        return [
            f"{skill.id} ({named.place})"
            for _, skill in sorted(self.skills.items())
            for each in skill.imports
            if each.skill == owner
            for named in each.tools
            if named.name == tool
        ]

    def _tool(self, name: str) -> ExportedTool:
        owner, _, tool = name.rpartition(".")
        return next(each for each in self.skills[owner].exports.tools if each.name == tool)

    def _compare(self, side: Side, old: str, new: str) -> Compatibility:
        key = (side, old, new)
        if key not in self._compared:
            self._compared[key] = compared(side, self.old.schemas[old], self.new.schemas[new])
        return self._compared[key]


def compared(side: Side, old: JsonSchema, new: JsonSchema) -> Compatibility:
    """Return whether a schema may take the place of another on its side of a call."""
    from clawhive_core.skills.compatibility import compare_inputs, compare_outputs

    return compare_inputs(old, new) if side == "input" else compare_outputs(old, new)


def _sides(
    old: LockedTool | LockedImport, new: LockedTool | LockedImport
) -> Iterator[tuple[Side, str, str]]:
    """Yield the sides that differ, with their schemas; one without a schema is an error already."""
    if old.input != new.input and old.input and new.input:
        yield "input", old.input, new.input
    if old.output != new.output and old.output and new.output:
        yield "output", old.output, new.output


def _may_break(old: str, new: str) -> bool:
    """Whether a version leaves room for a break: a later major, or a later minor before 1.0."""
    one, other = api_version(old), api_version(new)
    if one is None or other is None:
        return False
    return other[0] > one[0] or (one[0] == 0 and other > one)


def _next_breaking(version: str) -> str:
    major, minor = api_version(version) or (0, 0)
    return f"{major + 1}.0" if major or not api_version(version) else f"0.{minor + 1}"


def _major(each: LockedImport) -> int:
    return (api_version(each.api_version) or (0, 0))[0]


def _renamed(name: str, before: LockedSkill, now: LockedSkill) -> str:
    """Return a new tool of just the same schemas."""
    gone = before.exports[name]
    for other, tool in sorted(now.exports.items()):
        same = (tool.input, tool.output) == (gone.input, gone.output)
        if other not in before.exports and same:
            return other
    return ""


def _shown(witness: Any) -> str:
    return preview(json.dumps(witness, ensure_ascii=False), 300)


def _why(result: Compatibility) -> str:
    return f"{result.where}: {result.reason}" if result.where else result.reason


_VARIABLES = {"workspace": "/workspace", "run": "/run", "home": "/home"}
_WORDS = {
    "source": "where it lies",
    "content": "its files",
    "text": "its description",
    "exports": "exported tools",
    "imports": "imported tools",
    "tools": "required tools",
}
_TEXTS = ("title", "description", "$comment")
ACCEPT = f"look at it, then accept it: {RELOCK}"


@dataclass(frozen=True, slots=True)
class Differences:
    """Two locks of one project, compared with each other."""

    old: Lock
    new: Lock
    skills: Mapping[str, Skill]
    """All that are found and can be read, by their ids."""
    today: date
    unread: frozenset[str] = frozenset()
    """The ids of those that cannot be read."""

    def by_skill(self) -> dict[str, list[Finding]]:
        """Return what is to be said of each skill that is found; none of those that are equal."""
        promises = Promises(self.old, self.new, self.skills, self.today)
        found: dict[str, list[Finding]] = {}
        for name, now in self.new.skills.items():
            before = self.old.skills.get(name)
            if before == now or now.source == GIVEN:
                continue
            skill = self.skills[name]
            if before is None:
                message = f"`{name}` is not in {NAME}"
                found[name] = [_start(skill).finding("CH0804", "note", message, RELOCK)]
            else:
                kept = promises.of(before, now)
                texts = self._texts_of_schemas(skill, before, now)
                found[name] = [*_changes(skill, before, now), *texts, *kept]
        return found

    def _texts_of_schemas(
        self, skill: Skill, before: LockedSkill, now: LockedSkill
    ) -> Iterator[Finding]:
        """Yield which tools' schemas tell a model what they did not when they were locked."""
        for tool in skill.exports.tools:
            old, new = before.exports.get(tool.name), now.exports[tool.name]
            if old is None or (old.input, old.output) == (new.input, new.output):
                continue
            known = {*_told(self.old, old.input), *_told(self.old, old.output)}
            told = {*_told(self.new, new.input), *_told(self.new, new.output)} - known
            if told:
                message = f"a schema of `{skill.id}.{tool.name}` has a text that was not locked"
                message = f"{message}: {preview(min(told))}"
                yield tool.place.finding("CH0806", "warning", message, ACCEPT)

    def gone(self, file: LockFile) -> Iterator[Finding]:
        """Yield what is locked and has no place in the lock any more, at its place in the file."""
        for name in sorted(self.old.skills.keys() - self.new.skills.keys() - self.unread):
            why = "nothing of the project imports it" if name in self.skills else "it is gone"
            message = f"`{name}` is locked, and {why}"
            yield file.place(name).finding("CH0804", "note", message, RELOCK)


def _told(lock: Lock, schema: str) -> Iterator[str]:
    """Yield the titles and descriptions in a schema."""
    waiting: list[Any] = [lock.schemas[schema]] if schema else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            yield from (entries[key] for key in _TEXTS if isinstance(entries.get(key), str))
            waiting += entries.values()
        elif isinstance(value, list):
            waiting += cast("list[Any]", value)


def _changes(skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
    """Yield what concerns one skill alone."""
    parts = ", ".join(_parts(before, now))
    message = f"`{skill.id}` is not what it was when it was locked: {parts}"
    yield _start(skill).finding("CH0805", "note", message, ACCEPT)
    if _kind(before.source) != _kind(now.source):
        message = f"`{skill.id}` comes from {now.source}; when it was locked, from {before.source}"
        yield _start(skill).finding("CH0822", "warning", message, ACCEPT)
    yield from _texts(skill, before, now)
    yield from _widened(skill, before, now)
    yield from _riskier(skill, before, now)


def _start(skill: Skill) -> Place:
    return Place(shown_path(skill.file), 1, 1)


def _kind(source: str) -> str:
    return "./" if source.startswith("./") else source


def _parts(before: LockedSkill, now: LockedSkill) -> Iterator[str]:
    for each in fields(before):
        one: Any = getattr(before, each.name)
        other: Any = getattr(now, each.name)
        if one == other:
            continue
        words = _WORDS.get(each.name, each.name)
        if each.name in {"version", "api_version"}:
            yield f"{words} {one or 'none'} -> {other or 'none'}"
        elif each.name in {"exports", "deprecated", "imports", "tools"}:
            yield f"{words} ({', '.join(_names(one, other))})"
        else:
            yield words


def _names(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return what stands in one mapping only, or differs; sorted."""
    names = {*one, *other}
    return sorted(name for name in names if one.get(name, ...) != other.get(name, ...))


def _texts(skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
    if before.text != now.text:
        message = f"the description of `{skill.id}` is not the one that was locked"
        yield _start(skill).finding("CH0806", "warning", message, ACCEPT)
    for tool in skill.exports.tools:
        old = before.exports.get(tool.name)
        if old is not None and old.text != now.exports[tool.name].text:
            message = f"the description of `{skill.id}.{tool.name}` is not the one that was locked"
            yield tool.place.finding("CH0806", "warning", message, ACCEPT)


def _widened(skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
    if before.permissions == now.permissions:
        return
    wider = _beyond(now.permissions, before.permissions)
    if wider:
        message = f"`{skill.id}` wants more than when it was locked: {', '.join(wider)}"
        yield _start(skill).finding("CH0807", "warning", message, ACCEPT)
    elif not now.permissions:
        message = (
            f"`{skill.id}` states no permissions any more, so that nothing bounds what its tasks"
            " are given"
        )
        yield _start(skill).finding("CH0807", "warning", message, ACCEPT)


def _beyond(wanted: Sequence[str], bounds: Sequence[str]) -> list[str]:
    """Return what no single bound contains; a bound that cannot be read contains nothing."""
    from clawhive_core.capabilities import contains, parse
    from clawhive_core.errors import CapabilityError

    known = [*bounds]
    patterns = list[Any]()
    for text in known:
        try:
            patterns.append(parse(text, _VARIABLES))
        except CapabilityError:
            continue
    found = [(text, parse(text, _VARIABLES)) for text in wanted if text not in known]
    return [text for text, want in found if not any(contains(each, want) for each in patterns)]


def _riskier(skill: Skill, before: LockedSkill, now: LockedSkill) -> Iterator[Finding]:
    """Yield what a required tool may do beyond what it could when it was locked."""
    requires = skill.requires
    for name, place in zip(requires.tools, requires.tool_places, strict=True):
        old, new = before.tools.get(name), now.tools.get(name)
        if old is None or new is None or old == new:
            continue
        more: list[str] = []
        if old.provider_id != new.provider_id:
            more.append(f"it comes from `{new.provider_id}`, not from `{old.provider_id}`")
        if _rank(get_args(Level), new.capability_level) > _rank(
            get_args(Level), old.capability_level
        ):
            more.append(f"its level is {new.capability_level}, not {old.capability_level}")
        if _rank(get_args(Risk), new.risk) > _rank(get_args(Risk), old.risk):
            more.append(f"its risk is {new.risk}, not {old.risk}")
        if verbs := sorted({*new.verbs} - {*old.verbs}):
            more.append(f"it needs {', '.join(verbs)} too")
        if more:
            message = f"`{name}` may do more than when it was locked: {'; '.join(more)}"
            yield place.finding("CH0820", "warning", message, ACCEPT)


def _rank(order: Sequence[str], value: str) -> int:
    return order.index(value) if value in order else len(order)
