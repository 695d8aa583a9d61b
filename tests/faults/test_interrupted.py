"""Ctrl-C and SIGTERM in the middle: the run is cancelled, its worker gone, its log whole."""

import signal
import subprocess
from contextlib import suppress

import pytest

pytestmark = pytest.mark.slow

LOOP = "import sys\nprint('looping', file=sys.stderr)\nwhile True:\n    pass\n"


def until(stream, text):
    """Read lines until one holds the text; the process says by it how far it is."""
    for line in stream:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_in_a_program_is_cancelled(processes, proc, gone, number):
    process = processes.snippet(LOOP)
    until(process.stderr, b"looping")
    workers = proc(process.pid)
    assert workers
    process.send_signal(number)
    done = processes.end(process)
    assert done.code == 130
    assert all(gone(pid) for pid in workers)
    run = processes("runs", "show", "last", "--json").json
    assert (run["status"], run["error"]["code"]) == ("cancelled", "cancelled")
    assert [step["name"] for step in run["steps"]] == [
        "tool.sandbox.write_files",
        "tool.sandbox.exec",
    ]
    assert run["steps"][1]["error"]["code"] == "cancelled"
    verified = processes("audit", "verify", "--json").json
    assert (verified["ok"], verified["window_rows"]) == (True, 0)


def test_with_json_an_interruption_is_one_object_too(processes):
    process = processes.snippet(LOOP, "--json")
    until(process.stderr, b"looping")
    process.send_signal(signal.SIGINT)
    done = processes.end(process)
    assert done.code == 130
    assert (done.json["schema"], done.json["error"]) == ("error/1", "cancelled")


def test_a_second_interruption_does_not_break_off_the_record_of_the_first(processes):
    process = processes.snippet(LOOP)
    until(process.stderr, b"looping")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert processes.end(process).code == 130
    assert processes("runs", "show", "last", "--json").json["status"] == "cancelled"
    assert processes("audit", "verify").code == 0


def test_following_the_log_ends_quietly(processes):
    assert processes.end(processes.snippet("print(1)")).code == 0
    process = processes.start("audit", "tail", "--follow")
    until(process.stdout, b"run.end")
    process.send_signal(signal.SIGINT)
    done = processes.end(process)
    assert (done.code, done.err) == (130, "")


BLOCKED = """
import time
from clawhive_core.cli.loop import run_async

async def work():
    print("on", flush=True)
    time.sleep(3600)

run_async(work())
"""


@pytest.mark.promise("P-168")
def test_the_third_interruption_ends_even_what_blocks_the_event_loop(processes):
    process = processes.start(code=BLOCKED)
    until(process.stdout, b"on")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    assert processes.end(process).code == 130
