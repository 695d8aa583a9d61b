import pytest

from clawhive_core.errors import ModelError
from clawhive_core.model.messages import LlmMessage, LlmRequest, LlmResponse, TextBlock
from clawhive_core.testing.scripted import ScriptedModel, calling

REQUEST = LlmRequest("any", (LlmMessage.text("user", "hello"),))


async def test_answers_come_in_order_and_requests_are_kept():
    model = ScriptedModel(["one", LlmResponse((TextBlock("two"),))])
    assert [(await model.chat(REQUEST)).text for _ in range(2)] == ["one", "two"]
    assert model.requests == [REQUEST, REQUEST]


async def test_a_function_answers_from_the_request():
    model = ScriptedModel([lambda request: request.messages[0].content[0].text.upper()])
    assert (await model.chat(REQUEST)).text == "HELLO"


async def test_tool_calls_get_ids_that_follow_from_their_round():
    model = ScriptedModel([calling("a.b", {"x": 1}), calling("a.c", {}, "then")])
    ids = [(await model.chat(REQUEST)).tool_calls[0].id for _ in range(2)]
    assert ids == ["call_1_1", "call_2_2"]


async def test_the_end_of_the_script_is_an_error_that_says_so():
    model = ScriptedModel(["one"])
    await model.chat(REQUEST)
    with pytest.raises(ModelError) as caught:
        await model.chat(REQUEST)
    assert caught.value.code == "script_exhausted"
    assert caught.value.message == "the script has 1 answers and was asked for number 2"


async def test_a_stream_carries_the_same_answer():
    model = ScriptedModel([calling("a.b", {}, "text")], name="other")
    events = [event async for event in model.stream(REQUEST)]
    assert [event.kind for event in events] == ["text", "tool_use", "done"]
    assert events[-1].response.tool_calls[0].name == "a.b"
    assert model.name == "other"
    await model.close()
