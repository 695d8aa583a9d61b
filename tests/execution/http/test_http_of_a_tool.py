"""`ctx.http`: requests of a tool, under the rights of its call."""

import pytest

from clawhive_core.errors import ConfigError, ToolError
from clawhive_core.execution.http.connections import Connections
from clawhive_core.execution.http.guard import Guard, Proxy
from clawhive_core.hive.hive import Hive
from clawhive_core.model.tools import ToolResult
from tests.harness import House

PUBLIC = "93.184.216.34"
PAGE = "http://a.example/page"


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    house.close()


async def fetch(given, ctx):
    found = await ctx.http.request("GET", given["url"])
    return ToolResult(ctx.tool_call_id, found.text, structured={"url": found.url})


async def calling(house, http, server, url, **meta):
    """Call a tool that fetches a URL, and return its result with what was asked for midway."""
    network = http.Network({PUBLIC: server.port, "127.0.0.1": server.port})
    names = http.Names({"a.example": [[PUBLIC]], "localhost": [["127.0.0.1"]]})
    house.wiring.http._guard = guard = Guard(resolve=names, network=network)
    await house.offer("demo.fetch", fetch, **meta).ready()
    result = await house.call("demo.fetch", {"url": url})
    await guard.aclose()
    rows = [row for row in await house.rows() if row["tool"] == "require"]
    return result, [each["requested_capabilities"][0] for each in rows], network


async def test_a_request_needs_its_own_right_and_leaves_an_event(house, http):
    house.give(f"net.http:{PAGE}")
    async with http.serving(http.answer(body=b"hello")) as server:
        result, asked, _ = await calling(house, http, server, PAGE)
    assert (result.output, result.is_error) == ("hello", False)
    assert asked == [f"net.http:{PAGE}"]


async def test_what_the_call_was_decided_for_is_not_asked_again(house, http):
    house.give(f"net.http:{PAGE}")
    async with http.serving(http.answer()) as server:
        result, asked, _ = await calling(house, http, server, PAGE, effects={"url": "net.http"})
    assert (result.is_error, asked) == (False, [])


async def test_a_redirect_elsewhere_is_asked_and_refused(house, http):
    house.give(f"net.http:{PAGE}")
    reply = http.answer(302, Location="http://b.example/")
    async with http.serving(reply) as server:
        result, asked, network = await calling(house, http, server, PAGE)
    assert result.structured["error"] == "approval_required"
    assert asked == [f"net.http:{PAGE}", "net.http:http://b.example/"]
    assert network.asked == [(PUBLIC, 80)]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/", "http://localhost:8080/"])
async def test_a_right_to_all_of_the_web_opens_no_loopback(house, http, url):
    house.give("net.http:**")
    async with http.serving(http.answer()) as server:
        result, asked, network = await calling(house, http, server, url)
    assert result.structured["error"] == "approval_required"
    assert "127.0.0.1, a loopback address" in result.structured["message"]
    assert "net.connect:127.0.0.1:8080" in result.structured["next"]["command"]
    assert (asked[-1], network.asked) == ("net.connect:127.0.0.1:8080", [])


@pytest.mark.parametrize(
    ("url", "rights"),
    [
        ("http://127.0.0.1:8080/a", ["net.http:http://127.0.0.1:8080"]),
        ("http://127.1:8080/a", ["net.http:http://127.0.0.1:*/a"]),
        ("http://localhost:8080/a", ["net.http:http://localhost:*", "net.http:*://127.0.0.1"]),
        ("http://localhost:8080/a", ["net.http:**", "net.connect:127.0.0.1:8080"]),
    ],
)
async def test_a_right_that_names_an_address_opens_it(house, http, url, rights):
    for each in rights:
        house.give(each)
    async with http.serving(http.answer()) as server:
        result, _, network = await calling(house, http, server, url)
    assert not result.is_error, result.output
    assert network.asked == [("127.0.0.1", 8080)]


@pytest.mark.parametrize(
    "rights",
    [
        ["net.http:http://127.0.0.1:9090"],
        ["net.http:https://127.0.0.1:8080"],
        ["net.http:http://127.0.0.1:8080/b"],
        ["net.http:http://localhost:8080"],
        ["net.http:http://*:8080"],
        ["net.connect:127.0.0.1:9090"],
    ],
)
async def test_a_right_to_something_beside_an_address_does_not(house, http, rights):
    for each in rights:
        house.give(each)
    async with http.serving(http.answer()) as server:
        result, _, network = await calling(house, http, server, "http://127.0.0.1:8080/a")
    assert result.is_error
    assert network.asked == []


async def test_a_deny_stands_against_a_right_that_names_an_address(house, http):
    house.give("net.http:http://127.0.0.1:8080")
    house.give("net.connect:127.0.0.1:8080")
    house.denies = house.canonical("net.http:*://127.0.0.1")
    async with http.serving(http.answer()) as server:
        result, _, network = await calling(house, http, server, "http://127.0.0.1:8080/a")
    assert result.structured["error"] == "denied"
    assert network.asked == []


async def test_connections_are_made_at_the_first_request_and_closed():
    connections = Connections()
    assert connections._guard is None
    guard = connections.guard()
    assert connections.guard() is guard
    await connections.aclose()
    assert connections._guard is None


def test_connections_without_the_library_name_the_command(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolError) as caught:
        Connections().guard()
    assert caught.value.code == "missing_package"
    assert caught.value.fix == "pip install 'clawhive[http]'"


def test_a_proxy_that_is_none_is_told_at_the_first_request():
    with pytest.raises(ConfigError) as caught:
        Connections("socks5://127.0.0.1:1").guard()
    assert caught.value.place == "http.proxy"


async def test_a_project_s_configuration_names_no_proxy(project_root):
    (project_root / "clawhive.toml").write_text('[http]\nproxy = "http://evil.example:1"\n')
    env = {"XDG_CONFIG_HOME": str(project_root / "config")}
    async with Hive.open(project_root, env=env) as hive:
        assert hive.config.get("http.proxy") is None
    async with Hive.open(project_root, env={**env, "CLAWHIVE_HTTP_PROXY": "http://p:1"}) as hive:
        assert hive._http.guard()._proxy == Proxy("p", 1)
