"""Clients over HTTP: who they are by their tokens, from which pages and hosts, nothing without."""

import json
import stat
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from clawhive_core import ClawHiveError
from clawhive_mcp.serving.http import PATH, Address, listen, serve_http
from clawhive_mcp.serving.names import STABLE
from clawhive_mcp.serving.tokens import PREFIX, Tokens

from .gateway_house import ERAS, House, Provider


@pytest.fixture
def tokens(tmp_path):
    return Tokens(str(tmp_path), {})


@asynccontextmanager
async def served(house, tokens, **more):
    """Serve a house on a free port of this machine; give the address."""
    address = Address(port=0, **more)
    with listen(address) as listening:
        async with house.gateway.open() as server, anyio.create_task_group() as group:
            group.start_soon(serve_http, server, address, tokens, listening)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
            group.cancel_scope.cancel()


@asynccontextmanager
async def connected(url, token=None, era="legacy"):
    """Give a client."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as web:
        streams = streamable_http_client(url, http_client=web)
        async with Client(streams, mode=era) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_who_its_token_says_in_every_request(era, tokens):
    house = House(Provider(more=60), client=None)
    ana, bob = tokens.create("ana"), tokens.create("bob")
    async with served(house, tokens) as url:
        async with connected(url, ana, era) as client:
            await client.call_tool("tool_enable", {"names": ["test.more7"]})
        async with connected(url, ana, era) as client:
            assert "test__more7" in [each.name for each in (await client.list_tools()).tools]
            await client.call_tool("test__more7", {})
        async with connected(url, bob, era) as client:
            assert "test__more7" not in [each.name for each in (await client.list_tools()).tools]
            refused = await client.call_tool("test__more7", {})
            assert refused.structured_content["error"] == "tool_not_enabled"
        calls = [each.event for each in house.hive.log.events() if each.event.tool == "test.more7"]
    assert {each.principal for each in calls} == {"client:mcp/ana", "client:mcp/bob"}


@pytest.mark.promise("P-286")
async def test_who_has_no_token_is_refused_and_a_revoked_one_counts_no_more(tokens):
    token = tokens.create("ana")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with (
        served(House(Provider(), client=None), tokens) as url,
        httpx2.AsyncClient(trust_env=False) as web,
    ):

        async def status(value):
            headers = {} if value is None else {"Authorization": value}
            return (await web.post(url, json=message, headers=headers)).status_code

        for wrong in (None, "Bearer", "Bearer x", f"Basic {token}", f"Bearer {token}x"):
            assert await status(wrong) == 401, wrong
        assert await status(f"bearer {token}") != 401
        assert (await web.get(url.replace(PATH, "/other"))).status_code == 404
        tokens.revoke("ana")
        assert await status(f"Bearer {token}") == 401


async def test_pages_of_browsers_and_other_names_are_refused(tokens):
    token = tokens.create("ana")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    ours = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    house = House(Provider(), client=None)
    async with (
        served(house, tokens, names=("gateway.example",)) as url,
        httpx2.AsyncClient(trust_env=False) as web,
    ):

        async def status(**headers):
            answer = await web.post(url, json=message, headers={**ours, **headers})
            return answer.status_code

        assert await status(Host="evil.example") == 421
        assert await status(Origin="https://evil.example") == 403
        assert await status(Origin="null") == 403
        good = {await status(), await status(Host="gateway.example")}
        assert good.isdisjoint({401, 403, 421})


@pytest.mark.parametrize("era", ERAS)
async def test_without_tokens_only_the_five_tools_are_listed(era, tokens):
    house = House(Provider(), client=None)
    async with served(house, tokens, needs_token=False) as url, connected(url, era=era) as client:
        assert [each.name for each in (await client.list_tools()).tools] == list(STABLE)
        done = await client.call_tool("tool_call", {"name": "test.echo", "args": {"a": 1}})
        assert done.structured_content == {"a": 1}


def test_without_tokens_nobody_else_reaches_it():
    with pytest.raises(ClawHiveError, match="anybody who reaches"):
        Address("0.0.0.0", needs_token=False)
    assert Address("::1", needs_token=False).security().enable_dns_rebinding_protection


def test_a_place_that_is_taken_says_what_to_do():
    with listen(Address(port=0)) as taken, pytest.raises(ClawHiveError) as caught:
        listen(Address(port=taken.getsockname()[1]))
    assert "--port 0" in caught.value.fix


def test_a_token_is_kept_as_its_hash_where_only_the_user_reads(tokens):
    token = tokens.create("ana")
    text = tokens.path.read_text("utf-8")
    assert token.startswith(PREFIX)
    assert token not in text
    assert json.loads(text)["tokens"][0]["name"] == "ana"
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert (tokens.client(token), tokens.client(token + "x")) == ("ana", None)
    with pytest.raises(ClawHiveError, match="a token of `ana` already"):
        tokens.create("ana")
    with pytest.raises(ClawHiveError, match="no token of `bob`"):
        tokens.revoke("bob")


def test_tokens_that_others_may_change_do_not_count(tokens):
    tokens.create("ana")
    tokens.path.chmod(0o666)
    with pytest.raises(ClawHiveError, match="others than you"):
        tokens.client("x")


def test_no_run_makes_or_revokes_a_token(tmp_path):
    inside = Tokens(str(tmp_path), {"CLAWHIVE_RUN": "run_1"})
    for change in (inside.create, inside.revoke):
        with pytest.raises(ClawHiveError, match="no run may change"):
            change("ana")
