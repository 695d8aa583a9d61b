"""The event loop of one command: how it ends, by itself, by a signal or because it stands still."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from clawhive_core.cli.output import print_error, say, wants_json
from clawhive_core.errors import ClawHiveError

if TYPE_CHECKING:
    import asyncio

    from clawhive_core.hive.watchdog import Stall, Watchdog

T = TypeVar("T")

_FORCED = 3
"""The Ctrl-C that no longer waits for the end of what is being written."""
_GRACE_SECONDS = 2.0
"""The time that abandoned work gets to stop before the process ends without it."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C and SIGTERM cancel it and are then raised."""
    import asyncio
    import signal

    cancel: Callable[[], object] = _interrupt
    asked = 0
    watchdogs: list[Watchdog] = []

    async def supervised() -> T:
        nonlocal cancel
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        cancel = partial(_cancel, loop, task)
        return await task

    def stop(*_: object) -> None:
        # A second cancellation would break off the record of the first.
        nonlocal asked
        asked += 1
        for watchdog in watchdogs:
            watchdog.hurries = True
        if asked == 1:
            cancel()
        elif asked >= _FORCED:
            os._exit(130)

    # Not the loop's own handlers: a plugin that blocks the loop would block them too.
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        return _run(supervised(), watchdogs)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Future[Any]) -> None:
    if not task.done():
        loop.call_soon_threadsafe(task.cancel)


def _run(work: Coroutine[Any, Any, T], watchdogs: list[Watchdog]) -> T:
    """Do what `asyncio.run` does, without waiting for ever for what a run abandoned."""
    import asyncio

    from clawhive_core.hive.watchdog import Watchdog, guarded

    loop = asyncio.new_event_loop()
    watchdog = Watchdog(loop, _tell, lambda stall: _end(stall, watchdog))
    watchdogs.append(watchdog)
    with guarded(watchdog, loop):
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(work)
        finally:
            _leave_behind(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            if not left_behind:
                loop.close()


def _tell(stall: Stall) -> None:
    say(f"warning[loop_blocked]: {stall.message}", *stall.stack.rstrip().split("\n"), err=True)


def _end(stall: Stall, watchdog: Watchdog) -> None:
    """End the process in which nothing else goes on any more."""
    import threading

    error = ClawHiveError(
        f"{stall.message}; its runs are interrupted",
        code="loop_blocked",
        place=stall.place,
        fix="switch the plugin off with --no-plugins=ID, or raise `limits.blocked_sec` in your own "
        "configuration; go on with `clawhive runs resume RUN`",
    )
    # What holds the loop may hold the lock of an output too.
    printing = threading.Thread(
        target=print_error, args=(error,), kwargs={"as_json": wants_json(sys.argv)}, daemon=True
    )
    printing.start()
    printing.join(_GRACE_SECONDS)
    os._exit(130 if watchdog.hurries else 1)


left_behind: list[str] = []
"""The names of tasks and threads that did not stop: the process must end without them."""


def _leave_behind(loop: asyncio.AbstractEventLoop) -> None:
    """Give what a run abandoned a moment to stop; what does not must not keep the command alive.

    The log is closed by now, so nothing of value is lost with it.
    """
    import asyncio
    import threading

    tasks = [task for task in asyncio.all_tasks(loop) if not task.done()]
    for task in tasks:
        task.cancel()
    if tasks:
        _, pending = loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE_SECONDS))
        left_behind.extend(task.get_name() for task in pending)
    for thread in threading.enumerate():
        if thread is threading.current_thread() or thread.daemon:
            continue
        thread.join(_GRACE_SECONDS)
        if thread.is_alive():
            left_behind.append(thread.name)
