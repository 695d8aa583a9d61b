"""The expansion of a literal for one type: facts, and branches of which one must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clawhive_core.model.late import dataclass
from clawhive_core.skills.compatibility.literal import (
    SAMPLES,
    Atom,
    Branch,
    Choice,
    Later,
    Literal,
    Part,
)

TYPES = ("object", "string", "number", "array", "boolean", "null")
_MAX_COUNTED = 8
_UNREAD = {
    "unevaluatedItems": "array",
    "unevaluatedProperties": "object",
    "dependencies": "object",
    "$dynamicRef": "",
    "$recursiveRef": "",
}
"""Keywords that are not reasoned about, and the type of value that they are about."""
_LATER = ("prefixItems", "minContains", "maxContains", "dependentRequired", "dependentSchemas")
"""Keywords of draft 2020-12 that some older dialect ignores."""


@dataclass(frozen=True, slots=True, eq=False)
class OtherKey:
    """A property that must be there: one outside `names`, whose name and value meet literals."""

    names: frozenset[str]
    inside: tuple[str, ...]
    """Patterns that its name matches."""
    outside: tuple[str, ...]
    """Patterns that its name does not match."""
    named: tuple[Literal, ...]
    values: tuple[Literal, ...]


def type_of(value: Any) -> str:
    """Return a JSON value's type; integers are numbers."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def declared_types(schema: Any) -> frozenset[str]:
    """Return the types that a schema's own `type` leaves."""
    if isinstance(schema, bool) or "type" not in schema:
        return frozenset(TYPES)
    return frozenset("number" if each == "integer" else each for each in _types(schema))


def _types(schema: Any) -> Sequence[str]:
    found: Any = schema["type"]
    return [found] if isinstance(found, str) else found


def expand(literal: Literal, kind: str) -> list[Branch]:
    """Return what must hold of a value of this type; a branch without ways is a contradiction.

    Raises:
        Undecided: A reference cannot be followed.
    """
    schema = literal.schema
    if not isinstance(schema, dict):
        return [] if schema is literal.wanted else [[]]
    if kind not in declared_types(schema):
        return [[]] if literal.wanted else []
    keywords = _keywords(literal, kind)
    if literal.wanted:
        return [way for name in keywords for way in _HANDLERS[name].wanted(literal)]
    return [[way for name in keywords for way in _HANDLERS[name].unwanted(literal)]]


def _keywords(literal: Literal, kind: str) -> list[str]:
    schema: dict[str, Any] = literal.schema
    if literal.document.dialect.startswith("http:") and "$ref" in schema:
        return ["$ref"]  # draft 7 ignores what stands beside a reference
    found = [name for name in schema if name in _EVERY or name in _OF_TYPE[kind]]
    if kind != "number":
        found = [name for name in found if name != "type"]  # all that it says has been read
    unread = [name for name in schema if _UNREAD.get(name) in {"", kind}]
    if not literal.document.is_newest:
        later = [name for name in _LATER if name in schema]
        unread += [*later, "items", "contains"] if later else []
        unread += ["items"] if isinstance(schema.get("items"), list) else []
    return [name for name in found if name not in unread] + (["unread"] if unread else [])


@dataclass(frozen=True, slots=True)
class _Handler:
    wanted: Callable[[Literal], list[Branch]]
    unwanted: Callable[[Literal], Branch]


def _one(*parts: Part) -> list[Branch]:
    return [[list(parts)]]


def _subs(literal: Literal, name: str, *, wanted: bool) -> list[Literal]:
    keys = range(len(literal.schema[name]))
    return [literal.below(name, key, wanted=wanted) for key in keys]


def _target(literal: Literal) -> Literal:
    found, pointer = literal.document.resolve(literal.schema["$ref"])
    return Literal(found, literal.document, pointer, literal.wanted)


def _only_integers(literal: Literal) -> bool:
    """Whether only integers are left of the numbers."""
    kinds = _types(literal.schema)
    return "integer" in kinds and "number" not in kinds


def _exactly_one(literal: Literal) -> list[Branch]:
    good = _subs(literal, "oneOf", wanted=True)
    bad = _subs(literal, "oneOf", wanted=False)
    return [[[each, Later([*bad[:at], *bad[at + 1 :]])] for at, each in enumerate(good)]]


def _not_exactly_one(literal: Literal) -> Branch:
    good = _subs(literal, "oneOf", wanted=True)
    two: Branch = [
        [each, Choice([[other] for other in good[place + 1 :]])]
        for place, each in enumerate(good[:-1])
    ]
    return [list(_subs(literal, "oneOf", wanted=False)), *two]


