"""The transport for one origin: what a configuration names is reached, and nothing beside it."""

import httpx2
import pytest

from clawhive_core.errors import ToolError
from clawhive_core.execution.http import transport as transports
from clawhive_core.execution.http.guard import Guard
from clawhive_core.execution.http.transport import origin_transport

PUBLIC = "93.184.216.34"


@pytest.fixture
def client_of(monkeypatch, http):
    """Return a maker of clients for one origin, with names and a network of the test's own."""

    def make(url, names=None, ports=None):
        network = http.Network(ports)
        guard = Guard(resolve=http.Names(names or {}), network=network)
        monkeypatch.setattr(transports, "Guard", lambda proxy: guard)
        client = httpx2.AsyncClient(
            transport=origin_transport(url), trust_env=False, follow_redirects=True
        )
        return client, network

    return make


async def refusal(doing):
    with pytest.raises(ToolError) as caught:
        await doing
    assert caught.value.code == "denied"
    return caught.value.message


OTHERS = [
    "https://mcp.example/",
    "http://mcp.example:81/",
    "http://other.example/",
    "http://sub.mcp.example/",
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data",
    f"http://{PUBLIC}/",
]


@pytest.mark.parametrize("url", OTHERS)
async def test_another_origin_is_refused_before_a_name_is_looked_up(client_of, url):
    client, network = client_of("http://mcp.example/mcp", {"mcp.example": [[PUBLIC]]})
    async with client:
        assert "only http://mcp.example is meant" in await refusal(client.get(url))
    assert network.asked == []


async def test_every_path_of_the_origin_is_reached_and_a_redirect_inside_it(client_of, http):
    def answer(line, headers, body):
        if line.startswith("GET /mcp "):
            return http.answer(307, b"", Location="/there?x=1")
        return http.answer()

    async with http.serving(answer) as server:
        ports = {PUBLIC: server.port}
        client, _ = client_of("http://mcp.example/mcp", {"mcp.example": [[PUBLIC]]}, ports)
        async with client:
            assert (await client.get("http://mcp.example/mcp")).text == "ok"


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"])
async def test_a_name_that_leads_inside_is_refused(client_of, inside):
    client, network = client_of("http://mcp.example/mcp", {"mcp.example": [[inside]]})
    async with client:
        assert inside in await refusal(client.get("http://mcp.example/mcp"))
    assert network.asked == []


@pytest.mark.parametrize(
    ("url", "address", "is_reached"),
    [
        ("http://127.0.0.1/mcp", "127.0.0.1", True),
        ("http://10.0.0.1/mcp", "10.0.0.1", True),
        ("http://[::1]/mcp", "::1", True),
        ("http://localhost/mcp", "127.0.0.1", True),
        ("http://localhost/mcp", "::1", True),
        ("http://localhost/mcp", "10.0.0.1", False),
        ("http://localhost.example/mcp", "127.0.0.1", False),
    ],
)
async def test_an_address_inside_is_reached_where_the_url_names_it(
    client_of, http, url, address, is_reached
):
    async with http.serving(http.answer()) as server:
        names = {"localhost": [[address]], "localhost.example": [[address]]}
        client, network = client_of(url, names, {address: server.port})
        async with client:
            if is_reached:
                assert (await client.get(url)).text == "ok"
            else:
                await refusal(client.get(url))
                assert network.asked == []
