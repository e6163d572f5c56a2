"""
Ganglia: each client's rates in gmond's entry for that host, with the metric names of lustreHarvest.

    datagrams       from a sweep's rates to datagrams: the nodes, the metrics, the binary format
    sender          the sink: a thread that sends datagrams no faster than gmond can take them

No library is used: none works with current releases of Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.option_kinds import (
    Section,
    check_printable,
    choice_option,
    duration_option,
    number_option,
    option,
    split_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.sinks.ganglia.sender import Ganglia

NAME = "ganglia"
ABOUT = "Ganglia 3.1 and newer: each node's rates, in the host that its gmond is"
IMPORTS = ""
REQUIRES = ()

HARVESTED = ("read_bytes", "write_bytes", "oss_ops", "mds_ops")     # lustreHarvest's
METRICS = (*HARVESTED, "reads", "writes")


def _parse_metrics(value: str) -> list[str]:
    words = value.split()
    if not words or len(set(words)) < len(words) or not set(words) <= set(METRICS):
        raise ValueError
    return words


def _parse_names(value: str) -> list[str]:
    words = value.split()
    names = {pair[0]: pair[1] for pair in (word.split("=") for word in words)
             if len(pair) == 2 and all(pair)}
    if len(set(names.values())) < len(words):
        raise ValueError
    return words


def _parse_host(value: str) -> str:
    before, _, name = value.partition(":")
    if value and not (before and name and ":" not in name and value.isascii()):
        raise ValueError
    return check_printable(value)


class GangliaSection(Section):
    """[ganglia]: the gmonds."""

    send_to = option("", split_words, "HOST:PORT, several with spaces between", (
        "The gmonds that get the rates: addresses or names of single ones, or of a multicast "
        "group, such as 239.2.11.71:8649; without a port, 8649.  Empty: none."))
    ttl = number_option(0, 255, 1, "How many routers a multicast datagram may pass, plus one.")
    interface = option("", check_printable, "the name of a network interface", (
        "Where multicast datagrams leave, such as eth1.  Empty: where the system routes them."))
    metrics = option(" ".join(HARVESTED), _parse_metrics, f"some of {' '.join(METRICS)}", (
        "What is sent of each node and file system; docs/how-to/sinks.md says what each is."))
    names = option("", _parse_names, "FILE_SYSTEM=NAME, several with spaces between", (
        "What metrics begin with, where it is not to be the file system's own name: data=vu_short "
        "makes vu_short_read_bytes."))
    address = choice_option("nid", ("nid", "lookup", "name"), (
        "gmond knows a host by its IP address.  nid: it is the one of the node's NID.  lookup: "
        "it is the one that /etc/hosts and DNS have for the node's name, for nodes whose gmond "
        "and whose Lustre use different networks.  name: it is the name once more, for gmonds with "
        "override_hostname."))
    domain = option("", check_printable, "a domain", (
        "What gmond has behind the names of nodes: cluster.example.org makes "
        "node1.cluster.example.org.  Empty: nothing."))
    unnamed = choice_option("no", ("yes", "no"), (
        "yes: clients whose name is unknown are sent as well, with their address as their name.  "
        "no: they may be another cluster's; they are in the sums alone."))
    lower_bounds = choice_option("no", ("yes", "no"), (
        "no: a rate that may be too low, since a storage server has not reported, is not sent.  "
        "yes: it is, and so is the metric FILE_SYSTEM_lower_bound, 1 where it may be too low."))
    idle = duration_option(300, (
        "How long 0 is sent of a node after its last I/O; then nothing.  While anything is sent, "
        "Ganglia shows the node as up."))
    send_metadata_interval = duration_option(60, (
        "How often the descriptions of the metrics are sent: after a restart gmond shows no "
        "metric before."))
    sums_host = option("", _parse_host, "IP:NAME", (
        "The host that gets the sums over all nodes.  Empty: the one that sends them."))
    packets_per_second = number_option(10, 1_000_000, 20_000, (
        "The most datagrams a second to each destination.  Where half of the time between two "
        "sweeps is enough for fewer, fewer are sent."))


SECTION = GangliaSection

NUMBERS = (
    ("iostats_ganglia_sent_packets", "counter", "Datagrams sent, to all destinations together."),
    ("iostats_ganglia_failures", "counter", "Datagrams that could not be sent."),
    ("iostats_ganglia_left_out_sweeps", "counter",
     "Sweeps not sent: the previous one was still being sent, or they arrived too late to be "
     "shown as current."),
    ("iostats_ganglia_shown_nodes", "gauge", "Nodes whose rates were sent after the last sweep."),
    ("iostats_ganglia_unnamed_nodes", "gauge",
     "Nodes whose rates were not sent, since their name or their address is unknown."),
    ("iostats_ganglia_lower_bounds", "gauge",
     "Nodes whose rates were not sent, since they may be too low."),
)


def is_on(config: Config) -> bool:
    """Whether a gmond is named."""
    return bool(config.find_section(GangliaSection).send_to)


def make(config: Config, emit: Callable[[str], None], clock: Callable[[], float]) -> Ganglia:
    """The sink; ConfigError."""
    from iostats.sinks.ganglia.sender import Ganglia
    return Ganglia(config, emit, clock)
