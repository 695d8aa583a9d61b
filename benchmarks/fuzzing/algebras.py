"""Capabilities, JSON Schemas and policies, each beside a second opinion."""

from __future__ import annotations

import asyncio  # noqa: TID253 - checks are asked in a loop of their own
import math
import random
import warnings
from pathlib import Path
from typing import Any

import jsonschema  # noqa: TID253 - the second opinion
from fuzzing.judging import Verdict, coded, require
from fuzzing.making import (
    ODD_NUMBERS,
    ODD_TEXTS,
    Case,
    changed,
    changed_bytes,
    changed_text,
    scalar,
    text,
    value,
)

from clawhive_cedar import CedarCheck
from clawhive_core import PolicyRequest
from clawhive_core.capabilities import VERBS, Capability, concrete, contains, meet, overlaps, parse
from clawhive_core.catalog.validation import compile_schema
from clawhive_core.errors import ClawHiveError
from clawhive_core.model.grants import CapabilityGrant
from clawhive_core.model.json_values import json_object
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.tools import ToolMeta
from clawhive_core.policy.rules import Rules
from clawhive_core.skills.compatibility import contains as schema_contains
from clawhive_core.skills.contracts.schema import schema_problem

HERE = {"workspace": "/w", "run": "/w/out", "home": "/home/u"}
PIECES = (
    *ODD_TEXTS, "?", "&", "*", "/*", "/**", "**", "..", "/./", "${workspace}", "${home}", "%2A",
    "%2F",
    "%zz", "uses<=3", "until=2030-01-01T00:00:00Z", "x in {a,'b',1}", "x<=5", "x>=1e3", "x={a}",
    ":80",
    "https://", "HTTP://", "user@", "[::1]", "0x7f.1", "127.1", "a.b.", "#f", "?q=1", "\\", ";",
    "|",
    "é.com", "xn--caf-dma.com", "%E2%80%AE", "//", "file:", "tool.call:", "host.x:", "${nobody}",
)  # fmt: skip
LINES = (
    *(f"{name}:{verb.example}" for name, verb in VERBS.items()),
    "fs.write:${workspace}/reports/**",
    "net.http:https://*.example.com/a/*",
    "tool.call:file.*?path in {a,b}&uses<=2",
    "sandbox.exec:git status **",
)


class Capabilities:
    """Patterns: read, written, compared with each other and against a naive matcher."""

    def __init__(self, _: Path) -> None:
        pass

    def make(self, rnd: random.Random) -> Case:
        return [self.line(rnd) for _ in range(3)]

    def line(self, rnd: random.Random) -> str:
        """Return a pattern, valid or not."""
        found = rnd.choice(LINES)
        if rnd.random() < 0.1:
            return text(rnd)
        for _ in range(rnd.randrange(4)):
            if rnd.random() < 0.7:
                at = rnd.randrange(len(found) + 1)
                found = found[:at] + rnd.choice(PIECES) + found[at:]
            else:
                found = changed_text(rnd, found)
        return found

    def judge(self, case: Case) -> Verdict:
        found: list[Capability] = []
        verdict: Verdict = "taken"
        for line in case:
            try:
                found.append(parse(line, HERE))
            except ClawHiveError as error:
                verdict = coded(error)
            verb, _, resource = line.partition(":")
            try:
                named = concrete(verb, resource)
            except ClawHiveError as error:
                coded(error)
            else:
                require(named.is_concrete, f"{named} stands for more than one thing")
        for one in found:
            again = parse(one.text)
            require(again == one, f"{one.text} is read as {again.text}")
            require(contains(one, one), f"{one.text} does not contain itself")
            for other in found:
                _hold_pair(one, other)
        return verdict


def _hold_pair(one: Capability, other: Capability) -> None:
    """Check a pair's algebra against its own laws and the naive matcher."""
    covers, met = contains(one, other), meet(one, other)
    require(overlaps(one, other) == (met is not None), "overlaps and meet differ")
    if met is not None:
        require(contains(one, met) and contains(other, met), f"the meet {met} is not in both")
        require(parse(met.text) == met, f"the meet {met} is read otherwise")
    if covers:
        require(met == other, f"{one} contains {other}, their meet is {met}")
    if one.verb == other.verb and not (one.constraints or other.constraints):
        pairs = zip(one.parts, other.parts, strict=True)
        naive = all(_naive(list(mine), list(theirs)) for mine, theirs in pairs)
        require(covers == naive, f"{one} covers {other}: {covers}, naively {naive}")


def _naive(pattern: list[str], wanted: list[str]) -> bool:
    if not pattern:
        return not wanted
    if pattern == ["**"]:
        return True
    if not wanted or wanted[0] == "**":
        return False
    return pattern[0] in ("*", wanted[0]) and _naive(pattern[1:], wanted[1:])


