"""Which guards of the core no test would miss.

Run `python benchmarks/mutation.py [--room ROOM] [--sample N] [--smoke]`. In capabilities, policy,
events and execution each guard (`if ...: raise` or `return`) is deleted or turned round, each
comparison turned, each `and` and `or` swapped, each `not` dropped: one change at a time, in a copy
of the checkout, on which the room's tests run. A mutant that no test notices survives and is
printed with its place. Goal: at least 90 % are killed. Needs the development requirements.

The tests that reach the changed lines run first, the quickest first; only for a mutant that they
do not notice do the room's other tests run. A run that hangs counts as killed. A test that fails
must fail again alone, and at the end tests must still pass where nothing is changed: a busy machine
kills no mutant.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from measure import ROOT, CannotRun, arguments, finish, start, table
from mutants import Mutant, mutants_of

GOAL = 0.9
ROOMS: Mapping[str, tuple[str, ...]] = {
    "capabilities": ("tests/capabilities", "tests/policy"),
    "policy": (
        "tests/policy",
        "tests/runs/test_approvals.py",
        "tests/cli/test_approvals.py",
        "tests/cli/test_grants.py",
        "tests/cli/test_policy_table.py",
        "tests/cli/test_suspended.py",
        "tests/execution",
    ),
    "events": ("tests/storage",),
    "storage": ("tests/storage", "tests/audit"),
    "execution": (
        "tests/execution",
        "tests/runs/test_approvals.py",
        "tests/runs/test_approval_edits.py",
        "tests/runs/test_enabling.py",
        "tests/runs/test_grounding.py",
        "tests/runs/test_parked_tools.py",
        "tests/runs/test_restarted_tools.py",
        "tests/runs/test_resume.py",
        "tests/runs/test_skill_grounds.py",
        "tests/cli/test_approvals.py",
        "tests/cli/test_run_code.py",
        "tests/policy",
    ),
}
"""Room to the folders and files whose tests answer for it, its own first."""
EVERYTHING = "**/*.py"
SMOKE = ("capabilities", "words.py", "tests/capabilities/test_words.py")
COPIED = ("benchmarks", "clawhive_core", "plugins", "tests", "skills", "examples", "docs")
FILES = ("pyproject.toml", "README.md", "LICENSE", "requirements-dev.txt")
SHORTEST_TIMEOUT = 20.0
LONGEST_SURVEY = 3600.0
"""Seconds for a room's tests with coverage; on a busy machine they take ten times as long."""
TIMEOUT = 1000
"""Stands for the exit code of a run that hangs."""
MOST_FIRST = 80
"""How many tests run first at most; a line that more tests reach is noticed by some of them."""
PROFILE = """
from hypothesis import HealthCheck, Phase, settings
# A failure is all that is asked for: no shrinking, no explanation, no database, no chance.
settings.register_profile(
    "mutants", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True,
    suppress_health_check=list(HealthCheck), deadline=None,
)
settings.load_profile("mutants")


failed = []


def pytest_runtest_logreport(report):
    if report.failed:
        failed.append(report.nodeid)


def pytest_unconfigure():
    with open(__file__ + ".failed", "w", encoding="utf-8") as file:
        file.write("".join(failed[:1]))
"""
"""A pytest plugin; beside it lies what failed first."""

