"""
Relays between sites' servers: the sections [relay] and [relay_from] of site.cfg, and how a relay
authenticates itself.

    [relay]           on the server that receives from the storage servers:
                      LNet ... = HOST[:PORT] CLUSTER [FILE SYSTEM ...] [, ...]
        o2ib2 = xepbs:19990 xe
        tcp5 o2ib = vu-man4 vu gdata, dcchead dcc

    [relay_from]      on the server of a cluster: NAME = FILE SYSTEM ...; LNet or NIDs ...
        alkindi = gdata home; o2ib2 10.9.*@tcp5

CLUSTER and NAME are also the names of secrets: [site] relay_secrets has a file CLUSTER.secret on
the one side, and NAME.secret with the same content on the other.

The scheme, IOSTATS-RELAY-1, has a key that is derived from the relay's name: a relay's secret
authenticates no node, the site's secret no relay, and no message is valid in the other direction.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shlex
import stat
import time

from iostats.base.errors import ConfigError, IostatsError, StateError, UsageError
from iostats.base.ids import Nid
from iostats.base.job_id import LONGEST_NODE_NAME, is_node_name
from iostats.base.named_tuple import NamedTuple
from iostats.lustre.nids import find_lnet, parse_client_lnet
from iostats.wire import auth, client, protocol
from iostats.wire.auth import AuthenticationError, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iostats.base.config import Config


class Destination(NamedTuple):
    """A cluster whose server is sent the I/O of its nodes."""

    cluster: str    # its name here
    # host, port: of its site's server
    host: str
    port: int
    # {LNet of its nodes: the file systems that are reported to it; empty: all}
    lnets: dict[str, frozenset[str]]
    secret: str     # the file of the secret that both have


class _Source(NamedTuple):
    name: str
    file_systems: frozenset[str]
    lnets: frozenset[str]
    nids: tuple[str, ...]
    secret: str


class Source(_Source):
    """A relay that may send messages to this server.

    Attributes:
        name: as it calls itself ([site] relay_name there).
        file_systems: those that it may speak for, a frozenset.
        lnets: frozenset of networks whose clients it may speak of; `nids`: globs of others' NIDs.
        secret: the file of the secret that both have.
    """

    __slots__ = ()

    def may_report(self, nid: Nid) -> bool:
        """True if the relay may report this client."""
        return find_lnet(nid) in self.lnets or any(
            fnmatch.fnmatchcase(nid, glob) for glob in self.nids)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_SYSTEM = re.compile(r"[\w.-]{1,64}", re.ASCII)
_NIDS = re.compile(r"[0-9A-Za-z.:*]{1,64}@[a-z][a-z0-9]*")


def get_own_relay_name(config: Config) -> str:
    """This server's name as a relay; ConfigError."""
    name: str = config.site.relay_name or os.uname().nodename.partition(".")[0]
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{config.origin['site.relay_name']}: [site] relay_name: expected "
                          f"letters, digits, - and _, got {name!r}")
    return name


def list_destinations(config: Config) -> list[Destination]:
    """The clusters of [relay], in their order; ConfigError."""
    by_cluster: dict[str, Destination] = {}
    for key, text in config.free["relay"].items():
        where = f"{config.origin[f'relay.{key}']}: [relay] {key}"
        for word in key.split():
            network = parse_client_lnet(word)
            if network is None:
                raise ConfigError(f"{where}: expected LNets such as o2ib2 or tcp, as in the NIDs "
                                  f"of a cluster's nodes (lctl list_nids), got {word!r}")
            for entry in text.split(","):
                _add(by_cluster, network, entry.split(), where, config)
    return list(by_cluster.values())


def _add(by_cluster: dict[str, Destination], network: str, words: list[str], where: str,
         config: Config) -> None:
    """Add one LNet's `HOST:PORT CLUSTER [FILE SYSTEM ...]`."""
    if len(words) < 2 or not _NAME.fullmatch(words[1]):
        raise ConfigError(f"{where}: expected HOST:PORT CLUSTER, such as xepbs:19990 xe, and a "
                          f"comma before another one, got {' '.join(words)!r}")
    for name in words[2:]:
        if not _FILE_SYSTEM.fullmatch(name):
            raise ConfigError(f"{where}: expected names of file systems behind the cluster, or "
                              f"none for all, got {name!r}")
    try:
        host, port = client.split_server(words[0], where)
    except UsageError as error:
        raise ConfigError(str(error)) from None
    cluster, port = words[1], port or config.site.port
    destination = by_cluster.setdefault(cluster, Destination(cluster, host, port, {},
                                                             make_secret_path(config, cluster)))
    if (destination.host, destination.port) != (host, port):
        raise ConfigError(f"{where}: expected one server of cluster {cluster}, got {host}:{port} "
                          f"beside {destination.host}:{destination.port}")
    if network in destination.lnets:
        raise ConfigError(f"{where}: {network} of cluster {cluster} is set already; remove one")
    destination.lnets[network] = frozenset(words[2:])


