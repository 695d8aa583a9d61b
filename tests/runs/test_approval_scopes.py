"""An answer for longer than one call: what it gives, to whom, and when that ends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clawhive_core.errors import CapabilityError, RunError, StorageError, UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.messages import LlmResponse
from clawhive_core.model.tools import ToolCall
from clawhive_core.policy.grants import GrantBook
from clawhive_core.policy.persistent import read_persistent
from clawhive_core.testing import ScriptedModel, calling, memory_hive

KEEP = {"risk": "guarded", "effects": {"path": "fs.write"}, "idempotent": True}
ITEMS = {"paths": ["a.txt", "a.txt", "a.txt"]}


@pytest.fixture
def writing(tools):
    """A guarded tool that appends a line to a file, and another one that does the same."""

    def keep(given, ctx):
        path = Path(ctx.workspace.root) / given["path"]
        with path.open("a", encoding="utf-8") as file:
            file.write("kept\n")
        return {"kept": given["path"]}

    tools.add("test.keep", keep, **KEEP)
    return tools.add("test.tree", keep, **{**KEEP, "effects": {"path": "fs.write:{}/**"}})


def keep(name="keep", path="a.txt", **more):
    return {"name": name, "tool": "test.keep", "input": {"path": path}, **more}


def each(name="keep", **more):
    return keep(name, "${item}", for_each="${input.paths}", **more)


def count(hive, path="a.txt"):
    file = hive.root / path
    return len(file.read_text("utf-8").splitlines()) if file.exists() else 0


def answering(hive, shown, **answer):
    async def ask(approval):
        shown.append(approval)
        hive.approvals.resolve(approval.approval_id, "approve", by="user:ana", **answer)

    return RunOptions(approve="ask", ask=ask)


def ended(hive):
    rows = hive.log.read(
        "SELECT ended_at FROM v_grants WHERE issuer = 'approval' ORDER BY issued_at"
    )
    return [row[0] is not None for row in rows]


@pytest.mark.promise("P-078")
async def test_an_answer_for_a_step_is_for_its_items_and_for_no_other_step(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, each(), each("again", needs=["keep"]))
        shown = []
        asked = answering(hive, shown, scope="step")
        run = await hive.run(task="job", input=ITEMS, options=asked)
        assert (run["status"], count(hive)) == ("succeeded", 6)
        assert [approval.step for approval in shown] == [
            f"{run['run_id']}/keep",
            f"{run['run_id']}/again",
        ]
        assert (await hive.replay("last")).ok


async def test_what_is_given_for_a_step_ends_with_it(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("wait", "b.txt", needs=["keep"]))
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana", scope="step")
        assert ended(hive) == [False]
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("waiting_approval", 1)
        assert ended(hive) == [True]
        revoked = [s for s in hive.log.events() if s.event.kind == "grant.revoked"]
        assert [s.event.body["reason"] for s in revoked] == ["its step ended"]


async def test_a_parked_item_that_is_answered_for_its_step_lets_the_others_go_on(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, each(), keep("other", needs=["keep"]))
        await hive.run(task="job", input=ITEMS)
        first, *_ = hive.approvals.pending()
        hive.approvals.resolve(first.approval_id, "approve", by="user:ana", scope="step")
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("waiting_approval", 3)
        states = {each.step_id.rpartition("/")[2]: each.state for each in hive.approvals.list()}
        assert states["keep.0"] == "consumed"
        assert states["other"] == "pending"
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["status"] == "succeeded"
        assert (await hive.replay("last")).ok


async def test_in_a_loop_each_call_is_a_step(writing):
    both = (
        ToolCall("c1", "test.keep", {"path": "a.txt"}),
        ToolCall("c2", "test.keep", {"path": "a.txt"}),
    )
    look = calling("test.look", {})
    model = ScriptedModel(
        [LlmResponse(both[:1], "tool_use"), look, LlmResponse(both, "tool_use"), "ok"]
    )
    async with memory_hive(providers=[writing], adapters=[model]) as hive:
        shown = []
        asked = answering(hive, shown, scope="step")
        options = replace(asked, model="scripted:x")
        run = await hive.run("keep it", options=options)
        assert (run["status"], len(shown), ended(hive)) == ("succeeded", 3, [True] * 3)


async def test_a_step_that_its_run_did_not_end_gives_nothing_after_the_run(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("b", "b.txt", needs=[]))
        await hive.run(task="job")
        first, _ = hive.approvals.pending()
        hive.approvals.resolve(first.approval_id, "approve", by="user:ana", scope="step")
        from clawhive_core.runs.record.ownership import cancel

        assert cancel(hive.log, first.run_id) is False
        assert ended(hive) == [True]


async def test_a_nested_call_has_what_its_step_was_given(writing, define):
    async def outer(given, ctx):
        return await ctx.call("test.keep", {"path": "a.txt"})

    writing.add("test.outer", outer, **KEEP)
    async with memory_hive(providers=[writing]) as hive:
        define(hive, {"name": "outer", "tool": "test.outer", "input": {"path": "a.txt"}}, keep())
        shown = []
        run = await hive.run(task="job", options=answering(hive, shown, scope="step"))
        assert (run["status"], count(hive), len(shown)) == ("succeeded", 2, 2)


@pytest.mark.promise("P-079")
async def test_an_answer_for_good_is_the_users_until_it_expires_or_is_revoked(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        answered = hive.approvals.resolve("last", "approve", by="user:ana", scope="always")
        assert (await hive.resume("last"))["status"] == "succeeded"
        (entry,) = read_persistent(hive.config.user_dir).entries
        assert entry.grant.capability == f"fs.write:{hive.root}/a.txt"
        until = datetime.fromisoformat(entry.grant.expires_at) - datetime.now(UTC)
        assert timedelta(days=89) < until <= timedelta(days=90)
        assert [each["grant_id"] for each in answered.grants] == [entry.grant.grant_id]
        assert (await hive.run(task="job"))["status"] == "succeeded"
        GrantBook(hive.config.user_dir, hive.log).revoke(entry.grant.grant_id, datetime.now(UTC))
        assert (await hive.run(task="job"))["status"] == "waiting_approval"


async def test_an_answer_for_good_counts_at_once_for_the_run_that_asked(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=["keep"]))
        shown = []
        run = await hive.run(task="job", options=answering(hive, shown, scope="always"))
        assert (run["status"], count(hive), len(shown)) == ("succeeded", 2, 1)


async def test_where_nothing_can_be_kept_for_good_nothing_is_answered(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.config.user_dir.parent.mkdir(parents=True, exist_ok=True)
        if hive.config.user_dir.is_dir():
            hive.config.user_dir.rename(hive.config.user_dir.with_name("moved"))
        hive.config.user_dir.write_text("in the way", "utf-8")
        with pytest.raises(StorageError) as caught:
            hive.approvals.resolve("last", "approve", by="user:ana", scope="always")
        assert caught.value.fix
        assert hive.approvals.find("last").state == "pending"
        assert hive.log.read("SELECT * FROM v_grants WHERE issuer = 'approval'") == []


async def test_who_comes_too_late_gives_nothing_for_good(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "deny", by="user:ben")
        with pytest.raises(RunError):
            hive.approvals.resolve("last", "approve", by="user:ana", scope="always")
        assert read_persistent(hive.config.user_dir).entries == ()


@pytest.mark.promise("P-080")
@pytest.mark.parametrize("scope", ["step", "task", "session", "always"])
async def test_no_scope_waives_the_answer_to_an_unsafe_call(tools, define, scope):
    tools.add("test.wipe", lambda given, ctx: "gone", risk="unsafe")
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "wipe", "tool": "test.wipe"})
        await hive.run(task="job")
        with pytest.raises(UsageError) as caught:
            hive.approvals.resolve("last", "approve", by="user:ana", scope=scope)
        assert "unsafe" in caught.value.message
        assert "--scope" in caught.value.fix
        assert hive.approvals.find("last").state == "pending"
        assert read_persistent(hive.config.user_dir).entries == ()
        hive.approvals.resolve("last", "approve", by="user:ana", scope="once")
        assert (await hive.resume("last"))["status"] == "succeeded"


async def test_the_rights_of_a_wider_scope_can_be_narrowed(writing, define):
    step = {"name": "tree", "tool": "test.tree", "input": {"path": "docs"}}
    async with memory_hive(providers=[writing]) as hive:
        (hive.root / "docs").mkdir()
        define(hive, step)
        await hive.run(task="job")
        less = ["fs.write:${workspace}/docs/de/**"]
        answered = hive.approvals.resolve(
            "last", "approve", by="user:ana", scope="session", grants=less
        )
        assert [each["capability"] for each in answered.grants] == [
            f"fs.write:{hive.root}/docs/de/**"
        ]
        (row,) = hive.log.read("SELECT capability, scope FROM v_grants WHERE issuer = 'approval'")
        assert tuple(row) == (f"fs.write:{hive.root}/docs/de/**", "session")


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ("fs.write:${workspace}/**", UsageError),
        ("fs.delete:${workspace}/a.txt", UsageError),
        ("fs.write:/etc/passwd", UsageError),
        ("nonsense", CapabilityError),
        ("fs.write:${nowhere}/a", CapabilityError),
    ],
)
async def test_more_rights_than_the_call_needs_are_refused(writing, define, wish, error):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        with pytest.raises(error) as caught:
            hive.approvals.resolve("last", "approve", by="user:ana", scope="task", grants=[wish])
        assert caught.value.fix
        assert hive.approvals.find("last").state == "pending"


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        ("deny", {"scope": "task"}),
        ("deny", {"grants": ["fs.write:/a"]}),
        ("deny", {"life": timedelta(hours=1)}),
        ("approve", {"grants": ["fs.write:/a"]}),
        ("approve", {"life": timedelta(hours=1)}),
        ("approve", {"scope": "ever"}),
        ("perhaps", {}),
    ],
)
async def test_an_answer_that_means_nothing_is_refused(writing, define, answer, more):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        with pytest.raises(UsageError) as caught:
            hive.approvals.resolve("last", answer, by="user:ana", **more)
        assert caught.value.fix
        assert hive.approvals.find("last").state == "pending"


async def test_rights_can_be_given_for_less_time(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job", options=RunOptions(session="conv_ana"))
        hour = timedelta(hours=1)
        hive.approvals.resolve("last", "approve", by="user:ana", scope="session", life=hour)
        (row,) = hive.log.read("SELECT expires_at FROM v_grants WHERE issuer = 'approval'")
        left = datetime.fromisoformat(row[0]) - datetime.now(UTC)
        assert timedelta(minutes=59) < left <= hour


async def test_a_denied_call_is_not_made_though_a_grant_would_allow_it(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=[]))
        await hive.run(task="job")
        first, second = sorted(hive.approvals.pending(), key=lambda each: -len(each.step_id))
        assert first.step.endswith("again")
        hive.approvals.resolve(first.approval_id, "deny", by="user:ana", reason="once is enough")
        hive.approvals.resolve(second.approval_id, "approve", by="user:ana", scope="session")
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("failed", 1)
        assert "once is enough" in run["error"]["message"]
        assert (await hive.replay("last")).ok


async def test_an_approval_is_used_up_though_its_grant_would_do(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana", scope="task")
        run = await hive.resume("last")
        (invocation,) = run["steps"][0]["invocations"]
        assert (invocation["approval_required"], invocation["approval_result"]) == (
            True,
            "approved",
        )
        assert hive.approvals.find("last").state == "consumed"


async def test_what_a_file_no_longer_fits_may_happen_by_the_grant_that_came_with_it(
    writing, define
):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=["keep"]))
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana", scope="task")
        (hive.root / "a.txt").write_text("another\n", "utf-8")
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("succeeded", 3)
        assert hive.approvals.find("last").state == "drifted"


async def test_a_grant_that_was_revoked_meanwhile_does_not_count(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=["keep"]))
        await hive.run(task="job")
        answered = hive.approvals.resolve("last", "approve", by="user:ana", scope="task")
        grant = answered.grants[0]["grant_id"]
        GrantBook(hive.config.user_dir, hive.log).revoke(grant, datetime.now(UTC))
        assert hive.approvals.standing(answered) == []
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("waiting_approval", 1)


async def test_the_rows_of_grants_and_approvals_are_what_the_log_says(writing, define):

    async with memory_hive(providers=[writing]) as hive:
        define(hive, each(), keep("two", "b.txt", needs=[]))
        await hive.run(task="job", input=ITEMS)
        scopes = ["step", "once", "once", "session"]
        for approval, scope in zip(hive.approvals.pending(), scopes, strict=True):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana", scope=scope)
        await hive.resume("last")
        assert hive.log.compare() == ()
        assert hive.log.compare() == ()
