"""A folder made from a template: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clawhive_core.diagnostics.files import file_errors, shown_path
from clawhive_core.errors import StorageError, UsageError

TEMPLATES = Path(__file__).parent.parent / "data" / "templates"


def make_from_template(
    kind: str, target: Path, words: Mapping[str, str], *, parents: bool = False
) -> list[Path]:
    """Write the template of a kind to a folder that is not there yet; return its files, sorted.

    Nothing is overwritten, and nothing half-written stays.

    Args:
        kind: The template's name and what messages call it: `plugin`, `skill`.
        target: The new folder.
        words: What stands for each `{{word}}` of a text, and for each `__word__` that ends a name,
            of a file or in a text, such as `test___word__`: Python stays Python with it.
        parents: Whether the folder around it is made where it is missing.

    Raises:
        UsageError: `already_exists` or `io_error`.
    """
    import tempfile

    if os.path.lexists(target):
        raise UsageError(
            f"{shown_path(target)} is already there",
            place=shown_path(target),
            fix="choose another name, or remove it yourself",
            code="already_exists",
        )
    fix = "name a folder that you may write to"
    with file_errors(f"the {kind} cannot be written", target, fix):
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as work:
            made = Path(work, target.name)
            made.mkdir()
            _fill(TEMPLATES / kind, made, words)
            made.rename(target)
    return sorted(path for path in target.rglob("*") if path.is_file())


def _fill(template: Path, folder: Path, words: Mapping[str, str]) -> None:
    import shutil

    for source in sorted(template.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        name = _named(source.relative_to(template).as_posix(), words)
        text = _named(source.read_text(encoding="utf-8"), words)
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
        shutil.copymode(source, file)


def _named(text: str, words: Mapping[str, str]) -> str:
    """Return a text with the names filled in; `__name__` alone is Python's own."""
    import re

    return re.sub(r"(?<=\w)__([a-z]+)__", lambda found: words.get(found[1], found[0]), text)


_OWN = ".clawhive"


def make_folder(folder: Path) -> None:
    """Make a folder of ClawHive's own if missing: 0700, ignored by git.

    Raises:
        StorageError: `linked_folder`: it is a link.
        OSError: It cannot be made.
    """
    require_unlinked(folder)
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _ignore_in_git(folder)
    elif folder.name == _OWN:
        _ignore_in_git(folder)


def require_unlinked(path: Path) -> None:
    """Raise where a path leads through a link at or below a folder `.clawhive`.

    Whoever ships a project could otherwise have ClawHive read and write elsewhere.

    Raises:
        StorageError: `linked_folder`.
    """
    parts = path.parts
    if _OWN not in parts:
        return
    for end in range(parts.index(_OWN) + 1, len(parts) + 1):
        if os.path.islink(at := os.path.join(*parts[:end])):  # noqa: PTH114, PTH118 - each start passes here
            raise StorageError(
                f"{shown_path(Path(at))} is a link. ClawHive follows none there.",
                place=at,
                fix="Remove the link, or put what it leads to in its place.",
                code="linked_folder",
            )


def _ignore_in_git(folder: Path) -> None:
    # O_EXCL makes no file through a link either, wherever it leads.
    with suppress(OSError):
        handle = os.open(folder / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, b"*\n")
        finally:
            os.close(handle)


def file_error(error: OSError, path: Path | str) -> StorageError:
    """Return the error of a file of ClawHive's own that cannot be read or written."""
    return StorageError(
        f"The file cannot be used: {error.strerror or error}.",
        place=str(path),
        fix="Make the file and its folder readable and writable for this user.",
    )
