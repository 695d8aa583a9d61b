"""Claude over the official SDK: recordings, broken answers, and each outcome by hand."""

import base64
import json
import logging
import subprocess
import sys
import traceback
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from clawhive_anthropic import read_settings
from clawhive_anthropic.prices import read_usage
from clawhive_core import (
    ClawHiveError,
    LlmMessage,
    LlmRequest,
    MediaBlock,
    ModelError,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolResult,
)
from clawhive_core.model.messages import block_from_json, block_to_json
from clawhive_core.testing import (
    WireAnswer,
    WireServer,
    check_adapter,
    check_faults,
    check_wire,
    memory_hive,
)
from clawhive_core.testing.adapter import ask, check_response, check_stream, failure

KEY = "sk-ant-secret-1234567890"
MODEL = "claude-sonnet-4-5"
ASKED = LlmMessage.text("user", "Go on.")
TOOL = ToolDef("web.search", "Search.", {"type": "object", "properties": {"q": {}}})
OTHER = ToolDef("file.read", "", {"anyOf": [{"required": ["path"]}, {"required": ["id"]}]})
CALL = {"type": "tool_use", "id": "toolu_1", "name": "web__search", "input": {"q": "x"}}
USAGE = {"input_tokens": 10, "output_tokens": 5}


def message(content, stop="end_turn", **more):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": USAGE,
    } | more


def events(*given):
    lines = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in given)
    return "".join(lines)


def start(index, block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


BEGIN = {"type": "message_start", "message": message([], None)}
PING = {"type": "ping"}
END = {"type": "message_stop"}


def ends(reason):
    usage = {"output_tokens": 7}
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def streamed(reason, *given):
    return events(BEGIN, PING, *given, ends(reason), END)


def called(index, text, **more):
    return (
        start(index, CALL | {"id": f"toolu_{index}", "input": {}} | more),
        *(delta(index, "input_json_delta", partial_json=each) for each in text),
        stop(index),
    )


def said(index, *pieces):
    return (
        start(index, {"type": "text", "text": ""}),
        *(delta(index, "text_delta", text=each) for each in pieces),
        stop(index),
    )


TEXT = message([{"type": "text", "text": "Grüße."}])
STREAM = streamed("end_turn", *said(0, "Grü", "ße."))


async def answered(wire, body, **more):
    """Return what is made of an answer, whole and as a stream, if it is one."""
    response, _ = await ask(wire, WireAnswer.of(body, **more), stream=isinstance(body, str))
    check_response(response, "answer")
    return response


async def told(wire, make, body, request=None):
    async with WireServer([WireAnswer.of(body)]) as server:
        adapter = make(server.url)
        found = [each async for each in adapter.stream(request or LlmRequest(MODEL, (ASKED,)))]
        await adapter.close()
    check_stream(found, "stream")
    return found


async def sent(make, request):
    """Return what a request is on the wire."""
    async with WireServer([WireAnswer.of(TEXT)]) as server:
        adapter = make(server.url)
        await adapter.chat(request)
        await adapter.close()
    return server.requests[0]


def talk(*messages, **more):
    return LlmRequest(MODEL, messages or (ASKED,), **more)


async def until(holds):
    with anyio.fail_after(300):
        while not holds():
            await anyio.lowlevel.checkpoint()


# Recordings and broken answers


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.promise("P-131")
async def test_recorded_answers_are_read_and_go_back_as_the_real_conversation_carried_them(
    wire, recordings, every
):
    report = await check_wire(replace(wire, recordings=recordings[::every]))
    assert report.exchanges > 40 // every // 2
    assert report.compared > 20 // every // 2
    assert report.tool_calls > 20 // every // 2
    assert report.streamed > 0 or every > 1


async def test_the_adapter_keeps_to_its_protocol(wire):
    def answer(request):
        return WireAnswer.of(STREAM if request.body.get("stream") else TEXT)

    async with WireServer(answer) as server:
        await check_adapter(wire.make(server.url), MODEL)


@pytest.mark.promise("P-132")
async def test_broken_answers_become_coded_errors(wire):
    await check_faults(wire, json.dumps(TEXT).encode(), STREAM.encode())


@pytest.mark.promise("P-132")
@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("overloaded_error", "overloaded", 529),
        ("rate_limit_error", "rate_limited", 429),
        ("api_error", "provider_error", 500),
        ("invalid_request_error", "invalid_request", 400),
        ("something_new", "provider_error", 500),
    ],
)
async def test_an_error_event_within_a_stream_is_the_error_that_it_names(wire, kind, code, status):
    error = {"type": "error", "error": {"type": kind, "message": "no more"}}
    body = events(BEGIN, *said(0, "Half an ans"), error)
    found = await failure(wire, WireAnswer.of(body), stream=True, where="error event")
    assert (found.code, found.data["status"]) == (code, status)
    assert "no more" in found.message


