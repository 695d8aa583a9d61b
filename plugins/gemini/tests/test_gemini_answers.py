"""Each kind of answer as the response that is made of it."""

import json

import pytest

from clawhive_core import (
    LlmMessage,
    ModelError,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResult,
)
from clawhive_core.testing import Wire, WireAnswer, WireServer, check_adapter, check_faults
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings

CALL = {"functionCall": {"name": "test__echo", "args": {"text": "x"}}, "thoughtSignature": "c2ln"}


def adapter(url):
    return GeminiAdapter(Settings(url), {"GEMINI_API_KEY": "k"})


async def test_the_adapter_keeps_to_the_protocol(api):
    def answer(request):
        whole = api.body(CALL if "tools" in request.body else {"text": "Hello."})
        streamed = "streamGenerateContent" in request.path
        return WireAnswer.of(api.sse(whole) if streamed else whole)

    async with WireServer(answer) as server:
        await check_adapter(adapter(server.url))
    assert {request.path for request in server.requests} == {
        "/v1beta/models/test:generateContent",
        "/v1beta/models/test:streamGenerateContent?alt=sse",
    }


@pytest.mark.promise("P-144")
async def test_broken_answers_become_coded_errors(api):
    whole = api.body({"text": "Grüße, und noch viel mehr Text als nur dieses eine Wort."})
    first = api.body({"text": "Grüße"}, finish=None)
    chat, stream = json.dumps(whole).encode(), api.sse(first, whole).encode()
    await check_faults(Wire(adapter, list), chat, stream)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("CONTINUATION", "max_tokens"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MALFORMED_RESPONSE", "other"),
        ("TOO_MANY_TOOL_CALLS", "other"),
        ("A_NEW_REASON", "other"),
        (None, "other"),
    ],
)
async def test_each_finish_reason_has_its_outcome(api, finish, stop):
    response, _ = await api.chat(api.body({"text": "As far as"}, finish=finish))
    assert (response.text, response.stop_reason) == ("As far as", stop)
    assert response.raw_stop_reason == finish


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "tool_use"),
        ("UNEXPECTED_TOOL_CALL", "tool_use"),
        ("SAFETY", "tool_use"),
        ("MAX_TOKENS", "max_tokens"),
    ],
)
async def test_complete_calls_are_asked_for_unless_the_answer_was_cut(api, finish, stop):
    response, _ = await api.chat(api.body(CALL, finish=finish))
    assert response.stop_reason == stop
    assert [(call.name, call.input) for call in response.tool_calls] == [
        ("test.echo", {"text": "x"})
    ]


async def test_a_malformed_call_of_which_nothing_came_is_no_call(api):
    body = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "content": {}}]}
    response, _ = await api.chat(body)
    assert (response.content, response.stop_reason) == ((), "malformed_call")
    assert response.raw_stop_reason == "MALFORMED_FUNCTION_CALL"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_blocked_prompt_is_an_answer_without_content(api, streamed):
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    if streamed:
        (done,) = await api.stream(api.sse(body))
        response = done.response
    else:
        response, _ = await api.chat(body)
    assert (response.content, response.stop_reason) == ((), "content_filter")
    assert (response.raw_stop_reason, response.usage.input_tokens) == ("SAFETY", 4)


async def test_a_call_without_id_gets_one_that_does_not_go_back(api):
    response, _ = await api.chat(api.body(CALL, CALL))
    first, second = response.tool_calls
    assert first.id != second.id
    results = LlmMessage(
        "user", (ToolResult(second.id, "2"), ToolResult(first.id, "1", is_error=True))
    )
    sent = await api.sent(api.request(LlmMessage("assistant", response.content), results))
    assert sent["contents"][0]["parts"] == [CALL, CALL]
    assert [part["functionResponse"] for part in sent["contents"][1]["parts"]] == [
        {"name": "test__echo", "response": {"output": "2"}},
        {"name": "test__echo", "response": {"error": "1"}},
    ]


async def test_an_id_of_the_api_goes_back_with_call_and_result(api):
    call = {"functionCall": {"id": "q1", "name": "test__echo"}}
    response, _ = await api.chat(api.body(call))
    assert response.tool_calls[0].input == {}
    result = LlmMessage("user", (ToolResult("q1", "done"),))
    sent = await api.sent(api.request(LlmMessage("assistant", response.content), result))
    assert sent["contents"][0]["parts"][0]["functionCall"]["id"] == "q1"
    assert sent["contents"][1]["parts"][0]["functionResponse"]["id"] == "q1"


