"""`clawhive skills new`: a folder with a skill that works offline."""

from __future__ import annotations

import os
import re
from pathlib import Path

from clawhive_core.errors import UsageError
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.published import write_schema
from clawhive_core.storage.template import make_from_template

_NAME = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME = 64

SCHEMA = Path(".schemas", "contract.json")
"""Where editors find the schema of contracts, from a folder of skills: it works offline, and is
handed on with the skills."""


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
