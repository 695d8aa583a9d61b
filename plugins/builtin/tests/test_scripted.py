import json

import pytest

from clawhive_builtin.scripted import ScriptedAdapter
from clawhive_core import LlmMessage, LlmRequest, LlmResponse, ModelError, ToolResult


def ask(model, *messages):
    return LlmRequest(model, messages)


def prompt(text="hello"):
    return LlmMessage.text("user", text)


def said(response):
    return LlmMessage("assistant", response.content)


def result(call_id, **fields):
    return LlmMessage("user", (ToolResult(call_id, **fields),))


LISTED = {"path": ".", "entries": [{"path": "a.py"}, {"path": "b.py"}], "truncated": False}
REFUSED = {"error": "denied", "message": "that folder is not yours.", "reason": "rights"}


async def play(adapter, first, second, *before):
    messages = [*before, prompt()]
    one = await adapter.chat(ask("demo", *messages))
    messages += [said(one), first]
    two = await adapter.chat(ask("demo", *messages))
    messages += [said(two), second]
    three = await adapter.chat(ask("demo", *messages))
    return one, two, three, messages


async def test_the_demo_looks_tries_what_is_denied_and_tells_both():
    one, two, three, _ = await play(
        ScriptedAdapter(),
        result("call_1_2", output="...", structured=LISTED),
        result("call_2_2", output="...", is_error=True, structured=REFUSED),
    )
    (call,), (again,) = one.tool_calls, two.tool_calls
    assert (call.id, call.name, call.input) == ("call_1_2", "file.list", {"path": "."})
    assert (again.id, again.input) == ("call_2_2", {"path": ".."})
    assert (one.stop_reason, three.stop_reason) == ("tool_use", "end_turn")
    assert three.text == (
        "In the project's folder I found 2 entries: a.py, b.py. Looking at the folder above it was"
        " refused: that folder is not yours (denied)."
    )


async def test_the_demo_tells_what_really_happened_when_it_is_the_other_way_round():
    _, _, three, _ = await play(
        ScriptedAdapter(),
        result("call_1_2", output="the user said no", is_error=True),
        result("call_2_2", output=json.dumps(LISTED)),
    )
    assert "found nothing, because the call was refused: the user said no." in three.text
    assert "was allowed; there I found 2 entries: a.py, b.py." in three.text


async def test_the_demo_survives_results_of_any_shape():
    for odd in ({"output": ""}, {"output": "[]"}, {"output": "x", "structured": [1]}):
        _, _, three, _ = await play(
            ScriptedAdapter(), result("call_1_2", **odd), result("call_2_2", is_error=True, **odd)
        )
        assert three.text


async def test_the_demo_starts_anew_with_each_prompt_and_then_is_exhausted():
    adapter = ScriptedAdapter()
    listed = result("call_1_2", output="", structured=LISTED)
    denied = result("call_2_2", output="", structured=REFUSED, is_error=True)
    first = await play(adapter, listed, denied)
    history = [*first[3], said(first[2])]
    second = await play(adapter, listed, denied, *history)
    assert second[:3] == first[:3]
    with pytest.raises(ModelError) as caught:
        await adapter.chat(ask("demo", *second[3], said(second[2])))
    assert caught.value.code == "script_exhausted"


async def test_equal_requests_get_equal_answers_in_any_order():
    adapter = ScriptedAdapter()
    request = ask("demo", prompt())
    assert await adapter.chat(request) == await adapter.chat(request)


async def test_a_file_is_played_in_order_over_the_conversation(tmp_path):
    script = ["Hello.", {"text": "Let me see", "tool_calls": [{"name": "file.list"}]}, "Done."]
    (tmp_path / "talk.json").write_text(json.dumps(script), encoding="utf-8")
    adapter = ScriptedAdapter(str(tmp_path))
    one = await adapter.chat(ask("talk.json", prompt()))
    two = await adapter.chat(ask("talk.json", prompt(), said(one), prompt("more")))
    assert one == LlmResponse(one.content, "end_turn")
    assert one.text == "Hello."
    assert (two.tool_calls[0].id, two.stop_reason) == ("call_2_2", "tool_use")


async def test_a_stream_ends_with_the_whole_answer():
    events = [event async for event in ScriptedAdapter().stream(ask("demo", prompt()))]
    assert [event.kind for event in events] == ["text", "tool_use", "done"]
    assert events[-1].response == await ScriptedAdapter().chat(ask("demo", prompt()))


@pytest.mark.parametrize("name", ["other", "", "missing.json", "\0.json", "folder.json"])
async def test_an_unknown_script_is_refused_with_the_known_ones(tmp_path, name):
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(ModelError) as caught:
        await ScriptedAdapter(str(tmp_path)).chat(ask(name, prompt()))
    assert caught.value.code == "unknown_script"
    assert caught.value.data == {"known": ["demo", "FILE.json"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        '{"text": "x"}',
        "[1]",
        "[{}]",
        '[{"texts": "x"}]',
        '[{"tool_calls": [{}]}]',
        '[{"tool_calls": [1]}]',
        '[{"content": [{"type": "nonsense"}]}]',
        '[{"text": "x", "usage": {"nonsense": 1}}]',
        "[" * 100_000,
    ],
)
async def test_a_broken_script_is_refused_with_its_place(tmp_path, text):
    (tmp_path / "s.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        await ScriptedAdapter(str(tmp_path)).chat(ask("s.json", prompt()))
    assert caught.value.code == "invalid_script"
    assert caught.value.place.startswith(str(tmp_path / "s.json"))
