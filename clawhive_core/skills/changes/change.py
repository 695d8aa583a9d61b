"""One change of a contract, and what it does to those who rely on the contract."""

from __future__ import annotations

import json
from typing import Any, Literal

from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.place import Place

Impact = Literal["none", "additive", "unknown", "breaking"]
"""From the least to the greatest: `additive` gives more, `unknown` is not decided."""

IMPACTS: tuple[Impact, ...] = ("none", "additive", "unknown", "breaking")

Accepts = Literal["old", "new"]

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Witness:
    """A value that shows a change: one version of a schema accepts it and the other refuses it."""

    value: Any
    accepted_by: Accepts
    pointer: str
    """The JSON pointer of the keyword that refuses it."""
    reason: str

    def __str__(self) -> str:
        text = json.dumps(self.value, ensure_ascii=False)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

    def to_dict(self) -> dict[str, Any]:
        """Return the witness as JSON."""
        return {
            "value": self.value,
            "accepted_by": self.accepted_by,
            "pointer": self.pointer,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a contract says otherwise than before."""

    kind: str
    """What changed: `tool_removed`, `input_schema`, `rate_limit`, ..."""
    subject: str
    """The name of the tool, import, permission, ... that it is about."""
    impact: Impact
    message: str
    """A sentence for people, without a final stop."""
    place: Place
    """Where it stands in the new version, or would stand."""
    witness: Witness | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON, without its place."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "impact": self.impact,
            "message": self.message,
            "witness": None if self.witness is None else self.witness.to_dict(),
        }


def file_of(skill: Skill) -> Place:
    """Return the place of what stands nowhere else in a skill's file."""
    return Place(shown_path(skill.file), 1, 1)


def exports_of(skill: Skill) -> Place:
    """Return where a skill's exports are versioned."""
    return skill.exports.place or file_of(skill)
