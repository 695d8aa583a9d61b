"""The cache of skills that `skills check` read, for as long as no file of one has changed.

A skill counts as unchanged while its folder and each file that was read have the size, inode, mtime
and ctime of then. What was changed in the last seconds before it was read is not kept, because a
second change could leave the same times (git calls such entries racy). The cache is the user's own
and outside of every project, which could bring along one that hides what is wrong with it. It is
never read when skills are loaded to be used.
"""

from __future__ import annotations

import os
import stat
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from dataclasses import replace as with_changes
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from clawhive_core.model.late import dataclass
from clawhive_core.protocols.cache import Cache
from clawhive_core.skills.contracts.code import code_files
from clawhive_core.skills.discovery.reading import Location, Reader, ReadSkill, read_skill

Read = Callable[[Any], Any]

_LARGEST: dict[type, float] = {int: 1 << 53, float: float("inf")}
"""The bounds below which a number is read as it was written."""


class NoJson(Exception):
    """A value is not what JSON holds without loss."""


def packed(value: Any) -> Any:
    """Return a value as JSON: a dataclass as a mapping of what differs from its defaults.

    Raises:
        NoJson: It holds something that would not come back as it is.
    """
    kind = value.__class__
    if kind is str or kind is bool or value is None:
        return value
    if kind in _LARGEST and abs(value) < _LARGEST[kind]:
        return value
    if kind is list or kind is tuple:
        return [packed(each) for each in value]
    if kind is dict:
        return _packed_mapping(cast("dict[Any, Any]", value))
    if isinstance(value, Path | date):
        return str(value)
    if is_dataclass(value):
        return {
            name: packed(each)
            for name, default in _defaults(kind)
            if (each := getattr(value, name)) != default
        }
    raise NoJson(kind.__name__)


def _packed_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    if any(type(key) is not str for key in value):
        raise NoJson("a key that is no text")
    return {key: packed(each) for key, each in value.items()}


def unpack(kind: Any) -> Read:
    """Return the function that makes a value of a type from what `packed` made of it."""
    return _reader(kind)


@cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((each.name, _default(each)) for each in fields(kind))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def _reader(kind: Any) -> Read:
    """Return what reads a type; every part of it is looked at once."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _of_dataclass(cast("type", kind))
    if kind in {Path, date}:
        return Path if kind is Path else date.fromisoformat
    if origin is tuple:
        read = _reader(inner[0])
        return lambda value: tuple([read(each) for each in value])
    if origin in {Union, types.UnionType}:
        return _of_union(tuple(each for each in inner if each is not type(None)))
    if origin in {dict, Mapping} and (read := _reader(inner[1])) is not _same:
        return lambda value: {key: read(each) for key, each in value.items()}
    return _same


def _of_dataclass(kind: type) -> Read:
    @cache
    def others() -> dict[str, Read]:
        """Return what reads the fields that JSON holds otherwise than the class."""
        hints = get_type_hints(kind)
        readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
        return {name: each for name, each in readers.items() if each is not _same}

    def read(value: Any) -> Any:
        readers = others()
        if readers.keys().isdisjoint(value):
            return kind(**value)
        made = {name: readers[name](each) for name, each in value.items() if name in readers}
        return kind(**{**value, **made})

    return read


def _of_union(kinds: tuple[Any, ...]) -> Read:
    """Return what reads one of some types, or None; a list can only be the one that is a tuple."""
    if len(kinds) == 1:
        read = _reader(kinds[0])
        return lambda value: None if value is None else read(value)
    listed = next((_reader(each) for each in kinds if get_origin(each) is tuple), _same)
    return lambda value: listed(value) if isinstance(value, list) else value


def _same(value: Any) -> Any:
    return value


SCHEMA = "skill-reads/2"
RACY_NS = 2_000_000_000
"""The least age of a change in nanoseconds: the coarsest clock of a file system in use."""
MAX_FILES = 400
"""The most files and folders of one skill; one with more is read each time."""

Stamp = list[int]


@dataclass(frozen=True, slots=True)
class _Record:
    """One skill as it is kept."""

    files: list[str] | None
    """As in `Location`."""
    source: str
    below: list[str]
    """The files that it was read from, as what follows its path."""
    stamps: list[Stamp]
    read: Any
    """The packed `ReadSkill`."""


class ReadCache(Reader):
    """A reader that keeps what it read in a cache, one row a skill.

    Args:
        cache: The cache. Whatever is wrong with it, all is read anew.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._begin = _scope()
        self._records: dict[str, _Record | None] = {}
        """The record of each path that the cache was asked for."""
        self._fresh: dict[str, _Record] = {}
        self._new: dict[bytes, bytes] = {}

    def expect(self, paths: Sequence[str]) -> None:
        """Load what is kept of some paths, in one query."""
        keys = {self._key(path): path for path in paths if path not in self._records}
        rows = self._cache.get_many(list(keys))
        for key, path in keys.items():
            self._records[path] = _decoded(rows[key]) if key in rows else None

    def _key(self, path: str) -> bytes:
        return self._begin + os.fsencode(path)

    def known(self, path: str) -> Location | None:
        """Return the skill at a path, where nothing that it was read from has changed."""
        record = self._fresh.get(path) or self._unchanged(path)
        if record is None:
            return None
        return Location(path, None if record.files is None else tuple(record.files))

    def _unchanged(self, path: str) -> _Record | None:
        if path not in self._records:
            self.expect([path])
        record = self._records[path]
        if record is None or not _same_files(path, record):
            return None
        self._fresh[path] = record
        return record

    def read(self, location: Location, source: str) -> ReadSkill:
        """Return a skill, from the cache where it is unchanged."""
        record = self._fresh.get(location.path) or self._unchanged(location.path)
        if record is not None:
            read = cast("ReadSkill", unpack(ReadSkill)(record.read))
            if record.source == source:
                return read
            return with_changes(read, skill=with_changes(read.skill, source=source))
        began = _now()
        read = read_skill(location, source)
        record = _record(location, source, read, began)
        if record is not None and (row := _encoded(record)) is not None:
            self._records[location.path] = self._fresh[location.path] = record
            self._new[self._key(location.path)] = row
        return read

    def save(self) -> None:
        """Put what was read anew into the cache."""
        self._cache.put_many(self._new)
        self._new = {}


