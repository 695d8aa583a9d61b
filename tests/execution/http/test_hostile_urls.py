"""URLs that a guarded client must not follow to where they lead, and those that it must."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.errors import ToolError
from clawhive_core.execution.http.target import BLOCKED_PORTS, read_target, redirect_target

FILE = Path(__file__).resolve().parents[4] / "shared" / "data" / "ssrf_dev.json"
DATA = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {"cases": [], "public": []}
LOCAL = {"localhost": [["127.0.0.1", "::1"]]}


def test_the_labelled_cases_are_there():
    if not FILE.is_file():
        pytest.skip("../shared is not beside this checkout")
    assert len(DATA["cases"]) > 50


@pytest.mark.parametrize("way", ["client", "transport"])
@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: f"{case['id']}-{case['cls']}")
async def test_a_labelled_url_is_treated_as_labelled(case, way, http, packets, clock):
    redirect = case["redirect"]

    def reply(line, headers, body):
        if redirect and " /r " in line:
            return http.answer(redirect["status"], Location=redirect["location"])
        return http.answer()

    async with http.serving(reply) as server:
        network = http.Network(dict.fromkeys(DATA["public"], server.port))
        made = http.client({**LOCAL, **case["dns"]}, network, http.Door("net.http:"))
        statuses = [await attempt(made, case["url"], way)]
        clock.now += 5  # until then a name is at the addresses that were judged
        statuses.append(await attempt(made, case["url"], way))
        await made.guard.aclose()
    assert {address for address, _ in network.asked} <= set(DATA["public"])
    assert len(packets) == len(network.asked)
    if case["expect"] == "allow":
        assert statuses == [200, 200]
        assert server.requests
    elif case["cls"] != "dns-rebind":
        assert [type(each) for each in statuses] == [ToolError, ToolError]
    else:
        assert isinstance(statuses[-1], ToolError)


async def attempt(made, url, way):
    """Return the status, or the refusal."""
    try:
        if way == "client":
            return (await made.get(url)).status
        async with httpx2.AsyncClient(
            transport=made.http.transport(), trust_env=False, follow_redirects=True
        ) as client:
            return (await client.get(url)).status_code
    except ToolError as error:
        return error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        return ToolError(str(error))


REFUSED = [
    "http:127.0.0.1",
    "http:/93.184.216.34/",
    "//pub.example.com/",
    "pub.example.com",
    "ws://pub.example.com/",
    "file:///etc/passwd",
    "dict://pub.example.com:11211/",
    "javascript:alert(1)",
    "http://",
    "http:///etc",
    "http://?x",
    "http://user:hunter2@pub.example.com/",
    "http://pub.example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.pub.example.com/",
    "http://pub.example.com:80:80/",
    "http://pub.example.com:99999/",
    "http://pub.example.com:0/",
    "http://pub.example.com:8O/",
    "http://pub.example.com/\r\nHost: evil",
    "http://pub.example.com/?q=a\r\nX: y",
    "http://pub.exa\tmple.com/",
    "http://pub.exa\nmple.com/",
    "\thttp://pub.example.com/",
    " http://pub.example.com/",
    "http://pub.example.com%2f@127.0.0.1/",
    "http://pub%2eexample.com/",
    "http://pub..example.com/",
    "http://.example.com/",
    "http://[::1/",
    "http://::1/",
    "http://[fe80::1%25eth0]/",
    "http://[v1.a]/",
    "http://256.256.256.256/",
    "http://1.2.3.4.5/",
    "http://0x.example.0x/",
    "http://09.1.1.1/",
    "http://faß.de/",
    "http://xn--\u00e9.com/",
    "http://pub.example.com\u2028/",
    "http://a b.example.com/",
    "http://pub.example.com/%zz",
    "http://pub.example.com/a%2fb",
    "http://pub.example.com/a%00b",
    "http://pub.example.com/?\ud800",
    "http://" + "a" * 20_000,
]


@pytest.mark.parametrize("url", REFUSED, ids=range(len(REFUSED)))
def test_what_clients_read_in_different_ways_is_no_target(url):
    with pytest.raises(ToolError) as caught:
        read_target(url)
    assert caught.value.code == "invalid_input"
    assert "hunter2" not in json.dumps(caught.value.to_dict())


LOOPBACK = [
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0x7F.0X0.0.1/",
    "http://127.0.0.1./",
    "http://127。0。0。1/",
    "http://127.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
    "HTTP://127.0.0.1:080/",
]


@pytest.mark.parametrize("url", LOOPBACK)
def test_every_spelling_of_an_address_is_that_address(url):
    target = read_target(url)
    assert (target.literal, target.host, target.port) == ("127.0.0.1", "127.0.0.1", 80)


@pytest.mark.parametrize("port", sorted(BLOCKED_PORTS - {0}))
def test_a_port_of_another_protocol_is_refused(port):
    with pytest.raises(ToolError) as caught:
        read_target(f"http://pub.example.com:{port}/")
    assert caught.value.code == "denied"


@pytest.mark.parametrize(
    ("url", "host", "authority", "path"),
    [
        ("https://Example.COM", "example.com", "example.com", "/"),
        ("https://example.com.:443/a/", "example.com", "example.com", "/a/"),
        ("http://example.com:8080?q=1#x", "example.com", "example.com:8080", "/?q=1"),
        ("http://bücher.example/ü?ü=ü", "xn--bcher-kva.example", None, "/%C3%BC?%C3%BC=%C3%BC"),
        ("http://example.com/a/../b", "example.com", "example.com", "/b"),
        ("http://example.com/a/%2e%2E/b/", "example.com", "example.com", "/b/"),
        ("http://example.com/a/b/..", "example.com", "example.com", "/a/"),
        ("http://example.com/..", "example.com", "example.com", "/"),
        ("http://example.com//a//b", "example.com", "example.com", "//a//b"),
        ("http://example.com/a b?c d", "example.com", "example.com", "/a%20b?c%20d"),
        ("http://example.com/a%20b%41", "example.com", "example.com", "/a%20b%41"),
        ("http://[2606:2800:0:0::1]:81/", "2606:2800::1", "[2606:2800::1]:81", "/"),
        ("http://example.com/x?a=../b&c=http://d@e", "example.com", None, "/x?a=../b&c=http://d@e"),
    ],
)
def test_a_target_is_what_was_decided(url, host, authority, path):
    target = read_target(url)
    assert (target.host, target.authority, target.path) == (host, authority or host, path)


def test_the_text_of_a_target_is_read_as_the_same_target():
    for url in ("http://bücher.example:81/a/../ü?x#y", "https://[::1]/", "http://0x7f.1:8080/%41"):
        target = read_target(url)
        assert read_target(target.url).url == target.url
        assert read_target(target.url).capability == target.capability


PIECES = r"a.example 127.0.0.1 0x7f 1 0177 . : 80 8080 @ [ ] ::1 ::ffff:1.2.3.4 %2e % \ # ? / & 256"
ODD = [" ", "\t", "\n", "\uff11", "\u3002", "\xdf", "\xe9", "\u200d", "\ud800", "\u24d0", "\x00"]
AUTHORITIES = st.lists(
    st.sampled_from([*PIECES.split(), *ODD, "\u2028", "*", "-", "_", "xn--"]), max_size=6
).map("".join)


@given(st.one_of(AUTHORITIES, st.text(max_size=20)), st.sampled_from(["http", "https", "HTTP"]))
def test_any_text_is_a_target_or_refused(text, scheme):
    try:
        target = read_target(f"{scheme}://{text}")
    except ToolError:
        return
    again = read_target(target.url)
    assert (again.capability, again.path) == (target.capability, target.path)
    theirs, split = httpx2.URL(target.url), urlsplit(target.url)
    assert theirs.raw_host.decode() == split.hostname == target.host
    own = {"http": 80, "https": 443}[target.scheme]
    assert (theirs.port or own, split.port or own) == (target.port, target.port)
    assert theirs.raw_path.decode() == target.path


@given(st.one_of(AUTHORITIES, AUTHORITIES.map("//{}".format), st.text(max_size=20)))
def test_any_location_leads_to_a_target_or_is_refused(text):
    try:
        target = redirect_target(read_target("https://pub.example.com:8443/a/b?c"), text)
    except ToolError:
        return
    if not text.startswith(("//", "http")):
        assert target.origin == ("https", "pub.example.com", 8443)


@given(AUTHORITIES)
def test_what_is_accepted_is_what_other_readers_see(text):
    """Another reader of the same text may refuse it, but never sees another name."""
    url = f"http://{text}/"
    try:
        target = read_target(url)
    except ToolError:
        return
    if target.literal is None and text.isascii():
        for name in (urlsplit(url).hostname, httpx_host(url)):
            assert name is None or name.removesuffix(".") == target.host


def httpx_host(url):
    try:
        return httpx2.URL(url).raw_host.decode()
    except httpx2.InvalidURL:
        return None