@pytest.mark.promise("P-132")
@pytest.mark.parametrize(
    "given",
    [
        (BEGIN, *said(0, "All of it.")),
        (BEGIN, *said(0, "All of it."), ends("end_turn")),
        (BEGIN, delta(3, "text_delta", text="from nowhere"), ends("end_turn"), END),
        (BEGIN, start(0, {"text": "no type"}), stop(0), ends("end_turn"), END),
        (BEGIN, start(0, CALL), delta(0, "input_json_delta"), ends("end_turn"), END),
        (*said(0, "no start"), END),
        (ends("end_turn"),),
    ],
)
async def test_a_stream_that_is_not_whole_is_no_short_answer(wire, given):
    found = await failure(wire, WireAnswer.of(events(*given)), stream=True, where="stream")
    assert found.code in {"connection_failed", "invalid_response"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Your credit balance is too low to access the API.", "quota_exhausted"),
        ("prompt is too long: 212345 tokens > 200000 maximum", "request_too_large"),
        ("max_tokens: must be positive", "invalid_request"),
    ],
)
async def test_what_the_api_says_with_status_400_is_told_apart(wire, text, code):
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    answer = WireAnswer.of(body, 400, headers={"request-id": "req_7"})
    found = await failure(wire, answer, stream=False, where="400")
    assert found.code == code
    assert found.message == f"{text} (request req_7)"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-3"}, None),
    ],
)
async def test_the_time_to_wait_is_read_in_each_of_its_forms(wire, headers, seconds):
    answer = WireAnswer(b"{}", 429, headers=headers)
    found = await failure(wire, answer, stream=False, where="429")
    assert found.data.get("retry_after") == seconds


async def test_a_failed_request_is_sent_once(wire):
    async with WireServer([WireAnswer(b"{}", 529)]) as server:
        with pytest.raises(ModelError):
            await wire.make(server.url).chat(talk())
    assert len(server.requests) == 1


async def test_nobody_there_is_a_failed_connection(wire):
    async with WireServer([WireAnswer()]) as server:
        url = server.url
    with pytest.raises(ModelError, match="connection") as caught:
        await wire.make(url).chat(talk())
    assert caught.value.code == "connection_failed"


# What answers become


@pytest.mark.promise("P-135")
@pytest.mark.parametrize(
    ("text", "value", "malformed"),
    [
        (('{"q": ', '"Grü', 'ße"}'), {"q": "Grüße"}, None),
        ((), {}, None),
        (("", " \n"), {}, None),
        (('{"q": ',), {}, '{"q": '),
        (("[1]",), {}, "[1]"),
        (('{"q": NaN}',), {}, '{"q": NaN}'),
        (("[" * 100_000,), {}, "[" * 100_000),
    ],
)
async def test_arguments_that_are_no_object_are_kept_as_the_model_wrote_them(
    wire, make, text, value, malformed
):
    found = await told(wire, make, streamed("tool_use", *called(0, text)))
    [call] = found[-1].response.tool_calls
    assert (call.id, call.input, call.malformed) == ("toolu_0", value, malformed)
    assert found[-1].response.stop_reason == "tool_use"


@pytest.mark.promise("P-135")
async def test_a_call_without_an_id_gets_one_of_its_own(wire):
    without = {key: value for key, value in CALL.items() if key != "id"}
    response = await answered(wire, message([without, CALL, CALL, without | {"id": ""}]))
    ids = [call.id for call in response.tool_calls]
    assert ids[1] == "toolu_1"
    assert len(set(ids)) == 4


