"""Rights that a step states for itself: its own, while it goes on, and within its skill's."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import contains, parse
from clawhive_core.errors import UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.model.refusal import Refusal
from clawhive_core.model.runs import Plan, PlannedStep
from clawhive_core.policy.grants import GrantBook
from clawhive_core.policy.rules import Rules
from clawhive_core.runs.plans.elevation import PROCEDURE, DeclaredRights, step_permissions
from clawhive_core.runs.plans.task_tools import task_providers
from clawhive_core.runs.run import ModelSetup
from clawhive_core.skills.contracts.skill import Skill, TaskType
from clawhive_core.testing import memory_hive

DOCS, WORKSPACE = "net.http:h.example/docs/**", "net.http:h.example/**"
SAFE = {"effects": {"path": "net.http:https://h.example/{}"}}


def step(name, tool="test.get", path="docs/a.md", **more):
    return {"name": name, "tool": tool, "input": {"path": path}, **more}


def skill(*steps, permissions=(WORKSPACE,), trusted=True):
    task = TaskType("job", "A job.", {"type": "object"}, tuple(steps))
    return Skill(
        "demo", "1.0.0", Path(), "test", permissions=permissions, trusted=trusted,
        tasks={"job": task},
    )  # fmt: skip


@pytest.fixture
def getting(tools):
    return tools.add("test.get", lambda given, ctx: given["path"], **SAFE)


def steps_of(hive):
    """Return what steps were given: step, capability, mode and whether it has ended."""
    sql = "SELECT scope_id, capability, mode, ended_at FROM v_grants WHERE scope = 'step'"
    rows = hive.log.read(f"{sql} ORDER BY issued_at, grant_id")
    root = str(hive.root)
    return [
        (row[0].partition("/")[2], row[1].replace(root, "ROOT"), row[2], row[3] is not None)
        for row in rows
    ]


def statuses(run):
    return {each["label"]: each["status"] for each in run["steps"]}


@pytest.mark.promise("P-122")
async def test_a_step_has_its_own_rights_and_the_next_one_does_not(getting):
    async with memory_hive(providers=[getting]) as hive:
        hive.skills.append(skill(step("one", permissions=[DOCS]), step("two")))
        run = await hive.run(task="job")
        assert statuses(run) == {"one": "succeeded", "two": "waiting_approval"}
        assert steps_of(hive) == [("one", "net.http:https://h.example/docs/**", "allow", True)]
        (used,) = run["steps"][0]["invocations"][0]["granted_capabilities"]
        sql = "SELECT scope, issuer FROM v_grants WHERE grant_id = ?"
        assert [tuple(row) for row in hive.log.read(sql, (used["grant_id"],))] == [
            ("step", "skill")
        ]


async def test_what_no_step_states_for_itself_the_whole_task_has(getting):
    async with memory_hive(providers=[getting]) as hive:
        permissions = (WORKSPACE, "env.read:HOME")
        hive.skills.append(
            skill(
                step("one"),
                step("two", permissions=["env.read:HOME"]),
                permissions=permissions,
            )
        )
        run = await hive.run(task="job")
        given = hive.log.read(
            "SELECT capability FROM v_grants WHERE issuer = 'skill' AND scope = 'task'"
        )
    assert statuses(run) == {"one": "succeeded", "two": "succeeded"}
    assert [row[0].partition(":")[0] for row in given] == ["net.http", "tool.call"]


async def test_a_step_beside_it_does_not_have_its_rights(tools):
    decided = anyio.Event()

    async def hold(given, ctx):
        await decided.wait()
        return "held"

    tools.add("test.hold", hold, **SAFE).add("test.look", lambda given, ctx: decided.set())
    tools.add("test.get", lambda given, ctx: "got", **SAFE)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(
            skill(
                step("holds", "test.hold", permissions=[WORKSPACE], needs=[]),
                step("gets", needs=[]),
                step("looks", "test.look", needs=["gets"], when="always"),
            )
        )
        run = await hive.run(task="job", approve="deny")
    assert statuses(run) == {"holds": "succeeded", "gets": "failed", "looks": "succeeded"}
    assert run["error"]["code"] == "approval_required"


async def test_the_items_of_a_list_and_nested_calls_have_the_rights_of_their_step(tools):
    async def outer(given, ctx):
        return await ctx.call("test.get", {"path": given["path"]})

    tools.add("test.get", lambda given, ctx: given["path"], **SAFE).add("test.outer", outer)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(
            skill(
                {
                    "name": "each",
                    "tool": "test.outer",
                    "for_each": "${input.paths}",
                    "input": {"path": "${item}"},
                    "permissions": [DOCS],
                }
            )
        )
        run = await hive.run(task="job", input={"paths": ["docs/a", "docs/b"]})
        assert run["status"] == "succeeded"
        assert steps_of(hive) == [("each", "net.http:https://h.example/docs/**", "allow", True)]


@pytest.mark.promise("P-123")
async def test_a_step_gets_no_more_than_its_skill_permits(getting):
    async with memory_hive(providers=[getting]) as hive:
        wide = step("one", path="other/a", permissions=[WORKSPACE, "fs.read:/etc/**"])
        hive.skills.append(skill(wide, permissions=(DOCS,)))
        run = await hive.run(task="job")
        assert run["error"]["code"] == "denied"
        assert steps_of(hive) == [("one", "net.http:https://h.example/docs/**", "allow", True)]


@pytest.mark.promise("P-123")
@pytest.mark.parametrize(
    "facts", [{"trusted": False, "permissions": ("env.read:**",)}, {"permissions": ()}]
)
async def test_what_nobody_vouched_for_a_person_approves(tools, facts):
    tools.add("test.env", lambda given, ctx: "x", effects={"path": "env.read"})
    asking = step("one", "test.env", "HOME", permissions=["env.read:HOME"])
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(asking, **facts))
        run = await hive.run(task="job")
        assert statuses(run) == {"one": "waiting_approval"}
        (waiting,) = hive.approvals.pending()
        hive.approvals.resolve(waiting.approval_id, "approve", by="user:ana")
        assert (await hive.resume("last"))["status"] == "succeeded"
        assert [each[2:] for each in steps_of(hive)] == [("ask", True), ("ask", True)]


async def test_a_right_of_a_step_may_count_uses_and_be_over(tools):
    tools.add("test.env", lambda given, ctx: "x", effects={"path": "env.read"})
    once = step("once", "test.env", "${item}", for_each="${input.names}")
    over = step("over", "test.env", "A", needs=[])
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(
            skill(
                {**once, "permissions": ["env.read:**?uses<=1"]},
                {**over, "permissions": ["env.read:**?until=2020-01-01T00:00:00Z"]},
                step("no", "test.env", "A", when="${input.no}", permissions=["env.read:A"]),
                permissions=("env.read:**",),
            )
        )
        run = await hive.run(task="job", input={"names": ["A", "B"], "no": False})
        assert statuses(run) == {"once": "failed", "over": "failed", "no": "skipped"}
        assert tools.calls == [("test.env", {"path": "A"})]
        assert {name for name, *_ in steps_of(hive)} == {"once", "over"}


async def test_without_its_own_permissions_that_call_would_be_denied(tools):
    tools.add("test.env", lambda given, ctx: "x", effects={"path": "env.read"})
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(step("one", "test.env", "HOME"), permissions=()))
        assert (await hive.run(task="job"))["error"]["code"] == "denied"


async def test_a_step_that_another_planner_made_asks(getting):
    class Planner:
        name, replans = "mine", False

        async def plan(self, task, ctx):
            made = PlannedStep("one", "test.get", {"path": "docs/a"}, permissions=(DOCS,))
            return Plan("mine", (made,))

    async with memory_hive(providers=[getting]) as hive:
        hive.skills.append(skill(step("one", permissions=[DOCS])))
        hive._orchestrator.planners = {"mine": Planner()}
        request = hive._requests.task("job", {}, RunOptions())
        result = await hive._orchestrator.run(replace(request, setup=ModelSetup(planner="mine")))
        assert result.status == "waiting_approval"
        await hive.log.flush()
        assert steps_of(hive) == [("one", "net.http:https://h.example/docs/**", "ask", True)]


async def test_a_task_type_called_as_a_tool_adds_nothing(getting):
    async with memory_hive(providers=[getting]) as hive:
        elevated = skill(step("one", permissions=[DOCS]))
        await hive.catalog.add(*task_providers([elevated], hive.catalog))
        async with hive.session() as session:
            outcome = await session.invoke("demo.job", {})
        assert isinstance(outcome, Refusal) or outcome.is_error
        assert steps_of(hive) == []


@pytest.mark.promise("P-122")
async def test_while_it_goes_on_its_rights_are_listed_and_a_person_may_revoke_them(tools):
    listed = []

    async def outer(given, ctx):
        now = datetime.now(UTC)
        book = GrantBook(hive.config.user_dir, hive.log)
        (mine,) = [each for each in book.active(now) if each["scope"] == "step"]
        listed.append(mine["capability"])
        first = await ctx.call("test.get", given)
        book.revoke(mine["grant_id"], now)
        await ctx.call("test.get", given)
        return first

    tools.add("test.get", lambda given, ctx: "got", **SAFE).add("test.outer", outer)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(step("one", "test.outer", permissions=[DOCS])))
        run = await hive.run(task="job", approve="deny")
    calls = [each["status"] for each in run["steps"][0]["invocations"]]
    assert listed == ["net.http:https://h.example/docs/**"]
    assert tools.calls.count(("test.get", {"path": "docs/a.md"})) == 1, calls


@pytest.mark.parametrize("how", ["fail", "crash"])
async def test_a_failure_ends_the_rights(tools, how):
    def crash(given, ctx):
        raise ValueError("no")

    tools.add("test.crash", crash)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(step("one", f"test.{how}", permissions=[DOCS])))
        assert (await hive.run(task="job"))["status"] == "failed"
        assert [each[3] for each in steps_of(hive)] == [True]


async def test_a_cancellation_ends_the_rights(tools):
    started = anyio.Event()

    async def hang(given, ctx):
        started.set()
        await anyio.sleep_forever()

    tools.add("test.hang", hang)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(step("one", "test.hang", permissions=[DOCS])))
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: hive.run(task="job"))
            await started.wait()
            assert [each[3] for each in steps_of(hive)] == [False]
            group.cancel_scope.cancel()
        await hive.log.flush()
        assert [each[3] for each in steps_of(hive)] == [True]


@pytest.mark.promise("P-124")
async def test_a_step_that_waits_has_none_and_gets_them_anew_when_it_goes_on(tools):
    tools.add("test.get", lambda given, ctx: "got", **SAFE)
    tools.add("test.keep", lambda given, ctx: "kept", risk="guarded", **SAFE)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(
            skill(step("one", permissions=[DOCS]), step("two", "test.keep", permissions=[DOCS]))
        )
        await hive.run(task="job")
        assert [(name, ended) for name, _, _, ended in steps_of(hive)] == [
            ("one", True),
            ("two", True),
        ]
        (waiting,) = hive.approvals.pending()
        hive.approvals.resolve(waiting.approval_id, "approve", by="user:ana")
        assert (await hive.resume("last"))["status"] == "succeeded"
        # The step that had ended got nothing again.
        assert [each[0] for each in steps_of(hive)] == ["one", "two", "two"]
        assert all(ended for *_, ended in steps_of(hive))
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-124")
async def test_a_killed_step_has_none_and_gets_them_anew_when_the_run_is_resumed(tools, stop):
    tools.add("test.get", lambda given, ctx: "got", idempotent=True, **SAFE)
    async with memory_hive(providers=[tools]) as hive:
        hive.skills.append(skill(step("one", permissions=[DOCS])))
        await stop(hive).run(task="job", kill="test.get")
        assert all(ended for *_, ended in steps_of(hive))
        assert (await hive.resume("last"))["status"] == "succeeded"
        assert [(each[0], each[3]) for each in steps_of(hive)] == [("one", True)] * 2
        assert (await hive.replay("last")).ok


async def test_the_rows_are_what_a_replay_of_the_log_gives(getting, stop):
    async with memory_hive(providers=[getting]) as hive:
        hive.skills.append(skill(step("one", permissions=[DOCS]), step("two")))
        await hive.run(task="job")
        await stop(hive).run(task="job", kill="test.get")
        assert [each[3] for each in steps_of(hive)] == [True, True]
        assert hive.log.compare() == ()


async def test_policy_show_lists_the_rights_of_steps_and_explain_decides_in_one(getting):
    async with memory_hive(providers=[getting]) as hive:
        hive.skills.append(skill(step("one", permissions=[DOCS]), step("two")))
        rules = hive.rules(task="job")["rules"]
        shown = [(each["step"], each["mode"]) for each in rules if each["issuer"] == "skill"]
        assert shown == [(None, "allow"), ("one", "allow")]
        given = {"path": "docs/a.md"}
        verdicts = [
            (await hive.explain("test.get", given, task="job", step=name))["verdict"]
            for name in ("one", "two", None)
        ]
        assert verdicts == ["allow", "ask", "ask"]
        with pytest.raises(UsageError, match="has no step `on`") as caught:
            await hive.explain("test.get", given, task="job", step="on")
        assert caught.value.fix == "did you mean `one`?"
        with pytest.raises(UsageError, match="a step is one of a task type"):
            await hive.explain("test.get", given, step="one")


PATTERNS = st.lists(
    st.sampled_from(
        ["fs.read:**", "fs.read:/w/**", "fs.read:/w/a", "fs.read:/*/a", "fs.write:/w/**"]
    ),
    max_size=3,
    unique=True,
)
RESOURCES = [parse(f"fs.{verb}:/{path}") for verb in ("read", "write") for path in ("w/a", "v/a")]


@given(PATTERNS, PATTERNS, st.booleans(), st.sampled_from([PROCEDURE, "other"]))
def test_task_and_step_together_are_never_given_more_than_the_skill_permits(
    permissions, stated, counts, planner
):
    declared = DeclaredRights(permissions, counts, step_permissions([{"permissions": stated}]))
    of_step = declared.of_step("run_1/one", stated, DEFAULT_AGENT, planner)
    for resource in RESOURCES:
        permitted = any(contains(parse(each), resource) for each in permissions)
        wanted = any(contains(parse(each), resource) for each in stated)
        verdict = Rules([replace(each, scope="task") for each in of_step]).authority(resource)
        if not wanted or (permissions and not permitted):
            assert verdict.verdict == "deny"
        else:
            vouched = counts and permitted and planner == PROCEDURE
            assert verdict.verdict == ("allow" if vouched else "ask")
        if any(contains(parse(each), resource) for each in declared.of_task()):
            assert counts
            assert permitted
            assert not wanted
