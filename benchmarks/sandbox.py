"""What a program in a sandbox engine costs beside the bare interpreter and a bare subprocess.

Run `python benchmarks/sandbox.py [--smoke] [--growth]`. Wall milliseconds, since most of it passes
in other processes: read the ratios, on an idle machine. Each case runs `print(1)` once, to its end;
the bare ones do no more than that. `cold` starts the engine too, with its module compiled before. A
call of a tool is one of many in one program, beside a line sent to a process and back (`pipe`).
`--growth` runs 1,000 programs, and counts memory, processes and descriptors between the 100th and
the last.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio.from_thread
import measure

from clawhive_builtin import MontyEngine
from clawhive_core import SandboxCommand, SandboxEngine, SandboxLimits, SandboxSpec
from clawhive_sandbox.engine import wasm_engines
from clawhive_sandbox.guest import engine as wasm_engine
from clawhive_sandbox.modules import MODULES, open_compiled

CODES = {"monty": "print(1)", "cpython-wasi": "print(1)", "quickjs-wasi": "console.log(1)"}
CALLS = "for n in range({0}): call_tool('t', {{'n': n}})"
CALLS_JS = "for (let n = 0; n < {0}; n++) await call_tool('t', {{n}})"


class Bench:
    """The engines, each opened on one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.engines: dict[str, SandboxEngine] = {"monty": MontyEngine()}
        self.engines |= {each.name: each for each in wasm_engines(os.environ)}

    async def run(self, engine: SandboxEngine, code: str, host: Any = None) -> None:
        """Run a program."""
        limits = SandboxLimits(wall_ms=120_000, tool_calls=1_000_000)
        instance = await engine.open(SandboxSpec(self.folder, limits=limits, host=host))
        try:
            flag = next(iter(engine.programs)).split()
            outcome = await instance.run(SandboxCommand((*flag, code)), lambda *_: None)
        finally:
            await instance.close()
        if outcome.exit_code != 0:
            raise measure.CannotRun(outcome.stderr.decode())

    async def cold(self, name: str) -> None:
        """Start an engine, run a program and end the engine."""
        found = {each.name: each for each in wasm_engines(os.environ)}[name]
        await self.run(found, CODES[name])
        await found.close()


def bare_monty() -> None:
    from pydantic_monty import Monty

    with Monty(min_processes=1, max_processes=1) as pool, pool.checkout() as session:
        session.feed_run("print(1)", print_callback=lambda *_: None)


class BareWasm:
    """CPython in wasmtime, in this process, with nothing of ours around it."""

    def __init__(self) -> None:
        import wasmtime

        module = MODULES["cpython-wasi"]
        engine = next(each for each in wasm_engines(os.environ) if each.module is module)
        found = open_compiled(module, engine.folder)
        self.engine = wasm_engine()
        self.module = wasmtime.Module.deserialize_file(self.engine, f"/proc/self/fd/{found}")
        self.linker = wasmtime.Linker(self.engine)
        self.linker.define_wasi()

    def run(self) -> None:
        import wasmtime

        store, config = wasmtime.Store(self.engine), wasmtime.WasiConfig()
        config.argv = ["python", "-I", "-S", "-c", "print(1)"]
        store.set_wasi(config)
        try:
            exports: Any = self.linker.instantiate(store, self.module).exports(store)
            exports["_start"](store)
        except wasmtime.ExitTrap as end:
            if end.code:
                raise


def subprocess_python() -> None:
    command = [sys.executable, "-I", "-S", "-c", "print(1)"]
    subprocess.run(command, check=True, capture_output=True)


