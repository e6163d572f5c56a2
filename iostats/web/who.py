"""
Who is asking: the user whose pages are shown.

    socket    the user of the process at the other end of our local socket, as the kernel says
              (SO_PEERCRED)
    header    the user in the header [web] user_header of a request that comes from [web] trusted:
              an address, or a user whose process is at the other end of the local socket
    self      the user of this process, which asks the site's server with their own credential
              (Open OnDemand)

A header that comes from elsewhere is refused, and not passed over: the one who sends it is to know
that it has no effect, and no proxy is to be forgotten in `trusted`.  So are two of that name: which
one the proxy has set, and which one its client, cannot be told.
"""

from __future__ import annotations

import pwd
from collections import namedtuple

from iostats.base.errors import ConfigError, IostatsError
from iostats.collector.access import is_in, networks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.collector.access import Network

_LONGEST_NAME = 128
_USER = "user:"
EXPECTED = ("addresses and ranges of the proxy, and user:NAME of a proxy that comes by the local "
            "socket, several with spaces between")

Peer = namedtuple("Peer", "address uid")
Peer.__doc__ = """
The other end of a connection.

Attributes:
    address: of TCP; "" of the local socket.
    uid: of the process at the other end of the local socket; None of TCP.
"""

Asker = namedtuple("Asker", "user")
Asker.__doc__ = """
Who is asking.

Attributes:
    user: a user's name; "" for the user of this process.
"""
SELF = Asker("")


class UserUnknown(IostatsError):
    """Who is asking is not known, or not proved; no page is shown."""


class WhoAsks:
    """Tells who asks, by [web] user_header and trusted of site.cfg; ConfigError."""

    def __init__(self, config: Config) -> None:
        self._header: bytes = config["web.user_header"].lower().encode()
        self._name = config["web.user_header"]
        where = config.origin["web.trusted"]
        self._uids: set[int] = set()
        self._networks: list[Network] = []
        words = config["web.trusted"]
        try:
            self._networks = networks(word for word in words if not word.startswith(_USER))
        except ValueError as error:
            raise ConfigError(f"{where}: [web] trusted: expected {EXPECTED}; {error}") from None
        if any(one.prefixlen == 0 for one in self._networks):
            raise ConfigError(f"{where}: [web] trusted: expected the proxy's own addresses, got a "
                              f"range of all")
        for word in words:
            if word.startswith(_USER):
                self._uids.add(_uid_of(word[len(_USER):], where))
        if self._header and not words:
            raise ConfigError(f"{config.origin['web.user_header']}: [web] user_header: expected "
                              f"[web] trusted with it: {EXPECTED}")
        if words and not self._header:
            raise ConfigError(f"{where}: [web] trusted: expected [web] user_header with it")

    def asker(self, peer: Peer, headers: Iterable[tuple[bytes, bytes]]) -> Asker:
        """The Asker of a request; `headers`: [(lower-case name, value)].  UserUnknown."""
        given = [value for name, value in headers if self._header and name == self._header]
        is_proxy = bool(self._header) and (
            peer.uid in self._uids if peer.uid is not None else is_in(peer.address, self._networks))
        if given and not is_proxy:
            raise UserUnknown(f"the header {self._name} is taken from the site's proxy alone "
                              f"([web] trusted)")
        if is_proxy:
            if len(given) != 1:
                raise UserUnknown(f"expected one header {self._name} of the proxy, got "
                                  f"{len(given) or 'none'}")
            return Asker(_name_in(given[0], self._name))
        if peer.uid is None:
            raise UserUnknown("these pages are shown by the site's proxy alone")
        if peer.uid == 0:
            raise UserUnknown("root cannot use these pages; use the commands (iostats jobs), or "
                              "sign in as an ordinary user")
        try:
            return Asker(pwd.getpwuid(peer.uid).pw_name)
        except KeyError:
            raise UserUnknown(f"user {peer.uid} is not known here") from None


def _name_in(value: bytes, header: str) -> str:
    """The user's name in a header; UserUnknown."""
    try:
        name = value.strip(b" \t").decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or set(name) & set(" ,:/\\"):
        raise UserUnknown(f"expected the name of a user in the header {header}")
    return name


def _uid_of(name: str, where: str) -> int:
    try:
        return int(name) if name.isascii() and name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"{where}: [web] trusted: expected the name of a user after {_USER}, got "
                          f"{name!r}") from None
