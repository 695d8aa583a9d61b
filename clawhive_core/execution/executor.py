"""The executor: resolve, access, validate, effects, decide, approve, commit, invoke, record.

Every tool call goes through `Executor.invoke`; there is no second way, so nothing to bypass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

from clawhive_core.catalog.bounded import Bounded, Escaped, Overdue
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import (
    CapabilityError,
    ClawHiveError,
    InvalidInput,
    LogWriteFailed,
    RunError,
    ToolError,
)
from clawhive_core.events.log import EventLog, now
from clawhive_core.execution.approval import Approvals
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.door import Outcome
from clawhive_core.execution.effects import requested
from clawhive_core.execution.failures import cancelled, crash_of, failure_of, timeout_of
from clawhive_core.execution.pending import PendingCall
from clawhive_core.execution.plain import MAX_INPUT, plain_object
from clawhive_core.execution.refusals import (
    Refused,
    approval_required,
    denied,
    not_found,
    refuse,
    unapproved,
)
from clawhive_core.execution.results import error_of, finish, partial_result
from clawhive_core.execution.scope import CallScope
from clawhive_core.execution.validation import Validators, describe
from clawhive_core.model.canonical import preview
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.approvals import consume
from clawhive_core.policy.checks import run_checks
from clawhive_core.policy.decision import decide
from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest
from clawhive_core.protocols.context import Store

_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """Bounds of every call."""

    call_depth: int = 8
    grace_seconds: float = 2.0
    """How long a tool may take to stop after its deadline."""


class Completer(Protocol):
    """The way to a model, for tools that ask one."""

    async def complete(self, request: LlmRequest, scope: CallScope) -> LlmResponse:
        """Answer a request under the run's rights, budget and log."""
        ...


@dataclass(slots=True)
class Wiring:
    """What the composition root gives the executor."""

    catalog: CatalogStore
    log: EventLog
    checks: Callable[[], Sequence[PolicyCheck]]
    """The policy checks of plugins; raises where a required one failed to load."""
    healthy: Callable[[], str | None]
    """Why effects must stop (a required audit sink failed), or None."""
    models: Completer | None = None
    stores: Callable[[str], Store] | None = None
    redact: Callable[[str], None] = lambda _: None
    approvals: Approvals | None = None
    """Who asks people; without it, what must be asked is refused."""


