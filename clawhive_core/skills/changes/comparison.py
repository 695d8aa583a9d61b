"""The changes from one version of a skill to another, each with its impact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.late import dataclass
from clawhive_core.skills.changes.change import (
    Bump,
    Change,
    Notices,
    exports_of,
    file_of,
    is_enough,
    is_more,
    made_bump,
    needed_bump,
    smallest_version,
    without_notice,
)
from clawhive_core.skills.changes.tools import changed_tools, same
from clawhive_core.skills.contracts.limits import uncovered
from clawhive_core.skills.contracts.skill import Rate, Skill
from clawhive_core.skills.documents.place import Place


def changed_access(old: Skill, new: Skill) -> Iterator[Change]:
    """Yield what changed of the access to the tools that both versions export."""
    before, after = old.exports.access, new.exports.access
    kept = set(old.exports.names())
    for tool in new.exports.tools:
        if tool.name not in kept:
            continue
        was, now = before.needs_subscription(tool.name), after.needs_subscription(tool.name)
        if was != now:
            impact = "breaking" if now else "additive"
            message = f"`{tool.name}` is {'for subscribers only' if now else 'free'} now"
            yield Change("subscription", tool.name, impact, message, tool.place)
        one, other = before.rate_of(tool.name), after.rate_of(tool.name)
        if one != other:
            impact = "additive" if allows(other, one) else "breaking"
            message = f"rate_limit of `{tool.name}`: {_rate(one)}, now {_rate(other)}"
            yield Change("rate_limit", tool.name, impact, message, tool.place)


def allows(rate: Rate | None, calls: Rate | None) -> bool:
    """Whether a rate lets every call through that another one lets through.

    Windows lie inside each other: a longer one may hold the calls of each shorter one in it, and
    all calls of a longer one may fall into one shorter one.
    """
    if rate is None or calls is None:
        return rate is None
    return rate.count >= calls.count * max(1, rate.seconds // calls.seconds)


def _rate(rate: Rate | None) -> str:
    return "unlimited" if rate is None else str(rate)


_REQUIRED = ("tools", "optional_tools", "bins", "env", "os", "python")


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
    for kind, one, other in _told_apart(old, new):
        if one != other:
            yield Change(kind, new.id, "none", f"{kind.replace('skill_', '')} changed", place)


def _told_apart(old: Skill, new: Skill) -> Iterator[tuple[str, Any, Any]]:
    yield "skill_description", old.description, new.description
    yield "risk_policy", old.risk_policy, new.risk_policy
    yield "allowed_run_types", _run_types(old), _run_types(new)
    yield "grounds", old.grounds, new.grounds


def _run_types(skill: Skill) -> list[str] | None:
    names = skill.allowed_run_types
    return None if names is None else sorted(each.name for each in names)


_WHY = {"none": "", "minor": " (additive)", "major": " (breaking)"}


def compare_contracts(old: Skill, new: Skill) -> tuple[Change, ...]:
    """Return what `new` says otherwise than `old`, each change with what it does to others."""
    parts = (changed_tools, changed_access, changed_declarations)
    return tuple(change for part in parts for change in part(old, new))


@dataclass(frozen=True, slots=True)
class SkillDiff:
    """Two versions of a skill, compared with each other."""

    old: Skill
    new: Skill
    changes: tuple[Change, ...]
    remarks: tuple[tuple[Change | None, Finding], ...]
    """The findings, each with the change that it is about; None where it is about the whole."""

    @classmethod
    def of(cls, old: Skill, new: Skill, notices: Notices) -> SkillDiff:
        """Compare two versions.

        Args:
            old: The version that others rely on.
            new: The one that takes its place.
            notices: Says when removals were announced, and which day counts as today.
        """
        changes = compare_contracts(old, new)
        found = (*_too_small(old, new, changes), *_told(old, new, changes))
        notice = _without_notice(old, changes, notices)
        return cls(old, new, changes, (*found, *notice))

    @property
    def needed(self) -> Bump:
        """The smallest bump that is honest."""
        return needed_bump(self.changes)

    @property
    def findings(self) -> Iterator[Finding]:
        """The findings."""
        return (finding for _, finding in self.remarks)

    @property
    def quiet(self) -> list[Change]:
        """The changes that nothing is wrong with."""
        loud = [change for change, _ in self.remarks]
        return [each for each in self.changes if not any(each is other for other in loud)]

    @property
    def headline(self) -> str:
        """The line for people, such as `zodiac 1.0 -> 1.1: needs 2.0 (breaking)`."""
        old, new = self.old.exports.api_version, self.new.exports.api_version
        needed = self.needed
        moved = old or new if old == new else f"{old or 'unversioned'} -> {new or 'unversioned'}"
        head = f"{self.new.id} {moved}".rstrip()
        wanted = smallest_version(old, needed) or "an api_version"
        if not is_enough(old, new, needed):
            return f"{head}: needs {wanted}{_WHY[needed]}"
        return f"{head}: {'needs no bump' if needed == 'none' else 'fits'}{_WHY[needed]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON, without the places of its changes."""
        old, new = self.old.exports.api_version, self.new.exports.api_version
        return {
            "id": self.new.id,
            "state": "changed",
            "old_version": old or None,
            "new_version": new or None,
            "needed": self.needed,
            "made": made_bump(old, new),
            "needed_version": smallest_version(old, self.needed) or None,
            "enough": is_enough(old, new, self.needed),
        }


