"""`dataclass` for the core's values: their methods are made when the first of them is needed.

Making them, six for each of nearly two hundred classes, was half of what importing the runtime
cost, and a program uses few of the classes. What is made is left to `dataclasses`.
"""

from __future__ import annotations

import dataclasses
import sys
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Return what makes of a class what `dataclasses.dataclass(**options)` makes of it.

        A slotted class has no `ClassVar`, no `InitVar` and no field of a class without slots: for
        those there is the original. What is wrong with a class is said at its first use.
        """
        if not options.get("slots"):
            return dataclasses.dataclass(**options)
        return lambda body: _Unmade(body, options).final


__all__ = ["dataclass"]

_making = RLock()


class _Unmade:
    """A class as it was written, and the slotted one that everybody has, whose methods are late."""

    __slots__ = ("body", "final", "options")

    def __init__(self, body: type, options: Mapping[str, bool]) -> None:
        self.body, self.options = body, options
        names = tuple(body.__annotations__)
        left_out = {"__dict__", "__weakref__", *names}
        members = {name: each for name, each in vars(body).items() if name not in left_out}
        late = {name: _Late(self, name) for name in _made(options) if name not in members}
        slots = {"__slots__": names, "__qualname__": body.__qualname__}
        self.final = type(body)(body.__name__, body.__bases__, members | late | slots)

    def make(self) -> None:
        """Have `dataclasses` make what is late and put it into its place.

        Raises:
            TypeError: What `dataclasses` raises, or an annotation is not that of a slot.
            ValueError: A default is mutable.
        """
        with _making:
            late = [name for name, each in vars(self.final).items() if isinstance(each, _Late)]
            if not late:
                return
            made = vars(cast("type", dataclasses.dataclass(**self.options)(self.body)))
            if made["__slots__"] != vars(self.final)["__slots__"]:
                raise TypeError(f"{self.final}: not every annotation is that of a slot")
            for name in late:
                setattr(self.final, name, made[name])


class _Late:
    """An attribute of a class that is made when it is first asked for."""

    __slots__ = ("name", "unmade")

    def __init__(self, unmade: _Unmade, name: str) -> None:
        self.unmade, self.name = unmade, name

    def __get__(self, instance: object, owner: type) -> Any:
        self.unmade.make()
        made = vars(self.unmade.final)[self.name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _made(options: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the names of what `dataclasses` adds to a class."""
    frozen, equal = options.get("frozen", False), options.get("eq", True)
    return (
        *("__init__", "__repr__", "__match_args__", "__dataclass_fields__", "__dataclass_params__"),
        *(("__eq__",) if equal else ()),
        *(("__lt__", "__le__", "__gt__", "__ge__") if options.get("order") else ()),
        *(("__hash__",) if options.get("unsafe_hash") or (frozen and equal) else ()),
        *(("__setattr__", "__delattr__", "__getstate__", "__setstate__") if frozen else ()),
        *(("__replace__",) if sys.version_info >= (3, 13) else ()),
    )
