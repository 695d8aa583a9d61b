"""The calls that a tool makes: numbered, recorded, repeated where that does no harm."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar, cast

import anyio

from clawhive_core.capabilities import parse, verb_of
from clawhive_core.catalog.catalog import Catalog, Tool
from clawhive_core.catalog.store import CatalogStore
from clawhive_core.errors import (
    ClawHiveError,
    InvalidInput,
    NeedHumanApproval,
    RunError,
    StorageError,
)
from clawhive_core.execution.approvals import Approvals
from clawhive_core.execution.outcomes import Invoker, Outcome
from clawhive_core.execution.pending import MAX_INPUT, PendingCall
from clawhive_core.execution.recorded import (
    CALL_KINDS,
    LOST_BODIES,
    RecordedCall,
    embeddings_of,
    resolve_blobs,
    response_of,
)
from clawhive_core.execution.scope import CORE, NESTED, CallScope
from clawhive_core.model.canonical import canonical, canonical_text, digest, preview
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.json_values import json_object
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, message_to_json
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.tools import ToolCall, ToolMeta, ToolResult
from clawhive_core.protocols.context import InvokeContext
from clawhive_core.protocols.ledger import EventsWhere, Ledger, Window

T = TypeVar("T")

CATCH_UP_SECONDS = 1.0
"""Seconds without a recorded call after which a new call of a restarted tool is another way."""
_STEP_SECONDS = 0.005


@dataclass(slots=True)
class NestedCalls:
    """The calls that one attempt of a tool makes, and why it may make no more."""

    made: int = 0
    """The highest number that a call has."""
    stop: ClawHiveError | None = None
    """The error that ends the attempt, raised in the tool's code, whatever that makes of it."""
    earlier: EarlierCalls | None = None
    """The calls of earlier attempts."""
    _running: int = 0
    _catching_up: int = 0
    """Running calls that wait for the tool's other tasks."""
    _idle: anyio.Event | None = None

    @property
    def parked(self) -> NeedHumanApproval | None:
        """The nested call that a person must answer, None where none must be."""
        return self.stop if isinstance(self.stop, NeedHumanApproval) else None

    def replay(self, earlier: EarlierCalls) -> None:
        """Answer from what earlier attempts made."""
        self.earlier, self.made = earlier, earlier.last

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Make one call; what stops the attempt is raised once the other running calls have ended.

        So none of them is broken off because another one must wait.

        Raises:
            NeedHumanApproval: A person must answer this call, or one before it.
            RunError: `not_resumable`: the restarted tool goes another way than the log says.
            ClawHiveError: The log cannot be written, or lost what is needed.
        """
        if self.stop is None:
            self._running += 1
            try:
                return await work()
            except ClawHiveError as error:
                if not _is_final(error):
                    raise
                self.stop = self.stop or error
            finally:
                self._running -= 1
                if self._idle is not None and not self._running:
                    self._idle.set()
        await self.wait_idle()
        raise self.stop

    async def supervise(self, work: Awaitable[T]) -> T:
        """Await a tool's work; what stopped a call of its own is how it ends, whatever it answers.

        Raises:
            ClawHiveError: Why a call of its own was stopped. Else whatever the work raises.
        """
        try:
            result = await work
        except BaseException as error:
            if self.stop is None or _is_cancelled(error):
                raise
        else:
            if self.stop is None:
                return result
        await self.wait_idle()
        raise self.stop

    async def wait_idle(self) -> None:
        """Return when no call is running."""
        if self._running:
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    async def take_call(self, name: str, input: Any) -> tuple[int, RecordedCall | None]:
        """Return the number of a call, and what the log has of it.

        Raises:
            RunError: `not_resumable`: the log has others here.
        """
        found = None if self.earlier is None else self.earlier.call(name, input)
        if found is not None:
            return found.number, found.call
        return await self._new(f"`{name}` {preview(str(input), 160)}"), None

    async def take_answer(self, request: LlmRequest) -> tuple[int, LlmResponse | None]:
        """Return the number of a request to a model, and the recorded answer.

        Raises:
            RunError: `not_resumable`: the log has others here.
            ModelError: It is recorded that the model failed.
        """
        found = None if self.earlier is None else self.earlier.request(request)
        if self.earlier is not None and found is not None:
            return found.number, self.earlier.answer(found)
        return await self._new(f"a request to {request.model}"), None

    async def take_vectors(
        self, texts: Sequence[str], model: str | None
    ) -> tuple[int, Embeddings | None]:
        """Return the number of a request to an embedder, and the recorded answer.

        Raises:
            RunError: `not_resumable`: the log has others here.
            ModelError: It is recorded that the embedder failed.
        """
        found = None if self.earlier is None else self.earlier.texts(texts, model)
        if self.earlier is not None and found is not None:
            return found.number, self.earlier.embeddings(found)
        return await self._new(f"vectors of {len(texts)} texts"), None

    async def _new(self, what: str) -> int:
        """Return the number of a call that the log has not; it comes after those that it has."""
        if self.earlier is not None:
            await self._catch_up(self.earlier, what)
        self.made += 1
        return self.made

    async def _catch_up(self, earlier: EarlierCalls, what: str) -> None:
        """Let the tool's code that runs side by side come again as far as it had come."""
        idle, taken = 0.0, earlier.taken
        while (next_untaken := earlier.next_untaken()) is not None:
            if idle >= CATCH_UP_SECONDS:
                raise _diverged(next_untaken, what)
            self._catching_up += 1
            try:
                await anyio.sleep(_STEP_SECONDS)
            finally:
                self._catching_up -= 1
            if self.stop is not None:
                raise self.stop
            moves = earlier.taken > taken or self._running - 1 > self._catching_up
            idle, taken = 0.0 if moves else idle + _STEP_SECONDS, earlier.taken


