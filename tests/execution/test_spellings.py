"""However a call spells what is denied, it stays denied: real files, and addresses as clients read.

What is held is the decision about a call from its arguments, not only the normal form.
"""

import ipaddress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from clawhive_core.errors import InvalidInput
from clawhive_core.execution.effects import requested_capabilities
from clawhive_core.model.principal import DEFAULT_AGENT
from clawhive_core.policy.decision import decide
from clawhive_core.policy.rules import Rules
from clawhive_core.protocols.check import PolicyRequest
from tests.harness import grant, tool_meta

READ = tool_meta(effects={"path": "fs.read"})
FETCH = tool_meta(effects={"url": "net.http"})
CONNECT = tool_meta(effects={"to": "net.connect"})


def verdict(tool, given, rules, root="/nowhere"):
    """Return what is decided about a call, `deny` where its arguments name nothing."""
    try:
        needs = requested_capabilities(tool, given, {"workspace": str(root), "run": f"{root}/out"})
    except InvalidInput:
        return "deny"
    return decide(PolicyRequest(tool, given, DEFAULT_AGENT, needs, "t", "s", "c"), rules).verdict


# What each file holds says whether it is denied, so that the test knows by opening it.
PARTS = ("secret", "open", "to-secret", "to-file", "over", "up", "f", "g", "..", ".", "", "~")
ODD = ("%73ecret", "Secret", "SECRET", "secret ", "s\u0435cret", "secret\u200b", "%2e%2e", "...")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("spellings").resolve() / "root"
    for folder, holds in (("secret", "denied"), ("open", "allowed"), ("Secret", "allowed")):
        (root / folder / "up").mkdir(parents=True)
        for name in ("f", "g", "up/f"):
            (root / folder / name).write_text(holds)
    (root / "to-secret").symlink_to("open/over")
    (root / "open" / "over").symlink_to("../secret")
    (root / "over").symlink_to("open/up/../over")
    (root / "open" / "to-file").symlink_to(root / "secret" / "f")
    (root / "secret" / "to-secret").symlink_to("up")
    (root / "up").symlink_to("secret/up")
    (root / "~").symlink_to(".")
    return root


def held(path):
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib drops a slash at the end
            return file.read()
    except (OSError, ValueError):
        return None


@pytest.mark.promise("P-127")
@given(
    st.lists(st.sampled_from(PARTS + ODD), min_size=1, max_size=7), st.sampled_from(("", "ROOT/"))
)
@example(["open", "..", "secret", "f"], "")
@example(["to-secret", "up", "..", "f"], "")
@example(["open", "over", "g"], "ROOT/")
@example(["open", "to-file"], "")
@example(["up", "..", "f"], "")
@example(["Secret", "f"], "")
def test_no_spelling_of_a_path_opens_a_denied_file(root, parts, lead):
    spelled = lead + "/".join(parts)
    assume(spelled)
    path = spelled.replace("ROOT", str(root))
    rules = Rules([grant(f"fs.read:{root}/**")], [f"fs.read:{root}/secret/**"])
    content = held(path if lead or path.startswith("/") else f"{root}/{path}")
    if content is not None:
        expected = {"denied": "deny", "allowed": "allow"}[content]
        assert verdict(READ, {"path": path}, rules, root) == expected


def case_of(data, text):
    flips = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    return "".join(c.swapcase() if flip else c for c, flip in zip(text, flips, strict=True))


@pytest.mark.promise("P-127")
@given(
    st.sampled_from(
        [".clawhive/hive.db", "clawhive.toml", ".git/hooks/x", ".env", "id_rsa", "a.pem", ".netrc"]
    ),
    st.sampled_from(["", "sub/", "./", "x/../", "sub//"]),
    st.data(),
)
def test_no_case_and_no_detour_opens_a_protected_name(root, name, lead, data):
    rules = Rules([grant(f"fs.read:{root}/**"), grant("fs.read:/**", "starter")])
    assert verdict(READ, {"path": lead + case_of(data, name)}, rules, root) == "deny"


