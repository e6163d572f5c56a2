"""
One event of what two sources say of one happening, and when it was over.

A line of the log, a count in /sys and the history of a state may all tell of one eviction.  Two of
different sources are one when kind and target are the same, both are a client's or both a storage
server's, and their times fit; the event keeps the id it was told by first.  Of what a storage
server only counted, those that the log has are taken off.

What ends another: a restored connection ends the loss of it, and a client's eviction; a target that
is up ends that it was down; healthy ends not healthy.
"""

from __future__ import annotations

from iostats.events.event import LONGEST_MESSAGE, Event, as_json, from_json, latest
from iostats.events.kinds import HEALTHY
from iostats.lustre.kernel_log import (
    CONNECTION_LOST,
    CONNECTION_RESTORED,
    EVICTED,
    NOT_HEALTHY,
    RECOVERY,
    TARGET_DOWN,
    TARGET_UP,
    TIMEOUTS,
)

LOG = "log"
COUNTED = "unknown"                     # the cause of evictions that were only counted
# How far the times of two sources may be apart, s; of other kinds no two sources tell.
_APART_S = {EVICTED: 5.0, CONNECTION_LOST: 5.0, CONNECTION_RESTORED: 5.0, TIMEOUTS: 5.0,
            RECOVERY: 30.0, TARGET_DOWN: 30.0, TARGET_UP: 30.0, NOT_HEALTHY: 60.0, HEALTHY: 60.0}
_ENDS = {CONNECTION_RESTORED: (CONNECTION_LOST, EVICTED, TIMEOUTS), TARGET_UP: (TARGET_DOWN,),
         HEALTHY: (NOT_HEALTHY,)}
# Told again and again while it lasts: the kernel says so each time that health_check is read.
_LASTS = {NOT_HEALTHY: 3600.0}
_AGAIN_S = 60.0                         # and sent again not more often than this
_MOST = 2000                            # events that are remembered
_MOST_OF_ONE = 16                       # of a kind at a target
_MOST_LOGGED = 64


