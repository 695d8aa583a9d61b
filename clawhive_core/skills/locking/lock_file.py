"""`clawhive.lock`: each skill as it was, and the file, read and replaced whole.

It is JSON, which the fastest reader takes at 10,000 skills too. What belongs to one skill stands on
lines of its own under a digest of its own, and each schema on one line under its own, so that git
merges branches that locked different skills.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from datetime import date
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import replace_file, shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.errors import SkillError, StorageError
from clawhive_core.model.canonical import canonical_portable, digest
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import JsonSchema
from clawhive_core.skills.checks.required import Offer
from clawhive_core.skills.documents.place import Place, is_file

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LockedTool:
    """An exported tool: SHA-256 of its schemas and of its text; empty where it has none."""

    input: str
    output: str
    text: str


@dataclass(frozen=True, slots=True)
class LockedImport:
    """An imported tool: the provider's api_version then, and the schemas by their SHA-256."""

    api_version: str
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class LockedRemoval:
    """A deprecation: when the tool goes, and when that was announced, else first seen."""

    removal_date: date
    announced: date | None


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """One skill as it was."""

    id: str
    source: str
    """`./` and its path from the project's root, else `plugin NAME`, `user` or `shipped`."""
    version: str
    api_version: str
    content: str
    """SHA-256 of its files, empty where they cannot be bound to one."""
    text: str
    """SHA-256 of its description."""
    permissions: tuple[str, ...] = ()
    exports: Mapping[str, LockedTool] = field(default_factory=dict[str, LockedTool])
    deprecated: Mapping[str, LockedRemoval] = field(default_factory=dict[str, LockedRemoval])
    imports: Mapping[str, LockedImport] = field(default_factory=dict[str, LockedImport])
    """By `SKILL.TOOL`."""
    tools: Mapping[str, Offer | None] = field(default_factory=dict[str, "Offer | None"])
    """Tools that it requires of the catalog; None for what nothing offered."""

    def to_dict(self) -> dict[str, Any]:
        """Return its row, each mapping sorted."""
        return {
            "id": self.id,
            "source": self.source,
            "version": self.version,
            "api_version": self.api_version,
            "content": self.content,
            "text": self.text,
            "permissions": list(self.permissions),
            "exports": _sorted(self.exports),
            "deprecated": {
                name: {
                    "removal_date": str(each.removal_date),
                    "announced": None if each.announced is None else str(each.announced),
                }
                for name, each in sorted(self.deprecated.items())
            },
            "imports": _sorted(self.imports),
            "tools": _sorted(self.tools),
        }

    @classmethod
    def of(cls, row: Row) -> LockedSkill:
        """Return the skill of a row.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        return cls(
            _text(row["id"]),
            _text(row["source"]),
            _text(row["version"]),
            _text(row["api_version"]),
            _text(row["content"]),
            _text(row["text"]),
            tuple(_text(each) for each in _list(row["permissions"])),
            {name: _tool(each) for name, each in _rows(row["exports"])},
            {name: _removal(each) for name, each in _rows(row["deprecated"])},
            {name: _import(each) for name, each in _rows(row["imports"])},
            {name: None if each is None else _offer(each) for name, each in _rows(row["tools"])},
        )

    def schemas(self) -> set[str]:
        """Return the SHA-256 of each schema that it names."""
        named = (*self.exports.values(), *self.imports.values())
        return {each for one in named for each in (one.input, one.output) if each}


@dataclass(frozen=True, slots=True)
class Lock:
    """Skills by their ids, and schemas by their SHA-256."""

    skills: Mapping[str, LockedSkill] = field(default_factory=dict[str, LockedSkill])
    schemas: Mapping[str, JsonSchema] = field(default_factory=dict[str, JsonSchema])


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: None if each is None else asdict(each) for key, each in sorted(values.items())}


def _tool(row: Row) -> LockedTool:
    return LockedTool(_text(row["input"]), _text(row["output"]), _text(row["text"]))


def _import(row: Row) -> LockedImport:
    return LockedImport(_text(row["api_version"]), _text(row["input"]), _text(row["output"]))


def _removal(row: Row) -> LockedRemoval:
    announced = row["announced"]
    return LockedRemoval(
        date.fromisoformat(_text(row["removal_date"])),
        None if announced is None else date.fromisoformat(_text(announced)),
    )


def _offer(row: Row) -> Offer:
    verbs = tuple(_text(each) for each in _list(row["verbs"]))
    return Offer(
        _text(row["provider_id"]), _text(row["capability_level"]), _text(row["risk"]), verbs
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{value!r:.40}` is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"`{value!r:.40}` is no list")
    return cast("list[Any]", value)


def _rows(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError(f"`{value!r:.40}` is no object")
    return list(cast("dict[str, Any]", value).items())


NAME = "clawhive.lock"
RELOCK = "clawhive skills lock"
MAX_BYTES = 256 * 1024 * 1024

_SCHEMA = pattern(r"clawhive-lock/(\d{1,9})")
_VERSION = 1
_CONFLICT = pattern(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_TAKE = f"take one whole: git checkout HEAD -- {NAME}, else remove it; then: {RELOCK}"


class InvalidLock(SkillError):
    """The lock cannot be used, for the reason that its finding gives."""

    def __init__(self, finding: Finding) -> None:
        fix = None if finding.fix is None else finding.fix.title
        super().__init__(finding.message, place=finding.place, fix=fix)
        self.finding = finding


@dataclass(frozen=True, slots=True)
class LockFile:
    """The lock of a project."""

    root: Path
    """The project's root."""

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.root / NAME

    def data(self) -> bytes | None:
        """Return its bytes, None where there is none.

        Raises:
            InvalidLock: It cannot be read, or is no file.
        """
        try:
            if not is_file(self.path):
                if not self.path.is_symlink() and not self.path.exists():
                    return None
                raise self._invalid("CH0812", "is no file", "remove it, then: " + RELOCK)
            with self.path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
            raise self._invalid("CH0812", why, "give yourself the right to read it") from None
        if len(data) > MAX_BYTES:
            raise self._invalid("CH0812", f"is larger than {MAX_BYTES} bytes")
        return data

    def read(self) -> Lock | None:
        """Return what it holds, None where there is none.

        Raises:
            InvalidLock: It cannot be used: git's conflict marks, another form, a later form, or a
                digest that does not fit.
        """
        data = self.data()
        return None if data is None else self._lock(self._document(data))

    def write(self, data: bytes) -> None:
        """Replace it.

        Raises:
            StorageError: It cannot be written; it is as it was.
        """
        try:
            replace_file(self.path, data)
        except OSError as error:
            raise StorageError(
                f"{NAME} cannot be written: {error.strerror or error}",
                place=shown_path(self.path),
                fix="give yourself the right to write there, or free space, and repeat the command",
            ) from error

    def place(self, name: str | None = None) -> Place:
        """Return where a skill's id stands in it, its start without one."""
        file = shown_path(self.path)
        if name is None:
            return Place(file, 1, 1)
        text = (self.data() or b"").decode("utf-8", "replace")
        at = max(text.find(f'"id": {json.dumps(name)}'), 0)
        return Place(file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))

    def _document(self, data: bytes) -> Mapping[str, Any]:
        try:
            document: Any = json.loads(data.decode("utf-8"))
        except json.JSONDecodeError as error:
            if (mark := _CONFLICT.search(error.doc)) is not None:
                line = error.doc.count("\n", 0, mark.start()) + 1
                why = "has git's conflict marks"
                raise self._invalid("CH0811", why, line=line) from None
            raise self._invalid("CH0812", f"is no JSON: {error.msg}", line=error.lineno) from None
        except (ValueError, RecursionError) as error:
            raise self._invalid("CH0812", f"is no JSON: {error}") from None
        known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        form = _SCHEMA.fullmatch(str(known.get("schema")))
        if form is None or int(form[1]) < _VERSION:
            raise self._invalid("CH0812", f"is not in the form clawhive-lock/{_VERSION}")
        if int(form[1]) > _VERSION:
            why = f"is in the form {form[0]}, which a later ClawHive wrote"
            raise self._invalid("CH0813", why, "update it here: pip install --upgrade clawhive")
        return known

    def _lock(self, document: Mapping[str, Any]) -> Lock:
        schemas: Any = document.get("schemas")
        if not isinstance(schemas, dict):
            raise self._invalid("CH0812", "lacks the object `schemas`")
        known = cast("dict[str, Any]", schemas)
        for name, schema in known.items():
            if not isinstance(schema, dict) or digest(schema) != name:
                raise self._edited(f"the schema {name[:12]}", f'"{name}":')
        skills = {each.id: each for each in self._skills(document.get("skills"))}
        for each in skills.values():
            if not each.schemas() <= known.keys():
                raise self._invalid("CH0812", f"lacks a schema that `{each.id}` names")
        return Lock(skills, known)

    def _skills(self, rows: Any) -> Iterator[LockedSkill]:
        if not isinstance(rows, list):
            raise self._invalid("CH0812", "lacks the list `skills`")
        before = ""
        for number, row in enumerate(cast("list[Any]", rows)):
            try:
                given = dict(cast("dict[str, Any]", row))
                stated = given.pop("digest")
                skill = LockedSkill.of(given)
            except (KeyError, TypeError, ValueError) as error:
                why = f"skills/{number} is not in its form: {error}"
                raise self._invalid("CH0812", why) from None
            if skill.id <= before:
                why = f"has `{skill.id}` twice, or not in its order"
                raise self._invalid("CH0812", why, line=self.place(skill.id).line)
            if _digest(given) != stated:
                raise self._edited(f"`{skill.id}`", f'"id": {json.dumps(skill.id)}')
            before = skill.id
            yield skill

    def _edited(self, what: str, mark: str) -> InvalidLock:
        text = (self.data() or b"").decode("utf-8", "replace")
        line = text.count("\n", 0, max(text.find(mark), 0)) + 1
        why = f"says of {what} what no lock wrote: it was edited, or merged into something else"
        return self._invalid("CH0814", why, line=line)

    def _invalid(
        self, code: str, why: str, fix: str = _TAKE, *, line: int | None = None
    ) -> InvalidLock:
        place = Place(shown_path(self.path), line, None if line is None else 1)
        return InvalidLock(place.finding(code, "error", f"{NAME} {why}", fix))


