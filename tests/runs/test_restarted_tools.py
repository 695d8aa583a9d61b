"""A tool that is begun again gets what it made before from the log, and makes the rest."""

import asyncio
from pathlib import Path

import anyio
import pytest

from clawhive_core.errors import ModelError, NotReplayable
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse, TextBlock, Usage
from clawhive_core.testing import ScriptedModel


async def test_several_calls_that_ask_one_after_the_other_park_it_as_often(job):
    async def outer(given, ctx):
        return [await ctx.call("test.keep", {"path": f"k{number}"}) for number in range(3)]

    async with job(outer) as house:
        await house.run()
        for number in range(3):
            assert [house.lines(f"k{each}") for each in range(3)] == [1] * number + [0] * (
                3 - number
            )
            house.answer()
            run = await house.hive.resume("last")
        assert (run["status"], [house.lines(f"k{each}") for each in range(3)]) == (
            "succeeded",
            [1, 1, 1],
        )
        parked = [("parked", f"{run['run_id']}/outer#{number}") for number in (1, 2, 3)]
        ended = ("succeeded", f"{run['run_id']}/outer#4")
        assert house.rows("status, invocation_id", "test.outer") == [*parked, ended]
        assert (await house.hive.replay("last")).ok


async def test_chains_of_calls_side_by_side_find_theirs_again_in_any_order(job):
    async def outer(given, ctx):
        async def chain(name, turns):
            found = []
            for number in range(3):
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tool = "test.keep" if number == 2 else "test.note"
                found.append(await ctx.call(tool, {"path": f"{name}{number}"}))
            return found

        return await asyncio.gather(chain("a", 1), chain("b", 40), chain("c", 0))

    async with job(outer) as house:
        await house.run()
        run = await house.approved()
        assert run["status"] == "succeeded"
        paths = [f"{name}{number}" for name in "abc" for number in range(3)]
        assert [house.lines(path) for path in paths] == [1] * 9


@pytest.mark.promise("P-070")
async def test_a_restarted_tool_that_makes_another_call_fails_and_does_nothing_twice(job):
    numbers = iter(range(100))

    async def outer(given, ctx):
        try:
            await ctx.call("test.note", {"path": f"note{next(numbers)}"})
            return await ctx.call("test.keep", {"path": "kept"})
        except Exception:  # noqa: BLE001 - a careless tool
            return await ctx.call("test.note", {"path": "instead"})

    async with job(outer) as house:
        await house.run()
        house.answer()
        run = await house.hive.resume("last")
        assert (run["status"], run["error"]["code"]) == ("failed", "not_resumable")
        assert "now it asks for `test.note` {'path': 'note1'}" in run["error"]["message"]
        assert '`test.note` {"path":"note0"}' in run["error"]["message"]
        paths = ("note0", "note1", "kept", "instead")
        assert [house.lines(path) for path in paths] == [1, 0, 0, 0]
        assert house.hive.approvals.find("last").state == "expired"
        assert (await house.hive.replay("last")).ok


async def test_a_restarted_tool_may_leave_out_what_it_has_done(job):
    async def outer(given, ctx):
        if not (Path(ctx.workspace.root) / "first").exists():
            await ctx.call("test.note", {"path": "first"})
        await ctx.call("test.keep", {"path": "kept"})
        return await ctx.call("test.note", {"path": "last"})

    async with job(outer) as house:
        await house.run()
        assert (await house.approved())["status"] == "succeeded"
        assert [house.lines(name) for name in ("first", "kept", "last")] == [1, 1, 1]


