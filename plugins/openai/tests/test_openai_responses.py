"""The responses API: what is sent, and what each outcome of an answer is read as."""

import pytest

from clawhive_core import (
    LlmMessage,
    MediaBlock,
    ModelError,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
)
from clawhive_core.testing.adapter import check_stream

REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "q"}}
UNKNOWN = {"id": "x_1", "type": "what_comes_next", "call_id": None, "deep": {"a": [None, 1]}}


async def test_a_request_stores_nothing_and_asks_for_encrypted_reasoning(bench):
    body = await bench.body(
        bench.ask(
            system="Be brief.",
            tools=(bench.tool,),
            tool_choice="required",
            max_tokens=9,
            reasoning="low",
            response_schema={"type": "object"},
            cache_hints={"key": "conv_1"},
            options={"include": ["file_search_call.results"], "reasoning": {"summary": "auto"}},
        ),
        api="responses",
    )
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content", "file_search_call.results"]
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert (body["instructions"], body["max_output_tokens"]) == ("Be brief.", 9)
    assert (body["tool_choice"], body["prompt_cache_key"]) == ("required", "conv_1")
    assert body["tools"][0]["name"] == "file__read"
    assert body["tools"][0]["strict"] is False
    assert body["text"]["format"]["type"] == "json_schema"
    assert body["input"] == [{"role": "user", "content": "Hi."}]


async def test_models_that_cannot_reason_are_not_asked_about_it(bench):
    body = await bench.body(bench.ask(model="gpt-4o"), api="responses")
    assert "include" not in body
    assert "reasoning" not in body


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        (
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "required": ["a"],
                "additionalProperties": False,
            },
            True,
        ),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {"pattern": "x"}}}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
    ],
)
async def test_a_schema_is_strict_where_the_api_can_hold_to_it(bench, schema, strict):
    body = await bench.body(bench.ask(response_schema=schema), api="responses")
    assert body["text"]["format"]["strict"] is strict


async def test_media_are_parts(bench):
    blocks = (
        TextBlock("See:"),
        MediaBlock("image", "image/png", "QUJD"),
        MediaBlock("document", "application/pdf", "QUJD"),
        MediaBlock("document", "application/pdf", url="https://a.example/d.pdf"),
    )
    body = await bench.body(bench.ask(LlmMessage("user", blocks)), api="responses")
    kinds = [part["type"] for part in body["input"][0]["content"]]
    assert kinds == ["input_text", "input_image", "input_file", "input_file"]
    with pytest.raises(ModelError, match="audio/wav"):
        await bench.body(
            bench.ask(LlmMessage("user", (MediaBlock("document", "audio/wav", "QUJD"),))),
            api="responses",
        )


async def sent_back(bench, *items):
    """Return the items of the model's turn as they go back, and the blocks they were read to."""
    async with bench.open(bench.response(*items), api="responses") as (adapter, server):
        response = await adapter.chat(bench.ask())
        results = tuple(ToolResult(call.id, "r") for call in response.tool_calls)
        user = LlmMessage("user", results or (TextBlock("Go on."),))
        await adapter.chat(bench.ask(LlmMessage("assistant", response.content), user))
    return server.requests[1].body["input"], response


async def test_every_item_goes_back_as_it_came(bench):
    items = [
        REASONING,
        SEARCH,
        UNKNOWN,
        bench.text("Found.", phase="commentary", status="completed"),
        bench.function_call('{"path":"a"}', namespace="files"),
    ]
    sent, response = await sent_back(bench, *items)
    assert sent[:-1] == items
    assert sent[-1] == {"type": "function_call_output", "call_id": "call_1", "output": "r"}
    kinds = [type(block) for block in response.content]
    assert kinds == [ThinkingBlock, ProviderBlock, ProviderBlock, TextBlock, ToolCall]
    assert response.content[0].signature == "gAAA"
    assert response.content[0].text == "Hm."
    assert response.stop_reason == "tool_use"


async def test_a_message_of_several_parts_goes_back_once(bench):
    parts = [
        {"type": "output_text", "text": "One.", "annotations": []},
        {"type": "refusal", "refusal": "Not two."},
    ]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": parts}
    sent, response = await sent_back(bench, item, bench.text("Three.", id="msg_2"))
    assert sent[:2] == [item, bench.text("Three.", id="msg_2")]
    assert response.text == "One.Not two.Three."
    assert response.stop_reason == "refusal"


