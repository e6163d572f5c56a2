"""
From sweeps to lines of what nodes did: a point of each node that did something in a sweep.

    measurement     tags        fields, all integers
    lustre_client   fs node     read_bytes write_bytes read_rpcs write_rpcs ost_operations
                                mdt_operations lower_bound

Amounts are totals, as of jobs, but since the server's start.  A node that did nothing before has a
point of the sweep before as well, so that an increase is seen from where it began.
"""

from __future__ import annotations

from iostats.sinks.influxdb.lines import line, tags_of
from iostats.sinks.nodes import NodeCounters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iostats.sinks.nodes import NodeClients

# In the order of CLIENT_METRICS; the words are those of lustre_job.
NODE_FIELDS = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs", "ost_operations",
               "mdt_operations")


class NodeLines:
    """The points of nodes, from sweep to sweep; up to `most` nodes have points of their own."""

    def __init__(self, most: int) -> None:
        self._counters = NodeCounters(most, backdated=True)
        self._slot: float | None = None
        self._written: dict[tuple[str, str], float] = {}        # the slot of its last point

    def lines(self, slot: float, every_s: float,
              clients: Mapping[str, NodeClients], too_large: list[str]) -> Iterator[str]:
        """The points of one sweep, one line each; `too_large`: as of `line`."""
        slot_before = slot - every_s if self._slot is None else self._slot
        now_ms, before_ms = round(slot * 1000), round(slot_before * 1000)
        written = {}
        for one in self._counters.take(clients):
            if one.totals == one.before:
                continue
            key, head = (one.fs, one.node), "lustre_client" + tags_of(fs=one.fs, node=one.node)
            if self._written.get(key) != slot_before:
                yield line(head, zip(NODE_FIELDS, one.before), before_ms, too_large)
            yield line(head, [*zip(NODE_FIELDS, one.totals), ("lower_bound", int(one.is_low))],
                       now_ms, too_large)
            written[key] = slot
        self._slot, self._written = slot, written
