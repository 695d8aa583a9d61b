"""Reading `clawhive.yaml`: exact messages, each with file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from clawhive_core.errors import SkillError
from clawhive_core.skills.skill import Skill, TaskType

MANIFEST = "clawhive.yaml"
MAX_BYTES = 1024 * 1024
_NAMES = "use letters, digits, `_` and `-`, at most 64 of them"
_STEP_KEYS = frozenset({"name", "tool", "input", "needs", "for_each", "when", "permissions"})
_TASK_KEYS = frozenset({"description", "input_schema", "steps", "output"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_skill(folder: Path, source: str) -> Skill:
    """Return the skill whose manifest lies in a folder.

    Raises:
        SkillError: `place` is file:line:column.
    """
    reader = _Reader(folder / MANIFEST)
    root = reader.mapping(reader.value, "")
    tasks = reader.mapping(root.get("tasks", {}), "tasks")
    return Skill(
        id=reader.text(root.get("id", folder.name), "id"),
        version=reader.text(root.get("version", "0.0.0"), "version"),
        folder=folder,
        source=source,
        description=_description(folder),
        permissions=tuple(reader.texts(root.get("permissions", []), "permissions")),
        tasks={name: reader.task(name, value) for name, value in tasks.items()},
    )


class _Reader:
    """One manifest file: its values, and where each of them stands."""

    def __init__(self, path: Path) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._path = path
        try:
            if path.stat().st_size > MAX_BYTES:
                raise SkillError(f"the manifest is larger than {MAX_BYTES} bytes", place=str(path))
            text = path.read_text(encoding="utf-8-sig")
            self._node = yaml.compose(text, Loader=loader)
            self._refuse_duplicates()
            self.value: Any = yaml.load(text, Loader=loader)  # noqa: S506 - the safe loader in C
        except UnicodeDecodeError as error:
            raise SkillError(
                f"the manifest is not UTF-8: {error.reason}",
                place=str(path),
                fix="save it as UTF-8",
            ) from None
        except OSError as error:
            raise SkillError(
                f"the manifest cannot be read: {error.strerror}", place=str(path)
            ) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
            raise SkillError(
                f"the manifest is no YAML: {error.problem}", place=f"{path}:{line}:{column}"
            ) from None
        except (yaml.YAMLError, RecursionError) as error:
            raise SkillError(f"the manifest is no YAML: {error}", place=str(path)) from None

    def fail(self, where: str, message: str, fix: str | None = None) -> SkillError:
        """Return the error for a key path such as `tasks.report.steps.0`."""
        line, column = self._position(where)
        return SkillError(
            f"{where or 'the manifest'}: {message}", place=f"{self._path}:{line}:{column}", fix=fix
        )

    def _position(self, where: str) -> tuple[int, int]:
        node: Any = self._node
        for part in where.split(".") if where else ():
            below = self._child(node, part)
            if below is None:
                break
            node = below
        mark = None if node is None else node.start_mark
        return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)

    def _refuse_duplicates(self) -> None:
        """Refuse a key that stands twice in one mapping: YAML would keep the last in silence."""
        waiting: list[Any] = [self._node]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node is None or id(node) in seen or not isinstance(node.value, list):
                continue
            seen.add(id(node))
            if node.id == "mapping":
                pairs = cast("list[tuple[Any, Any]]", node.value)
                self._refuse_twice([key for key, _ in pairs])
                waiting += [value for _, value in pairs]
            else:
                waiting += cast("list[Any]", node.value)

    def _refuse_twice(self, keys: Sequence[Any]) -> None:
        first: dict[Any, Any] = {}
        for key in keys:
            name = key.value if isinstance(key.value, str) else id(key)
            if name in first:
                mark, other = key.start_mark, first[name].start_mark
                raise SkillError(
                    f"`{name}` stands twice; it was set in line {other.line + 1} before",
                    place=f"{self._path}:{mark.line + 1}:{mark.column + 1}",
                    fix="keep one of them",
                )
            first[name] = key

    def _child(self, node: Any, part: str) -> Any:
        entries: Any = getattr(node, "value", None)
        if not isinstance(entries, list):
            return None
        items = cast("list[Any]", entries)
        if node.id == "mapping":
            return next((value for key, value in items if key.value == part), None)
        return items[int(part)] if part.isdigit() and int(part) < len(items) else None

    def mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        """Return an object with text keys."""
        if not isinstance(value, dict) or not all(
            isinstance(key, str) for key in cast("dict[Any, Any]", value)
        ):
            raise self.fail(where, "must be a mapping")
        return cast("Mapping[str, Any]", value)

    def text(self, value: Any, where: str) -> str:
        """Return a text; a number such as a version must be quoted, since `1.10` would lose."""
        if isinstance(value, str) and value:
            return value
        raise self.fail(where, "must be a text", "put it in quotes")

    def texts(self, value: Any, where: str) -> list[str]:
        """Return a list of texts."""
        if not isinstance(value, list):
            raise self.fail(where, "must be a list")
        items = cast("list[Any]", value)
        return [self.text(item, f"{where}.{index}") for index, item in enumerate(items)]

    def task(self, name: str, value: Any) -> TaskType:
        """Return one entry of `tasks`."""
        where = f"tasks.{name}"
        body = self.mapping(value, where)
        if _NAME.fullmatch(name) is None:
            raise self.fail(where, f"`{name}` is no name of a task type", _NAMES)
        self.closed(body, _TASK_KEYS, where, "a task type")
        steps = body.get("steps", [])
        if not isinstance(steps, list):
            raise self.fail(f"{where}.steps", "must be a list")
        rows = cast("list[Any]", steps)
        return TaskType(
            name,
            self.text(body["description"], f"{where}.description") if "description" in body else "",
            self.mapping(body.get("input_schema", {"type": "object"}), f"{where}.input_schema"),
            tuple(self.step(row, f"{where}.steps.{index}") for index, row in enumerate(rows)),
            body.get("output"),
        )

    def step(self, value: Any, where: str) -> Mapping[str, Any]:
        """Return one step; its keys are closed, so that a misspelt one is noticed."""
        body = self.mapping(value, where)
        self.closed(body, _STEP_KEYS, where, "a step")
        for key in ("name", "tool"):
            if key not in body:
                raise self.fail(where, f"a step needs `{key}`", f"add `{key}: ...`")
            self.text(body[key], f"{where}.{key}")
        if _NAME.fullmatch(body["name"]) is None:
            raise self.fail(f"{where}.name", f"`{body['name']}` is no name of a step", _NAMES)
        for key in ("needs", "permissions"):
            self.texts(body.get(key, []), f"{where}.{key}")
        for key in ("for_each", "when"):
            if key in body:
                self.text(body[key], f"{where}.{key}")
        self.mapping(body.get("input", {}), f"{where}.input")
        return body

    def closed(self, body: Mapping[str, Any], keys: frozenset[str], where: str, what: str) -> None:
        """Refuse a key that is not known, at its place."""
        from difflib import get_close_matches

        for key in body:
            if key not in keys:
                close = get_close_matches(key, keys, n=1)
                known = f"use one of {', '.join(sorted(keys))}"
                fix = f"did you mean `{close[0]}`?" if close else known
                raise self.fail(f"{where}.{key}", f"`{key}` is no key of {what}", fix)


def _description(folder: Path) -> str:
    """Return the description of the SKILL.md beside the manifest, empty where there is none."""
    import yaml

    try:
        text = (folder / "SKILL.md").read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""
    parts = text.split("---\n", 2)
    if len(parts) < 3 or parts[0].strip():  # noqa: PLR2004 - before, frontmatter, body
        return ""
    try:
        front = yaml.safe_load(parts[1])
    except yaml.YAMLError:
        return ""
    return (
        str(cast("dict[str, Any]", front).get("description", "")) if isinstance(front, dict) else ""
    )


def task_types(skills: Sequence[Skill]) -> dict[str, tuple[Skill, TaskType]]:
    """Return every task type by `SKILL.TASK`."""
    return {
        f"{skill.id}.{task.name}": (skill, task)
        for skill in skills
        for task in skill.tasks.values()
    }
