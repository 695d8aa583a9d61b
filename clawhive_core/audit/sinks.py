"""Sinks: committed events, handed on to plugins in order, and waited for before an effect."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any

import anyio

from clawhive_core.catalog.bounded import Overdue, run_bounded
from clawhive_core.errors import ClawHiveError, SinkFailed, StorageError
from clawhive_core.events.kinds import SINK_DELIVERED, SINK_FAILED, SINK_RECOVERED
from clawhive_core.model.canonical import preview
from clawhive_core.model.events import Event, StoredEvent
from clawhive_core.model.late import dataclass
from clawhive_core.protocols.ledger import EventsWhere, Ledger
from clawhive_core.protocols.sink import AuditSink

_MAX_WAITING = 100_000
_GRACE_SECONDS = 1.0
_PAGE = 1000
_PAUSE_SECONDS = 2.0
"""The seconds for which a required sink that failed is left alone before it is tried again."""


@dataclass(frozen=True, slots=True)
class SinkFailure:
    """The events that a sink has not taken."""

    sink: str
    required: bool
    from_seq: int
    """The first event that it lacks."""
    message: str


def open_failures(log: Ledger) -> Mapping[str, SinkFailure]:
    """Return by sink what the log says of failures after which it has not caught up.

    Raises:
        StorageError: The log cannot be read, or an event does not say what a sink lacks.
    """
    said = _Said()
    said.read(log)
    return said.first()


@dataclass(slots=True)
class _Said:
    """The log's word on sinks, by all processes over it."""

    failures: dict[tuple[str, int], SinkFailure] = field(
        default_factory=dict[tuple[str, int], SinkFailure]
    )
    """Those after which a sink has not caught up, by its name and the first event it lacks."""
    delivered: dict[str, int] = field(default_factory=dict[str, int])
    """The number up to which each required sink has every event."""
    seq: int = 0

    def read(self, log: Ledger) -> None:
        """Take in what was written since it was read last.

        Raises:
            StorageError: As `open_failures`.
        """
        tip = log.tip()
        for stored in reversed(log.find(EventsWhere(kind="sink", after_seq=self.seq)).items):
            try:
                self._fold(stored.event.kind, stored.event.body)
            except (KeyError, TypeError, ValueError):
                raise StorageError(
                    f"Event #{stored.seq} does not say what its audit sink lacks.",
                    place=f"#{stored.seq}",
                    fix="clawhive audit verify",
                ) from None
        self.seq = 0 if tip is None else tip[0]

    def first(self) -> Mapping[str, SinkFailure]:
        """Return of each sink the failure of the earliest event, a required one before others."""
        ordered = sorted(
            self.failures.values(), key=lambda each: (not each.required, each.from_seq)
        )
        return {each.sink: each for each in reversed(ordered)}

    def _fold(self, kind: str, body: Mapping[str, Any]) -> None:
        """Let one event change what is known.

        Processes fail at different events, so a recovery ends the failures of what it delivered.
        """
        found, name = self.failures, str(body["sink"])
        before = self.delivered.get(name, 0)
        if kind == SINK_RECOVERED:
            first, last = int(body["from_seq"]), int(body["to_seq"])
            over = [key for key in found if key[0] == name and first <= key[1] <= last]
            self.delivered[name] = max(before, last) if first <= before + 1 else before
        elif kind == SINK_DELIVERED:
            over, self.delivered[name] = [], max(before, int(body["to_seq"]))
        elif kind == SINK_FAILED:
            over = [key for key in found if key[0] == name and not found[key].required]
        else:
            return
        for key in over:
            del found[key]
        if kind == SINK_FAILED:
            from_seq = int(body["from_seq"])
            failure = SinkFailure(name, bool(body["required"]), from_seq, str(body["message"]))
            found.setdefault((name, from_seq), failure)


