"""
The site server's answers to `events`, `events_status`, `capacity`, `metrics` and `quotas`, and
users' rights to them; docs/reference/events.md, docs/explanation/security.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import StateError, WireError, sanitize
from iostats.base.ids import Nid, NodeName
from iostats.harvest.events.connections import CLOCKS_DIFFER_S, GONE_EVICTED, UNCLEAR, Connections
from iostats.harvest.events.connections import KINDS as CONNECTION_KINDS
from iostats.harvest.events.event_filter import MOST_ROWS
from iostats.harvest.events.reported_metrics import (
    build_metrics_rows,
    build_quota_rows,
    list_quota_ids,
)
from iostats.jobs.job_parts import list_runs
from iostats.load.ranking import make_natural_sort_key
from iostats.lustre.kernel_log import CONNECTION_LOST, EVICTED
from iostats.wire import protocol

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Optional

    from iostats.harvest.events.capacities import CapacityParams
    from iostats.harvest.events.connections import LostConnection
    from iostats.harvest.events.event_filter import EventsParams, EventsStatusParams, JobPart
    from iostats.harvest.events.intake import SiteEvents
    from iostats.harvest.events.reported_metrics import QuotasParams
    from iostats.harvest.intake import Harvest
    from iostats.jobs.all_jobs import AllJobs
    from iostats.store.record_store import Store

    _Answer = Generator[None, None, dict[str, Any]]

_DOWN_WITHIN_S = 7 * 86400.0    # by default, connections that were lost before are left out
_MAX_UNNAMED = 1_000
_MAX_CHECKED = 1_000            # nodes that are checked for I/O


class EventAnswers:
    """Answers queries of events; `user` None may see all."""

    def __init__(self, events: SiteEvents, store: Store, all_jobs: AllJobs,
                 harvest: Harvest) -> None:
        self._events, self._store = events, store
        self._all_jobs, self._harvest = all_jobs, harvest

    def events(self, params: EventsParams, user: Optional[str]) -> _Answer:
        """
        The answer to EventsParams, in steps; `user`: an ordinary user, None for one who may see
        all.
        """
        try:
            parts = self._list_parts(params.job, user) if params.job else None
            answer = yield from self._events.query(params, user is None, parts)
            return {**answer, "of_user": user or ""}
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _list_parts(self, job: str, user: Optional[str]) -> list[JobPart]:
        """The JobParts of a job's runs; only those of `user`, if given."""
        runs = [run for run in list_runs(job, self._store, self._all_jobs, self._harvest)
                if user is None or run.user == user]
        if not runs:
            raise WireError(protocol.REFUSED, (
                f"no job {job[:80]} of {user} is known here; users see only their own jobs"
                if user is not None else
                f"no job {job[:80]} is known here; select its nodes and its time instead"))
        return [self._events.make_part(run.nodes, run.file_systems, run.since,
                                       self._events.now() if run.until is None else run.until,
                                       run.user)
                for run in runs]

    def status(self, params: EventsStatusParams, user: Optional[str]) -> _Answer:
        """The answer to EventsStatusParams, in steps; `user` as in `events`."""
        if user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers, got user {user}: connections are of all "
                f"nodes; for a job of your own: iostats events --job JOB"))
        try:
            return (yield from self._answer_status(params))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def capacity(self, params: CapacityParams) -> _Answer:
        """The answer to CapacityParams, in steps; without a check of rights, as for `lfs df`."""
        try:
            rows = yield from self._events.capacities.rows(params)
            return {"time": self._events.now(), "targets": rows}
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def metrics(self, params: CapacityParams) -> dict[str, object]:
        """The answer to `metrics`; without a check of rights: it names no user and no node."""
        return {"time": self._events.now(), **build_metrics_rows(
            self._events.reporting_servers, params.file_systems, params.targets)}

    def quotas(self, params: QuotasParams, user: Optional[str]) -> dict[str, object]:
        """The answer to `quotas`; an ordinary `user` gets those of the user and of its groups."""
        allowed = None if user is None else list_quota_ids(user)
        return {"time": self._events.now(), **build_quota_rows(
            self._events.reporting_servers, params.file_systems,
            lambda kind, number: allowed is None or (kind, number) in allowed)}

    def _answer_status(self, params: EventsStatusParams) -> _Answer:
        now = self._events.now()
        file_systems, nodes = frozenset(params.file_systems), frozenset(params.nodes)
        servers = []
        for node, server in sorted(self._events.reporting_servers.of.items()):
            if (nodes and node not in nodes) or (file_systems and file_systems.isdisjoint(
                    self._events.reporting_servers.served(node) or ())):
                continue
            servers.append({"node": node, "heard": server.received_at, "every": server.every_s,
                            "late": server.is_late(now), "made": server.made,
                            "dropped": server.dropped, **_EMPTY, **{
                                part: value for part, value in server.status.items()
                                if part not in _OF_LISTS}})
            yield
        connections, since = Connections(self._events.find_node), params.since
        since = now - _DOWN_WITHIN_S if since is None else since
        for number, placed in enumerate(self._events.in_time(since, now, CONNECTION_KINDS)):
            if placed is not None:
                connections.add(placed.event)
            if number % ITEMS_PER_STEP == 0:
                yield
        connections_down: list[LostConnection] = []
        count = 0
        for lost in connections.list_down():
            if lost is None:
                yield
            elif lost.since >= since and (
                    not file_systems or lost.file_system in file_systems) and (
                    not nodes or lost.node in nodes or not nodes.isdisjoint(lost.nids)):
                connections_down.append(lost)
                count += 1
                if len(connections_down) >= 2 * MOST_ROWS:
                    connections_down = _select_latest_lost_connections(connections_down)
        keyed = []
        for number, lost in enumerate(_select_latest_lost_connections(connections_down)):
            keyed.append((-lost.since, make_natural_sort_key(lost.node), lost.target, number, lost))
            if number % ITEMS_PER_STEP == 0:
                yield
        shown = [lost for *_, lost in sorted(keyed)]
        active = yield from self.query_active_clients(shown, now)
        unnamed = [evictions for evictions in connections.unnamed
                   if not file_systems or evictions.file_system in file_systems]
        return {"time": now, "since": since, "servers": servers,
                "down": [_make_down_row(lost, active.get((lost.node, lost.file_system)))
                         for lost in shown],
                "down_more": count - len(shown) + connections.left_out,
                "unnamed": [evictions._asdict()
                            for evictions in sorted(unnamed, key=lambda row: -row.time)
                            [:_MAX_UNNAMED]],
                "unnamed_more": max(0, len(unnamed) - _MAX_UNNAMED)
                + connections.unnamed_left_out}

    def query_active_clients(self, connections_down: list[LostConnection], now: float,
                             ) -> Generator[None, None, dict[tuple[str, str], bool]]:
        """Return {(node, file system): whether it did I/O there after its connection was lost}."""
        clients = self._harvest.clients
        if clients.sweep is None:
            return {}
        since: dict[tuple[str, str], float] = {}
        for lost in connections_down:
            key = lost.node, lost.file_system
            since[key] = max(since.get(key, lost.since), lost.since)
        checked = [*since][:_MAX_CHECKED]
        answers = yield from clients.between_each([
            (since[node, name] + CLOCKS_DIFFER_S, now,
             [*(clients.names.list_nids(NodeName(node)) or [Nid(node)])])
            for node, name in checked])
        return {(node, name): any(any(totals.low) for (used, _), totals in answer.items()
                                  if used == name)
                for (node, name), answer in zip(checked, answers)}


