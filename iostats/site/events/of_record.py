"""
What went wrong while a job ran, in its record: its nodes' events, joined with those that the
storage servers tell of its nodes and of the file systems that it used.

The job's user reads it, and learns nothing of other jobs: of clients only the job's own nodes are
named, and no text of a storage server is shown.
"""

from __future__ import annotations

from collections import Counter, namedtuple

from iostats.base.node_list import expanded
from iostats.events.event import as_json
from iostats.lustre.kernel_log import EVICTED
from iostats.report.node_sets import folded
from iostats.report.job_numbers import bounds_of
from iostats.totals import job_events
from iostats.totals.job_events import ServerEvent
from iostats.totals.reported_events import SENT_WITHIN_S, NodeEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from iostats.events.event import Event
    from iostats.site.clients.node_names import NodeNames
    from iostats.site.events.intake import SiteEvents
    from iostats.totals.record import FileSystemRecord, Record


# In which the targets of a file system evict a client that is silent.
_CUT_OFF_WITHIN_S = 120.0

RecordedRun = namedtuple("RecordedRun", "part own ended has_nids")
RecordedRun.__doc__ = """
When and where the job of a record ran.

Attributes:
    part: the JobPart; its time ends when its nodes have sent what it has written.
    own: {NID or name: node} of its nodes.
    ended: its end, s since 1970.
    has_nids: of each of its nodes a NID is known.
"""


