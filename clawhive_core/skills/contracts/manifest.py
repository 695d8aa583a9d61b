"""Reading a skill's contract: each part by itself, so that one mistake hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import did_you_mean
from clawhive_core.model.patterns import pattern
from clawhive_core.model.sinks import SinkKind, place_of
from clawhive_core.skills.contracts.contract import (
    read_access,
    read_exports,
    read_imports,
    read_requires,
)
from clawhive_core.skills.contracts.deprecation import read_deprecated
from clawhive_core.skills.contracts.limits import (
    beyond,
    beyond_policy,
    read_permissions,
    read_risk_policy,
    read_run_types,
)
from clawhive_core.skills.contracts.schema import check_exports, check_input_schema, schema_problem
from clawhive_core.skills.contracts.skill import Exports, Requires, RiskPolicy, Skill, TaskType
from clawhive_core.skills.documents.document import MAX_BYTES, MAX_SAID, Document
from clawhive_core.skills.documents.fields import Fields, text
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Named

KINDS: tuple[SinkKind, ...] = ("url", "path", "selector")
"""Kinds that are read; where mail and money go, only the user's words and records count."""


def read_grounds(contract: Fields) -> Mapping[str, tuple[str, ...]]:
    """Return the `grounds` of a contract: tool to places of its output.

    Raises:
        InvalidSkill: A place cannot be read, or is of a kind that no contract grounds.
    """
    body = contract.below("grounds")
    return {
        tool: tuple(_place(body.document, path, value) for path, value in body.items(tool))
        for tool in body.values
    }


def uncalled(skill: Skill, contract: Fields) -> Iterator[Finding]:
    """Yield a finding for each tool of `grounds` that nothing in the contract calls."""
    steps = {step["tool"] for task in skill.tasks.values() for step in task.steps}
    imported = {f"{each.skill}.{tool.name}" for each in skill.imports for tool in each.tools}
    own = {f"{skill.id}.{name}" for name in skill.exports.names()}
    called = {*steps, *imported, *own, *skill.requires.callable_tools}
    for tool in skill.grounds:
        if tool not in called:
            free = sorted(called - {*skill.grounds})
            fix = did_you_mean(tool, free) or "name it in `requires.tools` or a step"
            place = contract.document.place(contract.at("grounds", tool), key=True)
            yield place.finding("CH0310", "warning", f"`{skill.id}` never calls `{tool}`", fix)


def _place(document: Document, path: KeyPath, value: object) -> str:
    declared = text(document, path, value)
    fix = f"write PLACE:KIND with one of {', '.join(KINDS)}, such as items/*/url:url"
    try:
        place = place_of(declared)
    except ValueError as error:
        raise document.fail(path, str(error), fix) from error
    if place.kind not in KINDS or place.strict:
        raise document.fail(path, f"`{declared}` says nothing that a contract may ground", fix)
    return declared


PUBLIC = "public_state"
"""The only part of a skill's data that others may ever name."""


def read_external_tools(contract: Fields) -> tuple[Named, ...]:
    """Return `external_tools`: TOOL or SKILL.TOOL of other skills.

    Raises:
        InvalidSkill: It is no list of texts.
    """
    document = contract.document
    return tuple(
        Named(text(document, path, value), document.place(path))
        for path, value in contract.items("external_tools")
    )


def read_skill_data(contract: Fields) -> tuple[Named, ...]:
    """Return the skills that `requires_skill_data` names, in any of the forms it was written in.

    Raises:
        InvalidSkill: An entry names no skill.
    """
    value = contract.values.get("requires_skill_data", [])
    path = contract.at("requires_skill_data")
    if isinstance(value, dict):
        keys = contract.below("requires_skill_data").values
        return tuple(Named(key, contract.document.place((*path, key), key=True)) for key in keys)
    entries = [(path, value)] if isinstance(value, str) else contract.items("requires_skill_data")
    return tuple(_of_skill(contract, *entry) for entry in entries)