def _select_latest_lost_connections(connections_down: list[LostConnection]) -> list[LostConnection]:
    """The MOST_ROWS connections that were lost last."""
    return sorted(connections_down, key=lambda lost: -lost.since)[:MOST_ROWS]


def _make_down_row(lost: LostConnection, is_active: Optional[bool]) -> dict[str, Any]:
    """A row of `down`; `is_active`: it has done I/O since, None if unknown."""
    state = UNCLEAR if is_active else lost.state
    how = f" ({lost.cause})" if lost.cause else ""
    report = ("lost the connection, as it reports" if lost.kind == CONNECTION_LOST else
              "evicted, as it reports" if lost.told_by == lost.node else
              f"evicted by {lost.told_by}{how}")
    since = (f"; did I/O at {lost.file_system} since" if is_active else
             ", as it connected again" if lost.told_by == lost.node and lost.kind == EVICTED else
             "; reconnected at about that time" if state == UNCLEAR else
             "; no report since" if state == GONE_EVICTED else "")
    return {**lost._asdict(), "state": state, "active": is_active, "why": sanitize(report + since)}


_OF_LISTS = ("metrics", "quotas")           # which have answers of their own
# The status of a storage server that has not reported one.
_EMPTY: dict[str, Any] = {"health": "", "targets": {}, "log": {}}
