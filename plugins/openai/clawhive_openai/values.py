"""JSON from outside, read without trust in its shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from uuid import uuid4

from clawhive_core import ToolCall

Json = Mapping[str, Any]


def mapping(value: Any) -> Json:
    """Return a JSON object; an empty one for anything else."""
    return cast("Json", value) if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    """Return a JSON list; an empty one for anything else."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def text(value: Any) -> str:
    """Return a JSON text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def made_id() -> str:
    """Return an id for a call to which the server gave none."""
    return f"call_{uuid4().hex}"


def arguments_of(written: Any) -> tuple[dict[str, Any], str | None]:
    """Return a call's input, and the text where it is no JSON object."""
    if isinstance(written, Mapping):  # some servers send the object itself
        return dict(cast("Json", written)), None
    words = text(written)
    if not words.strip():
        return {}, None
    with suppress(ValueError, RecursionError):
        value = json.loads(words)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value), None
    return {}, words


def arguments_text(call: ToolCall) -> str:
    """Return a call's input as the API writes it."""
    if call.malformed is not None:
        return json.dumps({"malformed": call.malformed}, ensure_ascii=False)
    return json.dumps(dict(call.input), ensure_ascii=False)


def short_id(call_id: str, limit: int) -> str:
    """Return a call's id within the API's limit, the same for the call and its result."""
    if len(call_id) <= limit:
        return call_id
    from hashlib import sha256

    return f"call_{sha256(call_id.encode()).hexdigest()[: limit - 5]}"
