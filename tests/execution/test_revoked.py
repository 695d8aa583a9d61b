"""What is under way ends with the right that it was begun with, whoever revokes it."""

import os
from datetime import UTC, datetime

import anyio
import pytest

from clawhive_core import Hive
from clawhive_core.errors import ModelError
from clawhive_core.policy.grants import GrantBook
from clawhive_core.runs.record import watch
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive
from tests.harness import Provider, echo

PATH = "net.http:a.org/**"
NEEDS = {"effects": {"": "net.http:https://a.org/x"}}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.01)


def revoke(hive, capability):
    """Revoke an active grant as another process does: by the log alone."""
    now = datetime.now(UTC)
    book = GrantBook(hive.config.user_dir, hive.log)
    rows = hive.log.read(
        "SELECT grant_id FROM v_grants WHERE ended_at IS NULL AND issuer = 'user'"
        " AND capability LIKE ? ORDER BY issued_at",
        (f"{capability}%",),
    )
    book.revoke(rows[0][0], now)


class Holding:
    """A tool that waits for ever, and says how it ended."""

    def __init__(self):
        self.begun, self.ended = anyio.Event(), None

    async def __call__(self, given, ctx):
        self.begun.set()
        try:
            ctx.output("stdout", b"begun")
            await anyio.sleep_forever()
        except BaseException as error:
            self.ended = type(error).__name__
            raise


async def revoking(hive, held, capability):
    await held.begun.wait()
    revoke(hive, capability)


@pytest.mark.promise("P-202")
async def test_a_call_under_way_ends_with_its_right_and_keeps_what_it_said():
    held = Holding()
    provider = Provider().offer("demo.hold", held, **NEEDS)
    async with memory_hive(providers=[provider]) as hive, anyio.create_task_group() as group:
        group.start_soon(revoking, hive, held, "net.http")
        _, outcome = await hive.call("demo.hold", {}, RunOptions(grants=[PATH]))
        assert (outcome.is_error, outcome.structured["error"]) == (True, "right_revoked")
        assert outcome.structured["reason"] == "rights"
        assert "begun" in outcome.output
        assert held.ended == "CancelledError"
        (row,) = hive.log.read("SELECT status FROM events WHERE kind = 'invocation.end'")
        assert row["status"] == "failed"


async def test_a_right_that_another_call_was_begun_with_ends_no_call():
    async def short(given, ctx):
        revoke(hive, "env.read")
        await ctx.call("demo.echo", {})  # which looks at what was revoked before it is decided
        await anyio.lowlevel.checkpoint()
        return await echo(given, ctx)

    provider = Provider().offer("demo.short", short, **NEEDS).offer("demo.echo", echo)
    async with memory_hive(providers=[provider]) as hive:
        options = RunOptions(grants=[PATH, "env.read:LANG"])
        _, outcome = await hive.call("demo.short", {}, options)
        assert not outcome.is_error


async def test_a_nested_call_ends_and_the_tool_that_made_it_is_told():
    held, told = Holding(), []

    async def outer(given, ctx):
        told.append(await ctx.call("demo.hold", {}))
        return await echo(given, ctx)

    provider = Provider().offer("demo.hold", held, **NEEDS).offer("demo.outer", outer)
    async with memory_hive(providers=[provider]) as hive, anyio.create_task_group() as group:
        group.start_soon(revoking, hive, held, "net.http")
        _, outcome = await hive.call("demo.outer", {}, RunOptions(grants=[PATH]))
        assert not outcome.is_error
        assert told[0]["error"] == "right_revoked"
    assert held.ended == "CancelledError"


async def test_a_call_that_made_the_last_use_of_a_right_goes_on_when_another_finds_none_left():
    begun, done, refused = anyio.Event(), anyio.Event(), []

    async def first(given, ctx):
        begun.set()
        await done.wait()
        return await echo(given, ctx)

    provider = Provider().offer("demo.first", first, **NEEDS).offer("demo.second", echo, **NEEDS)
    async with memory_hive(providers=[provider]) as hive:
        options = RunOptions(grants=[f"{PATH}?uses<=1"], approve="deny")
        async with hive.session(options=options) as session, anyio.create_task_group() as group:

            async def other():
                await begun.wait()
                refused.append(await session.call("demo.second", {}))
                done.set()

            group.start_soon(other)
            assert await session.call("demo.first", {"n": 1}) == {"n": 1}
    assert refused[0]["error"] == "approval_required"