class SinkFanout:
    """Hands every committed event to every sink, each at its own pace.

    An effect waits until each required sink has taken its intent. One that fails stops effects, in
    every process over the log, until it has taken all since then; the log remembers both, and up
    to which event it has all: what a process left that was killed, or that no hive wrote, comes
    first. Another sink is skipped for that batch and counted.

    Args:
        log: Whose events.
        sinks: The sinks.
        required: Names of sinks that are required whatever they say themselves; one that is not
            there stops effects from the beginning.
        required_seconds: How long a required sink may take for a batch.
        write_seconds: How long another may.
        close_seconds: How long one may take to close.
    """

    def __init__(
        self,
        log: Ledger,
        sinks: Sequence[AuditSink],
        required: Sequence[str] = (),
        required_seconds: float = 5.0,
        write_seconds: float = 60.0,
        close_seconds: float = 10.0,
    ) -> None:
        self._log = log
        self._close_seconds = close_seconds
        needed = {*required, *(sink.name for sink in sinks if sink.required)}
        self._deliveries = [
            Delivery(log, sink, required_seconds, required=True)
            if sink.name in needed
            else Delivery(log, sink, write_seconds, required=False)
            for sink in sinks
        ]
        self._needed = [each for each in self._deliveries if each.required]
        self._missing = sorted(needed - {sink.name for sink in sinks})
        self._said = _Said()
        self._unlisten = log.listen(self._take) if sinks else _nothing

    @property
    def acknowledge(self) -> Callable[[int], Awaitable[None]] | None:
        """Wait until every required sink has taken the events up to a number; None without any.

        Raises:
            SinkFailed: One failed, or has not taken what it lacks since it failed.
        """
        return self._acknowledge if self._needed or self._missing else None

    @property
    def failures(self) -> Mapping[str, int]:
        """The number of failures of each sink here, by its name."""
        return {each.name: each.failures for each in self._deliveries if each.failures}

    def pumping(self) -> Coroutine[Any, Any, None] | None:
        """Return `pump` where there is any sink to deliver events to."""
        if self._needed:
            self._said.read(self._log)
            for each in self._needed:
                each.begin(self._said.delivered.get(each.name, 0))
        return self.pump() if self._deliveries else None

    async def pump(self) -> None:
        """Deliver events until cancelled."""
        async with anyio.create_task_group() as group:
            for each in self._deliveries:
                group.start_soon(each.pump)

    async def drain(self) -> None:
        """Deliver what is waiting."""
        for each in self._deliveries:
            await each.deliver()

    async def close(self) -> list[str]:
        """Deliver what is left, close the sinks, and return what they have not taken, in words."""
        with suppress(ClawHiveError):  # a log that refuses has told its listeners what it has
            await self._log.flush()
        self._unlisten()
        for each in self._deliveries:
            with suppress(ClawHiveError):  # its events can no longer be read
                await each.deliver(at_once=True)
                await each.settle()
            await each.close(self._close_seconds)
        with suppress(ClawHiveError):  # it refuses all else, too
            await self._remember_losses()
        return [said for each in self._deliveries if (said := each.loss()) is not None]

    async def _acknowledge(self, seq: int) -> None:
        if self._missing:
            raise SinkFailed(
                f"the required audit sink {_listed(self._missing)} is not there",
                fix="install or mend its plugin (`clawhive plugins`), or take it from"
                " `audit.required_sinks`",
            )
        try:
            self._said.read(self._log)
        except StorageError as error:
            raise SinkFailed(error.message, place=error.place, fix=error.fix) from error
        failures = self._said.first()
        for each in self._needed:
            await each.acknowledge(seq, failures.get(each.name))

    async def _remember_losses(self) -> None:
        """Have the log say what a required sink lacks, also where another process recovered."""
        await self._log.flush()
        self._said.read(self._log)
        failures = self._said.first()
        for each in self._needed:
            if each.name not in failures:
                each.report()

    def _take(self, events: Sequence[StoredEvent]) -> None:
        for each in self._deliveries:
            each.take(events)


