"""
Who relays what to whom: the sections [relay] and [relay_from] of site.cfg.

    [relay]           on the server that hears the storage servers:
                      LNet ... = HOST[:PORT] CLUSTER [FILE SYSTEM ...] [, ...]
        o2ib2 = xepbs:19990 xe
        tcp5 o2ib = vu-man4 vu gdata, dcchead dcc

    [relay_from]      on the server of a cluster: NAME = FILE SYSTEM ...; LNet or NIDs ...
        alkindi = gdata home; o2ib2 10.9.*@tcp5

CLUSTER and NAME are also the names of secrets: [site] relay_secrets has a file CLUSTER.secret on
the one side, and NAME.secret with the same content on the other.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections import namedtuple

from iostats.base.errors import ConfigError, UsageError
from iostats.base.job_id import LONGEST_NODE_NAME
from iostats.lustre.nids import lnet_of, lnet_of_clients
from iostats.wire import client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config

Destination = namedtuple("Destination", "cluster host port lnets secret")
Destination.__doc__ = """
A cluster whose server is told what its nodes do.

Attributes:
    cluster: its name here.
    host, port: of its site's server.
    lnets: {LNet of its nodes: the file systems that it is told of; empty: all}.
    secret: the file of the secret that both have.
"""

_Source = namedtuple("_Source", "name file_systems lnets nids secret")


class Source(_Source):
    """
    A relay that may speak here.

    Attributes:
        name: as it calls itself ([site] relay_name there).
        file_systems: those that it may speak for, a frozenset.
        lnets: frozenset of networks whose clients it may speak of; `nids`: globs of others' NIDs.
        secret: the file of the secret that both have.
    """

    __slots__ = ()

    def may_speak_of(self, nid: str) -> bool:
        """Whether this client is one of those that are listed."""
        return lnet_of(nid) in self.lnets or any(
            fnmatch.fnmatchcase(nid, glob) for glob in self.nids)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_SYSTEM = re.compile(r"[\w.-]{1,64}", re.ASCII)
_NIDS = re.compile(r"[0-9A-Za-z.:*]{1,64}@[a-z][a-z0-9]*")


def own_name(config: Config) -> str:
    """By what name this server relays; ConfigError."""
    name: str = config["site.relay_name"] or os.uname().nodename.partition(".")[0]
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{config.origin['site.relay_name']}: [site] relay_name: expected "
                          f"letters, digits, - and _, got {name!r}")
    return name


def destinations(config: Config) -> list[Destination]:
    """The clusters of [relay], in their order; ConfigError."""
    found: dict[str, Destination] = {}
    for key, text in config.free["relay"].items():
        where = f"{config.origin[f'relay.{key}']}: [relay] {key}"
        for word in key.split():
            network = lnet_of_clients(word)
            if network is None:
                raise ConfigError(f"{where}: expected LNets such as o2ib2 or tcp, as in the NIDs "
                                  f"of a cluster's nodes (lctl list_nids), got {word!r}")
            for one in text.split(","):
                _add(found, network, one.split(), where, config)
    return list(found.values())


def _add(found: dict[str, Destination], network: str, words: list[str], where: str,
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
    cluster, port = words[1], port or config["site.port"]
    one = found.setdefault(cluster, Destination(cluster, host, port, {},
                                                secret_file(config, cluster)))
    if (one.host, one.port) != (host, port):
        raise ConfigError(f"{where}: expected one server of cluster {cluster}, got {host}:{port} "
                          f"beside {one.host}:{one.port}")
    if network in one.lnets:
        raise ConfigError(f"{where}: {network} of cluster {cluster} is set already; remove one")
    one.lnets[network] = frozenset(words[2:])


def sources(config: Config) -> dict[str, Source]:
    """{name: Source} of [relay_from]; ConfigError."""
    found: dict[str, Source] = {}
    for name, text in config.free["relay_from"].items():
        where = f"{config.origin[f'relay_from.{name}']}: [relay_from] {name}"
        names, semicolon, those = text.partition(";")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{where}: expected the relay's name ([site] relay_name there): "
                              f"letters, digits, - and _")
        if not semicolon or not names.split() or not those.split():
            raise ConfigError(f"{where}: expected file systems, a semicolon, and LNets or NIDs, "
                              f"such as gdata home; o2ib2 10.9.*@tcp5, got {text!r}")
        for one in names.split():
            if not _FILE_SYSTEM.fullmatch(one):
                raise ConfigError(f"{where}: expected names of file systems before the semicolon, "
                                  f"got {one!r}")
            other = next((other.name for other in found.values() if one in other.file_systems), "")
            if other:
                raise ConfigError(f"{where}: {one} is relayed by {other} already: from two relays "
                                  f"it would count twice; remove one")
        networks, nids = set(), []
        for one in those.split():
            address, at, word = one.rpartition("@")
            network = lnet_of_clients(word)
            if network is not None and not at:
                networks.add(network)
            elif network is not None and _NIDS.fullmatch(one):
                nids.append(f"{address}@{network}")
            else:
                raise ConfigError(f"{where}: expected LNets (o2ib2) or NIDs (10.9.*@o2ib2) behind "
                                  f"the semicolon, got {one!r}")
        found[name] = Source(name, frozenset(names.split()), frozenset(networks), tuple(nids),
                             secret_file(config, name))
    return found


def relayed_name(server: str, relay: str) -> str:
    """What a cluster's server calls a storage server of which a relay tells it: oss1@alkindi."""
    return f"{server[:LONGEST_NODE_NAME - 1 - len(relay)]}@{relay}"


def is_relayed(node: str) -> bool:
    """Whether `node` is such a name; no agent's is."""
    return "@" in node


def filtered_epoch(epoch: str, words: Iterable[str]) -> str:
    """
    The epoch of amounts of those clients alone that `words` stand for, of an agent's epoch.

    Its second half is that of `words`: where it is another one than before, a client may be new
    that was only not told of before, and its amounts are no gains (ClientSource).

    >>> [filtered_epoch(epoch, ["o2ib2"]) for epoch in ("0123456789abcdef", "2323232323232323")]
    ['0123456771db90d8', '2323232371db90d8']
    """
    return epoch[:8] + hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


def is_of_others(epoch: str, other: str) -> bool:
    """Whether two of these epochs are of different clients."""
    return epoch[8:] != other[8:]


def secret_file(config: Config, name: str) -> str:
    """The file of the secret that is shared with the cluster, or the relay, `name`."""
    return os.path.join(config["site.relay_secrets"], f"{name}.secret")
