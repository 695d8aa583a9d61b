"""The size and style of ClawHive's source beside that of libraries that are read for pleasure.

Run `python benchmarks/style_table.py [--smoke] [--package NAME]...`. It counts the syntax trees of
`clawhive_core` and of starlette, httpx, pydantic_ai and pluggy, where installed; it imports
none of them. Overloads are stubs and no functions. `--smoke` counts one small room alone.

- A **public** function's name and those of its classes begin without `_`.
- **Annotated** is a function whose parameters, but `self` and `cls`, and whose result have types.
- A **room** is a package right below the top one, or what lies in the top one itself. A cycle is a
  set of its modules that import each other, inside functions too; in brackets: those that imports
  for type checkers alone make are counted as well.
- A **splinter** is a module that one other alone imports, which lies in its own package.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

PEERS = ("starlette", "httpx", "pydantic_ai", "pluggy")
_BROAD = {"Exception", "BaseException"}
_VAGUE = re.compile(r"\W*(What|Where|How|Who)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """One file of a package, parsed."""

    name: str
    """Its dotted name, such as `clawhive_core.diagnostics.finding`."""
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package that it lies in; a package lies in itself."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def room(self) -> str:
        """The package right below the top one, or the top one."""
        return ".".join(self.package.split(".")[:2])

    def functions(self) -> Iterator[tuple[Function, bool]]:
        """Yield each function, and whether it is public."""
        yield from _functions(self.tree, public=True)

    def imports(self, names: Iterable[str], *, types: bool = False) -> set[str]:
        """Return which modules of `names` this one imports, in functions too.

        Args:
            names: The modules to look for.
            types: Whether imports for type checkers alone count.
        """
        known = set(names)
        found: set[str] = set()
        for node in ast.walk(self.tree) if types else _at_run_time(self.tree):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                below = {f"{base}.{each.name}" for each in node.names}
                found |= below & known
                if any(each not in known for each in below):
                    found.add(base)
        return (found & known) - {self.name}

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        parts = self.package.split(".")
        return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])


def read_package(folder: Path) -> list[Module]:
    """Return the modules of a package; its data and its tests are none."""
    found: list[Module] = []
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder.parent).with_suffix("").parts
        if {"data", "tests", "_vendor"}.isdisjoint(parts):
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found.append(Module(name, file.read_text(encoding="utf-8"), is_package))
    return found


def import_graph(modules: Sequence[Module], *, types: bool = False) -> dict[str, set[str]]:
    """Return which of the modules each one imports; see `Module.imports`."""
    names = [each.name for each in modules]
    return {each.name: each.imports(names, types=types) for each in modules}


def room_cycles(modules: Sequence[Module], *, types: bool = False) -> list[tuple[str, ...]]:
    """Return the sets of modules of one room that import each other, sorted."""
    graph, room = import_graph(modules, types=types), {each.name: each.room for each in modules}
    inside = {
        name: {other for other in others if room[other] == room[name]}
        for name, others in graph.items()
    }
    reached = {name: _reached(inside, name) for name in inside}
    return sorted(
        {
            tuple(sorted(other for other in reached[name] if name in reached[other]))
            for name in inside
            if name in reached[name]
        }
    )


def splinters(modules: Sequence[Module]) -> list[str]:
    """Return the modules that one other alone imports, which lies in the same package."""
    importers: dict[str, list[str]] = {each.name: [] for each in modules}
    for name, others in import_graph(modules).items():
        for other in others:
            importers[other].append(name)
    package = {each.name: each.package for each in modules if not each.is_package}
    return [
        name
        for name in package
        if len(importers[name]) == 1 and package.get(importers[name][0]) == package[name]
    ]


@dataclass
class Counts:
    """The figures of one package."""

    modules: list[int] = field(default_factory=list[int])
    functions: list[int] = field(default_factory=list[int])
    bodies: list[int] = field(default_factory=list[int])
    parameters: list[int] = field(default_factory=list[int])
    public: int = 0
    public_described: int = 0
    annotated: int = 0
    comments: int = 0
    handlers: int = 0
    broad: int = 0
    docstrings: int = 0
    vague: int = 0
    splats: int = 0
    splinters: int = 0
    cycles: int = 0
    cycles_of_types: int = 0

    def add(self, module: Module) -> None:
        """Count one module."""
        self.modules.append(len(module.text.splitlines()))
        self.comments += _comments(module.text)
        for function, is_public in module.functions():
            self._add_function(function, is_public=is_public)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler):
                self.handlers += 1
                self.broad += _is_broad(node)
            elif isinstance(node, ast.Call):
                self.splats += any(each.arg is None for each in node.keywords)
            elif isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
                text = ast.get_docstring(node)
                self.docstrings += text is not None
                self.vague += text is not None and _VAGUE.match(text) is not None

    def _add_function(self, function: Function, *, is_public: bool) -> None:
        if any("overload" in ast.unparse(each) for each in function.decorator_list):
            return
        text = ast.get_docstring(function, clean=False)
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        first = function.body[0]
        described = 0 if text is None else (first.end_lineno or first.lineno) - first.lineno + 1
        given = _parameters(function)
        self.functions.append(length)
        self.bodies.append(length - described)
        self.parameters.append(len(given))
        self.annotated += function.returns is not None and all(each.annotation for each in given)
        if is_public:
            self.public += 1
            self.public_described += text is not None

    def row(self) -> dict[str, str]:
        """Return the figures by their column."""
        lines, functions = sum(self.modules), len(self.functions)
        return {
            "modules": f"{len(self.modules):,}",
            "lines": f"{lines:,}",
            "module p50/p95": _quantiles(self.modules),
            "function p50/p95": _quantiles(self.functions),
            "without docstring": _quantiles(self.bodies),
            "longest function": str(max(self.functions, default=0)),
            "public with docstring": _share(self.public_described, self.public),
            "annotated": _share(self.annotated, functions),
            "comments per 100 lines": f"{100 * self.comments / max(lines, 1):.1f}",
            "parameters p95": str(_quantile(self.parameters, 0.95)),
            "broad except": f"{self.broad}/{self.handlers}",
            "What/Where/How/Who": _share(self.vague, self.docstrings, 1),
            "splinters": str(self.splinters),
            "calls with **": str(self.splats),
            "cycles in rooms": f"{self.cycles} ({self.cycles_of_types})",
        }


def count(modules: Sequence[Module]) -> Counts:
    """Return the figures of a package."""
    counts = Counts(
        splinters=len(splinters(modules)),
        cycles=len(room_cycles(modules)),
        cycles_of_types=len(room_cycles(modules, types=True)),
    )
    for module in modules:
        counts.add(module)
    return counts


def folder_of(package: str) -> Path | None:
    """Return the folder of an installed package, None where it is not installed."""
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


def _functions(node: ast.AST, *, public: bool) -> Iterator[tuple[Function, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield child, public and not child.name.startswith("_")
            yield from _functions(child, public=False)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, public=public and not child.name.startswith("_"))
        else:
            yield from _functions(child, public=public)


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's nodes but for what stands below `if TYPE_CHECKING`."""
    yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        below: Iterable[ast.AST] = node.orelse
    else:
        below = ast.iter_child_nodes(node)
    for child in below:
        yield from _at_run_time(child)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def _parameters(function: Function) -> list[ast.arg]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    every = [*named, *(each for each in (given.vararg, given.kwarg) if each is not None)]
    return [each for each in every if each.arg not in {"self", "cls"}]


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(each, ast.Name) and each.id in _BROAD for each in ast.walk(handler.type))


