"""kill -9 at any moment of the run that asks: the file untouched or as approved, never twice."""

import random
import signal
import time

import pytest

pytestmark = pytest.mark.slow

TEXT = "one\ntwo\nthree\n"
AFTER = "one\n2\nthree\n"
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2")
PROMPT = "n no > "

CHILD = """
import sys
import anyio
from clawhive_core import Hive

EDIT = {"path": "a.md", "find": "two", "replace": "2"}

async def work():
    async with Hive.open() as hive:
        async def ask(approval):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        print("ready", flush=True)
        run = await hive.run(task="edit_docs", input=EDIT, approve=sys.argv[1], ask=ask)
        print(run["status"], flush=True)

anyio.run(work)
"""


class Project:
    """The file, the runs that are known, and what must hold after every kill."""

    def __init__(self, processes):
        self.processes = processes
        self.file = processes.root / "a.md"
        self.known = set()
        self.ends = []

    def reset(self):
        self.file.write_text(TEXT, "utf-8")

    def recover(self):
        """Go on with what was killed, as a person would, and hold the file against the promise."""
        text = self.file.read_text("utf-8")
        assert text in {TEXT, AFTER}
        written = self.file.stat().st_ino if text == AFTER else None
        run = self.killed_run()
        self.ends.append("no run" if run is None else run["status"])
        if run is None:
            assert text == TEXT
            return
        if run["status"] != "succeeded":
            self.go_on(run["run_id"])
        assert self.file.read_text("utf-8") == AFTER
        assert written in {None, self.file.stat().st_ino}

    def go_on(self, run_id):
        """Approve what waits and resume, twice where the run had not come to its question."""
        code, said = 3, ""
        for _ in range(2):
            for approval in self.processes("approvals", "list", "--json").json["approvals"]:
                words = ("approvals", "approve", approval["approval_id"])
                assert self.processes(*words).code == 0
            if code == 3:
                done = self.processes("runs", "resume", run_id, "--json")
                code, said = done.code, done.out
        assert code == 0, said

    def killed_run(self):
        """Return the run that was killed, None where it had not begun."""
        runs = self.processes("runs", "list", "--limit", "500", "--json").json["runs"]
        new = [run for run in runs if run["run_id"] not in self.known]
        self.known |= {run["run_id"] for run in runs}
        assert len(new) <= 1
        return new[0] if new else None

    def holds(self):
        """Every approval was used once at most, and nobody changed the log."""
        import sqlite3

        with sqlite3.connect(self.processes.root / ".clawhive" / "hive.db") as connection:
            (most,) = connection.execute(
                "SELECT max(n) FROM (SELECT count(*) AS n FROM events"
                " WHERE kind = 'approval.resolved' AND status = 'consumed'"
                " GROUP BY json_extract(body, '$.approval_id'))"
            ).fetchone()
        assert most == 1
        assert self.processes("audit", "verify").code == 0


@pytest.fixture
def project(processes):
    return Project(processes)


@pytest.mark.timeout(1200)  # some 150 processes, one after the other
@pytest.mark.parametrize("mode", ["ask", "park"])
def test_killed_at_any_moment_of_a_run_the_file_is_untouched_or_as_approved(project, mode):
    moments = random.Random(f"20261122 {mode}")
    start, whole = project.processes.start, None
    for number in range(26):
        project.reset()
        child = start(mode, code=CHILD)
        assert child.stdout.readline() == b"ready\n"
        began = time.monotonic()
        if whole is None:
            child.stdout.readline()
            whole = time.monotonic() - began
        else:
            time.sleep(moments.uniform(0, whole))
        child.send_signal(signal.SIGKILL)
        project.processes.end(child)
        project.recover()
        if number % 8 == 0 and project.ends[-1] != "no run":
            assert project.processes("runs", "replay", "last").code == 0
    assert "interrupted" in project.ends
    project.holds()


@pytest.mark.timeout(1200)
def test_killed_after_the_answer_on_the_terminal_the_file_is_untouched_or_as_approved(project):
    moments = random.Random(20_261_122)
    tail = None
    for _ in range(26):
        project.reset()
        terminal = project.processes.on_terminal(*EDIT, "--approve", "ask")
        terminal.until(PROMPT)
        began = time.monotonic()
        terminal.type("y\n")
        if tail is None:
            terminal.until("succeeded")
            tail = time.monotonic() - began
        else:
            time.sleep(moments.uniform(0, tail))
        terminal.process.send_signal(signal.SIGKILL)
        terminal.close()
        project.recover()
    project.holds()


def test_killed_at_the_question_the_call_still_waits(project):
    project.reset()
    terminal = project.processes.on_terminal(*EDIT)
    terminal.until(PROMPT)
    terminal.process.send_signal(signal.SIGKILL)
    assert terminal.close() == -signal.SIGKILL
    (approval,) = project.processes("approvals", "list", "--json").json["approvals"]
    assert approval["state"] == "pending"
    project.recover()
    assert project.ends == ["interrupted"]
    project.holds()
