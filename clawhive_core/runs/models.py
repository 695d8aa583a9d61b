"""The one way to a model, of answers or of embeddings: rights, deadline, record."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from functools import cache, lru_cache, partial
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel

from clawhive_core.capabilities import Capability, parse
from clawhive_core.catalog.bounded import Bounded, Overdue
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.errors import ClawHiveError, ModelError, UnknownModel
from clawhive_core.execution.refusals import with_rights
from clawhive_core.execution.scope import CallScope, Signal
from clawhive_core.model.canonical import canonical, preview
from clawhive_core.model.embeddings import Embeddings, checked_texts, packed, unit_vectors
from clawhive_core.model.events import RESERVED, Blob, Event
from clawhive_core.model.failures import model_failure
from clawhive_core.model.json_values import is_portable
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, Usage
from clawhive_core.model.texts import well_formed
from clawhive_core.model.tools import ToolDef
from clawhive_core.protocols.adapter import MAX_BODY, LlmAdapter, StreamEvent
from clawhive_core.protocols.embedder import Embedder
from clawhive_core.runs.budget import Budget, BudgetLimits, budget_exceeded
from clawhive_core.runs.conversation import History
from clawhive_core.runs.record.journal import Journal
from clawhive_core.runs.responses import (
    LIMITS,
    PartialResponse,
    ResponseLimits,
    countable,
    readable,
)

T = TypeVar("T")

MODEL_SECONDS = 600.0
_GRACE_SECONDS = 2.0
_TURN = 1_000
"""After how many events of a stream everything else has its turn."""
FIRST_SECONDS = 1.0
MOST_SECONDS = 30.0
"""The longest distance, where the provider says nothing."""
MOST_ASKED_SECONDS = 120.0
"""The longest that a provider may ask to wait; beyond it the call fails at once and says so."""
_ENCODED = 64
"""The number of lists of tools that are cached; each run has one."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The time that a provider is waited for."""

    seconds: float = MODEL_SECONDS
    """For one attempt."""
    retries: int = 2
    """The number of times that a call that failed is made again, where that may help."""
    limits: ResponseLimits = field(default_factory=ResponseLimits)
    """The bounds of the answer, and of the time of all attempts."""


@dataclass(frozen=True, slots=True)
class EncodedTools:
    """A list of tools that a model is offered, and what the log says of it."""

    tools: tuple[ToolDef, ...]
    blob: Blob
    digest: str
    """The SHA-256 of the blob, lower-case hexadecimal."""

    @classmethod
    def of(cls, tools: tuple[ToolDef, ...]) -> EncodedTools:
        """Encode a list of tools."""
        rows = [[tool.name, tool.description, tool.parameters] for tool in tools]
        data = canonical(rows)
        return cls(tools, Blob(rows, encoded=data), sha256(data).hexdigest())


class Provider(Protocol):
    """The facts about an adapter or an embedder that rights and deadlines need."""

    @property
    def name(self) -> str:
        """The part of `PROVIDER:NAME` before the colon."""
        ...

    @property
    def host(self) -> str | None:
        """The host it talks to, None where nothing leaves the process."""
        ...

    @property
    def default_host(self) -> str | None:
        """The provider's own host."""
        ...


@dataclass(frozen=True, slots=True)
class Embedders:
    """The embedders of a project, and which one is asked where nobody names one."""

    found: Callable[[], Mapping[str, Embedder]] = dict
    """Embedders by name; asked when one is first needed."""
    default: str | None = None
    """`PROVIDER:NAME` of the configuration."""

    def of(self, model: str | None) -> tuple[Embedder, str]:
        """Return the embedder of `PROVIDER:NAME` or `PROVIDER`, and the whole name.

        Where neither the caller nor the configuration names one, it is the first in this process:
        no text leaves it because a plugin was installed.

        Raises:
            UnknownModel: No embedder serves it, or none may be chosen.
        """
        found, wanted = self.found(), model or self.default
        if wanted is None:
            here = [each for each in found.values() if each.host is None]
            if here:
                return here[0], f"{here[0].name}:{here[0].default_model}"
        provider, _, name = (wanted or "").partition(":")
        if provider not in found:
            raise UnknownModel(
                "no embedding model is chosen" if wanted is None else f"no embedder is `{wanted}`",
                place="model.embedding",
                fix=_embedder_fix(sorted(found)),
            )
        return found[provider], f"{provider}:{name or found[provider].default_model}"


