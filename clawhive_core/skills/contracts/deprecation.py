"""Exported tools that will go: declared long enough before, named to those who import them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import did_you_mean, nearest
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import Deprecation, Skill, days_of
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill

WINDOW = timedelta(days=30)
"""The least time between the announcement of a removal and the removal."""

_KEYS = ("tool", "removal_date", "replacement", "announced")
_DATE = pattern(r"\d{4}-\d{2}-\d{2}")
_LOOSE = pattern(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")


def read_deprecated(exports: Fields) -> tuple[Deprecation, ...]:
    """Return `deprecated` of the exports.

    Raises:
        InvalidSkill: An entry is not what it must be, or names a tool twice.
    """
    found: dict[str, Deprecation] = {}
    for path, value in exports.items("deprecated"):
        entry = _deprecation(type(exports).of(exports.document, path, value))
        if entry.tool in found:
            message = f"`{entry.tool}` is deprecated twice"
            fix = f"remove one; the other stands in line {found[entry.tool].place.line}"
            raise InvalidSkill(entry.place.finding("CH0706", "error", message, fix))
        found[entry.tool] = entry
    return tuple(found.values())


def _deprecation(body: Fields) -> Deprecation:
    body.closed(_KEYS, "a deprecation")
    for key in ("tool", "removal_date"):
        if key not in body:
            raise body.fail(None, f"a deprecation needs `{key}`", f"add `{key}: ...`")
    return Deprecation(
        body.text("tool"),
        _date(body, "removal_date"),
        body.place("tool"),
        body.place("removal_date"),
        body.text("replacement"),
        body.place("replacement") if "replacement" in body else None,
        _date(body, "announced") if "announced" in body else None,
    )


def _date(body: Fields, key: str) -> date:
    value = body.text(key)
    try:
        if _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    message = f"`{value}` is no date"
    fix = _meant(value) or "write YEAR-MONTH-DAY, such as 2026-07-01"
    raise InvalidSkill(body.document.finding("CH0706", body.at(key), message, fix))


def _meant(value: str) -> str | None:
    """Return what to write for a date whose parts stand in the right order."""
    match = _LOOSE.fullmatch(value)
    if match is None:
        return None
    try:
        meant = date(*map(int, match.groups()))
    except ValueError:
        return None
    return f"write `{meant}`"


def check_windows(skill: Skill, today: date) -> Iterator[Finding]:
    """Yield what is wrong with the dates of a skill's deprecations.

    Args:
        skill: The skill that deprecates.
        today: The date that counts as now.
    """
    exported = skill.exports.names()
    for entry in skill.exports.deprecated:
        if entry.announced is None:
            message = (
                f"nothing says when the removal of `{entry.tool}` was announced, so nobody can"
                f" tell whether its users had {WINDOW.days} days"
            )
            yield entry.place.finding("CH0707", "note", message, "add `announced: YEAR-MONTH-DAY`")
        elif entry.removal_date - entry.announced < WINDOW:
            yield _short(entry, entry.announced)
        if entry.tool in exported:
            if entry.removal_date < today:
                message = f"`{entry.tool}` {entry.until(today)}, and is exported still"
                fix = "remove it from `exports.tools`, or write a later date"
                yield entry.date_place.finding("CH0702", "warning", message, fix)
        elif today < entry.removal_date:
            close = nearest(entry.tool, exported)
            message = f"`{entry.tool}` {entry.until(today)}, and is not exported any more"
            fix = f"did you mean `{close}`?" if close else "export it until then"
            yield entry.place.finding("CH0708", "warning", message, fix)


def _short(entry: Deprecation, announced: date) -> Finding:
    message = (
        f"`{entry.tool}` is removed {days_of((entry.removal_date - announced).days)} after"
        f" {announced}, when {_told(entry)}: users have {WINDOW.days} at least"
    )
    fix = f"write `removal_date: {announced + WINDOW}` or later"
    return entry.date_place.finding("CH0701", "error", message, fix)


def _told(entry: Deprecation) -> str:
    return f"{entry.seen_by} saw it first" if entry.seen_by else "that was announced"


def dated(skill: Skill, first_seen: Callable[[str], date | None], by: str) -> Skill:
    """Return a skill whose deprecations say at least since when they are known.

    Args:
        skill: The skill.
        first_seen: Says when the deprecation of a tool was first seen, None where nobody knows;
            asked where the contract states no day.
        by: Who saw it.
    """
    entries = skill.exports.deprecated
    changed = tuple(
        entry
        if entry.announced is not None or (day := first_seen(entry.tool)) is None
        else replace(entry, announced=day, seen_by=by)
        for entry in entries
    )
    if changed == entries:
        return skill
    return replace(skill, exports=replace(skill.exports, deprecated=changed))


def check_replacements(skill: Skill, known: Mapping[str, Skill]) -> Iterator[Finding]:
    """Yield where a replacement is no tool, or goes away itself.

    Args:
        skill: The skill that deprecates.
        known: The set; what a skill that is not in it exports, nobody can say.
    """
    for entry in skill.exports.deprecated:
        if entry.replacement_place is None:
            continue
        owner, _, tool = entry.replacement.rpartition(".")
        provider = known.get(owner or skill.id)
        names = () if provider is None else provider.exports.names()
        if tool not in names:
            prefix = f"{owner}." if owner else ""
            there = [f"{prefix}{name}" for name in names if name != entry.tool]
            fix = did_you_mean(entry.replacement, there) or "name a tool that is exported"
            message = f"the replacement of `{entry.tool}`, `{entry.replacement}`, does not exist"
            yield entry.replacement_place.finding("CH0704", "error", message, fix)
        elif provider is not None and (chain := _chain(provider, tool)):
            message = (
                f"the replacement of `{entry.tool}`, `{entry.replacement}`, goes away itself:"
                f" {', '.join(chain)}"
            )
            fix = "name one that stays"
            yield entry.replacement_place.finding("CH0704", "warning", message, fix)


def _chain(skill: Skill, tool: str) -> list[str]:
    """Return each step of a replacement's own deprecation, none where it stays."""
    entries = {each.tool: each for each in skill.exports.deprecated}
    chain: list[str] = []
    while tool in entries and len(chain) <= len(entries):
        entry = entries.pop(tool)
        chain.append(f"{tool} ({entry.place}) -> {entry.replacement or 'nothing'}")
        tool = entry.replacement
    return chain
