"""Concurrent work: several things at once, or one in the background."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import ClawHiveError

if TYPE_CHECKING:
    from asyncio import Task


Work = Callable[[], Awaitable[None]]


async def run_concurrently(works: Sequence[Work], limit: int | None = None) -> None:
    """Run all at the same time; the first failure cancels the others and is raised as it is.

    Args:
        works: What to run; they begin in this order.
        limit: How many run at once, at most; None for all.
    """
    waiting = iter(works)
    try:
        async with anyio.create_task_group() as group:
            for _ in works[:limit]:
                group.start_soon(_run, waiting)
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


async def _run(waiting: Iterator[Work]) -> None:
    for work in waiting:
        await work()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType] - groups are untyped inside


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None] | None) -> AsyncGenerator[None]:
    """Do something, or nothing, while the body runs, and stop it after.

    It is not stopped before what it shields has ended.
    """
    import asyncio

    if work is None:
        yield
        return
    scope = anyio.CancelScope()

    async def scoped() -> None:
        with scope:
            await work

    task = asyncio.ensure_future(scoped())
    try:
        yield
    finally:
        scope.cancel()
        await wait_stopped(task)


async def wait_stopped(task: Task[None]) -> None:
    """Wait for a task that was cancelled; an error of ClawHive that ended it is passed over."""
    from asyncio import CancelledError, wait

    await wait((task,))
    with suppress(CancelledError, ClawHiveError):
        task.result()