class Models:
    """Answers requests through the adapter that their model names, and embeds texts.

    Args:
        adapters: Adapters by name; asked when a model is first needed.
        journal: Where requests and responses are recorded.
        request_limits: The limits of requests to the provider of a name; asked once for each.
        answers_before: How many answers the conversation of a run had before the run.
        embedders: What makes vectors.
        acknowledge: Returns once every required audit sink has the events up to a number.
    """

    def __init__(
        self,
        adapters: Callable[[], Mapping[str, LlmAdapter]],
        journal: Journal,
        request_limits: Callable[[str], RequestLimits] = lambda _: RequestLimits(),
        answers_before: Callable[[str], int] = lambda _: 0,
        embedders: Embedders | None = None,
        acknowledge: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.adapters = adapters
        self.embedders = embedders or Embedders()
        self.request_limits = cache(request_limits)
        self.answers_before = answers_before
        self.acknowledge = acknowledge
        self._journal = journal
        self._redactor = journal.redactor
        self._histories: dict[tuple[str, str | None], History] = {}
        self._budgets: dict[str, Budget] = {}
        self._encoded: dict[int, EncodedTools] = {}

    def adapter(self, model: str) -> tuple[LlmAdapter, str]:
        """Return the adapter of `PROVIDER:NAME`, and the name.

        Raises:
            UnknownModel: With the providers that are installed.
        """
        provider, colon, name = model.partition(":")
        adapters = self.adapters()
        if not colon or not name or provider not in adapters:
            raise UnknownModel(
                f"no adapter serves the model `{model}`",
                place="--model",
                fix=_model_fix(provider, name, sorted(adapters)),
            )
        return adapters[provider], name

    async def complete(self, request: LlmRequest, scope: CallScope) -> LlmResponse:
        """Answer a request whose model is `PROVIDER:NAME`.

        Raises:
            UnknownModel: No adapter serves it.
            ModelError: The provider failed; `denied` where policy does not allow the call,
                `right_revoked` where it does no longer.
        """
        adapter, name = self.adapter(request.model)
        right = self._authorize(adapter, scope)
        seq = await self._sent(self._started(request, scope), adapter, scope)
        try:
            await self._acknowledged(seq)
            asked = request.to_model(name, self._answers(scope))
            response = await self._answer(adapter, asked, scope, right)
        except ClawHiveError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - an adapter is a plugin: its bugs are its failures
            error = _broken(request.model, failure)
        else:
            if isinstance(response, LlmResponse):
                response = readable(response)
                self._end(request, scope, response)
                return response
            kind = type(response).__name__
            error = ModelError(f"the adapter of `{request.model}` answered {kind}, no LlmResponse")
        self._failed(request, scope, error)
        raise error

    async def embed(self, texts: Sequence[str], model: str | None, scope: CallScope) -> Embeddings:
        """Return one vector of length 1 a text, in order.

        Args:
            texts: The texts; none is empty.
            model: `PROVIDER:NAME` or `PROVIDER`; None for `model.embedding`.
            scope: Whose request it is.

        Raises:
            UnknownModel: No embedder serves it.
            InvalidInput: A text is no text or empty, or there are too many.
            ModelError: The provider failed; `denied` where policy does not allow the call.
        """
        asked = checked_texts(texts)
        embedder, called = self.embedder(model, scope)
        right = self._authorize(embedder, scope)
        seq = await self._sent(_embedding_started(called, model, asked, scope), embedder, scope)
        try:
            await self._acknowledged(seq)
            found = await self._embedded(embedder, asked, called, scope, right)
        except ClawHiveError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - an embedder is a plugin: its bugs are its failures
            error = _broken(called, failure)
        else:
            self._embedding_ended(called, scope, found)
            return found
        self._embedding_failed(called, scope, error)
        raise error

    async def _sent(self, started: Event, provider: Provider, scope: CallScope) -> int:
        """Record a request; return its number where it leaves this process, else 0.

        Before it leaves, it and all that was recorded before is durable.
        """
        if not self._is_remote(provider):
            self._journal.post(started, expects=scope.run.owned)
            return 0
        seqs = await self._journal.append(started, expects=scope.run.owned)
        return seqs[-1] if seqs else 0

    async def _acknowledged(self, seq: int) -> None:
        """Return once every required audit sink has taken a request that leaves this process.

        Raises:
            SinkFailed: One has not.
        """
        if seq and self.acknowledge is not None:
            await self.acknowledge(seq)

    def embedder(self, model: str | None, scope: CallScope) -> tuple[Embedder, str]:
        """Return the embedder of `PROVIDER:NAME` or `PROVIDER`, and the whole name."""
        del scope
        return self.embedders.of(model)

    def open_account(
        self, run_id: str, limits: BudgetLimits, parent_run_id: str | None = None
    ) -> Budget:
        """Open a run's account, below that of the run which started it, where that one is here."""
        above = None if parent_run_id is None else self._budgets.get(parent_run_id)
        budget = Budget(limits) if above is None else above.below(limits)
        self._budgets[run_id] = budget
        return budget

    def continue_from(self, run_id: str, history: History) -> None:
        """Let a run's requests go on from what was said before it, which the log holds."""
        self._histories.setdefault((run_id, None), history)

    def budget(self, run_id: str) -> Budget:
        """Return a run's account; one without bounds where none was opened."""
        if (known := self._budgets.get(run_id)) is None:
            known = self._budgets[run_id] = Budget()
        return known

    def close_account(self, run_id: str) -> Usage:
        """Return what a run's model calls used, close its account and forget its conversation."""
        for key in [key for key in self._histories if key[0] == run_id]:
            del self._histories[key]
        budget = self._budgets.pop(run_id, None)
        return Usage() if budget is None else budget.used

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope, right: str
    ) -> LlmResponse:
        """Ask the adapter; an error holds the text that came before it (`data["partial"]`)."""
        limits, called = self.request_limits(adapter.name).limits, f"{adapter.name}:{request.model}"
        heard: PartialResponse | None = None
        # No closure: while a model is waited for, the garbage collector walks what a run holds.
        ask = partial(_chatted, adapter, request)
        if scope.run.streams and scope.parent_invocation_id is None:
            heard = PartialResponse(limits, called)
            ask = partial(_streamed, adapter, request, scope, heard)
        bound = None if MAX_BODY.get() == limits.size else MAX_BODY.set(limits.size)
        try:
            response = await self._ask_provider(adapter, request.model, scope, right, ask)
            limits.check(response, called)
        except Exception as failure:
            if heard is None or not (text := heard.text):
                raise
            error = failure if isinstance(failure, ClawHiveError) else _broken(called, failure)
            error.data = {**error.data, "partial": text}
            raise error from None
        finally:
            if bound is not None:
                MAX_BODY.reset(bound)
        return response

    async def _embedded(
        self, embedder: Embedder, texts: Sequence[str], called: str, scope: CallScope, right: str
    ) -> Embeddings:
        """Ask the embedder."""
        name = called.partition(":")[2]
        ask = partial(_vectors, embedder, texts, name)
        answer = await self._ask_provider(embedder, name, scope, right, ask)
        self.request_limits(embedder.name).limits.check(answer, called)
        found = unit_vectors(answer, texts, called)
        return replace(found, usage=countable(found.usage))

    async def _ask_provider(
        self,
        provider: Provider,
        model: str,
        scope: CallScope,
        right: str,
        ask: Callable[[float], Awaitable[T]],
    ) -> T:
        """Ask a provider, and again where that may help, within the run's budget and rights."""
        bounds, attempt = self.request_limits(provider.name), 0
        ends = time.monotonic() + bounds.limits.seconds
        while True:
            left, in_all = self.budget(scope.run.run_id).check(), ends - time.monotonic()
            attempt += 1
            most = min(bounds.seconds, in_all)
            seconds = most if left is None else min(most, left)
            try:
                return await _attempt(provider, scope, right, seconds, ask)
            except Overdue:
                name = f"`{provider.name}:{model}`"
                if seconds < most:
                    raise budget_exceeded("seconds", f"{name} had not answered by then") from None
                # Not made again: whoever waited this long should not wait as long once more.
                if in_all < bounds.seconds:
                    what = f"{name} did not answer within {bounds.limits.seconds:g} s in all"
                    raise _timed_out(LIMITS["seconds"], what) from None
                what = f"{name} did not answer within {seconds:g} s"
                raise _timed_out(f"models.{provider.name}.timeout_sec", what) from None
            except ModelError as error:
                import random

                wait = retry_delay(error, attempt, bounds.retries, random.random())  # noqa: S311 - jitter
                if wait is None or (left is not None and wait > left) or wait > in_all:
                    raise
                self._retried(model, scope, error, wait)
            await anyio.sleep(wait)
            right = self._authorize(provider, scope)

    def _retried(self, model: str, scope: CallScope, error: ModelError, wait: float) -> None:
        """Record that an attempt failed, and let listeners forget what they saw of it."""
        body = {
            "model": model,
            "error": {"code": error.code, "message": error.message},
            "wait_seconds": round(wait, 3),
        }
        self._post(scope, "model.retry", body, "failed")
        scope.run.signal(Signal("again", scope.step_id, model, text=error.message))

    def _authorize(self, adapter: Provider, scope: CallScope) -> str:
        """Return the id of the grant that allows to ask an adapter.

        Raises:
            ModelError: None does.
        """
        elsewhere = adapter.host != adapter.default_host
        needed = _call_of(f"{adapter.name}/{adapter.host}" if elsewhere else adapter.name)
        scope.run.refresh()
        authority = scope.run.rules.authority(needed)
        if authority.verdict != "allow":
            raise ModelError(
                f"policy does not allow `{needed}`",
                code="denied" if authority.verdict == "deny" else "approval_required",
                fix="".join(with_rights(scope.run.command, [str(needed)]).values()),
            )
        return authority.rule

    def _is_remote(self, adapter: Provider) -> bool:
        """Whether what an adapter is asked leaves this process."""
        return adapter.host is not None

    def _started(self, request: LlmRequest, scope: CallScope) -> Event:
        """Return what records a request."""
        history = self._history(scope)
        is_new = not (history.count or history.answers)
        if is_new and len(request.messages) > 1 and scope.parent_invocation_id is None:
            history.answers = self.answers_before(scope.run.run_id)
        new = history.extend(request.messages, self._redactor)
        body = {
            "model": request.model,
            "system": None if request.system is None else Blob(request.system),
            "tools": {"count": len(request.tools), "digest": self.encoded(request.tools).digest},
            "history": {"count": len(request.messages), "digest": history.digest},
            "new": new,
            "max_tokens": request.max_tokens,
            "tool_choice": request.tool_choice,
            **_further_facts(request),
        }
        prechecked = _is_portable([request.model, request.max_tokens, request.tool_choice])
        return scope.event("model.start", body, "running", prechecked=prechecked)

    def _answers(self, scope: CallScope) -> int | None:
        """Return how many answers its run's conversation had; a tool's own is not counted."""
        return None if scope.parent_invocation_id is not None else self._history(scope).answers

    def _history(self, scope: CallScope) -> History:
        # A tool that asks a model has a conversation of its own beside the loop's.
        key = (scope.run.run_id, scope.parent_invocation_id)
        if (known := self._histories.get(key)) is None:
            known = self._histories[key] = History()
        return known

    def _end(self, request: LlmRequest, scope: CallScope, response: LlmResponse) -> None:
        body: dict[str, Any] = {
            "model": request.model,
            "preview": preview(response.text),
            "stop_reason": response.stop_reason,
            "error": None,
        }
        known = {
            "answered_by": response.model,
            "response_id": response.response_id,
            "raw_stop_reason": response.raw_stop_reason,
        }
        body.update({key: value for key, value in known.items() if value is not None})
        usage = response.usage.to_dict()
        prechecked = _is_portable(body) and _is_portable(usage)
        body["response"] = self._history(scope).answered(response.content)
        body["usage"] = usage
        self._post(scope, "model.end", body, "succeeded", prechecked=prechecked)
        self.budget(scope.run.run_id).charge(response.usage)

    def _failed(self, request: LlmRequest, scope: CallScope, error: ClawHiveError) -> None:
        facts = dict(error.data)
        partial = facts.pop("partial", "")
        error.data = facts
        body: dict[str, Any] = {
            "model": request.model,
            "response": None,
            "preview": preview(partial),
            "stop_reason": None,
            "usage": None,
            "error": {"code": error.code, "message": error.message, "fix": error.fix},
        }
        if partial:
            body["partial"] = Blob(well_formed(partial))
        self._post(scope, "model.end", body, "failed")

    def _embedding_ended(self, called: str, scope: CallScope, found: Embeddings) -> None:
        body = {
            "model": called,
            "answered_by": found.model,
            "vectors": Blob(packed(found.vectors)),
            "dimension": found.dimension,
            "usage": found.usage.to_dict(),
            "error": None,
        }
        self._post(scope, "embedding.end", body, "succeeded")
        self.budget(scope.run.run_id).charge(found.usage)

    def _embedding_failed(self, called: str, scope: CallScope, error: ClawHiveError) -> None:
        body = {
            "model": called,
            "answered_by": None,
            "vectors": None,
            "dimension": 0,
            "usage": None,
            "error": {"code": error.code, "message": error.message, "fix": error.fix},
        }
        self._post(scope, "embedding.end", body, "failed")

    def _post(
        self,
        scope: CallScope,
        kind: str,
        body: Mapping[str, Any],
        status: str,
        *,
        prechecked: bool = False,
    ) -> None:
        event = scope.event(kind, body, status, prechecked=prechecked)
        self._journal.post(event, expects=scope.run.owned)

    def encoded(self, tools: tuple[ToolDef, ...]) -> EncodedTools:
        """Return an offered tool list as the log holds it, encoded once while it is in use."""
        known = self._encoded.get(id(tools))
        if known is None or known.tools is not tools:
            while len(self._encoded) >= _ENCODED:
                del self._encoded[next(iter(self._encoded))]
            known = self._encoded[id(tools)] = EncodedTools.of(tools)
        return known


