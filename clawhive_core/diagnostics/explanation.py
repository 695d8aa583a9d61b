"""What a code means."""

from __future__ import annotations

from typing import Any

from clawhive_core.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means: a title, a few sentences, and what to do."""

    code: str
    """`CHnnnn` of a finding, or the snake_case code of an error or refusal."""
    title: str
    text: str
    fix: str

    @property
    def page(self) -> str:
        """Where the documentation says the same, from the repository's root."""
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
