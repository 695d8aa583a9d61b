"""Servers for the tests: rough ones of the standard library, started as real processes."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from clawhive_core import Answer
from clawhive_mcp.provider import MCPProvider
from clawhive_mcp.servers import Server

ROUGH = Path(__file__).with_name("rough_server.py")


class Context:
    """As much of a call's context as a provider uses."""

    def __init__(self, folder, seconds=30.0):
        self.trace_id, self.invocation_id, self.tool_call_id = "trace_1", "inv_1", "call_1"
        self.run_id = "run_1"
        self.artifacts, self.seconds, self.told = str(folder), seconds, []

    def remaining(self):
        return self.seconds

    async def ask(self, question):
        return Answer("cancel")

    def progress(self, done, total=None, text=""):
        self.told.append((done, total, text))


class Place:
    """A folder with what servers noted, and the providers that a test made."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "notes.jsonl"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SECRET_TOKEN": "s3cret"}
        self.context = Context(folder)
        self.made = []

    def rough(self, name="demo", *, timeout_ms=10_000, connect_timeout_ms=20_000, **plan):
        """Return a server that misbehaves as planned."""
        plan = {"notes": str(self.file), **plan}
        command = (sys.executable, "-S", "-E", str(ROUGH), json.dumps(plan))
        return Server(
            name,
            command,
            cwd=str(self.folder),
            timeout_ms=timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
        )

    def provider(self, server=None, **plan):
        """Return a provider of a server, closed at the end of the test."""
        made = MCPProvider(server or self.rough(**plan), env=self.env, root=str(self.folder))
        self.made.append(made)
        return made

    async def call(self, provider, tool, **arguments):
        """List the tools and call one."""
        await provider.list_tools()
        return await provider.invoke(f"mcp.{provider.server.name}.{tool}", arguments, self.context)

    def notes(self, key=None):
        """Return what servers noted, or those notes that have a key."""
        lines = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        found = [json.loads(line) for line in lines]
        return found if key is None else [each[key] for each in found if key in each]

    def answers(self):
        """Return what servers got for their own requests, by method."""
        found = {}
        for each in self.notes():
            if "method" not in each and isinstance(each.get("id"), str):
                found.setdefault(each["id"].split()[0], []).append(each)
        return found

    async def until(self, found):
        """Wait until something is there, as the servers are processes of their own."""
        while not found():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0)

    def is_running(self, pid):
        """Tell whether a process is there and is no zombie."""
        return is_running(pid)

    def sent(self, method):
        """Return the messages of a method that servers got."""
        return [each for each in self.notes() if each.get("method") == method]


@pytest.fixture
def plain_place(tmp_path):
    """Return the place for tests without an event loop of their own."""
    made = Place(tmp_path)
    yield made
    assert [pid for pid in made.notes("started") if is_running(pid)] == []


@pytest.fixture
async def place(plain_place):
    yield plain_place
    await asyncio.gather(*(each.close() for each in plain_place.made))


def is_running(pid):
    """Whether a process is there and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
