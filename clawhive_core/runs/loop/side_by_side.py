"""Running several things at once, bounded, with one exception instead of a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

import anyio

Work = Callable[[], Awaitable[None]]


async def side_by_side(works: Sequence[Work], limit: int | None = None) -> None:
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
