"""The forms in which findings are written, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clawhive_core.diagnostics.finding import Finding, count, sorted_findings
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.errors import UsageError

Output = Callable[[Sequence[Finding]], str]
"""Turns findings, sorted, into a text without final newline."""


def render(findings: Sequence[Finding], output: str = "text") -> str:
    """Return findings, sorted and each once, in one of the `OUTPUTS`.

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
    return write(sorted_findings(findings))


def as_text(findings: Sequence[Finding]) -> str:
    """Return one line a finding, `file:line:column: severity CODE message`, and a summary.

    A fix follows on an indented line. Control characters are escaped: what a file says must not
    steer a terminal.
    """
    lines = [line for finding in findings for line in _lines(finding)]
    return "\n".join([*lines, summary(findings)])


def _lines(finding: Finding) -> list[str]:
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
    named = [_plural(number, word[:-1]) for word, number in count(findings).items() if number]
    return f"{_plural(len(findings), 'finding')}: {', '.join(named)}"


def _plural(number: int, word: str) -> str:
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
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


OUTPUTS: Mapping[str, Output] = {"text": as_text, "json": as_json}
"""Every output that `--format` knows."""