_is_portable = partial(is_portable, reserved=RESERVED, levels=2)


@lru_cache(maxsize=64)
def _call_of(provider: str) -> Capability:
    """Return the right to call a provider, or a provider at a host."""
    return parse(f"model.call:{provider}")


def _further_facts(request: LlmRequest) -> dict[str, Any]:
    """Return what else a request asks for; nothing where it is the rule."""
    plain = request.response_schema is None and request.temperature is None
    if plain and request.reasoning is None and not request.options:
        return {}
    further = {
        name: value
        for name in ("response_schema", "temperature", "reasoning", "options")
        if (value := getattr(request, name)) not in (None, {})
    }
    return {"asked": Blob(further)} if further else {}


def _broken(called: str, failure: Exception) -> ModelError:
    """Return the error of an adapter that raised what it should not."""
    return ModelError(f"`{called}`: {type(failure).__name__}: {failure}")


def _embedding_started(
    called: str, asked: str | None, texts: Sequence[str], scope: CallScope
) -> Event:
    body = {"model": called, "asked": asked, "texts": Blob(list(texts)), "count": len(texts)}
    return scope.event("embedding.start", body, "running")


def _embedder_fix(installed: Sequence[str]) -> str:
    if not installed:
        return "install a plugin with an embedder (hook `clawhive_embedders`)"
    known = ", ".join(f"{each}:NAME" for each in installed)
    return f'set model.embedding = "PROVIDER:NAME" in your configuration; installed: {known}'


