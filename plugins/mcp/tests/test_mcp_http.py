"""Servers over HTTP: reached where their address says and nowhere else, and logged in to."""

import asyncio
import base64
import hashlib
import json
import socket
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import uvicorn
from mcp.client.auth import OAuthFlowError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse, RedirectResponse, Response

from clawhive_core import Answer, ClawHiveError, ToolError
from clawhive_mcp.logins import LoginFile
from clawhive_mcp.servers import Server
from clawhive_mcp.web import Origins, Person, log_in


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def trip(ctx: Context) -> str | InputRequiredResult:
    """Ask where to, as the era of 2026-07-28 asks."""
    if not ctx.input_responses:
        fields = {"type": "object", "properties": {"city": {"type": "string"}}}
        form = ElicitRequestFormParams(message="Where to?", requested_schema=fields)
        return InputRequiredResult(input_requests={"where": ElicitRequest(params=form)})
    return str(ctx.input_responses["where"])


class Web:
    """A server of the SDK on loopback, and what it was asked."""

    def __init__(self):
        self.seen, self.answers = [], {}
        server = self.mcp = MCPServer("web")
        server.tool()(add)
        server.tool()(trip)
        server.tool()(self.grow)
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

    async def grow(self, ctx: Context) -> str:
        """Offer one tool more."""
        self.mcp.add_tool(add, name="later")
        await ctx.notify_tools_changed()
        return "grown"

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


@pytest.mark.parametrize("status", [307, pytest.param(302, marks=pytest.mark.slow)])
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


async def test_a_server_of_the_later_era_gets_the_answer_of_a_person(place, web):
    async def ask(question):
        assert question.message == "Where to?"
        return Answer("accept", {"city": "Rome"})

    place.context.ask = ask
    result = await place.call(place.provider(at(f"http://127.0.0.1:{web.port}/mcp")), "trip")
    assert "Rome" in result.output


async def test_a_tool_that_a_server_of_the_later_era_adds_is_offered(place, web):
    provider = place.provider(at(f"http://127.0.0.1:{web.port}/mcp"))
    await provider.list_tools()
    changed = asyncio.Event()
    provider.subscribe(changed.set)
    assert (await place.call(provider, "grow")).output == "grown"
    await changed.wait()
    assert "mcp.web.later" in {each.name for each in await provider.list_tools()}


