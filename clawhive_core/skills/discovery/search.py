"""The search path: where skills are looked for; what stands earlier wins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from clawhive_core.config.config import Config
from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.stores import SkillSource
from clawhive_core.skills.discovery.reading import Location, Reader, is_skill, skill_files
from clawhive_core.skills.discovery.shipped import SOURCE, shipped_folder
from clawhive_core.skills.documents.document import MAX_BYTES
from clawhive_core.skills.documents.place import Place, is_file, is_folder

_SKILLS = f"{os.sep}skills"
_MANIFEST_ENDS = (".yaml", ".json")
_SKIPPED = frozenset({"node_modules", "__pycache__", "templates"})


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that holds skills."""

    folder: Path
    source: str
    """`flag`, `config`, `project`, `user`, `plugin NAME` or `shipped`."""

    def locations(self, reader: Reader) -> list[Location]:
        """Return its skills, sorted; a folder that was named may be one itself."""
        if self.source in {"flag", "config"} and is_skill(self.folder):
            return [Location.of(self.folder)]
        return skills_in(os.fspath(self.folder), reader)


@dataclass(frozen=True, slots=True)
class SearchPath:
    """The folders in their order, and what was wrong with naming them."""

    roots: tuple[Root, ...]
    findings: tuple[Finding, ...] = ()


def search_path(config: Config, sources: Sequence[SkillSource] = ()) -> SearchPath:
    """Return the folders of skills: named, project's, user's, those of plugins, shipped.

    Raises:
        UsageError: A folder that the command line names is not there.
    """
    findings: list[Finding] = []
    roots = _named(config)
    roots += [Root(config.root / each, "project") for each in ("skills", ".agents/skills")]
    roots.append(Root(config.user_dir / "skills", "user"))
    for source in sources:
        roots += _of_plugin(source, findings)
    roots.append(Root(shipped_folder(), SOURCE))
    return SearchPath(tuple(_once(roots)), tuple(findings))


def _named(config: Config) -> list[Root]:
    """Return what `--skills` names, else what `skills.paths` does."""
    value = config.value("skills.paths")
    source = "flag" if value.origin.startswith("flag") else "config"
    roots = [Root(config.root / path, source) for path in value.value]
    for root in roots:
        if source == "flag" and not is_folder(root.folder):
            raise UsageError(
                f"there is no folder {shown_path(root.folder)}",
                place="--skills",
                fix="name a folder that holds skills",
            )
    return roots


def _of_plugin(source: SkillSource, findings: list[Finding]) -> Iterator[Root]:
    try:
        name, folders = str(source.name), [Path(folder) for folder in source.folders()]
    except Exception as error:  # noqa: BLE001 - a plugin's code; the other sources go on
        message = f"a plugin's source of skills failed: {type(error).__name__}: {error}"
        findings.append(Finding("CH0405", "error", message))
        return
    for folder in folders:
        yield Root(folder, f"plugin {name}")


def _once(roots: Sequence[Root]) -> Iterator[Root]:
    """Yield each real folder once; a checkout's own `skills` are the shipped ones."""
    shipped = os.path.realpath(roots[-1].folder)
    seen: set[str] = set()
    for root in roots:
        real = os.path.realpath(root.folder)
        if real in seen or (real == shipped and root.source != SOURCE):
            continue
        seen.add(real)
        yield root


def skills_in(folder: str, reader: Reader) -> list[Location]:
    """Return the skills right below a folder, sorted: folders, and manifests alone."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
    visible = [entry for entry in found if not entry.name.startswith(".")]
    reader.expect([entry.path for entry in visible])
    locations = [_location(entry, reader) for entry in visible]
    return [location for location in locations if location is not None]


def _location(entry: os.DirEntry[str], reader: Reader) -> Location | None:
    """Return the skill that an entry of a folder is."""
    known = reader.known(entry.path)
    if known is not None:
        return Location(entry.path, known.files, entry.is_symlink())
    if not entry.name.endswith(_MANIFEST_ENDS):
        files = skill_files(entry.path)
        return Location(entry.path, files, entry.is_symlink()) if files else None
    file = Path(entry.path)
    if is_file(file) and file.stem != "clawhive" and _is_manifest_alone(file):
        return Location(entry.path, None, entry.is_symlink())
    return None


def _is_manifest_alone(file: Path) -> bool:
    """Whether a file looks like a manifest: other YAML and JSON may lie beside skills."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES)
    except OSError:
        return True
    words = (b"id", b"skill_name", b"tasks", b"exports", b"imports", b"requires", b"permissions")
    return any(word in text for word in words)


def skills_below(given: Path, reader: Reader) -> list[Location]:
    """Return the skills that a path of the command line means, sorted.

    Raises:
        UsageError: There is no such path.
    """
    if is_file(given):
        alone = given.suffix in _MANIFEST_ENDS and given.stem != "clawhive"
        return [Location.of(given if alone else _with_name(given.parent))]
    if not is_folder(given):
        raise UsageError(
            f"there is no {shown_path(given)}",
            place=shown_path(given),
            fix="name a folder of skills",
        )
    if is_skill(given):
        return [Location.of(_with_name(given))]
    top = os.fspath(given)
    found = {location.path: location for location in skills_in(top, reader)}
    for folder, folders, _ in os.walk(top):
        if folder != top and (files := reader.files(folder)):
            found[folder] = Location(folder, files)
            folders.clear()
        if folder != top and folder.endswith(_SKILLS):
            found.update({location.path: location for location in skills_in(folder, reader)})
        folders[:] = [
            name
            for name in folders
            if name not in _SKIPPED and _is_visible(name) and f"{folder}{os.sep}{name}" not in found
        ]
    return sorted(found.values(), key=lambda location: location.path.replace(os.sep, "\0"))


def _with_name(folder: Path) -> Path:
    """Return a folder so that its last part is its name, which `.` and `..` are not."""
    if folder.name not in {"", ".."}:
        return folder
    return Path(os.path.abspath(folder))  # noqa: PTH100 - links stay links, as for every other path


def _is_visible(name: str) -> bool:
    return not name.startswith(".") or name == ".agents"


def empty_finding(given: Path) -> Finding:
    """Return the finding for a path below which no skill lies."""
    return Place(shown_path(given)).finding(
        "CH0406",
        "warning",
        "no skill lies here",
        "a skill is a folder with SKILL.md or clawhive.yaml: clawhive skills new NAME",
    )