def _comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(1 for each in tokens if each.type == tokenize.COMMENT)


def _quantile(values: Sequence[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


def _quantiles(values: Sequence[int]) -> str:
    return f"{_quantile(values, 0.5)} / {_quantile(values, 0.95):,}"


def _share(part: int, whole: int, digits: int = 0) -> str:
    return f"{100 * part / max(whole, 1):.{digits}f} %"


def main() -> None:
    """Print the table, a column a package, and its figures as one JSON object."""
    from measure import ROOT, arguments, table

    more = {"action": "append", "metavar": "NAME", "help": "only this one; may be given again"}
    options = arguments(__doc__, ("--package", more))
    core = ROOT / "clawhive_core"
    folders: dict[str, Path | None] = {"clawhive_core": core}
    folders |= {name: folder_of(name) for name in PEERS}
    if options.smoke:
        folders = {"clawhive_core.diagnostics": core / "diagnostics"}
    elif options.package:
        folders = {name: core if name == core.name else folder_of(name) for name in options.package}
    rows = {name: count(read_package(path)).row() for name, path in folders.items() if path}
    missing = [name for name in folders if name not in rows]
    if not rows:
        sys.exit(f"not installed: {', '.join(missing)}")
    table(
        ["", *rows],
        [[what, *(row[what] for row in rows.values())] for what in next(iter(rows.values()))],
    )
    if missing:
        print(f"not installed: {', '.join(missing)}")
    print(json.dumps({"benchmark": "style_table", "packages": rows, "missing": missing}))


if __name__ == "__main__":
    main()