def _model_fix(provider: str, name: str, installed: Sequence[str]) -> str:
    if (close := nearest(provider, installed)) is not None:
        return f"did you mean `{close}:{name or 'NAME'}`?"
    known = ", ".join(f"{each}:NAME" for each in installed) or "none"
    return f"write PROVIDER:NAME; installed: {known}"


async def _attempt(
    provider: Provider,
    scope: CallScope,
    right: str,
    seconds: float,
    ask: Callable[[float], Awaitable[T]],
) -> T:
    """Ask once, until the time is up or the right to ask is revoked."""
    bounded = Bounded(ask(seconds), _GRACE_SECONDS)
    rules = scope.run.rules
    rules.watch((right,), bounded.cut)
    try:
        return await bounded.wait(seconds)
    except Overdue:
        if not bounded.is_cut:
            raise
        message = f"the right to ask `{provider.name}` was revoked while it answered"
        raise ModelError(message, code="right_revoked") from None
    finally:
        rules.unwatch(bounded.cut)


def _chatted(adapter: LlmAdapter, request: LlmRequest, _seconds: float) -> Awaitable[LlmResponse]:
    return adapter.chat(request)


def _vectors(
    embedder: Embedder, texts: Sequence[str], model: str, _seconds: float
) -> Awaitable[Embeddings]:
    return embedder.embed(texts, model)


