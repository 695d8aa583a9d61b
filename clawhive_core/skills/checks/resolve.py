"""The check of imports against exports, over a whole set of skills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from itertools import pairwise

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.skills.checks.kept_checks import KeptChecks
from clawhive_core.skills.checks.old_ways import asked_data
from clawhive_core.skills.checks.required import meant
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.deprecation import check_replacements, check_windows
from clawhive_core.skills.contracts.run_types import unknown_run_types
from clawhive_core.skills.contracts.skill import NO_EXPORTS, Import, Skill

Skills = Mapping[str, Skill]


def check_contracts(
    skills: Sequence[Skill], broken: AbstractSet[str], today: date, kept: KeptChecks | None = None
) -> dict[str, list[Finding]]:
    """Return what is wrong with the contracts of a set, by the id of the skill that is to change.

    Every import names a skill of the set, tools that it exports, and no later version than it
    has; no skills import each other in a circle; what is deprecated goes in due time.

    Args:
        skills: The set; each id stands once.
        broken: Skills of it whose files cannot be read whole: one without tools may export some.
        today: The date that removals are held against.
        kept: What was found before; what would be the same is not looked for again.
    """
    known = {skill.id: skill for skill in skills}
    kept = kept or KeptChecks()
    kept.begin(known, broken, today)
    found = {
        skill.id: kept.found(skill, _check)
        for skill in skills
        if skill.manifest is not None or skill.imports or skill.exports is not NO_EXPORTS
    }
    for cycle in kept.cycles():
        for name in cycle:
            found[name] = [*found[name], _cycle_finding(cycle, name, known)]
    return {name: findings for name, findings in found.items() if findings}


def _check(skill: Skill, known: Skills, broken: AbstractSet[str], today: date) -> list[Finding]:
    """Return what one skill says of the others, and of itself in their sight."""
    return [
        *_of_skill(skill, known, broken, today),
        *check_windows(skill, today),
        *check_replacements(skill, known),
        *unknown_run_types(skill, known, broken),
        *asked_data(skill, known),
        *_same_names(skill),
    ]


def importers(skills: Sequence[Skill]) -> dict[str, list[str]]:
    """Return the ids of the skills that import from each."""
    users: dict[str, list[str]] = {}
    for skill in skills:
        names = dict.fromkeys([each.skill for each in skill.imports]) if skill.imports else ()
        for name in names:
            users.setdefault(name, []).append(skill.id)
    return users


def _of_skill(
    skill: Skill, known: Skills, broken: AbstractSet[str], today: date
) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for each in skill.imports:
        provider = known.get(each.skill)
        if each.skill == skill.id:
            message = f"`{skill.id}` imports from itself"
            fix = "call the tool by its bare name"
            yield each.place.finding("CH0607", "error", message, fix)
        elif provider is None:
            yield _unknown_skill(skill, each, known)
        elif provider.exports.tools or provider.id not in broken:
            yield from _tools(skill, each, provider, today)
            yield from _version(each, provider)
        for tool in each.tools:
            if (each.skill, tool.name) in seen:
                message = f"`{each.skill}.{tool.name}` is imported twice"
                yield tool.place.finding("CH0606", "warning", message, "remove one of them")
            seen.add((each.skill, tool.name))


def _unknown_skill(skill: Skill, each: Import, known: Skills) -> Finding:
    others = [name for name in known if name != skill.id]
    install = "install the skill, or remove the import"
    fix = meant(skill, each.skill, others, install)
    message = f"no skill is called `{each.skill}`"
    return each.place.finding("CH0601", "error", message, fix, (each.skill,))


def _tools(skill: Skill, each: Import, provider: Skill, today: date) -> Iterator[Finding]:
    names = provider.exports.names()
    going = {entry.tool: entry for entry in provider.exports.deprecated}
    for tool in each.tools:
        name, entry = f"{provider.id}.{tool.name}", going.get(tool.name)
        instead = f"import `{entry.replacement}` instead" if entry and entry.replacement else None
        if tool.name not in names:
            there = {other.name for other in each.tools}
            free = [known for known in names if known not in there]
            fix = meant(skill, tool.name, free, f"it exports: {', '.join(names) or 'nothing'}")
            message = f"`{provider.id}` does not export `{tool.name}`"
            if entry is not None:
                message = f"{message} any more: it {entry.until(today)}"
            yield tool.place.finding("CH0602", "error", message, instead or fix, (name,))
            continue
        if entry is not None:
            fix = instead or "do without it: nothing stands in for it"
            message = f"`{name}` {entry.until(today)} ({entry.date_place})"
            yield tool.place.finding("CH0703", "warning", message, fix)
        if provider.exports.access.needs_subscription(tool.name):
            message = f"`{name}` is for subscribers of `{provider.id}` only"
            fix = "answer `subscription_required` in the handler, where it calls the tool"
            yield tool.place.finding("CH0609", "note", message, fix)


def _same_names(skill: Skill) -> Iterator[Finding]:
    """Yield where a bare name of a handler could mean two tools, and which one it means."""
    owners = {tool.name: (skill.id, tool.place) for tool in skill.exports.tools}
    for each in skill.imports:
        for tool in each.tools:
            owner, place = owners.setdefault(tool.name, (each.skill, tool.place))
            if owner == each.skill:
                continue
            why = "its own tools come first" if owner == skill.id else "the first import counts"
            message = (
                f"`{tool.name}` alone means `{owner}.{tool.name}` ({place}): {why};"
                f" `{each.skill}.{tool.name}` has the same name"
            )
            fix = f'call it by its whole name: ctx.call("{each.skill}.{tool.name}")'
            yield tool.place.finding("CH0614", "note", message, fix)


def _version(each: Import, provider: Skill) -> Iterator[Finding]:
    wanted, there = api_version(each.min_version), api_version(provider.exports.api_version)
    if wanted is None or each.version_place is None:
        return
    if there is not None and wanted <= there and there[0] == wanted[0]:
        return
    exports = provider.exports.place
    where = f" (stated in {exports})" if exports is not None else ""
    if there is None:
        message = f"`{provider.id}` states no api_version{where}, and {each.min_version} is asked"
        yield each.version_place.finding("CH0603", "error", message, f"update `{provider.id}`")
    elif there < wanted:
        message = (
            f"`{provider.id}` has the api_version {provider.exports.api_version}{where}, "
            f"below {each.min_version}"
        )
        fix = f"update `{provider.id}`, or ask for {provider.exports.api_version}"
        yield each.version_place.finding("CH0603", "error", message, fix)
    elif there[0] > wanted[0]:
        message = (
            f"`{provider.id}` has the api_version {provider.exports.api_version}{where}: "
            f"a later major than {each.min_version} may have broken what is imported"
        )
        fix = f'try it, then write `min_version: "{there[0]}.0"`'
        yield each.version_place.finding("CH0604", "warning", message, fix)


def _cycle_finding(cycle: tuple[str, ...], name: str, known: Skills) -> Finding:
    """Return a member's finding: the whole circle from its own import on, each edge's place."""
    at = cycle.index(name)
    turned = (*cycle[at:], *cycle[:at], name)
    edges = [
        f"{known[one].id} -> {other} ({_edge(known[one], other).place})"
        for one, other in pairwise(turned)
    ]
    message = f"skills import each other in a circle: {', '.join(edges)}"
    fix = (
        "break it with a read-only snapshot tool that one of them exports and that needs no import"
    )
    return _edge(known[name], turned[1]).place.finding("CH0608", "error", message, fix)


def _edge(skill: Skill, provider: str) -> Import:
    return next(each for each in skill.imports if each.skill == provider)
