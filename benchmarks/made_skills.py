"""Valid skills made up by a program: names, tools, schemas, and the ways people lay out YAML.

`made(random)` returns a set of two skills, one that exports tools and one that imports them, as
trees of values. `Marked` and `Key` say which value or key a defect stands at; `written` turns the
trees into files, in which the mark tells the exact line and column by construction, without any
parser.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MARK = "\ue000"
"""Stands in a written text before the character where a defect is to be found."""

PLAIN = re.compile(r"[A-Za-z\u00e0-\u024f\u4e00-\u9fff_][\w/-]*(?:[ .][\w/-]+)*")
WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})
SYLLABLES = [one + two for one in "bdfgklmnprstv" for two in "aeio"]
VERBS = (
    "calculate",
    "describe",
    "fetch",
    "summarise",
    "translate",
    "measure",
    "compare",
    "collect",
)
NOUNS = ("horoscope", "invoice", "weather", "document", "calendar", "picture", "molecule", "recipe")
ENDS = ("\n", "\n", "\n", "\r\n")
PHRASES = ("für Café-Besuche", "当用户询问时使用", "in one step", "with care", "for every day")


@dataclass(frozen=True)
class Marked:
    """A value at which a defect stands."""

    value: Any


@dataclass(frozen=True)
class Key:
    """A key at which a defect stands."""

    name: str


class Raw(str):
    """A scalar that is written as it is."""

    __slots__ = ()


@dataclass
class Made:
    """A set of skills as values, before it is written."""

    rnd: random.Random
    name: str
    user: str
    """The id of the skill that imports."""
    front: dict[Any, Any]
    body: str
    contract: dict[Any, Any]
    handlers: str
    consumer: dict[Any, Any]
    consumer_handlers: str
    tools: list[str]
    files: dict[str, str | bytes] = field(default_factory=dict)
    """Further files, by their path below the folder of the set."""

    @property
    def exports(self) -> dict[Any, Any]:
        return self.contract["exports"]

    def tool(self, index: int = 0) -> dict[Any, Any]:
        """Return the contract of an exported tool, in whichever form it stands."""
        tool = self.exports["tools"][index]
        return tool if isinstance(tool, dict) else self.exports["contracts"][tool]


def word(rnd: random.Random, count: int = 3) -> str:
    return "".join(rnd.choice(SYLLABLES) for _ in range(count))


def misspelt(rnd: random.Random, name: str, known: Sequence[str] = ()) -> str:
    """Return a name with one slip of the finger."""
    while True:
        at = rnd.randrange(1, len(name) - 1)
        slips = (
            name[:at] + name[at + 1 :],
            name[:at] + name[at] + name[at:],
            name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        )
        slip = rnd.choice(slips)
        if slip != name and slip not in known and re.fullmatch(r"[a-z][\w.-]*[a-z]", slip):
            return slip


def made(rnd: random.Random) -> Made:
    """Return two valid skills that nothing is to be said of, whatever the profile."""
    name, user = f"{word(rnd)}-{word(rnd)}", f"{word(rnd, 4)}-{word(rnd)}"
    verbs = rnd.sample(VERBS, 3)
    tools = [f"{verb}_{noun}" for verb, noun in zip(verbs, rnd.sample(NOUNS, 3), strict=True)]
    front = {"name": name, "description": sentence(rnd)}
    front |= {"license": "MIT"} if rnd.random() < 0.5 else {}
    front |= {"compatibility": "Needs a network"} if rnd.random() < 0.3 else {}
    front |= {"metadata": {"author": word(rnd), "version": "1.0"}} if rnd.random() < 0.5 else {}
    front |= {"allowed-tools": "Read Grep"} if rnd.random() < 0.3 else {}
    offered = shuffled(rnd, contract(rnd, name, tools))
    major = offered["exports"]["api_version"].partition(".")[0]
    return Made(
        rnd,
        name,
        user,
        shuffled(rnd, front),
        f"# {word(rnd).title()}\n\nUse `{tools[0]}` first.\n\n---\n\nThen the rest: it is easy.\n",
        offered,
        handlers(tools),
        shuffled(rnd, consumer(rnd, name, tools, major)),
        calling(name, tools[:2]),
        tools,
    )


def sentence(rnd: random.Random) -> str:
    return f"{word(rnd).title()} {word(rnd)} {rnd.choice(PHRASES)} {word(rnd)} {word(rnd)}"


def shuffled(rnd: random.Random, values: dict[Any, Any]) -> dict[Any, Any]:
    keys = [*values]
    rnd.shuffle(keys)
    return {key: values[key] for key in keys}


def contract(rnd: random.Random, name: str, tools: list[str]) -> dict[Any, Any]:
    described = [exported(rnd, tool) for tool in tools]
    exports: dict[Any, Any] = {
        "api_version": f"{rnd.randint(1, 3)}.{rnd.randint(1, 9)}",
        "tools": described,
        "access": {
            "requires_subscription": True,
            "free_tools": [*tools],
            "rate_limit": {tools[0]: f"{rnd.randint(1, 99)}/day", tools[1]: "unlimited"},
        },
        "deprecated": [
            {
                "tool": tools[2],
                "announced": "2020-05-01",
                "removal_date": f"2{rnd.randint(100, 999)}-07-01",
                "replacement": tools[0],
            }
        ],
    }
    if rnd.random() < 0.3:
        exports["contracts"] = {each.pop("name"): each for each in described}
        exports["tools"] = [*tools]
    found: dict[Any, Any] = {"version": f"{rnd.randint(0, 9)}.{rnd.randint(0, 9)}.0"}
    found |= {"id": name} if rnd.random() < 0.5 else {}
    found["exports"] = shuffled(rnd, exports)
    found["permissions"] = ["fs.read:${workspace}/**", "fs.write:${workspace}/reports/**"]
    found["requires"] = {"tools": ["web.search", "web.fetch"], "os": ["linux", "macos", "windows"]}
    found["risk_policy"] = {"max_level": "L1", "max_risk": "guarded", "confirm": False}
    found["allowed_run_types"] = ["write_overview", "daily_digest"]
    found["grounds"] = {"web.search": ["items/*/url:url"]}
    steps = [
        {"name": "search_first", "tool": "web.search", "input": {"query": "${input.query}"}},
        {"name": "look_closer", "tool": "web.fetch", "needs": ["search_first"]},
    ]
    task = {"description": sentence(rnd), "input_schema": schema(rnd, "query"), "steps": steps}
    other = {"steps": [{"name": "search_again", "tool": "web.search", "permissions": []}]}
    found["tasks"] = {"write_overview": task, "daily_digest": other}
    return found


def exported(rnd: random.Random, tool: str) -> dict[Any, Any]:
    described = {
        "name": tool,
        "description": sentence(rnd),
        "input_schema": schema(rnd, "place"),
        "output_schema": schema(rnd, "result"),
    }
    level = rnd.choice(("L0", "L1"))
    facts = {
        "capability_level": level,
        "risk": "safe" if level == "L0" else "guarded",
        "timeout_ms": rnd.randint(100, 9999),
        "idempotent": True,
        "effects": {"place": "fs.read"},
    }
    return shuffled(rnd, {**described, **facts})


def schema(rnd: random.Random, name: str) -> dict[Any, Any]:
    kinds: tuple[dict[Any, Any], ...] = (
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "integer", "minimum": rnd.randint(0, 9)},
        {"type": "array", "items": {"type": "string"}},
        {"enum": ["small", "large"]},
        {"$ref": "#/$defs/Point"},
    )
    properties = {name: {"type": "string", "pattern": "^[a-z]+$"}, word(rnd): rnd.choice(kinds)}
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    return {
        "type": "object",
        "required": [name],
        "properties": properties,
        "$defs": {"Point": point},
    }


def handlers(tools: Sequence[str]) -> str:
    return "".join(f"async def {tool}(input, ctx):\n    return {{}}\n\n\n" for tool in tools)


def consumer(rnd: random.Random, name: str, tools: list[str], major: str) -> dict[Any, Any]:
    tool = exported(rnd, "combine_both")
    return {
        "version": "0.1.0",
        "exports": {"api_version": "1.0", "tools": [tool]},
        "imports": [{"from": name, "tools": tools[:2], "min_version": f"{major}.0"}],
    }


def calling(name: str, tools: Sequence[str]) -> str:
    calls = "".join(f'    await ctx.call("{name}.{tool}", input)\n' for tool in tools)
    return f"async def combine_both(input, ctx):\n{calls}    return {{}}\n"


class Writer:
    """Writes values as YAML, in a layout of its own."""

    def __init__(self, rnd: random.Random, *, flow: float, plain_keys: bool = False) -> None:
        self.rnd = rnd
        self.plain_keys = plain_keys
        self.step = rnd.choice((2, 2, 4))
        self.flat = rnd.choice((0, self.step))  # how far lists stand to the right of their key
        self.flow_share = flow
        self.comments = rnd.choice((0.0, 0.2))
        self.ends_in_comments = self.comments if not plain_keys else 0.0

    def written(self, value: dict[Any, Any]) -> str:
        head = "# made up\n" if self.comments else ""
        return head + "\n".join(self.mapping(value, 0)) + "\n"

    def mapping(self, value: dict[Any, Any], indent: int) -> list[str]:
        return [line for item in value.items() for line in self.entry(*item, indent)]

    def entry(self, key: Any, value: Any, indent: int) -> list[str]:
        head = f"{' ' * indent}{self.key(key)}:"
        mark, value = unmarked(value)
        if not isinstance(value, dict | list) or not value or self.rnd.random() < self.flow_share:
            return [f"{head} {mark}{self.flow(value)}{self.comment()}".rstrip(" ")]
        if isinstance(value, dict):
            lines = self.mapping(value, indent + self.step)
        else:
            lines = self.items(value, indent + self.flat)
        if mark:
            at = len(lines[0]) - len(lines[0].lstrip(" "))
            lines[0] = f"{lines[0][:at]}{mark}{lines[0][at:]}"
        return [head + self.comment(), *lines]

    def items(self, values: list[Any], indent: int) -> list[str]:
        lines: list[str] = []
        for each in values:
            mark, value = unmarked(each)
            dash = f"{' ' * indent}- {mark}"
            if isinstance(value, dict) and value and self.rnd.random() >= self.flow_share:
                first, *rest = self.mapping(value, indent + 2)
                lines += [dash + first[indent + 2 :], *rest]
            else:
                lines.append(dash + self.flow(value) + self.comment())
        return lines

    def key(self, key: Any) -> str:
        mark, name = (MARK, key.name) if isinstance(key, Key) else ("", key)
        plain = isinstance(name, Raw) or (self.plain_keys and PLAIN.fullmatch(name))
        return mark + (str(name) if plain else self.scalar(name, rare=True))

    def flow(self, value: Any) -> str:
        mark, value = unmarked(value)
        if isinstance(value, dict):
            inner = ", ".join(f"{self.key(key)}: {self.flow(each)}" for key, each in value.items())
            return f"{mark}{{{inner}}}"
        if isinstance(value, list):
            return f"{mark}[{', '.join(map(self.flow, value))}]"
        return mark + self.scalar(value)

    def scalar(self, value: Any, *, rare: bool = False) -> str:
        if isinstance(value, Raw):
            return str(value)
        if not isinstance(value, str):
            return json.dumps(value)
        kind = self.rnd.random()
        if kind < (0.9 if rare else 0.6) and PLAIN.fullmatch(value) and value.lower() not in WORDS:
            return value
        if kind < 0.8 and "'" not in value:
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False)

    def comment(self) -> str:
        return f"  # {word(self.rnd)}" if self.rnd.random() < self.ends_in_comments else ""


def unmarked(value: Any) -> tuple[str, Any]:
    return (MARK, value.value) if isinstance(value, Marked) else ("", value)


class JsonWriter(Writer):
    """Writes values as JSON in lines."""

    def __init__(self, rnd: random.Random) -> None:
        super().__init__(rnd, flow=0)

    def written(self, value: dict[Any, Any]) -> str:
        return self.json(value, 0) + "\n"

    def json(self, value: Any, indent: int) -> str:
        mark, value = unmarked(value)
        inner = " " * (indent + 2)
        if isinstance(value, dict) and value:
            lines = [
                f"{inner}{self.key(key)}: {self.json(each, indent + 2)}"
                for key, each in value.items()
            ]
            return f"{mark}{{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"
        if isinstance(value, list) and value:
            lines = [inner + self.json(each, indent + 2) for each in value]
            return f"{mark}[\n" + ",\n".join(lines) + f"\n{' ' * indent}]"
        return mark + self.scalar(value)

    def scalar(self, value: Any, *, rare: bool = False) -> str:  # noqa: ARG002 - as in YAML
        return str(value) if isinstance(value, Raw) else json.dumps(value, ensure_ascii=False)


def written(skills: Made, *, as_json: bool = False, alone: bool = False) -> dict[str, str]:
    """Return the texts of the files of a set by their paths, the marks still in them.

    Args:
        skills: The set.
        as_json: Whether the first contract is a `clawhive.json`.
        alone: Whether the second skill is left out.
    """
    rnd = skills.rnd
    flow = rnd.choice((0.0, 0.0, 0.3, 1.0))
    front = Writer(rnd, flow=0, plain_keys=True).written(skills.front)
    manifest = JsonWriter(rnd) if as_json else Writer(rnd, flow=flow)
    files = {
        f"{skills.name}/SKILL.md": f"---\n{front}---\n\n{skills.body}",
        f"{skills.name}/clawhive.{'json' if as_json else 'yaml'}": manifest.written(
            skills.contract
        ),
        f"{skills.name}/handlers.py": skills.handlers,
    }
    if not skills.contract:
        del files[f"{skills.name}/clawhive.yaml"]
    if not alone:
        files[f"{skills.user}/clawhive.yaml"] = Writer(rnd, flow=flow).written(skills.consumer)
        files[f"{skills.user}/SKILL.md"] = (
            f"---\nname: {skills.user}\ndescription: {sentence(rnd)}\n---\n\nBoth.\n"
        )
        files[f"{skills.user}/handlers.py"] = skills.consumer_handlers
    end = rnd.choice(ENDS)
    return {path: text.replace("\n", end) for path, text in files.items()}
