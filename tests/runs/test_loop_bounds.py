"""What bounds a loop: repetition, budgets, cut answers, failing providers, long conversations."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import ModelError, RunError
from clawhive_core.model.failures import model_failure
from clawhive_core.model.messages import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    ProviderBlock,
    TextBlock,
    Usage,
)
from clawhive_core.model.tools import ToolCall, ToolResult
from clawhive_core.runs.budget import Budget, BudgetLimits
from clawhive_core.runs.loop import ClearOldResults, Repetition
from clawhive_core.runs.models import MOST_ASKED_SECONDS, MOST_SECONDS, retry_delay
from clawhive_core.testing import ScriptedModel, calling, memory_hive

MODEL = "scripted:test"


def raising(error):
    def answer(request):
        raise error

    return answer


def results(model, request=-1):
    return [b for b in model.requests[request].messages[-1].content if isinstance(b, ToolResult)]


@pytest.mark.promise("P-106")
async def test_the_third_equal_call_in_a_row_is_not_made(tools):
    model = ScriptedModel([*[calling("test.echo", {"n": 1})] * 3, "never"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["error"]["code"]) == ("failed", "repeated_call")
        assert len(tools.calls) == 2
        assert (await hive.replay("last")).ok


async def test_equal_calls_side_by_side_count_too(tools):
    same = tuple(ToolCall("", "test.echo", {"n": 1}) for _ in range(3))
    async with memory_hive(
        providers=[tools], adapters=[ScriptedModel([LlmResponse(same, "tool_use"), "never"])]
    ) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "repeated_call"
    assert tools.calls == []


async def test_other_arguments_or_another_tool_between_are_no_repetition(tools):
    tools.add("test.other", lambda given, ctx: "x")
    turns = [
        calling("test.echo", {"n": 1}),
        calling("test.echo", {"n": 1}),
        calling("test.other", {}),
        calling("test.echo", {"n": 1}),
        calling("test.echo", {"n": 2}),
        calling("test.echo", {"n": 1}),
    ]
    async with memory_hive(providers=[tools], adapters=[ScriptedModel([*turns, "ok"])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["output"] == "ok"


async def test_the_order_of_keys_makes_no_other_call(tools):
    turns = [
        calling("test.echo", {"a": 1, "b": 2}),
        calling("test.echo", {"b": 2, "a": 1}),
        calling("test.echo", {"a": 1, "b": 2}),
    ]
    async with memory_hive(providers=[tools], adapters=[ScriptedModel([*turns, "ok"])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "repeated_call"


@pytest.mark.promise("P-106")
async def test_a_polling_tool_may_be_asked_again_as_long_as_its_answers_differ(tools):
    states = iter(["queued", "running", "running", "done"])
    tools.add("test.state", lambda given, ctx: next(states), polling=True)
    model = ScriptedModel([*[calling("test.state", {})] * 4, "It is done."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "It is done."
        assert (await hive.replay("last")).ok


async def test_a_polling_tool_that_answers_the_same_three_times_stops_the_loop(tools):
    tools.add("test.state", lambda given, ctx: "queued", polling=True)
    model = ScriptedModel([*[calling("test.state", {})] * 5, "never"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["error"]["code"], len(tools.calls)) == ("repeated_call", 3)
        assert (await hive.replay("last")).ok


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "content_filter"])
async def test_the_calls_of_an_answer_that_was_cut_are_not_made(tools, reason):
    cut = LlmResponse((TextBlock("I will"), ToolCall("c1", "test.echo", {})), reason)
    async with memory_hive(providers=[tools], adapters=[ScriptedModel([cut])]) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == f"model_{reason}"
    assert "I will" in run["error"]["message"]
    assert run["error"]["fix"]
    assert tools.calls == []


async def test_a_paused_turn_goes_on_with_its_own_message_sent_back(tools):
    block = ProviderBlock("scripted", {"type": "server_tool_use", "id": "s1"})
    model = ScriptedModel([LlmResponse((block,), "pause_turn"), "Found."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "Found."
        assert model.requests[1].messages[-1] == LlmMessage("assistant", (block,))
        assert (await hive.replay("last")).ok


async def test_a_model_that_pauses_for_ever_is_stopped_by_the_bound_of_rounds():
    paused = LlmResponse((ProviderBlock("scripted", {"type": "x"}),), "pause_turn")
    async with memory_hive(adapters=[ScriptedModel([paused] * 9)]) as hive:
        run = await hive.run("go", model=MODEL, max_tool_rounds=3)
    assert run["error"]["code"] == "max_tool_rounds"


@pytest.mark.promise("P-107")
async def test_arguments_that_are_no_json_are_told_to_the_model_and_nothing_runs(tools):
    wrong = LlmResponse((ToolCall("c1", "test.echo", {}, malformed='{"n": '),), "tool_use")
    model = ScriptedModel([wrong, calling("test.echo", {"n": 1}), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "ok"
        (refused,) = results(model, 1)
        assert refused.structured["error"] == "invalid_input"
        assert "no JSON" in refused.structured["message"]
        assert tools.calls == [("test.echo", {"n": 1})]
        assert (await hive.replay("last")).ok


def nested(levels):
    value = "end"
    for _ in range(levels):
        value = {"n": value}
    return value


@pytest.mark.promise("P-107")
@pytest.mark.parametrize("levels", [101, 250, 900, 5_000])
async def test_arguments_that_are_nested_too_deep_are_told_to_the_model(tools, levels):
    deep = LlmResponse((ToolCall("c1", "test.echo", nested(levels)),), "tool_use")
    model = ScriptedModel([deep, calling("test.echo", {"n": 1}), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "ok"
        (refused,) = results(model, 1)
        assert refused.structured["error"] == "invalid_input"
        assert "100 levels" in refused.structured["message"]
        assert tools.calls == [("test.echo", {"n": 1})]
        assert (await hive.replay("last")).ok
        assert (await hive.replay("last", "model")).new_run_id is not None


async def test_arguments_of_a_hundred_levels_are_passed_on(tools):
    model = ScriptedModel([calling("test.echo", nested(100)), "ok"])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        assert (await hive.run("go", model=MODEL))["output"] == "ok"
    assert tools.calls == [("test.echo", nested(100))]


async def test_a_deep_call_repeated_is_noticed_and_its_provider_words_stay_readable(tools):
    call = ToolCall("c1", "test.echo", nested(900), native={"scripted": nested(900)})
    model = ScriptedModel([LlmResponse((call,), "tool_use")] * 3)
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    assert run["error"]["code"] == "repeated_call"


def busy(code="overloaded", **more):
    return raising(model_failure(code, "busy", status=529, retry_after=0, **more))


@pytest.mark.promise("P-108")
async def test_a_failure_that_may_pass_is_tried_again_and_recorded():
    model = ScriptedModel([busy(), busy("rate_limited"), "Hello."])
    async with memory_hive(adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "Hello."
        retries = [e.event.body for e in hive.log.events() if e.event.kind == "model.retry"]
        assert [body["error"]["code"] for body in retries] == ["overloaded", "rate_limited"]
        assert (await hive.replay("last")).ok


async def test_the_retries_end_and_the_last_failure_is_the_runs():
    model = ScriptedModel([busy()] * 9)
    async with memory_hive(adapters=[model], settings={"models.scripted.max_retries": 1}) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == "overloaded"
        assert len(model.requests) == 2
        assert (await hive.replay("last")).ok


async def test_what_cannot_pass_is_not_tried_again():
    model = ScriptedModel([raising(model_failure("authentication_failed", "no", status=401)), "x"])
    async with memory_hive(adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL)
    assert (run["error"]["code"], len(model.requests)) == ("authentication_failed", 1)
    assert run["error"]["fix"]


@given(
    st.sampled_from([True, False, None]),
    st.none() | st.floats(0, 1000),
    st.integers(1, 20),
    st.integers(0, 10),
    st.floats(0, 1),
)
def test_a_delay_is_bounded_and_honours_what_the_provider_asks(retryable, asked, n, most, chance):
    data = {"retryable": retryable} | ({} if asked is None else {"retry_after": asked})
    wait = retry_delay(ModelError("x", data=data), n, most, chance)
    if n > most or retryable is not True or (asked or 0) > MOST_ASKED_SECONDS:
        assert wait is None
    elif asked is not None:
        assert wait == asked
    else:
        assert wait is not None
        assert 0 <= wait <= min(MOST_SECONDS, 2.0 ** (n - 1))


def spent(answer, tokens=0, cost=None):
    from dataclasses import replace

    usage = Usage(input_tokens=tokens, output_tokens=0, cost=cost)
    response = LlmResponse((TextBlock(answer),)) if isinstance(answer, str) else answer
    return replace(response, usage=usage)


@pytest.mark.promise("P-109")
@pytest.mark.parametrize(
    ("limit", "usage"), [({"budget.tokens": 100}, (60, None)), ({"budget.cost": 1.0}, (0, 0.6))]
)
async def test_a_spent_budget_ends_the_run_before_the_next_request(tools, limit, usage):
    turns = [spent(calling("test.echo", {"n": n}), *usage) for n in range(9)]
    model = ScriptedModel(turns)
    async with memory_hive(providers=[tools], adapters=[model], settings=limit) as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["error"]["code"]) == ("failed", "budget_exceeded")
        assert len(model.requests) == 2
        assert run["usage"]["input_tokens"] == usage[0] * 2
        assert (await hive.replay("last")).ok


async def test_a_budget_of_no_seconds_asks_no_model():
    async with memory_hive(adapters=[ScriptedModel(["x"])], settings={"budget.seconds": 0}) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["error"]["code"] == "budget_exceeded"
        assert (await hive.replay("last")).ok


class Hanging(ScriptedModel):
    async def chat(self, request):
        await anyio.sleep_forever()


@pytest.mark.promise("P-109")
@pytest.mark.parametrize(
    ("budget", "timeout_sec", "code", "key"),
    [
        (0.05, 60, "budget_exceeded", "budget.seconds"),
        (60, 0.05, "timeout", "models.scripted.timeout_sec"),
    ],
)
async def test_a_model_that_hangs_ends_with_the_limit_that_was_the_lower(
    budget, timeout_sec, code, key
):
    settings = {"budget.seconds": budget, "models.scripted.timeout_sec": timeout_sec}
    async with memory_hive(adapters=[Hanging([])], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
        assert (run["status"], run["error"]["code"]) == ("failed", code)
        assert key in run["error"]["fix"]
        assert "scripted:test" in run["error"]["message"]
        assert (await hive.replay("last")).ok


async def test_an_agents_own_budget_holds_where_it_is_lower(tools):
    turns = [spent(calling("test.echo", {"n": n}), 60) for n in range(9)]
    settings = {"agents.small.budget.tokens": 100, "budget.tokens": 1000}
    model = ScriptedModel(turns)
    async with memory_hive(providers=[tools], adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL, agent="small")
    assert (run["error"]["code"], len(model.requests)) == ("budget_exceeded", 2)


def test_what_a_child_uses_counts_above_and_what_is_left_is_the_least():
    now = [0.0]
    top = Budget(BudgetLimits(tokens=100, seconds=10), clock=lambda: now[0])
    child = top.below(BudgetLimits(tokens=80, cost=1.0))
    child.charge(Usage(input_tokens=30, output_tokens=20, cost=0.25))
    now[0] = 4.0
    assert child.left() == BudgetLimits(tokens=30, cost=0.75, seconds=6.0)
    top.charge(Usage(input_tokens=40))
    assert child.left().tokens == 10
    now[0] = 11.0
    with pytest.raises(ModelError, match="no seconds"):
        child.check()


async def test_listeners_get_the_answer_piece_by_piece_and_learn_that_it_begins_anew(tools):
    seen = []
    model = ScriptedModel([calling("test.echo", {}, "First."), busy(), "Done."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        run = await hive.run("go", model=MODEL, on_signal=seen.append, stream=True)
        assert run["output"] == "Done."
        assert (await hive.replay("last")).ok
    told = [(s.kind, s.text) for s in seen if s.kind in {"text", "again"}]
    assert told == [("text", "First."), ("again", "busy"), ("text", "Done.")]


async def test_a_stream_without_an_end_is_a_failure():
    class Endless(ScriptedModel):
        async def stream(self, request):
            async for event in super().stream(request):
                if event.kind != "done":
                    yield event

    async with memory_hive(adapters=[Endless(["half"])]) as hive:
        run = await hive.run("go", model=MODEL, stream=True)
    assert run["error"]["code"] == "invalid_response"


@pytest.mark.promise("P-110")
async def test_a_prompt_in_the_same_session_goes_on_with_what_was_said(tools):
    model = ScriptedModel([calling("test.echo", {"n": 1}), "My name is Ada.", "Ada.", "New."])
    async with memory_hive(providers=[tools], adapters=[model]) as hive:
        await hive.run("Who are you?", model=MODEL, session="conv_1")
        run = await hive.run("Again?", model=MODEL, session="conv_1")
        assert run["output"] == "Ada."
        assert (await hive.replay("last")).ok
        said = [(m.role, LlmResponse(m.content).text) for m in model.requests[2].messages]
        assert said == [
            ("user", "Who are you?"),
            ("assistant", ""),
            ("user", ""),
            ("assistant", "My name is Ada."),
            ("user", "Again?"),
        ]
        await hive.run("Other.", model=MODEL, session="conv_2")
    assert len(model.requests[3].messages) == 1


async def test_a_failed_run_is_no_part_of_the_conversation():
    model = ScriptedModel(["One.", raising(ModelError("no")), "Three."])
    async with memory_hive(adapters=[model]) as hive:
        for prompt in ("1?", "2?", "3?"):
            await hive.run(prompt, model=MODEL, session="conv_1")
    texts = [LlmResponse(m.content).text for m in model.requests[2].messages]
    assert texts == ["1?", "One.", "3?"]


async def test_a_long_conversation_loses_old_results_and_the_run_repeats(tools):
    tools.add("test.long", lambda given, ctx: "x" * 5000)
    turns = [spent(calling("test.long", {"n": n}), tokens=n * 100) for n in range(1, 8)]
    model = ScriptedModel([*turns, "ok"])
    settings = {"loop.compact_at_tokens": 450}
    async with memory_hive(providers=[tools], adapters=[model], settings=settings) as hive:
        run = await hive.run("go", model=MODEL)
        assert run["output"] == "ok"
        sent = [m.content[0].output for m in model.requests[-1].messages[2::2]]
        assert sent[0].startswith("[cleared: 5000 characters")
        assert sent[-1] == "x" * 5000
        assert (await hive.replay("last")).ok


class Summing:
    """Asks a model for a summary of all that was said, and perhaps goes on with that."""

    def __init__(self, *, shortens):
        self.shortens = shortens

    async def compact(self, messages, usage, complete):
        del usage
        asked = LlmMessage.text("user", "Sum up.")
        request = LlmRequest(MODEL, (*messages, asked))
        summary = (await complete(request)).text
        await complete(replace(request, messages=tuple(messages)))
        short = [messages[0], LlmMessage.text("assistant", summary), *messages[-2:]]
        return short if self.shortens else messages


@pytest.mark.promise("P-194")
@pytest.mark.parametrize(
    "shorter",
    [Summing(shortens=True), Summing(shortens=False), ClearOldResults(0, kept=1, long=1)],
)
async def test_what_a_compaction_asked_is_no_part_of_the_conversation_that_goes_on(
    appending, shorter
):
    asked = ["a summary", "unused"] if isinstance(shorter, Summing) else []
    first, second = (
        spent(calling(name, {"path": name}), tokens=9) for name in ("test.note", "test.keep")
    )
    model = ScriptedModel([first, *asked, second, *asked, "kept", "yes"])
    async with memory_hive(providers=[appending], adapters=[model]) as hive:
        hive._orchestrator.compaction = shorter
        await hive.run("keep it", model=MODEL, session="conv_1")
        hive.approvals.resolve("last", "approve", by="user:ana")
        assert (await hive.resume("last"))["output"] == "kept"
        turn = model.requests[-1].messages
        assert (await hive.replay("last")).ok
        await hive.run("did you?", model=MODEL, session="conv_1")
        assert (await hive.replay("last")).ok
    went_on = model.requests[-1].messages
    assert went_on[:-2] == turn
    assert [LlmResponse(each.content).text for each in went_on[-2:]] == ["kept", "did you?"]
    assert "Sum up." not in str(went_on) + str(turn)


async def test_a_conversation_below_the_bound_stays_the_same_object():
    messages = [LlmMessage("user", (ToolResult("c", "x" * 999),)) for _ in range(9)]
    clear = ClearOldResults(at_tokens=10)
    assert await clear.compact(messages, Usage(input_tokens=10), None) is messages
    shorter = await clear.compact(messages, Usage(input_tokens=11), None)
    assert await clear.compact(shorter, Usage(input_tokens=11), None) is shorter


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": [1], "b": None}, {"b": None, "a": [1]}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": "1"}, {"a": 1}, False),
    ],
)
def test_arguments_are_equal_where_their_json_is(one, other, equal):
    repetition = Repetition(frozenset())
    given = (one, other, one)
    calls = [ToolCall(f"call_{index}", "test.echo", each) for index, each in enumerate(given)]
    if not equal:
        repetition.ask(calls)
        return
    with pytest.raises(RunError, match="3 times in a row"):
        repetition.ask(calls)


def test_bottomless_arguments_are_left_to_the_executor():
    def deep():
        made = {}
        for _ in range(20_000):
            made = {"a": made}
        return made

    repetition = Repetition(frozenset())
    one, other = deep(), deep()
    repetition.ask([ToolCall("call_1", "t", one), ToolCall("call_2", "t", other)])
    while one:  # freeing them at once would exhaust the stack
        one, other = one["a"], other["a"]
