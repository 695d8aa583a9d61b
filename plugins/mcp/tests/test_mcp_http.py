"""Servers over HTTP: on loopback where their address names it, and nowhere else."""

import socket
import threading

import pytest
import uvicorn
from mcp.server import MCPServer
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import RedirectResponse, Response

from clawhive_core import ToolError
from clawhive_mcp.servers import Server


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Web:
    """A server of the SDK on loopback, and what it was asked."""

    def __init__(self):
        self.seen, self.answers = [], {}
        server = MCPServer("web")
        server.tool()(add)
        app = server.streamable_http_app()
        app.add_middleware(BaseHTTPMiddleware, dispatch=self.dispatch)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()  # so that nobody comes before the server does
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="critical", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()

    async def dispatch(self, request, call_next):
        self.seen.append((request.method, request.url.path, dict(request.headers)))
        answer = self.answers.get(request.url.path)
        return await call_next(request) if answer is None else answer

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def web():
    made = Web()
    yield made
    made.close()


def at(url, **more):
    return Server("web", url=url, connect_timeout_ms=20_000, **more)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_at_an_address_that_is_named_is_called_with_its_headers(place, web, host):
    server = at(f"http://{host}:{web.port}/mcp", headers={"Authorization": "Bearer s3cret"})
    provider = place.provider(server)
    assert (await place.call(provider, "add", a=1, b=2)).structured == {"result": 3}
    assert {each["authorization"] for _, _, each in web.seen} == {"Bearer s3cret"}
    web.seen.clear()


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize(
    "there",
    ["http://169.254.169.254/latest/meta-data", "http://127.0.0.1:1/mcp", "https://example.com/"],
)
async def test_a_redirect_elsewhere_is_not_followed(place, web, caplog, status, there):
    web.answers["/away"] = RedirectResponse(there, status)
    provider = place.provider(at(f"http://127.0.0.1:{web.port}/away"))
    assert await provider.list_tools() == []
    assert "server=web" in caplog.text


async def test_a_name_that_leads_to_this_machine_is_refused(place, web, caplog, monkeypatch):
    def found(host, port, *rest, **more):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", web.port))]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    before = len(web.seen)
    provider = place.provider(at(f"http://innocent.example:{web.port}/mcp"))
    assert await provider.list_tools() == []
    assert "a loopback address" in caplog.text
    assert len(web.seen) == before


@pytest.mark.parametrize("status", [401, 500])
async def test_a_server_that_refuses_has_no_tools(place, web, caplog, status):
    web.answers["/no"] = Response("no", status)
    provider = place.provider(at(f"http://127.0.0.1:{web.port}/no"))
    assert await provider.list_tools() == []
    assert "server=web" in caplog.text
    with pytest.raises(ToolError) as caught:
        await place.call(provider, "add")
    assert caught.value.code == "ConnectionError"
