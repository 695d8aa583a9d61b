"""Findings as SARIF 2.1.0, the form that code scanning of GitHub and many viewers read.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from clawhive_core.diagnostics.codes import explain
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.fingerprint import fingerprints, portable_path
from clawhive_core.diagnostics.outputs import printable
from clawhive_core.model.version import VERSION

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(findings: Sequence[Finding]) -> str:
    """Return one run as indented JSON; files are named from the current directory, `SRCROOT`."""
    codes = sorted({finding.code for finding in findings})
    names = fingerprints(findings)
    run = {
        "tool": {
            "driver": {
                "name": "ClawHive",
                "semanticVersion": VERSION,
                "rules": [_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, name, codes.index(finding.code))
            for finding, name in zip(findings, names, strict=True)
        ],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2)


def _rule(code: str) -> dict[str, Any]:
    known = explain(code)
    if known is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.text},
        "help": {"text": known.fix},
    }


def _result(finding: Finding, name: str, rule: int) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,  # its three words are SARIF's own
        "message": {"text": printable(finding.sentence)},
        "locations": [{"physicalLocation": _location(finding)}],
        "partialFingerprints": {"clawhive/v1": name},
    }


def _location(finding: Finding) -> dict[str, Any]:
    """Return the place; the folder itself where there is no file: GitHub wants some place."""
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    known = {key: value for key, value in region.items() if value is not None}
    artifact = _artifact(portable_path(finding.file) or ".")
    if finding.line is None:
        return {"artifactLocation": artifact}
    return {"artifactLocation": artifact, "region": known}


def _artifact(path: str) -> dict[str, str]:
    encoded = quote(os.fsencode(path))
    if os.path.isabs(path):  # noqa: PTH117 - it is a text with `/` on every system
        return {"uri": f"file://{'' if encoded.startswith('/') else '/'}{encoded}"}
    return {"uri": encoded, "uriBaseId": "SRCROOT"}
