"""
Events that the nodes of a job have reported: each once, and the most severe of very many.

Ten thousand nodes may report one unreachable target: what all reports share is stored once.
Merging nodes in groups, and the groups in any order, has the same result: which events are stored
depends on their severity and ids alone, and their number is a sum.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.events.kinds import CAUSES, KINDS
from iostats.lustre.kernel_log import OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    from iostats.totals.received_report import EventDetails, ReceivedReport

    Rank = tuple[int, str, str]                     # -severity, id, node
    Moments = tuple[float, float, Optional[float], int]         # time, last, over, count
    # How many were dropped elsewhere; [(node, seq, dropped)]; [(*EventHead, message)]; [(node,
    # copies, number of its head, id, *Moments)].
    StoredEvents = tuple[
        int, list[tuple[str, str, int]], list[tuple[bool, int, str, str, str, str, str]],
        list[tuple[str, int, int, str, float, float, Optional[float], int]]]

MOST_KEPT = 20_000                  # of a job; more are counted
SENT_WITHIN_S = 60.0                # after a job's end its nodes may still send its data


class EventHead(NamedTuple):
    """The common members of many events."""

    is_own: bool    # no other job was on the node, or just before, that it can have been about
    # severity, kind, cause, file_system, target: as of events/event.py's Event
    severity: int
    kind: str
    cause: str
    file_system: str
    target: str


class NodeEvent(NamedTuple):
    """An event that a node of the job reports."""

    node: str       # as the job's node list has it
    is_own: bool    # as of EventHead
    # {member: value} of an Event, without the node and clients; times by the server's clock;
    # `message` is that of one with the same head
    event: EventDetails


class ReportedEvents:
    """
    The events that a job's nodes reported.

    Attributes:
        are_known: some node has looked for events.
    """

    __slots__ = ("_by_rank", "_dropped", "_heads", "_messages", "_told", "are_known")

    def __init__(self) -> None:
        self.are_known = False
        self._told = 0
        self._dropped: dict[tuple[str, str], int] = {}      # of a report: node, seq
        self._by_rank: dict[Rank, tuple[int, EventHead, Moments]] = {}      # with copies
        self._heads: dict[EventHead, EventHead] = {}        # itself: equal ones are stored once
        self._messages: dict[EventHead, str] = {}

    def add(self, node: str, report: ReceivedReport, own_since: float | None) -> None:
        """
        Add the events of one Report of `node`; a report without numbers may be repeated.

        `own_since`: what was before is not surely the job's; None: nothing is.
        """
        if report.events is None:               # it does not look for any
            return
        self.are_known = True
        if report.events_dropped:
            self._dropped[node, report.seq] = report.events_dropped
        for event in report.events:
            self._told += 1
            self._add((-event.severity, event.id, node), 1, EventHead(
                own_since is not None and event.time >= own_since, event.severity,
                event.kind if event.kind in KINDS else OTHER,           # of a later release
                event.cause if event.cause in CAUSES else "", event.file_system, event.target),
                (event.time, event.time if event.last is None else event.last, event.over,
                 event.count), event.message)
        self._trim(2 * MOST_KEPT)

    def join(self, other: ReportedEvents) -> None:
        """Add the events of other reports."""
        self.are_known = self.are_known or other.are_known
        self._told += other._told
        self._dropped.update(other._dropped)
        for rank, (copies, head, moments) in other._by_rank.items():
            self._add(rank, copies, head, moments, other._messages.get(head, ""))
        self._trim(2 * MOST_KEPT)

    def _add(self, rank: Rank, copies: int, head: EventHead, moments: Moments, message: str
             ) -> None:
        if message > self._messages.get(head, ""):
            self._messages[head] = message
        stored = self._by_rank.get(rank)
        if stored is not None:
            copies += stored[0]
            before = head
            # Of two copies what both know, so that several come to the same in any order.
            head = EventHead(head.is_own and stored[1].is_own,
                             # of the same kinds, field by field
                             *map(max, head[1:], stored[1][1:]))  # type: ignore[arg-type]
            moments = _merge_moments(moments, stored[2])
            for event_head in (before, stored[1]):
                if self._messages.get(event_head, "") > self._messages.get(head, ""):
                    self._messages[head] = self._messages[event_head]
        self._by_rank[rank] = copies, self._heads.setdefault(head, head), moments

    def _trim(self, limit: int) -> None:
        """Drop the least severe events beyond `limit`."""
        if len(self._by_rank) > limit:
            for rank in sorted(self._by_rank)[MOST_KEPT:]:
                del self._by_rank[rank]
            used = {head for _, head, _ in self._by_rank.values()}
            self._heads = {head: head for head in used}
            self._messages = {head: text for head, text in self._messages.items() if head in used}

    def all(self) -> tuple[list[NodeEvent], int]:
        """Return ([NodeEvent] in the order of time, how many more there were)."""
        self._trim(MOST_KEPT)
        events = [NodeEvent(node, head.is_own, {
            "id": id, "time": moments[0], "last": moments[1], "over": moments[2],
            "severity": head.severity, "kind": head.kind, "cause": head.cause,
            "file_system": head.file_system, "target": head.target, "count": moments[3],
            "message": self._messages.get(head, "")})
            for (_, id, node), (_, head, moments) in self._by_rank.items()]
        events.sort(key=lambda event: (event.event["time"], event.node, event.event["id"]))
        return events, (sum(self._dropped.values()) + self._told
                        - sum(copies for copies, _, _ in self._by_rank.values()))

    def state(self) -> StoredEvents | None:
        """
        Return the events as JSON values, see wire/messages/totals.py; None if no report had events.
        """
        if not self.are_known:
            return None
        self._trim(MOST_KEPT)
        heads = sorted({head for _, head, _ in self._by_rank.values()})
        numbers = {head: number for number, head in enumerate(heads)}
        return (self._told, [(*report, count) for report, count in sorted(self._dropped.items())],
                [(*head, self._messages.get(head, "")) for head in heads],
                [(node, copies, numbers[head], id, *moments) for (_, id, node), (
                    copies, head, moments) in sorted(self._by_rank.items())])

    @classmethod
    def from_state(cls, state: StoredEvents | None, named: Callable[[str], str]) -> ReportedEvents:
        """Restore from `state`; `named`: a node's name there -> its name here."""
        self = cls()
        if state is not None:
            self.are_known = True
            self._told, dropped, heads, rows = state
            self._dropped = {(named(node), seq): count for node, seq, count in dropped}
            events: list[tuple[EventHead, str]] = [
                (EventHead(*head[:-1]), head[-1]) for head in heads]
            for node, copies, number, id, time, last, over, count in rows:
                head, message = events[number]
                self._add((-head.severity, id, named(node)), copies, head,
                          (time, last, over, count), message)
        return self


def _merge_moments(first: Moments, second: Moments) -> Moments:
    """Merge two copies of an event."""
    over = [copy[2] for copy in (first, second) if copy[2] is not None]
    return (min(first[0], second[0]), max(first[1], second[1]), max(over) if over else None,
            max(first[3], second[3]))
