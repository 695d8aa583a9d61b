"""What names a finding from one run to the next, though its lines may have moved."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.model.patterns import pattern

_LINES = pattern(r"(?<=\bline )\d+|(?<=:)\d+(?::\d+)?\b")
"""Lines and columns of other places that a message names."""


def fingerprints(findings: Sequence[Finding], base: str | None = None) -> list[str]:
    """Return a name for each finding, the same as long as it says the same of the same file.

    A name is made of the code, the file and the message without its lines; findings that are equal
    so far are counted in the order given, so that each name stands once.

    Args:
        findings: Sorted by place.
        base: The folder that files are named from; they stay as they are named otherwise.
    """
    seen: Counter[str] = Counter()
    names: list[str] = []
    for finding in findings:
        stable = (finding.code, portable_path(finding.file, base), _LINES.sub("N", finding.message))
        key = "\0".join(stable)
        names.append(_digest(f"{key}\0{seen[key]}"))
        seen[key] += 1
    return names


def portable_path(file: str | None, base: str | None = None) -> str:
    """Return a file's name with `/` between its parts, from `base` on; empty where there is none.

    Args:
        file: The file as messages name it: from the current directory on, or absolute.
        base: The folder to name it from, as far as it can be reached from there.
    """
    if file is None:
        return ""
    if base is None:
        return PurePath(file).as_posix()
    try:
        return PurePath(os.path.relpath(file, base)).as_posix()
    except ValueError:  # another drive
        return PurePath(file).as_posix()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
