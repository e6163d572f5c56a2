"""
Ganglia's datagrams: from the rates of a sweep to messages in XDR, for gmond 3.1 and newer.

    NAME_read_bytes NAME_write_bytes      bytes/sec    between the node and OSTs and MDTs
    NAME_oss_ops                          ops/sec      reads, writes and all other requests to OSTs
    NAME_mds_ops                          ops/sec      all requests to MDTs but reads and writes
    NAME_reads NAME_writes                ops/sec      requests that moved the bytes
    NAME_lower_bound                                   1 where the rates may be too low
    NAME_cluster_read_bytes ...                        sums over all clients
    NAME_missing_servers                               storage servers that are not in the rates

NAME is the file system's.  An active node has all of them, until it has been idle for a while.
Rates that may be too low are not sent where `lower_bounds` is off; as gmond and gmetad would repeat
the last values, a metadata message with a dmax of 1 s makes them drop these.

    metadata = uint 128, id, string type, string name, string units, uint slope, uint tmax,
               uint dmax, uint n, n * (string key, string text)         encode_metadata()
    value    = uint 133, id, string "%s", string value                  encode_value()
    id       = string host, string name, bool is_spoofed
    string   = uint length, its bytes, zeros up to a multiple of 4; all integers big-endian

    host     = "IP:NAME" where it is spoofed: gmond finds the host by the text before the first
               colon, and takes the rest as the name of a new host.  So an IPv6 address cannot stand
               there.  Not spoofed: gmond takes the sender's address, not this text.

gmond does not show a value without metadata.  dmax counts from the last *metadata* for gmond
(cleanup_data), from the last value for gmetad, which until then writes the last value into its RRDs
as if it were new (startElement_METRIC): dmax is how long a number outlives its sender.

gmond writes host, name, units and extra data into its XML unescaped, and gmetad makes paths of host
and name: so `clean_name` leaves only letters, digits, "_", "-" and ".".

Source: spoofIntoGanglia() and sumDataToClients() of lustreHarvest, for names and sums; RFC 4506;
ganglia 3.7.2: lib/gm_protocol.x; Ganglia_metadata_send_real() and Ganglia_value_send_real(),
lib/libgmond.c; Ganglia_host_get(), gmond/gmond.c; write_data_to_rrd(), gmetad/rrd_helpers.c.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import math
import re
import struct
from binascii import crc32
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iostats.harvest.clients.node_names import STORAGE_SERVERS
from iostats.load.amounts import CLIENT_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.ids import Nid, NodeName
    from iostats.sinks.ganglia.sender import Hosts
    from iostats.wire.messages.arrays import Array

METADATA, VALUE = 128, 133
MOST_BYTES = 1472                   # gmond's max_udp_msg_len
LONGEST_NAME = 100                  # of a host or a metric: gmond has 1024 bytes for a metric's tag
SLOPE_BOTH = 3                      # the number goes up and down: RRD's GAUGE
GONE_S = 1                          # the dmax of a metric that is to be forgotten at once


class Host(NamedTuple):
    """The host that gmond shows for metrics."""

    text: str           # "IP:NAME", or the sender's own name
    is_spoofed: bool    # whether it is somebody else


class GangliaMetric(NamedTuple):
    """The description of a metric for gmond."""

    name: str
    type: str   # "double", "uint32", ...; values are sent as text all the same, as gmetric does
    units: str  # as they are shown
    slope: int  # SLOPE_BOTH
    tmax: int  # in how many seconds, at most, the next value comes; dmax: see the module; both uint
    dmax: int
    extra: tuple[tuple[str, str], ...]  # ((key, text), ...), such as ("GROUP", "lustre")


_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_UINT = struct.Struct("!I")
_FOUR = struct.Struct("!4I")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
METADATA_START, VALUE_START = _UINT.pack(METADATA), _UINT.pack(VALUE)
_FORMAT = _UINT.pack(2) + b"%s\0\0"


def find_ipv4(nids: Iterable[str]) -> str:
    """
    The IPv4 address of the first of these NIDs that has one, those of LNet's tcp first; "".

    >>> find_ipv4(["27@gni", "10.9.0.11@o2ib", "10.77.0.11@tcp1"])
    '10.77.0.11'
    >>> find_ipv4(["fd00::5@tcp"])
    ''
    """
    addresses = []
    for nid in nids:
        address, _, network = nid.partition("@")
        with contextlib.suppress(ValueError):
            addresses.append((not network.startswith("tcp"), ipaddress.IPv4Address(address)))
    return str(min(addresses)[1]) if addresses else ""


def clean_name(text: str) -> str:
    """
    Return `text` as the name of a host or of a metric.

    >>> clean_name("node1-ib0.cluster"), clean_name('a"/>b'), clean_name(".."), clean_name("")
    ('node1-ib0.cluster', 'a___b', '_', '_')
    """
    cleaned = _UNSAFE.sub("_", text)[:LONGEST_NAME]
    return cleaned if cleaned.strip(".") else "_"


def make_host_name(text: str) -> str:
    """
    A host's name for gmond, from a node's name or NID; different ones have different names.

    >>> make_host_name("node1.cluster"), make_host_name("27@gni"), make_host_name("node 1")
    ('node1.cluster', '27_gni', 'node_1_a65c6212')
    """
    name = clean_name(text)
    if name == re.sub("[@:]", "_", text):
        return name
    checksum = crc32(text.encode("utf-8", "surrogatepass"))
    return f"{name[:LONGEST_NAME - 9]}_{checksum:08x}"


def format_number(value: float) -> str:
    """
    Return `value` as text: all digits that a double has.

    >>> format_number(2300.0), format_number(6171 + 2 / 3)
    ('2300', '6171.66666666667')
    """
    return f"{value:.15g}"


def encode_string(text: str) -> bytes:
    """Encode a string as XDR."""
    data = text.encode("utf-8", "backslashreplace")
    return _UINT.pack(len(data)) + data + _PADDING[len(data) & 3]


def encode_metadata(host: Host, metric: GangliaMetric) -> bytes:
    """Encode the metadata of a metric as a datagram."""
    return METADATA_START + encode_string(host.text) + encode_metadata_end(metric, host.is_spoofed)


def encode_metadata_end(metric: GangliaMetric, is_spoofed: bool) -> bytes:
    """
    The part of a metadata datagram that is the same for all hosts, after METADATA_START and
    string(host).
    """
    return b"".join((
        encode_string(metric.name), _UINT.pack(is_spoofed), encode_string(metric.type),
        encode_string(metric.name),
        encode_string(metric.units), _FOUR.pack(metric.slope, metric.tmax, metric.dmax,
                                                len(metric.extra)),
        *(encode_string(text) for pair in metric.extra for text in pair)))


def encode_value(host: Host, name: str, text: str) -> bytes:
    """Encode a value as a datagram."""
    return VALUE_START + encode_string(host.text) + encode_value_middle(
        name, host.is_spoofed) + encode_string(text)


def encode_value_middle(name: str, is_spoofed: bool) -> bytes:
    """
    The part of a value datagram that is the same for all hosts, between VALUE_START, string(host)
    and string(value).
    """
    return encode_string(name) + _UINT.pack(is_spoofed) + _FORMAT


def make_metric_texts(group: str, title: str, about: str) -> tuple[tuple[str, str], ...]:
    """The texts of a metric on Ganglia's pages: its group, its title and its description."""
    return ("GROUP", group), ("TITLE", title), ("DESC", about)


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


