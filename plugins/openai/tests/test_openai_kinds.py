"""Every kind of item, event and error that OpenAI's SDK knows, and some that nobody does."""

from importlib import import_module
from typing import get_args

import pytest

from clawhive_core import LlmMessage, ModelError, ProviderBlock, TextBlock, ToolResult
from clawhive_core.testing import (
    WireAnswer,
    WireServer,
    wire_kinds,
    wire_misfits,
    wire_samples,
)
from clawhive_core.testing.adapter import check_response, check_stream
from clawhive_openai import OpenAIAdapter, Server

types = import_module("openai.types.responses")  # the plugin's own dependency
ResponseInputItemParam, ResponseStreamEvent = (
    types.ResponseInputItemParam,
    types.ResponseStreamEvent,
)
ResponseError, ResponseOutputItem = types.ResponseError, types.ResponseOutputItem
FUTURE = {"type": "dream_call", "id": "dr_1", "status": "completed", "depth": {"of": [1, None]}}
TERMINAL = {"response.completed", "response.incomplete", "response.failed", "error"}


class Desk:
    """One server and one adapter, asked again and again."""

    def __init__(self, bench):
        self.bench = bench
        self.answer = bench.response()
        self.server = WireServer(lambda _: WireAnswer.of(self.answer))

    async def __aenter__(self):
        await self.server.__aenter__()
        self.adapter = OpenAIAdapter(Server("openai", self.server.url, "responses"), {})
        return self

    async def __aexit__(self, *error):
        await self.adapter.close()
        await self.server.__aexit__(*error)

    async def read(self, answer, *, streamed):
        self.answer = answer
        if not streamed:
            response = await self.adapter.chat(self.bench.ask())
        else:
            events = [event async for event in self.adapter.stream(self.bench.ask())]
            check_stream(events, str(answer)[:500])
            response = events[-1].response
        check_response(response, str(answer)[:500])
        return response

    async def returned(self, response, **result):
        """Return the input of the next turn, from the model's turn on."""
        results = [
            ToolResult(call.id, "done", **{"is_error": False, **result})
            for call in response.tool_calls
        ]
        follow = LlmMessage("user", tuple(results) or (TextBlock("Go on."),))
        self.answer = self.bench.response()
        await self.adapter.chat(self.bench.ask(LlmMessage("assistant", response.content), follow))
        return self.server.requests[-1].body["input"]


@pytest.fixture
async def desk(bench):
    async with Desk(bench) as made:
        yield made


def streamed(bench, item, *between):
    started = {**item, "status": "in_progress"} if "status" in item else item
    return bench.events(
        {"type": "response.created", "response": bench.response(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": started},
        *between,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": bench.response(item)},
    )


def valid(sample):
    """Return a sample as the API would send it: arguments are JSON, ids are those of one call."""
    if sample.get("type") == "function_call":
        return {**sample, "arguments": '{"a": 1}'}
    return sample


def sent(item):
    """Return an item as the API takes it."""
    kept = {key: value for key, value in item.items() if key != "created_by"}
    if isinstance(item.get("output"), list):
        kept["output"] = [
            {key: value for key, value in each.items() if key != "created_by"}
            for each in item["output"]
        ]
    return kept


def stored(item):
    """Whether an item is a client's own output, which only a stored conversation lists."""
    return item["type"] == "custom_tool_call_output" and "status" in item


@pytest.mark.promise("P-244")
@pytest.mark.parametrize("kind", [*wire_kinds(ResponseOutputItem), FUTURE], ids=str)
async def test_every_item_is_read_and_goes_back_as_the_api_takes_it(bench, desk, kind):
    samples = [FUTURE] if kind is FUTURE else [*map(valid, wire_samples(kind))]
    if len(samples) > 60:  # those that differ deep inside of tools that are listed
        samples = [*samples[:40], samples[-1]]
    for item in samples:
        for answer in (bench.response(item), streamed(bench, item)):
            response = await desk.read(answer, streamed=isinstance(answer, str))
            back = await desk.returned(response)
            if item.get("status") == "incomplete" and not response.content:
                continue  # a call that was cut has no answer
            assert back[0] == sent(item)
            if kind is FUTURE:
                continue
            # The SDK asks for fields of requests that it leaves optional in answers.
            misfits = [each for at in back for each in wire_misfits(at, ResponseInputItemParam)]
            strange = [each for each in misfits if each.endswith("is unknown")]
            assert strange == ([".status is unknown"] if stored(item) else [])


@pytest.mark.promise("P-244")
async def test_every_event_of_a_stream_leaves_the_answer_what_it_is(bench, desk):
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "x"}}
    plain = await desk.read(streamed(bench, item), streamed=True)
    others = [{"type": "response.dream.delta", "delta": "z"}, {"type": "", "no": "type"}]
    for kind in wire_kinds(ResponseStreamEvent):
        (word,) = get_args(kind.model_fields["type"].annotation)
        if word not in TERMINAL and "output_item" not in word:
            others += wire_samples(kind)[:3]
    texts = {"response.output_text.delta", "response.refusal.delta"}
    for event in others:
        read = await desk.read(streamed(bench, item, event), streamed=True)
        if event.get("type") not in texts:
            assert read.content == plain.content, event


@pytest.mark.parametrize("code", get_args(ResponseError.model_fields["code"].annotation))
async def test_every_code_of_a_failed_answer_has_its_outcome(bench, desk, code):
    failed = {"status": "failed", "error": {"code": code, "message": "No."}}
    body = {**bench.response(), **failed, "output": []}
    for answer in (body, bench.events({"type": "response.failed", "response": body})):
        outcome = await failed_as(desk, answer)
        blocked = "policy" in code or code == "invalid_prompt"
        picture = "image" in code or code == "data_residency_mismatch"
        assert outcome in {"provider_error", "rate_limited", "timeout"} or blocked or picture
        assert (outcome == "content_filter") is blocked
        assert (outcome == "invalid_request") is (picture and not blocked)


