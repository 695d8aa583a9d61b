"""An index of patterns: finds those that cover a capability in the time of its own segments."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from clawhive_core.capabilities.pattern import Capability, overlaps
from clawhive_core.capabilities.segments import ANY, EVERYTHING, REST, Segments

T = TypeVar("T")

_Node = dict[str, Any]

# No segment holds a NUL, so neither key is one.
_END: Final = "\0end"
_HELD: Final = "\0held"


class PatternIndex(Generic[T]):
    """Patterns of one verb in a tree by their segments, each with what it was added with."""

    def __init__(self) -> None:
        self._root: _Node = {}
        self._all: list[tuple[Capability, T]] = []

    def add(self, pattern: Capability, item: T) -> None:
        """Add a pattern; its constraints are the caller's to look at."""
        node = self._root
        for part in pattern.parts:
            for segment in part:
                node = node.setdefault(segment, {})
            if part[-1:] != (REST,):
                node = node.setdefault(_END, {})
        node.setdefault(_HELD, []).append((pattern, item))
        self._all.append((pattern, item))

    def covering(self, capability: Capability) -> list[tuple[Capability, T]]:
        """Return the patterns that contain all of a capability's resources."""
        level = [self._root]
        for part in capability.parts:
            level = _after(level, part)
            if not level:
                return []
        if len(level) == 1:
            held: list[tuple[Capability, T]] = level[0][_HELD]
            return held
        return [each for node in level for each in node[_HELD]]

    def meeting(self, capability: Capability) -> list[tuple[Capability, T]]:
        """Return the patterns that share a resource with a capability."""
        if capability.is_concrete:
            return self.covering(capability)
        bare = capability.unconstrained
        return [each for each in self._all if overlaps(each[0].unconstrained, bare)]


def _after(level: list[_Node], part: Segments) -> list[_Node]:
    """Return the nodes behind the patterns that cover one dimension."""
    found: list[_Node] = []
    is_open = part[-1:] == EVERYTHING
    for segment in part[:-1] if is_open else part:
        below: list[_Node] = []
        for node in level:
            if (rest := node.get(REST)) is not None:
                found.append(rest)
            if (same := node.get(segment)) is not None:
                below.append(same)
            if segment != ANY and (one := node.get(ANY)) is not None:
                below.append(one)
        if not below:
            return found
        level = below
    ends = (REST,) if is_open else (REST, _END)
    found += [node[end] for node in level for end in ends if end in node]
    return found
