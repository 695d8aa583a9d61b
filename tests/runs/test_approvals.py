"""A call that a person must answer: asked for, answered once, bound to what was shown."""

from pathlib import Path

import pytest

from clawhive_core.errors import RunError, UsageError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.model.events import Event
from clawhive_core.model.messages import LlmResponse, TextBlock
from clawhive_core.runs.record.view import run_json
from clawhive_core.testing import ScriptedModel, calling, memory_hive

KEEP = {"risk": "guarded", "effects": {"path": "fs.write"}, "idempotent": True}


@pytest.fixture
def writing(tools):
    """A guarded tool that appends a line to a file, and counts by doing so."""

    def keep(given, ctx):
        path = Path(ctx.workspace.root) / given["path"]
        with path.open("a", encoding="utf-8") as file:
            file.write("kept\n")
        return {"kept": given["path"]}

    return tools.add("test.keep", keep, **KEEP)


def keep(name="keep", path="a.txt", **more):
    return {"name": name, "tool": "test.keep", "input": {"path": path}, **more}


def statuses(run):
    return {step["label"]: step["status"] for step in run["steps"]}


def count(hive, path="a.txt"):
    file = hive.root / path
    return len(file.read_text("utf-8").splitlines()) if file.exists() else 0


async def test_a_run_parks_at_a_call_that_a_person_must_answer(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        run = await hive.run(task="job")
        assert (run["status"], run["ended_at"], run["error"]) == ("waiting_approval", None, None)
        assert statuses(run) == {"keep": "waiting_approval"}
        (invocation,) = run["steps"][0]["invocations"]
        assert (invocation["status"], invocation["decision"]) == ("parked", "ask")
        (approval,) = hive.approvals.pending()
        assert (approval.tool, approval.run_id) == ("test.keep", run["run_id"])
        assert approval.capabilities == (f"fs.write:{hive.root}/a.txt",)
        assert hive.log.read("SELECT * FROM runs WHERE worker IS NOT NULL") == []
        rows = hive.log.read("SELECT status FROM v_invocations")
        assert [row[0] for row in rows] == ["parked"]
        rows = hive.log.read("SELECT status FROM v_steps")
        assert [row[0] for row in rows] == ["waiting_approval"]
        assert count(hive) == 0


@pytest.mark.promise("P-053")
async def test_steps_that_need_a_waiting_one_wait_too_and_others_go_on(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(
            hive,
            keep(),
            {"name": "after", "tool": "test.echo", "input": {"x": "${steps.keep.output}"}},
            {"name": "always", "tool": "test.echo", "needs": ["keep"], "when": "always"},
            {"name": "beside", "tool": "test.echo", "input": {"y": 1}, "needs": []},
        )
        run = await hive.run(task="job")
        assert statuses(run) == {"keep": "waiting_approval", "beside": "succeeded"}
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert run["status"] == "succeeded"
        assert set(statuses(run).values()) == {"succeeded"}
        assert count(hive) == 1


async def test_each_item_of_a_list_asks_for_itself(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(path="${item}", for_each="${input.paths}"))
        await hive.run(task="job", input={"paths": ["a.txt", "b.txt"]})
        first, second = hive.approvals.pending()
        hive.approvals.resolve(first.approval_id, "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["status"], count(hive), count(hive, "b.txt")) == ("waiting_approval", 1, 0)
        hive.approvals.resolve(second.approval_id, "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["status"], count(hive), count(hive, "b.txt")) == ("succeeded", 1, 1)
        assert (await hive.replay("last")).ok


async def test_with_deny_nobody_is_asked(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        run = await hive.run(task="job", options=RunOptions(approve="deny"))
        assert (run["status"], run["error"]["code"]) == ("failed", "approval_required")
        assert hive.approvals.list() == []


async def test_a_sessions_call_is_refused_and_not_parked(writing):
    async with memory_hive(providers=[writing]) as hive, hive.session() as session:
        answer = await session.call("test.keep", {"path": "a.txt"})
        assert (answer["error"], answer["reason"]) == ("approval_required", "approval")
        assert hive.approvals.list() == []


async def test_somebody_who_is_asked_at_once_lets_the_run_go_on(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("again", needs=["keep"]))
        shown = []

        async def ask(approval):
            shown.append(approval)
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana", scope="task")

        run = await hive.run(task="job", options=RunOptions(approve="ask", ask=ask))
        assert (run["status"], count(hive), len(shown)) == ("succeeded", 2, 1)
        results = [step["invocations"][0]["approval_result"] for step in run["steps"]]
        assert results == ["approved", None]
        ended = "SELECT count(*) FROM v_grants WHERE issuer = 'approval' AND ended_at IS NOT NULL"
        assert hive.log.read(ended)[0][0] == 1


async def test_somebody_who_gives_no_answer_lets_the_run_park(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())

        async def ask(approval):
            del approval

        run = await hive.run(task="job", options=RunOptions(approve="ask", ask=ask))
        assert run["status"] == "waiting_approval"


@pytest.mark.promise("P-256")
@pytest.mark.parametrize("error", [ValueError("no window"), RuntimeError("x\ny"), OSError(5, "io")])
async def test_an_asking_that_fails_lets_the_run_wait_and_says_so(writing, define, caplog, error):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())

        async def ask(approval):
            raise error

        run = await hive.run(task="job", options=RunOptions(approve="ask", ask=ask))
        assert (run["status"], run["error"], count(hive)) == ("waiting_approval", None, 0)
        (warning,) = run["warnings"]
        assert warning["code"] == "ask_failed"
        assert type(error).__name__ in warning["message"]
        assert [each.exc_info[1] for each in caplog.records] == [error]
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["status"], count(hive)) == ("succeeded", 1)
        assert "warnings" not in run
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-256")
@pytest.mark.parametrize("planner", ["react", "llm"])
async def test_a_listener_that_fails_stops_no_run_and_is_logged_once(writing, caplog, planner):
    def broken(signal):
        raise KeyError(signal.kind)

    script = ['{"steps": []}'] if planner == "llm" else [calling("test.none", {})]
    model = ScriptedModel([*script, "done"])
    async with memory_hive(providers=[writing], adapters=[model]) as hive:
        run = await hive.run(
            "go", model="scripted:x", planner=planner, on_signal=broken, stream=True
        )
        assert (run["status"], run["output"]) == ("succeeded", "done")
        (warning,) = run["warnings"]
        assert warning["code"] == "signal_failed"
        assert warning["message"].startswith("`on_signal` raised KeyError: ")
        report = await hive.replay("last")
        assert (report.ok, report.complete) == (True, True)
    (record,) = caplog.records
    assert (record.name, record.exc_info[0]) == ("clawhive", KeyError)


class Mute(Exception):
    """One whose text cannot be made."""

    def __str__(self):
        raise RuntimeError


@pytest.mark.promise("P-269")
async def test_a_run_that_waits_says_that_its_listener_failed_and_then_goes_on(writing, define):
    def broken(signal):
        raise Mute

    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        run = await hive.run(task="job", options=RunOptions(on_signal=broken))
        assert run["status"] == "waiting_approval"
        (warning,) = run["warnings"]
        assert warning["code"] == "signal_failed"
        assert warning["message"] == "`on_signal` raised Mute; the run went on"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last", RunOptions(on_signal=broken))
        assert (run["status"], run["warnings"]) == ("succeeded", [warning])
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-269")
async def test_a_listener_that_fails_is_told_of_beside_other_warnings_and_not_in_sub_agents(
    writing,
):
    def broken(signal):
        raise ValueError("x" * 9999)

    odd = LlmResponse((TextBlock("half"),), "other", raw_stop_reason="NEW")
    model = ScriptedModel([calling("agent.helper", {"task": "help"}), "helped", odd])
    settings = {"agents.helper.description": "Helps."}
    more = {"grants": ("agent.spawn:helper",), "on_signal": broken}
    async with memory_hive(providers=[writing], adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model="scripted:x", **more)
        codes = [each["code"] for each in run["warnings"]]
        assert codes == ["unknown_stop_reason", "signal_failed"]
        assert len(run["warnings"][1]["message"]) < 400
        (child,) = run["children"]
        assert "warnings" not in run_json(hive.log, child["run_id"])
        assert (await hive.replay(run["run_id"])).ok


async def test_an_answer_from_elsewhere_ends_the_asking(writing, define):
    import anyio

    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())

        async def ask(approval):
            hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")
            await anyio.sleep_forever()

        run = await hive.run(task="job", options=RunOptions(approve="ask", ask=ask))
        assert (run["status"], count(hive)) == ("succeeded", 1)


async def test_the_log_says_which_approval_allowed_a_call(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        approval = hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        (invocation,) = run["steps"][0]["invocations"]
        assert invocation["granted_capabilities"] == [
            {"capability": f"fs.write:{hive.root}/a.txt", "grant_id": approval.approval_id}
        ]
        assert (invocation["approval_required"], invocation["approval_result"]) == (
            True,
            "approved",
        )
        answered = hive.log.read(
            "SELECT principal, status FROM events WHERE kind = 'approval.resolved' ORDER BY seq"
        )
        assert [tuple(row) for row in answered] == [
            ("user:ana", "approved"),
            ("agent:default", "consumed"),
        ]


async def test_a_denied_call_is_not_made_and_the_reason_is_told(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "deny", by="user:ana", reason="not today")
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "approval_denied")
        assert "not today" in run["error"]["message"]
        assert count(hive) == 0


async def test_an_approval_is_answered_once(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana")
        with pytest.raises(RunError) as caught:
            hive.approvals.resolve("last", "deny", by="user:ben")
        assert caught.value.code == "already_resolved"
        assert hive.approvals.find("last").resolved_by == "user:ana"


async def test_what_nobody_answered_in_time_expires(writing, define, monkeypatch):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        monkeypatch.setattr(
            "clawhive_core.execution.approvals.expiry",
            lambda: "2001-01-01T00:00:00.000000Z",
        )
        await hive.run(task="job")
        assert hive.approvals.pending() == []
        with pytest.raises(RunError):
            hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["error"]["code"], count(hive)) == ("approval_denied", 0)
        assert "in time" in run["error"]["message"]
        assert hive.approvals.find("last").state == "expired"


async def test_a_file_that_changed_meanwhile_is_left_alone(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        (hive.root / "a.txt").write_text("as shown\n", "utf-8")
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana")
        (hive.root / "a.txt").write_text("another\n", "utf-8")
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "approval_denied")
        assert "changed" in run["error"]["message"]
        assert (hive.root / "a.txt").read_text("utf-8") == "another\n"
        assert hive.approvals.find("last").state == "drifted"


async def test_a_tool_that_changed_meanwhile_is_not_called(tools, define):
    calls = []
    tools.add("test.keep", lambda given, ctx: calls.append(given), **KEEP)
    async with memory_hive(providers=[tools]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana")
        changed = {**KEEP, "timeout_ms": 10, "effects": {"path": "fs.write:{}"}}
        tools.metas.clear()
        tools.add("test.keep", lambda given, ctx: calls.append(given), **changed)
        await hive.catalog.add(tools)
        run = await hive.resume("last")
        assert (run["status"], calls) == ("failed", [])
        assert run["error"]["code"] == "tool_suspended"


async def test_a_deny_that_came_after_the_approval_wins(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        hive.approvals.resolve("last", "approve", by="user:ana")
        row = hive.log.read("SELECT grant_id FROM v_grants WHERE capability LIKE 'fs.write%'")
        for each in row:
            body = {"grant_id": each[0], "reason": "no more"}
            await hive.log.append(Event("grant.revoked", body))
        run = await hive.resume("last")
        assert (run["status"], run["error"]["code"], count(hive)) == ("failed", "denied", 0)


async def test_a_wider_scope_of_an_unsafe_tool_or_a_denial_is_refused(tools, define):
    tools.add("test.wipe", lambda given, ctx: "gone", risk="unsafe")
    async with memory_hive(providers=[tools]) as hive:
        define(hive, {"name": "wipe", "tool": "test.wipe"})
        await hive.run(task="job")
        for answer in ("approve", "deny"):
            with pytest.raises(UsageError):
                hive.approvals.resolve("last", answer, by="user:ana", scope="task")
        with pytest.raises(UsageError):
            hive.approvals.resolve("last", "perhaps", by="user:ana")
        assert len(hive.approvals.pending()) == 1


async def test_an_approval_for_the_session_counts_for_its_next_task(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job", options=RunOptions(session="conv_ana"))
        hive.approvals.resolve("last", "approve", by="user:ana", scope="session")
        await hive.resume("last")
        run = await hive.run(task="job", options=RunOptions(session="conv_ana"))
        assert (run["status"], count(hive)) == ("succeeded", 2)
        run = await hive.run(task="job", options=RunOptions(session="conv_ben"))
        assert run["status"] == "waiting_approval"


async def test_the_end_of_a_run_ends_its_approvals(writing, define):
    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep())
        await hive.run(task="job")
        await hive.resume("last", RunOptions(approve="deny"))
        assert hive.approvals.find("last").state == "expired"


async def test_the_rows_are_what_a_replay_of_the_log_gives(writing, define):

    async with memory_hive(providers=[writing]) as hive:
        define(hive, keep(), keep("two", "b.txt", needs=[]))
        await hive.run(task="job")
        first, second = hive.approvals.pending()
        hive.approvals.resolve(first.approval_id, "approve", by="user:ana")
        hive.approvals.resolve(second.approval_id, "deny", by="user:ana", reason="no")
        await hive.resume("last")
        assert hive.log.compare() == ()
