"""An index of patterns: finds those that cover a capability in the time of its own segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from clawhive_core.capabilities.pattern import Capability, overlaps
from clawhive_core.capabilities.segments import ANY, REST, Segments

T = TypeVar("T")


class _Node(dict[str, "_Node"]):
    """A node of the tree: its children by literal segments, and by wildcards.

    The children by wildcards are attributes, and `is_wild` says whether there is any: nearly no
    node has one, and looking for them in the table would be two further lookups a segment.
    """

    __slots__ = ("any", "depth", "end", "entries", "is_wild", "rest")

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self.depth = depth
        """The number of segments of its dimension before it."""
        self.is_wild = False
        self.any: _Node | None = None
        self.rest: _Node | None = None
        self.end: _Node | None = None
        """The node behind the end of the dimension."""
        self.entries: Sequence[Any] = ()

    def step(self, segment: str) -> _Node:
        """Return the node behind a segment of a pattern, made where it is missing."""
        if segment == REST:
            self.is_wild, self.rest = True, _made(self.rest, 0)
            return self.rest
        if segment == ANY:
            self.is_wild, self.any = True, _made(self.any, self.depth + 1)
            return self.any
        if (node := self.get(segment)) is None:
            node = self[segment] = _Node(self.depth + 1)
        return node

    def closed(self) -> _Node:
        """Return the node behind the end of a dimension, made where it is missing."""
        self.end = _made(self.end, 0)
        return self.end


def _made(node: _Node | None, depth: int) -> _Node:
    return _Node(depth) if node is None else node  # one without children is false, as a dict


class PatternIndex(Generic[T]):
    """Patterns of one verb in a tree by their segments, each with what it was added with.

    The tree is built by the first lookup: of most verbs nothing is ever looked up.
    """

    __slots__ = ("_all", "_tree")

    def __init__(self) -> None:
        self._all: list[tuple[Capability, T]] = []
        self._tree = (0, _Node())
        """The number of patterns in the tree, and its root; replaced as a whole, by any thread."""

    def add(self, pattern: Capability, item: T) -> None:
        """Add a pattern; its constraints are the caller's to look at."""
        self._all.append((pattern, item))

    def covering(self, capability: Capability) -> Sequence[tuple[Capability, T]]:
        """Return the patterns that contain all of a capability's resources."""
        indexed, root = self._tree
        if indexed != len(self._all):
            patterns = tuple(self._all)
            root = _tree_of(patterns)
            self._tree = (len(patterns), root)
        level = [root]
        for part in capability.parts:
            found: list[_Node] = []
            for node in level:
                _after(node, part, found)
            level = found
        if len(level) == 1:
            return level[0].entries
        return [each for node in level for each in node.entries]

    def meeting(self, capability: Capability) -> Sequence[tuple[Capability, T]]:
        """Return the patterns that share a resource with a capability."""
        if capability.is_concrete:
            return self.covering(capability)
        bare = capability.unconstrained
        return [each for each in self._all if overlaps(each[0].unconstrained, bare)]


def _tree_of(patterns: Iterable[tuple[Capability, Any]]) -> _Node:
    """Return the root of a tree of patterns."""
    root = _Node()
    for each in patterns:
        node = root
        for part in each[0].parts:
            for segment in part:
                node = node.step(segment)
            if part[-1:] != (REST,):
                node = node.closed()
        node.entries = (*node.entries, each)
    return root


def _after(node: _Node, part: Segments, found: list[_Node]) -> None:
    """Add the nodes behind the patterns that cover what is left of one dimension."""
    for segment in part[node.depth :]:
        if node.is_wild:
            if node.rest is not None:
                found.append(node.rest)
            if node.any is not None and segment != REST:
                _after(node.any, part, found)
        below = node.get(segment)
        if below is None:
            return
        node = below
    if node.rest is not None:
        found.append(node.rest)
    if node.end is not None:
        found.append(node.end)
