"""
The user of a request.

    socket    the user of the process at the other end of our local socket, reported by the kernel
              (SO_PEERCRED)
    header    the user in the header [web] user_header of a request from [web] trusted: an
              address, or a user whose process is at the other end of the local socket
    self      the user of this process, which calls the site's server with their own credential
              (Open OnDemand)

The header from anywhere else is refused, not ignored: its sender learns that it has no effect, and
a proxy that is missing in `trusted` is noticed. Two headers of that name are refused as well: which
of them is the proxy's, and which its client's, is unknown.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    BaseUser,
)
from starlette.requests import HTTPConnection

from iostats.base.config import Config
from iostats.base.errors import ConfigError
from iostats.collector.access import Network, is_in, parse_networks
from iostats.web.site_calls import PageError

_MAX_NAME_LENGTH = 128
_USER = "user:"
UNIX = "unix"                       # as the address, then `client` has a local user's uid
EXPECTED = ("addresses and ranges of the proxy, and user:NAME of a proxy that comes by the local "
            "socket, separated by blanks")


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str        # of TCP; "" of the local socket
    uid: int | None     # of the process at the other end of the local socket; None of TCP


@dataclass(frozen=True)
class Viewer(BaseUser):
    """The user of a request."""

    user: str               # a user's name; "" for the user of this process
    is_authenticated = True


SELF = Viewer("")


class UserUnknown(PageError, AuthenticationError):
    """The user is unknown or unauthenticated; no page is shown."""

    def __init__(self, message: str) -> None:
        super().__init__(403, message)


class OwnUser(AuthenticationBackend):
    """The user of each request is the user of this process."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Viewer]:
        """Return SELF, the user of this process."""
        return AuthCredentials(), SELF


class UserDetector(AuthenticationBackend):
    """
    Identifies the user of a request, by [web] user_header and trusted of site.cfg; ConfigError.
    """

    def __init__(self, config: Config) -> None:
        self._header = config.web.user_header.lower().encode()
        self._name = config.web.user_header
        where = config.locate("web.trusted")
        self._uids: set[int] = set()
        self._networks: list[Network] = []
        words = config.web.trusted
        try:
            self._networks = parse_networks(word for word in words if not word.startswith(_USER))
        except ValueError as error:
            raise ConfigError(f"{where}: expected {EXPECTED}; {error}") from None
        if any(network.prefixlen == 0 for network in self._networks):
            raise ConfigError(f"{where}: expected the proxy's own addresses, got a "
                              f"range of all")
        for word in words:
            if word.startswith(_USER):
                self._uids.add(_find_uid(word[len(_USER):], where))
        if self._header and not words:
            raise ConfigError(f"{config.locate('web.user_header')}: expected "
                              f"[web] trusted with it: {EXPECTED}")
        if words and not self._header:
            raise ConfigError(f"{where}: expected [web] user_header with it")

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Viewer]:
        """The Viewer of a request; UserUnknown."""
        host, number = conn.scope.get("client") or ("", None)
        peer = Peer("", number) if host == UNIX else Peer(host, None)
        return AuthCredentials(), self.identify(peer, conn.scope["headers"])

    def identify(self, peer: Peer, headers: Iterable[tuple[bytes, bytes]]) -> Viewer:
        """The Viewer of a request; `headers`: [(lower-case name, value)]. UserUnknown."""
        names = [value for name, value in headers if self._header and name == self._header]
        is_proxy = bool(self._header) and (
            peer.uid in self._uids if peer.uid is not None else is_in(peer.address, self._networks))
        if names and not is_proxy:
            raise UserUnknown(f"the header {self._name} is accepted only from the site's proxy "
                              f"([web] trusted)")
        if is_proxy:
            if len(names) != 1:
                raise UserUnknown(f"expected one header {self._name} of the proxy, got "
                                  f"{len(names) or 'none'}")
            return Viewer(_parse_name(names[0], self._name))
        if peer.uid is None:
            raise UserUnknown("these pages are available only by the site's proxy")
        if peer.uid == 0:
            raise UserUnknown("root cannot use these pages; use the commands (iostats jobs), or "
                              "sign in as an ordinary user")
        try:
            return Viewer(pwd.getpwuid(peer.uid).pw_name)
        except KeyError:
            raise UserUnknown(f"there is no user {peer.uid} here") from None


def _parse_name(value: bytes, header: str) -> str:
    """The user's name in a header; UserUnknown."""
    try:
        name = value.strip(b" \t").decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    if not 0 < len(name) <= _MAX_NAME_LENGTH or not name.isprintable() or set(name) & set(" ,:/\\"):
        raise UserUnknown(f"expected the name of a user in the header {header}")
    return name


def _find_uid(name: str, where: str) -> int:
    try:
        return int(name) if name.isascii() and name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"{where}: expected the name of a user after {_USER}, got "
                          f"{name!r}") from None
