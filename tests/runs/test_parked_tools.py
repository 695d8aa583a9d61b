"""A tool whose own call a person must answer is parked, and goes on when it is answered."""

import asyncio

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from clawhive_core.errors import ToolError
from clawhive_core.hive.hive import RunOptions
from clawhive_core.runs.record import ownership
from clawhive_core.runs.record.view import run_json
from clawhive_core.testing import ScriptedModel, calling


async def note_keep_note(given, ctx):
    first = await ctx.call("test.note", {"path": "first"})
    kept = await ctx.call("test.keep", {"path": "kept"})
    last = await ctx.call("test.note", {"path": "last"})
    return [first, kept, last]


@pytest.mark.promise("P-069")
async def test_a_tool_is_parked_for_its_own_call_and_its_finished_calls_are_not_made_again(job):
    async with job(note_keep_note) as house:
        run = await house.run()
        assert (run["status"], house.lines("first"), house.lines("kept")) == (
            "waiting_approval",
            1,
            0,
        )
        (approval,) = house.waiting()
        assert (approval.tool, approval.step_id) == ("test.keep", f"{run['run_id']}/outer>2")
        run = await house.approved()
        assert run["status"] == "succeeded"
        assert run["output"] == [{"kept": "first"}, {"kept": "kept"}, {"kept": "last"}]
        assert [house.lines(name) for name in ("first", "kept", "last")] == [1, 1, 1]
        assert house.rows("status", "test.outer") == [("parked",), ("succeeded",)]
        assert (await house.hive.replay("last")).ok


async def test_a_parked_tool_shows_as_parked_wherever_one_looks(job):
    async def outer(given, ctx):
        ctx.output("stdout", b"half done")
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer) as house:
        run = await house.run()
        outer_step, nested = run["steps"]
        assert (outer_step["status"], nested["status"]) == ("waiting_approval",) * 2
        (attempt,) = outer_step["invocations"]
        assert (attempt["status"], attempt["error"]) == ("parked", None)
        assert attempt["end_at"] is not None
        assert "test.keep" in attempt["output_preview"]
        (waiting,) = nested["invocations"]
        assert (waiting["status"], waiting["end_at"]) == ("parked", None)
        for view in ("v_invocations", "v_steps"):
            statuses = {row[0] for row in house.hive.log.read(f"SELECT status FROM {view}")}
            assert statuses == {"parked" if view == "v_invocations" else "waiting_approval"}
        (end,) = [e for e in house.hive.log.events() if e.event.kind == "invocation.end"]
        output = house.hive.log.load(end.event.body["output"])
        (approval,) = house.waiting()
        assert output["structured"] == {
            "approval_id": approval.approval_id,
            "stdout": "half done",
        }
        assert house.hive.log.read("SELECT * FROM runs WHERE worker IS NOT NULL") == []


async def swallow(given, ctx):
    try:
        return await ctx.call("test.keep", {"path": "kept"})
    except Exception:  # noqa: BLE001 - a careless tool
        return "nothing happened"


async def swallow_all(given, ctx):
    try:
        return await ctx.call("test.keep", {"path": "kept"})
    except BaseException:  # noqa: BLE001 - a careless tool
        await ctx.call("test.note", {"path": "instead"})


async def rename(given, ctx):
    try:
        return await ctx.call("test.keep", {"path": "kept"})
    except Exception as error:
        raise ToolError("it did not work", code="mine") from error


async def leave(given, ctx):
    try:
        return await ctx.call("test.keep", {"path": "kept"})
    except Exception as error:
        raise SystemExit(3) from error


async def try_again(given, ctx):
    for _ in range(10):
        try:
            return await ctx.call("test.keep", {"path": "kept"})
        except Exception:  # noqa: BLE001 - a careless tool
            await anyio.lowlevel.checkpoint()
    return "given up"


async def gathered(given, ctx):
    results = await asyncio.gather(ctx.call("test.keep", {"path": "kept"}), return_exceptions=True)
    return {"kept": "kept"} if isinstance(results[0], BaseException) else results[0]


async def forgotten(given, ctx):
    made = asyncio.ensure_future(ctx.call("test.keep", {"path": "kept"}))
    await asyncio.wait((made,))
    made.cancel()
    return {} if made.exception() else made.result()


async def cancelled_child(given, ctx):
    made = asyncio.ensure_future(ctx.call("test.keep", {"path": "kept"}))
    slow = asyncio.ensure_future(asyncio.sleep(3600))
    await asyncio.wait((made, slow), return_when=asyncio.FIRST_COMPLETED)
    if made.exception() is None:
        slow.cancel()
        return made.result()
    slow.cancel()
    return await slow


async def in_a_thread(given, ctx):
    def work():
        try:
            return anyio.from_thread.run(ctx.call, "test.keep", {"path": "kept"})
        except Exception:  # noqa: BLE001 - a careless tool
            return "nothing happened"

    return await anyio.to_thread.run_sync(work)


