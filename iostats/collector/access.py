"""
Who may ask the collector: addresses, and no page of a browser.

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
from typing import Union

from iostats.base.errors import ConfigError

TYPE_CHECKING = False
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


def networks(words: Iterable[str]) -> list[Network]:
    """The ranges in `words`; ValueError for one that is none, or that has bits beyond its own."""
    found: list[Network] = []
    for word in words:
        one = ipaddress.ip_network(word)
        if isinstance(one, ipaddress.IPv6Network) and one.subnet_of(_MAPPED):
            one = ipaddress.IPv4Network((int(one.network_address) & 0xffffffff,
                                         one.prefixlen - 96))
        found.append(one)
    return found


def allowed(config: Config) -> list[Network]:
    """The ranges of [collector] allow; ConfigError."""
    try:
        return networks(config["collector.allow"])
    except ValueError as error:
        raise ConfigError(f"{config.origin['collector.allow']}: [collector] allow: expected "
                          f"{EXPECTED}; {error}") from None


def is_in(address: str, ranges: Iterable[Network]) -> bool:
    """
    Whether a peer's address is in one of `ranges`; False for what is no address.

    >>> is_in("::ffff:127.0.0.1", networks(["127.0.0.0/8"])), is_in("10.0.0.7", networks(["::/0"]))
    (True, False)
    """
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(one, ipaddress.IPv6Address) and one.ipv4_mapped is not None:
        one = one.ipv4_mapped
    return any(one in each for each in ranges)


def why_refused(host: str, origin: str, fetch_site: str, names: Sequence[str]) -> str:
    """
    What is wrong with a request's headers Host, Origin and Sec-Fetch-Site, each "" where it is not
    there; "" for nothing.  `names`: ours, in lower case.
    """
    if origin or fetch_site not in ("", "none"):
        return "expected a program, got a page in a browser (Origin, Sec-Fetch-Site)"
    name = host_name(host)
    if host and name not in names and not is_address(name):
        return (f"expected Host: {' or '.join(names)} or an address, got {name[:80]!r}; see "
                f"[collector] names in site.cfg")
    return ""


def host_name(host: str) -> str:
    """
    The name in a header `Host: NAME:PORT`, in lower case and without a final dot; a header of
    another form unchanged, in lower case.

    >>> host_name("MDS1.:8980"), host_name("[::1]:8980"), host_name("[::1].evil")
    ('mds1', '::1', '[::1].evil')
    """
    text = host.strip().lower()
    match = _HOST.fullmatch(text)
    return match[1] or match[2].rstrip(".") if match else text


def is_address(name: str) -> bool:
    """Whether it is an IPv4 or IPv6 address: a page's name is none."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
