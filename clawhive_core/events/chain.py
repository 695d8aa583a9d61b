"""The hash chain: each row's SHA-256 covers every other column of the row as stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

COLUMNS = (
    "seq",
    "ts",
    "kind",
    "version",
    "trace_id",
    "run_id",
    "task_id",
    "step_id",
    "invocation_id",
    "conversation_id",
    "principal",
    "tool",
    "provider_id",
    "status",
    "body",
    "prev",
    "hash",
)
"""The columns of `events`, in the order in which they are hashed; `hash` itself is not."""


# For an array of text, integers and null this is RFC 8785 to the byte, at a tenth of its cost.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def genesis(database_id: str) -> str:
    """Return the `prev` of row 1: the SHA-256 of `clawhive.log/1:` and the database's id."""
    return hashlib.sha256(f"clawhive.log/1:{database_id}".encode()).hexdigest()


def middle(columns: Sequence[Any]) -> bytes:
    """Return the hashed text of the columns from `ts` to `body`, known before the row's place.

    Raises:
        UnicodeEncodeError: A text holds a lone surrogate.
    """
    import orjson

    try:
        return orjson.dumps(columns)[1:-1]
    except TypeError:  # a lone surrogate: let the standard encoder say so
        return _encode(columns)[1:-1].encode("utf-8")


def link(seq: int, inner: bytes, prev: str) -> str:
    """Return the hash of the row with that number, `middle` and predecessor."""
    return hashlib.sha256(b'[%d,%b,"%b"]' % (seq, inner, prev.encode())).hexdigest()


def row_hash(row: Sequence[Any]) -> str:
    """Return what the `hash` of a stored row must be; `row` is in the order of `COLUMNS`.

    A column of a type that the log never writes (a number where text belongs) gives a hash that
    no row has.
    """
    import orjson

    try:
        return hashlib.sha256(orjson.dumps(tuple(row[:-1]))).hexdigest()
    except TypeError:  # bytes, or text that is no UTF-8: the log never wrote that
        return ""
