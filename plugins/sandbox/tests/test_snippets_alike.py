"""Small ordinary programs print in a guest what they print in the native interpreter.

The programs were written for this, after the topics of the documentation of Python's library and of
ECMAScript. Compared are stdout and the exit code, since messages of errors name other versions.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clawhive_core import SandboxCommand, SandboxLimits, SandboxSpec

pytestmark = pytest.mark.slow

DATA = Path(__file__).with_name("data")
STDIN = b"first\nsecond\nthird\n"


def programs(file):
    for part in re.split(r"(?m)^#### ", (DATA / file).read_text(encoding="utf-8"))[1:]:
        name, _, code = part.partition("\n")
        yield name, code


def native(command, folder):
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder, input=STDIN, capture_output=True, env=env, timeout=300, check=False
    )
    return done.stdout, done.returncode


async def guest(engine, command, folder):
    folder.mkdir()
    limits = SandboxLimits(wall_ms=60_000)
    instance = await engine.open(SandboxSpec(str(folder), limits=limits))
    try:
        outcome = await instance.run(SandboxCommand(command, stdin=STDIN), lambda *said: None)
    finally:
        await instance.close()
    return outcome.stdout, outcome.exit_code


async def differing(engine, file, command, tmp_path):
    found = []
    for number, (name, code) in enumerate(programs(file)):
        theirs = native([*command, code], tmp_path / f"native-{number}")
        ours = await guest(engine, (*command, code), tmp_path / f"guest-{number}")
        if theirs != ours:
            found.append((name, theirs, ours))
    return found


async def test_python_programs_print_what_native_python_prints(python, tmp_path):
    count = len(list(programs("python_snippets.txt")))
    found = await differing(python, "python_snippets.txt", (sys.executable, "-c"), tmp_path)
    assert count >= 120
    assert len(found) <= 0.02 * count, found


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to compare with")
async def test_javascript_programs_print_what_node_prints(node, tmp_path):
    count = len(list(programs("node_snippets.txt")))
    found = await differing(node, "node_snippets.txt", ("node", "-e"), tmp_path)
    assert count >= 80
    assert len(found) <= 0.05 * count, found
