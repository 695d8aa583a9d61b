"""Every code of ClawHive, looked up: what `clawhive explain CODE` prints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.nearest import nearest


@cache
def registry() -> Mapping[str, Explanation]:
    """Return every code with its explanation, sorted by code."""
    from clawhive_core.diagnostics.contract_codes import CONTRACT_FINDINGS
    from clawhive_core.diagnostics.diff_codes import DIFF_FINDINGS
    from clawhive_core.diagnostics.error_codes import ERRORS
    from clawhive_core.diagnostics.export_codes import EXPORT_FINDINGS
    from clawhive_core.diagnostics.finding_codes import FINDINGS
    from clawhive_core.diagnostics.lock_codes import LOCK_FINDINGS
    from clawhive_core.diagnostics.model_codes import MODEL_ERRORS
    from clawhive_core.diagnostics.plugin_codes import PLUGIN_ERRORS, PLUGIN_FINDINGS
    from clawhive_core.diagnostics.refusal_codes import REFUSALS
    from clawhive_core.diagnostics.skill_codes import SKILL_FINDINGS
    from clawhive_core.diagnostics.text_codes import TEXT_FINDINGS
    from clawhive_core.diagnostics.tool_codes import TOOL_ERRORS

    every = (
        *ERRORS,
        *PLUGIN_ERRORS,
        *REFUSALS,
        *TOOL_ERRORS,
        *MODEL_ERRORS,
        *FINDINGS,
        *PLUGIN_FINDINGS,
        *SKILL_FINDINGS,
        *EXPORT_FINDINGS,
        *CONTRACT_FINDINGS,
        *DIFF_FINDINGS,
        *LOCK_FINDINGS,
        *TEXT_FINDINGS,
    )
    return {item.code: item for item in sorted(every, key=lambda item: item.code)}


def all_codes() -> tuple[str, ...]:
    """Return every code, sorted."""
    return tuple(registry())


def explain(code: str) -> Explanation | None:
    """Return what a code means, None where it is unknown.

    Case matters only where two codes differ by it: `Timeout` is MCP's, `timeout` a refusal's.
    """
    wanted = code.strip()
    exact = registry().get(wanted)
    return exact or registry().get(wanted.upper()) or registry().get(wanted.lower())


def nearest_code(code: str) -> str | None:
    """Return the code that was probably meant."""
    wanted = code.strip()
    family = wanted.upper() if wanted[:2].upper() == "CH" else wanted.lower()
    return nearest(wanted, all_codes()) or nearest(family, all_codes())
