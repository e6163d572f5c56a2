"""
The collector's event buffer, and its journal: a file of lines from which a restart continues.

    place   grows with each event that is new, or has grown: `events` and GET /events continue
            after it
    tick    whole seconds since 1970, for getTraps: each time stamp in an answer is a tick, and
            later events get ticks that are not smaller.  So if each call passes the time stamp of
            the answer before, no event is missing and none comes twice

A tick is the wall clock's second where that is later than all before; else (two answers in one
second, or a clock that was set back) it is the last tick plus one.  An event that grew has its new
place alone, and its earlier counts with it.  Beyond `keep` the oldest places are dropped, and
counted.

    {"places": "1795370000.7f3a"}                       the numbering of places; the first line
    {"place": 23, "tick": 1795370041, "reported": 0, "event": {...}}
    {"stamps": 1795370120}                              answers may contain time stamps up to this
    {"next": 4711, "of": "..."}                         where to continue at the site's server

The journal is appended to, and rewritten when it is long.  It protects from the death of the
process: nothing is synced.  A line that is incomplete or invalid is skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from iostats.base import strict_json
from iostats.base.errors import IostatsError, StateError
from iostats.base.private_files import open_regular, remove_unfinished, write_atomically
from iostats.events import event as events
from iostats.events.event import Event, merge_copy


class CollectedEvent(NamedTuple):
    """An event with its place in the collector's numbering and the tick of its time."""

    # place, tick: as above
    place: int
    tick: int
    event: Event    # the Event, as it is known by now
    reported: int       # its count when it was last given to those who asked; 0 for one that is new


# Numbers of places, for each second in which a collector may have begun without what was kept
# before it: they are then larger than all before, and still exact in JSON.
_PLACES_A_SECOND = 1 << 20


