import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import clawhive_core
from clawhive_core.model import late
from clawhive_core.model.late import dataclass
from clawhive_core.model.tools import ToolCall


def pair(**options):
    """Return one class made late and the same one made by `dataclasses`."""

    def body(decorate):
        @decorate
        class Point:
            """A point."""

            x: int
            y: int = dataclasses.field(default=2, kw_only=True)
            tags: list[str] = dataclasses.field(default_factory=list, compare=False)
            seen: int = dataclasses.field(init=False, repr=False, compare=False)

            def __post_init__(self):
                object.__setattr__(self, "seen", self.x + self.y)

            @property
            def sum(self):
                return self.seen

        return Point

    return body(dataclass(**options)), body(dataclasses.dataclass(**options))


@dataclass(frozen=True, slots=True)
class Kept:
    """One that pickle finds by its name."""

    name: str
    more: tuple[int, ...] = ()


OPTIONS = [
    {"slots": True},
    {"slots": True, "frozen": True},
    {"slots": True, "frozen": True, "eq": False},
    {"slots": True, "unsafe_hash": True},
    {"slots": True, "order": True, "frozen": True},
    {"slots": True, "kw_only": True},
    {"frozen": True},
]
PROBES = {
    "made": lambda cls: cls(x=1),
    "positional": lambda cls: cls(1, ["a"], y=3),
    "a missing argument": lambda cls: cls(),
    "one too many": lambda cls: cls(1, [], 3),
    "an unknown argument": lambda cls: cls(x=1, z=2),
    "equal": lambda cls: (cls(x=1) == cls(x=1), cls(x=1) != cls(x=2), cls(x=1) == 1),
    "ordered": lambda cls: cls(x=1) < cls(x=2),
    "hash": lambda cls: len({cls(x=1): 0, **{cls(x=number): 1 for number in (1, 2)}}),
    "hash of the class": lambda cls: cls.__hash__ is None,
    "replaced": lambda cls: dataclasses.replace(cls(x=1), x=5),
    "replaced wrongly": lambda cls: dataclasses.replace(cls(x=1), seen=5),
    "fields": lambda cls: [
        (each.name, each.type, each.kw_only) for each in dataclasses.fields(cls)
    ],
    "is a dataclass": dataclasses.is_dataclass,
    "as a dict": lambda cls: dataclasses.asdict(cls(x=1)),
    "signature": lambda cls: str(inspect.signature(cls)),
    "matched": lambda cls: cls.__match_args__,
    "slots": lambda cls: getattr(cls, "__slots__", None),
    "written": lambda cls: setattr(cls(x=1), "x", 2),
    "deleted": lambda cls: delattr(cls(x=1), "x"),
    "written what is no field": lambda cls: setattr(cls(x=1), "other", 2),
    "default": lambda cls: repr(getattr(cls, "y", None))[:7],
    "copied": lambda cls: copy.copy(cls(x=1)),
    "copied with a change": lambda cls: copy.replace(cls(x=1), x=5),  # since 3.13
    "copied deeply": lambda cls: copy.deepcopy(cls(x=1, tags=["a"])).tags,
    "not initialised": lambda cls: repr(cls.__new__(cls)),
    "property": lambda cls: cls(x=1).sum,
    "named": lambda cls: (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__),
    "parameters": lambda cls: repr(cls.__dataclass_params__),
}


def outcome(probe, cls):
    """Return what a probe gives or raises; instances as their text."""
    try:
        found = probe(cls)
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return type(error), str(error)
    return repr(found)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_late_dataclass_is_what_dataclasses_makes_whatever_is_used_first(options):
    for name, probe in PROBES.items():
        mine, original = pair(**options)
        assert (name, outcome(probe, mine)) == (name, outcome(probe, original))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_late_dataclass_has_in_the_end_what_dataclasses_adds(options):
    mine, original = pair(**options)
    for cls in (mine, original):
        for probe in PROBES.values():
            outcome(probe, cls)
        assert copy.copy(cls(x=1)).x == 1
    # Before 3.11.3 `dataclasses` leaves a slotted class the getset of a `__weakref__` it has not.
    assert set(vars(mine)) - {"__weakref__"} == set(vars(original)) - {"__weakref__"}
    assert not any(isinstance(each, late._Late) for each in vars(mine).values())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("own", ["__init__", "__eq__", "__hash__", "__repr__"])
def test_what_a_late_dataclass_defines_itself_stays(options, own):
    def body(decorate):
        def method(*_):
            return None if own == "__init__" else "own" if own == "__repr__" else 7

        return decorate(type("Own", (), {"__annotations__": {"x": "int"}, "x": 1, own: method}))

    if own == "__hash__" and options.get("unsafe_hash"):
        pytest.skip("no class asks for a hash and has one")
    mine, original = body(dataclass(**options)), body(dataclasses.dataclass(**options))
    for probe in (
        lambda cls: repr(cls()),
        lambda cls: cls.__hash__ is None,
        lambda cls: own == "__hash__" and hash(cls()),
        lambda cls: cls() == 1,
        lambda cls: cls().x,
    ):
        assert outcome(probe, mine) == outcome(probe, original)