async def in_a_group(given, ctx):
    found = []

    async def one():
        found.append(await ctx.call("test.keep", {"path": "kept"}))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
    return found[0]


SWALLOWING = [
    swallow,
    swallow_all,
    rename,
    leave,
    try_again,
    gathered,
    forgotten,
    cancelled_child,
    in_a_thread,
    in_a_group,
]


@pytest.mark.parametrize("outer", SWALLOWING, ids=lambda each: each.__name__)
async def test_whatever_its_code_does_with_the_exception_the_tool_is_parked(job, outer):
    async with job(outer) as house:
        run = await house.run()
        assert run["status"] == "waiting_approval"
        assert house.rows("status", "test.outer") == [("parked",)]
        assert (house.lines("instead"), len(house.waiting())) == (0, 1)
        run = await house.approved()
        assert (run["status"], run["output"]) == ("succeeded", {"kept": "kept"})
        assert (house.lines("kept"), house.lines("instead")) == (1, 0)


async def test_a_tool_that_hangs_after_its_call_was_parked_is_parked_at_its_deadline(job):
    async def outer(given, ctx):
        try:
            return await ctx.call("test.keep", {"path": "kept"})
        except Exception:  # noqa: BLE001 - a careless tool
            await anyio.sleep_forever()

    async with job(outer, timeout_ms=3_000) as house:
        assert (await house.run())["status"] == "waiting_approval"
        assert house.rows("status", "test.outer") == [("parked",)]


@pytest.mark.parametrize("group", [False, True])
async def test_calls_side_by_side_end_before_the_tool_is_parked(job, appending, group):
    begun, let_go = [], anyio.Event()

    async def slow(given, ctx):
        begun.append(given)
        await let_go.wait()
        return appending.functions["test.note"](given, ctx)

    async def outer(given, ctx):
        calls = [("test.keep", "k0"), ("test.slow", "slow"), ("test.keep", "k1")]
        if not group:
            return await asyncio.gather(*(ctx.call(name, {"path": p}) for name, p in calls))
        found = {}

        async def one(name, path):
            found[path] = await ctx.call(name, {"path": path})

        async with anyio.create_task_group() as tasks:
            for name, path in calls:
                tasks.start_soon(one, name, path)
        return [found[path] for _, path in calls]

    appending.add("test.slow", slow)
    async with job(outer) as house:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            while len(house.waiting()) < 2 or not begun:
                await anyio.lowlevel.checkpoint()
            assert house.rows("status", "test.outer") == [("running",)]
            let_go.set()
        assert {each.step_id[-8:] for each in house.waiting()} == {"/outer>1", "/outer>3"}
        assert house.lines("slow") == 1
        run = await house.approved()
        assert run["output"] == [{"kept": path} for path in ("k0", "slow", "k1")]
        assert [house.lines(path) for path in ("k0", "slow", "k1")] == [1, 1, 1]
        assert house.rows("status", "test.outer") == [("parked",), ("succeeded",)]


async def test_calls_that_the_tool_does_not_wait_for_end_before_it_is_parked(job, appending):
    let_go = anyio.Event()

    async def slow(given, ctx):
        await let_go.wait()
        return appending.functions["test.note"](given, ctx)

    async def outer(given, ctx):
        calls = [("test.slow", "slow"), ("test.keep", "kept")]
        made = [asyncio.ensure_future(ctx.call(name, {"path": path})) for name, path in calls]
        while ctx.nested.stop is None and not made[1].done():
            await anyio.lowlevel.checkpoint()
        made[1].add_done_callback(lambda task: task.exception())
        asyncio.get_running_loop().call_later(0.05, let_go.set)
        return "done"

    appending.add("test.slow", slow)
    async with job(outer) as house:
        assert (await house.run())["status"] == "waiting_approval"
        assert house.lines("slow") == 1
        ends = [each.event for each in house.hive.log.events() if "end" in each.event.kind]
        assert [each.tool for each in ends] == ["test.slow", "test.outer"]


async def test_the_tool_is_not_restarted_while_one_of_its_calls_still_waits(job, appending):
    async def outer(given, ctx):
        paths = ("k0", "k1")
        return await asyncio.gather(*(ctx.call("test.keep", {"path": path}) for path in paths))

    async with job(outer) as house:
        await house.run()
        first, second = sorted(house.waiting(), key=lambda each: each.step_id)
        house.hive.approvals.resolve(first.approval_id, "approve", by="user:ana")
        for _ in range(2):
            run = await house.hive.resume("last")
            assert (run["status"], house.lines("k0")) == ("waiting_approval", 0)
        assert [name for name, _ in appending.calls].count("test.outer") == 1
        house.hive.approvals.resolve(second.approval_id, "deny", by="user:ana", reason="no")
        run = await house.hive.resume("last")
        kept, refused = run["output"]
        assert (kept, refused["error"]) == ({"kept": "k0"}, "approval_denied")
        assert (house.lines("k0"), house.lines("k1")) == (1, 0)