class NodeRates(NamedTuple):
    """A file system's rates by node."""

    names: list[NodeName]   # STORAGE_SERVERS may be one
    # [[NID]] of each; is_known: [bool], whether it has a name and is not called by its NID
    nids: list[list[Nid]]
    is_known: Sequence[bool]
    rates: Any  # float64 array, a row for each node, the columns of CLIENT_METRICS, each per second
    is_low: Sequence[bool]  # [bool], whether its rates may be too low
    missing: int            # how many storage servers are not in the rates


class _Shown:
    """The metrics of one node and file system that gmond has."""

    __slots__ = ("active", "address", "due", "is_sent", "start")

    def __init__(self, host: Host, active: float) -> None:
        self.start = encode_string(host.text)      # XDR
        self.address = host.text.partition(":")[0]
        self.active = active                # the slot of its last I/O
        self.due = 0.0                      # the slot when metadata is to be sent again
        self.is_sent = False


class _Kind:
    """The metrics of a row of values, as datagrams without host and value."""

    def __init__(self, metrics: Sequence[GangliaMetric], is_spoofed: bool) -> None:
        self.metadata = [encode_metadata_end(metric, is_spoofed) for metric in metrics]
        self.gone = [encode_metadata_end(metric._replace(dmax=GONE_S), is_spoofed)
                     for metric in metrics]
        self.middles = [encode_value_middle(metric.name, is_spoofed) for metric in metrics]


