"""Findings as workflow commands: GitHub Actions shows them beside the lines of a change.

Source: GitHub Docs, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.fingerprint import portable_path
from clawhive_core.diagnostics.outputs import printable, summary

_COMMANDS: Mapping[str, str] = {"error": "error", "warning": "warning", "note": "notice"}


def as_github(findings: Sequence[Finding]) -> str:
    """Return one command a finding, and the summary as a line of the log."""
    return "\n".join([*(_command(finding) for finding in findings), summary(findings)])


def _command(finding: Finding) -> str:
    facts = {
        "file": portable_path(finding.file) or None,
        "line": finding.line,
        "endLine": finding.end_line,
        "col": finding.column,
        "endColumn": finding.end_column,
        "title": finding.code,
    }
    known = ",".join(f"{key}={_property(value)}" for key, value in facts.items() if value)
    return f"::{_COMMANDS[finding.severity]} {known}::{_data(finding.sentence)}"


def _data(text: str) -> str:
    """Return a text that cannot end its command: as the runner decodes it."""
    return printable(text).replace("%", "%25")


def _property(value: object) -> str:
    return _data(str(value)).replace(":", "%3A").replace(",", "%2C")
