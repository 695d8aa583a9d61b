"""Chat completions: what is sent, and what each outcome of an answer is read as."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core import (
    LlmMessage,
    MediaBlock,
    ModelError,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    WireTools,
)
from clawhive_core.testing.adapter import check_stream
from clawhive_openai import Server
from clawhive_openai.chat_request import chat_body, chat_tool
from clawhive_openai.chat_response import read_chat
from clawhive_openai.chat_stream import ChatStream


def calls_of(events):
    check_stream(events, "test")
    return [(call.name, call.input) for call in events[-1].response.tool_calls]


async def test_a_conversation_is_sent_with_one_tool_message_per_result(bench):
    body = await bench.body(
        bench.ask(
            LlmMessage.text("user", "Read."),
            LlmMessage(
                "assistant",
                (
                    TextBlock("I read."),
                    ToolCall("a", "file.read", {"path": "x"}),
                    ToolCall("b", "file.read", {"path": "y"}),
                ),
            ),
            LlmMessage("user", (ToolResult("a", "1"), ToolResult("b", "2"), TextBlock("And?"))),
            system="Be brief.",
            tools=(bench.tool,),
            tool_choice="file.read",
            temperature=0.5,
            max_tokens=9,
            options={"seed": 4, "temperature": None, "tools": [{"type": "web_search"}]},
        )
    )
    function = {"name": "file__read", "arguments": '{"path": "x"}'}
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["messages"][2]["content"] == "I read."
    assert body["messages"][2]["tool_calls"][0] == {
        "type": "function",
        "id": "a",
        "function": function,
    }
    assert [each["role"] for each in body["messages"][3:]] == ["tool", "tool", "user"]
    assert body["messages"][4] == {"role": "tool", "tool_call_id": "b", "content": "2"}
    assert body["tool_choice"] == {"type": "function", "function": {"name": "file__read"}}
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert (body["max_tokens"], body["seed"]) == (9, 4)
    assert "temperature" not in body


async def test_media_are_parts_and_what_cannot_be_sent_is_named(bench):
    def asked(*blocks):
        return bench.ask(LlmMessage("user", blocks))

    body = await bench.body(
        asked(
            TextBlock("See:"),
            MediaBlock("image", "image/png", "QUJD"),
            MediaBlock("image", "image/png", url="https://a.example/i.png"),
            MediaBlock("document", "application/pdf", "QUJD"),
            MediaBlock("document", "audio/wav", "QUJD"),
            MediaBlock("document", "text/plain", "QUJD"),
        )
    )
    parts = body["messages"][0]["content"]
    kinds = [part["type"] for part in parts]
    assert kinds == ["text", "image_url", "image_url", "file", "input_audio", "text"]
    assert parts[1]["image_url"]["url"] == "data:image/png;base64,QUJD"
    assert parts[5]["text"] == "ABC"
    with pytest.raises(ModelError, match="by URL") as caught:
        await bench.body(asked(MediaBlock("document", "application/pdf", url="https://a.example")))
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end_turn"),
        (None, "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("something_new", "other"),
    ],
)
async def test_every_reason_to_stop_has_its_outcome(bench, reason, stop):
    response = await bench.chat(bench.message(reason, content="Text."))
    assert (response.stop_reason, response.text) == (stop, "Text.")
    assert response.raw_stop_reason == reason


async def test_a_blocked_prompt_is_an_answer_without_content(bench):
    response = await bench.chat(bench.message("content_filter", content=None))
    assert (response.stop_reason, response.content) == ("content_filter", ())


async def test_calls_count_whatever_the_reason_says(bench):
    response = await bench.chat(bench.message("stop", content=None, tool_calls=[bench.call()]))
    assert response.stop_reason == "tool_use"


@pytest.mark.promise("P-138")
@pytest.mark.parametrize(
    ("written", "value", "malformed"),
    [
        ('{"path": "a"}', {"path": "a"}, None),
        ("", {}, None),
        ({"path": "a"}, {"path": "a"}, None),
        ("[1]", {}, "[1]"),
        ('{"path": ', {}, '{"path": '),
    ],
)
async def test_arguments_that_are_no_object_are_kept_as_they_were_written(
    bench, written, value, malformed
):
    answer = bench.message("tool_calls", content=None, tool_calls=[bench.call(written)])
    (call,) = (await bench.chat(answer, tools=(bench.tool,))).tool_calls
    assert (call.name, call.input, call.malformed) == ("file.read", value, malformed)


@pytest.mark.promise("P-138")
@pytest.mark.parametrize("last", ['{"path": "a', ""])
async def test_a_call_that_the_limit_cut_is_left_out(bench, last):
    calls = [bench.call('{"path": "x"}'), bench.call(last, id="call_2")]
    response = await bench.chat(bench.message("length", content="I", tool_calls=calls))
    assert response.stop_reason == "max_tokens"
    assert [call.input for call in response.tool_calls] == [{"path": "x"}]


async def test_a_call_without_an_id_gets_one_that_its_result_can_name(bench):
    calls = [bench.call(id=None), bench.call(id=""), bench.call(), bench.call()]
    answer = bench.message("tool_calls", content=None, tool_calls=calls)
    async with bench.open(answer) as (adapter, server):
        first = await adapter.chat(bench.ask())
        ids = [call.id for call in first.tool_calls]
        results = tuple(ToolResult(each, "x") for each in ids)
        await adapter.chat(
            bench.ask(LlmMessage("assistant", first.content), LlmMessage("user", results))
        )
    turn, *results = server.requests[1].body["messages"]
    assert len(set(ids)) == 4
    assert [call["id"] for call in turn["tool_calls"]] == ids
    assert [each["tool_call_id"] for each in results] == ids


async def sent_back(bench, message, **fields):
    """Return the model's turn as it goes back, and the blocks it was read to."""
    async with bench.open(bench.message("stop", **message)) as (adapter, server):
        response = await adapter.chat(bench.ask())
        results = tuple(ToolResult(call.id, "r") for call in response.tool_calls)
        user = LlmMessage("user", results or (TextBlock("Go on."),))
        await adapter.chat(bench.ask(LlmMessage("assistant", response.content), user, **fields))
    return server.requests[1].body["messages"], response.content


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "s"}]},
    ],
)
async def test_thinking_goes_back_in_the_field_it_came_in(bench, fields):
    messages, content = await sent_back(bench, {"content": "Yes.", **fields})
    assert isinstance(content[0], ThinkingBlock)
    assert content[0].text == "Hm."
    assert messages[0] == {"role": "assistant", "content": "Yes.", **fields}


