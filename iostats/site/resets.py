"""
Zeroing correction: what each job did at one target, although the target forgets silent jobs.

A target's job_stats has an entry for each job id, whose counters only grow.  An entry that has
been silent for job_cleanup_interval (I, 600 s by default) is removed, and the job's next RPC makes
another one, which begins at 0.  The life of one entry is an incarnation; a job's total is the sum
of the last values of all its incarnations.  What has to be found out, between two readings of the
file, is whether an entry is still the same one.

What the kernel does (lustre/obdclass/lprocfs_jobstats.c, 2.5 to 2.17), and what follows:

    lprocfs_job_stats_log   finds the entry, or makes one; sets its time of last use
                            (`seen`, printed as snapshot_time) before it counts
    lprocfs_job_cleanup     removes the entries with  seen < now - I.  It is called when an entry
                            is to be made, from 2.8 also when a reader closes the file, and does
                            nothing when the last time is less than I/2 ago (2.5 to 2.7: it is
                            called at each RPC, and I ago)
    job_alloc               `started` (from 2.15.2 printed as start_time): when the entry was made
    seq_start               up to 2.15 a reader goes on by number after each piece of the file, so
                            that entries removed meanwhile make it skip as many others
    list_add_tail           the file has the entries in the order in which they were made

So an entry that is another one was made more than I after the last use of the one before it; and
nothing is ever lost by this as long as two readings are less than I apart.  All else is a deletion
by hand (`clear`, or one id), or a target that was stopped, and may have cost what was done since
the last reading: that is a gap, and marks() tells it.

The rules; 1 is what we knew, 2 is now; `seen`, `started` of the entry, `read_at` of the reading:

 1. Both have `started`: another one if and only if it differs.
 2. Without: another one if anything went back (samples, sum, max; min rose; a counter is gone);
    if it stands behind an entry in the file that was made after it; if it was absent so often
    that no race explains it (rule 5) and I has gone by since seen1; if what was gained cannot be:
    the gained sum is not within gained samples x [min2, max2], or the gained sum of squares does
    not fit (only where it cannot have overrun, and no RPC was under way at either reading).
 3. Without, and nothing of rule 2: the same one for certain if  seen2 - seen1 < I,  or if it
    stands before an entry that is the same for certain and was made after it.  Otherwise it is in
    doubt: counted as the same one, which is the lower number, and marked for this job.
 4. Another one that was made before seen1 + I, or an entry that was absent before that, and still
    is in the next reading: it was deleted by hand, or the target was stopped.  The gap is from the
    last reading that had it.
 5. Absent once proves nothing: readers race.  A reader skips entries only when a scan falls into
    its reading, and scans are I/2 apart, so k absences in a row within the time T prove that it is
    gone if  k > 1 + floor(T / (I/2)):  two, for readings less than I/2 apart.
 6. Two readings I or more apart: what was done from the first on, until I before the second, may
    have expired unseen: a gap; not for entries that were made (or first seen) before read_at1 + I,
    because nothing of theirs can have expired between.  A deletion by hand cannot be told from an
    expiry then.  When no entry proves, by being the same one, that there was none, the gap is all
    of the time between, for everybody.  Only `started` proves that, or that it was not used.
 7. Another boot of the server, or another server: all entries are others, and a gap for everybody;
    from the first reading on where this one is older than the last: a clock was wrong.  A server
    that was only renamed has the same boot id.
 8. A job that began before the first reading may have had entries before that are gone.
 9. job_cleanup_interval may change: the shortest since seen1 counts; 0 means never.
10. Values of one entry are not of one moment: `seen` may be older or newer than the counters.
11. A full reading that is older than the last one: the clock was set back, for an agent's messages
    come in their order.  A gap between the two; for all that began before this one, where the
    site's clock does not tell when the last one was.
12. An entry that could not be understood costs nothing where it is understood within I, as one
    that was not read.  Until then its id is marked; everybody, where its id is not known either.
13. A clock that was set forward makes the kernel expire what it would have kept: two readings that
    are I or more apart by that clock alone are such a gap, too, all of the time between.

Times: `seen` and `started` in ns since 1970, `read_at` in s, all by the storage server's clock,
which may be wrong, and be set.  What is to be compared with the times of jobs is by the site's
clock: each reading comes with how far ahead of that the other one was then; gaps, doubts,
`_origin`, `swept_since` and `swept_until` are put down by it.
Numbers are unsigned 64-bit integers, as the kernel prints them (%llu).

What is in memory: for each target one row of a few tables for each job that it has seen (a slot);
`Names` gives each job id one number for all targets, and all targets with the same counters share
the `_Layout` that says where they stand.  Earlier incarnations are added up in a table of their
own, which only jobs with more than one have.  So a target with one job takes little more than
what its numbers take, and a block costs the same number of calls of numpy whatever its counters.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_left
from collections import namedtuple
from weakref import WeakValueDictionary

import numpy

from iostats.base.errors import StateError
from iostats.lustre.metrics import (
    SINGLE_OPERATIONS,
    TIME_UNITS,
    is_counted_again,
    is_operation,
)
from iostats.site.narrow_columns import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Optional, Union

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]
    _Machine = tuple[Optional[str], Optional[str]]          # node, boot_id
    _Kept = Union[_Array, slice]

# Why a total may be too low, in the words of marks() and gaps: what is proved, and no more.
NO_SWEEP = "no sweep for job_cleanup_interval or longer"
CLOCK_SET = "the storage server's clock was set"
CLEARED = ("entries were removed before their time (job_stats cleared, the target started again, "
           "or the clock set)")
RESTARTED = "read by another storage server, or after another boot"
DOUBTFUL = "an entry that cannot be told from another one after an expiry"
LATE = "not read from the job's begin on"
NO_INTERVAL = "job_cleanup_interval cannot be read"
NOT_UNDERSTOOD = "an entry could not be understood"
AT_LIMIT = "a sum has reached the kernel's limit"
# Behind a reason of a time in which the job was not seen, and nobody tells whether it ran.
BEFORE_SEEN = ", before the job was first seen; when it began is not known"
AFTER_SEEN = ", after the job was last seen; when it ended is not known"

DEFAULT_CLEANUP_S = 600                    # the kernel's own, lprocfs_job_stats_init()
MOST_GAPS = 64

_NS = 1_000_000_000
_LIMIT = 2**63 - 1                         # sums stay there from 2.17 on (lprocfs_counter_add)
_NEVER_S = 1e9                             # as an interval: longer than anything here lives
_READING_TAKES = 0.05                      # of I: from the begin of the file to its end, at most
_CLOCKS_DIFFER = 0.01                      # of I: boot clock made wall clock, whole seconds
_UNDER_WAY_S = 2                           # an RPC so long before a reading may be half counted
_MOST_READINGS = 64                        # whose times are remembered
_MOST_REFUSED = 1000                       # ids that are known not to be understood
_MOST_BOOTS = 16                           # whose old messages are known as such
_NO_ENTRY = 255                            # `absent`: there is no incarnation that could go on
_MOST_ABSENT = 250
_GONE_FOR_CERTAIN = 3                      # `absent` of an entry that will not come back
_U64, _I64, _I32 = numpy.uint64, numpy.int64, numpy.int32
_MAGIC = b"iostats zeroing 1\n"
_OR = "; or "                              # between the reasons of gaps that were made one

# What a target begins with; never written to, because nothing is in them.
_NO_LONGS, _NO_INTS, _NO_BYTES = (numpy.zeros((rows, 0), kind) for rows, kind in (
    (4, _I64), (2, _I32), (3, numpy.uint8)))
_NO_INDEX, _NO_SLOTS = numpy.zeros((2, 0), _I32), numpy.zeros(0, _I32)
_NO_VALUES = numpy.zeros((0, 0), _U64)

Column = namedtuple("Column", "unit samples sums")
Column.__doc__ = """
One counter of some jobs.

Attributes:
    unit: bytes, reqs or usecs, as the file has it.
    samples: how often, array of uint64.
    sums: of what was counted, in `unit`, array of uint64; None where the file has none.
"""

Totals = namedtuple("Totals", "ids counters")
Totals.__doc__ = "All incarnations added up: counter name -> Column, in the order of `ids`."

Gains = namedtuple("Gains", "ids read_bytes write_bytes reads writes operations span_s more",
                   defaults=({},))
Gains.__doc__ = """
What the jobs that changed gained between the last two readings.

Attributes:
    ids: of these jobs.
    read_bytes, write_bytes, reads, writes, operations: arrays of int64, in the order of `ids`;
        operations: samples of all counters but read, write, read_bytes and write_bytes, and
        those that count a rename once more.
    span_s: between the two readings; 0 after the first one, which has no gains.
    more: {name: array of float32} of counters.SINGLE_OPERATIONS, "us" (microseconds that the
        server took) and "timed" (the requests that these are of), as far as the target has them.
