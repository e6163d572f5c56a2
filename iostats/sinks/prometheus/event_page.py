"""
The part of the page that has events, and how storage servers and their targets stand, as
prometheus_client's families.

    iostats_events_total{kind,severity,fs}                 what happened, with what was folded
    iostats_folded_events_total, iostats_dropped_events_total
    iostats_targets{fs,state}                              how many are up, recovering, down
    iostats_target_not_up{fs,target,state,node}            1 for each that is not up
    iostats_client_connections{fs}
    iostats_storage_server_healthy{node}                   by health_check
    iostats_storage_server_heard_timestamp_seconds{node}
    iostats_storage_servers{state}                         how many are heard, and are silent

A counter has a line for each kind from the beginning, at 0, and so for each file system when it is
first seen: increase() needs a value before the first event.  They count from the server's start,
each event once, also one that is told again after a restart or by two machines.  A storage server
that is silent is not counted in the lines of targets, as it is not known how these stand; after a
week of silence it has no lines.
"""

from __future__ import annotations

import threading

from iostats.events.kinds import EVENTS_DROPPED, KINDS, SEVERITIES
from iostats.sinks.prometheus.metrics_server import utf8
from iostats.site.events.tellers import LATE_PAUSES, LATE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.site.events.followers import Change

MOST_FILE_SYSTEMS = 200             # with lines of their own; others are "(others)" together
MOST_NOT_UP = 1000                  # targets with a line of their own
FORGOTTEN_S = 7 * 86400.0           # of silence, until a storage server has no lines
STATES = ("up", "recovering", "down")

EVENT_FAMILIES = {
    "iostats_events": ("counter", ("kind", "severity", "fs"), (
        "What happened, by kind: clients evicted, connections lost and so on, with what was folded "
        "into one event and what the kernel only counted; since the server's start.")),
    "iostats_folded_events": ("counter", (), (
        "Of these, what was told as one event with others of the same kind, target and time.")),
    "iostats_dropped_events": ("counter", (), (
        "Events that were too many at once, and are only counted ([events] max_kept).")),
    "iostats_targets": ("gauge", ("fs", "state"), (
        "Targets that are up, recovering, or down, by the storage servers that are heard.")),
    "iostats_target_not_up": ("gauge", ("fs", "target", "state", "node"), (
        "1 for each target that is recovering or down.")),
    "iostats_client_connections": ("gauge", ("fs",), (
        "Connections of clients, added up over the targets of the file system.")),
    "iostats_storage_server_healthy": ("gauge", ("node",), (
        "1 if health_check of the storage server says healthy, else 0.")),
    "iostats_storage_server_heard_timestamp_seconds": ("gauge", ("node",), (
        "When the storage server last told of its events, seconds since 1970.")),
    "iostats_storage_servers": ("gauge", ("state",), (
        "Storage servers that tell of their events as often as they should, and silent ones.")),
}


class EventCounts:
    """What happened since the start, and how things stand; it may be asked in another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}           # (kind, file system)
        self._file_systems: set[str] = set()
        self._folded = 0
        self._servers: dict[str, tuple[float, float, Mapping[str, Any]]] = {}
        self.see("")

    def see(self, *file_systems: str) -> None:
        """There are these; they have lines from now on."""
        with self._lock:
            for fs in file_systems:
                self._label_of(fs)

    def _label_of(self, fs: str) -> str:
        if fs not in self._file_systems:
            if len(self._file_systems) > MOST_FILE_SYSTEMS:
                fs = "(others)"
            if fs not in self._file_systems:
                self._file_systems.add(fs)
                self._counts.update(((kind, fs), 0) for kind in KINDS)
        return fs

    def take(self, changes: Iterable[Change]) -> None:
        """Events that are new, or have grown."""
        with self._lock:
            for event, gained in changes:
                key = event.kind, self._label_of(event.file_system)
                self._counts[key] = self._counts.get(key, 0) + gained
                is_new = gained == event.count + event.skipped
                self._folded += gained - is_new if gained else 0

    def stands(self, node: str, heard: float, every_s: float, status: Mapping[str, Any]) -> None:
        """A storage server has said how it is."""
        with self._lock:
            self._servers[node] = heard, every_s, status
            for fs in {_file_system_of(name) for name in status.get("targets", ())}:
                self._label_of(fs)

    def families(self, now: float) -> list[Any]:
        """[family], as of `now`, s since 1970."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        made: dict[str, Any] = {
            name: (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
                name, help, labels=labels) for name, (kind, labels, help) in EVENT_FAMILIES.items()}
        with self._lock:
            for (kind, fs), count in sorted(self._counts.items()):
                made["iostats_events"].add_metric(
                    (kind, SEVERITIES[KINDS[kind].severity], utf8(fs)), count)
            made["iostats_folded_events"].add_metric((), self._folded)
            made["iostats_dropped_events"].add_metric((), sum(
                count for (kind, _), count in self._counts.items() if kind == EVENTS_DROPPED))
            servers = dict(self._servers)
        self._add_servers(made, servers, now)
        return list(made.values())

    def _add_servers(self, made: Mapping[str, Any],
                     servers: Mapping[str, tuple[float, float, Mapping[str, Any]]],
                     now: float) -> None:
        known = silent = 0
        targets: dict[str, tuple[str, str, int]] = {}   # name -> state, node, clients
        for node, (heard, every_s, status) in sorted(servers.items()):
            if now - heard > FORGOTTEN_S:               # it was taken away
                continue
            known += 1
            made["iostats_storage_server_heard_timestamp_seconds"].add_metric((utf8(node),), heard)
            if now - heard > LATE_PAUSES * every_s + LATE_S:
                silent += 1
                continue
            if status.get("health"):
                made["iostats_storage_server_healthy"].add_metric(
                    (utf8(node),), int(status["health"] == "healthy"))
            for name, target in status.get("targets", {}).items():
                state = target["state"]
                # After a failover the one that has it knows; the other only that it is gone.
                if name not in targets or STATES.index(state) < STATES.index(targets[name][0]):
                    targets[name] = state, node, target.get("clients") or 0
        made["iostats_storage_servers"].add_metric(("heard",), known - silent)
        made["iostats_storage_servers"].add_metric(("silent",), silent)
        self._add_targets(made, targets)

    def _add_targets(self, made: Mapping[str, Any],
                     targets: Mapping[str, tuple[str, str, int]]) -> None:
        counts: dict[tuple[str, str], int] = {}
        clients: dict[str, int] = {}
        shown = 0
        for name, (state, node, connected) in sorted(targets.items()):
            with self._lock:
                fs = self._label_of(_file_system_of(name))
            counts[fs, state] = counts.get((fs, state), 0) + 1
            clients[fs] = clients.get(fs, 0) + connected
            if state != "up" and shown < MOST_NOT_UP:
                shown += 1
                made["iostats_target_not_up"].add_metric(
                    (utf8(fs), utf8(name), state, utf8(node)), 1)
        for fs in sorted(clients):
            for state in STATES:
                made["iostats_targets"].add_metric((utf8(fs), state), counts.get((fs, state), 0))
            made["iostats_client_connections"].add_metric((utf8(fs),), clients[fs])


def _file_system_of(target: str) -> str:
    """"scratch" of "scratch-OST0003"; "" of "MGS"."""
    return target.rpartition("-")[0]
