"""The module of one skill: the types of its tools, of its handlers, and of what they may call."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clawhive_core.model.late import dataclass
from clawhive_core.model.texts import printable
from clawhive_core.skills.contracts.limits import startable
from clawhive_core.skills.contracts.schema import CORE_NAMES
from clawhive_core.skills.contracts.skill import ExportedTool, Skill
from clawhive_core.skills.typed.models import Imports, models

PACKAGE = "clawhive_skills"
CONTEXT = "_context"

MARK = "# Written by `clawhive skills types` from the contract: do not edit."
"""A line that every module has, by which one that is no longer needed is known."""

_OURS: Imports = {
    "Any": ("typing", "Any"),
    "Awaitable": ("collections.abc", "Awaitable"),
    "Literal": ("typing", "Literal"),
    "Mapping": ("collections.abc", "Mapping"),
    "Protocol": ("typing", "Protocol"),
    "Refusal": (f"{PACKAGE}.{CONTEXT}", "Refusal"),
    "SkillContext": (f"{PACKAGE}.{CONTEXT}", "SkillContext"),
    "TypeAlias": ("typing", "TypeAlias"),
    "overload": ("typing", "overload"),
}
_EXPORTED = ("Context", "Handlers", "Refusal")
"""The imports of handlers, the types of their tools left out."""

_RESERVED = frozenset({*_OURS, *_EXPORTED, "NotRequired", "TypedDict"})


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a module, and what of it is `Any` because nothing could type it."""

    text: str
    untyped: tuple[str, ...] = ()


def module_names(ids: Sequence[str]) -> dict[str, str]:
    """Return a module's name for each id.

    No two differ by case alone, and none is a word of Python or of the package.
    """
    names: dict[str, str] = {}
    taken = {CONTEXT, "__init__"}
    for skill_id in sorted(ids):
        name = re.sub(r"\W", "_", skill_id)
        name = f"_{name}" if name[:1].isdigit() else name
        while name.lower() in taken or keyword.iskeyword(name) or keyword.issoftkeyword(name):
            name += "_"
        taken.add(name.lower())
        names[skill_id] = name
    return names


def class_names(skill: Skill) -> dict[str, str]:
    """Return the first part of the types' names for each exported tool: `CountWords`."""
    names: dict[str, str] = {}
    for tool in skill.exports.tools:
        words = re.findall(r"[A-Za-z0-9]+", tool.name)
        name = "".join(word[:1].upper() + word[1:] for word in words) or "Tool"
        name = f"Tool{name}" if name[0].isdigit() else name
        while name in names.values():
            name += "_"
        names[tool.name] = name
    return names


def module_of(skill: Skill, known: Mapping[str, Skill], modules: Mapping[str, str]) -> Module:
    """Return the module of a skill.

    Args:
        skill: A skill whose contract could be read.
        known: By their ids, the skills that it may import from.
        modules: The modules' names by the skills' ids.

    Raises:
        UsageError: `missing_package`.
    """
    names = class_names(skill)
    schemas = dict(_schemas(skill, names))
    made = models(schemas, _RESERVED)
    nodes = [_documented(node, schemas) for node in made.nodes]
    if skill.exports.tools:
        nodes += [*_handlers(skill, names), *_context(skill, known, modules)]
    homes = {skill_id: modules[skill_id] for skill_id in _imported(skill, known)}
    api = f", API {skill.exports.api_version}" if skill.exports.api_version else ""
    lines = [
        f'"""The types of the skill `{skill.id}`{api}."""',
        "",
        MARK,
        "# ruff: noqa",
        "",
        "from __future__ import annotations",
        "",
        *_import_lines(nodes, {**_OURS, **made.imports}, homes),
    ]
    body = "\n\n\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in nodes)
    return Module("\n".join(lines) + (f"\n\n{body}\n" if body else ""), made.untyped)


def _import_lines(
    nodes: Sequence[ast.stmt], imports: Imports, homes: Mapping[str, str]
) -> Iterator[str]:
    """Yield the imports that the types use, sorted."""
    used = set[str]()
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                used.add(each.id)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                used |= set(re.findall(r"\w+", each.value)) & imports.keys()
    found: dict[str, list[str]] = {}
    for name in sorted(used & imports.keys()):
        home, there = imports[name]
        is_own_name = there == name and name not in _EXPORTED
        found.setdefault(home, []).append(there if is_own_name else f"{there} as {name}")
    for home in sorted(found, key=lambda each: (each.startswith(PACKAGE), each)):
        yield f"from {home} import {', '.join(found[home])}"
    for module in sorted(homes.values()):
        yield f"from {PACKAGE} import {module} as _{module}"


