"""`dataclass` for the core's values: their methods are made when the first of them is needed.

Making them, six for each of nearly two hundred classes, was half of what importing the runtime
cost, and a program uses few of the classes. What is made is left to `dataclasses`, except
`__init__`, which every class that is used needs: made alone it costs a third, and one that puts the
values of a frozen instance straight into its slots takes half the time.

`per_call` is for the values that are made at every call: frozen for type checkers only.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING, field
from functools import cache
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from dataclasses import Field, dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Return what makes of a class what `dataclasses.dataclass(**options)` makes of it.

        What is wrong with a slotted class is said at its first use.
        """
        if not options.get("slots") or options.get("weakref_slot"):
            return dataclasses.dataclass(**options)
        return lambda written: _Unmade(written, options).final


__all__ = ["Caching", "dataclass", "per_call"]

T = TypeVar("T")

_CONTAINERS = (list, dict, set)
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
_MAKING = frozenset({"__init__", "__match_args__", "__dataclass_fields__"})
_COMPARING = frozenset({"__repr__", "__eq__", "__hash__", *_ORDER})
_KEEPING = frozenset({"__getstate__", "__setstate__", "__dataclass_params__"})
_FREEZING = frozenset({"__setattr__", "__delattr__", "__replace__"})
"""Groups of methods by need: every instance, few classes, hardly any."""


class _Unset:
    """The default of an argument that a factory gives, shown as `dataclasses` shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_UNSET = _Unset()


class Caching:
    """Base of a slotted dataclass that has a `cached_property`."""

    __slots__ = ("__dict__", "__weakref__")


class _Unmade:
    """A class as it was written, and the slotted one that everybody has, whose methods are late.

    Raises:
        TypeError: An annotation is not that of a field.
    """

    __slots__ = ("bases", "final", "members", "options")

    def __init__(self, written: type, options: dict[str, bool]) -> None:
        fields = written.__annotations__
        kinds = " ".join(map(str, fields.values()))
        if "ClassVar" in kinds or "InitVar" in kinds:
            raise TypeError(f"{written}: a late dataclass has fields only")
        self.options, self.bases = options, written.__bases__
        self.members = {**vars(written), "__qualname__": written.__qualname__}
        for name in ("__dict__", "__weakref__"):
            self.members.pop(name, None)
        own = {name: each for name, each in self.members.items() if name not in fields}
        if own.get("__hash__", ...) is None and "__eq__" in own:
            del own["__hash__"]  # nobody wrote it: `class` adds it beside an own `__eq__`
        late = {name: _Late(self, name) for name in _added(tuple(options.items()))}
        final = {**late, **own, "__slots__": tuple(fields)}
        self.final: type = type(written)(written.__name__, self.bases, final)

    def make(self, name: str) -> None:
        """Put what is late with this name into its place, and what is made together with it.

        Threads that do so at once make equal methods, each from a copy of what was written, so
        that nothing has to be locked, nor can be left locked in a forked child.

        Raises:
            TypeError: As `dataclasses`.
            ValueError: As `dataclasses`.
        """
        late = {each for each, value in vars(self.final).items() if isinstance(value, _Late)}
        if name not in late:
            return
        together, spared = _part(name)
        options = {**self.options, **dict.fromkeys(spared, False)}
        if together is _COMPARING:
            options["unsafe_hash"] = "__hash__" in late
        made = self._made(options)
        if "__init__" in late & together:
            frozen = self.options.get("frozen", False)
            made["__init__"] = _init(self.final, made["__dataclass_fields__"], frozen=frozen)
        for each in late & together:
            setattr(self.final, each, made[each])

    def _made(self, options: dict[str, bool]) -> dict[str, Any]:
        """Return what `dataclasses` puts into a copy of the class as it was written."""
        bases = self.bases
        if not options.get("frozen") and self.options.get("frozen"):
            # A frozen base wants its own kind; its fields are those of any class that inherits.
            options = {**options, "frozen": any(map(dataclasses.is_dataclass, bases))}
        types = cast("dict[str, Any]", self.members["__annotations__"])
        # An annotation that is a text is searched for ClassVar and InitVar, twice a field.
        untyped: dict[str, Any] = dict.fromkeys(types, object)
        unseen = {"__annotations__": untyped, "__doc__": "What nobody sees, so that none is made."}
        written = type(self.final)(self.final.__name__, bases, {**self.members, **unseen})
        made = dict(vars(cast("type", dataclasses.dataclass(**options)(written))))
        for name, kind in types.items():
            made["__dataclass_fields__"][name].type = kind
        return made


class _Late:
    """An attribute of a class that is made when it is first asked for."""

    __slots__ = ("name", "unmade")

    def __init__(self, unmade: _Unmade, name: str) -> None:
        self.unmade, self.name = unmade, name

    def __get__(self, instance: object, owner: type) -> Any:
        self.unmade.make(self.name)
        made = vars(self.unmade.final)[self.name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _part(name: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return what is made together with a name, and the options that need not be given for it."""
    if name in _COMPARING:
        return _COMPARING, ("slots", "init", "frozen")
    if name in _MAKING:
        return _MAKING, ("slots", "init", "frozen", "repr", "eq", "order", "unsafe_hash")
    if name in _FREEZING:
        return _FREEZING, ("slots", "init", "repr", "eq", "order", "unsafe_hash")
    return _KEEPING, ()


