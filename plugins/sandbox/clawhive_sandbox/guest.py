"""A guest: an interpreter in WebAssembly, instantiated with its grants and driven to its end."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clawhive_sandbox.wasi import COUNTED, Clock, Quota, System, shim_source

if TYPE_CHECKING:
    from wasmtime import Config, Engine, Func, Instance

    from clawhive_sandbox.worker import Conversation

WORK = "/work"
"""Where a program sees its directory."""
STACK = 16 << 20
"""Bytes of the machine's stack that a guest may use: programs recurse, and interpreters too."""
_TABLE = 1_000_000
_PYTHON = ["python", "-I", "-S", "-B", "-X", "utf8", "-c"]


def engine(*, threads: bool = False) -> Engine:
    """Return an engine as every module here is compiled for.

    Args:
        threads: Whether it may compile with several; a process that forks must have none.
    """
    import wasmtime

    config = wasmtime.Config()
    config.parallel_compilation = threads
    _widen(config)
    return wasmtime.Engine(config)


def _widen(config: Config) -> None:
    """Give guests more stack than wasmtime's own, which ends programs that recurse a little.

    wasmtime wants the stacks of asynchronous calls to be as large, which are not used here and
    have no public name.
    """
    from importlib import import_module

    bindings: Any = import_module("wasmtime._bindings")
    bindings.wasmtime_config_async_stack_size_set(config.ptr(), STACK)
    config.max_wasm_stack = STACK


@dataclass(frozen=True, slots=True)
class Grants:
    """What an instance may use, fixed when it is opened."""

    mounts: Sequence[tuple[str, str, bool]]
    """Folders of this machine, where the guest sees each, and whether it may write there."""
    env: Mapping[str, str]
    memory: int
    clock: float | None
    seed: int | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Grants:
        """Return the grants that a frame names."""
        return cls(
            tuple((source, target, writable) for source, target, writable in given["mounts"]),
            given["env"],
            given["memory"],
            given["clock"],
            given["seed"],
        )


class Interpreter:
    """A compiled interpreter, which starts guests.

    Args:
        name: That of its `GuestModule`.
        compiled: A descriptor of its compiled form.
    """

    def __init__(self, name: str, compiled: int) -> None:
        import wasmtime

        self.name = name
        self._engine = engine()
        self._module = wasmtime.Module.deserialize_file(self._engine, f"/proc/self/fd/{compiled}")
        self._shim = wasmtime.Module(self._engine, shim_source())
        kind = "node.js" if name == "quickjs-wasi" else "python.txt"
        self._boot = files("clawhive_sandbox").joinpath("guests", kind).read_text(encoding="utf-8")

    def run(self, grants: Grants, talk: Conversation) -> int:
        """Run a guest until it ends, and return its exit code.

        Raises:
            Stopped: It met a limit.
            OSError: A folder cannot be opened, or is reached by a link.
        """
        import wasmtime

        store = wasmtime.Store(self._engine)
        store.set_limits(grants.memory, _TABLE, instances=4, tables=8, memories=1)
        config = wasmtime.WasiConfig()
        config.env = list(grants.env.items())
        config.argv = [*_PYTHON, self._boot] if self.name == "cpython-wasi" else ["qjs"]
        folders = [_opened(source) for source, _, _ in grants.mounts]
        talk.say({"opened": len(folders)})
        for folder, (_, target, writable) in zip(folders, grants.mounts, strict=True):
            config.preopen_dir(f"/proc/self/fd/{folder}", target, writable)
        store.set_wasi(config)
        linker = wasmtime.Linker(self._engine)
        linker.define_wasi()
        writable = [
            folder for folder, mount in zip(folders, grants.mounts, strict=True) if mount[2]
        ]
        talk.quota = quota = Quota(writable)
        system = System(store, linker, talk, Clock(grants.clock), grants.seed, quota)
        instance = linker.instantiate(store, self._module)
        self._attach(system, store, instance)
        try:
            return _START[self.name](store, instance, self._boot)
        except wasmtime.ExitTrap as end:
            return end.code

    def _attach(self, system: System, store: Any, instance: Instance) -> None:
        import wasmtime

        memory: Any = instance.exports(store)["memory"]
        between = wasmtime.Linker(self._engine)
        between.define(store, "guest", "memory", memory)
        for name, function in system.originals.items():
            between.define(store, "wasi", name, function)
        passing = between.instantiate(store, self._shim).exports(store)
        system.attach(memory, {name: cast("Func", passing[name]) for name in COUNTED})


def _opened(folder: str) -> int:
    """Open a folder that is exactly where its path says, and reached by no link."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    real = str(Path(f"/proc/self/fd/{opened}").readlink())
    if real != folder:
        os.close(opened)
        raise OSError(f"{folder} is reached by a link: it is {real}")
    return opened


def _start_command(store: Any, instance: Instance, boot: str) -> int:  # noqa: ARG001 - as of the others
    exports: Any = instance.exports(store)
    exports["_start"](store)
    return 0


def _start_quickjs(store: Any, instance: Instance, boot: str) -> int:
    exports: Any = instance.exports(store)
    exports["_initialize"](store)
    memory = exports["memory"]

    def put(data: bytes) -> int:
        address = exports["malloc"](store, len(data))
        memory.write(store, data, address)
        return address

    words = [put(word.encode() + b"\0") for word in ("qjs", "--std", "-m", "-e", boot)]
    pointers = put(struct.pack(f"<{len(words) + 1}I", *words, 0))
    return 1 if exports["qjs_init_argv"](store, len(words), pointers) else 0


_START = {"cpython-wasi": _start_command, "quickjs-wasi": _start_quickjs}
