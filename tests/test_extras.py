"""The extras of the distribution: one for each plugin of the repository."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOOK = ROOT / "hatch_build.py"


def constant(name):
    for node in ast.parse(HOOK.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(name)


def test_every_plugin_of_its_own_has_an_extra():
    folders = {path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml")}
    assert set(constant("PLUGINS")) == folders


@pytest.mark.parametrize("name", sorted(constant("PLUGINS")))
def test_an_extra_bears_the_name_of_its_distribution_and_entry_point(name):
    project = tomllib.loads((ROOT / "plugins" / name / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"clawhive-{name}"
    assert list(project["entry-points"]["clawhive.plugins"]) == [name]
    assert any(each.startswith("clawhive>=") for each in project["dependencies"])
