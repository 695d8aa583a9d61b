"""The code of a skill: its files, what it imports and calls, and the functions that serve tools."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from clawhive_core.diagnostics.files import shown_path
from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.suggestions import nearest
from clawhive_core.model.late import dataclass
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.limits import startable
from clawhive_core.skills.contracts.schema import CORE_NAMES
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.document import read_text
from clawhive_core.skills.documents.place import InvalidSkill, Place, is_file
from clawhive_core.skills.documents.source import BOM
from clawhive_core.skills.documents.text import read_skill_text

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


MAX_FILES = 200
"""The most Python files of a skill that are looked at."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "tests", ".venv", "venv", ".git"})
_CORE_PREFIX = "artifacts."  # the only tools of the core whose names have two segments
_PACKAGE = "skills"
_MAY_IMPORT = pattern(rf"\b{_PACKAGE}\b|\bfrom[\s\\]+\.[\s\\]*\.")
"""A word of every text that imports from another skill: most are not parsed for it."""


def lint_handlers(skill: Skill, code: CodeFacts, file: Path) -> Iterator[Finding]:
    """Yield what the handlers of a skill do around its contract.

    They import another skill's code or a file beside them, call a tool that the contract does not
    name, keep or read values outside of the skill's own namespace, or never use what is imported.
    Names that are put together as the program runs cannot be seen here; the executor refuses those.
    """
    if _MAY_IMPORT.search(skill.handlers or ""):
        yield from _foreign_imports(skill, code, file)
    yield from _own_files(skill, code, file)
    for call in code.calls:
        if call.text is None:
            continue
        if call.method == "call":
            yield from _undeclared(skill, call.text, _place(call, file))
        elif call.method in STORED:
            yield from _foreign_value(skill, call.text, _place(call, file), call.method)
    if all(call.text is not None for call in code.calls if call.method == "call"):
        yield from _unused(skill)


def _place(call: ContextCall, file: Path) -> Place:
    return Place(shown_path(file), call.line, call.column)


