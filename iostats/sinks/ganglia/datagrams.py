"""
From the rates of a sweep to datagrams: of which nodes, which metrics, and when gmond is told again
what they are.

    NAME_read_bytes NAME_write_bytes      bytes/sec    between the node and OSTs and MDTs
    NAME_oss_ops                          ops/sec      reads, writes and all other requests to OSTs
    NAME_mds_ops                          ops/sec      all requests to MDTs but reads and writes
    NAME_reads NAME_writes                ops/sec      requests that moved the bytes
    NAME_lower_bound                                   1 where the rates may be too low
    NAME_cluster_read_bytes ...                        sums over all clients
    NAME_missing_servers                               storage servers that are not in the rates

NAME is the file system's.  A node that does something has all of them, until it has done nothing
for a while.  Rates that may be too low are not sent where `lower_bounds` is off; as gmond and
gmetad would go on with the last ones, they are told to forget them: a metadata of dmax 1 s.

Source: spoofIntoGanglia() and sumDataToClients() of lustreHarvest, for names and sums; packet.py.
"""

from __future__ import annotations

import itertools
import math
from collections import namedtuple

import numpy as np

from iostats.load.amounts import CLIENT_METRICS
from iostats.sinks.ganglia.hosts import ip_of
from iostats.sinks.ganglia.packet import (
    GONE_S,
    LONGEST_NAME,
    METADATA_START,
    SLOPE_BOTH,
    VALUE_START,
    Host,
    GangliaMetric,
    extra_of,
    metadata_end,
    number,
    safe,
    string,
    value_middle,
)
from iostats.site.clients.node_names import STORAGE_SERVERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iostats.sinks.gains import Array
    from iostats.sinks.ganglia.hosts import Hosts

GROUP = "lustre"
_LONGEST_PREFIX = LONGEST_NAME - len("_cluster_write_bytes")
_TRANSFERS = ("reads", "writes")
# word -> units, columns of CLIENT_METRICS that are added up, title, what it is
ABOUT = {
    "read_bytes": ("bytes/sec", ("read_bytes",), "read", "Bytes read from OSTs and MDTs"),
    "write_bytes": ("bytes/sec", ("write_bytes",), "written", "Bytes written to OSTs and MDTs"),
    "oss_ops": ("ops/sec", (*_TRANSFERS, "ost_operations"), "OSS operations",
                "Reads, writes and all other requests to OSTs"),
    "mds_ops": ("ops/sec", ("mdt_operations",), "MDS operations",
                "Requests to MDTs other than reads and writes"),
    "reads": ("ops/sec", ("reads",), "read requests", "Requests that read bytes"),
    "writes": ("ops/sec", ("writes",), "write requests", "Requests that wrote bytes"),
}
LOWER_BOUND = ("", "may be too low", "1 where the rates may be too low")
MISSING = ("servers", "missing storage servers", "Storage servers that are not in the rates")

NodeRates = namedtuple("NodeRates", "names nids is_known rates is_low missing")
NodeRates.__doc__ = """
A file system's rates by node.

Attributes:
    names: [node]; STORAGE_SERVERS may be one.
    nids: [[NID]] of each; is_known: [bool], whether it has a name and is not called by its NID.
    is_low: [bool], whether its rates may be too low.
    rates: float64 array, a row for each node, the columns of CLIENT_METRICS, each per second.
    missing: how many storage servers are not in the rates.
"""


class _Shown:
    """What gmond has of one node and file system."""

    __slots__ = ("active", "address", "due", "is_sent", "start")

    def __init__(self, host: Host, active: float) -> None:
        self.start = string(host.text)      # XDR
        self.address = host.text.partition(":")[0]
        self.active = active                # the slot of its last I/O
        self.due = 0.0                      # the slot when metadata is to be sent again
        self.is_sent = False


class _Kind:
    """The metrics of a row of values, as datagrams but for host and value."""

    def __init__(self, metrics: Sequence[GangliaMetric], is_spoofed: bool) -> None:
        self.metadata = [metadata_end(one, is_spoofed) for one in metrics]
        self.gone = [metadata_end(one._replace(dmax=GONE_S), is_spoofed) for one in metrics]
        self.middles = [value_middle(one.name, is_spoofed) for one in metrics]


