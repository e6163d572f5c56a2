"""
What one MDT was asked by the nodes of a job (md_stats), and how fast.
"""

from __future__ import annotations

from iostats.lustre.metrics import LOCAL_MD_STATS
from iostats.totals.record import MetadataPeak, MetadataRequests
from iostats.totals.sums import added

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class MdtRequests:
    """What one MDT was asked."""

    def __init__(self, operations: Mapping[str, int] | Iterable[tuple[str, int]] = (),
                 node_ns: int = 0, peak: tuple[float, str] = (0.0, "")) -> None:
        self.operations = dict(operations)      # md_stats name -> count
        self.node_ns = node_ns
        self.peak = peak                        # requests a second of one node, and which

    def add(self, values: Mapping[str, int], node: str, elapsed_s: float) -> None:
        """Add what one node asked of it in `elapsed_s`."""
        added(self.operations, values)
        node_ns = round(elapsed_s * 1e9)
        if node_ns > 0:
            self.node_ns += node_ns
            self.peak = max(self.peak, (_requests(values) / elapsed_s, node))

    def join(self, other: MdtRequests) -> None:
        """Add what it was asked by other nodes."""
        added(self.operations, other.operations)
        self.node_ns += other.node_ns
        self.peak = max(self.peak, other.peak)

    def state(self) -> tuple[dict[str, int], int, list[Any]]:
        """What its constructor takes, the peak as JSON has it."""
        return self.operations, self.node_ns, list(self.peak)

    def record(self) -> MetadataRequests:
        """What it was asked, and how fast, by a node on average and at the peak."""
        requests, rate, node = _requests(self.operations), *self.peak
        seconds = self.node_ns / 1e9
        return MetadataRequests(
            operations=dict(sorted(self.operations.items())), requests=requests,
            per_second_per_node=round(requests / seconds, 3) if seconds else None,
            peak=MetadataPeak(node=node, per_second=round(rate, 3)) if node else None)


def _requests(values: Mapping[str, int]) -> int:
    """Metadata operations that went to the MDT, of md_stats `values`."""
    return sum(values.values()) - sum([values[name] for name in LOCAL_MD_STATS if name in values])