class Guarded(Web):
    """A server that wants tokens, and gives them: resource and authorization server in one."""

    def __init__(self):
        super().__init__()
        self.base = f"http://127.0.0.1:{self.port}"

    def begin(self):
        self.token, self.given, self.expires_in, self.facts = "", 0, 3_600, {}
        self.codes, self.asked = {}, []

    async def dispatch(self, request, call_next):
        path = request.url.path
        known = {
            "/.well-known/oauth-protected-resource/mcp": self.resource,
            "/.well-known/oauth-authorization-server": self.metadata,
            "/register": self.register,
            "/authorize": self.authorize,
            "/token": self.tokens,
        }
        if path in known:
            self.asked.append(path)
            return await known[path](request)
        if path == "/open":
            return JSONResponse({})
        if not self.token or request.headers.get("authorization") != f"Bearer {self.token}":
            return Response("who are you?", 401)
        return await call_next(request)

    async def resource(self, request):
        servers = [self.facts.get("authorization_server", self.base)]
        return JSONResponse({"resource": f"{self.base}/mcp", "authorization_servers": servers})

    async def metadata(self, request):
        return JSONResponse(
            {
                "issuer": self.base,
                "authorization_endpoint": self.facts.get("login", f"{self.base}/authorize"),
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def register(self, request):
        asked = await request.json()
        assert asked["client_name"] == "ClawHive"
        client = {"client_id": "c1", "token_endpoint_auth_method": "none"}
        return JSONResponse({**asked, **client}, 201)

    async def authorize(self, request):
        asked = dict(request.query_params)
        assert asked["resource"] == f"{self.base}/mcp"
        self.codes["code1"] = asked
        if "refuses" in self.facts:
            back = f"error=access_denied&state={asked['state']}"
        else:
            back = f"code=code1&state={asked['state']}"
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def tokens(self, request):
        asked = {name: each[0] for name, each in parse_qs((await request.body()).decode()).items()}
        if asked["grant_type"] == "authorization_code":
            challenge = hashlib.sha256(asked["code_verifier"].encode()).digest()
            sent = self.codes.pop(asked["code"])["code_challenge"]
            assert base64.urlsafe_b64encode(challenge).decode().rstrip("=") == sent
        elif asked["refresh_token"] != f"r{self.given}":
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.given += 1
        self.token = f"t{self.given}"
        value = {"access_token": self.token, "token_type": "Bearer"}
        more = {"expires_in": self.expires_in, "refresh_token": f"r{self.given}"}
        return JSONResponse({**value, **more})


@pytest.fixture(scope="module")
def guarded_server():
    made = Guarded()
    yield made
    made.close()


@pytest.fixture
def guarded(guarded_server):
    guarded_server.begin()
    return guarded_server


@pytest.fixture
def login(place, guarded):
    return LoginFile("web", f"{guarded.base}/mcp", str(place.folder / "own"))


def browser(visits):
    """Return what a person does who opens the address and is sent back."""

    def told(url):
        async def visit():
            async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as client:
                visits.append((await client.get(url)).text)

        visits.append(asyncio.ensure_future(visit()))

    return told


async def logged_in(guarded, login, told=None, path="/mcp", **more):
    visits = []
    url = f"{guarded.base}{path}"
    async with Person(url, told or browser(visits), **more).listening() as person:
        await log_in(at(url), login, person)
        await asyncio.gather(*visits[:1])
    return visits


def provider(place, guarded):
    made = place.provider(at(f"{guarded.base}/mcp"))
    made._connection._dial.user_dir = str(place.folder / "own")
    return made


@pytest.mark.promise("P-275")
async def test_a_login_is_kept_for_its_owner_and_used_by_calls(place, guarded, login):
    [_, page] = await logged_in(guarded, login)
    assert "You can close this page" in page
    assert login.path.stat().st_mode & 0o077 == 0
    assert "/register" in guarded.asked
    assert (await place.call(provider(place, guarded), "add", a=1, b=2)).structured == {"result": 3}


async def test_tokens_that_ended_are_renewed_and_the_new_ones_kept(place, guarded, login):
    await logged_in(guarded, login)
    login.write({**login.read(), "saved_at": time.time() - 7_200})
    assert (await place.call(provider(place, guarded), "add", a=1, b=2)).structured == {"result": 3}
    assert login.read()["token"]["access_token"] == "t2"
    assert guarded.asked.count("/authorize") == 1


async def test_without_a_login_and_after_its_end_the_error_says_how_to_log_in(
    place, guarded, login, caplog, monkeypatch
):
    monkeypatch.setattr("clawhive_mcp.cache.DEAD_SECONDS", 0.0)
    before = provider(place, guarded)
    assert await before.list_tools() == []
    assert "it wants a login" in caplog.text
    await logged_in(guarded, login)
    later = provider(place, guarded)
    await place.call(later, "add", a=1, b=2)
    guarded.token, guarded.given = "", 9  # ended there, and not renewed either
    login.write({**login.read(), "saved_at": time.time() - 7_200})
    with pytest.raises(ToolError) as caught:
        await place.call(later, "add", a=1, b=2)
    assert (caught.value.code, caught.value.fix) == ("ConnectionError", "clawhive mcp login web")
    asked = list(guarded.asked)
    await logged_in(guarded, login)
    assert guarded.asked != asked
    assert (await place.call(later, "add", a=1, b=2)).structured == {"result": 3}


async def test_a_client_that_is_registered_already_is_not_registered(guarded, login):
    await logged_in(guarded, login, client_id="mine")
    assert "/register" not in guarded.asked
    assert login.read()["client"]["client_id"] == "mine"


async def test_tokens_are_for_one_address_alone(place, guarded, login):
    await logged_in(guarded, login)
    other = LoginFile("web", f"{guarded.base}/other", str(place.folder / "own"))
    assert other.read() is None
    moved = json.dumps({**login.read(), "url": "https://elsewhere.example/mcp"})
    login.path.write_text(moved)
    assert await provider(place, guarded).list_tools() == []


@pytest.mark.parametrize(
    ("facts", "path", "why"),
    [
        ({"refuses": True}, "/mcp", "access_denied"),
        ({"login": "http://elsewhere.example/authorize"}, "/mcp", "not https"),
        ({"authorization_server": "http://169.254.169.254"}, "/mcp", "sends its login to"),
        ({"authorization_server": "https://169.254.169.254"}, "/mcp", "cloud metadata"),
        ({"authorization_server": "https://10.0.0.1"}, "/mcp", "private"),
        ({}, "/open", "asks for no login"),
    ],
)
async def test_a_login_that_leads_astray_is_refused(guarded, login, facts, path, why):
    guarded.facts = facts
    opened = []
    told = opened.append if "login" in facts else None
    with pytest.raises(ClawHiveError) as caught:
        await logged_in(guarded, login, told, path)
    assert caught.value.code == "login_failed"
    assert why in caught.value.message
    assert opened == []
    assert login.read() is None


async def test_only_the_redirect_of_this_login_is_taken_for_an_answer(guarded, login):
    seen = []

    def told(url):
        async def visit():
            asked = {name: each[0] for name, each in parse_qs(urlsplit(url).query).items()}
            async with httpx2.AsyncClient(trust_env=False) as client:
                back = asked["redirect_uri"]
                for query in ("?code=evil&state=guessed", "?error=no", "/../x", ""):
                    await client.get(back + query)
                reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(back).port)
                writer.write(b"\x00" * 100_000 + b"\n")
                assert await reader.read() == b""
                writer.close()
                await client.get(url, follow_redirects=True)

        seen.append(asyncio.ensure_future(visit()))

    await logged_in(guarded, login, told)
    await seen[0]
    assert login.read() is not None


async def test_while_no_login_is_made_no_other_origin_is_asked():
    transport = Origins("http://127.0.0.1:8000/mcp", lambda _: False)
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        for url in ("https://example.com/", "http://127.0.0.1:9000/", "http://169.254.169.254/"):
            with pytest.raises(ToolError, match="sends its login to"):
                await client.get(url)


def test_an_address_that_a_browser_should_not_get_is_not_opened():
    for url in ("javascript:alert(1)", "ms-msdt:/id", "https://h/\x1b[2J", "http://other/"):
        with pytest.raises(OAuthFlowError):
            asyncio.run(Person("http://own/mcp", pytest.fail).sent_to(url))
