"""What is known of one plugin, for `clawhive plugins` and whoever decides by it."""

from __future__ import annotations

from typing import Any, Literal

from clawhive_core.errors import ClawHiveError
from clawhive_core.model.late import dataclass

Status = Literal["ok", "failed", "incompatible", "disabled"]


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """Why a plugin cannot be used, and what to do about it."""

    code: str
    message: str
    place: str | None
    fix: str | None

    @classmethod
    def of(cls, error: ClawHiveError) -> PluginFailure:
        """Return what an error says."""
        return cls(error.code, error.message, error.place, error.fix)

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as JSON."""
        return {
            "code": self.code,
            "message": self.message,
            "place": self.place,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """One plugin, as it is now; a value, which does not change when the plugin does."""

    id: str
    distribution: str
    version: str
    module: str
    status: Status
    installed: bool
    imported: bool
    enabled: bool
    hooks: tuple[str, ...]
    tools: tuple[str, ...]
    """The names of the tools that its manifest lists."""
    error: PluginFailure | None
    source: str
    """The folder of the package, or of its metadata where that is missing."""
    load_ms: float | None
    """Milliseconds that importing and registering took; None where it was not imported."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and no failure: a description that differs from the manifest."""

    def to_dict(self, *, granted: bool | None = None) -> dict[str, Any]:
        """Return the record as JSON; whether its tools were granted is policy's knowledge."""
        return {
            "id": self.id,
            "distribution": self.distribution,
            "version": self.version,
            "module": self.module,
            "status": self.status,
            "installed": self.installed,
            "imported": self.imported,
            "enabled": self.enabled,
            "granted": granted,
            "hooks": list(self.hooks),
            "tools": list(self.tools),
            "error": None if self.error is None else self.error.to_dict(),
            "source": self.source,
            "load_ms": self.load_ms,
            "notes": list(self.notes),
        }
