"""
Merges two sources' reports of one event, and ends ongoing events.

A line of the log, a count in /sys and the history of a state may all report one eviction.  Two
reports of different sources are joined when kind and target are the same, both are a client's or
both a storage server's, and their times match; the event keeps the id of the first one.  Evictions
in the log are subtracted from those that a storage server only counted.

What ends another: a restored connection ends the loss of it, and a client's eviction; a target that
is up ends that it was down; healthy ends not healthy.
"""

from __future__ import annotations

from iostats.events.event import LONGEST_MESSAGE, Event, as_json, from_json, merge_copies
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class StoredJoiner(TypedDict):
        """The state of a Joiner as JSON."""

        reported: list[tuple[object, str]]              # event, source
        same: list[tuple[str, str]]
        logged: list[tuple[str, list[list[float]]]]

LOG = "log"
COUNTED = "unknown"                     # the cause of evictions that were only counted
# How far the times of two sources may be apart, s; of other kinds no two sources tell.
_APART_S = {EVICTED: 5.0, CONNECTION_LOST: 5.0, CONNECTION_RESTORED: 5.0, TIMEOUTS: 5.0,
            RECOVERY: 30.0, TARGET_DOWN: 30.0, TARGET_UP: 30.0, NOT_HEALTHY: 60.0, HEALTHY: 60.0}
_ENDS = {CONNECTION_RESTORED: (CONNECTION_LOST, EVICTED, TIMEOUTS), TARGET_UP: (TARGET_DOWN,),
         HEALTHY: (NOT_HEALTHY,)}
# Reported again and again while it lasts: the kernel logs it at each read of health_check.
_LASTS = {NOT_HEALTHY: 3600.0}
_AGAIN_S = 60.0                         # and sent again not more often than this
_MOST = 2000                            # events that are remembered
_MOST_OF_ONE = 16                       # of a kind at a target
_MOST_LOGGED = 64


class Joiner:
    """Merges reports of one event from several sources; it remembers recent ones."""

    def __init__(self, state: StoredJoiner | None = None) -> None:
        """
        `state`: the value of as_json(); ValueError, TypeError or KeyError for an unexpected format.
        """
        self._reported: dict[str, tuple[Event, str]] = {}
        self._by_kind: dict[tuple[str, str], list[str]] = {}
        self._same: dict[str, str] = {}                         # id -> the id it is reported by
        self._logged: dict[str, list[list[float]]] = {}         # target -> [[time, evictions]]
        if state is not None:
            for value, source in state["reported"]:
                self._remember(from_json(value), str(source))
            for event_id, joined_id in state["same"]:
                self._same[str(event_id)] = str(joined_id)
            for target, values in state["logged"]:
                self._logged[str(target)] = [[float(when), int(n)] for when, n in values]

    def as_json(self) -> StoredJoiner:
        return {"reported": [(as_json(event), source) for event, source in self._reported.values()],
                "same": list(self._same.items()), "logged": list(self._logged.items())}

    def add(self, event: Event, source: str) -> list[Event]:
        """
        The events to report because of `event`: itself, the event that it was merged with, the one
        that it ends.

        `source`: "log", or the name of another.
        """
        if event.cause == COUNTED and source != LOG:
            less = self._subtract_logged(event)
            if less is None:
                return []
            event = less
        event = event._replace(id=self._same.get(event.id, event.id))
        reported = self._reported.get(event.id) or self._find_earlier_report(event, source)
        if reported is None:
            now, by = event, source
        else:
            before, by = reported
            if event.id != before.id:
                self._same[event.id] = before.id
                if len(self._same) > _MOST:
                    del self._same[next(iter(self._same))]
            now = self._merge(before, event._replace(id=before.id), source)
            if source == LOG or by == LOG:
                by = LOG
        if source == LOG and event.kind == EVICTED and event.cause:
            self.add_duplicates(now.target, now.last,
                                now.count - (reported[0].count if reported else 0))
        if reported is not None and not _is_news(reported[0], now):
            return []
        self._remember(now, by)
        return [now, *self._list_ended_by(now)]

    def _merge(self, before: Event, event: Event, source: str) -> Event:
        now = merge_copies(before, event)
        if source != LOG and self._reported[before.id][1] == LOG:
            now = now._replace(message=before.message)          # what Lustre itself said
        elif source == LOG:
            now = now._replace(message=event.message or before.message)
        return now._replace(count=1) if event.kind in _LASTS else now

    def _find_earlier_report(self, event: Event, source: str) -> tuple[Event, str] | None:
        """The earlier report of the same event, from another source or the same."""
        lasts = _LASTS.get(event.kind)
        apart = _APART_S.get(event.kind)
        if apart is None or event.cause == COUNTED:
            return None
        for id_ in reversed(self._by_kind.get((event.kind, event.target), [])):
            reported, by = self._reported[id_]
            if reported.cause == COUNTED or bool(reported.cause) != bool(event.cause):
                continue
            if lasts and reported.over is None and 0 <= event.time - reported.time and (
                    event.time - reported.last < lasts):
                return reported, by
            if by != source and (reported.time - apart <= event.last
                                 and event.time <= max(reported.last, reported.over or 0) + apart):
                return reported, by
        return None

    def _list_ended_by(self, event: Event) -> list[Event]:
        ended = []
        for kind in _ENDS.get(event.kind, ()):
            for id_ in list(self._by_kind.get((kind, event.target), [])):
                reported, by = self._reported[id_]
                # A storage server's evictions are not over when one client is back.
                if reported.cause or reported.node != event.node or reported.last > event.last or (
                        not event.target and event.kind != HEALTHY):
                    continue
                if reported.over is None or reported.over < reported.last:
                    now = reported._replace(over=event.last)
                    self._remember(now, by)
                    ended.append(now)
        return ended

    def _remember(self, event: Event, source: str) -> None:
        if event.id not in self._reported:
            ids = self._by_kind.setdefault((event.kind, event.target), [])
            ids.append(event.id)
            if len(ids) > _MOST_OF_ONE:
                self._reported.pop(ids.pop(0), None)
            if len(self._reported) >= _MOST:
                self._remove(next(iter(self._reported)))
        self._reported[event.id] = (event, source)

    def _remove(self, id_: str) -> None:
        event, _ = self._reported.pop(id_)
        ids = self._by_kind.get((event.kind, event.target), [])
        if id_ in ids:
            ids.remove(id_)
        if not ids:
            self._by_kind.pop((event.kind, event.target), None)

    # -- evictions that were counted -------------------------------------------------------------

    def add_duplicates(self, target: str, when: float, count: int) -> None:
        """
        Note that the log explains `count` more evictions in a target's counter: its own lines, and
        connections of other storage servers, which are no clients.
        """
        if count > 0:
            log_counts = self._logged.setdefault(target, [])
            log_counts.append([when, count])
            if len(log_counts) > _MOST_LOGGED:
                log_counts[1][1] += log_counts.pop(0)[1]
            if len(self._logged) > _MOST:
                del self._logged[next(iter(self._logged))]

    def _subtract_logged(self, event: Event) -> Event | None:
        """
        Return `event` with the number of evictions that the log has not; None where it has all.

        The count was read before the log: a line that came in between is of the next count.
        """
        count, later = event.count, []
        for when, n in self._logged.pop(event.target, []):
            if when < event.time - 0.5:
                continue
            counted = min(count, int(n)) if when <= event.last + 2.0 else 0
            count -= counted
            if n > counted and when > event.last - 2.0:
                later.append([when, n - counted])
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
