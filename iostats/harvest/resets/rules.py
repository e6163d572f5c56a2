"""
The rules that decide if an entry of job_stats is still the same: pure functions of numbers and
arrays.

1 is what we knew, 2 is now; `seen_ns`, `started_ns` of the entry, `read_at` of the reading, I is
job_cleanup_interval:

 1. Both have `started_ns`: a new entry if and only if it differs.
 2. Without: a new entry if anything went back (samples, sum, max; min rose; a counter is missing);
    if it stands behind an entry in the file that was made after it; if it was absent so often
    that no race explains it (rule 5) and I has passed since seen1; if what was gained cannot be:
    the gained sum is not within gained samples x [min2, max2], or the gained sum of squares does
    not fit (only where it cannot have overrun, and no RPC was under way at either reading).
 3. Without, and nothing of rule 2: the same one for certain if  seen2 - seen1 < I,  or if it
    stands before an entry that is the same for certain and was made after it.  Otherwise it is in
    doubt: counted as the same one, which is the lower number, and marked for this job.
 4. A new entry that was made before seen1 + I, or an entry that was absent before that, and still
    is in the next reading: it was deleted by hand, or the target was stopped.  The gap is from the
    last reading that had it.
 5. Absent once proves nothing: readers race.  A reader skips entries only when a scan falls into
    its reading, and scans are I/2 apart, so k absences in a row within the time T prove that it was
    removed if  k > 1 + floor(T / (I/2)):  two, for readings less than I/2 apart.
 6. Two readings I or more apart: what was done from the first on, until I before the second, may
    have expired unseen: a gap; not for entries that were made (or first seen) before read_at1 + I,
    because nothing of theirs can have expired between.  A deletion by hand looks like an expiry
    then.  When no entry proves, by being the same one, that there was none, the gap is all
    of the time between, for all jobs.  Only `started_ns` proves that, or that it was not used.
 7. Another boot of the server, or another server: all entries are new, and a gap for all jobs;
    from the first reading on where this one is older than the last: a clock was wrong.  A server
    that was only renamed has the same boot id.  A reading that arrives after later ones of another
    server is not added, and its time is in such a gap.
 8. A job that began before the first reading may have had earlier entries that were removed.
 9. job_cleanup_interval may change: the shortest since seen1 counts; 0 means never.
10. Values of one entry are not of one moment: `seen_ns` may be older or newer than the counters.
11. A full reading that is older than the last one: the clock was set back, for an agent's messages
    come in their order.  A gap between the two; for all that began before this one, where the
    site's clock does not tell when the last one was.
12. An entry that could not be understood costs nothing where it is understood within I, as one
    that was not read.  Until then its id is marked; all jobs, where its id is not known either.
13. A clock that was set forward makes the kernel expire what it would have kept: two readings that
    are I or more apart by that clock alone are such a gap, too, all of the time between; and so
    are two that are I or more apart by the time since the boot, or the site's, alone: that clock
    was set back in between.
14. Another `instance`: the target was restarted, and all entries were removed.  A gap as of rule 4
    from the last reading on; entries are compared as ever, since the lower number is never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets.counters import SUM_LIMIT
from iostats.wire.messages.arrays import differs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional, Union

    from iostats.wire.messages.arrays import Array, Bools, Counts, Floats, Integers

NS = 1_000_000_000
NEVER_S = 1e9                   # as an interval: longer than anything here lives
READING_TAKES = 0.05            # of I: from the begin of the file to its end, at most
CLOCKS_DIFFER = 0.01            # of I: boot clock made wall clock, whole seconds
_UNDER_WAY_S = 2                # an RPC so long before a reading may be half counted
_WHOLE_SECOND_NS = 2 * NS       # `seen_ns` may go back so far (rule 10)


def has_new_start(both: Bools, made_ns: Integers, started_ns: Integers) -> Bools:
    """Rule 1: which entries are new, among those with a start_time in `both` readings."""
    return both & differs(made_ns, started_ns)


def find_decreased(columns: dict[tuple[str, str], int], old: Counts, now: Counts, here: Bools,
                   undated: Bools) -> Bools:
    """
    Rule 2: in which entries anything went back.

    Args:
        columns: {(counter, kind): its column in the tables}.
        old, now: the values of both readings, [entry, column]; `here`: which there are now.
        undated: entries without start_time before; minima and maxima are stored for these only: a
            server can be set to show start_time or not.
    """
    back = numpy.zeros(len(old), bool)
    for (name, kind), column in columns.items():
        was, present = old[:, column], here[:, column]
        if kind == "samples":
            back |= (was > now[:, column]) & (present | (was > 0))
        elif kind in ("sums", "maxima"):
            back |= present & (now[:, column] < was)
        elif kind == "minima":
            back |= (present & undated & (old[:, columns[name, "samples"]] > 0)
                     & (now[:, column] > was))
    return back


def were_created_after(places: Union[Integers, int], not_in: Union[Integers, int],
                       place: Integers) -> Bools:
    """
    Rules 2 and 3: were entries certainly made after those in `place`, which were not in the reading
    `not_in`, or some of which stood in `places`?  -1: not known.
    """
    reading = place >> 32
    stood_before = ~differs(reading, places >> 32) & (place < places)
    return (place >= 0) & ((reading <= not_in) | stood_before)


def is_gain_impossible(before: Sequence[Optional[int]], now: Sequence[Optional[int]]) -> bool:
    """
    Rule 2: whether one counter of an entry cannot have grown from the old to the new value.

    `before`: (samples, sum, sumsq); `now`: (samples, sum, min, max, sumsq); each an int, or None
    where there is none.
    """
    old_samples, old_total, old_squares = before
    samples, total, low, high, squares = now
    if not old_samples or samples is None or old_total is None or total is None or (
            low is None or high is None or total >= SUM_LIMIT):
        return False
    gained, sum_gained = samples - old_samples, total - old_total
    if not gained * low <= sum_gained <= gained * high:
        return True
    if squares is None or old_squares is None or high * total >= SUM_LIMIT:
        return False
    squares_gained = squares - old_squares
    return not (gained * squares_gained >= sum_gained ** 2
                and gained * low ** 2 <= squares_gained <= gained * high ** 2)


def is_quiet(seen_ns: int, read_at: float) -> bool:
    """Rule 2: whether no RPC was in progress at a reading, by the entry's last use."""
    return seen_ns / NS < read_at - _UNDER_WAY_S


