"""The times of a target's readings, by each clock, and the reading whose last block is missing."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets import rules
from iostats.harvest.resets.counters import GAIN_NAMES
from iostats.harvest.resets.entries import I64, NO_SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional, TypeVar

    from iostats.harvest.resets.entries import Entries
    from iostats.wire.messages.arrays import Bools, Bytes, Floats, Integers
    from iostats.wire.messages.sweep import BlockHead

    Doubts = tuple[Integers, Integers, Floats, Floats]
    Moment = TypeVar("Moment", float, Floats)
    Machine = tuple[Optional[str], Optional[str]]           # node, boot_id

DEFAULT_CLEANUP_S = 600         # the kernel's own, lprocfs_job_stats_init()
_MOST_READINGS = 64             # whose times are remembered
_MOST_INTERVALS = 8             # past values of job_cleanup_interval
_MOST_BOOTS = 16                # whose old messages are known as such

NO_GAINS = numpy.zeros((0, len(GAIN_NAMES)), I64)


def make_boot_key(node: str | None, boot_id: str | None) -> Machine:
    """The key of a server's boot: its boot id, or its name if that is unknown."""
    return (None if boot_id else node, boot_id)


class OpenReading:
    """A reading that is not complete yet.

    Attributes:
        read_at, since_boot_s, instance, full: as in the blocks; ahead: the storage server's clock
            less the site's, s.
        kernel_ahead_s: the same, by the times of its entries.
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

    __slots__ = ("ahead_s", "bad", "cleared", "done", "doubts", "full", "gains", "kernel_ahead_s",
                 "instance", "moved", "nameless", "number", "read_at", "rows", "same",
                 "since_boot_s", "slots", "top")

    def __init__(self, read_at: float, full: bool, number: int, ahead_s: float,
                 since_boot_s: float | None = None, instance: int | None = None) -> None:
        self.read_at, self.full, self.number, self.ahead_s = read_at, full, number, ahead_s
        self.since_boot_s, self.instance = since_boot_s, instance
        self.kernel_ahead_s = ahead_s
        self.bad, self.nameless, self.rows, self.top = False, False, 0, (-1, -1)
        self.done: set[tuple[str, int, int] | None] = set()
        self.slots: list[Integers] = []
        self.moved: list[Bools] = []
        self.gains: list[Integers] = []
        self.doubts: list[Doubts] = []
        self.same: list[Integers] = []
        self.cleared: tuple[float, float] | None = None

    @property
    def now(self) -> float:
        """`read_at` by the site's clock."""
        return self.read_at - self.ahead_s

    def clear_between(self, began: float, ended: float) -> None:
        """Note a manual deletion between these times."""
        if self.cleared:
            began, ended = min(began, self.cleared[0]), max(ended, self.cleared[1])
        self.cleared = (float(began), float(ended))

    def settle_doubts(self, last: list[int]) -> None:
        """
        Drop doubts: this entry is certainly the same as before (`last`: its position, and the last
        reading without it), so older ones before it are, too.
        """
        left: list[Doubts] = []
        for slots, places, began, ended in self.doubts:
            same = rules.were_created_after(last[0], last[1], places)
            self.same.append(slots[same])
            if not same.all():
                left.append((slots[~same], places[~same], began[~same], ended[~same]))
        self.doubts = left

    def list_all_slots(self) -> Integers:
        """The slots of all its entries."""
        return self.slots[0] if len(self.slots) == 1 else numpy.concatenate([*self.slots, NO_SLOTS])

    def split_gains(self, slots: Integers, some_twice: bool) -> tuple[Integers, Integers]:
        """
        Return (the slots that moved, each once; what each gained, [slot, of GAIN_NAMES]); `slots`:
        list_all_slots(), at least one.
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

    def renumber(self, is_stored: Callable[[Integers], Bools], now: Integers | None) -> None:
        """Drop slots, and renumber the others by `now`, if given."""
        def numbered(slots: Integers) -> Integers:
            return slots if now is None else now[slots]

        for at, slots in enumerate(self.slots):
            in_use = is_stored(slots)
            self.slots[at] = numbered(slots[in_use])
            self.moved[at] = self.moved[at][in_use]
            self.gains[at] = self.gains[at][in_use]
        self.same = [numbered(slots[is_stored(slots)]) for slots in self.same]
        self.doubts = [(numbered(slots[is_stored(slots)]),
                        places[is_stored(slots)], since_s[is_stored(slots)],
                        until_s[is_stored(slots)])
                       for slots, places, since_s, until_s in self.doubts]


class Readings:
    """
    The readings of one target.

    Attributes:
        read_at: of the last whole one, by the storage server's clock; None before it.
        ahead_s: the storage server's clock less the site's at that reading.
        since_boot_s: seconds since its boot then, by a clock that cannot be set; None: unknown.
        instance: how often the target was started, as it was read last; None: unknown.
        swept_since: of the first whole one, by the site's clock; None before it.
        cleanup_s: job_cleanup_interval; None where it cannot be read.
        past_intervals: [(until read_at, job_cleanup_interval before that)].
        times, aheads: `read_at` and `ahead_s` of the last ones.
        number: how many there were.
        whole: how many in a row prove that an entry was absent.
        heard: {machine: read_at of its last whole reading}.
        open: the OpenReading, or None.
    """

    __slots__ = ("ahead_s", "aheads", "cleanup_s", "heard", "instance", "number", "open",
                 "past_intervals", "read_at", "since_boot_s", "swept_since", "times", "whole")

    def __init__(self) -> None:
        self.read_at: float | None = None
        self.ahead_s = 0.0
        self.since_boot_s: float | None = None
        self.instance: int | None = None
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
        """The time of the last whole reading, by the site's clock; None before it."""
        return None if self.read_at is None else self.read_at - self.ahead_s

    def begin(self, block: BlockHead, full: bool, ahead_s: float,
              kernel_ahead_s: float | None) -> OpenReading:
        """Begin a reading; `block`: its first one."""
        self.number += 1
        if block.cleanup_s != self.cleanup_s:
            if self.read_at is not None:
                self.past_intervals.append((block.read_at, self.get_cleanup_interval_s()))
                if len(self.past_intervals) > _MOST_INTERVALS:
                    (_, a), (until, b) = self.past_intervals[:2]
                    self.past_intervals[:2] = [(until, min(a or b, b or a))]
            self.cleanup_s = block.cleanup_s
        self.open = reading = OpenReading(block.read_at, full, self.number, float(ahead_s),
                                          block.since_boot_s, block.instance)
        reading.kernel_ahead_s = ahead_s if kernel_ahead_s is None else kernel_ahead_s
        if reading.instance and self.instance and reading.instance != self.instance and (
                self.read_at is not None):
            reading.clear_between(self.read_at, reading.read_at)        # rule 14
        if self.times and not rules.is_absence_proved(
                self.compute_longest_span_s(reading), self.shortest_s(self.times[-1])):
            self.whole = 0
        return reading

    def end(self, reading: OpenReading, source: Machine) -> None:
        """End a reading: its last block arrived from this machine."""
        if self.swept_since is None:
            self.swept_since = reading.now
        self.read_at, self.ahead_s, self.open = reading.read_at, reading.ahead_s, None
        self.since_boot_s = reading.since_boot_s
        self.instance = reading.instance or self.instance
        self.heard.pop(source, None)
        self.heard[source] = reading.read_at
        if len(self.heard) > _MOST_BOOTS:
            del self.heard[next(iter(self.heard))]
        del self.times[:1 - _MOST_READINGS], self.aheads[:1 - _MOST_READINGS]
        self.times.append(reading.read_at)
        self.aheads.append(reading.ahead_s)

    def compute_span_s(self, reading: OpenReading) -> tuple[float, bool]:
        """
        Return (seconds from the last whole reading to this one, 0 where there is none; True:
        measured by one clock that cannot be set, False: by the site's, which may have been set).
        """
        if self.swept_until is None:
            return 0.0, False
        if self.since_boot_s is None or reading.since_boot_s is None:
            return max(0.0, reading.now - self.swept_until), False
        return max(0.0, reading.since_boot_s - self.since_boot_s), True

    def compute_longest_span_s(self, reading: OpenReading) -> float:
        """
        Seconds from the last whole reading to this one, by the clock that shows more: the kernel's
        may have been set back in between, which makes a long time look short.
        """
        last = reading.read_at if self.read_at is None else self.read_at
        return max(reading.read_at - last, self.compute_span_s(reading)[0])

    def break_off(self) -> None:
        """Begin a new series of readings, which does not continue the old one."""
        self.open = self.instance = None
        self.past_intervals, self.whole = [], 0
        self.times, self.aheads = array("d"), array("d")

    def get_last_whole(self, now: float) -> float:
        """
        Return the time of the last whole reading, as the begin of a gap that ends at `now`, the
        site's clock.

        Where that is later than `now` a clock was wrong, and it is the first reading that counts.
        """
        last = self.swept_until
        if last is None or last > now:
            last = self.swept_since = min(self.swept_since or now, now)
        return last

    # ---- job_cleanup_interval: rule 9

    def get_cleanup_interval_s(self) -> float:
        """job_cleanup_interval; 0: never."""
        return DEFAULT_CLEANUP_S if self.cleanup_s is None else self.cleanup_s

    def shortest_s(self, since: float) -> float:
        """The shortest job_cleanup_interval in use since this time; rules.NEVER_S: never."""
        return rules.shortest_s(self.get_cleanup_interval_s(), self.past_intervals, since)

    def shortest_ns(self, seen_ns: Integers) -> Floats:
        """Return `shortest_s` for each entry, in ns, by its last use."""
        return rules.shortest_ns(self.get_cleanup_interval_s(), self.past_intervals, seen_ns)

    # ---- by which clock

    def convert_to_site_clock(self, began: Moment, ended: Moment) -> tuple[Moment, Moment]:
        """
        Convert a span of the storage server's clock to the site's: longer, if that clock was set.
        `began`, `ended`: numbers, or arrays.
        """
        aheads = [*self.aheads]
        if self.open:
            aheads += self.open.ahead_s, self.open.kernel_ahead_s
        aheads = aheads or [self.ahead_s]
        return began - max(aheads), ended - min(aheads)

    def find_last_reading_before_loss(self, entries: Entries, slots: Integers,
                                      absent: Bytes) -> float:
        """
        The last reading before which nothing was lost, if these entries were deleted together.  It
        may not be the last one with all of them: they may have been deleted during it, before
        others were read.
        """
        since = entries.absent_at_s[slots[absent > 0]].min(initial=numpy.inf)
        at = bisect_left(self.times, since) - 2
        if at >= 0:
            return self.times[at]
        assert self.swept_since is not None     # once anything was absent
        return float(min(self.swept_since + self.ahead_s,
                         int(entries.seen_ns[slots].min()) / rules.NS))