class Datagrams:
    """
    What gmond has been told, from sweep to sweep.

    `metrics`: words of ABOUT; `names`: {file system: what its metrics begin with}; `sums`: the Host
    of the sums; `send_low`: whether rates that may be too low are sent.

    Attributes:
        shown, low: how many nodes were sent at the last sweep; were not, since their rates may be
            too low.
        unnamed, unplaced: how many were not sent, since their name is not known; since their
            address is not known yet.
        an_unnamed, an_unplaced: one of these, for a message; "" for none.
    """

    def __init__(self, metrics: Sequence[str], names: Mapping[str, str], hosts: Hosts, sums: Host,
                 idle_s: float, metadata_s: float, send_low: bool) -> None:
        self._metrics, self._names, self._hosts, self._sums = tuple(metrics), names, hosts, sums
        self._idle_s, self._metadata_s, self._send_low = idle_s, metadata_s, send_low
        # {file system: {node, None for the sums: what gmond has of it}}
        self._shown: dict[str, dict[str | None, _Shown]] = {}
        self._node_at: dict[str, str] = {}          # address that gmond knows -> node
        self._due = 0                               # counts, so that not all are due at once
        self.shown = self.unnamed = self.unplaced = self.low = 0
        self.an_unnamed = self.an_unplaced = ""
        self._slot = self._every = 0.0

    def tell_again(self) -> None:
        """With the next sweep, all metadata is sent again: gmond may be a new one."""
        for nodes in self._shown.values():
            for one in nodes.values():
                one.due = 0.0

    def of(self, slot: float, every_s: float, file_systems: Mapping[str, NodeRates]) -> list[bytes]:
        """The datagrams of the sweep of `slot`, s."""
        self._slot, self._every = slot, every_s
        found: list[bytes] = []
        seen: tuple[set[str], set[str], set[str], set[str]] = (set(), set(), set(), set())
        for fs in self._shown.keys() - file_systems.keys():         # nothing is known of it
            for node, one in self._shown.pop(fs).items():
                self._withdraw(one, self._kind(fs, is_sum=node is None), found)
        for fs, rates in file_systems.items():
            self._add(fs, rates, found, *seen)
        self.shown, self.unnamed, self.unplaced, self.low = map(len, seen)
        self.an_unnamed, self.an_unplaced = (min(some, default="") for some in seen[1:3])
        return found

    def _add(self, fs: str, rates: NodeRates, found: list[bytes], shown: set[str],
             unnamed: set[str], unplaced: set[str], low: set[str]) -> None:
        places = [[CLIENT_METRICS.index(column) for column in ABOUT[word][1]]
                  for word in self._metrics]
        known, kind = self._shown.setdefault(fs, {}), self._kind(fs)
        values = _columns(rates.rates, places).tolist()
        is_active = rates.rates.any(axis=1).tolist()
        absent = [node for node in known.keys() - set(rates.names) if node is not None]
        rest = [0.0] * len(places)
        rows: Iterable[tuple[str, list[str], bool, list[float], bool, bool]] = itertools.chain(
            zip(rates.names, rates.nids, rates.is_known, values, is_active, rates.is_low),
            ((node, [], True, rest, False, bool(rates.missing)) for node in absent))
        ambiguous: set[str] | None = None           # found when a node is new
        for node, nids, is_known, row, active, is_low in rows:
            one = known.get(node)
            if active:
                if one is None:
                    if node == STORAGE_SERVERS:
                        continue
                    if ambiguous is None:
                        ambiguous = self._ambiguous(rates)
                    host = self._host_of(node, nids, is_known, ambiguous)
                    if host is None:
                        (unplaced if is_known else unnamed).add(node)
                        continue
                    one = known[node] = _Shown(host, self._slot)
                one.active = self._slot
            elif one is None:
                continue
            elif self._slot - one.active > self._idle_s:
                del known[node]
                if not any(node in nodes for nodes in self._shown.values()):
                    self._node_at.pop(one.address, None)
                continue
            if is_low and not self._send_low:
                low.add(node)
                self._withdraw(one, kind, found)
                continue
            shown.add(node)
            self._show(one, kind, [*row, is_low] if self._send_low else row, found)
        self._add_sums(fs, rates, places, found)

    def _host_of(self, node: str, nids: Iterable[str], is_known: bool, ambiguous: set[str]
                 ) -> Host | None:
        """Its Host, by which gmond knows no other node."""
        while True:
            host = self._hosts.host_of(node, nids, is_known, ambiguous)
            if host is None:
                return None
            address = host.text.partition(":")[0]
            if self._node_at.setdefault(address, node) == node or address in ambiguous:
                return host
            ambiguous.add(address)

    def _ambiguous(self, rates: NodeRates) -> set[str]:
        """The addresses that several of these nodes have."""
        at: dict[str, str] = {}
        return {address for node, nids in zip(rates.names, rates.nids)
                for address in [ip_of(nids)]
                if address and at.setdefault(address, node) != node}

    def _add_sums(self, fs: str, rates: NodeRates, places: list[list[int]],
                  found: list[bytes]) -> None:
        nodes = np.array([name != STORAGE_SERVERS for name in rates.names], bool)
        is_low = bool(rates.missing) or bool((np.array(rates.is_low, bool) & nodes).any())
        known = self._shown[fs]
        one = known.get(None)
        if one is None:
            one = known[None] = _Shown(self._sums, self._slot)
        [sums] = _columns(rates.rates[nodes].sum(axis=0, keepdims=True), places).tolist()
        is_told = not one.is_sent or self._slot >= one.due - self._every / 2
        missing = self._missing(fs)
        if is_low and not self._send_low:
            self._withdraw(one, self._kind(fs, is_sum=True), found)
        else:
            self._show(one, self._kind(fs, is_sum=True),
                       [*sums, is_low] if self._send_low else sums, found)
        if is_told:
            found.append(METADATA_START + one.start + missing.metadata[0])
        found.append(VALUE_START + one.start + missing.middles[0] + string(str(rates.missing)))

    def _show(self, one: _Shown, kind: _Kind, row: Sequence[float], found: list[bytes]) -> None:
        if not one.is_sent or self._slot >= one.due - self._every / 2:
            start = METADATA_START + one.start
            found += [start + end for end in kind.metadata]
            after = max(self._metadata_s, self._every)
            if not one.is_sent:
                # As many at each sweep, instead of all at once.
                self._due += 1
                after = self._every * (1 + self._due % max(1, round(after / self._every)))
            one.due, one.is_sent = self._slot + after, True
        start = VALUE_START + one.start
        found += [start + middle + string(number(value))
                  for middle, value in zip(kind.middles, row)]

    def _withdraw(self, one: _Shown, kind: _Kind, found: list[bytes]) -> None:
        if one.is_sent:
            one.is_sent = False
            found += [METADATA_START + one.start + end for end in kind.gone]

    def _kind(self, fs: str, is_sum: bool = False) -> _Kind:
        prefix, title = self._prefix(fs), self._prefix(fs)
        if is_sum:
            prefix, title = f"{prefix}_cluster", f"{title}, all nodes"
        metrics = [self._metric(f"{prefix}_{word}", "double", units, f"{title}: {about}", what)
                   for word, (units, _, about, what) in
                   ((word, ABOUT[word]) for word in self._metrics)]
        if self._send_low:
            units, about, what = LOWER_BOUND
            metrics.append(self._metric(f"{prefix}_lower_bound", "uint32", units,
                                        f"{title}: {about}", what))
        return _Kind(metrics, not is_sum or self._sums.is_spoofed)

    def _missing(self, fs: str) -> _Kind:
        prefix, (units, about, what) = self._prefix(fs), MISSING
        return _Kind([self._metric(f"{prefix}_missing_servers", "uint32", units,
                                   f"{prefix}: {about}", what)], self._sums.is_spoofed)

    def _prefix(self, fs: str) -> str:
        return safe(safe(self._names.get(fs, fs))[:_LONGEST_PREFIX])

    def _metric(self, name: str, type: str, units: str, title: str, what: str) -> GangliaMetric:
        tell_s = max(self._metadata_s, self._every)
        return GangliaMetric(name, type, units, SLOPE_BOTH, math.ceil(2 * self._every),
                      math.ceil(3 * tell_s), extra_of(GROUP, title, what))


def _columns(rates: Array, places: list[list[int]]) -> Array:
    """The rates of each of the metrics: its columns of CLIENT_METRICS added up."""
    return np.stack([rates[:, some].sum(axis=1) for some in places], axis=1)