class Joiner:
    """What was told lately; it gives each event as it is to be told."""

    def __init__(self, kept: dict[str, object] | None = None) -> None:
        """`kept`: as as_json() gave it; of another form: ValueError, TypeError, KeyError."""
        self._told: dict[str, tuple[Event, str]] = {}
        self._by_kind: dict[tuple[str, str], list[str]] = {}
        self._same: dict[str, str] = {}                         # id -> the id it is told by
        self._logged: dict[str, list[list[float]]] = {}         # target -> [[time, evictions]]
        if kept is not None:
            for value, source in kept["told"]:                  # type: ignore
                self._remember(from_json(value), str(source))
            for one, other in kept["same"]:                     # type: ignore
                self._same[str(one)] = str(other)
            for target, values in kept["logged"]:               # type: ignore
                self._logged[str(target)] = [[float(when), int(n)] for when, n in values]

    def as_json(self) -> dict[str, object]:
        return {"told": [[as_json(event), source] for event, source in self._told.values()],
                "same": list(self._same.items()), "logged": list(self._logged.items())}

    def take(self, event: Event, source: str) -> list[Event]:
        """
        What is to be told because of `event`: itself, what it was joined with, what it ends.

        `source`: "log", or the name of another.
        """
        if event.cause == COUNTED and source != LOG:
            less = self._not_in_log(event)
            if less is None:
                return []
            event = less
        event = event._replace(id=self._same.get(event.id, event.id))
        known = self._told.get(event.id) or self._partner(event, source)
        if known is None:
            now, by = event, source
        else:
            before, by = known
            if event.id != before.id:
                self._same[event.id] = before.id
                if len(self._same) > _MOST:
                    del self._same[next(iter(self._same))]
            now = self._together(before, event._replace(id=before.id), source)
            if source == LOG or by == LOG:
                by = LOG
        if source == LOG and event.kind == EVICTED and event.cause:
            self.counted_too(now.target, now.last, now.count - (known[0].count if known else 0))
        if known is not None and not _is_news(known[0], now):
            return []
        self._remember(now, by)
        return [now, *self._ended_by(now)]

    def _together(self, before: Event, event: Event, source: str) -> Event:
        now = latest(before, event)
        if source != LOG and self._told[before.id][1] == LOG:
            now = now._replace(message=before.message)          # what Lustre itself said
        elif source == LOG:
            now = now._replace(message=event.message or before.message)
        return now._replace(count=1) if event.kind in _LASTS else now

    def _partner(self, event: Event, source: str) -> tuple[Event, str] | None:
        """What was told of the same happening by another source, or before."""
        lasts = _LASTS.get(event.kind)
        apart = _APART_S.get(event.kind)
        if apart is None or event.cause == COUNTED:
            return None
        for id_ in reversed(self._by_kind.get((event.kind, event.target), [])):
            told, by = self._told[id_]
            if told.cause == COUNTED or bool(told.cause) != bool(event.cause):
                continue
            if lasts and told.over is None and 0 <= event.time - told.time and (
                    event.time - told.last < lasts):
                return told, by
            if by != source and (told.time - apart <= event.last
                                 and event.time <= max(told.last, told.over or 0) + apart):
                return told, by
        return None

    def _ended_by(self, event: Event) -> list[Event]:
        ended = []
        for kind in _ENDS.get(event.kind, ()):
            for id_ in list(self._by_kind.get((kind, event.target), [])):
                told, by = self._told[id_]
                # A storage server's evictions are not over when one client is back.
                if told.cause or told.node != event.node or told.last > event.last or (
                        not event.target and event.kind != HEALTHY):
                    continue
                if told.over is None or told.over < told.last:
                    now = told._replace(over=event.last)
                    self._remember(now, by)
                    ended.append(now)
        return ended

    def _remember(self, event: Event, source: str) -> None:
        if event.id not in self._told:
            ids = self._by_kind.setdefault((event.kind, event.target), [])
            ids.append(event.id)
            if len(ids) > _MOST_OF_ONE:
                self._told.pop(ids.pop(0), None)
            if len(self._told) >= _MOST:
                self._forget(next(iter(self._told)))
        self._told[event.id] = (event, source)

    def _forget(self, id_: str) -> None:
        event, _ = self._told.pop(id_)
        ids = self._by_kind.get((event.kind, event.target), [])
        if id_ in ids:
            ids.remove(id_)
        if not ids:
            self._by_kind.pop((event.kind, event.target), None)

    # -- evictions that were counted -------------------------------------------------------------

    def counted_too(self, target: str, when: float, count: int) -> None:
        """
        The log explains `count` more of what a target counts as evicted: evictions that it tells
        of, and connections of other storage servers, which are no clients.
        """
        if count > 0:
            kept = self._logged.setdefault(target, [])
            kept.append([when, count])
            if len(kept) > _MOST_LOGGED:
                kept[1][1] += kept.pop(0)[1]
            if len(self._logged) > _MOST:
                del self._logged[next(iter(self._logged))]

    def _not_in_log(self, event: Event) -> Event | None:
        """
        `event` with the number of evictions that the log has not; None where it has all.

        The count was read before the log: a line that came in between is of the next count.
        """
        count, later = event.count, []
        for when, n in self._logged.pop(event.target, []):
            if when < event.time - 0.5:
                continue
            taken = min(count, int(n)) if when <= event.last + 2.0 else 0
            count -= taken
            if n > taken and when > event.last - 2.0:
                later.append([when, n - taken])
        if later:
            self._logged[event.target] = later
        if count in (0, event.count):
            return event if count else None
        return event._replace(count=count, message=(
            f"{event.message}; {event.count - count} of them are in the log")[:LONGEST_MESSAGE])


def _is_news(before: Event, now: Event) -> bool:
    if before._replace(last=now.last, time=now.time) != now:
        return True
    return bool(now.last - before.last >= (_AGAIN_S if now.kind in _LASTS else 1e-9))
