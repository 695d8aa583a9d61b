"""What `clawhive mcp doctor` finds in the tools of servers, read as a model reads them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from clawhive_mcp.errors import printable

Definition = Mapping[str, Any]
"""A tool, prompt or resource as a server lists it, every field of it."""

Severity = Literal["error", "warning", "note"]

_HIDDEN = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})
_SHOWN_CONTROLS = frozenset("\n\r\t")
_JOINERS = frozenset("\u200c\u200d\ufe0f")
"""Characters without a look of their own that scripts and emoji need between two others."""
_SECRETS = r"(\.env\b|\.ssh|id_rsa|secret|password|token|credential|api.?key|mcp\.json)"
_ORDERS = tuple(
    re.compile(each, re.IGNORECASE)
    for each in (
        r"\b(ignore|disregard|forget|override)\b.{0,40}\b(instruction|prompt|rule|above|previous)",
        r"\b(do not|don't|never|without)\b.{0,30}\b(tell|mention|inform|notif|show).{0,30}\buser",
        r"\b(before|after|whenever|every)\b.{0,60}\b(call|us|invok).{0,60}\b(must|first|also)\b",
        r"<\s*/?\s*(important|system|instructions?|secret)\s*>",
        r"\b(read|send|include|attach|pass|forward|upload|post)\b.{0,60}" + _SECRETS,
    )
)
_PLAIN = re.compile(r"[\n\r\t\x20-\x7e]*")
_LOOKS = str.maketrans("0135|l", "oiesii")
_MIN_NAME = 5
_MAX_TEXTS = 5_000
_READ = (
    *("name", "title", "description", "inputSchema", "outputSchema", "annotations"),
    *("arguments", "uriTemplate"),
)


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that was found: of a server, and mostly of a tool of it."""

    code: str
    severity: Severity
    server: str
    tool: str | None
    message: str
    fix: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "server": self.server,
            "tool": self.tool,
            "message": self.message,
            "fix": self.fix,
        }


def findings_of(
    servers: Mapping[str, Iterable[Definition]],
    words: Mapping[str, Iterable[Definition]] | None = None,
) -> list[Told]:
    """Return what is suspicious in the tools of some servers, by server and tool.

    Args:
        servers: Their tools, by the servers' names.
        words: What else they say, as `words_of` gives it.
    """
    tools = [(server, each) for server, listed in servers.items() for each in listed]
    said = [(server, each) for server, listed in (words or {}).items() for each in listed]
    found = [told for server, each in [*tools, *said] for told in _of_tool(server, each)]
    found += _of_names(tools)
    found += [told for server, each in tools for told in _of_others(server, each, tools)]
    return sorted(found, key=lambda told: (told.server, told.tool or "", told.code, told.message))


def words_of(
    instructions: str, prompts: Iterable[Definition], resources: Iterable[Definition]
) -> list[Definition]:
    """Return what a server says beside its tools, under names that say what each is."""
    found: list[Definition] = []
    if instructions:
        found.append({"name": "its instructions", "description": instructions})
    for kind, listed in (("prompt", prompts), ("resource", resources)):
        found += [{**each, "name": f"{kind} {each.get('name', '')}"} for each in listed]
    return found


def visible(text: str) -> str:
    """Return a text without the characters that nobody sees."""
    if _PLAIN.fullmatch(text):
        return text
    hidden = frozenset(_hidden(text))
    return "".join(each for each in text if each not in hidden) if hidden else text


def unreached(server: str, why: str) -> Told:
    """Return the finding of a server that could not be reached."""
    return Told(
        "CH1001",
        "error",
        server,
        None,
        printable(why),
        f"run its command by hand, or `clawhive mcp disable {server}`",
    )


def dropped(server: str, tool: str, why: str) -> Told:
    """Return the finding of a tool that cannot be used."""
    fix = "report it to the server's author; its other tools work"
    return Told("CH1002", "warning", server, tool, f"it cannot be used: {printable(why)}", fix)


