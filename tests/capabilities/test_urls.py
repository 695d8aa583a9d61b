import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.capabilities import (
    concrete,
    contains,
    matches,
    normalise,
    parse,
    url_capability,
)
from clawhive_core.errors import CapabilityError


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("api.example.com/v1/**", "https://api.example.com/v1/**"),
        ("api.example.com", "https://api.example.com/**"),
        ("api.example.com/", "https://api.example.com/"),
        ("HTTPS://API.Example.COM.:0443/V1", "https://api.example.com/V1"),
        ("http://example.com:80/a//b/", "http://example.com/a/b"),
        ("http://example.com:443", "http://example.com:443/**"),
        ("example.com:8443", "https://example.com:8443/**"),
        ("example.com:*", "https://example.com:*/**"),
        ("*://example.com", "*://example.com/**"),
        ("*://example.com:443", "*://example.com:443/**"),
        ("**.example.com", "https://**.example.com/**"),
        ("*.example.com/a", "https://*.example.com/a"),
        ("https://**", "https://**/**"),
        ("**", "**"),
        ("*://**", "**"),
        ("bücher.example", "https://xn--bcher-kva.example/**"),
        ("BÜCHER\u3002example", "https://xn--bcher-kva.example/**"),
        ("2130706433/", "https://127.0.0.1/"),
        ("0x7F.1/", "https://127.0.0.1/"),
        ("0177.0.0.01/", "https://127.0.0.1/"),
        ("\uff11\uff12\uff17.0.0.1/", "https://127.0.0.1/"),
        ("127.0.0.1./", "https://127.0.0.1/"),
        ("[::FFFF:7f00:1]/", "https://127.0.0.1/"),
        ("[2001:DB8:0:0::1]:8443/", "https://[2001:db8::1]:8443/"),
        ("h/%7euser/%2a/%c3%bc/ü", "https://h/~user/%2A/%C3%BC/%C3%BC"),
        ("h/a%3bb/%21", "https://h/a;b/!"),
        ("h/a b", "https://h/a%20b"),
        ("h/a/../b/./c", "https://h/b/c"),
        ("h/%2e%2E/a", "https://h/a"),
        ("h/%252e%252e/a", "https://h/%252e%252e/a"),
        ("h/a%3Fb%23", "https://h/a%3Fb%23"),
    ],
)
def test_an_address_has_one_spelling(written, canonical):
    assert normalise(f"net.http:{written}") == f"net.http:{canonical}"
    assert normalise(f"net.http:{canonical}") == f"net.http:{canonical}"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("db.example.com:5432", "db.example.com:5432"),
        ("tcp://DB.example.com:05432", "db.example.com:5432"),
        ("db.example.com", "db.example.com:*"),
        ("udp://192.0.2.1:53", "udp://192.0.2.1:53"),
        ("*://db.example.com", "*://db.example.com:*"),
        ("[::1]:80", "[::1]:80"),
        ("**", "**"),
        ("**:443", "**:443"),
    ],
)
def test_a_connection_has_one_spelling(written, canonical):
    assert normalise(f"net.connect:{written}") == f"net.connect:{canonical}"
    assert normalise(f"net.connect:{canonical}") == f"net.connect:{canonical}"


DENIED = parse("net.http:*://evil.example/admin/**")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/admin/x",
        "http://EVIL.example:8080/admin/x",
        "https://evil.example./admin/x",
        "https://evil\u3002example/admin/x",
        "https://\uff45\uff56\uff49\uff4c.example/admin/x",
        "https://evil.example//admin///x",
        "https://evil.example/a/../admin/x",
        "https://evil.example/%61dmin/x",
        "https://evil.example/%2e%2e/admin/x",
        "https://evil.example/./admin",
        "https://evil.example/admin/",
        "https://evil.example/admin?x=1",
        "https://evil.example/admin/#/other",
        "wss://evil.example/admin/x",
        "evil.example/admin",
    ],
)
def test_no_spelling_of_a_denied_address_passes(url):
    assert matches(DENIED, url_capability("net.http", url))


