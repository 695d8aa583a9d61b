"""Requests, redirects and answers of the guarded client, over real connections on loopback."""

import asyncio
import gzip
import zlib

import httpcore2
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.diagnostics.codes import explain
from clawhive_core.errors import ToolError
from clawhive_core.execution.http.client import GuardedClient
from clawhive_core.execution.http.guard import Guard
from clawhive_core.execution.http.target import Rights, read_target, redirect_target
from clawhive_core.protocols.http import HttpLimits, HttpResponse

PUBLIC = "93.184.216.34"
OTHER = "11.0.0.1"
NAMES = {"a.example": [[PUBLIC]], "b.example": [[OTHER]]}
SMALL = HttpLimits(body=1000)


async def ended(awaitable, code):
    """Return the error that a request ends with."""
    with pytest.raises(ToolError) as caught:
        await awaitable
    assert caught.value.code == code, caught.value
    assert caught.value.place
    assert caught.value.fix
    return caught.value


@pytest.fixture
async def web(http):
    """Return what serves an answer to a client that knows two hosts."""
    stack = []

    async def serve(reply, **options):
        serving = http.serving(reply)
        server = await serving.__aenter__()
        stack.append(serving)
        network = http.Network({PUBLIC: server.port, OTHER: server.port})
        made = http.client(dict(NAMES), network, **options)
        made.server = server
        return made

    yield serve
    for each in stack:
        await each.__aexit__(None, None, None)


async def test_an_answer_is_whole_and_typed(web, http):
    reply = http.answer(404, "grüße".encode("latin-1"), Content_Type="text/plain; charset=latin-1")
    made = await web(reply.replace(b"\r\n\r\n", b"\r\nX-A: 1\r\nx-a: 2\r\n\r\n", 1))
    found = await made.get("http://a.example/x", params={"q": "a b", "r": "ü"}, headers={"X": "y"})
    assert (found.status, found.text, found.history) == (404, "grüße", ())
    assert found.url == "http://a.example/x?q=a+b&r=%C3%BC"
    assert found.headers["x-a"] == "1, 2"
    line, headers, body = made.server.requests[0]
    assert (line, body) == ("GET /x?q=a+b&r=%C3%BC HTTP/1.1", b"")
    assert headers["x"] == "y"
    assert headers["user-agent"].startswith("clawhive/")
    assert headers["accept-encoding"] == "gzip, deflate"
    assert "cookie" not in headers


async def test_bodies_are_sent_with_their_length(web, http):
    made = await web(http.answer(body=b'{"a": 1}'))
    found = await made.http.request("post", "http://a.example/", json={"q": "ü"})
    assert found.json() == {"a": 1}
    await made.http.request("PUT", "http://a.example/?a", content="text", params={"b": "c"})
    await made.http.request("POST", "http://a.example/", content=b"")
    (line, headers, body), (put, _, text), (_, empty, _) = made.server.requests
    assert (line, body) == ("POST / HTTP/1.1", '{"q":"ü"}'.encode())
    assert headers["content-type"] == "application/json"
    assert (put, text) == ("PUT /?a&b=c HTTP/1.1", b"text")
    assert empty["content-length"] == "0"


@pytest.mark.parametrize(
    "header",
    [
        {"Host": "evil.example"},
        {"host": "evil.example"},
        {"Content-Length": "999"},
        {"Transfer-Encoding": "chunked"},
        {"Accept-Encoding": "br"},
        {"Connection": "upgrade"},
        {"Upgrade": "websocket"},
        {"Proxy-Authorization": "x"},
    ],
)
async def test_headers_of_the_connection_are_the_guards(web, http, header):
    made = await web(http.answer())
    await made.get("http://a.example/", headers=header)
    sent = made.server.requests[0][1]
    assert sent["host"] == "a.example"
    assert sent["accept-encoding"] == "gzip, deflate"
    assert {"upgrade", "transfer-encoding", "content-length", "proxy-authorization"}.isdisjoint(
        sent
    )


