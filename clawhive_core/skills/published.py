"""The JSON Schemas of what people write in a skill, as they ship."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Part = Literal["contract", "frontmatter"]

_FOLDER = Path(__file__).resolve().parent.parent / "data" / "contracts"


def published_schema(part: Part) -> str:
    """Return the JSON Schema (draft 2020-12) of a contract, or of a SKILL.md's frontmatter.

    It knows forms; what the parts of a contract and of a set say of each other, only
    `skills check` does.
    """
    return (_FOLDER / f"{part}.json").read_text(encoding="utf-8")
