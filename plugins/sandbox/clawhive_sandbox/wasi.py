"""The system calls of a guest that are answered here instead of by wasmtime's WASI.

Output, input, time and randomness are ours, so that they can be limited and repeated; calls that
write files are counted and then passed on, so that wasmtime alone resolves paths. Numbers and
layouts: WASI snapshot preview 1 (https://github.com/WebAssembly/WASI/blob/wasi-0.1/preview1).
"""

from __future__ import annotations

import os
import random
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from wasmtime import Func, Linker, Memory, Store

    from clawhive_sandbox.worker import Conversation

MODULE = "wasi_snapshot_preview1"
CHANNEL = 1 << 20
"""The descriptor by which a guest's own program speaks with its worker."""
CHANNEL_FILE = b".clawhive-channel"
"""The file that gives a guest this descriptor, once, where its C library wants real ones only."""

SUCCESS, BADF, FAULT, INVAL, NOTSUP = 0, 8, 21, 28, 58
_CREATE, _DIRECTORY, _EXCLUSIVE, _NOENT = 1, 2, 4, 44
_PIECE = 64 * 1024
_MESSAGE = 16 << 20
_SUBSCRIPTIONS = 4096
_REALTIME = 0
_CLOCK, _READ = 0, 1
_ABSOLUTE = 1

COUNTED = {
    "fd_write": "i32 i32 i32 i32",
    "fd_pwrite": "i32 i32 i32 i64 i32",
    "fd_read": "i32 i32 i32 i32",
    "fd_filestat_set_size": "i32 i64",
    "path_open": "i32 i32 i32 i32 i32 i64 i64 i32 i32",
    "path_create_directory": "i32 i32 i32",
}
"""The calls that are counted and passed on, with the types of their parameters."""


def shim_source() -> str:
    """Return a module whose functions pass calls on, with the guest's memory as their own.

    WASI finds the memory it works on among the exports of its caller, and a call from outside of
    any module has none.
    """
    imports: list[str] = []
    functions: list[str] = []
    for name, types in COUNTED.items():
        given = " ".join(f"(local.get {number})" for number in range(len(types.split())))
        imports.append(f'(import "wasi" "{name}" (func ${name} (param {types}) (result i32)))')
        functions.append(
            f'(func (export "{name}") (param {types}) (result i32) (call ${name} {given}))'
        )
    memory = '(import "guest" "memory" (memory 0))', '(export "memory" (memory 0))'
    return "\n".join(["(module", memory[0], *imports, memory[1], *functions, ")"])


class Clock:
    """The guest's time: the machine's, or one that begins at a moment and moves by being used.

    Args:
        start: Seconds since 1970 where a repeatable clock begins; None for the machine's time.
    """

    def __init__(self, start: float | None) -> None:
        self._start = None if start is None else int(start * 1e9)
        self._moved = 0
        self._zero = time.monotonic_ns()

    def now(self, kind: int) -> int:
        """Return a clock's nanoseconds; all but the real time begin with the guest."""
        if self._start is None:
            return time.time_ns() if kind == _REALTIME else time.monotonic_ns() - self._zero + 1
        self._moved += 1_000
        return self._moved + (self._start if kind == _REALTIME else 0)

    def slept(self, nanoseconds: int) -> None:
        """Move a repeatable clock."""
        self._moved += nanoseconds


class Quota:
    """What a guest may still write: bytes as they pass, and the folders measured when they are up.

    Args:
        folders: Descriptors of the folders that it may write.
    """

    def __init__(self, folders: list[int]) -> None:
        self._folders = folders
        self.renew(0, 0)

    def renew(self, files: int, size: int) -> None:
        """Begin anew, for a program that may add as many files and folders, and bytes."""
        self._before = self._used()
        self._files = self._files_left = files
        self._bytes = self._bytes_left = size

    def spend(self, files: int, size: int) -> bool:
        """Note what is about to be written; whether there is room for it."""
        self._files_left -= files
        self._bytes_left -= size
        if self._files_left >= 0 and self._bytes_left >= 0:
            return True
        files_used, bytes_used = self._used()
        self._files_left = self._files - (files_used - self._before[0]) - files
        self._bytes_left = self._bytes - (bytes_used - self._before[1]) - size
        return self._files_left >= 0 and self._bytes_left >= 0

    def _used(self) -> tuple[int, int]:
        """Return files and bytes in the folders, and of what is open and has no name any more."""
        files = size = 0
        for folder in self._folders:
            for _, names, inside, at in os.fwalk(".", dir_fd=folder):
                files += len(names) + len(inside)
                size += sum(_size(name, at) for name in inside)
        return files, size + sum(map(_unnamed_size, Path("/proc/self/fd").iterdir()))


