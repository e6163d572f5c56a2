"""Ganglia's datagrams: of whatever names and rates there are."""
from __future__ import annotations

import itertools
import struct

import numpy
from ganglia_desk import decoded

from iostats.sinks.ganglia import METRICS
from iostats.sinks.ganglia.datagrams import LONGEST_NAME, MOST_BYTES, Datagrams, Host, NodeRates
from iostats.sinks.ganglia.sender import Hosts

from .tools import Draw, target


@target(seeds=lambda: [b"\0" * 40, bytes(range(256)), b"\1\5node1\0\0\1" + b"\3" * 90])
def ganglia_datagrams(data):
    """Each is one that gmond reads, and none of its names breaks XML or a path."""
    draw = Draw(data)
    hosts = Hosts(draw.choice(["nid", "name"]), _text(draw), bool(draw.number(2)))
    made = Datagrams(METRICS, {_text(draw): _text(draw)}, hosts, Host("mgmt1", False),
                     draw.number(100), draw.number(100), bool(draw.number(2)))
    slot = 1e9
    for _ in range(1 + draw.number(4)):
        slot += draw.number(300)
        rates = {}
        for _ in range(draw.number(3)):
            names = list(dict.fromkeys(_text(draw) for _ in range(draw.number(5))))
            rates[_text(draw)] = NodeRates(
                names, [[_text(draw)] for _ in names], [bool(draw.number(2)) for _ in names],
                numpy.abs(numpy.nan_to_num(numpy.array(
                    [[_number(draw) for _ in range(6)] for _ in names], float))).reshape(-1, 6),
                [bool(draw.number(2)) for _ in names], draw.number(3))
        for datagram in made.of(slot, 1 + draw.number(600), rates):
            one = decoded(datagram)
            assert len(datagram) <= MOST_BYTES
            for text in itertools.chain([one["name"], one["host"]], *one.get("extra", ())):
                assert text.isascii() and text.isprintable() and not set(text) & set("\"'<>&/\\")
            assert len(one["name"]) <= LONGEST_NAME
            assert not one["is_spoofed"] or one["host"].count(":") == 1
            if "value" in one:
                assert float(one["value"]) >= 0


def _text(draw):
    return draw.take(draw.number(200)).decode("utf-8", "surrogateescape")


def _number(draw):
    return struct.unpack("<d", draw.take(8).ljust(8, b"\0"))[0] if draw.number(2) else 0.0
