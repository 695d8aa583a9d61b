"""kill -9 while a handler runs: nothing that it started stays."""

import os
import signal
import time

import pytest

from tests.harness import exports

pytestmark = pytest.mark.slow

HANDLERS = """
import subprocess, time

def gen():
    yield 1

def f(input, ctx):
    started = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open("pids", "w") as file:
        file.write(f"{__import__('os').getpid()} {started.pid}\\n")
    while True:
        pass
"""
CONTRACT = "id: one\n" + exports("f")


def test_a_killed_clawhive_leaves_no_process_of_a_handler(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(CONTRACT)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    pids = folder / "pids"
    pids.write_text("")  # trust is bound to what lies in the folder
    processes("skills", "trust", "one", "--yes")
    process = processes.start("tools", "call", "one.f")
    until(lambda: pids.read_text().endswith("\n"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: not is_alive(pid))


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
