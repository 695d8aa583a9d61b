"""Chat completions as servers write them that call themselves compatible with OpenAI's."""

import json

import pytest

from clawhive_core import (
    LlmMessage,
    ModelError,
    TextBlock,
    ThinkingBlock,
    ToolResult,
)
from clawhive_core.testing import WireAnswer
from clawhive_core.testing.adapter import check_response, check_stream
from clawhive_core.testing.wire_server import EVENT_STREAM

END = "data: [DONE]\n\n"


def frame(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c", "model": "m", "choices": [choice], **more}


def lines(*frames, before="data: ", after="\n\n"):
    return "".join(f"{before}{json.dumps(each)}{after}" for each in frames)


CALLED = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
SAID = [frame({"role": "assistant", "content": "Yes"}), frame({"content": "."}), frame({}, "stop")]
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
STREAMS = {
    "no space after the colon": lines(*SAID, before="data:") + END,
    "CRLF": lines(*SAID, after="\r\n\r\n") + "data: [DONE]\r\n\r\n",
    "CR alone": lines(*SAID, after="\r\r") + "data: [DONE]\r\r",
    "no last word": lines(*SAID),
    "comments that keep it alive": ": OPENROUTER PROCESSING\n\n"
    + lines(*SAID, after="\n\n: .\n\n"),
    "frames without data": "event: ping\n\n" + lines(*SAID, before="id: 7\ndata: ") + ":\n\n" + END,
    "empty data": "data:\n\n" + lines(*SAID, after="\n\ndata: \n\n") + END,
    "names of events": lines(*SAID, before="event: message\nretry: 9\ndata: ") + END,
    "a byte order mark": "\ufeff: hello\n\n" + lines(*SAID) + END,
    "Azure's filter before and after": lines(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "id": "", "model": ""},
        *SAID,
        {"choices": [{"index": 0, "content_filter_offsets": {}, "finish_reason": None}]},
    )
    + END,
    "a delta of null": lines(
        SAID[0], {"choices": [{"index": 0, "delta": None}]}, *SAID[1:], {"choices": None}
    ),
    "a message instead of deltas": lines(
        {"choices": [{"message": {"content": "Yes."}, "finish_reason": "eos"}]}
    ),
    "no index, another choice beside": lines(
        {"choices": [{"delta": {"content": "Yes."}}, {"index": 1, "delta": {"content": "No"}}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]},
        frame({}, "STOP"),
    ),
    "no reason, but the tokens counted": lines(*SAID[:2], frame(), USAGE) + END,
    "no reason, but the tokens counted beside an empty delta": lines(
        *SAID[:2], frame({"role": "assistant", "content": ""}, usage=USAGE["usage"])
    )
    + END,
    "no reason on each frame": lines(*(frame({"content": each}, "") for each in "Yes."), USAGE),
    "content and thoughts of null": lines(
        frame({"content": "Yes.", "reasoning_content": None, "tool_calls": None, "refusal": None}),
        frame({"content": "", "reasoning": ""}, "end_turn"),
    ),
}


@pytest.mark.promise("P-246")
@pytest.mark.parametrize("what", STREAMS)
@pytest.mark.parametrize("piece", [0, 1, 7])
async def test_a_stream_says_the_same_however_it_is_framed(bench, what, piece):
    answer = WireAnswer(STREAMS[what].encode(), media_type=EVENT_STREAM, piece=piece)
    events = await bench.stream(answer)
    check_stream(events, what)
    response = events[-1].response
    assert (response.text, response.stop_reason) == ("Yes.", "end_turn")


def calls(*pieces):
    return [*(frame({"tool_calls": [piece]}) for piece in pieces), frame({}, "tool_calls")]


def piece(arguments, **more):
    return {"index": 0, "function": {"arguments": arguments}, **more}


NAMED = {"name": "f", "arguments": '{"x": '}
CALLS = {
    "ids of an empty text": calls(CALLED, piece('{"x": ', id="", type=""), piece("1}", id="")),
    "ids of null": calls(CALLED, piece('{"x": ', id=None, type=None), piece("1}", id=None)),
    "an id that each piece repeats": calls(CALLED, piece('{"x": ', id="a"), piece("1}", id="a")),
    "a name that each piece repeats": calls(
        {"index": 0, "id": "a", "function": NAMED},
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "1}"}},
    ),
    "a name of null, or empty": calls(
        {"index": 0, "id": "a", "function": NAMED},
        {"index": 0, "function": {"name": None, "arguments": "1"}},
        {"index": 0, "function": {"name": "", "arguments": "}"}},
    ),
    "no index": calls(
        {"id": "a", "function": NAMED}, {"function": {"arguments": "1}"}}
    ),
    "an index of null": calls(
        {"index": None, "id": "a", "function": NAMED},
        {"index": None, "id": None, "function": {"arguments": "1}"}},
    ),
    "an index that begins at one": calls(
        {"index": 1, "id": "a", "function": NAMED}, {"index": 1, "function": {"arguments": "1}"}}
    ),
    "an object for arguments": calls({"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}),
    "no arguments at first": calls(
        {"index": 0, "id": "a", "function": {"name": "f"}}, piece('{"x": 1}')
    ),
    "arguments of null at first": calls(
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}, piece('{"x": 1}')
    ),
    "all in the frame that ends it": [
        frame({"tool_calls": [{"id": "a", "function": {**NAMED, "arguments": '{"x":1}'}}]}, "stop")
    ],
}  # fmt: skip