"""

_WHOLE_GAINS = ("read_bytes", "write_bytes", "reads", "writes", "operations")
_GAIN_NAMES = (*_WHOLE_GAINS, "us", "timed", *SINGLE_OPERATIONS)
_SUM_GAINS = {"read_bytes": ("read_bytes", "reads"), "write_bytes": ("write_bytes", "writes")}
_NO_GAINS = numpy.zeros((0, len(_GAIN_NAMES)), _I64)
_NOTHING_GAINED: Any = ([], _NO_GAINS[:, :len(_WHOLE_GAINS)], {})
# What is kept of a counter, and where it stands in a sweeps.Column.
_FIELDS = {"samples": "samples", "sums": "sum", "minima": "min", "maxima": "max",
           "squares": "sumsq"}
_KINDS = {field: kind for kind, field in _FIELDS.items()}
_COUNTED = ("samples", "sums")             # the others are kept of entries without start_time alone


class _Layout:
    """
    Which counters a target has, and which column of its tables each of them is.

    Attributes:
        units: {counter: unit}.
        columns: ((counter, kind), ...), kind: of _FIELDS; `at`: {(counter, kind): its column}.
        counted: index of those that only grow, samples and sums: the columns of Target._bases,
            whose places are `counted_at`.
        gains: [of `counted`, of _GAIN_NAMES], 1 where the one is a part of the other.
    """

    def __init__(self, units: Sequence[tuple[str, str]],
                 columns: Sequence[tuple[str, str]]) -> None:
        self.units, self.columns = dict(units), columns
        self.at = {column: place for place, column in enumerate(columns)}
        counted = [column for column in columns if column[1] in _COUNTED]
        self.counted: _Kept = slice(None)
        if len(counted) < len(columns):
            self.counted = numpy.array([self.at[column] for column in counted], numpy.intp)
        self.counted_at = {column: place for place, column in enumerate(counted)}
        self.gains = numpy.zeros((len(counted), len(_GAIN_NAMES)), _I64)
        for (name, kind), place in self.counted_at.items():
            of_sums, of_samples = _SUM_GAINS.get(name, ("", ""))
            gain = of_sums if kind == "sums" else of_samples
            if kind == "samples" and is_operation(name):
                gain = "operations"
            if gain:
                self.gains[place, _GAIN_NAMES.index(gain)] = 1
            if kind == "samples" and name in SINGLE_OPERATIONS:
                self.gains[place, _GAIN_NAMES.index(name)] = 1
            if self.units[name] in TIME_UNITS and not is_counted_again(name) and (
                    (name, "sums") in self.counted_at):
                self.gains[place, _GAIN_NAMES.index("us" if kind == "sums" else "timed")] = 1


class Names:
    """Job id <-> row, one for all targets; an id that no target knows any more leaves its row."""

    def __init__(self) -> None:
        self._row_of: dict[str, int] = {}
        self._ids: list[Any] = []               # None in a free row
        self._users = array("i")
        self._free: list[int] = []
        self._layouts: WeakValueDictionary[Any, _Layout] = WeakValueDictionary()
        self.empty = self.layout({}, ())

    def layout(self, units: dict[str, str], columns: tuple[tuple[str, str], ...]) -> _Layout:
        """The _Layout of these, one for all targets."""
        key = (tuple(units.items()), columns)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = _Layout(*key)
        return layout

    def __len__(self) -> int:
        return len(self._row_of)

    def rows(self, ids: Sequence[str]) -> _Array:
        """Array of their rows; ids that are new get one."""
        rows: list[Any] = list(map(self._row_of.get, ids))
        if None in rows:
            for at, row in enumerate(rows):
                if row is None:
                    rows[at] = self._add(ids[at])
        return numpy.frombuffer(array("i", rows), _I32)

    def found(self, ids: Sequence[str]) -> _Array:
        """Array of their rows; -1 where an id is not known."""
        get = self._row_of.get
        return numpy.frombuffer(array("i", [get(one, -1) for one in ids]), _I32)

    def ids(self, rows: _Array) -> list[str]:
        """List of the ids in these rows."""
        return list(map(self._ids.__getitem__, rows.tolist()))

    def hold(self, rows: _Array) -> None:
        """One more target knows these."""
        for row in rows.tolist():
            self._users[row] += 1

    def release(self, rows: _Array) -> None:
        """One target less knows these."""
        for row in rows.tolist():
            self._users[row] -= 1
            if not self._users[row]:
                del self._row_of[self._ids[row]]
                self._ids[row] = None
                self._free.append(row)

    def _add(self, one: str) -> int:
        known = self._row_of.get(one)                   # twice in `ids`
        if known is not None:
            return known
        if self._free:
            row = self._free.pop()
            self._ids[row] = one
        else:
            row = len(self._ids)
            self._ids.append(one)
            self._users.append(0)
        self._row_of[one] = row
        return row


def _machine(node: str | None, boot_id: str | None) -> _Machine:
    """What tells one boot of a server from another: its boot id, whatever its name; or its name."""
    return (None if boot_id else node, boot_id)


class _Reading:
    """
    A reading whose last block has not come yet.

    Attributes:
        read_at, full: as in the blocks; ahead: the storage server's clock less the site's, s.
        kernel_ahead: the same, by the times of its entries.
        number: of all readings of this target.
        bad: some entries could not be understood; absence proves nothing.
        nameless: ... nor the ids of some of them.
        rows: entries so far, that is the next one's place in it.
        done: what tells its blocks apart, so that one that comes again is known.
        slots, moved, gains: of its entries; lists of arrays, one a block; the last one has a
            column for each of _GAIN_NAMES.
        doubts: [(slots, places, from_s, to_s)], arrays, that a later entry may still clear up.
        same: arrays of slots that are the same entries for certain.
        top: the largest place of the entries so far, and the last reading one was not in.
        cleared: (from, to) of a deletion by hand, or None.
    """

    __slots__ = ("ahead", "bad", "cleared", "done", "doubts", "full", "gains", "kernel_ahead",
                 "moved", "nameless", "number", "read_at", "rows", "same", "slots", "top")

    def __init__(self, read_at: float, full: bool, number: int, ahead: float) -> None:
        self.read_at, self.full, self.number, self.ahead = read_at, full, number, ahead
        self.kernel_ahead = ahead
        self.bad, self.nameless, self.rows, self.top = False, False, 0, (-1, -1)
        self.done: set[tuple[str, int, int] | None] = set()
        self.slots: list[_Array] = []
        self.moved: list[_Array] = []
        self.gains: list[_Array] = []
        self.doubts: list[tuple[_Array, ...]] = []
        self.same: list[_Array] = []
        self.cleared: tuple[float, float] | None = None

    def clear_between(self, began: float, ended: float) -> None:
        """Note a deletion by hand."""
        if self.cleared:
            began, ended = min(began, self.cleared[0]), max(ended, self.cleared[1])
        self.cleared = (float(began), float(ended))


class _Gap:
    """
    When something may have been lost, by the site's clock, and which slots are known to have lost
    nothing.
    """

    __slots__ = ("began", "by_expiry", "ended", "spared", "why")

    def __init__(self, began: float, ended: float, why: str, spared: _Array,
                 by_expiry: bool = False) -> None:
        self.began, self.ended, self.why = float(began), float(ended), why
        self.by_expiry = by_expiry                      # nothing else can have taken anything
        self.spared = numpy.packbits(spared)

    def spares(self, slot: int) -> bool:
        """True where this slot has lost nothing."""
        byte = slot >> 3
        return byte < len(self.spared) and bool(self.spared[byte] >> (7 - (slot & 7)) & 1)

    def bits(self, length: int) -> _Array:
        """Array of bool, one for each slot."""
        bits = numpy.zeros(length, bool)
        spared = numpy.unpackbits(self.spared)[:length]
        bits[:len(spared)] = spared
        return bits


class Target:
    """
    The entries of one target, corrected.

    Attributes:
        file_system, target: names, "scratch" and "OST000a".
        node, boot_id: the storage server that read it last, and that server's boot.
        read_at: of the last whole reading; None before it.
        ahead: the storage server's clock less the site's at that reading, s.
        swept_since: of the first whole reading, by the site's clock; None before it.
        cleanup_s: job_cleanup_interval; None where it cannot be read.
        entries: in the file at the last whole reading.
    """

    __slots__ = ("_aheads", "_bases", "_bases_free", "_bases_used", "_bytes", "_doubts", "_free",
                 "_gained", "_gaps", "_heard", "_index", "_ints", "_layout", "_longs", "_names",
                 "_number", "_past_intervals", "_reading", "_readings", "_refused", "_span_s",
                 "_used", "_values", "_whole", "ahead", "boot_id", "cleanup_s", "entries",
                 "file_system", "node", "read_at", "swept_since", "target")

    def __init__(self, names: Names, file_system: str, target: str) -> None:
        self.file_system, self.target = file_system, target
        self.node: str | None = None
        self.boot_id: str | None = None
        self.read_at: float | None = None
        self.ahead = 0.0
        self.swept_since: float | None = None
        self.cleanup_s: int | None = None
        self.entries = 0
        self._names = names
        # [rows of Names, ascending; the slot of each].
        self._index = _NO_INDEX
        self._used = 0                                  # slots in use are below _used
        self._free: list[int] = []
        # One row for each column below, as _PLAIN and the properties have them.
        self._longs, self._ints, self._bytes = _NO_LONGS, _NO_INTS, _NO_BYTES
        self._layout = names.empty
        self._values = Table()                          # [slot, column of _layout]
        self._bases = _NO_VALUES                        # [row, column of _layout.counted]
        self._bases_used = 0
        self._bases_free: list[int] = []
        self._gaps: list[_Gap] = []
        self._doubts: dict[int, tuple[float, float]] = {}               # slot -> (from_s, to_s)
        self._past_intervals: list[tuple[float, float]] = []            # (until read_at, cleanup_s)
        self._readings = array("d")                     # times of the last ones,
        self._aheads = array("d")                       # and their `ahead`
        self._number = 0                                # how many
        self._whole = 0                                 # readings in a row that prove absence
        self._heard: dict[_Machine, float] = {}         # its last read_at
        self._refused: dict[str, tuple[float, float]] = {}     # id -> (from, to), the site's clock
        self._reading: _Reading | None = None
        # The ids that changed, what they gained [id, of _WHOLE_GAINS], and {name: column} of more.
        self._gained: tuple[list[str], _Array, dict[str, _Array]] = _NOTHING_GAINED
        self._span_s = 0.0

    @property
    def _seen(self) -> _Array:
        return _row_of(self._longs, 0)

    @property
    def _born(self) -> _Array:
        """`started`, or when it was first seen."""
        return _row_of(self._longs, 1)

    @property
    def _origin(self) -> _Array:
        """`_born` of the first one ever, by the site's clock."""
        return _row_of(self._longs, 2)

    @property
    def _absent_at(self) -> _Array:
        """The first reading that it was absent from, s."""
        return _row_of(self._longs, 3).view(numpy.float64)

    @property
    def _place(self) -> Any:
        """
        Where it stood in the file when it was first seen: reading << 32 | place; -1: not known.

        None: all are dated, and nobody needs it.
        """
        return _row_of(self._longs, 4) if len(self._longs) > 4 else None

    @property
    def _not_in(self) -> Any:
        """The last reading in which it certainly was not there yet; otherwise as `_place`."""
        return _row_of(self._ints, 2) if len(self._ints) > 2 else None

    @property
    def _row(self) -> _Array:
        """Its row in Names; -1: free."""
        return _row_of(self._ints, 0)

    @property
    def _base(self) -> _Array:
        """Its row in `_bases`, or -1."""
        return _row_of(self._ints, 1)

    @property
    def _dated(self) -> _Array:
        """`_born` is start_time."""
        return _row_of(self._bytes, 0).view(bool)

    @property
    def _absent(self) -> _Array:
        """0: there; n+1: n proofs of absence."""
        return _row_of(self._bytes, 1)

    @property
    def _asleep(self) -> _Array:
        """Forgotten, and its entry is there still."""
        return _row_of(self._bytes, 2).view(bool)

    # ---- what comes in

    def take(self, block: Any, node: str, boot_id: str, full: bool, ahead: float = 0.0,
             kernel_ahead: float | None = None) -> bool:
        """
        Take one block; True, or False for one that is old, or of a file that could not be read.

        Blocks of one reading come in their order, readings in theirs.

        Args:
            block: sweeps.Block, or sweeps.Rows.
            node, boot_id: who has read it.
            full: what is in no block of this reading is not there.
            ahead: the storage server's clock less the site's when it was read, s; as the agent has
                it, whose clock goes slower and not back.
            kernel_ahead: the same of the kernel's clock, where that is known.
        """
        rows = block.rows()
        block = rows.head
        if block.unreadable:
            return False
        machine = _machine(node, boot_id)
        heard = self._heard.get(machine, float("-inf"))
        if block.read_at == heard or (block.read_at < heard and not full):
            return False
        if machine != _machine(self.node, self.boot_id):
            self._begin_anew(block.read_at - ahead)
        elif full and block.read_at < (self._reading.read_at if self._reading else heard):
            self._set_back(block.read_at - ahead)
        if block.read_at < heard:
            del self._heard[machine]
        self.node, self.boot_id = node, boot_id
        reading = self._reading
        if reading is None or reading.read_at != block.read_at:
            if reading is not None:
                if block.read_at < reading.read_at:
                    return False
                self._whole = 0                         # it was never ended: its rest is not known
                self._keep_doubts()
            before, reading = reading, self._begin(block, full, ahead)
            reading.kernel_ahead = ahead if kernel_ahead is None else kernel_ahead
            if before is not None:
                reading.cleared = before.cleared
        key = (block.ids[0], int(rows.seen[0]), len(block.ids)) if block.ids else None
        if key is None or key not in reading.done:      # else it has come before
            reading.done.add(key)
            if block.bad:
                self._refuse(block, reading)
            if block.ids:
                self._take_entries(rows, reading)
        if block.ended:
            self._end(block, reading)
        return True

    def _refuse(self, block: Any, reading: _Reading) -> None:
        """Rule 12."""
        now, refused = reading.read_at - reading.ahead, self._refused
        last = now if self.swept_until is None else self.swept_until
        reading.bad = True
        for one in block.refused[:max(0, _MOST_REFUSED - len(refused))]:
            refused[one] = (refused.get(one, (last,))[0], now)
        reading.nameless |= (block.bad > len(block.refused)
                             or not refused.keys() >= set(block.refused))

    def _understand(self, ids: Iterable[str], reading: _Reading) -> None:
        """What was refused before and is understood now has lost nothing, if that was not long."""
        for one in self._refused.keys() & set(ids):
            since, _ = self._refused[one]
            if reading.read_at - reading.ahead - since < self._interval_s() * (1 - _READING_TAKES):
                del self._refused[one]

    @property
    def swept_until(self) -> float | None:
        """When the last whole reading was, by the site's clock; None before it."""
        return None if self.read_at is None else self.read_at - self.ahead

    def _begin_anew(self, now: float) -> None:
        """
        Another server, or another boot of it: all entries that we know are gone; `now`: by the
        site's clock.
        """
        self._lose_sight()
        last = self.swept_until
        if last is not None:
            self._fold(numpy.flatnonzero(self._row[:self._used] >= 0))
            self._absent[:] = _NO_ENTRY
            began = last
            if last > now:                              # the one clock was wrong, or the other is
                began = self.swept_since = min(self.swept_since or now, now)
            self._add_gap(began, max(last, now), RESTARTED, numpy.zeros(self._used, bool))
        elif self._used:                                # only parts of a first reading
            self._fold(numpy.flatnonzero(self._row[:self._used] >= 0))
            self._absent[:] = _NO_ENTRY

    def _set_back(self, now: float) -> None:
        """Rule 11; `now`: by the site's clock."""
        self._lose_sight()
        last = self.swept_until
        if last is None or last > now:                  # it was wrong, or told us nothing
            last = self.swept_since = min(self.swept_since or now, now)
        self._add_gap(last, now, CLOCK_SET, numpy.zeros(self._used, bool))

    def _lose_sight(self) -> None:
        """What comes does not follow what was read."""
        self._keep_doubts()
        if self._reading is not None and self._reading.cleared:
            self._add_cleared(self._reading, numpy.zeros(self._used, bool))
        self._reading = None
        self._past_intervals, self._whole = [], 0
        self._readings, self._aheads = array("d"), array("d")
        if self._place is not None:
            self._place[:] = self._not_in[:] = -1

    def _begin(self, block: Any, full: bool, ahead: float) -> _Reading:
        self._number += 1
        if block.cleanup_s != self.cleanup_s:
            if self.read_at is not None:
                self._past_intervals.append((block.read_at, self._interval_s()))
                if len(self._past_intervals) > 8:
                    (_, a), (until, b) = self._past_intervals[:2]
                    self._past_intervals[:2] = [(until, min(a or b, b or a))]
            self.cleanup_s = block.cleanup_s
        self._reading = _Reading(block.read_at, full, self._number, float(ahead))
        if self._readings and (2 * (block.read_at - self._readings[-1])
                               >= self._shortest_s(self._readings[-1]) * (1 - _READING_TAKES)):
            self._whole = 0                             # rule 5 needs them closer together
        return self._reading

    def _interval_s(self) -> float:
        return DEFAULT_CLEANUP_S if self.cleanup_s is None else self.cleanup_s

    def _shortest_s(self, since: float) -> float:
        """The shortest job_cleanup_interval in use since this time; infinite: never."""
        known = [(since, self._interval_s()), *self._past_intervals]
        return min((one for until, one in known if one and until >= since), default=_NEVER_S)

    def _shortest_ns(self, seen: _Array) -> _Array:
        """The same for each entry, in ns, by when it was used last."""
        shortest = numpy.full(len(seen), float(self._interval_s() or _NEVER_S) * _NS)
        for until, one in self._past_intervals:
            if one:
                numpy.minimum(shortest, one * float(_NS), out=shortest, where=seen <= until * _NS)
        return shortest

    def _take_entries(self, block: Any, reading: _Reading) -> None:
        """The entries of one block: decide for each whether it is another one, then store it."""
        if self._refused:
            self._understand(block.head.ids, reading)
        slots = self._slots(block.head.ids)
        seen, started = block.seen, block.started
        old_seen, absent = self._seen[slots], self._absent[slots]
        known = absent != _NO_ENTRY
        dated = started > 0
        was_dated = known & self._dated[slots]
        both = was_dated & dated
        blind = known & ~both
        new = both & (self._born[slots] != started)
        any_blind, all_dated = bool(blind.any()), bool(dated.all())
        self._learn(block, all_dated)
        arrived = _Arrived(block, self._layout, all_dated)
        if not all_dated or any_blind:
            self._need_places()
        has_places = self._place is not None
        if has_places:
            place, not_in = self._place[slots], self._not_in[slots]
        if any_blind:
            new |= self._others(blind, slots, seen, old_seen, absent, arrived, reading)
        if new.any():
            self._judge_deaths(slots[new], numpy.where(dated, started, seen)[new], absent[new],
                               reading)
            self._fold(slots[new])
        begun = new | ~known
        self._seen[slots] = seen
        if not both.all() or new.any():
            self._born[slots] = numpy.where(begun | (dated & ~was_dated),
                                            numpy.where(dated, started, seen), self._born[slots])
            self._dated[slots] = dated
            first = slots[self._origin[slots] == 0]
            ahead = min(reading.ahead, reading.kernel_ahead)
            self._origin[first] = self._born[first] - _I64(ahead * _NS)
        self._absent[slots] = 0
        if has_places:
            reading.top = (max(reading.top[0], int(place.max())),
                           max(reading.top[1], int(not_in.max())))
            self._put(begun | (place < 0), slots, reading)
            # The entry before it was in the last reading, or in the one before; one that nobody
            # knows was absent from both, which proves it (rule 5).
            if self._whole >= 2:
                before = reading.number - numpy.where(new & (absent == 0), 1, 2)
            else:
                before = numpy.where(new, place >> 32, -1)
            self._not_in[slots] = numpy.where(begun, before, not_in)
        moved = begun | (seen != old_seen)
        gained = self._store(slots, arrived)
        moved |= (gained > 0).any(axis=1)
        self._asleep[slots[moved]] = False
        reading.rows += len(slots)
        reading.slots.append(slots)
        reading.moved.append(moved)
        reading.gains.append(gained @ self._layout.gains)

    def _learn(self, block: Any, all_dated: bool) -> None:
        """Have a column for all that these entries tell, and is to be kept."""
        layout = self._layout
        units = {name: unit for name, unit in block.units.items()
                 if name not in layout.units or (unit and unit != layout.units[name])}
        more = [(name, kind) for name, kind in ((name, _KINDS[field])
                                                for name, field in block.columns)
                if (name, kind) not in layout.at and not (all_dated and kind not in _COUNTED)]
        if units or more:
            self._layout = layout = self._names.layout({**layout.units, **units},
                                                       (*layout.columns, *more))
            self._values.widen(len(layout.columns))
            self._bases = _wider(self._bases, len(layout.counted_at))

    def _slots(self, ids: Sequence[str]) -> _Array:
        """The slots of these ids; the new ones get one, where nothing is known (_NO_ENTRY)."""
        rows = self._names.rows(ids)
        slots = self._found(rows)
        fresh = slots < 0
        if fresh.any():
            new_rows = rows[fresh]
            new_slots = self._allot(len(new_rows))
            slots[fresh] = new_slots
            index = numpy.concatenate((self._index, (new_rows, new_slots)), axis=1, dtype=_I32)
            self._index = index[:, numpy.argsort(index[0], kind="stable")]
            self._row[new_slots] = new_rows
            self._absent[new_slots] = _NO_ENTRY
            self._base[new_slots] = -1
            if self._place is not None:
                self._place[new_slots] = self._not_in[new_slots] = -1
            self._names.hold(new_rows)
        return slots

    def _found(self, rows: _Array) -> _Array:
        """The slots of these rows of Names; -1 where one is not known here."""
        if not len(self._index[0]):
            return numpy.full(len(rows), -1, _I32)
        at = self._index[0].searchsorted(rows)
        found: _Array = numpy.where(self._index[0].take(at, mode="clip") == rows,
                                    self._index[1].take(at, mode="clip"), _I32(-1))
        return found

    def _allot(self, count: int) -> _Array:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        more = count - len(reused)
        if self._used + more > self._longs.shape[1]:
            self._resize(slice(self._used), max(self._used + more, self._used * 9 // 8 + 2))
        new = numpy.arange(self._used, self._used + more, dtype=_I32)
        self._used += more
        return numpy.concatenate([numpy.array(reused, _I32), new]) if reused else new

    def _resize(self, kept: _Kept, length: int) -> None:
        """Keep the slots `kept` (array or slice), and make room for `length`."""
        for name in ("_longs", "_ints", "_bytes"):
            setattr(self, name, _resized(getattr(self, name), kept, length))
        self._values.keep(kept, length)

    def _store(self, slots: _Array, arrived: _Arrived) -> _Array:
        """Put the values into the columns; what was gained, [entry, column of `counted`]."""
        old = self._values.get(slots)
        now = old.copy()
        arrived.put_into(now)
        self._values.put(slots, now)
        counted = self._layout.counted
        return _gain(now[:, counted], old[:, counted])

    # ---- is it another one?  (no start_time)

    def _others(self, blind: _Array, slots: _Array, seen: _Array, old_seen: _Array, absent: _Array,
                arrived: _Arrived, reading: _Reading) -> _Array:
        """Which of the entries `blind` are others; those in doubt are noted."""
        new = blind & self._went_back(slots, arrived, ~self._dated[slots])
        place, not_in = self._place[slots], self._not_in[slots]
        twice = place >> 32 == reading.number           # an id twice in this reading
        place[twice] = not_in[twice] = -1
        before = [numpy.maximum.accumulate(numpy.concatenate(([top], some)))[:-1]
                  for top, some in zip(reading.top, (place, not_in))]
        moved_back = blind & ~new & _made_after(before[0], before[1], place)
        interval = self._shortest_ns(old_seen)
        silent = seen - old_seen
        sure = blind & ~new & (silent < interval * (1 - _CLOCKS_DIFFER)) & (silent > -2 * _NS)
        rest = blind & ~new & ~sure
        if moved_back.any():
            new |= moved_back & ~sure
            rest &= ~new
            # It is another one, but since when?  A deletion by hand went unseen: what it had done
            # until then was overtaken.
            for slot in slots[moved_back & sure].tolist():
                self._doubt(slot, *self._by_site(int(self._born[slot]) / _NS, reading.read_at))
            self._put(moved_back & sure, slots, reading)
        if rest.any():
            gone = rest & (absent >= 2)
            if gone.any():
                gone &= self._is_gone(slots, absent)
                new |= gone
                rest &= ~gone
        certain = sure | (~blind & ~new & (absent != _NO_ENTRY))    # dated ones are certain, too
        after = [numpy.where(certain, some, -1) for some in (place, not_in)]
        self._settle_doubts([int(some.max()) for some in after], reading)
        if rest.any():
            behind = [numpy.concatenate((numpy.maximum.accumulate(some[::-1])[::-1][1:], [-1]))
                      for some in after]
            same = rest & _made_after(behind[0], behind[1], place)
            rest &= ~same
            for at in numpy.flatnonzero(rest).tolist():
                if self._is_impossible(at, int(slots[at]), int(seen[at]), arrived, reading):
                    new[at] = True
                    rest[at] = False
            if rest.any():
                reading.doubts.append((slots[rest], place[rest], *self._by_site(
                    old_seen[rest] / _NS, numpy.maximum(seen[rest] / _NS, reading.read_at))))
                self._put(rest, slots, reading)         # it may be another one since now
            reading.same.append(slots[same])
        reading.same.append(slots[sure])
        return new

    def _went_back(self, slots: _Array, arrived: _Arrived, undated: _Array) -> _Array:
        # Extremes are kept of the `undated` alone: a server can be told to show start_time or not.
        back = numpy.zeros(len(slots), bool)
        old, (now, here), at = self._values.get(slots), arrived.table(), self._layout.at
        for (name, kind), column in at.items():
            was, came = old[:, column], here[:, column]
            if kind == "samples":
                back |= (was > now[:, column]) & (came | (was > 0))
            elif kind in ("sums", "maxima"):
                back |= came & (now[:, column] < was)
            elif kind == "minima":
                back |= came & undated & (old[:, at[name, "samples"]] > 0) & (now[:, column] > was)
        return back

    def _is_gone(self, slots: _Array, absent: _Array) -> _Array:
        """Rule 5: were they absent so often, up to the last reading, that no race explains it?"""
        half = self._shortest_ns(self._seen[slots]) / _NS / 2
        span = (self.read_at or 0) - self._absent_at[slots] + 2 * half * _READING_TAKES
        return absent.astype(float) - 1 > 1 + numpy.floor(span / half)

    def _is_impossible(self, at: int, slot: int, seen: int, arrived: _Arrived,
                       reading: _Reading) -> bool:
        """Can what one entry has gained not have been gained?  False where an RPC was under way."""
        quiet = (seen / _NS < reading.read_at - _UNDER_WAY_S
                 and int(self._seen[slot]) / _NS < (self.read_at or 0) - _UNDER_WAY_S)
        if self._dated[slot] or not quiet:
            return False
        columns = self._layout.at
        was = self._values.get(slot).tolist()
        for name, numbers in arrived.of(at):
            samples, total, low, high, squares = numbers
            if total is None or (name, "sums") not in columns:
                continue
            old = was[columns[name, "samples"]]
            if not old:
                continue
            gained, sum_gained = samples - old, total - was[columns[name, "sums"]]
            if low is None or high is None or total >= _LIMIT:
                continue
            if not gained * low <= sum_gained <= gained * high:
                return True
            if squares is None or (name, "squares") not in columns or high * total >= _LIMIT:
                continue
            squares_gained = squares - was[columns[name, "squares"]]
            if not (gained * squares_gained >= sum_gained ** 2
                    and gained * low ** 2 <= squares_gained <= gained * high ** 2):
                return True
        return False

    def _doubt(self, slot: int, began: float, ended: float) -> None:
        if slot in self._doubts:
            began, ended = (min(began, self._doubts[slot][0]), max(ended, self._doubts[slot][1]))
        self._doubts[slot] = (began, ended)

    def _put(self, which: _Array, slots: _Array, reading: _Reading) -> None:
        """Where these entries of a block stand in the file."""
        places = (reading.number << 32) + reading.rows + numpy.flatnonzero(which)
        self._place[slots[which]] = places

    def _settle_doubts(self, last: Sequence[int], reading: _Reading) -> None:
        """One that is the same for certain has come: those before it that are older are, too."""
        left: list[tuple[_Array, ...]] = []
        for slots, places, began, ended in reading.doubts:
            same = _made_after(last[0], last[1], places)
            reading.same.append(slots[same])
            if not same.all():
                left.append((slots[~same], places[~same], began[~same], ended[~same]))
        reading.doubts = left

    def _keep_doubts(self) -> None:
        """What the open reading has left in doubt stays so."""
        if self._reading is not None:
            for slots, _, began, ended in self._reading.doubts:
                for doubt in zip(slots.tolist(), began.tolist(), ended.tolist()):
                    self._doubt(*doubt)

    def _need_places(self) -> None:
        if self._place is None:
            for name in ("_longs", "_ints"):
                table = getattr(self, name)
                none = numpy.full((1, table.shape[1]), -1, table.dtype)
                setattr(self, name, numpy.concatenate((table, none)))

    # ---- it is another one

    def _fold(self, slots: _Array) -> None:
        """Add these entries to the sums of earlier incarnations; their counters are 0 again."""
        if not len(slots):
            return
        rows = self._base_rows(slots)
        self._bases[rows] += self._values.get(slots)[:, self._layout.counted]
        self._values.clear(slots)

    def _base_rows(self, slots: _Array) -> _Array:
        """Their rows in the table of earlier incarnations; those without one get one."""
        without = slots[self._base[slots] < 0]
        if len(without):
            reused = [self._bases_free.pop() for _ in range(min(len(without),
                                                                len(self._bases_free)))]
            more = len(without) - len(reused)
            self._base[without] = reused + list(range(self._bases_used, self._bases_used + more))
            used, self._bases_used = self._bases_used, self._bases_used + more
            if self._bases_used > len(self._bases):
                self._bases = _resized(self._bases.T, slice(used), self._bases_used * 9 // 8 + 1,
                                       "F").T
        return self._base[slots]

    def _judge_deaths(self, slots: _Array, made: _Array, absent: _Array, reading: _Reading) -> None:
        """Rule 4 for entries in whose place there are others, made (or seen) at `made`."""
        early = made < self._seen[slots] + self._shortest_ns(self._seen[slots])
        if early.any() and self.read_at is not None:
            reading.clear_between(self._last_there(slots[early], absent[early]),
                                  int(made[early].max()) / _NS + 1)

    def _by_site(self, began: Any, ended: Any) -> tuple[Any, Any]:
        """
        A time of the storage server as one of the site's: no shorter, where its clock was set.

        `began`, `ended`: numbers, or arrays.
        """
        now = (self._reading.ahead, self._reading.kernel_ahead) if self._reading else ()
        aheads = [*self._aheads, *now] or [self.ahead]
        return began - max(aheads), ended - min(aheads)

    def _last_there(self, slots: _Array, absent: _Array) -> float:
        """
        When the last reading was before which nothing was lost, if these were deleted together.

        Not the last one that had all of them: they may have been deleted while it went on, when
        it had not come yet to others.
        """
        since = self._absent_at[slots[absent > 0]].min(initial=numpy.inf)
        at = bisect_left(self._readings, since) - 2
        if at >= 0:
            return self._readings[at]
        began: Any = self.swept_since           # known, once anything was absent
        return float(min(began + self.ahead, int(self._seen[slots].min()) / _NS))

    # ---- the end of a reading

    def _end(self, block: Any, reading: _Reading) -> None:
        used, now = self._used, reading.read_at
        slots = (reading.slots[0] if len(reading.slots) == 1 else
                 numpy.concatenate([*reading.slots, _NO_SLOTS]))
        here = numpy.zeros(used, bool)
        here[slots] = True
        absent = self._absent[:used]                    # _NO_ENTRY in a free slot as well
        missing = ~here
        if not reading.full:
            missing &= absent > 0
            if block.gone:
                gone = self._known(block.gone)
                missing[gone] = ~here[gone]
        missing &= absent != _NO_ENTRY
        if missing.any():
            self._miss(numpy.flatnonzero(missing), reading)
        self._whole = 0 if reading.bad else self._whole + 1
        self._keep_doubts()
        self._find_gaps(reading)
        self.entries = block.entries
        self._gained = self._added_up(slots, int(here.sum()) < len(slots), reading)
        self._span_s = max(0.0, now - self.read_at) if self.read_at is not None else 0.0
        if self.swept_since is None:
            self.swept_since = now - reading.ahead
        self.read_at, self.ahead, self._reading = now, reading.ahead, None
        machine = _machine(self.node, self.boot_id)
        self._heard.pop(machine, None)
        self._heard[machine] = now
        if len(self._heard) > _MOST_BOOTS:
            del self._heard[next(iter(self._heard))]
        del self._readings[:1 - _MOST_READINGS], self._aheads[:1 - _MOST_READINGS]
        self._readings.append(now)
        self._aheads.append(reading.ahead)
        if self._asleep[:used].any():
            self._release(numpy.flatnonzero(self._asleep[:used]
                                            & (self._absent[:used] >= _GONE_FOR_CERTAIN)))

    def _miss(self, slots: _Array, reading: _Reading) -> None:
        """Entries that this reading has not; rule 4 for those that are gone for certain."""
        count = self._absent[slots]
        self._absent_at[slots[count == 0]] = reading.read_at
        if reading.bad:
            self._absent[slots] = numpy.maximum(count, 1)
            return
        self._absent[slots] = count = numpy.minimum(numpy.maximum(count, 1) + 1, _MOST_ABSENT)
        again = slots[count == _GONE_FOR_CERTAIN]
        if not len(again):
            return
        interval = self._shortest_ns(self._seen[again])
        early = again[self._seen[again] + interval * (1 - _READING_TAKES)
                      > self._absent_at[again] * _NS]
        if len(early):
            # Before it was absent for the first time, unless all was cleared once more since.
            first = float(self._absent_at[early].max())
            used = slice(self._used)
            stayed = ((self._row[used] >= 0) & (self._absent[used] == 0) & self._dated[used]
                      & (self._born[used] < _before(first)))
            reading.clear_between(self._last_there(early, self._absent[early]),
                                  first if stayed.any() else reading.read_at)

    def _find_gaps(self, reading: _Reading) -> None:
        if self.read_at is None:
            return
        interval = self._shortest_s(self.read_at) * (1 - _READING_TAKES)
        if reading.nameless:
            self._add_gap(self.read_at - self.ahead, reading.read_at - reading.ahead,
                          NOT_UNDERSTOOD, numpy.zeros(self._used, bool))
        late = bool(self._readings) and reading.read_at - self.read_at >= interval
        if not late and not reading.cleared:
            return
        there = (self._row[:self._used] >= 0) & (self._absent[:self._used] == 0)
        born, dated = self._born[:self._used], self._dated[:self._used]
        # What was made since then may have an earlier time where the kernel's clock was set back.
        lag = max(0.0, reading.ahead - reading.kernel_ahead)
        if reading.cleared:
            self._add_cleared(reading, there & dated & (born < _before(reading.cleared[0] - lag)))
        if late:                                        # not for the first one of another boot
            same = there & (born < _before(self.read_at - lag)) & (dated | (
                self._seen[:self._used] < (self.read_at + interval) * _NS))
            for slots in reading.same:                  # since the last part that came
                same[slots] |= born[slots] < _before(self.read_at - lag)
            # Who was used meanwhile, without start_time, may be another one after a `clear`.
            proves = same & (dated | (self._seen[:self._used] < _before(self.read_at) - _NS))
            last, now = self.read_at - self.ahead, reading.read_at - reading.ahead
            is_set = abs(reading.ahead - self.ahead) > interval * _CLOCKS_DIFFER
            why = CLOCK_SET if is_set and now - last < interval else NO_SWEEP
            if proves.any():
                self._add_gap(last, max(last, now) if is_set else now - interval, why,
                              same | (there & (born < (self.read_at + interval - lag) * _NS)), True)
            else:
                self._add_gap(last, max(last, now), why, proves)

    def _add_cleared(self, reading: _Reading, spared: _Array) -> None:
        cleared: Any = reading.cleared
        self._add_gap(*self._by_site(*cleared), CLEARED, spared)

    def _add_gap(self, began: float, ended: float, why: str, spared: _Array,
                 by_expiry: bool = False) -> None:
        if why == NOT_UNDERSTOOD and self._gaps and self._gaps[-1].why == why and (
                self._gaps[-1].ended >= began):         # and so on, sweep after sweep
            self._gaps[-1].ended = float(ended)
            return
        self._gaps.append(_Gap(began, ended, why, spared, by_expiry))
        if len(self._gaps) > MOST_GAPS:
            a, b = self._gaps[:2]
            whys = dict.fromkeys((*a.why.split(_OR), *b.why.split(_OR)))
            self._gaps[:2] = [_Gap(min(a.began, b.began), max(a.ended, b.ended), _OR.join(whys),
                                   a.bits(self._used) & b.bits(self._used))]

    def _added_up(self, slots: _Array, some_twice: bool,
                  reading: _Reading) -> tuple[list[str], _Array, dict[str, _Array]]:
        """(ids of those that moved, each once; [id, of _WHOLE_GAINS]; {name: column} of more)."""
        if not len(slots):
            return _NOTHING_GAINED  # type: ignore[no-any-return]
        moved, gains = reading.moved[0], reading.gains[0]
        if len(reading.moved) > 1:
            moved, gains = numpy.concatenate(reading.moved), numpy.concatenate(reading.gains)
        slots, gains = slots[moved], gains[moved]
        if some_twice:
            slots, where = numpy.unique(slots, return_inverse=True)
            each, gains = gains, numpy.zeros((len(slots), len(_GAIN_NAMES)), _I64)
            numpy.add.at(gains, where, each)
        whole = len(_WHOLE_GAINS)
        return (self._names.ids(self._row[slots]), gains[:, :whole].copy(),
                {name: gains[:, column].astype(numpy.float32)
                 for column, name in enumerate(_GAIN_NAMES) if column >= whole
                 and self._layout.gains[:, column].any()})

    # ---- what comes out

    @property
    def gaps(self) -> list[tuple[float, float, str]]:
        """[(from, to, why)]: when something may have been lost; s, by the site's clock."""
        return [(gap.began, gap.ended, gap.why) for gap in self._gaps]

    def ids(self) -> list[str]:
        """All that are known and not forgotten."""
        return self._names.ids(self._row[self._awake()])

    def _awake(self) -> _Array:
        return numpy.flatnonzero((self._row[:self._used] >= 0) & ~self._asleep[:self._used])

    def changed(self) -> list[str]:
        """Those that changed in the last whole reading."""
        return self._gained[0]

    def gains(self) -> Gains:
        """What was gained in the last whole reading: Gains, which no later one changes."""
        if not self._span_s:
            return Gains._make((_NOTHING_GAINED[0], *_NOTHING_GAINED[1].T, 0.0, {}))
        ids, gains, more = self._gained
        return Gains._make((ids, *gains.T, self._span_s, more))

    def totals(self, ids: Iterable[str] | None = None) -> Totals:
        """Totals of these jobs (default: all); 0 for one that is not known."""
        if ids is None:
            slots = self._awake()
            ids = self._names.ids(self._row[slots])
        else:
            ids = list(ids)
            slots = self._slots_or_none(ids)
            if not self._used:
                return Totals(ids, {})
        layout = self._layout
        values = self._values.get(slots)[:, layout.counted]
        based = numpy.flatnonzero((slots >= 0) & (self._base[slots] >= 0))
        if len(based):
            values[based] += self._bases[self._base[slots[based]]]
        values[slots < 0] = 0
        at = layout.counted_at
        return Totals(ids, {name: Column(
            unit, values[:, at[name, "samples"]],
            values[:, at[name, "sums"]] if (name, "sums") in at else None)
            for name, unit in layout.units.items()})

    def origin(self, one: str) -> float | None:
        """When its first entry here was made, or first seen; s, by the site's clock; or None."""
        slot = int(self._slots_or_none([one])[0])
        return int(self._origin[slot]) / _NS or None if slot >= 0 else None

    def marks(self, one: str, began: float, ended: float | None, earliest: float | None = None,
              latest: float | None = None) -> list[str]:
        """
        [why]: each reason for which this id's total here may be too low; [] when there is none.

        Args:
            began, ended: of the job, s of the site's clock; ended: None while it runs.
            earliest, latest: where these are not known, but when it was seen: the time in which it
                may have run.
        """
        if self.swept_since is None:
            return [LATE]
        ended = float("inf") if ended is None else ended
        latest = ended if latest is None else max(ended, latest)
        slot = int(self._slots_or_none([one])[0])
        origin = int(self._origin[slot]) / _NS if slot >= 0 else 0
        why = []
        if began < self.swept_since or (earliest is not None and 0 < origin <= self.swept_since):
            why.append(LATE)
        earliest = began if earliest is None else min(began, earliest)
        # Before its first entry it cannot have had another one that expired.
        whole = bool(origin) and origin < earliest + self._shortest_s(
            earliest + min(self._aheads, default=self.ahead))
        for gap in self._gaps:
            if gap.began > latest or gap.ended < earliest or (slot >= 0 and gap.spares(slot)) or (
                    whole and gap.by_expiry and gap.ended <= origin):
                continue
            why.append(gap.why + (BEFORE_SEEN if gap.ended < began else
                                  AFTER_SEEN if gap.began > ended else ""))
        doubts: list[Any] = [self._doubts[slot]] if slot in self._doubts else []
        for slots, _, *when in self._reading.doubts if self._reading else ():
            doubts += [[one[at] for one in when] for at in numpy.flatnonzero(slots == slot)]
        if any(doubt[0] <= latest and doubt[1] >= earliest for doubt in doubts):
            why.append(DOUBTFUL)
        since, until = self._refused.get(one, (latest + 1, earliest - 1))
        if since <= latest and until >= earliest:
            why.append(NOT_UNDERSTOOD)
        if self.cleanup_s is None:
            why.append(NO_INTERVAL)
        if slot >= 0 and self._is_at_limit(slot):
            why.append(AT_LIMIT)
        return list(dict.fromkeys(why))

    def suspects(self) -> list[str]:
        """Ids of which marks() may say more than LATE, NO_INTERVAL and the gaps: they are few."""
        slots, bases = set(self._doubts), self._base[:self._used]
        for (_, kind), column in self._layout.at.items():
            if kind == "sums":
                full = self._values.column(column, slice(self._used)) >= _LIMIT
                slots.update(numpy.flatnonzero(full).tolist())
        if self._bases_used:
            for (_, kind), column in self._layout.counted_at.items():
                full = self._bases[:, column] >= _LIMIT
                if kind == "sums" and full.any():
                    slots.update(numpy.flatnonzero(
                        numpy.isin(bases, numpy.flatnonzero(full))).tolist())
        rows = self._row[sorted(slots)]
        return self._names.ids(rows[rows >= 0])

    def _is_at_limit(self, slot: int) -> bool:
        base, layout = int(self._base[slot]), self._layout
        for column, place in layout.counted_at.items():
            if column[1] == "sums":
                now = int(self._values.column(layout.at[column], slot))
                if base >= 0:
                    now = max(now, (now + int(self._bases[base, place])) % 2**64)
                if now >= _LIMIT:
                    return True
        return False

    def _slots_or_none(self, ids: Sequence[str]) -> _Array:
        """Array of their slots; -1 where one is not known here."""
        return self._found(self._names.found(ids))

    def _known(self, ids: Sequence[str]) -> _Array:
        slots = self._slots_or_none(ids)
        return slots[slots >= 0]

    # ---- forgetting

    def forget(self, ids: Iterable[str]) -> None:
        """
        Begin to count from 0 for these jobs, and leave nothing of them in memory.

        What job_stats still show of one stays until it is gone there, so that it is not counted
        again: by a full sweep, or because job_cleanup_interval is 0.
        """
        ids = list(ids)
        for one in ids if self._refused else ():
            self._refused.pop(one, None)
        slots = numpy.unique(self._known(ids))
        there = self._absent[slots] < _GONE_FOR_CERTAIN
        self._put_to_sleep(slots[there])
        self._release(slots[~there])

    def _put_to_sleep(self, slots: _Array) -> None:
        """Their totals are 0 from now on: what they have shown is taken off as a base."""
        if not len(slots):
            return
        rows = self._base_rows(slots)
        values = self._values.get(slots)[:, self._layout.counted]
        self._bases[rows] = _U64(0) - values                # modulo 2**64
        for slot in slots.tolist():
            self._doubts.pop(slot, None)
        self._asleep[slots] = True

    def _release(self, slots: _Array) -> None:
        if not len(slots):
            return
        self._asleep[slots] = False
        bases = self._base[slots]
        self._names.release(self._row[slots])
        self._row[slots] = -1
        self._origin[slots] = 0
        self._dated[slots] = False
        self._absent[slots] = _NO_ENTRY
        self._absent_at[slots] = 0
        if self._place is not None:
            self._place[slots] = self._not_in[slots] = -1
        self._values.clear(slots)
        bases = bases[bases >= 0]
        self._bases[bases] = 0
        self._bases_free.extend(bases.tolist())
        self._base[slots] = -1
        for slot in slots.tolist():
            self._doubts.pop(slot, None)
        self._free.extend(slots.tolist())
        kept = numpy.ones(self._used, bool)
        kept[slots] = False
        self._index = self._index[:, kept[self._index[1]]]
        for gap in self._gaps:
            gap.spared = numpy.packbits(gap.bits(self._used) & kept)
        self._renumber(lambda some: kept[some], None)
        if len(self._free) > 256 and 2 * len(self._free) > self._used:
            self._compact()

    def _compact(self) -> None:
        """Move all slots together."""
        live = numpy.flatnonzero(self._row[:self._used] >= 0)
        now = numpy.full(self._used, -1, _I32)
        now[live] = numpy.arange(len(live), dtype=_I32)
        for gap in self._gaps:
            gap.spared = numpy.packbits(gap.bits(self._used)[live])
        self._resize(live, len(live) * 9 // 8 + 2)
        self._used, self._free = len(live), []
        self._index[1] = now[self._index[1]]
        self._doubts = {int(now[slot]): doubt for slot, doubt in self._doubts.items()}
        self._renumber(lambda some: now[some] >= 0, now)
        based = numpy.flatnonzero(self._base[:self._used] >= 0)
        bases = self._base[based].copy()
        self._bases = _resized(self._bases.T, bases, len(bases) * 9 // 8 + 1, "F").T
        self._base[based] = numpy.arange(len(bases), dtype=_I32)
        self._bases_used, self._bases_free = len(bases), []

    def _renumber(self, is_kept: Callable[[_Array], _Array], now: _Array | None) -> None:
        """Drop slots from, and renumber them in, what was kept of the open reading."""
        def numbered(slots: _Array) -> _Array:
            return slots if now is None else now[slots]

        reading = self._reading
        if reading is None:
            return
        for at, slots in enumerate(reading.slots):
            kept = is_kept(slots)
            reading.slots[at] = numbered(slots[kept])
            reading.moved[at] = reading.moved[at][kept]
            reading.gains[at] = reading.gains[at][kept]
        reading.same = [numbered(slots[is_kept(slots)]) for slots in reading.same]
        reading.doubts = [(numbered(slots[is_kept(slots)]),
                           *(one[is_kept(slots)] for one in others))
                          for slots, *others in reading.doubts]

    # ---- to bytes and back

    def state(self) -> bytes:
        """All of it but gains(), as bytes: the form, a checksum, what is where, the columns."""
        live = numpy.flatnonzero(self._row[:self._used] >= 0)
        now = numpy.full(max(self._used, 1), -1, _I32)
        now[live] = numpy.arange(len(live), dtype=_I32)
        based = self._base[live]
        new_base = numpy.full(len(live), -1, _I32)
        new_base[based >= 0] = numpy.arange(numpy.count_nonzero(based >= 0), dtype=_I32)
        based = based[based >= 0]
        arrays = [("", name, getattr(self, name)[live]) for name in _PLAIN
                  if getattr(self, name) is not None] + [("", "_base", new_base)]
        values, layout = self._values.get(live), self._layout
        arrays += [(f"c {name}", kind, values[:, column])
                   for (name, kind), column in layout.at.items()]
        if len(based):
            values = self._bases[based]
            arrays += [(f"b {name}", kind, values[:, column])
                       for (name, kind), column in layout.counted_at.items()]
        arrays += [("g", str(at), numpy.packbits(gap.bits(self._used)[live]))
                   for at, gap in enumerate(self._gaps)]
        reading, open_reading = self._reading, None
        if reading is not None:
            open_reading = [reading.read_at, reading.full, reading.number, reading.bad,
                            reading.rows, [list(key) if key else None for key in reading.done],
                            reading.top, reading.cleared, reading.ahead, reading.nameless]
            for name, some in (("slots", reading.slots), ("moved", reading.moved),
                               ("same", reading.same)):
                dtype: Any = bool if name == "moved" else _I32
                values = numpy.concatenate([*some, numpy.zeros(0, dtype)])
                arrays.append(("r", name, values if name == "moved" else now[values]))
            gains = numpy.concatenate([*reading.gains, _NO_GAINS])
            arrays += [("r", name, gains[:, column]) for column, name in enumerate(_GAIN_NAMES)]
            for at, (name, dtype) in enumerate(_DOUBTS.items()):
                values = numpy.concatenate([*(one[at] for one in reading.doubts),
                                            numpy.zeros(0, dtype)])
                arrays.append(("r", name, values if at else now[values]))
        stored = [(kind, name, *_narrow(values)) for kind, name, values in arrays]
        about = {
            "file_system": self.file_system, "target": self.target, "node": self.node,
            "boot_id": self.boot_id, "read_at": self.read_at, "swept_since": self.swept_since,
            "cleanup_s": self.cleanup_s, "entries": self.entries, "number": self._number,
            "whole": self._whole, "ahead": self.ahead, "aheads": list(self._aheads),
            "readings": list(self._readings), "intervals": self._past_intervals,
            "heard": [(*who, at) for who, at in self._heard.items()],
            "refused": [(one, *when) for one, when in self._refused.items()],
            "units": layout.units,
            "gaps": [(gap.began, gap.ended, gap.why, gap.by_expiry) for gap in self._gaps],
            "reading": open_reading,
            "doubts": [(int(now[slot]), *when) for slot, when in self._doubts.items()],
            "ids": self._names.ids(self._row[live]), "based": len(based),
            "arrays": [(kind, name, width, bias, len(values))
                       for kind, name, values, width, bias in stored]}
        head = json.dumps(about, separators=(",", ":")).encode()
        body = b"".join([b"%d\n" % len(head), head, *(values.tobytes() for _, _, values, _, _
                                                       in stored)])
        return _MAGIC + b"%08x\n" % zlib.crc32(body) + body

    @classmethod
    def from_state(cls, names: Names, data: bytes) -> Target:
        """The Target that state() made `data` of; StateError when these are not such bytes."""
        start = len(_MAGIC) + 9
        if data[:len(_MAGIC)] != _MAGIC:
            raise StateError(f"a target's saved entries: expected {_MAGIC.decode().strip()!r}, got "
                             f"{bytes(data[:len(_MAGIC)])!r}; the next full sweep makes them anew")
        if data[len(_MAGIC):start] != b"%08x\n" % zlib.crc32(data[start:]):
            raise StateError(f"a target's saved entries ({len(data)} bytes) are damaged: the "
                             "checksum differs; the next full sweep makes them anew")
        try:
            return cls._from_body(names, memoryview(data)[start:])
        except Exception as error:              # whatever these bytes do to json and numpy
            raise StateError(f"a target's saved entries cannot be understood ({error}); the next "
                             "full sweep makes them anew") from None

    @classmethod
    def _from_body(cls, names: Names, body: memoryview) -> Target:
        length, _, _ = bytes(body[:24]).partition(b"\n")
        at = len(length) + 1
        about = json.loads(bytes(body[at:at + int(length)]))
        at += int(length)
        self = cls(names, about["file_system"], about["target"])
        for name in ("node", "boot_id", "read_at", "swept_since", "cleanup_s", "entries"):
            setattr(self, name, about[name])
        self._number, self._whole = about["number"], about["whole"]
        self._readings = array("d", about["readings"])
        # States from before there were these have none.
        self._refused = {one: (since, until) for one, since, until in about.get("refused", ())}
        self.ahead = float(about.get("ahead", 0.0))
        self._aheads = array("d", about.get("aheads", [self.ahead] * len(self._readings)))
        self._heard = {_machine(node, boot_id): at for node, boot_id, at in about["heard"]}
        self._past_intervals = [tuple(one) for one in about["intervals"]]
        arrays: dict[str, Any] = {}
        for kind, name, width, bias, count in about["arrays"]:
            if width not in _WIDTHS:            # numpy.dtype() takes, or chokes on, much else
                raise ValueError(f"expected one of {' '.join(sorted(_WIDTHS))}, got {width!r}")
            kept = numpy.dtype(width)
            end = at + count * kept.itemsize
            arrays.setdefault(kind, {})[name] = (numpy.frombuffer(body[at:end], kept), bias)
            at = end
        count, based = len(about["ids"]), about["based"]
        plain = arrays.pop("")
        self._resize(slice(0), count)
        if "_place" in plain:
            self._need_places()
        for name in (*_PLAIN, "_base"):
            column = getattr(self, name)
            if column is not None:
                values, bias = plain[name]
                column[:] = _widened(values, bias, _PLAIN.get(name, _I32), count)
        self._used, self._bases_used = count, based
        if not 0 <= based <= count:
            raise ValueError(f"expected at most {count} with earlier entries")
        columns = tuple((name, kind) for name in about["units"]
                        for kind in ("samples", *arrays.get(f"c {name}", ())) if kind in _FIELDS)
        layout = self._layout = names.layout(about["units"], tuple(dict.fromkeys(columns)))
        numbers = numpy.zeros((count, len(layout.columns)), _U64)
        self._bases = numpy.zeros((based, len(layout.counted_at)), _U64)
        for letter, table, rows_of_it, at_of in (
                ("c", numbers, count, layout.at),
                ("b", self._bases, based, layout.counted_at)):
            for (name, kind), place in at_of.items():
                if kind in arrays.get(f"{letter} {name}", ()):
                    values, bias = arrays[f"{letter} {name}"][kind]
                    table[:, place] = _widened(values, bias, _U64, rows_of_it)
        self._values.keep(slice(0), count)
        self._values.widen(len(layout.columns))
        self._values.put(numpy.arange(count), numbers)
        for at, (began, ended, why, by_expiry) in enumerate(about["gaps"]):
            gap = _Gap(began, ended, why, numpy.zeros(0, bool), by_expiry)
            gap.spared = arrays["g"][str(at)][0].copy()
            self._gaps.append(gap)
        self._doubts = {slot: (began, ended) for slot, began, ended in about["doubts"]}
        if about["reading"]:
            self._reading = cls._open_reading(about["reading"], arrays["r"])
        rows = names.rows(about["ids"])
        names.hold(rows)
        self._row[:] = rows
        order = numpy.argsort(rows, kind="stable").astype(_I32)
        self._index = numpy.stack((rows[order], order))
        return self

    @staticmethod
    def _open_reading(about: Any, arrays: Any) -> _Reading:
        read_at, full, number, bad, rows, done, top, cleared, *ahead = about
        reading = _Reading(read_at, full, number, *(ahead[:1] or [0.0]))
        reading.nameless = ahead[1:] == [True]
        reading.bad, reading.rows, reading.top = bad, rows, tuple(top)
        reading.done = {tuple(key) if key else None for key in done}
        reading.cleared = tuple(cleared) if cleared else None

        def whole(name: str, kind: Any) -> _Array:
            values, bias = arrays[name]
            return _widened(values, bias, kind, len(values))

        reading.slots, reading.same = [whole("slots", _I32)], [whole("same", _I32)]
        reading.moved = [whole("moved", bool)]
        reading.gains = [numpy.stack([
            whole(name, _I64) if name in arrays else numpy.zeros(len(reading.moved[0]), _I64)
            for name in _GAIN_NAMES], axis=1)]
        reading.doubts = [tuple(whole(name, kind) for name, kind in _DOUBTS.items())]
        return reading


_PLAIN = {"_seen": _I64, "_born": _I64, "_dated": bool, "_origin": _I64, "_absent": numpy.uint8,
          "_asleep": bool, "_absent_at": numpy.float64, "_place": _I64, "_not_in": _I32}


_WIDTHS = {"u1", "<u2", "<u4", *(numpy.dtype(kind).str for kind in (
    _U64, _I64, _I32, numpy.uint8, bool, numpy.float64))}               # what _narrow() makes
_DOUBTS = {"doubtful": _I32, "places": _I64, "doubtful from": numpy.float64,
           "doubtful to": numpy.float64}


class _Arrived:
    """
    The numbers of a block, for the columns of a _Layout that has all of them.

    `all_dated`: what is of entries without start_time alone is left out.
    """

    def __init__(self, block: Any, layout: _Layout, all_dated: bool) -> None:
        self._block, self._width, columns = block, len(layout.columns), block.columns
        self._values, self._there = block.values, block.are_there()
        wanted = [place for place, (_, field) in enumerate(columns)
                  if not all_dated or _KINDS[field] in _COUNTED]
        if len(wanted) < len(columns):
            self._values, self._there = self._values[:, wanted], self._there[:, wanted]
        self._at = numpy.array([layout.at[columns[place][0], _KINDS[columns[place][1]]]
                                for place in wanted], numpy.intp)

    def put_into(self, table: _Array) -> None:
        """Put the values where they belong, [entry, column]; leave the others."""
        table[:, self._at] = numpy.where(self._there, self._values, table[:, self._at])

    def table(self) -> tuple[_Array, _Array]:
        """(the values, 0 where there is none; which there are): [entry, column]."""
        values = numpy.zeros((len(self._values), self._width), _U64)
        here = numpy.zeros(values.shape, bool)
        self.put_into(values)
        here[:, self._at] = self._there
        return values, here

    def of(self, row: int) -> Iterator[tuple[str, list[Any]]]:
        """(counter, [its numbers of one entry as int, in the order of _FIELDS])."""
        numbers = dict(zip(self._block.columns, self._block.values[row].tolist()))
        for name in self._block.units:
            if numbers.get((name, "samples")):
                yield name, [numbers.get((name, field)) for field in _FIELDS.values()]


def _gain(now: _Array, before: _Array) -> _Array:
    """now - before as int64, 0 where it is less."""
    return numpy.where(now > before, now - before, 0).astype(_I64)


def _made_after(places: Any, not_in: Any, place: _Array) -> _Array:
    """
    Were entries certainly made after those in `place`, which were not in the reading `not_in`, or
    some of which stood in `places`?  -1: not known.
    """
    reading = place >> 32
    found: _Array = (place >= 0) & ((not_in >= reading) | ((places >> 32 == reading)
                                                           & (places > place)))
    return found


def _before(read_at: float) -> float:
    """ns, a little less: as float64, times of today are exact to 256 ns."""
    return read_at * _NS - 1_000_000


def _row_of(table: _Array, row: int) -> _Array:
    found: _Array = table[row]
    return found


def _resized(table: _Array, kept: _Kept, length: int, order: Any = "C") -> _Array:
    """The same rows with other columns: `kept`, and zeros up to `length`."""
    longer = numpy.zeros((len(table), length), table.dtype, order)
    values = table[:, kept]
    longer[:, :values.shape[1]] = values
    return longer


def _wider(table: _Array, width: int) -> _Array:
    """`table` with so many columns."""
    wider = numpy.zeros((len(table), width), table.dtype)
    wider[:, :table.shape[1]] = table
    return wider


def _narrow(values: _Array) -> tuple[_Array, str, int]:
    """(values less a bias in the fewest bytes, their dtype, the bias)."""
    if values.dtype.kind not in "iu" or not len(values):
        return values, values.dtype.str, 0
    low, high = int(values.min()), int(values.max())
    if values.dtype.kind == "u":
        low = 0
    for kind in ("u1", "<u2", "<u4"):
        if high - low < 1 << 8 * numpy.dtype(kind).itemsize:
            return (values - values.dtype.type(low)).astype(kind), kind, low
    return values, values.dtype.str, 0


def _widened(values: _Array, bias: int, kind: Any, length: int) -> _Array:
    if len(values) != length:
        raise ValueError(f"expected {length} values, got {len(values)}")
    return values.astype(kind) + kind(bias) if bias else values.astype(kind)