async def test_a_new_call_waits_for_the_code_beside_it_to_come_as_far_as_it_had(job, appending):
    came_far, asked = anyio.Event(), anyio.Event()

    async def last(given, ctx):
        await asked.wait()
        return appending.functions["test.note"](given, ctx)

    async def outer(given, ctx):
        async def far():
            for number in range(4):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                await ctx.call("test.note", {"path": f"far{number}"})
            came_far.set()

        async def short():
            await ctx.call("test.last", {"path": "short"})
            await ctx.call("test.note", {"path": "new"})

        async def asking():
            await came_far.wait()
            made = asyncio.ensure_future(ctx.call("test.keep", {"path": "kept"}))
            while ctx.nested.stop is None and not made.done():
                await anyio.lowlevel.checkpoint()
            asked.set()
            await made

        await asyncio.gather(short(), far(), asking())
        return "done"

    appending.add("test.last", last)
    async with job(outer) as house:
        assert (await house.run())["status"] == "waiting_approval"
        assert (house.lines("short"), house.lines("new")) == (1, 0)
        assert (await house.approved())["output"] == "done"
        paths = ("far0", "far1", "far2", "far3", "short", "kept", "new")
        assert [house.lines(path) for path in paths] == [1] * 7


async def test_equal_calls_are_told_apart_by_their_order(job):
    async def outer(given, ctx):
        for _ in range(3):
            await ctx.call("test.note", {"path": "same"})
        await ctx.call("test.keep", {"path": "kept"})
        await ctx.call("test.note", {"path": "same"})
        return "done"

    async with job(outer) as house:
        await house.run()
        assert (await house.approved())["status"] == "succeeded"
        assert house.lines("same") == 4


async def test_refused_and_failed_calls_are_answered_as_before(job, appending):
    seen = []

    async def outer(given, ctx):
        answers = [
            await ctx.call("test.missing", {}),
            await ctx.call("test.note", ["no object"]),
            await ctx.call("test.fail", {}),
        ]
        seen.append(answers)
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer) as house:
        await house.run()
        assert (await house.approved())["status"] == "succeeded"
        assert seen[0] == seen[1]
        assert [name for name, _ in appending.calls].count("test.fail") == 1


@pytest.mark.promise("P-071")
async def test_a_model_that_a_tool_asked_is_not_asked_again(job):

    model = ScriptedModel(["one", "two"])

    async def outer(given, ctx):
        said = []
        for word in ("first", "second"):
            request = LlmRequest("scripted:m", (LlmMessage.text("user", word),), system="be brief")
            said.append((await ctx.complete(request)).text)
            await ctx.call("test.keep", {"path": word})
        return said

    async with job(outer, models=[model]) as house:
        await house.run()
        run = await house.approved()
        assert (run["status"], run["output"]) == ("succeeded", ["one", "two"])
        assert len(model.requests) == 2
        kinds = [stored.event.kind for stored in house.hive.log.events()]
        assert (kinds.count("model.start"), kinds.count("model.end")) == (2, 2)
        assert (await house.hive.replay("last")).ok


async def test_a_model_call_of_a_tool_is_answered_with_its_failure_and_counted_once(job):

    used = LlmResponse((TextBlock("well"),), "end_turn", Usage(10, 5))
    model = ScriptedModel([used])
    seen = []

    async def outer(given, ctx):
        request = LlmRequest("scripted:m", (LlmMessage.text("user", "go"),))
        await ctx.complete(request)
        try:
            await ctx.complete(request)
        except ModelError as error:
            seen.append(error.code)
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer, models=[model]) as house:
        await house.run()
        run = await house.approved()
        assert seen == ["script_exhausted"] * 2
        assert (run["status"], len(model.requests)) == ("succeeded", 2)
        assert (run["usage"]["input_tokens"], run["usage"]["output_tokens"]) == (10, 5)
        assert (await house.hive.replay("last")).ok


async def test_another_request_to_a_model_than_before_ends_the_restarted_tool(job):

    model, words = ScriptedModel(["one", "two"]), iter(["first", "second"])

    async def outer(given, ctx):
        request = LlmRequest("scripted:m", (LlmMessage.text("user", next(words)),))
        await ctx.complete(request)
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer, models=[model]) as house:
        await house.run()
        house.answer()
        run = await house.hive.resume("last")
        assert (run["error"]["code"], len(model.requests), house.lines("kept")) == (
            "not_resumable",
            1,
            0,
        )


