"""From a folder, or a manifest alone, to a skill and what is wrong with it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding, Severity
from clawhive_core.diagnostics.suggestions import is_typo, suggestion
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.contract import REQUIRES_KEYS
from clawhive_core.skills.contracts.handlers import with_handlers
from clawhive_core.skills.contracts.manifest import ID, MANIFESTS, ContractReader
from clawhive_core.skills.contracts.skill import Phase, Skill
from clawhive_core.skills.discovery.shipped import SOURCE as SHIPPED
from clawhive_core.skills.discovery.shipped import is_checked, shipped_content, shipped_folder
from clawhive_core.skills.documents.document import Document, with_severity
from clawhive_core.skills.documents.fields import Fields
from clawhive_core.skills.documents.place import InvalidSkill, KeyPath, Place, is_file, is_folder
from clawhive_core.skills.documents.text import OTHER_NAME, TEXT_FILE, SkillText, read_skill_text

_OTHERS = (*MANIFESTS, OTHER_NAME)
"""Files that hardly any has; to ask for one is cheaper than to fail to open it."""
FILES = (TEXT_FILE, *_OTHERS)


@dataclass(frozen=True, slots=True)
class Location:
    """A skill's folder, or a manifest alone."""

    path: str
    files: tuple[str, ...] | None
    """Those of `FILES` that the folder holds; None for a manifest alone."""
    is_link: bool = False
    """Whether the path itself is a link."""

    @classmethod
    def of(cls, place: Path) -> Location:
        """Look at a place: whatever is no folder counts as a manifest alone."""
        path = os.fspath(place)
        return cls(path, skill_files(path) if is_folder(path) else None, place.is_symlink())


def skill_files(folder: str) -> tuple[str, ...]:
    """Return which of `FILES` a folder holds; with none of them it is no skill."""
    begin = folder + os.sep
    rest = [name for name in _OTHERS if os.access(begin + name, os.F_OK) and is_file(begin + name)]
    return (TEXT_FILE, *rest) if is_file(begin + TEXT_FILE) else tuple(rest)


_CONTRACT_KEYS = ("exports", "imports", "external_tools", "requires_skill_data")
_HOLDERS = frozenset({*_CONTRACT_KEYS, "metadata", "requires"})
"""The keys that a contract can stand in."""
_MAX_DESCRIPTION = 1024
_NO_VERSION = "0.0.0"
_HERE = f".{os.sep}"

STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The keys of a SKILL.md that the public standard knows."""


@dataclass(frozen=True, slots=True)
class ReadSkill:
    """A skill as far as it could be read, and the findings about its files."""

    skill: Skill
    findings: tuple[Finding, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether nothing about it is an error."""
        return not self.findings or all(each.severity != "error" for each in self.findings)


def not_text(place: Place) -> Finding:
    """Return the error for a description that YAML reads as another type than text."""
    message = "`description` must be a text"
    return place.finding("CH0207", "error", message, "put it in quotes")


def no_description(text: SkillText) -> Finding:
    """Return the error for a description that is missing, empty, or under a misspelt key."""
    message = "there is no description, so no model can know when to use the skill"
    place, fix = text.place("description"), "write `description: ...`"
    place, fix = _misspelt(text, "description") or (place, fix)
    return place.finding("CH0205", "error", message, fix)


def misspelt_key(text: SkillText, wanted: str) -> str | None:
    """Return the key that stands for a missing one and looks like it, None where there is none."""
    if wanted in text.values:
        return None
    keys = (key for key in text.values if key not in STANDARD_KEYS)
    return next((key for key in keys if is_typo(key, wanted)), None)


def _misspelt(text: SkillText, wanted: str) -> tuple[Place, str] | None:
    """Return the place of a misspelt key and what to write for it."""
    key = misspelt_key(text, wanted)
    if key is None or text.document is None:
        return None
    return text.document.place((key,), key=True), suggestion(wanted)


def is_skill(folder: Path) -> bool:
    """Whether a folder is a skill: it has a SKILL.md or a manifest."""
    return bool(skill_files(os.fspath(folder)))


