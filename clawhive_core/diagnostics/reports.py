"""Findings as reports: for people, as JSON, and in the forms that CI systems read.

Sources: OASIS, Static Analysis Results Interchange Format 2.1.0; GitHub Docs, "Workflow commands
for GitHub Actions"; GitLab Docs, "Code Quality", the subset of Code Climate that it reads.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from clawhive_core.diagnostics.codes import explain
from clawhive_core.diagnostics.finding import (
    SEVERITIES,
    Finding,
    count,
    lines_of,
    sorted_findings,
    summary,
)
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import UsageError
from clawhive_core.model.patterns import pattern
from clawhive_core.model.texts import counted, printable, printable_json, set_off
from clawhive_core.model.version import VERSION

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_GITHUB_COMMANDS: Mapping[str, str] = {"error": "error", "warning": "warning", "note": "notice"}
_GITLAB_SEVERITIES: Mapping[str, str] = {"error": "major", "warning": "minor", "note": "info"}
_LINES = pattern(r"(?<=\bline )\d+|(?<=:)\d+(?::\d+)?\b")
"""Lines and columns of other places that a message names."""

Output = Callable[[Sequence[Finding]], str]
"""Turns findings, sorted, into a text without final newline."""


def render(findings: Sequence[Finding], output: str = "text", *, strict: bool = False) -> str:
    """Return findings, sorted and each once, in one of the `OUTPUTS`.

    Args:
        findings: What was found.
        output: The name of the form.
        strict: Whether a warning fails too; only JUnit's form says what fails.

    Raises:
        UsageError: There is no such output.
    """
    write = OUTPUTS.get(output)
    if write is None:
        known = ", ".join(OUTPUTS)
        guess = nearest(output, OUTPUTS)
        raise UsageError(
            f"there is no output format {output!r}",
            code="unknown_format",
            fix=f"use {guess}" if guess else f"use one of: {known}",
        )
    ordered = sorted_findings(findings)
    return as_junit(ordered, strict=strict) if write is as_junit else write(ordered)


def as_text(findings: Sequence[Finding]) -> str:
    """Return one line a finding, `file:line:column: severity CODE message`, and a summary.

    Where there are several, one line for each code stands before them. A fix follows on an indented
    line. Control characters are escaped: what a file says must not steer a terminal.
    """
    lines = [line for finding in findings for line in lines_of(finding)]
    return "\n".join([*_code_lines(findings), *lines, summary(findings)])


def _code_lines(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each code, the most severe first: how often, and what it means."""
    if len(findings) < 2:  # noqa: PLR2004 - one finding speaks for itself
        return []
    numbers = Counter((finding.severity, finding.code) for finding in findings)
    ordered = sorted(numbers, key=lambda each: (SEVERITIES.index(each[0]), each[1]))
    rows = [
        (code, counted(numbers[severity, code], severity), known.title if known else "")
        for severity, code in ordered
        for known in (explain(code),)
    ]
    width = max(len(row[1]) for row in rows)
    lines = (f"{code}  {number:<{width}}  {title}".rstrip() for code, number, title in rows)
    return [set_off(printable(line)) for line in lines]


def as_json(findings: Sequence[Finding]) -> str:
    """Return `{schema, summary, findings}` as indented JSON (schema `findings/1`)."""
    document = {
        "schema": "findings/1",
        "summary": count(findings),
        "findings": [finding.to_dict() for finding in findings],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return printable_json(text)


def as_sarif(findings: Sequence[Finding]) -> str:
    """Return one run as indented JSON; files are named from the current directory, `SRCROOT`."""
    codes = sorted({finding.code for finding in findings})
    names = fingerprints(findings)
    run = {
        "tool": {
            "driver": {
                "name": "ClawHive",
                "semanticVersion": VERSION,
                "rules": [_sarif_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            _sarif_result(finding, name, codes.index(finding.code))
            for finding, name in zip(findings, names, strict=True)
        ],
    }
    document = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2)


def _sarif_rule(code: str) -> dict[str, Any]:
    known = explain(code)
    if known is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.text},
        "help": {"text": known.fix},
    }


def _sarif_result(finding: Finding, name: str, rule: int) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,  # its three words are SARIF's own
        "message": {"text": printable(finding.sentence)},
        "locations": [{"physicalLocation": _sarif_location(finding)}],
        "partialFingerprints": {"clawhive/v1": name},
    }