_ROWS = "clawhive_core/events/rows.py"
_RULES = "clawhive_core/policy/rules.py"
EQUAL: Mapping[tuple[str, str, str], str] = {
    (
        _RULES,
        "guard deleted",
        "if self._next_end is None or now < self._next_end:",
    ): "a shortcut: where no grant has ended, the same grants are put back in the same order",
    (
        "clawhive_core/policy/revocations.py",
        "guard deleted",
        "if epoch is not None and self._epochs.get(rules) == (epoch, version):",
    ): "a shortcut: where nothing was committed since, what is read again is what was read",
    (
        "clawhive_core/policy/revocations.py",
        "guard deleted",
        "if not parents:",
    ): "a shortcut: without parents none of them is gone",
    (
        _RULES,
        "guard deleted",
        "if not self._step_grants:",
    ): "a shortcut: a step that has no grants of its own has these very rules",
    (
        "clawhive_core/model/json_values.py",
        "`or` to `and`",
        "is_small = kind in _SMALL or (kind is int and -SAFE_INTEGER <= item <= SAFE_INTEGER)",
    ): "a shortcut: `copy` makes the same of each value, and counts the same",
    (
        "clawhive_core/policy/grounding.py",
        "comparison turned",
        "if len(self._unread) >= _UNREAD:",
    ): "it says how many outputs wait to be read: whoever asks has them read first",
    (
        "clawhive_core/capabilities/segments.py",
        "guard deleted",
        "if p == q:",
    ): "a shortcut: two equal patterns pass every comparison below it",
    (
        "clawhive_core/capabilities/escapes.py",
        "guard deleted",
        'if b"%" not in raw:',
    ): "a shortcut: where nothing is encoded, decoding replaces, counts and refuses nothing",
    (
        _ROWS,
        "guard deleted",
        "if blob.encoded is not None and not redactor.active:",
    ): "a shortcut: what came encoded is what encoding its value once more gives",
    (
        _ROWS,
        "guard deleted",
        'if kind == "json" and len(data) <= INLINE:',
    ): "a shortcut: what comes below encodes the same value once more",
    **dict.fromkeys(
        (
            ("clawhive_core/events/redaction.py", kind, 'if len(text) < _FEW or "" in needles:')
            for kind in ("guard deleted", "condition negated", "`or` to `and`", "comparison turned")
        ),
        "a shortcut: both ways say whether a text holds one of the same needles",
    ),
    (
        "clawhive_core/storage/sqlite/writer.py",
        "guard deleted",
        "if self._usability.closing:",
    ): "it saves the last 20 ms of a closing log: `close` rings the bell after it set the flag",
    (
        "clawhive_core/execution/pending.py",
        "`not` dropped",
        "prechecked = error is None and not artifacts",
    ): "it says who need not look at a row: artifacts are texts and small numbers as well",
    (
        "clawhive_core/execution/executor.py",
        "guard deleted",
        "if call.catalog_revision in {None, catalog.current.revision}:",
    ): "a shortcut: no revision has no contract, and the current one the contract that is found",
}
"""Changes after which the code provably does the same: file, kind and line to the reason.

They are tried all the same. One that survives counts neither way; one that is killed counts, and is
told, because its reason is wrong."""

