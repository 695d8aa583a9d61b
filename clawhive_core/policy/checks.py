"""Running the checks of plugins: they only tighten, and one that fails denies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clawhive_core.catalog.bounded import Overdue, run_bounded
from clawhive_core.errors import PluginError
from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest

CHECK_SECONDS = 5.0
_GRACE_SECONDS = 0.2


async def run_checks(
    checks: Sequence[PolicyCheck], request: PolicyRequest, seconds: float = CHECK_SECONDS
) -> tuple[CheckResult, ...]:
    """Return what the checks say of a call, in their order; abstentions are left out."""
    results = [await _ask(check, request, seconds) for check in checks]
    return tuple(result for result in results if result is not None)


async def _ask(check: PolicyCheck, request: PolicyRequest, seconds: float) -> CheckResult | None:
    name = type(check).__name__
    try:
        name = str(check.name)
        return await run_bounded(_answer(check, name, request), seconds, _GRACE_SECONDS)
    except Overdue:
        return CheckResult("deny", f"check:{name}:timeout")
    except Exception as error:  # noqa: BLE001 - a check that fails must deny, whatever failed
        return CheckResult("deny", f"check:{name}:{type(error).__name__}")


async def _answer(check: PolicyCheck, name: str, request: PolicyRequest) -> CheckResult | None:
    result = await check.check(request)
    return None if result is None else _tightening(result, name)


def _tightening(result: Any, name: str) -> CheckResult:
    """Turn an answer that is neither ask nor deny into a deny: a check cannot allow."""
    if isinstance(result, CheckResult) and result.verdict in ("ask", "deny"):
        return CheckResult(result.verdict, f"check:{name}:{result.rule!s:.200}")
    return CheckResult("deny", f"check:{name}:invalid-answer")


class FailedCheck:
    """Stands for a policy check whose plugin failed to load: it denies, by failing."""

    def __init__(self, plugin_id: str) -> None:
        self.name = plugin_id

    async def check(self, request: PolicyRequest) -> CheckResult | None:
        """Fail, which the decision takes as a deny.

        Raises:
            PluginError: Always.
        """
        del request
        raise PluginError(f"the policy check of plugin `{self.name}` could not be loaded")
