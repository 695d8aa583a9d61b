"""A schema as a whole document: its references, its dialect, its real validators; and the bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any


class Undecided(Exception):
    """It cannot be decided; the message says why."""


class Steps:
    """The rest of a comparison's allowance."""

    def __init__(self, allowed: int) -> None:
        self._left = allowed

    def spend(self) -> None:
        """Take one step.

        Raises:
            Undecided: None is left.
        """
        self._left -= 1
        if self._left < 0:
            raise Undecided("the schemas are too large to compare within the bound")


Accepts = Callable[[Any], bool]
"""Whether a real validator accepts a value."""
_DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
}
_NEWEST = "https://json-schema.org/draft/2020-12/schema"
_HOME = "urn:clawhive:schema"
_MAX_CHARACTERS = 200_000


class Document:
    """One of the two schemas that are compared."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._fields: dict[str, Any] = root if isinstance(root, dict) else {}
        self.dialect = str(self._fields.get("$schema", _NEWEST)).rstrip("#")
        self._accepts: dict[tuple[int, bool], Accepts] = {}
        self._kept: list[Any] = []
        self._texts: dict[int, str] = {}

    @property
    def is_newest(self) -> bool:
        """Whether its keywords mean what draft 2020-12 says."""
        return self.dialect == _NEWEST

    def check(self) -> None:
        """Check the schema against what is compared at all.

        Raises:
            Undecided: Another dialect, no valid schema, or too large.
        """
        if self.dialect not in _DIALECTS:
            raise Undecided(f"the dialect {self.dialect[:80]} is not compared")
        try:
            if len(self.text(self.root)) > _MAX_CHARACTERS:
                raise Undecided("the schema is too large to compare")
            self._text_of_definitions  # noqa: B018 - a schema without JSON text fails here
        except (TypeError, ValueError, RecursionError) as error:
            raise Undecided("the schema is no JSON, or nested too deeply") from error
        self.accepts(self.root, "", formats=True)

    def text(self, schema: Any) -> str:
        """Return a text that two sub-schemas share only where they mean the same."""
        known = self._texts.get(id(schema))
        if known is not None:
            return known
        self._kept.append(schema)
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"), allow_nan=False)
        if '"$ref"' in text or '"$dynamicRef"' in text:
            text += self._text_of_definitions
        text += self.dialect
        self._texts[id(schema)] = text
        return text

    @cached_property
    def _text_of_definitions(self) -> str:
        names = [name for name in ("$defs", "definitions") if name in self._fields]
        held = {name: self._fields[name] for name in names}
        text = json.dumps(self.root, sort_keys=True)
        inside = text.count('"$ref": "#/$defs/') + text.count('"$ref": "#/definitions/')
        if inside < text.count('"$ref"') or '"$dynamicRef"' in text:
            return text
        return json.dumps(held, sort_keys=True)

    @cached_property
    def has_formats(self) -> bool:
        """Whether a format may stand somewhere in it."""
        return '"format"' in self.text(self.root)

    @cached_property
    def _has_own_bases(self) -> bool:
        text = self.text(self.root)
        top = 1 if "$id" in self._fields else 0
        return text.count('"$id"') > top or '"$anchor"' in text

    def resolve(self, reference: Any) -> tuple[Any, str]:
        """Return what a reference names, and its JSON pointer.

        Raises:
            Undecided: It leads out of the document, to an anchor, or to nothing.
        """
        if self._has_own_bases or not isinstance(reference, str) or reference[:1] != "#":
            raise Undecided(f"the reference {str(reference)[:80]} is not followed")
        pointer = reference[1:]
        found: Any = self.root
        if pointer and pointer[0] != "/":
            raise Undecided(f"the anchor {reference[:80]} is not followed")
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            within: Any = found
            try:
                found = within[int(key)] if isinstance(found, list) else within[key]
            except (LookupError, TypeError, ValueError) as error:
                raise Undecided(f"the reference {reference[:80]} names nothing") from error
        if pointer and not pointer.startswith(("/$defs/", "/definitions/")):
            self._must_be_schema(found)
        return found, pointer

    def _must_be_schema(self, found: Any) -> None:
        """Check what stands where no schema is expected against the dialect's own schema."""
        if not isinstance(found, dict | bool) or '"$ref"' in self.text(found):
            raise Undecided("a reference into a schema's inside is not followed")
        self.accepts(found, None, formats=True)

    def accepts(self, schema: Any, pointer: str | None, *, formats: bool) -> Accepts:
        """Return a real validator's answer for a sub-schema; None: one that stands in no document.

        Raises:
            Undecided: The schema cannot be compiled, or there is no library.
        """
        key = (id(schema), formats)
        known = self._accepts.get(key)
        if known is None:
            self._kept.append(schema)
            known = self._accepts[key] = self._compile(schema, pointer, formats=formats)
        return known

    def _compile(self, schema: Any, pointer: str | None, *, formats: bool) -> Accepts:
        refers = bool(pointer) and '"$' in self.text(schema)
        try:
            if refers:
                return self._checker({"$ref": f"{_HOME}#{pointer}"}, formats, at_home=True).is_valid
            return self._checker(schema, formats).is_valid
        except Undecided:
            raise
        except Exception as error:  # two libraries, each with many classes of errors
            raise Undecided(f"the schema cannot be used: {str(error)[:120]}") from error

    def _checker(self, schema: Any, formats: bool, *, at_home: bool = False) -> Any:
        """Return a validator of either library, both of which have `is_valid` and `iter_errors`."""
        try:
            import jsonschema_rs
        except ImportError:
            return _second_library(schema, self, formats)
        kind = getattr(jsonschema_rs, _DIALECTS[self.dialect])
        if at_home:
            return kind(schema, validate_formats=formats, registry=self._registry)
        return kind(schema, validate_formats=formats, retriever=_retrieve_nothing)

    @cached_property
    def _registry(self) -> Any:
        """The document under an address of its own, so that references reach it from outside."""
        import jsonschema_rs

        root = {name: value for name, value in self._fields.items() if name != "$id"}
        return jsonschema_rs.Registry([(_HOME, root)], retriever=_retrieve_nothing)

    def refusal(self, value: Any, *, formats: bool) -> tuple[str, str]:
        """Return the JSON pointer of the keyword that refuses a value, and what it says."""
        for error in self._checker(self.root, formats).iter_errors(value):
            parts = [str(each).replace("~", "~0").replace("/", "~1") for each in error.schema_path]
            return "".join(f"/{each}" for each in parts), str(error.message)[:200]
        return "", "it is refused"


def _second_library(schema: Any, document: Document, formats: bool) -> Any:
    try:
        import jsonschema
        import referencing
        import referencing.jsonschema as specifications
    except ImportError as error:
        raise Undecided("no JSON Schema library: pip install jsonschema-rs") from error
    kind: Any = getattr(jsonschema, _DIALECTS[document.dialect])
    kind.check_schema(schema)
    anything: Any = specifications
    home = anything.specification_with(document.dialect).create_resource(document.root)
    empty: Any = referencing.Registry
    checker = kind.FORMAT_CHECKER if formats else None
    return kind(schema, registry=empty().with_resource(_HOME, home), format_checker=checker)


def _retrieve_nothing(uri: str) -> Any:
    raise ValueError(f"a tool's schema may not refer to {uri}")
