"""Making a lock: what a set of skills is now, as `clawhive.lock` would hold it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date
from pathlib import Path

from clawhive_core.errors import SkillError
from clawhive_core.model.canonical import digest
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.checks.required import KnownTools, Offer
from clawhive_core.skills.contracts import deprecation
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.decisions import content_digest
from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED
from clawhive_core.skills.locking.lock_file import (
    Lock,
    LockedImport,
    LockedRemoval,
    LockedSkill,
    LockedTool,
)

GIVEN = "given"
"""The source of skills that only a path of the command line leads to: no start finds them."""
_ELSEWHERE = frozenset({SHIPPED, "user", GIVEN})
_CACHES = frozenset({"__pycache__"})


@dataclass(frozen=True, slots=True)
class Locker:
    """Makes the lock of a project's skills.

    A project's own skills and those of its plugins are locked, and what these import wherever it
    comes from; what else a user has is none of the project's.
    """

    root: Path
    """The project's root, which paths are named from."""
    old: Lock
    """The lock of before: what cannot be known now is taken from it."""
    tools: KnownTools | None = None
    """The tools that there are to require, None where that is not known."""
    contents: bool = False
    """Whether all files are read for their digest."""

    def lock(self, skills: Mapping[str, Skill]) -> Lock:
        """Return the lock of the skills that have a place in it.

        Args:
            skills: All that are found, by their ids.
        """
        making = _Making(self, skills)
        locked = {name: making.locked(skills[name]) for name in sorted(self.chosen(skills))}
        named = sorted({name for each in locked.values() for name in each.schemas()})
        return Lock(locked, {name: making.schemas[name] for name in named})

    def source(self, skill: Skill) -> str:
        """Return where a skill comes from, in words that hold on any machine."""
        own = os.path.join(os.path.abspath(self.root), "")  # noqa: PTH100, PTH118 - a Path costs more than the rest, and links stay links
        place = os.path.abspath(skill.content)  # noqa: PTH100 - as above
        if skill.source == GIVEN or skill.source.startswith("plugin "):
            return skill.source
        if not place.startswith(own):
            return skill.source
        path = place.removeprefix(own).replace(os.sep, "/")
        if skill.source in _ELSEWHERE and os.path.dirname(path) != "skills":  # noqa: PTH120 - of a text
            return skill.source
        return f"./{path}"

    def chosen(self, skills: Mapping[str, Skill]) -> set[str]:
        """Return the ids of the skills that have a place in the lock."""
        waiting = [each.id for each in skills.values() if self.source(each) not in _ELSEWHERE]
        chosen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in skills and name not in chosen:
                chosen.add(name)
                waiting += [each.skill for each in skills[name].imports]
        return chosen


@dataclass(frozen=True, slots=True)
class _Making:
    """A lock while it is made: each tool is hashed once."""

    locker: Locker
    skills: Mapping[str, Skill]
    schemas: dict[str, JsonSchema] = field(default_factory=dict[str, JsonSchema])
    tools: dict[str, Mapping[str, LockedTool]] = field(
        default_factory=dict[str, "Mapping[str, LockedTool]"]
    )

    def locked(self, skill: Skill) -> LockedSkill:
        before = self.locker.old.skills.get(skill.id)
        return LockedSkill(
            skill.id,
            self.locker.source(skill),
            skill.version,
            skill.exports.api_version,
            self._content(skill, before),
            digest(skill.description),
            tuple(sorted(set(skill.permissions))),
            self._exported(skill),
            {
                each.tool: LockedRemoval(each.removal_date, each.announced)
                for each in skill.exports.deprecated
            },
            dict(self._imported(skill)),
            {name: self._offer(name, before) for name in skill.requires.tools},
        )

    def _content(self, skill: Skill, before: LockedSkill | None) -> str:
        if not self.locker.contents:
            return "" if before is None else before.content
        try:
            return content_digest(skill.content, _CACHES)
        except SkillError:
            return ""

    def _exported(self, skill: Skill) -> Mapping[str, LockedTool]:
        known = self.tools.get(skill.id)
        if known is None:
            known = self.tools[skill.id] = {
                tool.name: LockedTool(
                    self._hash(tool.input_schema),
                    self._hash(tool.output_schema),
                    digest(tool.description),
                )
                for tool in skill.exports.tools
            }
        return known

    def _imported(self, skill: Skill) -> Iterator[tuple[str, LockedImport]]:
        for each in skill.imports:
            provider = self.skills.get(each.skill)
            if provider is None:
                continue
            exported, version = self._exported(provider), provider.exports.api_version
            for named in each.tools:
                tool = exported.get(named.name)
                if tool is not None:
                    locked = LockedImport(version, tool.input, tool.output)
                    yield f"{provider.id}.{named.name}", locked

    def _offer(self, name: str, before: LockedSkill | None) -> Offer | None:
        """Return who offers a tool; who did, where that is not known or is not here."""
        tools, old = self.locker.tools, None if before is None else before.tools.get(name)
        if tools is None or tools.elsewhere(old):
            return old
        return tools.offers.get(name) or old

    def _hash(self, schema: JsonSchema | None) -> str:
        if schema is None:
            return ""
        name = digest(schema)
        self.schemas.setdefault(name, schema)
        return name


def dated(skill: Skill, before: LockedSkill, today: date) -> Skill:
    """Return a skill whose deprecations say at least since when they are known.

    A tool that was locked without being deprecated cannot have been announced before today.
    """
    return deprecation.dated(skill, lambda tool: _first_seen(tool, before, today), "the lock")


def _first_seen(tool: str, before: LockedSkill, today: date) -> date | None:
    if tool in before.deprecated:
        return before.deprecated[tool].announced
    return today if tool in before.exports else None
