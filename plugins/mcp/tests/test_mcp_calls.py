"""Calls to servers, good and bad: what comes back, under which code, and what is left behind."""

import asyncio
import json
import logging
import socket
import sys
from pathlib import Path

import pytest

from clawhive_core import ToolError
from clawhive_core.testing import check_provider
from clawhive_mcp.errors import (
    MCPConnectionError,
    MCPProviderClosedError,
    MCPTimeoutError,
    MCPToolNotFoundError,
)
from clawhive_mcp.servers import Server


async def failed(doing):
    with pytest.raises(ToolError) as caught:
        await doing
    return caught.value


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "clawhive.mcp"]


async def test_tools_are_listed_under_their_servers_name_and_called(place):
    provider = place.provider()
    tools = await provider.list_tools()
    assert [tool.name for tool in tools] == ["mcp.demo.add", "mcp.demo.echo"]
    assert {tool.provider_id for tool in tools} == {"mcp_demo"}
    result = await provider.invoke("mcp.demo.add", {"a": 2, "b": 3}, place.context)
    assert (result.output, result.structured, result.is_error) == ("5", {"sum": 5}, False)
    assert result.tool_call_id == "call_1"


async def test_arguments_pass_through_unchanged_with_their_place_in_the_trace(place):
    given = {"x": None, "list": [1, 2.5, "ü"], "deep": {"a": {"b": [True]}}}
    await place.call(place.provider(), "echo", **given)
    [sent] = place.sent("tools/call")
    assert sent["params"]["arguments"] == given
    assert sent["params"]["_meta"]["traceparent"].startswith("00-")


async def test_a_server_gets_a_few_variables_and_no_secret(place):
    await place.call(place.provider(), "add")
    [names], [run] = place.notes("names"), place.notes("run")
    assert "SECRET_TOKEN" not in names
    assert {"PATH", "HOME", "CLAWHIVE_RUN"} <= set(names)
    assert run == "mcp_demo"


async def test_progress_is_told(place):
    await place.call(place.provider(call="progress"), "add")
    assert place.context.told == [(1, 2, "part 1"), (2, 2, "part 2")]


async def test_the_provider_holds_to_the_protocol(place):
    await check_provider(place.provider())


@pytest.mark.promise("P-277")
@pytest.mark.parametrize(
    ("plan", "event", "why"),
    [
        ({"start": "die"}, "mcp.spawn.failed", "no such database: [31mx.db"),
        ({"list": "error"}, "mcp.list_tools.failed", "no list today"),
        ({"mute": "*", "connect_timeout_ms": 300}, "mcp.list_tools.failed", "within 0.3 s"),
        ({"mute": "tools/list", "connect_timeout_ms": 900}, "mcp.list_tools.failed", "0.9 s"),
    ],
    ids=["dies at start", "list is an error", "mute", "mute after the handshake"],
)
async def test_a_server_that_cannot_list_has_no_tools_and_the_log_says_why(
    place, caplog, plan, event, why
):
    provider = place.provider(**plan)
    assert await provider.list_tools() == []
    [line] = messages(caplog)
    assert line.startswith(f"{event} server=demo: ")
    assert why in line
    error = await failed(provider.invoke("mcp.demo.add", {}, place.context))
    assert isinstance(error, MCPConnectionError)
    assert error.code == "ConnectionError"


async def test_a_command_that_is_not_there_is_a_failed_start(place, caplog):
    provider = place.provider(Server("gone", ("/nonexistent/server",)))
    assert await provider.list_tools() == []
    assert messages(caplog)[0].startswith("mcp.spawn.failed server=gone: ")


