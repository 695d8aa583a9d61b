"""TypedDicts for JSON Schemas, made by datamodel-code-generator and put in order.

What is left out only makes a type wider. Titles, descriptions, formats and whatever else a
generator might turn into names, comments or values stay outside.

The generator's text is read as a syntax tree and written anew from it, so that nothing that a
contract says is ever code, and equal schemas make equal bytes.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import unquote

from clawhive_core.errors import UsageError
from clawhive_core.model.late import dataclass

Bundle = dict[str, Any]

INDEX = "ClawhiveIndex"
"""The model whose fields name the others, in the order of their schemas."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_SINGLE = ("items", "additionalProperties")
_VALUES = ("type", "enum", "const", "required")


def bundle(schemas: Mapping[str, Any]) -> Bundle:
    """Return one schema with each of these as a definition, and a root that names them in order.

    References stay within the schema that they stand in; one that leads out of it, or to what is
    left out, takes anything.
    """
    defs = {name: _kept(schema, f"#/$defs/{name}") for name, schema in schemas.items()}
    whole: Bundle = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": INDEX,
        "type": "object",
        "properties": {f"p{at}": {"$ref": f"#/$defs/{name}"} for at, name in enumerate(defs)},
        "required": [f"p{at}" for at in range(len(defs))],
        "$defs": defs,
    }
    _cut(whole, whole)
    return whole


def _kept(schema: Any, root: str, *, inside: bool = False) -> Any:
    if not isinstance(schema, Mapping):
        return True  # false takes nothing: there is no such value to type
    given = cast("Mapping[str, Any]", schema)
    if inside and "$id" in given:
        return {}  # its references begin somewhere else
    kept = {key: given[key] for key in _VALUES if key in given} | _below(given, root)
    if isinstance(given.get("$ref"), str):
        kept["$ref"] = _moved(given["$ref"], root)
    if given.get("additionalProperties") is False:
        kept["additionalProperties"] = False
    return kept


def _below(given: Mapping[str, Any], root: str) -> Bundle:
    kept: Bundle = {}
    for key in _MAPS:
        if isinstance(given.get(key), Mapping):
            kept[key] = {name: _kept(each, root, inside=True) for name, each in given[key].items()}
    for key in _LISTS:
        if isinstance(given.get(key), list):
            kept[key] = [_kept(each, root, inside=True) for each in given[key]]
    for key in _SINGLE:
        if key in given:
            kept[key] = _kept(given[key], root, inside=True)
    return kept


def _moved(reference: str, root: str) -> str:
    if reference == "#" or reference.startswith("#/"):
        return root + reference[1:]
    return ""