async def test_parts_of_an_answer_go_back_as_parts(bench):
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
        {"type": "reference", "reference_ids": [1]},
    ]
    messages, content = await sent_back(bench, {"content": parts})
    kinds = [type(block) for block in content]
    assert kinds == [ThinkingBlock, TextBlock, ProviderBlock]
    assert messages[0]["content"] == parts


async def test_a_refusal_is_text_with_its_reason_and_goes_back_as_one(bench):
    message = {"content": None, "refusal": "I cannot."}
    response = await bench.chat(bench.message("stop", **message))
    assert (response.stop_reason, response.text) == ("refusal", "I cannot.")
    messages, _ = await sent_back(bench, message)
    assert messages[0] == {"role": "assistant", "content": None, "refusal": "I cannot."}


async def test_what_a_call_carries_beside_its_fields_goes_back(bench):
    call = bench.call('{"path":"a"}', extra_content={"google": {"thought_signature": "s"}})
    messages, _ = await sent_back(bench, {"content": None, "tool_calls": [{**call, "index": 0}]})
    assert messages[0]["tool_calls"] == [call]


async def test_a_legacy_function_call_is_answered_by_a_function_message(bench):
    function = {"name": "file__read", "arguments": '{"path":"a"}'}
    messages, content = await sent_back(bench, {"content": None, "function_call": function})
    assert isinstance(content[0], ToolCall)
    assert messages[0]["function_call"] == function
    assert messages[1] == {"role": "function", "name": "file__read", "content": "r"}


