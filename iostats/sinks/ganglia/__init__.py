"""
Ganglia: each client's rates in the host that its gmond is, as lustreHarvest puts them there.

    packet          the two kinds of datagrams
    hosts           which host of gmond's a node is: its address and its name there
    datagrams       from a sweep's rates to datagrams: of which nodes, and of which metrics
    destinations    where datagrams go, unicast or multicast
    sender          the sink: a thread that sends them, no faster than gmond can take them

No library is used: none that works with the Python of today is there.
"""

from __future__ import annotations

from iostats.base.options import Option, choice, duration, number, printable, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

NAME = "ganglia"
ABOUT = "Ganglia 3.1 and newer: each node's rates, in the host that its gmond is"
IMPORTS = ""
REQUIRES = ()

HARVESTED = ("read_bytes", "write_bytes", "oss_ops", "mds_ops")     # lustreHarvest's
METRICS = (*HARVESTED, "reads", "writes")


def _metrics(value: str) -> list[str]:
    words = value.split()
    if not words or len(set(words)) < len(words) or not set(words) <= set(METRICS):
        raise ValueError
    return words


def _names(value: str) -> list[str]:
    words = value.split()
    found = {pair[0]: pair[1] for pair in (word.split("=") for word in words)
             if len(pair) == 2 and all(pair)}
    if len(set(found.values())) < len(words):
        raise ValueError
    return words


def _host(value: str) -> str:
    before, _, name = value.partition(":")
    if value and not (before and name and ":" not in name and value.isascii()):
        raise ValueError
    return printable(value)


OPTIONS = {
    "send_to": Option("", words, "HOST:PORT, several with spaces between", (
        "The gmonds that get the rates: addresses or names of single ones, or of a multicast "
        "group, such as 239.2.11.71:8649; without a port, 8649.  Empty: none.")),
    "ttl": number(0, 255, 1, "How many routers a multicast datagram may pass, plus one."),
    "interface": Option("", printable, "the name of a network interface", (
        "Where multicast datagrams leave, such as eth1.  Empty: where the system routes them.")),
    "metrics": Option(" ".join(HARVESTED), _metrics, f"some of {' '.join(METRICS)}", (
        "What is sent of each node and file system; docs/sinks.md says what each is.")),
    "names": Option("", _names, "FILE_SYSTEM=NAME, several with spaces between", (
        "What metrics begin with, where it is not to be the file system's own name: data=vu_short "
        "makes vu_short_read_bytes.")),
    "address": choice("nid", ("nid", "lookup", "name"), (
        "gmond knows a host by its IP address.  nid: it is the one of the node's NID.  lookup: "
        "it is the one that /etc/hosts and DNS have for the node's name, for nodes whose gmond "
        "and whose Lustre use different networks.  name: it is the name once more, for gmonds with "
        "override_hostname.")),
    "domain": Option("", printable, "a domain", (
        "What gmond has behind the names of nodes: cluster.example.org makes "
        "node1.cluster.example.org.  Empty: nothing.")),
    "unnamed": choice("no", ("yes", "no"), (
        "yes: clients whose name is not known are sent as well, with their address as their name.  "
        "no: they may be another cluster's; they are in the sums alone.")),
    "lower_bounds": choice("no", ("yes", "no"), (
        "no: a rate that may be too low, since a storage server has not reported, is not sent.  "
        "yes: it is, and so is the metric FILE_SYSTEM_lower_bound, 1 where it may be too low.")),
    "idle": duration(300, (
        "How long 0 is sent of a node after its last I/O; then nothing.  While anything is sent, "
        "Ganglia shows the node as up.")),
    "send_metadata_interval": duration(60, (
        "How often gmond is told again what the metrics are: after it has been restarted, it does "
        "not show them before.")),
    "sums_host": Option("", _host, "IP:NAME", (
        "The host that gets the sums over all nodes.  Empty: the one that sends them.")),
    "packets_per_second": number(10, 1_000_000, 20_000, (
        "The most datagrams a second to each destination.  Where half of the time between two "
        "sweeps is enough for fewer, fewer are sent.")),
}

NUMBERS = (
    ("iostats_ganglia_sent_packets", "counter", "Datagrams sent, to all destinations together."),
    ("iostats_ganglia_failures", "counter", "Datagrams that could not be sent."),
    ("iostats_ganglia_left_out_sweeps", "counter",
     "Sweeps not sent: the one before was still being sent, or they came too late to be called "
     "now."),
    ("iostats_ganglia_shown_nodes", "gauge", "Nodes whose rates were sent after the last sweep."),
    ("iostats_ganglia_unnamed_nodes", "gauge",
     "Nodes whose rates were not sent, since their name or their address is not known."),
    ("iostats_ganglia_lower_bounds", "gauge",
     "Nodes whose rates were not sent, since they may be too low."),
)


def is_on(config: Config) -> bool:
    """Whether a gmond is named."""
    return bool(config["ganglia.send_to"])


def make(config: Config, say: Callable[[str], None], clock: Callable[[], float]) -> Any:
    """The sink; ConfigError."""
    from iostats.sinks.ganglia.sender import Ganglia
    return Ganglia(config, say, clock)