@pytest.mark.promise("P-202")
async def test_a_program_in_a_sandbox_ends_with_the_right_to_run_it(tmp_path):
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    async with Hive.open(tmp_path, env=env) as hive, anyio.create_task_group() as group:

        async def revoking_once_begun():
            sql = "SELECT 1 FROM events WHERE kind = 'invocation.start'"
            while not hive.log.read(sql):
                await anyio.lowlevel.checkpoint()
            revoke(hive, "sandbox.exec")

        group.start_soon(revoking_once_begun)
        command = {"command": ["python", "-c", "while True: pass"]}
        options = RunOptions(grants=["sandbox.exec:python"])
        with anyio.fail_after(300):
            _, outcome = await hive.call("sandbox.exec", command, options)
        assert outcome.structured["error"] == "right_revoked"


async def test_a_sub_agent_ends_with_the_right_to_start_it():
    held = Holding()
    provider = Provider().offer("demo.hold", held)
    models = [
        ScriptedModel([calling("agent.helper", {"task": "look"}), "done"]),
        ScriptedModel([calling("demo.hold", {}), "never"], name="child"),
    ]
    settings = {"agents.helper.description": "Helps.", "agents.helper.model": "child:x"}
    opening = memory_hive(providers=[provider], adapters=models, settings=settings)
    async with opening as hive, anyio.create_task_group() as group:
        group.start_soon(revoking, hive, held, "agent.spawn")
        options = RunOptions(model="scripted:x", grants=("agent.spawn:helper",))
        run = await hive.run("go", options=options)
        statuses = hive.log.read("SELECT status FROM v_runs WHERE parent_run_id IS NOT NULL")
        assert (run["status"], run["output"]) == ("succeeded", "done")
        assert [row[0] for row in statuses] == ["cancelled"]
        assert held.ended == "CancelledError"
        assert run["steps"][0]["error"]["code"] == "right_revoked"


class Elsewhere(ScriptedModel):
    """A model at a host that a person must have allowed."""

    host, default_host = "models.example", None

    def __init__(self, turn):
        super().__init__(["never"], name="far")
        self.turn, self.asked = turn, 0

    async def chat(self, request):
        self.asked += 1
        return await self.turn(request, self)


def far(model):
    grant = "model.call:far/models.example"
    return memory_hive(adapters=[model]), RunOptions(model="far:x", grants=(grant,))


@pytest.mark.promise("P-202")
async def test_a_models_turn_ends_with_the_right_to_ask_it_and_is_not_asked_again():
    async def turn(request, model):
        model.begun.set()
        await anyio.sleep_forever()

    model = Elsewhere(turn)
    model.begun = anyio.Event()
    opening, options = far(model)
    async with opening as hive, anyio.create_task_group() as group:
        group.start_soon(revoking, hive, model, "model.call")
        with anyio.fail_after(300):
            run = await hive.run("go", options=options)
        assert (run["status"], run["error"]["code"]) == ("failed", "right_revoked")
        assert model.asked == 1
        again = await hive.replay(run["run_id"])
        assert again.ok


async def test_a_right_that_is_gone_between_two_attempts_is_not_used_by_the_second(monkeypatch):
    monkeypatch.setattr("clawhive_core.runs.models.retry_delay", lambda *_: 0.0)

    async def turn(request, model):
        revoke(hive, "model.call")
        raise ModelError("busy", code="overloaded")

    opening, options = far(model := Elsewhere(turn))
    async with opening as hive:
        run = await hive.run("go", options=options)
        assert (run["status"], run["error"]["code"]) == ("failed", "approval_required")
        assert model.asked == 1
