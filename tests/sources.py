"""The Python sources of this repository, each read and parsed once for all house checks."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def core():
    """Return the modules of the core."""
    data = ROOT / "clawhive_core" / "data"
    found = ROOT.joinpath("clawhive_core").rglob("*.py")
    return sorted(path for path in found if not path.is_relative_to(data))


@cache
def plugins():
    """Return the modules of the plugins, their tests left out."""
    found = ROOT.glob("plugins/*/**/*.py")
    return sorted(path for path in found if "tests" not in path.parts)


@cache
def skills():
    """Return the modules of the shipped skills."""
    return sorted(ROOT.glob("skills/*/*.py"))


@cache
def text(path):
    """Return a module's text."""
    return path.read_text("utf-8")


@cache
def tree(path):
    """Return a module's syntax tree."""
    return ast.parse(text(path), str(path))


@cache
def nodes(path):
    """Return every node of a module's syntax tree, as `ast.walk` yields them."""
    return tuple(ast.walk(tree(path)))
