"""Files that no tool touches: ClawHive's own, git's hooks, and what carries secrets."""

from __future__ import annotations

import re

OWN = (".clawhive", "clawhive.toml", "clawhive.lock")
"""Denied to every tool, at any depth, whoever grants."""

SENSITIVE = (".env*", "*.pem", "id_*", ".netrc")
"""Denied by name at any depth, unless a person granted the path exactly."""

GIT = (".git/hooks", ".git/config")
"""What git executes, or reads to know what to execute; denied as ClawHive's own files are."""


def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds one of the names, `*` standing for anything, as whole segments."""
    parts = "|".join(re.escape(name).replace(r"\*", r"[^\x00]*") for name in names)
    return re.compile(rf"\x00(?:{parts.replace('/', chr(0))})\x00")


_own = _any_of((*OWN, *GIT))
_sensitive = _any_of(SENSITIVE)


def is_own(segments: tuple[str, ...]) -> bool:
    """Whether a path is ClawHive's own or git's; case is ignored, as some file systems do."""
    return _own.search(_joined(segments)) is not None


def is_sensitive(segments: tuple[str, ...]) -> bool:
    """Whether a path, or a folder above it, has a name that usually holds secrets."""
    return _sensitive.search(_joined(segments)) is not None


def _joined(segments: tuple[str, ...]) -> str:
    """Return the path for one search: NUL, which no name holds, before and after each segment."""
    return f"\0{chr(0).join(segments).casefold()}\0"


def as_rules() -> tuple[str, ...]:
    """Return the protected names as a person reads them."""
    return (
        *(f"fs.*:{name}/**" for name in OWN),
        *(f"fs.*:{name}/**" for name in GIT),
        *(f"fs.*:{name}" for name in SENSITIVE),
    )
