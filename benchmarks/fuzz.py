"""Everything that reads what outsiders write, fed with what it should not believe.

Run `python benchmarks/fuzz.py [--target NAME] [--seconds N] [--seed N|random] [--save FOLDER]`.
Valid inputs of the checkout (and of `../shared/data`, where it is there) are changed a little, and
others made up; each is given to its reader, which must take it or refuse it with a code. Another
exception, more CPU or memory than one input may take, a wait without an end, and an answer that a
naive reader of the same input contradicts are findings: they are printed with the smallest input
found that shows them, and the script fails. `--repeat SEED:N --target NAME` makes one input again.

The readers run in a process with bounds of its own: what hangs or grows is killed, named, and the
rest goes on. `--smoke` takes the fixed seed and a few seconds.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import random
import resource
import secrets
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.judging import Target, Targets, Wrong
from fuzzing.making import Case, less
from measure import ROOT, CannotRun, arguments, finish, start, table

SEED = 20261123
SMOKE_SECONDS = 8.0
CPU_SECONDS = 5.0
"""What one input may take; the slowest honest one takes a tenth of it."""
WALL_SECONDS = 120.0
"""After this it waits for something that never comes, on however busy a machine."""
MEMORY = 400 * 1024 * 1024
"""Bytes that the process may grow by for one input."""
ADDRESSES = 2 * 1024 * 1024 * 1024
"""Bytes that it may ask the system for, beyond what it has at its start."""
MOST_DEATHS = 12
MOST_SHOWN = 3
ATTEMPTS = 400
"""How many smaller inputs are tried for a finding, and for how many seconds."""
SMALLER_SECONDS = 30.0
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are made: in memory, since no input is about a disk, and each log waits for it."""
THREADED = frozenset({"results", "edits", "handlers", "databases"})
"""Targets that must be made anew for each process that judges."""
CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_PLACE = struct.Struct("=qq")


Judge = Callable[[Case], tuple[str | None, str]]
"""Judges an input in a process of its own: the sign of what is wrong, and all of it."""


@dataclass(slots=True)
class Tally:
    """The account of one target."""

    inputs: int = 0
    taken: int = 0
    refused: int = 0
    cpu: float = 0.0
    slowest: float = 0.0
    grown: int = 0


@dataclass(slots=True)
class Found:
    """One kind of wrong answer, and the inputs that show it."""

    target: str
    sign: str
    """Equal for inputs that show the same mistake."""
    said: str
    numbers: list[int] = field(default_factory=list[int])


def targets() -> Targets:
    """Return all targets; what they need is imported here."""
    from fuzzing import algebras, answers, calls, databases, texts

    return {
        "yaml": texts.Yaml,
        "skills": texts.Skills,
        "locks": texts.Locks,
        "configuration": texts.Configuration,
        "environment": texts.Environment,
        "manifests": texts.Manifests,
        "cases": texts.Cases,
        "capabilities": algebras.Capabilities,
        "schemas": algebras.Schemas,
        "policies": algebras.Policies,
        "answers": answers.Answers,
        "results": calls.Results,
        "edits": calls.Edits,
        "handlers": calls.Handlers,
        "databases": databases.Databases,
    }


def case_of(target: Target, name: str, seed: int, number: int) -> Case:
    """Return an input by its number."""
    return target.make(random.Random(f"{seed}/{name}/{number}"))