@pytest.mark.parametrize(
    "header", [{"X": "a\r\nHost: evil"}, {"X\r\nY": "a"}, {"": "a"}, {"X y": "a"}, {"X": "a\0"}]
)
async def test_a_header_that_would_be_two_is_refused(web, http, header):
    made = await web(http.answer())
    await ended(made.get("http://a.example/", headers=header), "invalid_input")
    assert made.server.requests == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\nX: y", "", "GEŤ"])
async def test_a_method_that_no_tool_needs_is_refused(web, http, method):
    made = await web(http.answer())
    await ended(made.http.request(method, "http://a.example/"), "invalid_input")
    assert made.network.asked == []


async def test_each_redirect_is_asked_again(web, http):
    def reply(line, headers, body):
        if line.startswith("GET /1"):
            return http.answer(302, Location="/2?x=y")
        if line.startswith("GET /2"):
            return http.answer(301, Location="//b.example/3#part")
        return http.answer(body=b"end")

    made = await web(reply)
    found = await made.get("http://a.example/1")
    assert (found.body, found.url) == (b"end", "http://b.example/3")
    assert found.history == ("http://a.example/1", "http://a.example/2?x=y")
    assert made.door.asked == [
        "net.http:http://a.example/1",
        "net.http:http://a.example/2",
        "net.http:http://b.example/3",
    ]


async def test_a_redirect_without_a_right_is_not_followed(web, http):
    made = await web(
        http.answer(302, Location="http://b.example/"), door=http.Door("net.http:http://a.")
    )
    with pytest.raises(ToolError) as caught:
        await made.get("http://a.example/")
    assert caught.value.code == "denied"
    assert made.names.asked == ["a.example"]


async def test_a_redirect_from_https_to_http_needs_the_right_to_http(http):
    target = redirect_target(read_target("https://a.example/x"), "http://a.example/x")
    assert target.capability.text == "net.http:http://a.example/x"
    assert target.origin != read_target("https://a.example/x").origin


@pytest.mark.parametrize(
    ("location", "fails"),
    [
        ("http://169.254.169.254/latest/meta-data/", "denied"),
        ("http://[::ffff:169.254.169.254]/", "denied"),
        ("http://localhost/", "denied"),
        ("//127.0.0.1/", "denied"),
        ("http://0x7f.1/", "denied"),
        ("file:///etc/passwd", "invalid_input"),
        ("ftp://b.example/", "invalid_input"),
        ("http:/b.example/", "invalid_input"),
        ("http:b.example", "invalid_input"),
        ("https:///b.example", "invalid_input"),
        ("///b.example/", "invalid_input"),
        ("/\\b.example/", "invalid_input"),
        ("\\\\b.example/", "invalid_input"),
        ("http://b.example\\@a.example/", "invalid_input"),
        ("//user:pw@b.example/", "invalid_input"),
        ("http://b.example:25/", "denied"),
        ("javascript:alert(1)", "invalid_input"),
        ("http://b.example:x/", "invalid_input"),
    ],
)
async def test_a_redirect_to_what_may_not_be_asked_ends_there(web, http, location, fails):
    made = await web(http.answer(302, Location=location))
    made.names.answers["localhost"] = [["127.0.0.1"]]
    await ended(made.get("http://a.example/"), fails)
    assert made.network.asked == [(PUBLIC, 80)]


async def test_redirects_are_counted(web, http):
    made = await web(http.answer(302, Location="/again"))
    await ended(made.get("http://a.example/"), "too_many_redirects")
    assert len(made.server.requests) == 6
    await ended(made.get("http://a.example/", limits=HttpLimits(redirects=0)), "too_many_redirects")
    assert len(made.server.requests) == 7


async def test_a_redirect_is_an_answer_where_none_is_followed(web, http):
    made = await web(http.answer(302, b"there", Location="http://127.0.0.1/"))
    found = await made.get("http://a.example/", follow=False)
    assert (found.status, found.body) == (302, b"there")
    assert found.headers["location"] == "http://127.0.0.1/"


async def test_a_redirect_to_two_places_is_none(web, http):
    reply = http.answer(302, Location="/a").replace(b"\r\n\r\n", b"\r\nLocation: /b\r\n\r\n", 1)
    made = await web(reply)
    await made.get("http://a.example/", follow=False)
    with pytest.raises(ToolError) as caught:
        await made.get("http://a.example/")
    assert caught.value.code == "invalid_input"


