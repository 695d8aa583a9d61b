"""A project served to MCP clients: stable tools, decisions, approvals, the same in both eras."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from clawhive_core import ClawHiveError
from clawhive_mcp.errors import WrongUsage
from clawhive_mcp.serving.gateway import client_name
from clawhive_mcp.serving.names import LONGEST, STABLE, WireNames, folded

from .gateway_house import ERAS, OPEN, House, Provider, text_of


async def test_each_era_lists_the_five_tools_and_every_enabled_one(subtests):
    for era in ERAS:
        with subtests.test(era):
            house = House(Provider())
            async with house.client(era) as client:
                names = [each.name for each in (await client.list_tools()).tools]
                assert names[:5] == list(STABLE)
                assert {"test__echo", "test__keep"} <= set(names)
                tools = client.server_capabilities.tools
                assert era != "legacy" or tools.list_changed


@pytest.mark.promise("P-282")
async def test_text_and_structure_say_the_same(subtests):
    for era in ERAS:
        with subtests.test(era):
            house = House(Provider())
            async with house.client(era) as client:
                direct = await client.call_tool("test__echo", {"a": [1]})
                again = await client.call_tool(
                    "tool_call", {"name": "test.echo", "args": {"a": [1]}}
                )
                for each in (direct, again):
                    assert json.loads(text_of(each)) == each.structured_content == {"a": [1]}
                calls = [
                    each.event
                    for each in house.hive.log.events()
                    if each.event.kind == "invocation.start"
                ]
                assert {each.principal for each in calls} == {"client:mcp/tester"}
                assert {each.tool for each in calls} == {"test.echo"}


async def test_what_a_person_must_approve_is_no_error_and_its_repetition_is_done(subtests):
    for era in ERAS:
        with subtests.test(era):
            house = House(Provider())
            async with house.client(era) as client:
                asked = await client.call_tool("test__keep", {"path": "a"})
                facts = asked.structured_content
                assert (asked.is_error, facts["error"]) == (False, "approval_required")
                assert facts["approval_id"] in text_of(asked)
                assert facts["next"]["command"] in text_of(asked)
                house.hive.approvals.resolve(facts["approval_id"], "approve", by="user:ana")
                done = await client.call_tool(
                    "tool_call", {"name": "test.keep", "args": {"path": "a"}}
                )
                assert done.structured_content == {"kept": "a"}


async def test_the_command_that_lifts_a_denial_is_told_to_the_person_only():
    provider = Provider()
    provider.add("test.read", lambda given, _: "x", risk="safe", effects={"path": "fs.read"})
    house = House(provider)
    async with house.client() as client:
        refused = await client.call_tool("test__read", {"path": "/etc/passwd"})
        facts = refused.structured_content
        assert facts["error"] == "denied"
        assert facts["next"]["capabilities"] == ["fs.read:/etc/passwd"]
        assert "grants issue" not in json.dumps(facts) + text_of(refused)
        assert "clawhive runs show" in text_of(refused)
        assert "grants issue" in str([each.event for each in house.hive.log.events()])


async def test_what_the_model_can_correct_is_an_error():
    house = House(Provider())
    async with house.client("2026-07-28") as client:
        for name, arguments in (
            ("nothing__here", {}),
            ("tool_call", {"name": "nothing.here"}),
            ("tool_call", {"name": "test.echo", "args": "text"}),
            ("tool_call", {"name": "tool_call"}),
            ("tool_search", {}),
            ("tool_enable", {"names": [1]}),
            ("tool_more", {"ref": "r99"}),
            ("tool_read", {"name": "test.keep"}),
        ):
            answer = await client.call_tool(name, arguments)
            assert answer.is_error, name
            assert answer.structured_content["message"] in text_of(answer)


async def test_beyond_forty_tools_a_client_enables_them_and_lists_again():
    house = House(Provider(more=60))
    async with house.client() as client:
        assert len((await client.list_tools()).tools) < 10
        refused = await client.call_tool("test__more7", {})
        assert refused.structured_content["error"] == "tool_not_enabled"
        enabled = (
            await client.call_tool("tool_enable", {"names": ["test.more7"]})
        ).structured_content
        (row,) = enabled["enabled"]
        assert (row["name"], row["call_as"]) == ("test.more7", "test__more7")
        assert row["input_schema"] == OPEN
        assert "test__more7" in [each.name for each in (await client.list_tools()).tools]
        assert text_of(await client.call_tool("test__more7", {})) == "more"


async def test_a_long_result_is_read_on():
    provider = Provider()
    whole = "".join(f"{number:07}\n" for number in range(10_000))
    provider.add("test.long", lambda given, _: whole, risk="safe")
    house = House(provider)
    async with house.client("2026-07-28") as client:
        page = (await client.call_tool("test__long", {})).structured_content
        read = page["text"]
        while page["next_offset"] is not None:
            arguments = {"ref": page["ref"], "offset": page["next_offset"]}
            page = (await client.call_tool("tool_more", arguments)).structured_content
            read += page["text"]
        assert read == whole


@pytest.mark.promise("P-283")
def test_names_are_short_and_differ_however_a_client_folds_them(tmp_path):
    file = tmp_path / "names.json"
    names = WireNames(file)
    tools = ["file.read", "file.read_", "FILE.read", "mcp.git.status", "git.status", "tool_call"]
    tools += ["a." + "x" * 80, "a." + "x" * 79 + "y"]
    first = dict(names.of(tools))
    assert len({folded(each) for each in (*first.values(), *STABLE)}) == len(tools) + 5
    assert all(len(each) <= LONGEST for each in first.values())
    assert first["file.read"] != "file__read"
    assert {names.tool(wire): wire for wire in first.values()} == first
    later = WireNames(file)
    assert later.of(reversed(tools)) == first
    assert later.of(["mcp.file.read"])["mcp.file.read"] not in first.values()


@pytest.mark.parametrize(
    ("said", "name"),
    [("Claude Code", "claude-code"), ("", "unknown"), ("../x", "..-x"), ("я", "unknown")],
)
def test_a_client_is_a_principal_by_what_it_calls_itself(said, name):
    assert client_name(said) == name


async def test_a_tool_that_comes_later_is_told(subtests):
    provider = Provider()
    house = House(provider)
    told = anyio.Event()

    async def heard(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with house.client(message_handler=heard) as client:
        await client.list_tools()
        provider.add("test.late", lambda given, _: "late", risk="safe")
        provider.told()
        with anyio.fail_after(60):
            await told.wait()
        assert "test__late" in [each.name for each in (await client.list_tools()).tools]


async def test_a_tool_that_is_another_than_was_listed_is_not_called_unseen():
    provider = Provider()
    house = House(provider)
    async with house.client() as client:
        await client.list_tools()
        provider.metas[0] = replace(provider.metas[0], input_schema={**OPEN, "title": "other"})
        await house.hive.catalog.refresh()
        refused = await client.call_tool("test__echo", {"a": 1})
        assert (refused.is_error, refused.structured_content["error"]) == (True, "tool_changed")
        assert (await client.call_tool("test__echo", {"a": 1})).structured_content == {"a": 1}


async def test_a_client_that_leaves_ends_its_session_as_its_last_call_did():
    house = House(Provider())
    runs = {}

    @asynccontextmanager
    async def watched():
        async with house._opened() as hive:
            yield hive
            runs.update((each.title, each.status) for each in hive.records.runs())

    house.gateway._opening = watched
    async with house.client() as client:
        await client.call_tool("test__echo", {"a": 1})
    assert runs == {"MCP client tester": "succeeded"}


async def test_the_first_answers_do_not_wait_for_the_project():
    house, told, open_it = House(Provider()), anyio.Event(), anyio.Event()
    opening = house.gateway._opening

    @asynccontextmanager
    async def late():
        await open_it.wait()
        async with opening() as hive:
            yield hive

    async def heard(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    house.gateway._opening = late
    async with house.client(message_handler=heard) as client:
        assert [each.name for each in (await client.list_tools()).tools] == list(STABLE)
        open_it.set()
        with anyio.fail_after(60):
            await told.wait()
        assert "test__echo" in [each.name for each in (await client.list_tools()).tools]


async def test_a_project_that_cannot_be_opened_ends_it_with_its_error():
    house = House(Provider())

    @asynccontextmanager
    async def broken():
        raise WrongUsage("it is broken", code="invalid_config")
        yield

    house.gateway._opening = broken
    with pytest.raises(ClawHiveError, match="it is broken"):
        async with house.gateway.open():
            await anyio.sleep_forever()


async def test_whoever_goes_while_a_tool_works_leaves_nothing_behind():
    provider, begun, ended = Provider(), anyio.Event(), []

    async def endless(given, ctx):
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    provider.add("test.endless", endless, risk="safe")
    house = House(provider)
    async with house.client() as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "test__endless", {})
        with anyio.fail_after(60):
            await begun.wait()
        group.cancel_scope.cancel()
    assert ended == ["cancelled"]