@pytest.mark.promise("P-135")
@pytest.mark.parametrize("raw", ["max_tokens", "model_context_window_exceeded"])
async def test_a_call_at_which_the_answer_was_cut_is_left_out(wire, make, raw):
    whole = await answered(wire, message([CALL, CALL | {"id": "toolu_2", "input": {}}], raw))
    assert [call.id for call in whole.tool_calls] == ["toolu_1"]
    assert (whole.stop_reason, whole.raw_stop_reason) == ("max_tokens", raw)
    for text in (('{"q": "ha',), ()):
        body = streamed(raw, *called(0, ('{"q": 1}',)), *called(1, text))
        found = await told(wire, make, body)
        assert [call.id for call in found[-1].response.tool_calls] == ["toolu_0"]
        assert found[-1].response.stop_reason == "max_tokens"


@pytest.mark.promise("P-135")
@pytest.mark.parametrize(
    ("raw", "stop_reason"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("pause_turn", "pause_turn"),
        ("compaction", "pause_turn"),
        ("refusal", "refusal"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
async def test_each_reason_to_stop_has_one_of_ours(wire, make, raw, stop_reason):
    response = await answered(wire, message([{"type": "text", "text": "a"}], raw))
    assert (response.stop_reason, response.raw_stop_reason) == (stop_reason, raw)
    found = await told(wire, make, streamed(raw, *said(0, "a")))
    assert found[-1].response.stop_reason == stop_reason


@pytest.mark.promise("P-135")
async def test_calls_count_whatever_the_reason_says_but_not_in_a_refusal(wire):
    for raw in ("end_turn", "something_new", None, "tool_use"):
        assert (await answered(wire, message([CALL], raw))).stop_reason == "tool_use"
    refused = await answered(wire, message([{"type": "text", "text": "No."}, CALL], "refusal"))
    assert (refused.text, refused.tool_calls, refused.stop_reason) == ("No.", (), "refusal")
    assert (await answered(wire, message([], "refusal"))).content == ()


BLOCKS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
    {"type": "thinking", "thinking": "", "signature": "sig=="},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "text", "text": "As said", "citations": [{"type": "char_location", "x": 1}]},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"e": "crypt"}]},
    {"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "s", "input": {}},
    {"type": "compaction", "content": "So far.", "encrypted_content": None},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "not_yet_invented", "deep": [{"x": None}]},
    CALL | {"caller": {"type": "code_execution_20250825", "tool_id": "srv_1"}},
    CALL | {"id": "t2", "name": "_odd-NAME_", "toolset_name": "browser"},
]


@pytest.mark.promise("P-131")
@pytest.mark.parametrize("block", BLOCKS)
async def test_a_block_goes_back_as_it_came_also_from_the_log(make, wire, block):
    response = await answered(wire, message([block]))
    logged = json.loads(json.dumps([block_to_json(each) for each in response.content]))
    content = tuple(map(block_from_json, logged))
    assert content == response.content
    request = await sent(make, talk(ASKED, LlmMessage("assistant", content)))
    assert request.body["messages"][1]["content"] == [block]


async def test_a_streamed_block_is_the_one_that_a_whole_answer_holds(make, wire):
    citation = {"type": "char_location", "x": 1}
    given = (
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", thinking="H"),
        delta(0, "thinking_delta", thinking="m.", estimated_tokens=2),
        delta(0, "signature_delta", signature="sig=="),
        stop(0),
        start(1, {"type": "text", "text": "As ", "citations": []}),
        delta(1, "text_delta", text="said"),
        delta(1, "citations_delta", citation=citation),
        stop(1),
        start(2, BLOCKS[4] | {"input": {}}),
        delta(2, "input_json_delta", partial_json='{"query": "q"}'),
        stop(2),
        start(3, BLOCKS[5]),
        stop(3),
        start(4, {"type": "compaction", "content": None}),
        delta(4, "compaction_delta", content="So far."),
        stop(4),
        start(5, {"type": "not_yet_invented", "deep": []}),
        delta(5, "not_yet_delta", deep=[{"x": None}]),
        stop(5),
    )
    found = await told(wire, make, streamed("end_turn", *given))
    wanted = [BLOCKS[0], BLOCKS[3], BLOCKS[4], BLOCKS[5], BLOCKS[7], BLOCKS[9]]
    whole = await answered(wire, message(wanted))
    request = talk(ASKED, LlmMessage("assistant", found[-1].response.content), ASKED)
    back = (await sent(make, request)).body["messages"][1]["content"]
    wanted[4] = {"type": "compaction", "content": "So far."}
    assert back == wanted
    assert found[-1].response.text == whole.text
    assert [each.text for each in found if each.kind == "thinking"] == ["H", "m."]
    assert [each.text for each in found if each.kind == "text"] == ["As ", "said"]