async def test_a_call_with_a_secret_is_known_again(job, appending, monkeypatch):
    heads = []
    appending.add("test.send", lambda given, ctx: heads.append(given) or "sent")

    async def outer(given, ctx):
        await ctx.require("secret.use:API_KEY")
        await ctx.call("test.send", {"key": ctx.secret("API_KEY"), "path": "x"})
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer) as house:
        house.hive._requests.env["API_KEY"] = "sesame-open-now"
        await house.run(grants=("secret.use:API_KEY",))
        run = await house.approved()
        assert (run["status"], len(heads), heads[0]["key"]) == ("succeeded", 1, "sesame-open-now")


@pytest.mark.parametrize("large", ["input", "output"])
async def test_a_restart_that_lacks_what_was_pruned_does_nothing(job, appending, large):
    big = "x" * 100_000

    def get(given, ctx):
        return {"got": big if large == "output" else "little"}

    async def outer(given, ctx):
        try:
            await ctx.call("test.get", {"more": big if large == "input" else "little"})
        except Exception:  # noqa: BLE001 - a careless tool
            return await ctx.call("test.note", {"path": "instead"})
        return await ctx.call("test.keep", {"path": "kept"})

    appending.add("test.get", get)
    async with job(outer) as house:
        await house.run()
        house.answer()
        prune = "UPDATE blobs SET data = NULL WHERE length(data) > 50000"
        await house.hive.log.append(effect=lambda connection: connection.execute(prune))
        with pytest.raises(NotReplayable, match="bodies were pruned"):
            await house.hive.resume("last")
        assert (house.lines("instead"), house.lines("kept")) == (0, 0)


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_that_was_broken_off_below_a_tool_is_made_again_where_it_does_no_harm(
    job, appending, stop, idempotent
):
    appending.add("test.send", lambda given, ctx: "sent", idempotent=idempotent)

    async def outer(given, ctx):
        await ctx.call("test.note", {"path": "first"})
        return await ctx.call("test.send", {})

    async with job(outer, idempotent=True) as house:
        await stop(house.hive).run(task="job", kill="test.send")
        run = await house.hive.resume("last")
        sent = [name for name, _ in appending.calls].count("test.send")
        assert (run["status"], house.lines("first")) == ("succeeded", 1)
        if idempotent:
            assert (run["output"], sent) == ("sent", 2)
            statuses = [("unknown",), ("succeeded",)]
        else:
            assert (run["output"]["error"], sent) == ("unknown_outcome", 1)
            statuses = [("unknown",)]
        assert house.rows("status", "test.send") == statuses
        assert (await house.hive.replay("last")).ok


async def test_a_restarted_tool_that_is_broken_off_keeps_what_it_has_done(job, stop):
    async def outer(given, ctx):
        await ctx.call("test.note", {"path": "first"})
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer, idempotent=True) as house:
        await house.run()
        house.answer()
        await stop(house.hive).resume(kill="test.outer")
        run = await house.hive.resume("last")
        assert (run["status"], house.lines("first"), house.lines("kept")) == ("succeeded", 1, 1)
        statuses = [("parked",), ("unknown",), ("succeeded",)]
        assert house.rows("status", "test.outer") == statuses


async def test_a_restarted_tool_that_may_not_be_repeated_is_unknown_when_broken_off(job, stop):
    async def outer(given, ctx):
        return await ctx.call("test.keep", {"path": "kept"})

    async with job(outer) as house:
        await house.run()
        house.answer()
        await stop(house.hive).resume(kill="test.outer")
        run = await house.hive.resume("last")
        assert (run["error"]["code"], house.lines("kept")) == ("unknown_outcome", 1)
        assert (await house.hive.replay("last")).ok
