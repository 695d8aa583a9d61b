"""Files that no tool touches: ClawHive's own, git's hooks, and what carries secrets."""

from __future__ import annotations

import re
from fnmatch import translate
from itertools import pairwise

OWN = (".clawhive", "clawhive.toml", "clawhive.lock")
"""Denied to every tool, at any depth, whoever grants."""

SENSITIVE = (".env*", "*.pem", "id_*", ".netrc")
"""Denied by name at any depth, unless a person granted the path exactly."""

_own = re.compile("|".join(translate(name) for name in OWN))
_sensitive = re.compile("|".join(translate(name) for name in SENSITIVE))


def is_own(segments: tuple[str, ...]) -> bool:
    """Whether a path is ClawHive's own or a git hook; case is ignored, as some file systems do."""
    folded = [segment.casefold() for segment in segments]
    if any(_own.fullmatch(segment) for segment in folded):
        return True
    return any(pair == (".git", "hooks") for pair in pairwise(folded))


def is_sensitive(segments: tuple[str, ...]) -> bool:
    """Whether a path, or a folder above it, has a name that usually holds secrets."""
    return any(_sensitive.fullmatch(segment.casefold()) for segment in segments)


def as_rules() -> tuple[str, ...]:
    """Return the protected names as a person reads them."""
    return (
        *(f"fs.*:{name}/**" for name in OWN),
        "fs.*:.git/hooks/**",
        *(f"fs.*:{name}" for name in SENSITIVE),
    )
