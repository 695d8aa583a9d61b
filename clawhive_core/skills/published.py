"""The JSON Schemas of what people write in a skill, as they ship."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clawhive_core.diagnostics.whole_file import io_told, replace_whole

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
    with io_told("the schema cannot be written", file, fix):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(file, published_schema(part).encode())