def list_sources(config: Config) -> dict[str, Source]:
    """Return {name: Source} of [relay_from]; ConfigError."""
    by_name: dict[str, Source] = {}
    for name, text in config.free["relay_from"].items():
        where = f"{config.origin[f'relay_from.{name}']}: [relay_from] {name}"
        names, semicolon, nids_text = text.partition(";")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{where}: expected the relay's name ([site] relay_name there): "
                              f"letters, digits, - and _")
        if not semicolon or not names.split() or not nids_text.split():
            raise ConfigError(f"{where}: expected file systems, a semicolon, and LNets or NIDs, "
                              f"such as gdata home; o2ib2 10.9.*@tcp5, got {text!r}")
        for file_system in names.split():
            if not _FILE_SYSTEM.fullmatch(file_system):
                raise ConfigError(f"{where}: expected names of file systems before the semicolon, "
                                  f"got {file_system!r}")
            owner = next((source.name for source in by_name.values()
                          if file_system in source.file_systems), "")
            if owner:
                raise ConfigError(
                    f"{where}: {file_system} is relayed by {owner} already: from two relays "
                                  f"it would count twice; remove one")
        networks, nids = set(), []
        for nid in nids_text.split():
            address, at, word = nid.rpartition("@")
            network = parse_client_lnet(word)
            if network is not None and not at:
                networks.add(network)
            elif network is not None and _NIDS.fullmatch(nid):
                nids.append(f"{address}@{network}")
            else:
                raise ConfigError(f"{where}: expected LNets (o2ib2) or NIDs (10.9.*@o2ib2) behind "
                                  f"the semicolon, got {nid!r}")
        by_name[name] = Source(name, frozenset(names.split()), frozenset(networks), tuple(nids),
                               make_secret_path(config, name))
    return by_name


def make_relayed_name(server: str, relay: str) -> str:
    """The name at a cluster's server for a storage server that a relay reports: oss1@alkindi."""
    return f"{server[:LONGEST_NODE_NAME - 1 - len(relay)]}@{relay}"


def is_relayed(node: str) -> bool:
    """True for names made by make_relayed_name(); no agent has such a name."""
    return "@" in node


def make_filtered_epoch(epoch: str, words: Iterable[str]) -> str:
    """
    Return the epoch of a relay that reports only the clients that `words` select, from an agent's
    epoch.

    Its second half is that of `words`: where it is another one than before, a client may be new
    that was not reported before, and its amounts are no gains (ClientSource).

    >>> [make_filtered_epoch(epoch, ["o2ib2"])
    ...  for epoch in ("0123456789abcdef", "2323232323232323")]
    ['012345676c90a764', '232323236c90a764']
    """
    return epoch[:8] + hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def is_of_others(epoch: str, other_epoch: str) -> bool:
    """Whether two epochs contain different clients."""
    return epoch[8:] != other_epoch[8:]


def make_secret_path(config: Config, name: str) -> str:
    """The file of the secret that is shared with the cluster, or the relay, `name`."""
    return os.path.join(config.site.relay_secrets, f"{name}.secret")


_READ_EVERY_S = 5.0                 # at a relay's secret, which may be new


class RelaySecret(Secret):
    """The Secret of the relay `relay`, on either side; `cluster`: the one that it sends to."""

    SCHEME = protocol.RELAY_SCHEME
    _whose = "relay"

    def __init__(self, relay: str, password: bytes, tolerance_s: float = 300.0,
                 now: Callable[[], float] = time.time, cluster: str = "") -> None:
        super().__init__(protocol.make_relay_job(relay), password, tolerance_s, now)
        self.reject_reason = (f"the server of cluster {cluster} has another secret for relay "
                              f"{relay}, or does not know it (site.cfg there: [relay_from])")

    def check(self, header: str, body: bytes) -> tuple[str, int | None, str]:
        try:
            return super().check(header, body)
        except AuthenticationError as error:
            if error.claimed:
                error.claimed = name_claimed_sender(error.claimed)
            raise


