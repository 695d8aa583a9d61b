"""How much the old ways weigh while a set of skills moves to contracts: `contracts.phase`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from clawhive_core.diagnostics.finding import Finding, Severity

Phase = Literal["compat", "enforce", "final"]
"""In `compat` they only warn, `enforce` refuses what goes around a contract, `final` all of it."""

_AROUND: Mapping[Phase, Severity] = {"compat": "warning", "enforce": "error", "final": "error"}
_OLD: Mapping[Phase, Severity] = {"compat": "warning", "enforce": "warning", "final": "error"}
_WEIGHTS = {
    "CH0610": _AROUND,  # another skill's code
    "CH0615": _AROUND,  # a call that is not declared
    "CH0303": _OLD,  # external_tools
    "CH0313": _OLD,  # requires_skill_data
    "CH0314": _OLD,  # data_paths
}


def in_phase(findings: Iterable[Finding], phase: Phase) -> tuple[Finding, ...]:
    """Return findings with the weight that they have in a phase."""
    return tuple(
        replace(each, severity=_WEIGHTS[each.code][phase]) if each.code in _WEIGHTS else each
        for each in findings
    )