HOSTS = {
    "evil.example": ["evil.example", "evil.example.", "evil\u3002example", "evil\uff0eexample"],
    "xn--bcher-kva.example": ["b\u00fccher.example", "bu\u0308cher.example", "B\u00dcCHER.example"],
    "xn--fiqs8s.example": ["\u4e2d\u56fd.example", "XN--FIQS8S.example"],
}


def encoded(data, text):
    """Return a path with some of its characters percent-encoded, in either case of digits."""
    ways = st.sampled_from(["{}", "%{:02x}", "%{:02X}"])
    return "".join(
        way.format(c if way == "{}" else ord(c))
        for c in text
        for way in [data.draw(ways) if c.isalnum() else "{}"]
    )


@pytest.mark.promise("P-127")
@given(
    st.sampled_from(sorted(HOSTS)),
    st.sampled_from(["https", "http", "HTTPS", "wss"]),
    st.sampled_from(["", ":443", ":8080", ":0443"]),
    st.lists(st.sampled_from(["", ".", "x/..", "%2e", "x/%2E%2e"]), max_size=3),
    st.data(),
)
def test_no_spelling_of_an_address_reaches_a_denied_one(canonical, scheme, port, detours, data):
    host = data.draw(st.sampled_from([canonical, *HOSTS[canonical]]))
    path = "/".join([*detours, encoded(data, "admin"), encoded(data, "users")])
    tail = data.draw(st.sampled_from(["", "/", "?a=/other", "#/other", "/."]))
    url = f"{scheme}://{case_of(data, host)}{port}/{path}{tail}"
    rules = Rules([grant("net.http:**")], [f"net.http:*://{canonical}/admin/**"])
    assert verdict(FETCH, {"url": url}, rules) == "deny"


def test_the_same_rules_allow_what_lies_beside_the_denied_address():
    rules = Rules([grant("net.http:**")], ["net.http:*://evil.example/admin/**"])
    for url in ("https://evil.example/administer", "https://evil.example.org/admin"):
        assert verdict(FETCH, {"url": url}, rules) == "allow"


def ipv4_spellings(address):
    """Return how clients spell one IPv4 address: decimal, octal, hexadecimal, short, mapped."""
    a, b, c, d = address.packed
    number = int(address)
    yield str(number)
    yield hex(number)
    yield f"0{number:o}"
    yield f"0{a:o}.0x{b:x}.{c}.{d}"
    yield f"{a}.{(b << 16) | (c << 8) | d}"
    yield f"{a}.{b}.{(c << 8) | d}"
    yield f"00{a:o}.{b}.{c}.{d}"
    yield f"{address}."
    yield "".join(chr(ord(x) + 0xFEE0) for x in str(address))
    yield f"[::ffff:{address}]"
    yield f"[::FFFF:{a:x}{b:02x}:{c:x}{d:02x}]"
    yield f"[0:0:0:0:0:ffff:{number >> 16:x}:{number & 0xFFFF:x}]"


@pytest.mark.promise("P-127")
@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address), st.sampled_from(["{}", "[::ffff:{}]"]))
@example(ipaddress.IPv4Address("127.0.0.1"), "{}")
@example(ipaddress.IPv4Address("169.254.169.254"), "{}")
@example(ipaddress.IPv4Address("8.8.8.8"), "[::ffff:{}]")
def test_no_spelling_of_an_ipv4_address_reaches_a_denied_one(address, form):
    deny = form.format(address)
    web = Rules([grant("net.http:**")], [f"net.http:*://{deny}/**"])
    raw = Rules([grant("net.connect:**")], [f"net.connect:{deny}:*"])
    for host in (str(address), *ipv4_spellings(address)):
        assert verdict(FETCH, {"url": f"http://{host}/x"}, web) == "deny", host
        assert verdict(CONNECT, {"to": f"{host}:80"}, raw) == "deny", host


@pytest.mark.promise("P-127")
@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_no_spelling_of_an_ipv6_address_reaches_a_denied_one(address):
    rules = Rules([grant("net.http:**")], [f"net.http:*://[{address.compressed}]/**"])
    for host in (address.compressed, address.exploded, address.exploded.upper()):
        assert verdict(FETCH, {"url": f"https://[{host}]/x"}, rules) == "deny"
