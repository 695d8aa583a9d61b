"""The rules of the house, measured on the syntax trees."""

import ast
import re
import statistics
import tomllib
from pathlib import Path

import pytest

from clawhive_core.model.version import VERSION
from tests import sources

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
MAX_BODY, P95_BODY, MEDIAN_BODY = 80, 40, 7
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def every():
    return (*sources.core(), *sources.plugins())


def place(path, node=None):
    return f"{path.relative_to(ROOT)}" + ("" if node is None else f":{node.lineno}")


def functions():
    for path in every():
        for node in sources.nodes(path):
            if isinstance(node, _FUNCTIONS):
                yield path, node


def body_lines(node):
    """Return how many lines a function's body has, its docstring left out."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_function_is_longer_than_a_screen():
    long = [place(path, node) for path, node in functions() if body_lines(node) > MAX_BODY]
    assert long == []


def test_most_functions_are_short():
    lengths = sorted(body_lines(node) for _, node in functions())
    assert statistics.median(lengths) <= MEDIAN_BODY
    assert lengths[int(len(lengths) * 0.95)] <= P95_BODY


def test_no_module_has_a_name_that_says_nothing():
    assert [
        place(path) for path in every() if {path.stem.strip("_"), path.parent.name} & VAGUE
    ] == []


def test_no_room_imports_the_public_names():
    """They are for plugins: a room that used them would hide which room it needs."""
    guilty = []
    for path in sources.core():
        for node in sources.nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module == "clawhive_core":
                guilty.append(place(path, node))
            elif isinstance(node, ast.Import):
                guilty += [place(path, node) for each in node.names if each.name == "clawhive_core"]
    assert guilty == []


def test_every_dataclass_of_the_core_is_made_when_it_is_needed():
    """`clawhive_core.model.late` makes the same class for a fraction of the import."""
    guilty = [
        place(path, node)
        for path in sources.core()
        if path != ROOT / "clawhive_core" / "model" / "late.py"
        for node in sources.nodes(path)
        if isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(each.name == "dataclass" for each in node.names)
    ]
    assert guilty == []


def test_every_regular_expression_of_a_module_is_compiled_when_it_is_needed():
    """`clawhive_core.model.patterns` is `re.compile` for what stands in a module."""
    guilty = [
        place(path, node)
        for path in sources.core()
        for statement in sources.tree(path).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    ]
    assert guilty == []


def test_plugins_of_this_repository_import_public_names_only():
    guilty = [
        place(path, node)
        for path in sources.plugins()
        for node in ast.walk(without_type_checking(sources.tree(path)))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] == "clawhive_core"
        and not (node.module or "").startswith("clawhive_core.testing")
        and node.module != "clawhive_core"
    ]
    assert guilty == []


def without_type_checking(tree):
    body = [
        each
        for each in tree.body
        if not (isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING")
    ]
    return ast.Module(body, [])


def test_a_broad_except_has_a_reason_beside_it():
    """One that may raise it again needs none."""
    guilty = []
    for path in every():
        lines = sources.text(path).splitlines()
        for node in sources.nodes(path):
            if not isinstance(node, ast.ExceptHandler) or not is_broad(node):
                continue
            raises = any(isinstance(each, ast.Raise) for each in ast.walk(node))
            around = "\n".join(lines[node.lineno - 2 : node.body[0].lineno])
            if not raises and re.search(r"#.*\w+ \w+ \w+", around) is None:
                guilty.append(place(path, node))
    assert guilty == []


def is_broad(handler):
    if handler.type is None:
        return True
    names = {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


def test_every_module_delays_its_annotations():
    late = [
        place(path)
        for path in every()
        if "from __future__ import annotations" not in sources.text(path)
        if sources.tree(path).body[1:]
    ]
    assert late == []


def test_every_module_says_what_it_is():
    silent = [path for path in every() if ast.get_docstring(sources.tree(path)) is None]
    assert [place(path) for path in silent] == []


def test_every_silenced_rule_has_its_reason():
    bare = []
    for path in every():
        for number, line in enumerate(sources.text(path).splitlines(), 1):
            if re.search(r"# (noqa|pyright: ignore)", line) and not re.search(
                r"# (noqa: [A-Z0-9, ]+|pyright: ignore\[[\w, ]+\]).* - \w", line
            ):
                bare.append(f"{place(path)}:{number}")
    assert bare == []


def test_nothing_is_left_to_do_in_a_comment():
    pattern = re.compile(r"#\s*(TODO|FIXME|XXX|HACK)\b")
    assert [place(path) for path in every() if pattern.search(sources.text(path))] == []


def test_there_is_one_version():
    assert PROJECT["project"]["version"] == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_what_the_wheel_takes_in_is_there():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for path in (*wheel["packages"], *wheel["force-include"]):
        assert ROOT.joinpath(path).is_dir(), path
    for data in ("data/schemas/run.json", "data/templates/plugin/pyproject.toml"):
        assert ROOT.joinpath("clawhive_core", data).is_file()


def test_every_shipped_skill_is_read():
    from clawhive_core.skills.discovery.reading import shipped_skills

    folders = {path.parent.name for path in ROOT.glob("skills/*/clawhive.yaml")}
    assert {skill.folder.name for skill in shipped_skills()} == folders


def test_entry_points_name_what_is_there():
    for value in PROJECT["project"]["entry-points"]["clawhive.plugins"].values():
        assert list(ROOT.glob(f"plugins/*/{value}/__init__.py"))
    assert PROJECT["project"]["scripts"] == {"clawhive": "clawhive_core.cli:main"}


def requirements():
    lines = ROOT.joinpath("requirements-dev.txt").read_text("utf-8").splitlines()
    return {re.split(r"[<>=~! ]", line)[0].lower() for line in lines if line[:1].isalpha()}


def test_the_development_requirements_hold_what_the_tests_import():
    listed = requirements() | {
        re.split(r"[<>=~! ]", each)[0].lower() for each in PROJECT["project"]["dependencies"]
    }
    homes = {
        "yaml": "pyyaml",
        "typing_extensions": "pydantic",
        "httpcore2": "httpx2",
        "mcp_types": "mcp",
    }
    own = {"tests", "benchmarks", "clawhive_core"}
    own |= {path.name for path in ROOT.glob("plugins/*/clawhive_*")}
    missing = {}
    for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")):
        for name in top_level_imports(ast.parse(path.read_text("utf-8"))):
            home = homes.get(name, name.replace("_", "-"))
            if name not in own and home not in listed and not is_standard(name):
                missing[name] = place(path)
    assert missing == {}
    assert {"pytest", "pytest-xdist", "pytest-timeout"} <= listed  # `-n`, `--timeout`


def top_level_imports(tree):
    """Return the packages that a test module imports when it is collected."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found - {"__future__"}


