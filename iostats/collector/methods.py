"""
The requests of monitors: the five methods of lustre-collector, by XML-RPC and JSON-RPC, and
`events`, the question that the site's server answers, by JSON-RPC alone.

    getTraps(time)             [[[message, category, nodeName], ...], time stamp]
    getNodesNames(fsName)      [nodeName, ...]; of all file systems for ""
    getNodeInfo(nodeName)      {...}, see about_node; a fault for a node that is not known
    getFileSystems()           [fsName, ...]; in XML-RPC "" where there is none
    getFileSystemInfo(fsName)  {...}, see about_file_system; a fault for one that is not known

A category is 0 info, 1 warning, 2 critical, 3 fatal.

Source: "Lustre Collector", functional specification (2004), section 3.1.2.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Union

import msgspec

from iostats.base.errors import WireError, sanitize
from iostats.collector.journal_of_events import CollectedEvent, EventsJournal
from iostats.collector.xml_rpc import CachedList
from iostats.events import event as events
from iostats.events.event import Event
from iostats.events.kinds import EVENTS_DROPPED, KINDS, SEVERITIES
from iostats.harvest.events.connections import UNCLEAR, Connections
from iostats.harvest.events.event_filter import EventsParams, make_filter
from iostats.wire.jsonrpc import Method
from iostats.wire.protocol import INVALID_PARAMS

if TYPE_CHECKING:
    from iostats.collector.sources import EventSource

NOT_KNOWN = -32010                  # no node, or no file system, of this name
_LARGEST = 1 << 53


class TimeParams(msgspec.Struct):
    """The params of getTraps."""

    time: Union[int, float]


class FileSystemParams(msgspec.Struct):
    """The params of getNodesNames and getFileSystemInfo."""

    fsName: str


class NodeParams(msgspec.Struct):
    """The params of getNodeInfo."""

    nodeName: str


class Answers:
    """
    The methods, which read the journal and the source.

    Attributes:
        methods: {name: jsonrpc.Method}.
    """

    def __init__(self, journal: EventsJournal, source: "EventSource", maxtraps: int,
                 clock: Callable[[], float]) -> None:
        self._journal, self._source, self._maxtraps = journal, source, maxtraps
        self._clock = clock
        self._traps: dict[int, CachedList] = {}          # place: the trap; a place has one event
        self.methods = {
            "getTraps": Method(self._get_traps, TimeParams),
            "getNodesNames": Method(self._get_nodes_names, FileSystemParams),
            "getNodeInfo": Method(self._get_node_info, NodeParams),
            "getFileSystems": Method(self._get_file_systems, None),
            "getFileSystemInfo": Method(self._get_file_system_info, FileSystemParams),
            "events": Method(self._answer_events, EventsParams)}

    # -- the five

    def _get_traps(self, params: TimeParams, _: object) -> list[object]:
        if not 0 <= params.time < _LARGEST:            # NaN, too
            raise WireError(INVALID_PARAMS,
                            "time: expected the time stamp of the last answer, or 0")
        since = math.floor(params.time)
        after_since = self._journal.buffer.since(since)
        dropped = self._journal.buffer.count_dropped_since(since)
        stamp = self._journal.stamp()
        shown, left_out = _select_gravest(after_since, self._maxtraps - bool(dropped))
        if len(self._traps) > 4 * self._maxtraps:
            self._traps.clear()
        traps: list[object] = [self._traps.get(collected.place) or self._trap(collected)
                            for collected in shown]
        if left_out:
            traps.append([
                describe_omitted(left_out, self._maxtraps),
                max(collected.event.severity for collected in left_out), self._source.node])
        if dropped:
            traps.append([
                f"{EVENTS_DROPPED}: {dropped:,} more events were received since then, and "
                f"dropped ([collector] keep)", KINDS[EVENTS_DROPPED].severity, self._source.node])
        return [traps, stamp]

    def _trap(self, collected: CollectedEvent) -> CachedList:
        self._traps[collected.place] = trap = CachedList([
            trap_text(collected), collected.event.severity, collected.event.node])
        return trap

    def _get_nodes_names(self, params: FileSystemParams, _: object) -> list[str]:
        file_system = params.fsName
        nodes = set(self._source.list_nodes(file_system))
        for collected in self._journal.buffer:
            if file_system in ("", collected.event.file_system):
                nodes.update(_list_event_nodes(collected.event))
        return sorted(nodes - {""})

    def _get_node_info(self, params: NodeParams, _: object) -> dict[str, object]:
        name = params.nodeName
        info = self._source.about_node(name)
        events_of_node = [collected.event for collected in self._journal.buffer
                          if name in _list_event_nodes(collected.event)]
        if not name or (info is None and not events_of_node):
            raise WireError(NOT_KNOWN,
                            f"no node {_format_value(name)} is known; getNodesNames(\"\") has "
                                       f"those that are")
        newest = max(events_of_node, key=lambda event: event.last, default=None)
        return {"nodeName": name, **(info or {}),
                "fileSystems": sorted({event.file_system for event in events_of_node
                                       if event.file_system}
                                      | set((info or {}).get("fileSystems", ()))),
                "traps": len(events_of_node),
                **({"lastTrap": events.describe_event(newest), "lastTrapTime": int(newest.last)}
                   if newest else {})}

    def _get_file_systems(self, params: None, _: object) -> list[str]:
        return sorted({collected.event.file_system for collected in self._journal.buffer} - {""}
                      | set(self._source.file_systems()))

    def _get_file_system_info(self, params: FileSystemParams, _: object) -> dict[str, object]:
        name = params.fsName
        matching = [collected.event for collected in self._journal.buffer
                    if collected.event.file_system == name]
        if not name or (not matching and name not in self._source.file_systems()):
            raise WireError(NOT_KNOWN,
                            f"no file system {_format_value(name)} is known; getFileSystems() "
                                       f"has those that are")
        lost = self._source.list_not_responding(name)
        silent, more = list_not_responding(matching) if lost is None else lost
        return {"fsName": name, "traps": len(matching),
                "happenings": sum(event.count for event in matching),
                "notLogged": sum(event.skipped for event in matching),
                "bySeverity": {word: sum(event.severity == level for event in matching)
                               for level, word in enumerate(SEVERITIES)},
                "notResponding": sorted(silent), "notRespondingMore": more,
                **({"since": int(min(event.time for event in matching))} if matching else {})}

    # -- as the site's server

    def _answer_events(self, question: EventsParams, _: object) -> dict[str, object]:
        if question.job:
            raise WireError(INVALID_PARAMS, "job: a collector does not know jobs; ask the site's "
                                            "server")
        buffer, more = self._journal.buffer, False
        matches: list[CollectedEvent] = []
        next = question.after if question.after <= buffer.last_place else 0
        is_asked = make_filter(question, lambda nid: nid, None, self._list_file_systems)
        for collected in buffer.after(question.after):
            if _is_in_time(question, collected.event) and is_asked(collected.event):
                if len(matches) == question.limit and not question.last:
                    more = True
                    break
                matches.append(collected)
            next = collected.place
        if question.last:
            matches.sort(key=lambda collected: (collected.event.time, collected.place))
            matches = sorted(matches[-question.last:])
        return {"events": [{**events.as_json(collected.event), "place": collected.place}
                           for collected in matches],
                "next": next, "more": more, "time": self._clock(),
                "places": self._journal.places,
                "dropped": buffer.count_dropped_after(question.after)}

    def _list_file_systems(self, node: str) -> set[str]:
        """The file systems of a storage server."""
        return set((self._source.about_node(node) or {}).get("fileSystems", ()))


def trap_text(collected: CollectedEvent) -> str:
    """The text of a trap; for an event that was reported before, with its earlier count."""
    text = events.describe_event(collected.event, with_node=False)
    if not collected.reported:
        return text
    return text + (" [reported before]" if collected.reported == collected.event.count else
                   f" [was {collected.reported:,}x, is {collected.event.count:,}x]")


def describe_omitted(left_out: Iterable[CollectedEvent], maxtraps: int) -> str:
    """The text of the last trap in a list that was cut."""
    kinds = Counter(collected.event.kind for collected in left_out)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(5))
    rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(5))
    return (f"{EVENTS_DROPPED}: {sum(kinds.values()):,} more events, which are not in this answer "
            f"(maxtraps {maxtraps}): {shown}{f', {rest:,} others' if rest else ''}")


def list_not_responding(reported: Iterable[Event]) -> tuple[set[str], int]:
    """
    Return (disconnected nodes, the number of further evicted clients without a name), by the events
    of one file system that have no end.
    """
    connections = Connections(lambda nid: nid)
    for event in reported:
        connections.add(event)
    disconnected = {connection.node for connection in connections.list_down()
                    if connection is not None and connection.state != UNCLEAR}
    return disconnected, sum(connection.count for connection in connections.unnamed)


def _select_gravest(candidates: list[CollectedEvent],
            limit: int) -> tuple[list[CollectedEvent], list[CollectedEvent]]:
    """(those that are given, those that are left out): the gravest first, then the newest."""
    if len(candidates) <= limit:
        return candidates, []
    by_weight = sorted(candidates,
                       key=lambda collected: (-collected.event.severity, -collected.place))
    # and one that says how many more
    shown = {collected.place for collected in by_weight[:limit - 1]}
    return ([collected for collected in candidates if collected.place in shown],
            [collected for collected in candidates if collected.place not in shown])


def _list_event_nodes(event: Event) -> set[str]:
    return {event.node, *event.clients}


def _is_in_time(question: EventsParams, event: Event) -> bool:
    end = event.last if event.over is None else max(event.last, event.over)
    return (event.severity >= question.severity
            and (question.since is None or end >= question.since)
            and (question.until is None or event.time <= question.until))


def _format_value(name: str) -> str:
    return repr(sanitize(name[:60]))
