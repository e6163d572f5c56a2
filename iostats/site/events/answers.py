"""
The site server's answers to `events` and `events_status`, and who gets which; docs/events.md,
docs/security.md.
"""

from __future__ import annotations

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import StateError, WireError, one_line
from iostats.load.ranking import natural
from iostats.lustre.kernel_log import CONNECTION_LOST, EVICTED
from iostats.site.events.connections import (
    CLOCKS_DIFFER_S,
    GONE_EVICTED,
    UNCLEAR,
    Connections,
)
from iostats.site.events.connections import KINDS as CONNECTION_KINDS
from iostats.site.events.job_parts import runs_of
from iostats.site.events.questions import MOST_ROWS
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Optional

    from iostats.site.all_jobs import AllJobs
    from iostats.site.events.connections import Gone
    from iostats.site.events.intake import SiteEvents
    from iostats.site.events.questions import EventsParams, EventsStatusParams, JobPart
    from iostats.site.harvest_intake import Harvest
    from iostats.site.store import Store

    _Answer = Generator[None, None, dict[str, Any]]

_DOWN_S = 7 * 86400.0           # connections that were lost before are not asked for by themselves
_MOST_UNNAMED = 1_000
_MOST_ASKED = 1_000             # nodes of which it is looked whether they do something


class EventAnswers:
    """Answers questions about `events` of users; who may see all is asked as None."""

    def __init__(self, events: SiteEvents, store: Store, all_jobs: AllJobs,
                 harvest: Harvest) -> None:
        self._events, self._store = events, store
        self._all_jobs, self._harvest = all_jobs, harvest

    def events(self, ask: EventsParams, user: Optional[str]) -> _Answer:
        """The answer to EventsParams, in steps; `user`: an ordinary one, None for all others."""
        try:
            parts = self._parts(ask.job, user) if ask.job else None
            answer = yield from self._events.ask(ask, user is None, parts)
            return {**answer, "of_user": user or ""}
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _parts(self, job: str, user: Optional[str]) -> list[JobPart]:
        """Of the runs of a job; of those of `user` alone, if given."""
        runs = [run for run in runs_of(job, self._store, self._all_jobs, self._harvest)
                if user is None or run.user == user]
        if not runs:
            raise WireError(protocol.REFUSED, (
                f"no job {job[:80]} of {user} is known here, and a user may ask for own jobs alone"
                if user is not None else
                f"no job {job[:80]} is known here; ask for its nodes and its time"))
        return [self._events.part_of(run.nodes, run.file_systems, run.since,
                                     self._events.now() if run.until is None else run.until)
                for run in runs]

    def status(self, ask: EventsStatusParams, user: Optional[str]) -> _Answer:
        """The answer to EventsStatusParams, in steps; `user` as in `events`."""
        if user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers, got user {user}: who is connected is of "
                f"all nodes; what happened to a job of yours: iostats events --job JOB"))
        try:
            return (yield from self._status(ask))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _status(self, ask: EventsStatusParams) -> _Answer:
        now = self._events.now()
        file_systems, nodes = frozenset(ask.file_systems), frozenset(ask.nodes)
        servers = []
        for node, teller in sorted(self._events.tellers.of.items()):
            if (nodes and node not in nodes) or (file_systems and file_systems.isdisjoint(
                    self._events.tellers.served(node) or ())):
                continue
            servers.append({"node": node, "heard": teller.heard, "every": teller.every,
                            "late": teller.is_late(now), "made": teller.made,
                            "dropped": teller.dropped, **_EMPTY, **teller.status})
            yield
        connections, since = Connections(self._events.node_of), ask.since
        since = now - _DOWN_S if since is None else since
        for number, one in enumerate(self._events.in_time(since, now, CONNECTION_KINDS)):
            if one is not None:
                connections.add(one.event)
            if number % AT_ONCE == 0:
                yield
        found: list[Gone] = []
        count = 0
        for gone in connections.gone():
            if gone is None:
                yield
            elif gone.since >= since and (
                    not file_systems or gone.file_system in file_systems) and (
                    not nodes or gone.node in nodes or not nodes.isdisjoint(gone.nids)):
                found.append(gone)
                count += 1
                if len(found) >= 2 * MOST_ROWS:
                    found = _latest(found)
        keyed = []
        for number, gone in enumerate(_latest(found)):
            keyed.append((-gone.since, natural(gone.node), gone.target, number, gone))
            if number % AT_ONCE == 0:
                yield
        shown = [gone for *_, gone in sorted(keyed)]
        active = yield from self._active(shown, now)
        unnamed = [one for one in connections.unnamed
                   if not file_systems or one.file_system in file_systems]
        return {"time": now, "since": since, "servers": servers,
                "down": [_down(one, active.get((one.node, one.file_system))) for one in shown],
                "down_more": count - len(shown) + connections.left_out,
                "unnamed": [one._asdict() for one in sorted(unnamed, key=lambda one: -one.time)
                            [:_MOST_UNNAMED]],
                "unnamed_more": max(0, len(unnamed) - _MOST_UNNAMED)
                + connections.unnamed_left_out}

    def _active(self, found: list[Gone], now: float,
                ) -> Generator[None, None, dict[tuple[str, str], bool]]:
        """Which (node, file system) of these did something there after they were gone."""
        clients = self._harvest.clients
        if clients.sweep is None:
            return {}
        since: dict[tuple[str, str], float] = {}
        for one in found:
            key = one.node, one.file_system
            since[key] = max(since.get(key, one.since), one.since)
        asked = [*since][:_MOST_ASKED]
        answers = yield from clients.each_between([
            (since[node, name] + CLOCKS_DIFFER_S, now, clients.names.nids_of(node) or [node])
            for node, name in asked])
        return {(node, name): any(any(totals.low) for (other, _), totals in answer.items()
                                  if other == name)
                for (node, name), answer in zip(asked, answers)}


def _latest(found: list[Gone]) -> list[Gone]:
    """The MOST_ROWS of these that were lost last."""
    return sorted(found, key=lambda gone: -gone.since)[:MOST_ROWS]


def _down(one: Gone, is_active: Optional[bool]) -> dict[str, Any]:
    """A row of `down`; `is_active`: it did something since, None where that is not known."""
    state = UNCLEAR if is_active else one.state
    how = f" ({one.cause})" if one.cause else ""
    told = ("lost the connection, as it says" if one.kind == CONNECTION_LOST else
            "evicted, as it says" if one.told_by == one.node else
            f"evicted by {one.told_by}{how}")
    since = (f"; did I/O at {one.file_system} since" if is_active else
             ", as it connected anew" if one.told_by == one.node and one.kind == EVICTED else
             "; came back at about that time" if state == UNCLEAR else
             "; not heard of since" if state == GONE_EVICTED else "")
    return {**one._asdict(), "state": state, "active": is_active, "why": one_line(told + since)}


# Of a storage server that has not said how it stands.
_EMPTY: dict[str, Any] = {"health": "", "targets": {}, "log": {}}