def is_standard(name):
    import sys

    return name in sys.stdlib_module_names


def test_no_file_pins_packages_to_addresses():
    """A lock file of somebody's mirror would send everybody else there."""
    locks = [*ROOT.glob("*.lock"), *ROOT.glob("*lock*.json"), *ROOT.glob("requirements*.txt")]
    assert [path.name for path in locks if "://" in path.read_text("utf-8")] == []
    assert "://" not in "".join(PROJECT["project"]["dependencies"])


@pytest.mark.parametrize("name", ["ruff", "basedpyright", "importlinter", "pytest"])
def test_every_tool_is_configured_in_one_file(name):
    assert name in PROJECT["tool"]
    assert not [
        each
        for each in ("ruff.toml", "pyrightconfig.json", ".importlinter", "pytest.ini", "tox.ini")
        if ROOT.joinpath(each).exists()
    ]


def test_one_module_of_the_command_line_writes_to_the_terminal():
    """`cli.output` shows what would steer the terminal as its code; nobody can forget it."""
    room = ROOT / "clawhive_core" / "cli"
    writing = (
        r"(click\.(echo|secho|echo_via_pager|prompt|confirm|pause)|print|sys\.std(out|err)\.write)"
    )
    guilty = [
        place(path, node)
        for path in sources.core()
        if path.is_relative_to(room) and path != room / "output.py"
        for node in sources.nodes(path)
        if isinstance(node, ast.Call) and re.fullmatch(writing, ast.unparse(node.func))
    ]
    assert guilty == []