def sign_of(error: BaseException) -> str:
    """Return what equal mistakes have in common: the kind, and the last line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    core = [each for each in frames if "/clawhive_" in each.filename]
    own = core or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "nowhere"
    if isinstance(error, Wrong):
        return f"wrong at {frames[-2].name}:{frames[-2].lineno}"
    return f"{type(error).__name__} at {where}"


def said_of(error: BaseException) -> str:
    """Return an error with its last lines, of bounded length."""
    try:
        lines = traceback.format_exception(error, limit=-6)
        return "".join(lines)[-3_000:]
    except (RecursionError, ValueError, MemoryError):
        return type(error).__name__


# ---- the process that judges -------------------------------------------------------------------


class Worker:
    """Judges inputs, one after another, and writes down what was wrong and where it is."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._found = folder.joinpath("found.jsonl").open("a", encoding="utf-8")
        place = folder.joinpath("place").open("r+b")
        self._place = mmap.mmap(place.fileno(), _PLACE.size)
        stacks = folder.joinpath("stacks").open("w", encoding="utf-8")
        for number in (signal.SIGPROF, signal.SIGALRM):
            faulthandler.register(number, stacks, chain=True)  # then it dies, as nobody handles it

    def work(self, plan: Sequence[tuple[str, int, float]]) -> None:
        """Judge the inputs of a plan: targets, each with its first number and its CPU seconds."""
        made = targets()
        for index, (name, first, seconds) in enumerate(plan):
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            target = made[name](folder)
            if index == 0:
                bound_memory()
            tally = self._one(target, name, first, seconds, index)
            self._tell({"tally": asdict(tally), "target": name})

    def _one(self, target: Target, name: str, first: int, seconds: float, index: int) -> Tally:
        tally, number, ends = Tally(), first, time.process_time() + seconds
        while time.process_time() < ends:
            case = case_of(target, name, self._seed, number)
            self._place[:] = _PLACE.pack(index, number)
            reset_peak()
            before, begun = peak(), time.process_time()
            bound_time(CPU_SECONDS, WALL_SECONDS)
            try:
                verdict = target.judge(case)
            except BaseException as error:  # noqa: BLE001 - this is what is looked for, panics too
                bound_time(0, 0)
                verdict = ""
                self._wrong(name, number, sign_of(error), said_of(error))
            bound_time(0, 0)
            took, grown = time.process_time() - begun, peak() - before
            if grown > MEMORY:
                self._wrong(name, number, "memory", f"memory: {grown // 2**20} MiB")
            tally.inputs += 1
            tally.taken += verdict == "taken"
            tally.refused += verdict == "refused"
            tally.cpu += took
            tally.slowest = max(tally.slowest, took)
            tally.grown = max(tally.grown, grown)
            number += 1
            if number % 50 == 0:  # should it die, this is what is known
                self._tell({"tally": asdict(tally), "target": name})
        return tally

    def _wrong(self, name: str, number: int, sign: str, said: str) -> None:
        self._tell({"target": name, "number": number, "sign": sign, "said": said})

    def _tell(self, facts: Mapping[str, Any]) -> None:
        self._found.write(json.dumps(facts) + "\n")
        self._found.flush()


def bound_time(cpu: float, wall: float) -> None:
    """Have the process killed after so many seconds of CPU, or of waiting; 0 is never."""
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.setitimer(signal.ITIMER_REAL, wall)


def bound_memory() -> None:
    """Refuse the process more memory than it has now, and a little."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def reset_peak() -> None:
    """Let the system count the process's peak of memory from here."""
    with contextlib.suppress(OSError), CLEAR.open("w", encoding="ascii") as file:
        file.write("5")


def peak() -> int:
    """Return the peak of the process's memory, in bytes."""
    lines = STATUS.read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# ---- the process that looks after it -----------------------------------------------------------