def _now() -> int:
    return time.time_ns()


def _record(location: Location, source: str, read: ReadSkill, began: int) -> _Record | None:
    """Return what is kept of a skill, None where it cannot be kept."""
    below = list(_read_from(location, read))
    if len(below) > MAX_FILES:
        return None
    try:
        stamps = [_stamp(location.path + each) for each in below]
        value = packed(read)
    except (OSError, NoJson):
        return None
    youngest = max(max(each[0], each[1]) for each in stamps)
    if youngest > began - RACY_NS or any(_links(location, below)):
        return None
    if read.skill.manifest is not None and unpack(ReadSkill)(value) != read:
        return None
    files = None if location.files is None else list(location.files)
    return _Record(files, source, below, stamps, value)


def _read_from(location: Location, read: ReadSkill) -> Iterator[str]:
    """Yield what a skill was read from: itself, its own files, and the code of one with exports."""
    yield ""
    for name in location.files or ():
        yield os.sep + name
    if read.skill.manifest is not None and location.files is not None:
        yield from (path.removeprefix(location.path) for path in code_files(location.path))


def _links(location: Location, below: list[str]) -> Iterator[bool]:
    """Yield whether files are links: where those lead to may change while they do not."""
    yield location.files is None and location.is_link
    yield from (_is_link(location.path + each) for each in below[1:])


def _is_link(path: str) -> bool:
    return os.path.islink(path)  # noqa: PTH114 - a Path costs more than the call


def _stamp(path: str) -> Stamp:
    found = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]


def _same_files(path: str, record: _Record) -> bool:
    try:
        for each, stamp in zip(record.below, record.stamps, strict=True):
            if _stamp(path + each) != stamp:
                return False
    except OSError:
        return False
    return True


def _encoded(record: _Record) -> bytes | None:
    """Return a record as a row, None where a name in it is not UTF-8."""
    import orjson

    try:
        return orjson.dumps([record.files, record.source, record.below, record.stamps, record.read])
    except TypeError:
        return None


def _decoded(row: bytes) -> _Record | None:
    """Return the record of a row, None where it is none."""
    import orjson

    try:
        return _Record(*orjson.loads(row))
    except (ValueError, TypeError):
        return None


def _scope() -> bytes:
    """Return the begin of all keys: what reads, and the directory that findings name files from."""
    import hashlib

    try:
        here = os.fsencode(Path.cwd())
    except OSError:  # it was removed
        here = b""
    return hashlib.sha256(f"{SCHEMA} {_program()} ".encode() + here).digest()[:16]


def _program() -> str:
    """Return a digest of what reads skills: this code, its parser and Python."""
    import hashlib
    from importlib.util import find_spec

    digest = hashlib.sha256(sys.version.encode())
    core = Path(__file__).resolve().parents[2]
    folders = [core / name for name in ("skills", "diagnostics", "capabilities", "model")]
    for name in ("yaml", "jsonschema_rs"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            folders.append(Path(spec.origin).parent)
    for folder in folders:
        digest.update("".join(_states(os.fspath(folder))).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _states(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _states(entry.path)
            found = entry.stat()
            if stat.S_ISREG(found.st_mode):
                yield f"{entry.path}\0{found.st_size}\0{found.st_mtime_ns}\n"
