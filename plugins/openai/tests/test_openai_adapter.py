"""The adapter as a plugin: settings, keys, hosts, faults, cancellation, several loops."""

import asyncio
import json
import subprocess
import sys
import threading

import anyio
import pytest

from clawhive_core import ClawHiveError, LlmMessage, ModelError, ToolCall
from clawhive_core.testing import (
    Wire,
    WireAnswer,
    WireServer,
    check_adapter,
    check_faults,
    memory_hive,
)
from clawhive_openai import OpenAIAdapter, Server
from clawhive_openai.settings import read_settings


def test_the_plugin_imports_no_sdk():
    code = "import sys, clawhive_openai\nassert not {'openai', 'genai_prices'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_it_is_an_adapter(bench, api):
    right = bench.message(content="Hello.") if api == "chat" else bench.response()
    if api == "chat":
        stream = bench.chunks({"content": "Hello."})
    else:
        stream = bench.events({"type": "response.completed", "response": bench.response()})

    def answer(request):
        return WireAnswer.of(stream if request.body.get("stream") else right)

    async with WireServer(answer) as server:
        await check_adapter(OpenAIAdapter(Server("openai", server.url, api), {}))


@pytest.mark.promise("P-137")
async def test_broken_answers_of_both_apis_are_coded_errors(bench):
    def wire(api):
        return Wire(lambda url: OpenAIAdapter(Server("openai", url, api), {}), lambda body: [])

    whole, stream = bench.message(content="Hello."), bench.chunks({"content": "Hello."})
    await check_faults(wire("chat"), json.dumps(whole).encode(), stream.encode())
    stream = bench.events({"type": "response.completed", "response": bench.response()})
    await check_faults(wire("responses"), json.dumps(bench.response()).encode(), stream.encode())


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (429, {"error": {"code": "insufficient_quota", "message": "m"}}, "quota_exhausted"),
        (402, {"error": {"message": "Insufficient Balance"}}, "quota_exhausted"),
        (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, "request_too_large"),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 8 tokens"},
            "request_too_large",
        ),
        (400, {"error": {"type": "exceed_context_size_error", "code": 400}}, "request_too_large"),
        (429, {"error": {"message": "Request too large for gpt-4o"}}, "request_too_large"),
        (403, {"error": {"code": "model_not_found", "message": "m"}}, "model_not_found"),
        (404, {"error": {"code": "DeploymentNotFound", "message": "m"}}, "model_not_found"),
        (400, {"error": {"code": "content_filter", "message": "m"}}, "invalid_request"),
        (422, {"detail": "Unprocessable"}, "invalid_request"),
        (307, {}, "provider_error"),
    ],
)
async def test_errors_are_told_apart_by_what_the_server_says(bench, status, body, code):
    async with bench.open(WireAnswer.of(body, status)) as (adapter, _):
        with pytest.raises(ModelError) as caught:
            await adapter.chat(bench.ask())
    assert (caught.value.code, caught.value.data["status"]) == (code, status)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
async def test_the_time_to_wait_is_read_in_every_form(bench, headers, seconds):
    answer = WireAnswer(b"{}", 429, headers=headers)
    async with bench.open(answer) as (adapter, server):
        with pytest.raises(ModelError) as caught:
            await adapter.chat(bench.ask())
    assert caught.value.data.get("retry_after") == seconds
    assert len(server.requests) == 1  # tried again by the core, not by the SDK


@pytest.mark.promise("P-139")
async def test_a_missing_key_is_named_before_any_connection(bench):
    adapter = OpenAIAdapter(Server(), {"OPENAI_API_KEY": " "})
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        await adapter.chat(bench.ask())
    assert caught.value.code == "missing_key"


