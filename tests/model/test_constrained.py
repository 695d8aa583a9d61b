"""Tool calls as constrained responses: the schema of a choice, and what an answer means."""

import json

import jsonschema
import pytest

from clawhive_core import (
    LlmMessage,
    LlmRequest,
    LlmResponse,
    ModelError,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolProbe,
    ToolResult,
    Usage,
    choice_schema,
    constrained_request,
    constrained_response,
    model_failure,
)

READ = ToolDef(
    "file.read",
    "Read a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
TREE = ToolDef(
    "tree.add",
    "Add a tree.",
    {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"under": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                "additionalProperties": False,
            }
        },
    },
)
ASKED = LlmRequest("m", (LlmMessage.text("user", "Read a."),), tools=(READ, TREE))


def allows(schema, value):
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def call(name, **arguments):
    return {"tool": name, "arguments": arguments}


def test_the_schema_allows_calls_of_each_tool_and_an_answer():
    schema = choice_schema((READ, TREE))
    assert allows(schema, call("file.read", path="a"))
    assert allows(schema, call("tree.add", root={"under": [{"under": []}]}))
    assert allows(schema, {"answer": "Yes."})
    for wrong in (
        call("file.read"),
        call("file.read", path=1),
        call("no.tool", path="a"),
        call("tree.add", root={"under": [{"wrong": 1}]}),
        {"answer": 3},
        {"answer": "Yes.", **call("file.read", path="a")},
        {},
    ):
        assert not allows(schema, wrong)


def test_a_required_choice_has_no_answer_and_a_named_tool_is_the_only_one():
    required = constrained_request(LlmRequest("m", (), tools=(READ, TREE), tool_choice="required"))
    assert not allows(required.response_schema, {"answer": "Yes."})
    named = constrained_request(LlmRequest("m", (), tools=(READ, TREE), tool_choice="file.read"))
    assert not allows(named.response_schema, call("tree.add", root={}))
    assert allows(named.response_schema, call("file.read", path="a"))
    assert "tree.add" not in named.system


def test_an_answer_keeps_to_the_schema_that_was_asked_for():
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    request = constrained_request(LlmRequest("m", (), tools=(READ,), response_schema=wanted))
    assert allows(request.response_schema, {"answer": {"n": 1}})
    assert not allows(request.response_schema, {"answer": "one"})
    response = constrained_response(LlmResponse((TextBlock('{"answer": {"n": 1}}'),)))
    assert json.loads(response.text) == {"n": 1}


def test_the_conversation_is_told_as_text():
    messages = (
        LlmMessage.text("user", "Read a."),
        LlmMessage("assistant", (ToolCall("1", "file.read", {"path": "a"}),)),
        LlmMessage("user", (ToolResult("1", "gone", is_error=True),)),
    )
    request = constrained_request(LlmRequest("m", messages, "Be brief.", tools=(READ,)))
    assert request.tools == ()
    assert request.system.startswith("Be brief.\n\n")
    assert "Read a file." in request.system
    assert json.loads(request.messages[1].content[0].text) == call("file.read", path="a")
    assert request.messages[2].content == (TextBlock("file.read failed:\ngone"),)


def test_a_choice_is_a_call_or_an_answer_and_thinking_stays():
    thought = ThinkingBlock("Hm.")
    text = TextBlock(json.dumps(call("file.read", path="a")))
    response = constrained_response(LlmResponse((thought, text)))
    assert response.content[0] is thought
    (made,) = response.tool_calls
    assert (made.name, made.input, response.stop_reason) == ("file.read", {"path": "a"}, "tool_use")
    answered = constrained_response(LlmResponse((TextBlock('{"answer": "Yes."}'),)))
    assert (answered.text, answered.stop_reason) == ("Yes.", "end_turn")


@pytest.mark.parametrize("text", ["I would read a.", "[]", "{}", '{"tool": "x"}', '{"tool": 1}'])
def test_what_is_no_choice_is_an_error_and_no_call(text):
    with pytest.raises(ModelError) as caught:
        constrained_response(LlmResponse((TextBlock(text),)))
    assert caught.value.code == "invalid_response"


def test_a_choice_that_was_cut_is_no_call():
    response = constrained_response(LlmResponse((TextBlock('{"tool": "fi'),), "max_tokens"))
    assert (response.content, response.stop_reason) == ((), "max_tokens")


