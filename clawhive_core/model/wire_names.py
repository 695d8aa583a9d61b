"""The names under which a model's API knows tools: derived, reversible, without collisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Generic, TypeVar

from clawhive_core.errors import ModelError
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.model.tools import ToolDef

MAX_WIRE_NAME = 64
"""Characters: the least of what Anthropic (128), OpenAI (64) and Gemini (64) take."""

_REVERSIBLE = pattern(r"[A-Za-z](?:[A-Za-z0-9-]|_(?!_|\.|$)|\.(?!_|\.|$))*")
"""Names of which no two become one when dots are written as two underscores."""
_KEPT_TABLES = 8

T = TypeVar("T")


def wire_name(name: str) -> str:
    """Return the name that a model's API is given for a canonical one.

    It depends on the name alone, so that a prompt cache survives other tools coming and going.
    Dots become two underscores; a name that this would make ambiguous, too long or unlike an
    identifier ends in eight hexadecimal digits of its SHA-256.
    """
    wire = name.replace(".", "__")
    if len(wire) <= MAX_WIRE_NAME and _REVERSIBLE.fullmatch(name):
        return wire
    suffix = f"_-{sha256(name.encode()).hexdigest()[:8]}"
    start = wire if wire[:1].isalpha() else f"t{wire}"
    return start[: MAX_WIRE_NAME - len(suffix)] + suffix


@dataclass(frozen=True, slots=True)
class WireTable(Generic[T]):
    """One list of tools as a model's API is sent it, and the way back from its names."""

    payload: tuple[T, ...]
    """The adapter's form of each tool, in the order of the list."""
    names: Mapping[str, str]
    """Wire name to canonical name."""

    def canonical(self, wire: str) -> str:
        """Return the canonical name of a wire name; of one that was not offered, the likeliest."""
        return self.names.get(wire) or wire.replace("__", ".")


class WireTools(Generic[T]):
    """Compiles a tool list once: as long as the same tuple is sent, its payload is the same object.

    Args:
        build: Makes what the API is sent of a tool, from the tool and its wire name.
    """

    def __init__(self, build: Callable[[ToolDef, str], T]) -> None:
        self._build = build
        self._tables: dict[int, tuple[tuple[ToolDef, ...], WireTable[T]]] = {}

    def table(self, tools: tuple[ToolDef, ...]) -> WireTable[T]:
        """Return the compiled list.

        Raises:
            ModelError: `wire_name_collision` where two tools would have one name.
        """
        known = self._tables.get(id(tools))
        if known is None or known[0] is not tools:
            while len(self._tables) >= _KEPT_TABLES:
                del self._tables[next(iter(self._tables))]
            known = self._tables[id(tools)] = (tools, self._compile(tools))
        return known[1]

    def _compile(self, tools: tuple[ToolDef, ...]) -> WireTable[T]:
        names: dict[str, str] = {}
        for tool in tools:
            wire = wire_name(tool.name)
            if wire in names:
                raise ModelError(
                    f"`{names[wire]}` and `{tool.name}` have the same name for a model: `{wire}`",
                    code="wire_name_collision",
                    fix='name one of them anew with `[tools.alias] NEW = "OLD"`',
                )
            names[wire] = tool.name
        return WireTable(tuple(map(self._build, tools, names)), names)
