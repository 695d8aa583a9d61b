"""Linux's means by which a process takes rights from itself: Landlock, seccomp, capabilities.

It imports nothing of ClawHive, so that the small programs around fenced processes can load it from
its file alone.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES, _AMBIENT = 22, 24, 38, 47
_CAPABILITIES = 64
_CAPABILITIES_VERSION = 0x20080522

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_BENEATH = 1
_RIGHTS = ((5, 16), (3, 15), (2, 14), (1, 13))
"""From which version of Landlock on how many rights over files there are."""
_SCOPES = 6
"""The version from which on Landlock holds signals and abstract sockets."""
EXECUTE, READ_FILE, LIST_FOLDER = 1 << 0, 1 << 2, 1 << 3
READING = EXECUTE | READ_FILE | LIST_FOLDER
OF_FILES = 0b111 | 1 << 14 | 1 << 15
"""To execute, write, read, truncate and control a file: the others are a folder's."""
EVERYTHING = (1 << 16) - 1
"""All rights over files that the kernel knows."""
TRUNCATING = 3
"""The version from which on Landlock holds that a file is emptied by its path."""

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Of each processor the place of its numbers in tables of system calls, and its architecture."""
_X32 = 0x40000000
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOWED, _REFUSED, _NOT_PERMITTED, _NO_SUCH_CALL = 0x7FFF0000, 0x00050000, 1, 38

Rule = tuple[int, int, int | None]
"""A system call that is refused: its number, the place and value of an argument, None for any."""


@cache
def kernel() -> ctypes.CDLL:
    """Return the C library, whose functions keep `errno`."""
    return ctypes.CDLL(None, use_errno=True)


def forbid_new_privileges() -> bool:
    """Let no program that this process executes give it more rights."""
    return kernel().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    for number in range(_CAPABILITIES):
        kernel().prctl(_DROP_BOUND, number, 0, 0, 0)
    kernel().prctl(_AMBIENT, 4, 0, 0, 0)  # all of them
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    kernel().capset(header, (ctypes.c_uint32 * 6)())


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has, less than 1 where it has none."""
    return kernel().syscall(_CREATE_RULESET, None, 0, 1)


def restrict_files(
    grant: Callable[[Callable[[str, int], None]], None], *, connections: bool = True
) -> bool:
    """Take from this process all files but those granted; return whether Landlock could.

    From its version 6 on, signals to others and their abstract sockets go, too.

    Args:
        grant: Called once with a function that gives rights to a path and to what lies below;
            rights that the kernel does not know, and paths that are not there, are left out.
        connections: Whether TCP connections stay possible (from version 4 on they can be taken).
    """
    version = landlock_version()
    if version < 1:
        return False
    every = (1 << next(bits for least, bits in _RIGHTS if version >= least)) - 1
    network = 0 if connections or version < 4 else 3  # noqa: PLR2004 - to bind and to connect
    handled = (ctypes.c_uint64 * 3)(every, network, 3)
    size = 24 if version >= _SCOPES else 16 if network else 8
    ruleset = kernel().syscall(_CREATE_RULESET, handled, size, 0)
    if ruleset < 0:
        return False

    def give(path: str, rights: int) -> None:
        with suppress(OSError):
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            known = every if stat.S_ISDIR(os.fstat(handle).st_mode) else every & OF_FILES
            rule = struct.pack("=Qi", rights & known, handle)
            kernel().syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
            os.close(handle)

    grant(give)
    is_closed = kernel().syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return is_closed


def refuse(rules: Iterable[Rule]) -> bool:
    """Refuse these system calls to this process for good; return whether the kernel could."""
    known = MACHINES.get(os.uname().machine)
    if known is None:
        return False
    program = filter_of(rules, known[1])
    held = ctypes.create_string_buffer(program)
    given = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    )
    return kernel().prctl(_SECCOMP, 2, given, 0, 0) == 0


def filter_of(rules: Iterable[Rule], architecture: int) -> bytes:
    """Return the program for seccomp that refuses these calls with EPERM."""

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value & 0xFFFFFFFF)

    program = [
        step(_LOAD, 4),
        step(_EQUALS, architecture, 1, 0),
        step(_RETURN, _REFUSED | _NO_SUCH_CALL),
        step(_LOAD, 0),
        step(_AT_LEAST, _X32, 0, 1),
        step(_RETURN, _REFUSED | _NO_SUCH_CALL),
    ]
    refused = step(_RETURN, _REFUSED | _NOT_PERMITTED)
    for number, place, value in rules:
        if value is None:
            program += [step(_EQUALS, number, 0, 1), refused]
            continue
        program += [step(_EQUALS, number, 0, 4), step(_LOAD, 16 + 8 * place)]
        program += [step(_EQUALS, value, 0, 1), refused, step(_LOAD, 0)]
    return b"".join([*program, step(_RETURN, _ALLOWED)])