def _too_small(
    old: Skill, new: Skill, changes: tuple[Change, ...]
) -> Iterator[tuple[Change | None, Finding]]:
    """Yield an error for each change that the version does not tell."""
    before, after = old.exports.api_version, new.exports.api_version
    needed = needed_bump(changes)
    if made_bump(before, after) in {"lower", "unstated"}:
        now = f"is {after}" if after else "is not stated any more"
        message = f"the api_version of `{new.id}` was {before} and {now}"
        fix = f'write `api_version: "{smallest_version(before, needed)}"`'
        yield None, exports_of(new).finding("CH0832", "error", message, fix)
        return
    if is_enough(before, after, needed):
        return
    wanted = smallest_version(before, needed)
    fix = f'write `api_version: "{wanted or "1.0"}"`'
    if not wanted:
        says = f"`{new.id}` states no api_version"
    elif before == after:
        says = f"the api_version stays {before}"
    else:
        says = f"the api_version goes from {before} to {after} only"
    told = f"{says} ({exports_of(new)})"
    for change in changes:
        if change.impact == "breaking":
            message = f"{change.message}; this breaks what worked, and {told}"
            yield change, change.place.finding("CH0801", "error", message, fix)
        elif change.impact in {"additive", "unknown"} and needed == "minor":
            message = f"{change.message}, and {told}"
            yield change, change.place.finding("CH0802", "error", message, fix)


def _told(
    old: Skill, new: Skill, changes: tuple[Change, ...]
) -> Iterator[tuple[Change | None, Finding]]:
    """Yield what is no mistake and is worth a look."""
    before, after = old.exports.api_version, new.exports.api_version
    made = made_bump(before, after)
    for change in changes:
        rewritten = change.impact == "none" and change.kind in {"input_schema", "output_schema"}
        if rewritten and made == "none":
            message = f"{change.message}; the api_version stays {after}"
            yield change, change.place.finding("CH0803", "note", message)
        elif change.impact == "unknown" and made == "minor":
            fix = "compare both by hand; if calls that worked fail, it needs the next major"
            yield change, change.place.finding("CH0831", "warning", change.message, fix)
        elif change.kind == "permission_widened":
            message = f"`{new.id}` asks for more: {change.message}"
            yield change, change.place.finding("CH0834", "warning", message)
    needed = needed_bump(changes)
    if is_more(before, after, needed):
        message = (
            f"the api_version of `{new.id}` goes from {before} to {after}, and"
            f" {smallest_version(before, needed)} says all that changed"
        )
        yield None, exports_of(new).finding("CH0833", "note", message)


def _without_notice(
    old: Skill, changes: tuple[Change, ...], notices: Notices
) -> Iterator[tuple[Change | None, Finding]]:
    for change in changes:
        if change.kind in {"tool_removed", "tool_renamed"}:
            finding = without_notice(old, change.subject, change.place, notices)
            if finding is not None:
                yield change, finding
