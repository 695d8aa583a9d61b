"""The tool-use loop on a scripted model."""

import json
import re

import anyio
import pytest

from clawhive_core.errors import ModelError, UnknownModel
from clawhive_core.model.messages import LlmResponse, TextBlock, Usage
from clawhive_core.model.tools import ToolCall, ToolResult
from clawhive_core.runs.requests import RunOptions
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"


def several(*calls):
    return LlmResponse(tuple(ToolCall("", name, given) for name, given in calls), "tool_use")


def results(model, request=-1):
    """Return the tool results in the last message of a request."""
    return [b for b in model.requests[request].messages[-1].content if isinstance(b, ToolResult)]


async def test_rounds_go_on_until_the_model_answers_in_text(tools):
    model = ScriptedModel(
        [calling("test.echo", {"n": 1}, "First."), calling("test.echo", {"n": 2}), "Done."]
    )
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["status"], run["output"]) == ("succeeded", "Done.")
    assert [given["n"] for _, given in tools.calls] == [1, 2]
    assert [step["action"] for step in run["steps"]] == ["tool_call", "tool_call", "respond"]
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    assert results(model)[0].structured == {"n": 2}


async def test_parallel_calls_run_together_and_are_answered_in_call_order(tools):
    late = anyio.Event()

    async def slow(input, ctx):
        await late.wait()
        return "slow"

    def quick(input, ctx):
        late.set()
        return "quick"

    tools.add("test.slow", slow, timeout_ms=300_000).add("test.quick", quick)
    model = ScriptedModel([several(("test.slow", {}), ("test.quick", {})), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    assert [result.output for result in results(model)] == ["slow", "quick"]
    assert [result.tool_call_id for result in results(model)] == ["call_1_1", "call_1_2"]
    assert run["status"] == "succeeded"


async def test_more_parallel_calls_than_run_at_once_are_all_answered(tools):
    calls = [("test.echo", {"n": number}) for number in range(30)]
    model = ScriptedModel([several(*calls), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("go", model=MODEL)
    assert [result.structured["n"] for result in results(model)] == list(range(30))


async def test_a_refusal_reaches_the_model_with_its_next_step(tools):
    tools.add("test.write", lambda given, ctx: "written", effects={"path": "fs.write"})
    model = ScriptedModel([calling("test.write", {"path": "/etc/x"}), "I may not."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    (refused,) = results(model)
    assert refused.is_error
    assert refused.structured["error"] == "denied"
    assert refused.structured["reason"] == "rights"
    assert refused.structured["next"]["capabilities"] == ["fs.write:/etc/x"]
    assert json.loads(refused.output) == refused.structured
    assert (run["status"], run["steps"][0]["status"]) == ("succeeded", "failed")
    hint = run["steps"][0]["error"]["next"]["hint"]
    assert hint.endswith("from Python with `grants=['fs.write:/etc/x']`")


async def test_what_the_refusal_names_lifts_it(tools):
    tools.add("test.write", lambda given, ctx: "written", effects={"path": "fs.write"})
    script = [calling("test.write", {"path": "/srv/out.txt"}), "ok"]
    async with memory_hive(providers=[tools], adapters=[ScriptedModel(script * 2)]) as hive:
        refused = await hive.run("go", model=MODEL)
        grants = refused["steps"][0]["error"]["next"]["capabilities"]
        allowed = await hive.run("go", model=MODEL, grants=grants)
    assert allowed["steps"][0]["status"] == "succeeded"


async def test_the_loop_ends_after_the_most_rounds(tools):
    model = ScriptedModel([calling("test.echo", {"n": n}) for n in range(9)])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL, max_tool_rounds=3)
    assert (run["status"], run["error"]["code"]) == ("failed", "max_tool_rounds")
    assert len(tools.calls) == 3
    assert "--max-tool-rounds" in run["error"]["fix"]


async def test_the_bound_comes_from_the_configuration_where_no_option_says_it(tools):
    model = ScriptedModel([calling("test.echo", {"n": n}) for n in range(9)])
    settings = {"loop.max_tool_rounds": 1}
    async with memory_hive(providers=[tools], adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "max_tool_rounds"
    assert len(tools.calls) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (LlmResponse((TextBlock("cut"),), "max_tokens"), "model_max_tokens"),
        (LlmResponse((), "refusal"), "model_refusal"),
        (LlmResponse((), "content_filter"), "model_content_filter"),
    ],
)
async def test_a_stop_that_is_no_answer_fails_the_run(answer, code):
    async with memory_hive(adapters=[ScriptedModel([answer])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["status"], run["error"]["code"]) == ("failed", code)


async def test_a_model_that_fails_fails_the_run_with_its_code_and_fix():
    async with memory_hive(adapters=[ScriptedModel([])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "script_exhausted"
    assert run["error"]["fix"]


async def test_an_adapter_that_crashes_fails_the_run_and_not_the_hive():
    def crash(request):
        raise RuntimeError("no such luck")

    async with memory_hive(adapters=[ScriptedModel([crash, "fine"])]) as hive:
        run = await hive.run("go", model=MODEL)
        after = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "provider_error"
    assert "RuntimeError: no such luck" in run["error"]["message"]
    assert after["output"] == "fine"


async def test_an_adapter_that_answers_no_response_fails_the_run():
    class Wrong(ScriptedModel):
        async def chat(self, request):
            return {"text": "hi"}

    async with memory_hive(adapters=[Wrong([])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["status"], run["error"]["code"]) == ("failed", "provider_error")


async def test_a_model_that_hangs_is_given_up_at_the_deadline():
    class Silent(ScriptedModel):
        async def chat(self, request):
            await anyio.sleep_forever()

    settings = {"models.scripted.timeout_sec": 0.01}
    async with memory_hive(adapters=[Silent([])], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "timeout"


async def test_tokens_and_cost_are_summed():
    def spent(text, number):
        return LlmResponse(
            (TextBlock(text),) if text else (ToolCall("c", "test.no", {}),),
            "end_turn" if text else "tool_use",
            Usage(input_tokens=number, output_tokens=2, cost=0.5),
        )

    async with memory_hive(adapters=[ScriptedModel([spent("", 10), spent("x", 30)])]) as hive:
        run = await hive.run("go", model=MODEL)
    used = run["usage"]
    assert (used["input_tokens"], used["output_tokens"], used["cost"]) == (40, 4, 1.0)
    assert used["cache_read_tokens"] is None


async def test_a_tool_that_does_not_exist_is_a_refusal_and_the_loop_goes_on():
    model = ScriptedModel([calling("test.nope", {}), "sorry"])
    async with memory_hive(adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    assert results(model)[0].structured["error"] == "tool_not_found"
    assert run["output"] == "sorry"


async def test_the_stub_is_not_offered_to_a_model(tools):
    settings = {"plugins.enabled": ["builtin"]}
    model = ScriptedModel(["ok"], name="mine")
    async with memory_hive(providers=[tools], adapters=[model], settings=settings) as hive:
        await hive.run("go", model="mine:x")
        assert hive.catalog.current.find("web.search") is not None
    offered = {tool.name for tool in model.requests[0].tools}
    assert "web.search" not in offered
    assert {"test.echo", "file.read", "sandbox.exec"} <= offered


async def test_policy_may_forbid_a_model():
    settings = {"policy.deny": ["model.call:scripted"]}
    async with memory_hive(adapters=[ScriptedModel(["x"])], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["status"], run["error"]["code"]) == ("failed", "denied")


async def test_another_host_than_the_adapters_own_needs_a_right_of_its_own():
    class Elsewhere(ScriptedModel):
        host = "gateway.example.com"
        default_host = "api.example.com"

    async with memory_hive(adapters=[Elsewhere(["x", "x"])]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == "approval_required"
        grant = re.search(r"grants=\['(.+)'\]", run["error"]["fix"])[1]
        allowed = await hive.run("go", model=MODEL, grants=[grant])
    assert allowed["status"] == "succeeded"


@pytest.mark.parametrize(
    ("model", "fix"),
    [
        ("scriptd:x", "did you mean `scripted:x`?"),
        ("scripted", "did you mean `scripted:NAME`?"),
        ("zzz:x", "installed: scripted:NAME"),
        (":", "installed: scripted:NAME"),
    ],
)
async def test_an_unknown_model_is_wrong_usage_and_records_nothing(model, fix):
    async with memory_hive(adapters=[ScriptedModel([])]) as hive:
        with pytest.raises(UnknownModel) as caught:
            await hive.run("go", model=model)
        assert hive.log.read("SELECT count(*) FROM runs")[0][0] == 0
    assert fix in caught.value.fix
    assert caught.value.exit_code == 2


async def test_a_tool_may_ask_the_model_under_the_same_rights(tools):
    from clawhive_core.model.messages import LlmMessage, LlmRequest

    async def ask(input, ctx):
        response = await ctx.complete(LlmRequest(MODEL, (LlmMessage.text("user", "2+2?"),)))
        return response.text

    tools.add("test.ask", ask)
    model = ScriptedModel([calling("test.ask", {}), "4", "The answer is 4."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        report = await hive.replay("last")
    assert run["output"] == "The answer is 4."
    assert report.ok


async def test_cancelling_a_run_records_it_as_cancelled(tools):
    started = anyio.Event()

    async def hang(input, ctx):
        started.set()
        await anyio.sleep_forever()

    tools.add("test.hang", hang)
    model = ScriptedModel([calling("test.hang", {})])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: hive.run("go", model=MODEL))
            await started.wait()
            group.cancel_scope.cancel()
        rows = hive.log.read("SELECT status FROM runs")
        owners = hive.log.read("SELECT count(*) FROM runs WHERE worker IS NOT NULL")
    assert [row[0] for row in rows] == ["cancelled"]
    assert owners[0][0] == 0


async def test_model_errors_are_recorded_so_that_the_failure_repeats():
    def down(request):
        raise ModelError("the provider is down", code="overloaded")

    async with memory_hive(adapters=[ScriptedModel([down])]) as hive:
        run = await hive.run("go", options=RunOptions(model=MODEL))
        report = await hive.replay(run["run_id"])
    assert (report.ok, report.complete) == (True, True)


@pytest.mark.promise("P-234")
async def test_what_a_model_at_a_host_is_sent_is_on_record_before_with_all_that_it_follows(tools):
    seen = []

    class Elsewhere(ScriptedModel):
        host = default_host = "models.example.com"

        async def chat(self, request):
            rows = hive.log.read("SELECT kind FROM events WHERE kind GLOB '[mi]*' ORDER BY seq")
            seen.append([row[0] for row in rows])
            return await super().chat(request)

    tools.add("test.look", lambda given, ctx: "seen", idempotent=True)
    model = Elsewhere([calling("test.look", {}), "Done."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("Look.", model=MODEL)
    assert run["output"] == "Done."
    round_ = ["model.start", "model.end", "invocation.start", "invocation.end"]
    assert seen == [["model.start"], [*round_, "model.start"]]


async def test_a_model_in_this_process_is_asked_without_waiting_for_the_log(tools):
    def held(_):
        hive.log._writer._turn.acquire()
        return calling("test.look", {})

    def released(_):
        hive.log._writer._turn.release()
        return "Done."

    tools.add("test.look", lambda given, ctx: "seen", idempotent=True)
    async with memory_hive(providers=[tools], adapters=[ScriptedModel([held, released])]) as hive:
        run = await hive.run("Look.", model=MODEL)
    assert run["output"] == "Done."


@pytest.mark.promise("P-233")
async def test_what_a_session_is_told_is_on_record(tools):
    tools.add("test.look", lambda given, ctx: "seen", idempotent=True)
    async with memory_hive(providers=[tools]) as hive, hive.session() as session:
        for number in range(1, 4):
            assert await session.call("test.look", {}) == "seen"
            ended = "SELECT count(*) FROM events WHERE kind = 'invocation.end'"
            assert hive.log.read(ended)[0][0] == number
