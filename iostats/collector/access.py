"""
Access rules of the collector: client addresses, and no requests from pages in a browser.

    addresses   the peer's is in one of the ranges of [collector] allow; IPv4 in IPv6
                (::ffff:10.0.0.1) is IPv4
    browsers    any page that a browser shows can let it send requests to where the browser may.
                Three things, each enough by itself:
                  Content-Type  a page may send three kinds of text without asking first, and
                                text/xml and application/json are none of them; for others a
                                browser asks with OPTIONS, which is answered 405
                  Origin, Sec-Fetch-Site
                                browsers name the page that makes them send; programs do not
                  Host          the name in the address bar, which a page of another site cannot
                                change: with DNS rebinding it is the attacker's, and none of ours

Source: Fetch Standard (CORS-safelisted request-header, Origin); Fetch Metadata Request Headers;
RFC 9110, section 7.2; RFC 4291, section 2.5.5.2 (IPv4-mapped IPv6 addresses).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Union

from iostats.base.errors import ConfigError
from iostats.base.option_kinds import is_ip_address
from iostats.server.long_answers import RejectedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.base.config import Config

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

EXPECTED = ("addresses and ranges, several with spaces between, such as 127.0.0.0/8 ::1 "
            "10.0.5.0/24")
XML_TYPES, JSON_TYPES = ("text/xml", "application/xml"), ("application/json",)
# RFC 3986: an IPv6 address in brackets, or a name or IPv4 address; then maybe a port.
_HOST = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^:\[\]]*))(?::\d*)?")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def parse_networks(words: Iterable[str]) -> list[Network]:
    """The ranges in `words`; ValueError for an invalid one, or one with host bits set."""
    accepted: list[Network] = []
    for word in words:
        network = ipaddress.ip_network(word)
        if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
            network = ipaddress.IPv4Network((int(network.network_address) & 0xffffffff,
                                             network.prefixlen - 96))
        accepted.append(network)
    return accepted


def parse_allowed(config: Config) -> list[Network]:
    """The ranges of [collector] allow; ConfigError."""
    try:
        return parse_networks(config.collector.allow)
    except ValueError as error:
        raise ConfigError(f"{config.locate('collector.allow')}: expected {EXPECTED}; "
                          f"{error}") from None


def is_in(address: str, ranges: Iterable[Network]) -> bool:
    """
    True if a peer's address is in one of `ranges`; False for an invalid address.

    >>> (is_in("::ffff:127.0.0.1", parse_networks(["127.0.0.0/8"])),
    ...  is_in("10.0.0.7", parse_networks(["::/0"])))
    (True, False)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in ranges)


class Forbidden(RejectedRequest):
    """The sender may not make this request."""

    status = "403 Forbidden"


def check_headers(host: str, origin: str, fetch_site: str, names: Sequence[str]) -> None:
    """
    Check a request's headers Host, Origin and Sec-Fetch-Site, "" for an absent one; Forbidden.

    `names`: this server's, in lower case.
    """
    if origin or fetch_site not in ("", "none"):
        raise Forbidden("expected a program, got a page in a browser (Origin, Sec-Fetch-Site)")
    name = parse_host_name(host)
    if host and name not in names and not is_ip_address(name):
        raise Forbidden(f"expected Host: {' or '.join(names)} or an address, got {name[:80]!r}; "
                        f"see [collector] names in site.cfg")


def parse_host_name(host: str) -> str:
    """
    The name in a header `Host: NAME:PORT`, in lower case and without a final dot; any
    other header unchanged, in lower case.

    >>> parse_host_name("MDS1.:8980"), parse_host_name("[::1]:8980"), parse_host_name("[::1].evil")
    ('mds1', '::1', '[::1].evil')
    """
    text = host.strip().lower()
    match = _HOST.fullmatch(text)
    return match[1] or match[2].rstrip(".") if match else text
