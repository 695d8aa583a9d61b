"""A tool's own calls: numbered in call order, ended together, answered from the log once made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio

from clawhive_core.errors import ClawHiveError, NeedHumanApproval, RunError, StorageError
from clawhive_core.execution.nested.earlier import Earlier, EarlierCall
from clawhive_core.execution.nested.recorded import LOST, RecordedCall
from clawhive_core.model.canonical import preview
from clawhive_core.model.embeddings import Embeddings
from clawhive_core.model.late import dataclass
from clawhive_core.model.messages import LlmRequest, LlmResponse

T = TypeVar("T")

CATCH_UP_SECONDS = 1.0
"""How long a restarted tool may make no recorded call before a new one is another way."""
_STEP_SECONDS = 0.005


@dataclass(slots=True)
class NestedCalls:
    """The calls that one attempt of a tool makes, and why it may make no more."""

    made: int = 0
    """The highest number that a call has."""
    stop: ClawHiveError | None = None
    """Why the attempt ends; it is raised in the tool's code, whatever that makes of it."""
    earlier: Earlier | None = None
    """What earlier attempts made."""
    _running: int = 0
    _catching_up: int = 0
    """How many of the running calls wait for the code beside them."""
    _idle: anyio.Event | None = None

    @property
    def parked(self) -> NeedHumanApproval | None:
        """The nested call that a person must answer, None where none must be."""
        return self.stop if isinstance(self.stop, NeedHumanApproval) else None

    def follow(self, earlier: Earlier) -> None:
        """Answer from what earlier attempts made."""
        self.earlier, self.made = earlier, earlier.last

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Make one call; what stops the attempt is raised once the calls beside it have ended.

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
        await self.settled()
        raise self.stop

    async def settled(self) -> None:
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

    async def _catch_up(self, earlier: Earlier, what: str) -> None:
        """Let the tool's code that runs side by side come again as far as it had come."""
        idle, taken = 0.0, earlier.taken
        while (ahead := earlier.ahead()) is not None:
            if idle >= CATCH_UP_SECONDS:
                raise _differs(ahead, what)
            self._catching_up += 1
            try:
                await anyio.sleep(_STEP_SECONDS)
            finally:
                self._catching_up -= 1
            if self.stop is not None:
                raise self.stop
            moves = earlier.taken > taken or self._running - 1 > self._catching_up
            idle, taken = 0.0 if moves else idle + _STEP_SECONDS, earlier.taken


async def led(work: Awaitable[T], calls: NestedCalls) -> T:
    """Await a tool's work; what stopped a call of its own is how it ends, whatever it answers.

    Raises:
        ClawHiveError: Why a call of its own was stopped. Else whatever the work raises.
    """
    try:
        result = await work
    except BaseException as error:
        if calls.stop is None or _is_cancelled(error):
            raise
    else:
        if calls.stop is None:
            return result
    await calls.settled()
    raise calls.stop


def _differs(ahead: EarlierCall, what: str) -> RunError:
    return RunError(
        f"the restarted tool goes another way than the log says: now it asks for {what}, where its "
        f"call {ahead.number} was {ahead.preview}",
        code="not_resumable",
        fix="start the run again; a tool that is restarted must make the same calls",
    )


def _is_cancelled(error: BaseException) -> bool:
    from asyncio import CancelledError

    return isinstance(error, CancelledError)


def _is_final(error: ClawHiveError) -> bool:
    """Whether an error of a call ends the tool that made it, and not only the call."""
    return isinstance(error, NeedHumanApproval | RunError | StorageError) or error.code in LOST
