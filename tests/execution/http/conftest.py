"""Servers on loopback, a fake look-up of names, and a network that leaves loopback for nothing."""

import asyncio
import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpcore2
import pytest

from clawhive_core.errors import ToolError
from clawhive_core.execution.http import answer as answers
from clawhive_core.execution.http import guard as guards
from clawhive_core.execution.http.client import GuardedClient
from clawhive_core.execution.http.guard import Guard
from clawhive_core.execution.http.target import Rights

PUBLIC = "93.184.216.34"


@pytest.fixture(autouse=True)
def packets(monkeypatch):
    """Refuse every connection that leaves loopback, and every real look-up; keep the addresses."""
    connected, connect = [], socket.socket.connect

    def guarded(sock, address):
        connected.append(address)
        assert address[0] in {"127.0.0.1", "::1"}, f"a packet for {address}"
        return connect(sock, address)

    def no_lookup(host, *args, **kwargs):
        raise AssertionError(f"{host} was looked up")

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    return connected


class Network(httpcore2.AsyncNetworkBackend):
    """Takes each public address to a server on loopback, and keeps what was asked for."""

    def __init__(self, ports=None):
        self.ports = ports or {}
        self.asked = []
        self._real = httpcore2.AnyIOBackend()

    async def connect_tcp(self, host, port, timeout=None, **options):  # noqa: ASYNC109 - httpcore2's
        self.asked.append((host, port))
        to = self.ports.get((host, port), self.ports.get(host))
        if to is None:
            raise httpcore2.ConnectError(f"nothing listens at {host}")
        if to == "never":
            raise httpcore2.ConnectTimeout
        return await self._real.connect_tcp("127.0.0.1", to, timeout=timeout)


class Names:
    """Answers of a resolver, one after the other; the last repeats."""

    def __init__(self, answers):
        self.answers = {name: [list(each) for each in given] for name, given in answers.items()}
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append(host)
        given = self.answers.get(host, self.answers.get(host + "."))
        if given is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return given.pop(0) if len(given) > 1 else given[0]


class Door:
    """Allows by verb, or by the start of a capability's text; keeps what was asked."""

    def __init__(self, *allowed, named=()):
        self.allowed, self.named, self.asked = allowed, named, []

    async def require(self, capability):
        self.asked.append(capability)
        if not capability.startswith(self.allowed):
            raise ToolError(f"no right: {capability}", code="denied")

    def names(self, capability):
        return capability.text.startswith(self.named) if self.named else False

    @property
    def rights(self):
        return Rights(self.require, self.names)


def make_client(names=None, network=None, door=None, **options):
    """Return a client with what it stands on: names, network, door and guard."""
    names = names if isinstance(names, Names) else Names(names or {})
    network, door = network or Network(), door or Door("net.http:")
    guard = Guard(resolve=names, network=network, **options)
    found = GuardedClient(lambda: guard, door.rights)
    return SimpleNamespace(
        http=found, names=names, network=network, door=door, guard=guard, get=get_by(found)
    )


def get_by(client):
    async def get(url, **options):
        return await client.request("GET", url, **options)

    return get


class Server:
    """Plays answers, and keeps the requests: `(line, headers, body)`."""

    greeting = b""

    def __init__(self, answer):
        self.answer, self.requests, self.connections, self.tasks = answer, [], 0, set()

    async def serve(self, reader, writer):
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        writer.write(self.greeting)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.strip().split("\r\n")
                headers = {
                    k.lower(): v.strip() for k, _, v in (each.partition(":") for each in rest)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if headers.get("transfer-encoding") == "chunked":
                    body = await reader.readuntil(b"0\r\n\r\n")
                self.requests.append((line, headers, body))
                answer = self.answer(line, headers, body)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                elif await answer(reader, writer) != "again":
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def answer(status=200, body=b"ok", **headers):
    """Return the bytes of an answer."""
    fields = {"Content-Length": len(body), **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1") + body


@asynccontextmanager
async def serving(reply, tls=None):
    """Serve on loopback; `reply` is bytes, or what makes them of a request."""
    server = Server(reply if callable(reply) else lambda *_: reply)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, limit=2**20)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)


@pytest.fixture
async def http():
    """What tests of the client are made of."""
    made = []

    def client(*args, **options):
        made.append(make_client(*args, **options))
        return made[-1]

    yield SimpleNamespace(
        client=client, serving=serving, answer=answer, Names=Names, Network=Network, Door=Door
    )
    for each in made:
        await each.guard.aclose()


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of deadlines, which stands still until a test moves it."""
    found = SimpleNamespace(now=1000.0)
    for module in (answers, guards):
        monkeypatch.setattr(module, "monotonic", lambda: found.now)
    return found
