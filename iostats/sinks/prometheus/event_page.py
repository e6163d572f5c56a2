"""
The part of the page that has events, and how storage servers and their targets stand, as
prometheus_client's families.

    iostats_events_total{kind,severity,fs}                 what happened, with what was folded
    iostats_folded_events_total, iostats_dropped_events_total
    iostats_targets{fs,state}                              how many are up, recovering, down
    iostats_target_not_up{fs,target,state,node}            1 for each that is not up
    iostats_client_connections{fs}
    iostats_target_size_bytes{fs,target} ...               capacities and metrics of targets
    iostats_service_requests_total{node,service} ...       services of storage servers
    iostats_lnet_messages_total{node,kind} ...             the network of storage servers
    iostats_lnet_credits_min{node,lnet} ...                its credits by LNet
    iostats_storage_server_healthy{node}                   by health_check
    iostats_storage_server_heard_timestamp_seconds{node}
    iostats_storage_servers{state}                         how many report, and how many are silent

A counter has a line for each kind from the beginning, at 0, and so for each file system when it is
first seen: increase() needs a value before the first event.  They count from the server's start,
each event once, also one that is reported again after a restart or by two machines.  A silent
storage server is not counted in the lines of targets, whose state is unknown; after a week of
silence it has no lines.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from iostats.events.kinds import EVENTS_DROPPED, KINDS, SEVERITIES
from iostats.events.status import NO_METRICS
from iostats.harvest.events.reporting_servers import LATE_PAUSES, LATE_S
from iostats.lustre.server_metrics import SERVICE_METRICS, TARGET_METRICS
from iostats.lustre.stats import parse_file_system
from iostats.sinks.prometheus.metrics_server import utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Union

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from iostats.events.status import ServerStatus
    from iostats.store.event_store import Change

    Family = Union[CounterMetricFamily, GaugeMetricFamily]

MOST_FILE_SYSTEMS = 200             # with lines of their own; others are "(others)" together
MOST_NOT_UP = 1000                  # targets with a line of their own
FORGOTTEN_S = 7 * 86400.0           # of silence, until a storage server has no lines
STATES = ("up", "recovering", "down")
MOST_CAPACITIES = 10_000            # targets with lines of their own
_CREDITS = {"lowest": "credits_min", "peers": "peers", "waiting_peers": "waiting_peers",
            "peer_waiting": "peer_waiting_messages", "peer_lowest": "peer_credits_min"}
_CAPACITIES = {"bytes_total": "size_bytes", "bytes_free": "free_bytes",
               "bytes_available": "available_bytes", "inodes_total": "inodes",
               "inodes_free": "free_inodes"}

EVENT_FAMILIES = {
    "iostats_events": ("counter", ("kind", "severity", "fs"), (
        "What happened, by kind: clients evicted, connections lost and so on, with those grouped "
        "into one event and those that the kernel only counted; since the server's start.")),
    "iostats_folded_events": ("counter", (), (
        "Those of these that were grouped into an event of the same kind, target and time.")),
    "iostats_dropped_events": ("counter", (), (
        "Events that were too many at once, and are only counted ([events] max_kept).")),
    "iostats_targets": ("gauge", ("fs", "state"), (
        "Targets that are up, recovering, or down, by the storage servers that report.")),
    "iostats_target_not_up": ("gauge", ("fs", "target", "state", "node"), (
        "1 for each target that is recovering or down.")),
    "iostats_client_connections": ("gauge", ("fs",), (
        "Connections of clients, added up over the targets of the file system.")),
    "iostats_target_size_bytes": ("gauge", ("fs", "target"), "The space of a target."),
    "iostats_target_free_bytes": ("gauge", ("fs", "target"), (
        "The space of a target that is not used, with what is reserved.")),
    "iostats_target_available_bytes": ("gauge", ("fs", "target"), (
        "The space of a target that is not used and not reserved.")),
    "iostats_target_inodes": ("gauge", ("fs", "target"), (
        "The inodes of a target; of ZFS an estimate that grows with the free space.")),
    "iostats_target_free_inodes": ("gauge", ("fs", "target"), (
        "The inodes of a target that are not used.")),
    "iostats_lnet_messages": ("counter", ("node", "kind"), (
        "LNet messages of the storage server: sent, received, routed, dropped.  The kernel counts "
        "them in 32 bits.")),
    "iostats_lnet_bytes": ("counter", ("node", "kind"), "The bytes of these messages."),
    "iostats_lnet_waiting_messages": ("gauge", ("node",), (
        "Messages that wait for a credit of an interface of the storage server.")),
    "iostats_lnet_credits_min": ("gauge", ("node", "lnet"), (
        "The fewest credits of an interface of the storage server in this LNet since it was "
        "started; below 0: messages have waited.")),
    "iostats_lnet_peers": ("gauge", ("node", "lnet"), (
        "Peers of the storage server in this LNet: clients, storage servers, routers.")),
    "iostats_lnet_waiting_peers": ("gauge", ("node", "lnet"), (
        "Peers for which messages wait, as they have too few credits.")),
    "iostats_lnet_peer_waiting_messages": ("gauge", ("node", "lnet"), (
        "Messages that wait for a credit of a peer.")),
    "iostats_lnet_peer_credits_min": ("gauge", ("node", "lnet"), (
        "The fewest credits that a peer had since the storage server knows it; below 0: messages "
        "have waited.")),
    "iostats_lnet_resent_messages": ("counter", ("node",), (
        "LNet messages that the storage server sent again; where iostats-lnetctl.timer runs.")),
    "iostats_lnet_response_timeouts": ("counter", ("node",), (
        "Answers that no peer sent to the storage server in time; in the same way.")),
    "iostats_lnet_health": ("gauge", ("node", "nid"), (
        "The health of an LNet interface of the storage server, 0 to 1000; in the same way.")),
    "iostats_lnet_down": ("gauge", ("node", "nid"), (
        "1 for each interface and router of LNet that is down, as seen from the storage server.")),
    **{f"iostats_{part}_{metric.name}": (metric.kind, labels, metric.help)
       for part, labels, metrics in (("target", ("fs", "target"), TARGET_METRICS),
                                     ("service", ("node", "service"), SERVICE_METRICS))
       for metric in metrics},
    "iostats_storage_server_healthy": ("gauge", ("node",), (
        "1 if health_check of the storage server says healthy, else 0.")),
    "iostats_storage_server_heard_timestamp_seconds": ("gauge", ("node",), (
        "When the storage server last reported its events, seconds since 1970.")),
    "iostats_storage_servers": ("gauge", ("state",), (
        "Storage servers that report their events on time, and those that do not.")),
}


class EventCounts:
    """
    Counts of events since the start, and the state of storage servers; any thread may read them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}           # (kind, file system)
        self._file_systems: set[str] = set()
        self._folded = 0
        self._servers: dict[str, tuple[float, float, ServerStatus]] = {}
        self.see("")

    def see(self, *file_systems: str) -> None:
        """Add lines with 0 for these file systems."""
        with self._lock:
            for fs in file_systems:
                self._register_label(fs)

    def _register_label(self, fs: str) -> str:
        if fs not in self._file_systems:
            if len(self._file_systems) > MOST_FILE_SYSTEMS:
                fs = "(others)"
            if fs not in self._file_systems:
                self._file_systems.add(fs)
                self._counts.update(((kind, fs), 0) for kind in KINDS)
        return fs

    def add(self, changes: Iterable[Change]) -> None:
        """Events that are new, or have grown."""
        with self._lock:
            for event, gained in changes:
                key = event.kind, self._register_label(event.file_system)
                self._counts[key] = self._counts.get(key, 0) + gained
                is_new = gained == event.count + event.skipped
                self._folded += gained - is_new if gained else 0

    def stands(self, node: str, received_at: float, every_s: float,
               status: ServerStatus) -> None:
        """Set the state that a storage server has reported."""
        with self._lock:
            self._servers[node] = received_at, every_s, status
            for fs in {parse_file_system(name) for name in status.get("targets", ())}:
                self._register_label(fs)

    def families(self, now: float) -> list[Family]:
        """Return [family], as of `now`, s since 1970."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        made: dict[str, Family] = {
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

    def _add_servers(self, made: Mapping[str, Family],
                     servers: Mapping[str, tuple[float, float, ServerStatus]],
                     now: float) -> None:
        known = silent = 0
        targets: dict[str, tuple[str, str, int]] = {}   # name -> state, node, clients
        capacities: dict[str, Mapping[str, int]] = {}
        of_targets: dict[str, Mapping[str, int]] = {}
        for node, (received_at, every_s, status) in sorted(servers.items()):
            if now - received_at > FORGOTTEN_S:               # it was taken away
                continue
            known += 1
            made["iostats_storage_server_heard_timestamp_seconds"].add_metric((utf8(node),),
                                                                              received_at)
            if now - received_at > LATE_PAUSES * every_s + LATE_S:
                silent += 1
                continue
            if status.get("health"):
                made["iostats_storage_server_healthy"].add_metric(
                    (utf8(node),), int(status["health"] == "healthy"))
            if "lnet" in status:
                _add_lnet(made, utf8(node), status["lnet"])
            metrics = status.get("metrics", NO_METRICS)
            for name, service in metrics["services"].items():
                _add_metrics(made, "service", (utf8(node), utf8(name)), service["values"])
            for name, target in status.get("targets", {}).items():
                state = target["state"]
                # After a failover only the server that has it knows its state.
                if name not in targets or STATES.index(state) < STATES.index(targets[name][0]):
                    targets[name] = state, node, target.get("clients") or 0
                    if "capacity" in target:
                        capacities[name] = target["capacity"]
                    if name in metrics["targets"]:
                        of_targets[name] = metrics["targets"][name]["values"]
        made["iostats_storage_servers"].add_metric(("heard",), known - silent)
        made["iostats_storage_servers"].add_metric(("silent",), silent)
        self._add_targets(made, targets)
        for name, capacity in sorted(capacities.items())[:MOST_CAPACITIES]:
            labels = utf8(parse_file_system(name)), utf8(name)
            for member, family in _CAPACITIES.items():
                made[f"iostats_target_{family}"].add_metric(labels, capacity[member])
        for name, values in sorted(of_targets.items())[:MOST_CAPACITIES]:
            _add_metrics(made, "target", (utf8(parse_file_system(name)), utf8(name)), values)

    def _add_targets(self, made: Mapping[str, Family],
                     targets: Mapping[str, tuple[str, str, int]]) -> None:
        counts: dict[tuple[str, str], int] = {}
        clients: dict[str, int] = {}
        shown = 0
        for name, (state, node, connected) in sorted(targets.items()):
            with self._lock:
                fs = self._register_label(parse_file_system(name))
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


def _add_metrics(made: Mapping[str, Family], part: str, labels: tuple[str, ...],
                 values: Mapping[str, int]) -> None:
    for metric, value in values.items():
        family = made.get(f"iostats_{part}_{metric}")
        if family is not None:                      # an agent of a newer release has more
            family.add_metric(labels, value)


def _add_lnet(made: Mapping[str, Family], node: str, lnet: Mapping[str, Any]) -> None:
    for kind in ("sent", "received", "routed", "dropped"):
        made["iostats_lnet_messages"].add_metric((node, kind), lnet[kind])
        made["iostats_lnet_bytes"].add_metric((node, kind), lnet[f"{kind}_bytes"])
    made["iostats_lnet_waiting_messages"].add_metric((node,), lnet["waiting"])
    for metric in ("resent", "response_timeouts"):
        if metric in lnet:
            family = "resent_messages" if metric == "resent" else metric
            made[f"iostats_lnet_{family}"].add_metric((node,), lnet[metric])
    for network, credits in lnet.get("credits", {}).items():
        for member, family in _CREDITS.items():
            if member in credits:
                made[f"iostats_lnet_{family}"].add_metric((node, utf8(network)), credits[member])
    for nid, value in lnet.get("health", {}).items():
        made["iostats_lnet_health"].add_metric((node, utf8(nid)), value)
    for nid in lnet["down"]:
        made["iostats_lnet_down"].add_metric((node, utf8(nid)), 1)
