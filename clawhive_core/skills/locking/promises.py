"""What skills promised each other when they were locked: schemas, versions, notice of removals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.deprecation import WINDOW
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.documents.place import Place
from clawhive_core.skills.locking.lock_file import RELOCK
from clawhive_core.skills.locking.locked import Lock, LockedImport, LockedSkill, LockedTool

if TYPE_CHECKING:
    from clawhive_core.skills.compatibility import Compatibility

Side = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Promises:
    """Each skill's side of what was locked, held against what is there now.

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
