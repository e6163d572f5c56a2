"""
Events during a job, in its record: those of its nodes, joined with those that the storage servers
report about its nodes and its file systems.

The record is for the job's user and shows nothing of other jobs: only clients that are the job's
own nodes are named, and no text of a storage server is included.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from iostats.base.ids import Nid, NodeName
from iostats.base.node_list import expand_node_list
from iostats.events.kinds import QUOTA_FULL
from iostats.lustre.kernel_log import EVICTED
from iostats.report.job_numbers import list_bounds
from iostats.report.node_sets import fold_nodes
from iostats.totals import job_events
from iostats.totals.job_events import ServerEvent, find_details
from iostats.totals.reported_events import SENT_WITHIN_S, NodeEvent

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from iostats.events.event import Event
    from iostats.harvest.clients.node_names import NodeNames
    from iostats.harvest.events.event_filter import JobPart
    from iostats.harvest.events.intake import SiteEvents
    from iostats.harvest.events.reporting_servers import ReportingServers
    from iostats.totals.record import FileSystemRecord, Record


# Within this time all targets of a file system evict a client that does not answer.
_CUT_OFF_WITHIN_S = 120.0


class RecordedRun(NamedTuple):
    """The time and nodes of the job of a record."""

    # the JobPart; its time ends when its nodes have sent the data that it has written
    part: JobPart
    own: dict[str, str]     # {NID or name: node} of its nodes
    ended: float            # its end, s since 1970
    has_nids: bool          # a NID of each of its nodes is known


class RecordEvents:
    """Adds events to records; `names`: the NodeNames, for the node of a NID."""

    def __init__(self, events: SiteEvents, names: NodeNames) -> None:
        self._events, self._names = events, names

    @property
    def reporting_servers(self) -> ReportingServers:
        """The storage servers that report events, with the last status of each."""
        return self._events.reporting_servers

    def describe_run(self, record: Record) -> RecordedRun | None:
        """The time and nodes of a record's job; None if its time is unknown."""
        since, until = record.job.started, record.job.ended
        if since is None or until is None:
            return None
        part = self._events.make_part(list_nodes(record), list_file_systems(record), since,
                                      until + SENT_WITHIN_S, record.job.user or "")
        short = Counter(node.partition(".")[0] for node in part.nodes)
        by_name = {name: node for node in part.nodes for name in [node.partition(".")[0]]
                   if short[name] == 1 and not name.isdigit()}
        nids: dict[str, str] = {nid: node for node in part.nodes for nid in (
            self._names.list_nids(NodeName(node))
            or self._names.list_nids(NodeName(node.partition(".")[0])))}
        return RecordedRun(part, {**by_name, **{node: node for node in part.nodes}, **nids}, until,
                           len(set(nids.values())) == len(part.nodes))

    def is_about_run(self, event: Event, run: RecordedRun) -> bool:
        """Whether an event of a storage server belongs in the record of a job."""
        if event.kind != EVICTED and event.time > run.ended:
            return False
        return self._events.is_about_run(event, run.part) or self._may_concern(event, run)

    def is_certain(self, event: Event, run: RecordedRun) -> bool:
        """Whether an event belongs in the record, and is known to be about the job."""
        return self.is_about_run(event, run) and not (
            event.kind != QUOTA_FULL and (event.kind == EVICTED or event.clients)
            and not self._list_nodes(event, run))

    def _list_nodes(self, event: Event, run: RecordedRun) -> list[str]:
        """The job's nodes among the clients of an event, sorted."""
        self._names.add_nids(Nid(client) for client in event.clients if "@" in client)
        nodes = (run.own.get(client) or run.own.get(self._names.find_node(Nid(client)))
                 for client in event.clients)
        return sorted({node for node in nodes if node})

    def add_events(self, record: Record, of_nodes: Sequence[NodeEvent], more: int,
                   are_known: bool) -> Generator[None, None, Record]:
        """
        Return `record` with its events, in steps; StateError.

        `of_nodes`, `more`: as ReportedEvents.all() returns them; `are_known`: some node reads its
        events.
        """
        servers: list[ServerEvent] = []
        named: list[Event] = []             # evictions of the time that name their clients
        run = self.describe_run(record) if self._events.reporting_servers.of else None
        if run is not None:
            own, are_known = run, True

            def may_concern(event: Event) -> bool:
                if event.kind == EVICTED and event.clients:
                    named.append(event)
                return self._may_concern(event, own)
            matches = yield from self._events.find_part_events_in_steps(
                run.part, may_concern,
                {(node_event.node, node_event.event["id"]) for node_event in of_nodes})
            named += [event for event in matches.events if event.kind == EVICTED and event.clients]
            more += matches.more
            of_nodes = [*of_nodes, *(self._as_node_event(event, record) for event in matches.events
                                     if event.node in run.part.nodes and event.time <= run.ended)]
            servers = [self._as_server_event(event, run, named) for event in matches.events
                       if event.node not in run.part.nodes and self.is_about_run(event, run)]
        events, more = job_events.list_events(of_nodes, servers, fold_nodes, record.lustre, more)
        return record.replaced(
            events=events if are_known else None, events_more=more,
            file_systems=job_events.mark_lost_data(record.file_systems, events),
            phases=[phase.replaced(file_systems=job_events.mark_lost_data(
                phase.file_systems, events)) for phase in record.phases])

    def _as_server_event(self, event: Event, run: RecordedRun,
                         named: Sequence[Event]) -> ServerEvent:
        """The ServerEvent of an event, with the part that is about the job."""
        if event.kind == QUOTA_FULL or (event.kind != EVICTED and not event.clients):
            # The job may have used the file system, if its file systems are unknown.
            return ServerEvent(event, [], int(run.part.file_systems is None))
        nodes = self._list_nodes(event, run) or self._find_evicted_node(event, run, named)
        return ServerEvent(event, nodes, 0 if nodes and not event.clients else
                           self._count_unknown_clients(event, run))

    def _find_evicted_node(self, event: Event, run: RecordedRun, named: Sequence[Event]
                          ) -> list[str]:
        """
        Return [the job's node] that an eviction without a name is about: the only client that other
        targets of the file system evicted at about the same time; else [].

        Targets evict a client that does not answer one after the other, and the kernel's log omits
        lines that repeat the one before.
        """
        if event.kind != EVICTED or event.clients or event.count + event.skipped != 1:
            return []
        cut_off: set[str] = set()
        for named_event in named:
            if (named_event.file_system == event.file_system and named_event.target != event.target
                    and named_event.time - _CUT_OFF_WITHIN_S <= event.last
                    and event.time <= named_event.last + _CUT_OFF_WITHIN_S):
                if named_event.count > len(named_event.clients):
                    return []
                cut_off.update(run.own.get(client) or self._names.find_node(Nid(client))
                               for client in named_event.clients)
        nodes = cut_off & set(run.own.values())
        return sorted(nodes) if len(cut_off) == 1 else []

    def _count_unknown_clients(self, event: Event, run: RecordedRun) -> int:
        """Count the clients of an event that may be the job's nodes or not."""
        count_known: int = len(event.clients)
        if not run.has_nids:                # a client without a name may be one of its nodes
            count_known = sum(client in run.own or self._names.is_known(Nid(client))
                              for client in event.clients)
        more: int = event.count + event.skipped - count_known
        return max(0, more)

    def _may_concern(self, event: Event, run: RecordedRun) -> bool:
        """Whether an eviction during a job may be of one of its nodes."""
        part = run.part
        return (event.kind == EVICTED and event.node in self._events.reporting_servers.of
                and event.last >= part.since and event.time <= part.until
                and (part.file_systems is None or event.file_system in part.file_systems)
                and (bool(self._list_nodes(event, run))
                     or self._count_unknown_clients(event, run) > 0))

    def _as_node_event(self, event: Event, record: Record) -> NodeEvent:
        """The NodeEvent of an event that one of its nodes sent in another report."""
        is_own = event.node not in record.coverage.shared and (
            record.job.started is not None and event.time >= record.job.started + SENT_WITHIN_S)
        details = find_details(event)
        details["message"] = event.message
        return NodeEvent(event.node, is_own, details)


def list_nodes(record: Record) -> set[str]:
    """The names of a job's nodes."""
    names = {*record.nodes, *record.coverage.missing}
    try:
        names.update(expand_node_list(record.batch.nodes) if record.batch else ())
    except ValueError:
        pass
    return names


def list_file_systems(record: Record) -> set[str] | None:
    """The names of the file systems that a job used; None if unknown."""
    at_servers = [*(record.harvest.file_systems if record.harvest else ())]
    by_node = record.by_node.file_systems if record.by_node else []
    if not record.coverage.reported and not at_servers and not by_node:
        return None
    return ({fs.name for fs in record.lustre if _may_be_used(fs)}
            | {fs.name for fs in at_servers}
            | {fs.name for fs in by_node if fs.high is None
               or any(high for _, _, high in list_bounds(fs))})


def _may_be_used(fs: FileSystemRecord) -> bool:
    """False if the nodes' counters show no I/O there."""
    return (fs.application is None or fs.operations is None or any(fs.application.values())
            or any((fs.network or {}).values())
            or any(row.count for row in fs.operations.values())
            or any(mdt.requests for mdt in fs.metadata.values()))
