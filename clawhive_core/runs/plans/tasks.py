"""From what a user names to a task: its type, its checked input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clawhive_core.catalog.validation import compile_schema, describe
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.errors import InvalidInput, UnknownTaskType, UsageError
from clawhive_core.execution.handlers.handlers import calls_of
from clawhive_core.model.ids import new_id
from clawhive_core.model.runs import Task
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.skills.discovery.skill_set import Entry


def find_task_type(
    skills: Sequence[Skill], name: str, left_out: Sequence[Entry] = ()
) -> tuple[str, Skill, TaskType]:
    """Return the task type of `SKILL.TASK`, or of TASK where one loaded skill has it.

    Args:
        skills: The loaded skills.
        name: What the user wrote.
        left_out: Skills that are not loaded, so that the answer can say so.

    Raises:
        UsageError: `skill_disabled`, where only a skill that is switched off has it.
        UnknownTaskType: No skill has it, or several do.
    """
    from clawhive_core.skills.contracts.manifest import task_types

    known = task_types(skills)
    if name in known:
        return (name, *known[name])
    matching = [full for full in known if full.rpartition(".")[2] == name]
    if len(matching) == 1:
        return (matching[0], *known[matching[0]])
    if matching:
        raise UnknownTaskType(
            f"several skills have a task type `{name}`",
            place="--task",
            fix=f"write one of {', '.join(sorted(matching))}",
        )
    for entry in left_out:
        if any(name in {task, f"{entry.skill.id}.{task}"} for task in entry.skill.tasks):
            raise _not_loaded(entry, name)
    raise UnknownTaskType(
        f"no loaded skill has a task type `{name}`", place="--task", fix=_suggest(name, known)
    )


def _not_loaded(entry: Entry, name: str) -> UsageError:
    message = f"`{name}` is a task type of `{entry.skill.id}`, which is {entry.state}"
    if entry.reason:
        message = f"{message}: {entry.reason}"
    if entry.state == "disabled":
        return UsageError(message, code="skill_disabled", place="--task", fix=entry.next_step)
    return UnknownTaskType(message, place="--task", fix=entry.next_step)


def _suggest(name: str, known: Mapping[str, Any]) -> str:
    short = {full.rpartition(".")[2] for full in known}
    listed = f"known are: {', '.join(sorted(known)) or 'none'}"
    return did_you_mean(name, [*known, *short]) or listed


def permissions_of(skill: Skill, task_type: TaskType, skills: Sequence[Skill]) -> tuple[str, ...]:
    """Return what a skill declares for a task type; none where it declares nothing.

    Naming a tool in a step declares its call; naming a skill's declares the calls that its
    contract names.
    """
    if not skill.permissions:
        return ()
    named = calls_of([step["tool"] for step in task_type.steps], skills)
    return (*skill.permissions, *sorted(f"tool.call:{name}" for name in named))


def make_task(full_name: str, task_type: TaskType, given: Mapping[str, Any]) -> Task:
    """Return a task of a type, defaults filled in and its input checked.

    Raises:
        InvalidInput: `place` is the path of the argument.
    """
    properties: Mapping[str, Any] = task_type.input_schema.get("properties", {})
    defaults: dict[str, Any] = {
        name: schema["default"] for name, schema in properties.items() if "default" in schema
    }
    value = {**defaults, **given}
    problems = compile_schema(task_type.input_schema)(value)
    if problems:
        names = _arguments(task_type, value)
        paths = [problem.path or f"/{next(names, '')}" for problem in problems]
        raise InvalidInput(
            f"the input of `{full_name}` is not what it takes: {describe(problems)}",
            place=paths[0],
            fix=_input_fix(task_type, value),
            data={"paths": paths},
        )
    return Task(new_id("task"), full_name, value)


def _arguments(task_type: TaskType, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments that are missing, then those that are too much."""
    required = cast("Sequence[str]", task_type.input_schema.get("required", ()))
    yield from (name for name in required if name not in value)
    yield from _unknown(task_type, value)


def _unknown(task_type: TaskType, value: Mapping[str, Any]) -> list[str]:
    schema = task_type.input_schema
    if schema.get("additionalProperties") is not False:
        return []
    return [name for name in value if name not in schema.get("properties", {})]


def _input_fix(task_type: TaskType, value: Mapping[str, Any]) -> str:
    known = f"it takes: {_signature(task_type)}"
    for name in _unknown(task_type, value):
        names = cast("Mapping[str, Any]", task_type.input_schema.get("properties", {}))
        if (meant := did_you_mean(name, names)) is not None:
            return f"{meant} {known}"
    return known


def _signature(task_type: TaskType) -> str:
    properties = cast("Mapping[str, Any]", task_type.input_schema.get("properties", {}))
    required = cast("Sequence[str]", task_type.input_schema.get("required", ()))
    return ", ".join(name if name in required else f"{name}?" for name in properties)