def read_skill(place: Path | Location, source: str) -> ReadSkill:
    """Return the skill of a folder, or of a manifest alone; it never raises for what a file says.

    Args:
        place: A folder with SKILL.md or a manifest, or a file `NAME.yaml` or `NAME.json`.
        source: Which part of the search path it comes from.
    """
    read = read_contract(place, source)
    if read.skill.manifest is None:
        return read
    skill, findings = with_handlers(read.skill, checked=is_checked(read.skill))
    if not read.is_valid and not skill.imports:  # it may import what its code names
        findings = [each for each in findings if each.code != "CH0615"]
    return ReadSkill(skill, (*read.findings, *findings))


_AROUND: Mapping[Phase, Severity] = {"compat": "warning", "enforce": "error", "final": "error"}
_OLD: Mapping[Phase, Severity] = {"compat": "warning", "enforce": "warning", "final": "error"}
_WEIGHTS = {
    "CH0610": _AROUND,  # another skill's code
    "CH0615": _AROUND,  # a call that is not declared
    "CH0303": _OLD,  # external_tools
    "CH0313": _OLD,  # requires_skill_data
    "CH0314": _OLD,  # data_paths
}


def in_phase(findings: Iterable[Finding], phase: Phase) -> tuple[Finding, ...]:
    """Return findings with the weight that they have in a phase."""
    return tuple(
        replace(each, severity=_WEIGHTS[each.code][phase]) if each.code in _WEIGHTS else each
        for each in findings
    )


def weighed(read: ReadSkill, phase: Phase) -> ReadSkill:
    """Return what was read, with the weight that old forms have in a phase."""
    same = read.skill.phase == phase
    if same and not read.findings:
        return read
    skill = read.skill if same else replace(read.skill, phase=phase)
    return ReadSkill(skill, in_phase(read.findings, phase))


def read_contract(place: Path | Location, source: str) -> ReadSkill:
    """Return a skill as its text and its contract declare it, without a look at its handlers."""
    location = place if isinstance(place, Location) else Location.of(place)
    path = location.path.removeprefix(_HERE)
    if location.files is not None:
        return _Folder(path, location.files, source).read()
    place = Path(path)
    skill = Skill(_slug(place.stem), _NO_VERSION, str(place.parent), source, manifest=place)
    return _with_manifest(skill, place, [])


def skill_text(skill: Skill) -> str:
    """Return the body of a skill's SKILL.md, empty for a manifest alone."""
    return "" if skill.text_file is None else read_skill_text(skill.text_file).body


def _with_manifest(skill: Skill, file: Path, findings: list[Finding]) -> ReadSkill:
    try:
        reader = ContractReader.load(file)
    except InvalidSkill as error:
        return ReadSkill(skill, (*findings, error.finding))
    read = reader.read(replace(skill, manifest=file))
    return ReadSkill(read, (*findings, *reader.findings))


