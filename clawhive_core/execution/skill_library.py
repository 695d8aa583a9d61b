"""The texts of skills, as far as a model may read them, and the core tool `skill_open`.

Names and descriptions are offered of every loaded skill; what stands in its files only of one that
somebody vouches for: the wheel, the user by `skills trust`, or the user by keeping it in the
configuration directory, where no tool can write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import ClawHiveError, SkillError, StorageError, ToolError, UsageError
from clawhive_core.execution.core_tools import PROVIDER_ID, CoreTool
from clawhive_core.model.late import dataclass
from clawhive_core.model.principal import Principal
from clawhive_core.model.tools import Enablement, ToolMeta, ToolResult
from clawhive_core.policy.protected import protection_of
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.discovery.skill_set import Entry, SkillSet

if TYPE_CHECKING:
    from clawhive_core.execution.files.workspace import FileWorkspace


MAX_TEXT = 64 * 1024
"""Characters of one page; a longer one is cut, and the cut is marked."""
MAX_FILE = 8 * 1024 * 1024
"""Bytes of a file that is read to be cut; a larger one is refused."""
MAX_FILES = 200
"""Files that a page names."""

_MAX_COUNTED = 5_000
_PARTS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class SkillPage:
    """One text of a skill, and what else there is to open."""

    skill: str
    path: str | None
    """The file below the skill's folder, None for the body of its SKILL.md."""
    text: str
    left: int
    """Characters that were cut off."""
    files: tuple[str, ...]
    more_files: int
    """Files that are not named; counting ends at a few thousand."""

    @property
    def tagged(self) -> str:
        """The text between tags that name the skill, as a model reads it."""
        where = "" if self.path is None else f' path="{self.path}"'
        cut = f"\n[cut: {self.left} more characters]" if self.left else ""
        return f'<skill name="{self.skill}"{where}>\n{self.text.strip()}{cut}\n</skill>'


@dataclass(frozen=True, slots=True)
class SkillLibrary:
    """Finds the skills of a set by name and reads their texts."""

    skills: Callable[[], SkillSet]
    user_dir: Path
    """The user's own directory, which holds the list of trusted skills."""

    def only(self, ids: Collection[str] | None) -> SkillLibrary:
        """Return the library of the skills with these ids, None for all."""
        if ids is None:
            return self
        return replace(self, skills=lambda: self.skills().only(ids))

    def has(self, name: str) -> bool:
        """Whether a skill is loaded and a model may read its text."""
        return any(each.id == name and self.may_read(each) for each in self.skills().loaded)

    def may_read(self, skill: Skill) -> bool:
        """Whether somebody vouches for the files of a skill, as they were when it was loaded."""
        return skill.trusted or self._is_users_own(skill)

    def open(self, name: str, path: str | None = None) -> SkillPage:
        """Return the body of a skill, or one of its files.

        Trust is looked up after the files were read, so that what was changed meanwhile by a tool
        is not taken for what the user trusted.

        Args:
            name: The id of a loaded skill.
            path: A file below its folder; None for the body of its SKILL.md.

        Raises:
            UnknownId: No skill has that id.
            UsageError: `skill_disabled` or `skill_not_loaded`, with the next step; or
                `untrusted_skill`.
            SkillError: The SKILL.md cannot be read any more.
            ToolError: The file is `not_found`, `denied`, `not_a_file`, `not_text` or `too_large`.
        """
        entry = self.skills().find(name)
        if entry.state != "loaded":
            raise _not_loaded(entry)
        skill = entry.skill
        try:
            text = _body(skill) if path is None else _file(skill, path)
        except ClawHiveError as error:
            self._require_trusted(skill)
            raise _explain_failure(skill, path, error) from None
        self._require_trusted(skill)
        files = list(_files(skill))
        return SkillPage(
            skill.id,
            path,
            text[:MAX_TEXT],
            max(0, len(text) - MAX_TEXT),
            tuple(files[:MAX_FILES]),
            max(0, len(files) - MAX_FILES),
        )

    def _require_trusted(self, skill: Skill) -> None:
        if self._is_users_own(skill):
            return
        from clawhive_core.skills.discovery.decisions import SkillTrust, is_trusted

        try:
            digests = SkillTrust(self.user_dir).digests()
        except StorageError:
            digests = {}
        if not is_trusted(skill, digests):
            raise UsageError(
                f"the text of `{skill.id}` is given to no model until you trust the skill",
                code="untrusted_skill",
                place=shown_path(skill.content),
                fix=f"read it, then: clawhive skills trust {skill.id}",
            )

    def _is_users_own(self, skill: Skill) -> bool:
        """Whether a skill lies in the user's own directory, not only a link to it."""
        own = os.path.realpath(self.user_dir)
        places = (skill.content, skill.file, skill.text_file or skill.file)
        return all(PurePath(os.path.realpath(each)).is_relative_to(own) for each in places)


def _not_loaded(entry: Entry) -> UsageError:
    name, disabled = entry.skill.id, entry.state == "disabled"
    return UsageError(
        f"the skill `{name}` is {entry.state}: {entry.reason}",
        code="skill_disabled" if disabled else "skill_not_loaded",
        place=name,
        fix=entry.next_step or f"clawhive skills show {name}",
    )