@dataclass(slots=True)
class Fuzzing:
    """A whole run: what was counted and what was found."""

    seed: int
    folder: Path
    tallies: dict[str, Tally] = field(default_factory=dict[str, Tally])
    found: dict[tuple[str, str], Found] = field(default_factory=dict[tuple[str, str], Found])

    def run(self, names: Sequence[str], seconds: float) -> None:
        """Judge inputs of each target for its share of the time."""
        share = seconds / len(names)
        plan = [(name, 0, share) for name in names]
        for _ in range(MOST_DEATHS * len(names)):
            plan = self._once(plan)
            if not plan:
                return

    def _once(self, plan: list[tuple[str, int, float]]) -> list[tuple[str, int, float]]:
        """Run one worker; return what of its plan is left, where it died."""
        place, known = self.folder / "place", self.folder / "found.jsonl"
        place.write_bytes(_PLACE.pack(-1, -1))
        known.write_bytes(b"")
        order = json.dumps(plan)
        code = run_self(["--worker", str(self.folder), "--plan", order, "--seed", str(self.seed)])
        last = self._read(known)
        index, number = _PLACE.unpack(place.read_bytes())
        if code == 0:
            return []
        if index < 0:
            raise CannotRun(f"the worker cannot begin (exit {code}): {self._stack()}")
        name, first, seconds = plan[index]
        sign = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        kinds = {-signal.SIGPROF: "hangs: too much CPU", -signal.SIGALRM: "hangs: waits"}
        self._add(name, kinds.get(code, sign), self._stack(), number)
        tally = last.get(name, Tally())
        self._count(name, Tally(inputs=number + 1 - first - tally.inputs, cpu=CPU_SECONDS))
        deaths = sum(len(each.numbers) for key, each in self.found.items() if key[0] == name)
        left = seconds - tally.cpu - CPU_SECONDS
        again = [(name, number + 1, left)] if left > 0 and deaths < MOST_DEATHS else []
        return again + plan[index + 1 :]

    def _read(self, known: Path) -> dict[str, Tally]:
        """Take what a worker wrote; return the last tally of each target."""
        last: dict[str, Tally] = {}
        for line in known.read_text("utf-8").splitlines():
            facts = json.loads(line)
            if "tally" in facts:
                last[facts["target"]] = Tally(**facts["tally"])
            else:
                self._add(facts["target"], facts["sign"], facts["said"], facts["number"])
        for name, tally in last.items():
            self._count(name, tally)
        return last

    def _add(self, target: str, sign: str, said: str, number: int) -> None:
        one = self.found.setdefault((target, sign), Found(target, sign, said))
        one.numbers.append(number)

    def _count(self, name: str, more: Tally) -> None:
        tally = self.tallies.setdefault(name, Tally())
        for key in ("inputs", "taken", "refused", "cpu"):
            setattr(tally, key, getattr(tally, key) + getattr(more, key))
        tally.slowest = max(tally.slowest, more.slowest)
        tally.grown = max(tally.grown, more.grown)

    def _stack(self) -> str:
        file = self.folder / "stacks"
        return "\n".join(file.read_text("utf-8").splitlines()[:40]) if file.exists() else ""


def run_self(words: Sequence[str]) -> int:
    """Run this script as another process; return its exit code."""
    environment = {**os.environ, "PYTHONFAULTHANDLER": "", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, *words],
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=False,
    )
    return done.returncode


# ---- one input again, and the least that shows the same ----------------------------------------


def repeat(name: str, seed: int, number: int, save: Path | None, *, smaller: bool) -> bool:
    """Make one input again, judge it, print it with what it shows; return whether it is wrong."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        make = targets()[name]
        target = make(Path(folder))
        if name in THREADED:  # its threads do not live on in another process
            judge = lambda case: apart(lambda: make(Path(tempfile.mkdtemp(dir=folder))), case)  # noqa: E731
        else:
            judge = lambda case: apart(lambda: target, case)  # noqa: E731
        bound_memory()
        case = case_of(target, name, seed, number)
        sign, said = judge(case)
        if sign is not None and smaller:
            case, said = least(judge, case, sign, said)
    shown = written(case)
    print(f"{name} {seed}:{number}: {sign or said}")
    print(shown if len(shown) < 4_000 else f"{shown[:4_000]} … ({len(shown)} characters)")
    if sign is not None:
        print(said)
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            file = save / f"{name}-{seed}-{number}.txt"
            file.write_text(f"{sign}\n\n{shown}\n\n{said}\n", "utf-8", errors="backslashreplace")
            print(f"saved: {file}")
    return sign is not None


def apart(make: Callable[[], Target], case: Case) -> tuple[str | None, str]:
    """Judge an input in a process of its own; return the sign of what is wrong, and all of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        answer = _judged(make(), case)
        with os.fdopen(writing, "w", encoding="utf-8", errors="backslashreplace") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kinds = {signal.SIGPROF: "hangs: too much CPU", signal.SIGALRM: "hangs: waits"}
        return kinds.get(number, f"killed by {signal.Signals(number).name}"), ""
    sign, said = json.loads(answer)
    return sign, said


def _judged(target: Target, case: Case) -> tuple[str | None, str]:
    reset_peak()
    before = peak()
    bound_time(CPU_SECONDS, WALL_SECONDS)
    try:
        verdict = target.judge(case)
    except BaseException as error:  # noqa: BLE001 - as in the worker
        return sign_of(error), said_of(error)
    if peak() - before > MEMORY:
        return "memory", f"memory: {(peak() - before) // 2**20} MiB"
    return None, verdict