class Executor:
    """Runs tool calls through every stage, in one order, for every caller."""

    def __init__(self, wiring: Wiring, limits: ExecutorLimits | None = None) -> None:
        self._wiring = wiring
        self._limits = limits or ExecutorLimits()
        self._validators = Validators()

    async def invoke(self, call: ToolCall, scope: CallScope) -> Outcome:
        """Run one call.

        Returns:
            A ToolResult, `is_error` where the tool failed; or a Refusal with its next step.

        Raises:
            LogWriteFailed: The log cannot be written; nothing was executed.
            NeedHumanApproval: A person must answer elsewhere; the call is recorded as asked for.
        """
        pending = PendingCall(_named(call), scope)
        try:
            self._read(pending, call.input)
            self._resolve(pending)
            self._access(pending)
            self._recall(pending)
            self._validate(pending)
            self._effects(pending)
            await self._decide(pending)
            await self._approve(pending)
            await self._commit(pending)
        except Refused as exit_:
            await self._wiring.log.append(pending.refused(exit_.refusal))
            return exit_.refusal
        return pending.told(await self._invoke(pending))

    def _read(self, pending: PendingCall, input: Any) -> None:
        """Copy the input, so that what is decided is what is executed and what is recorded."""
        call = pending.call
        try:
            plain = plain_object(input, MAX_INPUT)
        except InvalidInput as error:
            pending.call = ToolCall(call.id, call.name, {}, call.catalog_revision)
            raise refuse(
                "invalid_input",
                f"`{pending.call.name}`: {error.place or 'the input'}: {error.message}",
                {"action": "fix_arguments", "paths": [error.place or ""]},
            ) from error
        pending.call = ToolCall(call.id, call.name, plain, call.catalog_revision)

    def _resolve(self, pending: PendingCall) -> None:
        catalog, call = self._wiring.catalog, pending.call
        pending.tool = catalog.current.find(call.name)
        if pending.tool is None:
            raise not_found(call.name, catalog.current.tools)
        if call.catalog_revision in {None, catalog.current.revision}:
            return
        offered = catalog.contract_at(str(call.catalog_revision), pending.tool.meta.name)
        if offered is not None and offered != pending.tool.meta.contract_hash:
            raise refuse(
                "tool_changed",
                f"the contract of `{call.name}` changed since it was offered; look at it again",
                {"action": "search", "command": f"clawhive tools show {call.name}"},
            )

    def _access(self, pending: PendingCall) -> None:
        if pending.scope.depth > self._limits.call_depth:
            raise refuse(
                "call_depth_exceeded",
                f"tools call each other more than {self._limits.call_depth} levels deep",
                {"action": "choose_another_way"},
            )
        if pending.scope.deadline is not None and pending.scope.deadline <= time.monotonic():
            raise refuse("timeout", "the call that makes this one has ended", {"action": "none"})
        problem = self._wiring.healthy()
        if problem is not None:
            raise refuse("denied", problem, {"action": "ask_user"})

    def _recall(self, pending: PendingCall) -> None:
        """Look up what a person answered about this very call before its run stopped."""
        approvals = self._wiring.approvals
        if approvals is not None and pending.scope.step_id in pending.scope.run.asked:
            approvals.recall(pending)

    def _validate(self, pending: PendingCall) -> None:
        meta = _tool(pending).meta
        problems = self._validators.problems(
            meta.contract_hash, meta.input_schema, pending.call.input
        )
        if problems:
            raise refuse(
                "invalid_input",
                f"`{meta.name}`: {describe(problems)}",
                {"action": "fix_arguments", "paths": [problem.path for problem in problems]},
            )

    def _effects(self, pending: PendingCall) -> None:
        meta = _tool(pending).meta
        try:
            pending.capabilities = requested(meta, pending.call.input, pending.scope.run.variables)
        except InvalidInput as error:
            raise refuse(
                "invalid_input",
                f"`{meta.name}`: {error.place}: {error.message}",
                {"action": "fix_arguments", "paths": [error.place]},
            ) from error
        except CapabilityError as error:
            raise refuse(
                "denied",
                f"`{meta.name}` does not say in a usable way what it touches: {error.message}",
                {"action": "report", "provider_id": meta.provider_id},
            ) from error

    async def _decide(self, pending: PendingCall) -> None:
        scope, meta = pending.scope, _tool(pending).meta
        request = PolicyRequest(
            meta,
            pending.call.input,
            scope.principal,
            pending.capabilities,
            scope.run.task_id,
            scope.step_id,
            scope.run.conversation_id,
        )
        results = await self._check(request)
        scope.run.rules.expire(now())
        pending.decision = decide(request, scope.rules, results)
        if pending.decision.verdict == "deny":
            raise denied(pending)

    async def _check(self, request: PolicyRequest) -> Sequence[CheckResult]:
        try:
            checks = self._wiring.checks()
        except Exception as error:  # noqa: BLE001 - checks that cannot be loaded must deny
            return (CheckResult("deny", f"check:unavailable:{type(error).__name__}"),)
        if not checks:
            return ()
        return await run_checks(checks, replace(request, input=deepcopy(request.input)))

    async def _approve(self, pending: PendingCall) -> None:
        """Obtain a person's answer; what was decided before it is decided again after it."""
        asks = pending.decision is not None and pending.decision.verdict == "ask"
        if not asks and pending.answer is None:
            return
        approvals = self._wiring.approvals
        if approvals is None:
            raise approval_required(pending)
        if await approvals.obtain(pending):
            self._validate(pending)
            self._effects(pending)
        await approvals.use(pending)
        await self._decide(pending)

    async def _commit(self, pending: PendingCall) -> None:
        """Write the intent; where the caller is cancelled meanwhile, also that nothing was done."""
        try:
            await self._append_intent(pending)
        except LogWriteFailed:
            raise
        except RunError:
            pending.approval = "consumed"
            raise unapproved(pending.call.name, "consumed", None) from None
        except BaseException:
            self._fail(pending, {}, "failed", cancelled(_tool(pending).meta))
            raise

    async def _append_intent(self, pending: PendingCall) -> None:
        """Write the intent and, in the same transaction, use its approval up."""
        log, approval_id = self._wiring.log, pending.approval_id
        sync = pending.leaves_the_run
        if approval_id is None or approval_id == pending.scope.approved:
            await log.append(pending.started(), sync=sync)
            return
        events = (pending.consumed(approval_id), pending.started())
        await log.append(*events, sync=sync, within=consume(approval_id))

    async def _invoke(self, pending: PendingCall) -> Outcome:
        meta, seconds = _tool(pending).meta, self._seconds(pending)
        context = self._context(pending, seconds)
        work: Bounded[Any] = Bounded(_work(pending, context), self._limits.grace_seconds)
        try:
            result = await work.wait(seconds)
        except Overdue as overdue:
            status = "abandoned" if overdue.fate == "abandoned" else "failed"
            return self._fail(pending, context.partial, status, timeout_of(meta, seconds))
        except ClawHiveError as error:
            return self._fail(pending, context.partial, "failed", failure_of(error))
        except Escaped as escaped:
            return self._fail(pending, context.partial, "failed", crash_of(meta, escaped.error))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure, not ours
            return self._fail(pending, context.partial, "failed", crash_of(meta, error))
        except BaseException:
            self._interrupted(pending, context, work)
            raise
        finally:
            context.end()
        return self._record(pending, context, result)

    def _context(self, pending: PendingCall, seconds: float) -> ToolContext:
        meta = _tool(pending).meta
        return ToolContext(
            pending.scope,
            meta.name,
            pending.call.id,
            pending.capabilities,
            time.monotonic() + seconds,
            self,
            meta.provider_id,
        )

    def _interrupted(self, pending: PendingCall, context: ToolContext, work: Bounded[Any]) -> None:
        """Record what became of a call whose caller was cancelled."""
        late = work.late_result()
        if late is not None:
            self._record(pending, context, late)
            return
        status = "abandoned" if work.abandoned else "failed"
        self._fail(pending, context.partial, status, cancelled(_tool(pending).meta))

    def _seconds(self, pending: PendingCall) -> float:
        own = _tool(pending).meta.timeout_ms / 1000
        outer = pending.scope.deadline
        return own if outer is None else max(0.0, min(own, outer - time.monotonic()))

    def _record(self, pending: PendingCall, context: ToolContext, result: Any) -> Outcome:
        meta = _tool(pending).meta
        finished = finish(result, meta, pending.call.id, self._validators)
        if isinstance(finished, Refusal):
            return self._fail(pending, context.partial, "failed", finished)
        error = error_of(finished)
        self._wiring.log.post(
            pending.ended("succeeded" if error is None else "failed", finished, error)
        )
        return finished

    def _fail(
        self,
        pending: PendingCall,
        partial: Mapping[str, bytearray],
        status: str,
        refusal: Refusal,
    ) -> Outcome:
        """Record a failed execution and answer it with its code and what output there was."""
        result = partial_result(pending.call.id, refusal, partial)
        error = {"code": refusal.error, "message": refusal.message}
        self._wiring.log.post(pending.ended(status, result, error))
        return result

    async def call_nested(self, context: ToolContext, name: str, input: Mapping[str, Any]) -> Any:
        """Run a tool's own call; its principal, rights and deadline are the outer call's."""
        context.nested += 1
        call_id = f"{context.tool_call_id}>{context.nested}"
        scope = replace(
            context.scope,
            step_id=f"{context.invocation_id}>{context.nested}",
            label="",
            attempt=1,
            depth=context.scope.depth + 1,
            parent_invocation_id=context.invocation_id,
            deadline=context.deadline,
            approved=None,
        )
        outcome = await self.invoke(ToolCall(call_id, name, input), scope)
        return outcome.to_dict() if isinstance(outcome, Refusal) else outcome.value

    async def complete_nested(self, context: ToolContext, request: LlmRequest) -> LlmResponse:
        """Ask a model for a tool, under the run's rights and log."""
        if self._wiring.models is None:
            raise ToolError("no model is configured", code="unknown_model")
        scope = replace(context.scope, parent_invocation_id=context.invocation_id)
        return await self._wiring.models.complete(request, scope)

    def redact(self, secret: str) -> None:
        """Keep a value out of the log from now on."""
        self._wiring.redact(secret)

    def store_for(self, namespace: str) -> Store:
        """Return the store of one namespace."""
        if self._wiring.stores is None:
            raise ToolError("this executor keeps no values", code="storage_failed")
        return self._wiring.stores(namespace)


def _tool(pending: PendingCall) -> Any:
    if pending.tool is None:
        raise LogWriteFailed("a call reached a stage before it was resolved")
    return pending.tool


def _named(call: ToolCall) -> ToolCall:
    """Return the call with an id and a name that can be recorded, whoever made them up."""
    given: Any = call
    return replace(call, id=_short(given.id), name=_short(given.name))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_NAME else preview(text, _MAX_NAME)


async def _work(pending: PendingCall, context: ToolContext) -> Any:
    tool = _tool(pending)
    return await tool.provider.invoke(tool.meta.name, pending.call.input, context)
