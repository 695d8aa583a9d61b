"""Regular expressions of schemas that not every validator reads: the standard names ECMA-262.

Source: JSON Schema 2020-12, core 6.4 "Regular Expressions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.schema import SchemaMistake
from clawhive_core.skills.documents.place import KeyPath

_TOKEN = pattern(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|\\(?:(?P<back>[1-9]|k<)|(?P<anchor>[AZz])|.)"
    r"|(?P<python>\(\?P[<=>])"
    r"|(?P<look>\(\?<?[=!])"
    r"|(?P<other>\(\?(?:#|>|[a-zA-Z-]+[:)])|[*+?}]\+)",
)
_NOT_ECMA = {
    "anchor": "begins or ends at `\\A`, `\\Z` or `\\z`",
    "python": "names a group by `(?P<`",
}
_DATA = frozenset({"const", "enum", "default", "examples"})


def check_patterns(schema: Mapping[str, Any] | None) -> Iterator[SchemaMistake]:
    """Yield the patterns of a schema that other validators refuse, or that may take long."""
    for path, text in _patterns(schema or {}, ()):
        kinds = {match.lastgroup for match in _TOKEN.finditer(text)}
        for kind in ("python", "anchor", "other"):
            if kind in kinds:
                how = _NOT_ECMA.get(kind, "has a form that only some languages know")
                message = f"the pattern `{text}` {how}, which ECMA-262 does not have"
                fix = "write `(?<NAME>`" if kind == "python" else "write it as JavaScript has it"
                yield SchemaMistake(path, message, "CH0508", "warning", fix)
                break
        else:
            if kinds & {"back", "look"}:
                message = (
                    f"the pattern `{text}` looks around or back: engines of linear time refuse it"
                )
                fix = "write it without, or split it into cases"
                yield SchemaMistake(path, message, "CH0508", "note", fix)


def _patterns(schema: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(schema, Mapping):
        for key, each in cast("Mapping[Any, Any]", schema).items():
            if key == "pattern" and isinstance(each, str):
                yield (*path, key), each
            elif key not in _DATA:
                yield from _patterns(each, (*path, key))
    elif isinstance(schema, list):
        for index, each in enumerate(cast("list[Any]", schema)):
            yield from _patterns(each, (*path, index))
