"""Conversations: what was said before, from the log, and the digest that grows with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from clawhive_core.execution.recorded import resolve_blobs, response_of
from clawhive_core.execution.scope import is_nested
from clawhive_core.model.canonical import canonical, canonical_text
from clawhive_core.model.events import Blob
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import (
    ContentBlock,
    LlmMessage,
    block_from_json,
    block_to_json,
    message_to_json,
)
from clawhive_core.model.patterns import pattern
from clawhive_core.protocols.ledger import Ledger, Redaction, RunsWhere, Window
from clawhive_core.runs.record.lineage import start_of

_TURN = pattern(r"[^/]*/r[0-9]+")
"""The step of a turn of the loop; planners and compactions ask models in steps of other names."""


_KINDS = ("run.start", "model.start", "model.end", "plan.made", "run.end")
_NEWEST = Window(limit=2)
_PAGE = 100
_KNOWN = 128
"""The number of conversations that a process caches."""

_FURTHEST = 100
"""After so many runs one records the whole conversation again: reading it goes no further back."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The messages of a conversation up to the end of a run."""

    run_id: str | None = None
    messages: tuple[LlmMessage, ...] = ()
    answers: int = 0
    """The number of answers that models gave, those of no use included."""
    depth: int = 0
    """The number of runs back to the one that recorded all that was said until then."""
    digest: Any = None
    """The running digest of the messages, as `History` keeps it."""

    def history(self) -> History | None:
        """Return what the next run's requests go on from; None where nothing was said."""
        if self.run_id is None or not self.messages:
            return None
        if self.depth >= _FURTHEST:
            return History(answers=self.answers)
        found = History(len(self.messages), self.messages[-1], self.answers)
        found.go_on_from(self.digest)
        return found


class Conversations:
    """The messages of a project's conversations; of one that goes on only the last run is read.

    Args:
        log: The project's log.
    """

    def __init__(self, log: Ledger) -> None:
        self._log = log
        self._known: dict[str, Transcript] = {}

    def before(self, conversation_id: str | None) -> Transcript:
        """Return what was said up to the last run of a prompt that came to an answer.

        Raises:
            ClawHiveError: Bodies of the run were pruned.
        """
        if conversation_id is None:
            return Transcript()
        known = self._known.pop(conversation_id, Transcript())
        for run_id in _turns(self._log, conversation_id):
            found = known if known.run_id == run_id else transcript_until(self._log, run_id, known)
            if found.messages:
                self._known[conversation_id] = found
                while len(self._known) > _KNOWN:
                    del self._known[next(iter(self._known))]
                return found
        return Transcript()


def last_turn(log: Ledger, conversation_id: str) -> str | None:
    """Return the run of a conversation that was answered last, None where none was."""
    return next(_turns(log, conversation_id), None)


def _turns(log: Ledger, conversation_id: str) -> Iterator[str]:
    """Yield the runs of a conversation that were answered, the last one first."""
    query = RunsWhere(conversation_id=conversation_id, turns=True)
    page = log.find(query, _NEWEST)
    yield from (turn.run_id for turn in page)
    while page.next is not None:
        page = log.find(query, Window(after=page.next, limit=_PAGE))
        yield from (turn.run_id for turn in page)


def messages_of(log: Ledger, run_id: str | None) -> tuple[LlmMessage, ...]:
    """Return what a run's loop and its model said, the model's last answer included.

    What a planner, a compaction or a tool asked a model is no part of it. A run that came to its
    output without a turn said its prompt and that output.

    Raises:
        ClawHiveError: Bodies of the run were pruned.
    """
    return () if run_id is None else transcript_until(log, run_id).messages


def transcript_until(log: Ledger, run_id: str, known: Transcript | None = None) -> Transcript:
    """Return what was said up to the end of a run; what is known is not read again.

    Raises:
        ClawHiveError: Bodies of the run were pruned; `foreign_database`: somebody else wrote it.
    """
    runs: list[_Run] = []
    base, following = known or Transcript(), run_id
    while following is not None and following != base.run_id:
        log.require_own(following)
        runs.append(_Run.read(log, following))
        following = None if runs[-1].is_whole else runs[-1].continues
    if following is None:
        base = Transcript(answers=answers_before(log, runs[-1].run_id))
    for each in reversed(runs):
        base = each.after(base)
    return base


def answers_before(log: Ledger, run_id: str) -> int:
    """Return how many answers models gave in the runs that a run continues.

    Plans and answers that were of no use count too, unlike in `messages_of`.
    """
    start = start_of(log, run_id)
    if "answers" in start:
        return start["answers"]
    count, run = 0, start.get("continues")
    while run is not None:
        ends = [stored.event for stored in log.events(run_id=run, kinds=("model.end",))]
        given = [event for event in ends if event.status == "succeeded"]
        count += sum(not is_nested(event.step_id) for event in given)
        run = start_of(log, run).get("continues")
    return count


def is_turn(step_id: str | None) -> bool:
    """Whether a step is a turn of a run's loop."""
    return step_id is not None and _TURN.fullmatch(step_id) is not None


