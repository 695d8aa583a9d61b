"""Cycles in a graph of names: for each edge of one, the shortest that it is part of."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

Graph = Mapping[str, Sequence[str]]
MAX_EDGES = 2_000
"""The number of edges of a component that are searched from; one with more is shown in part."""


def shortest_cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Return cycles so that every edge that is in any cycle is in one of them, each once.

    A cycle begins at its smallest name and leaves the repetition of it out. Loops from a name to
    itself are no part of the answer.
    """
    cycles: dict[tuple[str, ...], None] = {}
    searched = 0
    for members in components(graph):
        for start in sorted(members):
            for target in sorted({*graph.get(start, ())} & members - {start}):
                searched += 1
                if searched <= MAX_EDGES:
                    cycles[_rotated((start, *_path(graph, target, start, members)))] = None
    return sorted(cycles, key=lambda cycle: (len(cycle), cycle))


def _path(graph: Graph, start: str, end: str, members: frozenset[str]) -> tuple[str, ...]:
    """Return the shortest path between two members of a component, without its end."""
    before: dict[str, str | None] = {start: None}
    waiting = deque([start])
    while end not in before:
        name = waiting.popleft()
        for target in sorted({*graph.get(name, ())} & members):
            if target not in before:
                before[target] = name
                waiting.append(target)
    path: list[str] = []
    name = before[end]
    while name is not None:
        path.append(name)
        name = before[name]
    return tuple(reversed(path))


def _rotated(cycle: tuple[str, ...]) -> tuple[str, ...]:
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def components(graph: Graph) -> list[frozenset[str]]:
    """Return the sets of two or more names that all lead to each other, in linear time.

    It is Tarjan's algorithm, without recursion.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[frozenset[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == index[name]:
                    component = _taken(stack, name)
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(frozenset(component))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(graph.get(target, ()))))
            elif target in on_stack:
                low[name] = min(low[name], index[target])
    return found


def _taken(stack: list[str], name: str) -> list[str]:
    component = [stack.pop()]
    while component[-1] != name:
        component.append(stack.pop())
    return component
