"""Mutants of a module: its guards deleted, its conditions turned, one at a time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPERATOR = re.compile(rb"==|!=|<=|>=|<|>|\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b")
_FLIPPED: dict[type[ast.cmpop], bytes] = {
    ast.Eq: b"!=",
    ast.NotEq: b"==",
    ast.Lt: b">=",
    ast.LtE: b">",
    ast.Gt: b"<=",
    ast.GtE: b"<",
    ast.Is: b"is not",
    ast.IsNot: b"is",
    ast.In: b"not in",
    ast.NotIn: b"in",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small change of one file."""

    path: str
    """Relative to the checkout."""
    line: int
    kind: str
    source: str
    """The line that is changed, as it stands."""
    changed: bytes
    """The whole file with the change."""
    first: int
    last: int
    """The lines of which a test must reach one to notice."""

    @property
    def key(self) -> tuple[str, str, str]:
        """File, kind and source: what it is known by while lines move."""
        return self.path, self.kind, self.source

    @property
    def title(self) -> str:
        """Return where and what it is."""
        return f"{self.path}:{self.line}: {self.kind}: {self.source}"


@dataclass(frozen=True, slots=True)
class _Edit:
    node: ast.AST
    kind: str
    start: int
    end: int
    text: bytes
    reach: ast.AST
    """What a test must reach: in a deleted guard, what it guards against."""


class _Source:
    """A module's bytes, with the places of its nodes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.starts = [0]
        for line in data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the bytes from a node's start to its end."""
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> bytes:
        """Return a node's source."""
        start, end = self.span(node)
        return self.data[start:end]


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    source = _Source(path.read_bytes())
    lines = source.data.decode("utf-8").splitlines()
    found: dict[bytes, Mutant] = {}
    for edit in _edits(source, ast.parse(source.data)):
        changed = source.data[: edit.start] + edit.text + source.data[edit.end :]
        line = getattr(edit.node, "lineno", 1)
        first, last = (getattr(edit.reach, end, line) for end in ("lineno", "end_lineno"))
        name = path.relative_to(root).as_posix()
        shown = lines[line - 1].strip()
        mutant = Mutant(name, line, edit.kind, shown, changed, first, last)
        if _compiles(changed):
            found.setdefault(changed, mutant)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _compiles(changed: bytes) -> bool:
    try:
        compile(changed, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _edits(source: _Source, tree: ast.AST) -> Iterator[_Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and not _is_for_types(node):
            yield from _guards(source, node)
        elif isinstance(node, ast.Compare):
            yield from _comparisons(source, node)
        elif isinstance(node, ast.BoolOp):
            yield _connective(source, node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start, end = source.span(node)
            rest = source.data[start + len(b"not") : end]
            yield _Edit(node, "`not` dropped", start, end, b"(%b)" % rest.strip(), node)


def _is_for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _guards(source: _Source, node: ast.If) -> Iterator[_Edit]:
    """Yield the deletion of a guard, and its condition the other way round."""
    if not isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break):
        return
    start, _ = source.span(node.body[0])
    _, end = source.span(node.body[-1])
    yield _Edit(node, "guard deleted", start, end, b"pass", node.body[0])
    # A single comparison or `not` is turned round below.
    single = isinstance(node.test, ast.Compare) and len(node.test.ops) == 1
    if not single and not isinstance(node.test, ast.UnaryOp):
        start, end = source.span(node.test)
        text = b"(not (%b))" % source.text(node.test)
        yield _Edit(node, "condition negated", start, end, text, node.test)


def _comparisons(source: _Source, node: ast.Compare) -> Iterator[_Edit]:
    operands = [node.left, *node.comparators]
    for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
        start, end = source.span(left)[1], source.span(right)[0]
        between = source.data[start:end]
        text = _OPERATOR.sub(_FLIPPED[type(operator)], between, count=1)
        yield _Edit(node, "comparison turned", start, end, text, node)


def _connective(source: _Source, node: ast.BoolOp) -> _Edit:
    """Return `and` as `or`, or the reverse, between all operands."""
    old, new = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
    start, end = source.span(node)
    pieces: list[bytes] = []
    place = start
    for left, right in zip(node.values, node.values[1:], strict=False):
        gap_start, gap_end = source.span(left)[1], source.span(right)[0]
        pieces.append(source.data[place:gap_start])
        pieces.append(re.sub(rb"\b%b\b" % old, new, source.data[gap_start:gap_end], count=1))
        place = gap_end
    pieces.append(source.data[place:end])
    kind = f"`{old.decode()}` to `{new.decode()}`"
    # Inside of another connective the precedence must not change what else is joined.
    return _Edit(node, kind, start, end, b"(%b)" % b"".join(pieces), node)