@pytest.mark.promise("P-246")
@pytest.mark.parametrize("what", CALLS)
async def test_a_call_is_one_call_however_its_pieces_are_named(bench, what):
    events = await bench.stream(lines(*CALLS[what]) + END)
    check_stream(events, what)
    response = events[-1].response
    assert [(each.id, each.name, each.input) for each in response.tool_calls] == [
        ("a", "f", {"x": 1})
    ]
    assert response.stop_reason == "tool_use"
    turn = await returned(bench, response)
    (call,) = turn["tool_calls"]
    assert json.loads(call["function"].pop("arguments")) == {"x": 1}
    assert call == {"id": "a", "type": "function", "function": {"name": "f"}}


async def test_what_else_the_pieces_of_a_call_carry_goes_back_with_it(bench):
    signed = {"google": {"thought_signature": "s"}}
    first, later = {**CALLED, "extra_content": signed}, {"index": 0, "tags": ["a"], "id": ""}
    pieces = [frame({"tool_calls": [first]}), frame({"tool_calls": [later]}, "tool_calls")]
    events = await bench.stream(lines(*pieces) + END)
    (call,) = (await returned(bench, events[-1].response))["tool_calls"]
    assert (call["id"], call["extra_content"], call["tags"]) == ("a", signed, ["a"])


async def returned(bench, response):
    """Return the model's turn in the next request."""
    results = tuple(ToolResult(call.id, "done") for call in response.tool_calls)
    follow = LlmMessage("user", results or (TextBlock("Go on."),))
    body = await bench.body(bench.ask(LlmMessage("assistant", response.content), follow))
    turn, *answers = body["messages"]
    answered = [each["tool_call_id"] for each in answers if each["role"] == "tool"]
    assert answered == [call["id"] for call in turn.get("tool_calls", ())]
    return turn


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}, "index": 0}
ENCRYPTED = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}
KEPT = {
    "DeepSeek, xAI, vLLM": {"content": "Yes.", "reasoning_content": "Hm."},
    "Groq, Ollama, Cerebras": {"content": "Yes.", "reasoning": "Hm."},
    "OpenRouter": {
        "content": "Yes.",
        "reasoning_details": [
            {"type": "reasoning.summary", "summary": "Hm.", "id": "r", "index": 0},
            {**ENCRYPTED, "data": "one", "id": "call_1"},
            {**ENCRYPTED, "data": "two", "id": "call_2"},
            {"type": "reasoning.dream", "index": 1, "depth": 2},
        ],
    },
    "OpenRouter's pictures": {"content": "Yes.", "images": [IMAGE]},
    "LiteLLM": {
        "content": "Yes.",
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
    },
    "Gemini's signature of a text": {
        "content": "Yes.",
        "extra_content": {"google": {"thought_signature": "s"}},
    },
    "Mistral's parts": {
        "content": [
            {"type": "thinking", "thinking": [
                {"type": "text", "text": "Hm."}, {"type": "tool_reference", "tool": "w", "id": "1"}
            ], "closed": True},
            {"type": "text", "text": "Yes."},
            {"type": "reference", "reference_ids": [1, "b"]},
            {"type": "text", "text": "And", "annotations": [{"at": 3}]},
            {"type": "image_url", "image_url": "https://a.example/b.png"},
            {"type": "document_url", "document_url": "https://a.example/b.pdf"},
            {"type": "dream", "depth": 2},
        ]
    },
    "one part with more than its text": {
        "content": [{"type": "text", "text": "Yes.", "signature": "s"}]
    },
}  # fmt: skip


@pytest.mark.promise("P-246")
@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_server_wants_back_goes_back_where_it_was(bench, what, streamed):
    message = {"role": "assistant", **KEPT[what]}
    if streamed:
        response = (await bench.stream(lines(frame(message), frame({}, "stop"))))[-1].response
    else:
        response = await bench.chat(bench.message(**KEPT[what]))
    check_response(response, what)
    assert await returned(bench, response) == message


async def test_signatures_of_several_calls_in_one_place_stay_apart(bench):
    details = KEPT["OpenRouter"]["reasoning_details"][1:3]
    stream = lines(*(frame({"reasoning_details": [each]}) for each in details), frame({}, "stop"))
    (block,) = (await bench.stream(stream))[-1].response.content
    assert block.native == {"openai": {"reasoning_details": details}}


