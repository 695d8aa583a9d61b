"""Addresses, keys, connections, and a whole run."""

import subprocess
import sys
from functools import partial

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from clawhive_core import ClawHiveError, Hive, ModelError
from clawhive_core.testing import WireAnswer, WireServer, memory_hive
from clawhive_gemini.adapter import GeminiAdapter
from clawhive_gemini.settings import Settings, read_settings

KEY = "AIza-made-up-for-tests"


async def asked(adapter, request, *, stream):
    if stream:
        return [event async for event in adapter.stream(request)]
    return await adapter.chat(request)


def test_importing_the_plugin_imports_no_sdk():
    code = (
        "import sys, clawhive_gemini as g; from clawhive_gemini.settings import Settings;"
        "g.GeminiAdapter(Settings(), {});"
        "print([n for n in sys.modules if n.startswith(('google', 'genai', 'httpx', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_settings_come_from_the_table_or_the_environment():
    assert read_settings({}, {}) == Settings()
    assert read_settings({}, {"GOOGLE_GEMINI_BASE_URL": "http://own"}).host == "own"
    assert read_settings({}, {"GOOGLE_GENAI_API_VERSION": "v1"}).api_version == "v1"
    given = {"base_url": "https://proxy.example/gemini", "api_key_env": "MINE"}
    assert read_settings(given, {"GOOGLE_GEMINI_BASE_URL": "http://own"}) == Settings(
        "https://proxy.example/gemini", key_variables=("MINE",)
    )


@pytest.mark.parametrize(
    "given",
    [
        {"base_url": "localhost:80"},
        {"base_url": 5},
        {"base_url": "http://[x"},
        {"base_url": "file:///etc"},
        {"api_key_env": ""},
        {"api_key_env": 5},
        {"api_key": KEY},
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_what_is_right(given):
    with pytest.raises(ClawHiveError) as wrong:
        read_settings(given, {})
    assert (wrong.value.code, bool(wrong.value.fix)) == ("invalid_config", True)
    assert wrong.value.place.startswith("plugins.gemini.")
    assert KEY not in str(wrong.value.to_dict())


@pytest.mark.parametrize("env", [{}, {"GEMINI_API_KEY": " "}, {"GEMINI_API_KEY": "a\nb"}], ids=str)
async def test_without_a_key_nothing_is_sent_and_the_variable_named(api, env):
    async with WireServer([WireAnswer.of({})]) as server:
        adapter = GeminiAdapter(Settings(server.url), env)
        with pytest.raises(ModelError) as wrong:
            await adapter.chat(api.request())
        with pytest.raises(ModelError):
            await asked(adapter, api.request(), stream=True)
    assert wrong.value.code == "missing_key"
    assert "GEMINI_API_KEY" in wrong.value.fix
    assert server.requests == []


@pytest.mark.parametrize(
    "env",
    [{"GEMINI_API_KEY": KEY}, {"GOOGLE_API_KEY": KEY, "GEMINI_API_KEY": "other"}],
    ids=str,
)
async def test_the_key_goes_into_the_header_and_nowhere_else(api, env):
    async with WireServer([WireAnswer.of(api.body({"text": "x"}))]) as server:
        adapter = api.adapter(f"{server.url}/below/", **env)
        await adapter.chat(api.request())
        await adapter.close()
    (request,) = server.requests
    assert request.headers["x-goog-api-key"] == KEY
    assert request.path == "/below/v1beta/models/gemini-3-pro:generateContent"
    assert KEY not in repr(adapter) + repr(vars(adapter))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "error", "code", "after"),
    [
        (400, {"details": [{"reason": "API_KEY_INVALID"}]}, "authentication_failed", None),
        (400, {"message": "it exceeds the maximum number of tokens"}, "request_too_large", None),
        (
            429,
            {"details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "34.5s"}]},
            None,
            34.5,
        ),
        (
            429,
            {"details": [{"violations": [{"quotaId": "RequestsPerDay"}]}]},
            "quota_exhausted",
            None,
        ),
        (404, {"message": f"no model for {KEY}"}, "model_not_found", None),
        (302, {}, "provider_error", None),
    ],
)
async def test_errors_of_the_api_are_told_apart(api, stream, status, error, code, after):
    answer = WireAnswer.of({"error": {"code": status, **error}}, status)
    async with api.served(answer) as (adapter, server):
        with pytest.raises(ModelError) as wrong:
            await asked(adapter, api.request(), stream=stream)
    assert wrong.value.code == (code or "rate_limited")
    assert wrong.value.data.get("retry_after") == after
    assert KEY not in repr(wrong.value) + str(wrong.value.to_dict())
    assert len(server.requests) == 1  # the SDK does not ask again by itself


async def test_a_redirection_is_not_followed_so_that_the_key_stays(api):
    async with WireServer([WireAnswer.of(api.body({"text": "stolen"}))]) as other:
        away = WireAnswer(b"{}", 307, headers={"location": f"{other.url}/x"})
        async with api.served(away) as (adapter, _):
            with pytest.raises(ModelError) as wrong:
                await adapter.chat(api.request())
    assert (wrong.value.code, other.requests) == ("provider_error", [])


async def test_nobody_at_the_address_is_connection_failed(api):
    with pytest.raises(ModelError) as wrong:
        await api.adapter("http://127.0.0.1:1").chat(api.request())
    assert (wrong.value.code, wrong.value.data["retryable"]) == ("connection_failed", True)


@pytest.mark.parametrize("how", ["chat", "stream", "stream that began"])
async def test_a_cancelled_call_closes_its_connection_at_once(api, how):
    # The rest is more than the buffers of a connection hold: writing it waits for the reader.
    started = api.sse(api.body({"text": "Hel"}, finish=None)).encode() + b": wait\n" * 4_000_000
    hanging = WireAnswer(hang=True)

    async with api.served(hanging) as (adapter, server), anyio.create_task_group() as group:
        if how == "stream that began":
            server._answer = lambda _: WireAnswer(started, 200, "text/event-stream", piece=65_536)
            events = adapter.stream(api.request())
            assert (await anext(events)).text == "Hel"
            assert server._tasks
            await events.aclose()
        else:
            group.start_soon(partial(asked, adapter, api.request(), stream=how == "stream"))
            with anyio.fail_after(300):
                while not server.requests:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(300):
            while server._tasks:
                await anyio.lowlevel.checkpoint()


async def test_it_serves_several_event_loops_and_closing_twice_is_once(api):
    async with WireServer([WireAnswer.of(api.body({"text": "Hello."}))]) as server:
        adapter = api.adapter(server.url)

        async def elsewhere():
            response = await adapter.chat(api.request())
            await adapter.close()
            return response.text

        assert (await adapter.chat(api.request())).text == "Hello."
        assert await anyio.to_thread.run_sync(anyio.run, elsewhere) == "Hello."
        assert (await adapter.chat(api.request())).text == "Hello."
        await adapter.close()
        await adapter.close()


@pytest.mark.promise("P-146")
async def test_a_run_at_another_host_needs_a_right_and_then_calls_tools(api):
    call = {
        "functionCall": {"name": "file__list", "args": {"path": "."}},
        "thoughtSignature": "c2ln",
    }
    answers = [WireAnswer.of(api.body(call)), WireAnswer.of(api.body({"text": "There is one."}))]
    async with WireServer(answers) as server:
        adapter = api.adapter(server.url)
        settings = {"plugins.enabled": ["builtin"]}
        async with memory_hive(adapters=[adapter], settings=settings) as hive:
            (hive.root / "a.txt").write_text("x", "utf-8")
            model = "gemini:gemini-3-pro"
            refused = await hive.run("Look", model=model)
            assert refused["error"]["code"] in {"approval_required", "denied"}
            assert "`grants=['model.call:gemini/127.0.0.1']`" in refused["error"]["fix"]
            assert server.requests == []
            run = await hive.run("Look", model=model, grants=["model.call:gemini/127.0.0.1"])
            assert (run["status"], run["output"]) == ("succeeded", "There is one.")
    (_, second) = server.requests
    model_turn, results = second.body["contents"][-2:]
    assert model_turn["parts"] == [call]
    assert "a.txt" in results["parts"][0]["functionResponse"]["response"]["output"]


async def test_the_installed_plugin_offers_the_adapter():
    settings = {"plugins.enabled": ["gemini"], "plugins.gemini": {"api_key_env": "NOT_SET"}}
    async with memory_hive(settings=settings) as hive:
        run = await hive.run("Hi", model="gemini:gemini-3-pro")
    assert run["error"]["code"] == "missing_key"
    assert "NOT_SET" in run["error"]["fix"]


async def test_a_projects_file_that_nobody_trusts_moves_no_address(tmp_path):
    table = '[plugins.gemini]\nbase_url = "http://127.0.0.1:1"\n'
    (tmp_path / "clawhive.toml").write_text(table, "utf-8")
    env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    async with Hive.open(tmp_path, env=env) as hive:
        run = await hive.run("Hi", model="gemini:gemini-3-pro")
    assert run["error"]["code"] == "missing_key"  # at another host it would ask for a right first
