"""
When a target was read and by which clocks, and the reading whose last block has not come yet.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy

from iostats.site.resets import rules
from iostats.site.resets.counters import GAIN_NAMES
from iostats.site.resets.entries import I64, NO_SLOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional

    import numpy.typing

    from iostats.site.resets.entries import Entries

    _Array = numpy.typing.NDArray[Any]
    Machine = tuple[Optional[str], Optional[str]]           # node, boot_id

DEFAULT_CLEANUP_S = 600                    # the kernel's own, lprocfs_job_stats_init()
_MOST_READINGS = 64                        # whose times are remembered
_MOST_INTERVALS = 8                        # past values of job_cleanup_interval
_MOST_BOOTS = 16                           # whose old messages are known as such

NO_GAINS = numpy.zeros((0, len(GAIN_NAMES)), I64)


def machine(node: str | None, boot_id: str | None) -> Machine:
    """One boot of one server: its boot id, whatever the server is called; or else its name."""
    return (None if boot_id else node, boot_id)


class OpenReading:
    """
    A reading whose last block has not come yet.

    Attributes:
        read_at, since_boot_s, full: as in the blocks; ahead: the storage server's clock less the
            site's, s.
        kernel_ahead: the same, by the times of its entries.
        number: of all readings of this target.
        bad: some entries could not be understood; absence proves nothing.
        nameless: the ids of some of these are not known either.
        rows: entries so far, which is the place of the next one.
        done: keys of its blocks, so that one that comes again is recognised.
        slots, moved, gains: of its entries: lists of arrays, one for each block; `moved`: whether
            an entry changed; `gains`: [entry, of GAIN_NAMES].
        doubts: [(slots, places, from_s, to_s)], arrays, that a later entry may still settle.
        same: arrays of slots that are the same entries for certain.
        top: the largest `place` and the largest `not_in` (entries.py) of the entries so far.
        cleared: (from, to) of a deletion by hand, or None.
    """

    __slots__ = ("ahead", "bad", "cleared", "done", "doubts", "full", "gains", "kernel_ahead",
                 "moved", "nameless", "number", "read_at", "rows", "same", "since_boot_s",
                 "slots", "top")

    def __init__(self, read_at: float, full: bool, number: int, ahead: float,
                 since_boot_s: float | None = None) -> None:
        self.read_at, self.full, self.number, self.ahead = read_at, full, number, ahead
        self.since_boot_s = since_boot_s
        self.kernel_ahead = ahead
        self.bad, self.nameless, self.rows, self.top = False, False, 0, (-1, -1)
        self.done: set[tuple[str, int, int] | None] = set()
        self.slots: list[_Array] = []
        self.moved: list[_Array] = []
        self.gains: list[_Array] = []
        self.doubts: list[tuple[_Array, ...]] = []
        self.same: list[_Array] = []
        self.cleared: tuple[float, float] | None = None

    @property
    def now(self) -> float:
        """`read_at` by the site's clock."""
        return self.read_at - self.ahead

    def clear_between(self, began: float, ended: float) -> None:
        """Note a deletion by hand."""
        if self.cleared:
            began, ended = min(began, self.cleared[0]), max(ended, self.cleared[1])
        self.cleared = (float(began), float(ended))

    def settle_doubts(self, last: _Array | list[int]) -> None:
        """
        An entry that is the same for certain has come (`last`: its place, and the last reading it
        was not in): those before it that are older are the same, too.
        """
        left: list[tuple[_Array, ...]] = []
        for slots, places, began, ended in self.doubts:
            same = rules.made_after(last[0], last[1], places)
            self.same.append(slots[same])
            if not same.all():
                left.append((slots[~same], places[~same], began[~same], ended[~same]))
        self.doubts = left

    def all_slots(self) -> _Array:
        """The slots of all its entries."""
        return self.slots[0] if len(self.slots) == 1 else numpy.concatenate([*self.slots, NO_SLOTS])

    def gained(self, slots: _Array, some_twice: bool) -> tuple[_Array, _Array]:
        """
        (the slots that moved, each once; what each gained, [slot, of GAIN_NAMES]); `slots`:
        all_slots(), at least one.
        """
        moved, gains = self.moved[0], self.gains[0]
        if len(self.moved) > 1:
            moved, gains = numpy.concatenate(self.moved), numpy.concatenate(self.gains)
        slots, gains = slots[moved], gains[moved]
        if some_twice:
            slots, where = numpy.unique(slots, return_inverse=True)
            each, gains = gains, numpy.zeros((len(slots), len(GAIN_NAMES)), I64)
            numpy.add.at(gains, where, each)
        return slots, gains

    def renumber(self, is_kept: Callable[[_Array], _Array], now: _Array | None) -> None:
        """Drop slots, and renumber the others by `now`, where that is given."""
        def numbered(slots: _Array) -> _Array:
            return slots if now is None else now[slots]

        for at, slots in enumerate(self.slots):
            kept = is_kept(slots)
            self.slots[at] = numbered(slots[kept])
            self.moved[at] = self.moved[at][kept]
            self.gains[at] = self.gains[at][kept]
        self.same = [numbered(slots[is_kept(slots)]) for slots in self.same]
        self.doubts = [(numbered(slots[is_kept(slots)]),
                        *(one[is_kept(slots)] for one in others))
                       for slots, *others in self.doubts]