def least(judge: Judge, case: Case, sign: str, said: str) -> tuple[Case, str]:
    """Return the smallest input found that shows the same, within so many attempts."""
    left, ends = ATTEMPTS, time.monotonic() + SMALLER_SECONDS
    smaller: Iterator[Case] = less(case)
    while left and time.monotonic() < ends:
        found = next(smaller, None)
        if found is None:
            return case, said
        left -= 1
        again, what = judge(found)
        if again == sign:
            case, said, smaller = found, what, less(found)
    return case, said


def written(case: Case) -> str:
    """Return an input as a Python literal."""
    sys.set_int_max_str_digits(0)
    try:
        return repr(case)
    except RecursionError:
        return "(nested too deeply to be printed)"


def options() -> Any:
    """Return the command line's."""
    return arguments(
        __doc__,
        ("--target", {"action": "append", "metavar": "NAME", "help": "may be repeated"}),
        ("--seconds", {"type": float, "default": 120.0, "help": "CPU seconds in all"}),
        ("--seed", {"default": str(SEED), "help": "a number, or `random`"}),
        ("--repeat", {"metavar": "SEED:N", "help": "one input of --target again"}),
        ("--save", {"type": Path, "metavar": "FOLDER", "help": "where failing inputs are kept"}),
        ("--worker", {"help": "for the script itself"}),
        ("--plan", {"help": "for the script itself"}),
    )


def main() -> None:
    """Judge and print."""
    given = options()
    names = list(targets())
    chosen = given.target or names
    if unknown := [each for each in chosen if each not in names]:
        raise CannotRun(f"no target {unknown[0]!r}; they are {', '.join(names)}")
    if given.repeat:
        seed, _, number = given.repeat.partition(":")
        wrong = repeat(chosen[0], int(seed), int(number), given.save, smaller=True)
        sys.exit(1 if wrong else 0)
    seed = secrets.randbelow(2**32) if given.seed == "random" else int(given.seed)
    seconds = SMOKE_SECONDS if given.smoke else given.seconds
    print(f"seed {seed}, {seconds:g} s of CPU")
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        fuzzing = Fuzzing(seed, Path(folder))
        fuzzing.run(chosen, seconds)
    report(fuzzing)
    for one in fuzzing.found.values():
        print(f"\n{one.target}: {one.sign} ({len(one.numbers)} inputs)\n{one.said}")
        words = ["--target", one.target, "--repeat", f"{seed}:{one.numbers[0]}"]
        if given.save:
            words += ["--save", str(given.save)]
        print(f"again: python benchmarks/fuzz.py {' '.join(words)}", flush=True)
        subprocess.run([sys.executable, "-W", "ignore", __file__, *words], check=False)
    figures = {name: asdict(tally) for name, tally in fuzzing.tallies.items()}
    finish("fuzz", {"seed": seed, "found": len(fuzzing.found), "targets": figures})
    if fuzzing.found:
        raise CannotRun(f"{len(fuzzing.found)} mistakes found")


def report(fuzzing: Fuzzing) -> None:
    """Print a line a target."""
    rows = [
        (
            name,
            str(tally.inputs),
            str(tally.taken),
            str(tally.refused),
            str(sum(len(each.numbers) for key, each in fuzzing.found.items() if key[0] == name)),
            f"{tally.cpu:.1f}",
            f"{tally.slowest * 1e3:.0f}",
            f"{tally.grown / 2**20:.0f}",
        )
        for name, tally in fuzzing.tallies.items()
    ]
    table(("target", "inputs", "taken", "refused", "wrong", "cpu s", "slowest ms", "MiB"), rows)
    every = fuzzing.tallies.values()
    inputs, cpu = sum(each.inputs for each in every), sum(each.cpu for each in every)
    print(f"{inputs} inputs in {cpu:.1f} s of CPU, {len(fuzzing.found)} kinds of mistakes")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if "--worker" in sys.argv:
        asked = options()
        Worker(Path(asked.worker), int(asked.seed)).work(json.loads(asked.plan))
        os._exit(0)
    start(main)
