"""Well-known names: tools that any provider may serve, and the one output that each answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import JsonSchema


@dataclass(frozen=True, slots=True)
class OutputContract:
    """The output of a well-known tool, whoever serves it."""

    schema: JsonSchema
    turn_over: Callable[[Any, str], Any]
    """Takes an answer and its provider's id; returns what an older shape means today, else the
    answer itself."""
    notice: str
    """Added to the text of an answer that was turned over."""


_TEXT: Final = {"type": "string"}
_FOUND: Final = ("title", "url", "snippet", "provider")

_SEARCH: Final[JsonSchema] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "title": _TEXT,
                    "url": {"type": "string", "pattern": r"^https?://[^\s/]"},
                    "snippet": _TEXT,
                    "provider": {"type": "string", "minLength": 1},
                },
                "required": list(_FOUND),
                "additionalProperties": False,
            },
        }
    },
    "required": ["items"],
    "additionalProperties": False,
}


def _turn_search(answer: Any, provider_id: str) -> Any:
    """Return a bare list of results as `{"items": [...]}`; what an item lacks is empty."""
    if not isinstance(answer, list):
        return answer
    empty = {"title": "", "snippet": "", "provider": provider_id}
    items: list[Any] = []
    for each in cast("list[Any]", answer):
        if isinstance(each, Mapping):
            found = cast("Mapping[str, Any]", each)
            items.append({**empty, **{key: found[key] for key in _FOUND if key in found}})
        else:
            items.append(each)
    return {"items": items}


CONTRACTS: Final[Mapping[str, OutputContract]] = {
    "web.search": OutputContract(
        _SEARCH,
        _turn_search,
        '[deprecated: a list of results was turned into {"items": [...]}; '
        "the provider should answer that itself]",
    )
}
"""By canonical name."""
