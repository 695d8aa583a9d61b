"""Canonical JSON and digests: one byte sequence for one JSON value (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, cast

from clawhive_core.model.json_values import SAFE_INTEGER, is_portable
from clawhive_core.model.patterns import pattern

# orjson writes what RFC 8785 asks for, except whole, very small and very large floats, integers
# beyond 2^53, keys that are no text, and the order of keys outside the Basic Multilingual Plane. A
# value that may hold one of these takes the slow road; a false alarm costs time, never correctness.
_beyond_plane = pattern(r"[\ud800-\U0010ffff]")


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 encoding of a JSON value, as UTF-8 bytes.

    Integers beyond ±(2^53-1), NaN, infinities and lone surrogates have no canonical JSON form;
    they are written as `{"$int": "..."}`, `{"$float": "nan"}` and the replacement character.

    Raises:
        TypeError: The value is not made of dict, list, tuple, str, int, float, bool and None.
    """
    try:
        data = (_known_encoder or _encoder())(value)
    except TypeError:  # no JSON, text keys missing, a lone surrogate, or deeper than orjson goes
        return _careful(value)
    return data if has_portable_order(data) and is_portable(value) else _careful(value)


def has_portable_order(data: bytes) -> bool:
    """Whether the keys of a JSON text are surely in one order by UTF-8 and by UTF-16 (RFC 8785)."""
    return data.isascii() or _beyond_plane.search(data.decode("utf-8")) is None


def canonical_portable(value: Any) -> bytes:
    """Return `canonical` of a value that is known to be portable, and is not looked at."""
    try:
        data = (_known_encoder or _encoder())(value)
    except TypeError:  # a lone surrogate, or deeper than orjson goes
        return _careful(value)
    return data if has_portable_order(data) else _careful(value)


_known_encoder: Callable[[Any], bytes] | None = None


def _encoder() -> Callable[[Any], bytes]:
    """Return the encoder, imported when something is first encoded."""
    global _known_encoder  # noqa: PLW0603 - a module-level cache of an import
    if _known_encoder is None:
        from functools import partial

        import orjson

        _known_encoder = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)
    return _known_encoder


def _careful(value: Any) -> bytes:
    storable = _storable(value)
    with suppress(TypeError):  # deeper than orjson goes
        if is_portable(storable) and has_portable_order(data := _encoder()(storable)):
            return data
    import rfc8785

    return rfc8785.dumps(storable)


def _storable(value: Any) -> Any:
    """Replace what canonical JSON cannot hold by a marked stand-in."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int | float):
        return _storable_number(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_key(key): _storable(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in cast("Sequence[Any]", value)]
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _storable_number(value: float) -> Any:
    if isinstance(value, int):
        return value if abs(value) <= SAFE_INTEGER else {"$int": str(value)}
    if not isfinite(value):
        return {"$float": str(value)}
    # RFC 8785 writes a whole number without a point, as an integer; -0.0 too.
    return int(value) if value.is_integer() and abs(value) <= SAFE_INTEGER else float(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(_storable(key))
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    raise TypeError(f"keys must be text, not {type(key).__name__}, which is not JSON serializable")


def canonical_text(value: Any) -> str:
    """Return `canonical(value)` as text."""
    return canonical(value).decode("utf-8")


def digest(value: Any) -> str:
    """Return the lower-case hexadecimal SHA-256 of a JSON value's canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


# Where blanks stand one by one, to write each as a space costs half of taking the words apart.
_BLANKS = dict.fromkeys((*range(9, 14), *range(28, 32)), " ")


def preview(text: str, limit: int = 200) -> str:
    """Return at most `limit` characters of `text` on one line, a cut marked by an ellipsis."""
    if len(text) > limit * 2:
        # It is cut in any case: where little of it is white space, half of it is enough.
        start = text[: limit + limit // 4]
        flat = start.translate(_BLANKS) if start.isascii() else "  "
        if "  " in flat or flat[:1] == " ":
            flat = " ".join(start.split())
        if len(flat) >= limit:
            return flat[: limit - 1] + "…"
    flat = " ".join(text[: limit * 2].split())
    return flat if len(flat) <= limit and len(text) <= limit * 2 else flat[: limit - 1] + "…"
