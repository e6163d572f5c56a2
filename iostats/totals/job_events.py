"""
Events during a job, as its nodes and the storage servers report them: one JobEvent for each.

    nodes' events      one eviction is reported by the node, when it notices, and by the target
    servers' events    that evicted it: one line.  The same on many nodes within a minute is one.

A node that was evicted notices when it reconnects, and a target cannot evict it again before: so a
node's report belongs to the latest eviction by that target that none of its earlier reports is of.
Lists come out the same in whatever order they came in.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.stats import parse_file_system
from iostats.totals.record import JobEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Optional, TypeVar

    from iostats.events.event import Event
    from iostats.totals.received_report import EventDetails
    from iostats.totals.record import FileSystemRecord, PhaseFileSystem
    from iostats.totals.reported_events import NodeEvent

    _FileSystem = TypeVar("_FileSystem", FileSystemRecord, PhaseFileSystem)

EVICTED, DATA_LOST = "evicted", "data_lost"
LOST, MAY_BE = "lost", "may be lost"            # what became of data
# Kinds of events whose messages count what LNet of a storage server did, for all its clients.
NETWORK = frozenset(("lnet_drops", "lnet_resends"))
NODES, SERVERS, BOTH = "nodes", "servers", "both"
MOST_LISTED = 100                   # in a record
_TOGETHER_S = 60.0                  # the same on several nodes, from the first one on
_CLOCKS_S, HEARS_WITHIN_S = 5.0, 900.0         # from an eviction until the client notices


class ServerEvent(NamedTuple):
    """An event that a storage server reports, as far as it is about one job."""

    event: Event        # with the attributes of events/event.py's Event; times by the site's clock
    nodes: list[str]    # [job's nodes] that it names; [] for what is about a target as a whole
    others: int  # how many clients it is about of which it is not known whether they are the job's


class _Incident:
    """An incident, with all reports of it."""

    __slots__ = ("by_node", "by_server", "is_own")

    def __init__(self, by_server: Optional[ServerEvent] = None) -> None:
        self.by_server = by_server
        self.by_node: list[tuple[str, EventDetails]] = []
        self.is_own = True

    def add(self, event: NodeEvent) -> None:
        self.by_node.append((event.node, event.event))
        self.is_own = self.is_own and event.is_own


def list_events(of_nodes: Iterable[NodeEvent], of_servers: Iterable[ServerEvent],
                fold: Callable[[Iterable[str]], str], file_systems: Sequence[FileSystemRecord] = (),
                more: int = 0) -> tuple[list[JobEvent], int]:
    """
    Return ([JobEvent] in the order of time, how many more events there were).

    `fold`: [node name] -> text.  `file_systems`: what the job did on them; `more`: how many events
    of nodes are not in `of_nodes`.  Of more than MOST_LISTED the most severe are listed.
    """
    incidents = _join_incidents(of_nodes, of_servers)
    texts: dict[frozenset[str], str] = {}

    def fold_once(names: Iterable[str]) -> str:
        """Cache the folded names: many events concern the same nodes."""
        key = frozenset(names)
        if key not in texts:
            texts[key] = fold(sorted(key))
        return texts[key]
    made = [(_make_event(incident, fold_once, file_systems), len(incident.by_node)
             + (incident.by_server is not None))
            for incident in incidents]
    made.sort(key=lambda pair: rank_event(pair[0]))
    more += sum(number for _, number in made[MOST_LISTED:])
    listed = [event for event, _ in made[:MOST_LISTED]]
    return sorted(listed, key=lambda event: (event.time, rank_event(event))), more


def mark_lost_data(file_systems: Sequence[_FileSystem], events: Iterable[JobEvent],
                   ) -> list[_FileSystem]:
    """
    Mark the bytes written in `file_systems` (of a job, or of a part) as an upper bound where an
    event may have discarded unsent data, whoever reported the event; a report says so in its first
    line (event_tables.list_data_losses).
    """
    discarded = {event.file_system for event in events if event.data and event.is_certain}
    marked: list[_FileSystem] = []
    fs: _FileSystem
    for fs in file_systems:
        wrote = fs.application is not None and fs.application.write_bytes
        if wrote and fs.name in discarded and "write_bytes" not in fs.too_high:
            fs = fs.replaced(too_high=["write_bytes", *fs.too_high])
        marked.append(fs)
    return marked


def rank_event(event: JobEvent) -> tuple[object, ...]:
    """A sort key that puts the most important event first."""
    return ((LOST, MAY_BE, "").index(event.data), not event.is_certain, -event.severity, event.time,
            event.id,
            event.target, event.nodes)


# -- which belong together -------------------------------------------------------------------------

def _join_incidents(of_nodes: Iterable[NodeEvent],
                    of_servers: Iterable[ServerEvent]) -> list[_Incident]:
    servers = [_Incident(report) for report in sorted(of_servers, key=lambda report: (
        report.event.time, report.event.id))]
    evictions: dict[str, list[_Incident]] = {}               # target -> those by it
    for incident in servers:
        report = incident.by_server and incident.by_server.event
        if report and report.kind == EVICTED and report.target:
            evictions.setdefault(report.target, []).append(incident)
    joined: set[tuple[int, str]] = set()
    alone = []
    for event in sorted(of_nodes, key=lambda report: (report.event["time"], report.node,
                                                      report.event["id"])):
        there = event.event["kind"] == EVICTED and _find_reported_eviction(
            event, evictions.get(event.event["target"], ()), joined)
        if there:
            there.add(event)
            joined.add((id(there), event.node))
        else:
            alone.append(event)
    return servers + _merge_near(alone)


def _find_reported_eviction(event: NodeEvent, evictions: Iterable[_Incident],
                            joined: set[tuple[int, str]]) -> _Incident | None:
    """
    Find the eviction that a node's event reports: one that names the node, or else a possible one.
    """
    reported_at = event.event["time"]
    candidates = [incident for incident in evictions if incident.by_server
                  and -_CLOCKS_S <= reported_at - incident.by_server.event.time
                  and reported_at - incident.by_server.event.last <= HEARS_WITHIN_S
                  and (id(incident), event.node) not in joined]
    for named in (True, False):
        for incident in reversed(candidates):
            about = incident.by_server
            if about and (event.node in about.nodes if named else about.others > 0):
                return incident
    return None


def _merge_near(alone: Iterable[NodeEvent]) -> list[_Incident]:
    """Merge events of several nodes, or several times, within a minute; `alone` is sorted."""
    open_ones: dict[tuple[object, ...], tuple[float, _Incident]] = {}
    incidents = []
    for event in alone:
        details = event.event
        key = (details["kind"], details["cause"], details["file_system"], details["target"],
               details["severity"], event.is_own)
        since, incident = open_ones.get(key, (-1e300, None))
        if incident is None or event.event["time"] > since + _TOGETHER_S:
            incident = _Incident()
            open_ones[key] = event.event["time"], incident
            incidents.append(incident)
        incident.add(event)
    return incidents


# -- the line of an event --------------------------------------------------------------------------

def _make_event(incident: _Incident, fold: Callable[[Iterable[str]], str],
                file_systems: Sequence[FileSystemRecord]) -> JobEvent:
    by_node, server = [event for _, event in incident.by_node], incident.by_server
    names = {node for node, _ in incident.by_node} | set(server.nodes if server else ())
    details = find_details(server.event) if server else by_node[0]
    all_of = [*by_node, *([details] if server else ())]
    over = [event["over"] for event in by_node] if by_node else [details["over"]]
    # From when a target evicted a node, also where the node reports the end.
    began = [details["time"] if server else event["time"] for event in by_node] or [details["time"]]
    ended = [end for end in over if end is not None]
    lengths = [max(0.0, end - begin) for begin, end in zip(began, over) if end is not None]
    silent = set(server.nodes if server else ()) - {node for node, _ in incident.by_node}
    is_about_clients = server is not None and bool(server.nodes or server.others)
    messages = sorted(event["message"] for event in by_node if event["message"])
    kind = details["kind"]
    return JobEvent(
        id=details["id"], time=round(details["time"] if server else by_node[0]["time"], 3),
        last=round(max(event["last"] for event in all_of), 3),
        over=None if len(ended) < len(over) or silent else round(max(ended), 3),
        longest_s=round(max(lengths), 3) if lengths else None,
        severity=details["severity"], kind=kind, cause=details["cause"],
        file_system=details["file_system"] or parse_file_system(details["target"]),
        target=details["target"],
        nodes=fold(names) if names else "", node_count=len(names),
        told_by=BOTH if server and by_node else SERVERS if server else NODES,
        is_certain=bool(names) or not is_about_clients,
        count=(sum(event["count"] for event in by_node) + len(silent) if names else
               details["count"]),
        clients=details["count"] if is_about_clients else None,
        data=_find_data_loss(kind, incident.is_own, details, bool(names), file_systems),
        message=messages[0] if messages and incident.is_own else
        f"{server.event.node}: {server.event.message}" if server and kind in NETWORK else "")


def find_details(event: Event) -> EventDetails:
    """Return the attributes of an event that describe the fault."""
    return {"id": event.id, "time": event.time, "last": event.last, "over": event.over,
            "severity": event.severity, "kind": event.kind, "cause": event.cause,
            "file_system": event.file_system, "target": event.target, "count": event.count,
            "message": ""}


def _find_data_loss(kind: str, is_own: bool, event: EventDetails, has_nodes: bool,
                    file_systems: Sequence[FileSystemRecord]) -> str:
    """
    Return whether an event lost data that the job wrote.

    An eviction discards written data that was not sent yet.  A client logs each file of which it
    has discarded data: "dirty page discard".
    """
    if kind == DATA_LOST:
        return LOST if is_own else MAY_BE
    if kind != EVICTED or not has_nodes:
        return ""
    name = event["file_system"] or parse_file_system(event["target"])
    fs = next((record for record in file_systems if record.name == name), None)
    if event["target"].rpartition("-")[2].startswith("MDT"):
        # Files have data there in some sites alone (Data on MDT).
        values = fs.targets.get(event["target"].rpartition("-")[2], {}) if fs else {}
        return MAY_BE if values.get("write_bytes") else ""
    has_written_nothing = (
        fs is not None and fs.application is not None and fs.application.write_bytes == 0
        and "write_bytes" not in fs.too_low and not fs.incomplete
        and "page_mkwrite" not in {**(fs.other or {}), **(fs.operations or {})})
    return "" if has_written_nothing else MAY_BE
