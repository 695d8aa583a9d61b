"""What would be decided about a call, without making it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clawhive_core.catalog.catalog import Catalog, Tool
from clawhive_core.errors import CapabilityError, InvalidInput, ToolError, UnknownId
from clawhive_core.execution.effects import requested
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.refusals import approval_required, denied
from clawhive_core.execution.scope import CallScope
from clawhive_core.execution.validation import Validators, describe
from clawhive_core.model.tools import ToolCall, ToolMeta
from clawhive_core.policy.checks import run_checks
from clawhive_core.policy.decision import Decision, decide
from clawhive_core.policy.explain import why
from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest


async def consider(
    call: ToolCall,
    scope: CallScope,
    catalog: Catalog,
    checks: Callable[[], Sequence[PolicyCheck]],
) -> dict[str, Any]:
    """Return the verdict on a call and each reason for it; nothing is executed or recorded.

    Raises:
        UnknownId: There is no such tool.
        InvalidInput: The input fails the tool's schema, or names nothing that can be normalised.
        ToolError: The tool declares an effect that cannot be used; a call of it is denied.
    """
    tool = _find(call.name, catalog)
    pending = PendingCall(call, scope, tool)
    request, results, decision = await _weigh(pending, tool.meta, checks)
    meta = request.tool
    return {
        "tool": meta.name,
        "provider_id": meta.provider_id,
        **why(request, scope.rules, results, decision),
        **_next(pending, decision),
    }


async def weigh(
    call: ToolCall, scope: CallScope, tool: Tool, checks: Callable[[], Sequence[PolicyCheck]]
) -> PendingCall:
    """Return a call with what it would touch and what would be decided; see `consider`."""
    pending = PendingCall(call, scope, tool)
    await _weigh(pending, tool.meta, checks)
    return pending


async def _weigh(
    pending: PendingCall, meta: ToolMeta, checks: Callable[[], Sequence[PolicyCheck]]
) -> tuple[PolicyRequest, Sequence[CheckResult], Decision]:
    scope, run = pending.scope, pending.scope.run
    pending.capabilities = _capabilities(meta, pending.call.input, scope)
    request = PolicyRequest(
        meta,
        pending.call.input,
        scope.principal,
        pending.capabilities,
        run.task_id,
        scope.step_id,
        run.conversation_id,
    )
    results = await _results(checks, request)
    decision = decide(request, scope.rules, results)
    pending.decision = decision
    return request, results, decision


def _find(name: str, catalog: Catalog) -> Tool:
    tool = catalog.find(name)
    if tool is None:
        raise UnknownId(f"there is no tool `{name}`", place=name, fix="clawhive tools list")
    return tool


def _capabilities(meta: ToolMeta, input: Mapping[str, Any], scope: CallScope) -> tuple[str, ...]:
    problems = Validators().problems(meta.contract_hash, meta.input_schema, input)
    if problems:
        raise InvalidInput(
            f"`{meta.name}`: {describe(problems)}",
            place=problems[0].path or "the input",
            fix=f"clawhive tools show {meta.name}",
        )
    try:
        return requested(meta, input, scope.run.variables)
    except CapabilityError as error:
        raise ToolError(
            f"`{meta.name}` does not say in a usable way what it touches: {error.message}",
            code="denied",
            fix=f"report it to the author of the provider `{meta.provider_id}`",
        ) from error


async def _results(
    checks: Callable[[], Sequence[PolicyCheck]], request: PolicyRequest
) -> Sequence[CheckResult]:
    try:
        found = checks()
    except Exception as error:  # noqa: BLE001 - as at the door: what cannot be loaded denies
        return (CheckResult("deny", f"check:unavailable:{type(error).__name__}"),)
    return await run_checks(found, request)


def _next(pending: PendingCall, decision: Decision) -> dict[str, Any]:
    """Return what a person may do about the verdict, as the refusal of the call would say it."""
    if decision.verdict == "allow":
        return {"message": "the call would be made", "next": None}
    refused = denied(pending) if decision.verdict == "deny" else approval_required(pending)
    return {"message": refused.refusal.message, "next": dict(refused.refusal.next)}