async def test_half_a_character_is_replaced_so_that_the_log_can_hold_the_answer(make, wire):
    body = json.dumps(message([{"type": "text", "text": "a\ud83d"}]))
    whole, _ = await ask(wire, WireAnswer(body.encode()), stream=False)
    assert whole.text == "a\ufffd"
    halves = (*said(0, "b\ud83d"), *called(1, ('{"q": "\\ud83d"}',)))
    found = await told(wire, make, streamed("tool_use", *halves))
    assert found[-1].response.text == "b\ufffd"
    assert found[-1].response.tool_calls[0].input == {"q": "\ufffd"}


async def test_blocks_whose_pieces_alternate_are_told_in_their_order(make, wire):
    given = (
        start(0, {"type": "text", "text": ""}),
        start(1, CALL | {"id": "a", "input": {}}),
        start(2, CALL | {"id": "b", "input": {}}),
        start(3, {"type": "text", "text": ""}),
        delta(3, "text_delta", text="C"),
        delta(2, "input_json_delta", partial_json='{"q":'),
        delta(0, "text_delta", text="A"),
        delta(1, "input_json_delta", partial_json='{"q": "a'),
        delta(2, "input_json_delta", partial_json=' "b"}'),
        stop(2),
        delta(0, "text_delta", text="B"),
        delta(1, "input_json_delta", partial_json='"}'),
        stop(0),
        stop(1),
        delta(3, "text_delta", text="D"),
        stop(3),
    )
    found = await told(wire, make, streamed("tool_use", *given))
    kinds = [(each.kind, each.text or (each.block and each.block.id)) for each in found[:-1]]
    order = [("text", "A"), ("text", "B"), ("tool_use", "a"), ("tool_use", "b")]
    assert kinds == [*order, ("text", "C"), ("text", "D")]
    assert [call.input for call in found[-1].response.tool_calls] == [{"q": "a"}, {"q": "b"}]


async def test_an_index_that_begins_anew_begins_a_new_block(make, wire):
    given = (*said(0, "a"), *said(0, "b"), start(0, {"type": "text", "text": "c"}))
    found = await told(wire, make, streamed("end_turn", *given))
    assert [block.text for block in found[-1].response.content] == ["a", "b", "c"]


async def test_a_call_is_told_as_soon_as_it_is_whole(make, wire):
    """The connection breaks right behind it."""
    body = events(BEGIN, *called(0, ('{"q": 1}',)))
    async with WireServer([WireAnswer.of(body, stop_after=len(body))]) as server:
        adapter = make(server.url)
        stream = adapter.stream(talk())
        first = await anext(stream)
        assert first.block.id == "toolu_0"
        with pytest.raises(ModelError):
            await anext(stream)
        await adapter.close()


async def test_usage_counts_cached_tokens_as_input_and_says_what_it_costs(wire):
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 10,
        "output_tokens": 50,
    }
    found = (await answered(wire, message([], usage=usage))).usage
    counts = (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens)
    assert counts == (1110, 1000, 10)
    assert found.output_tokens == 50
    assert found.cost == pytest.approx((100 * 3 + 1000 * 0.3 + 10 * 3.75 + 50 * 15) / 1e6)
    assert (
        await answered(wire, message([], model="claude-unheard-of", usage=usage))
    ).usage.cost is None


def test_what_a_model_asked_at_the_provider_is_counted_too():
    own = {"input_tokens": 100, "output_tokens": 10}
    advice = {"type": "advisor_message", "model": "claude-opus-4-5", **own}
    turn = {"type": "message", **own}
    found = read_usage(MODEL, own | {"iterations": [turn, advice]})
    assert (found.input_tokens, found.output_tokens) == (200, 20)
    assert found.cost == pytest.approx((100 * 3 + 10 * 15 + 100 * 5 + 10 * 25) / 1e6)
    unknown = read_usage(MODEL, own | {"iterations": [advice | {"model": "other"}]})
    assert (unknown.input_tokens, unknown.cost) == (200, None)
    assert read_usage(MODEL, None).input_tokens is None


# What requests become


