"""`clawhive skills new`, and the schemas of what people write in a skill, as they ship."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from clawhive_core.diagnostics.files import file_errors, replace_file
from clawhive_core.errors import UsageError
from clawhive_core.model.patterns import pattern
from clawhive_core.storage.folders import make_from_template

Part = Literal["contract", "frontmatter"]

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "contracts"


def published_schema(part: Part) -> str:
    """Return the JSON Schema (draft 2020-12) of a contract, or of a SKILL.md's frontmatter.

    It knows forms; what the parts of a contract and of a set say of each other, only
    `skills check` does.
    """
    return (_FOLDER / f"{part}.json").read_text(encoding="utf-8")


def is_published(part: Part, file: Path) -> bool:
    """Whether a file holds a schema as it is published now."""
    try:
        return file.read_bytes() == published_schema(part).encode()
    except OSError:
        return False


def write_schema(part: Part, file: Path) -> None:
    """Write a schema to a file, for editors that read it from there; folders are made.

    Raises:
        UsageError: `io_error`.
    """
    fix = "name a file that you may write to"
    with file_errors("the schema cannot be written", file, fix):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, published_schema(part).encode())


_NAME = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME = 64

SCHEMA = Path(".schemas", "contract.json")
"""The file where editors find the schema of contracts, from a folder of skills: it works offline,
and is handed on with the skills."""


def new_skill(name: str, folder: Path, *, contract: bool = False) -> list[Path]:
    """Write a new skill to `folder / name` and return its files, sorted.

    Nothing is overwritten, and nothing half-written stays. The folder is made where it is missing.

    Args:
        name: A name by the public standard: lower-case words joined by `-`.
        folder: Where skills lie.
        contract: Whether it exports a tool, with its handler and a test; the schema of contracts is
            written for editors, where it is missing.

    Raises:
        UsageError: `invalid_name`, with a name that would do; `already_exists`; or `io_error`.
    """
    _check_name(name)
    title = name.replace("-", " ").capitalize()
    kind = "skill_contract" if contract else "skill"
    words = {
        "id": name,
        "title": title,
        "module": name.replace("-", "_"),
        "schema": f"../{SCHEMA.as_posix()}",
    }
    schema = folder / SCHEMA
    missing = contract and not (os.path.lexists(schema) or os.path.lexists(folder / name))
    if missing:
        write_schema("contract", schema)
    files = make_from_template(kind, folder / name, words, parents=True)
    return [schema, *files] if missing else files


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
