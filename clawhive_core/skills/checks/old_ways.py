"""What the old keys of a set mean: whose tools `external_tools` are, what data is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.skills.contracts.skill import Import, Skill
from clawhive_core.skills.documents.place import Named

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
