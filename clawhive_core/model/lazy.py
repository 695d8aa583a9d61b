"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, cast


def lazy_names(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose public names are loaded at their first use.

    They are what its `__init__` imports under `if TYPE_CHECKING`, at its end. That is the only list
    of them, for type checkers and at run time: the module's code is run once more with an `import`
    that notes names and loads nothing.
    """

    @cache
    def homes() -> Mapping[str, str]:
        loader: Any = sys.modules[package].__loader__
        noted = _Noted()
        exec(loader.get_code(package), {"__builtins__": {"__import__": noted}})  # noqa: S102 - ours
        return noted.homes

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


class _Noted:
    """Stands for `import` and for all that it gives; notes what is imported after it was tested."""

    def __init__(self) -> None:
        self.homes: dict[str, str] = {}
        self._notes = False

    def __call__(self, name: str, *given: Any) -> _Noted:
        names = cast("Sequence[str]", given[2] if len(given) > 2 else ())  # noqa: PLR2004 - fromlist
        if self._notes:
            self.homes.update(dict.fromkeys(names, name))
        return self

    def __bool__(self) -> bool:
        self._notes = True
        return True

    def __getattr__(self, name: str) -> _Noted:
        return self
