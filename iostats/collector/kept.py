"""
The events that a collector keeps, in the order in which it learned of them.

    place   grows with each event that is new, or has grown: `events` and GET /events go on
            behind it
    tick    whole seconds since 1970, for getTraps: each time stamp that it gives is one, and
            what comes after it gets a tick that is not smaller.  So of two answers, each asked
            for with the time stamp of the one before, none lacks an event and both have none

A tick is the wall clock's second where that is later than all before; where it is not (two answers
in one second, or a clock that was set back), the tick after the last one.

An event that grew is at its new place alone, and says from what it grew.  Past `keep` the oldest
places are dropped, and counted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque, namedtuple

from iostats.events.event import merge_copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iostats.events.event import Event

CollectedEvent = namedtuple("CollectedEvent", "place tick event told")
CollectedEvent.__doc__ = """
One event.

Attributes:
    place, tick: as above.
    event: the Event, as it is known by now.
    told: its count when it was last given to those who asked; 0 for one that is new.
"""

# Numbers of places, for each second in which a collector may have begun without what was kept
# before it: they are then larger than all before, and still exact in JSON.
_PLACES_A_SECOND = 1 << 20


class KeptEvents:
    """
    Up to `keep` events.

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
        return iter([one for one in self._order if one is not None])

    def get(self, id: str) -> CollectedEvent | None:
        """The event with this id, or None."""
        return self._by_id.get(id)

    def take(self, events: Iterable[Event], now_s: float) -> list[CollectedEvent]:
        """
        Keep what is new or has grown; [CollectedEvent] of these, in the order of their places.

        Those that are there before anybody has asked keep the time at which they happened: a
        question for the last two hours is to get those alone.
        """
        self.tick = max(self.tick, int(now_s))
        found = []
        for event in sorted(events, key=lambda one: (one.last, one.id)):
            tick = self.tick
            if self._is_first:
                tick = max(self._ticks[-1] if self._ticks else 0, min(int(event.last), tick))
            one = self._put(event, tick)
            if one is not None:
                found.append(one)
        return found

    def restore(self, kept: CollectedEvent) -> None:
        """Take what an earlier collector has kept, with its place and tick."""
        self._is_first = False
        self.tick = max(self.tick, kept.tick + 1)
        self.last_place = max(self.last_place, kept.place)
        before = self._by_id.get(kept.event.id)
        if before is not None:
            self._take_out(before)
        if self._places and (kept.place <= self._places[-1] or kept.tick < self._ticks[-1]):
            return                                     # not as it was written
        self._append(kept)

    def go_on_behind(self, stamp: int) -> None:
        """
        Time stamps up to this one may have been given: what comes now is behind them, also where
        the clock was set back since, or where nothing was kept by then.
        """
        self._is_first = False
        self.tick = max(self.tick, stamp)

    def after(self, place: int) -> Iterator[CollectedEvent]:
        """Events behind `place`, in order; all for a place that this collector never gave."""
        if place > self.last_place:
            place = 0
        for at in range(bisect_right(self._places, place), len(self._order)):
            one = self._order[at]
            if one is not None:
                yield one

    def dropped_after(self, place: int) -> int:
        """How many events behind `place` were dropped; 0 for 0, which nothing came before."""
        if place <= 0 or place > self.last_place or not self._gone or (
                place >= self._gone[-1][0]):
            return 0
        gone = [one for one, _ in self._gone]
        return len(gone) - bisect_right(gone, place)

    def dropped_since(self, tick: int) -> int:
        """How many events with this tick or a later one were dropped; 0 for 0, as above."""
        if tick <= 0 or not self._gone or tick > self._gone[-1][1]:
            return 0
        gone = [one for _, one in self._gone]
        return len(gone) - bisect_left(gone, tick)

    def since(self, tick: int) -> list[CollectedEvent]:
        """Events with this tick or a later one."""
        return [one for one in self._order[bisect_left(self._ticks, tick):] if one is not None]

    def stamp(self, now_s: float) -> int:
        """The time stamp of an answer that has all events until now."""
        self._is_first = False
        newest = self._ticks[-1] if self._ticks else -1
        self.tick = max(self.tick, int(now_s), newest + 1)
        return self.tick

    def _put(self, event: Event, tick: int) -> CollectedEvent | None:
        before, told = self._by_id.get(event.id), 0
        if before is not None:
            event = merge_copy(before.event, event)
            if event is before.event:
                return None
            told = before.event.count
            self._take_out(before)
        self.last_place += 1
        one = CollectedEvent(self.last_place, tick, event, told)
        self._append(one)
        return one

    def _take_out(self, one: CollectedEvent) -> None:
        del self._by_id[one.event.id]
        self._order[bisect_left(self._places, one.place)] = None

    def _append(self, one: CollectedEvent) -> None:
        self._by_id[one.event.id] = one
        self._order.append(one)
        self._places.append(one.place)
        self._ticks.append(one.tick)
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
            self._places = [each.place for each in there]
            self._ticks = [each.tick for each in there]
