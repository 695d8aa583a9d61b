"""Running several things at once, bounded, with one exception instead of a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio

Work = Callable[[], Awaitable[None]]


async def side_by_side(works: Iterable[Work]) -> None:
    """Run all at the same time; the first failure cancels the others and is raised as it is."""
    try:
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(_run, work)
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


async def _run(work: Work) -> None:
    await work()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first  # pyright: ignore[reportUnknownArgumentType] - groups are untyped inside