@dataclass(slots=True)
class _Run:
    """The part of a conversation that one run recorded."""

    run_id: str
    continues: str | None = None
    is_whole: bool = False
    """Whether it holds all that was said before it too."""
    asked: list[tuple[int, bool, list[LlmMessage]]] = field(
        default_factory=list["tuple[int, bool, list[LlmMessage]]"]
    )
    """Each request: how many messages it had, whether it was a turn, and which were new."""
    answer: LlmMessage | None = None
    answers: int = 0
    plans: int = 0
    without: tuple[LlmMessage, ...] = ()
    """The prompt and the output, where no turn answered."""

    @classmethod
    def read(cls, log: Ledger, run_id: str) -> _Run:
        """Read a run from the log."""
        found, prompt, output, last = cls(run_id), "", None, None
        for stored in log.events(run_id=run_id, kinds=_KINDS):
            event = stored.event
            if event.kind == "run.start":
                found.continues, prompt = event.body.get("continues"), event.body["task"]["prompt"]
            elif event.kind == "run.end":
                output = resolve_blobs(log, event.body["output"])
            elif event.kind == "plan.made":
                found.plans += 0 if is_nested(event.step_id) else 1
            elif not is_nested(event.step_id) and event.kind == "model.start":
                # All of them: each records what is new since the one before, whoever made that.
                new = [message_from_json(each) for each in resolve_blobs(log, event.body["new"])]
                count = event.body["history"]["count"]
                found.asked.append((count, is_turn(event.step_id), new))
            elif not is_nested(event.step_id) and event.status == "succeeded":
                found.answers += 1
                last = stored if is_turn(event.step_id) else last
        if last is not None:
            found.answer = LlmMessage("assistant", response_of(log, last).content)
            found.is_whole = found.asked[0][0] == len(found.asked[0][2])
        elif output is not None:
            text = output if isinstance(output, str) else canonical_text(output)
            asked = LlmMessage.text("user", prompt or "")
            found.without = (asked, LlmMessage.text("assistant", text))
        return found

    def after(self, base: Transcript) -> Transcript:
        """Return what was said up to its end, after what was said before it."""
        answers = base.answers + self.answers
        if self.answer is None:
            messages = (*base.messages, *self.without)
        else:
            said = self._last_request([] if self.is_whole else list(base.messages))
            said = _without_plans(said, self.plans) if self.plans else said
            messages = (*said, self.answer)
        depth = 0 if self.is_whole else base.depth + 1
        return Transcript(self.run_id, messages, answers, depth, extended_digest(base, messages))

    def _last_request(self, sent: list[LlmMessage]) -> list[LlmMessage]:
        """Return the messages of the last turn's request."""
        said = sent
        for count, is_a_turn, new in self.asked:
            if not is_a_turn and said is sent:
                said = list(sent)
            del sent[count - len(new) :]
            sent.extend(new)
            said = sent if is_a_turn else said
        return said


def extended_digest(base: Transcript, messages: Sequence[LlmMessage]) -> Any:
    """Return the running digest of messages, from that of what came before where they go on."""
    count = len(base.messages)
    if count and len(messages) >= count and messages[count - 1] is base.messages[-1]:
        return running_digest(messages[count:], base.digest)
    return running_digest(messages)


def _without_plans(said: Sequence[LlmMessage], plans: int) -> list[LlmMessage]:
    """Return the prompt and the report of the steps as what the user said, after the rest.

    Between them stand the plans, and before each but the first that the one before it failed.
    """
    first = len(said) - 1 - 2 * plans
    return [*said[:first], LlmMessage("user", (*said[first].content, *said[-1].content))]


def message_from_json(value: Mapping[str, Any]) -> LlmMessage:
    """Return the message that `message_to_json` wrote."""
    return LlmMessage(value["role"], tuple(block_from_json(each) for each in value["content"]))


@dataclass(slots=True)
class History:
    """A conversation's running digest, so that a round costs its new messages only."""

    count: int = 0
    last: LlmMessage | None = None
    answers: int = 0
    """The number of answers that came, also of those that the conversation holds no more."""
    _hash: Any = None
    _last_answer: tuple[Any, list[Any], bytes] | None = None

    @property
    def digest(self) -> str:
        """The digest over the digests of all messages so far."""
        return self._hash.hexdigest()

    def go_on_from(self, digest: Any) -> None:
        """Begin after messages that the log holds, from their running digest."""
        self._hash = digest.copy()

    def answered(self, content: Sequence[ContentBlock]) -> Blob:
        """Return the blocks of an answer as the log holds them.

        They are kept: where they are a message of the next request, they are not encoded again.
        """
        value = [block_to_json(block) for block in content]
        data = canonical(value)
        self.answers += 1
        self._last_answer = (content, value, data)
        return Blob(value, encoded=data)

    def extend(self, messages: Sequence[LlmMessage], redactor: Redaction) -> list[Blob]:
        """Take the messages of a request; return, for the log, those not in the one before.

        The digest is over what the log holds of them, which is all that a replay has.
        """
        grown = len(messages) >= self.count > 0 and messages[self.count - 1] is self.last
        if not grown:
            self.count, self._hash = 0, hashlib.sha256()
        encoded = [self._encoded(message) for message in messages[self.count :]]
        # One look at all of them; where it sees something, one at each.
        suspect = redactor.active and redactor.may_be_in(b"\n".join([data for _, data in encoded]))
        new: list[Blob] = []
        for value, data in encoded:
            written = canonical(redactor.value(value)) if suspect else data
            self._hash.update(hashlib.sha256(written).digest())
            new.append(Blob(value, "", data))
        self.count = len(messages)
        self.last = messages[-1] if messages else None
        return new

    def _encoded(self, message: LlmMessage) -> tuple[Any, bytes]:
        """Return a message as JSON, and its canonical encoding."""
        if self._last_answer is not None and message.role == "assistant":
            content, value, data = self._last_answer
            if message.content is content:
                encoded = b'{"content":%b,"role":"assistant"}' % data
                return {"role": "assistant", "content": value}, encoded
        value = message_to_json(message)
        return value, canonical(value)


def running_digest(messages: Sequence[LlmMessage], before: Any = None) -> Any:
    """Return the running digest of messages that the log holds, after those of `before`."""
    found = hashlib.sha256() if before is None else before.copy()
    for message in messages:
        found.update(hashlib.sha256(canonical(message_to_json(message))).digest())
    return found
