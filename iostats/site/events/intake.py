"""
The events of a site, on the site's server: `server.events`.

    message of an agent  ->  its events in the store, in steps  ->  commit  ->  it is answered
    report of a node     ->  its events in the store            ->  commit  ->  it is answered
    commit               ->  followers.py: sinks, the command of [events] on_critical
    question             ->  questions.py

An event is taken by its id, so a message that comes twice adds nothing, and a half of one that was
taken before a kill is no harm: the agent sends it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import namedtuple
from heapq import heappush, heappushpop

from iostats.base.cooperative import finished
from iostats.base.errors import StateError, one_line
from iostats.events.event import Event, as_json
from iostats.events.kinds import CAUSES, KINDS
from iostats.lustre.kernel_log import OTHER
from iostats.site.events import questions
from iostats.site.events.event_store import MOST_AT_ONCE, EventStore, Placed
from iostats.site.events.followers import Followers
from iostats.site.events.questions import EVER, EventsParams, JobPart
from iostats.site.events.tellers import Tellers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
    from typing import Any, Optional

    from iostats.base.config import Config
    from iostats.site.clients.node_names import NodeNames
    from iostats.site.events.followers import Change, Follower
    from iostats.site.store import Store
    from iostats.wire.messages.events import ReceivedEvents
    from iostats.wire.messages.report import NodeReport, ReportedEvent

log = logging.getLogger("iostats")

LOOK_EVERY_S = 1.0
_DAY_S = 86400.0
_MOST_OF_JOB = 1_000
_IN_A_STEP = 200                # events of a message, rows of an answer: some 4 ms

EventsOfJob = namedtuple("EventsOfJob", "events more")
EventsOfJob.__doc__ = """
What happened to a job.

Attributes:
    events: [Event], by time; of too many the most severe, and of these the first.
    more: how many others there are.
