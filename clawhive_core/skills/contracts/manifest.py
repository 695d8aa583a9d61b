"""Reading a skill's contract: each part by itself, so that one mistake hides no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import did_you_mean
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.access import read_access
from clawhive_core.skills.contracts.contract import read_exports, read_imports, read_requires
from clawhive_core.skills.contracts.deprecation import read_deprecated
from clawhive_core.skills.contracts.export_checks import check_exports, check_input_schema
from clawhive_core.skills.contracts.grounds import read_grounds, uncalled
from clawhive_core.skills.contracts.legacy import (
    check_data_paths,
    read_external_tools,
    read_skill_data,
)
from clawhive_core.skills.contracts.permissions import beyond, read_permissions
from clawhive_core.skills.contracts.risk_policy import RiskPolicy, beyond_policy, read_risk_policy
from clawhive_core.skills.contracts.run_types import read_run_types
from clawhive_core.skills.contracts.skill import Exports, Requires, Skill, TaskType
from clawhive_core.skills.contracts.task_type import read_task
from clawhive_core.skills.documents.document import MAX_BYTES, MAX_SAID, Document
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill

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