@pytest.mark.promise("P-139")
async def test_a_server_of_ones_own_needs_no_key_and_is_sent_no_organisation(bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-process")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    async with WireServer([WireAnswer.of(bench.message(content="x"))]) as server:
        adapter = OpenAIAdapter(Server("own", server.url, api_key_env=None), {})
        await adapter.chat(bench.ask())
        await adapter.close()
    headers = server.requests[0].headers
    assert not {"authorization", "openai-organization"} & headers.keys()


@pytest.mark.promise("P-139")
async def test_the_key_is_in_no_error_even_where_the_server_repeats_it(bench):
    said = f"no such key: {bench.key}"
    bodies = [
        WireAnswer.of({"error": {"message": said}}, 401),
        WireAnswer.of({"error": {"message": said}}),
        WireAnswer.of(f'data: {{"error": {{"message": "{said}"}}}}\n\n'),
        WireAnswer.of(f'data: {{"choices": [{{"error": {{"message": "{said}"}}}}]}}\n\n'),
    ]
    async with bench.open(*bodies) as (adapter, server):
        for streamed in (False, False, True, True):
            error = await bench.failure(adapter, streamed=streamed)
            assert bench.key not in f"{error}{error!r}{error.to_dict()}{adapter!r}"
            assert "[key]" in error.message
    assert server.requests[0].headers["authorization"] == f"Bearer {bench.key}"


@pytest.mark.promise("P-142")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_request_lets_its_connection_go_at_once(bench, streamed):
    gone = anyio.Event()

    async def hold(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        if streamed:
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            writer.write((head + bench.chunks({"content": "x"}, finish=None, end=False)).encode())
        asked.set()
        while await reader.read(65536):
            pass
        gone.set()
        writer.close()

    asked = anyio.Event()
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    adapter = OpenAIAdapter(Server("openai", f"http://127.0.0.1:{port}"), {})

    async def ask():
        if streamed:
            async for _ in adapter.stream(bench.ask()):
                pass
        else:
            await adapter.chat(bench.ask())

    async with server:
        with anyio.fail_after(300):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await asked.wait()
                group.cancel_scope.cancel()
            await gone.wait()
    await adapter.close()


async def test_closing_twice_is_closing_and_the_next_request_opens_anew(bench):
    async with bench.open(bench.message(content="x")) as (adapter, _):
        await adapter.chat(bench.ask())
        await adapter.close()
        await adapter.close()
        assert (await adapter.chat(bench.ask())).text == "x"


async def test_other_threads_have_loops_and_clients_of_their_own(bench):
    async with bench.open(bench.message(content="x")) as (adapter, _):
        said = []

        def sync():
            async def ask():
                said.append((await adapter.chat(bench.ask())).text)
                await adapter.close()

            asyncio.run(ask())

        await adapter.chat(bench.ask())
        threads = [threading.Thread(target=sync) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
        assert said == ["x"] * 3


@pytest.mark.promise("P-140")
async def test_another_host_needs_a_right_of_its_own(bench):
    calls = [bench.call('{"path": "a"}')]
    bodies = [bench.message("tool_calls", content=None, tool_calls=calls)]
    bodies.append(bench.message(content="Read."))
    async with WireServer([WireAnswer.of(each) for each in bodies]) as server:
        adapter = OpenAIAdapter(Server("own", server.url, tools="native"), {})
        async with memory_hive(adapters=[adapter]) as hive:
            refused = await hive.run("Read a.", model="own:m")
            assert server.requests == []
            assert refused["error"]["code"] == "approval_required"
            grants = ["model.call:own/127.0.0.1"]
            run = await hive.run("Read a.", model="own:m", grants=grants)
    assert run["output"] == "Read."
    results = [each for each in server.requests[1].body["messages"] if each["role"] == "tool"]
    assert results[0]["tool_call_id"] == "call_1"


@pytest.mark.promise("P-140")
async def test_a_redirect_is_not_followed(bench):
    async with WireServer([WireAnswer.of(bench.message(content="stolen"))]) as other:
        moved = WireAnswer(b"", 307, headers={"location": f"{other.url}/chat/completions"})
        async with bench.open(moved) as (adapter, _):
            with pytest.raises(ModelError):
                await adapter.chat(bench.ask())
    assert other.requests == []


@pytest.mark.promise("P-141")
async def test_where_native_calls_are_ignored_the_choice_is_a_constrained_response(bench):
    def answer(request):
        body = request.body
        if "response_format" in body:
            chosen = {"tool": "file.read", "arguments": {"path": "a"}}
            return WireAnswer.of(bench.message(content=json.dumps(chosen)))
        text = "I would read it."
        return WireAnswer.of(
            bench.chunks({"content": text}) if body.get("stream") else bench.message(content=text)
        )

    def asked(server):
        bodies = [each.body for each in server.requests]
        named = [body.get("tools", [{"function": {"name": "constrained"}}]) for body in bodies]
        return [tools[0]["function"]["name"] for tools in named]

    for streamed in (False, True):
        async with WireServer(answer) as server:
            adapter = OpenAIAdapter(Server("own", server.url), {})
            request = bench.ask(tools=(bench.tool,))
            for _ in range(2):
                if streamed:
                    events = [event async for event in adapter.stream(request)]
                    response = events[-1].response
                    assert [each.block for each in events if each.block] == [*response.tool_calls]
                else:
                    response = await adapter.chat(request)
                (call,) = response.tool_calls
                assert isinstance(call, ToolCall)
                assert (call.name, call.input) == ("file.read", {"path": "a"})
                assert response.stop_reason == "tool_use"
            await adapter.close()
        assert asked(server) == ["file__read", "ping", "constrained", "constrained"]


@pytest.mark.promise("P-141")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_that_refuses_tools_is_asked_without_them(bench, streamed):
    def answer(request):
        if "tools" in request.body:
            return WireAnswer.of({"error": {"message": "this model does not support tools"}}, 400)
        return WireAnswer.of(bench.message(content='{"answer": "Hello."}'))

    async with WireServer(answer) as server:
        adapter = OpenAIAdapter(Server("own", server.url), {})
        request = bench.ask(tools=(bench.tool,))
        if streamed:
            events = [event async for event in adapter.stream(request)]
            assert [event.kind for event in events] == ["text", "done"]
            response = events[-1].response
        else:
            response = await adapter.chat(request)
        await adapter.close()
    assert response.text == "Hello."


async def test_an_option_of_none_takes_a_parameter_away(bench):
    async with bench.open(bench.chunks({"content": "x"})) as (adapter, server):
        for options in ({}, {"stream_options": None}):
            async for _ in adapter.stream(bench.ask(options=options)):
                pass
    first, second = (each.body for each in server.requests)
    assert first["stream_options"] == {"include_usage": True}
    assert second["stream"] is True
    assert "stream_options" not in second


async def test_openais_own_models_are_never_doubted():
    assert Server().probes == "native"
    assert Server(tools="constrained").probes == "constrained"
    assert Server("own", "http://localhost:1/v1").probes == "auto"


@pytest.mark.parametrize(
    ("url", "dialect", "key_needed"),
    [
        ("https://api.openai.com/v1", "responses", True),
        ("https://eu.api.openai.com/v1", "responses", True),
        ("https://me.openai.azure.com/openai/v1", "responses", True),
        ("http://localhost:8000/v1", "chat", False),
        ("https://api.openai.com.evil.example/v1", "chat", False),
    ],
)
def test_the_address_says_what_is_spoken(url, dialect, key_needed):
    server = Server(base_url=url)
    assert (server.dialect, server.is_openai) == (dialect, key_needed)


def test_settings_name_servers():
    table = {"base_url": "http://localhost:11434/v1/", "tools": "native"}
    given = {"api": "chat", "servers": {"ollama": table}}
    own, chat, ollama = read_settings(given, {"OPENAI_BASE_URL": "https://proxy.example/v1"})
    assert (own.name, own.dialect, own.host) == ("openai", "chat", "proxy.example")
    assert (chat.name, chat.dialect) == ("openai-chat", "chat")
    assert (ollama.name, ollama.base_url) == ("ollama", "http://localhost:11434/v1")
    assert (ollama.api_key_env, ollama.tools) == (None, "native")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"bse_url": "x"}, "plugins.openai.bse_url"),
        ({"base_url": "localhost:8000"}, "plugins.openai.base_url"),
        ({"base_url": "http://[::1"}, "plugins.openai.base_url"),
        ({"base_url": 3}, "plugins.openai.base_url"),
        ({"api": "grpc"}, "plugins.openai.api"),
        ({"tools": True}, "plugins.openai.tools"),
        ({"api_key_env": "sk-123"}, "plugins.openai.api_key_env"),
        ({"servers": []}, "plugins.openai.servers"),
        ({"servers": {"x": {}}}, "plugins.openai.servers.x"),
        ({"servers": {"openai": {"base_url": "http://a"}}}, "plugins.openai.servers.openai"),
        ({"servers": {"x": {"base_url": "ftp://a"}}}, "plugins.openai.servers.x.base_url"),
    ],
)
def test_a_wrong_setting_is_named(given, place):
    with pytest.raises(ClawHiveError) as caught:
        read_settings(given, {})
    assert (caught.value.code, caught.value.place) == ("invalid_config", place)


