"""`allowed_run_types`: the task types that a skill's handlers may start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.skills.fields import Fields, text
from clawhive_core.skills.place import Named
from clawhive_core.skills.skill import Skill


def read_run_types(contract: Fields) -> tuple[Named, ...] | None:
    """Return the list with its places, as it is written: TASK or SKILL.TASK; None without one.

    Raises:
        InvalidSkill: It is no list of texts.
    """
    if "allowed_run_types" not in contract:
        return None
    document = contract.document
    return tuple(
        Named(text(document, path, value), document.place(path))
        for path, value in contract.items("allowed_run_types")
    )


def startable(skill: Skill) -> tuple[str, ...]:
    """Return the task types, as SKILL.TASK, that the handlers of a skill may start."""
    if skill.allowed_run_types is None:
        return tuple(f"{skill.id}.{name}" for name in skill.tasks)
    return tuple(_qualified(skill, each.name) for each in skill.allowed_run_types)


def unknown_run_types(skill: Skill, known: Mapping[str, Skill]) -> Iterator[Finding]:
    """Yield an error for each name of the list that is no task type of the set."""
    for each in skill.allowed_run_types or ():
        name, _, task = _qualified(skill, each.name).rpartition(".")
        if name in known and task in known[name].tasks:
            continue
        there = [f"{one.id}.{task}" for one in known.values() for task in one.tasks]
        close = nearest(each.name, skill.tasks) or nearest(each.name, there)
        listed = ", ".join(skill.tasks) or "none"
        fix = f"did you mean `{close}`?" if close else f"its own are: {listed}"
        message = f"`{each.name}` is no task type that `{skill.id}` could start"
        yield each.place.finding("CH0312", "error", message, fix)


def _qualified(skill: Skill, name: str) -> str:
    return name if "." in name else f"{skill.id}.{name}"
