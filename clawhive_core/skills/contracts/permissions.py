"""Reading `permissions`: a skill's, the most that it is ever given, and those of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.errors import CapabilityError
from clawhive_core.skills.contracts.skill import TaskType
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill

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

    bounds = [parse(text, _VARIABLES) for text in permitted]
    for number, step in enumerate(task.steps):
        for index, text in enumerate(step.get("permissions", ())):
            wanted = parse(text, _VARIABLES).unconstrained
            named = text == f"tool.call:{step['tool']}"  # naming a tool permits its call
            if named or not bounds or any(contains(each, wanted) for each in bounds):
                continue
            at = contract.at("tasks", task.name, "steps", number, "permissions", index)
            message = (
                f"the step is not given `{text}`, or not all of it: the skill does not permit it"
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