def encoded(lock: Lock) -> bytes:
    """Return the bytes of a lock: equal locks have equal ones."""
    skills = ",\n".join(_encoded(each) for _, each in sorted(lock.skills.items()))
    schemas = ",\n".join(
        f"    {_json(name)}: {_json(schema)}" for name, schema in sorted(lock.schemas.items())
    )
    lines = (
        "{",
        f'  "schema": "clawhive-lock/{_VERSION}",',
        f'  "written_by": "{RELOCK}",',
        f'  "skills": [\n{skills}\n  ],' if skills else '  "skills": [],',
        f'  "schemas": {{\n{schemas}\n  }}' if schemas else '  "schemas": {}',
        "}",
    )
    return ("\n".join(lines) + "\n").encode("ascii")


def _encoded(skill: LockedSkill) -> str:
    row = skill.to_dict()
    row["digest"] = _digest(row)
    return "    {\n" + ",\n".join(_lines(row.items())) + "\n    }"


def _digest(row: Mapping[str, Any]) -> str:
    """Return the digest of a row, which holds no number."""
    return hashlib.sha256(canonical_portable(row)).hexdigest()


def _lines(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for key, value in items:
        if isinstance(value, dict) and value:
            entries = cast("dict[str, Any]", value).items()
            below = ",\n".join(f"        {_json(name)}: {_json(each)}" for name, each in entries)
            yield f"      {_json(key)}: {{\n{below}\n      }}"
        else:
            yield f"      {_json(key)}: {_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
