"""What a connection is made to: rights, addresses, names in TLS, reuse and proxies."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from clawhive_core.errors import ConfigError, ToolError
from clawhive_core.execution.http.guard import read_proxy, resolve_host

PUBLIC = "93.184.216.34"
OTHER = "11.0.0.1"


async def refused(made, url, code="denied", **options):
    """Return the error that a request ends with."""
    with pytest.raises(ToolError) as caught:
        await made.get(url, **options)
    assert caught.value.code == code, caught.value
    assert caught.value.place
    assert caught.value.fix
    return caught.value


async def test_the_right_is_asked_before_the_name_is_looked_up(http):
    made = http.client({"pub.example.com": [[PUBLIC]]}, door=http.Door())
    with pytest.raises(ToolError):
        await made.get("http://PUB.example.com/a/../b?secret=1")
    assert made.door.asked == ["net.http:http://pub.example.com/b"]
    assert made.names.asked == []


async def test_a_name_is_looked_up_once_and_connected_by_its_address(http):
    async with http.serving(http.answer(body=b"hello")) as server:
        names = {"pub.example.com": [[PUBLIC], ["127.0.0.1"]]}
        made = http.client(names, http.Network({PUBLIC: server.port}))
        found = await made.get("http://pub.example.com:8080/x?y=z")
    assert (found.status, found.body, found.url) == (
        200,
        b"hello",
        "http://pub.example.com:8080/x?y=z",
    )
    assert made.names.asked == ["pub.example.com"]
    assert made.network.asked == [(PUBLIC, 8080)]
    line, headers, _ = server.requests[0]
    assert line == "GET /x?y=z HTTP/1.1"
    assert headers["host"] == "pub.example.com:8080"


async def test_a_name_that_moves_into_the_own_network_is_not_followed(http, clock):
    async with http.serving(http.answer()) as server:
        names = {"pub.example.com": [[PUBLIC], ["10.0.0.5"]]}
        made = http.client(names, http.Network({PUBLIC: server.port}))
        assert (await made.get("http://pub.example.com/")).status == 200
        assert (await made.get("http://pub.example.com/")).status == 200  # at what was judged
        assert [address for address, _ in made.network.asked] == [PUBLIC]
        assert made.names.asked == ["pub.example.com"]
        clock.now += 5
        error = await refused(made, "http://pub.example.com/")
    assert "10.0.0.5, a private address" in error.message
    assert made.network.asked == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "answers", [[PUBLIC, "10.0.0.5"], ["::1", PUBLIC], ["fe80::1%eth0", PUBLIC]]
)
async def test_one_address_that_is_not_public_closes_a_name(http, answers):
    made = http.client({"mixed.example.com": [answers]})
    await refused(made, "http://mixed.example.com/")
    assert made.network.asked == []


async def test_no_right_to_all_of_the_web_reaches_loopback(http):
    made = http.client({"localhost": [["127.0.0.1"]]}, door=http.Door("net.http:"))
    error = await refused(made, "http://localhost:8080/a")
    assert made.door.asked == [
        "net.http:http://localhost:8080/a",
        "net.connect:127.0.0.1:8080",
    ]
    assert "`net.http:http://127.0.0.1:8080`" in error.fix
    assert "`net.connect:127.0.0.1:8080`" in error.fix


async def test_a_right_to_connect_there_opens_an_address(http, packets):
    async with http.serving(http.answer()) as server:
        door = http.Door("net.http:", f"net.connect:127.0.0.1:{server.port}")
        made = http.client(network=http.Network({"127.0.0.1": server.port}), door=door)
        assert (await made.get(f"http://127.0.0.1:{server.port}/")).status == 200
        assert (await made.get(f"http://0x7f.1:{server.port}/")).status == 200
        await refused(made, f"http://127.0.0.2:{server.port}/")
    assert {address for address, _ in packets} == {"127.0.0.1"}


async def test_a_right_that_names_an_address_opens_it_also_behind_a_name(http):
    async with http.serving(http.answer()) as server:
        door = http.Door("net.http:", named=("net.http:http://10.0.0.5/",))
        names = {"intranet.example": [["10.0.0.5"]], "other.example": [["10.0.0.6"]]}
        made = http.client(names, http.Network({"10.0.0.5": server.port}), door)
        assert (await made.get("http://intranet.example/a")).status == 200
        assert made.door.asked == [
            "net.http:http://intranet.example/a",
            "net.http:http://10.0.0.5/a",
        ]
        await refused(made, "http://other.example/a")


async def test_what_waits_for_a_person_is_no_refusal_of_the_guard(http):
    class Asking(http.Door):
        async def require(self, capability):
            if capability.startswith("net.connect:"):
                raise ToolError("a person must answer", code="approval_required")

    made = http.client({"localhost": [["127.0.0.1"]]}, door=Asking())
    with pytest.raises(ToolError) as caught:
        await made.get("http://localhost/")
    assert caught.value.code == "approval_required"


async def test_waiting_for_a_person_counts_against_no_limit(http, clock):
    class Slow(http.Door):
        async def require(self, capability):
            clock.now += 3600

    async with http.serving(http.answer()) as server:
        made = http.client(network=http.Network({PUBLIC: server.port}), door=Slow())
        found = await made.get(f"http://{PUBLIC}/")
    assert found.status == 200


async def test_the_next_address_is_tried_where_nothing_listens(http):
    async with http.serving(http.answer()) as server:
        names = {"pub.example.com": [["2606:2800::1", OTHER, PUBLIC]]}
        network = http.Network({PUBLIC: server.port, OTHER: "never"})
        made = http.client(names, network)
        found = await made.get("http://pub.example.com/")
    assert found.status == 200
    assert [address for address, _ in made.network.asked] == ["2606:2800::1", OTHER, PUBLIC]


async def test_a_connection_serves_again_for_the_same_address_only(http, clock):
    async with http.serving(http.answer()) as server:
        names = {"a.example": [[PUBLIC], [PUBLIC], [OTHER], [OTHER]], "b.example": [[PUBLIC]]}
        made = http.client(names, http.Network({PUBLIC: server.port, OTHER: server.port}))
        for _ in range(4):
            await made.get("http://a.example/")
            clock.now += 5  # until then no name is looked up again
        await made.get("http://b.example/")
        await made.get("http://b.example:8080/")
    assert made.network.asked == [(PUBLIC, 80), (OTHER, 80), (PUBLIC, 80), (PUBLIC, 8080)]
    assert server.connections == 4


async def test_a_name_without_an_address_is_not_reached(http):
    made = http.client({"empty.example": [[]]})
    await refused(made, "http://empty.example/", "connection_failed")
    error = await refused(made, "http://nowhere.example/?token=secret", "connection_failed")
    assert "secret" not in str(error.to_dict())


async def test_closing_the_guard_closes_its_connections(http):
    async with http.serving(http.answer()) as server:
        made = http.client(network=http.Network({PUBLIC: server.port}))
        await made.get(f"http://{PUBLIC}/")
        await made.guard.aclose()
        await made.get(f"http://{PUBLIC}/")
    assert server.connections == 2


async def test_the_environment_names_no_proxy(http, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with http.serving(http.answer()) as server:
        made = http.client(network=http.Network({PUBLIC: server.port}))
        assert (await made.get(f"http://{PUBLIC}/")).status == 200
    assert made.network.asked == [(PUBLIC, 80)]


async def test_a_proxy_is_asked_for_the_checked_address(http):
    inner = []

    def connect(line, headers, body):
        if not line.startswith("CONNECT"):
            inner.append((line, headers["host"]))
            return http.answer(body=b"through")
        assert headers["proxy-authorization"] == "Basic YW5hOnAlcXM="
        return b"HTTP/1.1 200 Connected\r\n\r\n"

    async with http.serving(connect) as server:
        network = http.Network({"proxy.example": server.port})
        names = {"pub.example.com": [[PUBLIC]], "in.example": [["10.0.0.1"]]}
        made = http.client(names, network, proxy="http://ana:p%25qs@proxy.example:3128")
        found = await made.get("http://pub.example.com/x")
        await refused(made, "http://in.example/")
    assert found.body == b"through"
    assert server.requests[0][0] == f"CONNECT {PUBLIC}:80 HTTP/1.1"
    assert inner == [("GET /x HTTP/1.1", "pub.example.com")]
    assert network.asked == [("proxy.example", 3128)]


async def test_a_proxy_that_refuses_is_told(http):
    async with http.serving(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as server:
        network = http.Network({"proxy.example": server.port})
        made = http.client(network=network, proxy="http://proxy.example:3128")
        error = await refused(made, f"http://{PUBLIC}/", "connection_failed")
    assert "407" in error.message


@pytest.mark.parametrize(
    "url", ["", "proxy:3128", "https://proxy:1", "http://proxy", "socks5://p:1", "http://p:99999"]
)
def test_a_proxy_is_a_host_and_port_over_http(url):
    with pytest.raises(ConfigError):
        read_proxy(url)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Return what makes a server's and a client's side of a certificate for names."""
    key = ec.generate_private_key(ec.SECP256R1())
    folder = tmp_path_factory.mktemp("tls")

    def make(*names):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
        alternatives = [
            x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        path = folder / "both.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        path.write_bytes(private + public)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(path)
        return server, ssl.create_default_context(cadata=public.decode())

    return make


async def test_tls_names_and_checks_the_host_though_the_address_is_connected(http, authority):
    server_side, client_side = authority("pub.example.com")
    named = []
    server_side.sni_callback = lambda _, name, __: named.append(name)
    async with http.serving(http.answer(), server_side) as server:
        names = {"pub.example.com": [[PUBLIC]], "other.example.com": [[PUBLIC]]}
        network = http.Network({PUBLIC: server.port})
        made = http.client(names, network, verify=client_side)
        assert (await made.get("https://pub.example.com/")).status == 200
        error = await refused(made, "https://other.example.com/", "connection_failed")
        await made.guard.aclose()
    assert "certificate" in error.message
    assert named == ["pub.example.com", "other.example.com"]
    assert server.requests[0][1]["host"] == "pub.example.com"
    assert network.asked == [(PUBLIC, 443), (PUBLIC, 443)]


async def test_tls_to_an_address_checks_the_address(http, authority):
    server_side, client_side = authority(PUBLIC)
    async with http.serving(http.answer(), server_side) as server:
        network = http.Network({PUBLIC: server.port, OTHER: server.port})
        made = http.client(network=network, verify=client_side)
        assert (await made.get(f"https://{PUBLIC}/")).status == 200
        await refused(made, f"https://{OTHER}/", "connection_failed")
        await made.guard.aclose()


async def test_a_certificate_that_nobody_vouches_for_is_refused(http, authority):
    server_side, _ = authority("pub.example.com")
    async with http.serving(http.answer(), server_side) as server:
        names = {"pub.example.com": [[PUBLIC]]}
        made = http.client(names, http.Network({PUBLIC: server.port}))
        await refused(made, "https://pub.example.com/", "connection_failed")
    assert server.requests == []


async def test_plain_http_where_tls_is_expected_is_refused(http):
    async with http.serving(http.answer()) as server:
        server.greeting = http.answer()
        made = http.client(network=http.Network({PUBLIC: server.port}))
        await refused(made, f"https://{PUBLIC}/", "connection_failed")
    assert server.requests == []


async def test_a_look_up_gives_the_addresses_of_both_families(monkeypatch):
    def answers(host, port, *options):
        stream = (socket.SOCK_STREAM, 6, "")
        six, four = (("2606:2800::1", port, 0, 0), (PUBLIC, port))
        return [(socket.AF_INET6, *stream, six), (socket.AF_INET, *stream, four)]

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    assert await resolve_host("pub.example.com", 443) == ["2606:2800::1", PUBLIC]