def _of_skill(contract: Fields, path: KeyPath, value: Any) -> Named:
    """Return the skill of one entry: `zodiac`, `zodiac.birth`, `skills.zodiac.birth`, a mapping."""
    if isinstance(value, dict):
        body = Fields.of(contract.document, path, cast("Any", value))
        key = next((key for key in ("skill", "from", "skill_id", "id") if key in body), "skill")
        path, value = body.at(key), body.values.get(key)
    name = text(contract.document, path, value).removeprefix("skills.")
    return Named(name.partition(".")[0], contract.document.place(path))


def check_data_paths(contract: Fields) -> Iterator[Finding]:
    """Yield what is wrong with `data_paths`: of the contract, its exports, each import."""
    holders = [contract]
    for key in ("exports", "imports"):
        value = cast("Any", contract.values.get(key))
        parts = cast("list[Any]", value) if isinstance(value, list) else [value]
        for index, part in enumerate(parts):
            path = contract.at(key, index) if isinstance(value, list) else contract.at(key)
            if isinstance(part, dict):
                holders.append(Fields(contract.document, path, cast("dict[str, Any]", part)))
    for holder in holders:
        if "data_paths" in holder:
            yield from _data_paths(holder)


def _data_paths(holder: Fields) -> Iterator[Finding]:
    place = holder.document.place(holder.at("data_paths"), key=True)
    message = "`data_paths` is an old way to share data, and ties others to how it is kept"
    fix = "export a tool that answers it, and let others import that"
    yield place.finding("CH0314", "warning", message, fix)
    value = holder.values["data_paths"]
    entries = [(holder.at("data_paths"), value)]
    try:
        entries = entries if isinstance(value, str) else holder.items("data_paths")
        for path, each in entries:
            name = text(holder.document, path, each)
            if not _is_public(name):
                message = f"`{name}` is not `{PUBLIC}`, the only data that a path may name"
                yield holder.document.finding("CH0316", path, message, fix)
    except InvalidSkill as error:
        yield error.finding


def _is_public(name: str) -> bool:
    parts = name.replace("/", ".").split(".")
    return PUBLIC in (parts[2:3] if parts[0] == "skills" else parts[:1])


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


__all__ = ["MANIFEST", "MANIFESTS", "MAX_BYTES", "ContractReader", "task_types"]

MANIFEST = "clawhive.yaml"
MANIFESTS = (MANIFEST, "clawhive.json")
ID = pattern(r"[A-Za-z0-9_-]{1,64}")

_KNOWN = (
    *("id", "skill_name", "name", "description", "version", "license", "metadata"),
    *("exports", "imports", "requires", "required_tools", "permissions", "tasks", "grounds"),
    *("external_tools", "risk_policy", "allowed_run_types", "requires_skill_data", "data_paths"),
)

T = TypeVar("T")