async def test_thoughts_in_pieces_keep_what_they_refer_to(bench):
    def part(*thoughts, **more):
        return frame({"content": [{"type": "thinking", "thinking": [*thoughts], **more}]})

    text, link = {"type": "text", "text": "H"}, {"type": "tool_reference", "id": "1"}
    stream = lines(
        part(text), part({**text, "text": "m."}), part(link), part(text, closed=True),
        frame({"content": "Yes."}, "stop"),
    )  # fmt: skip
    thought, said = (await bench.stream(stream))[-1].response.content
    assert (thought.text, said.text) == ("Hm.H", "Yes.")
    whole = [{**text, "text": "Hm."}, link, text]
    part = {"type": "thinking", "thinking": whole, "closed": True}
    assert thought.native == {"openai": {"part": part}}


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        ({"type": "custom", "custom": {"name": "sh", "input": "ls"}}, "sh", {"input": "ls"}),
        ({"type": "dream", "dream": {"name": "d", "depth": 2}}, "d", {"depth": 2}),
        ({"type": "dream"}, "dream", {}),
        ({"type": "builtin_function", "function": {"name": "$web", "arguments": "{}"}}, "$web", {}),
    ],
)
async def test_a_call_of_any_kind_is_a_call_and_goes_back_as_it_came(bench, call, name, value):
    call = {"id": "a", **call}
    response = await bench.chat(bench.message("tool_calls", content=None, tool_calls=[call]))
    (made,) = response.tool_calls
    assert (made.name, made.input) == (name, value)
    assert (await returned(bench, response))["tool_calls"] == [call]


async def test_a_call_with_an_object_for_arguments_goes_back_with_a_text(bench):
    given = bench.call({"path": "ä"})
    response = await bench.chat(bench.message(content="I look.", tool_calls=[given]))
    turn = await returned(bench, response)
    assert turn["tool_calls"] == [bench.call('{"path": "ä"}')]


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("eos", "end_turn"),
        ("EOS_TOKEN", "end_turn"),
        ("end_turn", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("model_length", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("SAFETY", "content_filter"),
        ("sensitive", "content_filter"),
        ("insufficient_system_resource", "other"),
        ("error", "other"),
        ("abort", "other"),
    ],
)
async def test_each_server_s_word_for_the_end_has_one_of_ours(bench, word, stop):
    response = await bench.chat(bench.message(word, content="Yes."))
    assert (response.stop_reason, response.raw_stop_reason) == (stop, word)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"error": "model is loading"}, "provider_error", "model is loading"),
        ({"error": {"message": "slow", "code": "429"}}, "rate_limited", "slow"),
        ({"error": {"message": "slow", "code": 529}}, "overloaded", "slow"),
        ({"object": "error", "message": "too long", "code": 400}, "invalid_request", "too long"),
        ({"object": "error", "message": "no", "type": "server_error"}, "provider_error", "no"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_error_with_a_good_status_is_an_error_in_any_form(
    bench, body, code, said, streamed
):
    with pytest.raises(ModelError) as caught:
        await (bench.stream(lines(SAID[0], body) + END) if streamed else bench.chat(body))
    assert (caught.value.code, caught.value.message) == (code, said)


@pytest.mark.parametrize(
    "stream",
    [
        "",
        lines(frame({"role": "assistant", "content": ""}, usage=USAGE["usage"])),
        lines(*(frame({"content": each}, usage=USAGE["usage"]) for each in "Yes")),
        lines(*SAID[:2], frame({"tool_calls": [CALLED]}, usage=USAGE["usage"])),
        lines(SAID[0], frame({}, usage=USAGE["usage"]), SAID[1]),
    ],
)
async def test_a_count_beside_words_or_before_any_does_not_end_an_answer(bench, stream):
    with pytest.raises(ModelError) as caught:
        await bench.stream(stream + END)
    assert caught.value.code == "invalid_response"


async def test_a_filtered_answer_without_a_message_is_one_without_content(bench):
    choice = {"index": 0, "finish_reason": "content_filter", "content_filter_results": {"a": 1}}
    response = await bench.chat({**bench.message(), "choices": [choice]})
    assert (response.content, response.stop_reason) == ((), "content_filter")


async def test_what_servers_add_to_a_message_is_sent_to_nobody(bench):
    more = {"annotations": [{"type": "url_citation"}], "executed_tools": [{"name": "x"}]}
    more |= {"citations": ["https://a.example"], "provider_specific_fields": {"a": 1}, "name": "n"}
    response = await bench.chat(bench.message(content="Yes.", **more))
    assert response.content == (TextBlock("Yes."),)


async def test_thoughts_and_words_are_ours_where_a_server_has_both(bench):
    given = {"reasoning": "Hm.", "reasoning_content": "Hm.", "content": "Yes."}
    events = await bench.stream(lines(frame(given), frame({}, "stop")))
    check_stream(events, "both")
    assert [type(each) for each in events[-1].response.content] == [ThinkingBlock, TextBlock]