"""


class SiteEvents:
    """
    Takes events, and answers for them.

    `names`: which node a NID is; `sinks`, `more`: see followers.Followers.

    Attributes:
        tellers: the Tellers: storage servers, and how they stand.
        followers: who is told of events, or None before `begin`.
        listeners: are called with [Change] that are on the disk now; they return at once.
    """

    def __init__(self, store: Store, config: Config, now: Callable[[], float], names: NodeNames,
                 sinks: Iterable[Any] = (), more: Iterable[Follower] = ()) -> None:
        """StateError."""
        self._database, self._now, self._names = store, now, names
        self._keep_s = _DAY_S * config["events.keep_days"]
        self._store = EventStore(store, config["events.keep_count"])
        self.tellers = Tellers(self._store)
        names.see(self._store.nids)
        self._changes: list[Change] = []                # that the next commit puts on the disk
        self._committed = self._store.last              # the newest place that is there
        self._refused = 0
        self.listeners: list[Callable[[Sequence[Change]], None]] = []
        self.followers = Followers(sinks, os.path.dirname(store.path), self._after,
                                   lambda: self._committed, self.node_of, more,
                                   lambda: self._store.numbering)

    # -- messages --------------------------------------------------------------------------------

    def take(self, taken: ReceivedEvents, node: str) -> Generator[None, None, dict[str, Any]]:
        """
        Take a message of the storage server `node`, in steps; the answer.

        It is on the disk with the next commit, after which the answer leaves.  WireError.
        """
        now = self._now()
        for at in range(0, len(taken.events), _IN_A_STEP):
            if at:                          # a short one is taken at once, whatever is answered
                yield
            self._keep([_event_of(one, now) for one in taken.events[at:at + _IN_A_STEP]])
        if taken.head.is_server:
            self.tellers.hear(node, taken.head, taken.made, now)
        return {"taken": True, "why": ""}

    def take_reported(self, report: NodeReport) -> None:
        """The events in a node's report, which check_report() has seen; StateError."""
        if report.events:
            now = self._now()
            self._keep([_event_of(one, now) for one in report.events])

    def _keep(self, events: Sequence[Event]) -> None:
        kept = self._store.keep(events)
        self._changes += kept.changes
        if kept.refused:
            before, self._refused = self._refused, self._refused + kept.refused
            if before.bit_length() != self._refused.bit_length():   # 1, 2, 4, ...: a short log
                log.warning("%s left out: the same ids as of other events (the last of %s)",
                            "1 event" if self._refused == 1 else f"{self._refused:,} events",
                            events[0].node)

    # -- commits ---------------------------------------------------------------------------------

    def committed(self) -> None:
        """What was taken is on the disk."""
        self._committed = self._store.last
        self._store.committed()
        changes, self._changes = self._changes, []
        news, self.tellers.news = self.tellers.news, {}
        try:
            for listener in self.listeners:
                listener(changes)
            if changes:
                self.followers.changed(changes)
            for node, teller in news.items():
                self.followers.status(node, teller.heard, teller.every, teller.status)
        except Exception:                   # of one who is told: what was taken is taken
            log.exception("internal error; please report: events were not told on")

    def reload(self) -> None:
        """What was taken since the last commit is not kept; StateError."""
        self._changes.clear()
        self.tellers.reload()
        self._store.after_failure()

    def _after(self, place: int, most: int) -> list[tuple[int, Event]]:
        """[(place, Event)] behind `place`, of what is committed; StateError."""
        return [(one.place, one.event) for one in self._store.after(place, self._committed, most)]

    # -- what there is to do ---------------------------------------------------------------------

    async def work(self) -> None:
        """Go on for ever."""
        self.followers.begin()
        for node, teller in self.tellers.of.items():    # as it was before a restart
            self.followers.status(node, teller.heard, teller.every, teller.status)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                while self.forget():
                    await asyncio.sleep(0)
            except StateError as error:
                self._database.trouble.say(error)
                await asyncio.sleep(60)
            except Exception:
                log.exception("internal error; please report: in the events")
                await asyncio.sleep(60)

    def forget(self) -> bool:
        """Remove some of what is older than [events] keep_days; is there more?  StateError."""
        count = self._store.forget_old(self._database.now() - self._keep_s)
        if count:
            self._database.commit()
        self.tellers.forget(self._now() - self._keep_s)
        return count >= MOST_AT_ONCE

    def close(self) -> None:
        """After the sinks are closed."""
        self.followers.close()

    # -- questions -------------------------------------------------------------------------------

    def ask(self, ask: EventsParams, is_reader: bool,
            parts: Optional[Sequence[JobPart]]) -> Generator[None, None, dict[str, Any]]:
        """
        The answer to EventsParams, in steps; `parts`: of the job that it asks for, or None.
        """
        since = -EVER if ask.since is None else ask.since
        until = EVER if ask.until is None else ask.until
        is_asked = questions.filter_of(ask, self.node_of, parts, self.tellers.served)
        if parts is not None:
            since = max(since, min((part.since for part in parts), default=EVER))
            until = min(until, max((part.until for part in parts), default=-EVER))
        where, values = questions.clause(ask, since, until, self._names.nids_of, parts)
        if not is_reader and parts is None:
            where += f" AND {questions.IS_OF_ALL}"
        newest = self._committed
        found: list[Placed] = []
        latest: list[tuple[float, int, Placed]] = []            # a heap, for `last`
        place, more = newest, False
        for after, last, ends in self._store.parts(ask.after, newest, since, until, bool(ask.last)):
            if ask.last and len(latest) == ask.last and ends < latest[0][0]:
                break
            for one in self._store.part(after, last, where, values):
                if not is_asked(one.event):
                    continue
                if not is_reader:
                    shown = self._for_user(one, parts or ())
                    if shown is None:
                        continue
                    one = shown
                if not ask.last:
                    found.append(one)
                elif len(latest) < ask.last:
                    heappush(latest, (one.event.time, one.place, one))
                else:
                    heappushpop(latest, (one.event.time, one.place, one))
            if not ask.last and len(found) > ask.limit:
                found, more = found[:ask.limit], True
                place = found[-1].place
                break
            yield
        if ask.last:
            found = sorted((one for _, _, one in latest), key=lambda one: one.place)
        rows = []
        for number, one in enumerate(found):
            rows.append(self._row(one))
            if number % _IN_A_STEP == 0:
                yield
        return {"events": rows, "next": place, "more": more, "places": self._store.numbering,
                "time": self._now(), "dropped": self._dropped_since(since)}

    def node_of(self, client: str) -> str:
        """The name of a node; a NID, of which perhaps events alone tell, where it is not known."""
        if "@" in client:
            self._names.see((client,))
        return self._names.node_of(client)

    def now(self) -> float:
        """The site's clock, s since 1970."""
        return self._now()

    def _dropped_since(self, since: float) -> int:
        return self._store.dropped if since <= self._store.dropped_until else 0

    def _row(self, one: Placed) -> dict[str, Any]:
        return {**as_json(one.event), "place": one.place,
                "clients_names": [one_line(self.node_of(client))
                                  for client in one.event.clients]}

    def _for_user(self, one: Placed, parts: Sequence[JobPart]) -> Placed | None:
        concerned = [part for part in parts
                     if questions.is_of_job(one.event, part, self.tellers.served)]
        event = questions.for_user(one.event, self.tellers.of.__contains__, concerned)
        return None if event is None else Placed(one.place, event)

    def part_of(self, nodes: Iterable[str], file_systems: Iterable[str] | None, since: float,
                until: float) -> JobPart:
        """The JobPart of a run: with the NIDs of its nodes that are known."""
        names = frozenset(nodes)
        nids = {nid for node in names for nid in (
            self._names.nids_of(node) or self._names.nids_of(node.partition(".")[0]))}
        return JobPart(names, frozenset(nids),
                       None if file_systems is None else frozenset(file_systems), since, until)

    def is_of(self, event: Event, part: JobPart) -> bool:
        """Whether an event concerns a run of a job."""
        return questions.is_of_job(event, part, self.tellers.served)

    def of_job(self, nodes: Iterable[str], file_systems: Iterable[str], since: float,
               until: float) -> EventsOfJob:
        """What `of_job_in_steps` finds, in one step."""
        return finished(self.of_job_in_steps(nodes, file_systems, since, until))

    def of_job_in_steps(self, nodes: Iterable[str], file_systems: Iterable[str], since: float,
                        until: float) -> Generator[None, None, EventsOfJob]:
        """
        The EventsOfJob of a run, by what was told up to now: of its nodes (names), by them and by
        storage servers, and of targets of `file_systems`; between two moments.
        """
        return (yield from self.of_part_in_steps(self.part_of(nodes, file_systems, since, until)))

    def of_part_in_steps(self, part: JobPart, may_be: Callable[[Event], bool] = lambda event: False,
                         known: Collection[tuple[str, str]] = ()
                         ) -> Generator[None, None, EventsOfJob]:
        """
        The same; `may_be`: which evictions of this time are wanted besides; `known`: (node, id) of
        events that are not wanted.
        """
        found: list[Event] = []
        more = 0
        for one in self.in_time(part.since, part.until, parts=[part]):
            if one is None:
                yield
            elif (one.event.node, one.event.id) in known:
                continue
            elif self.is_of(one.event, part) or may_be(one.event):
                found.append(one.event)
                if len(found) > 2 * _MOST_OF_JOB:
                    found, left = _most_severe(found)
                    more += left
        found, left = _most_severe(found)
        return EventsOfJob(sorted(found, key=lambda event: event.time), more + left)

    def in_time(self, since: float, until: float, kinds: Sequence[str] = (),
                parts: Sequence[JobPart] | None = None) -> Iterator[Placed | None]:
        """
        Events of a time, and None between two steps: of some kinds, if given; where parts of a job
        are given without many that concern none, but all evictions.  StateError.
        """
        where, values = questions.clause(EventsParams(kinds=[*kinds]), since, until,
                                         self._names.nids_of, parts)
        for after, last, _ in self._store.parts(0, self._committed, since, until):
            yield from self._store.part(after, last, where, values)
            yield None


def _event_of(one: ReportedEvent, now: float) -> Event:
    """The Event that was reported; none is later than the moment at which it came."""
    last = one.time if one.last is None else one.last
    return Event(one.id, min(one.time, now), min(max(one.time, last), now),
                 None if one.over is None else min(one.over, now), one.severity,
                 one.kind if one.kind in KINDS else OTHER,
                 one.cause if one.cause in CAUSES else "", one.node, one.file_system, one.target,
                 tuple(dict.fromkeys(one.clients)), max(1, one.count), one.skipped, one.message)


def _most_severe(events: list[Event]) -> tuple[list[Event], int]:
    """(up to _MOST_OF_JOB of these, how many are left out)."""
    events.sort(key=lambda event: (-event.severity, event.time))
    return events[:_MOST_OF_JOB], max(0, len(events) - _MOST_OF_JOB)