class ContractReader:
    """Reads one contract into a skill and keeps what is wrong with it.

    Args:
        fields: The contract: a manifest, or a part of a frontmatter.
        whole: Whether all keys are ClawHive's own, so that an unknown one is a mistake.
    """

    def __init__(self, fields: Fields, *, whole: bool) -> None:
        self._fields = fields
        self._whole = whole
        self.findings: list[Finding] = []

    @classmethod
    def load(cls, file: Path) -> ContractReader:
        """Return the reader of a manifest.

        Raises:
            InvalidSkill: It cannot be read, or is no mapping.
        """
        document = Document.load(file)
        value: Any = {} if document.value is None else document.value
        if document.problems and not isinstance(value, dict):
            raise InvalidSkill(document.problems[0])
        values = cast("Any", value)
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value).items()
            values = {key: each for key, each in entries if isinstance(key, str)}
        reader = cls(Fields.of(document, (), values), whole=True)
        reader.findings.extend(document.problems)
        return reader

    def read(self, skill: Skill) -> Skill:
        """Return the skill with all that the contract declares."""
        fields = self._fields
        if self._whole:
            self._note_unknown()
        declared = replace(
            skill,
            id=self._try(self._id, "") or skill.id,
            version=self._try(lambda: fields.text("version"), "") or skill.version,
            description=skill.description or self._try(lambda: fields.text("description"), ""),
            permissions=self._try(lambda: read_permissions(fields), ()),
            exports=self._exports(),
            imports=self._try(lambda: read_imports(fields), ()),
            requires=self._try(lambda: read_requires(fields), Requires()),
            risk_policy=self._try(lambda: read_risk_policy(fields), RiskPolicy()),
            allowed_run_types=self._try(lambda: read_run_types(fields), None),
            external_tools=self._try(lambda: read_external_tools(fields), ()),
            skill_data=self._try(lambda: read_skill_data(fields), ()),
            tasks=self._tasks(),
            grounds=self._try(lambda: read_grounds(fields), {}),
        )
        self.findings.extend(self._checked(declared))
        return declared

    def _checked(self, skill: Skill) -> Iterator[Finding]:
        """Yield what the parts of a contract that could be read say of each other."""
        fields = self._fields
        yield from self._unversioned(skill)
        yield from check_exports(fields, skill)
        yield from beyond_policy(skill.risk_policy, skill.exports.tools)
        yield from check_data_paths(fields)
        yield from uncalled(skill, fields)
        for task in skill.tasks.values():
            at = fields.at("tasks", task.name, "input_schema")
            yield from check_input_schema(fields, at, task.input_schema)
            yield from beyond(fields, skill.permissions, task)

    def _try(self, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except InvalidSkill as error:
            self.findings.append(error.finding)
            return default

    def _id(self) -> str:
        key = "id" if "id" in self._fields or "skill_name" not in self._fields else "skill_name"
        value = self._fields.text(key)
        if value and ID.fullmatch(value) is None:
            message = f"`{value}` is no id of a skill"
            fix = "use letters, digits, `_` and `-`, at most 64 of them"
            path = self._fields.at(key)
            raise InvalidSkill(self._fields.document.finding("CH0202", path, message, fix))
        return value

    def _exports(self) -> Exports:
        """Return the exports: a mistake of their access or of what goes hides no tool."""
        exports = self._try(lambda: read_exports(self._fields), None)
        if exports is None or "exports" not in self._fields:
            return Exports()
        body = self._fields.below("exports")
        access = self._try(lambda: read_access(body), exports.access)
        return replace(
            exports, access=access, deprecated=self._try(lambda: read_deprecated(body), ())
        )

    def _tasks(self) -> dict[str, TaskType]:
        tasks = self._try(lambda: self._fields.below("tasks"), None)
        if tasks is None:
            return {}
        read = [self._try(partial(read_task, tasks, name), None) for name in tasks.values]
        return {task.name: task for task in read if task is not None}

    @staticmethod
    def _unversioned(skill: Skill) -> Iterator[Finding]:
        exports = skill.exports
        if exports.tools and not exports.api_version and exports.place is not None:
            message = "the exports state no api_version, so no import can ask for one"
            fix = 'add `api_version: "1.0"`'
            yield exports.place.finding("CH0501", "warning", message, fix)

    def _note_unknown(self) -> None:
        unknown = (key for key in self._fields.values if key not in _KNOWN)
        for key in islice(unknown, MAX_SAID):
            free = [each for each in _KNOWN if each not in self._fields]
            fix = did_you_mean(key, free) or "remove it"
            place = self._fields.document.place(self._fields.at(key), key=True)
            message = f"`{key}` is no key of a manifest"
            self.findings.append(place.finding("CH0306", "warning", message, fix))


def task_types(skills: Sequence[Skill]) -> dict[str, tuple[Skill, TaskType]]:
    """Return every task type by `SKILL.TASK`."""
    return {
        f"{skill.id}.{task.name}": (skill, task)
        for skill in skills
        for task in skill.tasks.values()
    }
