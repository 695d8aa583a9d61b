"""kill -9 at any moment of an approved change: untouched or exactly as approved, never twice."""

import random
import signal
import time

import pytest

pytestmark = pytest.mark.slow

TEXT = "one\ntwo\nthree\n"
AFTER = "one\n2\nthree\n"
EDIT = ("run", "--task", "edit_docs", "--input", "path=a.md", "--input", "find=two")
EDIT += ("--input", "replace=2", "--json")

CHILD = """
import sys
import anyio
from clawhive_core import Hive

async def work():
    async with Hive.open() as hive:
        print("ready", flush=True)
        run = await hive.resume(sys.argv[1])
        print(run["status"], flush=True)

anyio.run(work)
"""

CONSUMER = """
import os
import sys
from clawhive_core.config.load import open_config
from clawhive_core.hive.project_log import open_log
from clawhive_core.model.events import Event
from clawhive_core.policy.approvals import usable, withdrawn
from clawhive_core.protocols.ledger import Unmet

log = open_log(open_config(None, {}, dict(os.environ)))
print("ready", flush=True)
sys.stdin.readline()
for approval_id in sys.argv[1:]:
    used = Event("approval.resolved", {"approval_id": approval_id, "by": "x", "reason": None},
                 status="consumed")
    try:
        log.append_now(used, expects=usable(approval_id))
        print("won")
    except Unmet:
        print(withdrawn(approval_id).code)
log.close()
"""

BATCH = """\
id: one
exports:
  api_version: "1.0"
  tools:
    - {name: greet, risk: guarded, input_schema: {type: object}, output_schema: {}}
tasks:
  hello:
    input_schema: {type: object, properties: {n: {type: array, default: [1, 2, 3]}}}
    steps: [{name: greet, tool: one.greet, for_each: "${input.n}", input: {}}]
"""

ANSWERER = """
import os
import sys
from clawhive_core.config.load import open_config
from clawhive_core.errors import RunError
from clawhive_core.hive.project_log import approval_book, open_log

config = open_config(None, {}, dict(os.environ))
log = open_log(config)
book = approval_book(log, config)
approval_id, by = sys.argv[1:]
verdict, scope = ("deny", "once") if by[-1] in "02" else ("approve", "session")
print("ready", flush=True)
sys.stdin.readline()
try:
    book.resolve(approval_id, verdict, by=by, scope=scope)
    print(by, verdict)
except RunError as error:
    print(error.code)
log.close()
"""


@pytest.fixture
def file(processes):
    return processes.root / "a.md"


def parked(processes, file):
    file.write_text(TEXT, "utf-8")
    run = processes(*EDIT).json
    assert run["status"] == "waiting_approval"
    return run["run_id"]


def consumptions(processes):
    import sqlite3

    with sqlite3.connect(processes.root / ".clawhive" / "hive.db") as connection:
        return connection.execute(
            "SELECT max(n), count(*) FROM (SELECT count(*) AS n FROM events"
            " WHERE kind = 'approval.resolved' AND status = 'consumed'"
            " GROUP BY json_extract(body, '$.approval_id'))"
        ).fetchone()


@pytest.mark.timeout(900)  # some 200 processes, one after the other
def test_killed_at_fifty_moments_the_file_is_untouched_or_as_approved(processes, file):
    moments = random.Random(20_261_122)
    run_id = parked(processes, file)
    assert processes("approvals", "approve", "last").code == 0
    child = processes.start(run_id, code=CHILD)
    assert child.stdout.readline() == b"ready\n"
    began = time.monotonic()
    assert child.stdout.readline() == b"succeeded\n"
    whole = time.monotonic() - began
    finished = 0
    for number in range(50):
        run_id = parked(processes, file)
        assert processes("approvals", "approve", "last").code == 0
        child = processes.start(run_id, code=CHILD)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0, whole))
        child.send_signal(signal.SIGKILL)
        processes.end(child)
        assert file.read_text("utf-8") in {TEXT, AFTER}
        written = file.stat().st_mtime_ns if file.read_text("utf-8") == AFTER else None
        resumed = processes("runs", "resume", run_id, "--json")
        if resumed.code != 0:
            assert resumed.json["error"] == "not_resumable"
            finished += 1
        assert file.read_text("utf-8") == AFTER
        assert written in {None, file.stat().st_mtime_ns}
        if number % 10 == 0:
            assert processes("runs", "replay", run_id).code == 0
    assert finished < 50
    assert consumptions(processes) == (1, 51)
    assert processes("audit", "verify").code == 0


def test_of_eight_processes_one_uses_an_approval(processes, file):
    parked(processes, file)
    (row,) = processes("approvals", "approve", "last", "--json").json["approvals"]
    children = [processes.start(row["approval_id"], code=CONSUMER, stdin=-1) for _ in range(8)]
    for child in children:
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    answers = sorted(processes.end(child).out.strip() for child in children)
    assert answers == ["already_resolved"] * 7 + ["won"]


@pytest.mark.promise("P-116")
def test_of_eight_processes_each_approval_of_a_batch_serves_one(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(BATCH, "utf-8")
    folder.joinpath("handlers.py").write_text("async def greet(input, ctx):\n    return {}\n")
    assert processes("run", "--task", "one.hello").code == 3
    rows = processes("approvals", "approve", "last", "--all", "--json").json["approvals"]
    assert len(rows) == 3
    ids = [row["approval_id"] for row in rows]
    children = [processes.start(*ids, code=CONSUMER, stdin=-1) for _ in range(8)]
    for child in children:
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    answers = [word for child in children for word in processes.end(child).out.split()]
    assert sorted(answers) == ["already_resolved"] * 21 + ["won"] * 3
    assert consumptions(processes) == (1, 3)


@pytest.mark.promise("P-130")
def test_of_eight_processes_that_answer_an_approval_one_does(processes, file):
    parked(processes, file)
    (row,) = processes("approvals", "list", "--json").json["approvals"]
    names = [f"user:p{number}" for number in range(8)]
    words = (row["approval_id"],)
    children = [processes.start(*words, each, code=ANSWERER, stdin=-1) for each in names]
    for child in children:
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    answers = sorted(processes.end(child).out.strip() for child in children)
    assert answers[:7] == ["already_resolved"] * 7
    by, verdict = answers[7].split()
    shown = processes("approvals", "show", *words, "--json").json["approvals"][0]
    state = "approved" if verdict == "approve" else "denied"
    assert (shown["state"], shown["resolved_by"]) == (state, by)
    given = processes("grants", "list", "--json").json["grants"]
    asked = row["capabilities"] if verdict == "approve" else []
    assert sorted(each["capability"] for each in given) == sorted(asked)
    assert processes("audit", "verify").code == 0


def test_of_eight_processes_that_resume_a_run_one_does(processes, file):
    run_id = parked(processes, file)
    assert processes("approvals", "approve", "last").code == 0
    children = [processes.start("runs", "resume", run_id, "--json") for _ in range(8)]
    ended = [processes.end(child) for child in children]
    assert [done.code for done in ended].count(0) == 1
    errors = {done.json["error"] for done in ended if done.code != 0}
    assert errors <= {"run_busy", "not_resumable"}
    assert file.read_text("utf-8") == AFTER
    assert consumptions(processes) == (1, 1)
    assert processes("audit", "verify").code == 0