async def test_names_are_derived_and_calls_come_back_under_their_own(make, wire):
    async with WireServer([WireAnswer.of(message([CALL], "tool_use"))]) as server:
        adapter = make(server.url)
        response = await adapter.chat(talk(tools=(TOOL, OTHER)))
        await adapter.close()
    assert response.tool_calls[0].name == "web.search"
    search, read = server.requests[0].body["tools"]
    assert search == {
        "name": "web__search",
        "description": "Search.",
        "input_schema": TOOL.parameters,
    }
    assert read["input_schema"] == {"type": "object"}
    assert '"anyOf"' in read["description"]


async def test_all_results_of_a_turn_stand_first_in_one_message(make):
    calls = (ToolCall("a", "web.search", {}), ToolCall("b:1", "web.search", {}, malformed="{"))
    first = LlmMessage("user", (TextBlock("By the way"), ToolResult("a", "1")))
    second = LlmMessage("user", (ToolResult("b:1", "", is_error=True),))
    request = talk(ASKED, LlmMessage("assistant", calls), first, second)
    _, turn, results = (await sent(make, request)).body["messages"]
    odd = turn["content"][1]
    assert odd["input"] == {"INVALID_JSON": "{"}
    assert odd["id"].startswith("toolu_")
    kinds = [block["type"] for block in results["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]
    assert [block["tool_use_id"] for block in results["content"][:2]] == ["a", odd["id"]]
    assert results["content"][1]["content"] == "error"


async def test_what_another_provider_made_is_left_out_or_sent_by_its_typed_fields(make):
    foreign = {"gemini": {"thought_signature": "x"}}
    content = (
        ThinkingBlock("Hm.", "sig", native=foreign),
        ProviderBlock("gemini", {"executable_code": {}}),
        MediaBlock("image", "image/png", "AAAA"),
        TextBlock("  \n"),
        TextBlock("Hello.", foreign),
        ToolCall("c", "web.search", {"q": 1}, native=foreign),
    )
    only = LlmMessage("assistant", content[:4])
    body = (await sent(make, talk(ASKED, LlmMessage("assistant", content), ASKED, only))).body
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Hello."},
        {"type": "tool_use", "id": "c", "name": "web__search", "input": {"q": 1}},
    ]


async def test_the_container_in_which_code_ran_is_named_until_it_expires(make, wire):
    for expires, named in (("2999-01-01T00:00:00Z", "cont_1"), ("2020-01-01T00:00:00Z", None)):
        container = {"id": "cont_1", "expires_at": expires}
        response = await answered(wire, message([CALL], "tool_use", container=container))
        turn = LlmMessage("assistant", response.content)
        body = (await sent(make, talk(ASKED, turn, ASKED))).body
        assert body.get("container") == named
        assert body["messages"][1]["content"] == [CALL]


async def test_images_and_documents_are_sent(make):
    text = base64.b64encode("Grüße".encode()).decode()
    content = (
        MediaBlock("image", "image/png", "AAAA"),
        MediaBlock("image", "image/png", url="https://example.com/a.png"),
        MediaBlock("document", "application/pdf", "AAAA"),
        MediaBlock("document", "text/markdown", text),
    )
    body = (await sent(make, talk(LlmMessage("user", content)))).body
    sources = [block["source"] for block in body["messages"][0]["content"]]
    assert sources == [
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "url", "url": "https://example.com/a.png"},
        {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
        {"type": "text", "media_type": "text/plain", "data": "Grüße"},
    ]


async def test_cache_hints_mark_the_end_of_tools_system_and_messages(make):
    request = talk(tools=(TOOL, OTHER), system="Be kind.", cache_hints={"key": "c1"})
    body = (await sent(make, request)).body
    marked = {"type": "ephemeral"}
    assert [each.get("cache_control") for each in body["tools"]] == [None, marked]
    assert body["system"] == [{"type": "text", "text": "Be kind.", "cache_control": marked}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == marked
    plain = (await sent(make, replace(request, cache_hints={}))).body
    assert plain["system"] == "Be kind."
    assert "cache_control" not in json.dumps(plain)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("web.search", {"type": "tool", "name": "web__search"}),
    ],
)
async def test_each_choice_of_tools_has_the_api_s_word(make, choice, wanted):
    body = (await sent(make, talk(tools=(TOOL,), tool_choice=choice))).body
    assert body.get("tool_choice") == wanted


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "said_effort"),
    [
        ("claude-opus-4-8", "high", {"type": "adaptive"}, "high"),
        ("claude-sonnet-5", "low", {"type": "adaptive"}, "low"),
        ("claude-sonnet-4-5-20250929", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-sonnet-4-20250514", "high", {"type": "enabled", "budget_tokens": 4000}, None),
        ("claude-3-7-sonnet-latest", "medium", {"type": "enabled", "budget_tokens": 4000}, None),
        ("claude-sonnet-4-6", "medium", {"type": "adaptive"}, "medium"),
        ("claude-opus-4-8", "off", {"type": "disabled"}, None),
        ("claude-opus-4-8", None, None, None),
    ],
)
async def test_reasoning_is_asked_for_as_the_model_knows_it(
    make, model, effort, thinking, said_effort
):
    request = replace(talk(reasoning=effort, max_tokens=8000), model=model)
    body = (await sent(make, request)).body
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == said_effort


