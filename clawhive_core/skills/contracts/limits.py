"""The limits that a skill sets itself: permissions, task types, and its risk policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import CapabilityError
from clawhive_core.skills.contracts.skill import (
    LEVELS,
    RISKS,
    ExportedTool,
    RiskPolicy,
    Skill,
    TaskType,
)
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, Named

_VARIABLES = {"workspace": "/workspace", "run": "/run", "home": "/home"}


def read_permissions(fields: Fields) -> tuple[str, ...]:
    """Return the `permissions` of a contract or of a step, as they are written.

    Raises:
        InvalidSkill: One cannot be read.
    """
    from clawhive_core.capabilities import normalise
    from clawhive_core.capabilities.verbs import VERBS

    permissions = fields.texts("permissions")
    for index, permission in enumerate(permissions):
        try:
            normalise(permission, _VARIABLES)
        except CapabilityError as error:
            path = fields.at("permissions", index)
            fix = did_you_mean(permission.partition(":")[0], VERBS) or error.fix
            finding = fields.document.finding("CH0309", path, error.message, fix)
            raise InvalidSkill(finding) from None
    return permissions


def beyond(contract: Fields, permitted: Sequence[str], task: TaskType) -> Iterator[Finding]:
    """Yield a warning for each permission of a step that its skill does not permit."""
    from clawhive_core.capabilities import contains, parse

    bounds = [parse(right, _VARIABLES) for right in permitted]
    for number, step in enumerate(task.steps):
        for index, right in enumerate(step.get("permissions", ())):
            wanted = parse(right, _VARIABLES).unconstrained
            named = right == f"tool.call:{step['tool']}"  # naming a tool permits its call
            if named or not bounds or any(contains(each, wanted) for each in bounds):
                continue
            at = contract.at("tasks", task.name, "steps", number, "permissions", index)
            message = (
                f"the step is not given `{right}`, or not all of it: the skill does not permit it"
            )
            fix = "add it to the skill's `permissions`, or remove it here"
            yield contract.document.place(at).finding("CH0311", "warning", message, fix)


def uncovered(permissions: Sequence[str], bounds: Sequence[str]) -> list[str]:
    """Return the permissions that are not wholly among others.

    Args:
        permissions: As contracts write them; all can be read.
        bounds: Likewise.
    """
    from clawhive_core.capabilities import contains, parse

    wider = [parse(text, _VARIABLES) for text in bounds]
    return [
        text
        for text in permissions
        if not any(contains(each, parse(text, _VARIABLES)) for each in wider)
    ]


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


_POLICY_KEYS = ("max_level", "max_risk", "confirm")


def read_risk_policy(contract: Fields) -> RiskPolicy:
    """Return the `risk_policy` of a contract.

    Raises:
        InvalidSkill: A part is not what it must be.
    """
    body = contract.below("risk_policy")
    body.closed(_POLICY_KEYS, "`risk_policy`")
    return RiskPolicy(
        body.one_of("max_level", LEVELS) or LEVELS[-1],
        body.one_of("max_risk", RISKS) or RISKS[-1],
        body.flag("confirm"),
    )


def beyond_policy(policy: RiskPolicy, tools: tuple[ExportedTool, ...]) -> Iterator[Finding]:
    """Yield an error for each tool that states more than the skill's own policy allows.

    What a tool does not state follows from the skill's permissions when it enters the catalog,
    which leaves out one that is above the cap then.
    """
    for tool in tools:
        stated = (tool.facts.level or LEVELS[0], tool.facts.risk or RISKS[0])
        problem = policy.beyond(*stated)
        if problem is not None:
            message = f"`{tool.name}` breaks the skill's risk_policy: {problem}"
            fix = "raise the cap, or lower what the tool does"
            yield tool.place.finding("CH0315", "error", message, fix)
