"""A thread that notices when an event loop stands still, and says whose code holds it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from clawhive_core.model.late import dataclass

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from clawhive_core.protocols.ledger import Ledger

STALL_SECONDS = 20.0
"""The seconds that a loop may stand still untold, where no configuration is read yet."""
_HURRY_SECONDS = 2.0
"""The seconds for which it may where the user wants to end the process."""
_LOOK_SECONDS = 0.25
_EVERY_SECONDS = 1.0
_REPORT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Stall:
    """The code in which an event loop stands still."""

    seconds: float
    owner: str
    """The plugin, or the module; empty where only ClawHive's own code is at work."""
    place: str
    """The file and line."""
    stack: str

    @property
    def message(self) -> str:
        """The report, as a sentence."""
        who = self.owner or "ClawHive itself"
        return f"{who} has held up everything else for {self.seconds:.0f} s, in {self.place}"


@dataclass(slots=True)
class Watched:
    """A project that is open on a watched loop."""

    log: Ledger
    seconds: float
    packages: Callable[[], dict[str, str]]
    """Plugins' ids by the names of their packages."""


class Watchdog:
    """Watches the loop of the thread that makes it.

    Args:
        loop: The loop.
        tell: Called from another thread where the loop stands still for too long, once each time.
        end: Called when it still does after as long again, in somebody else's code; the runs of
            this process are recorded as interrupted by then. None only tells.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        tell: Callable[[Stall], None],
        end: Callable[[Stall], None] | None = None,
    ) -> None:
        self._loop, self._tell, self._end = loop, tell, end
        self._thread_id = threading.get_ident()
        self._closing = threading.Event()
        self.projects: list[Watched] = []
        self.hurries = False
        """Whether the user wants the process to end."""
        threading.Thread(target=self._watch, name="clawhive-watchdog", daemon=True).start()

    @property
    def ends(self) -> bool:
        """Whether it ends the process."""
        return self._end is not None

    def close(self) -> None:
        """Watch no more."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            beat = threading.Event()
            try:
                self._loop.call_soon_threadsafe(beat.set)
            except RuntimeError:  # it is closed
                return
            began = time.monotonic()
            if not self._stands(beat):
                continue
            _in_thread(partial(self._tell, self._stall(began)))
            while self._stands(beat):
                stall = self._stall(began)
                if self._end is not None and stall.owner:
                    self._interrupt(stall)
                    self._end(stall)

    def _stands(self, beat: threading.Event) -> bool:
        """Wait for a beat; whether it did not come in time."""
        stood = 0.0
        while not self._closing.is_set():
            began = time.monotonic()
            # A program may run its loop now and then only.
            if beat.wait(_LOOK_SECONDS) or not self._loop.is_running():
                return False
            # While the machine or this process stood still, the loop was not to blame.
            stood += min(time.monotonic() - began, 2 * _LOOK_SECONDS)
            allowed = min((each.seconds for each in self.projects), default=STALL_SECONDS)
            if self.hurries:
                allowed = min(allowed, _HURRY_SECONDS)
            if stood >= allowed:
                return True
        return False

    def _stall(self, began: float) -> Stall:
        import traceback

        frames = list(_frames(_stacks().get(self._thread_id)))
        packages: dict[str, str] = {}
        for each in self.projects:
            packages |= each.packages()
        owner, at = "", frames[0] if frames else None
        # In a debugger it stands still because somebody wants it to.
        if not any(frame.f_globals.get("__name__") == "bdb" for frame in frames):
            for frame in frames:
                if name := _owner(frame, packages):
                    owner, at = name, frame
                    break
        lines = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames[::-1])
        place = "" if at is None else f"{at.f_code.co_filename}:{at.f_lineno}"
        return Stall(time.monotonic() - began, owner, place, "".join(lines.format()))

    def _interrupt(self, stall: Stall) -> None:
        """Record the runs of this process as interrupted, if the logs take it."""
        from clawhive_core.errors import ClawHiveError
        from clawhive_core.runs.record.ownership import interrupt_own

        def record() -> None:
            for each in list(self.projects):
                try:
                    interrupt_own(each.log, stall.message)
                except ClawHiveError:  # the next process does it
                    continue

        _in_thread(record)


_DOGS: dict[AbstractEventLoop, Watchdog] = {}
"""The watchdogs of this process, by their loops."""


@contextmanager
def guarded(watchdog: Watchdog, loop: AbstractEventLoop) -> Generator[None]:
    """Have the projects that are opened on a loop watched by a watchdog."""
    _DOGS[loop] = watchdog
    try:
        yield
    finally:
        del _DOGS[loop]
        watchdog.close()


@contextmanager
def watched(project: Watched) -> Generator[None]:
    """Watch this thread's loop while a project is open; where nobody else does, only to tell."""
    import asyncio

    loop = asyncio.get_running_loop()
    dog = _DOGS.get(loop)
    if dog is None:
        dog = _DOGS[loop] = Watchdog(loop, _logged)
    dog.projects.append(project)
    try:
        yield
    finally:
        dog.projects.remove(project)
        if not dog.projects and not dog.ends:
            _DOGS.pop(loop, None)
            dog.close()


def _in_thread(work: Callable[[], None]) -> None:
    """Do something in a further thread: what holds the loop may hold a lock that it needs."""
    thread = threading.Thread(target=work, name="clawhive-watchdog-report", daemon=True)
    thread.start()
    thread.join(_REPORT_SECONDS)


def _stacks() -> dict[int, FrameType]:
    return sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no other way


def _logged(stall: Stall) -> None:
    import logging

    logging.getLogger("clawhive").error("%s\n%s", stall.message, stall.stack)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of what the loop runs now, the innermost first."""
    while frame is not None and frame.f_globals.get("__name__") != "asyncio.base_events":
        yield frame
        frame = frame.f_back


def _owner(frame: FrameType, packages: dict[str, str]) -> str:
    """Return whose code a frame is; empty where it is ours, Python's, or of what ours stands on."""
    module = str(frame.f_globals.get("__name__", ""))
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        if (plugin := packages.get(".".join(parts[:size]))) is not None:
            return f"the plugin `{plugin}`"
    file = frame.f_code.co_filename
    ours = parts[0] in {"clawhive_core", "anyio", "click", "pluggy"}
    if ours or file.startswith("<") or parts[0] in sys.stdlib_module_names:
        return ""
    return f"the module `{module}`" if module else Path(file).name
