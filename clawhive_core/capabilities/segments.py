"""Segments: one dimension of a pattern, and its exact algebra.

A pattern is a tuple of segments. A segment is a literal, `ANY` (exactly one segment, whatever it
is), or `REST` (zero or more segments), which stands only at the end. Literals are kept in their
canonical, escaped spelling, in which no literal is `*` or `**`; so two literals are equal if and
only if their strings are, and the wildcards need no type of their own.

As literals are unlimited in number, two different patterns never mean the same set, and the
comparisons below are exact.
"""

from __future__ import annotations

from typing import Final

Segments = tuple[str, ...]

ANY: Final = "*"
REST: Final = "**"
EVERYTHING: Final[Segments] = (REST,)


def covers(p: Segments, q: Segments) -> bool:
    """Whether every sequence that `q` stands for is one that `p` stands for."""
    if p == q:
        return True
    if p and p[-1] == REST:
        fixed = len(p) - 1
        if len(q) - (1 if q and q[-1] == REST else 0) < fixed:
            return False
    elif len(p) != len(q) or (q and q[-1] == REST):
        return False
    else:
        fixed = len(p)
    if p[:fixed] == q[:fixed]:
        return True
    return all(p[i] == q[i] or p[i] == ANY for i in range(fixed))


def meet_segments(p: Segments, q: Segments) -> Segments | None:
    """Return the pattern of what `p` and `q` have in common, None where that is nothing."""
    p_open, q_open = p[-1:] == EVERYTHING, q[-1:] == EVERYTHING
    p_fixed, q_fixed = p[: len(p) - p_open], q[: len(q) - q_open]
    if len(p_fixed) > len(q_fixed):
        p_fixed, q_fixed, p_open, q_open = q_fixed, p_fixed, q_open, p_open
    if len(p_fixed) < len(q_fixed) and not p_open:
        return None
    head: list[str] = []
    for a, b in zip(p_fixed, q_fixed, strict=False):
        if a != b and ANY not in (a, b):
            return None
        head.append(b if a == ANY else a)
    tail = EVERYTHING if p_open and q_open else ()
    return (*head, *q_fixed[len(p_fixed) :], *tail)
