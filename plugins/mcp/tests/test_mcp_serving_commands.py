"""`clawhive serve` as users type it: over real pipes, ended by a signal, entries for clients."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import jsonschema
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import clawhive_core
from clawhive_core import ClawHiveError, HookContext
from clawhive_core.cli.settings import Settings
from clawhive_mcp.clients import find_servers
from clawhive_mcp.serving.commands import serve_command
from clawhive_mcp.serving.entries import CLIENTS, entry, written

COMMAND = str(Path(sys.executable).with_name("clawhive"))
WORDS = ["/opt/clawhive", "serve", "mcp", "--client", "x"]


@pytest.fixture
def place(tmp_path):
    """Return a project, and an environment with a home of its own."""
    (tmp_path / "project").mkdir()
    home = str(tmp_path)
    return tmp_path / "project", {
        "HOME": home,
        "XDG_CONFIG_HOME": f"{home}/config",
        "XDG_CACHE_HOME": f"{home}/cache",
        "PATH": os.environ["PATH"],
        **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
    }


async def test_a_client_over_pipes_lists_and_calls_and_its_call_is_on_record(place):
    project, env = place
    (project / "a.txt").write_text("hello")
    words = ["--root", str(project), "serve", "mcp", "--client", "editor"]
    server = StdioServerParameters(command=COMMAND, args=words, env=env)
    async with Client(server, mode="legacy") as client:
        assert "file__read" in [each.name for each in (await client.list_tools()).tools]
        done = await client.call_tool("tool_read", {"name": "file.read", "args": {"path": "a.txt"}})
        assert "hello" in done.content[0].text
        asked = await client.call_tool("file__write", {"path": "b.txt", "text": "x"})
        assert asked.structured_content["error"] == "approval_required"
    listed = await _output(["--root", str(project), "approvals", "list", "--json"], env)
    (approval,) = json.loads(listed)["approvals"]
    assert (approval["principal"], approval["state"]) == ("client:mcp/editor", "pending")
    approve = [COMMAND, "--root", str(project), "approvals", "approve", "last"]
    refused = await anyio.run_process(approve, env=env, check=False)
    assert refused.returncode == 2
    assert b"a person approves it at a terminal" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_cannot_be_read_is_answered_and_a_signal_ends_it_while_the_client_waits(place, number):
    project, env = place
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [COMMAND, "--root", str(project), "serve", "mcp"],
        env=env,
        stdin=ours,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
        os.write(theirs, json.dumps(hello).encode() + b"\n")
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "clawhive"
        deep = b'{"a":' * 3_000 + b"1" + b"}" * 3_000
        os.write(theirs, b'{"jsonrpc":"2.0","id":2,"method":"ping","params":' + deep + b"}\n")
        answer = json.loads(process.stdout.readline())
        assert (answer["id"], answer["error"]["code"]) == (2, -32700)
        process.send_signal(number)
        process.wait(120)
        os.close(theirs)
        os.close(ours)
        assert (process.returncode, process.stderr.read()) == (0, b"")


async def _output(words, env):
    done = await anyio.run_process([COMMAND, *words], env=env)
    return done.stdout.decode()


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_an_entry_is_found_again_where_the_client_keeps_it(client, tmp_path):
    text = written(client, entry(client, WORDS))
    kind = CLIENTS[client]
    parsed = tomllib.loads(text) if kind.is_toml else json.loads(text)
    inner = parsed
    for key in (*kind.keys, "clawhive"):
        inner = inner[key]
    assert "/opt/clawhive" in json.dumps(inner)
    home, root = tmp_path / "home", tmp_path / "root"
    file = home / kind.file[2:] if kind.file.startswith("~/") else root / kind.file
    if client == "claude-desktop":
        file = home / ".config/Claude/claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (found,), problems = find_servers(home, root)
    assert (found.client, found.problem, problems) == (client, "it is ClawHive itself", [])


@pytest.fixture
def serve(tmp_path):
    """Return what runs `clawhive serve` with words, for a user of its own."""

    def run(*words, code=0):
        ctx = HookContext("mcp", {}, str(tmp_path), {}, {}, str(tmp_path / "config"))
        done = CliRunner().invoke(serve_command(ctx), words, obj=Settings(root="."))
        if isinstance(done.exception, ClawHiveError):
            return done.exception
        assert done.exit_code == code, done.output
        return done.stdout

    return run


def test_tokens_are_made_listed_and_revoked(serve):
    made = json.loads(serve("token", "create", "ana", "--json"))
    assert_fits(made)
    assert serve("token", "create", "bob").startswith("chmcp_")
    listed = json.loads(serve("token", "list", "--json"))
    assert_fits(listed)
    assert [each["name"] for each in listed["tokens"]] == ["ana", "bob"]
    assert made["token"] not in json.dumps(listed)
    left = json.loads(serve("token", "revoke", "ana", "--json"))
    assert_fits(left)
    assert [each["name"] for each in left["tokens"]] == ["bob"]
    assert "bob: made" in serve("token", "list")
    assert serve("token", "revoke", "ana").code == "unknown_id"
    assert serve("token", "create", "No Name").code == "usage"


def test_an_entry_is_printed_as_json_with_the_absolute_project(serve, tmp_path):
    facts = json.loads(serve("mcp", "--for", "windsurf", "--json"))
    assert_fits(facts)
    args = facts["entry"]["mcpServers"]["clawhive"]["args"]
    assert args[:2] == ["--root", str(tmp_path)]
    assert serve("mcp", "--for", "claude-desktop", "--transport", "http").code == "usage"
    assert serve("mcp", "--transport", "http", "--host", "0.0.0.0", "--no-token").code == "usage"


def assert_fits(value):
    """Hold an answer against the schema that it names."""
    name = value["schema"].partition("/")[0]
    folder = Path(clawhive_core.__file__).parent / "data" / "schemas"
    jsonschema.validate(value, json.loads((folder / f"{name}.json").read_text()))


def test_over_http_an_entry_names_the_address_and_keeps_the_token_out(subtests):
    for client in CLIENTS:
        with subtests.test(client):
            value = entry(client, WORDS, "http://127.0.0.1:8722/mcp")
            if client == "claude-desktop":
                assert value is None
                continue
            text = written(client, value)
            assert "http://127.0.0.1:8722/mcp" in text
            assert "TOKEN" in text