class _Folder:
    """A skill's folder while it is read."""

    def __init__(self, folder: str, files: Sequence[str], source: str) -> None:
        self._folder = folder
        self._name = folder.rpartition(os.sep)[2]
        self._source = source
        alone = len(files) == 1 and TEXT_FILE in files
        manifests = () if alone else [name for name in files if name in MANIFESTS]
        self._manifests = [Path(folder, name) for name in manifests]
        self._file = TEXT_FILE if TEXT_FILE in files else OTHER_NAME if OTHER_NAME in files else ""
        self._text = read_skill_text(f"{folder}{os.sep}{self._file}") if self._file else None
        self._findings: list[Finding] = [] if self._text is None else [*self._text.findings]
        self._id = _slug(self._name)

    def read(self) -> ReadSkill:
        skill = self._described(self._text) if self._text is not None else self._bare()
        inside = [] if self._text is None else self._inside(self._text)
        if len(self._manifests) + len(inside) > 1:
            self._two_places(inside)
        if self._manifests:
            return _with_manifest(skill, self._manifests[0], self._findings)
        if inside and self._text is not None:
            return self._with_inside(skill, inside[0], self._text.file)
        return ReadSkill(skill, tuple(self._findings))

    def _described(self, text: SkillText) -> Skill:
        """Return the skill with what the standard's keys say."""
        self._check_name(text)
        return Skill(
            id=self._text_id(text),
            version=self._text_version(text),
            path=self._folder,
            source=self._source,
            description=self._description(text),
            text_name=self._file,
            frontmatter=text.values,
        )

    def _bare(self) -> Skill:
        return Skill(self._id, _NO_VERSION, self._folder, self._source)

    def _check_name(self, text: SkillText) -> None:
        if text.document is None:
            return
        name = text.values.get("name")
        if name == self._name == self._id:
            return
        if not isinstance(name, str) or not name:
            message = "`name` is missing" if name is None else "`name` must be a text"
            fix = f"write `name: {self._id}`"
            place, fix = _misspelt(text, "name") or (text.place("name"), fix)
            self._findings.append(place.finding("CH0201", "warning", message, fix))
        elif ID.fullmatch(name) is None:
            message = "`name` is no id, so the skill is called like its folder"
            self._findings.append(text.place("name").finding("CH0202", "note", message))
        elif name != self._name:
            message = f"the folder is called `{self._name}` and the skill `{name}`"
            self._findings.append(text.place("name").finding("CH0204", "note", message))

    def _text_id(self, text: SkillText) -> str:
        name = text.values.get("name")
        if name == self._id or not isinstance(name, str) or ID.fullmatch(name) is None:
            return self._id
        return name

    def _text_version(self, text: SkillText) -> str:
        metadata = text.values.get("metadata")
        inside = cast("dict[Any, Any]", metadata) if isinstance(metadata, dict) else {}
        for version in (inside.get("version"), text.values.get("version")):
            if isinstance(version, str) and version:
                return version
        return _NO_VERSION

    def _description(self, text: SkillText) -> str:
        value = text.values.get("description")
        if text.document is None:
            return ""
        if isinstance(value, str) and value.strip():
            if len(value) > _MAX_DESCRIPTION:
                message = f"the description is longer than {_MAX_DESCRIPTION} characters"
                place = text.place("description")
                self._findings.append(place.finding("CH0206", "note", message))
            return value.strip()
        place = text.place("description")
        if value is not None and not isinstance(value, str):
            self._findings.append(not_text(place))
        elif not self._manifests:
            self._findings.append(no_description(text))
        return ""

    def _inside(self, text: SkillText) -> list[tuple[KeyPath, Any]]:
        """Return the contracts that stand in the frontmatter, by their paths."""
        if _HOLDERS.isdisjoint(text.values):
            return []
        found: list[tuple[KeyPath, Any]] = []
        metadata = text.values.get("metadata")
        if isinstance(metadata, dict) and "clawhive" in metadata:
            found.append((("metadata", "clawhive"), cast("dict[str, Any]", metadata)["clawhive"]))
            self._note_inside(text, "metadata", "clawhive")
        keys = [key for key in _CONTRACT_KEYS if key in text.values]
        ours = self._requires_ours(text)
        if keys or ours:
            found.append(((), text.values))
        for key in keys:
            self._note_inside(text, key)
        return found

    def _note_inside(self, text: SkillText, *path: str) -> None:
        message = f"`{path[0]}` at the top of a SKILL.md is refused by other tools"
        if len(path) > 1:
            message = f"the contract stands in `{'.'.join(path)}`, not in a file of its own"
        finding = text.place(*path).finding("CH0301", "note", message, f"move it to {MANIFESTS[0]}")
        self._findings.append(finding)

    def _requires_ours(self, text: SkillText) -> bool:
        """Whether `requires` at the top is written in ClawHive's way: others use the key too."""
        value = text.values.get("requires")
        if value is None or self._manifests:
            return False
        ours = _is_ours(value)
        if not ours:
            message = "`requires` has another tool's form and is not used"
            self._findings.append(text.place("requires").finding("CH0304", "note", message))
        return ours

    def _two_places(self, inside: list[tuple[KeyPath, Any]]) -> None:
        document = None if self._text is None else self._text.document
        places = [Place(shown_path(file), 1, 1) for file in self._manifests]
        places += [document.place(path) for path, _ in inside if document is not None]
        others = ", ".join(str(place) for place in places[:-1])
        message = f"the contract stands in more than one place; also in {others}"
        self._findings.append(places[-1].finding("CH0302", "error", message, "keep one of them"))

    def _with_inside(self, skill: Skill, found: tuple[KeyPath, Any], file: Path) -> ReadSkill:
        path, value = found
        self._findings = [
            with_severity(each, "error") if each.code == "CH0231" else each
            for each in self._findings
        ]
        try:
            fields = self._contract(path, value)
        except InvalidSkill as error:
            return ReadSkill(skill, (*self._findings, error.finding))
        reader = ContractReader(fields, whole=bool(path))
        read = reader.read(replace(skill, manifest=file))
        return ReadSkill(read, (*self._findings, *reader.findings))

    def _contract(self, path: KeyPath, value: Any) -> Fields:
        document = cast("Document", cast("SkillText", self._text).document)
        if isinstance(value, str):
            value = self._parsed(document, path, value)
        if path:
            return Fields.of(document, path, value)
        own = {key: value[key] for key in value if key in TOP_KEYS}
        if not any(key in own for key in _CONTRACT_KEYS):
            own = {"requires": own["requires"]}
        elif not _is_ours(own.get("requires", {})):
            del own["requires"]
        return Fields.of(document, path, own)

    def _parsed(self, document: Document, path: KeyPath, value: str) -> Any:
        """Return a contract that is written as a JSON text, for tools that want texts only."""
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise document.fail(path, f"is no JSON: {error}") from None


