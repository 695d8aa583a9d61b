"""What `skills check` read before, for as long as no file of it has changed.

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
from collections.abc import Iterator, Mapping
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any, cast

from clawhive_core.model.late import dataclass
from clawhive_core.skills.contracts.code import code_files
from clawhive_core.skills.documents.frozen_json import NoJson, packed, unpack
from clawhive_core.skills.finding.reader import Reader
from clawhive_core.skills.finding.reading import ReadSkill, read_skill
from clawhive_core.skills.finding.spot import Spot

SCHEMA = "skill-reads/1"
RACY_NS = 2_000_000_000
"""How old a change must be: the coarsest clock of a file system that is in use."""
MAX_FILES = 400
"""How many files and folders of one skill are looked at; one with more is read each time."""
MAX_SKILLS = 100_000
_KEPT = 32
"""How many caches there are, one a working directory."""

Stamp = list[int]


@dataclass(frozen=True, slots=True)
class _Record:
    """One skill as it is kept."""

    files: list[str] | None
    """As in `Spot`."""
    source: str
    below: list[str]
    """What it was read from, as what follows its path."""
    stamps: list[Stamp]
    read: Any
    """The packed `ReadSkill`."""


class ReadCache(Reader):
    """A reader that keeps what it read in a file.

    Args:
        file: The cache. Whatever is wrong with it, all is read anew and it is replaced.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._records = _loaded(file)
        self._fresh: dict[str, _Record] = {}
        self._changed = False

    @classmethod
    def of_here(cls, env: Mapping[str, str]) -> ReadCache:
        """Return the cache of the working directory, which the paths in findings depend on."""
        import hashlib

        base, home = env.get("XDG_CACHE_HOME", ""), env.get("HOME", "")
        top = Path(base) if os.path.isabs(base) else Path(home or os.devnull, ".cache")  # noqa: PTH117 - as a text
        try:
            here = os.fsencode(Path.cwd())
        except OSError:  # it was removed
            here = b""
        name = hashlib.sha256(here).hexdigest()[:32]
        return cls(top / "clawhive" / "skills" / f"{name}.json")

    def known(self, path: str) -> Spot | None:
        """Return the skill at a path, where nothing that it was read from has changed."""
        record = self._fresh.get(path) or self._unchanged(path)
        if record is None:
            return None
        return Spot(path, None if record.files is None else tuple(record.files))

    def _unchanged(self, path: str) -> _Record | None:
        record = self._records.get(path)
        if record is None or not _same_files(path, record):
            return None
        self._fresh[path] = record
        return record

    def read(self, spot: Spot, source: str) -> ReadSkill:
        """Return a skill, from the cache where it is unchanged."""
        record = self._fresh.get(spot.path) or self._unchanged(spot.path)
        if record is not None:
            read = cast("ReadSkill", unpack(ReadSkill)(record.read))
            if record.source == source:
                return read
            return with_changes(read, skill=with_changes(read.skill, source=source))
        began = _now()
        read = read_skill(spot, source)
        record = _record(spot, source, read, began)
        self._changed |= record is not None or spot.path in self._records
        self._records.pop(spot.path, None)
        if record is not None:
            self._fresh[spot.path] = record
        return read

    def save(self) -> None:
        """Write the cache where something changed; where it cannot be written, there is none."""
        if not self._changed:
            return
        gone = [path for path in self._records if path not in self._fresh and not _is_there(path)]
        records = {**self._records, **self._fresh}
        for path in gone:
            del records[path]
        if len(records) > MAX_SKILLS:
            records = self._fresh
        try:
            _write(self._file, _encoded(records))
        except (OSError, NoJson):
            return


def _now() -> int:
    return time.time_ns()


def _record(spot: Spot, source: str, read: ReadSkill, began: int) -> _Record | None:
    """Return what is kept of a skill, None where it cannot be kept."""
    below = list(_read_from(spot, read))
    if len(below) > MAX_FILES:
        return None
    try:
        stamps = [_stamp(spot.path + each) for each in below]
        value = packed(read)
    except (OSError, NoJson):
        return None
    youngest = max(max(each[0], each[1]) for each in stamps)
    if youngest > began - RACY_NS or any(_links(spot, below)):
        return None
    if read.skill.manifest is not None and unpack(ReadSkill)(value) != read:
        return None
    files = None if spot.files is None else list(spot.files)
    return _Record(files, source, below, stamps, value)


def _read_from(spot: Spot, read: ReadSkill) -> Iterator[str]:
    """Yield what a skill was read from: itself, its own files, and the code of one with exports."""
    yield ""
    for name in spot.files or ():
        yield os.sep + name
    if read.skill.manifest is not None and spot.files is not None:
        yield from (path.removeprefix(spot.path) for path in code_files(spot.path))


def _links(spot: Spot, below: list[str]) -> Iterator[bool]:
    """Yield whether files are links: where those lead to may change while they do not."""
    yield spot.files is None and spot.is_link
    yield from (_is_link(spot.path + each) for each in below[1:])


def _is_link(path: str) -> bool:
    return os.path.islink(path)  # noqa: PTH114 - a Path costs more than the call


def _is_there(path: str) -> bool:
    return os.path.lexists(path)


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


def _loaded(file: Path) -> dict[str, _Record]:
    """Return the records of a cache, none where it is missing, damaged, old or somebody else's."""
    import orjson

    try:
        if not _is_mine(file):
            return {}
        data = file.read_bytes()
        begin = data.index(b"\n") + 1
        body = memoryview(data)[begin:]  # without a copy: it is large
        if data[: begin - 1] != _head(body):
            return {}
        rows = orjson.loads(body)
        return {row[0]: _Record(*row[1:]) for row in rows}
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}


def _is_mine(file: Path) -> bool:
    owner = file.stat().st_uid
    return owner == (os.getuid() if hasattr(os, "getuid") else owner)


def _encoded(records: Mapping[str, _Record]) -> bytes:
    import orjson

    rows = [
        [path, each.files, each.source, each.below, each.stamps, each.read]
        for path, each in records.items()
    ]
    try:
        body = orjson.dumps(rows)
    except TypeError as error:  # a name that is not UTF-8
        raise NoJson(str(error)) from None
    return _head(body) + b"\n" + body


def _head(body: bytes | memoryview) -> bytes:
    """Return the first line of a cache: by what it was written, and a sum against damage."""
    from zlib import crc32

    return f"{SCHEMA} {_program()} {crc32(body):08x}".encode()


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


def _write(file: Path, data: bytes) -> None:
    """Replace the cache whole: processes that write at once leave that of the last."""
    import tempfile

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    for old in sorted(file.parent.glob("*.json"), key=_age)[_KEPT:]:
        old.unlink(missing_ok=True)


def _age(file: Path) -> float:
    return -file.stat().st_mtime
