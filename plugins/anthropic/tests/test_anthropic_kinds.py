"""Every kind of block, end and error that Anthropic's SDK knows, and some that nobody does."""

import json
from importlib import import_module
from typing import get_args

import pytest

from clawhive_core import LlmMessage, LlmRequest, ModelError, TextBlock, ToolResult
from clawhive_core.testing import WireAnswer, WireServer, wire_kinds, wire_misfits, wire_samples
from clawhive_core.testing.adapter import PIECES, check_response, check_stream

# The plugin's own dependency, which is none of the checkout's.
beta, shared = (import_module(f"anthropic.types.{each}") for each in ("beta", "shared"))
FUTURE = {"type": "dream", "id": "dr_1", "depth": {"of": [1, None, "x"]}, "words": "Zz."}
ASKED = LlmMessage.text("user", "Go on.")
KINDS = [*wire_kinds(beta.BetaContentBlock), FUTURE]


def message(*content, stop="end_turn", **more):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [*content],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }


def events(*blocks, stop="end_turn", between=()):
    """Return the stream of an answer: each block begins as the API lets it begin, and grows."""
    given = [{"type": "message_start", "message": message(stop=None)}]
    for index, block in enumerate(blocks):
        begun, deltas = pieces(block)
        given.append({"type": "content_block_start", "index": index, "content_block": begun})
        given += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        given += [*between, {"type": "content_block_stop", "index": index}]
    end = {"stop_reason": stop, "stop_sequence": None}
    given.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}})
    given.append({"type": "message_stop"})
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in given)


def pieces(block):
    """Return a block as it begins, and the deltas that make it what it is."""
    if block["type"] == "text":
        cited = [{"type": "citations_delta", "citation": x} for x in block.get("citations") or ()]
        deltas = [{"type": "text_delta", "text": each} for each in block["text"]]
        return {"type": "text", "text": ""}, [*deltas, *cited]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": each} for each in block["thinking"]]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] in {"tool_use", "server_tool_use", "mcp_tool_use"}:
        written = json.dumps(block["input"])
        halves = (written[:3], written[3:])
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        return {**block, "input": {}}, deltas
    if block["type"] == "compaction":
        kept = {key: block[key] for key in ("content", "encrypted_content") if key in block}
        return {**block, "content": None}, [{"type": "compaction_delta", **kept}]
    if block["type"] == "dream":
        halves = ({"words": "Z"}, {"words": "z."}, {"depth": block["depth"]})
        return {**block, "words": "", "depth": None}, [{"type": "x_delta", **x} for x in halves]
    return block, []


class Desk:
    """One server and one adapter, asked again and again."""

    def __init__(self, make):
        self.make, self.answer = make, None
        self.server = WireServer(lambda _: self.answer)

    async def __aenter__(self):
        await self.server.__aenter__()
        self.adapter = self.make(self.server.url)
        return self

    async def __aexit__(self, *error):
        await self.adapter.close()
        await self.server.__aexit__(*error)

    async def read(self, answer, **how):
        self.answer = WireAnswer.of(answer, **how)
        request = LlmRequest("claude-sonnet-4-5", (ASKED,))
        if isinstance(answer, str):
            told = [event async for event in self.adapter.stream(request)]
            check_stream(told, answer[:500])
            response = told[-1].response
        else:
            response = await self.adapter.chat(request)
        check_response(response, str(answer)[:500])
        return response

    async def sent(self, *messages):
        self.answer = WireAnswer.of(message({"type": "text", "text": "ok"}))
        await self.adapter.chat(LlmRequest("claude-sonnet-4-5", (ASKED, *messages)))
        return self.server.requests[-1].body["messages"][1:]

    async def returned(self, response):
        """Return the model's turn in the next request."""
        results = tuple(ToolResult(call.id, "done") for call in response.tool_calls)
        follow = LlmMessage("user", results or (TextBlock("Go on."),))
        turn, after = await self.sent(LlmMessage("assistant", response.content), follow)
        answered = [each["tool_use_id"] for each in after["content"] if results]
        called = [each["id"] for each in turn["content"] if each["type"] == "tool_use"]
        assert answered == called
        return turn["content"]


@pytest.fixture
async def desk(make):
    async with Desk(make) as made:
        yield made


def result_of(block):
    """Return a call's result at the provider, without which it would not go back."""
    kinds = {"server_tool_use": "web_search_tool_result", "mcp_tool_use": "mcp_tool_result"}
    kind = kinds.get(block["type"])
    return [] if kind is None else [{"type": kind, "tool_use_id": block["id"], "content": []}]


