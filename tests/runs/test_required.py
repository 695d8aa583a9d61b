"""A right asked for midway that a person must answer: the tool is parked and begins again."""

from datetime import UTC, datetime

import pytest

from clawhive_core.hive.hive import RunOptions
from clawhive_core.policy.grants import GrantBook

PAGE = "net.http:https://example.com/page"


def redirected(done):
    async def outer(given, ctx):
        first = await ctx.call("test.note", {"path": "first.txt"})
        await ctx.require(PAGE)
        done.append("fetched")
        return first

    return outer


async def test_a_person_answers_and_the_tool_goes_on_from_there(job):
    done = []
    async with job(redirected(done)) as house:
        run = await house.run(approve="park")
        assert (run["status"], done) == ("waiting_approval", [])
        (approval,) = house.waiting()
        assert approval.tool == "require"
        assert approval.capabilities == ("net.http:https://example.com/page",)
        assert '"for":"test.outer"' in approval.preview
        run = await house.approved()
        report = await house.hive.replay(run["run_id"])
    assert (run["status"], done, run["output"]) == ("succeeded", ["fetched"], {"kept": "first.txt"})
    assert report.difference is None


async def test_a_no_ends_the_call(job):
    done = []
    async with job(redirected(done)) as house:
        await house.run(approve="park")
        (approval,) = house.waiting()
        house.hive.approvals.resolve(approval.approval_id, "deny", by="user:ana")
        run = await house.hive.resume("last")
    assert (run["status"], run["error"]["code"], done) == ("failed", "approval_denied", [])


async def test_whoever_is_here_answers_at_once(job):
    done = []
    async with job(redirected(done)) as house:

        async def ask(approval):
            house.hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        run = await house.run(approve="ask", ask=ask)
        notes = house.lines("first.txt")
    assert (run["status"], done, notes) == ("succeeded", ["fetched"], 1)


async def test_a_right_that_is_gone_when_the_tool_begins_again_counts_no_more(job):
    done = []

    async def outer(given, ctx):
        await ctx.require("secret.use:TOKEN")
        done.append("used")
        return await ctx.call("test.keep", {"path": "kept.txt"})

    async with job(outer) as house:
        await house.run(approve="park", grants=("secret.use:TOKEN",))
        assert done == ["used"]
        (given,) = [
            grant["grant_id"]
            for each in house.hive.log.events()
            if each.event.kind == "grant.issued"
            for grant in each.event.body["grants"]
            if grant["capability"] == "secret.use:TOKEN"
        ]
        GrantBook(house.hive.config.user_dir, house.hive.log).revoke(given, datetime.now(UTC))
        run = await house.approved()
    assert (run["error"]["code"], done) == ("denied", ["used"])


@pytest.mark.parametrize("approve", ["park", "deny"])
async def test_in_a_session_nobody_can_answer(job, approve):
    done = []
    async with job(redirected(done)) as house:
        _, outcome = await house.hive.call("test.outer", {}, RunOptions(approve=approve))
    assert (outcome.structured["error"], done) == ("approval_required", [])
