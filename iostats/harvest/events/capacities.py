"""
Used space of targets: the last reading of each, and one an hour of the last week.

    status of a storage server  ->  take()  ->  the store, once an hour
    question                    ->  rows()  <-  the last statuses, and the week of each target
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from iostats.load.forecast import WEEK_S, forecast
from iostats.lustre.capacity import (
    RESOURCES,
    Capacity,
    compute_used,
    compute_used_percent,
    get_available,
)
from iostats.lustre.stats import parse_file_system
from iostats.store.capacity_store import CapacityStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from typing import Any

    from iostats.harvest.events.reporting_servers import ReportingServer
    from iostats.store.record_store import Store

_HOUR_S = 3600.0
_STORED_HOURS = 8 * 24
_Name = Annotated[str, msgspec.Meta(max_length=256)]


class CapacityParams(msgspec.Struct):
    """The params of `capacity`."""

    # file_systems, targets: names of these; [] for all
    file_systems: Annotated[list[_Name], msgspec.Meta(max_length=1_000)] = []
    targets: Annotated[list[_Name], msgspec.Meta(max_length=10_000)] = []


class Capacities:
    """
    The used space of all targets; `reporting_servers`: {storage server: ReportingServer}, with the
    last status of each.
    """

    def __init__(self, store: Store, reporting_servers: Mapping[str, ReportingServer]) -> None:
        self._store, self._servers = CapacityStore(store), reporting_servers
        self._stored_hour: dict[str, int] = {}          # of targets

    def add(self, node: str) -> None:
        """Store the capacities in the status of a storage server, if it is a new hour."""
        hour = int(self._servers[node].made // _HOUR_S)
        rows = [(target, hour, self._servers[node].made, capacity)
                for target, capacity in _list_capacities(self._servers[node])
                if self._stored_hour.get(target) != hour]
        if rows:
            self._store.add(rows, _STORED_HOURS)
            self._stored_hour.update((target, hour) for target, *_ in rows)

    def reload(self) -> None:
        """Drop the notes on stored readings: those since the last commit are not stored."""
        self._stored_hour.clear()

    def rows(self, ask: CapacityParams) -> Generator[None, None, list[dict[str, object]]]:
        """
        A row for each target, by name: target, file_system, node, time, the members of Capacity,
        bytes_used, inodes_used, the percentages, and the Forecast of the resource that will be used
        up first.  In steps; StateError.
        """
        newest: dict[str, tuple[float, str, Capacity]] = {}
        for node, server in self._servers.items():
            for target, capacity in _list_capacities(server):
                newest[target] = max(newest.get(target, (0.0, "", capacity)),
                                     (server.made, node, capacity))
        rows = []
        for target, (time, node, capacity) in sorted(newest.items()):
            file_system = parse_file_system(target)
            if (ask.file_systems and file_system not in ask.file_systems) or (
                    ask.targets and target not in ask.targets):
                continue
            row = {"target": target, "file_system": file_system, "node": node, "time": time,
                   **capacity._asdict()}
            for resource, name in zip(RESOURCES, ("bytes", "inodes")):
                row[f"{name}_used"] = compute_used(capacity, resource)
                row[f"{name}_used_percent"] = round(compute_used_percent(capacity, resource), 2)
            rows.append({**row, **self._forecast(target, time, capacity)})
            yield
        return rows

    def _forecast(self, target: str, time: float, capacity: Capacity) -> dict[str, Any]:
        readings = [reading for reading in self._store.read_target(target, time - WEEK_S)
                    if reading[0] < time]
        readings.append((time, capacity))
        by_resource = {
            resource: forecast([(at, compute_used(reading, resource)) for at, reading in readings],
                               get_available(capacity, resource))
            for resource in RESOURCES}
        space, inodes = by_resource.values()
        ends = [(forecast.full_at, resource) for resource, forecast in by_resource.items()
                if forecast is not None and forecast.full_at is not None]
        first = min(ends)[1] if ends else None
        first_full = by_resource[first] if first is not None else None
        return {"history_since": readings[0][0],
                "bytes_per_day": None if space is None else round(space.per_day),
                "inodes_per_day": None if inodes is None else round(inodes.per_day),
                "full_first": first, "full_at": first_full and first_full.full_at,
                "full_earliest": first_full and first_full.earliest,
                "full_latest": first_full and first_full.latest}


def _list_capacities(server: ReportingServer) -> Iterator[tuple[str, Capacity]]:
    for target, status in server.status.get("targets", {}).items():
        members = status.get("capacity")
        if members is not None:
            yield target, Capacity(**members)
