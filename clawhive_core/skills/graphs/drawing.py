"""The graph of skills as text, as Graphviz's dot, and as Mermaid.

Names and versions are other people's text: no sign of theirs is ever read as a part of a drawing.
Sources: graphviz.org/doc/info/lang.html, mermaid.js.org/syntax/flowchart.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from clawhive_core.model.patterns import pattern
from clawhive_core.model.texts import printable, set_off
from clawhive_core.skills.graphs.graph import Edge, Need, Node, SkillGraph

_Part = TypeVar("_Part", Edge, Need)

_COLORS: Mapping[str, str] = {
    "loaded": "#2e7d32",
    "gated": "#f9a825",
    "disabled": "#757575",
    "invalid": "#c62828",
    "missing": "#c62828",
    "tool": "#1565c0",
}
_BROKEN, _GOING = "#c62828", "#f9a825"
_ODD = pattern(r"[^\w .,:/-]|d(?=irection)", re.ASCII | re.IGNORECASE)
"""Text that Mermaid might read as its own: all but letters, digits and a few signs; and
`direction`, for which its lexer looks in the middle of texts."""

MERMAID_EDGES = 500
"""The number of edges that Mermaid draws unless its `maxEdges` says more."""


def as_text(graph: SkillGraph) -> str:
    """Return a paragraph for each skill: its state, its imports with their places, its needs."""
    lines: list[str] = []
    edges, needs = _by(graph.edges), _by(graph.needs)
    for node in graph.nodes:
        state = "" if node.state == "loaded" else f" ({node.state})"
        lines.append(f"{set_off(node_text(node))}{state}")
        lines += [f"  imports {edge_text(edge)}  {edge.place}" for edge in edges.get(node.id, ())]
        for need in needs.get(node.id, ()):
            lacking = {True: "", None: ", which nothing lists", False: ", which nothing offers"}
            lines.append(f"  requires {need.tool}{lacking[need.offered]}  {need.place}")
    lines += [f"cycle: {', '.join(each)}" for each in graph.cycles]
    return "\n".join(printable(line) for line in lines)


def as_dot(graph: SkillGraph) -> str:
    """Return the graph in the language of Graphviz."""
    lines = [
        "digraph skills {",
        "  rankdir=LR;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    names = _names(graph)
    for node in graph.nodes:
        label = _dot("\n".join((node_text(node), *_marked(node))))
        style = "dashed" if node.state == "missing" else "rounded"
        color = _COLORS.get(node.state, "")
        lines.append(f'  {names[node.id]} [label="{label}", color="{color}", style="{style}"];')
    for tool, name in _tools(graph).items():
        lines.append(f'  {name} [label="{_dot(tool)}", shape=ellipse, color="{_COLORS["tool"]}"];')
    for edge in graph.edges:
        label = _dot("\n".join(_edge_label(edge)))
        style = f'style={_dot_style(edge)}, color="{_edge_color(edge)}"'
        arrow = f"{names[edge.consumer]} -> {names[edge.provider]}"
        lines.append(f'  {arrow} [label="{label}", {style}];')
    for start, end, there in _wires(graph, names):
        color = "#757575" if there else _BROKEN
        lines.append(f'  {start} -> {end} [style=dotted, color="{color}"];')
    return "\n".join([*lines, "}"])


def as_mermaid(graph: SkillGraph) -> str:
    """Return the graph as a flowchart of Mermaid."""
    names = _names(graph)
    lines = ["flowchart LR"]
    for node in graph.nodes:
        label = "<br/>".join(map(_mermaid, (node_text(node), *_marked(node))))
        lines.append(f'  {names[node.id]}["{label}"]:::{node.state}')
    for tool, name in _tools(graph).items():
        lines.append(f'  {name}(["{_mermaid(tool)}"]):::tool')
    colored: dict[str, list[int]] = {}
    for number, edge in enumerate(graph.edges):
        label = "<br/>".join(map(_mermaid, _edge_label(edge)))
        said = f'|"{label}"|' if label else ""
        lines.append(f"  {names[edge.consumer]} {_arrow(edge)}{said} {names[edge.provider]}")
        if (color := _edge_color(edge)) != _COLORS["loaded"]:
            colored.setdefault(color, []).append(number)
    for start, end, there in _wires(graph, names):
        lines.append(f"  {start} {'-.->' if there else '-.-x'} {end}")
    for color, numbers in colored.items():
        lines.append(f"  linkStyle {','.join(map(str, numbers))} stroke:{color}")
    lines += [f"  classDef {state} stroke:{color}" for state, color in _COLORS.items()]
    return "\n".join(lines)


def node_text(node: Node) -> str:
    """Return a skill with its versions."""
    api = f", API {node.api_version}" if node.api_version else ""
    return f"{node.id} {node.version}{api}".rstrip()


def edge_text(edge: Edge) -> str:
    """Return what an import says, and what is wrong with it, in one line."""
    version = f" >= {edge.min_version}" if edge.min_version else ""
    tools = f": {', '.join(edge.names)}" if edge.names else ""
    notes = [] if edge.satisfied else ["not satisfied"]
    notes += [f"{each.tool} will go on {each.removal_date}" for each in edge.deprecated]
    notes += ["in a cycle"] if edge.in_cycle else []
    said = f" ({'; '.join(notes)})" if notes else ""
    return f"{edge.provider}{version}{tools}{said}"


def _marked(node: Node) -> list[str]:
    return [] if node.state == "loaded" else [node.state]


def _edge_label(edge: Edge) -> list[str]:
    version = [f">= {edge.min_version}"] if edge.min_version else []
    until = {each.tool: f" until {each.removal_date}" for each in edge.deprecated}
    return [*version, *(f"{name}{until.get(name, '')}" for name in edge.names)]


def _dot_style(edge: Edge) -> str:
    if not edge.satisfied:
        return "dashed"
    return "bold" if edge.in_cycle else "solid"


def _edge_color(edge: Edge) -> str:
    if not edge.satisfied or edge.in_cycle:
        return _BROKEN
    return _GOING if edge.deprecated else _COLORS["loaded"]


def _arrow(edge: Edge) -> str:
    if not edge.satisfied:
        return "--x"
    return "-.->" if edge.deprecated else "-->"


def _names(graph: SkillGraph) -> dict[str, str]:
    """Return a name of our own for each skill, so that no id is read as a word of the language."""
    return {node.id: f"s{number}" for number, node in enumerate(graph.nodes)}


def _tools(graph: SkillGraph) -> dict[str, str]:
    """Return a name for each required tool that no skill of the graph offers."""
    there = {node.id for node in graph.nodes}
    names = sorted({each.tool for each in graph.needs if each.provider not in there})
    return {tool: f"t{number}" for number, tool in enumerate(names)}


def _wires(graph: SkillGraph, names: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield each line from a skill to what it requires, once, and whether that may be there."""
    tools = _tools(graph)
    ends = {
        (names[each.consumer], tools.get(each.tool) or names[each.provider or ""]): each.offered
        for each in graph.needs
    }
    for (start, end), offered in ends.items():
        yield start, end, offered is not False


def _by(parts: Iterable[_Part]) -> dict[str, list[_Part]]:
    found: dict[str, list[_Part]] = {}
    for part in parts:
        found.setdefault(part.consumer, []).append(part)
    return found


def _dot(text: str) -> str:
    """Return a text within a label: there backslashes are escapes, and `&...;` signs of HTML."""
    lines = [printable(line) for line in text.split("\n")]
    signs = {"\\": "\\\\", '"': '\\"', "&": "&amp;"}
    return "\\n".join("".join(signs.get(sign, sign) for sign in line) for line in lines)


def _mermaid(text: str) -> str:
    """Return a text within a label, which may not be empty."""
    return _ODD.sub(lambda sign: f"#{ord(sign[0])};", printable(text)) or "#32;"