@pytest.mark.parametrize(
    ("status", "method", "then", "keeps"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (301, "PUT", "PUT", True),
        (302, "DELETE", "DELETE", True),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", True),
        (301, "HEAD", "HEAD", True),
        (302, "GET", "GET", True),
    ],
)
async def test_a_redirect_changes_the_method_as_rfc_9110_says(
    web, http, status, method, then, keeps
):
    def reply(line, headers, body):
        if " /1 " in line:
            return http.answer(status, b"", Location="/2")
        return http.answer(body=b"")

    made = await web(reply)
    body = b"" if method in {"GET", "HEAD"} else b"body"
    headers = {"Content-Type": "text/plain", "Content-Language": "en", "X-Kept": "1"}
    await made.http.request(method, "http://a.example/1", content=body, headers=headers)
    line, sent, received = made.server.requests[1]
    assert line.split()[0] == then
    assert received == (body if keeps else b"")
    assert ("content-type" in sent) is ("content-language" in sent) is keeps
    assert sent["x-kept"] == "1"


@pytest.mark.parametrize(
    "place", ["http://b.example/2", "http://a.example:8080/2", "http://www.a.example/2"]
)
async def test_another_origin_sees_nothing_of_who_asks(web, http, place):
    made = await web(
        lambda line, *_: http.answer(307, Location=place) if " /1 " in line else http.answer()
    )
    made.names.answers["www.a.example"] = [[PUBLIC]]
    secrets = {
        "Authorization": "Bearer x",
        "Cookie": "a=b",
        "X-API-Key": "x",
        "X-Subscription-Token": "x",
        "Referer": "http://a.example/secret",
        "User-Agent": "me",
        "Accept": "text/html",
    }
    await made.http.request("GET", "http://a.example/1", headers=secrets)
    first, second = [headers for _, headers, _ in made.server.requests]
    assert first["authorization"] == "Bearer x"
    assert set(second) == {"host", "accept-encoding", "user-agent", "accept"}
    assert second["user-agent"] == "me"


async def test_the_same_origin_keeps_what_it_was_sent(web, http):
    made = await web(
        lambda line, *_: http.answer(302, Location="/2") if " /1 " in line else http.answer()
    )
    await made.get("http://a.example/1", headers={"Authorization": "Bearer x"})
    assert made.server.requests[1][1]["authorization"] == "Bearer x"


async def test_no_cookie_is_kept(web, http):
    made = await web(http.answer(Set_Cookie="a=b"))
    for _ in range(2):
        await made.get("http://a.example/")
    assert "cookie" not in made.server.requests[1][1]


def deflated(data, wbits):
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": lambda data: deflated(data, -15),
    "identity": lambda data: data,
}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("size", [0, 1, 999, 300_000])
async def test_a_packed_body_is_unpacked(web, http, encoding, size):
    body = bytes(index % 251 for index in range(size))
    made = await web(http.answer(body=PACKED[encoding](body), Content_Encoding=encoding))
    assert (await made.get("http://a.example/")).body == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "Deflate"])
async def test_a_bomb_ends_at_the_limit(web, http, encoding):
    bomb = PACKED[encoding](bytes(50_000_000))
    made = await web(http.answer(body=bomb, Content_Encoding=encoding.lower()))
    limits = HttpLimits(body=100_000)
    await ended(made.get("http://a.example/", limits=limits), "response_too_large")
    found = await made.get("http://a.example/", limits=limits, cut=True)
    assert (len(found.body), found.truncated) == (100_000, True)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, br", "compress", "x"])
async def test_a_packing_that_was_not_asked_for_is_refused(web, http, encoding):
    made = await web(http.answer(body=b"x", Content_Encoding=encoding))
    await ended(made.get("http://a.example/"), "provider_error")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_is_not_packed_as_it_says_is_refused(web, http, encoding):
    made = await web(http.answer(body=b"plainly none", Content_Encoding=encoding))
    await ended(made.get("http://a.example/"), "provider_error")


