"""A client's session: what waits for a person is on record, and its repetition uses the answer."""

import pytest

from clawhive_core.model.refusal import Refusal
from clawhive_core.testing import memory_hive

CLIENT = "client:mcp/editor"
pytestmark = pytest.mark.anyio
KEEP = ("test.keep", {"path": "a.txt"})


def answered(hive, asked, answer="approve", **more):
    """Answer the approval of a refusal."""
    return hive.approvals.resolve(asked.extra["approval_id"], answer, by="user:ana", **more)


async def test_the_identical_call_uses_an_approval_once(appending):
    async with memory_hive(providers=[appending]) as hive, hive.session(CLIENT) as session:
        first = await session.invoke(*KEEP)
        assert (first.error, first.next["then"]) == ("approval_required", "repeat_call")
        again = await session.invoke(*KEEP)
        assert again.extra == first.extra
        answered(hive, first)
        other = await session.invoke("test.keep", {"path": "b.txt"})
        assert other.extra != first.extra
        assert not isinstance(await session.invoke(*KEEP), Refusal)
        after = await session.invoke(*KEEP)
        assert after.error == "approval_required"
        assert after.extra["approval_id"] != first.extra["approval_id"]
        states = sorted(each.state for each in hive.approvals.list())
        assert states == ["consumed", "pending", "pending"]


@pytest.mark.promise("P-284")
async def test_a_later_session_of_the_same_client_uses_it_and_no_other_client_does(appending):
    async with memory_hive(providers=[appending]) as hive:
        async with hive.session(CLIENT) as session:
            asked = await session.invoke(*KEEP)
        answered(hive, asked)
        async with hive.session("client:mcp/other") as session:
            assert (await session.invoke(*KEEP)).extra != asked.extra
        async with hive.session(CLIENT) as session:
            assert not isinstance(await session.invoke(*KEEP), Refusal)
        assert hive.approvals.find(asked.extra["approval_id"]).state == "consumed"
        hive.log.require_rights()


async def test_a_denial_holds_for_the_session_that_asked(appending):
    async with memory_hive(providers=[appending]) as hive:
        async with hive.session(CLIENT) as session:
            answered(hive, await session.invoke(*KEEP), "deny", reason="not today")
            for _ in range(2):
                refused = await session.invoke(*KEEP)
                assert (refused.error, "not today" in refused.message) == ("approval_denied", True)
        async with hive.session(CLIENT) as session:
            assert (await session.invoke(*KEEP)).error == "approval_required"


async def test_beyond_the_limit_tools_are_enabled_by_name_and_lapse(appending, monkeypatch):
    from clawhive_core.runs import session_tools

    monkeypatch.setattr(session_tools, "LEAST_SECONDS", 0.0)
    async with memory_hive(providers=[appending]) as hive, hive.session(CLIENT) as session:
        session.tools.most = 0
        refused = await session.invoke(*KEEP)
        assert (refused.error, refused.next["action"]) == ("tool_not_enabled", "enable")
        found = await session.search_tools("keep")
        assert (found[0].name, found[0].enabled) == ("test.keep", False)
        done = (await session.enable(["test.keep", "test.kep"], ttl_turns=1)).to_dict()
        assert done["enabled"] == [{"name": "test.keep", "expires_after_turns": 1}]
        assert done["rejected"][0]["next"]["suggestions"][0] == "test.keep"
        assert (await session.invoke(*KEEP)).error == "approval_required"
        await session.search_tools("keep")
        assert (await session.invoke("test.keep", {"path": "c"})).error == "tool_not_enabled"


async def test_a_search_says_why_it_found_what(appending):
    async with memory_hive(providers=[appending]) as hive, hive.session(CLIENT) as session:
        found = (await session.search_tools("please keep it", top_k=1)).to_dict()
        assert found["matches"][0]["why_matched"] == ["name: keep"]
        assert found["matches"][0]["risk"] in {"low", "medium", "high", "unknown"}
        nothing = (await session.search_tools("zzz")).to_dict()
        assert nothing["matches"] == []
        assert "other" in nothing["fallback"]["suggestion"]


async def test_a_tool_that_waits_for_a_call_of_its_own_repeats_none_of_its_calls(job):
    async def outer(_, ctx):
        return [
            await ctx.call("test.note", {"path": "first"}),
            await ctx.call("test.keep", {"path": "kept"}),
        ]

    async with job(outer) as house, house.hive.session(CLIENT) as session:
        asked = await session.invoke("test.outer", {})
        assert asked.error == "approval_required"
        assert (await session.invoke("test.outer", {})).extra == asked.extra
        answered(house.hive, asked)
        done = await session.call("test.outer", {})
        assert done[1] == {"kept": "kept"}
        assert (house.lines("first"), house.lines("kept")) == (1, 1)