def _body(skill: Skill) -> str:
    if skill.text_file is None:
        return skill.description
    from clawhive_core.skills.documents.text import read_skill_text

    text = read_skill_text(skill.text_file)
    problem = next((each for each in text.findings if each.severity == "error"), None)
    if problem is not None:
        raise SkillError(problem.message, place=problem.place)
    return text.body


def _files(skill: Skill) -> Iterator[str]:
    """Yield the files below a skill's folder that a model may open, sorted."""
    if not _has_folder(skill):
        return
    from clawhive_core.skills.documents.text import OTHER_NAME, TEXT_FILE

    for entry in islice(_folder(skill).walk("."), _MAX_COUNTED):
        if entry.kind == "file" and entry.path not in {TEXT_FILE, OTHER_NAME}:
            yield entry.path


def _file(skill: Skill, path: str) -> str:
    text = _folder(skill).read_text(path, limit=MAX_FILE)
    if "\0" in text:
        raise ToolError(f"{path} is no text: it holds NUL", code="not_text", place=path)
    return text


def _explain_failure(skill: Skill, path: str | None, error: ClawHiveError) -> ClawHiveError:
    """Return why a text of a skill cannot be opened, with what was probably meant."""
    if path is None or error.code not in {"denied", "not_found", "not_a_directory"}:
        return error
    files = list(_files(skill))
    close = nearest(path, files)
    fix = "name one of the skill's `files`" if files else "leave `path` out: the skill has no files"
    fix = f"did you mean `{close}`?" if close else fix
    code = "denied" if error.code == "denied" else "not_found"
    what = "may not be opened as a file of" if code == "denied" else "does not exist in"
    return ToolError(f"{path} {what} the skill `{skill.id}`", code=code, place=path, fix=fix)


def _folder(skill: Skill) -> FileWorkspace:
    """Return the folder of a skill as a handle that shows what a model may read of it."""
    from clawhive_core.execution.files.workspace import FileWorkspace

    base = PurePath(os.path.realpath(skill.folder))

    def allows(_verb: str, path: str) -> bool:
        there = PurePath(path)
        inside = _has_folder(skill) and there.is_relative_to(base)
        return inside and _is_text(there.relative_to(base).parts)

    return FileWorkspace(skill.folder, allows)


def _has_folder(skill: Skill) -> bool:
    """Whether a skill has a folder of its own; a manifest alone lies beside others."""
    return skill.content == skill.folder


def _is_text(parts: tuple[str, ...]) -> bool:
    """Whether a path below a skill's folder belongs to what its author wrote for readers.

    Contract and handlers right below it are for programs, and no model needs them.
    """
    from clawhive_core.skills.contracts.handlers import HANDLERS
    from clawhive_core.skills.contracts.manifest import MANIFESTS

    if any(part.startswith(".") or part in _PARTS for part in parts):
        return False
    if len(parts) == 1 and parts[0].casefold() in {*MANIFESTS, HANDLERS}:
        return False
    return protection_of(parts) is None


_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_ANSWER: dict[str, Any] = {
    "name": _TEXT,
    "path": {"type": ["string", "null"]},
    "text": _TEXT,
    "truncated": {"type": "boolean"},
    "files": {"type": "array", "items": _TEXT},
    "more_files": _COUNT,
}

SKILL_OPEN = ToolMeta(
    name="skill_open",
    description=(
        "Read the text of a skill before doing what the skill is for; with `path`, one of the"
        " files that the text refers to."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "The name of the skill."},
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "A file of the skill, relative to its folder; without it, its text.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": _ANSWER,
        "required": list(_ANSWER),
        "additionalProperties": False,
    },
    provider_id=PROVIDER_ID,
    capability_level="L0",
    risk="safe",
    idempotent=True,
    output_trust="trusted",  # nothing is answered that nobody vouches for
    always_load=True,
    category="skills",
    keywords=("skill", "instructions", "knowledge", "how"),
    examples=({"name": "code"}, {"name": "code", "path": "references/limits.md"}),
)


def skill_open(
    library: SkillLibrary, known: Callable[[Principal], Collection[str] | None] = lambda _: None
) -> CoreTool:
    """Return the tool over a library of skills.

    Args:
        library: The skills.
        known: The ids of the only ones that a principal knows, None for all.
    """

    async def run(input: Mapping[str, Any], ctx: InvokeContext) -> ToolResult:
        from anyio import to_thread

        work = partial(library.only(known(ctx.principal)).open, input["name"], input.get("path"))
        page = await to_thread.run_sync(work, abandon_on_cancel=True)
        enables = Enablement((), skill=page.skill) if page.path is None else None
        value = _as_json(page)
        return ToolResult(ctx.tool_call_id, _as_text(page), structured=value, enables=enables)

    return CoreTool(SKILL_OPEN, run)


def _as_text(page: SkillPage) -> str:
    if not page.files:
        return page.tagged
    more = f", and {page.more_files} more" if page.more_files else ""
    return f"{page.tagged}\nFiles of the skill, for `path`: {', '.join(page.files)}{more}"


def _as_json(page: SkillPage) -> dict[str, Any]:
    return {
        "name": page.skill,
        "path": page.path,
        "text": page.text,
        "truncated": page.left > 0,
        "files": list(page.files),
        "more_files": page.more_files,
    }