@pytest.mark.parametrize(
    "url",
    [
        "https://user@evil.example/admin",
        "https://good.example\\@evil.example/admin",
        "https://evil.example\\admin",
        "https://evil.example/a%5C..%5Cadmin",
        "https://evil.example/x/..;/admin",
        "https://evil.example/x/%2e%2e%3bv=1/admin",
        "https://evil.example/admin%2Fx",
        "https://evil.example/adm\tin",
        "https://evil.example/admin ",
        " https://evil.example/admin",
        "https://evil.exa\nmple/admin",
        "https:/evil.example/admin",
        "https:evil.example/admin",
        "https:///evil.example/admin",
        "//evil.example/admin",
        "https://ev%69l.example/admin",
        "https://evil..example/admin",
        "https://evil.example:/%zz",
        "https://evil.example:\u0664\u0664\u0663/admin",
        "https://evil.example:65536/admin",
        "https://evil.example:0/admin",
        "https://evil.example:-1/admin",
        "https://evil.example:*/admin",
        "https://*.example/admin",
        "https://**/admin",
        "ftp://evil.example/admin",
        "*://evil.example/admin",
        "javascript:alert(1)",
        "mailto:someone@evil.example",
        "file:///etc/passwd",
        "",
        "?",
        "#",
    ],
)
def test_an_address_that_clients_read_differently_is_refused(url):
    with pytest.raises(CapabilityError) as caught:
        url_capability("net.http", url)
    assert caught.value.fix


@pytest.mark.parametrize(
    "host",
    [
        "256.0.0.1",
        "1.2.3.4.5",
        "08.0.0.1",
        "4294967296",
        "1.2.65536",
        "example.1",
        "0x",
        "*.1",
        "10.0.0.*",
        "**.0.0.1",
        "[::1",
        "[fe80::1%25eth0]",
        "[1.2.3.4]",
        "::1",
        "straße.de",
        "faß.de",
        "a\u200db.de",
        "\u1e9e.de",
        "\u2177\u2100.de",
        "a\u2024b.\U00010fff",
        "xn--\u00ff",
        "xn--999999999b",
        "a*.de",
        "a.**.de",
        "**.**",
        "a" * 64 + ".de",
        "a." * 130 + "de",
        ".",
        "..",
        "a b.de",
        "a%2eb.de",
        "a|b.de",
    ],
)
def test_a_host_that_cannot_be_normalised_is_refused(host):
    with pytest.raises(CapabilityError) as caught:
        parse(f"net.http:{host}/x")
    assert "[" in caught.value.fix or "`" in caught.value.fix


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.lists(st.sampled_from("dxo"), min_size=4))
def test_every_spelling_of_an_ipv4_address_is_that_address(value, count, bases):
    octets = list(value.to_bytes(4, "big"))
    head, tail = octets[: count - 1], octets[count - 1 :]
    numbers = [*head, int.from_bytes(bytes(tail), "big")]
    forms = {"d": "{}", "x": "0x{:X}", "o": "0{:o}"}
    host = ".".join(forms[base].format(n) for n, base in zip(numbers, bases, strict=False))
    address = ipaddress.IPv4Address(value)
    assert parse(f"net.http:{host}").text == f"net.http:https://{address}/**"


@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_every_spelling_of_an_ipv6_address_is_that_address(address):
    short = parse(f"net.http:[{address.compressed}]/")
    assert short == parse(f"net.http:[{address.exploded.upper()}]/")
    assert parse(short.text) == short


segment = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/?#\\%\0"), min_size=1, max_size=8
).filter(lambda text: text.strip() == text and all(" " <= char != "\x7f" for char in text))


@given(st.lists(segment, max_size=4))
def test_the_capability_of_a_url_is_concrete_and_reads_back(items):
    dots = any(item.partition(";")[0] in {".", ".."} and ";" in item for item in items)
    url = "https://example.com/" + "/".join(items)
    if dots:
        with pytest.raises(CapabilityError):
            url_capability("net.http", url)
        return
    capability = url_capability("net.http", url)
    assert capability.is_concrete
    assert capability.text.isascii()
    assert parse(capability.text) == capability


@given(st.text("ab*!;%2eE/.", max_size=10))
def test_normalising_twice_changes_nothing(path):
    try:
        once = url_capability("net.http", f"https://example.com/{path}")
    except CapabilityError:
        return
    assert parse(once.text).text == once.text


@given(st.lists(st.sampled_from(["a", "b~", "c-d", "e.f"]), min_size=1, max_size=3), st.data())
def test_percent_encoding_never_makes_another_resource(items, data):
    plain = "https://example.com/" + "/".join(items)
    encoded = [
        "".join(
            data.draw(st.sampled_from([char, f"%{ord(char):02x}", f"%{ord(char):02X}"]))
            for char in item
        )
        for item in items
    ]
    sly = "https://example.com/" + "/".join(encoded)
    assert url_capability("net.http", sly) == url_capability("net.http", plain)


