"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose public names are loaded at their first use.

    They are what its `__init__` imports under `if TYPE_CHECKING`: one list for type checkers and
    at run time, read from the module's source when a name is first asked for.
    """

    @cache
    def homes() -> Mapping[str, str]:
        import ast

        module = sys.modules[package]
        loader: Any = module.__loader__  # pytest's, which rewrites plugins, has no `get_source`
        tree = ast.parse(loader.get_data(module.__file__))
        blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
        imports = [node for body in blocks for node in body if isinstance(node, ast.ImportFrom)]
        return {each.name: str(node.module) for node in imports for each in node.names}

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home)
        for each, where in homes().items():
            if where == home:  # also one that is called like its module, which shadows it by now
                setattr(sys.modules[package], each, getattr(module, each))
        return getattr(module, name)

    return load
