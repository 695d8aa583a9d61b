"""The judge of addresses, against the registries and against a second, naive one."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.execution.http.addresses import METADATA, check_address

PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "11.0.0.1",
    "9.255.255.255",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2001:470::1",
    "2001:200::1",
    "64:ff9b::808:808",
    "64:ff9b:1:808:8:800::",
    "2001:470::5efe:808:808",
]

CLOSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "100.64.0.0": "CGNAT",
    "100.127.255.255": "CGNAT",
    "127.0.0.1": "loopback",
    "127.255.255.255": "loopback",
    "169.254.1.1": "link-local",
    "172.16.0.0": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "protocols",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarks",
    "198.19.255.255": "benchmarks",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::127.0.0.1": "loopback",
    "::a9fe:a9fe": "metadata",
    "::8.8.8.8": "compatible",
    "::ffff:0:7f00:1": "loopback",
    "::ffff:0:808:808": "translated",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "metadata",
    "64:ff9b:1:c0a8:1:100::": "private",
    "64:ff9b:1::7f00:1": "loopback",
    "64:ff9b:1:808:8:800:7f00:1": "loopback",
    "64:ff9b:1::": "unspecified",
    "100::1": "discards",
    "2001::1": "Teredo",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "Teredo",
    "2001:0:0:0:0:0:80ff:fffe": "loopback",
    "2001:2::1": "protocols",
    "2001:20::1": "protocols",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "loopback",
    "2002:808:808::1": "6to4",
    "2001:470::5efe:a00:1": "private",
    "2001:470::200:5efe:a00:1": "private",
    "3ffe::1": "6bone",
    "3fff:fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "64:ff9c::1": "reserved",
    "fc00::1": "private",
    "fdff::1": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "zone",
    "2606:2800::1%1": "zone",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "localhost": "no address",
    "127.1": "no address",
    "0x7f.0.0.1": "no address",
    "": "no address",
    "1.2.3.4 ": "no address",
}


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_in_public_use_is_public(text):
    assert check_address(text).problem is None


@pytest.mark.parametrize("text", CLOSED)
def test_another_address_is_refused_with_what_it_is(text):
    assert CLOSED[text] in check_address(text).problem


@pytest.mark.parametrize("text", sorted(METADATA))
def test_cloud_metadata_is_named_whatever_range_it_is_in(text):
    assert check_address(text).problem == "an address of cloud metadata"


@pytest.mark.parametrize("wrap", ["::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}"])
def test_cloud_metadata_is_named_inside_other_addresses(wrap):
    assert "cloud metadata" in check_address(wrap.format("169.254.169.254")).problem


def test_a_mapped_address_is_connected_to_as_ipv4():
    assert check_address("::ffff:8.8.8.8").text == "8.8.8.8"
    assert check_address("::FFFF:8.8.8.8").segment == "8.8.8.8"
    assert check_address("2606:2800:0:0::1").segment == "[2606:2800::1]"


SPECIAL_V4 = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "168.63.129.16/32",
    "192.80.8.124/32",
]


def bits(text):
    """Return an address as a text of zeros and ones."""
    packed = ipaddress.ip_address(text).packed
    return "".join(f"{byte:08b}" for byte in packed)


def inside(text, network):
    base, length = network.split("/")
    return bits(text).startswith(bits(base)[: int(length)])


def naive_v4(text):
    return not any(inside(text, network) for network in SPECIAL_V4)


def naive_v6(text):
    """Judge by the text of all eight groups."""
    full = ipaddress.IPv6Address(text).exploded
    groups = full.split(":")
    last = ipaddress.IPv4Address(int(groups[6] + groups[7], 16)).compressed
    if groups[:6] == ["0000"] * 5 + ["ffff"] or groups[:6] == ["0064", "ff9b"] + ["0000"] * 4:
        return naive_v4(last)
    if groups[:3] == ["0064", "ff9b", "0001"]:
        digits = "".join(groups)
        cut = [
            digits[12:16] + digits[18:22],
            digits[14:16] + digits[18:24],
            digits[18:26],
            digits[24:],
        ]
        cut = [each for each in cut if each.strip("0")]
        return bool(cut) and all(naive_v4(str(ipaddress.IPv4Address(int(x, 16)))) for x in cut)
    if full[0] not in "23" or full.startswith(("2002:", "3ffe:", "2001:0db8:")):
        return False
    if inside(text, "2001::/23") or inside(text, "3fff::/20"):
        return False
    if groups[5] == "5efe" and groups[4] in {"0000", "0200"}:
        return naive_v4(last)
    return True


v4 = st.ip_addresses(v=4).map(str)
near_v4 = st.builds(
    lambda network, edge, shift: str(
        ipaddress.IPv4Address((int(ipaddress.IPv4Network(network)[edge]) + shift) % 2**32)
    ),
    st.sampled_from(SPECIAL_V4),
    st.sampled_from([0, -1]),
    st.integers(-2, 2),
)
inner = st.one_of(v4, near_v4).map(ipaddress.IPv4Address).map(int)
wrapped = st.one_of(
    inner.map(lambda value: 0xFFFF << 32 | value),
    inner.map(lambda value: value),
    inner.map(lambda value: 0xFFFF0000 << 32 | value),
    inner.map(lambda value: 0x64FF9B << 96 | value),
    inner.map(lambda value: 0x64FF9B0001 << 80 | value),
    st.builds(
        lambda value, low: 0x64FF9B0001 << 80 | value >> 16 << 64 | (value & 0xFFFF) << 40 | low,
        inner,
        st.sampled_from([0, 0, 1, 0x7F000001]),
    ),
    st.builds(
        lambda value, low: 0x2002 << 112 | value << 80 | low, inner, st.integers(0, 2**80 - 1)
    ),
    inner.map(lambda value: 0x20010000 << 96 | value ^ 0xFFFFFFFF),
    st.builds(
        lambda value, prefix, local: prefix << 64 | local << 32 | value,
        inner,
        st.integers(0, 2**64 - 1),
        st.sampled_from([0x5EFE, 0x02005EFE]),
    ),
).map(lambda value: str(ipaddress.IPv6Address(value)))
v6 = st.one_of(
    st.ip_addresses(v=6).map(str),
    wrapped,
    st.integers(0, 2**125 - 1).map(lambda value: str(ipaddress.IPv6Address(value | 1 << 125))),
)
MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


@given(st.one_of(v4, near_v4))
def test_ipv4_is_judged_as_a_naive_reader_of_the_registry_does(text):
    assert (check_address(text).problem is None) == naive_v4(text)


@given(v6)
def test_ipv6_is_judged_as_a_naive_reader_of_the_registry_does(text):
    assert (check_address(text).problem is None) == naive_v6(text)


@given(st.one_of(v4, near_v4, v6))
def test_nothing_is_public_that_python_calls_special(text):
    """Whatever version of Python judges; NAT64, which it may call private, stands for IPv4."""
    address = ipaddress.ip_address(text)
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
    )
    translated = text.startswith("64:ff9b:")
    mapped = address.version == 6 and address in MAPPED
    if special and not translated and not mapped:
        assert check_address(text).problem is not None


@given(st.one_of(v4, v6))
def test_judging_the_canonical_text_again_says_the_same(text):
    found = check_address(text)
    assert check_address(found.text) == found


@given(st.text(max_size=50))
def test_any_text_is_judged(text):
    assert check_address(text).problem is None or check_address(text).problem