def _schemas(skill: Skill, names: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas of inputs and outputs with the names of their types; any without one."""
    for tool in skill.exports.tools:
        for end, schema in (("Input", tool.input_schema), ("Output", tool.output_schema)):
            yield f"{names[tool.name]}{end}", True if schema is None else schema


def _documented(node: ast.stmt, schemas: Mapping[str, Any]) -> ast.stmt:
    """Return the type of an input or output with the descriptions of its fields below them."""
    if not isinstance(node, ast.ClassDef) or not isinstance(schemas.get(node.name), Mapping):
        return node
    fields: Any = schemas[node.name].get("properties", {})
    body: list[ast.stmt] = []
    for each in node.body:
        body.append(each)
        said: Any = fields.get(ast.unparse(each.target)) if isinstance(each, ast.AnnAssign) else {}
        text: Any = cast("Any", said).get("description") if isinstance(said, Mapping) else None
        if isinstance(text, str) and text.strip():
            body.append(ast.Expr(ast.Constant(_one_line(text))))
    node.body = body
    return node


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _handlers(skill: Skill, names: Mapping[str, str]) -> Iterator[ast.stmt]:
    """Yield the protocol that `handlers.py` fulfils as a module."""
    functions = [
        _function(
            f"def {tool.function}(self, input: {names[tool.name]}Input, ctx: Context, /)"
            f" -> Awaitable[{_answer(names[tool.name])}] | {_answer(names[tool.name])}",
            tool.description,
        )
        for tool in skill.exports.tools
        if _is_handler(tool)
    ]
    yield _class("Handlers", ["Protocol"], f"What `handlers.py` of `{skill.id}` has.", functions)


def _is_handler(tool: ExportedTool) -> bool:
    return tool.function.isidentifier() and not keyword.iskeyword(tool.function)


def _context(
    skill: Skill, known: Mapping[str, Skill], modules: Mapping[str, str]
) -> Iterator[ast.stmt]:
    """Yield the protocol of what a handler gets: its `call` takes what the contract names."""
    calls = list(_calls(skill, known, modules))
    methods = [
        _function(
            f"async def call(self, name: Literal[{', '.join(map(repr, spelled))}],"
            f" input: {given}) -> {answer}"
        )
        for spelled, given, answer in calls
    ]
    for method in methods:
        if len(methods) > 1:
            method.decorator_list = [ast.Name("overload")]
    said = f"What the handlers of `{skill.id}` get beside their input."
    yield _class("Context", ["SkillContext", "Protocol"], said, methods)


def _calls(
    skill: Skill, known: Mapping[str, Skill], modules: Mapping[str, str]
) -> Iterator[tuple[list[str], str, str]]:
    """Yield the spellings of each callable tool, with the types of its input and its answer.

    A bare name is an own tool first, then that of the first import.
    """
    bare: set[str] = {*CORE_NAMES}
    named: set[str] = set()
    own = [("", skill, tool.name) for tool in skill.exports.tools]
    imported = [
        (f"_{modules[each.skill]}.", known[each.skill], tool.name)
        for each in skill.imports
        if each.skill in known and each.skill != skill.id
        for tool in each.tools
    ]
    for home, owner, tool in (*own, *imported):
        full = f"{owner.id}.{tool}"
        first = class_names(owner).get(tool)
        if first is None or full in named:
            continue
        spelled = [full] if tool in bare else [full, tool]
        bare.add(tool)
        named.add(full)
        yield spelled, f"{home}{first}Input", f"{home}{first}Output | Refusal"
    rest = dict.fromkeys((*CORE_NAMES, *skill.requires.callable_tools, *startable(skill)))
    yield [printable(name) for name in rest if name not in named], "Mapping[str, Any]", "Any"


def _imported(skill: Skill, known: Mapping[str, Skill]) -> list[str]:
    """Return the skills whose types a skill's module uses."""
    if not skill.exports.tools:
        return []
    return [
        each.skill
        for each in skill.imports
        if each.skill in known
        and each.skill != skill.id
        and not {tool.name for tool in each.tools}.isdisjoint(known[each.skill].exports.names())
    ]


def _answer(first: str) -> str:
    return f"{first}Output | Refusal"


def _function(head: str, description: str = "") -> ast.FunctionDef | ast.AsyncFunctionDef:
    made = ast.parse(f"{head}: ...").body[0]
    assert isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101 - heads are ours
    if description.strip():
        made.body.insert(0, ast.Expr(ast.Constant(_one_line(description))))
    return made


def _class(name: str, bases: Sequence[str], said: str, body: Sequence[ast.stmt]) -> ast.ClassDef:
    made = ast.parse(f"class {name}({', '.join(bases)}): ...").body[0]
    assert isinstance(made, ast.ClassDef)  # noqa: S101 - as above
    made.body = [ast.Expr(ast.Constant(said)), *(body or [ast.Pass()])]
    return made
