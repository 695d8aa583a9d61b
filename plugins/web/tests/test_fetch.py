"""`web.fetch` over real HTTP on loopback, with fake look-ups of names."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpcore2
import pytest

from clawhive_core import ToolError
from clawhive_core.execution.http.client import GuardedClient
from clawhive_core.execution.http.guard import Guard
from clawhive_core.execution.http.target import Rights
from clawhive_web import fetch as module_of_the_tool
from clawhive_web.fetch import LIMITS
from clawhive_web.robots import Robots

PUBLIC = "93.184.216.34"
CASES = Path(__file__).resolve().parents[4] / "shared" / "data" / "ssrf_dev.json"


class Network(httpcore2.AsyncNetworkBackend):
    """Takes every address to one server on loopback, and keeps what was asked for."""

    def __init__(self, port):
        self.port, self.asked, self._real = port, [], httpcore2.AnyIOBackend()

    async def connect_tcp(self, host, port, timeout=None, **options):  # noqa: ASYNC109 - httpcore2's
        self.asked.append(host)
        return await self._real.connect_tcp("127.0.0.1", self.port, timeout=timeout)


@asynccontextmanager
async def site(pages, dns=None):
    """Serve pages by path; what is no page is 404. The tool's context is given."""

    async def serve(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, fields, body = pages.get(head.split()[1].decode(), (404, "", b""))
            start = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
            writer.write(f"{start}{fields}\r\n".encode() + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    answers = {name: list(given) for name, given in (dns or {"a.example": [[PUBLIC]]}).items()}

    async def resolve(host, port):
        given = answers.get(host)
        if given is None:
            raise OSError(f"{host} is unknown")
        return given.pop(0) if len(given) > 1 else given[0]

    async def allow(capability):
        if not capability.startswith("net.http:"):
            raise ToolError(f"no right: {capability}", code="denied")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    network = Network(server.sockets[0].getsockname()[1])
    guard = Guard(resolve=resolve, network=network)
    http = GuardedClient(lambda: guard, Rights(allow))
    try:
        yield SimpleNamespace(http=http, asked=network.asked)
    finally:
        await guard.aclose()
        server.close()


class Redirecting(dict):
    """A site whose first page redirects, where a case says so; it has no robots.txt."""

    def __init__(self, location):
        super().__init__()
        self.location = location

    def get(self, path, default):
        if path == "/robots.txt":
            return default
        to, self.location = self.location, None
        return (302, f"Location: {to}\r\n", b"") if to else (200, HTML, b"page")


@pytest.fixture(autouse=True)
def no_rules_kept(monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules["clawhive_web.fetch"], "_ROBOTS", Robots())


fetch = module_of_the_tool
LATIN = ("né à côté " * 30).encode("latin-1")
HTML = "Content-Type: text/html; charset=utf-8\r\n"


async def test_a_page_comes_with_its_address_type_and_hash():
    pages = {"/": (302, "Location: /new\r\n", b""), "/new": (200, HTML, "né".encode())}
    async with site(pages) as ctx:
        page = await fetch("http://a.example/", ctx)
    assert (page.url, page.status, page.text) == ("http://a.example/new", 200, "né")
    assert (page.truncated, page.warnings, len(page.sha256)) == (False, [], 64)


async def test_a_long_body_is_cut_with_a_warning():
    pages = {"/": (200, HTML, b"x" * (LIMITS.body + 1))}
    async with site(pages) as ctx:
        page = await fetch("http://a.example/", ctx)
    assert (page.truncated, page.bytes) == (True, LIMITS.body)
    assert str(LIMITS.body) in page.warnings[0]


@pytest.mark.parametrize(
    ("fields", "body", "text", "warned"),
    [
        (
            "Content-Type: text/plain; charset=utf-8\r\n",
            ("né à côté " * 30).encode("latin-1"),
            "né",
            True,
        ),
        ("Content-Type: text/plain; charset=klingon\r\n", "né".encode(), "né", True),
        ("Content-Type: text/html\r\n", '<meta charset="cp1252">é'.encode("cp1252"), None, False),
        ("Content-Type: image/png\r\n", b"\x89PNG", "", True),
    ],
)
async def test_a_wrong_charset_or_type_is_told(fields, body, text, warned):
    async with site({"/": (200, fields, body)}) as ctx:
        page = await fetch("http://a.example/", ctx)
    assert bool(page.warnings) is warned
    if text is None:
        assert page.text.endswith("é")
    elif text == "":
        assert page.text == ""
    else:
        assert page.text.startswith("n")


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ((200, "", b"User-agent: *\nDisallow: /private"), "robots_denied"),
        ((503, "", b""), "robots_unreachable"),
        ((404, "", b""), None),
        ((200, "", b"User-agent: *\nDisallow: /other"), None),
    ],
)
async def test_robots_txt_decides(rules, code):
    pages = {"/robots.txt": rules, "/private": (200, HTML, b"page")}
    async with site(pages) as ctx:
        if code is None:
            assert (await fetch("http://a.example/private", ctx)).text == "page"
            return
        with pytest.raises(ToolError) as caught:
            await fetch("http://a.example/private", ctx)
    assert (caught.value.code, caught.value.place) == (code, "http://a.example/robots.txt")
    assert caught.value.fix


async def test_every_case_of_the_address_file_behaves_as_labelled():
    if not CASES.is_file():
        pytest.skip("the shared address cases are not here")
    data = json.loads(CASES.read_text(encoding="utf-8"))
    wrong, checked = [], 0
    for case in data["cases"]:
        pages = Redirecting(case["redirect"])
        async with site(pages, case["dns"] or {"nobody.example": [[PUBLIC]]}) as ctx:
            with suppress(ToolError):
                await fetch(case["url"], ctx)
            checked += 1
            reached = set(ctx.asked)
        is_wrong = bool(reached - set(data["public"]))
        if is_wrong or (case["expect"] == "allow" and not reached):
            wrong.append((case["id"], case["url"], sorted(reached)))
    assert checked > 50
    assert wrong == []
