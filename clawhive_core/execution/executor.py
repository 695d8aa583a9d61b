"""The executor: resolve, access, validate, effects, decide, approve, commit, invoke, record.

Every tool call goes through `Executor.invoke`; there is no second way, so nothing to bypass. The
stages stand here in the order in which a call takes them; `PendingCall` carries what they find out.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from clawhive_core.catalog.bounded import Bounded, Escaped, Overdue
from clawhive_core.catalog.catalog import Tool
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.catalog.validation import Validators
from clawhive_core.errors import (
    CapabilityError,
    ClawHiveError,
    InvalidInput,
    LogWriteFailed,
    NeedHumanApproval,
    RunError,
    SinkFailed,
    ToolError,
)
from clawhive_core.events.grants import returned, used
from clawhive_core.events.kinds import (
    GRANT_RETURNED,
    GRANT_USED,
    QUOTA_RESERVED,
    QUOTA_RETURNED,
)
from clawhive_core.execution.access import SkillAccess, rate_limited
from clawhive_core.execution.approvals import Approvals
from clawhive_core.execution.context import ToolContext
from clawhive_core.execution.effects import check_sinks, learn_from, requested_capabilities
from clawhive_core.execution.http.connections import Connections
from clawhive_core.execution.nested import (
    REQUIRE,
    Repeater,
    earlier_calls,
    required_input,
    tool_of,
)
from clawhive_core.execution.outcomes import (
    Outcome,
    Refused,
    RefusedMidway,
    cancelled,
    checked_result,
    crash_of,
    error_of,
    failure_of,
    interrupted,
    parked_result,
    partial_result,
)
from clawhive_core.execution.pending import (
    Parked,
    PendingCall,
    input_of,
    recordable,
    recordable_text,
)
from clawhive_core.execution.recorded import RecordedCall
from clawhive_core.execution.refusals import (
    approval_required,
    bad_input,
    denied,
    not_found,
    not_imported,
    refuse,
    require_enabled,
    sink_refusal,
    unapproved,
)
from clawhive_core.execution.scope import NESTED, CallScope, RunScope
from clawhive_core.model.embeddings import Embeddings, checked_texts
from clawhive_core.model.events import Event
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall, ToolMeta
from clawhive_core.policy.approvals import usable, withdrawn
from clawhive_core.policy.checks import run_checks
from clawhive_core.policy.decision import decide
from clawhive_core.policy.grants import used_up as grants_used_up
from clawhive_core.policy.quotas import USED_UP
from clawhive_core.protocols.check import CheckResult, PolicyCheck, PolicyRequest
from clawhive_core.protocols.context import Store
from clawhive_core.protocols.ledger import (
    DescentOf,
    Expectation,
    GrantsUsable,
    InvocationHas,
    Ledger,
    QuotaLeft,
    RunOwnedBy,
    Unmet,
)

if TYPE_CHECKING:
    from clawhive_core.execution.http.guard import Guard

_GRANT_USED_UP = "grant_used_up"
_COUNTS = frozenset((GRANT_USED, QUOTA_RESERVED))
_RETURNS = frozenset((GRANT_RETURNED, QUOTA_RETURNED))


class Completer(Protocol):
    """The way to models, for tools that ask one."""

    async def complete(self, request: LlmRequest, scope: CallScope) -> LlmResponse:
        """Answer a request under the run's rights, budget and log."""
        ...

    async def embed(self, texts: Sequence[str], model: str | None, scope: CallScope) -> Embeddings:
        """Return vectors of texts, likewise."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """Bounds of every call."""

    call_depth: int = 8
    grace_seconds: float = 2.0
    """Seconds that a tool may take to stop after its deadline."""


@dataclass(slots=True)
class Wiring:
    """The parts of the core that the executor calls."""

    catalog: CatalogStore
    log: Ledger
    checks: Callable[[], Sequence[PolicyCheck]]
    """The policy checks of plugins; raises where a required one failed to load."""
    models: Completer | None = None
    stores: Callable[[CallScope, str], Store] | None = None
    """The values of a namespace, for the user of a call."""
    redact: Callable[[str], None] = lambda _: None
    access: SkillAccess | None = None
    """The subscriptions and quotas of what skills export; without it, none are asked for."""
    approvals: Approvals | None = None
    """The way to ask people; without it, what must be asked is refused."""
    http: Connections = field(default_factory=Connections)
    """The connections of tools that send requests."""
    acknowledge: Callable[[int], Awaitable[None]] | None = None
    """Returns once every required audit sink has the events up to a number, else raises SinkFailed;
    None where no sink is required."""


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
            NeedHumanApproval: A person must answer elsewhere: this call, which is recorded as asked
                for, or one of its tool's own, for which it is parked.
        """
        outcome = await self._attempt(call, scope)
        while isinstance(outcome, Parked):
            outcome = await self._attempt(call, await self._settle_parked(outcome))
        return outcome

    async def _attempt(self, call: ToolCall, scope: CallScope) -> Outcome | Parked:
        """Take one call through the stages."""
        pending = PendingCall(recordable(call), scope)
        try:
            await self.decide(pending)
            if pending.asks or pending.answer is not None:
                await self._approve(pending)
            await self._commit(pending)
        except Refused as error:
            refused = pending.refused(error.refusal)
            await self._wiring.log.append(refused, expects=scope.run.owned)
            return error.refusal
        except Unacknowledged as error:
            return pending.with_edits(self._fail(pending, {}, "failed", error.refusal))
        except Unmet:  # the run has another executor
            raise
        except RunError as error:  # meanwhile somebody made the last use of a right
            scope.run.rules.revoke(_used_up_grants(error), used_up=True)
            return await self._attempt(call, scope)
        outcome = await self._invoke(pending)
        return outcome if isinstance(outcome, Parked) else pending.with_edits(outcome)

    async def decide(self, pending: PendingCall) -> None:
        """Take a call through the stages up to its decision; nothing is executed or recorded.

        Raises:
            Refused: It is denied, or cannot be decided; an answer `ask` is in its decision.
        """
        self._read(pending)
        self._resolve(pending)
        self._access(pending)
        await self._admit(pending)
        self._recall(pending)
        self._validate(pending)
        self._effects(pending)
        await self._apply_policy(pending)

    def _read(self, pending: PendingCall) -> None:
        """Copy the input, so that what is decided is what is executed and what is recorded."""
        call = pending.call
        try:
            copy, pending.is_portable = input_of(call)
        except InvalidInput as error:
            pending.call = ToolCall(call.id, call.name, {}, call.catalog_revision)
            raise refuse(
                "invalid_input",
                f"`{pending.call.name}`: {error.place or 'the input'}: {error.message}",
                {"action": "fix_arguments", "paths": [error.place or ""]},
            ) from error
        pending.call = ToolCall(call.id, call.name, copy, call.catalog_revision)

    def _resolve(self, pending: PendingCall) -> None:
        """Find the tool among those that the caller may see and call."""
        catalog, call = self._wiring.catalog, pending.call
        pending.tool = tool_of(catalog.current, call, pending.scope)
        reach = pending.scope.reach
        if reach is not None and not reach.allows(call.name, pending.meta):
            raise not_imported(pending, reach.skill_id)
        if pending.tool is None or not pending.scope.sees(pending.tool.meta):
            tools = catalog.current.tools.items()
            seen = [name for name, each in tools if pending.scope.sees(each.meta)]
            raise not_found(call.name, seen)
        require_enabled(pending.tool.meta.name, pending.scope.enabled)
        if call.catalog_revision in {None, catalog.current.revision}:
            return
        if self._was_asked(pending.scope):
            return  # a person saw the tool as it was: its approval says what changed
        offered = catalog.contract_at(str(call.catalog_revision), pending.tool.meta.name)
        if offered is not None and offered != pending.tool.meta.contract_hash:
            raise refuse(
                "tool_changed",
                f"the contract of `{call.name}` changed since it was offered; look at it again",
                {"action": "search", "command": f"clawhive tools show {call.name}"},
            )

    def _access(self, pending: PendingCall) -> None:
        """Refuse every call that is too deep or too late, or that may have no effects now."""
        if pending.scope.depth > self._limits.call_depth:
            raise refuse(
                "call_depth_exceeded",
                f"tools call each other more than {self._limits.call_depth} levels deep",
                {"action": "choose_another_way"},
            )
        if pending.scope.deadline is not None and pending.scope.deadline <= time.monotonic():
            raise refuse("timeout", "the call that makes this one has ended", {"action": "none"})

    async def _admit(self, pending: PendingCall) -> None:
        """Hold the call against the subscriptions and quotas of the skill that exports the tool."""
        access, meta = self._wiring.access, _tool(pending).meta
        if access is not None and access.concerns(meta):
            await access.admit(pending, meta)

    def _recall(self, pending: PendingCall) -> None:
        """Look up what a person answered about this very call before its run stopped."""
        approvals = self._wiring.approvals
        if approvals is not None and self._was_asked(pending.scope):
            approvals.recall(pending)

    def _was_asked(self, scope: CallScope) -> bool:
        return scope.approved is not None or scope.step_id in scope.run.asked

    def _validate(self, pending: PendingCall) -> None:
        """Hold the input against the tool's schema."""
        meta = _tool(pending).meta
        given = pending.call.input
        problems = self._validators.problems(meta.contract_hash, meta.input_schema, given)
        if problems:
            raise bad_input(meta.name, problems)

    def _effects(self, pending: PendingCall) -> None:
        """Find the capabilities that the call needs."""
        meta = _tool(pending).meta
        try:
            pending.capabilities = requested_capabilities(
                meta, pending.call.input, pending.scope.run.variables
            )
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

    async def _apply_policy(self, pending: PendingCall) -> None:
        """Decide by the rules of the run, the call's destinations and the plugins' checks."""
        request, run = pending.request(_tool(pending).meta), pending.scope.run
        pending.checked = (*check_sinks(pending), *await self._run_checks(request))
        run.refresh()
        pending.decision = decide(request, pending.scope.rules, pending.checked)
        if pending.decision.verdict == "deny":
            raise denied(pending)

    async def _run_checks(self, request: PolicyRequest) -> Sequence[CheckResult]:
        try:
            checks = self._wiring.checks()
        except Exception as error:  # noqa: BLE001 - checks that cannot be loaded must deny
            return (CheckResult("deny", f"check:unavailable:{type(error).__name__}"),)
        if not checks:
            return ()
        return await run_checks(checks, replace(request, input=deepcopy(request.input)))

    async def _approve(self, pending: PendingCall) -> None:
        """Obtain a person's answer; what was decided before it is decided again after it."""
        approvals = self._wiring.approvals
        if approvals is None:
            raise approval_required(pending)
        if await approvals.obtain(pending):
            self._validate(pending)
            self._effects(pending)
        await self._admit(pending)
        await approvals.use(pending)
        await self._apply_policy(pending)

    async def _commit(self, pending: PendingCall) -> None:
        """Write the intent and use up what the call uses; of a cancelled caller its end, too."""
        log, acknowledge = self._wiring.log, self._wiring.acknowledge
        if pending.only_reads:
            acknowledge = None
        if acknowledge is not None:
            await _acknowledged(acknowledge, 0)
        try:
            seq = await self._append_intent(pending)
            if acknowledge is not None:
                await acknowledge(seq)
        except (LogWriteFailed, Unmet):
            raise
        except SinkFailed as error:
            give_back(pending, log)
            raise Unacknowledged(sink_refusal(error)) from None
        except RunError as error:
            raise _unwritten_error(pending, error) from None
        except BaseException:
            give_back(pending, log)
            self._fail(pending, {}, "failed", cancelled(_tool(pending).meta))
            raise

    async def _append_intent(self, pending: PendingCall) -> int:
        """Write the intent and, in the same transaction, use up what the call uses.

        That of a call which only reads is queued: it is committed before all that follows the call.

        Returns:
            Its number; 0 where it is queued.

        Raises:
            RunError: The approval, a use or the quota is gone; nothing was written.
            LogWriteFailed: It could not be written.
        """
        if pending.only_reads:
            pending.is_queued = True
            await self._wiring.log.post_or_wait(pending.started(), expects=pending.scope.run.owned)
            return 0
        if pending.uses_up:
            return await self._append_with_uses(pending)
        owned = pending.scope.run.owned
        seqs = await self._wiring.log.append(
            pending.started(), sync=pending.leaves_the_run, expects=owned
        )
        return seqs[-1]

    async def _append_with_uses(self, pending: PendingCall) -> int:
        """Write the intent with the uses that it makes, if all of them are left."""
        log = self._wiring.log
        events, expects = [pending.started()], list[Expectation](pending.scope.run.owned)
        if pending.counted:
            events.insert(0, used(list(log.find(DescentOf(tuple(pending.counted)))), **pending.ids))
            expects.append(GrantsUsable(tuple(pending.counted)))
        if pending.quota is not None:
            events.insert(0, pending.quota.reserved(**pending.ids))
            expects.append(pending.quota.left)
        if pending.is_newly_approved:
            approval_id = str(pending.approval_id)
            events.insert(0, pending.consumed(approval_id))
            expects.extend(usable(approval_id))
        try:
            seqs = await log.append(*events, sync=pending.leaves_the_run, expects=expects)
        except Unmet as error:
            raise _unmet_error(pending, error) from None
        return seqs[-1]

    async def _settle_parked(self, parked: Parked) -> CallScope:
        """Have what a tool was parked for answered, and return the scope of its next attempt."""
        scope, approvals = parked.pending.scope, self._wiring.approvals
        if scope.parent_invocation_id is not None or approvals is None:
            raise parked.asked
        await approvals.settle_nested(scope, parked.asked.data.get("approvals", ()))
        return replace(scope, attempt=scope.attempt + 1, approved=parked.pending.approval_id)

    async def _invoke(self, pending: PendingCall) -> Outcome | Parked:
        """Let the tool work until its deadline, and record how it ends."""
        meta = _tool(pending).meta
        seconds = self._time_limit(meta, pending.scope.deadline)
        context = self._context(pending, meta, seconds)
        supervised = context.nested.supervise(self._work(pending, context))
        work: Bounded[Any] = Bounded(supervised, self._limits.grace_seconds)
        context.extend = work.extend
        rules = pending.scope.run.rules
        rules.watch(pending.rights, work.cut)
        try:
            result = await work.wait(seconds)
        except Overdue as overdue:
            failure = interrupted(meta, seconds, cut=work.is_cut)
            if overdue.fate == "abandoned":
                return self._fail(pending, context.partial, "abandoned", failure)
        except ClawHiveError as error:
            failure = failure_of(error)
        except Escaped as escaped:
            failure = crash_of(meta, escaped.error)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its failure, not ours
            failure = crash_of(meta, error)
        except BaseException:
            self._record_cancelled(pending, context, work)
            raise
        else:
            return self._record(pending, context, result)
        finally:
            rules.unwatch(work.cut)
            context.end()
        if (asked := context.nested.parked) is not None:
            return self._park(pending, context, asked)
        return self._fail(pending, context.partial, "failed", failure)

    async def _work(self, pending: PendingCall, context: ToolContext) -> Any:
        """Let the provider do its work; a tool that is restarted repeats the calls it made."""
        tool = _tool(pending)
        if pending.scope.attempt > 1:
            await self._wiring.log.flush()
            context.nested.replay(earlier_calls(self._wiring.log, pending.scope))
        return await tool.provider.invoke(tool.meta.name, pending.call.input, context)

    def _context(self, pending: PendingCall, meta: ToolMeta, seconds: float) -> ToolContext:
        return ToolContext(
            pending.scope,
            meta.name,
            pending.call.id,
            pending.capabilities,
            time.monotonic() + seconds,
            self,
            meta.provider_id,
            input=pending.call.input,
            suspended=pending.scope.rules.suspended(meta),
        )

    def _record_cancelled(
        self, pending: PendingCall, context: ToolContext, work: Bounded[Any]
    ) -> None:
        """Record what became of a call whose caller was cancelled."""
        if (late := work.late_result()) is not None:
            self._record(pending, context, late)
            return
        status = "abandoned" if work.abandoned else "failed"
        self._fail(pending, context.partial, status, cancelled(_tool(pending).meta))

    def _time_limit(self, meta: ToolMeta, outer: float | None) -> float:
        own = meta.timeout_ms / 1000
        return own if outer is None else max(0.0, min(own, outer - time.monotonic()))

    def _record(self, pending: PendingCall, context: ToolContext, result: Any) -> Outcome:
        """Check and cut what the tool answered, and record it."""
        meta = _tool(pending).meta
        finished, portable = checked_result(
            result, meta, pending.call.id, self._validators, context.nested_artifacts
        )
        if isinstance(finished, Refusal):
            return self._fail(pending, context.partial, "failed", finished)
        error = error_of(finished)
        status = "failed" if error else "succeeded"
        self._post(pending, pending.ended(status, finished, error, portable=portable))
        return learn_from(pending, finished)

    def _post(self, pending: PendingCall, *events: Event) -> None:
        """Record how a call ended; of one that may have done anything, nothing queues behind it."""
        pressing = not pending.is_queued
        self._wiring.log.post(*events, pressing=pressing, expects=pending.scope.run.owned)

    def _park(self, pending: PendingCall, context: ToolContext, asked: NeedHumanApproval) -> Parked:
        """Record that a tool stops until a person has answered a call of its own."""
        result = parked_result(pending.call.id, asked, context.partial)
        self._post(pending, pending.ended("parked", result, None))
        return Parked(pending, asked)

    def _fail(
        self,
        pending: PendingCall,
        partial: Mapping[str, bytearray],
        status: str,
        refusal: Refusal,
    ) -> Outcome:
        """Record a failed execution and answer it with its code and what output there was."""
        result = partial_result(pending.call.id, refusal, partial)
        self._post(pending, *pending.failed(status, result, refusal))
        return learn_from(pending, result)

    async def call_nested(
        self, context: ToolContext, name: str, input: Mapping[str, Any], label: str
    ) -> Outcome:
        """Run a tool's own call; its principal, rights and deadline are the outer call's."""
        return await context.nested.run(partial(self._make_call, context, name, input, label))

    async def _make_call(
        self, context: ToolContext, name: str, input: Mapping[str, Any], label: str
    ) -> Outcome:
        number, recorded = await context.nested.take_call(recordable_text(name), input)
        below = context.scope.below(number, context.deadline)
        scope = replace(below, label=label, reach=context.reach, grounds=context.grounds)
        return await self._make_or_repeat(
            context, number, recorded, ToolCall("", name, input), scope
        )

    async def _make_or_repeat(
        self,
        context: ToolContext,
        number: int,
        recorded: RecordedCall | None,
        asked: ToolCall,
        scope: CallScope,
    ) -> Outcome:
        """Make a tool's own call, or bring what the log has of it to its end."""
        call = replace(asked, id=f"{context.tool_call_id}{NESTED}{number}")
        if recorded is None:
            return await self.invoke(call, scope)
        wiring = self._wiring
        repeater = Repeater(wiring.log, wiring.catalog, wiring.approvals, self)
        return await repeater.repeat(recorded, call, scope)

    async def require_nested(self, context: ToolContext, capability: str) -> tuple[str, ...]:
        """Decide about a right that a tool needs midway; its call has it from then on.

        Raises:
            ToolError: With the code of the refusal, where it is refused.
        """
        asked = ToolCall("", REQUIRE, required_input(context.tool, capability))

        async def require() -> Outcome:
            number, recorded = await context.nested.take_call(REQUIRE, asked.input)
            scope = context.scope.below(number, context.deadline)
            scope = replace(scope, depth=context.scope.depth, midway=context.input)
            return await self._make_or_repeat(context, number, recorded, asked, scope)

        outcome = await context.nested.run(require)
        if isinstance(outcome, Refusal):
            raise RefusedMidway(outcome)
        if outcome.is_error:
            raise ToolError(outcome.output, code="denied")
        return tuple(outcome.structured["granted"])

    async def complete_nested(self, context: ToolContext, request: LlmRequest) -> LlmResponse:
        """Ask a model for a tool, under the run's rights and log."""
        models = self._wiring.models
        if models is None:
            raise ToolError("no model is configured", code="unknown_model")

        async def complete() -> LlmResponse:
            number, recorded = await context.nested.take_answer(request)
            return recorded or await models.complete(
                request, context.scope.below(number, context.deadline)
            )

        return await context.nested.run(complete)

    async def embed_nested(
        self, context: ToolContext, texts: Sequence[str], model: str | None
    ) -> Embeddings:
        """Ask an embedder for a tool, under the run's rights and log."""
        models = self._wiring.models
        if models is None:
            raise ToolError("no embedder is configured", code="unknown_model")
        asked = checked_texts(texts)

        async def embed() -> Embeddings:
            number, recorded = await context.nested.take_vectors(asked, model)
            return recorded or await models.embed(
                asked, model, context.scope.below(number, context.deadline)
            )

        return await context.nested.run(embed)

    def redact(self, secret: str) -> None:
        """Keep a value out of the log from now on."""
        self._wiring.redact(secret)

    def note(self, event: Event, run: RunScope) -> None:
        """Record what a tool was given."""
        self._wiring.log.post(event, expects=run.owned)

    def guard(self) -> Guard:
        """Return the connections of tools that send requests."""
        return self._wiring.http.guard()

    def store_for(self, scope: CallScope, namespace: str) -> Store:
        """Return the store of one namespace."""
        if self._wiring.stores is None:
            raise ToolError("this executor keeps no values", code="storage_failed")
        return self._wiring.stores(scope, namespace)