def _diverged(expected: EarlierCall, what: str) -> RunError:
    return RunError(
        f"the restarted tool goes another way than the log says: now it asks for {what}, where its "
        f"call {expected.number} was {expected.preview}",
        code="not_resumable",
        fix="start the run again; a tool that is restarted must make the same calls",
    )


def _is_cancelled(error: BaseException) -> bool:
    from asyncio import CancelledError

    return isinstance(error, CancelledError)


def _is_final(error: ClawHiveError) -> bool:
    """Whether an error of a call ends the tool that made it, and not only the call."""
    return (
        isinstance(error, NeedHumanApproval | RunError | StorageError) or error.code in LOST_BODIES
    )


@dataclass(slots=True)
class EarlierCall:
    """One thing that a tool asked for: a call of another tool, an answer of a model, vectors."""

    number: int
    keys: set[str] = field(default_factory=set[str])
    """The forms in which it was asked; a person may have edited a call before it was made."""
    preview: str = ""
    call: RecordedCall | None = None
    answer: StoredEvent | None = None
    is_taken: bool = False

    def take(self, stored: StoredEvent, log: Ledger) -> None:
        """Take the next event that the log has of it."""
        event, body = stored.event, stored.event.body
        if event.kind == "model.start":
            self.keys.add(_recorded_request_key(body, resolve_blobs(log, body["system"])))
            self.preview, self.answer = f"a request to {body['model']}", None
        elif event.kind == "embedding.start":
            self.keys.add(_texts_key(resolve_blobs(log, body["texts"]), body["asked"]))
            self.preview, self.answer = f"vectors of {body['model']}", None
        elif event.kind in {"model.end", "embedding.end"}:
            self.answer = stored
        elif event.kind in CALL_KINDS:
            self.call = self.call or RecordedCall(stored)
            self.call.take(stored)
            asked = body.get("tool_call")
            if asked is not None:
                self.keys.add(_call_key(asked["name"], resolve_blobs(log, asked["input"])))
                self.preview = f"`{asked['name']}` {body['input_preview']}"


