"""Subscriptions and quotas at the executor: what the exporting skill's contract says, counts."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import anyio
import pytest

from clawhive_core.errors import ToolError
from clawhive_core.execution.access import SkillAccess
from clawhive_core.hive.contributed import Contributed
from clawhive_core.model.refusal import Refusal
from clawhive_core.policy.quotas import USED_UP, Quota
from clawhive_core.policy.subscriptions import FailedSubscriptions
from clawhive_core.storage.sqlite.log import EventLog
from tests.execution.test_skill_tools import Project

MANIFEST = """
id: zodiac
version: 1.0.0
exports:
  api_version: "1.0"
  tools:
    - {name: chart, input_schema: {type: object}, output_schema: {type: object}}
    - {name: snapshot, input_schema: {type: object}, output_schema: {type: object}}
    - {name: own, input_schema: {type: object}, output_schema: {type: object}}
  access:
    requires_subscription: true
    free_tools: [snapshot, own]
    rate_limit: {chart: 3/day, snapshot: unlimited}
"""
HANDLERS = """
def chart(input, ctx):
    return {"chart": "a chart"}
def snapshot(input, ctx):
    return {"sun": "leo"}
async def own(input, ctx):
    for _ in range(5):
        answer = await ctx.call("chart", {})
    return answer
"""
JUNG = """
id: jung
exports:
  api_version: "1.0"
  tools: [ask, peek, wild, card]
  contracts:
    ask: {input_schema: {}, output_schema: {}}
    peek: {input_schema: {}, output_schema: {}}
    wild: {input_schema: {}, output_schema: {}}
    card: {input_schema: {}, output_schema: {}}
imports: [{from: zodiac, tools: [chart, snapshot], min_version: "1.0"}]
"""
JUNG_HANDLERS = """
async def ask(input, ctx):
    return await ctx.call("zodiac.chart", {})
async def peek(input, ctx):
    return await ctx.call("snapshot", {})
async def wild(input, ctx):
    return await ctx.call("zodiac" + ".own", {})
async def card(input, ctx):
    answer = await ctx.call("chart", {})
    if answer.get("error") == "subscription_required":
        await ctx.show("subscribe", {"skill_id": answer["skill_id"]})
        return {"shown": answer["skill_id"]}
    return answer
