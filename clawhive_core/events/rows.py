"""From an Event to the row that is stored, and back."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

from clawhive_core.errors import ClawHiveError, LogWriteFailed
from clawhive_core.events.chain import middle
from clawhive_core.events.kinds import FIELDS
from clawhive_core.events.redaction import Redactor
from clawhive_core.model.canonical import (
    canonical,
    canonical_text,
    has_portable_order,
)
from clawhive_core.model.events import RESERVED, Blob, Event, StoredEvent
from clawhive_core.model.json_values import is_portable
from clawhive_core.model.patterns import pattern

INLINE = 512
"""Values whose canonical encoding is at most this long stay in their row, in bytes."""

LARGEST = 256 * 1024 * 1024
"""The largest body and the largest blob, in bytes."""

DEEPEST = 128
"""The deepest nesting of a body outside its blobs; SQLite's own JSON functions stop at 1,000."""

# Sixteen digits are at least 10^15; canonical JSON marks integers beyond 2^53-1 only.
_LARGE_INTEGER = pattern(r"-?[1-9][0-9]{15,4299}")
_STAND_IN = pattern(rb'"\$int"|"\$float"|[0-9]{16}')
_SPECIAL = ("nan", "inf", "-inf")
_SAFE_INTEGER = 2**53 - 1
_ONE_LOOK = 64 * 1024
_SHALLOW = 16
_SCALARS = (str, bool, int, float)
_LISTS = (list, tuple)
_COLUMN_TYPES = frozenset({str, type(None)})

_NOTHING = Redactor()


def now() -> str:
    """Return the present as the log writes it: RFC 3339, microseconds, UTC."""
    digits = str(time.time_ns())
    return f"{_second(digits[:-9])}.{digits[-9:-3]}Z"


@lru_cache(maxsize=4)
def _second(seconds: str) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")


class Body(NamedTuple):
    """One blob to store: digest, type (`json`, `text`, `bytes`) and content."""

    sha256: str
    type: str
    data: bytes


class Row(NamedTuple):
    """One event ready for its place in the chain."""

    columns: tuple[Any, ...]
    """`ts` to `body`."""
    inner: bytes
    """The hashed text of `columns`."""
    blobs: Sequence[Body]
    size: int
    """About the bytes that it adds to the file."""


def encode(event: Event, ts: str, redactor: Redactor) -> Row:
    """Return the row of an event: redacted, canonical, its large values set aside as blobs.

    Raises:
        LogWriteFailed: The event cannot be written as JSON, or is too large or too deep.
    """
    try:
        row = _encode(event, ts, _NOTHING)
        suspect = redactor.active and _is_suspect(row, redactor)
        return _encode(event, ts, redactor) if suspect else row
    except RecursionError as error:
        raise _refused(event, "its body is nested too deeply", "Flatten it") from error
    except (TypeError, ValueError) as error:
        raise _refused(event, str(error), "Write JSON values and text columns only") from error


def _is_suspect(row: Row, redactor: Redactor) -> bool:
    if not row.blobs:
        return redactor.may_be_in(row.inner)
    clear = redactor.clear
    new = [blob for blob in row.blobs if blob.sha256 not in clear]
    parts = (row.inner, *(blob.data for blob in new))
    if row.size <= _ONE_LOOK:
        found = redactor.may_be_in(b"\n".join(parts))
    else:
        found = any(map(redactor.may_be_in, parts))
    if not found:
        clear.update([blob.sha256 for blob in new])
    return found


def _refused(event: Event, why: str, fix: str) -> LogWriteFailed:
    return LogWriteFailed(
        f"The event {event.kind!r} cannot be written: {why}.", place=str(event.kind), fix=f"{fix}."
    )


def _encode(event: Event, ts: str, redactor: Redactor) -> Row:
    body, blobs = _direct(event, redactor) or _walked(event.body, redactor)
    if len(body) > LARGEST:
        raise ValueError(f"its body is larger than {LARGEST} bytes; put large values into a Blob")
    columns = (
        ts,
        event.kind,
        event.version,
        event.trace_id,
        event.run_id,
        event.task_id,
        event.step_id,
        event.invocation_id,
        event.conversation_id,
        event.principal,
        event.tool,
        event.provider_id,
        event.status,
        body,
    )
    if redactor.active or not event.prechecked:
        columns = _checked(columns, redactor)
    try:
        inner = middle(columns)
    except UnicodeEncodeError:
        columns = tuple(map(_storable, columns))
        inner = middle(columns)
    if b"\\u0000" in inner and any(isinstance(each, str) and "\0" in each for each in columns):
        columns = tuple(map(_storable, columns))
        inner = middle(columns)
    size = len(inner)
    for blob in blobs:
        size += len(blob.data)
    return Row(columns, inner, blobs, size)