class EventBuffer:
    """
    A buffer of up to `keep` events.

    Attributes:
        tick: the smallest that the next event may get; all time stamps given are not larger.
        last_place: of the newest event; the first place, less one, where there is none.
        dropped: how many were dropped for others, since it began.
    """

    def __init__(self, keep: int, now_s: float) -> None:
        self.keep, self.tick, self.dropped = keep, max(0, int(now_s)), 0
        self.last_place = self.tick * _PLACES_A_SECOND
        self._by_id: dict[str, CollectedEvent] = {}
        # All by their place, with gaps (None) where one has grown; `_places` and `_ticks` beside.
        self._order: list[CollectedEvent | None] = []
        self._places: list[int] = []
        self._ticks: list[int] = []
        self._begin = 0                                # what is before it in `_order` is a gap
        # (place, tick) of those that were dropped, the oldest first by either.
        self._gone: deque[tuple[int, int]] = deque(maxlen=max(keep, 1000))
        self._is_first = True                          # no time stamp was given yet

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[CollectedEvent]:
        return iter([collected for collected in self._order if collected is not None])

    def get(self, id: str) -> CollectedEvent | None:
        """The event with this id, or None."""
        return self._by_id.get(id)

    def add(self, events: Iterable[Event], now_s: float) -> list[CollectedEvent]:
        """
        Store new events, and those that have grown; [CollectedEvent] of these, in the order of
        their places.

        Those that are there before anybody has asked keep the time at which they happened: a
        question for the last two hours is to get those alone.
        """
        self.tick = max(self.tick, int(now_s))
        changed = []
        for event in sorted(events, key=lambda event: (event.last, event.id)):
            tick = self.tick
            if self._is_first:
                tick = max(self._ticks[-1] if self._ticks else 0, min(int(event.last), tick))
            collected = self._put(event, tick)
            if collected is not None:
                changed.append(collected)
        return changed

    def restore(self, stored: CollectedEvent) -> None:
        """Add an event of an earlier collector, with its place and tick."""
        self._is_first = False
        self.tick = max(self.tick, stored.tick + 1)
        self.last_place = max(self.last_place, stored.place)
        before = self._by_id.get(stored.event.id)
        if before is not None:
            self._take_out(before)
        if self._places and (stored.place <= self._places[-1] or stored.tick < self._ticks[-1]):
            return                                     # not as it was written
        self._append(stored)

    def continue_after(self, stamp: int) -> None:
        """
        Continue after this time stamp, which an answer may have had: new events get later ones,
        even if the clock was set back, or if nothing was stored by then.
        """
        self._is_first = False
        self.tick = max(self.tick, stamp)

    def after(self, place: int) -> Iterator[CollectedEvent]:
        """Events behind `place`, in order; all for a place that this collector never gave."""
        if place > self.last_place:
            place = 0
        for at in range(bisect_right(self._places, place), len(self._order)):
            collected = self._order[at]
            if collected is not None:
                yield collected

    def count_dropped_after(self, place: int) -> int:
        """The number of dropped events after `place`; 0 for place 0, the beginning."""
        if place <= 0 or place > self.last_place or not self._gone or (
                place >= self._gone[-1][0]):
            return 0
        dropped_places = [dropped_place for dropped_place, _ in self._gone]
        return len(dropped_places) - bisect_right(dropped_places, place)

    def count_dropped_since(self, tick: int) -> int:
        """The number of dropped events with this tick or a later one; 0 for tick 0."""
        if tick <= 0 or not self._gone or tick > self._gone[-1][1]:
            return 0
        dropped_ticks = [dropped_tick for _, dropped_tick in self._gone]
        return len(dropped_ticks) - bisect_left(dropped_ticks, tick)

    def since(self, tick: int) -> list[CollectedEvent]:
        """Events with this tick or a later one."""
        return [collected for collected in self._order[bisect_left(self._ticks, tick):]
                if collected is not None]

    def stamp(self, now_s: float) -> int:
        """The time stamp of an answer with all events so far."""
        self._is_first = False
        newest = self._ticks[-1] if self._ticks else -1
        self.tick = max(self.tick, int(now_s), newest + 1)
        return self.tick

    def _put(self, event: Event, tick: int) -> CollectedEvent | None:
        before, reported_count = self._by_id.get(event.id), 0
        if before is not None:
            event = merge_copy(before.event, event)
            if event is before.event:
                return None
            reported_count = before.event.count
            self._take_out(before)
        self.last_place += 1
        collected = CollectedEvent(self.last_place, tick, event, reported_count)
        self._append(collected)
        return collected

    def _take_out(self, collected: CollectedEvent) -> None:
        del self._by_id[collected.event.id]
        self._order[bisect_left(self._places, collected.place)] = None

    def _append(self, collected: CollectedEvent) -> None:
        self._by_id[collected.event.id] = collected
        self._order.append(collected)
        self._places.append(collected.place)
        self._ticks.append(collected.tick)
        if len(self._by_id) > self.keep:
            oldest = self._order[self._begin]
            while oldest is None:
                self._begin += 1
                oldest = self._order[self._begin]
            self._take_out(oldest)
            self._gone.append((oldest.place, oldest.tick))
            self.dropped += 1
        if len(self._order) > 2 * len(self._by_id) + 64:
            there = list(self)
            self._order, self._begin = [*there], 0
            self._places = [entry.place for entry in there]
            self._ticks = [entry.tick for entry in there]


FILE = "events.journal"
_AHEAD_S = 60                       # time stamps that are written down before they are given
_LONGEST_LINE, _LEAST_BYTES = 1 << 16, 1 << 20


