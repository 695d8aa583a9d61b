"""Answers of which nothing can be used: the model is told and asked again, within bounds."""

from __future__ import annotations

import pytest

from clawhive_core.events.kinds import MODEL_END
from clawhive_core.model.messages import LlmMessage, LlmResponse, TextBlock, ThinkingBlock
from clawhive_core.runs.responses import MAX_REASKS
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"
LOST = "MALFORMED_FUNCTION_CALL"
MALFORMED = LlmResponse((), "malformed_call", raw_stop_reason=LOST)
HALF = LlmResponse((TextBlock("I will now"),), "malformed_call", raw_stop_reason=LOST)
EMPTY = LlmResponse(())
NOTHING = [
    EMPTY,
    LlmResponse((TextBlock(""),)),
    LlmResponse((TextBlock(" \n"),), "stop_sequence"),
    LlmResponse((ThinkingBlock("hm"),)),
    LlmResponse((), "other", raw_stop_reason="NEW"),
]


def house(tools, *script, **more):
    model = ScriptedModel(script)
    return model, memory_hive(providers=[tools], adapters=[model], **more)


@pytest.mark.promise("P-254")
@pytest.mark.parametrize("lost", [MALFORMED, HALF], ids=["nothing", "half"])
async def test_a_call_that_the_provider_lost_is_told_and_asked_for_again(tools, lost):
    model, opening = house(tools, lost, calling("test.echo", {"n": 1}), lost, "done")
    async with opening as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["output"]) == ("succeeded", "done")
        assert tools.calls == [("test.echo", {"n": 1})]
        (asked,) = model.requests[1].messages
        assert asked.role == "user"
        assert asked.content[0] == TextBlock("go")
        assert "could not be read" in asked.content[1].text
        assert [each.role for each in model.requests[3].messages] == ["user", "assistant", "user"]
        assert (await hive.replay("last")).ok
        assert (await hive.replay("last", "model")).new_run_id is not None


@pytest.mark.promise("P-254")
@pytest.mark.parametrize("lost", [MALFORMED, HALF], ids=["nothing", "half"])
async def test_calls_that_stay_lost_end_the_run_with_a_code(tools, lost):
    model, opening = house(tools, *[lost] * 9)
    async with opening as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["output"]) == ("failed", None)
        assert run["error"]["code"] == "model_malformed_call"
        assert LOST in run["error"]["message"]
        assert run["error"]["fix"]
        assert len(model.requests) == 1 + MAX_REASKS
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-255")
@pytest.mark.parametrize("nothing", NOTHING)
async def test_an_answer_without_content_is_no_success(tools, nothing):
    model, opening = house(tools, *[nothing] * 9)
    async with opening as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["error"]["code"]) == ("failed", "model_no_answer")
        assert run["error"]["fix"]
        assert run["steps"][-1]["action"] == "finish"
        assert len(model.requests) == 1 + MAX_REASKS
        assert (await hive.replay("last")).ok


@pytest.mark.promise("P-255")
@pytest.mark.parametrize("nothing", NOTHING)
async def test_a_model_that_fell_silent_is_asked_again(tools, nothing):
    model, opening = house(tools, calling("test.echo", {}), nothing, "done")
    async with opening as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["output"]) == ("succeeded", "done")
        assert all(each.content for each in model.requests[-1].messages)
        assert (await hive.replay("last")).ok
        said = await hive.run("more", model=MODEL, session=run["conversation_id"])
        assert said["error"]["code"] == "script_exhausted"
        assert model.requests[-1].messages[:3] == model.requests[2].messages


async def test_a_silent_model_is_asked_again_for_the_answer_to_a_plan(tools):
    _, opening = house(tools, '{"steps": []}', EMPTY, "done")
    async with opening as hive:
        run = await hive.run("go", model=MODEL, planner="llm")
        assert (run["status"], run["output"]) == ("succeeded", "done")
        assert (await hive.replay("last")).ok


async def test_a_silent_turn_is_asked_again_after_a_resume(appending):
    keep = calling("test.keep", {"path": "a"})
    model, opening = house(appending, EMPTY, keep, EMPTY, "done")
    async with opening as hive:
        assert (await hive.run("go", model=MODEL))["status"] == "waiting_approval"
        hive.approvals.resolve("last", "approve", by="user:ana")
        run = await hive.resume("last")
        assert (run["output"], len(model.requests)) == ("done", 4)
        assert (await hive.replay("last")).ok


async def test_a_pause_before_silence_keeps_the_roles_apart(tools):
    pause = LlmResponse((TextBlock("so far"),), "pause_turn")
    model, opening = house(tools, pause, EMPTY, "done")
    async with opening as hive:
        assert (await hive.run("go", model=MODEL))["output"] == "done"
    last = model.requests[-1].messages
    assert [each.role for each in last] == ["user", "assistant", "user"]
    assert last[1] == LlmMessage("assistant", pause.content)


@pytest.mark.promise("P-255")
@pytest.mark.parametrize("planner", [None, "llm"])
async def test_a_text_after_an_unknown_reason_is_kept_and_the_reason_is_said(tools, planner):
    odd = LlmResponse((TextBlock("half of it"),), "other", raw_stop_reason="A_NEW_REASON")
    script = [odd] if planner is None else ['{"steps": []}', odd]
    _, opening = house(tools, *script)
    async with opening as hive:
        run = await hive.run("go", model=MODEL, planner=planner)
        assert (run["status"], run["output"]) == ("succeeded", "half of it")
        (warning,) = run["warnings"]
        assert warning["code"] == "unknown_stop_reason"
        assert "A_NEW_REASON" in warning["message"]
        assert (await hive.replay("last")).ok


async def test_the_log_keeps_the_answers_that_were_dropped(tools):
    _, opening = house(tools, HALF, "done")
    async with opening as hive:
        await hive.run("go", model=MODEL)
        await hive.log.flush()
        ends = [each.event.body for each in hive.log.events() if each.event.kind == MODEL_END]
        assert [body["stop_reason"] for body in ends] == ["malformed_call", "end_turn"]
        assert ends[0]["raw_stop_reason"] == LOST


async def test_listeners_forget_the_half_of_an_answer_that_is_asked_for_again(tools):
    seen = []
    _, opening = house(tools, HALF, "done")
    async with opening as hive:
        await hive.run("go", model=MODEL, stream=True, on_signal=seen.append)
    told = [(each.kind, each.text) for each in seen if each.kind in {"text", "again"}]
    assert [kind for kind, _ in told] == ["text", "again", "text"]
    assert told[-1] == ("text", "done")


async def test_an_agent_of_one_call_that_says_nothing_is_an_error_its_parent_reads(tools):
    _, opening = house(
        tools,
        calling("agent.critic", {"task": "x"}),
        EMPTY,
        "it is silent",
        settings={
            "agents.critic.description": "Criticises.",
            "agents.critic.form": "call",
            "policy.allow": ["agent.spawn:critic"],
        },
    )
    async with opening as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "it is silent"
        assert run["steps"][0]["error"]["code"] == "model_no_answer"