def test_one_star_is_one_label_and_two_are_any_number():
    one, many = parse("net.http:*.example.com"), parse("net.http:**.example.com")
    api = url_capability("net.http", "https://api.example.com/v1")
    deep = url_capability("net.http", "https://a.b.example.com/")
    bare = url_capability("net.http", "https://example.com")
    other = url_capability("net.http", "https://badexample.com/")
    assert [matches(one, url) for url in (api, deep, bare, other)] == [True, False, False, False]
    assert [matches(many, url) for url in (api, deep, bare, other)] == [True, True, True, False]
    assert contains(many, one)


def test_a_right_to_https_is_none_to_http_or_another_port():
    granted = parse("net.http:example.com")
    assert matches(granted, url_capability("net.http", "https://example.com/a?b#c"))
    assert not matches(granted, url_capability("net.http", "http://example.com/a"))
    assert not matches(granted, url_capability("net.http", "https://example.com:8443/a"))


def test_an_address_without_a_path_is_its_root_and_in_a_pattern_everything_below():
    assert url_capability("net.http", "https://example.com").text.endswith("example.com/")
    assert parse("net.http:https://example.com").text.endswith("example.com/**")


def test_a_star_in_a_url_is_a_star():
    capability = url_capability("net.http", "https://example.com/a/*/**?x=*")
    assert capability.text == "net.http:https://example.com/a/%2A/%2A%2A"
    assert capability.is_concrete


def test_a_connection_needs_its_port():
    assert url_capability("net.connect", "db.example.com:5432").is_concrete
    with pytest.raises(CapabilityError, match="A port is a number"):
        url_capability("net.connect", "db.example.com")


def test_a_connection_has_no_path():
    with pytest.raises(CapabilityError, match="it has no path"):
        parse("net.connect:db.example.com:5432/a")


def test_a_verb_without_urls_has_no_url_capability():
    with pytest.raises(CapabilityError, match="of kind path, not url"):
        url_capability("fs.read", "https://example.com")


def test_the_address_of_a_value_is_the_address_of_its_url():
    url = "https://example.com/a?token=1"
    assert concrete("net.http", url) == url_capability("net.http", url)


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("net.http:a*.de", "a `*` stands for one whole label", "`*.example.com`"),
        ("net.http:a..de", "a label is empty", "`api.example.com`"),
        ("net.http:/x", "1 to 253 characters", "`api.example.com`"),
        ("net.http:" + "\u00fc." * 120 + "de", "1 to 253 characters", "`api.example.com`"),
        ("net.http:*.1", "an address is one segment", "`192.0.2.1`"),
        ("net.http:10.0.0.*", "an address is one segment", "`192.0.2.1`"),
        ("net.http:**.0.0.1", "an address is one segment", "`192.0.2.1`"),
        ("net.http:stra\u00dfe.de", "its `xn--` spelling", "`api.example.com`"),
        ("net.http:h/a#b", "A fragment is never sent", "`net.http:h/a`"),
        ("net.http:me:pw@h/a", "no user name or password", "`secret.use`"),
        ("net.http:2001:db8::1", "stands in brackets", "`net.http:[2001:db8::1]`"),
        ("net.http:h:http", "A port is a number", "`host` for the scheme's own port"),
        ("net.connect:h:http", "A port is a number", "`host:5432`"),
        ("net.http:ftp://h", "does not speak `ftp`", "`net.http:https://h`"),
        ("net.connect:https://h", "does not speak `https`", "`net.connect:tcp://h`"),
        ("net.http:h/a\\b", "A URL contains no", "`/` between segments"),
        ("net.http:h/%5c", "in different ways", "no dot segments"),
        ("net.http:h/%zz", "two hexadecimal digits, not as in `%zz`", "`%25`"),
        ("net.http:h/a%2Fb", "An encoded slash", "`/`"),
        ("net.http:h/%00", "NUL", "without it"),
    ],
)
def test_an_unusable_address_is_answered_with_why_and_what_works(text, message, fix):
    with pytest.raises(CapabilityError) as caught:
        parse(text)
    assert message in caught.value.message
    assert fix in caught.value.fix