def _cut(value: Any, whole: Bundle) -> None:
    """Remove the references that lead nowhere; the depth is bounded by the document's."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        reference = entries.get("$ref")
        if isinstance(reference, str) and not _leads(reference, whole):
            del entries["$ref"]
        for key in (*_MAPS, *_LISTS, *_SINGLE):
            below: Any = entries.get(key)
            if key in _MAPS and isinstance(below, dict):
                below = list(cast("dict[str, Any]", below).values())
            for each in cast("list[Any]", below) if isinstance(below, list) else [below]:
                _cut(each, whole)


def _leads(reference: str, whole: Bundle) -> bool:
    value: Any = whole
    for part in reference.removeprefix("#/").split("/"):
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, Any]", value)[key]
        elif isinstance(value, list) and key.isdecimal():
            items = cast("list[Any]", value)
            if int(key) >= len(items):
                return False
            value = items[int(key)]
        else:
            return False
    return isinstance(value, dict | bool)


INSTALL = "pip install 'clawhive[types]'"

Imports = dict[str, tuple[str, str]]
"""By the name that they bind: the module, and the name in it."""


@dataclass(frozen=True, slots=True)
class Models:
    """The types of some schemas."""

    nodes: tuple[ast.stmt, ...]
    imports: Imports
    untyped: tuple[str, ...] = ()
    """The schemas that the generator could not type; they are `Any`."""


def models(schemas: Mapping[str, Any], reserved: frozenset[str]) -> Models:
    """Return the types of schemas, each under its own name.

    Args:
        schemas: By the names that their types get.
        reserved: Names that no other type may get.

    Raises:
        UsageError: `missing_package`.
    """
    made = _made(schemas, reserved)
    if made is not None:
        return made
    untyped = tuple(name for name in schemas if _made({name: schemas[name]}, reserved) is None)
    rest = {name: True if name in untyped else schema for name, schema in schemas.items()}
    made = _made(rest, reserved)
    if made is None:  # each alone can be typed, and all together cannot
        untyped = tuple(schemas)
        made = _made(dict.fromkeys(schemas, True), reserved) or Models((), {})
    return Models(made.nodes, made.imports, untyped)


def _made(schemas: Mapping[str, Any], reserved: frozenset[str]) -> Models | None:
    """Return the types, None where the generator fails, or what it writes is no Python."""
    if not schemas:
        return Models((), {})
    generate = _generator()
    try:
        tree = ast.parse(generate(json.dumps(bundle(schemas))))
    except ImportError as error:  # it imports some of what it needs only when it needs it
        raise _missing(error) from error
    except Exception:  # noqa: BLE001 - whatever a library makes of odd schemas, the type is Any
        return None
    return _ordered(tree, list(schemas), reserved)


def _generator() -> Callable[[str], str]:
    from importlib import import_module

    try:
        home: Any = import_module("datamodel_code_generator")
    except ImportError as error:
        raise _missing(error) from error

    def text(schema: str) -> str:
        return str(
            home.generate(
                schema,
                input_file_type=home.InputFileType.JsonSchema,
                output_model_type=home.DataModelType.TypingTypedDict,
                target_python_version=home.PythonVersion.PY_311,
                class_name=INDEX,
                disable_timestamp=True,
                formatters=[],  # black and isort differ from release to release
                parent_scoped_naming=True,
                use_standard_collections=True,
                use_union_operator=True,
            )
        )

    return text


def _missing(error: ImportError) -> UsageError:
    return UsageError(
        f"types are written by datamodel-code-generator, which cannot be used: {error}",
        fix=INSTALL,
        code="missing_package",
    )


def _ordered(tree: ast.Module, names: list[str], reserved: frozenset[str]) -> Models | None:
    imports: Imports = {}
    nodes: list[ast.stmt] = []
    index: ast.stmt | None = None
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            home = node.module or ""
            imports |= {each.asname or each.name: (home, each.name) for each in node.names}
        elif _name(node) == INDEX:
            index = node
        elif _name(node) is not None:
            nodes.append(node)
    if not isinstance(index, ast.ClassDef):
        return None
    fields = _fields(index)
    if list(fields) != [f"p{number}" for number in range(len(names))]:
        return None  # a definition of a schema took its name
    wanted = dict(zip(names, fields.values(), strict=True))
    taken = reserved | {name for name, field in wanted.items() if not _is(field, name)}
    clashes = [name for name in map(_name, nodes) if name in taken]
    rename = _Renamed({name: _free(name, taken) for name in clashes})
    nodes = [_plain(rename.visit(node)) for node in nodes]
    for name, field in wanted.items():
        if not _is(field, name):
            nodes.append(_alias(name, ast.unparse(rename.visit(field))))
    return None if any(map(_hides, nodes)) else Models(tuple(nodes), imports)


def _alias(name: str, meaning: str) -> ast.stmt:
    return ast.parse(f"{name}: TypeAlias = {meaning}").body[0]


def _name(node: ast.stmt) -> str | None:
    """Return the name that a type of the generator's text gets."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return None


def _is(field: ast.expr, name: str) -> bool:
    return isinstance(field, ast.Name) and field.id == name


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _Renamed(ast.NodeTransformer):
    """Gives types other names, wherever they stand."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.name = self._names.get(node.name, node.name)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call):
            node.value.args[0] = ast.Constant(_name(node))
        return node


def _plain(node: ast.stmt) -> ast.stmt:
    """Return a type that any checker reads as it is meant.

    Where a field hides a name that a type of the same class uses, and where no class can have the
    field, the type is made by a call; the types in it stand in quotes, so that it may hold itself.
    An object of any keys is no class without fields.
    """
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        table = node.value.args[1]
        if isinstance(table, ast.Dict):
            table.values = [ast.Constant(ast.unparse(each)) for each in table.values]
        return node
    if not isinstance(node, ast.ClassDef) or not _is(node.bases[0], "TypedDict"):
        return node
    if not _fields(node) and not node.keywords:
        return _alias(node.name, "dict[str, Any]")
    if not _hides(node):
        return node
    fields = _fields(node)
    table = ast.Dict(
        [ast.Constant(name) for name in fields],
        [ast.Constant(ast.unparse(field)) for field in fields.values()],
    )
    call = ast.Call(node.bases[0], [ast.Constant(node.name), table], node.keywords)
    return ast.Assign([ast.Name(node.name, ast.Store())], call)


def _fields(node: ast.ClassDef) -> dict[str, ast.expr]:
    found = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return {ast.unparse(each.target): each.annotation for each in found}


def _hides(node: ast.stmt) -> bool:
    """Whether a field of a class has a name that the class's types use."""
    if not isinstance(node, ast.ClassDef):
        return False
    fields = _fields(node)
    used = {
        each.id
        for field in fields.values()
        for each in ast.walk(field)
        if isinstance(each, ast.Name)
    }
    return not used.isdisjoint(fields)