async def test_a_schema_for_the_answer_is_sent_in_the_api_s_own_form(make):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
    }
    options = {"output_config": {"effort": "max"}}
    config = (await sent(make, talk(response_schema=schema, options=options))).body["output_config"]
    assert config["effort"] == "max"
    assert config["format"]["type"] == "json_schema"
    assert config["format"]["schema"]["additionalProperties"] is False
    odd = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}
    body = (await sent(make, talk(response_schema=odd))).body
    assert body["output_config"]["format"]["schema"] == odd


async def test_options_are_sent_as_they_are(make):
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    options = {"tools": [server_tool], "betas": ["a-1", "b-2"], "top_k": 5, "max_tokens": 9}
    request = await sent(make, talk(tools=(TOOL,), temperature=0.0, options=options))
    assert request.body["tools"][1] == server_tool
    assert (request.body["top_k"], request.body["temperature"]) == (5, 0.0)
    assert request.body["max_tokens"] == 9
    assert request.headers["anthropic-beta"] == "a-1,b-2"
    assert request.path == "/v1/messages?beta=true"
    assert "betas" not in request.body


@pytest.mark.parametrize(
    "asked", [{"temperature": 1.0}, {"options": {"top_p": 0.5}}, {"options": {"top_k": 5}}]
)
async def test_sampling_asks_for_the_version_of_the_api_that_still_has_it(make, asked):
    newest = (await sent(make, talk())).headers["anthropic-version"]
    version = (await sent(make, talk(**asked))).headers["anthropic-version"]
    assert version == "2023-06-01"
    assert newest >= version


async def test_a_model_s_text_that_a_user_quotes_is_sent_without_its_citations(make, wire):
    quoted = (await answered(wire, message([BLOCKS[3]]))).content
    body = (await sent(make, talk(LlmMessage("user", quoted)))).body
    assert body["messages"][0]["content"] == [{"type": "text", "text": "As said"}]


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (talk(tool_choice="required"), "no tool is offered"),
        (talk(tools=(TOOL,), tool_choice="file.read"), "file.read"),
        (talk(reasoning="low", max_tokens=1024), "1024"),
        (talk(options={"messages": []}), "`messages`"),
        (talk(options={"tools": "web"}), "`tools`"),
        (talk(LlmMessage("user", (MediaBlock("document", "text/plain", "%"),))), "no text"),
        (talk(LlmMessage("user", (MediaBlock("document", "font/woff", "AA=="),))), "font/woff"),
        (talk(LlmMessage("user", (MediaBlock("image", "image/png"),))), "neither"),
    ],
)
async def test_what_the_api_cannot_do_is_refused_by_its_name(make, request_, word):
    async with WireServer([WireAnswer.of(TEXT)]) as server:
        with pytest.raises(ModelError, match=word) as caught:
            await make(server.url).chat(request_)
    assert caught.value.code == "invalid_request"
    assert server.requests == []


async def test_the_offered_tools_are_compiled_once_for_a_list(make):
    tools = (TOOL, OTHER)
    async with WireServer([WireAnswer.of(TEXT)]) as server:
        adapter = make(server.url)
        await adapter.chat(talk(tools=tools))
        payload = adapter._tools.table(tools).payload
        await adapter.chat(talk(tools=tools, cache_hints={"key": "c"}))
        await adapter.close()
        assert adapter._tools.table(tools).payload is payload
    assert "cache_control" not in json.dumps(payload)


# Keys, hosts, connections


