"""
Is an entry of job_stats still the same one?  The rules, and those that are a calculation as pure
functions of numbers and arrays.

1 is what we knew, 2 is now; `seen`, `started` of the entry, `read_at` of the reading, I is
job_cleanup_interval:

 1. Both have `started`: a new entry if and only if it differs.
 2. Without: a new entry if anything went back (samples, sum, max; min rose; a counter is gone);
    if it stands behind an entry in the file that was made after it; if it was absent so often
    that no race explains it (rule 5) and I has gone by since seen1; if what was gained cannot be:
    the gained sum is not within gained samples x [min2, max2], or the gained sum of squares does
    not fit (only where it cannot have overrun, and no RPC was under way at either reading).
 3. Without, and nothing of rule 2: the same one for certain if  seen2 - seen1 < I,  or if it
    stands before an entry that is the same for certain and was made after it.  Otherwise it is in
    doubt: counted as the same one, which is the lower number, and marked for this job.
 4. A new entry that was made before seen1 + I, or an entry that was absent before that, and still
    is in the next reading: it was deleted by hand, or the target was stopped.  The gap is from the
    last reading that had it.
 5. Absent once proves nothing: readers race.  A reader skips entries only when a scan falls into
    its reading, and scans are I/2 apart, so k absences in a row within the time T prove that it is
    gone if  k > 1 + floor(T / (I/2)):  two, for readings less than I/2 apart.
 6. Two readings I or more apart: what was done from the first on, until I before the second, may
    have expired unseen: a gap; not for entries that were made (or first seen) before read_at1 + I,
    because nothing of theirs can have expired between.  A deletion by hand cannot be told from an
    expiry then.  When no entry proves, by being the same one, that there was none, the gap is all
    of the time between, for all jobs.  Only `started` proves that, or that it was not used.
 7. Another boot of the server, or another server: all entries are new, and a gap for all jobs;
    from the first reading on where this one is older than the last: a clock was wrong.  A server
    that was only renamed has the same boot id.
 8. A job that began before the first reading may have had entries before that are gone.
 9. job_cleanup_interval may change: the shortest since seen1 counts; 0 means never.
10. Values of one entry are not of one moment: `seen` may be older or newer than the counters.
11. A full reading that is older than the last one: the clock was set back, for an agent's messages
    come in their order.  A gap between the two; for all that began before this one, where the
    site's clock does not tell when the last one was.
12. An entry that could not be understood costs nothing where it is understood within I, as one
    that was not read.  Until then its id is marked; all jobs, where its id is not known either.
13. A clock that was set forward makes the kernel expire what it would have kept: two readings that
    are I or more apart by that clock alone are such a gap, too, all of the time between; and so
    are two that are I or more apart by the time since the boot, or the site's, alone: that clock
    was set back meanwhile.
"""

from __future__ import annotations

import numpy

from iostats.site.resets.counters import SUM_LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]

NS = 1_000_000_000
NEVER_S = 1e9                              # as an interval: longer than anything here lives
READING_TAKES = 0.05                       # of I: from the begin of the file to its end, at most
CLOCKS_DIFFER = 0.01                       # of I: boot clock made wall clock, whole seconds
_UNDER_WAY_S = 2                           # an RPC so long before a reading may be half counted
_WHOLE_SECOND_NS = 2 * NS                  # `seen` may go back so far (rule 10)


def has_new_start(both: _Array, made: _Array, started: _Array) -> _Array:
    """Rule 1: which entries are new, of those of which `both` have start_time."""
    new: _Array = both & (made != started)
    return new


def went_back(columns: dict[tuple[str, str], int], old: _Array, now: _Array, here: _Array,
              undated: _Array) -> _Array:
    """
    Rule 2: in which entries anything went back.

    Args:
        columns: {(counter, kind): its column in the tables}.
        old, now: the values of both readings, [entry, column]; `here`: which there are now.
        undated: entries without start_time before; minima and maxima are kept of these alone: a
            server can be told to show start_time or not.
    """
    back = numpy.zeros(len(old), bool)
    for (name, kind), column in columns.items():
        was, came = old[:, column], here[:, column]
        if kind == "samples":
            back |= (was > now[:, column]) & (came | (was > 0))
        elif kind in ("sums", "maxima"):
            back |= came & (now[:, column] < was)
        elif kind == "minima":
            back |= came & undated & (old[:, columns[name, "samples"]] > 0) & (now[:, column] > was)
    return back


