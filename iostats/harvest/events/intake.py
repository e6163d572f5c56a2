"""
The events of a site, on the site's server: `server.events`.

    message of an agent  ->  its events in the store, in steps  ->  commit  ->  the agent gets its
    answer
    report of a node     ->  its events in the store            ->  commit  ->  the node gets its
    answer
    commit               ->  followers.py: sinks, the command of [events] on_critical
    query                ->  event_filter.py

An event is identified by its id, so a message that arrives twice adds nothing, and a message that
was stored in part before a kill does no harm: the agent sends it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from heapq import heappush, heappushpop
from typing import Any, NamedTuple, Optional

from iostats.base.config import Config
from iostats.base.cooperative import run_to_end
from iostats.base.errors import StateError, sanitize
from iostats.base.ids import Nid, NodeName
from iostats.base.users import find_user
from iostats.events.event import Event, as_json
from iostats.events.kinds import CAUSES, KINDS
from iostats.harvest.clients.node_names import NodeNames
from iostats.harvest.events import event_filter
from iostats.harvest.events.capacities import Capacities
from iostats.harvest.events.event_filter import EVER, EventsParams, JobPart
from iostats.harvest.events.followers import Follower, Followers
from iostats.harvest.events.reporting_servers import ReportingServers
from iostats.harvest.sink import Sink
from iostats.lustre.kernel_log import OTHER
from iostats.lustre.quota import USER
from iostats.store.event_store import MOST_AT_ONCE, Change, EventStore, Placed
from iostats.store.record_store import Store
from iostats.wire.messages.events import ReceivedEvents
from iostats.wire.messages.report import NodeReport, ReportedEvent

log = logging.getLogger(__name__)

POLL_EVERY_S = 1.0
_DAY_S = 86400.0
_MAX_OF_JOB = 1_000
_ROWS_IN_A_STEP = 100           # events of a message, rows of an answer: some 2 ms


class EventsOfJob(NamedTuple):
    """The events of a job."""

    # [Event], by time; if there are too many, the most severe, and of these the earliest
    events: list[Event]
    more: int   # the number of the others


class SiteEvents:
    """
    Stores events, and answers queries of them.

    `names`: the NodeNames, for the node of a NID; `sinks`, `more`: see followers.Followers.

    Attributes:
        reporting_servers: the ReportingServers.
        capacities: the Capacities of their targets.
        followers: the Followers.
        listeners: are called with [Change] that are on the disk now; they return at once.
    """

    def __init__(self, store: Store, config: Config, now: Callable[[], float], names: NodeNames,
                 sinks: Iterable[Sink] = (), more: Iterable[Follower] = ()) -> None:
        """Read the store; StateError."""
        self._database, self._now, self._names = store, now, names
        self._keep_s = _DAY_S * config.events.keep_days
        self._store = EventStore(store, config.events.keep_count)
        self.reporting_servers = ReportingServers(self._store)
        self.capacities = Capacities(store, self.reporting_servers.of)
        names.add_nids(map(Nid, self._store.nids))
        self._changes: list[Change] = []                # which the next commit puts on the disk
        self._committed = self._store.last              # the newest place on the disk
        self._refused = 0
        self.listeners: list[Callable[[Sequence[Change]], None]] = []
        self.followers = Followers(sinks, self._store, self._read_after, lambda: self._committed,
                                   self.find_node, more)

    # -- messages --------------------------------------------------------------------------------

    def receive(self, received: ReceivedEvents,
                node: str) -> Generator[None, None, dict[str, object]]:
        """
        Receive a message of the storage server `node`, in steps; returns the answer.

        It is on the disk with the next commit, after which the answer is sent.  WireError.
        """
        now = self._now()
        for at in range(0, len(received.events), _ROWS_IN_A_STEP):
            if at:                          # a short message is stored in one step
                yield
            self._store_events([_as_event(reported, now)
                                for reported in received.events[at:at + _ROWS_IN_A_STEP]])
        if received.head.is_server:
            self.reporting_servers.note_message(node, received.head, received.made, now)
            self.capacities.add(node)
        return {"taken": True, "why": ""}

    def take_reported(self, report: NodeReport) -> None:
        """Store the events in a node's report, after check_report(); StateError."""
        if report.events:
            now = self._now()
            self._store_events([_as_event(reported, now) for reported in report.events])

    def _store_events(self, events: Sequence[Event]) -> None:
        stored = self._store.add_events(events)
        self._changes += stored.changes
        # Queries and records look up the events of a node by its NIDs.
        self._names.add_nids(Nid(client) for change in stored.changes
                             for client in change.event.clients if "@" in client)
        if stored.refused:
            before, self._refused = self._refused, self._refused + stored.refused
            if before.bit_length() != self._refused.bit_length():   # 1, 2, 4, ...: a short log
                log.warning("%s left out: the same ids as of other events (the last of %s)",
                            "1 event" if self._refused == 1 else f"{self._refused:,} events",
                            events[0].node, extra={"node": events[0].node})

    # -- commits ---------------------------------------------------------------------------------

    def committed(self) -> None:
        """Forward the changes of a commit: they are on the disk."""
        self._committed = self._store.last
        self._store.committed()
        changes, self._changes = self._changes, []
        news, self.reporting_servers.news = self.reporting_servers.news, {}
        try:
            for listener in self.listeners:
                listener(changes)
            if changes:
                self.followers.changed(changes)
            for node, server in news.items():
                self.followers.status(node, server.received_at, server.every_s, server.status)
        except Exception:                   # in a receiver: the events are stored in any case
            log.exception("internal error; please report: events were not forwarded")

    def reload(self) -> None:
        """Drop the changes since the last commit: they are not stored; StateError."""
        self._changes.clear()
        self.reporting_servers.reload()
        self.capacities.reload()
        self._store.drop_changes()

    def _read_after(self, place: int, limit: int) -> list[tuple[int, Event]]:
        """Return [(place, Event)] after `place`, of the committed ones; StateError."""
        return [(placed.place, placed.event)
                for placed in self._store.after(place, self._committed, limit)]

    # -- background work -------------------------------------------------------------------------

    async def work(self) -> None:
        """Do the periodic work, until cancelled."""
        self.followers.begin()
        for node, server in self.reporting_servers.of.items():    # as it was before a restart
            self.followers.status(node, server.received_at, server.every_s, server.status)
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            try:
                while self.delete_expired():
                    await asyncio.sleep(0)
            except StateError as error:
                self._database.trouble.emit(error)
                await asyncio.sleep(60)
            except Exception:
                log.exception("internal error; please report: in the events")
                await asyncio.sleep(60)

    def delete_expired(self) -> bool:
        """
        Remove some of the events older than [events] keep_days; True if there are more.
        StateError.
        """
        count = self._store.delete_old(self._database.now() - self._keep_s)
        if count:
            self._database.commit()
        self.reporting_servers.delete_before(self._now() - self._keep_s)
        return count >= MOST_AT_ONCE

    def close(self) -> None:
        """Close the followers, after the sinks."""
        self.followers.close()

    # -- queries ---------------------------------------------------------------------------------

    def query(self, params: EventsParams, is_reader: bool,
              parts: Optional[Sequence[JobPart]]) -> Generator[None, None, dict[str, object]]:
        """The answer to EventsParams, in steps; `parts`: of the job in the query, or None."""
        since = -EVER if params.since is None else params.since
        until = EVER if params.until is None else params.until
        is_match = event_filter.make_filter(params, self.find_node, parts,
                                            self.reporting_servers.served)
        if parts is not None:
            since = max(since, min((part.since for part in parts), default=EVER))
            until = min(until, max((part.until for part in parts), default=-EVER))
        where, values = event_filter.build_clause(params, since, until, self._names.list_nids,
                                                  parts)
        if not is_reader and parts is None:
            where += f" AND {event_filter.IS_OF_ALL}"
        newest = self._committed
        matches: list[Placed] = []
        latest: list[tuple[float, int, Placed]] = []            # a heap, for `last`
        place, more = newest, False
        for after, last, ends in self._store.parts(params.after, newest, since, until,
                                                   bool(params.last)):
            if params.last and len(latest) == params.last and ends < latest[0][0]:
                break
            for placed in self._store.part(after, last, where, values):
                if not is_match(placed.event):
                    continue
                if not is_reader:
                    shown = self._redact_for_user(placed, parts or ())
                    if shown is None:
                        continue
                    placed = shown
                if not params.last:
                    matches.append(placed)
                elif len(latest) < params.last:
                    heappush(latest, (placed.event.time, placed.place, placed))
                else:
                    heappushpop(latest, (placed.event.time, placed.place, placed))
            if not params.last and len(matches) > params.limit:
                matches, more = matches[:params.limit], True
                place = matches[-1].place
                break
            yield
        if params.last:
            matches = sorted((placed for _, _, placed in latest), key=lambda placed: placed.place)
        rows = []
        for number, placed in enumerate(matches):
            rows.append(self._make_row(placed))
            if number % _ROWS_IN_A_STEP == 0:
                yield
        return {"events": rows, "next": place, "more": more, "places": self._store.numbering,
                "time": self._now(), "dropped": self._count_dropped(since)}

    def find_node(self, client: str) -> str:
        """Return the name of a node; the NID if the name is unknown, which is then looked up."""
        if "@" in client:
            self._names.add_nids((Nid(client),))
        return self._names.find_node(Nid(client))

    def now(self) -> float:
        """The site's clock, s since 1970."""
        return self._now()

    def _count_dropped(self, since: float) -> int:
        return self._store.dropped if since <= self._store.dropped_until else 0

    def _make_row(self, placed: Placed) -> dict[str, Any]:
        return {**as_json(placed.event), "place": placed.place,
                "clients_names": [sanitize(self.find_node(client))
                                  for client in placed.event.clients]}

    def _redact_for_user(self, placed: Placed, parts: Sequence[JobPart]) -> Placed | None:
        concerned = [part for part in parts
                     if event_filter.is_about_job(placed.event, part,
                                                  self.reporting_servers.served)]
        event = event_filter.redact_for_user(placed.event, self.reporting_servers.of.__contains__,
                                             concerned)
        return None if event is None else Placed(placed.place, event)

    def make_part(self, nodes: Iterable[str], file_systems: Iterable[str] | None, since: float,
                  until: float, user: str = "") -> JobPart:
        """The JobPart of a run: with the NIDs of its nodes that are known."""
        names = frozenset(nodes)
        nids = {nid for node in names for nid in (
            self._names.list_nids(NodeName(node))
            or self._names.list_nids(NodeName(node.partition(".")[0])))}
        return JobPart(names, frozenset(nids),
                       None if file_systems is None else frozenset(file_systems), since, until,
                       _format_user(user))

    def is_about_run(self, event: Event, part: JobPart) -> bool:
        """Whether an event concerns a run of a job."""
        return event_filter.is_about_job(event, part, self.reporting_servers.served)

    def find_events(self, nodes: Iterable[str], file_systems: Iterable[str], since: float,
                    until: float) -> EventsOfJob:
        """The EventsOfJob of find_events_in_steps(), in one step."""
        return run_to_end(self.find_events_in_steps(nodes, file_systems, since, until))

    def find_events_in_steps(self, nodes: Iterable[str], file_systems: Iterable[str], since: float,
                             until: float) -> Generator[None, None, EventsOfJob]:
        """
        The EventsOfJob of a run from the events so far: of its nodes (names), reported by them or
        by storage servers, and of targets of `file_systems`; between two moments.
        """
        return (yield from self.find_part_events_in_steps(self.make_part(nodes, file_systems, since,
                                                                         until)))

    def find_part_events_in_steps(self, part: JobPart,
                                  may_be: Callable[[Event], bool] = lambda event: False,
                                  known: Collection[tuple[str, str]] = ()
                                  ) -> Generator[None, None, EventsOfJob]:
        """
        The EventsOfJob of a JobPart; `may_be`: which other evictions of this time are included;
        `known`: (node, id) of events that are left out.
        """
        matches: list[Event] = []
        more = 0
        for placed in self.in_time(part.since, part.until, parts=[part]):
            if placed is None:
                yield
            elif (placed.event.node, placed.event.id) in known:
                continue
            elif self.is_about_run(placed.event, part) or may_be(placed.event):
                matches.append(placed.event)
                if len(matches) > 2 * _MAX_OF_JOB:
                    matches, left = _select_most_severe(matches)
                    more += left
        matches, left = _select_most_severe(matches)
        return EventsOfJob(sorted(matches, key=lambda event: event.time), more + left)

    def in_time(self, since: float, until: float, kinds: Sequence[str] = (),
                parts: Sequence[JobPart] | None = None) -> Iterator[Placed | None]:
        """
        Events of a time, and None between two steps; `kinds`: only these, if given; `parts`: parts
        of a job, then many that concern none of them are left out, but no eviction.  StateError.
        """
        where, values = event_filter.build_clause(EventsParams(kinds=[*kinds]), since, until,
                                                  self._names.list_nids, parts)
        for after, last, _ in self._store.parts(0, self._committed, since, until):
            yield from self._store.part(after, last, where, values)
            yield None


def _as_event(reported: ReportedEvent, now: float) -> Event:
    """The Event that was reported; none is later than its arrival."""
    last = reported.time if reported.last is None else reported.last
    return Event(reported.id, min(reported.time, now), min(max(reported.time, last), now),
                 None if reported.over is None else min(reported.over, now), reported.severity,
                 reported.kind if reported.kind in KINDS else OTHER,
                 reported.cause if reported.cause in CAUSES else "", reported.node,
                 reported.file_system, reported.target,
                 tuple(dict.fromkeys(reported.clients)), max(1, reported.count), reported.skipped,
                 reported.message)


def _format_user(user: str) -> str:
    """Return a user's name as in events of quotas; "" for one unknown on this machine."""
    account = find_user(user)
    return "" if account is None else f"{USER}:{account.pw_uid}"


def _select_most_severe(events: list[Event]) -> tuple[list[Event], int]:
    """Return (up to _MAX_OF_JOB of these, the number of the others)."""
    events.sort(key=lambda event: (-event.severity, event.time))
    return events[:_MAX_OF_JOB], max(0, len(events) - _MAX_OF_JOB)
