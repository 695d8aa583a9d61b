"""A call on its way through the executor's stages, and what may enter it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from clawhive_core.capabilities import verb_of
from clawhive_core.catalog.catalog import Tool
from clawhive_core.errors import InvalidInput, NeedHumanApproval
from clawhive_core.execution.outcomes import Outcome
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.approvals import Approval, changed, edits
from clawhive_core.model.canonical import canonical, canonical_portable, preview
from clawhive_core.model.events import Blob, Event, EventColumns
from clawhive_core.model.json_values import MAX_DEPTH, json_object
from clawhive_core.model.late import dataclass
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.policy.quotas import Quota
from clawhive_core.policy.rules import Decision
from clawhive_core.protocols.check import CheckResult, PolicyRequest

_MAX_NAME = 200
_SCALARS = frozenset({str, bool, type(None)})


def idempotency_key(scope: CallScope, call_id: str) -> str:
    """Return what every execution of one ToolCall has in common; its step's id names the run."""
    return f"{scope.step_id}:{call_id}"


def recordable(call: ToolCall) -> ToolCall:
    """Return the call with an id and a name that can be recorded, whoever made them up."""
    if _is_short(call.id) and _is_short(call.name):
        return call
    return replace(call, id=recordable_text(call.id), name=recordable_text(call.name))


def recordable_text(value: Any) -> str:
    """Return a name or an id as the log keeps it."""
    if _is_short(value):
        return value
    return preview(value if isinstance(value, str) else repr(value), _MAX_NAME)


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_NAME


