"""
What went wrong while a job ran, of what its nodes and the storage servers tell: one JobEvent for
one happening.

    nodes' events      one eviction is told by the node, when it hears of it, and by the target
    servers' events    that evicted it: one line.  The same on many nodes within a minute is one.

A node that was evicted hears of it when it comes back, and a target cannot evict it again before:
so what a node tells belongs to the latest eviction by that target that no earlier word of it is of.
Lists come out the same in whatever order they came in.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.totals.record import JobEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Optional, TypeVar

    from iostats.totals.record import FileSystemRecord, PhaseFileSystem
    from iostats.totals.reported_events import NodeEvent

    _FileSystem = TypeVar("_FileSystem", FileSystemRecord, PhaseFileSystem)

EVICTED, DATA_LOST = "evicted", "data_lost"
LOST, MAY_BE = "lost", "may be lost"            # what became of data
NODES, SERVERS, BOTH = "nodes", "servers", "both"
MOST_LISTED = 100                   # in a record
_TOGETHER_S = 60.0                  # the same on several nodes, from the first one on
_CLOCKS_S, _HEARS_WITHIN_S = 5.0, 900.0         # a target evicts a client, and the client hears

ServerEvent = namedtuple("ServerEvent", "event nodes others")
ServerEvent.__doc__ = """
What a storage server tells of, as far as it is about one job.

