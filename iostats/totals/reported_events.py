"""
Events that the nodes of a job have reported: each once, and the most severe of very many.

Nodes in groups, and the groups merged in any order, come to the same: which events are kept depends
on their severity and ids alone, and how many there were is a sum.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.events.event import MOST_CLIENTS, Event
from iostats.events.kinds import CAUSES, KINDS
from iostats.lustre.kernel_log import OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = tuple[str, int, bool, dict[str, Any]]      # node, copies, is it its own, event

MOST_KEPT = 1_000                   # of a job; more are counted
SENT_WITHIN_S = 60.0                # after a job's end its nodes may still send what it has written
# The node is the report's.
MEMBERS = tuple(name for name in Event._fields if name != "node")
_NOT_LARGER = ("time", "over", "clients")

NodeEvent = namedtuple("NodeEvent", "node is_own event")
NodeEvent.__doc__ = """
What a node of the job tells of.

Attributes:
    node: as the job's node list has it.
    is_own: no other job was on the node, or just before, that it can have been about.
    event: {MEMBERS}; times by the server's clock.
"""


class ReportedEvents:
    """
    What went wrong on a job's nodes.

    Attributes:
        are_known: some node has looked for events.
    """

    __slots__ = ("_by_rank", "_dropped", "_told", "are_known")

    def __init__(self) -> None:
        self.are_known = False
        self._told = 0
        self._dropped: dict[tuple[str, str], int] = {}      # of a report: node, seq
        self._by_rank: dict[tuple[int, str, str], Row] = {}     # -severity, id, node

    def add(self, node: str, report: Any, own_since: float | None) -> None:
        """
        Take those of one Report, of `node`; a report without numbers may come again.

        `own_since`: what was before is not surely the job's; None: nothing is.
        """
        if report.events is None:               # it does not look for any
            return
        self.are_known = True
        if report.events_dropped:
            self._dropped[node, report.seq] = report.events_dropped
        for one in report.events:
            self._told += 1
            event = {name: getattr(one, name) for name in MEMBERS}
            if one.kind not in KINDS or one.cause not in CAUSES:        # of a later release
                event.update(kind=one.kind if one.kind in KINDS else OTHER,
                             cause=one.cause if one.cause in CAUSES else "")
            self._keep((node, 1, own_since is not None and one.time >= own_since, event))
        self._trim(2 * MOST_KEPT)

    def join(self, other: ReportedEvents) -> None:
        """Add what other reports have told."""
        self.are_known = self.are_known or other.are_known
        self._told += other._told
        self._dropped.update(other._dropped)
        for row in other._by_rank.values():
            self._keep(row)
        self._trim(2 * MOST_KEPT)

    def _keep(self, row: Row) -> None:
        node, copies, is_own, event = row
        rank = -event["severity"], event["id"], node
        known = self._by_rank.get(rank)
        self._by_rank[rank] = row if known is None else (
            node, known[1] + copies, known[2] and is_own, _both(known[3], event))

    def _trim(self, most: int) -> None:
        """Without the least severe, where there are more than `most`."""
        if len(self._by_rank) > most:
            for rank in sorted(self._by_rank)[MOST_KEPT:]:
                del self._by_rank[rank]

    def all(self) -> tuple[list[NodeEvent], int]:
        """([NodeEvent] in the order of time, how many more there were)."""
        self._trim(MOST_KEPT)
        found = sorted(self._by_rank.values(),
                       key=lambda row: (row[3]["time"], row[0], row[3]["id"]))
        return ([NodeEvent(node, is_own, event) for node, _, is_own, event in found],
                sum(self._dropped.values()) + self._told - sum(copies for _, copies, _, _ in found))

    def state(self) -> list[Any] | None:
        """[told, [dropped], [row]] as JSON can carry it; None where none are known."""
        self._trim(MOST_KEPT)
        return [self._told, [[*report, count] for report, count in sorted(self._dropped.items())],
                [list(row) for _, row in sorted(self._by_rank.items())]] if self.are_known else None

    @classmethod
    def from_state(cls, state: list[Any] | None, named: Callable[[str], str]) -> ReportedEvents:
        """Those that `state` was made of; `named`: a node's name there -> its name here."""
        self = cls()
        if state is not None:
            self.are_known = True
            self._told, dropped, rows = state
            self._dropped = {(named(node), seq): count for node, seq, count in dropped}
            for node, copies, is_own, event in rows:
                self._keep((named(node), copies, is_own, dict(event)))
        return self


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """
    Of two copies of an event, what both know of it.

    Of each member the larger value, so that several copies come to the same in any order; in
    event.latest() the texts are those of one copy.
    """
    found = {name: max(one[name], other[name]) for name in MEMBERS if name not in _NOT_LARGER}
    known = [copy["over"] for copy in (one, other) if copy["over"] is not None]
    return {**found, "time": min(one["time"], other["time"]), "over": max(known) if known else None,
            "clients": sorted({*one["clients"], *other["clients"]})[:MOST_CLIENTS]}
