"""Files that no tool touches: ClawHive's own, git's hooks, and what carries secrets."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from clawhive_core.capabilities import Capability
from clawhive_core.model.patterns import pattern

Protection = Literal["own", "sensitive"]
"""`own`: it is ClawHive's or git's. `sensitive`: its name, or that of a folder above it, usually
holds secrets."""

OWN = (".clawhive", "clawhive.toml", "clawhive.lock")
"""Denied to every tool, at any depth, whoever grants."""

SENSITIVE = (".env*", "*.pem", "id_*", ".netrc")
"""Denied by name at any depth, unless a person granted the path exactly."""

GIT = (".git/hooks", ".git/config")
"""What git executes, or reads to know what to execute; denied as ClawHive's own files are."""


def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds one of the names, `*` standing for anything, as whole segments."""
    parts = "|".join(re.escape(name).replace(r"\*", r"[^\x00]*") for name in names)
    return pattern(rf"\x00(?:{parts.replace('/', chr(0))})\x00")


_own = _any_of((*OWN, *GIT))
_protected = _any_of((*OWN, *GIT, *SENSITIVE))


def protection_of(segments: tuple[str, ...]) -> Protection | None:
    """Return why a path is protected, None where it is not; case is ignored, as on some disks."""
    # NUL, which no name holds, stands before and after each segment.
    joined = f"\0{chr(0).join(segments).casefold()}\0"
    if _protected.search(joined) is None:
        return None
    return "sensitive" if _own.search(joined) is None else "own"


def protection_in(capability: Capability) -> Protection | None:
    """Return why a capability's file is protected, None for all that is no file."""
    return protection_of(capability.parts[0]) if capability.verb.startswith("fs.") else None


@cache
def as_rules() -> tuple[str, ...]:
    """Return the protected names as a person reads them."""
    return (
        *(f"fs.*:{name}/**" for name in OWN),
        *(f"fs.*:{name}/**" for name in GIT),
        *(f"fs.*:{name}" for name in SENSITIVE),
    )
