"""Contracts compared with each other: imports, versions, cycles, and the old forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date
from itertools import pairwise

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.model.late import dataclass
from clawhive_core.skills.checks.cycles import shortest_cycles
from clawhive_core.skills.checks.required import meant
from clawhive_core.skills.contracts.contract import api_version
from clawhive_core.skills.contracts.deprecation import check_replacements, check_windows
from clawhive_core.skills.contracts.limits import unknown_run_types
from clawhive_core.skills.contracts.skill import NO_EXPORTS, Import, Skill
from clawhive_core.skills.documents.place import Named

Check = Callable[[Skill, Mapping[str, Skill], AbstractSet[str], date], list[Finding]]


@dataclass(frozen=True, slots=True)
class _CachedCheck:
    """The findings of one check, and all that it looked at."""

    findings: list[Finding]
    looked: frozenset[str]
    """The skill's own id and those that it asked for, of skills that there are and are not."""
    all_ids: bool
    """Whether it went through the ids of the whole set."""


class CheckCache:
    """Checks skills, and those again of which something has changed that their check looked at.

    A check gets a mapping and a set that note what it asks of them, so no list of what depends on
    what has to be kept right beside the checks.
    """

    def __init__(self) -> None:
        self._cached: dict[str, _CachedCheck] = {}
        self._known: Mapping[str, Skill] = {}
        self._broken: AbstractSet[str] = frozenset()
        self._today = date.min
        self._changed: AbstractSet[str] = frozenset()
        self._cycles: list[tuple[str, ...]] | None = None

    def begin(self, known: Mapping[str, Skill], broken: AbstractSet[str], today: date) -> None:
        """Begin with a set, and forget what only held for another one.

        Args:
            known: The set.
            broken: Skills of it whose files cannot be read whole.
            today: The day that the checks get.
        """
        before = self._known
        changed = {name for name, skill in known.items() if before.get(name) is not skill}
        others = known.keys() != before.keys()
        if today != self._today:
            self._cached.clear()
        elif others:
            self._cached = {name: each for name, each in self._cached.items() if not each.all_ids}
        if others or any(_edges(before[name]) != _edges(known[name]) for name in changed):
            self._cycles = None
        self._changed = changed | (before.keys() - known.keys()) | (broken ^ self._broken)
        self._known, self._broken, self._today = known, broken, today

    def cycles(self) -> list[tuple[str, ...]]:
        """Return the cycles of imports, as they were where no import is another."""
        if self._cycles is None:
            known = self._known
            graph = {
                skill.id: [each.skill for each in skill.imports if each.skill in known]
                for skill in known.values()
                if skill.imports
            }
            self._cycles = shortest_cycles(graph)
        return self._cycles

    def found(self, skill: Skill, check: Check) -> list[Finding]:
        """Return what a check finds, or found when nothing it looked at was different.

        Args:
            skill: A skill of the set.
            check: What finds, of one skill always the same.
        """
        cached = self._cached.get(skill.id)
        if cached is not None and self._changed.isdisjoint(cached.looked):
            return cached.findings
        looked, asked = _Looked(self._known), _Asked(self._broken)
        findings = check(skill, looked, asked, self._today)
        seen = frozenset({skill.id, *looked.seen, *asked.seen})
        self._cached[skill.id] = _CachedCheck(findings, seen, looked.all_ids)
        return findings


def _edges(skill: Skill) -> list[str]:
    return [each.skill for each in skill.imports]


class _Looked(Mapping[str, Skill]):
    """A set of skills that notes which were looked for."""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self._skills = skills
        self.seen: set[str] = set()
        self.all_ids = False

    def __getitem__(self, name: str) -> Skill:
        self.seen.add(name)
        return self._skills[name]

    def __iter__(self) -> Iterator[str]:
        self.all_ids = True
        return iter(self._skills)

    def __len__(self) -> int:
        self.all_ids = True
        return len(self._skills)


class _Asked(AbstractSet[str]):
    """A set of ids that notes which were asked for."""

    def __init__(self, ids: AbstractSet[str]) -> None:
        self._ids = ids
        self.seen: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return name in self._ids

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


Found = tuple[list[Import], list[Finding]]


