"""Background work beside something else, in a task of its own that ends with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from clawhive_core.errors import ClawHiveError

if TYPE_CHECKING:
    from asyncio import Task


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None] | None) -> AsyncGenerator[None]:
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
        await stopped(task)


async def stopped(task: Task[None]) -> None:
    """Wait for a task that was cancelled; an error of ClawHive that ended it is passed over."""
    from asyncio import CancelledError, wait

    await wait((task,))
    with suppress(CancelledError, ClawHiveError):
        task.result()