async def test_a_custom_call_is_answered_in_its_own_way(bench):
    item = {"type": "custom_tool_call", "id": "c", "call_id": "k", "name": "sql", "input": "S;"}
    sent, response = await sent_back(bench, item)
    assert response.tool_calls[0].input == {"input": "S;"}
    assert sent == [item, {"type": "custom_tool_call_output", "call_id": "k", "output": "r"}]


async def test_a_call_without_an_id_gets_one_that_its_result_names(bench):
    sent, response = await sent_back(bench, bench.function_call(call_id=None))
    assert sent[0]["call_id"] == sent[1]["call_id"] == response.tool_calls[0].id


async def test_what_another_provider_made_is_sent_by_its_typed_fields_only(bench):
    other = {"anthropic": {"item": {"type": "secret"}}}
    blocks = (
        ThinkingBlock("Hm.", "sig", native=other),
        ProviderBlock("anthropic", {"type": "server_tool_use"}),
        TextBlock("Yes.", other),
        ToolCall("t1", "file.read", {"path": "a"}, native=other),
    )
    user = LlmMessage("user", (ToolResult("t1", "r"),))
    body = await bench.body(bench.ask(LlmMessage("assistant", blocks), user), api="responses")
    assert body["input"] == [
        {"role": "assistant", "content": "Yes."},
        {
            "type": "function_call",
            "call_id": "t1",
            "name": "file__read",
            "arguments": '{"path": "a"}',
        },
        {"type": "function_call_output", "call_id": "t1", "output": "r"},
    ]


@pytest.mark.parametrize(
    ("status", "reason", "stop"),
    [
        ("completed", None, "end_turn"),
        ("incomplete", "max_output_tokens", "max_tokens"),
        ("incomplete", "content_filter", "content_filter"),
        ("incomplete", "steered", "other"),
        ("something_new", None, "other"),
    ],
)
async def test_every_status_has_its_outcome(bench, status, reason, stop):
    details = {"reason": reason} if reason else None
    answer = bench.response(bench.text("T"), status=status, incomplete_details=details)
    response = await bench.chat(answer, api="responses")
    assert (response.stop_reason, response.raw_stop_reason) == (stop, reason or status)


@pytest.mark.promise("P-138")
async def test_a_call_that_the_limit_cut_is_left_out(bench):
    cut = [
        bench.function_call('{"path": "x"}'),
        bench.function_call('{"pa', status="incomplete", call_id="call_2"),
    ]
    details = {"reason": "max_output_tokens"}
    answer = bench.response(*cut, status="incomplete", incomplete_details=details)
    response = await bench.chat(answer, api="responses")
    assert [call.id for call in response.tool_calls] == ["call_1"]
    assert response.stop_reason == "max_tokens"


@pytest.mark.promise("P-137")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("server_error", "provider_error"),
        ("rate_limit_exceeded", "rate_limited"),
        ("vector_store_timeout", "timeout"),
        ("something_new", "provider_error"),
    ],
)
async def test_a_failed_answer_is_an_error(bench, code, expected):
    failed = {"object": "response", "status": "failed", "output": []}
    failed["error"] = {"code": code, "message": "It failed."}
    with pytest.raises(ModelError, match="It failed") as caught:
        await bench.chat(failed, api="responses")
    assert caught.value.code == expected
    with pytest.raises(ModelError, match="It failed"):
        await bench.stream(
            bench.events({"type": "response.failed", "response": failed}), api="responses"
        )


async def test_a_blocked_prompt_is_an_answer_without_content(bench):
    failed = {"object": "response", "status": "failed", "output": []}
    failed["error"] = {"code": "invalid_prompt", "message": "Flagged."}
    response = await bench.chat(failed, api="responses")
    assert (response.stop_reason, response.content) == ("content_filter", ())


def done(index, item):
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def added(index, item):
    return {"type": "response.output_item.added", "output_index": index, "item": item}


