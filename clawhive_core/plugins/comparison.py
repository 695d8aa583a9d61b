"""The manifest against the code: which tools differ, and whether in contract or only in text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from clawhive_core.model.canonical import canonical
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolMeta

_TEXT = ("description", "annotations", "examples")


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """A difference between one tool of the code and what the manifest lists."""

    tool: str
    kind: Literal["missing", "unlisted", "contract", "text"]
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "missing":
                return f"{self.tool} is listed and not in the code"
            case "unlisted":
                return f"{self.tool} is in the code and not listed"
            case _:
                return f"{self.tool} differs in {', '.join(self.fields)}"

    @property
    def breaks_contract(self) -> bool:
        """Whether the plugin must not be used with it."""
        return self.kind != "text"


def tool_differences(
    listed: Iterable[ToolMeta], found: Iterable[ToolMeta]
) -> Iterator[ToolDifference]:
    """Yield how the tools of the code differ from those that the manifest lists."""
    code = {meta.name: meta for meta in found}
    names: set[str] = set()
    for meta in listed:
        names.add(meta.name)
        other = code.get(meta.name)
        if other is None:
            yield ToolDifference(meta.name, "missing")
        elif other.contract_hash != meta.contract_hash:
            yield ToolDifference(meta.name, "contract", _fields(meta, other, skip=_TEXT))
        elif fields := _fields(meta, other):
            yield ToolDifference(meta.name, "text", fields)
    for name in sorted(code.keys() - names):
        yield ToolDifference(name, "unlisted")


def _fields(one: ToolMeta, other: ToolMeta, skip: Iterable[str] = ()) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(ToolMeta) if field.name not in skip)
    return tuple(name for name in names if _differ(getattr(one, name), getattr(other, name)))


def _differ(one: Any, other: Any) -> bool:
    return canonical(one) != canonical(other)