def test_a_late_dataclass_is_unpickled_where_it_was_never_made():
    code = (
        "import pickle, sys\n"
        "from clawhive_core.model.tools import ToolCall\n"
        "assert type(vars(ToolCall)['__init__']).__name__ == '_Late'\n"
        "found = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "assert found == ToolCall('1', 'clock.zone', {}), found"
    )
    argv = [sys.executable, "-c", code, pickle.dumps(ToolCall("1", "clock.zone", {})).hex()]
    subprocess.run(argv, check=True)
    assert pickle.loads(pickle.dumps(Kept("b"))) == Kept("b")


def test_a_late_dataclass_is_matched_by_its_fields():
    match Kept("a", (1,)):
        case Kept(name, more):
            assert (name, more) == ("a", (1,))


def test_a_class_may_inherit_from_a_late_dataclass():
    parent, _ = pair(slots=True, frozen=True)

    class Plain(parent):
        pass

    @dataclasses.dataclass(frozen=True, slots=True)
    class Made(parent):
        z: int = 3

    assert Plain(1).sum == 3
    assert [each.name for each in dataclasses.fields(Made)] == ["x", "y", "tags", "seen", "z"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Plain(1).x = 2


def test_a_late_dataclass_may_inherit_from_another():
    parent, _ = pair(slots=True)

    @dataclass(slots=True)
    class Child(parent):
        z: int = 3

    assert Child(1, z=4, y=5) == Child(1, z=4, y=5)
    assert [each.name for each in dataclasses.fields(Child)] == ["x", "y", "tags", "seen", "z"]


def test_a_late_dataclass_may_inherit_from_one_that_has_no_slots():
    @dataclasses.dataclass(frozen=True)
    class Open:
        x: int
        y: int = 2

    def child(decorate):
        @decorate(frozen=True, slots=True)
        class Child(Open):
            """One more."""

            z: list[int] = dataclasses.field(default_factory=list)

        return Child

    mine, original = child(dataclass), child(dataclasses.dataclass)
    for probe in (
        lambda cls: cls(1),
        lambda cls: cls(1, 3, [4]),
        lambda cls: cls(),
        lambda cls: setattr(cls(1), "x", 2),
        lambda cls: str(inspect.signature(cls)),
        lambda cls: dataclasses.replace(cls(1), y=5),
    ):
        assert outcome(probe, mine) == outcome(probe, original)


def test_a_late_dataclass_refuses_a_field_without_a_default_behind_one_with_one():
    def body(decorate):
        @decorate(slots=True)
        class Muddled:
            """One whose fields are in the wrong order."""

            x: int = 1
            y: int

        return Muddled

    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
        body(dataclasses.dataclass)
    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
        body(dataclass)(1, 2)


def test_what_is_wrong_with_a_late_dataclass_is_said_at_its_first_use():
    @dataclass(slots=True, frozen=True)
    class Mutable:
        x: list[int] = []  # noqa: RUF012 - what is refused

    for _ in range(2):
        with pytest.raises(ValueError, match="mutable default"):
            Mutable([1])


@pytest.mark.parametrize("kind", ["ClassVar[int]", "InitVar[int]", "typing.ClassVar"])
def test_a_late_dataclass_has_fields_only(kind):
    with pytest.raises(TypeError, match="has fields only"):
        dataclass(slots=True)(type("Shared", (), {"__annotations__": {"x": "int", "y": kind}}))


def test_threads_that_need_a_class_at_once_make_it_once():
    for _ in range(50):
        cls, _ = pair(slots=True, frozen=True)
        barrier = Barrier(4)

        def one(number, cls=cls, barrier=barrier):
            barrier.wait()
            return (cls(number).sum, hash(cls(number)), repr(cls(number)))

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(one, range(4)))
        assert [each[0] for each in found] == [2, 3, 4, 5]


def late_dataclasses():
    """Return the classes of the core whose methods are late, made by now or not."""
    for module in pkgutil.walk_packages(clawhive_core.__path__, "clawhive_core."):
        if module.name.startswith("clawhive_core.data"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            own = isinstance(cls, type) and cls.__module__ == module.name
            if own and "__dataclass_fields__" in vars(cls) and "__slots__" in vars(cls):
                yield cls


def test_every_late_dataclass_of_the_core_can_be_made():
    """A mutable default, for one, is refused when a class is made."""
    found = list(late_dataclasses())
    assert len(found) > 200
    for cls in found:
        own = tuple(vars(cls).get("__annotations__", ()))
        names = tuple(each.name for each in dataclasses.fields(cls))
        assert names[len(names) - len(own) :] == own  # those of a base come first