@dataclass(slots=True)
class PendingCall:
    """One call, with what the stages have found out about it so far."""

    call: ToolCall
    scope: CallScope
    tool: Tool | None = None
    capabilities: tuple[str, ...] = ()
    checked: Sequence[CheckResult] = ()
    """The answers of policy checks."""
    decision: Decision | None = None
    approval: str | None = None
    """The answer to an approval, None where none was asked for."""
    approval_id: str | None = None
    """The approval that this execution uses up."""
    answer: Approval | None = None
    """The approval of this call as a person answered it."""
    asked_input: Mapping[str, Any] | None = None
    """The input before a person edited it."""
    grants: tuple[tuple[str, str], ...] = field(default=())
    quota: Quota | None = None
    """The quota that it uses, where the skill that exports the tool limits its calls."""
    is_portable: bool = False
    """Whether the input is known to be portable, see `json_values`."""
    is_queued: bool = False
    """Whether its intent was queued and not waited for, as that of a call that only reads is."""

    @property
    def meta(self) -> ToolMeta | None:
        """The tool's definition, once it is resolved."""
        return None if self.tool is None else self.tool.meta

    def request(self, meta: ToolMeta) -> PolicyRequest:
        """Return what is decided about."""
        scope, given = self.scope, self.call.input
        return PolicyRequest(
            meta,
            given if scope.midway is None else {**scope.midway, **given},
            scope.principal,
            self.capabilities,
            scope.run.task_id,
            scope.step_id,
            scope.run.conversation_id,
        )

    @property
    def leaves_the_run(self) -> bool:
        """Whether it may change what is not the run's own, so that its intent is synced."""
        meta = self.meta
        return meta is not None and (meta.side_effects or meta.risk != "safe")

    @property
    def only_reads(self) -> bool:
        """Whether nothing outside this process can be other for it, nor has heard of it.

        Then its intent need not be committed before it: it comes before whatever follows the call.
        """
        meta = self.meta
        if meta is None or meta.risk != "safe" or meta.side_effects or not meta.idempotent:
            return False
        if meta.capability_level != "L0" or self.uses_up:
            return False
        for text in self.capabilities:
            name, _, resource = text.partition(":")
            if name == "tool.call" and resource == meta.name:
                continue
            verb = verb_of(name)
            if verb is None or not verb.reads_here:
                return False
        return True

    @property
    def rights(self) -> tuple[str, ...]:
        """The grants that allow it."""
        return () if self.decision is None else tuple([by for _, by in self.decision.granted])

    @property
    def asks(self) -> bool:
        """Whether a person must answer."""
        return self.decision is not None and self.decision.verdict == "ask"

    @property
    def is_newly_approved(self) -> bool:
        """Whether it uses an approval up that no earlier attempt of it used."""
        return self.approval_id is not None and self.approval_id != self.scope.approved

    @property
    def counted(self) -> tuple[str, ...]:
        """The grants of which this call is a use; a tool that is restarted uses nothing more."""
        if self.decision is None or self.scope.attempt > 1:
            return ()
        return self.decision.counted

    @property
    def uses_up(self) -> bool:
        """Whether it uses anything up: an approval, a grant's use, a call of a quota."""
        decided = self.decision
        if self.approval_id is None and self.quota is None and decided and not decided.counted:
            return False  # as of nearly every call
        return self.is_newly_approved or bool(self.counted) or self.quota is not None

    def edit(self, input: Mapping[str, Any]) -> None:
        """Go on with the input that a person gave instead."""
        self.asked_input = self.call.input
        self.scope.run.grounds.say(changed(self.asked_input, input))
        self.call, self.is_portable = replace(self.call, input=input), False

    def with_edits(self, outcome: Outcome) -> Outcome:
        """Return the outcome, with what a person edited where somebody did."""
        if self.asked_input is None or not isinstance(outcome, ToolResult):
            return outcome
        return replace(outcome, edited=edits(self.asked_input, self.call.input))

    def started(self) -> Event:
        """Return the intent: written before anything happens."""
        facts = self._facts()
        return self._event(
            "invocation.start", "intended", facts, prechecked=self._has_checked_facts()
        )

    def asked(self, more: Mapping[str, Any]) -> Event:
        """Return that the call waits for a person, with what the person must know."""
        return self._event("approval.requested", "parked", {**self._facts(), **more})

    def consumed(self, approval_id: str) -> Event:
        """Return that the call uses its approval up."""
        body = {"approval_id": approval_id, "by": "clawhive", "reason": None}
        used, asked = self._event("approval.resolved", "consumed", body), self.answer
        if asked is None or asked.run_id == used.run_id:
            return used
        # A client's earlier session asked: what became of an approval stands in the run of it.
        return replace(
            used,
            trace_id=asked.trace_id,
            run_id=asked.run_id,
            task_id=asked.task_id,
            step_id=asked.step_id,
            conversation_id=asked.conversation_id,
        )

    def refused(self, refusal: Refusal) -> Event:
        """Return the only row of a call that was not done."""
        facts = {**self._facts(), "refusal": refusal.to_dict()}
        return self._event("invocation.refused", "refused", facts)

    def ended(
        self,
        status: str,
        result: ToolResult,
        error: Mapping[str, Any] | None,
        *,
        portable: bool = False,
    ) -> Event:
        """Return how the execution ended.

        Args:
            status: How it ended.
            result: What it came to.
            error: Its code and message, where it failed.
            portable: Whether the structured value is known to be portable.
        """
        text, artifacts, structured = result.output, result.artifacts, result.structured
        value = {"output": text, "structured": structured, "is_error": result.is_error}
        written = canonical_portable(value) if portable or structured is None else None
        body = {
            "output": Blob(value, encoded=written),
            "output_preview": preview(text),
            "error": None if error is None else {key: error[key] for key in ("code", "message")},
            "is_error": result.is_error,
            "artifacts": [each.to_dict() for each in artifacts] if artifacts else (),
        }
        if result.enables is not None:
            body["enables"] = result.enables.to_dict()
        prechecked = error is None and not artifacts and result.enables is None
        return self._event("invocation.end", status, body, prechecked=prechecked)

    def failed(self, status: str, result: ToolResult, refusal: Refusal) -> list[Event]:
        """Return the end of a failed execution; its quota is given back where no sandbox ran it."""
        error = {"code": refusal.error, "message": refusal.message}
        ended = self.ended(status, result, error)
        if self.quota is None or refusal.error != "sandbox_unavailable":
            return [ended]
        return [ended, self.quota.returned(**self.ids)]

    def _facts(self) -> dict[str, Any]:
        meta, decision, scope, call = self.meta, self.decision, self.scope, self.call
        name = call.name if meta is None else meta.name
        written = canonical_portable(call.input) if self.is_portable else canonical(call.input)
        facts: dict[str, Any] = {
            "step": {"name": f"tool.{name}", "label": scope.label, "ordinal": scope.ordinal},
            "tool_call": {
                "id": call.id,
                "name": call.name,
                "input": Blob(call.input, encoded=written),
                "catalog_revision": call.catalog_revision,
            },
            "input_preview": preview(written.decode("utf-8")),
            "capability_level": None if meta is None else meta.capability_level,
            "risk": None if meta is None else meta.risk,
            "contract_hash": None if meta is None else meta.contract_hash,
            "requested_capabilities": self.capabilities,
            "granted_capabilities": self._granted(),
            "decision": None if decision is None else decision.verdict,
            "rules": () if decision is None else decision.rules,
            "approval_required": self.approval_id is not None or self.asks,
            "approval_result": self.approval,
            "idempotency_key": idempotency_key(scope, call.id),
            "parent_invocation_id": scope.parent_invocation_id,
        }
        if scope.run.parent_run_id is not None:
            facts.update(scope.run.above)
        if self.asked_input is not None:
            facts["asked_input"] = Blob(self.asked_input)
        if scope.grounds is not None and (lent := self._lent()) is not None:
            facts["grounds"] = lent
        return facts

    def _has_checked_facts(self) -> bool:
        """Whether what others put into the facts is text, as all that the stages found out is."""
        meta, call = self.meta, self.call
        if self.checked or meta is None:
            return False
        given = (
            call.id,
            call.name,
            call.catalog_revision,
            self.scope.label,
            meta.capability_level,
            meta.risk,
        )
        return _SCALARS.issuperset(map(type, given))

    def _lent(self) -> dict[str, Any] | None:
        """Return what the contract of the skill whose own call it is grounds of its output."""
        meta, grounds = self.meta, self.scope.grounds
        if meta is None or grounds is None or not grounds.of(meta):
            return None
        return grounds.to_dict(meta)

    def _granted(self) -> list[dict[str, str]]:
        """Return what allowed each capability: a grant, or the approval of this very call."""
        if (decision := self.decision) is None:
            return []
        granted = [{"capability": text, "grant_id": by} for text, by in decision.granted]
        if self.approval_id is not None:
            by = self.approval_id
            granted += [{"capability": text, "grant_id": by} for text in decision.asked]
        return granted

    @property
    def ids(self) -> EventColumns:
        """The ids of the call, of its step and of its run, as every event of it says them."""
        scope, run = self.scope, self.scope.run
        return {
            "trace_id": run.trace_id,
            "run_id": run.run_id,
            "task_id": run.task_id,
            "step_id": scope.step_id,
            "invocation_id": scope.invocation_id,
            "conversation_id": run.conversation_id,
            "principal": str(scope.principal),
        }

    def _event(
        self, kind: str, status: str, body: Mapping[str, Any], *, prechecked: bool = False
    ) -> Event:
        tool, scope, run = self.tool, self.scope, self.scope.run
        return Event(
            kind,
            body,
            run.trace_id,
            run.run_id,
            run.task_id,
            scope.step_id,
            scope.invocation_id,
            run.conversation_id,
            str(scope.principal),
            self.call.name if tool is None else tool.meta.name,
            None if tool is None else tool.meta.provider_id,
            status,
            prechecked=prechecked,
        )


@dataclass(frozen=True, slots=True)
class Parked:
    """A call whose tool stopped, because a person must answer a call of its own."""

    pending: PendingCall
    asked: NeedHumanApproval


MAX_INPUT = 16 * 1024 * 1024
"""About the bytes of JSON that a call's input may be."""


def input_of(call: ToolCall) -> tuple[dict[str, Any], bool]:
    """Return a copy of a call's input, and whether it is portable.

    Raises:
        InvalidInput: As `json_object`, or the model did not write its arguments as a JSON object.
    """
    if call.malformed is None:
        return json_object(call.input, MAX_INPUT)
    try:
        kind = type(json.loads(call.malformed)).__name__
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the arguments are no JSON: {error}") from error
    if kind == "dict":  # such input of a model is refused here, before the log takes it
        raise InvalidInput(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    raise InvalidInput(f"the arguments are {kind}, and an object is needed")


def as_recorded(call: ToolCall) -> dict[str, Any]:
    """Return a call's input as the log holds it: empty where it is none that can be used."""
    try:
        return input_of(call)[0]
    except InvalidInput:
        return {}
