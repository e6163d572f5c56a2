"""
Ganglia's datagrams, as gmond 3.1 and newer takes them: XDR, two for each metric of a host.

    metadata = uint 128, id, string type, string name, string units, uint slope, uint tmax,
               uint dmax, uint n, n * (string key, string text)
    value    = uint 133, id, string "%s", string value
    id       = string host, string name, bool is_spoofed
    string   = uint length, its bytes, zeros up to a multiple of 4; all integers big-endian

    host     = "IP:NAME" where it is spoofed: gmond looks for the host by what is before the first
               colon, and takes the rest as the name of one that it does not know yet.  So an IPv6
               address cannot stand there.  Not spoofed: the sender's address counts, not this.

A value of which gmond has no metadata is not shown.  dmax counts from the last *metadata* for gmond
(cleanup_data), from the last value for gmetad, which until then writes the last value into its RRDs
as if it were new (startElement_METRIC): dmax is how long a number outlives its sender.

gmond writes host, name, units and extra data into its XML as they are, and gmetad makes paths of
host and name: so `safe` leaves only letters, digits, "_", "-" and ".".

Source: RFC 4506; ganglia 3.7.2: lib/gm_protocol.x; Ganglia_metadata_send_real() and
Ganglia_value_send_real(), lib/libgmond.c; Ganglia_host_get(), gmond/gmond.c;
write_data_to_rrd(), gmetad/rrd_helpers.c.
"""

from __future__ import annotations

import re
import struct
from binascii import crc32
from collections import namedtuple

METADATA, VALUE = 128, 133
MOST_BYTES = 1472                   # gmond's max_udp_msg_len
LONGEST_NAME = 100                  # of a host or a metric: gmond has 1024 bytes for a metric's tag
SLOPE_BOTH = 3                      # the number goes up and down: RRD's GAUGE
GONE_S = 1                          # the dmax of a metric that is to be forgotten at once

Host = namedtuple("Host", "text is_spoofed")
Host.__doc__ = """
Whose metrics they are.

Attributes:
    text: "IP:NAME", or the sender's own name.
    is_spoofed: whether it is somebody else.
"""

GangliaMetric = namedtuple("GangliaMetric", "name type units slope tmax dmax extra")
GangliaMetric.__doc__ = """
What gmond has to know of a metric.

Attributes:
    type: "double", "uint32", ...; values are sent as text all the same, as gmetric does.
    units: as they are shown; slope: SLOPE_BOTH.
    tmax: in how many seconds, at most, the next value comes; dmax: see the module; both uint.
    extra: ((key, text), ...), such as ("GROUP", "lustre").
"""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_UINT = struct.Struct("!I")
_FOUR = struct.Struct("!4I")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
METADATA_START, VALUE_START = _UINT.pack(METADATA), _UINT.pack(VALUE)
_FORMAT = _UINT.pack(2) + b"%s\0\0"


def safe(text: str) -> str:
    """
    `text` as the name of a host or of a metric.

    >>> safe("node1-ib0.cluster"), safe('a"/>b'), safe(".."), safe("")
    ('node1-ib0.cluster', 'a___b', '_', '_')
    """
    found = _UNSAFE.sub("_", text)[:LONGEST_NAME]
    return found if found.strip(".") else "_"


def host_name(text: str) -> str:
    """
    The same for a host, a node's name or NID; two of them do not get one name.

    >>> host_name("node1.cluster"), host_name("27@gni"), host_name("node 1")
    ('node1.cluster', '27_gni', 'node_1_a65c6212')
    """
    found = safe(text)
    if found == re.sub("[@:]", "_", text):
        return found
    checksum = crc32(text.encode("utf-8", "surrogatepass"))
    return f"{found[:LONGEST_NAME - 9]}_{checksum:08x}"


def number(value: float) -> str:
    """
    `value` as text: all digits that a double has.

    >>> number(2300.0), number(6171 + 2 / 3)
    ('2300', '6171.66666666667')
    """
    return f"{value:.15g}"


def string(text: str) -> bytes:
    """XDR's string."""
    data = text.encode("utf-8", "backslashreplace")
    return _UINT.pack(len(data)) + data + _PADDING[len(data) & 3]


def metadata(host: Host, metric: GangliaMetric) -> bytes:
    """The datagram that tells gmond of a metric."""
    return METADATA_START + string(host.text) + metadata_end(metric, host.is_spoofed)


def metadata_end(metric: GangliaMetric, is_spoofed: bool) -> bytes:
    """What of it is the same for all hosts: METADATA_START and string(host) come before it."""
    return b"".join((
        string(metric.name), _UINT.pack(is_spoofed), string(metric.type), string(metric.name),
        string(metric.units), _FOUR.pack(metric.slope, metric.tmax, metric.dmax,
                                         len(metric.extra)),
        *(string(text) for pair in metric.extra for text in pair)))


def value(host: Host, name: str, text: str) -> bytes:
    """The datagram of a value."""
    return VALUE_START + string(host.text) + value_middle(name, host.is_spoofed) + string(text)


def value_middle(name: str, is_spoofed: bool) -> bytes:
    """What of it is the same for all hosts: between VALUE_START, string(host) and string(value)."""
    return string(name) + _UINT.pack(is_spoofed) + _FORMAT


def extra_of(group: str, title: str, about: str) -> tuple[tuple[str, str], ...]:
    """What Ganglia's pages show of a metric: where it stands, its title, and what it is."""
    return ("GROUP", group), ("TITLE", title), ("DESC", about)