"""
KEYS = {"error", "message", "reason", "next"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("CLAWHIVE_RUN", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root)
    project.skill("zodiac", MANIFEST, HANDLERS)
    project.skill("jung", JUNG, JUNG_HANDLERS)
    return project


async def subscribed(project, user="local"):
    async with project.hive() as hive:
        assert await hive.subscriptions.add(user, "zodiac")


@pytest.mark.promise("P-179")
@pytest.mark.parametrize("name", ["zodiac.chart", "jung.ask"])
async def test_without_a_subscription_a_tool_that_is_not_free_is_refused(project, name):
    value = await project.value(name)
    assert set(value) == KEYS | {"skill_id", "action"}
    assert value["error"] == "subscription_required"
    assert (value["skill_id"], value["action"]) == ("zodiac", "show_subscribe_card")
    assert value["next"]["command"] == "clawhive subscriptions add zodiac --user local"
    assert (await project.value("jung.peek")) == {"sun": "leo"}


@pytest.mark.promise("P-179")
async def test_a_subscription_counts_for_its_user_and_until_it_ends(project):
    await subscribed(project)
    assert await project.value("jung.ask") == {"chart": "a chart"}
    other = await project.value("jung.ask", **{"user.id": "bob"})
    assert other["error"] == "subscription_required"
    assert "--user bob" in other["next"]["command"]
    async with project.hive() as hive:
        assert not await hive.subscriptions.add("local", "zodiac")
        assert [each.user_id for each in await hive.subscriptions.list()] == ["local"]
        assert await hive.subscriptions.remove("local", "zodiac")
        assert not await hive.subscriptions.remove("local", "zodiac")
    assert (await project.value("jung.ask"))["error"] == "subscription_required"


async def test_a_handler_may_show_the_subscribe_card(project):
    assert await project.value("jung.card") == {"shown": "zodiac"}


@pytest.mark.promise("P-181")
async def test_a_refused_and_a_made_call_are_recorded_with_consumer_and_provider(project):
    await project.value("jung.ask")
    row = next(row for row in project.rows if row["tool"] == "zodiac.chart")
    assert (row["principal"], row["provider_id"], row["status"]) == (
        "skill:jung", "skill_zodiac", "refused",
    )  # fmt: skip
    assert json.loads(row["error"])["code"] == "subscription_required"


async def test_what_is_not_imported_is_refused_before_its_access_is_looked_at(project):
    value = await project.value("jung.wild")
    assert value["error"] == "tool_not_imported"
    assert "jung" in value["message"]


@pytest.mark.promise("P-180")
async def test_over_quota_a_call_is_refused_with_the_seconds_to_wait(project):
    await subscribed(project)
    async with project.hive() as hive:
        outcomes = [(await hive.call(name, {}))[1] for name in ["jung.ask", "zodiac.chart"] * 2]
        assert [each.value.get("chart") for each in outcomes[:3]] == ["a chart"] * 3
        refusal = outcomes[3].to_dict()
        assert set(refusal) == KEYS | {"retry_after"}
        assert (refusal["error"], refusal["reason"]) == ("rate_limited", "quota")
        assert 1 <= refusal["retry_after"] <= 86_400
        assert refusal["next"] == {"action": "wait", "seconds": refusal["retry_after"]}
        with pytest.raises(ToolError) as caught:
            await hive.explain("zodiac.chart", {})
        assert caught.value.code == "rate_limited"
        assert hive.log.compare() == ()
    assert (await project.value("jung.ask"))["error"] == "rate_limited"
    assert (await project.value("zodiac.snapshot")) == {"sun": "leo"}


async def test_a_skills_calls_of_its_own_tools_need_no_subscription_and_no_quota(project):
    assert await project.value("zodiac.own") == {"chart": "a chart"}


async def test_calls_at_the_same_moment_share_what_is_left(project):
    await subscribed(project)
    outcomes = []
    async with project.hive() as hive, hive.session() as session:

        async def one():
            outcomes.append(await session.invoke("zodiac.chart", {}))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(one)
    refused = [each for each in outcomes if isinstance(each, Refusal)]
    assert [each.error for each in refused] == ["rate_limited"] * 5


class Quicker:
    """A check during which somebody else makes every call that is left."""

    name = "quicker"

    def __init__(self, log):
        self.log = log

    async def check(self, request):
        quota = Quota("local", "zodiac.chart", 3, 86_400, time.time())
        self.log.append_now(*(quota.reserved() for _ in range(3)))


@pytest.mark.promise("P-180")
async def test_a_call_that_was_left_until_just_before_it_is_made_is_not_made(project):
    await subscribed(project)
    async with project.hive() as hive:
        hive.executor._wiring.checks = lambda: [Quicker(hive.log)]
        refusal = (await hive.call("zodiac.chart", {}))[1].to_dict()
        assert (refusal["error"], refusal["reason"]) == ("rate_limited", "quota")
        assert 1 <= refusal["retry_after"] <= 86_400
        assert [row["used"] for row in hive.log.read("SELECT used FROM v_quotas")] == [3]
        kinds = [each.event.kind for each in hive.log.events()]
        assert "invocation.start" not in kinds


async def test_a_call_with_wrong_arguments_counts_nothing(project):
    await subscribed(project)
    project.skill(
        "zodiac", MANIFEST.replace("{type: object}", "{type: object, required: [x]}", 1), HANDLERS
    )
    async with project.hive() as hive:
        for _ in range(5):
            assert (await hive.call("zodiac.chart", {}))[1].error == "invalid_input"
        assert hive.log.read("SELECT * FROM v_quotas") == []


async def test_what_no_box_can_run_gives_its_quota_back(project):
    await subscribed(project)
    project.skill("zodiac", MANIFEST, "import shutil\n" + HANDLERS)
    async with project.hive() as hive:
        for _ in range(5):
            outcome = (await hive.call("zodiac.chart", {}))[1]
            assert outcome.value["error"] == "sandbox_unavailable"
        await hive.log.flush()
        assert [row["used"] for row in hive.log.read("SELECT used FROM v_quotas")] == [0]
        assert hive.log.compare() == ()


async def test_a_call_that_is_cancelled_before_it_started_gives_its_quota_back(project):
    await subscribed(project)
    async with project.hive() as hive, hive.session() as session:
        with anyio.CancelScope() as cancelled:
            cancelled.cancel()
            await session.invoke("zodiac.chart", {})
        await hive.log.flush()
        kinds = [event.event.kind for event in hive.log.events()]
        counted = [kind for kind in kinds if kind.startswith("quota.")]
        assert counted in ([], ["quota.reserved", "quota.returned"])
        assert hive.log.compare() == ()


async def test_a_window_passes_while_a_person_is_asked(project):
    """The clock is looked at anew after the answer."""
    await subscribed(project)
    needs = MANIFEST.replace("{name: chart,", "{name: chart, requires_confirm: true,")
    project.skill("zodiac", needs.replace("3/day", "1/minute"), HANDLERS)
    clock = iter([10.0, 3_600.0, 3_601.0, 3_602.0])
    async with project.hive() as hive:
        wiring = hive.executor._wiring
        wiring.access = replace(wiring.access, clock=lambda: next(clock))

        async def yes(approval):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:local")

        from clawhive_core.runs.requests import RunOptions

        options = RunOptions(approve="ask", ask=yes)
        assert (await hive.call("zodiac.chart", {}, options))[1].value == {"chart": "a chart"}
        await hive.log.flush()
        (row,) = hive.log.read("SELECT since, used FROM quotas")
        assert tuple(row) == (3_600, 1)
        assert (await hive.call("zodiac.chart", {}, options))[1].error == USED_UP


class Broken:
    async def has(self, user_id, skill_id):
        raise OSError("the shop is closed")


async def test_where_nobody_can_tell_the_call_is_denied(project):
    async with project.hive() as hive:
        wiring = hive.executor._wiring
        for store in (Broken(), FailedSubscriptions("shop")):
            wiring.access = replace(wiring.access, subscriptions=store)
            refusal = (await hive.call("zodiac.chart", {}))[1]
            assert refusal.error == "denied"
            assert "nobody can tell who has subscribed to `zodiac`" in refusal.message


class Staff:
    async def has(self, user_id, skill_id):
        return user_id == "ann"


class Plugins:
    """What contributes one store, or failed to."""

    def __init__(self, *failed):
        self.failed = failed

    def contributions(self, hook):
        return [] if self.failed else [Given()]

    def failed_hooks(self, hook):
        return self.failed


class Given:
    value = Staff()


async def test_a_plugins_store_takes_the_place_of_the_projects_own(project):
    async with project.hive() as hive:
        store = Contributed(Plugins()).subscriptions(hive.log)
        assert isinstance(store, Staff)
        access = SkillAccess(lambda: hive.skills, store, hive.log)
        hive.executor._wiring.access = access
        assert (await hive.call("zodiac.chart", {}))[1].error == "subscription_required"
    async with project.hive(**{"user.id": "ann"}) as hive:
        access = SkillAccess(lambda: hive.skills, store, hive.log)
        hive.executor._wiring.access = access
        assert (await hive.call("zodiac.chart", {}))[1].value == {"chart": "a chart"}


def test_a_plugin_that_failed_is_not_replaced_by_the_projects_own_list(tmp_path):
    class Record:
        id = "shop"

    log = EventLog.open(tmp_path / "hive.db")
    store = Contributed(Plugins(Record())).subscriptions(log)
    log.close()
    assert isinstance(store, FailedSubscriptions)


CALLS = """
import asyncio, json, sys
from clawhive_core import Hive

async def main():
    made = 0
    async with Hive.open(sys.argv[1], flags={"plugins.enabled": ["builtin"]}) as hive:
        sys.stdin.readline()
        while True:
            outcome = (await hive.call("zodiac.chart", {}))[1]
            if getattr(outcome, "error", "") == "rate_limited":
                break
            assert outcome.value == {"chart": "a chart"}, outcome
            made += 1
    print(made)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.promise("P-180")
def test_processes_share_a_users_quota(project):
    anyio.run(subscribed, project)
    env = {**os.environ, **project.env}
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", CALLS, str(project.root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )
        for _ in range(3)
    ]  # fmt: skip
    for caller in callers:
        caller.stdin.write("go\n")
        caller.stdin.flush()
    assert sum(int(caller.communicate(timeout=600)[0]) for caller in callers) == 3
