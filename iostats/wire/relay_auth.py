"""
How a server that relays proves itself to another site's server: by a secret of these two alone.

It is a scheme of its own, IOSTATS-RELAY-1, with a key that is made of the relay's name: a relay's
secret proves no node, the site's secret no relay, and no message is of use in the other direction.
"""

from __future__ import annotations

import os
import shlex
import stat
import time

from iostats.base.errors import IostatsError, StateError
from iostats.base.job_id import is_node_name
from iostats.wire import protocol, secret
from iostats.wire.auth import AuthenticationError, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iostats.wire.relays import Destination, Source

_LOOK_EVERY_S = 5.0                 # at a relay's secret, which may be new


class RelaySecret(Secret):
    """The Secret of the relay `relay`, on either side; `cluster`: to which it speaks."""

    SCHEME = protocol.RELAY_SCHEME
    _whose = "relay"

    def __init__(self, relay: str, password: bytes, tolerance_s: float = 300.0,
                 now: Callable[[], float] = time.time, cluster: str = "") -> None:
        super().__init__(protocol.relay(relay), password, tolerance_s, now)
        self.reject_reason = (f"the server of cluster {cluster} has another secret for relay "
                              f"{relay}, or does not know it (site.cfg there: [relay_from])")

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        try:
            return super().check(header, body)
        except AuthenticationError as error:
            if error.claimed:
                error.claimed = claimed_by(error.claimed)
            raise


def claimed_by(relay: str) -> str:
    """How a log tells a relay from a node of that name."""
    return f"relay {relay}"


_RESTART = "systemctl restart iostats-site.service"
_DENIED = "it has to belong to the user of the site's server, or to root where that is root"


def secret_to(to: Destination) -> bytes:
    """The secret by which this server relays to a cluster; IostatsError."""
    path, copy = shlex.quote(to.secret), f"then copy it to {to.host}"
    require_safe_directory(to.secret)
    anew = f"rm {path}, {_RESTART}, which makes a new one; {copy}"
    return secret.load(to.secret, secret.SecretHints(
        f"{_RESTART} makes it; {copy}", anew,
        f"chmod 600 {path}, or if they may have: {anew}", _DENIED))


def secret_from(source: Source) -> bytes:
    """The secret of a relay that may speak here; IostatsError."""
    path = shlex.quote(source.secret)
    require_safe_directory(source.secret)
    copy = (f"scp -p {source.name}:{shlex.quote(os.path.dirname(source.secret))}/CLUSTER.secret "
            f"{path}, with the name of this cluster there ([relay] in its site.cfg)")
    return secret.load(source.secret, secret.SecretHints(
        f"copy it from the server that relays: {copy}", f"copy it again: {copy}",
        f"chmod 600 {path}, or if they may have: remove it on {source.name}, {_RESTART} there, "
        f"which makes a new one, and copy that", _DENIED))


def require_safe_directory(path: str) -> None:
    """StateError where others can write to the directory of the secret `path`."""
    directory = os.path.dirname(path)
    try:
        mode = stat.S_IMODE(os.stat(directory).st_mode)
    except OSError:
        return                                      # there is no secret either
    if mode & 0o022:
        raise StateError(f"{directory}: expected a directory of mode 0700, got mode {mode:04o}; "
                         f"others could have put a secret there: look whose its files are, and "
                         f"chmod 700 {shlex.quote(directory)} ([site] relay_secrets)")


class RelaySecrets:
    """
    The secrets of the relays that may speak here, by their name; a file that is new is read again.

    `sources`: {name: Source}; `site_secret`: the file of [site] secret, "" where that is not used;
    `say`: gets a line about a secret that cannot be used, once.
    """

    def __init__(self, sources: Mapping[str, Source], site_secret: str, tolerance_s: float,
                 now: Callable[[], float], say: Callable[[str], object],
                 steady: Callable[[], float] = time.monotonic) -> None:
        self._sources, self._site_secret = sources, site_secret
        self._tolerance_s, self._now, self._say, self._steady = tolerance_s, now, say, steady
        self._known: dict[str, tuple[bytes, RelaySecret]] = {}
        self._looked: dict[str, tuple[float, object]] = {}      # when, and at which file
        self._said: dict[str, str] = {}
        for name in sources:
            self._look(name)

    def of(self, header: str) -> RelaySecret:
        """That of the relay which an Authorization header names; AuthenticationError."""
        name = (protocol.fields_of(header, protocol.RELAY_SCHEME) or {}).get("node", "")
        if name in self._sources:
            if self._steady() - self._looked[name][0] >= _LOOK_EVERY_S:
                self._look(name)
            if name in self._known:
                return self._known[name][1]
        raise AuthenticationError(
            protocol.NOT_AUTHENTICATED, "no relay of this name may speak here (site.cfg: "
            "[relay_from])", claimed_by(name) if is_node_name(name) else None)

    def _look(self, name: str) -> None:
        """Read a relay's secret, if it is another one than before."""
        path = self._sources[name].secret
        try:
            found = os.stat(path)
            mark: object = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode,
                            os.stat(os.path.dirname(path)).st_mode)
        except OSError:
            mark = None
        if name in self._looked and self._looked[name][1] == mark:
            self._looked[name] = self._steady(), mark
            return
        self._looked[name] = self._steady(), mark
        try:
            password = secret_from(self._sources[name])
            if password == self._of_site():
                raise StateError(f"{path}: expected another secret than [site] secret, which "
                                 f"would make the relay root here; remove it, and copy the "
                                 f"relay's own")
        except IostatsError as error:
            self._known.pop(name, None)
            text = f"relay {name} is refused: {error}"
            if self._said.get(name) != text:
                self._said[name] = text
                self._say(text)
            return
        if name not in self._known or self._known[name][0] != password:
            self._known[name] = password, RelaySecret(name, password, self._tolerance_s, self._now)
        self._said.pop(name, None)

    def _of_site(self) -> bytes | None:
        try:
            return secret.load(self._site_secret) if self._site_secret else None
        except IostatsError:
            return None