async def test_spoken_answers_go_back_by_their_id(bench):
    sound = {"id": "audio_1", "data": "QUJD", "transcript": "Hi.", "expires_at": 1}
    messages, content = await sent_back(bench, {"content": None, "audio": sound})
    assert content == (ProviderBlock("openai", {"audio": sound}),)
    assert messages[0]["audio"] == {"id": "audio_1"}


async def test_what_another_provider_made_is_sent_by_its_typed_fields_only(bench):
    other = {"anthropic": {"call": {"type": "custom"}, "refusal": True}}
    body = await bench.body(
        bench.ask(
            LlmMessage(
                "assistant",
                (
                    ThinkingBlock("Hm.", "sig", native=other),
                    ProviderBlock("anthropic", {"type": "server_tool_use"}),
                    TextBlock("Yes.", other),
                    ToolCall("x" * 70, "file.read", {"path": "a"}, native=other),
                ),
            ),
            LlmMessage("user", (ToolResult("x" * 70, "r"),)),
        )
    )
    turn, result = body["messages"]
    (call,) = turn["tool_calls"]
    assert turn["content"] == "Yes."
    assert call["function"] == {"name": "file__read", "arguments": '{"path": "a"}'}
    assert call["id"] == result["tool_call_id"]
    assert len(call["id"]) == 40


async def test_usage_counts_cached_tokens_and_takes_the_cost_that_the_server_says(bench):
    answer = bench.message(content="x")
    answer["usage"] |= {"prompt_tokens_details": {"cached_tokens": 4}, "cost": 0.25}
    usage = (await bench.chat(answer)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (10, 5, 4)
    assert usage.cost == 0.25


@pytest.mark.promise("P-138")
@pytest.mark.parametrize(
    "deltas",
    [
        # by index, interleaved
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"y"'}},
            {"index": 0, "function": {"arguments": '{"x": 1}'}},
            {"index": 1, "function": {"arguments": ": 2}"}},
        ],
        # without indexes
        [
            {"id": "a", "function": {"name": "f", "arguments": '{"x"'}},
            {"function": {"arguments": ": 1}"}},
            {"id": "b", "function": {"name": "g", "arguments": '{"y": 2}'}},
        ],
        # all under one index, by ids
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"index": 0, "id": "b", "function": {"name": "g", "arguments": '{"y": 2}'}},
        ],
        # all under one index, without ids
        [
            {"index": 0, "id": "", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"index": 0, "id": "", "function": {"name": "g", "arguments": '{"y": 2}'}},
        ],
        # a name and an id that are repeated with each piece
        [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": ": 1}"}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"y": 2}'}},
        ],
    ],
)
async def test_streamed_calls_are_put_together_however_they_are_numbered(bench, deltas):
    stream = bench.chunks(*({"tool_calls": [delta]} for delta in deltas), finish="tool_calls")
    events = await bench.stream(stream)
    assert calls_of(events) == [("f", {"x": 1}), ("g", {"y": 2})]
    assert events[-1].response.stop_reason == "tool_use"


async def test_a_stream_says_text_and_thinking_as_they_arrive(bench):
    deltas = ({"reasoning_content": "H"}, {"reasoning_content": "m."}, {"content": "Ye"})
    usage = 'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\n'
    stream = bench.chunks(*deltas, {"content": "s."}, end=False) + usage + "data: [DONE]\n\n"
    events = await bench.stream(stream)
    said = [(event.kind, event.text) for event in events[:-1]]
    assert said == [("thinking", "H"), ("thinking", "m."), ("text", "Ye"), ("text", "s.")]
    response = events[-1].response
    assert response.content == (
        ThinkingBlock("Hm.", native={"openai": {"reasoning_content": "Hm."}}),
        TextBlock("Yes."),
    )
    assert response.usage.input_tokens == 3


async def test_streamed_details_of_reasoning_are_joined_by_their_index(bench):
    def detail(**more):
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]}

    stream = bench.chunks(detail(text="H"), detail(text="m."), detail(signature="s"))
    events = await bench.stream(stream)
    (block,) = events[-1].response.content
    whole = {"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"}
    assert block.text == "Hm."
    assert block.native == {"openai": {"reasoning_details": [whole]}}


