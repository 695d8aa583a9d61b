"""Fixes, put into a text: only the characters of their edits change."""

from __future__ import annotations

from collections.abc import Iterable

from clawhive_core.diagnostics.finding import Edit, Fix


def with_fixes(text: str, fixes: Iterable[Fix]) -> tuple[str, int]:
    """Return a text with fixes made, and how many were.

    A fix is made whole or not at all. Of two that touch the same characters, or insert at the same
    place, the one that begins first is made; the other waits for the next look at the file.
    """
    taken: list[Edit] = []
    made = 0
    for fix in sorted(dict.fromkeys(fixes), key=_begin):
        with_it = [*taken]
        for edit in fix.edits:
            if not _fits(edit, with_it, len(text)):
                break
            with_it.append(edit)
        else:
            made += len(with_it) > len(taken)
            taken = with_it
    for edit in sorted(taken, key=lambda each: (each.start, each.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, made


def _begin(fix: Fix) -> tuple[int, int]:
    return min(((edit.start, edit.end) for edit in fix.edits), default=(0, 0))


def _fits(edit: Edit, taken: list[Edit], length: int) -> bool:
    inside = 0 <= edit.start <= edit.end <= length
    return inside and not any(_touch(edit, other) for other in taken)


def _touch(one: Edit, other: Edit) -> bool:
    if one.start == other.start:
        return True
    return one.start < other.end and other.start < one.end