class EventsJournal:
    """
    An EventBuffer that outlasts the process.

    Attributes:
        buffer: the EventBuffer.
        places: names the numbering of places.
        next, of: of the site's server: behind which place to go on, and its own `places`.
    """

    def __init__(self, directory: str, keep: int, clock: Callable[[], float],
                 emit: Callable[[str], None]) -> None:
        """
        Continue with the files in `directory`; "": in memory alone.  `emit`: reports a directory
        that cannot be used.  StateError for another user's file.
        """
        self._path = os.path.join(directory, FILE) if directory else ""
        self._clock, self._emit, self._file, self._size_bytes = clock, emit, -1, 0
        self._limit = 0                                 # bytes, after which it is rewritten
        self.buffer = EventBuffer(keep, clock())
        self.places = f"{int(clock())}.{os.urandom(4).hex()}"
        self.next, self.of, self._stamps = 0, "", 0
        self._lock = -1
        if self._path:
            self._lock = _lock(directory)
            remove_unfinished(self._path)
            self._read()
            self._rewrite()

    def add(self, new_events: Iterable[events.Event], next: int | None = None,
            origin: str = "") -> list[CollectedEvent]:
        """Store events, and where to continue, as one; those that are new or have grown."""
        now, stamps = self.buffer.add(new_events, self._clock()), []
        if next is not None and (next, origin) != (self.next, self.of):
            self.next, self.of = next, origin
            stamps.append({"next": next, "of": origin})
        self._append([*map(_format_line, now), *stamps])
        return now

    def stamp(self) -> int:
        """A time stamp for an answer, written to the journal before the answer is sent."""
        stamp = self.buffer.stamp(self._clock())
        if stamp > self._stamps:
            self._stamps = stamp + _AHEAD_S
            self._append([{"stamps": self._stamps}])
        return stamp

    def close(self) -> None:
        """Close the journal, and unlock the directory for another collector."""
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, lines: list[dict[str, Any]]) -> None:
        if self._file < 0 or not lines:
            return
        data = b"".join(map(_encode, lines))
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(28, "No space left on device")
        except OSError as error:
            self._give_up(error)
            return
        self._size_bytes += len(data)
        if self._size_bytes > self._limit:
            self._rewrite()

    def _rewrite(self) -> None:
        lines = chain(({"places": self.places},), map(_format_line, self.buffer),
                      ({"stamps": self._stamps}, {"next": self.next, "of": self.of}))
        try:
            write_atomically(self._path, map(_encode, lines))
            self._close_file()
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._size_bytes = os.fstat(self._file).st_size
            self._limit = _LEAST_BYTES + 2 * self._size_bytes
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """
        Continue in memory alone; after a restart, events that are not in the file are reported
        again.
        """
        self._close_file()
        self._emit(f"{self._path}: cannot be written: {error.strerror}; events are stored in "
                   f"memory only, and a restart loses them (see [collector] state_dir)")

    def _read(self) -> None:
        try:
            with open(open_regular(self._path), "rb") as file:
                while True:
                    line = file.readline(_LONGEST_LINE)
                    if not line:
                        break
                    self._take_text(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StateError(f"{self._path}: cannot be read: {error.strerror}; expected a file of "
                             f"an earlier collector, or none") from None
        if self._stamps:
            self.buffer.continue_after(self._stamps)

    def _take_text(self, line: bytes) -> None:
        try:
            self._take_line(strict_json.loads(line))
        except (ValueError, LookupError, TypeError, RecursionError, IostatsError):
            pass

    def _take_line(self, line: dict[str, Any]) -> None:
        if "event" in line:
            self.buffer.restore(CollectedEvent(_count(line["place"]), _count(line["tick"]),
                                               events.from_json(line["event"]),
                                               _count(line["reported"])))
        elif "stamps" in line:
            self._stamps = max(self._stamps, _count(line["stamps"]))
        elif "places" in line:
            self.places = str(line["places"])[:80]
        elif "next" in line:
            self.next, self.of = _count(line["next"]), str(line["of"])[:80]


def _lock(directory: str) -> int:
    """A locked handle of `directory`; StateError."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"{directory}: cannot be used: {error.strerror}; make it, owned by the "
                         f"collector's user, or name another: [collector] state_dir") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateError(f"{directory}: another collector uses it; give each its own: [collector] "
                         f"state_dir") from None
    return handle


def _format_line(collected: CollectedEvent) -> dict[str, Any]:
    return {"place": collected.place, "tick": collected.tick, "reported": collected.reported,
            "event": events.as_json(collected.event)}


def _encode(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False,
                      separators=(",", ":")).encode() + b"\n"


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value
