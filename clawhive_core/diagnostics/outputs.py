"""The forms in which findings are written, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from clawhive_core.diagnostics.finding import SEVERITIES, Finding, count, sorted_findings
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.errors import UsageError
from clawhive_core.model.texts import well_formed

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
    shown = sorted_findings(findings)
    return _as_junit(shown, strict=True) if strict and write is _as_junit else write(shown)


def as_text(findings: Sequence[Finding]) -> str:
    """Return one line a finding, `file:line:column: severity CODE message`, and a summary.

    Where there are several, one line for each code stands before them. A fix follows on an indented
    line. Control characters are escaped: what a file says must not steer a terminal.
    """
    lines = [line for finding in findings for line in lines_of(finding)]
    return "\n".join([*_codes(findings), *lines, summary(findings)])


def _codes(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each code, the most severe first: how often, and what it means."""
    if len(findings) < 2:  # noqa: PLR2004 - one finding speaks for itself
        return []
    from clawhive_core.diagnostics.codes import explain

    numbers = Counter((finding.severity, finding.code) for finding in findings)
    ordered = sorted(numbers, key=lambda each: (SEVERITIES.index(each[0]), each[1]))
    rows = [
        (code, counted(numbers[severity, code], severity), known.title if known else "")
        for severity, code in ordered
        for known in (explain(code),)
    ]
    width = max(len(row[1]) for row in rows)
    return [f"{code}  {number:<{width}}  {title}".rstrip() for code, number, title in rows]


def lines_of(finding: Finding) -> list[str]:
    """Return a finding as its line for people, and one for its fix."""
    place = f"{finding.place}: " if finding.place else ""
    head = f"{place}{finding.severity} {finding.code} {finding.message}"
    fix = [f"    fix: {printable(finding.fix.title)}"] if finding.fix else []
    return [printable(head), *fix]


def printable(text: str) -> str:
    """Return text for one line of a terminal: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def summary(findings: Sequence[Finding]) -> str:
    """Return the closing line, such as `3 findings: 1 error, 2 warnings`."""
    if not findings:
        return "no findings"
    named = [counted(number, word[:-1]) for word, number in count(findings).items() if number]
    return f"{counted(len(findings), 'finding')}: {', '.join(named)}"


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 skill`, `2 skills`, `0 fixes`."""
    if number != 1 and word.endswith("x"):
        return f"{number} {word}es"
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def as_json(findings: Sequence[Finding]) -> str:
    """Return `{schema, summary, findings}` as indented JSON (schema `findings/1`)."""
    import json

    document = {
        "schema": "findings/1",
        "summary": count(findings),
        "findings": [finding.to_dict() for finding in findings],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # A file name that is not UTF-8 holds lone surrogates: as JSON escapes they can be written.
    return well_formed(text)


def _as_sarif(findings: Sequence[Finding]) -> str:
    from clawhive_core.diagnostics.sarif import as_sarif

    return as_sarif(findings)


def _as_github(findings: Sequence[Finding]) -> str:
    from clawhive_core.diagnostics.github import as_github

    return as_github(findings)


def _as_gitlab(findings: Sequence[Finding]) -> str:
    from clawhive_core.diagnostics.gitlab import as_gitlab

    return as_gitlab(findings)


def _as_junit(findings: Sequence[Finding], *, strict: bool = False) -> str:
    from clawhive_core.diagnostics.junit import as_junit

    return as_junit(findings, strict=strict)


OUTPUTS: Mapping[str, Output] = {
    "text": as_text,
    "json": as_json,
    "sarif": _as_sarif,
    "github": _as_github,
    "gitlab": _as_gitlab,
    "junit": _as_junit,
}
"""Every output that `--format` knows; each is imported when it is wanted."""