async def _streamed(
    adapter: LlmAdapter,
    request: LlmRequest,
    scope: CallScope,
    heard: PartialResponse,
    seconds: float,
) -> LlmResponse:
    """Return a streamed answer; its text reaches listeners as it comes."""
    heard.begin(seconds)
    async with aclosing(_generator(adapter.stream(request))) as events:
        async for event in events:
            heard.take(event)
            if heard.events % _TURN == 0:
                # A stream that never waits would keep everything else from going on.
                await anyio.lowlevel.checkpoint()
            match event.kind:
                case "text" | "thinking" as kind:
                    signal = Signal(kind, scope.step_id, request.model, text=event.text)
                    scope.run.signal(signal)
                case "done" if event.response is not None:
                    return event.response
                case _:
                    pass
    raise model_failure("invalid_response", f"the stream of `{adapter.name}` had no end")


async def _generator(events: AsyncIterator[StreamEvent]) -> AsyncGenerator[StreamEvent]:
    """Make any iterator one that is closed with its reader, whatever the adapter returns."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


def retry_delay(error: ClawHiveError, attempt: int, retries: int, chance: float) -> float | None:
    """Return the seconds until the next attempt, None where there is to be none.

    The provider's word counts first; else the distances are random, as in "Exponential Backoff And
    Jitter" (AWS Architecture Blog, 2015).

    Args:
        error: Why the last attempt failed; `data["retryable"]` and `data["retry_after"]` count.
        attempt: Which attempt that was, from 1.
        retries: How often a call may be made again.
        chance: A random number from 0 to 1.
    """
    if attempt > retries or error.data.get("retryable") is not True:
        return None
    asked = error.data.get("retry_after")
    if asked is not None:
        return None if asked > MOST_ASKED_SECONDS else max(0.0, float(asked))
    return chance * min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** (attempt - 1))


def _timed_out(limit: str, message: str) -> ModelError:
    """Return the error of a provider that was waited for as long as a setting lets it."""
    fix = f"raise `{limit}`, or choose another model"
    return ModelError(message, code="timeout", fix=fix)