class EarlierCalls:
    """The calls of a tool's earlier attempts; each answers one equal call of a later attempt."""

    def __init__(self, log: Ledger, calls: Mapping[int, EarlierCall]) -> None:
        self._log = log
        self._calls = [calls[number] for number in sorted(calls)]
        self._by_key: dict[str, deque[EarlierCall]] = defaultdict(deque)
        for each in self._calls:
            for key in each.keys:
                self._by_key[key].append(each)
        self._reached = 0
        self.taken = 0
        """The number of them that were asked for again."""

    @property
    def last(self) -> int:
        """The highest number of a call."""
        return self._calls[-1].number if self._calls else 0

    def call(self, name: str, input: Any) -> EarlierCall | None:
        """Take the call that is made again, None where there is none."""
        try:
            copy = self._redacted(json_object(input, MAX_INPUT)[0])
        except InvalidInput:
            copy = {}  # as its refusal is recorded
        return self._take(_call_key(name, copy))

    def request(self, request: LlmRequest) -> EarlierCall | None:
        """Take the request that is made again, None where there is none."""
        return self._take(_request_key(request, self._redacted))

    def texts(self, texts: Sequence[str], model: str | None) -> EarlierCall | None:
        """Take the request for vectors that is made again, None where there is none."""
        return self._take(_texts_key(self._redacted(list(texts)), model))

    def next_untaken(self) -> EarlierCall | None:
        """Return the next call that was made after all that are taken, None where none was."""
        if self._reached == self.last:
            return None
        return next(each for each in self._calls if each.number > self._reached)

    def answer(self, found: EarlierCall) -> LlmResponse | None:
        """Return what a model answered, None where the log has no answer.

        Raises:
            ModelError: The model failed.
            ClawHiveError: The log lost what it answered.
        """
        return None if found.answer is None else response_of(self._log, found.answer)

    def embeddings(self, found: EarlierCall) -> Embeddings | None:
        """Return what an embedder answered, None where the log has no answer.

        Raises:
            ModelError: The embedder failed.
            ClawHiveError: The log lost what it answered.
        """
        return None if found.answer is None else embeddings_of(self._log, found.answer)

    def _take(self, key: str) -> EarlierCall | None:
        """Take the first equal call: those that run side by side may come in another order."""
        equal = self._by_key.get(key)
        while equal:
            found = equal.popleft()
            if not found.is_taken:
                found.is_taken = True
                self.taken += 1
                self._reached = max(self._reached, found.number)
                return found
        return None

    def _redacted(self, value: Any) -> Any:
        """Return a value as the log holds it."""
        redactor = self._log.redactor
        return redactor.value(value) if redactor.active else value


def earlier_calls(log: Ledger, scope: CallScope) -> EarlierCalls:
    """Read what the log has of the calls of a step's tool; what is posted must be flushed.

    Raises:
        ClawHiveError: A body that is needed was pruned, or is damaged.
    """
    prefix = f"{scope.step_id}{NESTED}"
    beyond = f"{scope.step_id}{chr(ord(NESTED) + 1)}"
    found: dict[int, EarlierCall] = {}
    below = EventsWhere(run_id=scope.run.run_id, steps_from=prefix, steps_before=beyond)
    for stored in log.find(below, Window(reverse=True)):
        number = str(stored.event.step_id)[len(prefix) :]
        if NESTED not in number:  # else it is a call of a call
            found.setdefault(int(number), EarlierCall(int(number))).take(stored, log)
    return EarlierCalls(log, found)


def _call_key(name: str, input: Any) -> str:
    return canonical_text(["call", name, input])


def _texts_key(texts: Sequence[str], model: str | None) -> str:
    return canonical_text(["embed", model, texts])


def _request_key(request: LlmRequest, redacted: Callable[[Any], Any]) -> str:
    """Return what tells one request from another: what `model.start` holds of it."""
    messages = hashlib.sha256()
    for message in request.messages:
        messages.update(hashlib.sha256(canonical(message_to_json(message))).digest())
    tools = digest([[tool.name, tool.description, tool.parameters] for tool in request.tools])
    facts = [request.model, redacted(request.system), tools, messages.hexdigest()]
    return canonical_text(["request", *facts, request.max_tokens, request.tool_choice])


def _recorded_request_key(body: Mapping[str, Any], system: str | None) -> str:
    facts = [body["model"], system, body["tools"]["digest"], body["history"]["digest"]]
    return canonical_text(["request", *facts, body["max_tokens"], body["tool_choice"]])


REQUIRE = "require"
"""The name of such a call in the log; nobody can call it by that name."""


class _HasGranted(Protocol):
    """The executor's own context, as far as it is needed here."""

    granted: tuple[str, ...]


