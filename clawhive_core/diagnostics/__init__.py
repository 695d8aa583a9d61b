"""Findings, their outputs, and what every code means."""

from __future__ import annotations

from clawhive_core.diagnostics.finding import Edit, Finding, Fix, Severity, count, sorted_findings

__all__ = ["Edit", "Finding", "Fix", "Severity", "count", "sorted_findings"]