class Pipe:
    """A process that sends back each line it gets."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.process = os.fork()
        if self.process == 0:
            self.ours.close()
            while line := theirs.recv(65536):
                theirs.sendall(line)
            os._exit(0)
        theirs.close()

    def echo(self, count: int) -> None:
        for number in range(count):
            self.ours.sendall(b'{"call": %d, "name": "t", "input": {"n": %d}}\n' % (number, number))
            self.ours.recv(65536)

    def end(self) -> None:
        self.ours.close()
        os.waitpid(self.process, 0)


async def answer(_: str, input: Mapping[str, Any]) -> Any:
    return input["n"]


def measured(bench: Bench, bare: BareWasm, rounds: int) -> dict[str, measure.Series]:
    def waited(work: Callable[[], Awaitable[None]]) -> Callable[[], measure.Sample]:
        return lambda: measure.clock(partial(LOOP, work))

    cases: dict[str, Callable[[], measure.Sample]] = {
        "bare subprocess": lambda: measure.clock(subprocess_python),
        "bare monty": lambda: measure.clock(bare_monty),
        "bare wasmtime, python": lambda: measure.clock(bare.run),
    }
    for name, engine in bench.engines.items():
        cases[name] = waited(partial(bench.run, engine, CODES[name]))
    cases["cpython-wasi, cold"] = waited(partial(bench.cold, "cpython-wasi"))
    return measure.alternate(cases, rounds)


def calls(bench: Bench, pipe: Pipe, rounds: int, count: int) -> dict[str, measure.Series]:
    def told(name: str, code: str) -> Callable[[], measure.Sample]:
        work = partial(bench.run, bench.engines[name], code.format(count), answer)
        return lambda: measure.clock(partial(LOOP, work)).per(count)

    return measure.alternate(
        {
            "pipe": lambda: measure.clock(partial(pipe.echo, count)).per(count),
            "cpython-wasi, a call": told("cpython-wasi", CALLS),
            "quickjs-wasi, a call": told("quickjs-wasi", CALLS_JS),
        },
        rounds,
    )


def standing() -> dict[str, int]:
    """Return this process's memory in KiB, its descriptors, and its family's size."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    mine, family = os.getpid(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and descends(int(entry.name), mine):
            family += 1
    return {
        "rss_kib": int(memory),
        "fds": len(list(Path("/proc/self/fd").iterdir())),
        "processes": family,
    }


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        pid = int(text.rpartition(")")[2].split()[1])
    return pid == ancestor


def growth(bench: Bench, name: str, first: int, last: int) -> dict[str, int]:
    engine = bench.engines[name]
    for _ in range(first):
        LOOP(partial(bench.run, engine, CODES[name]))
    before = standing()
    for _ in range(last - first):
        LOOP(partial(bench.run, engine, CODES[name]))
    after = standing()
    return {key: after[key] - before[key] for key in before}


def wall_table(found: Mapping[str, measure.Series], floors: Mapping[str, str]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    rows: list[tuple[str, ...]] = []
    for name, series in found.items():
        floor = floors.get(name)
        if floor is not None:
            ratios[name] = round(series.wall_ratio(found[floor]), 2)
        shown = f"{ratios[name]:.2f} of {floor}" if floor else ""
        rows.append((name, measure.millis(series.wall()), measure.millis(series.wall_min()), shown))
    measure.table(("case", "wall ms", "min", "ratio"), rows)
    return ratios


async def prepared() -> None:
    for engine in wasm_engines(os.environ):
        await engine.prepare(lambda text: print(text, file=sys.stderr))


def main() -> None:
    options = measure.arguments(__doc__, ("--growth", {"action": "store_true"}))
    rounds, count = (2, 20) if options.smoke else (20, 500)
    with tempfile.TemporaryDirectory() as folder:
        bench, pipe = Bench(os.path.realpath(folder)), PIPE
        LOOP(prepared)
        floors = {
            "monty": "bare monty",
            "cpython-wasi": "bare wasmtime, python",
            "cpython-wasi, cold": "bare subprocess",
            "quickjs-wasi": "bare subprocess",
        }
        ratios = wall_table(measured(bench, BareWasm(), rounds), floors)
        found = calls(bench, pipe, rounds, count)
        ratios |= wall_table(found, dict.fromkeys(list(found)[1:], "pipe"))
        grown = {}
        if options.growth or options.smoke:
            first, last = (3, 6) if options.smoke else (100, 1_000)
            grown = {name: growth(bench, name, first, last) for name in CODES}
            for name, more in grown.items():
                print(f"{name}, program {first} to {last}: {more}")
        for engine in bench.engines.values():
            LOOP(engine.close)
        pipe.end()
    measure.finish("sandbox", {"ratios": ratios, "growth": grown})


if __name__ == "__main__":
    PIPE = Pipe()  # forked while there is one thread
    with anyio.from_thread.start_blocking_portal() as portal:
        LOOP = portal.call
        measure.start(main)