TOP_KEYS = (
    *("id", "skill_name", "version", "exports", "imports", "requires", "required_tools"),
    *("permissions", "tasks", "grounds", "risk_policy", "allowed_run_types"),
    *("external_tools", "requires_skill_data", "data_paths"),
)
"""The keys of a contract that stands at the top of a SKILL.md."""


def _is_ours(requires: Any) -> bool:
    """Whether `requires` has ClawHive's form: known keys, each a list."""
    if not isinstance(requires, dict):
        return False
    entries = cast("dict[Any, Any]", requires)
    return set(entries) <= {*REQUIRES_KEYS} and all(
        isinstance(each, list) for each in entries.values()
    )


def _slug(name: str) -> str:
    """Return a name as an id."""
    if ID.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64]
    if slug:
        return slug
    import hashlib

    return f"skill-{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


class Reader:
    """Reads every file anew: what a start does, because trust must not rest on a cache."""

    def expect(self, paths: Sequence[str]) -> None:
        """Prepare for questions about some paths."""

    def known(self, path: str) -> Location | None:
        """Return the skill that a path is known to be, without a look at its files."""
        del path
        return None

    def files(self, folder: str) -> tuple[str, ...]:
        """Return which files of a skill a folder holds, as `skill_files` does."""
        known = self.known(folder)
        return skill_files(folder) if known is None else known.files or ()

    def read(self, location: Location, source: str) -> ReadSkill:
        """Return a skill, as `read_skill` does."""
        return _read_shipped(location) if source == SHIPPED else read_skill(location, source)


_SHIPPED_READ: dict[str, tuple[list[tuple[str, bytes]], ReadSkill]] = {}
"""The content of each shipped skill's files as this process read it last, and the skill."""


def _read_shipped(location: Location) -> ReadSkill:
    """Return a shipped skill: its files are read at each start, and parsed where they changed."""
    try:
        content = [(shown_path(location.path), b""), *shipped_content(Path(location.path))]
    except OSError:
        return read_skill(location, SHIPPED)
    kept = _SHIPPED_READ.get(location.path)
    if kept is None or kept[0] != content:
        kept = _SHIPPED_READ[location.path] = content, read_skill(location, SHIPPED)
    return kept[1]


def shipped_skills() -> list[Skill]:
    """Return the shipped skills, by name; the wheel that brings them vouches for them."""
    folder = shipped_folder()
    if not is_folder(folder):
        return []
    return [
        replace(read_skill(each, SHIPPED).skill, trusted=True)
        for each in sorted(folder.iterdir())
        if is_skill(each)
    ]
