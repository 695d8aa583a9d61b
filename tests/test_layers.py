import ast
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.style_table import Module, read_package, room_cycles
from tests import sources

ROOT = Path(__file__).parent.parent
CORE = ROOT / "clawhive_core"


def declared_layers():
    """Return each room's height, from the contract; rooms beside each other have the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == [CORE.name]]
    return {
        room.strip(" ()"): height
        for height, line in enumerate(reversed(layers))
        for room in line.split("|")
    }


HEIGHT = declared_layers()


def rooms():
    return [path for path in sources.core() if path.parent != CORE or path.stem[:2] != "__"]


def room_of(path):
    first = path.relative_to(CORE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path):
    """Yield what a module imports anywhere, also inside functions: rooms, or what none may."""
    for node in sources.nodes(path):
        names = []
        if isinstance(node, ast.ImportFrom):
            if node.level:
                yield "a relative import"
                continue
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "clawhive_builtin":
                yield "clawhive_builtin"
            if parts[0] == "clawhive_core" and len(parts) > 1 and parts[1] in HEIGHT:
                yield parts[1]


def test_every_room_has_a_place_in_the_layers():
    assert {room_of(path) for path in rooms()} <= set(HEIGHT)


def test_a_module_imports_only_rooms_below_its_own():
    wrong = [
        f"{path.relative_to(CORE)}: {each}"
        for path in rooms()
        for each in sorted({*imported_rooms(path)} - {room_of(path)})
        if HEIGHT.get(each, len(HEIGHT)) >= HEIGHT[room_of(path)]
    ]
    assert wrong == []


SQL = re.compile(
    r"""\bsqlite3\.[A-Z]|["'(]\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA|WITH RECURSIVE|CREATE \w+)\s"""
)


def test_only_the_storage_room_speaks_sql():
    above = [path for path in rooms() if room_of(path) != "storage"]
    found = [str(path.relative_to(CORE)) for path in above if SQL.search(sources.text(path))]
    assert found == []


def test_no_modules_of_a_room_import_each_other():
    found = [
        tuple(name.removeprefix("clawhive_core.") for name in cycle)
        for cycle in room_cycles(read_package(CORE), types=True)
    ]
    assert found == []


@pytest.mark.parametrize("where", ["", "def f():\n    ", "if TYPE_CHECKING:\n    "])
def test_a_cycle_is_found_wherever_its_imports_stand(where):
    modules = [
        Module("core.room.a", f"{where}from core.room import b, d"),
        Module("core.room.b", f"{where}import core.room.c"),
        Module("core.room.c", f"{where}from .a import name"),
        Module("core.room.d", "from core.other import e"),
        Module("core.other.e", "from core.room import d"),
    ]
    cycle = ("core.room.a", "core.room.b", "core.room.c")
    assert room_cycles(modules, types=True) == [cycle]
    assert room_cycles(modules) == ([] if "TYPE_CHECKING" in where else [cycle])


def test_no_room_runs_code_in_the_logs_transaction():
    """What a room expects is a value; what changes more than events is the log's own."""
    above = [path for path in rooms() if room_of(path) != "storage"]
    assert [path for path in above if "effect=" in path.read_text(encoding="utf-8")] == []
