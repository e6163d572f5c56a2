"""
Events that the nodes of a job have reported: each once, and the most severe of very many.

Ten thousand nodes tell of one target that was away: what is the same of all is kept once.  Nodes in
groups, and the groups merged in any order, come to the same: which events are kept depends on their
severity and ids alone, and how many there were is a sum.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.events.kinds import CAUSES, KINDS
from iostats.lustre.kernel_log import OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    Rank = tuple[int, str, str]                     # -severity, id, node
    Moments = tuple[float, float, Optional[float], int]         # time, last, over, count

MOST_KEPT = 20_000                  # of a job; more are counted
SENT_WITHIN_S = 60.0                # after a job's end its nodes may still send what it has written

EventHead = namedtuple("EventHead", "is_own severity kind cause file_system target")
EventHead.__doc__ = """
What many events have in common.

Attributes:
    is_own: no other job was on the node, or just before, that it can have been about.
    severity, kind, cause, file_system, target: as of events/event.py's Event.
"""

NodeEvent = namedtuple("NodeEvent", "node is_own event")
NodeEvent.__doc__ = """
What a node of the job tells of.

Attributes:
    node: as the job's node list has it.
    is_own: as of EventHead.
    event: {member: value} of an Event, without the node and clients; times by the server's clock;
        `message` is that of one with the same head.
"""


class ReportedEvents:
    """
    What went wrong on a job's nodes.

    Attributes:
        are_known: some node has looked for events.
    """

    __slots__ = ("_by_rank", "_dropped", "_heads", "_messages", "_told", "are_known")

    def __init__(self) -> None:
        self.are_known = False
        self._told = 0
        self._dropped: dict[tuple[str, str], int] = {}      # of a report: node, seq
        self._by_rank: dict[Rank, tuple[int, EventHead, Moments]] = {}      # with copies
        self._heads: dict[EventHead, EventHead] = {}        # itself: one is kept of equal ones
        self._messages: dict[EventHead, str] = {}

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
            self._keep((-one.severity, one.id, node), 1, EventHead(
                own_since is not None and one.time >= own_since, one.severity,
                one.kind if one.kind in KINDS else OTHER,           # of a later release
                one.cause if one.cause in CAUSES else "", one.file_system, one.target),
                (one.time, one.last, one.over, one.count), one.message)
        self._trim(2 * MOST_KEPT)

    def join(self, other: ReportedEvents) -> None:
        """Add what other reports have told."""
        self.are_known = self.are_known or other.are_known
        self._told += other._told
        self._dropped.update(other._dropped)
        for rank, (copies, head, moments) in other._by_rank.items():
            self._keep(rank, copies, head, moments, other._messages.get(head, ""))
        self._trim(2 * MOST_KEPT)

    def _keep(self, rank: Rank, copies: int, head: EventHead, moments: Moments, message: str
              ) -> None:
        if message > self._messages.get(head, ""):
            self._messages[head] = message
        known = self._by_rank.get(rank)
        if known is not None:
            copies += known[0]
            before = head
            # Of two copies what both know, so that several come to the same in any order.
            head = EventHead(head.is_own and known[1].is_own, *map(max, head[1:], known[1][1:]))
            moments = _both(moments, known[2])
            for one in (before, known[1]):
                if self._messages.get(one, "") > self._messages.get(head, ""):
                    self._messages[head] = self._messages[one]
        self._by_rank[rank] = copies, self._heads.setdefault(head, head), moments

    def _trim(self, most: int) -> None:
        """Without the least severe, where there are more than `most`."""
        if len(self._by_rank) > most:
            for rank in sorted(self._by_rank)[MOST_KEPT:]:
                del self._by_rank[rank]
            used = {head for _, head, _ in self._by_rank.values()}
            self._heads = {head: head for head in used}
            self._messages = {head: text for head, text in self._messages.items() if head in used}

    def all(self) -> tuple[list[NodeEvent], int]:
        """([NodeEvent] in the order of time, how many more there were)."""
        self._trim(MOST_KEPT)
        found = [NodeEvent(node, head.is_own, {
            "id": id, "time": moments[0], "last": moments[1], "over": moments[2],
            "severity": head.severity, "kind": head.kind, "cause": head.cause,
            "file_system": head.file_system, "target": head.target, "count": moments[3],
            "message": self._messages.get(head, "")})
            for (_, id, node), (_, head, moments) in self._by_rank.items()]
        found.sort(key=lambda one: (one.event["time"], one.node, one.event["id"]))
        return found, (sum(self._dropped.values()) + self._told
                       - sum(copies for copies, _, _ in self._by_rank.values()))

    def state(self) -> list[Any] | None:
        """
        [told, [dropped], [head and its message], [event: node, copies, number of its head, id,
        moments]] as JSON can carry it; None where none are known.
        """
        if not self.are_known:
            return None
        self._trim(MOST_KEPT)
        heads = sorted({head for _, head, _ in self._by_rank.values()})
        numbers = {head: number for number, head in enumerate(heads)}
        return [self._told, [[*report, count] for report, count in sorted(self._dropped.items())],
                [[*head, self._messages.get(head, "")] for head in heads],
                [[node, copies, numbers[head], id, *moments] for (_, id, node), (
                    copies, head, moments) in sorted(self._by_rank.items())]]

    @classmethod
    def from_state(cls, state: list[Any] | None, named: Callable[[str], str]) -> ReportedEvents:
        """Those that `state` was made of; `named`: a node's name there -> its name here."""
        self = cls()
        if state is not None:
            self.are_known = True
            self._told, dropped, heads, rows = state
            self._dropped = {(named(node), seq): count for node, seq, count in dropped}
            known = [(EventHead(*head[:-1]), head[-1]) for head in heads]
            for node, copies, number, id, *moments in rows:
                head, message = known[number]
                self._keep((-head.severity, id, named(node)), copies, head, tuple(moments), message)
        return self


def _both(one: Moments, other: Moments) -> Moments:
    """What two copies of an event know together."""
    over = [copy[2] for copy in (one, other) if copy[2] is not None]
    return (min(one[0], other[0]), max(one[1], other[1]), max(over) if over else None,
            max(one[3], other[3]))