def _condition(literal: Literal) -> list[Branch]:
    ways: Branch = []
    for name, met in (("then", True), ("else", False)):
        ways.append([literal.below("if", wanted=met)])
        if name in literal.schema:
            ways[-1].append(literal.below(name, wanted=True))
    return [ways] if {"then", "else"} & set(literal.schema) else []


def _not_condition(literal: Literal) -> Branch:
    return [
        [literal.below("if", wanted=met), literal.below(name, wanted=False)]
        for name, met in (("then", True), ("else", False))
        if name in literal.schema
    ]


def _fact(name: str, kind: str) -> _Handler:
    """Return the handler of a keyword whose failing is the same fact, unwanted."""
    return _Handler(
        lambda literal: _one(Atom(kind, literal.schema[name])),
        lambda literal: [[Atom(kind, literal.schema[name], wanted=False)]],
    )


def _low(name: str, *, is_open: bool) -> _Handler:
    return _Handler(
        lambda literal: _one(Atom("low", (literal.schema[name], is_open))),
        lambda literal: [[Atom("high", (literal.schema[name], not is_open))]],
    )


def _high(name: str, *, is_open: bool) -> _Handler:
    return _Handler(
        lambda literal: _one(Atom("high", (literal.schema[name], is_open))),
        lambda literal: [[Atom("low", (literal.schema[name], not is_open))]],
    )


def _least(name: str) -> _Handler:
    def unwanted(literal: Literal) -> Branch:
        count = int(literal.schema[name])
        return [[Atom("most", count - 1)]] if count > 0 else []

    return _Handler(lambda literal: _one(Atom("least", int(literal.schema[name]))), unwanted)


def _most(name: str) -> _Handler:
    return _Handler(
        lambda literal: _one(Atom("most", int(literal.schema[name]))),
        lambda literal: [[Atom("least", int(literal.schema[name]) + 1)]],
    )


def _format(literal: Literal) -> Branch:
    if literal.schema["format"] not in SAMPLES:
        return [] if not literal.wanted else [[]]
    return [[Atom("format", literal.schema["format"], wanted=literal.wanted)]]


def _everywhere(name: str, unwanted: Callable[[Literal], Branch]) -> _Handler:
    """Return the handler of a keyword that speaks of each element or property."""
    return _Handler(lambda literal: _one(Atom(name, literal)), unwanted)


def _bad_element(literal: Literal) -> Branch:
    start = len(literal.schema.get("prefixItems", ()))
    return [[Atom("element", (start, literal.below("items", wanted=False)))]]


def _bad_prefix(literal: Literal) -> Branch:
    found = _subs(literal, "prefixItems", wanted=False)
    return [
        [Atom("at", (place, each)), Atom("least", place + 1)] for place, each in enumerate(found)
    ]


def _counted(literal: Literal, count: int) -> list[Part]:
    """Return that at least so many elements meet `contains`."""
    inside = literal.below("contains", wanted=True)
    if count > _MAX_COUNTED:
        return [Atom("unread", "contains")]
    elements: list[Part] = [Atom("element", (0, inside)) for _ in range(count)]
    return [Atom("least", count), *elements]


def _contains(literal: Literal) -> list[Branch]:
    parts = _counted(literal, int(literal.schema.get("minContains", 1)))
    most = literal.schema.get("maxContains")
    if most == 0:
        parts.append(Atom("all", literal.below("contains", wanted=False)))
    elif most is not None:
        parts.append(Atom("unread", "maxContains"))
    return _one(*parts)


def _not_contains(literal: Literal) -> Branch:
    least, most = literal.schema.get("minContains", 1), literal.schema.get("maxContains")
    ways: Branch = []
    if least == 1:
        ways.append([Atom("all", literal.below("contains", wanted=False))])
    elif least > 1:
        ways.append([Atom("unread", "minContains")])
    if most is not None:
        ways.append(_counted(literal, int(most) + 1))
    return ways


def _unique(literal: Literal) -> Branch:
    if not literal.schema["uniqueItems"]:
        return [[]] if literal.wanted else []
    return [[Atom("unique")] if literal.wanted else [Atom("same"), Atom("least", 2)]]


def _bad_properties(literal: Literal) -> Branch:
    return [
        [Atom("value", (name, literal.below("properties", name, wanted=False)))]
        for name in literal.schema["properties"]
    ]


def _bad_patterns(literal: Literal) -> Branch:
    return [
        [Atom("other", OtherKey(frozenset(), (pattern,), (), (), (bad,)))]
        for pattern in literal.schema["patternProperties"]
        for bad in [literal.below("patternProperties", pattern, wanted=False)]
    ]


def _bad_additional(literal: Literal) -> Branch:
    names = frozenset(literal.schema.get("properties", ()))
    patterns = tuple(literal.schema.get("patternProperties", ()))
    bad = literal.below("additionalProperties", wanted=False)
    return [[Atom("other", OtherKey(names, (), patterns, (), (bad,)))]]


