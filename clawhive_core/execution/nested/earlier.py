"""The calls that earlier attempts of a tool made, as the log has them."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from clawhive_core.errors import InvalidInput
from clawhive_core.execution.inputs import MAX_INPUT
from clawhive_core.execution.nested.recorded import (
    CALL_KINDS,
    RecordedCall,
    answer_of,
    embeddings_of,
    full,
)
from clawhive_core.execution.scope import NESTED, CallScope
from clawhive_core.model.canonical import canonical, canonical_text, digest
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.events import StoredEvent
from clawhive_core.model.json_values import json_object
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse, message_to_json
from clawhive_core.protocols.ledger import EventsWhere, Ledger, Window


@dataclass(slots=True)
class EarlierCall:
    """One thing that a tool asked for: a call of another tool, an answer of a model, vectors."""

    number: int
    keys: set[str] = field(default_factory=set[str])
    """What it was asked as; a person may have edited a call before it was made."""
    preview: str = ""
    call: RecordedCall | None = None
    answer: StoredEvent | None = None
    is_taken: bool = False

    def take(self, stored: StoredEvent, log: Ledger) -> None:
        """Take the next event that the log has of it."""
        event, body = stored.event, stored.event.body
        if event.kind == "model.start":
            self.keys.add(_key_of_row(body, full(log, body["system"])))
            self.preview, self.answer = f"a request to {body['model']}", None
        elif event.kind == "embedding.start":
            self.keys.add(_key_of_texts(full(log, body["texts"]), body["asked"]))
            self.preview, self.answer = f"vectors of {body['model']}", None
        elif event.kind in {"model.end", "embedding.end"}:
            self.answer = stored
        elif event.kind in CALL_KINDS:
            self.call = self.call or RecordedCall(stored)
            self.call.take(stored)
            asked = body.get("tool_call")
            if asked is not None:
                self.keys.add(_call_key(asked["name"], full(log, asked["input"])))
                self.preview = f"`{asked['name']}` {body['input_preview']}"


class Earlier:
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
        """How many of them were asked for again."""

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
        return self._take(_key_of_request(request, self._redacted))

    def texts(self, texts: Sequence[str], model: str | None) -> EarlierCall | None:
        """Take the request for vectors that is made again, None where there is none."""
        return self._take(_key_of_texts(self._redacted(list(texts)), model))

    def ahead(self) -> EarlierCall | None:
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
        return None if found.answer is None else answer_of(self._log, found.answer)

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


def earlier_calls(log: Ledger, scope: CallScope) -> Earlier:
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
    return Earlier(log, found)


def _call_key(name: str, input: Any) -> str:
    return canonical_text(["call", name, input])


def _key_of_texts(texts: Sequence[str], model: str | None) -> str:
    return canonical_text(["embed", model, texts])


def _key_of_request(request: LlmRequest, redacted: Callable[[Any], Any]) -> str:
    """Return what tells one request from another: what `model.start` holds of it."""
    messages = hashlib.sha256()
    for message in request.messages:
        messages.update(hashlib.sha256(canonical(message_to_json(message))).digest())
    tools = digest([[tool.name, tool.description, tool.parameters] for tool in request.tools])
    facts = [request.model, redacted(request.system), tools, messages.hexdigest()]
    return canonical_text(["request", *facts, request.max_tokens, request.tool_choice])


def _key_of_row(body: Mapping[str, Any], system: str | None) -> str:
    facts = [body["model"], system, body["tools"]["digest"], body["history"]["digest"]]
    return canonical_text(["request", *facts, body["max_tokens"], body["tool_choice"]])
