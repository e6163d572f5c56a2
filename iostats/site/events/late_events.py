"""
Events that come after the record of a job that they concern: the record gets them.

    a commit      events of storage servers that are new, or have grown
    each LOOK_S   of the jobs that have a record and ran at that time: whom do they concern?
                  -> open_jobs: their record is due

An agent looks each 10 s, and a client is evicted some time after it fell silent: so the last events
of a job come after its record.  One that only may be about a job waits for another reason, so that
a flood does not make the records of all jobs again and again.  After a restart those of the last
_AGAIN_S are looked at once more; a record that has them is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

import msgspec

from iostats.base.errors import StateError
from iostats.site.store import Key, damage_reported
from iostats.totals.record import Record
from iostats.totals.reported_events import SENT_WITHIN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.events.event import Event
    from iostats.site.events.followers import Change
    from iostats.site.events.intake import SiteEvents
    from iostats.site.events.of_record import RecordEvents
    from iostats.site.open_jobs import OpenJobs
    from iostats.site.store import Store

log = logging.getLogger("iostats")

LOOK_S = 5.0
_AGAIN_S = 900.0
_PAUSE_S = 30.0                 # between two records of a job
_MOST_WAITING = 1_000           # events between two looks: the most severe
_MOST_JOBS = 10_000             # that ran at the time of these
_STEP_S = 0.005


class LateEvents:
    """Looks whom events concern that have come after the record."""

    def __init__(self, events: SiteEvents, store: Store, jobs: OpenJobs,
                 of_record: RecordEvents) -> None:
        self._events, self._store, self._jobs = events, store, jobs
        self._of_record = of_record
        self._waiting: dict[str, Event] = {}
        self._once_more: dict[str, Event] = {}          # were looked at once
        self._made: dict[Key, float] = {}               # when a record was made due, store's time
        events.listeners.append(self._changed)

    def _changed(self, changes: Sequence[Change]) -> None:
        self._take(change.event for change in changes)

    def _take(self, events: Iterable[Event]) -> None:
        # What a node tells comes in the report, after which there is another record anyway.
        self._waiting.update((event.id, event) for event in events
                             if event.node in self._events.tellers.of)
        if len(self._waiting) > 2 * _MOST_WAITING:
            kept = sorted(self._waiting.values(), key=lambda event: (-event.severity, event.id))
            self._waiting = {event.id: event for event in kept[:_MOST_WAITING]}

    async def work(self) -> None:
        """Go on for ever."""
        now = self._events.now()
        try:
            for one in self._events.in_time(now - _AGAIN_S, now):
                if one is None:
                    await asyncio.sleep(0)              # after a flood there are a million
                else:
                    self._take((one.event,))
        except StateError as error:
            self._store.trouble.say(error)
        while True:
            try:
                await self._look()
            except StateError as error:
                self._store.trouble.say(error)
            except Exception:
                log.exception("internal error; please report: in events after the record")
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        new, self._waiting = self._waiting, {}
        # Twice: a record that was being made the first time had asked for its events before.
        events, self._once_more = [*{**self._once_more, **new}.values()], new
        if not events:
            return
        since = min(event.time for event in events)
        until = max(max(event.last, event.over or event.last) for event in events)
        rows = self._store.rows(
            "SELECT cluster, job, attempt FROM summaries WHERE over >= ? AND began <= ? "
            "ORDER BY over DESC LIMIT ?", (since - SENT_WITHIN_S, until, _MOST_JOBS))
        due, began, now = [], monotonic(), self._store.now()
        self._made = {key: at for key, at in self._made.items() if 0 <= now - at < _PAUSE_S}
        for row in rows:
            key = Key(*row)
            if key in self._made or key in self._jobs.jobs:     # later: it is hit by much at once
                self._once_more = {event.id: event for event in events}
            elif self._lacks_some(key, events):
                due.append(key)
                self._made[key] = now
            if monotonic() - began > _STEP_S:
                await asyncio.sleep(0)
                began = monotonic()
        self._jobs.expect_events(due)

    def _lacks_some(self, key: Key, events: Iterable[Event]) -> bool:
        """Whether some of these concern a job and are not in its record as they are now."""
        body = next(self._store.records_of([key]), None)
        if body is None:
            return False
        with damage_reported(self._store.path):
            record = Record.of(msgspec.json.decode(body))
        run = self._of_record.run_of(record)
        if run is None:
            return False
        known = {one.id: one for one in record.events or ()}
        return any(self._of_record.is_certain(event, run)
                   and _is_news(event, known.get(event.id)) for event in events)


def _is_news(event: Event, known: object) -> bool:
    """Whether a JobEvent, or None, says less than the event that it is of."""
    return known is None or bool(
        getattr(known, "clients", None) not in (None, event.count)
        or round(event.last, 3) > getattr(known, "last", 0.0)
        or (event.over is not None and getattr(known, "over", None) is None
            and getattr(known, "told_by", "") == "servers"))