class _RequireProvider:
    """Answers a right that was decided: there is nothing to do."""

    provider_id = CORE

    async def list_tools(self) -> list[ToolMeta]:
        """Return nothing: it is in no catalog."""
        return []

    async def invoke(
        self, tool_name: str, input: Mapping[str, Any], ctx: InvokeContext
    ) -> ToolResult:
        """Return the capabilities that were decided about."""
        del tool_name, input
        granted = list(cast("_HasGranted", ctx).granted)  # the executor's own
        return ToolResult(ctx.tool_call_id, "allowed", structured={"granted": granted})

    async def close(self) -> None:
        """Nothing is open."""


_REQUIRE_PROVIDER = _RequireProvider()


def required_input(tool: str, capability: str) -> dict[str, str]:
    """Return a capability as the input of a call that asks for it.

    Raises:
        CapabilityError: Its verb is unknown.
    """
    verb, _, resource = capability.partition(":")
    if verb_of(verb) is None:
        parse(f"{verb}:**")
    return {"for": tool, "verb": verb, "resource": resource}


def tool_of(catalog: Catalog, call: ToolCall, scope: CallScope) -> Tool | None:
    """Return the tool of a call: of the catalog, or what stands for a right asked for midway."""
    if scope.midway is None:
        return catalog.find(call.name)
    return _require_tool(str(call.input.get("verb")))


@lru_cache(maxsize=256)
def _require_tool(verb: str) -> Tool:
    known = verb_of(verb)
    meta = ToolMeta(
        REQUIRE,
        "Ask for a right in the middle of a call.",
        {
            "type": "object",
            "required": ["for", "verb", "resource"],
            "properties": {name: {"type": "string"} for name in ("for", "verb", "resource")},
        },
        CORE,
        capability_level="L2" if known is None else known.level,
        risk="safe",
        effects={"resource": verb},
        idempotent=True,
    )
    return Tool(meta, _REQUIRE_PROVIDER)


@dataclass(frozen=True, slots=True)
class Repeater:
    """Brings a recorded call to its end."""

    log: Ledger
    catalog: CatalogStore
    approvals: Approvals | None
    invoker: Invoker

    async def repeat(self, recorded: RecordedCall, call: ToolCall, scope: CallScope) -> Outcome:
        """Return what the call came to, or comes to now.

        A parked one is begun again, and so is one that was broken off if its tool is idempotent; of
        any other that was broken off nobody knows whether it did its work. A right that was asked
        for midway is decided again: what the tool does with it, it does again too.

        Raises:
            NeedHumanApproval: A person must answer it, or a call of its tool.
            ClawHiveError: The log lost what it came to.
        """
        outcome = recorded.outcome(self.log, call.id)
        decided_again = scope.midway is not None and recorded.attempts > 0
        if outcome is not None and not decided_again:
            return outcome
        if not recorded.attempts:
            return await self.invoker.invoke(call, scope)  # it was only asked for
        tool = tool_of(self.catalog.current, call, scope)
        contract = recorded.asked.event.body["contract_hash"]
        same = tool is not None and tool.meta.contract_hash == contract
        harmless = tool is not None and same and tool.meta.idempotent
        if not (recorded.is_parked or harmless):
            last = replace(scope, attempt=recorded.attempts)
            return await self._unknown(PendingCall(call, last, tool))
        if recorded.is_parked and self.approvals is not None and scope.parent_invocation_id is None:
            await self.approvals.settle_nested(scope)
        approved = self._approved(scope) if same else None
        again = replace(scope, attempt=recorded.attempts + 1, approved=approved)
        return await self.invoker.invoke(call, again)

    def _approved(self, scope: CallScope) -> str | None:
        """Return the approval that an earlier attempt of the call used."""
        if self.approvals is None:
            return None
        approval = self.approvals.book.of_step(scope.run.run_id, scope.step_id)
        if approval is None or approval.state != "consumed":
            return None
        return approval.approval_id

    async def _unknown(self, pending: PendingCall) -> Outcome:
        """Record that nobody knows whether a call did its work."""
        refusal = Refusal(
            "unknown_outcome",
            f"`{pending.call.name}` was broken off; whether it did its work is not known, and it "
            "may not be done twice",
            {"action": "ask_user"},
        )
        value = refusal.to_dict()
        result = ToolResult(pending.call.id, canonical_text(value), is_error=True, structured=value)
        error = {"code": refusal.error, "message": refusal.message}
        ended = pending.ended("unknown", result, error)
        await self.log.append(ended, expects=pending.scope.run.owned)
        return result
