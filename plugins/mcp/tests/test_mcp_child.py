"""Lines of a server's stdout, and the end of its process when ours is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_mcp.child import Lines, Overlong

ROUGH = Path(__file__).with_name("rough_server.py")


@given(
    st.lists(st.binary(max_size=40).map(lambda each: each.replace(b"\n", b"")), max_size=8),
    st.integers(1, 30),
    st.integers(1, 25),
)
def test_lines_are_the_same_however_they_are_cut_and_long_ones_keep_their_ends(lines, size, limit):
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter = Lines(limit)
    found = [
        each for at in range(0, len(data), size) for each in splitter.feed(data[at : at + size])
    ]
    assert len(found) == len(lines)
    for line, each in zip(lines, found, strict=True):
        if len(line) > limit:
            assert each == Overlong(len(line), line[:256], line[-256:])
        else:
            assert each == line


def test_a_line_without_end_takes_no_more_than_the_limit():
    splitter = Lines(1_000)
    for _ in range(1_000):
        assert list(splitter.feed(b"x" * 10_000)) == []
    assert sum(map(len, splitter._parts)) + len(splitter._head) + len(splitter._tail) <= 1_512


PARENT = """
import asyncio, os, sys
from clawhive_mcp.provider import MCPProvider
from clawhive_mcp.servers import Server
async def main():
    command = (sys.executable, sys.argv[1], sys.argv[2])
    provider = MCPProvider(Server("demo", command, connect_timeout_ms=60_000), env=os.environ)
    await provider.list_tools()
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.promise("P-278")
@pytest.mark.slow
def test_servers_and_their_children_end_with_a_parent_that_is_killed(tmp_path):
    notes = tmp_path / "notes"
    plan = '{"stubborn": true, "family": true, "notes": "' + str(notes) + '"}'
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(ROUGH), plan], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout.readline() == "ready\n"
    said = [json.loads(line) for line in notes.read_text().splitlines()]
    pids = [each.get("started") or each.get("child") for each in said]
    pids = [pid for pid in pids if pid]
    assert len(pids) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(map(_is_running, pids)) and time.monotonic() < deadline:
        os.sched_yield()
    assert not any(map(_is_running, pids))


def _is_running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