async def test_a_call_without_an_answer_is_a_timeout_and_cancelled(place):
    provider = place.provider(calls={"echo": "hang"}, timeout_ms=500)
    await place.call(provider, "add")
    error = await failed(place.call(provider, "echo"))
    assert isinstance(error, MCPTimeoutError)
    assert error.code == "Timeout"
    assert (await place.call(provider, "add", a=1)).output == "1"  # the connection lives on
    [_, call, _], [cancelled] = place.sent("tools/call"), place.sent("notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]
    assert len(place.notes("started")) == 1


async def test_a_cancelled_call_is_cancelled_on_the_server_too(place):
    provider = place.provider(call="hang")
    calling = asyncio.create_task(place.call(provider, "add"))
    await place.until(lambda: place.sent("tools/call"))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await provider.close()
    assert len(place.sent("notifications/cancelled")) == 1


async def test_a_server_that_dies_in_a_call_is_a_connection_error_with_its_last_words(place):
    error = await failed(place.call(place.provider(call="die"), "add"))
    assert error.code == "ConnectionError"
    assert "the disk is on fire" in error.message
    assert "exit code 3" in error.message


async def test_a_lost_server_is_started_again_but_no_call_is_sent_again(place):
    provider = place.provider(call="die", mark=str(place.folder / "mark"))
    await failed(place.call(provider, "add"))
    results = await asyncio.gather(*(place.call(provider, "add", a=n) for n in range(5)))
    assert [each.output for each in results] == ["0", "1", "2", "3", "4"]
    assert len(place.notes("started")) == 2  # once for all that waited
    assert len(place.sent("tools/call")) == 6


async def test_an_answer_to_another_id_is_no_answer(place):
    provider = place.provider(call="wrong id", timeout_ms=500)
    await place.call(provider, "add")
    error = await failed(place.call(provider, "echo"))
    assert error.code == "Timeout"


@pytest.mark.parametrize("size", [1_000, 3_000_000])
async def test_a_long_answer_is_an_error_only_above_the_cap(place, size, monkeypatch):
    monkeypatch.setattr("clawhive_mcp.child.MAX_LINE", 2_000_000)
    provider = place.provider(size=size)
    if size == 1_000:
        assert len((await place.call(provider, "echo")).output) == size
        return
    error = await failed(place.call(provider, "echo"))
    assert error.code == "tool_failed"
    assert "longer than 2000000 bytes" in error.message
    assert (await place.call(provider, "add", a=1)).output == "1"


async def test_an_answer_nested_too_deep_is_an_error_at_once(place):
    error = await failed(place.call(place.provider(call="nested"), "add"))
    assert "no JSON-RPC message" in error.message


@pytest.mark.parametrize("how", ["protocol", "result"])
async def test_a_tool_that_the_server_does_not_know_is_not_found(place, how):
    said = {"content": [{"type": "text", "text": "Unknown tool: echo"}], "isError": True}
    plan = {"call": "unknown"} if how == "protocol" else {"result": said}
    provider = place.provider(**plan)
    error = await failed(place.call(provider, "echo"))
    assert isinstance(error, MCPToolNotFoundError)
    assert error.code == "ToolNotFound"
    if how == "result":
        assert (await place.call(provider, "add", a=1)).output == "1"  # only that call fails


async def test_a_tool_that_fails_is_an_error_result_with_its_words(place):
    said = {"content": [{"type": "text", "text": "No file was found by the tool"}], "isError": True}
    result = await place.call(place.provider(result=said), "echo")
    assert (result.is_error, result.output) == (True, "No file was found by the tool")


async def test_nobody_is_asked_and_no_model_for_a_server(place):
    await place.call(place.provider(call="asks"), "add")
    answers = place.answers()
    assert answers["elicitation/create"][0]["result"] == {"action": "decline"}
    assert "error" in answers["sampling/createMessage"][0]
    [root] = answers["roots/list"][0]["result"]["roots"]
    assert root["uri"] == place.folder.as_uri()


async def test_after_close_a_call_is_refused_and_no_tool_is_there(place):
    provider = place.provider()
    await place.call(provider, "add")
    await asyncio.gather(provider.close(), provider.close())
    await provider.close()
    error = await failed(provider.invoke("mcp.demo.add", {}, place.context))
    assert isinstance(error, MCPProviderClosedError)
    assert error.code == "ProviderClosed"
    assert await provider.list_tools() == []


async def test_closing_a_server_that_does_not_want_to_end_ends_its_children_too(place, monkeypatch):
    monkeypatch.setattr("clawhive_mcp.child._EOF_SECONDS", 0.05)
    monkeypatch.setattr("clawhive_mcp.child._TERM_SECONDS", 0.05)
    provider = place.provider(stubborn=True, family=True)
    await place.call(provider, "add")
    [child] = place.notes("child")
    assert place.is_running(child)
    await provider.close()
    assert not place.is_running(child)


async def test_cancelling_who_waits_for_a_slow_start_leaves_no_process(place):
    provider = place.provider(mute="*")
    listing = asyncio.create_task(provider.list_tools())
    await place.until(lambda: place.notes("started"))
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    await provider.close()
    assert [each for each in place.notes("started") if place.is_running(each)] == []


async def test_closing_during_a_call_ends_the_call(place):
    provider = place.provider(call="hang")
    calling = asyncio.create_task(place.call(provider, "add"))
    await place.until(lambda: place.sent("tools/call"))
    await provider.close()
    error = await failed(calling)
    assert error.code in ("ProviderClosed", "ConnectionError")


async def test_a_slow_server_delays_nothing_once_it_is_known_to_be_one(place, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "clawhive.mcp")
    slow = place.rough(mute="*", connect_timeout_ms=200)
    assert await place.provider(slow).list_tools() == []
    monkeypatch.setattr("clawhive_mcp.provider._FIRST_SECONDS", None)  # waiting would not end
    later = place.provider(slow)
    listing = later.list_tools()
    with pytest.raises(StopIteration):  # it answers without ever waiting
        listing.send(None)


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", [True, False])
async def test_a_server_in_the_jail_reaches_no_file_and_no_network_and_ends(place, sandbox):
    pytest.importorskip("clawhive_sandbox.jail")
    rough, secret = Path(__file__).with_name("rough_server.py"), place.folder / "secret"
    secret.touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plan = {"call": "peeks", "peek": str(secret), "port": listener.getsockname()[1]}
        command = (sys.executable, "-S", "-E", str(rough), json.dumps(plan))
        server = Server("demo", command, cwd=str(rough.parent), sandbox=sandbox)
        provider = place.provider(server)
        if sandbox and not await provider.list_tools():
            pytest.skip("no jail can be made here")
        answer = json.loads((await place.call(provider, "echo")).output)
    assert answer == dict.fromkeys(("file", "written", "network"), not sandbox)
    assert _with_argument(secret)
    await provider.close()
    assert not _with_argument(secret)


def _with_argument(text):
    """Return the processes of which a command line holds a text."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(text).encode() in each.read_bytes():
                found.append(each)
        except OSError:
            continue
    return found