async def test_a_denied_call_answers_its_refusal_and_the_tool_goes_on(job):
    async with job(note_keep_note) as house:
        await house.run()
        house.answer("deny", reason="not this file")
        run = await house.hive.resume("last")
        refused = run["output"][1]
        assert (run["status"], refused["error"]) == ("succeeded", "approval_denied")
        assert "not this file" in refused["message"]
        assert [house.lines(name) for name in ("first", "kept", "last")] == [1, 0, 1]
        assert (await house.hive.replay("last")).ok


async def test_a_file_that_changed_meanwhile_is_left_and_the_tool_is_told(job):
    async with job(note_keep_note) as house:
        await house.run()
        house.answer()
        (house.hive.root / "kept").write_text("another\n", "utf-8")
        run = await house.hive.resume("last")
        assert run["output"][1]["next"] == {"action": "propose_again", "state": "drifted"}
        assert (house.hive.root / "kept").read_text("utf-8") == "another\n"


async def test_what_nobody_answered_in_time_is_refused_to_the_tool(job, monkeypatch):
    async with job(note_keep_note) as house:
        await house.run()
        monkeypatch.setattr("clawhive_core.policy.approvals.now", lambda: "2999-01-01T00:00:00Z")
        run = await house.hive.resume("last")
        assert run["output"][1]["next"]["state"] == "expired"
        assert [house.lines(name) for name in ("first", "kept", "last")] == [1, 0, 1]


async def test_a_call_of_a_call_parks_all_of_them(job, appending):
    async def middle(given, ctx):
        await ctx.call("test.note", {"path": "middle"})
        return await ctx.call("test.keep", {"path": "kept"})

    async def outer(given, ctx):
        await ctx.call("test.note", {"path": "outer"})
        try:
            return await ctx.call("test.middle", {})
        except Exception:  # noqa: BLE001 - a careless tool
            return "swallowed"

    appending.add("test.middle", middle)
    async with job(outer) as house:
        run = await house.run()
        assert run["status"] == "waiting_approval"
        run_id = run["run_id"]
        parked = [("parked", f"{run_id}/outer>2#1")]
        assert house.rows("status, invocation_id", "test.middle") == parked
        assert [each.step_id for each in house.waiting()] == [f"{run_id}/outer>2>2"]
        run = await house.approved()
        assert (run["status"], run["output"]) == ("succeeded", {"kept": "kept"})
        assert [house.lines(name) for name in ("outer", "middle", "kept")] == [1, 1, 1]
        again = ("succeeded", f"{run_id}/outer>2#2")
        assert house.rows("status, invocation_id", "test.middle") == [*parked, again]
        (row,) = house.rows("invocation_id, parent_invocation_id", "test.keep")
        assert row == (f"{run_id}/outer>2>2#1", f"{run_id}/outer>2#2")


async def test_a_tool_that_was_approved_itself_is_not_asked_for_again(job):
    async with job(note_keep_note, risk="guarded") as house:
        await house.run()
        assert [each.tool for each in house.waiting()] == ["test.outer"]
        run = await house.approved()
        assert (run["status"], house.lines("first"), house.lines("kept")) == ("succeeded", 1, 1)
        states = [(each.tool, each.state) for each in house.hive.approvals.list()]
        assert states == [("test.outer", "consumed"), ("test.keep", "consumed")]


@pytest.mark.parametrize("change", [{"sinks": ("x",)}, {"annotations": {"more": 1}}])
async def test_a_used_approval_does_not_count_for_a_parked_tool_that_changed(
    job, appending, change
):
    appending.provider_id = "mcp_test"
    made = {"risk": "guarded", "provider_id": "mcp_test", "text_counts": True}
    async with job(note_keep_note, **made) as house:
        await house.run()
        house.answer()
        await house.hive.resume("last")
        house.answer()
        appending.metas.pop()
        appending.add("test.outer", note_keep_note, **made, **change)
        await house.hive.catalog.add(appending)
        run = await house.hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "tool_suspended")
        assert house.lines("kept") == 0


async def test_a_person_is_asked_when_the_tool_is_parked_and_it_goes_on_at_once(job):
    async def outer(given, ctx):
        return [await ctx.call("test.keep", {"path": f"k{number}"}) for number in range(2)]

    shown = []
    async with job(outer) as house:

        async def ask(approval):
            await house.hive.log.flush()
            shown.append((approval.step_id[-2:], house.rows("status", "test.outer")[-1][0]))
            house.hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        run = await house.run(approve="ask", ask=ask)
        assert (run["status"], shown) == ("succeeded", [(">1", "parked"), (">2", "parked")])
        assert (house.lines("k0"), house.lines("k1")) == (1, 1)
        attempts = house.rows("status", "test.outer")
        assert attempts == [("parked",), ("parked",), ("succeeded",)]
        assert (await house.hive.replay("last")).ok


