"""The messages of a conversation, as the log knows them: a digest that grows with each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from clawhive_core.model.canonical import canonical
from clawhive_core.model.events import Blob
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import ContentBlock, LlmMessage, block_to_json, message_to_json
from clawhive_core.protocols.ledger import Redaction


@dataclass(slots=True)
class History:
    """A conversation's running digest, so that a round costs its new messages only."""

    count: int = 0
    last: LlmMessage | None = None
    answers: int = 0
    """How many answers came, those included that the conversation does not hold any more."""
    _hash: Any = None
    _said: tuple[Any, list[Any], bytes] | None = None

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
        self._said = (content, value, data)
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
        if self._said is not None and message.role == "assistant":
            content, value, data = self._said
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