async def test_a_stream_says_what_arrives_and_ends_in_the_whole(bench):
    text = bench.text("Yes.")
    calls = [bench.function_call(call_id=each, id=each) for each in ("a", "b")]
    items = [REASONING, text, *calls]
    stream = bench.events(
        {"type": "response.created", "response": {}},
        added(0, REASONING),
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
        done(0, REASONING),
        added(1, text),
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Ye"},
        {"type": "response.something.new", "output_index": 1, "delta": "?"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "s."},
        done(1, text),
        added(2, calls[0]),
        added(3, calls[1]),
        done(3, calls[1]),
        done(2, calls[0]),
        {"type": "response.completed", "response": bench.response(*items)},
    )
    events = await bench.stream(stream, api="responses")
    check_stream(events, "stream")
    kinds = [event.kind for event in events]
    assert kinds == ["thinking", "text", "text", "tool_use", "tool_use", "done"]
    whole = await bench.chat(bench.response(*items), api="responses")
    assert events[-1].response == whole


async def test_a_terminal_event_without_items_and_items_without_deltas_are_enough(bench):
    end = {**bench.response(), "output": []}
    stream = bench.events(
        done(0, bench.text("Yes.")), {"type": "response.completed", "response": end}
    )
    events = await bench.stream(stream, api="responses")
    assert [event.kind for event in events] == ["text", "done"]
    only = bench.events({"type": "response.completed", "response": bench.response()})
    assert (await bench.stream(only, api="responses"))[-1].response.text == "ok"


async def test_text_whose_item_never_ends_is_in_the_response(bench):
    end = {**bench.response(status="incomplete"), "output": []}
    end["incomplete_details"] = {"reason": "content_filter"}
    stream = bench.events(
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Ye"},
        {"type": "response.incomplete", "response": end},
    )
    events = await bench.stream(stream, api="responses")
    check_stream(events, "cut")
    assert events[-1].response.stop_reason == "content_filter"
    assert events[-1].response.text == "Ye"


async def test_a_malformed_call_goes_back_as_json_to_servers_that_would_refuse_it(bench):
    sent, response = await sent_back(bench, bench.function_call('{"pa'))
    assert response.tool_calls[0].malformed == '{"pa'
    assert sent[0]["arguments"] == '{"malformed": "{\\"pa"}'


@pytest.mark.promise("P-137")
async def test_errors_and_ends_of_a_stream_are_errors(bench):
    for event, code in (
        ({"type": "error", "code": "rate_limit_exceeded", "message": "m"}, "rate_limited"),
        ({"type": "error", "error": {"type": "server_error", "message": "m"}}, "provider_error"),
        (done(0, bench.text("Yes.")), "invalid_response"),
    ):
        with pytest.raises(ModelError) as caught:
            await bench.stream(bench.events(event), api="responses")
        assert caught.value.code == code


async def test_an_answer_that_is_not_finished_is_none(bench):
    with pytest.raises(ModelError, match="queued"):
        await bench.chat(bench.response(status="queued"), api="responses")


@pytest.mark.parametrize(
    "body",
    [
        {"output": [{"type": {}}]},
        {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": {}}]}],
            "usage": [],
        },
    ],
)
async def test_an_answer_of_another_form_raises_nothing_but_a_model_error(bench, body):
    answer = {**bench.response(), **body}
    events = bench.events({"type": "response.completed", "response": answer})
    for streamed, said in ((False, answer), (True, events)):
        async with bench.open(said, api="responses") as (adapter, _):
            try:
                if streamed:
                    check_stream([event async for event in adapter.stream(bench.ask())], "stream")
                else:
                    await adapter.chat(bench.ask())
            except ModelError as error:
                assert error.code == "invalid_response"  # noqa: PT017 - or it may be answered


@pytest.mark.parametrize(("text", "said"), [(None, "Hi."), ("Bye.", None)])
async def test_what_was_streamed_of_an_item_is_recorded_or_refused(bench, text, said):
    part = {"type": "what_comes_next"} if text is None else {"type": "output_text", "text": text}
    item = {**bench.text("x"), "content": [part]}
    body = bench.events(
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": bench.response(item)},
    )
    if said is None:
        with pytest.raises(ModelError, match="not what its pieces said"):
            await bench.stream(body, api="responses")
    else:
        events = await bench.stream(body, api="responses")
        check_stream(events, "stream")
        assert events[-1].response.text == said


async def test_calls_that_share_an_id_get_ids_of_their_own(bench):
    calls = [bench.function_call(call_id="twice", id=each) for each in ("a", "b")]
    sent, response = await sent_back(bench, *calls)
    first, second = (call.id for call in response.tool_calls)
    assert first == "twice"
    assert first != second
    assert [item["call_id"] for item in sent] == [first, second, first, second]
