"""Schema compatibility on generated pairs: wrong answers, missing witnesses, unknowns, and cost.

Run `python benchmarks/schema_pairs.py [--pairs N] [--seed N] [--show] [--smoke]`. A tool's schema
is made up, changed a little (as releases change it), rewritten without a change, or set beside
another one; the oracle is jsonschema-rs on values sampled from both sides. A pair is a false
`compatible` when some sampled value is accepted by the narrower schema and refused by the wider; a
`breaking` must have a witness that jsonschema-rs accepts and refuses. Both must be 0, else the
script fails. `--smoke` takes a fresh seed, which it prints. Where jsonsubschema, jsoncompat or a
jsonschema-rs with `covers` are installed they answer the same pairs (`pip install jsoncompat`).
"""

from __future__ import annotations

import copy
import json
import random
import signal
import statistics
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clawhive_core.skills.compatibility import Compatibility, contains

PATTERNS = ("^a", "b$", "^[a-z]+$", "^[a-z]{2,4}$", r"^\d+$", "^(cat|dog)$", "^[A-Z][a-z]*$", "x")
PATTERNS += (r"^v\d+\.\d+$", "^[a-z0-9_-]{1,8}$", "^$", "a.c", r"^\w+$")
FORMATS = ("email", "date", "date-time", "uuid", "ipv4", "uri", "int64")
NAMES = ("a", "b", "id", "name", "query", "kind", "limit", "tags", "x-1", "x-2")
WORDS = ("", "a", "b", "ab", "abc", "cat", "dog", "Cat", "v1.0", "12", "x", "aXc", "zzzzzzzzzz")
OURS = "clawhive"
PATIENCE = 2.0
WORDS += ("2024-01-31", "a@b.co", "127.0.0.1", "https://a.b/c", "é", "a b", "abcdefghijk")
NUMBERS = (0, 1, -1, 2, 3, 5, 10, 100, 0.5, 1.5, 0.1, 0.25, -2.5, 1.0, 7, 12, 1e9)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two schemas, and how the second came from the first."""

    wider: Any
    narrower: Any
    how: str


class Maker:
    """Makes schemas up as tools have them."""

    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.definitions = rnd.sample(("Node", "Item", "Point"), rnd.choice((0, 0, 1, 2)))

    def root(self) -> dict[str, Any]:
        found = self.object(3) if self.rnd.random() < 0.8 else self.schema(3)
        found = found if isinstance(found, dict) else {"not": {}} if found is False else {}
        if self.definitions:
            found["$defs"] = {name: self.object(1) for name in self.definitions}
        return found

    def schema(self, depth: int) -> Any:
        rnd = self.rnd
        flat = (self.string, self.string, self.number, self.number, self.constant, self.simple)
        deep = (self.object, self.array, self.union, self.combined, self.reference)
        if depth <= 0 or rnd.random() < 0.55:
            return rnd.choice(flat)()
        return rnd.choice(deep)(depth - 1)

    def simple(self) -> Any:
        rnd = self.rnd
        if rnd.random() < 0.1:
            return rnd.choice((True, False, {}))
        kinds = ("string", "integer", "number", "boolean", "null", "array", "object")
        if rnd.random() < 0.25:
            return {"type": rnd.sample(kinds, 2)}
        return {"type": rnd.choice(kinds)}

    def string(self) -> dict[str, Any]:
        rnd = self.rnd
        found: dict[str, Any] = {"type": "string"}
        if rnd.random() < 0.25:
            found["minLength"] = rnd.randrange(4)
        if rnd.random() < 0.25:
            found["maxLength"] = rnd.randrange(2, 12)
        if rnd.random() < 0.3:
            found["pattern"] = rnd.choice(PATTERNS)
        elif rnd.random() < 0.15:
            found["format"] = rnd.choice(FORMATS)
        return found

    def number(self) -> dict[str, Any]:
        rnd = self.rnd
        found: dict[str, Any] = {"type": rnd.choice(("integer", "number"))}
        for name in ("minimum", "exclusiveMinimum"):
            if rnd.random() < 0.2:
                found[name] = rnd.choice((-10, -1, 0, 1, 0.5))
        for name in ("maximum", "exclusiveMaximum"):
            if rnd.random() < 0.2:
                found[name] = rnd.choice((2, 5, 10, 100, 7.5))
        if rnd.random() < 0.15:
            found["multipleOf"] = rnd.choice((2, 3, 4, 6, 0.5, 0.1, 0.25))
        return found

    def constant(self) -> dict[str, Any]:
        rnd = self.rnd
        pool = (*WORDS[:8], *NUMBERS[:6], True, None)
        if rnd.random() < 0.3:
            return {"const": rnd.choice(pool)}
        found: dict[str, Any] = {"enum": rnd.sample(WORDS[:9], rnd.randint(1, 4))}
        return {"type": "string", **found} if rnd.random() < 0.6 else found

    def object(self, depth: int) -> dict[str, Any]:
        rnd = self.rnd
        names = rnd.sample(NAMES, rnd.randint(0, 4))
        found: dict[str, Any] = {"type": "object"}
        found["properties"] = {name: self.schema(depth) for name in names}
        required = [name for name in names if rnd.random() < 0.45]
        if required:
            found["required"] = required
        if rnd.random() < 0.35:
            found["additionalProperties"] = False if rnd.random() < 0.7 else self.schema(0)
        if rnd.random() < 0.1:
            found["patternProperties"] = {rnd.choice(("^x-", "^[a-z]+$", "d")): self.schema(0)}
        if rnd.random() < 0.06:
            found["propertyNames"] = {"pattern": "^[a-z0-9-]+$", "maxLength": rnd.randint(2, 8)}
        if rnd.random() < 0.08:
            found[rnd.choice(("minProperties", "maxProperties"))] = rnd.randint(1, 4)
        if len(names) > 1 and rnd.random() < 0.08:
            found["dependentRequired"] = {names[0]: [names[1]]}
        return found

    def array(self, depth: int) -> dict[str, Any]:
        rnd = self.rnd
        found: dict[str, Any] = {"type": "array"}
        if rnd.random() < 0.85:
            found["items"] = self.schema(depth)
        if rnd.random() < 0.15:
            found["prefixItems"] = [self.schema(0) for _ in range(rnd.randint(1, 2))]
        if rnd.random() < 0.2:
            found["minItems"] = rnd.randint(0, 2)
        if rnd.random() < 0.2:
            found["maxItems"] = rnd.randint(2, 6)
        if rnd.random() < 0.1:
            found["uniqueItems"] = True
        if rnd.random() < 0.08:
            found["contains"] = self.schema(0)
        return found

    def union(self, depth: int) -> dict[str, Any]:
        rnd = self.rnd
        if rnd.random() < 0.35:
            return {"anyOf": [self.schema(depth), {"type": "null"}]}
        if rnd.random() < 0.4:
            cases = []
            for tag in rnd.sample(("x", "y", "z"), rnd.randint(2, 3)):
                case = self.object(depth - 1)
                case["properties"]["kind"] = {"const": tag}
                case["required"] = sorted({*case.get("required", ()), "kind"})
                cases.append(case)
            return {rnd.choice(("oneOf", "anyOf")): cases}
        count = rnd.randint(2, 3)
        return {rnd.choice(("anyOf", "oneOf")): [self.schema(depth) for _ in range(count)]}

    def combined(self, depth: int) -> dict[str, Any]:
        rnd = self.rnd
        match rnd.randrange(3):
            case 0:
                return {"allOf": [self.schema(depth), self.schema(depth)]}
            case 1:
                return {"type": rnd.choice(("string", "integer")), "not": self.constant()}
            case _:
                found = self.object(depth)
                name = rnd.choice(NAMES)
                found["if"] = {"properties": {name: self.constant()}, "required": [name]}
                found[rnd.choice(("then", "else"))] = {"required": [rnd.choice(NAMES)]}
                return found

    def reference(self, depth: int) -> dict[str, Any]:
        if not self.definitions:
            return self.object(depth)
        return {"$ref": f"#/$defs/{self.rnd.choice(self.definitions)}"}


def places(schema: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each sub-schema stands."""
    yield path
    if not isinstance(schema, dict):
        return
    for name in ("properties", "patternProperties", "$defs"):
        for key, value in schema.get(name, {}).items():
            yield from places(value, (*path, name, key))
    for name in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
        if name in schema:
            yield from places(schema[name], (*path, name))
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for key, value in enumerate(schema.get(name, [])):
            yield from places(value, (*path, name, key))