def with_external(skills: Sequence[Skill]) -> tuple[list[Skill], dict[str, list[Finding]]]:
    """Return the skills of a set with their `external_tools` as imports, and what to say of them.

    A bare name is a tool of the only skill that exports it.

    Args:
        skills: The set; each id stands once.
    """
    if not any(skill.external_tools for skill in skills):
        return list(skills), {}
    owners: dict[str, list[Skill]] = {}
    for skill in skills:
        for name in skill.exports.names():
            owners.setdefault(name, []).append(skill)
    changed, findings = list[Skill](), dict[str, list[Finding]]()
    for skill in skills:
        if skill.external_tools:
            imports, found = _imports(skill, owners)
            changed.append(replace(skill, imports=(*skill.imports, *imports), external_tools=()))
            findings[skill.id] = found
        else:
            changed.append(skill)
    return changed, findings


def _imports(skill: Skill, owners: Mapping[str, Sequence[Skill]]) -> Found:
    imports, findings = list[Import](), list[Finding]()
    for each in skill.external_tools:
        owner, _, tool = each.name.rpartition(".")
        others = [one for one in owners.get(tool, ()) if one.id != skill.id]
        there = sorted(others, key=lambda one: one.id)
        if not owner and len(there) == 1:
            owner = there[0].id
        if not owner:
            findings.append(_nobodys(each, there, owners))
            continue
        imports.append(Import(owner, each.place, (Named(tool, each.place),)))
        message = f"`external_tools` is the old form of `imports`: `{each.name}`"
        fix = f"write under `imports`: {{from: {owner}, tools: [{tool}]}}"
        findings.append(each.place.finding("CH0303", "warning", message, fix))
    return imports, findings


def _nobodys(each: Named, there: Sequence[Skill], owners: Mapping[str, object]) -> Finding:
    """Return the error for a bare name that no skill exports, or several do."""
    if not there:
        close = nearest(each.name, [name for name in owners if name != each.name])
        fix = f"did you mean `{close}`?" if close else "install the skill that exports it"
        message = f"no other skill exports `{each.name}`"
        return each.place.finding("CH0602", "error", message, fix, (each.name,))
    places = [
        f"{skill.id} ({tool.place})"
        for skill in there
        for tool in skill.exports.tools
        if tool.name == each.name
    ]
    message = f"several skills export `{each.name}`: {', '.join(places)}"
    fix = f"write under `imports`: {{from: {there[0].id}, tools: [{each.name}]}}, or another one"
    return each.place.finding("CH0617", "error", message, fix)


def asked_data(skill: Skill, known: Mapping[str, Skill]) -> Iterator[Finding]:
    """Yield a warning for each skill whose data is asked for, with the tools that answer it."""
    for each in skill.skill_data:
        message = f"`requires_skill_data` ties `{skill.id}` to how `{each.name}` keeps its data"
        provider = known.get(each.name)
        if provider is None:
            close = nearest(each.name, known)
            fix = f"did you mean `{close}`?" if close else "install it, or remove the key"
        elif provider.exports.tools:
            tools = ", ".join(provider.exports.names())
            fix = f"import what answers it: {{from: {each.name}, tools: [{tools}]}}"
        else:
            fix = f"let `{each.name}` export a tool that answers it, and import that"
        yield each.place.finding("CH0313", "warning", message, fix)


Skills = Mapping[str, Skill]


def check_contracts(
    skills: Sequence[Skill], broken: AbstractSet[str], today: date, cache: CheckCache | None = None
) -> dict[str, list[Finding]]:
    """Return what is wrong with the contracts of a set, by the id of the skill that is to change.

    Every import names a skill of the set, tools that it exports, and no later version than it
    has; no skills import each other in a cycle; what is deprecated goes in due time.

    Args:
        skills: The set; each id stands once.
        broken: Skills of it whose files cannot be read whole: one without tools may export some.
        today: The date that removals are checked against.
        cache: What was found before; what would be the same is not looked for again.
    """
    known = {skill.id: skill for skill in skills}
    cache = cache or CheckCache()
    cache.begin(known, broken, today)
    found = {
        skill.id: cache.found(skill, _check)
        for skill in skills
        if skill.manifest is not None or skill.imports or skill.exports is not NO_EXPORTS
    }
    for cycle in cache.cycles():
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
    """Return a member's finding: the whole cycle from its own import on, each edge's place."""
    at = cycle.index(name)
    turned = (*cycle[at:], *cycle[:at], name)
    edges = [
        f"{known[one].id} -> {other} ({_edge(known[one], other).place})"
        for one, other in pairwise(turned)
    ]
    message = f"skills import each other in a cycle: {', '.join(edges)}"
    fix = (
        "break it with a read-only snapshot tool that one of them exports and that needs no import"
    )
    return _edge(known[name], turned[1]).place.finding("CH0608", "error", message, fix)


def _edge(skill: Skill, provider: str) -> Import:
    return next(each for each in skill.imports if each.skill == provider)