def are_same_within_interval(silent_ns: Integers, interval_ns: Floats) -> Bools:
    """Rule 3: which entries were silent for less than the interval, and are certainly the same."""
    return (silent_ns < interval_ns * (1 - CLOCKS_DIFFER)) & (silent_ns > -_WHOLE_SECOND_NS)


def were_created_too_early(made_ns: Integers, seen_ns: Integers, interval_ns: Floats) -> Bools:
    """Rule 4: which new entries were created before the previous one could expire."""
    return made_ns < seen_ns + interval_ns


def were_removed_too_early(absent_at_s: Floats, seen_ns: Integers, interval_ns: Floats) -> Bools:
    """Rule 4: which entries were absent before they could expire."""
    return seen_ns + interval_ns * (1 - READING_TAKES) > absent_at_s * NS


def is_proved_removed(absent: Array, absent_for_s: Floats, interval_ns: Floats) -> Bools:
    """
    Rule 5: were entries absent so often, up to the last reading, that no race explains it?

    `absent`: as in entries; `absent_for_s`: from the first to the last reading without it.
    """
    half = interval_ns / NS / 2
    span = absent_for_s + 2 * half * READING_TAKES
    return absent.astype(numpy.float64) - 1 > 1 + numpy.floor(span / half)


def is_absence_proved(apart_s: float, interval_s: float) -> bool:
    """Rule 5: whether two readings are so close together that two absences prove it."""
    return 2 * apart_s < interval_s * (1 - READING_TAKES)


def compute_expiry_s(interval_s: float) -> float:
    """Rule 6: two readings so far apart may have missed an entry."""
    return interval_s * (1 - READING_TAKES)


def was_clock_set(ahead_s: float, ahead_before_s: float, interval_s: float) -> bool:
    """Rule 13: whether two readings' clocks differ by more than clocks do; `interval_s`: rule 6."""
    return abs(ahead_s - ahead_before_s) > interval_s * CLOCKS_DIFFER


def shortest_s(interval_s: float, past: Sequence[tuple[float, float]], since: float) -> float:
    """
    Rule 9: the shortest job_cleanup_interval in use since this time; NEVER_S: never.

    `past`: [(until, job_cleanup_interval before that)].
    """
    intervals = [(since, interval_s), *past]
    return min((length for until, length in intervals if length and until >= since),
               default=NEVER_S)


def shortest_ns(interval_s: float, past: Sequence[tuple[float, float]],
                seen_ns: Integers) -> Floats:
    """Rule 9, for each entry by when it was last used; ns, array of float64."""
    shortest = numpy.full(len(seen_ns), float(interval_s or NEVER_S) * NS)
    for until, length in past:
        if length:
            numpy.minimum(shortest, length * float(NS), out=shortest, where=seen_ns <= until * NS)
    return shortest


def is_understood_in_time(since: float, now: float, interval_s: float) -> bool:
    """Rule 12: whether an entry that was invalid for a while has certainly lost nothing."""
    return now - since < interval_s * (1 - READING_TAKES)


def reduce_ns(read_at: float) -> float:
    """A reading's time in ns, slightly reduced: as float64, present times are exact to 256 ns."""
    return read_at * NS - 1_000_000
