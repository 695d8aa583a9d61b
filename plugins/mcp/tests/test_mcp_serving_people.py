"""Calls of clients that wait for a person: shown where the user said somebody sits, else told."""

import anyio
import pytest
from mcp.types import ElicitResult

from clawhive_core import Question
from clawhive_mcp.serving.approving import Attendance

from .gateway_house import ERAS, House, Provider, text_of

KEEP = ("test__keep", {"path": "a"})
ATTENDED = {"tester": Attendance(attended=True)}


def answering(action, content=None, asked=None):
    """Return a client's way to ask its person."""

    async def ask(context, params):
        if asked is not None:
            asked.append(params.message)
        return ElicitResult(action=action, content=content)

    return ask


ANSWERS = [
    ("accept", {"approve": True}, True),
    ("accept", {}, True),
    ("accept", {"approve": False}, False),
    ("decline", None, False),
    ("cancel", None, False),
]


@pytest.mark.parametrize("era", ERAS)
async def test_an_attended_client_shows_the_call_and_only_a_yes_resolves_it(era):
    asked = []

    async def ask(context, params):
        asked.append(params.message)
        action, content, _ = ANSWERS[len(asked) - 1]
        return ElicitResult(action=action, content=content)

    house = House(Provider(), clients=ATTENDED)
    async with house.client(era, elicitation_callback=ask) as client:
        for number, (*_, done) in enumerate(ANSWERS):
            path = f"file{number}"
            answer = await client.call_tool("test__keep", {"path": path})
            if done:
                assert answer.structured_content == {"kept": path}
            else:
                assert answer.structured_content["error"] == "approval_required"
            assert f'path = "{path}"' in asked[-1]
        states = [each.state for each in house.hive.approvals.list()]
        assert states == ["consumed" if done else "pending" for *_, done in ANSWERS]


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_is_asked_by_a_client_that_is_not_attended_or_named_itself(era):
    for options in ({}, {"client": None, "clients": {"mcp": ATTENDED["tester"]}}):
        asked = []
        house = House(Provider(), **options)
        ask = answering("accept", {"approve": True}, asked)
        async with house.client(era, elicitation_callback=ask) as client:
            answer = await client.call_tool(*KEEP)
            assert answer.structured_content["error"] == "approval_required"
            assert asked == []


@pytest.mark.promise("P-285")
@pytest.mark.parametrize("era", ERAS)
async def test_an_unsafe_call_is_never_resolved_by_a_client(era):
    provider, asked = Provider(), []
    provider.add("test.unsafe", lambda given, _: "done", risk="unsafe")
    house = House(provider, clients=ATTENDED)
    ask = answering("accept", {"approve": True}, asked)
    async with house.client(era, elicitation_callback=ask) as client:
        answer = await client.call_tool("test__unsafe", {})
        assert answer.structured_content["error"] == "approval_required"
        assert asked == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_is_told_at_once(era):
    house = House(Provider(), clients=ATTENDED)
    async with house.client(era) as client:
        answer = await client.call_tool(*KEEP)
        assert (answer.is_error, answer.structured_content["error"]) == (False, "approval_required")


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_held_open_where_the_user_says_so_and_the_client_wants_progress(era):
    house = House(Provider(), clients={"tester": Attendance(hold_seconds=300)})
    async with house.client(era) as client:

        async def progressed(done, total, text):
            for each in house.hive.approvals.pending():
                house.hive.approvals.resolve(each.approval_id, "approve", by="user:ana")

        answer = await client.call_tool(*KEEP, progress_callback=progressed)
        assert answer.structured_content == {"kept": "a"}


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_a_tool_reaches_the_client_that_wants_it(era):
    provider, told, heard = Provider(), [], anyio.Event()

    async def slow(given, ctx):
        ctx.progress(1, 2, "half")
        with anyio.fail_after(60):
            await heard.wait()
        return "done"

    async def progressed(done, total, text):
        told.append((done, total, text))
        heard.set()

    provider.add("test.slow", slow, risk="safe", timeout_ms=120_000)
    async with House(provider).client(era) as client:
        answer = await client.call_tool("test__slow", {}, progress_callback=progressed)
        assert text_of(answer) == "done"
    assert told == [(1, 2, "half")]


@pytest.mark.parametrize(("clients", "name"), [(ATTENDED, "ana"), ({}, None)])
async def test_the_question_of_a_server_reaches_the_person_at_an_attended_client(clients, name):
    provider, asked = Provider(), []

    async def asks(given, ctx):
        fields = {"name": {"type": "string"}}
        answer = await ctx.ask(Question("the MCP server `x`", "who is it?", fields))
        return {"action": answer.action, "name": answer.values.get("name")}

    provider.add("test.asks", asks, risk="safe")
    ask = answering("accept", {"name": "ana"}, asked)
    async with House(provider, clients=clients).client(elicitation_callback=ask) as client:
        answer = await client.call_tool("test__asks", {})
        action = "cancel" if name is None else "accept"
        assert answer.structured_content == {"action": action, "name": name}
    assert asked == (
        [] if name is None else ["the MCP server `x` asks, and not ClawHive: who is it?"]
    )


async def test_what_a_person_grants_meanwhile_counts_for_a_session_that_goes_on():
    house = House(Provider())
    async with house.client() as client:
        assert (await client.call_tool(*KEEP)).structured_content["error"] == "approval_required"
        book = house.hive.approvals
        (asked,) = book.pending()
        book.resolve(asked.approval_id, "approve", by="user:ana", scope="always")
        for path in ("a", "a", "a"):
            done = await client.call_tool("test__keep", {"path": path})
            assert done.structured_content == {"kept": path}