async def test_a_packed_body_that_ends_early_is_no_body(web, http):
    packed = gzip.compress(bytes(range(256)) * 100)[:-20]
    made = await web(http.answer(body=packed, Content_Encoding="gzip"))
    await ended(made.get("http://a.example/"), "connection_failed")


@given(st.binary(max_size=3000), st.integers(0, 3000), st.sampled_from(sorted(PACKED)))
async def test_a_body_is_whole_too_large_or_cut_at_the_limit(body, limit, encoding):
    from clawhive_core.execution.http.answer import Answer, Deadline

    packed = PACKED[encoding](body)

    class Parts:
        async def __aiter__(self):
            for start in range(0, len(packed), 7):
                yield packed[start : start + 7]

        async def aclose(self):
            pass

    def answer(*, cut):
        fields = [(b"Content-Encoding", encoding.encode())]
        target = read_target("http://a.example/")
        return Answer(target, 200, fields, Parts(), limit, Deadline(None), cut)

    fits = len(body) <= limit and len(packed) <= limit
    cut = answer(cut=True)
    found = await cut.read()
    assert body.startswith(found)
    assert cut.truncated is not fits
    assert found == body or not fits
    assert len(found) <= limit
    if fits:
        assert await answer(cut=False).read() == body
    else:
        await ended(answer(cut=False).read(), "response_too_large")


async def test_an_announced_length_over_the_limit_is_not_read(web, http):
    async def reply(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
        await writer.drain()
        await reader.read()

    made = await web(lambda *_: reply)
    await ended(made.get("http://a.example/", limits=SMALL), "response_too_large")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def endless(writer, head, part):
    """Write a part until the other side goes away; return how many bytes it took."""
    writer.write(head)
    sent = 0
    while sent < 50_000_000:
        writer.write(part)
        await writer.drain()
        sent += len(part)
    raise AssertionError("nobody stopped it")


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3e8\r\n" + b"x" * 1000 + b"\r\n",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1000),
        (b"HTTP/1.1 ", b"y" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 50),
    ],
    ids=["body", "chunks", "tiny chunks", "headers", "one header", "status", "100", "103"],
)
async def test_an_endless_answer_ends_at_a_limit(web, http, head, part):
    made = await web(lambda *_: lambda reader, writer: endless(writer, head, part))
    await ended(made.get("http://a.example/", limits=SMALL), "response_too_large")


@pytest.mark.parametrize(
    ("begin", "phase"),
    [
        (b"", "answer"),
        (b"HTTP/1.1 200 OK\r\n", "answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "body"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", "body"),
    ],
)
async def test_a_server_that_hangs_is_not_waited_for(web, http, begin, phase):
    async def reply(reader, writer):
        writer.write(begin)
        await reader.read()

    made = await web(lambda *_: reply)
    for limits in (HttpLimits(read=0.2), HttpLimits(total=0.2)):
        error = await ended(made.get("http://a.example/", limits=limits), "timeout")
        assert error.data["phase"] == phase


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
async def test_a_server_that_drips_is_bounded_by_the_total(web, http, head):
    async def reply(reader, writer):
        writer.write(head)
        while not writer.is_closing():
            writer.write(b"y")
            await writer.drain()
            await asyncio.sleep(0.02)

    made = await web(lambda *_: reply)
    await ended(made.get("http://a.example/", limits=HttpLimits(total=0.3)), "timeout")


async def test_a_look_up_that_hangs_is_not_waited_for(http):
    async def never(host, port):
        await asyncio.Event().wait()

    made = http.client()
    made.guard._resolve = never
    error = await ended(made.get("http://a.example/", limits=HttpLimits(connect=0.05)), "timeout")
    assert error.data["phase"] == "name"


async def test_a_connection_that_hangs_is_not_waited_for(http):
    made = http.client(dict(NAMES), http.Network({PUBLIC: "never"}))
    error = await ended(made.get("http://a.example/"), "timeout")
    assert error.data["phase"] == "connection"


