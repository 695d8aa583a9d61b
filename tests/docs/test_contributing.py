"""What the page for newcomers names is there, and its commands name files that are."""

import re
import shlex
import tomllib

from packaging.requirements import Requirement

from tests.docs.conftest import ROOT, block

PAGE = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
PATHS = [
    word
    for code in re.findall(r"`([^`\n]+)`", PAGE)
    for word in code.split()
    if "/" in word or re.search(r"\.(py|md|toml)$", word)
]


def is_there(path):
    return ROOT.joinpath(path).exists()


def test_every_path_is_there():
    assert len(PATHS) > 30
    assert [path for path in PATHS if not is_there(path)] == []


def test_the_tables_that_a_change_adds_to_are_where_the_page_says():
    for name, file in (
        ("PROTOCOLS", "clawhive_core/plugins/hookspecs.py"),
        ("COMMANDS", "clawhive_core/cli/__init__.py"),
        ("Kind", "clawhive_core/events/kinds.py"),
    ):
        assert f"`{name}`" in PAGE
        assert re.search(
            rf"^(class )?{name}\b", ROOT.joinpath(file).read_text("utf-8"), re.MULTILINE
        )


def test_every_command_runs_a_tool_of_the_development_requirements_on_what_is_there():
    lines = ROOT.joinpath("requirements-dev.txt").read_text("utf-8").splitlines()
    tools = {"pip", *(Requirement(line).name for line in lines if not line.startswith("-e"))}
    for line in block("CONTRIBUTING.md", "bash").splitlines():
        for command in line.split(" && "):
            program, *words = shlex.split(command)
            assert program == "python3" or program.removeprefix(".venv/bin/") in tools
            named = [word for word in words if "/" in word or word.endswith((".py", ".txt"))]
            assert [word for word in named if not is_there(word)] == []


def test_the_order_of_rooms_is_where_the_page_says():
    assert "`[tool.importlinter]`" in PAGE
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    assert any("layers" in each for each in project["tool"]["importlinter"]["contracts"])


def test_the_page_is_one_page():
    assert len(PAGE.splitlines()) <= 90
