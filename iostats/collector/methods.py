"""
What a monitor may ask: the five methods of lustre-collector, by XML-RPC and JSON-RPC, and `events`,
the question that the site's server answers, by JSON-RPC alone.

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
from typing import Any, Union

import msgspec

from iostats.base.errors import WireError, one_line
from iostats.collector.journal_of_events import EventsJournal
from iostats.collector.kept import CollectedEvent
from iostats.collector.xml_rpc import KeptList
from iostats.events import event as events
from iostats.events.event import Event
from iostats.events.kinds import EVENTS_DROPPED, KINDS, SEVERITIES
from iostats.site.events.connections import UNCLEAR, Connections
from iostats.site.events.questions import EventsParams, filter_of
from iostats.wire.jsonrpc import Method
from iostats.wire.protocol import INVALID_PARAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.collector.sources import EventSource

NOT_KNOWN = -32010                  # no node, or no file system, of this name
_LARGEST = 1 << 53


class TimeParams(msgspec.Struct):
    """The params of getTraps."""

    time: Union[int, float]


class FileSystemParams(msgspec.Struct):
    """Those of getNodesNames and getFileSystemInfo."""

    fsName: str


class NodeParams(msgspec.Struct):
    """Those of getNodeInfo."""

    nodeName: str


class Answers:
    """
    The methods, by what a journal keeps and what a source knows.

    Attributes:
        methods: {name: jsonrpc.Method}.
    """

    def __init__(self, journal: EventsJournal, source: "EventSource", maxtraps: int,
                 clock: Callable[[], float]) -> None:
        self._journal, self._source, self._maxtraps = journal, source, maxtraps
        self._clock = clock
        self._traps: dict[int, KeptList] = {}          # place: the trap; a place has one event
        self.methods = {
            "getTraps": Method(self._get_traps, TimeParams),
            "getNodesNames": Method(self._get_nodes_names, FileSystemParams),
            "getNodeInfo": Method(self._get_node_info, NodeParams),
            "getFileSystems": Method(self._get_file_systems, None),
            "getFileSystemInfo": Method(self._get_file_system_info, FileSystemParams),
            "events": Method(self._events, EventsParams)}

    # -- the five

    def _get_traps(self, params: TimeParams, _: Any) -> list[Any]:
        if not 0 <= params.time < _LARGEST:            # NaN, too
            raise WireError(INVALID_PARAMS,
                            "time: expected the time stamp of the last answer, or 0")
        since = math.floor(params.time)
        found = self._journal.kept.since(since)
        dropped = self._journal.kept.dropped_since(since)
        stamp = self._journal.stamp()
        shown, left_out = _chosen(found, self._maxtraps - bool(dropped))
        if len(self._traps) > 4 * self._maxtraps:
            self._traps.clear()
        traps: list[Any] = [self._traps.get(one.place) or self._trap(one) for one in shown]
        if left_out:
            traps.append([
                left_out_text(left_out, self._maxtraps),
                max(one.event.severity for one in left_out), self._source.node])
        if dropped:
            traps.append([
                f"{EVENTS_DROPPED}: {dropped:,} more events came since then, and are no longer "
                f"kept ([collector] keep)", KINDS[EVENTS_DROPPED].severity, self._source.node])
        return [traps, stamp]

    def _trap(self, one: CollectedEvent) -> KeptList:
        self._traps[one.place] = found = KeptList([
            trap_text(one), one.event.severity, one.event.node])
        return found

    def _get_nodes_names(self, params: FileSystemParams, _: Any) -> list[str]:
        file_system = params.fsName
        found = set(self._source.nodes_of(file_system))
        for one in self._journal.kept:
            if file_system in ("", one.event.file_system):
                found.update(_nodes_in(one.event))
        return sorted(found - {""})

    def _get_node_info(self, params: NodeParams, _: Any) -> dict[str, Any]:
        name = params.nodeName
        info = self._source.about_node(name)
        told = [one.event for one in self._journal.kept if name in _nodes_in(one.event)]
        if not name or (info is None and not told):
            raise WireError(NOT_KNOWN, f"no node {_shown(name)} is known; getNodesNames(\"\") has "
                                       f"those that are")
        newest = max(told, key=lambda one: one.last, default=None)
        return {"nodeName": name, **(info or {}),
                "fileSystems": sorted({one.file_system for one in told if one.file_system}
                                      | set((info or {}).get("fileSystems", ()))),
                "traps": len(told),
                **({"lastTrap": events.in_words(newest), "lastTrapTime": int(newest.last)}
                   if newest else {})}

    def _get_file_systems(self, params: None, _: Any) -> list[str]:
        return sorted({one.event.file_system for one in self._journal.kept} - {""}
                      | set(self._source.file_systems()))

    def _get_file_system_info(self, params: FileSystemParams, _: Any) -> dict[str, Any]:
        name = params.fsName
        told = [one.event for one in self._journal.kept if one.event.file_system == name]
        if not name or (not told and name not in self._source.file_systems()):
            raise WireError(NOT_KNOWN, f"no file system {_shown(name)} is known; getFileSystems() "
                                       f"has those that are")
        lost = self._source.not_responding(name)
        silent, more = not_responding(told) if lost is None else lost
        return {"fsName": name, "traps": len(told), "happenings": sum(one.count for one in told),
                "notLogged": sum(one.skipped for one in told),
                "bySeverity": {word: sum(one.severity == level for one in told)
                               for level, word in enumerate(SEVERITIES)},
                "notResponding": sorted(silent), "notRespondingMore": more,
                **({"since": int(min(one.time for one in told))} if told else {})}

    # -- as the site's server

    def _events(self, question: EventsParams, _: Any) -> dict[str, Any]:
        if question.job:
            raise WireError(INVALID_PARAMS, "job: a collector does not know jobs; ask the site's "
                                            "server")
        kept, more = self._journal.kept, False
        found: list[CollectedEvent] = []
        next = question.after if question.after <= kept.last_place else 0
        is_asked = filter_of(question, lambda nid: nid, None, self._served)
        for one in kept.after(question.after):
            if _is_of_time(question, one.event) and is_asked(one.event):
                if len(found) == question.limit and not question.last:
                    more = True
                    break
                found.append(one)
            next = one.place
        if question.last:
            found.sort(key=lambda one: (one.event.time, one.place))
            found = sorted(found[-question.last:])
        return {"events": [{**events.as_json(one.event), "place": one.place} for one in found],
                "next": next, "more": more, "time": self._clock(),
                "places": self._journal.places, "dropped": kept.dropped_after(question.after)}

    def _served(self, node: str) -> set[str]:
        """The file systems of a storage server."""
        return set((self._source.about_node(node) or {}).get("fileSystems", ()))


def trap_text(one: CollectedEvent) -> str:
    """The message of a trap; of an event that was given before, from what it has grown."""
    text = events.in_words(one.event, with_node=False)
    if not one.told:
        return text
    return text + (" [told before]" if one.told == one.event.count else
                   f" [was {one.told:,}x, is {one.event.count:,}x]")


def left_out_text(left_out: Iterable[CollectedEvent], maxtraps: int) -> str:
    """What the last trap of a list says that is not whole."""
    kinds = Counter(one.event.kind for one in left_out)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(5))
    rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(5))
    return (f"{EVENTS_DROPPED}: {sum(kinds.values()):,} more events, which are not in this answer "
            f"(maxtraps {maxtraps}): {shown}{f', {rest:,} others' if rest else ''}")


def not_responding(told: Iterable[Event]) -> tuple[set[str], int]:
    """
    (nodes that are lost, how many clients more were evicted and are not named), by events of one
    file system: those that no event says are back.
    """
    connections = Connections(lambda nid: nid)
    for one in told:
        connections.add(one)
    gone = {one.node for one in connections.gone() if one is not None and one.state != UNCLEAR}
    return gone, sum(one.count for one in connections.unnamed)


def _chosen(found: list[CollectedEvent],
            most: int) -> tuple[list[CollectedEvent], list[CollectedEvent]]:
    """(those that are given, those that are left out): the gravest first, then the newest."""
    if len(found) <= most:
        return found, []
    by_weight = sorted(found, key=lambda one: (-one.event.severity, -one.place))
    shown = {one.place for one in by_weight[:most - 1]}        # and one that says how many more
    return ([one for one in found if one.place in shown],
            [one for one in found if one.place not in shown])


def _nodes_in(event: Event) -> set[str]:
    return {event.node, *event.clients}


def _is_of_time(question: EventsParams, one: Event) -> bool:
    end = one.last if one.over is None else max(one.last, one.over)
    return (one.severity >= question.severity
            and (question.since is None or end >= question.since)
            and (question.until is None or one.time <= question.until))


def _shown(name: str) -> str:
    return repr(one_line(name[:60]))
