"""The baseline: findings that are known, so that only new ones count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from clawhive_core.diagnostics.files import replace_file, shown_path
from clawhive_core.diagnostics.finding import Finding, sorted_findings
from clawhive_core.diagnostics.reports import fingerprints, portable_path
from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass

_SCHEMA = "baseline/1"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The known findings, by their fingerprints; files are named from the baseline's folder."""

    path: Path
    known: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Return the baseline of a file.

        Raises:
            UsageError: There is none, it cannot be read, or it is no baseline.
        """
        try:
            document: Any = json.loads(path.read_bytes())
        except FileNotFoundError:
            fix = "make it: add --write-baseline"
            raise _error(path, "there is no such baseline", fix) from None
        except OSError as error:
            raise _error(path, f"the baseline cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise _error(path, f"the baseline is no JSON: {error}") from None
        return cls(path, frozenset(_names(path, document)))

    def new(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings that are not known."""
        named = zip(findings, _fingerprints(findings, self.path), strict=True)
        return [finding for finding, name in named if name not in self.known]

    def gone(self, findings: Sequence[Finding]) -> int:
        """Return how many known findings are there no more."""
        return len(self.known - set(_fingerprints(findings, self.path)))


def write_baseline(path: Path, findings: Sequence[Finding]) -> int:
    """Write what is found now as known, sorted; equal findings give equal bytes.

    Returns:
        How many there are.

    Raises:
        UsageError: The file cannot be written.
    """
    ordered = sorted_findings(findings)
    rows = [
        {
            "fingerprint": name,
            "code": finding.code,
            "file": portable_path(finding.file, _base(path)),
            "message": finding.message,
        }
        for finding, name in zip(ordered, _fingerprints(ordered, path), strict=True)
    ]
    text = json.dumps({"schema": _SCHEMA, "findings": rows}, indent=2) + "\n"
    try:
        replace_file(path.resolve() if path.is_file() else path, text.encode("ascii"))
    except OSError as error:
        fix = "name a file that you may write to: --baseline FILE"
        raise _error(path, f"the baseline cannot be written: {error.strerror}", fix) from None
    return len(rows)


def _fingerprints(findings: Sequence[Finding], path: Path) -> list[str]:
    return fingerprints(findings, _base(path))


def _base(path: Path) -> str:
    return str(path.absolute().parent)


def _names(path: Path, document: Any) -> list[str]:
    known = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    rows: Any = known.get("findings")
    if known.get("schema") != _SCHEMA or not isinstance(rows, list):
        raise _error(path, f"it is not in the form {_SCHEMA}")
    names: list[Any] = [
        cast("dict[str, Any]", row).get("fingerprint") if isinstance(row, dict) else None
        for row in cast("list[Any]", rows)
    ]
    if not all(isinstance(name, str) for name in names):
        raise _error(path, "a finding in it has no fingerprint")
    return names


def _error(path: Path, message: str, fix: str = "write it again: --write-baseline") -> UsageError:
    return UsageError(message, code="invalid_baseline", place=shown_path(path), fix=fix)