@pytest.mark.parametrize("args", [["a"], "text", 5])
async def test_arguments_that_are_no_object_are_kept_as_they_were_written(api, args):
    part = {"functionCall": {"name": "test__echo", "args": args}, "thoughtSignature": "c2ln"}
    response, _ = await api.chat(api.body(part))
    (call,) = response.tool_calls
    assert (call.input, call.malformed) == ({}, json.dumps(args))
    sent = await api.sent(api.request(LlmMessage("assistant", response.content)))
    assert sent["contents"][0]["parts"] == [part]


@pytest.mark.parametrize(
    "part",
    [
        {
            "executableCode": {"id": "1", "language": "PYTHON", "code": "1"},
            "thoughtSignature": "c+/=",
        },
        {"codeExecutionResult": {"id": "1", "outcome": "OUTCOME_OK", "output": "1"}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "args": {"queries": ["x"]}}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "response": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "+/+="}, "thoughtSignature": "c+/="},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x/y"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True},
        {"somethingNew": {"deep": [1, None]}, "partMetadata": {"a": 1}},
        {"thoughtSignature": "c+/="},
        {"text": "", "thoughtSignature": "c+/="},
        {"text": "I think.", "thought": True, "thoughtSignature": "c+/="},
        {"text": "said", "speechMetadata": {"speaker": "a"}},
    ],
    ids="+".join,
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_every_part_goes_back_as_it_came(api, part, streamed):
    if streamed:
        response = (await api.stream(api.sse(api.body(part))))[-1].response
    else:
        response, _ = await api.chat(api.body(part))
    sent = await api.sent(api.request(LlmMessage("assistant", response.content)))
    assert sent["contents"] == [{"role": "model", "parts": [part]}]


async def test_of_several_candidates_the_first_is_the_answer(api):
    body = api.body({"text": "one"})
    body["candidates"].append({"index": 1, **api.body({"text": "two"})["candidates"][0]})
    response, _ = await api.chat(body)
    assert response.text == "one"


async def test_a_count_below_zero_is_no_count_and_has_no_price(api):
    counts = {"promptTokenCount": -(2**63), "candidatesTokenCount": -1}
    response, _ = await api.chat(api.body({"text": "x"}, usageMetadata=counts))
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (None, None, None)


async def test_usage_counts_cached_tokens_thoughts_and_a_price(api):
    counts = {
        "promptTokenCount": 1000,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 400,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 80,
    }
    response, _ = await api.chat(api.body({"text": "x"}, usageMetadata=counts, responseId="r1"))
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens) == (1010, 100)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (400, None)
    assert usage.cost is not None
    assert 0 < usage.cost < 0.01
    assert (response.model, response.response_id) == ("gemini-3-flash-preview", "r1")


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        [{}],
        "text",
        5,
        None,
        {"candidates": "x"},
        {"candidates": [5]},
        {"candidates": [{"content": []}]},
        {"candidates": [{"content": {"parts": [None]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": "x"}]}}]},
        {"usageMetadata": 5},
    ],
    ids=str,
)
async def test_what_is_no_answer_of_the_api_is_an_error(api, body):
    answer = WireAnswer(json.dumps(body).encode())
    async with api.served(answer) as (adapter, _):
        with pytest.raises(ModelError) as wrong:
            await adapter.chat(api.request())
    assert wrong.value.code == "invalid_response"


async def test_a_stream_asked_for_as_a_list_is_read_as_a_stream(api):
    pieces = [api.body({"text": "Hel"}, finish=None), api.body({"text": "lo."})]
    response, _ = await api.chat(pieces)
    assert response.content == (TextBlock("Hello."),)


async def test_pieces_of_a_stream_come_as_they_arrive_and_make_whole_blocks(api):
    events = await api.stream(
        api.sse(
            api.body({"text": "I ", "thought": True}, finish=None),
            api.body({"text": "think.", "thought": True}, finish=None),
            api.body({"text": "Hel"}, finish=None),
            api.body({"text": "lo.", "thoughtSignature": "c2ln"}, finish=None),
            api.body({"text": "Then"}, CALL, finish=None),
            api.body(CALL, {"text": ""}, usageMetadata={"promptTokenCount": 3}),
        )
    )
    kinds = [(event.kind, event.text) for event in events]
    assert kinds == [
        ("thinking", "I "),
        ("thinking", "think."),
        ("text", "Hel"),
        ("text", "lo."),
        ("text", "Then"),
        ("tool_use", ""),
        ("tool_use", ""),
        ("done", ""),
    ]
    content = events[-1].response.content
    assert content[0] == ThinkingBlock("I think.", native={"gemini": {"thought": True}})
    assert content[1] == TextBlock("Hello.", {"gemini": {"thoughtSignature": "c2ln"}})
    assert content[2] == TextBlock("Then")
    assert content[3:] == tuple(event.block for event in events[5:7])


async def test_a_signature_on_the_empty_end_of_a_text_is_the_texts_own(api):
    signed = {"text": "", "thoughtSignature": "c2ln"}
    stream = api.sse(api.body({"text": "Hello."}, finish=None), api.body(signed))
    response = (await api.stream(stream))[-1].response
    assert response.content == (TextBlock("Hello.", {"gemini": {"thoughtSignature": "c2ln"}}),)


async def test_parts_of_an_answer_in_one_piece_stay_apart(api):
    response, _ = await api.chat(api.body({"text": "a"}, {"text": ""}, {"text": "b"}))
    assert response.content == (TextBlock("a"), TextBlock("b"))


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}, "overloaded"),
        ({"error": {"code": 429, "message": "slow"}}, "rate_limited"),
        ({"error": {"message": "?"}}, "provider_error"),
        ({"responseId": "1", "error": {"code": 500}}, "provider_error"),
    ],
    ids=str,
)
async def test_an_error_within_a_stream_is_raised(api, last, code):
    stream = api.sse(api.body({"text": "Hel"}, finish=None), last)
    with pytest.raises(ModelError) as wrong:
        await api.stream(stream)
    assert wrong.value.code == code


