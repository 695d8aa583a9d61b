"""How often a command's process looks for cycles of objects that nothing holds any more."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = 100_000


def collect_seldom() -> None:
    """Look after each 100,000 new objects, from now on: for a process that is one command's.

    What a command makes at its start stays to its end: looking through it again and again, after
    each 700 objects by default, was a tenth of what a short command cost.
    """
    gc.set_threshold(_SELDOM)


@contextmanager
def uncollected() -> Generator[None]:
    """Do not look at all: for work that makes many objects and no cycles, such as a set of skills.

    Whatever is still held at the end would be looked through, so all of it must be gone by then.
    """
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*before)