class Datagrams:
    """
    The metrics that were sent to gmond, from sweep to sweep.

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
        self._slot = self._every_s = 0.0

    def resend_metadata(self) -> None:
        """Send all metadata again with the next sweep: gmond may have restarted."""
        for nodes in self._shown.values():
            for shown_node in nodes.values():
                shown_node.due = 0.0

    def of(self, slot: float, every_s: float, file_systems: Mapping[str, NodeRates]) -> list[bytes]:
        """The datagrams of the sweep of `slot`, s."""
        self._slot, self._every_s = slot, every_s
        datagrams: list[bytes] = []
        counted: tuple[set[str], set[str], set[str], set[str]] = (set(), set(), set(), set())
        for fs in self._shown.keys() - file_systems.keys():         # no data for it
            for node, shown_node in self._shown.pop(fs).items():
                self._withdraw(shown_node, self._make_kind(fs, is_sum=node is None), datagrams)
        for fs, rates in file_systems.items():
            self._add(fs, rates, datagrams, *counted)
        self.shown, self.unnamed, self.unplaced, self.low = map(len, counted)
        self.an_unnamed, self.an_unplaced = (min(names, default="") for names in counted[1:3])
        return datagrams

    def _add(self, fs: str, rates: NodeRates, datagrams: list[bytes], shown: set[str],
             unnamed: set[str], unplaced: set[str], low: set[str]) -> None:
        places = [[CLIENT_METRICS.index(column) for column in ABOUT[word][1]]
                  for word in self._metrics]
        known, kind = self._shown.setdefault(fs, {}), self._make_kind(fs)
        values = _sum_columns(rates.rates, places).tolist()
        is_active = rates.rates.any(axis=1).tolist()
        absent = [node for node in known.keys() - set(rates.names) if node is not None]
        rest = [0.0] * len(places)
        rows: Iterable[tuple[str, list[str], bool, list[float], bool, bool]] = itertools.chain(
            zip(rates.names, rates.nids, rates.is_known, values, is_active, rates.is_low),
            ((node, [], True, rest, False, bool(rates.missing)) for node in absent))
        ambiguous: set[str] | None = None           # found when a node is new
        for node, nids, is_known, row, active, is_low in rows:
            shown_node = known.get(node)
            if active:
                if shown_node is None:
                    if node == STORAGE_SERVERS:
                        continue
                    if ambiguous is None:
                        ambiguous = self._find_ambiguous(rates)
                    host = self._find_host(node, nids, is_known, ambiguous)
                    if host is None:
                        (unplaced if is_known else unnamed).add(node)
                        continue
                    shown_node = known[node] = _Shown(host, self._slot)
                shown_node.active = self._slot
            elif shown_node is None:
                continue
            elif self._slot - shown_node.active > self._idle_s:
                del known[node]
                if not any(node in nodes for nodes in self._shown.values()):
                    self._node_at.pop(shown_node.address, None)
                continue
            if is_low and not self._send_low:
                low.add(node)
                self._withdraw(shown_node, kind, datagrams)
                continue
            shown.add(node)
            self._show(shown_node, kind, [*row, is_low] if self._send_low else row, datagrams)
        self._add_sums(fs, rates, places, datagrams)

    def _find_host(self, node: str, nids: Iterable[str], is_known: bool, ambiguous: set[str]
                   ) -> Host | None:
        """The node's Host, a name that no other node has in gmond."""
        while True:
            host = self._hosts.find_host(node, nids, is_known, ambiguous)
            if host is None:
                return None
            address = host.text.partition(":")[0]
            if self._node_at.setdefault(address, node) == node or address in ambiguous:
                return host
            ambiguous.add(address)

    def _find_ambiguous(self, rates: NodeRates) -> set[str]:
        """The addresses that several of these nodes have."""
        at: dict[str, str] = {}
        return {address for node, nids in zip(rates.names, rates.nids)
                for address in [find_ipv4(nids)]
                if address and at.setdefault(address, node) != node}

    def _add_sums(self, fs: str, rates: NodeRates, places: list[list[int]],
                  datagrams: list[bytes]) -> None:
        nodes = np.array([name != STORAGE_SERVERS for name in rates.names], bool)
        is_low = bool(rates.missing) or bool((np.array(rates.is_low, bool) & nodes).any())
        shown = self._shown[fs]
        shown_sums = shown.get(None)
        if shown_sums is None:
            shown_sums = shown[None] = _Shown(self._sums, self._slot)
        [sums] = _sum_columns(rates.rates[nodes].sum(axis=0, keepdims=True), places).tolist()
        is_told = not shown_sums.is_sent or self._slot >= shown_sums.due - self._every_s / 2
        missing = self._make_missing_kind(fs)
        if is_low and not self._send_low:
            self._withdraw(shown_sums, self._make_kind(fs, is_sum=True), datagrams)
        else:
            self._show(shown_sums, self._make_kind(fs, is_sum=True),
                       [*sums, is_low] if self._send_low else sums, datagrams)
        if is_told:
            datagrams.append(METADATA_START + shown_sums.start + missing.metadata[0])
        datagrams.append(VALUE_START + shown_sums.start + missing.middles[0]
                         + encode_string(str(rates.missing)))

    def _show(self, shown_host: _Shown, kind: _Kind, row: Sequence[float],
              datagrams: list[bytes]) -> None:
        if not shown_host.is_sent or self._slot >= shown_host.due - self._every_s / 2:
            start = METADATA_START + shown_host.start
            datagrams += [start + end for end in kind.metadata]
            after = max(self._metadata_s, self._every_s)
            if not shown_host.is_sent:
                # As many at each sweep, instead of all at once.
                self._due += 1
                after = self._every_s * (1 + self._due % max(1, round(after / self._every_s)))
            shown_host.due, shown_host.is_sent = self._slot + after, True
        start = VALUE_START + shown_host.start
        datagrams += [start + middle + encode_string(format_number(value))
                      for middle, value in zip(kind.middles, row)]

    def _withdraw(self, shown_host: _Shown, kind: _Kind, datagrams: list[bytes]) -> None:
        if shown_host.is_sent:
            shown_host.is_sent = False
            datagrams += [METADATA_START + shown_host.start + end for end in kind.gone]

    def _make_kind(self, fs: str, is_sum: bool = False) -> _Kind:
        prefix, title = self._make_metric_prefix(fs), self._make_metric_prefix(fs)
        if is_sum:
            prefix, title = f"{prefix}_cluster", f"{title}, all nodes"
        metrics = [
            self._make_metric(f"{prefix}_{word}", "double", units, f"{title}: {about}", description)
                   for word, (units, _, about, description) in
                   ((word, ABOUT[word]) for word in self._metrics)]
        if self._send_low:
            units, about, description = LOWER_BOUND
            metrics.append(self._make_metric(f"{prefix}_lower_bound", "uint32", units,
                                             f"{title}: {about}", description))
        return _Kind(metrics, not is_sum or self._sums.is_spoofed)

    def _make_missing_kind(self, fs: str) -> _Kind:
        prefix, (units, about, description) = self._make_metric_prefix(fs), MISSING
        return _Kind([self._make_metric(f"{prefix}_missing_servers", "uint32", units,
                                        f"{prefix}: {about}", description)], self._sums.is_spoofed)

    def _make_metric_prefix(self, fs: str) -> str:
        return clean_name(clean_name(self._names.get(fs, fs))[:_LONGEST_PREFIX])

    def _make_metric(self, name: str, type: str, units: str, title: str,
                     description: str) -> GangliaMetric:
        tell_s = max(self._metadata_s, self._every_s)
        return GangliaMetric(name, type, units, SLOPE_BOTH, math.ceil(2 * self._every_s),
                             math.ceil(3 * tell_s), make_metric_texts(GROUP, title, description))


def _sum_columns(rates: Array, places: list[list[int]]) -> Array:
    """The rates of each of the metrics: its columns of CLIENT_METRICS added up."""
    return np.stack([rates[:, columns].sum(axis=1) for columns in places], axis=1)
