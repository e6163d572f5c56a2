"""
Messages of sweeps for tests: docs/reference/wire.md, packed_sweep.

    Block(file_system="scratch", target="OST0000", read_at=..., ended=True, ids=["4711"],
          started=[...], seen=[...], counters={"open": Column("reqs", [0], [23])})
    message(head, blocks)     the bytes of a message, compressed
    params(head, blocks)      the params of packed_sweep
    received(head, blocks)    the ReceivedSweep
"""
from __future__ import annotations

import base64
import json
import zlib
from typing import NamedTuple, Optional

from iostats.lustre.job_stats_rows import FIELDS
from iostats.wire.messages.sweep import BlockRows
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_block, decode_sweep
from iostats.wire.messages.sweep_encoder import COUNTED, MAGIC, PROTOCOL, add_column, pack_block


class Column(NamedTuple):
    """
    A counter of some entries of a block.

    Attributes:
        at: rows of these entries; each other list is as long, or None if the file has no such
            numbers.
    """

    unit: str
    at: list[int]
    samples: list[int]
    min: Optional[list[int]] = None
    max: Optional[list[int]] = None
    sum: Optional[list[int]] = None
    sumsq: Optional[list[int]] = None


class Block(BlockRows):
    """
    Entries of one reading of a target, as the site's server decodes them.

    Attributes:
        packed: its bytes in a message.
        counters: {name: Column}, as given.
        ids, read_at: of the head.
    """

    def __init__(self, *, ids=(), started=(), seen=(), counters=None, **head):
        columns, self.counters = [], counters or {}
        started, seen = list(map(int, started)), list(map(int, seen))
        fields = COUNTED if all(started) else FIELDS
        times = [add_column(columns, started), add_column(columns, seen)]
        widths = {}
        for name, column in self.counters.items():
            widths[name] = [column.unit]
            for field in FIELDS:
                numbers = getattr(column, field)
                if numbers is None or field not in fields:
                    widths[name].append(0)
                    continue
                values = [0] * len(ids)
                for row, number in zip(column.at, numbers):
                    values[row] = number
                widths[name].append(add_column(columns, values))
        self.packed = pack_block({**head, "ids": list(ids), "times": times, "counters": widths},
                                 columns)
        rows = decode_block(self.packed)
        super().__init__(rows.head, rows.started_ns, rows.seen_ns, rows.units, rows.columns,
                         rows.values)
        self.ids, self.read_at = list(ids), head["read_at"]


def message(head, blocks):
    """The compressed bytes of a message; `head`: without protocol and blocks; clock_ahead_s is
    not in the bytes."""
    fields = {name: value for name, value in head.items() if name != "clock_ahead_s"}
    line = json.dumps({**fields, "protocol": PROTOCOL, "blocks": len(blocks)}).encode()
    return zlib.compress(b"".join([MAGIC, line, b"\n", *(block.packed for block in blocks)]), 1)


def params(head, blocks):
    """The params of packed_sweep."""
    return {"protocol": PROTOCOL, "clock_ahead_s": head.get("clock_ahead_s", 0.0),
            "sweep": base64.b64encode(message(head, blocks)).decode()}


def received(head, blocks):
    """The message as the site's server decodes it."""
    return decode_sweep(PackedSweep(PROTOCOL, message(head, blocks),
                                    head.get("clock_ahead_s", 0.0)), 64 << 20)