async def test_a_stream_without_its_end_is_no_short_answer(api):
    with pytest.raises(ModelError) as wrong:
        await api.stream(api.sse(api.body({"text": "Hel"}, finish=None)))
    assert wrong.value.code == "invalid_response"


async def test_tools_at_the_provider_are_no_calls_of_ours(api):
    part = {"toolCall": {"toolType": "FILE_SEARCH", "id": "a"}}
    response, _ = await api.chat(api.body(part, {"text": "found"}))
    assert response.stop_reason == "end_turn"
    assert response.content[0] == ProviderBlock("gemini", part)


def piece(**call):
    return {"functionCall": call}


async def test_arguments_that_come_in_pieces_make_one_call(api):
    whole = {"city": "New Delhi", "days": [{"n": 2.5}, True, None], "a b": ""}
    pieces = [
        {**piece(name="test__echo", id="q", willContinue=True), "thoughtSignature": "c2ln"},
        piece(
            partialArgs=[{"jsonPath": "$.city", "stringValue": "New", "willContinue": True}],
            willContinue=True,
        ),
        piece(
            partialArgs=[
                {"jsonPath": "$.city", "stringValue": " Delhi"},
                {"jsonPath": "$.days[0].n", "numberValue": 2.5},
                {"jsonPath": "$.days[1]", "boolValue": True},
                {"jsonPath": "$.days[2]", "nullValue": "NULL_VALUE"},
                {"jsonPath": "$['a b']", "stringValue": ""},
            ],
            willContinue=True,
        ),
        piece(),
    ]
    stream = api.sse(*(api.body(each, finish=None) for each in pieces), api.body(CALL))
    response = (await api.stream(stream))[-1].response
    first, second = response.tool_calls
    assert (first.id, first.name, first.input) == ("q", "test.echo", whole)
    assert second.input == {"text": "x"}
    sent = await api.sent(api.request(LlmMessage("assistant", response.content)))
    assert sent["contents"][0]["parts"][0] == {
        "functionCall": {"id": "q", "name": "test__echo", "args": whole},
        "thoughtSignature": "c2ln",
    }


async def test_a_call_that_is_cut_in_its_arguments_is_left_out(api):
    begun = piece(name="test__echo", willContinue=True)
    stream = api.sse(api.body({"text": "I call."}, begun, finish="MAX_TOKENS"))
    response = (await api.stream(stream))[-1].response
    assert (response.text, response.tool_calls) == ("I call.", ())
    assert response.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    "paths",
    [["$"], ["city"], ["$.a", "$.a.b"], ["$.a[0]", "$.a.b"], ["$.a[99999999]"], [""]],
    ids=str,
)
async def test_pieces_without_a_place_are_no_answer(api, paths):
    pieces = [{"jsonPath": path, "numberValue": 1} for path in paths]
    with pytest.raises(ModelError) as wrong:
        await api.chat(api.body(piece(name="test__echo", partialArgs=pieces)))
    assert wrong.value.code == "invalid_response"