SCHEMAS: tuple[Any, ...] = (
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
            "n": {"type": "integer", "minimum": 0, "exclusiveMaximum": 10, "multipleOf": 2},
            "l": {"type": "array", "items": {"enum": ["x", 1, None]}, "uniqueItems": True},
            "o": {"$ref": "#/$defs/o"},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"o": {"type": "object", "patternProperties": {"^x-": {"type": "number"}}}},
    },
    {"anyOf": [{"type": "string"}, {"type": "null"}, {"const": 1.0}], "not": {"const": "b"}},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 0.5}]},
    {"if": {"type": "string"}, "then": {"format": "date"}, "else": {"type": ["number", "null"]}},
    {"type": "array", "prefixItems": [{"type": "string"}], "contains": {"const": 1}, "maxItems": 4},
    {"$defs": {"n": {"properties": {"c": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
    {"propertyNames": {"maxLength": 3}, "minProperties": 1, "dependentRequired": {"a": ["b"]}},
)
KEYWORDS = (
    "type", "enum", "const", "pattern", "minLength", "maximum", "items", "properties", "required",
    "$ref", "$id", "$anchor", "$dynamicRef", "$schema", "not", "anyOf", "allOf", "format",
    "multipleOf",
    "unevaluatedProperties", "dependentSchemas", "contains", "minContains", "contentEncoding",
)  # fmt: skip
REFERENCES = (
    "#", "#/", "#/$defs/n", "#/$defs/o/x", "http://127.0.0.1:9/x.json", "file:///etc/passwd", "n",
    "",
    "#/properties/a", "urn:x", "https://json-schema.org/draft/2020-12/schema", "#n", "../x",
)  # fmt: skip
REGEXES = (
    "^[a-z]+$", "(a+)+$", "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "\\p{L}", "(?<n>a)\\k<n>",
    "[", "(?i)a",
    "\\d{1,1000}", "(x{1,999}){1,999}", "a{99999999}", "(?=a)b", "\\Z", "[^]", "\\u{1F600}",
    "\x00", "(" * 500,
    "(?:a?){40}a{40}", "\\w+@\\w+", "(?P<a>x)", "a**", "\\cA", "^\\S*$",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, 1.0, 2, -1, 0.5, 10, "", "a", "b", "abcdef", "2024-01-31", "é", [], ["x"],
    ["x", "x"],
    [1, 1.0], [1, True], {}, {"a": "a"}, {"a": "a", "n": 2}, {"a": "a", "o": {"x-1": "t"}},
    {"c": {"c": 1}},
    "a" * 30 + "!", {"b": 1}, [["x"]], 2**53 + 1, 1e400,
)  # fmt: skip
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIMPLE = frozenset((
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "allOf", "oneOf", "not", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties",
    "maxProperties", "prefixItems", "contains", "propertyNames", "dependentRequired",
))  # fmt: skip
"""What every library means the same by; of patterns, formats and references they differ."""


class Schemas:
    """JSON Schemas of tools: checked, values checked against them, compared with each other."""

    def __init__(self, _: Path) -> None:
        warnings.simplefilter("ignore")

    def make(self, rnd: random.Random) -> Case:
        schemas = [self._schema(rnd), self._schema(rnd)]
        values = [rnd.choice(VALUES) if rnd.random() < 0.7 else value(rnd) for _ in range(4)]
        return (schemas, values)

    def _schema(self, rnd: random.Random) -> Any:
        found = rnd.choice(SCHEMAS)
        if rnd.random() < 0.6:
            found = changed(rnd, found, 2)
        if isinstance(found, dict) and rnd.random() < 0.6:
            word = rnd.choice(KEYWORDS)
            inner = rnd.choice(SCHEMAS) if rnd.random() < 0.3 else value(rnd, 2)
            if word in {"$ref", "$id", "$dynamicRef"}:
                inner = rnd.choice(REFERENCES)
            elif word == "pattern" or rnd.random() < 0.1:
                inner = rnd.choice(REGEXES)
            found = {**found, word: inner}
        return found

    def judge(self, case: Case) -> Verdict:
        schemas, values = case
        verdict: Verdict = "taken"
        for schema in schemas:
            if not isinstance(schema, dict):
                continue
            mistake = schema_problem(schema)
            check = compile_schema(schema)
            for each in values:
                problems = check(each)
                if problems and "cannot be used" in problems[0].message:
                    verdict = "refused"
                elif mistake is None:
                    self._second(schema, each, bool(problems))
        if all(isinstance(each, dict | bool) for each in schemas):
            self._compare(*schemas)
        return verdict

    def _second(self, schema: Any, each: Any, refused: bool) -> None:
        """Check a verdict against another library's, where both mean the same."""
        if not (_is_simple(schema) and _is_plain(each) and _is_plain(schema)):
            return
        try:
            second = jsonschema.Draft202012Validator(schema).is_valid(each)
        except Exception as error:
            if isinstance(error, RecursionError | TypeError | ValueError | LookupError):
                return
            raise
        require(second != refused, f"{each!r}: refused {refused}, by jsonschema {not second}")

    def _compare(self, one: Any, other: Any) -> None:
        found = schema_contains(one, other)
        require(found.verdict in {"compatible", "breaking", "unknown"}, found.verdict)
        if not (_is_simple(one) and _is_simple(other) and _is_plain([one, other])):
            return
        if any(schema_problem(each) for each in (one, other) if isinstance(each, dict)):
            return
        wider, narrower = (jsonschema.Draft202012Validator(each) for each in (one, other))
        if found.verdict == "breaking":
            wrong = wider.is_valid(found.witness) or not narrower.is_valid(found.witness)
            require(not wrong, f"{found.witness!r} is no witness")
        elif found.verdict == "compatible":
            for each in filter(_is_plain, VALUES):
                both = narrower.is_valid(each) and not wider.is_valid(each)
                require(not both, f"{each!r} shows that it is not compatible")


def _is_simple(schema: Any) -> bool:
    """Whether a schema has only such keywords."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict) or not schema.keys() <= SIMPLE:
        return False
    named = schema.get("properties", {})
    inner = [*named.values()] if isinstance(named, dict) else [None]
    for word in ("items", "not", "additionalProperties", "contains", "propertyNames"):
        inner += [schema[word]] if word in schema else []
    for word in ("anyOf", "allOf", "oneOf", "prefixItems"):
        given = schema.get(word, [])
        inner += given if isinstance(given, list) else [None]
    return all(map(_is_simple, inner))


def _is_plain(found: Any, depth: int = 0) -> bool:
    """Whether a value is JSON that all libraries read alike."""
    if isinstance(found, float):
        return found.is_integer() is False and abs(found) < 1e6 and not math.isnan(found)
    if isinstance(found, int):
        return abs(found) < 2**53
    if isinstance(found, str):
        return not any("\ud800" <= each <= "\udfff" for each in found)
    if depth > 12:
        return False
    if isinstance(found, dict):
        return all(_is_plain(key) and _is_plain(found[key], depth + 1) for key in found)
    return all(_is_plain(each, depth + 1) for each in found) if isinstance(found, list) else True


CEDAR = """\
@id("big")
forbid (principal, action == Action::"tool.call", resource)
when { context.input has amount && context.input.amount > 100 };
// a comment; with a semicolon
@ask("why") @id("mail")
forbid (principal == Principal::"agent:default", action, resource)
unless { context.input.to == "me" };
permit (principal, action, resource);
"""
CEDAR_PIECES = (
    *ODD_TEXTS, '"', ";", "//", "@id", "forbid", "permit", "?principal", "when {", "}",
    "((((((((", "is T",
    'like "*"', 'ip("::")', 'decimal("1.0")', "[[[[[", "!!!!!", "has a.b",
    "9223372036854775808",
    "&&" , "if true then", ".contains(", "template", "@ask",
)  # fmt: skip


class Policies:
    """Rules of a configuration, and policies in Cedar: no answer is looser than without them."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "policies.cedar"

    def make(self, rnd: random.Random) -> Case:
        made = Capabilities(self._file)
        lines = [made.line(rnd) for _ in range(4)]
        data = changed_bytes(rnd, CEDAR.encode(), CEDAR_PIECES)
        arguments = {rnd.choice(("amount", "to", text(rnd))): _argument(rnd) for _ in range(3)}
        return (lines, data, arguments)

    def judge(self, case: Case) -> Verdict:
        lines, data, given = case
        try:
            arguments, _ = json_object(given, 1_000_000)  # as the executor does before it asks
        except ClawHiveError as error:
            return coded(error)
        verdict = self._rules(lines, arguments)
        self._file.write_bytes(data)
        meta = ToolMeta("shop.buy", "Buys.", {}, "shop")
        asked = (meta, arguments, DEFAULT_AGENT, ("net.http:https://a.b/",))
        request = PolicyRequest(*asked, task_id="t", step_id="s", conversation_id="c")

        found = asyncio.run(CedarCheck(self._file).check(request))
        require(found is None or found.verdict in {"deny", "ask"}, f"a check that says {found}")
        return verdict

    def _rules(self, lines: list[str], arguments: Any) -> Verdict:
        """Ask rules that were read, in any order: the same answer, and a deny wins."""
        found: list[str] = []
        verdict: Verdict = "taken"
        for line in lines:
            try:
                found.append(parse(line, HERE).text)
            except ClawHiveError as error:
                verdict = coded(error)
        if len(found) < 2:
            return verdict
        wanted, *others = found
        grants = [
            CapabilityGrant(f"g{n}", each, "agent:default", "task", "t", "user", "allow")
            for n, each in enumerate(others)
        ]
        for needed in (each.unconstrained for each in map(parse, (wanted, *others))):
            free = Rules(grants, [], []).authority(needed, arguments)
            back = Rules(grants[::-1], [], []).authority(needed, arguments)
            require(free.verdict == back.verdict, f"{needed}: the order of grants counts")
            denied = Rules(grants, [needed.text], []).authority(needed, arguments)
            require(denied.verdict == "deny", f"{needed}: denied, and yet {denied.verdict}")
            if free.verdict == "allow":
                covered = [each for each in others if contains(parse(each), needed)]
                open_ = [each for each in others if parse(each).constraints]
                require(covered or open_, f"{needed}: allowed by none of {others}")
        return verdict


def _argument(rnd: random.Random) -> Any:
    found = rnd.choice(ODD_NUMBERS) if rnd.random() < 0.3 else value(rnd, 2)
    return found if rnd.random() < 0.5 else scalar(rnd)
