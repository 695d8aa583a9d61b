"""A program's source, before the engine `monty` sees it: what it cannot run, and how it ends.

The engine stops on syntax it does not know, but meets an unknown module or name only when the
program gets there, with half its effects done. `unknown_names` finds those in advance.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from clawhive_builtin._monty_names import MISSING_BUILTINS, MODULES
from clawhive_core import Unsupported

EXIT = "_exit_"
"""The function that stands in for `sys.exit` and `SystemExit(...)`; provided by the engine."""

_EXCEPTIONS = frozenset(
    name
    for name in dir(builtins)
    if isinstance(kind := getattr(builtins, name), type) and issubclass(kind, BaseException)
)
_CATCH_IMPORT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_CATCH_NAME = frozenset({"AttributeError", "NameError", "Exception", "BaseException"})


def with_exits(source: str) -> str:
    r"""Return the source with each way to end a program spelled in one that the engine knows.

    The engine has no `sys.exit`, and its `SystemExit` takes no number. `sys.exit(1)` and
    `raise SystemExit(1)` become calls of `EXIT`, padded with spaces, so that each line and column
    stays where it was. Line ends become `\n`, as Python
    reads them. A source that cannot be parsed is otherwise returned unchanged.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    tree = parsed(source)
    if tree is None:
        return source
    lines = [line.encode() for line in source.split("\n")]
    for start, end, text in _replacements(tree):
        if start[0] == end[0]:
            line = lines[start[0] - 1]
            padded = text.encode().ljust(end[1] - start[1])
            lines[start[0] - 1] = line[: start[1]] + padded + line[end[1] :]
    return b"\n".join(lines).decode()


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree, None where this Python cannot parse the source."""
    try:
        source.encode()
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_Place = tuple[int, int]


def _replacements(tree: ast.Module) -> Iterator[tuple[_Place, _Place, str]]:
    aliases = {bound for bound, name in _imports(tree) if name == "sys"} - _stores(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_sys_exit(node.func, aliases):
            yield (*_span(node.func), EXIT)
        elif isinstance(node, ast.Raise) and _is_system_exit(node.exc):
            yield (*_span(node.exc.func), EXIT)
        elif isinstance(node, ast.ImportFrom) and _imports_exit(node):
            yield (*_span(node), "pass")


def _is_sys_exit(node: ast.expr, aliases: set[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "exit"
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
        and _width(node) >= len(EXIT)
    )


def _is_system_exit(node: ast.expr | None) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "SystemExit"
    )


def _imports_exit(node: ast.ImportFrom) -> bool:
    names = [(alias.name, alias.asname) for alias in node.names]
    return node.module == "sys" and node.level == 0 and names == [("exit", None)]


def _span(node: ast.expr | ast.stmt) -> tuple[_Place, _Place]:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset), end


def _width(node: ast.expr) -> int:
    return (node.end_col_offset or 0) - node.col_offset


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that an `import` binds, with the module that it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".", maxsplit=1)[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)


def _stores(tree: ast.Module) -> set[str]:
    """Return every name that the program binds by other means than `import`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case _:
                pass
    return names


def unknown_names(source: str, tree: ast.Module) -> list[Unsupported]:
    """Return the imports, attributes of modules and builtins that the engine lacks.

    Columns count characters from 1. What a program tries and has an `except` for is left to it.
    """
    stores = _stores(tree)
    scan = _Scan(
        source.split("\n"),
        {bound: name for bound, name in _imports(tree) if bound not in stores},
        stores | {alias.asname or alias.name for alias in _from_aliases(tree)},
    )
    scan.visit(tree)
    return scan.found


def _from_aliases(tree: ast.Module) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from node.names


@dataclass
class _Scan(ast.NodeVisitor):
    """Walks a tree and notes what is not there."""

    lines: list[str]
    modules: dict[str, str]
    bound: set[str]
    found: list[Unsupported] = field(default_factory=list[Unsupported])
    caught: frozenset[str] = frozenset()
    """The exceptions that a surrounding `try` handles."""

    def visit_Try(self, node: ast.Try) -> None:
        outside = self.caught
        handled = (name for handler in node.handlers for name in _handled(handler))
        self.caught = outside | frozenset(handled)
        for statement in node.body:
            self.visit(statement)
        self.caught = outside
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        """Pass over what only type checkers read: the engine knows that it is not run."""
        for part in (*([] if _is_for_checkers(node.test) else node.body), *node.orelse):
            self.visit(part)
        self.visit(node.test)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._note(node, "relative imports")
        elif node.module == "__future__":
            return
        elif self._import(node, node.module or ""):
            known = MODULES[node.module or ""]
            for alias in node.names:
                if alias.name not in known | {"*"} and not self.caught & _CATCH_IMPORT:
                    self._note(node, f"`{node.module}.{alias.name}`")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        module = self._module(node.value)
        if module is None:
            self.generic_visit(node)
        elif (
            node.attr not in MODULES[module]
            and f"{module}.{node.attr}" not in MODULES
            and not self.caught & _CATCH_NAME
        ):
            self._note(node, f"`{module}.{node.attr}`")

    def visit_Name(self, node: ast.Name) -> None:
        if (
            node.id in MISSING_BUILTINS
            and isinstance(node.ctx, ast.Load)
            and node.id not in self.bound | self.modules.keys()
            and not self.caught & _CATCH_NAME
        ):
            self._note(node, f"`{node.id}`")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _EXCEPTIONS - self.bound:
            odd = len(node.args) > 1 or any(_is_odd(argument) for argument in node.args)
            if odd or node.keywords:
                self._note(node, f"`{node.func.id}` with anything but one string")
        self.generic_visit(node)

    def _import(self, node: ast.stmt, name: str) -> bool:
        if name in MODULES:
            return True
        if not self.caught & _CATCH_IMPORT:
            self._note(node, f"the module `{name}`")
        return False

    def _module(self, node: ast.expr) -> str | None:
        """Return the known module that an expression names, such as `os.path`."""
        if isinstance(node, ast.Name):
            name = self.modules.get(node.id)
            return name if name in MODULES else None
        if isinstance(node, ast.Attribute) and (above := self._module(node.value)):
            name = f"{above}.{node.attr}"
            return name if name in MODULES else None
        return None

    def _note(self, node: ast.expr | ast.stmt, what: str) -> None:
        before = self.lines[node.lineno - 1].encode()[: node.col_offset]
        self.found.append(Unsupported(node.lineno, len(before.decode()) + 1, what))


def _is_for_checkers(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _handled(handler: ast.ExceptHandler) -> Iterator[str]:
    if handler.type is None:
        yield "BaseException"
        return
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    yield from (name.id for name in types if isinstance(name, ast.Name))


def _is_odd(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and not isinstance(argument.value, str)
