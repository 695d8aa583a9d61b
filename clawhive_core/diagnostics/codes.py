"""The codes of ClawHive and their meanings, read from `data/codes.toml` when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.model.late import dataclass

_FILE = Path(__file__).resolve().parent.parent / "data" / "codes.toml"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a code: a title, a few sentences, and what to do."""

    code: str
    """`CHnnnn` of a finding, or the snake_case code of an error or refusal."""
    title: str
    text: str
    fix: str
    reserved: str | None = None
    """The part of the work that will raise the code; None where something raises it."""

    @property
    def page(self) -> str:
        """The section of the documentation that says the same, from the repository's root."""
        return f"docs/reference/codes.md#{self.code.lower()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as the JSON object that `--json` prints."""
        return {
            "schema": "explanation/1",
            "code": self.code,
            "title": self.title,
            "text": self.text,
            "fix": self.fix,
            "page": self.page,
        }


def explain(code: str) -> Explanation | None:
    """Return what a code means, None where it is unknown.

    Case matters only where two codes differ by it: `Timeout` is MCP's, `timeout` a refusal's.
    """
    wanted = code.strip()
    spellings = (wanted, wanted.upper(), wanted.lower())
    return next((_entry(each) for each in spellings if each in _tables()), None)


def all_codes() -> tuple[str, ...]:
    """Return every code, sorted."""
    return tuple(sorted(_tables()))


def registry() -> Mapping[str, Explanation]:
    """Return every code with its explanation, sorted by code."""
    return {code: _entry(code) for code in all_codes()}


def nearest_code(code: str) -> str | None:
    """Return the code that was probably meant."""
    wanted = code.strip()
    family = wanted.upper() if wanted[:2].upper() == "CH" else wanted.lower()
    return nearest(wanted, all_codes()) or nearest(family, all_codes())


@cache
def _tables() -> Mapping[str, str]:
    """Return the TOML text of each code's table; a whole parse costs 20 times as much."""
    _, *tables = _FILE.read_text("utf-8").split("\n[")
    return {code: text for code, _, text in (table.partition("]\n") for table in tables)}


@cache
def _entry(code: str) -> Explanation:
    import tomllib

    table = tomllib.loads(_tables()[code])
    title, text, fix = (" ".join(table[key].split()) for key in ("title", "text", "fix"))
    return Explanation(code, title, text, fix, table.get("reserved"))