def _checked(columns: tuple[Any, ...], redactor: Redactor) -> tuple[Any, ...]:
    """Return the columns, each of its type, and redacted but for those that are our own words.

    Raises:
        TypeError: One is of another type.
    """
    ts, kind, version, *ids, status, body = columns
    if type(version) is not int:
        raise TypeError(f"the version {version!r} is no whole number")
    texts = (kind, *ids, status)
    if not _COLUMN_TYPES.issuperset(map(type, texts)):
        for column in texts:
            if column is not None and not isinstance(column, str):
                raise TypeError(f"the column value {column!r} is no text")
    if redactor.active:
        ids = [each if each is None else redactor.text(each) for each in ids]
    return (ts, kind, version, *ids, status, body)


def _direct(event: Event, redactor: Redactor) -> tuple[str, list[Body]] | None:
    """Return what `_walked` does, without a walk where the body is simple: nearly every one is."""
    import orjson

    body = event.body
    if redactor.active or not (event.prechecked or _is_flat(body)):
        return None
    blobs: list[Body] = []

    def refer(blob: Blob) -> Any:
        written = blob.encoded if type(blob) is Blob else None
        if written is not None and len(written) <= INLINE:
            return orjson.Fragment(b'{"$value":%b}' % written)  # as nearly always
        if type(blob.value) is str and INLINE < len(blob.value) <= _ONE_LOOK:
            blobs.append(_text(blob.value))
            return _reference(blobs[-1], blob.preview)
        kind, value, data = _content(blob, redactor)
        if kind == "json" and len(data) <= INLINE:
            return orjson.Fragment(b'{"$value":%b}' % data)
        if _stays_inline(kind, value, data):
            return orjson.Fragment(b'{"$value":%b}' % canonical(value))
        blobs.append(_stored_body(kind, data))
        return _reference(blobs[-1], blob.preview)

    try:
        data = orjson.dumps(body, refer, orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:  # a key that is no text, a lone surrogate, or what `refer` raised
        return None
    return (data.decode("utf-8"), blobs) if data.isascii() or has_portable_order(data) else None


_is_flat = partial(is_portable, leaf=Blob, reserved=RESERVED, levels=_SHALLOW)
"""Whether a body holds portable values and blobs only, in few levels."""


def _walked(body: Mapping[Any, Any], redactor: Redactor) -> tuple[str, list[Body]]:
    """Return the canonical text of a body and the blobs that are kept outside it."""
    blobs: list[Body] = []
    return canonical_text(_Walk(redactor, blobs).mapping(body, 0)), blobs


def _storable(column: Any) -> Any:
    """Return a column without what no store's text can hold: lone surrogates and U+0000.

    A body is JSON, where both are escaped, and stays as it is.
    """
    if not isinstance(column, str):
        return column
    return column.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


class _Walk:
    """Rebuilds a body with its blobs replaced by references, and redacted."""

    __slots__ = ("_blobs", "_redactor")

    def __init__(self, redactor: Redactor, blobs: list[Body]) -> None:
        self._redactor = redactor
        self._blobs = blobs

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        if depth > DEEPEST:
            raise RecursionError
        return {self._key(str(key)): self._item(item, depth) for key, item in value.items()}

    def _key(self, key: str) -> str:
        """A secret that equals one of our own field names must not make rows unreadable."""
        return key if key in FIELDS else self._redactor.text(key)

    def _item(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, _SCALARS):
            return self._redactor.value(value)
        if isinstance(value, Blob):
            return self._blob(value)
        if isinstance(value, _LISTS):
            if depth > DEEPEST:
                raise RecursionError
            return [self._item(item, depth + 1) for item in cast("Sequence[Any]", value)]
        if isinstance(value, Mapping):
            inner = self.mapping(cast("Mapping[Any, Any]", value), depth + 1)
            # A value must not be taken for one of our references.
            return {"$value": inner} if "$blob" in inner or "$value" in inner else inner
        raise TypeError(f"{type(value).__name__} is no JSON value")

    def _blob(self, blob: Blob) -> dict[str, Any]:
        kind, value, data = _content(blob, self._redactor)
        if _stays_inline(kind, value, data):
            return {"$value": value}
        self._blobs.append(_stored_body(kind, data))
        return _reference(self._blobs[-1], self._redactor.text(blob.preview))


def _stored_body(kind: str, data: bytes) -> Body:
    if len(data) > LARGEST:
        raise ValueError(f"a blob is larger than {LARGEST} bytes")
    return Body(hashlib.sha256(data).hexdigest(), kind, data)


@lru_cache(maxsize=16)
def _text(value: str) -> Body:
    """Return a text set aside: each turn of a loop has one system text."""
    return _stored_body("text", value.encode("utf-8", "surrogatepass"))


def _reference(body: Body, preview: str) -> dict[str, Any]:
    """Return what stands in a row for a blob."""
    reference = {"$blob": body.sha256, "bytes": len(body.data), "type": body.type}
    return {**reference, "preview": preview} if preview else reference


def _content(blob: Blob, redactor: Redactor) -> tuple[str, Any, bytes]:
    """Return a blob's type, value and bytes, redacted."""
    value = blob.value
    if blob.encoded is not None and not redactor.active:
        return "json", value, blob.encoded
    if isinstance(value, bytes | bytearray):
        data = redactor.data(bytes(value))
        return "bytes", data, data
    if isinstance(value, str):
        text = redactor.text(value)
        return "text", text, text.encode("utf-8", "surrogatepass")
    if redactor.active:
        value = redactor.value(value)
    return "json", value, canonical(value)


def _stays_inline(kind: str, value: Any, data: bytes) -> bool:
    if len(data) > INLINE or kind == "bytes":
        return False
    if kind == "json":
        return True
    # Canonical JSON cannot hold a lone surrogate; a text with one is kept as it is, outside.
    faithful = data.decode("utf-8", "replace") == value
    return faithful and len(canonical(value)) <= INLINE


def stored(row: Sequence[Any]) -> StoredEvent:
    """Return the event in a row, its columns in the order of `chain.COLUMNS`."""
    seq, ts, kind, version, *ids, body, prev, digest = row
    event = Event(kind, body_of(body), *ids, version=version)
    return StoredEvent(seq, ts, event, prev, digest)


def body_of(text: str) -> Any:
    """Return the body in a row, from its column; a run's page and its checks read each of it."""
    import orjson

    try:
        return orjson.loads(text)
    except ValueError:  # not what the log writes: let the standard decoder read or refuse it
        return json.loads(text)


def is_reference(value: Any) -> bool:
    """Return whether a JSON value stands for a blob that is kept outside its row."""
    return isinstance(value, Mapping) and "$blob" in value and "bytes" in value


def decode(data: bytes, kind: str) -> Any:
    """Return the value of a stored blob.

    Raises:
        ClawHiveError: The content does not fit its type.
    """
    if kind == "bytes":
        return data
    try:
        if kind == "text":
            return data.decode("utf-8", "surrogatepass")
        value = json.loads(data)
        return value if _STAND_IN.search(data) is None else revive(value)
    except (ValueError, RecursionError) as error:
        raise ClawHiveError(
            f"A stored body cannot be read: {error}.",
            fix="Run `clawhive audit verify`: the database may have been changed.",
            code="damaged_body",
        ) from error


def revive(value: Any) -> Any:
    """Undo what canonical JSON does to large integers, large whole floats, NaN and infinities."""
    if isinstance(value, list):
        return [revive(item) for item in cast("list[Any]", value)]
    if isinstance(value, int):
        # RFC 8785 writes floats up to 10^21 without an exponent; integers of that size are marked.
        return value if abs(value) <= _SAFE_INTEGER else float(value)
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if len(fields) == 1:
        (key, item) = next(iter(fields.items()))
        if key == "$int" and isinstance(item, str) and _LARGE_INTEGER.fullmatch(item):
            return int(item)
        if key == "$float" and item in _SPECIAL:
            return float(item)
    return {key: revive(item) for key, item in fields.items()}


def references(body: str) -> Iterator[str]:
    """Yield the digests of the blobs that a stored body refers to.

    A value that only looks like a reference stands under `$value` and holds none.
    """
    # Most bodies hold none, and reading their JSON is what costs.
    if '"$blob"' in body:
        yield from _in_value(json.loads(body))


def _in_value(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _in_value(item)
    elif is_reference(value):
        yield str(value["$blob"])
    elif isinstance(value, dict) and "$value" not in value:
        for item in cast("dict[str, Any]", value).values():
            yield from _in_value(item)