async def test_prices_of_known_models_are_known(bench):
    answer = bench.message(content="x") | {"model": "gpt-4o-2024-08-06"}
    async with bench.open(answer) as (adapter, _):
        assert (await adapter.chat(bench.ask())).usage.cost is None  # another server's price
    from clawhive_openai.usage import read_usage

    used = {"input_tokens": 1000, "output_tokens": 100}
    assert 0 < read_usage(used, "gpt-4o-2024-08-06", Server()).cost < 1
    assert read_usage(used, "no-such-model", Server()).cost is None


@pytest.mark.parametrize(
    ("model", "word"),
    [("gpt-5-mini", "minimal"), ("gpt-5.1", "none"), ("gpt-4o", None), ("gpt-5.1-chat", None)],
)
def test_reasoning_is_switched_off_in_each_models_own_word(bench, model, word):
    from clawhive_openai.parameters import effort

    assert effort(bench.ask(model=model, reasoning="off"), own=True) == word
    with pytest.raises(ModelError, match="cannot answer without"):
        effort(bench.ask(model="o3", reasoning="off"), own=True)


async def test_an_empty_assistant_turn_is_not_sent(bench):
    empty = LlmMessage("assistant", ())
    body = await bench.body(bench.ask(LlmMessage.text("user", "Hi."), empty))
    assert [each["role"] for each in body["messages"]] == ["user"]
