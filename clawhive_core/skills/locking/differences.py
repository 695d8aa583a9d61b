"""What became of skills since they were locked, and how much it weighs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date
from typing import Any, cast, get_args

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.canonical import preview
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import Level, Risk
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place
from clawhive_core.skills.locking.lock_file import NAME, RELOCK, LockFile
from clawhive_core.skills.locking.locked import Lock, LockedSkill
from clawhive_core.skills.locking.locker import GIVEN
from clawhive_core.skills.locking.promises import Promises

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
    """Two locks of one project, held against each other."""

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