def _sarif_location(finding: Finding) -> dict[str, Any]:
    """Return the place; the folder itself where there is no file: GitHub wants some place."""
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    known = {key: value for key, value in region.items() if value is not None}
    artifact = _sarif_artifact(portable_path(finding.file) or ".")
    if finding.line is None:
        return {"artifactLocation": artifact}
    return {"artifactLocation": artifact, "region": known}


def _sarif_artifact(path: str) -> dict[str, str]:
    from urllib.parse import quote

    encoded = quote(os.fsencode(path))
    if os.path.isabs(path):  # noqa: PTH117 - it is a text with `/` on every system
        return {"uri": f"file://{'' if encoded.startswith('/') else '/'}{encoded}"}
    return {"uri": encoded, "uriBaseId": "SRCROOT"}


def as_github(findings: Sequence[Finding]) -> str:
    """Return one command a finding, and the summary as a line of the log."""
    return "\n".join([*(_github_command(finding) for finding in findings), summary(findings)])


def _github_command(finding: Finding) -> str:
    facts = {
        "file": portable_path(finding.file) or None,
        "line": finding.line,
        "endLine": finding.end_line,
        "col": finding.column,
        "endColumn": finding.end_column,
        "title": finding.code,
    }
    known = ",".join(f"{key}={_github_property(value)}" for key, value in facts.items() if value)
    return f"::{_GITHUB_COMMANDS[finding.severity]} {known}::{_github_data(finding.sentence)}"


def _github_data(text: str) -> str:
    """Return a text that cannot end its command: as the runner decodes it."""
    return printable(text).replace("%", "%25")


def _github_property(value: object) -> str:
    return _github_data(str(value)).replace(":", "%3A").replace(",", "%2C")


def as_gitlab(findings: Sequence[Finding]) -> str:
    """Return the report as indented JSON; one without file stands at the folder's first line."""
    report = [
        {
            "description": printable(finding.sentence),
            "check_name": finding.code,
            "fingerprint": name,
            "severity": _GITLAB_SEVERITIES[finding.severity],
            "location": {
                "path": printable(portable_path(finding.file) or "."),
                "lines": {"begin": finding.line or 1},
            },
        }
        for finding, name in zip(findings, fingerprints(findings), strict=True)
    ]
    return json.dumps(report, indent=2)


def as_junit(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """Return the report; errors are failures, everything else is a case that passes and says so.

    Args:
        findings: Sorted by place.
        strict: Whether a warning fails too.
    """
    from xml.etree import ElementTree as ET

    failing = {"error", "warning"} if strict else {"error"}
    root = ET.Element("testsuites", _junit_counts(findings, failing), name="clawhive")
    for file, group in groupby(findings, key=lambda each: each.file):
        some = list(group)
        suite = ET.SubElement(root, "testsuite", _junit_counts(some, failing), name=_suite(file))
        for finding in some:
            _add_junit_case(suite, finding, failing)
    if not findings:
        suite = ET.SubElement(root, "testsuite", _junit_counts([None], failing), name="clawhive")
        ET.SubElement(suite, "testcase", name="no findings", classname="clawhive")
        root.set("tests", "1")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _junit_counts(findings: Sequence[Finding | None], failing: set[str]) -> dict[str, str]:
    failed = sum(1 for each in findings if each is not None and each.severity in failing)
    return {"tests": str(len(findings)), "failures": str(failed), "errors": "0", "skipped": "0"}


def _add_junit_case(suite: Element, finding: Finding, failing: set[str]) -> None:
    from xml.etree import ElementTree as ET

    facts = {
        "name": f"{finding.code} {finding.place or ''}",
        "classname": _suite(finding.file),
    }
    line = {} if finding.line is None else {"line": str(finding.line)}
    known = {key: printable(value).strip() for key, value in facts.items()} | line
    case = ET.SubElement(suite, "testcase", known)
    text = printable(f"{finding.severity} {finding.sentence}")
    if finding.severity in failing:
        message = printable(finding.message)
        ET.SubElement(case, "failure", message=message, type=printable(finding.code)).text = text
    else:
        ET.SubElement(case, "system-out").text = text


def _suite(file: str | None) -> str:
    return printable(file or "clawhive")


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
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


OUTPUTS: Mapping[str, Output] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
    "gitlab": as_gitlab,
    "junit": as_junit,
}
"""Every output that `--format` knows; the last one also says which findings fail."""
