"""Real processes: started, watched by their output, interrupted, killed."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ENTRY = "from clawhive_core.cli import main; main()"
PATIENCE = 600


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@dataclass
class Terminal:
    """A process on a terminal, and what it has shown there."""

    process: subprocess.Popen
    end: int
    shown: str = ""

    def until(self, text):
        """Read on until a text is shown."""
        start = len(self.shown)
        while text not in self.shown[start:]:
            assert self._more(), f"it ended without showing {text!r}: {self.shown}"

    def type(self, text):
        os.write(self.end, text.encode())

    def close(self):
        """Read the rest, wait, and return the process's exit code."""
        while self._more():
            pass
        os.close(self.end)
        return self.process.wait(PATIENCE)

    def _more(self):
        try:
            part = os.read(self.end, 4096)
        except OSError:  # nobody has the other end any more
            return False
        self.shown += part.decode().replace("\r\n", "\n")
        return bool(part)


@dataclass
class Processes:
    """Starts `clawhive`, or a program on it, as a process in a project of its own."""

    root: Path
    home: Path
    started: list = field(default_factory=list)

    @property
    def env(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}

    def start(self, *words, code=ENTRY, **more):
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, *map(str, words)],
            cwd=self.root,
            env=self.env,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more},
        )
        self.started.append(process)
        return process

    def end(self, process):
        out, err = process.communicate(timeout=PATIENCE)
        return Done(process.returncode, out.decode(), err.decode())

    def __call__(self, *words, **more):
        return self.end(self.start(*words, **more))

    def on_terminal(self, *words):
        """Start `clawhive` with a terminal of its own."""
        ours, its = pty.openpty()
        try:
            process = self.start(*words, stdin=its, stdout=its, stderr=its)
        finally:
            os.close(its)
        return Terminal(process, ours)

    def snippet(self, code, *more, **options):
        return self.start(
            *("run", "--task", "run_code_snippet", "--input", "language=python"),
            *("--input", f"code={code}", *more),
            **options,
        )


@pytest.fixture
def processes(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    made = Processes(root, home)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
    for folder in (root, home, root / ".clawhive"):
        if folder.is_dir():
            folder.chmod(0o755)


def children_of(pid):
    """Return the ids of a process's descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = entry.joinpath("stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, front = set(), {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front} - found
        found |= front
    return found


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def as_ordinary():
    """Give up the superuser's right to ignore file modes, for this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def small_files(limit):
    """Return what lets a process write no file beyond a size, as a full disk would."""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return limited


@pytest.fixture
def proc():
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc here")
    return children_of


@pytest.fixture
def gone():
    return is_gone


@pytest.fixture
def ordinary():
    return {"preexec_fn": as_ordinary}


@pytest.fixture
def full_disk():
    return lambda limit: {"preexec_fn": small_files(limit)}