class Model:
    """Answers natively by `native`, constrained ones by `chosen`; remembers what was asked."""

    def __init__(self, native, chosen=None, ping=None):
        self.native, self.chosen, self.ping = native, chosen, ping
        self.asked = []

    async def __call__(self, request):
        if request.response_schema is not None:
            return self.say("constrained", self.chosen)
        if request.tools and request.tools[0].name == "ping":
            return self.say("ping", self.ping or self.native)
        return self.say("native", self.native)

    def say(self, kind, answer):
        self.asked.append(kind)
        if isinstance(answer, ModelError):
            raise answer
        return answer


TEXT = LlmResponse((TextBlock("I would read a."),), usage=Usage(1, 1))
CALL = LlmResponse((ToolCall("1", "file.read", {"path": "a"}),), "tool_use", Usage(1, 1))
CHOICE = LlmResponse((TextBlock(json.dumps(call("file.read", path="a"))),), usage=Usage(1, 1))
ANSWER = LlmResponse((TextBlock('{"answer": "Hm."}'),), usage=Usage(1, 1))
REFUSED = model_failure("invalid_request", "no tools here")
BUSY = model_failure("rate_limited", "wait")


async def test_a_native_call_is_proof_and_nothing_is_asked_again():
    model = Model(CALL)
    probe = ToolProbe(model)
    assert await probe.chat(ASKED) is CALL
    model.native = TEXT
    assert await probe.chat(ASKED) is TEXT
    assert model.asked == ["native", "native"]


async def test_a_text_is_believed_where_the_probe_is_called():
    model = Model(TEXT, ping=CALL)
    probe = ToolProbe(model)
    assert (await probe.chat(ASKED)).text == TEXT.text
    await probe.chat(ASKED)
    assert model.asked == ["native", "ping", "native"]


async def test_ignored_tools_are_chosen_by_the_schema_and_that_is_remembered_by_model():
    model = Model(TEXT, CHOICE)
    probe = ToolProbe(model)
    first = await probe.chat(ASKED)
    second = await probe.chat(ASKED)
    assert model.asked == ["native", "ping", "constrained", "constrained"]
    assert first.tool_calls[0].name == second.tool_calls[0].name == "file.read"
    assert first.text == TEXT.text  # a stream has said it already
    assert first.usage.input_tokens == 3
    assert not probe.avoids(LlmRequest("another", ASKED.messages, tools=ASKED.tools))


async def test_where_the_answer_was_meant_as_one_it_stays():
    response = await ToolProbe(Model(TEXT, ANSWER)).chat(ASKED)
    assert (response.content, response.stop_reason) == (TEXT.content, "end_turn")


async def test_a_server_that_refuses_tools_is_asked_without_them():
    model = Model(REFUSED, CHOICE)
    assert (await ToolProbe(model).chat(ASKED)).stop_reason == "tool_use"
    assert model.asked == ["native", "ping", "constrained"]


async def test_a_request_that_is_wrong_for_other_reasons_stays_an_error():
    with pytest.raises(ModelError, match="no tools here"):
        await ToolProbe(Model(REFUSED, ping=CALL)).chat(ASKED)


async def test_a_server_that_follows_no_schema_either_keeps_its_answer():
    model = Model(TEXT, TEXT)
    probe = ToolProbe(model)
    assert (await probe.chat(ASKED)).content == TEXT.content
    await probe.chat(ASKED)
    assert model.asked == ["native", "ping", "constrained", "native"]


async def test_a_probe_that_fails_decides_nothing():
    model = Model(TEXT, CHOICE, ping=BUSY)
    probe = ToolProbe(model)
    with pytest.raises(ModelError, match="wait"):
        await probe.chat(ASKED)
    model.ping = TEXT
    assert (await probe.chat(ASKED)).stop_reason == "tool_use"


async def test_what_is_known_is_not_asked():
    native = Model(TEXT)
    assert await ToolProbe(native, "native").chat(ASKED) is TEXT
    chosen = Model(TEXT, CHOICE)
    assert (await ToolProbe(chosen, "constrained").chat(ASKED)).stop_reason == "tool_use"
    without = Model(TEXT)
    await ToolProbe(without).chat(LlmRequest("m", ASKED.messages))
    assert (native.asked, chosen.asked, without.asked) == (["native"], ["constrained"], ["native"])
