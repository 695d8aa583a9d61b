"""The bodies that a row refers to: digests of the blobs which are kept outside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from clawhive_core.events.rows import is_reference


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
