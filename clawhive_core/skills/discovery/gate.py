"""Whether what a skill requires of the machine is there.

`importlib.metadata` and `packaging` would cost every start more than all skills together; names of
metadata folders say enough (the PyPA specifications "Names and normalization" and "Recording
installed projects").
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.skill import Requires

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REQUIREMENT = pattern(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*(.*)")
_BOUND = pattern(r"(===|==|!=|<=|>=|~=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_RELEASE = pattern(r"(?:\d+!)?(\d+(?:\.\d+)*)")
_INFO = pattern(rf"({_NAME}?)-(\d[^-]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info")

Release = tuple[int, ...]


def lacking(requirements: Sequence[str], path: Sequence[str]) -> list[str]:
    """Return what is not installed, each as a few words.

    Args:
        requirements: Such as `astronomy-engine>=2.1,<3`; markers are not read.
        path: Where packages are looked for, as `sys.path`.
    """
    if not requirements:
        return []
    there = installed(path)
    return [words for each in requirements if (words := _lacking(each, there))]


def installed(path: Sequence[str]) -> dict[str, str]:
    """Return the version of each distribution on a path by its normalised name."""
    found: dict[str, str] = {}
    for folder in path:
        try:
            every = os.listdir(folder or ".")  # noqa: PTH208 - pathlib costs more than the scan
        except OSError:
            continue
        for name in sorted(each for each in every if each.endswith("-info")):
            if (match := _INFO.fullmatch(name)) is not None:
                found.setdefault(_normal(match[1]), match[2])
    return found


def _lacking(requirement: str, there: Mapping[str, str]) -> str:
    match = _REQUIREMENT.fullmatch(requirement.strip())
    bounds = None if match is None else _bounds(match[2])
    if match is None or bounds is None:
        return f"`{requirement}` is no requirement such as `astronomy-engine>=2.1`"
    version = there.get(_normal(match[1]))
    if version is None:
        return f"the Python package `{requirement}` is not installed"
    release = _release(version)
    if release is not None and not all(holds(release) for holds in bounds):
        return f"the Python package `{requirement}` is installed as {version}"
    return ""


def _bounds(text: str) -> list[Callable[[Release], bool]] | None:
    """Return what a version must satisfy, None where the text cannot be read."""
    found: list[Callable[[Release], bool]] = []
    for part in text.strip().strip("()").split(","):
        match = _BOUND.fullmatch(part.strip())
        if match is None and part.strip():
            return None
        if match is not None:
            found.append(_bound(match[1], _numbers(match[2]), prefix=match[3] is not None))
    return found


def _bound(operator: str, wanted: Release, *, prefix: bool) -> Callable[[Release], bool]:
    def holds(release: Release) -> bool:
        if prefix and operator in {"==", "!="}:
            return (release[: len(wanted)] == wanted) == (operator == "==")
        order = _order(release, wanted)
        if operator == "~=":
            return order >= 0 and release[: len(wanted) - 1] == wanted[:-1]
        return {
            "==": order == 0,
            "===": order == 0,
            "!=": order != 0,
            "<=": order <= 0,
            ">=": order >= 0,
            "<": order < 0,
            ">": order > 0,
        }[operator]

    return holds


def _order(one: Release, other: Release) -> int:
    pairs = list(zip_longest(one, other, fillvalue=0))
    left, right = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return (left > right) - (left < right)


def _release(version: str) -> Release | None:
    match = _RELEASE.match(version)
    return None if match is None else _numbers(match[1])


def _numbers(text: str) -> Release:
    return tuple(int(part) for part in text.split("."))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_SYSTEMS = {"darwin": "macos", "win32": "windows", "cygwin": "windows"}


def missing(requires: Requires, env: Mapping[str, str]) -> list[str]:
    """Return what is missing, each as a few words: programs, variables, packages, the system."""
    return list(_missing(requires, env))


def _missing(requires: Requires, env: Mapping[str, str]) -> Iterator[str]:
    import shutil

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
