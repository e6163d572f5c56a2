"""
Events that arrive after the record of a job that they concern: the record is made again.

    a commit               events of storage servers that are new, or have grown
    each CHECK_EVERY_S     which of the jobs with a record, that ran at that time, do they concern?
                           -> open_jobs: their record is due

An agent reads its sources each 10 s, and a client is evicted some time after its last request: so
the last events of a job arrive after its record.  An event that only may be about a job does not
make its record due, so that a flood does not make the records of all jobs again and again.  After
a restart the events of the last _RECENT_S are checked once more; a record that has them is left
alone.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from iostats.base.errors import StateError
from iostats.store.record_store import Key, report_damage
from iostats.totals.record import Record
from iostats.totals.reported_events import SENT_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.events.event import Event
    from iostats.harvest.events.intake import SiteEvents
    from iostats.jobs.events_of_record import RecordEvents
    from iostats.jobs.open_jobs import OpenJobs
    from iostats.store.event_store import Change
    from iostats.store.record_store import Store

log = logging.getLogger(__name__)

CHECK_EVERY_S = 5.0
_RECENT_S = 900.0
_PAUSE_S = 30.0                 # between two records of a job
_MAX_WAITING = 1_000            # events until the next check: the most severe
_MAX_JOBS = 10_000              # that ran during these events
_STEP_S = 0.005


class LateEvents:
    """Makes a record due again when events arrive that concern its job."""

    def __init__(self, events: SiteEvents, store: Store, jobs: OpenJobs,
                 record_events: RecordEvents) -> None:
        self._events, self._store, self._jobs = events, store, jobs
        self._record_events = record_events
        self._waiting: dict[str, Event] = {}
        self._checked_once: dict[str, Event] = {}          # checked once
        self._due_since: dict[Key, float] = {}  # when a record was made due, store's time
        events.listeners.append(self._collect_changes)

    def _collect_changes(self, changes: Sequence[Change]) -> None:
        self._collect(change.event for change in changes)

    def _collect(self, events: Iterable[Event]) -> None:
        # A node's own events come in its report, after which there is another record anyway.
        self._waiting.update((event.id, event) for event in events
                             if event.node in self._events.reporting_servers.of)
        if len(self._waiting) > 2 * _MAX_WAITING:
            by_severity = sorted(self._waiting.values(),
                                 key=lambda event: (-event.severity, event.id))
            self._waiting = {event.id: event for event in by_severity[:_MAX_WAITING]}

    async def work(self) -> None:
        """Check at intervals, until cancelled."""
        now = self._events.now()
        try:
            for stored in self._events.in_time(now - _RECENT_S, now):
                if stored is None:
                    await asyncio.sleep(0)              # after a flood there are a million
                else:
                    self._collect((stored.event,))
        except StateError as error:
            self._store.trouble.emit(error)
        while True:
            try:
                await self._check()
            except StateError as error:
                self._store.trouble.emit(error)
            except Exception:
                log.exception("internal error; please report: in events after the record")
            await asyncio.sleep(CHECK_EVERY_S)

    async def _check(self) -> None:
        new, self._waiting = self._waiting, {}
        # Twice: a record that was being made at the first check may have read its events before.
        events, self._checked_once = [*{**self._checked_once, **new}.values()], new
        if not events:
            return
        since = min(event.time for event in events)
        until = max(max(event.last, event.over or event.last) for event in events)
        keys = self._store.rows(
            "SELECT cluster, job, attempt FROM summaries WHERE over >= ? AND began <= ? "
            "ORDER BY over DESC LIMIT ?", (since - SENT_WITHIN_S, until, _MAX_JOBS), Key)
        due, began, now = [], monotonic(), self._store.now()
        self._due_since = {key: at for key, at in self._due_since.items()
                           if 0 <= now - at < _PAUSE_S}
        for key in keys:
            # At the next check: it gets many events at once.
            if key in self._due_since or key in self._jobs.jobs:
                self._checked_once = {event.id: event for event in events}
            elif self._is_event_missing(key, events):
                due.append(key)
                self._due_since[key] = now
            if monotonic() - began > _STEP_S:
                await asyncio.sleep(0)
                began = monotonic()
        self._jobs.expect_events(due)

    def _is_event_missing(self, key: Key, events: Iterable[Event]) -> bool:
        """Whether an event concerns a job and its record lacks it, or has an older state of it."""
        body = next(self._store.read_records([key]), None)
        if body is None:
            return False
        with report_damage(self._store.path):
            record = Record.of(msgspec.json.decode(body))
        run = self._record_events.describe_run(record)
        if run is None:
            return False
        events_by_id = {event.id: event for event in record.events or ()}
        return any(self._record_events.is_certain(event, run)
                   and _is_newer(event, events_by_id.get(event.id)) for event in events)


def _is_newer(event: Event, stored: object) -> bool:
    """Whether an event has more than its JobEvent in a record; `stored`: that, or None."""
    return stored is None or bool(
        getattr(stored, "clients", None) not in (None, event.count)
        or round(event.last, 3) > getattr(stored, "last", 0.0)
        or (event.over is not None and getattr(stored, "over", None) is None
            and getattr(stored, "told_by", "") == "servers"))
