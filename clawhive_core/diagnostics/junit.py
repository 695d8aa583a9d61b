"""Findings as JUnit's XML, which every CI reads: a suite for each file, a case for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.outputs import printable

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def as_junit(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """Return the report; errors are failures, everything else is a case that passes and says so.

    Args:
        findings: Sorted by place.
        strict: Whether a warning fails too.
    """
    from xml.etree import ElementTree as ET

    failing = {"error", "warning"} if strict else {"error"}
    root = ET.Element("testsuites", _numbers(findings, failing), name="clawhive")
    for file, group in groupby(findings, key=lambda each: each.file):
        some = list(group)
        suite = ET.SubElement(root, "testsuite", _numbers(some, failing), name=_name(file))
        for finding in some:
            _add_case(suite, finding, failing)
    if not findings:
        suite = ET.SubElement(root, "testsuite", _numbers([None], failing), name="clawhive")
        ET.SubElement(suite, "testcase", name="no findings", classname="clawhive")
        root.set("tests", "1")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _numbers(findings: Sequence[Finding | None], failing: set[str]) -> dict[str, str]:
    failed = sum(1 for each in findings if each is not None and each.severity in failing)
    return {"tests": str(len(findings)), "failures": str(failed), "errors": "0", "skipped": "0"}


def _add_case(suite: Element, finding: Finding, failing: set[str]) -> None:
    from xml.etree import ElementTree as ET

    facts = {"name": f"{finding.code} {finding.place or ''}", "classname": _name(finding.file)}
    line = {} if finding.line is None else {"line": str(finding.line)}
    known = {key: printable(value).strip() for key, value in facts.items()} | line
    case = ET.SubElement(suite, "testcase", known)
    text = printable(f"{finding.severity} {finding.sentence}")
    if finding.severity in failing:
        message = printable(finding.message)
        ET.SubElement(case, "failure", message=message, type=finding.code).text = text
    else:
        ET.SubElement(case, "system-out").text = text


def _name(file: str | None) -> str:
    return printable(file or "clawhive")
