"""
Where datagrams go: a gmond, or the multicast group of many.

A socket is opened when it is needed, and again after an error, with the address that the name has
then.  A gmond that is not running is seen where it was on this host or the network tells
(ECONNREFUSED, after ICMP); a datagram that is lost on the way is not.

Source: create_mcast_client(), lib/apr_net.c of ganglia; ip(7), ipv6(7), udp(7).
"""

from __future__ import annotations

import ipaddress
import socket
import struct

from iostats.base.addresses import Addresses
from iostats.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.config import Config

PORT = 8649                             # gmond's
_NAME_TIMEOUT_S = 3.0
_addresses = Addresses()


def addresses_of(config: Config) -> list[tuple[str, int]]:
    """[(host, port)] of [ganglia] send_to; ConfigError."""
    found = []
    for word in config["ganglia.send_to"]:
        host, colon, port = word.rpartition(":")
        if not colon or word.endswith("]") or (":" in host.strip("[]") and word[0] != "["):
            host, port = word, str(PORT)
        if not (host.strip("[]") and port.isascii() and port.isdigit()
                and 0 < int(port) <= 65535):
            raise ConfigError(f"{config.origin['ganglia.send_to']}: [ganglia] send_to: expected "
                              f"HOST:PORT such as 239.2.11.71:8649, got {word!r}")
        found.append((host.strip("[]"), int(port)))
    return found


def interface_of(config: Config) -> int:
    """The number of [ganglia] interface, 0 for none; ConfigError."""
    name = config["ganglia.interface"]
    try:
        return socket.if_nametoindex(name) if name else 0
    except OSError:
        try:
            there = "; there are: " + " ".join(one for _, one in socket.if_nameindex())
        except OSError:                                 # a service may be kept from asking
            there = ""
        raise ConfigError(f"{config.origin['ganglia.interface']}: [ganglia] interface: no network "
                          f"interface {name!r}{there}") from None


class GmondAddress:
    """
    One of them; `ttl` and `interface`, a number or 0, are for a multicast group.

    Attributes:
        name: as in messages.
        sent, failures: datagrams, so far.
        trouble: why the last one could not be sent; "" when it could.
    """

    def __init__(self, host: str, port: int, ttl: int, interface: int) -> None:
        self._host, self._port, self._ttl, self._interface = host, port, ttl, interface
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.sent = self.failures = 0
        self.trouble = ""
        self._socket: socket.socket | None = None

    def send(self, datagrams: Sequence[bytes]) -> int:
        """How many of these could not be sent; it may wait for the network's queue, and for DNS."""
        failed = 0
        try:
            send = (self._socket or self._open()).send
        except OSError as error:
            self._fail(error, len(datagrams))
            return len(datagrams)
        for one in datagrams:
            try:
                send(one)
            except OSError as error:
                failed += 1
                self._fail(error, 1)
        if not failed:
            self.trouble = ""
        self.sent += len(datagrams) - failed
        return failed

    def _fail(self, error: OSError, count: int) -> None:
        self.failures += count
        self.trouble = error.strerror or str(error)

    def _open(self) -> socket.socket:
        # gmond listens to IPv4 where nothing else is said.
        family, kind, protocol, _, address = min(_addresses.get(
            self._host, self._port, _NAME_TIMEOUT_S, socket.SOCK_DGRAM),
            key=lambda one: one[0] != socket.AF_INET)
        found = socket.socket(family, kind, protocol)
        try:
            if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_multicast:
                self._for_multicast(found, family)
            found.connect(address)
        except OSError:
            found.close()
            raise
        self._socket = found
        return found

    def _for_multicast(self, opened: socket.socket, family: int) -> None:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, self._ttl)
            if self._interface:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._interface)
            return
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
        if self._interface:                                     # struct ip_mreqn
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                              struct.pack("4s4si", b"", b"", self._interface))

    def close(self) -> None:
        """The next datagram opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
