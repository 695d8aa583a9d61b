"""The part of JSON Schema that types can say, put together for one run of the generator.

What is left out only makes a type wider. Titles, descriptions, formats and whatever else a
generator might turn into names, comments or values stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

Bundle = dict[str, Any]

INDEX = "ClawhiveIndex"
"""The model whose fields name the others, in the order of their schemas."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_SINGLE = ("items", "additionalProperties")
_VALUES = ("type", "enum", "const", "required")


def bundle(schemas: Mapping[str, Any]) -> Bundle:
    """Return one schema with each of these as a definition, and a root that names them in order.

    References stay within the schema that they stand in; one that leads out of it, or to what is
    left out, takes anything.
    """
    defs = {name: _kept(schema, f"#/$defs/{name}") for name, schema in schemas.items()}
    whole: Bundle = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": INDEX,
        "type": "object",
        "properties": {f"p{at}": {"$ref": f"#/$defs/{name}"} for at, name in enumerate(defs)},
        "required": [f"p{at}" for at in range(len(defs))],
        "$defs": defs,
    }
    _cut(whole, whole)
    return whole


def _kept(schema: Any, root: str, *, inside: bool = False) -> Any:
    if not isinstance(schema, Mapping):
        return True  # false takes nothing: there is no such value to type
    given = cast("Mapping[str, Any]", schema)
    if inside and "$id" in given:
        return {}  # its references begin somewhere else
    kept = {key: given[key] for key in _VALUES if key in given} | _below(given, root)
    if isinstance(given.get("$ref"), str):
        kept["$ref"] = _moved(given["$ref"], root)
    if given.get("additionalProperties") is False:
        kept["additionalProperties"] = False
    return kept


def _below(given: Mapping[str, Any], root: str) -> Bundle:
    kept: Bundle = {}
    for key in _MAPS:
        if isinstance(given.get(key), Mapping):
            kept[key] = {name: _kept(each, root, inside=True) for name, each in given[key].items()}
    for key in _LISTS:
        if isinstance(given.get(key), list):
            kept[key] = [_kept(each, root, inside=True) for each in given[key]]
    for key in _SINGLE:
        if key in given:
            kept[key] = _kept(given[key], root, inside=True)
    return kept


def _moved(reference: str, root: str) -> str:
    if reference == "#" or reference.startswith("#/"):
        return root + reference[1:]
    return ""


def _cut(value: Any, whole: Bundle) -> None:
    """Remove the references that lead nowhere; the depth is bounded by the document's."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        reference = entries.get("$ref")
        if isinstance(reference, str) and not _leads(reference, whole):
            del entries["$ref"]
        for key in (*_MAPS, *_LISTS, *_SINGLE):
            below: Any = entries.get(key)
            if key in _MAPS and isinstance(below, dict):
                below = list(cast("dict[str, Any]", below).values())
            for each in cast("list[Any]", below) if isinstance(below, list) else [below]:
                _cut(each, whole)


def _leads(reference: str, whole: Bundle) -> bool:
    value: Any = whole
    for part in reference.removeprefix("#/").split("/"):
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, Any]", value)[key]
        elif isinstance(value, list) and key.isdecimal():
            items = cast("list[Any]", value)
            if int(key) >= len(items):
                return False
            value = items[int(key)]
        else:
            return False
    return isinstance(value, dict | bool)
