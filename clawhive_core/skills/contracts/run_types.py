"""`allowed_run_types`: the task types that a skill's handlers may start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import Named


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


def unknown_run_types(
    skill: Skill, known: Mapping[str, Skill], broken: AbstractSet[str]
) -> Iterator[Finding]:
    """Yield an error for each name of the list that is no task type of the set.

    Args:
        skill: Whose list it is.
        known: The set, by id.
        broken: Skills of it whose files cannot be read whole: a task type may be among the rest.
    """
    for each in skill.allowed_run_types or ():
        name, _, task = _qualified(skill, each.name).rpartition(".")
        if name in broken or (name in known and task in known[name].tasks):
            continue
        there = [f"{one.id}.{task}" for one in known.values() for task in one.tasks]
        named = {one.name for one in skill.allowed_run_types or ()}
        free = [task for task in skill.tasks if task not in named]
        listed = ", ".join(skill.tasks) or "none"
        close = did_you_mean(each.name, free) or did_you_mean(each.name, there)
        fix = close or f"its own are: {listed}"
        message = f"`{each.name}` is no task type that `{skill.id}` could start"
        yield each.place.finding("CH0312", "error", message, fix)


def _qualified(skill: Skill, name: str) -> str:
    return name if "." in name else f"{skill.id}.{name}"
