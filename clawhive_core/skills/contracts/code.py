"""What a skill's code does around its contract, seen in the syntax tree; nothing of it is run."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from clawhive_core.diagnostics.finding import Finding
from clawhive_core.diagnostics.nearest import nearest
from clawhive_core.diagnostics.shown import shown_path
from clawhive_core.model.patterns import pattern
from clawhive_core.skills.contracts.export_checks import CORE_NAMES
from clawhive_core.skills.contracts.run_types import startable
from clawhive_core.skills.contracts.skill import Skill
from clawhive_core.skills.documents.characters import BOM
from clawhive_core.skills.documents.document import read_text
from clawhive_core.skills.documents.place import InvalidSkill, Place, is_file

MAX_FILES = 200
"""How many Python files of a skill are looked at."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "tests", ".venv", "venv", ".git"})
_CORE_PREFIX = "artifacts."  # the only tools of the core whose names have two segments
_STORED = frozenset({"save", "read"})
_PACKAGE = "skills"
_MAY_IMPORT = pattern(rf"\b{_PACKAGE}\b|\bfrom[\s\\]+\.[\s\\]*\.")
"""What stands in every text that imports from another skill: most are not parsed for it."""

_LOADERS = frozenset({"import_module", "__import__"})


def lint_handlers(skill: Skill, tree: ast.Module, file: Path) -> Iterator[Finding]:
    """Yield what the handlers of a skill do around its contract.

    They import another skill's code or a file beside them, call a tool that the contract does not
    name, keep or read values outside of the skill's own namespace, or never use what is imported.
    Names that are put together as the program runs cannot be seen here; the executor refuses those.
    """
    if _MAY_IMPORT.search(skill.handlers or ""):
        yield from lint_imports(skill, tree, file)
    yield from _own_files(skill, tree, file)
    calls = list(_calls(tree))
    for node, method, name in calls:
        place = Place(shown_path(file), node.lineno, node.col_offset + 1)
        if name is None:
            continue
        if method == "call":
            yield from _undeclared(skill, name, place)
        elif method in _STORED:
            yield from _foreign_value(skill, name, place, method)
    if all(name is not None for _, method, name in calls if method == "call"):
        yield from _unused(skill)


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
            tree = ast.parse(source)
        except (InvalidSkill, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # nothing that ClawHive runs: a script of any age may lie there
        yield from lint_imports(skill, tree, file)


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


def lint_imports(skill: Skill, tree: ast.Module, file: Path) -> Iterator[Finding]:
    """Yield where a module imports the code of another skill."""
    depth = len(file.relative_to(skill.folder).parts)
    for node in ast.walk(tree):
        if not isinstance(node, _IMPORTING):
            continue
        for module in _modules(node, depth):
            parts = module.split(".")
            if parts[0] != _PACKAGE or len(parts) == 1 or parts[1] in {skill.id, _module(skill.id)}:
                continue
            place = Place(shown_path(file), node.lineno, node.col_offset + 1)
            message = f"`{skill.id}` imports the code of another skill, `{module}`"
            fix = f"import a tool that `{parts[1]}` exports, and call it: ctx.call(...)"
            yield place.finding("CH0610", "error", message, fix)


def _own_files(skill: Skill, tree: ast.Module, file: Path) -> Iterator[Finding]:
    """Yield where handlers import a file beside them: what runs them gets the one file alone."""
    for node, module in _own_imports(skill, tree):
        place = Place(shown_path(file), node.lineno, node.col_offset + 1)
        message = f"the handlers of `{skill.id}` import `{module}`, which lies beside them"
        fix = f"write what it holds into {file.name}: no box gives them more than that file"
        yield place.finding("CH0618", "warning", message, fix)


def imported_beside(skill: Skill) -> tuple[int, str] | None:
    """Return line and name of the first file beside them that a skill's handlers import."""
    found = ((node.lineno, module) for node, module in _own_imports(skill, _tree(skill)))
    return min(found, default=None)


def _tree(skill: Skill) -> ast.Module:
    try:
        return ast.parse(skill.handlers or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _own_imports(
    skill: Skill, tree: ast.Module
) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """Yield the statements that import a file beside the handlers, each with its module.

    What a module tries, or imports under a condition such as `TYPE_CHECKING`, is left to it.
    """
    always = (each for each in tree.body if not isinstance(each, ast.If | ast.Try))
    for node in (node for statement in always for node in ast.walk(statement)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = _own_file(skill, node)
            if module is not None:
                yield node, module


def _own_file(skill: Skill, node: ast.Import | ast.ImportFrom) -> str | None:
    """Return the module of its own folder that a statement imports, None where it imports none."""
    if isinstance(node, ast.Import):
        modules = [each.name for each in node.names]
    elif node.level == 1:
        return f".{node.module or node.names[0].name}"
    else:
        modules = [] if node.module is None or node.level else [node.module]
    return next((each for each in modules if _lies_beside(skill, each)), None)


def _lies_beside(skill: Skill, module: str) -> bool:
    top, _, below = module.partition(".")
    if top == _PACKAGE:
        return below.partition(".")[0] in {skill.id, _module(skill.id)}
    if top in sys.stdlib_module_names or top == "handlers":
        return False
    return is_file(skill.folder / f"{top}.py") or is_file(skill.folder / top / "__init__.py")


def _modules(node: ast.AST, depth: int) -> Iterator[str]:
    """Yield the modules that a node imports, by a statement or by a loader's call.

    Args:
        node: Any node.
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
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            if name in _LOADERS and isinstance(first, ast.Constant):
                yield str(first.value)
        case _:
            pass


_IMPORTING = (ast.Import, ast.ImportFrom, ast.Call)


def _module(name: str) -> str:
    return name.replace("-", "_")


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str | None]]:
    """Yield each call of a method of a context: with the method and the text it is given, if any.

    A context is the second argument of a function of the module, and whatever is called `ctx`.
    """
    contexts = {"ctx"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            contexts |= {each.arg for each in [*node.args.posonlyargs, *node.args.args][1:2]}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name in contexts:
                    yield node, method, _text(tree, node, method)
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
        if method not in _STORED or not _is_owned(first):
            return None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


def _is_owned(beginning: ast.expr) -> bool:
    """Whether a beginning of a path names the skill whole: `skills.ID.`."""
    text = beginning.value if isinstance(beginning, ast.Constant) else None
    return isinstance(text, str) and text.count(".") > 1


def _declared(skill: Skill) -> dict[str, None]:
    """Return the tools that the contract lets the handlers call, by their full names."""
    own = [f"{skill.id}.{name}" for name in skill.exports.names()]
    imported = [f"{each.skill}.{tool.name}" for each in skill.imports for tool in each.tools]
    return dict.fromkeys((*own, *imported, *skill.requires.tools, *startable(skill)))


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
    from clawhive_core.skills.documents.text import read_skill_text

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