class Unacknowledged(Exception):
    """A required audit sink has not taken the intent of a call, which is written and not begun."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


async def _acknowledged(acknowledge: Callable[[int], Awaitable[None]], seq: int) -> None:
    """Refuse a call whose intent need not be written, since a required audit sink stands still.

    Raises:
        Refused: It has not taken the events up to a number.
    """
    try:
        await acknowledge(seq)
    except SinkFailed as error:
        raise Refused(sink_refusal(error)) from None


def _tool(pending: PendingCall) -> Tool:
    if (tool := pending.tool) is None:
        raise LogWriteFailed("a call reached a stage before it was resolved")
    return tool


def _unmet_error(pending: PendingCall, error: Unmet) -> RunError:
    """Return what an intent says where the uses that it makes are gone."""
    if isinstance(error.expectation, RunOwnedBy):
        return error
    if isinstance(error.expectation, GrantsUsable):
        return grants_used_up(error.found)
    if isinstance(error.expectation, QuotaLeft) and pending.quota is not None:
        return pending.quota.used_up(error.found)
    return withdrawn(str(pending.approval_id))


def give_back(pending: PendingCall, log: Ledger) -> None:
    """Give back what a call used that never started, where its intent was written."""
    scope, events = pending.scope, list[Event]()
    try:
        if pending.counted:
            descent = list(log.find(DescentOf(tuple(pending.counted))))
            events.append(returned(descent, **pending.ids))
        if pending.quota is not None:
            events.append(pending.quota.returned(**pending.ids))
        if not events:
            return
        counted = _counted(scope.run.run_id, scope.invocation_id)
        log.append_now(*events, expects=(*scope.run.owned, counted))
    except ClawHiveError:
        return  # its intent was not written, or nothing can be: the uses stand as they are


def _unwritten_error(pending: PendingCall, error: RunError) -> Exception:
    """Return what ends the attempt of a call whose intent was not written."""
    if error.code == _GRANT_USED_UP:
        return error
    if error.code == USED_UP:
        return rate_limited(pending.call.name, error)
    pending.approval = "consumed"
    return unapproved(pending.call.name, "consumed", None)


def _used_up_grants(error: RunError) -> set[str]:
    """Return the grants that an intent found used up.

    Raises:
        RunError: The error itself, where it says something else.
    """
    if error.code != _GRANT_USED_UP:
        raise error
    return set(error.data["grant_ids"])


def _counted(run_id: str, invocation_id: str) -> InvocationHas:
    """Return what giving back expects: that its use was counted, and not given back before."""
    return InvocationHas(run_id, invocation_id, _COUNTS, _RETURNS)