def made_after(places: Any, not_in: Any, place: _Array) -> _Array:
    """
    Rules 2 and 3: were entries certainly made after those in `place`, which were not in the reading
    `not_in`, or some of which stood in `places`?  -1: not known.
    """
    reading = place >> 32
    found: _Array = (place >= 0) & ((not_in >= reading) | ((places >> 32 == reading)
                                                           & (places > place)))
    return found


def gain_is_impossible(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """
    Rule 2: whether one counter of an entry cannot have gone from the one to the other.

    `before`: (samples, sum, sumsq); `now`: (samples, sum, min, max, sumsq); each an int, or None
    where there is none.
    """
    old_samples, old_total, old_squares = before
    samples, total, low, high, squares = now
    if not old_samples or None in (old_total, total, low, high) or total >= SUM_LIMIT:
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
    """Rule 2: no RPC was under way at a reading, by when the entry was last used."""
    return seen_ns / NS < read_at - _UNDER_WAY_S


def same_within_interval(silent_ns: _Array, interval_ns: _Array) -> _Array:
    """Rule 3: which entries were silent for less than I, and are the same for certain."""
    same: _Array = (silent_ns < interval_ns * (1 - CLOCKS_DIFFER)) & (silent_ns > -_WHOLE_SECOND_NS)
    return same


def made_too_early(made: _Array, seen: _Array, interval_ns: _Array) -> _Array:
    """Rule 4: which new entries were made before the one before them could expire."""
    early: _Array = made < seen + interval_ns
    return early


def gone_too_early(absent_at: _Array, seen: _Array, interval_ns: _Array) -> _Array:
    """Rule 4: which entries were absent before they could expire."""
    early: _Array = seen + interval_ns * (1 - READING_TAKES) > absent_at * NS
    return early


def is_proved_gone(absent: _Array, absent_for_s: _Array, interval_ns: _Array) -> _Array:
    """
    Rule 5: were entries absent so often, up to the last reading, that no race explains it?

    `absent`: as in entries; `absent_for_s`: from the first to the last reading without it.
    """
    half = interval_ns / NS / 2
    span = absent_for_s + 2 * half * READING_TAKES
    proved: _Array = absent.astype(float) - 1 > 1 + numpy.floor(span / half)
    return proved


def proves_absence(apart_s: float, interval_s: float) -> bool:
    """Rule 5: whether two readings are so close together that two absences prove it."""
    return 2 * apart_s < interval_s * (1 - READING_TAKES)


def expires_within_s(interval_s: float) -> float:
    """Rule 6: two readings so far apart may have missed an entry."""
    return interval_s * (1 - READING_TAKES)


def clock_was_set(ahead: float, ahead_before: float, interval_s: float) -> bool:
    """Rule 13: whether two readings' clocks differ by more than clocks do; `interval_s`: rule 6."""
    return abs(ahead - ahead_before) > interval_s * CLOCKS_DIFFER


def shortest_s(interval_s: float, past: Sequence[tuple[float, float]], since: float) -> float:
    """
    Rule 9: the shortest job_cleanup_interval in use since this time; NEVER_S: never.

    `past`: [(until, job_cleanup_interval before that)].
    """
    known = [(since, interval_s), *past]
    return min((one for until, one in known if one and until >= since), default=NEVER_S)


def shortest_ns(interval_s: float, past: Sequence[tuple[float, float]], seen: _Array) -> _Array:
    """Rule 9, for each entry by when it was last used; ns, array of float64."""
    shortest = numpy.full(len(seen), float(interval_s or NEVER_S) * NS)
    for until, one in past:
        if one:
            numpy.minimum(shortest, one * float(NS), out=shortest, where=seen <= until * NS)
    return shortest


def is_understood_in_time(since: float, now: float, interval_s: float) -> bool:
    """Rule 12: an entry that was not understood since then, and is now, has lost nothing."""
    return now - since < interval_s * (1 - READING_TAKES)


def before_ns(read_at: float) -> float:
    """A reading's time in ns, a little less: as float64, times of today are exact to 256 ns."""
    return read_at * NS - 1_000_000