def name_claimed_sender(relay: str) -> str:
    """
    Return the sender's name for the log, which distinguishes a relay from a node of the same name.
    """
    return f"relay {relay}"


_RESTART = "systemctl restart iostats-site.service"
_DENIED = "it has to belong to the user of the site's server, or to root where that is root"


def load_destination_secret(to: Destination) -> bytes:
    """The secret by which this server relays to a cluster; IostatsError."""
    path, copy = shlex.quote(to.secret), f"then copy it to {to.host}"
    require_safe_directory(to.secret)
    replace = f"rm {path}, {_RESTART}, which makes a new one; {copy}"
    return auth.load(to.secret, auth.SecretHints(
        f"{_RESTART} makes it; {copy}", replace,
        f"chmod 600 {path}, or if they may have: {replace}", _DENIED))


def load_source_secret(source: Source) -> bytes:
    """Load the secret of a relay that may send to this server; IostatsError."""
    path = shlex.quote(source.secret)
    require_safe_directory(source.secret)
    copy = (f"scp -p {source.name}:{shlex.quote(os.path.dirname(source.secret))}/CLUSTER.secret "
            f"{path}, with the name of this cluster there ([relay] in its site.cfg)")
    return auth.load(source.secret, auth.SecretHints(
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
    """The secrets of the relays that may send here, by name; changed files are read again.

    `sources`: {name: Source}; `site_secret`: the file of [site] secret, "" where that is not used;
    `emit`: gets a line about a secret that cannot be used, once.
    """

    def __init__(self, sources: Mapping[str, Source], site_secret: str, tolerance_s: float,
                 now: Callable[[], float], emit: Callable[[str], object],
                 steady: Callable[[], float] = time.monotonic) -> None:
        self._sources, self._site_secret = sources, site_secret
        self._tolerance_s, self._now, self._emit, self._steady = tolerance_s, now, emit, steady
        self._known: dict[str, tuple[bytes, RelaySecret]] = {}
        self._looked: dict[str, tuple[float, object]] = {}      # when, and at which file
        self._logged: dict[str, str] = {}
        for name in sources:
            self._reload_if_changed(name)

    def of(self, header: str) -> RelaySecret:
        """The RelaySecret for an Authorization header; AuthenticationError."""
        name = (protocol.parse_fields(header, protocol.RELAY_SCHEME) or {}).get("node", "")
        if name in self._sources:
            if self._steady() - self._looked[name][0] >= _READ_EVERY_S:
                self._reload_if_changed(name)
            if name in self._known:
                return self._known[name][1]
        raise AuthenticationError(
            protocol.NOT_AUTHENTICATED, "no relay of this name may speak here (site.cfg: "
            "[relay_from])", name_claimed_sender(name) if is_node_name(name) else None)

    def _reload_if_changed(self, name: str) -> None:
        """Read a relay's secret again if its file has changed."""
        path = self._sources[name].secret
        try:
            status = os.stat(path)
            mark: object = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode,
                            os.stat(os.path.dirname(path)).st_mode)
        except OSError:
            mark = None
        if name in self._looked and self._looked[name][1] == mark:
            self._looked[name] = self._steady(), mark
            return
        self._looked[name] = self._steady(), mark
        try:
            password = load_source_secret(self._sources[name])
            if password == self._load_site_secret():
                raise StateError(f"{path}: expected another secret than [site] secret, which "
                                 f"would make the relay root here; remove it, and copy the "
                                 f"relay's own")
        except IostatsError as error:
            self._known.pop(name, None)
            text = f"relay {name} is refused: {error}"
            if self._logged.get(name) != text:
                self._logged[name] = text
                self._emit(text)
            return
        if name not in self._known or self._known[name][0] != password:
            self._known[name] = password, RelaySecret(name, password, self._tolerance_s, self._now)
        self._logged.pop(name, None)

    def _load_site_secret(self) -> bytes | None:
        try:
            return auth.load(self._site_secret) if self._site_secret else None
        except IostatsError:
            return None
