"""Addresses: whether one is public, and why another is not.

The tables are written out, because what `ipaddress` calls global differs between versions of
Python, and knows nothing of addresses that hold another one. They follow the registries of special
purpose addresses of IANA (RFC 6890 and its successors); of IPv6 only 2000::/3 is in public use.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from clawhive_core.model.late import dataclass

_NONE: Final = "no address"
_ZONE: Final = "an address of one link, with a zone"


@dataclass(frozen=True, slots=True)
class Address:
    """An address in canonical text, as it is connected to."""

    text: str
    problem: str | None
    """The reason that it is not public, such as `a private address`; None where it is."""

    @property
    def is_nameable(self) -> bool:
        """Whether a capability can name it: a zone, or what is no address, it cannot."""
        return self.problem not in {_ZONE, _NONE}

    @property
    def segment(self) -> str:
        """Its spelling as the host of a URL."""
        return f"[{self.text}]" if ":" in self.text else self.text


METADATA: Final = frozenset(
    {
        "169.254.169.254",  # AWS, Azure, Google, OpenStack and most others
        "169.254.169.253",  # the resolver of AWS
        "169.254.169.123",  # the time of AWS
        "169.254.170.2",  # tasks of AWS ECS
        "169.254.170.23",  # pods of AWS EKS
        "169.254.0.23",  # Tencent
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure's wire server, in a public range
        "192.0.0.192",  # Oracle
        "192.80.8.124",  # Packet, in a public range
        "fd00:ec2::254",  # AWS
        "fd00:ec2::253",
        "fd00:ec2::123",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
        "fd00:42::42",  # Scaleway
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fe80::a9fe:a9fe",  # OpenStack
    }
)
"""Services that hand a machine's own credentials to whatever asks from inside it."""

_V4: Final = tuple(
    (IPv4Network(network), problem)
    for network, problem in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address of a carrier (CGNAT)"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "an address of protocols"),
        ("192.0.2.0/24", "an address of documentation"),
        ("192.88.99.0/24", "a relay of 6to4"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address of benchmarks"),
        ("198.51.100.0/24", "an address of documentation"),
        ("203.0.113.0/24", "an address of documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)

_V6: Final = tuple(
    (IPv6Network(network), problem)
    for network, problem in (
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("::/96", "an IPv4-compatible address"),
        ("::ffff:0:0:0/96", "an IPv4-translated address"),
        ("100::/64", "an address that discards"),
        ("2001::/32", "a Teredo address"),
        ("2001::/23", "an address of protocols"),
        ("2001:db8::/32", "an address of documentation"),
        ("2002::/16", "a 6to4 address"),
        ("3ffe::/16", "an address of the former 6bone"),
        ("3fff::/20", "an address of documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
)

_IN_PUBLIC_USE: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL: Final = IPv6Network("64:ff9b:1::/48")
_PLACES: Final = ((12, 13, 14, 15), (9, 10, 11, 12), (7, 9, 10, 11), (6, 7, 9, 10))
"""The bytes of an IPv4 address below prefixes of 96, 64, 56 and 48 bits (RFC 6052, section 2.2)."""
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=4096)
def check_address(text: str) -> Address:
    """Return the address that a resolver or URL gave, without brackets, with what is wrong of it.

    An IPv4 address mapped into IPv6 is that IPv4 address.
    """
    try:
        address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return Address(text, _NONE)
    if isinstance(address, IPv4Address):
        return Address(str(address), _problem_v4(address))
    if address.ipv4_mapped is not None:
        return check_address(str(address.ipv4_mapped))
    if address.scope_id is not None:
        return Address(str(address), _ZONE)
    return Address(str(address), _problem_v6(address))


def _problem_v4(address: IPv4Address) -> str | None:
    if str(address) in METADATA:
        return "an address of cloud metadata"
    return next((problem for network, problem in _V4 if address in network), None)


def _problem_v6(address: IPv6Address) -> str | None:
    if str(address) in METADATA:
        return "an address of cloud metadata"
    if address in _NAT64 or address in _NAT64_LOCAL:
        return _problem_nat64(address)
    problem = next((problem for network, problem in _V6 if address in network), None)
    if problem is None and address not in _IN_PUBLIC_USE:
        problem = "a reserved address"
    inner = _inside(address)
    if inner is None or (inner_problem := _problem_v4(inner)) is None:
        return problem
    return f"{problem or 'an ISATAP address'} that holds {inner}, {inner_problem}"


def _problem_nat64(address: IPv6Address) -> str | None:
    """Judge what a translator would connect to: networks without IPv4 reach all of it so."""
    raw = address.packed
    places = _PLACES if address in _NAT64_LOCAL else _PLACES[:1]
    inner = [IPv4Address(bytes(raw[index] for index in place)) for place in places]
    meant = [each for each in inner if int(each)] or inner[:1]
    for each in meant:
        if (problem := _problem_v4(each)) is not None:
            return f"a NAT64 address that holds {each}, {problem}"
    return None


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address carries by one of the transition formats."""
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    lead, last = divmod(int(address), 1 << 32)
    carries = lead in {0, 0xFFFF0000} or lead & 0xFFFFFFFF in _ISATAP
    return IPv4Address(last) if carries and last > 1 else None
