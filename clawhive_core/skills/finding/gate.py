"""Whether what a skill requires of the machine is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from clawhive_core.skills.contracts.skill import Requires

_SYSTEMS = {"darwin": "macos", "win32": "windows", "cygwin": "windows"}


def missing(requires: Requires, env: Mapping[str, str]) -> list[str]:
    """Return what is missing, each as a few words: programs, variables, packages, the system."""
    return list(_missing(requires, env))


def _missing(requires: Requires, env: Mapping[str, str]) -> Iterator[str]:
    import shutil

    from clawhive_core.skills.finding.packages import lacking

    system = _SYSTEMS.get(sys.platform, sys.platform)
    if requires.os and system not in requires.os:
        yield f"it is for {' and '.join(requires.os)} only"
    for name in requires.bins:
        if shutil.which(name, path=env.get("PATH", os.defpath)) is None:
            yield f"the program `{name}` is not on the PATH"
    for name in requires.env:
        if not env.get(name):
            yield f"the variable {name} is not set"
    yield from lacking(requires.python, sys.path)
