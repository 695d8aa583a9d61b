"""The facts of a skill's Python file that its checks ask for, from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from clawhive_core.model.late import dataclass

STORED = frozenset({"save", "read"})
"""The methods of a context that keep and read values."""

_TAKEN = 2
_LOADERS = frozenset({"import_module", "__import__"})

Imports = ast.Import | ast.ImportFrom


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a module binds."""

    line: int
    column: int
    takes_two: bool
    """Whether it can be called with two arguments by position."""


@dataclass(frozen=True, slots=True)
class ContextCall:
    """A call of a method of a context."""

    line: int
    column: int
    method: str
    text: str | None
    """The text that it is given first, None where the program puts it together as it runs."""


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The functions, imports and calls of one Python file."""

    bound: Mapping[str, Function | None]
    """The names that the module's own statements bind, functions with their facts."""
    imports: tuple[Imports | ast.Call, ...]
    """Statements that import, and calls of a loader, wherever they stand."""
    always: tuple[Imports, ...]
    """The statements that import below no `if` and no `try` of the module."""
    calls: tuple[ContextCall, ...]


@lru_cache(maxsize=64)
def code_facts(source: str) -> CodeFacts:
    """Return the facts of a Python text; the same text is parsed once in a process.

    Raises:
        SyntaxError: It is no Python; releases of Python raise ValueError, RecursionError or
            MemoryError instead.
    """
    tree = ast.parse(source)
    always: list[Imports] = []
    imports: list[Imports | ast.Call] = []
    calls: list[ast.Call] = []
    for statement in tree.body:
        optional = isinstance(statement, ast.If | ast.Try)
        for node in ast.walk(statement):
            if isinstance(node, _CALL):
                calls.append(node)
            elif isinstance(node, _IMPORTS):
                imports.append(node)
                if not optional:
                    always.append(node)
    imports += [each for each in calls if _is_loader(each)]
    bound = dict(_bound(tree.body))
    return CodeFacts(bound, tuple(imports), tuple(always), tuple(_context_calls(tree, calls)))


_CALL = ast.Call
_IMPORTS = (ast.Import, ast.ImportFrom)


def _is_loader(call: ast.Call) -> bool:
    """Whether a call imports a module that its first argument names."""
    match call:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(), *_]):
            return name in _LOADERS
        case _:
            return False


def _bound(body: Sequence[ast.stmt]) -> Iterator[tuple[str, Function | None]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, Function(node.lineno, node.col_offset + 1, _takes_two(node.args))
            case ast.Assign(targets=targets):
                yield from ((each.id, None) for each in targets if isinstance(each, ast.Name))
            case ast.ImportFrom(names=names):
                yield from ((each.asname or each.name, None) for each in names)
            case ast.If() | ast.Try():
                inner = [*node.body, *node.orelse]
                for handler in node.handlers if isinstance(node, ast.Try) else ():
                    inner += handler.body
                yield from _bound(inner)
            case _:
                pass


def _takes_two(given: ast.arguments) -> bool:
    named = len(given.posonlyargs) + len(given.args)
    needed = named - len(given.defaults)
    enough = named >= _TAKEN or given.vararg is not None
    return needed <= _TAKEN and enough and None not in given.kw_defaults


def _context_calls(tree: ast.Module, calls: Sequence[ast.Call]) -> Iterator[ContextCall]:
    """Yield each call of a method of a context.

    A context is the second argument of a function of the module, and whatever is called `ctx`.
    """
    contexts = {"ctx"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            contexts |= {each.arg for each in [*node.args.posonlyargs, *node.args.args][1:2]}
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name in contexts:
                text = _text(tree, call, method)
                yield ContextCall(call.lineno, call.col_offset + 1, method, text)
            case _:
                pass


def _text(tree: ast.Module, call: ast.Call, method: str) -> str | None:
    """Return the text that a call is given first: written there, or as a constant of the module."""
    first = next(iter(call.args), None)
    if isinstance(first, ast.Name):
        bound = [
            each.value
            for each in tree.body
            if isinstance(each, ast.Assign)
            and any(isinstance(to, ast.Name) and to.id == first.id for to in each.targets)
        ]
        first = bound[0] if len(bound) == 1 else None
    if isinstance(first, ast.JoinedStr) and first.values:
        first = first.values[0]  # the beginning of a path tells whose it is
        if method not in STORED or not _is_owned(first):
            return None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


def _is_owned(beginning: ast.expr) -> bool:
    """Whether a beginning of a path names the skill whole: `skills.ID.`."""
    text = beginning.value if isinstance(beginning, ast.Constant) else None
    return isinstance(text, str) and text.count(".") > 1
