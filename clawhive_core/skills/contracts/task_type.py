"""Reading `tasks`: closed keys, so that a misspelt one is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.permissions import read_permissions
from clawhive_core.skills.contracts.schema import schema_problem
from clawhive_core.skills.contracts.skill import TaskType
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath

_NAMES = "use letters, digits, `_` and `-`, at most 64 of them"
_STEP_KEYS = ("name", "tool", "input", "needs", "for_each", "when", "permissions")
_TASK_KEYS = ("description", "input_schema", "steps", "output")
_NAME = pattern(r"[A-Za-z0-9_-]{1,64}")


def read_task(tasks: Fields, name: str) -> TaskType:
    """Return one entry of `tasks`.

    Raises:
        InvalidSkill: It is not what a task type is.
    """
    body = tasks.below(name)
    if _NAME.fullmatch(name) is None:
        message = f"`{name}` is no name of a task type"
        raise InvalidSkill(body.document.finding("CH0307", body.path, message, _NAMES, key=True))
    body.closed(_TASK_KEYS, "a task type")
    steps = tuple(_step(body, path, value) for path, value in body.items("steps"))
    _check_names(body, steps)
    return TaskType(
        name, body.text("description"), _input_schema(body), steps, body.values.get("output")
    )


def _input_schema(body: Fields) -> Mapping[str, Any]:
    if "input_schema" not in body:
        return {"type": "object"}
    schema = body.below("input_schema").values
    problem = schema_problem(schema)
    if problem is not None:
        path = body.at("input_schema", *problem.path)
        message = f"the schema of the input is not valid: {problem.message}"
        raise InvalidSkill(body.document.finding(problem.code, path, message, problem.fix))
    return schema


def _step(task: Fields, path: KeyPath, value: Any) -> Mapping[str, Any]:
    body = Fields.of(task.document, path, value)
    body.closed(_STEP_KEYS, "a step")
    for key in ("name", "tool"):
        if key not in body:
            raise body.fail(None, f"a step needs `{key}`", f"add `{key}: ...`")
        body.text(key)
    name = body.text("name")
    if _NAME.fullmatch(name) is None:
        raise body.fail("name", f"`{name}` is no name of a step", _NAMES)
    body.texts("needs")
    read_permissions(body)
    for key in ("for_each", "when"):
        if key in body:
            text(body.document, body.at(key), body.values[key])
    body.below("input")
    return body.values


def _check_names(body: Fields, steps: tuple[Mapping[str, Any], ...]) -> None:
    """Refuse two steps of one name, and the need of a step that is not there."""
    names = [step["name"] for step in steps]
    for index, step in enumerate(steps):
        if step["name"] in names[:index]:
            path = body.at("steps", index, "name")
            message = f"a step before is called `{step['name']}` too"
            raise InvalidSkill(body.document.finding("CH0308", path, message, "rename one"))
        for place, need in enumerate(step.get("needs", [])):
            if need not in names:
                free = [
                    name for name in names if name not in step["needs"] and name != step["name"]
                ]
                fix = did_you_mean(need, free) or f"there are: {', '.join(names)}"
                path = body.at("steps", index, "needs", place)
                message = f"no step is called `{need}`"
                raise InvalidSkill(body.document.finding("CH0308", path, message, fix))
