"""The one way to a model: rights, deadline, record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clawhive_core.capabilities import parse
from clawhive_core.catalog.bounded import Overdue, run_bounded
from clawhive_core.errors import ClawHiveError, ModelError, UnknownModel
from clawhive_core.events.redaction import Redactor
from clawhive_core.execution.scope import CallScope
from clawhive_core.model.canonical import canonical, digest, preview
from clawhive_core.model.events import Blob
from clawhive_core.model.messages import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    Usage,
    block_to_json,
    message_to_json,
)
from clawhive_core.model.tools import ToolDef
from clawhive_core.protocols.adapter import LlmAdapter
from clawhive_core.runs.journal import Journal, run_event

MODEL_SECONDS = 600.0
_GRACE_SECONDS = 2.0


class Models:
    """Answers requests through the adapter that their model names.

    Args:
        adapters: Adapters by name; asked when a model is first needed.
        journal: Where requests and responses are recorded.
        seconds: The deadline of one model call.
    """

    def __init__(
        self,
        adapters: Callable[[], Mapping[str, LlmAdapter]],
        journal: Journal,
        seconds: float = MODEL_SECONDS,
    ) -> None:
        self.adapters = adapters
        self._journal = journal
        self._redactor = journal.redactor
        self._seconds = seconds
        self._histories: dict[tuple[str, str | None], _History] = {}
        self._usage: dict[str, Usage] = {}
        self._tools: dict[int, tuple[tuple[ToolDef, ...], str]] = {}

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
            ModelError: The provider failed; `denied` where policy does not allow the call.
        """
        adapter, name = self.adapter(request.model)
        self._allow(adapter, scope)
        self._start(request, scope)
        try:
            response = await self._answer(adapter, replace(request, model=name), scope)
        except Overdue:
            error = ModelError(
                f"`{request.model}` did not answer within {self._seconds:g} s", code="timeout"
            )
        except ClawHiveError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - an adapter is a plugin: its bugs are its failures
            error = ModelError(f"`{request.model}`: {type(failure).__name__}: {failure}")
        else:
            if isinstance(response, LlmResponse):
                self._end(request, scope, response)
                return response
            kind = type(response).__name__
            error = ModelError(f"the adapter of `{request.model}` answered {kind}, no LlmResponse")
        self._failed(request, scope, error)
        raise error

    def used(self, run_id: str) -> Usage:
        """Return what a run's model calls used, and forget its conversation."""
        for key in [key for key in self._histories if key[0] == run_id]:
            del self._histories[key]
        return self._usage.pop(run_id, Usage())

    async def _answer(
        self, adapter: LlmAdapter, request: LlmRequest, scope: CallScope
    ) -> LlmResponse:
        """Ask the adapter, within the deadline."""
        del scope
        return await run_bounded(adapter.chat(request), self._seconds, _GRACE_SECONDS)

    def _allow(self, adapter: LlmAdapter, scope: CallScope) -> None:
        text = f"model.call:{adapter.name}"
        if adapter.host != adapter.default_host:
            text = f"{text}/{adapter.host}"
        scope.run.refresh()
        authority = scope.run.rules.authority(parse(text))
        if authority.verdict != "allow":
            raise ModelError(
                f"policy does not allow `{text}`",
                code="denied" if authority.verdict == "deny" else "approval_required",
                fix=f"{scope.run.command} --grant {text}",
            )

    def _start(self, request: LlmRequest, scope: CallScope) -> None:
        # A tool that asks a model has a conversation of its own beside the loop's.
        key = (scope.run.run_id, scope.parent_invocation_id)
        history = self._histories.setdefault(key, _History())
        new = history.extend(request.messages, self._redactor)
        body = {
            "model": request.model,
            "system": None if request.system is None else Blob(request.system),
            "tools": {"count": len(request.tools), "digest": self._tools_digest(request.tools)},
            "history": {"count": len(request.messages), "digest": history.digest},
            "new": [Blob(message_to_json(message)) for message in new],
            "max_tokens": request.max_tokens,
            "tool_choice": request.tool_choice,
        }
        self._post(scope, "model.start", body, "running")

    def _end(self, request: LlmRequest, scope: CallScope, response: LlmResponse) -> None:
        body = {
            "model": request.model,
            "response": Blob([block_to_json(block) for block in response.content]),
            "preview": preview(response.text),
            "stop_reason": response.stop_reason,
            "usage": response.usage.to_dict(),
            "error": None,
        }
        self._post(scope, "model.end", body, "succeeded")
        run_id = scope.run.run_id
        self._usage[run_id] = self._usage.get(run_id, Usage()) + response.usage

    def _failed(self, request: LlmRequest, scope: CallScope, error: ClawHiveError) -> None:
        body = {
            "model": request.model,
            "response": None,
            "preview": "",
            "stop_reason": None,
            "usage": None,
            "error": {"code": error.code, "message": error.message},
        }
        self._post(scope, "model.end", body, "failed")

    def _post(self, scope: CallScope, kind: str, body: Mapping[str, Any], status: str) -> None:
        event = run_event(
            scope.run, scope.principal, kind, body, step_id=scope.step_id, status=status
        )
        self._journal.post(event)

    def _tools_digest(self, tools: tuple[ToolDef, ...]) -> str:
        """Return the digest of an offered tool list, computed once for each list."""
        known = self._tools.get(id(tools))
        if known is None or known[0] is not tools:
            rows = [[tool.name, tool.description, tool.parameters] for tool in tools]
            known = self._tools[id(tools)] = (tools, digest(rows))
        return known[1]


def _model_fix(provider: str, name: str, installed: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(provider, installed, n=1)
    if close:
        return f"did you mean `{close[0]}:{name or 'NAME'}`?"
    known = ", ".join(f"{each}:NAME" for each in installed) or "none"
    return f"write PROVIDER:NAME; installed: {known}"


@dataclass(slots=True)
class _History:
    """A conversation's running digest, so that a round costs its new messages only."""

    count: int = 0
    last: LlmMessage | None = None
    _hash: Any = None

    @property
    def digest(self) -> str:
        """The digest over the digests of all messages so far."""
        return self._hash.hexdigest()

    def extend(self, messages: Sequence[LlmMessage], redactor: Redactor) -> Sequence[LlmMessage]:
        """Take the messages of a request; return those that were not in the one before.

        The digest is over what the log holds of them, which is all that a replay has.
        """
        grown = len(messages) >= self.count > 0 and messages[self.count - 1] is self.last
        if not grown:
            self.count, self._hash = 0, hashlib.sha256()
        new = messages[self.count :]
        for message in new:
            self._hash.update(hashlib.sha256(_as_written(message, redactor)).digest())
        self.count = len(messages)
        self.last = messages[-1] if messages else None
        return new


def _as_written(message: LlmMessage, redactor: Redactor) -> bytes:
    value = message_to_json(message)
    data = canonical(value)
    suspect = redactor.active and redactor.may_be_in(data)
    return canonical(redactor.value(value)) if suspect else data