def _init(cls: type, fields: Mapping[str, Field[Any]], *, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` that `dataclasses` would make.

    Raises:
        TypeError: A field without a default follows one with a default.
    """
    known: dict[str, Any] = {"__name__": cls.__module__, "_unset_": _UNSET}
    written = [_written(cls, each, known, frozen=frozen) for each in fields.values()]
    if hasattr(cls, "__post_init__"):
        written.append(" self.__post_init__()")
    body = "\n".join([line for line in written if line] or [" pass"])
    exec(f"def __init__({_arguments(fields.values())}):\n{body}", known)  # noqa: S102 - of fields' names, as `dataclasses` does it
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    types = {each.name: each.type for each in fields.values() if each.init}
    made.__annotations__ = {**types, "return": None}
    return made


def _arguments(fields: Iterable[Field[Any]]) -> str:
    """Return what stands between the brackets of `__init__`."""
    given, named = ["self"], ["*"]
    for each in fields:
        if not each.init:
            continue
        if each.default_factory is not MISSING:
            text = f"{each.name}=_unset_"
        else:
            text = each.name if each.default is MISSING else f"{each.name}=_of_{each.name}_"
        if text == each.name and not each.kw_only and "=" in given[-1]:
            raise TypeError(f"non-default argument {text!r} follows default argument")
        (named if each.kw_only else given).append(text)
    return ", ".join(given if len(named) == 1 else [*given, *named])


def _written(cls: type, field: Field[Any], known: dict[str, Any], *, frozen: bool) -> str:
    """Return the line of `__init__` that sets a field, empty for one that it leaves unset."""
    name, value = field.name, field.name
    if field.default_factory is not MISSING:
        known[f"_of_{name}_"] = _unsubscripted(field.default_factory)
        value = f"_of_{name}_()"
        if field.init:
            value = f"{value} if {name} is _unset_ else {name}"
    elif field.default is not MISSING:
        known[f"_of_{name}_"] = field.default
        value = name if field.init else f"_of_{name}_"
    elif not field.init:
        return ""
    if not frozen:
        return f" self.{name} = {value}"
    slot = getattr(cls, name, None)
    if not isinstance(
        slot, MemberDescriptorType
    ):  # it is inherited, with the instances' `__dict__`
        known["_set_"] = object.__setattr__
        return f" _set_(self, {name!r}, {value})"
    known[f"_set_{name}_"] = slot.__set__
    return f" _set_{name}_(self, {value})"


def _unsubscripted(factory: Callable[[], Any]) -> Callable[[], Any]:
    """Return `list` for `list[str]`, which makes the same value in seven times the time."""
    origin = getattr(factory, "__origin__", None)
    return origin if origin in _CONTAINERS else factory


@cache
def _added(given: tuple[tuple[str, bool], ...]) -> list[str]:
    """Return the names of what `dataclasses` adds to a class with these options."""
    options = dict(given)
    frozen, equal = options.get("frozen", False), options.get("eq", True)
    added = ["__init__", "__repr__", "__match_args__"]
    added += ["__dataclass_fields__", "__dataclass_params__"]
    if equal:
        added.append("__eq__")
    if options.get("unsafe_hash") or (frozen and equal):
        added.append("__hash__")
    if options.get("order"):
        added += _ORDER
    if frozen:
        added += ["__setattr__", "__delattr__", "__getstate__", "__setstate__"]
    if sys.version_info >= (3, 13):
        added.append("__replace__")
    return added


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def per_call(cls: type[T]) -> type[T]:
    """Return a slotted dataclass, compared and hashed by its fields, that nobody may write to.

    That is held by type checkers alone: `frozen=True` sets every field through a call of its own,
    and an event with its fourteen fields takes four times as long to make (1.8 us for 0.4). It is
    for what the executor and the loop make at each call and turn, and for nothing else.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