class Readings:
    """
    The readings of one target.

    Attributes:
        read_at: of the last whole one, by the storage server's clock; None before it.
        ahead: the storage server's clock less the site's at that reading, s.
        since_boot_s: seconds since its boot then, by a clock that nobody sets; None: not known.
        swept_since: of the first whole one, by the site's clock; None before it.
        cleanup_s: job_cleanup_interval; None where it cannot be read.
        past_intervals: [(until read_at, job_cleanup_interval before that)].
        times, aheads: `read_at` and `ahead` of the last ones.
        number: how many there were.
        whole: how many in a row prove that an entry was absent.
        heard: {machine: read_at of its last whole one}.
        open: the OpenReading, or None.
    """

    __slots__ = ("ahead", "aheads", "cleanup_s", "heard", "number", "open", "past_intervals",
                 "read_at", "since_boot_s", "swept_since", "times", "whole")

    def __init__(self) -> None:
        self.read_at: float | None = None
        self.ahead = 0.0
        self.since_boot_s: float | None = None
        self.swept_since: float | None = None
        self.cleanup_s: int | None = None
        self.past_intervals: list[tuple[float, float]] = []
        self.times = array("d")
        self.aheads = array("d")
        self.number = 0
        self.whole = 0
        self.heard: dict[Machine, float] = {}
        self.open: OpenReading | None = None

    @property
    def swept_until(self) -> float | None:
        """When the last whole reading was, by the site's clock; None before it."""
        return None if self.read_at is None else self.read_at - self.ahead

    def begin(self, block: Any, full: bool, ahead: float,
              kernel_ahead: float | None) -> OpenReading:
        """The OpenReading whose first block this is."""
        self.number += 1
        if block.cleanup_s != self.cleanup_s:
            if self.read_at is not None:
                self.past_intervals.append((block.read_at, self.interval_s()))
                if len(self.past_intervals) > _MOST_INTERVALS:
                    (_, a), (until, b) = self.past_intervals[:2]
                    self.past_intervals[:2] = [(until, min(a or b, b or a))]
            self.cleanup_s = block.cleanup_s
        self.open = reading = OpenReading(block.read_at, full, self.number, float(ahead),
                                          block.since_boot_s)
        reading.kernel_ahead = ahead if kernel_ahead is None else kernel_ahead
        if self.times and not rules.proves_absence(
                self.apart_s(reading), self.shortest_s(self.times[-1])):
            self.whole = 0
        return reading

    def end(self, reading: OpenReading, who: Machine) -> None:
        """The last block of a reading has come from this machine."""
        if self.swept_since is None:
            self.swept_since = reading.now
        self.read_at, self.ahead, self.open = reading.read_at, reading.ahead, None
        self.since_boot_s = reading.since_boot_s
        self.heard.pop(who, None)
        self.heard[who] = reading.read_at
        if len(self.heard) > _MOST_BOOTS:
            del self.heard[next(iter(self.heard))]
        del self.times[:1 - _MOST_READINGS], self.aheads[:1 - _MOST_READINGS]
        self.times.append(reading.read_at)
        self.aheads.append(reading.ahead)

    def span_s(self, reading: OpenReading) -> tuple[float, bool]:
        """
        (seconds from the last whole reading to this one, 0 where there is none; True: measured by
        one clock that nobody sets, False: by the site's, which may have been set).
        """
        if self.swept_until is None:
            return 0.0, False
        if self.since_boot_s is None or reading.since_boot_s is None:
            return max(0.0, reading.now - self.swept_until), False
        return max(0.0, reading.since_boot_s - self.since_boot_s), True

    def apart_s(self, reading: OpenReading) -> float:
        """
        Seconds from the last whole reading to this one, by the clock that has gone further: the
        kernel's may have been set back meanwhile, so that a long time seems short.
        """
        last = reading.read_at if self.read_at is None else self.read_at
        return max(reading.read_at - last, self.span_s(reading)[0])

    def break_off(self) -> None:
        """What comes next does not follow what was read: begin a new series."""
        self.open = None
        self.past_intervals, self.whole = [], 0
        self.times, self.aheads = array("d"), array("d")

    def unknown_since(self, now: float) -> float:
        """
        When the last whole reading was, as the begin of a gap that ends at `now`, the site's clock.

        Where that is later than `now` a clock was wrong, and it is the first reading that counts.
        """
        last = self.swept_until
        if last is None or last > now:
            last = self.swept_since = min(self.swept_since or now, now)
        return last

    # ---- job_cleanup_interval: rule 9

    def interval_s(self) -> float:
        """job_cleanup_interval; 0: never."""
        return DEFAULT_CLEANUP_S if self.cleanup_s is None else self.cleanup_s

    def shortest_s(self, since: float) -> float:
        """The shortest job_cleanup_interval in use since this time; rules.NEVER_S: never."""
        return rules.shortest_s(self.interval_s(), self.past_intervals, since)

    def shortest_ns(self, seen: _Array) -> _Array:
        """The same for each entry, in ns, by when it was used last."""
        return rules.shortest_ns(self.interval_s(), self.past_intervals, seen)

    # ---- by which clock

    def by_site(self, began: Any, ended: Any) -> tuple[Any, Any]:
        """
        A span of the storage server's clock by the site's: longer, where that clock was set.

        `began`, `ended`: numbers, or arrays.
        """
        now = (self.open.ahead, self.open.kernel_ahead) if self.open else ()
        aheads = [*self.aheads, *now] or [self.ahead]
        return began - max(aheads), ended - min(aheads)

    def last_before_loss(self, entries: Entries, slots: _Array, absent: _Array) -> float:
        """
        When the last reading was before which nothing was lost, if these were deleted together.

        Not the last one that had all of them: they may have been deleted while it went on, when
        it had not come yet to others.
        """
        since = entries.absent_at[slots[absent > 0]].min(initial=numpy.inf)
        at = bisect_left(self.times, since) - 2
        if at >= 0:
            return self.times[at]
        began: Any = self.swept_since           # known, once anything was absent
        return float(min(began + self.ahead, int(entries.seen[slots].min()) / rules.NS))
