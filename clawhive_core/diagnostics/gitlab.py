"""Findings as a code quality report of GitLab.

Source: GitLab Docs, "Code Quality", the subset of the Code Climate specification that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.fingerprint import fingerprints, portable_path
from clawhive_core.diagnostics.outputs import printable

_SEVERITIES: Mapping[str, str] = {"error": "major", "warning": "minor", "note": "info"}


def as_gitlab(findings: Sequence[Finding]) -> str:
    """Return the report as indented JSON; one without file stands at the folder's first line."""
    report = [
        {
            "description": printable(finding.sentence),
            "check_name": finding.code,
            "fingerprint": name,
            "severity": _SEVERITIES[finding.severity],
            "location": {
                "path": printable(portable_path(finding.file) or "."),
                "lines": {"begin": finding.line or 1},
            },
        }
        for finding, name in zip(findings, fingerprints(findings), strict=True)
    ]
    return json.dumps(report, indent=2)