Attributes:
    event: with the attributes of events/event.py's Event; times by the site's clock.
    nodes: [job's nodes] that it names; [] for what is about a target as a whole.
    others: how many clients it is about of which it is not known whether they are the job's.
"""


class _Happening:
    """A happening: what tells of it."""

    __slots__ = ("by_node", "by_server", "is_own")

    def __init__(self, by_server: Optional[ServerEvent] = None) -> None:
        self.by_server = by_server
        self.by_node: list[tuple[str, dict[str, Any]]] = []
        self.is_own = True

    def add(self, one: NodeEvent) -> None:
        self.by_node.append((one.node, one.event))
        self.is_own = self.is_own and one.is_own


def listed(of_nodes: Iterable[NodeEvent], of_servers: Iterable[ServerEvent],
           fold: Callable[[Iterable[str]], str], file_systems: Sequence[FileSystemRecord] = (),
           more: int = 0) -> tuple[list[JobEvent], int]:
    """
    ([JobEvent] in the order of time, how many more events there were).

    `fold`: [node name] -> text.  `file_systems`: what the job did on them; `more`: how many events
    of nodes are not in `of_nodes`.  Of more than MOST_LISTED the most severe are listed.
    """
    told = _joined(of_nodes, of_servers)
    texts: dict[frozenset[str], str] = {}

    def fold_once(names: Iterable[str]) -> str:
        """Many events are of the same nodes, and folding takes long."""
        key = frozenset(names)
        if key not in texts:
            texts[key] = fold(sorted(key))
        return texts[key]
    made = [(_made(one, fold_once, file_systems), len(one.by_node) + (one.by_server is not None))
            for one in told]
    made.sort(key=lambda pair: importance(pair[0]))
    more += sum(number for _, number in made[MOST_LISTED:])
    found = [one for one, _ in made[:MOST_LISTED]]
    return sorted(found, key=lambda one: (one.time, importance(one))), more


def marked_by_events(file_systems: Sequence[_FileSystem], events: Iterable[JobEvent],
                     ) -> list[_FileSystem]:
    """
    `file_systems` (of a job, or of a part of it) with the bytes written as an upper bound where an
    event may have discarded data that was written and not sent yet, whoever reported the event;
    a report says so in its first line (event_tables.about_data).
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


def importance(one: JobEvent) -> tuple[Any, ...]:
    """What is to be read first is the least."""
    return ((LOST, MAY_BE, "").index(one.data), not one.is_certain, -one.severity, one.time, one.id,
            one.target, one.nodes)


# -- which belong together -------------------------------------------------------------------------

def _joined(of_nodes: Iterable[NodeEvent], of_servers: Iterable[ServerEvent]) -> list[_Happening]:
    servers = [_Happening(one) for one in sorted(of_servers, key=lambda one: (
        one.event.time, one.event.id))]
    evictions: dict[str, list[_Happening]] = {}              # target -> those by it
    for one in servers:
        if one.by_server and one.by_server.event.kind == EVICTED and one.by_server.event.target:
            evictions.setdefault(one.by_server.event.target, []).append(one)
    taken: set[tuple[int, str]] = set()
    alone = []
    for event in sorted(of_nodes, key=lambda one: (one.event["time"], one.node, one.event["id"])):
        there = event.event["kind"] == EVICTED and _heard_of(
            event, evictions.get(event.event["target"], ()), taken)
        if there:
            there.add(event)
            taken.add((id(there), event.node))
        else:
            alone.append(event)
    return servers + _together(alone)


def _heard_of(event: NodeEvent, evictions: Iterable[_Happening],
              taken: set[tuple[int, str]]) -> _Happening | None:
    """The eviction that a node has heard of: one that names it, or else may be of it."""
    heard = event.event["time"]
    found = [one for one in evictions if one.by_server
             and -_CLOCKS_S <= heard - one.by_server.event.time
             and heard - one.by_server.event.last <= _HEARS_WITHIN_S
             and (id(one), event.node) not in taken]
    for named in (True, False):
        for one in reversed(found):
            about = one.by_server
            if about and (event.node in about.nodes if named else about.others > 0):
                return one
    return None


def _together(alone: Iterable[NodeEvent]) -> list[_Happening]:
    """The same of several nodes, or several times, within a minute; `alone` is in its order."""
    open_ones: dict[tuple[Any, ...], tuple[float, _Happening]] = {}
    found = []
    for event in alone:
        key = (*(event.event[name] for name in ("kind", "cause", "file_system", "target",
                                                "severity")), event.is_own)
        since, told = open_ones.get(key, (-1e300, None))
        if told is None or event.event["time"] > since + _TOGETHER_S:
            told = _Happening()
            open_ones[key] = event.event["time"], told
            found.append(told)
        told.add(event)
    return found


# -- what is said of it ----------------------------------------------------------------------------

def _made(told: _Happening, fold: Callable[[Iterable[str]], str],
          file_systems: Sequence[FileSystemRecord]) -> JobEvent:
    by_node, server = [event for _, event in told.by_node], told.by_server
    names = {node for node, _ in told.by_node} | set(server.nodes if server else ())
    ours: dict[str, Any] = vars_of(server.event) if server else by_node[0]
    all_of = [*by_node, *([ours] if server else ())]
    over = [event["over"] for event in by_node] if by_node else [ours["over"]]
    # From when a target evicted a node, also where the node tells when it was over.
    began = [ours["time"] if server else event["time"] for event in by_node] or [ours["time"]]
    lengths = [max(0.0, end - begin) for begin, end in zip(began, over) if end is not None]
    silent = set(server.nodes if server else ()) - {node for node, _ in told.by_node}
    is_about_clients = server is not None and bool(server.nodes or server.others)
    messages = sorted(event["message"] for event in by_node if event["message"])
    kind = ours["kind"]
    return JobEvent(
        id=ours["id"], time=round(ours["time"] if server else by_node[0]["time"], 3),
        last=round(max(event["last"] for event in all_of), 3),
        over=None if None in over or silent else round(max(over), 3),
        longest_s=round(max(lengths), 3) if lengths else None,
        severity=ours["severity"], kind=kind, cause=ours["cause"],
        file_system=ours["file_system"] or _file_system_of(ours["target"]), target=ours["target"],
        nodes=fold(names) if names else "", node_count=len(names),
        told_by=BOTH if server and by_node else SERVERS if server else NODES,
        is_certain=bool(names) or not is_about_clients,
        count=(sum(event["count"] for event in by_node) + len(silent) if names else
               ours["count"]),
        clients=ours["count"] if is_about_clients else None,
        data=_data(kind, told.is_own, ours, bool(names), file_systems),
        message=messages[0] if messages and told.is_own else "")


def vars_of(event: Any) -> dict[str, Any]:
    """The attributes of an event that tell what happened."""
    return {name: getattr(event, name) for name in (
        "id", "time", "last", "over", "severity", "kind", "cause", "file_system", "target",
        "count")}


def _file_system_of(target: str) -> str:
    return target.rpartition("-")[0]


def _data(kind: str, is_own: bool, event: dict[str, Any], has_nodes: bool,
          file_systems: Sequence[FileSystemRecord]) -> str:
    """
    What became of data that the job had written.

    An eviction throws away what was written and not sent.  A client tells of each file of which it
    has thrown away something: "dirty page discard".
    """
    if kind == DATA_LOST:
        return LOST if is_own else MAY_BE
    if kind != EVICTED or not has_nodes:
        return ""
    name = event["file_system"] or _file_system_of(event["target"])
    fs = next((one for one in file_systems if one.name == name), None)
    if event["target"].rpartition("-")[2].startswith("MDT"):
        # Files have data there in some sites alone (Data on MDT).
        values = fs.targets.get(event["target"].rpartition("-")[2], {}) if fs else {}
        return MAY_BE if values.get("write_bytes") else ""
    has_written_nothing = (
        fs is not None and fs.application is not None and fs.application.write_bytes == 0
        and "write_bytes" not in fs.too_low and not fs.incomplete
        and "page_mkwrite" not in {**(fs.other or {}), **(fs.operations or {})})
    return "" if has_written_nothing else MAY_BE