async def test_the_call_has_no_more_time_than_is_left_of_it(web, http):
    async def reply(reader, writer):
        await reader.read()

    made = await web(lambda *_: reply)
    made.http.remaining = lambda: 0.1
    await ended(made.get("http://a.example/"), "timeout")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "connection_failed"),
        (b"HTTP/1.1 200", "connection_failed"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "provider_error"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "provider_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123", "connection_failed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "provider_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "provider_error"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "provider_error"),
        (b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n", "provider_error"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "provider_error"),
    ],
)
async def test_an_answer_that_is_no_http_has_a_code(web, http, raw, code):
    async def reply(reader, writer):
        writer.write(raw)
        await writer.drain()

    made = await web(lambda *_: reply)
    await ended(made.get("http://a.example/"), code)


async def test_a_stream_is_read_as_it_comes(web, http):
    more = asyncio.Event()

    async def reply(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        return "again"

    made = await web(lambda *_: reply)
    async with made.http.stream("GET", "http://a.example/") as answer:
        assert answer.status == 200
        parts = answer.chunks()
        assert await anext(parts) == b"one"
        more.set()
        assert [each async for each in parts] == [b"two"]
        assert await answer.read() == b""


async def test_a_stream_that_is_left_closes_its_connection(web, http):
    left = asyncio.Event()

    async def reply(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await reader.read()
        left.set()

    made = await web(lambda *_: reply)
    async with made.http.stream("GET", "http://a.example/"):
        pass
    await asyncio.wait_for(left.wait(), 5)
    with pytest.raises(RuntimeError, match="mine"):
        async with made.http.stream("GET", "http://a.example/"):
            raise RuntimeError("mine")


async def test_a_cancelled_request_leaves_no_connection(web, http):
    begun, left = asyncio.Event(), asyncio.Event()

    async def reply(reader, writer):
        begun.set()
        await reader.read()
        left.set()

    made = await web(lambda *_: reply)
    task = asyncio.create_task(made.get("http://a.example/"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(left.wait(), 5)


async def test_requests_side_by_side_get_their_own_answers(web, http):
    made = await web(lambda line, *_: http.answer(body=line.encode()))
    urls = [f"http://{host}/{n}" for n in range(20) for host in ("a.example", "b.example")]
    found = await asyncio.gather(*map(made.get, urls))
    assert [each.body for each in found] == [
        f"GET /{url.rpartition('/')[2]} HTTP/1.1".encode() for url in urls
    ]


async def test_errors_say_nothing_of_a_query(web, http):
    async def reply(reader, writer):
        pass

    made = await web(lambda *_: reply)
    error = await ended(made.get("http://a.example/x?token=hunter2"), "connection_failed")
    assert "hunter2" not in str(error.to_dict())
    assert error.place == "http://a.example/x"


CHARSETS = [
    "utf-8",
    "nonsense",
    "",
    '"',
    "hex",
    "idna",
    "punycode",
    "undefined",
    "zip",
    "\0",
    "utf 8",
]


@pytest.mark.parametrize("charset", CHARSETS)
def test_a_text_is_read_in_a_charset_that_there_is(charset):
    headers = {"content-type": f"text/plain; charset={charset}"}
    assert HttpResponse(200, "", headers, "ü\xff".encode() + b"\xff").text == "üÿ\ufffd"


async def test_a_client_of_httpx2_stands_on_the_same_guard(web, http, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    def reply(line, headers, body):
        if " /1 " in line:
            return http.answer(307, Location="http://b.example/2")
        packed = gzip.compress(b"sent " + body)
        return http.answer(body=packed, Content_Encoding="gzip")

    made = await web(reply)
    async with httpx2.AsyncClient(
        transport=made.http.transport(), trust_env=False, follow_redirects=True
    ) as client:
        found = await client.post("http://a.example/1", json={"a": 1})
        assert found.text == 'sent {"a":1}'
        chunked = await client.post("http://a.example/2", content=parts())
        extensions = {"sni_hostname": "evil", "target": b"/evil"}
        await client.get("http://a.example/3", extensions=extensions, headers={"Host": "evil"})
    assert chunked.status_code == 200
    assert made.door.asked[:2] == ["net.http:http://a.example/1", "net.http:http://b.example/2"]
    line, headers, _ = made.server.requests[-1]
    assert (line, headers["host"]) == ("GET /3 HTTP/1.1", "a.example")


async def parts():
    yield b"in "
    yield b"parts"


async def test_a_client_of_httpx2_is_refused_the_same(web, http):
    made = await web(http.answer(body=gzip.compress(bytes(10_000_000)), Content_Encoding="gzip"))
    async with httpx2.AsyncClient(transport=made.http.transport(SMALL), trust_env=False) as client:
        await ended(client.get("http://a.example/"), "response_too_large")
        await ended(client.get("http://127.0.0.1/"), "denied")
    assert made.network.asked == [(PUBLIC, 80)]


def test_limits_and_codes_of_the_client_are_explained():
    for code in ("response_too_large", "too_many_redirects", "missing_package", "timeout"):
        assert explain(code) is not None


def test_json_is_a_value_or_a_value_error():
    for body in (b"", b"{", b"[" * 1_000_000, b"\xff", b"1" * 10_000):
        with pytest.raises(ValueError):  # noqa: PT011 - each of another kind
            HttpResponse(200, "", {}, body).json()


async def test_an_address_in_a_redirect_is_utf_8(web, http):
    def reply(line, headers, body):
        if " /1 " in line:
            return http.answer(302, Location="/LATER").replace(b"LATER", "ü?ü".encode())
        return http.answer()

    made = await web(reply)
    assert (await made.get("http://a.example/1")).url == "http://a.example/%C3%BC?%C3%BC"


class Played(httpcore2.AsyncNetworkBackend, httpcore2.AsyncNetworkStream):
    """A server that says the same bytes to whoever connects, in parts."""

    def __init__(self, data, size):
        self.data, self.size = data, size

    async def connect_tcp(self, host, port, **options):
        return Played(self.data, self.size)

    async def read(self, max_bytes, timeout=None):  # noqa: ASYNC109 - httpcore2's
        size = min(max_bytes, self.size)
        part, self.data = self.data[:size], self.data[size:]
        return part

    async def write(self, buffer, timeout=None):  # noqa: ASYNC109 - httpcore2's
        pass

    async def aclose(self):
        pass

    def get_extra_info(self, info):
        return None


LINES = b"""HTTP/1.1 200 OK
HTTP/1.0 302 Found
HTTP/1.1 100 Continue
HTTP/1.1 204 No
HTTP/1.1 101 X
HTTP/1.1 999 X
Content-Length: 5
Content-Length: 99999999999999
Transfer-Encoding: chunked
Transfer-Encoding: gzip, chunked
Content-Encoding: gzip
Content-Encoding: deflate
Content-Encoding: \xff
Location: /
Location: \xff//[
Location: http://10.0.0.1/
Connection: close
5
hello
0
ffffffffffffffffffff
:""".splitlines()
ODD = [b"\x1f\x8b\x08", b"\x78\x9c", b"\x00", b"\n", b" ", b"\xc3\xbc", b"\r\n", b"\r\n\r\n"]
PARTS = [each + b"\r\n" for each in LINES] + LINES + ODD + [PACKED["gzip"](b"a"), b"5\r\nhello\r\n"]


@given(
    st.one_of(st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join), st.binary(max_size=80)),
    st.booleans(),
    st.sampled_from([1, 7, 100_000]),
)
async def test_whatever_a_server_says_is_an_answer_or_an_error_with_a_code(data, begun, size):
    guard = Guard(network=Played((b"HTTP/1.1 200 OK\r\n" if begun else b"") + data, size))
    client = GuardedClient(lambda: guard, Rights(allowed))
    try:
        found = await client.request("GET", f"http://{PUBLIC}/", limits=SMALL)
        assert isinstance(found.text, str)
        assert len(found.body) <= SMALL.body
    except ToolError as error:
        assert explain(error.code) is not None  # noqa: PT017 - most of them are errors
    finally:
        await guard.aclose()


async def allowed(capability):
    if not capability.startswith("net.http:"):
        raise ToolError("no right", code="denied")