def at(schema: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        schema = schema[part]
    return schema


def replaced(schema: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        if isinstance(schema, dict) and "$defs" in schema and isinstance(new, dict):
            return {**new, "$defs": schema["$defs"]}
        return schema if isinstance(schema, dict) and "$defs" in schema else new
    copied = copy.copy(schema)
    copied[path[0]] = replaced(schema[path[0]], path[1:], new)
    return copied


def changed(schema: Any, maker: Maker) -> Any:
    """Return a schema with one of its parts changed as a release would."""
    rnd = maker.rnd
    path = rnd.choice(list(places(schema)))
    part = at(schema, path)
    if not isinstance(part, dict) or rnd.random() < 0.12:
        return replaced(schema, path, maker.schema(1))
    ways = [way for way in (_keyword, _property, _nullable, _number) if rnd.random() < 0.7]
    new = copy.deepcopy(part)
    for way in ways[:1]:
        new = way(new, maker)
    return replaced(schema, path, new)


def _keyword(part: dict[str, Any], maker: Maker) -> Any:
    rnd = maker.rnd
    removable = [name for name in part if name not in {"$defs", "$ref", "if"}]
    if removable and rnd.random() < 0.5:
        part.pop(rnd.choice(removable))
        return part
    fresh = {"string": maker.string, "integer": maker.number, "number": maker.number}
    kind = part.get("type")
    if kind == "object":
        part["additionalProperties"] = rnd.choice((False, True, {"type": "string"}))
        return part
    make = fresh.get(kind) if isinstance(kind, str) else None
    return {**part, **make(), "type": kind} if make else part


def _property(part: dict[str, Any], maker: Maker) -> Any:
    rnd = maker.rnd
    if "enum" in part:
        extra = [word for word in WORDS[:9] if word not in part["enum"]]
        part["enum"] = (
            [*part["enum"], rnd.choice(extra)] if rnd.random() < 0.5 else part["enum"][:1]
        )
    if part.get("type") == "object":
        name = rnd.choice(NAMES)
        if rnd.random() < 0.5:
            part.setdefault("properties", {})[name] = maker.schema(1)
        if rnd.random() < 0.4:
            part["required"] = sorted({*part.get("required", ()), name})
        elif part.get("required"):
            part["required"] = part["required"][1:]
    return part


def _nullable(part: dict[str, Any], maker: Maker) -> Any:
    inner = {name: value for name, value in part.items() if name != "$defs"}
    return {maker.rnd.choice(("anyOf", "oneOf")): [inner, {"type": "null"}]}


def _number(part: dict[str, Any], maker: Maker) -> Any:
    for name, value in part.items():
        if isinstance(value, int) and not isinstance(value, bool) and name != "const":
            part[name] = max(value + maker.rnd.choice((-1, 1)), 1 if name == "multipleOf" else 0)
    if part.get("type") in ("integer", "number"):
        part["type"] = maker.rnd.choice(("integer", "number"))
    return part


def rewritten(schema: Any, maker: Maker) -> Any:
    """Return another schema of the same meaning."""
    rnd = maker.rnd
    path = rnd.choice(list(places(schema)))
    part = at(schema, path)
    inner = part
    if isinstance(part, dict):
        inner = {name: value for name, value in part.items() if name != "$defs"}
    ways: list[Any] = [{"allOf": [inner]}, {"anyOf": [inner, False]}, {"not": {"not": inner}}]
    ways.append({"oneOf": [inner, {"not": True}]})
    if isinstance(inner, dict):
        ways.append({**inner, "description": "told otherwise", "default": None})
        ways.append(dict(reversed(list(inner.items()))))
        if isinstance(inner.get("type"), list):
            ways.append({"allOf": [inner, {"anyOf": [{"type": each} for each in inner["type"]]}]})
        if len(inner.get("enum", ())) > 1:
            ways.append({"allOf": [inner, {"anyOf": [{"const": each} for each in inner["enum"]]}]})
    return replaced(schema, path, rnd.choice(ways))


def made_pair(rnd: random.Random) -> Pair:
    """Return two schemas to compare, which are never written alike."""
    while True:
        pair = _any_pair(rnd)
        if json.dumps(pair.wider, sort_keys=True) != json.dumps(pair.narrower, sort_keys=True):
            return pair


def _any_pair(rnd: random.Random) -> Pair:
    maker = Maker(rnd)
    first, draw = maker.root(), rnd.random()
    if draw < 0.1:
        return Pair(first, maker.root(), "independent")
    second, how = first, "changed" if draw < 0.8 else "rewritten"
    for _ in range(rnd.randint(1, 3)):
        second = (changed if how == "changed" else rewritten)(second, maker)
    pair = (first, second) if rnd.random() < 0.5 else (second, first)
    return Pair(*pair, how)


class Sampler:
    """Draws values that a schema is likely to accept, or nearly."""

    def __init__(self, root: Any, rnd: random.Random) -> None:
        self._root = root
        self._rnd = rnd

    def value(self, schema: Any, depth: int = 6) -> Any:  # noqa: PLR0911 - a case a keyword
        rnd = self._rnd
        if not isinstance(schema, dict) or depth <= 0 or rnd.random() < 0.04:
            return self.anything()
        if "$ref" in schema:
            return self.value(self._target(schema["$ref"]), depth - 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return rnd.choice(schema["enum"])
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return self.value(rnd.choice(schema[name]), depth - 1)
        if "allOf" in schema:
            parts = [self.value(each, depth - 1) for each in schema["allOf"]]
            if all(isinstance(each, dict) for each in parts):
                return {name: value for each in parts for name, value in each.items()}
            return rnd.choice(parts)
        kind = schema.get("type", "object" if "properties" in schema else None)
        kind = rnd.choice(kind) if isinstance(kind, list) else kind
        return self._typed(kind, schema, depth - 1)

    def _target(self, reference: str) -> Any:
        found = self._root
        for part in reference[2:].split("/"):
            found = found[part]
        return found

    def _typed(self, kind: str | None, schema: Any, depth: int) -> Any:  # noqa: PLR0911 - a case a type
        rnd = self._rnd
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = schema.get("minItems", 0)
                most = min(schema.get("maxItems", least + 3), least + 3)
                items = schema.get("items", True)
                prefix = schema.get("prefixItems", [])
                count = rnd.randint(least, max(most, least))
                shapes = [*prefix, *[items] * count][: max(count, 0)]
                return [self.value(each, depth) for each in shapes]
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return self._number(schema, kind)
            case "boolean":
                return rnd.random() < 0.5
            case "null":
                return None
            case _:
                return self.anything()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        rnd = self._rnd
        required = set(schema.get("required", ()))
        chance = rnd.choice((0.2, 0.6, 1.0))
        shapes = {**schema.get("properties", {})}
        for name in required:
            shapes.setdefault(name, schema.get("additionalProperties", True))
        found = {
            name: self.value(shape, depth)
            for name, shape in shapes.items()
            if (name in required and rnd.random() > 0.03) or rnd.random() < chance
        }
        if rnd.random() < 0.3 and schema.get("additionalProperties", True) is not False:
            found[rnd.choice((*NAMES, "new"))] = self.anything()
        return found

    def _string(self, schema: dict[str, Any]) -> str:
        rnd = self._rnd
        if "pattern" in schema or "format" in schema or rnd.random() < 0.4:
            return rnd.choice(WORDS)
        least = schema.get("minLength", 0)
        length = rnd.randint(least, max(schema.get("maxLength", least + 4), least))
        return "".join(rnd.choice(string.ascii_lowercase[:4]) for _ in range(length))

    def _number(self, schema: dict[str, Any], kind: str) -> float:
        rnd = self._rnd
        edges = [value for value in schema.values() if isinstance(value, int | float)] or [0]
        step = schema.get("multipleOf", 1)
        near = rnd.choice(edges) + rnd.choice((-1, 0, 0, 1, 2)) * step
        number = rnd.choice((near, rnd.choice(NUMBERS), rnd.randint(-5, 50) * step))
        return round(number) if kind == "integer" and rnd.random() < 0.9 else number

    def anything(self) -> Any:
        rnd = self._rnd
        pool = (*WORDS[:6], *NUMBERS[:6], True, False, None, [], {}, [1], {"a": 1}, {"kind": "x"})
        return copy.deepcopy(rnd.choice(pool))


def validators(schema: Any) -> list[Callable[[Any], bool]]:
    """Return the oracle: asserting formats, and not."""
    import jsonschema_rs

    kind = jsonschema_rs.Draft202012Validator
    return [kind(schema, validate_formats=each).is_valid for each in (True, False)]


def refuting(pair: Pair, rnd: random.Random, samples: int) -> list[Any]:
    """Return sampled values that show the wider schema to refuse what the narrower accepts."""
    drawn = [
        sampler.value(schema)
        for schema in (pair.narrower, pair.wider)
        for sampler in [Sampler(schema, rnd)]
        for _ in range(samples)
    ]
    sides = zip(validators(pair.narrower), validators(pair.wider), strict=True)
    return [
        value
        for inside, outside in sides
        for value in drawn
        if inside(value) and not outside(value)
    ]


def is_witness(pair: Pair, value: Any) -> bool:
    """Whether the narrower schema accepts a value and the wider refuses it."""
    sides = zip(validators(pair.narrower), validators(pair.wider), strict=True)
    return any(inside(value) and not outside(value) for inside, outside in sides)


@dataclass(slots=True)
class Score:
    """What one comparer answered."""

    name: str
    verdicts: Counter[str] = field(default_factory=Counter)
    false_compatible: int = 0
    without_witness: int = 0
    seconds: list[float] = field(default_factory=list)
    shown: int = 0
    """How many of the breaking pairs the sampled values break too."""

    def add(self, pair: Pair, answer: Compatibility, took: float, refuted: list[Any]) -> str:
        self.seconds.append(took)
        self.verdicts[answer.verdict] += 1
        if answer.verdict == "compatible" and refuted:
            self.false_compatible += 1
            return f"false compatible, refuted by {refuted[0]!r}"
        self.shown += answer.verdict == "breaking" and bool(refuted)
        if self.name != OURS:
            return ""
        if answer.verdict == "breaking" and not is_witness(pair, answer.witness):
            self.without_witness += 1
            return "breaking without a witness"
        return f"unknown: {answer.reason}" if answer.verdict == "unknown" else ""

    def row(self) -> list[str]:
        total = sum(self.verdicts.values())
        micros = [each * 1e6 for each in self.seconds]
        counts = [str(self.verdicts[each]) for each in ("compatible", "breaking")]
        return [
            *(self.name, *counts, f"{100 * self.verdicts['unknown'] / total:.1f}"),
            *(str(self.false_compatible), str(self.without_witness) if self.name == OURS else "-"),
            str(self.shown),
            f"{statistics.median(micros):.0f}",
            f"{statistics.mean(micros):.0f}",
            f"{max(micros):.0f}",
        ]


def _covers(wider: Any, narrower: Any) -> Compatibility:
    import jsonschema_rs

    made = [jsonschema_rs.canonicalize(each) for each in (wider, narrower)]
    yes = str(made[0].covers(made[1])) == "yes"
    return Compatibility("compatible" if yes else "unknown")


def _jsonsubschema(wider: Any, narrower: Any) -> Compatibility:
    import jsonsubschema

    yes = jsonsubschema.isSubschema(narrower, wider)
    return Compatibility("compatible" if yes else "breaking")


def _jsoncompat(wider: Any, narrower: Any) -> Compatibility:
    import jsoncompat

    old, new = json.dumps(narrower), json.dumps(wider)
    yes = jsoncompat.check_compat(old, new, "deserializer")
    return Compatibility("compatible" if yes else "breaking")


def peers() -> dict[str, Callable[[Any, Any], Compatibility]]:
    """Return the other comparers that are installed."""
    from importlib.util import find_spec

    import jsonschema_rs

    others = {"jsonsubschema": _jsonsubschema, "jsoncompat": _jsoncompat}
    covers = {"jsonschema-rs covers": _covers} if hasattr(jsonschema_rs, "canonicalize") else {}
    return covers | {name: answer for name, answer in others.items() if find_spec(name)}


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError(f"no answer in {PATIENCE} s")


def asked(answer: Callable[[Any, Any], Compatibility], pair: Pair) -> tuple[Compatibility, float]:
    started = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)  # a peer may never end
    try:
        found = answer(pair.wider, pair.narrower)
    except Exception as error:  # noqa: BLE001 - a peer that fails is counted, whatever it raises
        found = Compatibility("unknown", reason=f"{type(error).__name__}: {error}"[:80])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return found, time.process_time() - started


def main() -> None:
    import measure

    signal.signal(signal.SIGALRM, _give_up)
    given = measure.arguments(
        __doc__,
        ("--pairs", {"type": int, "default": 2_000}),
        ("--seed", {"type": int, "default": 20261122}),
        ("--show", {"action": "store_true", "help": "print each pair that is not decided"}),
    )
    seed = random.SystemRandom().randrange(10**9) if given.smoke else given.seed
    count, samples = (300, 40) if given.smoke else (given.pairs, 120)
    print(f"seed {seed}, {count} pairs, {2 * samples} values a pair")
    scores = {name: Score(name) for name in (OURS, *peers())}
    for number in range(count):
        pair = made_pair(random.Random(f"{seed}/{number}"))
        refuted = refuting(pair, random.Random(f"{seed}/{number}/values"), samples)
        answer, took = contains_timed(pair)
        said = scores[OURS].add(pair, answer, took, refuted)
        if said and (given.show or not said.startswith("unknown")):
            print(f"{number}: {said}\n  wider    {json.dumps(pair.wider)}")
            print(f"  narrower {json.dumps(pair.narrower)}")
        for name, other in peers().items():
            scores[name].add(pair, *asked(other, pair), refuted)
    header = (
        "comparer",
        "compatible",
        "breaking",
        "unknown %",
        "false comp.",
        "no witness",
        "values show",
    )
    times = ("us median", "us mean", "us max")
    measure.table((*header, *times), [each.row() for each in scores.values()])
    ours = scores[OURS]
    measure.finish(
        "schema_pairs",
        {"seed": seed, **dict(zip((*header, *times)[1:], ours.row()[1:], strict=True))},
    )
    if ours.false_compatible or ours.without_witness:
        sys.exit(1)


contains_timed: Callable[[Pair], tuple[Compatibility, float]] = partial(asked, contains)


if __name__ == "__main__":
    import measure

    measure.start(main)