Fate = Literal["killed", "timeout", "survived", "equal"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A room's tests, as they ran without any mutant."""

    folders: tuple[str, ...]
    seconds: float
    reach: Mapping[tuple[str, int], frozenset[str]]
    """File and line to the tests that run it."""
    times: Mapping[str, float]
    """Each test's seconds."""

    def first(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the quickest first."""
        found: set[str] = set()
        for line in range(mutant.first, mutant.last + 1):
            found |= self.reach.get((mutant.path, line), frozenset())
        return sorted(found, key=lambda test: (self.times.get(test, 0.0), test))[:MOST_FIRST]


class Copy:
    """A copy of the checkout in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        skip = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=skip)
        for name in FILES:
            if (ROOT / name).is_file():
                shutil.copy2(ROOT / name, folder / name)
        self._profile = folder / "mutant_profile.py"
        self._profile.write_text(PROFILE, encoding="utf-8")
        self.env = {
            **{name: text for name, text in os.environ.items() if not name.startswith("CLAWHIVE")},
            "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "plugins" / "builtin")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._compile()
        self._check()

    def _compile(self) -> None:
        """Write the bytecode of everything once; a changed file's is taken away."""
        names = [str(self.folder / name) for name in ("clawhive_core", "plugins")]
        compiling = [sys.executable, "-m", "compileall", "-q", *names]
        subprocess.run(compiling, check=False, capture_output=True, env=self.env)

    def _check(self) -> None:
        """Make sure that tests import the copy and nothing else."""
        asking = [sys.executable, "-c", "import clawhive_core; print(clawhive_core.__file__)"]
        told = subprocess.run(
            asking, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        if not told.stdout.startswith(str(self.folder)):
            raise CannotRun(f"tests would not import the copy but {told.stdout or told.stderr}")

    def pytest(self, targets: Sequence[str], *more: str, timeout: float) -> tuple[int, str]:
        """Run tests and return pytest's exit code, or TIMEOUT, and its output."""
        argv = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-x"]
        argv += ["-p", "mutant_profile", "-p", "no:cacheprovider", "-m", "not slow"]
        argv += [*more, *targets]
        process = subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return TIMEOUT, ""
        return process.returncode, output

    def judge(self, mutant: Mutant, suite: Suite) -> Fate:
        """Change the file, run the tests, put the file back."""
        path = self.folder / mutant.path
        original = path.read_bytes()
        compiled = list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        kept = [(each, each.read_bytes()) for each in compiled]
        for each in compiled:
            each.unlink()
        stamp = path.stat()
        path.write_bytes(mutant.changed)
        try:
            return self._run(mutant, suite)
        finally:
            path.write_bytes(original)
            for each, data in kept:
                each.write_bytes(data)
            # The bytecode is valid for a source of the original's time.
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def _run(self, mutant: Mutant, suite: Suite) -> Fate:
        timeout = max(SHORTEST_TIMEOUT, 3 * suite.seconds)
        for targets in (suite.first(mutant), suite.folders):
            if not targets:
                continue
            code, output = self.pytest(targets, timeout=timeout)
            if code == TIMEOUT:
                return "timeout"
            if code == 1 and self._failed_by_chance(mutant, timeout):
                continue
            # Below 0 a signal ended it, as a closed connection in use may.
            if code < 0 or code in {1, 2, 3} or (code == 4 and "conftest" in output):
                return "killed"
            # With code 4 a chosen test is not there: its module may no longer be importable, or its
            # name cannot be given on a command line. The folders decide.
            if code not in {0, 4} or (code == 4 and targets is suite.folders):
                raise CannotRun(f"pytest ended with {code} on {mutant.title}\n{output[-2000:]}")
        return "survived"

    def _failed_by_chance(self, mutant: Mutant, timeout: float) -> bool:
        """Whether the test that failed passes alone: a busy machine fails one now and then."""
        failed = Path(f"{self._profile}.failed").read_text(encoding="utf-8")
        if self.pytest([failed], timeout=timeout)[0] != 0:
            return False
        print(f"by chance: {failed}: {mutant.title}", flush=True)
        return True


def survey(copy: Copy, room: str, folders: tuple[str, ...]) -> Suite:
    """Run a room's tests once without a mutant, and note which test reaches which line.

    Raises:
        CannotRun: They fail as they are, or there are none.
    """
    folders = tuple(name for name in folders if (copy.folder / name).exists())
    if not folders:
        raise CannotRun(f"there are no tests for `{room}`")
    code, output = copy.pytest(
        folders,
        f"--cov=clawhive_core.{room}",
        "--cov-context=test",
        "--cov-report=",
        "--junit-xml=times.xml",
        "-o",
        "junit_family=xunit1",
        timeout=LONGEST_SURVEY,
    )
    if code != 0:
        raise CannotRun(f"the tests of `{room}` fail without any mutant\n{output[-3000:]}")
    times = test_times(copy.folder / "times.xml")
    return Suite(folders, sum(times.values()), reached(copy), times)


def test_times(path: Path) -> dict[str, float]:
    """Return each test's seconds, by its node id, from pytest's XML."""
    found: dict[str, float] = {}
    for case in ET.parse(path).iter("testcase"):
        node = f"{case.get('file')}::{case.get('name')}"
        found[node] = float(case.get("time") or 0)
    return found


def reached(copy: Copy) -> dict[tuple[str, int], frozenset[str]]:
    """Return which tests run each line."""
    from coverage import CoverageData

    data = CoverageData(str(copy.folder / ".coverage"))
    data.read()
    found: dict[tuple[str, int], frozenset[str]] = {}
    for name in data.measured_files():
        relative = os.path.relpath(name, copy.folder)
        for line, contexts in data.contexts_by_lineno(name).items():
            tests = {context.rpartition("|")[0] for context in contexts}
            found[relative, line] = frozenset(tests - {""})
    return found


def judge_all(
    copies: Sequence[Copy], chosen: Sequence[Mutant], suite: Suite
) -> Iterator[tuple[Mutant, Fate]]:
    """Judge mutants, one in each copy at a time; yield them in their order as they are judged."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant) -> tuple[Mutant, Fate]:
        copy = free.get()
        try:
            return mutant, copy.judge(mutant, suite)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(judge, chosen)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried of a room."""

    room: str
    files: str
    """The files that are changed, as a pattern below the room's folder."""
    tests: tuple[str, ...]
    sample: int | None
    seed: int


def check_control(copies: Sequence[Copy], mutant: Mutant, suite: Suite) -> None:
    """Judge a change that changes nothing, in every copy.

    Raises:
        CannotRun: It is killed, so that no verdict could be believed.
    """
    unchanged = (copies[0].folder / mutant.path).read_bytes() + b"# nothing\n"
    control = replace(mutant, kind="nothing", changed=unchanged)
    for found, fate in judge_all(copies, [control] * len(copies), suite):
        if fate != "survived":
            raise CannotRun(f"tests fail in a copy although nothing is changed: {found.title}")


def choose(plan: Plan, root: Path) -> tuple[list[Mutant], int]:
    """Return a room's mutants, or a sample that a seed decides; and how many there are."""
    files = sorted((root / "clawhive_core" / plan.room).glob(plan.files))
    sample, seed = plan.sample, plan.seed
    every = [mutant for path in files for mutant in mutants_of(root, path)]
    tell_stale(plan, every)
    if sample is None or sample >= len(every):
        return every, len(every)
    picked = random.Random(seed).sample(range(len(every)), sample)
    return [every[index] for index in sorted(picked)], len(every)


def tell_stale(plan: Plan, every: Sequence[Mutant]) -> None:
    """Print which reasons of `EQUAL` are for lines that are no longer there."""
    if plan.files != EVERYTHING:
        return
    left = {mutant.key for mutant in every}
    for key in EQUAL:
        if key[0].startswith(f"clawhive_core/{plan.room}/") and key not in left:
            print(f"no longer there: {': '.join(key)}", flush=True)


def weighed(mutant: Mutant, fate: Fate) -> Fate:
    """Print who survived, and whether that was expected, as soon as it is known."""
    reason = EQUAL.get(mutant.key)
    if fate == "survived":
        print(f"{fate if reason is None else 'equal'}: {mutant.title}", flush=True)
        return fate if reason is None else "equal"
    if reason is not None:
        print(f"{fate} although `{reason}`: {mutant.title}", flush=True)
    return fate


def report(room: str, judged: Iterator[tuple[Mutant, Fate]]) -> Counter[Fate]:
    """Count, and print what became of a room's mutants."""
    fates: Counter[Fate] = Counter(weighed(mutant, fate) for mutant, fate in judged)
    killed = fates["killed"] + fates["timeout"]
    print(f"{room}: {killed} of {fates.total() - fates['equal']} killed", flush=True)
    return fates


def run_room(plan: Plan, copies: Sequence[Copy]) -> dict[str, float | int]:
    """Judge one room's mutants."""
    suite = survey(copies[0], plan.room, plan.tests)
    chosen, total = choose(plan, copies[0].folder)
    check_control(copies, chosen[0], suite)
    begun = time.perf_counter()
    fates = report(plan.room, judge_all(copies, chosen, suite))
    check_control(copies, chosen[0], suite)
    seconds = (time.perf_counter() - begun) / max(1, len(chosen))
    return {
        "mutants": total,
        "equal": fates["equal"],
        "tried": fates.total() - fates["equal"],
        "killed": fates["killed"] + fates["timeout"],
        "timeouts": fates["timeout"],
        "seconds_each": round(seconds, 2),
    }


def main() -> None:
    """Judge and print."""
    options = arguments(
        __doc__,
        ("--room", {"choices": tuple(ROOMS), "action": "append", "help": "may be repeated"}),
        ("--sample", {"type": int, "metavar": "N", "help": "N mutants of each room"}),
        ("--seed", {"type": int, "default": 1}),
        ("--jobs", {"type": int, "default": len(os.sched_getaffinity(0))}),
    )
    sample, seed = options.sample, options.seed
    rooms = options.room or list(ROOMS)
    plans = [Plan(room, EVERYTHING, ROOMS[room], sample, seed) for room in rooms]
    if options.smoke:
        room, files, tests = SMOKE
        plans = [Plan(room, files, (tests,), 5, seed)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folders = [folder / str(number) for number in range(max(1, options.jobs))]
        with ThreadPoolExecutor(len(folders)) as pool:
            copies = list(pool.map(Copy, folders))
        figures = {plan.room: run_room(plan, copies) for plan in plans}
    rows = [
        (room, *(str(value) for value in each.values()), f"{each['killed'] / each['tried']:.1%}")
        for room, each in figures.items()
    ]
    table(("room", "mutants", "equal", "tried", "killed", "timeouts", "s each", "share"), rows)
    tried = sum(each["tried"] for each in figures.values())
    share = sum(each["killed"] for each in figures.values()) / tried
    print(f"killed: {share:.1%} (goal: {GOAL:.0%} or more)")
    finish("mutation", {"seed": options.seed, "share_killed": round(share, 3), "rooms": figures})


if __name__ == "__main__":
    start(main)
