"""Identifiers: a kind and 64 random bits."""

from __future__ import annotations

import os

_BYTES = 8
_DIGITS = 2 * _BYTES


def new_id(kind: str) -> str:
    """Return a fresh id such as `run_4f1c09d2ab37e5c8`."""
    return f"{kind}_{os.urandom(_BYTES).hex()}"


def new_ids(kind: str, count: int) -> list[str]:
    """Return as many fresh ids, whose bits are drawn at once."""
    drawn = os.urandom(_BYTES * count).hex()
    return [f"{kind}_{drawn[at : at + _DIGITS]}" for at in range(0, len(drawn), _DIGITS)]