def _bad_names(literal: Literal) -> Branch:
    bad = literal.below("propertyNames", wanted=False)
    return [[Atom("other", OtherKey(frozenset(), (), (), (bad,), ()))]]


def _required(literal: Literal) -> list[Branch]:
    return _one(*(Atom("present", name) for name in literal.schema["required"]))


def _not_required(literal: Literal) -> Branch:
    return [[Atom("absent", name)] for name in literal.schema["required"]]


def _dependent(literal: Literal) -> list[Branch]:
    return [
        [[Atom("absent", name)], [Atom("present", each) for each in (name, *needed)]]
        for name, needed in literal.schema["dependentRequired"].items()
    ]


def _not_dependent(literal: Literal) -> Branch:
    return [
        [Atom("present", name), Atom("absent", each)]
        for name, needed in literal.schema["dependentRequired"].items()
        for each in needed
    ]


def _dependent_schemas(literal: Literal) -> list[Branch]:
    return [
        [
            [Atom("absent", name)],
            [Atom("present", name), literal.below("dependentSchemas", name, wanted=True)],
        ]
        for name in literal.schema["dependentSchemas"]
    ]


def _not_dependent_schemas(literal: Literal) -> Branch:
    return [
        [Atom("present", name), literal.below("dependentSchemas", name, wanted=False)]
        for name in literal.schema["dependentSchemas"]
    ]


def _values(get: Callable[[Any], list[Any]], name: str) -> _Handler:
    return _Handler(
        lambda literal: _one(Atom("enum", get(literal.schema[name]))),
        lambda literal: [[Atom("enum", get(literal.schema[name]), wanted=False)]],
    )


_UNREAD_HANDLER = _Handler(lambda _: _one(Atom("unread")), lambda _: [[Atom("unread")]])
_EVERY: dict[str, _Handler] = {
    "type": _Handler(
        lambda literal: _one(Atom("integer")) if _only_integers(literal) else [],
        lambda literal: [[Atom("integer", wanted=False)]] if _only_integers(literal) else [],
    ),
    "enum": _values(list, "enum"),
    "const": _values(lambda value: [value], "const"),
    "$ref": _Handler(lambda literal: _one(_target(literal)), lambda literal: [[_target(literal)]]),
    "allOf": _Handler(
        lambda literal: _one(*_subs(literal, "allOf", wanted=True)),
        lambda literal: [[each] for each in _subs(literal, "allOf", wanted=False)],
    ),
    "anyOf": _Handler(
        lambda literal: [[[each] for each in _subs(literal, "anyOf", wanted=True)]],
        lambda literal: [list(_subs(literal, "anyOf", wanted=False))],
    ),
    "oneOf": _Handler(_exactly_one, _not_exactly_one),
    "not": _Handler(
        lambda literal: _one(literal.below("not", wanted=False)),
        lambda literal: [[literal.below("not", wanted=True)]],
    ),
    "if": _Handler(_condition, _not_condition),
}
_OF_TYPE: dict[str, dict[str, _Handler]] = {
    "null": {},
    "boolean": {},
    "number": {
        "minimum": _low("minimum", is_open=False),
        "exclusiveMinimum": _low("exclusiveMinimum", is_open=True),
        "maximum": _high("maximum", is_open=False),
        "exclusiveMaximum": _high("exclusiveMaximum", is_open=True),
        "multipleOf": _fact("multipleOf", "step"),
    },
    "string": {
        "minLength": _least("minLength"),
        "maxLength": _most("maxLength"),
        "pattern": _fact("pattern", "pattern"),
        "format": _Handler(lambda literal: [_format(literal)], _format),
    },
    "array": {
        "minItems": _least("minItems"),
        "maxItems": _most("maxItems"),
        "items": _everywhere("items", _bad_element),
        "prefixItems": _everywhere("prefixItems", _bad_prefix),
        "contains": _Handler(_contains, _not_contains),
        "uniqueItems": _Handler(lambda literal: [_unique(literal)], _unique),
    },
    "object": {
        "minProperties": _least("minProperties"),
        "maxProperties": _most("maxProperties"),
        "properties": _everywhere("properties", _bad_properties),
        "patternProperties": _everywhere("patternProperties", _bad_patterns),
        "additionalProperties": _everywhere("additionalProperties", _bad_additional),
        "propertyNames": _everywhere("propertyNames", _bad_names),
        "required": _Handler(_required, _not_required),
        "dependentRequired": _Handler(_dependent, _not_dependent),
        "dependentSchemas": _Handler(_dependent_schemas, _not_dependent_schemas),
    },
}
_HANDLERS = {"unread": _UNREAD_HANDLER, **_EVERY} | {
    name: handler for table in _OF_TYPE.values() for name, handler in table.items()
}
