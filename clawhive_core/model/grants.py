"""A capability given to someone, for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from clawhive_core.model.late import dataclass

Scope = Literal["step", "task", "session", "persistent"]
Mode = Literal["allow", "ask"]
Issuer = Literal["starter", "user", "config", "skill", "approval"]


@dataclass(frozen=True, slots=True)
class CapabilityGrant:
    """One capability given to a principal; it ends with its scope."""

    grant_id: str
    capability: str
    """A canonical pattern, `verb:resource`."""
    subject: str
    scope: Scope
    scope_id: str
    """The id of the step, task or session; empty for persistent ones."""
    issuer: Issuer
    mode: Mode = "allow"
    expires_at: str | None = None
    """RFC 3339, UTC."""
    parent_grant: str | None = None
    uses: int | None = None
    """The most calls that it covers; None for any number."""
    delegate: str | None = None
    """The part that children may get: a canonical pattern, empty for nothing, None for the same
    without unsafe rights."""
    tool: str | None = None
    """The identity of its tool when a person gave it, as `ToolIdentity.text`; the grant
    counts for that tool only while it is so."""

    @property
    def by_person(self) -> bool:
        """Whether a person gave it, so that it can lift the ask of a guarded tool."""
        return self.issuer in {"user", "config", "approval"}

    def to_dict(self) -> dict[str, Any]:
        """Return the grant as JSON."""
        return {
            "grant_id": self.grant_id,
            "capability": self.capability,
            "subject": self.subject,
            "scope": self.scope,
            "scope_id": self.scope_id,
            "issuer": self.issuer,
            "mode": self.mode,
            "expires_at": self.expires_at,
            "parent_grant": self.parent_grant,
            "uses": self.uses,
            "delegate": self.delegate,
            "tool": self.tool,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CapabilityGrant:
        """Return what `to_dict` wrote; older versions wrote nothing of the last fields."""
        return cls(
            row["grant_id"],
            row["capability"],
            row["subject"],
            row["scope"],
            row["scope_id"],
            row["issuer"],
            row["mode"],
            row.get("expires_at"),
            row.get("parent_grant"),
            row.get("uses"),
            row.get("delegate"),
            row.get("tool"),
        )
