"""Identifiers: a kind and 64 random bits."""

from __future__ import annotations

import os


def new_id(kind: str) -> str:
    """Return a fresh id such as `run_4f1c09d2ab37e5c8`."""
    return f"{kind}_{os.urandom(8).hex()}"
