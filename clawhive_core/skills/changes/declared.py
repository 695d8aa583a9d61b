"""What changed of the rest of a contract: deprecations, imports, requirements, permissions, ..."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clawhive_core.skills.changes.change import Change, exports_of, file_of
from clawhive_core.skills.changes.schemas import same
from clawhive_core.skills.contracts.permissions import uncovered
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

_REQUIRED = ("tools", "bins", "env", "os", "python")


def changed_declarations(old: Skill, new: Skill) -> Iterator[Change]:
    """Yield what changed beside the exported tools and the access to them."""
    yield from _deprecations(old, new)
    yield from _imports(old, new)
    yield from _requirements(old, new)
    yield from _permissions(old, new)
    yield from _tasks(old, new)
    yield from _rest(old, new)


def _deprecations(old: Skill, new: Skill) -> Iterator[Change]:
    before = {each.tool: each for each in old.exports.deprecated}
    after = {each.tool: each for each in new.exports.deprecated}
    exported = new.exports.names()
    for name, entry in after.items():
        if name in before:
            was = before[name]
            facts = (entry.removal_date, entry.replacement, entry.announced)
            if facts != (was.removal_date, was.replacement, was.announced):
                message = f"the deprecation of `{name}` changed: goes on {entry.removal_date}"
                yield Change("deprecation_changed", name, "none", message, entry.date_place)
            continue
        instead = f", replaced by `{entry.replacement}`" if entry.replacement else ""
        message = f"`{name}` is deprecated: goes on {entry.removal_date}{instead}"
        impact = "additive" if name in exported else "none"
        yield Change("deprecation_added", name, impact, message, entry.place)
    for name in before:
        if name not in after and name in exported:
            message = f"`{name}` is not deprecated any more"
            yield Change("deprecation_removed", name, "none", message, exports_of(new))


def _imports(old: Skill, new: Skill) -> Iterator[Change]:
    before, after = _imported(old), _imported(new)
    for name, (minimum, place) in after.items():
        if name not in before:
            message = f"imports `{name}` now"
            yield Change("import_added", name, "none", message, place)
        elif before[name][0] != minimum:
            message = f"imports `{name}` from {minimum or 'any version'} on now"
            yield Change("import_changed", name, "none", message, place)
    for name in before:
        if name not in after:
            message = f"does not import `{name}` any more"
            yield Change("import_removed", name, "none", message, file_of(new))


def _imported(skill: Skill) -> Mapping[str, tuple[str, Place]]:
    named = {
        f"{each.skill}.{tool.name}": (each.min_version, tool.place)
        for each in skill.imports
        for tool in each.tools
    }
    old_form = {tool.name: ("", tool.place) for tool in skill.external_tools}
    return {**old_form, **named}


def _requirements(old: Skill, new: Skill) -> Iterator[Change]:
    place = new.requires.place or file_of(new)
    for kind in _REQUIRED:
        before, after = getattr(old.requires, kind), getattr(new.requires, kind)
        for name in after:
            if name not in before:
                message = f"requires.{kind}: `{name}` is new"
                yield Change("requirement_added", name, "none", message, place)
        for name in before:
            if name not in after:
                message = f"requires.{kind}: `{name}` is gone"
                yield Change("requirement_removed", name, "none", message, place)


def _permissions(old: Skill, new: Skill) -> Iterator[Change]:
    place = file_of(new)
    for permission in uncovered(new.permissions, old.permissions):
        message = f"its handlers and tasks may be granted `{permission}` now"
        yield Change("permission_widened", permission, "none", message, place)
    for permission in uncovered(old.permissions, new.permissions):
        message = f"`{permission}` is not permitted any more, or not all of it"
        yield Change("permission_narrowed", permission, "none", message, place)


def _tasks(old: Skill, new: Skill) -> Iterator[Change]:
    place = file_of(new)
    for name, task in new.tasks.items():
        if name not in old.tasks:
            message = f"the task type `{name}` is new"
            yield Change("task_added", name, "none", message, place)
        elif not same(task.to_dict(), old.tasks[name].to_dict()):
            message = f"the task type `{name}` changed"
            yield Change("task_changed", name, "none", message, place)
    for name in old.tasks:
        if name not in new.tasks:
            message = f"the task type `{name}` is gone"
            yield Change("task_removed", name, "none", message, place)


def _rest(old: Skill, new: Skill) -> Iterator[Change]:
    place = file_of(new)
    if old.id != new.id:
        message = f"the skill `{old.id}` is called `{new.id}` now, which those who import it name"
        yield Change("skill_id", new.id, "none", message, place)
    if old.version != new.version:
        message = f"the version was {old.version} and is {new.version}"
        yield Change("skill_version", new.version, "none", message, place)
    for kind, one, other in _told(old, new):
        if one != other:
            yield Change(kind, new.id, "none", f"{kind.replace('skill_', '')} changed", place)


def _told(old: Skill, new: Skill) -> Iterator[tuple[str, Any, Any]]:
    yield "skill_description", old.description, new.description
    yield "risk_policy", old.risk_policy, new.risk_policy
    yield "allowed_run_types", _run_types(old), _run_types(new)
    yield "grounds", old.grounds, new.grounds


def _run_types(skill: Skill) -> list[str] | None:
    names = skill.allowed_run_types
    return None if names is None else sorted(each.name for each in names)
