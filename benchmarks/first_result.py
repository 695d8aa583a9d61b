"""How long a newcomer waits for the first result: clone, environment, install, main job.

Run `python benchmarks/first_result.py [--smoke] [--tree] [--jobs N]`. A `git clone` of this
checkout in a temporary folder, a fresh virtual environment, `pip install .` and the README's main
job, each phase by the wall clock. Goal: at most 60 s in all with a warm pip cache. `--tree` takes
the files as they lie, uncommitted ones included. `--smoke` installs nothing: the environment
borrows this interpreter's packages, so it shows only that the clone runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from measure import ROOT, CannotRun, Sample, arguments, child, finish, start, table

GOAL_SECONDS = 60
JOB = (
    *("run", "--task", "run_code_snippet", "--input", "language=python"),
    *("--input", "code=@examples/primes.py"),
)


def clone(folder: Path, *, tree: bool) -> Sample:
    """Copy the checkout: what is committed, or with `tree` every file that git does not ignore."""
    if not tree:
        return child(["git", "clone", "--quiet", str(ROOT), str(folder)])
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return Sample(0, 0)


def clean() -> dict[str, str]:
    """Return an environment in which nothing of this checkout or its settings is found."""
    mine = ("CLAWHIVE", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)}


def borrow(venv: Path, checkout: Path) -> None:
    """Let an environment find the clone, then this interpreter's packages."""
    packages = next((venv / "lib").glob("python*/site-packages"))
    lines = (checkout, checkout / "plugins" / "builtin", sysconfig.get_path("purelib"))
    (packages / "borrowed.pth").write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")


def phases(folder: Path, *, smoke: bool, tree: bool, jobs: int) -> dict[str, Sample]:
    """Go through the phases in order."""
    checkout, venv, env = folder / "clawhive", folder / "venv", clean()
    found = {"clone": clone(checkout, tree=tree)}
    make = [sys.executable, "-m", "venv", *(["--without-pip"] if smoke else []), str(venv)]
    found["make the environment"] = child(make, env=env)
    if smoke:
        borrow(venv, checkout)
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", "")])
    else:
        pip = [str(venv / "bin" / "pip"), "install", "--quiet", "."]
        found["pip install ."] = child(pip, env=env, cwd=checkout)
    argv = main_job(venv, installed=not smoke)
    home = {**env, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    found["main job, first"] = child(argv, env=home, cwd=checkout)
    for number in range(2, jobs + 2):
        found[f"main job, run {number}"] = child(argv, env=home, cwd=checkout)
    return found


def main_job(venv: Path, *, installed: bool) -> list[str]:
    """Return the command line of the README's main job."""
    source = "import sys; from clawhive_core.cli import main; main(sys.argv[1:])"
    if installed:
        return [str(venv / "bin" / "clawhive"), *JOB]
    return [str(venv / "bin" / "python"), "-c", source, *JOB]


def main() -> None:
    """Measure and print."""
    options = arguments(
        __doc__,
        ("--tree", {"action": "store_true", "help": "the files as they lie, not as committed"}),
        ("--jobs", {"type": int, "default": 2, "help": "further runs of the main job"}),
    )
    if shutil.which("git") is None:
        raise CannotRun("git is not installed")
    with tempfile.TemporaryDirectory() as name:
        found = phases(Path(name), smoke=options.smoke, tree=options.tree, jobs=options.jobs)
    rows = [(phase, f"{each.wall:.1f}", f"{each.cpu:.1f}") for phase, each in found.items()]
    to_first = sum(
        each.wall for phase, each in found.items() if not phase.startswith("main job, run")
    )
    table(("phase", "wall s", "cpu s"), rows)
    print(f"to the first result: {to_first:.1f} s", end="")
    print(" (nothing was installed)" if options.smoke else f" (goal: {GOAL_SECONDS} or less)")
    finish(
        "first_result",
        {
            "installed": not options.smoke,
            "wall_seconds": {phase: round(each.wall, 2) for phase, each in found.items()},
            "goal_seconds": GOAL_SECONDS,
        },
    )


if __name__ == "__main__":
    start(main)
