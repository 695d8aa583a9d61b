"""`clawhive skills new`: a folder with a skill that works offline."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.skills.place import shown

_TEMPLATES = Path(__file__).parent.parent / "data" / "templates"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME = 64


def new_skill(name: str, folder: Path, *, contract: bool = False) -> list[Path]:
    """Write a new skill to `folder / name` and return its files, sorted.

    Nothing is overwritten, and nothing half-written stays. The folder is made where it is missing.

    Args:
        name: A name by the public standard: lower-case words joined by `-`.
        folder: Where skills lie.
        contract: Whether it exports a tool, with its handler.

    Raises:
        UsageError: `invalid_name`, with a name that would do; `already_exists`; or `io_error`.
    """
    _check_name(name)
    target = folder / name
    if target.exists() or target.is_symlink():
        raise UsageError(
            f"{shown(target)} is already there",
            place=shown(target),
            fix="choose another name, or remove it yourself",
            code="already_exists",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as work:
            made = Path(work, name)
            made.mkdir()
            _fill(made, name, _TEMPLATES / ("skill_contract" if contract else "skill"))
            made.rename(target)
    except OSError as error:
        raise UsageError(
            f"the skill cannot be written: {error.strerror or error}",
            place=shown(target),
            fix="name a folder that you may write to",
            code="io_error",
        ) from error
    return sorted(path for path in target.iterdir() if path.is_file())


def _fill(target: Path, name: str, template: Path) -> None:
    title = name.replace("-", " ").capitalize()
    for source in sorted(template.iterdir()):
        text = source.read_text(encoding="utf-8")
        text = text.replace("{{id}}", name).replace("{{title}}", title)
        (target / source.name).write_text(text, encoding="utf-8", newline="\n")


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is not None and len(name) <= _MAX_NAME:
        return
    words = re.findall(r"[a-z0-9]+", name.lower())
    valid = "-".join(words)[:_MAX_NAME].strip("-") or "my-skill"
    raise UsageError(
        f"{name!r} is no name for a skill",
        place="NAME",
        fix="use lower-case words joined by `-`, at most 64 characters; such as: "
        f"clawhive skills new {valid}",
        code="invalid_name",
    )