def _of_tool(server: str, definition: Definition) -> Iterator[Told]:
    name = str(definition["name"])
    texts = list(_texts(definition))
    hidden = sorted({each for _, text in texts for each in _hidden(text)})
    if hidden:
        shown = ", ".join(f"U+{ord(each):04X}" for each in hidden[:5])
        yield Told(
            "CH1003",
            "warning",
            server,
            printable(name, 100),
            f"its definition holds characters that nobody sees: {shown}",
            "do not use the server before its author has said why they are there",
        )
    for place, text in texts:
        seen = "".join(each for each in text if each not in hidden)
        order = next((match for each in _ORDERS if (match := each.search(seen))), None)
        if order is not None:
            yield Told(
                "CH1004",
                "warning",
                server,
                printable(name, 100),
                f"its {place} tells the model what to do: `{printable(order[0], 120)}`",
                "read the whole of it; a description says what a tool does, and gives no orders",
            )


def _of_names(tools: Iterable[tuple[str, Definition]]) -> Iterator[Told]:
    """Yield names of different servers that are equal, or look it."""
    first: dict[str, tuple[str, str]] = {}
    for server, definition in tools:
        name = str(definition["name"])
        other = first.setdefault(_look(name), (server, name))
        if other == (server, name):
            continue
        same = other[1] == name
        code: Literal["CH1006", "CH1005"] = "CH1006" if same else "CH1005"
        shown = f"`{printable(other[1], 100)}` of `{other[0]}`"
        yield Told(
            code,
            "note" if same else "warning",
            server,
            printable(name, 100),
            f"it has the name of {shown}" if same else f"it looks like {shown}, and is another",
            "a right for one does not cover the other: their canonical names differ",
        )


def _of_others(
    server: str, definition: Definition, tools: Iterable[tuple[str, Definition]]
) -> Iterator[Told]:
    """Yield the tools of other servers that a description speaks of."""
    text = "\n".join(text for place, text in _texts(definition) if place != "name").lower()
    for other, each in tools:
        name = str(each["name"])
        named = len(name) >= _MIN_NAME and ("_" in name or "-" in name or "." in name)
        if other != server and named and re.search(rf"\b{re.escape(name.lower())}\b", text):
            yield Told(
                "CH1007",
                "warning",
                server,
                printable(str(definition["name"]), 100),
                f"it speaks of `{printable(name, 100)}`, a tool of `{other}`",
                "read it: one server's tool has no reason to know another's",
            )


def _texts(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield every text of a definition that a model reads, with what it is."""
    count = 0
    waiting: list[tuple[str, Any]] = [
        (key, definition.get(key))
        for key in (
            "name",
            "title",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
            "arguments",
            "uriTemplate",
        )
    ]
    while waiting and count < _MAX_TEXTS:
        place, value = waiting.pop()
        count += 1
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            waiting += [("name of an argument", key) for key, _ in pairs]
            waiting += [(key if isinstance(each, str) else place, each) for key, each in pairs]
        elif isinstance(value, list):
            waiting += [(place, each) for each in cast("list[Any]", value)]


def _hidden(text: str) -> Iterator[str]:
    for at, each in enumerate(text):
        if unicodedata.category(each) not in _HIDDEN or each in _SHOWN_CONTROLS:
            continue
        between = 0 < at < len(text) - 1 and not (text[at - 1] + text[at + 1]).isascii()
        if not (each in _JOINERS and between):
            yield each


def _look(name: str) -> str:
    """Return a name as an eye takes it: without accents, case and look-alikes."""
    plain = "".join(_LATIN.get(each, each) for each in unicodedata.normalize("NFKD", name))
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return re.sub(r"[^a-z0-9]", "", letters.casefold().translate(_LOOKS).replace("rn", "m"))


_LATIN = dict(
    zip(
        "аеорсухіјѕһԁԛԝɡαορνικτυАВЕКМНОРСТУХІЈЅ",
        "aeopcyxijshdqwgaopviktuABEKMHOPCTYXIJS",
        strict=True,
    )
)
"""Letters of Greek and Cyrillic that look like Latin ones (Unicode Technical Standard 39)."""
