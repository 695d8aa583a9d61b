"""One revision of the catalog, and what a tool is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from clawhive_core.model.canonical import digest
from clawhive_core.model.late import Caching, dataclass
from clawhive_core.model.tools import ToolMeta
from clawhive_core.protocols.provider import ToolProvider


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the catalog: its definition and the provider that executes it."""

    meta: ToolMeta
    provider: ToolProvider


@dataclass(frozen=True, slots=True)
class Shadow:
    """A tool that lost its name to another provider's, and why."""

    name: str
    provider_id: str
    winner: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A tool that is not in the catalog at all, and why."""

    name: str
    provider_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Catalog(Caching):
    """All tools by canonical name; immutable, each change is another revision."""

    tools: Mapping[str, Tool]
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other spellings to canonical names."""
    shadowed: tuple[Shadow, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """The reason why the provider of a contested name serves it."""

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name or alias."""
        tool = self.tools.get(name)
        if tool is None and (canonical := self.aliases.get(name)) is not None:
            tool = self.tools.get(canonical)
        return tool

    def meta_of(self, name: str) -> ToolMeta | None:
        """Return what is known of the tool of that name or alias."""
        tool = self.find(name)
        return None if tool is None else tool.meta

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())

    def __len__(self) -> int:
        return len(self.tools)

    @cached_property
    def contracts(self) -> Mapping[str, str]:
        """Each name's contract hash: what an offered tool is held to."""
        return {name: tool.meta.contract_hash for name, tool in self.tools.items()}

    @cached_property
    def revision(self) -> str:
        """The id of this revision, by content: equal tools from equal providers, equal id."""
        rows = {
            name: [tool.meta.contract_hash, tool.meta.text_hash, tool.meta.provider_id]
            for name, tool in self.tools.items()
        }
        return "cat_" + digest([rows, self.aliases])[:16]


EMPTY = Catalog({})
