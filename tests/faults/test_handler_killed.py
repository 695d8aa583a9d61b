"""kill -9 while a handler runs: nothing that it started stays."""

import fcntl
import signal
import time

import pytest

from tests.harness import exports

pytestmark = pytest.mark.slow

HANDLERS = """
import fcntl, subprocess

def gen():
    yield 1

def f(input, ctx):
    lock = open("lock")
    fcntl.flock(lock, fcntl.LOCK_EX)
    subprocess.Popen(["sleep", "300"], start_new_session=True, pass_fds=[lock.fileno()])
    while True:
        pass
"""
CONTRACT = "id: one\n" + exports("f")


def test_a_killed_clawhive_leaves_no_process_of_a_handler(processes):
    folder = processes.root / "skills" / "one"
    folder.mkdir(parents=True)
    folder.joinpath("clawhive.yaml").write_text(CONTRACT)
    folder.joinpath("handlers.py").write_text(HANDLERS)
    lock = folder / "lock"
    lock.write_text("")  # trust is bound to what lies in the folder
    processes("skills", "trust", "one", "--yes")
    process = processes.start("tools", "call", "one.f")
    until(lambda: is_held(lock))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: not is_held(lock))


def until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def is_held(lock):
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