async def test_streamed_parts_and_refusals_end_in_the_same_response_as_whole_ones(bench):
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    stream = bench.chunks({"content": [part]}, {"content": [part]}, {"content": "Yes."})
    events = await bench.stream(stream)
    check_stream(events, "parts")
    assert [block.text for block in events[-1].response.content] == ["Hm.Hm.", "Yes."]
    refused = await bench.stream(bench.chunks({"refusal": "I can"}, {"refusal": "not."}))
    check_stream(refused, "refusal")
    assert refused[-1].response.stop_reason == "refusal"


@pytest.mark.promise("P-137")
async def test_an_error_in_a_stream_is_the_right_error(bench):
    stream = bench.chunks({"content": "Y"}, finish=None, end=False)
    for error, code in (
        ('{"error": {"code": 502, "message": "upstream"}}', "provider_error"),
        ('{"error": {"type": "server_error", "message": "m"}}', "provider_error"),
        ('{"error": {"code": "rate_limit_exceeded", "message": "m"}}', "rate_limited"),
        ('{"choices": [{"index": 0, "error": {"code": 429, "message": "m"}}]}', "rate_limited"),
    ):
        with pytest.raises(ModelError) as caught:
            await bench.stream(f"{stream}data: {error}\n\n")
        assert caught.value.code == code


@pytest.mark.promise("P-137")
async def test_a_stream_without_its_end_is_no_short_answer(bench):
    for end in (True, False):
        with pytest.raises(ModelError) as caught:
            await bench.stream(bench.chunks({"content": "Yes."}, finish=None, end=end))
        assert caught.value.code == "invalid_response"


async def test_a_malformed_call_goes_back_as_json_to_servers_that_would_refuse_it(bench):
    answer = {"content": None, "tool_calls": [bench.call('{"path": ')]}
    messages, _ = await sent_back(bench, answer)
    (call,) = messages[0]["tool_calls"]
    assert call["function"]["arguments"] == '{"malformed": "{\\"path\\": "}'


async def test_openai_is_sent_a_malformed_call_as_its_model_wrote_it(bench):
    server = Server(api="chat")
    table = WireTools(chat_tool).table(())
    answer = bench.message(content=None, tool_calls=[bench.call('{"path": ')])
    turn = LlmMessage("assistant", read_chat(answer, table, server).content)
    body = chat_body(bench.ask(turn), table, server)
    assert body["messages"][0]["tool_calls"] == [bench.call('{"path": ')]
    assert body["max_completion_tokens"] == 4096


CALLS = st.lists(
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=6), max_size=3),
    min_size=1,
    max_size=4,
)


@pytest.mark.promise("P-138")
@given(CALLS, st.randoms(use_true_random=False))
def test_pieces_of_calls_in_any_interleaving_make_the_same_calls(inputs, chance):
    stream = ChatStream(WireTools(chat_tool).table(()), Server())
    left = {index: [*json.dumps(value)] for index, value in enumerate(inputs)}
    for index in left:
        head = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": ""}}
        feed(stream, {"tool_calls": [head]})
    while left:
        index = chance.choice([*left])
        piece = "".join(left[index][: chance.randint(1, 5)])
        del left[index][: len(piece)]
        feed(stream, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        left = {key: rest for key, rest in left.items() if rest}
    feed(stream, {}, "tool_calls")
    assert [call.input for call in stream.finish().tool_calls] == inputs


def feed(stream, delta, finish=None):
    assert not [*stream.feed({"choices": [{"delta": delta, "finish_reason": finish}]})]


async def test_a_stream_of_another_form_is_an_invalid_response(bench):
    body = bench.chunks({"tool_calls": [{"index": {}, "id": "c", "function": {"name": "x"}}]})
    async with bench.open(body) as (adapter, _):
        error = await bench.failure(adapter, streamed=True)
    assert error.code == "invalid_response"