@pytest.mark.promise("P-133")
def test_importing_the_plugin_imports_no_sdk():
    code = (
        "import sys, clawhive_anthropic as a\n"
        "a.AnthropicAdapter(a.read_settings({}, {}))\n"
        "heavy = {'anthropic', 'httpx2', 'pydantic', 'genai_prices'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.promise("P-133")
@pytest.mark.parametrize(
    ("settings", "env", "variable"),
    [
        ({}, {}, "ANTHROPIC_API_KEY"),
        ({}, {"ANTHROPIC_API_KEY": " "}, "ANTHROPIC_API_KEY"),
        ({"api_key_env": "MY_KEY"}, {"ANTHROPIC_API_KEY": KEY}, "MY_KEY"),
        ({}, {"ANTHROPIC_API_KEY": f"{KEY}\nx"}, "ANTHROPIC_API_KEY"),
        ({}, {"ANTHROPIC_AUTH_TOKEN": "a b"}, "ANTHROPIC_AUTH_TOKEN"),
    ],
)
async def test_without_a_key_nothing_is_sent_and_the_variable_is_named(settings, env, variable):
    from clawhive_anthropic import AnthropicAdapter

    async with WireServer([WireAnswer.of(TEXT)]) as server:
        adapter = AnthropicAdapter(read_settings({"base_url": server.url, **settings}, env))
        with pytest.raises(ModelError) as caught:
            await adapter.chat(talk())
        with pytest.raises(ModelError):
            await anext(adapter.stream(talk()))
    assert caught.value.code == "missing_key"
    assert variable in caught.value.message
    assert variable in caught.value.fix
    assert KEY not in f"{caught.value.message}{caught.value.fix}"
    assert server.requests == []


@pytest.mark.promise("P-133")
async def test_the_key_is_sent_and_stands_in_no_error_log_or_repr(make, wire, caplog):
    caplog.set_level(logging.DEBUG)
    body = {"error": {"type": "authentication_error", "message": f"{KEY} is no key"}}
    async with WireServer([WireAnswer.of(body, 401)]) as server:
        adapter = make(server.url)
        with pytest.raises(ModelError) as caught:
            await adapter.chat(talk())
        await adapter.close()
    headers = server.requests[0].headers
    assert f"Bearer {KEY}" in {headers.get("authorization"), f"Bearer {headers.get('x-api-key')}"}
    shown = "".join(traceback.format_exception(caught.value))
    shown += json.dumps(caught.value.to_dict()) + repr(caught.value)
    shown += repr(vars(adapter)) + repr(adapter._settings.credential()) + caplog.text
    assert "[key] is no key" in shown
    assert KEY not in shown


async def test_a_token_is_sent_where_there_is_no_key():
    from clawhive_anthropic import AnthropicAdapter

    async with WireServer([WireAnswer.of(TEXT)]) as server:
        env = {"ANTHROPIC_AUTH_TOKEN": "tok", "ANTHROPIC_BASE_URL": server.url}
        adapter = AnthropicAdapter(read_settings({}, env))
        await adapter.chat(talk())
        await adapter.close()
    assert server.requests[0].headers["authorization"] == "Bearer tok"


@pytest.mark.parametrize(
    ("settings", "env", "host"),
    [
        ({}, {}, "api.anthropic.com"),
        ({}, {"ANTHROPIC_BASE_URL": "http://proxy.test:8080/claude"}, "proxy.test"),
        ({"base_url": "https://A.test"}, {"ANTHROPIC_BASE_URL": "http://b.test"}, "a.test"),
        ({"base_url": "http://[::1]:80"}, {}, "[::1]"),
    ],
)
def test_the_host_is_that_of_the_base_url(settings, env, host):
    assert read_settings(settings, env).host == host


@pytest.mark.parametrize(
    ("settings", "env"),
    [
        ({"base_url": "localhost"}, {}),
        ({"base_url": "ftp://a.test"}, {}),
        ({"base_url": "http://user:secret@a.test"}, {}),
        ({"base_url": "http://a.test:port"}, {}),
        ({"base_url": 1}, {}),
        ({}, {"ANTHROPIC_BASE_URL": "api"}),
        ({"api_key_env": "sk-ant-1"}, {}),
        ({"api_key": KEY}, {}),
    ],
)
def test_settings_of_the_wrong_form_are_named(settings, env):
    with pytest.raises(ClawHiveError) as caught:
        read_settings(settings, env)
    assert caught.value.code == "invalid_config"
    assert caught.value.fix
    assert not any(text in str(caught.value) for text in ("secret", KEY))


@pytest.mark.promise("P-134")
async def test_another_host_than_anthropic_s_needs_a_right_of_its_own(make):
    async with WireServer([WireAnswer.of(TEXT)]) as server:
        async with memory_hive(adapters=[make(server.url)]) as hive:
            run = await hive.run("Hi", model=f"anthropic:{MODEL}")
            assert run["status"] != "succeeded"
            assert "model.call:anthropic/127.0.0.1" in json.dumps(run)
            assert server.requests == []
        allow = {"policy.allow": ["model.call:anthropic/127.0.0.1"]}
        async with memory_hive(adapters=[make(server.url)], settings=allow) as hive:
            run = await hive.run("Hi", model=f"anthropic:{MODEL}")
            assert (run["status"], run["output"]) == ("succeeded", "Grüße.")
    assert server.requests[0].body["model"] == MODEL


async def test_a_run_calls_a_tool_and_sends_its_result_back(make):
    call = CALL | {"name": "file__list", "input": {"path": "."}}
    answers = [message([call], "tool_use"), TEXT]
    settings = {
        "policy.allow": ["model.call:anthropic/127.0.0.1"],
        "plugins.enabled": ["builtin"],
    }
    async with (
        WireServer(map(WireAnswer.of, answers)) as server,
        memory_hive(adapters=[make(server.url)], settings=settings) as hive,
    ):
        run = await hive.run("Look", model=f"anthropic:{MODEL}")
    assert (run["status"], run["output"]) == ("succeeded", "Grüße.")
    first, second = (request.body for request in server.requests)
    assert first["tools"] == second["tools"]
    (asked,), (again, *_) = first["messages"], second["messages"]
    assert asked["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert again == {"role": "user", "content": [{"type": "text", "text": "Look"}]}
    assert second["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    _, turn, results = second["messages"]
    assert turn["content"] == [call]
    [result] = results["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("toolu_1", False)


@pytest.mark.promise("P-134")
async def test_the_conversation_does_not_follow_a_redirection(wire):
    async with WireServer([WireAnswer.of(TEXT)]) as elsewhere:
        to = {"location": f"{elsewhere.url}/v1/messages"}
        for stream in (False, True):
            answer = WireAnswer(b"{}", 307, headers=to)
            found = await failure(wire, answer, stream=stream, where="307")
            assert (found.code, found.data["status"]) == ("provider_error", 307)
    assert elsewhere.requests == []


@pytest.mark.promise("P-133")
async def test_the_installed_plugin_answers_a_run_without_a_key_with_its_code():
    settings = {"plugins.enabled": ["anthropic"]}
    async with memory_hive(settings=settings) as hive:
        run = await hive.run("Hi", model=f"anthropic:{MODEL}")
    assert run["status"] == "failed"
    assert "ANTHROPIC_API_KEY" in json.dumps(run["error"])


async def test_each_event_loop_has_a_client_of_its_own(make):
    async with WireServer([WireAnswer.of(TEXT)]) as server:
        adapter = make(server.url)

        async def ask_and_close():
            response = await adapter.chat(talk())
            await adapter.close()
            return response.text

        texts = [await anyio.to_thread.run_sync(anyio.run, ask_and_close) for _ in range(2)]
        assert [*texts, await ask_and_close(), await ask_and_close()] == ["Grüße."] * 4
        await adapter.close()


async def test_cancelling_closes_the_connection(make):
    async with WireServer([WireAnswer(hang=True)]) as server:
        adapter = make(server.url)
        async with anyio.create_task_group() as group:
            group.start_soon(adapter.chat, talk())
            await until(lambda: server.requests)
            group.cancel_scope.cancel()
        await until(lambda: not server._tasks)
        await adapter.close()


async def test_leaving_a_stream_closes_the_connection(make):
    body = streamed("end_turn", *said(0, *("word " * 2_000,) * 100))
    async with WireServer([WireAnswer.of(body, piece=1000)]) as server:
        adapter = make(server.url)
        stream = adapter.stream(talk())
        assert (await anext(stream)).kind == "text"
        await stream.aclose()
        await until(lambda: not server._tasks)
        await adapter.close()
