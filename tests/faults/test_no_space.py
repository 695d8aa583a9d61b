"""Effects stop where the log cannot be written, the log stays whole, and work goes on later."""

import json
import os
import subprocess

import pytest

pytestmark = pytest.mark.slow

SNIPPET = (
    *("run", "--task", "run_code_snippet", "--input", "language=python"),
    *("--input", "code=print(1)"),
)

PROGRAM = """
import json
import random
import sys
from contextlib import suppress

import anyio
from clawhive_core import ClawHiveError, Hive, ToolMeta

PRAGMA, LIFTED = sys.argv[1:3]
effects = []

async def effect(ctx, pad):
    effects.append(ctx.invocation_id)
    return "done"

async def fill(session):
    '''Call until an intent cannot be written; return how that was said.'''
    for number in range(200):
        try:
            await session.invoke("local.effect", {"pad": random.randbytes(40_000).hex()})
        except ClawHiveError as error:
            return error
    return None

async def refused(session):
    '''Whether a further call of that size does nothing.'''
    before = len(effects)
    with suppress(ClawHiveError):
        await session.invoke("local.effect", {"pad": random.randbytes(400_000).hex()})
    return len(effects) == before

def pragma(hive, text):
    hive.log._writer._connection.execute(text).fetchall()

async def main(said):
    async with Hive.open() as hive:
        pads = {"pad": {"type": "string"}}
        schema = {"type": "object", "properties": pads, "required": ["pad"]}
        hive.tools.add(ToolMeta("local.effect", "A tool.", schema, "local", risk="safe"), effect)
        async with hive.session() as session:
            if PRAGMA != "-":
                pragma(hive, PRAGMA)
            error = await fill(session)
            said["refused"] = await refused(session)
            said["error"] = error and [error.code, error.data["cause"], error.place, error.fix]
            rows = hive.log.read("SELECT invocation_id FROM events WHERE kind = 'invocation.start'")
            said["unfounded"] = sorted(set(effects) - {row[0] for row in rows})
            if LIFTED != "-":
                pragma(hive, LIFTED)
                await session.invoke("local.effect", {"pad": ""})
                said["again"] = len(effects)

said = {}
try:
    anyio.run(main, said)
except* ClawHiveError as errors:
    said["ended"] = [error.code for error in errors.exceptions]
print(json.dumps({**said, "effects": len(effects)}))
"""


def filled(processes, pragma="-", lifted="-"):
    """Fill what there is to fill, and return what a program was told then."""
    done = processes.end(processes.start(pragma, lifted, code=PROGRAM))
    assert done.code == 0, done.err
    return done.json


def assert_stopped(said, cause):
    code, found, place, fix = said["error"]
    assert (code, found) == ("log_write_failed", cause)
    assert place.endswith("hive.db")
    assert fix
    assert said["refused"]
    assert said["unfounded"] == []


def assert_goes_on(processes):
    assert processes("audit", "verify").code == 0
    assert processes(*SNIPPET).code == 0
    assert processes("audit", "verify").code == 0
    assert processes("audit", "rebuild", "--json").json["differences"] == []


@pytest.mark.promise("P-104")
def test_a_database_that_may_not_grow_stops_effects_and_goes_on_later(processes):
    said = filled(processes, "PRAGMA max_page_count = 400", "PRAGMA max_page_count = 100000000")
    assert_stopped(said, "full")
    assert said["effects"] > 1
    assert_goes_on(processes)


@pytest.mark.promise("P-104")
def test_a_database_that_became_read_only_stops_effects_and_goes_on_later(processes):
    said = filled(processes, "PRAGMA query_only = ON", "PRAGMA query_only = OFF")
    assert_stopped(said, "read_only")
    assert said["effects"] == said["again"] == 1
    assert_goes_on(processes)


@pytest.fixture
def small_disk(processes):
    """Put the project on a file system of 6 MB, with a file that can make room."""
    words = ("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(processes.root))
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here: it takes the superuser")
    ballast = processes.root / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    yield ballast
    subprocess.run(["umount", "--lazy", processes.root], check=True)


@pytest.mark.promise("P-104")
def test_a_full_file_system_stops_effects_and_the_log_goes_on_with_space(processes, small_disk):
    said = filled(processes)
    assert_stopped(said, "full")
    assert said["effects"] > 1
    small_disk.unlink()
    assert_goes_on(processes)


@pytest.mark.promise("P-104")
def test_a_database_file_that_nobody_may_write_is_said_with_its_place(processes, ordinary):
    assert processes(*SNIPPET).code == 0
    path = processes.root / ".clawhive" / "hive.db"
    path.chmod(0o444)
    done = processes(*SNIPPET, "--json", **ordinary)
    assert done.code == 1
    error = json.loads(done.out)
    assert error["error"] == "log_write_failed"
    assert "hive.db" in json.dumps(error)
    path.chmod(0o600)
    assert_goes_on(processes)