def lint_other_code(skill: Skill, without: Path | None = None) -> Iterator[Finding]:
    """Yield where the other Python files of a skill import another skill's code."""
    if skill.manifest is None or skill.content != skill.folder:
        return
    for file in _python_files(skill.folder):
        if file == without:
            continue
        try:
            source = read_text(file, "Python file").removeprefix(BOM)
            if not _MAY_IMPORT.search(source):
                continue
            code = code_facts(source)
        except (InvalidSkill, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # nothing that ClawHive runs: a script of any age may lie there
        yield from _foreign_imports(skill, code, file)


def _python_files(folder: Path) -> Iterator[Path]:
    files = (path for path in code_files(os.fspath(folder)) if path.endswith(".py"))
    yield from map(Path, islice(files, MAX_FILES))


def code_files(folder: str) -> Iterator[str]:
    """Yield the Python files below a folder, and the folders that they were looked for in."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED)
        if where != folder:
            yield f"{where}{os.sep}"
        yield from (f"{where}{os.sep}{name}" for name in sorted(files) if name.endswith(".py"))


def _foreign_imports(skill: Skill, code: CodeFacts, file: Path) -> Iterator[Finding]:
    """Yield where a module imports the code of another skill."""
    depth = len(file.relative_to(skill.folder).parts)
    for node in code.imports:
        for module in _modules(node, depth):
            parts = module.split(".")
            if parts[0] != _PACKAGE or len(parts) == 1 or parts[1] in {skill.id, _module(skill.id)}:
                continue
            place = Place(shown_path(file), node.lineno, node.col_offset + 1)
            message = f"`{skill.id}` imports the code of another skill, `{module}`"
            fix = f"import a tool that `{parts[1]}` exports, and call it: ctx.call(...)"
            yield place.finding("CH0610", "error", message, fix)


def _own_files(skill: Skill, code: CodeFacts, file: Path) -> Iterator[Finding]:
    """Yield where handlers import a file beside them: what runs them gets the one file alone."""
    for node, module in _own_imports(skill, code):
        place = Place(shown_path(file), node.lineno, node.col_offset + 1)
        message = f"the handlers of `{skill.id}` import `{module}`, which lies beside them"
        fix = f"write what it holds into {file.name}: handlers get no more than that file"
        yield place.finding("CH0618", "warning", message, fix)


def imported_local(skill: Skill) -> tuple[int, str] | None:
    """Return line and name of the first file beside them that a skill's handlers import."""
    try:
        code = code_facts(skill.handlers or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = ((node.lineno, module) for node, module in _own_imports(skill, code))
    return min(found, default=None)


def _own_imports(skill: Skill, code: CodeFacts) -> Iterator[tuple[Imports, str]]:
    """Yield the statements that import a file beside the handlers, each with its module.

    What a module tries, or imports under a condition such as `TYPE_CHECKING`, is left to it.
    """
    for node in code.always:
        module = _own_file(skill, node)
        if module is not None:
            yield node, module


def _own_file(skill: Skill, node: Imports) -> str | None:
    """Return the module of its own folder that a statement imports, None where it imports none."""
    if isinstance(node, ast.Import):
        modules = [each.name for each in node.names]
    elif node.level == 1:
        return f".{node.module or node.names[0].name}"
    else:
        modules = [] if node.module is None or node.level else [node.module]
    return next((each for each in modules if _is_local(skill, each)), None)


def _is_local(skill: Skill, module: str) -> bool:
    top, _, below = module.partition(".")
    if top == _PACKAGE:
        return below.partition(".")[0] in {skill.id, _module(skill.id)}
    if top in sys.stdlib_module_names or top == "handlers":
        return False
    return is_file(skill.folder / f"{top}.py") or is_file(skill.folder / top / "__init__.py")


def _modules(node: Imports | ast.Call, depth: int) -> Iterator[str]:
    """Yield the modules that a statement or a loader's call imports.

    Args:
        node: See `CodeFacts.imports`.
        depth: How many dots lead from the module to its skill's folder; one more to the others.
    """
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module="skills", names=names, level=0):
            yield from (f"{_PACKAGE}.{each.name}" for each in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            if level == 0 or level == depth + 1:
                head = f"{_PACKAGE}." if level else ""
                yield from [f"{head}{module}"] if module else [head + each.name for each in names]
        case ast.Call(args=[ast.Constant(value=value), *_]):
            yield str(value)
        case _:
            pass


def _module(name: str) -> str:
    return name.replace("-", "_")


def _declared(skill: Skill) -> dict[str, None]:
    """Return the tools that the contract lets the handlers call, by their full names."""
    own = [f"{skill.id}.{name}" for name in skill.exports.names()]
    imported = [f"{each.skill}.{tool.name}" for each in skill.imports for tool in each.tools]
    return dict.fromkeys((*own, *imported, *skill.requires.callable_tools, *startable(skill)))


def _undeclared(skill: Skill, name: str, place: Place) -> Iterator[Finding]:
    """Yield an error for a call of a tool that the contract does not name.

    A name of one segment may be an alias of what is required, so it is left to the executor.
    """
    declared = _declared(skill)
    legacy = {each.name for each in skill.external_tools}
    if "." not in name or name in declared or name in legacy or name.startswith(_CORE_PREFIX):
        return
    if name.rpartition(".")[2] in legacy:
        return
    close = nearest(name, declared)
    owner, _, tool = name.rpartition(".")
    add = f"add `{{from: {owner}, tools: [{tool}]}}` to `imports`, or `{name}` to `requires.tools`"
    message = f"`{skill.id}` calls `{name}`, which its contract does not name"
    fix = f"did you mean `{close}`? Else {add}" if close else add
    yield place.finding("CH0615", "error", message, fix, (name, owner))


def _foreign_value(skill: Skill, path: str, place: Place, method: str) -> Iterator[Finding]:
    own = f"{_PACKAGE}.{skill.id}."
    if path.startswith(own):
        return
    does = "keeps" if method == "save" else "reads"
    message = f"`{skill.id}` {does} `{path}`, outside of its own `{own}`"
    fix = f"write `{own}KEY`; what another skill keeps, one of its tools answers"
    yield place.finding("CH0613", "error", message, fix)


def _unused(skill: Skill) -> Iterator[Finding]:
    """Yield a warning for each import that neither the code nor a step nor the text names."""
    steps = {step["tool"] for task in skill.tasks.values() for step in task.steps}
    idle = [
        (each.skill, tool)
        for each in skill.imports
        for tool in each.tools
        if tool.name not in (skill.handlers or "") and f"{each.skill}.{tool.name}" not in steps
    ]
    body = read_skill_text(skill.text_file).body if idle and skill.text_file else ""
    for owner, tool in idle:
        if tool.name not in body and tool.name not in CORE_NAMES:
            name = f"{owner}.{tool.name}"
            message = f"`{skill.id}` imports `{name}` and never uses it"
            fix = "remove it from `imports`"
            yield tool.place.finding("CH0616", "warning", message, fix, (name, owner))
