import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import clawhive_core
from clawhive_core import config, testing


@pytest.mark.parametrize("package", [clawhive_core, config, testing])
def test_what_is_public_is_what_type_checkers_are_told(package):
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = [each for line in block.body for each in line.names]
    assert all(each.name == each.asname for each in told)
    assert sorted(package.__all__) == sorted(each.name for each in told)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing


def test_the_names_are_found_without_loading_what_has_them():
    code = "import sys, clawhive_core as c; c.__all__; print('clawhive_core.errors' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_every_public_name_can_be_imported():
    for name in clawhive_core.__all__:
        value = getattr(clawhive_core, name)
        assert value is not None, name
        assert getattr(value, "__name__", name) in {name, "HookimplMarker", "Union", "Literal"}


def test_every_public_name_says_what_it_is():
    silent = [
        name
        for name in clawhive_core.__all__
        if isinstance(value := getattr(clawhive_core, name), type) and not value.__doc__
    ]
    assert silent == []


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert clawhive_core.__version__ == version("clawhive")


def test_a_name_that_is_called_like_its_module_is_not_the_module_whatever_is_used_first():
    code = "import clawhive_core.testing as t; t.wire_misfits; print(callable(t.wire_kinds))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def test_names_are_loaded_where_pytest_rewrites_the_package_as_an_installed_plugin(
    tmp_path, monkeypatch
):
    package = tmp_path / "rewritten_package"
    package.mkdir()
    package.joinpath("__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from rewritten_package.part import Thing as Thing\n"
        "else:\n"
        "    from clawhive_core.model.lazy import lazy_names\n"
        "    __getattr__ = lazy_names(__name__)\n"
    )
    package.joinpath("part.py").write_text("class Thing: ...\n")
    pytest.register_assert_rewrite("rewritten_package")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("rewritten_package")
    assert not hasattr(module.__loader__, "get_source")
    assert module.Thing.__module__ == "rewritten_package.part"