@pytest.mark.parametrize("killed", [False, True])
async def test_whoever_is_asked_for_a_call_of_a_call_is_asked_when_all_tools_are_parked(
    job, appending, stop, killed
):
    async def middle(given, ctx):
        return await ctx.call("test.keep", {"path": "kept"})

    async def outer(given, ctx):
        return await ctx.call("test.middle", {})

    shown = []
    appending.add("test.middle", middle)
    async with job(outer, idempotent=True) as house:

        async def ask(approval):
            await house.hive.log.flush()
            tools = ("test.outer", "test.middle")
            shown.append([house.rows("status", tool)[-1][0] for tool in tools])
            house.hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        options = RunOptions(approve="ask", ask=ask)
        if killed:  # before it is recorded that the outer one is parked
            await stop(house.hive).run(task="job", kill="test.outer")
            run = await house.hive.resume("last", options)
        else:
            run = await house.hive.run(task="job", options=options)
        assert (run["status"], house.lines("kept")) == ("succeeded", 1)
        assert shown == [["parked", "parked"]]


async def test_somebody_who_gives_no_answer_leaves_the_tool_parked(job):
    asked = []
    async with job(note_keep_note) as house:

        async def ask(approval):
            asked.append(approval)

        run = await house.run(approve="ask", ask=ask)
        assert (run["status"], len(asked)) == ("waiting_approval", 1)
        run = await house.hive.resume("last", RunOptions(approve="ask", ask=ask))
        assert (run["status"], len(asked)) == ("waiting_approval", 2)
        assert house.rows("status", "test.outer") == [("parked",)]
        assert (await house.approved())["status"] == "succeeded"


async def test_with_deny_the_call_is_refused_to_the_tool(job):
    async with job(note_keep_note) as house:
        run = await house.run(approve="deny")
        assert (run["status"], run["output"][1]["error"]) == ("succeeded", "approval_required")
        await house.run()
        run = await house.hive.resume("last", RunOptions(approve="deny"))
        assert (run["status"], run["output"][1]["error"]) == ("succeeded", "approval_required")
        assert house.waiting() == []


async def test_in_a_session_nothing_is_parked_but_somebody_may_be_asked(job):
    async with job(note_keep_note) as house:
        async with house.hive.session() as session:
            answer = await session.call("test.outer", {})
            assert answer[1]["error"] == "approval_required"

        async def ask(approval):
            house.hive.approvals.resolve(approval.approval_id, "approve", by="user:ana")

        options = RunOptions(approve="ask", ask=ask)
        async with house.hive.session(options=options) as session:
            answer = await session.call("test.outer", {})
            assert answer[1] == {"kept": "kept"}
        assert (house.lines("first"), house.lines("kept")) == (2, 1)


async def test_a_loops_tool_is_parked_and_goes_on(job):
    model = ScriptedModel([calling("test.outer", {}), "all done"])
    async with job(note_keep_note, models=[model]) as house:
        run = await house.hive.run("do it", model="scripted:x")
        assert run["status"] == "waiting_approval"
        run = await house.approved()
        assert (run["status"], run["output"], len(model.requests)) == ("succeeded", "all done", 2)
        assert (house.lines("first"), house.lines("kept")) == (1, 1)
        assert (await house.hive.replay("last")).ok


async def test_steps_beside_a_parked_tool_go_on(job):
    beside = {"name": "beside", "tool": "test.note", "input": {"path": "beside"}, "needs": []}
    async with job(note_keep_note, more=[beside]) as house:
        run = await house.run()
        assert (run["status"], house.lines("beside")) == ("waiting_approval", 1)
        report = await house.hive.replay("last")
        assert (report.ok, report.complete) == (True, False)
        assert (await house.approved())["status"] == "succeeded"
        assert house.lines("beside") == 1


async def test_a_parked_run_that_is_cancelled_waits_no_more(job):
    async with job(note_keep_note) as house:
        run = await house.run()
        ownership.cancel(house.hive.log, run["run_id"])
        steps = run_json(house.hive.log, run["run_id"])["steps"]
        statuses = [(step["status"], step["invocations"][0]["status"]) for step in steps]
        assert statuses == [
            ("cancelled", "parked"),
            ("succeeded", "succeeded"),
            ("cancelled", "refused"),
        ]
        (row,) = house.hive.log.read("SELECT status FROM v_steps WHERE name = 'tool.test.outer'")
        assert row[0] == "cancelled"
        assert house.waiting() == []
