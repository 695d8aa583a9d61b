"""The verdict on an input: taken, refused with a code, or wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Protocol

from fuzzing.making import Case

from clawhive_core.diagnostics.codes import all_codes
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.errors import ClawHiveError

ROOT = Path(__file__).resolve().parents[2]
CODES = frozenset(all_codes())
Verdict = Literal["taken", "refused"]


class Wrong(Exception):
    """An answer that another reader of the same input contradicts, or that breaks its own rules."""


class Target(Protocol):
    """One reader of what outsiders write."""

    def make(self, rnd: random.Random) -> Case:
        """Return an input."""
        ...

    def judge(self, case: Case) -> Verdict:
        """Give it to the reader; whatever it raises but a coded error is a finding."""
        ...


Targets = dict[str, Callable[[Path], Target]]
"""Makes each target, with a folder of its own, by its name."""


def coded(error: ClawHiveError) -> Verdict:
    """Return that an error refused the input, where it says so as errors must.

    Raises:
        Wrong: Its code is unknown, or it says nothing.
    """
    require(error.code in CODES, f"the code {error.code!r} is in no table")
    require(isinstance(error.message, str) and bool(error.message), "the error says nothing")
    return "refused"


def require(holds: object, what: str) -> None:
    """Raise `Wrong` unless something holds."""
    if not holds:
        raise Wrong(what)


def proper(findings: Iterable[Finding]) -> Verdict:
    """Return whether findings refuse something; each must be coded, placed and encodable.

    Raises:
        Wrong: One is not.
    """
    refused = False
    for each in findings:
        require(each.code in CODES, f"the code {each.code!r} is in no table")
        require(each.line != 0 and each.column != 0, f"{each.code} at line or column 0")
        require(each.message.encode(), f"{each.code} says nothing")
        refused = refused or each.severity == "error"
    return "refused" if refused else "taken"