def unsaid(block):
    """Return a block without what the API takes for granted."""
    direct = block["type"] == "tool_use" and block.get("caller") == {"type": "direct"}
    return {key: each for key, each in block.items() if key != "caller" or not direct}


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_every_block_is_read_and_goes_back_as_it_came(desk, kind):
    samples = [FUTURE] if kind is FUTURE else wire_samples(kind)
    for block in samples[:40]:
        content = [block, *result_of(block)]
        for answer in (message(*content), events(*content)):
            back = await desk.returned(await desk.read(answer))
            assert back[0] == unsaid(block)
            if kind is not FUTURE:
                assert wire_misfits(back[0], beta.BetaContentBlockParam) == []


@pytest.mark.promise("P-244")
async def test_one_answer_of_every_kind_reads_the_same_cut_anywhere(desk):
    blocks = [FUTURE if kind is FUTURE else wire_samples(kind)[0] for kind in KINDS]
    whole = await desk.read(message(*blocks, stop="tool_use"))
    for size in (0, *PIECES):
        told = await desk.read(events(*blocks, stop="tool_use"), piece=size)
        assert told.text == whole.text
        assert [type(each) for each in told.content] == [type(each) for each in whole.content]
        assert await desk.returned(told) == await desk.returned(whole)


@pytest.mark.promise("P-244")
async def test_every_event_of_a_stream_leaves_the_answer_what_it_is(desk):
    text = {"type": "text", "text": "Yes."}
    others = [{"type": "ping"}, {"type": "dream_begun", "index": 0}]
    assert (await desk.read(events(text, between=others))).text == "Yes."


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("word", [*get_args(beta.BetaStopReason), "dream"])
async def test_every_end_has_its_outcome(desk, word):
    wanted = {"model_context_window_exceeded": "max_tokens", "compaction": "pause_turn"}
    same = {"end_turn", "max_tokens", "stop_sequence", "pause_turn", "refusal"}
    stop = wanted.get(word, word if word in same else "other")
    for answer in (
        message({"type": "text", "text": "a"}, stop=word),
        events({"type": "text", "text": "a"}, stop=word),
    ):
        response = await desk.read(answer)
        assert (response.stop_reason, response.raw_stop_reason) == (stop, word)


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("kind", [*get_args(shared.ErrorType), "dream_error"])
async def test_every_error_within_a_stream_has_a_code(desk, kind):
    body = {"type": "error", "error": {"type": kind, "message": "No."}}
    with pytest.raises(ModelError) as caught:
        await desk.read(f"event: error\ndata: {json.dumps(body)}\n\n")
    assert caught.value.code != "invalid_response"
    own = kind in {"invalid_request_error", "memory_precondition_failed_error"}
    assert (caught.value.code == "invalid_request") is own
    assert "No." in caught.value.message


@pytest.mark.promise("P-244")
async def test_usage_is_read_whatever_else_is_counted(desk):
    for usage in wire_samples(beta.BetaUsage)[:60]:
        response = await desk.read(message({"type": "text", "text": "a"}, usage=usage))
        assert response.usage.input_tokens is not None


CALL = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
OURS = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}


@pytest.mark.promise("P-247")
async def test_a_call_at_the_provider_that_was_cut_does_not_go_back_before_new_words(desk):
    said = {"type": "text", "text": "I look."}
    for stop in ("max_tokens", "pause_turn"):
        response = await desk.read(message(said, CALL, stop=stop))
        assert await desk.returned(response) == [said]
    only = await desk.read(message(CALL, stop="max_tokens"))
    sent = await desk.sent(LlmMessage("assistant", only.content), ASKED)
    assert [each["role"] for each in sent] == ["user"]
    mcp = {"type": "mcp_tool_use", "id": "m_1", "name": "n", "server_name": "s", "input": {}}
    assert await desk.returned(await desk.read(message(said, mcp, stop="max_tokens"))) == [said]


@pytest.mark.promise("P-247")
async def test_a_call_at_the_provider_that_still_runs_goes_back(desk):
    paused = LlmMessage("assistant", (await desk.read(message(CALL, stop="pause_turn"))).content)
    assert await desk.sent(paused) == [{"role": "assistant", "content": [CALL]}]
    went_on = await desk.read(message(FOUND, {"type": "text", "text": "So."}))
    sent = await desk.sent(paused, LlmMessage("assistant", went_on.content), ASKED)
    assert sent[0]["content"] == [CALL, FOUND, {"type": "text", "text": "So."}]
    assert await desk.returned(await desk.read(message(CALL, OURS, stop="tool_use"))) == [
        CALL,
        OURS,
    ]