class Delivery:
    """Hands events to one sink, in order.

    A required sink that failed is given, once it is tried again, all events of the log since what
    it lacks: those of other processes, and some twice. So is one of which the log does not say that
    it has what is there already.
    """

    def __init__(self, log: Ledger, sink: AuditSink, seconds: float, *, required: bool) -> None:
        self.name = sink.name
        self.required = required
        self.failures = 0
        self._log = log
        self._sink = sink
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: deque[StoredEvent] = deque()
        self._taken = 0
        self._settled = 0
        """The number up to which it has every event, of other processes too."""
        self._beyond = set[int]()
        """What it has after that."""
        self._failure: SinkFailure | None = None
        self._is_reported = False
        self._rests_until = 0.0
        self._overflowed = False
        """Whether events were committed that do not wait here, since the log has them."""
        self._wake: Callable[[], None] = _nothing
        self._delivered: anyio.Event | None = None

    def begin(self, settled: int) -> None:
        """Begin with what lies in the log and that nobody says the sink has.

        Args:
            settled: The number up to which it has every event.
        """
        self._settled = settled
        if any(each.event.kind != SINK_DELIVERED for each in self._log.events(since=settled)):
            why = "they were there before this process, and nobody said that it has them"
            self._failure = SinkFailure(self.name, self.required, settled + 1, why)

    async def settle(self) -> None:
        """Have the log say that the sink has every event, giving it those of other processes."""
        if not self.required or self._failure is not None:
            return
        last, is_news, events = 0, False, self._log.events(since=self._settled)
        while page := list(islice(events, _PAGE)):
            is_news = is_news or any(each.event.kind != SINK_DELIVERED for each in page)
            missing = [each for each in page if each.seq not in self._beyond]
            if is_news and missing and not await self._write(missing):
                return
            last = page[-1].seq
        if is_news:
            self._settle(last)
            self._log.post(Event(SINK_DELIVERED, {"sink": self.name, "to_seq": last}))

    def _settle(self, seq: int) -> None:
        self._settled = seq
        self._beyond = {each for each in self._beyond if each > seq}

    def take(self, events: Sequence[StoredEvent]) -> None:
        """Queue committed events; called from the log's thread."""
        with self._lock:
            self._waiting.extend(events)
            first, behind = self._waiting[0].seq, len(self._waiting) > _MAX_WAITING
            if behind:
                self._overflowed = True
                self._waiting.clear()
        if behind:
            self._fail(first, RuntimeError("it is too far behind"))
        self._wake()

    async def pump(self) -> None:
        """Deliver events until cancelled."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        while True:
            ready = anyio.Event()
            self._wake = partial(_set_from_any_thread, loop, ready)
            # A batch that is being written is written to its end.
            with anyio.CancelScope(shield=True):
                await self.deliver()
            await ready.wait()

    async def deliver(self, *, at_once: bool = False) -> None:
        """Deliver what waits; a required sink that failed is tried again after a pause.

        Args:
            at_once: Try it again without the pause.
        """
        if self._failure is not None and self.required:
            if not at_once and time.monotonic() < self._rests_until:
                return
            try:
                await self._catch_up(self._failure)
            except StorageError as error:  # the log cannot be read for now
                self._fail(self._failure.from_seq, error)
        # What waits behind a failure of a required sink comes with what it lacks, not before it.
        while not (self.required and self._failure) and (batch := self._cleared()):
            await self._write(batch)
        if len(self._beyond) >= _PAGE:
            with suppress(StorageError):  # the log cannot be read for now
                await self.settle()
        self._tell()

    async def acknowledge(self, seq: int, failure: SinkFailure | None) -> None:
        """Return once the sink has taken the events up to a number.

        Args:
            seq: The number.
            failure: What the log says it lacks.

        Raises:
            SinkFailed: It has not.
        """
        with self._lock:
            if failure is not None:
                if self._failure is None:
                    self._failure, self._rests_until = failure, 0.0
                elif failure.from_seq < self._failure.from_seq:
                    self._failure = failure
        if self._failure is not None:
            self._wake()
        before = self.failures
        with anyio.move_on_after(2 * self._seconds):
            while not self._is_settled(seq, before):
                if self._delivered is None:
                    self._delivered = anyio.Event()
                await self._delivered.wait()
        if self._failure is not None or self._taken < seq:
            raise self._refusal()

    def _is_settled(self, seq: int, failures: int) -> bool:
        """Whether nothing is to be waited for: it has the event, failed since, or is left alone."""
        if self._failure is None:
            return self._taken >= seq
        return self.failures > failures or time.monotonic() < self._rests_until

    async def close(self, seconds: float) -> None:
        """Close the sink."""
        try:
            await run_bounded(self._sink.close(), seconds, _GRACE_SECONDS)
        except Overdue:
            self.failures += 1
        except Exception:  # noqa: BLE001 - a sink is a plugin: its bugs stay its own
            self.failures += 1

    def loss(self) -> str | None:
        """Return what the sink has not taken, in words; None where that is nothing."""
        if self._failure is None:
            return None
        seq, message = self._failure.from_seq, self._failure.message
        if self.required:
            name = f"the required audit sink `{self.name}`"
            return f"{name} has not taken the events since #{seq}: {message}"
        times = "once" if self.failures == 1 else f"{self.failures} times"
        return f"the audit sink `{self.name}` failed {times}, first at event #{seq}: {message}"

    async def _catch_up(self, failure: SinkFailure) -> None:
        """Give a required sink all since what it lacks."""
        last = failure.from_seq - 1
        while self._failure is not None:
            with self._lock:
                self._overflowed = False
            events = self._log.events(since=last)
            while page := list(islice(events, _PAGE)):
                if not await self._write(page):
                    return
                last = page[-1].seq
            with self._lock:
                self._failure = self._failure if self._overflowed else None
        self._is_reported = False
        if failure.from_seq <= self._settled + 1:
            self._settle(last)
        facts = {"sink": self.name, "from_seq": failure.from_seq, "to_seq": last}
        self._log.post(Event(SINK_RECOVERED, facts))

    async def _write(self, batch: Sequence[StoredEvent]) -> bool:
        """Give a batch to the sink; return whether it took it."""
        try:
            await run_bounded(self._sink.write(batch), self._seconds, _GRACE_SECONDS)
        except Overdue:
            self._fail(batch[0].seq, TimeoutError(f"it took longer than {self._seconds:g} s"))
            return False
        except Exception as error:  # noqa: BLE001 - a sink is a plugin: its bugs stay its own
            self._fail(batch[0].seq, error)
            return False
        self._taken = max(self._taken, batch[-1].seq)
        if self.required:
            self._beyond.update([each.seq for each in batch])
        return True

    def _fail(self, seq: int, error: Exception) -> None:
        """Note a failure; the log is told of the first."""
        self.failures += 1
        message = preview(f"{type(error).__name__}: {error}")
        with self._lock:
            from_seq = seq if self._failure is None else min(seq, self._failure.from_seq)
            self._failure = SinkFailure(self.name, self.required, from_seq, message)
            self._rests_until = time.monotonic() + _PAUSE_SECONDS
        if not self._is_reported:
            self.report()

    def report(self) -> None:
        """Tell the log what the sink lacks, if anything."""
        if (failure := self._failure) is None:
            return
        self._is_reported = True
        facts = {"sink": self.name, "required": self.required}
        facts |= {"from_seq": failure.from_seq, "message": failure.message}
        with suppress(ClawHiveError):  # a log that refuses lets nothing happen either
            self._log.post(Event(SINK_FAILED, facts))

    def _cleared(self) -> tuple[StoredEvent, ...]:
        with self._lock:
            batch = tuple(self._waiting)
            self._waiting.clear()
        return tuple(each for each in batch if each.seq > self._taken)

    def _tell(self) -> None:
        """Let those look again who wait for this sink."""
        if self._delivered is not None:
            self._delivered.set()
            self._delivered = None

    def _refusal(self) -> SinkFailed:
        why = self.loss() or f"the required audit sink `{self.name}` has not answered in time"
        return SinkFailed(why, fix="mend it, or what it writes to; the next call tries it again")


def _set_from_any_thread(loop: Any, event: anyio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _nothing() -> None:
    """Stand in where there is nothing to do."""