async def failed_as(desk, answer):
    try:
        response = await desk.read(answer, streamed=isinstance(answer, str))
    except ModelError as error:
        return error.code
    return response.stop_reason


CALLS = {
    "shell": {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": 99},
    },
    "local_shell": {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "apply_patch": {
        "type": "apply_patch_call",
        "id": "ap_1",
        "call_id": "c1",
        "status": "completed",
        "operation": {"type": "create_file", "path": "a", "diff": "+x"},
    },
    "computer": {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "screenshot"},
        "pending_safety_checks": [{"id": "s1", "code": "x", "message": "Sure?"}],
    },
}
OTHERS = {
    "mcp_approval": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "pay",
        "server_label": "bank",
        "arguments": "{}",
    },
    "tool_search": {
        "type": "tool_search_call",
        "id": "ts_1",
        "call_id": "c1",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "pay"},
    },
}


@pytest.mark.promise("P-245")
@pytest.mark.parametrize("name", OTHERS)
async def test_what_is_asked_of_the_client_is_approved_or_found_by_a_tool_alone(bench, desk, name):
    item = OTHERS[name]
    response = await desk.read(bench.response(item), streamed=False)
    (call,) = response.tool_calls
    assert call.name == f"openai.{name}"
    tools = [{"type": "function", "name": "pay", "parameters": {}, "strict": False}]
    for value, error in (
        (True, False),
        (True, True),
        ("true", False),
        (None, False),
        (tools, False),
    ):
        back, answer = await desk.returned(response, structured=value, is_error=error)
        assert back == item
        assert wire_misfits(answer, ResponseInputItemParam) == []
        if name == "mcp_approval":
            assert answer["approval_request_id"] == "mcpr_1"
            assert answer["approve"] is (value is True and not error)
        else:
            assert (answer["call_id"], answer["tools"]) == ("c1", [] if value != tools else tools)


@pytest.mark.promise("P-245")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("failed", [False, True])
async def test_a_call_that_the_client_runs_is_a_call_and_is_answered_in_its_form(
    bench, desk, name, failed
):
    item = CALLS[name]
    response = await desk.read(bench.response(item), streamed=False)
    assert response.stop_reason == "tool_use"
    (call,) = response.tool_calls
    assert (call.id, call.name) == ("c1", f"openai.{name}")
    assert call.input == item.get("operation", item["action"] if "shell" in name else call.input)
    call_back, answer, *_ = await desk.returned(response, is_error=failed)
    assert call_back == item
    assert answer["type"] == f"{item['type']}_output"
    assert wire_misfits(answer, ResponseInputItemParam) == []
    if name == "apply_patch":
        assert answer["status"] == ("failed" if failed else "completed")
    if name == "shell":
        stream = "stderr" if failed else "stdout"
        assert answer["output"][0][stream] == "done"
        assert answer["output"][0]["outcome"] == {"type": "exit", "exit_code": int(failed)}
        assert answer["max_output_length"] == 99
    if name == "computer":
        assert ("acknowledged_safety_checks" in answer) is not failed


async def test_a_tool_s_value_is_its_screenshot_or_its_streams(bench, desk):
    response = await desk.read(bench.response(CALLS["computer"]), streamed=False)
    shot = {"image_url": "data:image/png;base64,AA=="}
    _, answer, *more = await desk.returned(response, structured=shot)
    assert (answer["output"], more) == ({"type": "computer_screenshot", **shot}, [])
    response = await desk.read(bench.response(CALLS["shell"]), streamed=False)
    value = {"stdout": "a", "stderr": "b", "exit_code": 7}
    _, answer = await desk.returned(response, structured=value)
    outcome = {"type": "exit", "exit_code": 7}
    assert answer["output"] == [{"stdout": "a", "stderr": "b", "outcome": outcome}]


async def test_a_hosted_shell_answers_itself(bench, desk):
    where = {"type": "container_reference", "container_id": "cntr_1"}
    call = {**CALLS["shell"], "environment": where}
    output = {
        "type": "shell_call_output",
        "id": "sho_1",
        "call_id": "c1",
        "status": "completed",
        "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "timeout"}}],
    }
    response = await desk.read(bench.response(call, output), streamed=False)
    assert [type(block) for block in response.content] == [ProviderBlock, ProviderBlock]
    assert (await desk.returned(response))[:2] == [call, output]


async def test_items_under_one_index_stay_apart(bench, desk):
    text = {**bench.text("Yes."), "status": "completed"}
    other = {**bench.text("No."), "id": "msg_2", "status": "completed"}
    call = bench.function_call()
    body = bench.events(
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes."},
        *({"type": "response.output_item.done", "output_index": 0, "item": item}
          for item in (text, other, call)),
        {"type": "response.completed", "response": bench.response(text, other, call)},
    )  # fmt: skip
    response = await desk.read(body, streamed=True)
    assert (response.text, len(response.tool_calls)) == ("Yes.No.", 1)
    assert (await desk.returned(response))[:3] == [text, other, call]


async def test_items_under_indexes_that_begin_elsewhere_come_once(bench, desk):
    text = bench.text("Yes.")
    body = bench.events(
        {"type": "response.output_item.done", "output_index": 1, "item": text},
        {"type": "response.completed", "response": bench.response(text)},
    )
    assert (await desk.read(body, streamed=True)).text == "Yes."


def test_the_empty_picture_is_one():
    from base64 import b64decode

    from clawhive_openai.responses_calls import _BLANK

    assert b64decode(_BLANK.partition(",")[2]).startswith(b"\x89PNG")