class RecordEvents:
    """Puts events into records; `names`: which node a NID is."""

    def __init__(self, events: SiteEvents, names: NodeNames) -> None:
        self._events, self._names = events, names

    def run_of(self, record: Record) -> RecordedRun | None:
        """When and where the job of a record ran; None where its time is not known."""
        since, until = record.job.started, record.job.ended
        if since is None or until is None:
            return None
        part = self._events.part_of(nodes_of(record), used_by(record), since,
                                    until + SENT_WITHIN_S)
        short = Counter(node.partition(".")[0] for node in part.nodes)
        by_name = {name: node for node in part.nodes for name in [node.partition(".")[0]]
                   if short[name] == 1 and not name.isdigit()}
        nids = {nid: node for node in part.nodes for nid in (
            self._names.nids_of(node) or self._names.nids_of(node.partition(".")[0]))}
        return RecordedRun(part, {**by_name, **{node: node for node in part.nodes}, **nids}, until,
                           len(set(nids.values())) == len(part.nodes))

    def concerns(self, event: Event, run: RecordedRun) -> bool:
        """Whether an event of a storage server is in the record of a job."""
        if event.kind != EVICTED and event.time > run.ended:
            return False
        return self._events.is_of(event, run.part) or self._may_be_of(event, run)

    def is_certain(self, event: Event, run: RecordedRun) -> bool:
        """The same, and it is known to be about the job."""
        return self.concerns(event, run) and not (
            (event.kind == EVICTED or event.clients) and not self._nodes(event, run))

    def _nodes(self, event: Event, run: RecordedRun) -> list[str]:
        """The job's nodes among the clients of an event, sorted."""
        self._names.see(client for client in event.clients if "@" in client)
        found = (run.own.get(client) or run.own.get(self._names.node_of(client))
                 for client in event.clients)
        return sorted({node for node in found if node})

    def with_events(self, record: Record, of_nodes: Sequence[NodeEvent], more: int,
                    are_known: bool) -> Generator[None, None, Record]:
        """
        `record` with events, in steps; StateError.

        `of_nodes`, `more`: what ReportedEvents.all() gives; `are_known`: some node looks for
        events.
        """
        servers: list[ServerEvent] = []
        named: list[Event] = []             # evictions of the time that name their clients
        run = self.run_of(record) if self._events.tellers.of else None
        if run is not None:
            own, are_known = run, True

            def may_be_of(event: Event) -> bool:
                if event.kind == EVICTED and event.clients:
                    named.append(event)
                return self._may_be_of(event, own)
            found = yield from self._events.of_part_in_steps(
                run.part, may_be_of, {(one.node, one.event["id"]) for one in of_nodes})
            named += [event for event in found.events if event.kind == EVICTED and event.clients]
            more += found.more
            of_nodes = [*of_nodes, *(self._by_node(event, record) for event in found.events
                                     if event.node in run.part.nodes and event.time <= run.ended)]
            servers = [self._by_server(event, run, named) for event in found.events
                       if event.node not in run.part.nodes and self.concerns(event, run)]
        events, more = job_events.listed(of_nodes, servers, folded, record.file_systems, more)
        return record.replaced(
            events=events if are_known else None, events_more=more,
            file_systems=job_events.marked_by_events(record.file_systems, events),
            phases=[phase.replaced(file_systems=job_events.marked_by_events(
                phase.file_systems, events)) for phase in record.phases])

    def _by_server(self, event: Event, run: RecordedRun, named: Sequence[Event]) -> ServerEvent:
        """What a storage server tells, as far as it is about a job."""
        if event.kind != EVICTED and not event.clients:
            # Of a job of which it is not known what it used, it may be.
            return ServerEvent(event, [], int(run.part.file_systems is None))
        nodes = self._nodes(event, run) or self._only_one_cut_off(event, run, named)
        return ServerEvent(event, nodes, 0 if nodes and not event.clients else
                           self._unknown(event, run))

    def _only_one_cut_off(self, event: Event, run: RecordedRun, named: Sequence[Event]
                          ) -> list[str]:
        """
        [the job's node] that an eviction without a name is about: the only client that other
        targets of the file system evicted at about the same time; else [].

        Targets evict a client that is silent one after the other, and the kernel's log leaves lines
        out that are like the one before.
        """
        if event.kind != EVICTED or event.clients or event.count + event.skipped != 1:
            return []
        cut_off: set[str] = set()
        for other in named:
            if (other.file_system == event.file_system and other.target != event.target
                    and other.time - _CUT_OFF_WITHIN_S <= event.last
                    and event.time <= other.last + _CUT_OFF_WITHIN_S):
                if other.count > len(other.clients):
                    return []
                cut_off.update(run.own.get(client) or self._names.node_of(client)
                               for client in other.clients)
        nodes = cut_off & set(run.own.values())
        return sorted(nodes) if len(cut_off) == 1 else []

    def _unknown(self, event: Event, run: RecordedRun) -> int:
        """Of how many clients of an event it is not known whether they are the job's nodes."""
        known: int = len(event.clients)
        if not run.has_nids:                # a client without a name may be one of its nodes
            known = sum(client in run.own or self._names.is_known(client)
                        for client in event.clients)
        more: int = event.count + event.skipped - known
        return max(0, more)

    def _may_be_of(self, event: Event, run: RecordedRun) -> bool:
        """Whether an eviction in the time of a job may be one of its nodes."""
        part = run.part
        return (event.kind == EVICTED and event.node in self._events.tellers.of
                and event.last >= part.since and event.time <= part.until
                and (part.file_systems is None or event.file_system in part.file_systems)
                and (bool(self._nodes(event, run)) or self._unknown(event, run) > 0))

    def _by_node(self, event: Event, record: Record) -> NodeEvent:
        """What another report of one of its nodes has told."""
        is_own = event.node not in record.coverage.shared and (
            record.job.started is not None and event.time >= record.job.started + SENT_WITHIN_S)
        return NodeEvent(event.node, is_own, as_json(event))


def nodes_of(record: Record) -> set[str]:
    """The names of a job's nodes."""
    names = {*record.nodes, *record.coverage.missing}
    try:
        names.update(expanded(record.batch.nodes) if record.batch else ())
    except ValueError:
        pass
    return names


def used_by(record: Record) -> set[str] | None:
    """The names of the file systems that a job used; None where that is not known."""
    at_servers = [*(record.harvest.file_systems if record.harvest else ())]
    by_node = record.by_node.file_systems if record.by_node else []
    if not record.coverage.reported and not at_servers and not by_node:
        return None
    return ({fs.name for fs in record.file_systems if _may_be_used(fs)}
            | {fs.name for fs in at_servers}
            | {fs.name for fs in by_node if fs.high is None
               or any(high for _, _, high in bounds_of(fs))})


def _may_be_used(fs: FileSystemRecord) -> bool:
    """False where the nodes know that nothing was done there."""
    return (fs.application is None or fs.operations is None or any(fs.application.values())
            or any((fs.network or {}).values())
            or any(row.count for row in fs.operations.values())
            or any(mdt.requests for mdt in fs.metadata.values()))