def _size(name: str, at: int) -> int:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_size
    except OSError:  # it is gone
        return 0


def _unnamed_size(descriptor: Path) -> int:
    """Return the bytes of an open file that has no name any more."""
    try:
        about = descriptor.stat()
    except OSError:  # it was the listing's own
        return 0
    is_unnamed = about.st_nlink == 0 and stat.S_ISREG(about.st_mode)
    return about.st_blocks * 512 if is_unnamed else 0


@dataclass(frozen=True, slots=True)
class _Subscription:
    user: bytes
    kind: int
    due: int
    """Nanoseconds from now, of a clock."""
    fd: int


class System:
    """The calls of one guest.

    Args:
        store: The guest's store.
        linker: Where the calls are defined, in place of wasmtime's.
        talk: The conversation with the engine: output, input and the guest's own messages.
        clock: Its time.
        seed: The start of repeatable randomness; None for the machine's.
        quota: What it may write.
    """

    def __init__(
        self,
        store: Store,
        linker: Linker,
        talk: Conversation,
        clock: Clock,
        seed: int | None,
        quota: Quota,
    ) -> None:
        from wasmtime import FuncType, ValType

        self._store, self._talk, self._clock, self._quota = store, talk, clock, quota
        self._random = os.urandom if seed is None else random.Random(seed).randbytes  # noqa: S311 - repeatable, by order
        self._memory: Memory | None = None
        self._channel = CHANNEL
        self._passed: dict[str, Func] = {}
        self.originals = {name: linker.get(store, MODULE, name) for name in COUNTED}
        types = {"i32": ValType.i32, "i64": ValType.i64}
        linker.allow_shadowing = True
        for name, params in {**COUNTED, **_ANSWERED}.items():
            kind = FuncType([types[each]() for each in params.split()], [ValType.i32()])
            method: Callable[..., int] = getattr(self, f"_{name}")
            linker.define_func(MODULE, name, kind, method)

    def attach(self, memory: Memory, passed: dict[str, Func]) -> None:
        """Take the guest's memory, and the functions that pass calls on."""
        self._memory, self._passed = memory, passed

    def _read(self, address: int, length: int) -> bytes:
        memory, address = cast("Memory", self._memory), address & 0xFFFFFFFF
        if address + length > memory.data_len(self._store):
            raise IndexError("outside of the guest's memory")
        return bytes(memory.read(self._store, address, address + length))

    def _write(self, address: int, data: bytes) -> None:
        cast("Memory", self._memory).write(self._store, data, address & 0xFFFFFFFF)

    def _vectors(self, address: int, count: int) -> list[tuple[int, int]]:
        return list(struct.iter_unpack("<II", self._read(address, 8 * min(count, 1024))))

    def _gathered(self, address: int, count: int, most: int) -> bytes:
        data = bytearray()
        for start, length in self._vectors(address, count):
            data += self._read(start, min(length, most - len(data)))
            if len(data) >= most:
                break
        return bytes(data)

    def _pass(self, name: str, *given: int) -> int:
        return self._passed[name](self._store, *given)

    def _spend(self, files: int, size: int) -> None:
        if not self._quota.spend(files, size):
            self._talk.stop("files")

    def _fd_write(self, fd: int, vectors: int, count: int, written: int) -> int:
        if fd in {1, 2}:
            data = self._gathered(vectors, count, _PIECE)
            self._talk.printed("stdout" if fd == 1 else "stderr", data)
        elif fd == self._channel:
            data = self._gathered(vectors, count, _MESSAGE)
            self._talk.told(data)
        else:
            self._spend(0, sum(length for _, length in self._vectors(vectors, count)))
            return self._pass("fd_write", fd, vectors, count, written)
        self._write(written, struct.pack("<I", len(data)))
        return SUCCESS

    def _fd_pwrite(self, fd: int, vectors: int, count: int, offset: int, written: int) -> int:
        self._spend(0, sum(length for _, length in self._vectors(vectors, count)))
        return self._pass("fd_pwrite", fd, vectors, count, offset, written)

    def _fd_read(self, fd: int, vectors: int, count: int, got: int) -> int:
        if fd not in {0, self._channel}:
            return self._pass("fd_read", fd, vectors, count, got)
        found = self._vectors(vectors, count)
        start, length = next(((at, size) for at, size in found if size), (0, 0))
        data = self._talk.read(length) if fd == self._channel else self._talk.stdin(length)
        self._write(start, data)
        self._write(got, struct.pack("<I", len(data)))
        return SUCCESS

    def _fd_filestat_set_size(self, fd: int, size: int) -> int:
        self._spend(0, max(0, size))
        return self._pass("fd_filestat_set_size", fd, size)

    def _path_open(
        self,
        fd: int,
        follow: int,
        path: int,
        length: int,
        how: int,
        rights: int,
        inherited: int,
        flags: int,
        opened: int,
    ) -> int:
        if self._channel == CHANNEL and self._read(path, length) == CHANNEL_FILE:
            return self._open_channel(fd, path, opened)
        rest = (rights, inherited, flags, opened)
        if how & _CREATE and not how & _EXCLUSIVE:
            there = self._pass("path_open", fd, follow, path, length, how & ~_CREATE, *rest)
            if there != _NOENT:
                return there
        if how & _CREATE:
            self._spend(1, 0)
        return self._pass("path_open", fd, follow, path, length, how, *rest)

    def _open_channel(self, fd: int, path: int, opened: int) -> int:
        """Give the guest a descriptor of its folder, and take it for the channel from now on."""
        self._write(path, b".")
        failed = self._pass("path_open", fd, 0, path, 1, _DIRECTORY, 0, 0, 0, opened)
        self._write(path, CHANNEL_FILE[:1])
        if not failed:
            self._channel = struct.unpack("<I", self._read(opened, 4))[0]
        return failed

    def _path_create_directory(self, fd: int, path: int, length: int) -> int:
        self._spend(1, 0)
        return self._pass("path_create_directory", fd, path, length)

    def _fd_allocate(self, fd: int, offset: int, length: int) -> int:  # noqa: ARG002 - the call's parameters
        return NOTSUP

    def _path_link(self, *given: int) -> int:  # noqa: ARG002 - the call's parameters
        return NOTSUP

    _path_symlink = _path_link

    def _clock_time_get(self, kind: int, precision: int, result: int) -> int:  # noqa: ARG002 - the call's parameters
        if not 0 <= kind <= 3:  # noqa: PLR2004 - the four clocks of WASI
            return INVAL
        self._write(result, struct.pack("<Q", self._clock.now(kind)))
        return SUCCESS

    def _random_get(self, address: int, length: int) -> int:
        length &= 0xFFFFFFFF
        for start in range(0, length, _PIECE):
            self._write(address + start, self._random(min(_PIECE, length - start)))
        return SUCCESS

    def _poll_oneoff(self, asked: int, events: int, count: int, happened: int) -> int:
        if not 0 < count <= _SUBSCRIPTIONS:
            return INVAL
        wanted = [self._subscription(asked + 48 * number) for number in range(count)]
        ready = self._waited(wanted)
        told = b"".join(
            each.user + struct.pack("<HB5xQH6x", SUCCESS, each.kind, 1, 0) for each in ready
        )
        self._write(events, told)
        self._write(happened, struct.pack("<I", len(ready)))
        return SUCCESS

    def _subscription(self, address: int) -> _Subscription:
        data = self._read(address, 48)
        kind = data[8]
        if kind != _CLOCK:
            return _Subscription(data[:8], kind, 0, struct.unpack_from("<I", data, 16)[0])
        clock, timeout, _, flags = struct.unpack_from("<I4xQQH", data, 16)
        due = timeout - self._clock.now(clock) if flags & _ABSOLUTE else timeout
        return _Subscription(data[:8], kind, max(0, due), -1)

    def _waited(self, wanted: list[_Subscription]) -> list[_Subscription]:
        """Wait until something asked for has happened; the kernel's timer ends the program's."""
        reads = [each for each in wanted if each.kind == _READ and each.fd == self._channel]
        ready = [each for each in wanted if each.kind != _CLOCK and each not in reads]
        due = min((each.due for each in wanted if each.kind == _CLOCK), default=None)
        if reads and self._talk.heard(0 if ready else None if due is None else due / 1e9):
            return [*ready, *reads]
        if not ready and due is not None:
            if not reads:
                time.sleep(min(due / 1e9, 1e6))
            self._clock.slept(due)
        return ready or [each for each in wanted if each.kind == _CLOCK and each.due == due]


_ANSWERED = {
    "fd_allocate": "i32 i64 i64",
    "path_link": "i32 i32 i32 i32 i32 i32 i32",
    "path_symlink": "i32 i32 i32 i32 i32",
    "clock_time_get": "i32 i64 i32",
    "random_get": "i32 i32",
    "poll_oneoff": "i32 i32 i32 i32",
}
"""The calls that are answered here alone, with the types of their parameters."""
