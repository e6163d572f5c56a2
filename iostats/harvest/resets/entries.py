"""
The tables of one target: a row, called a slot, for each job that it has seen.

    _longs, _ints, _bytes   one row of an array for each property of a slot, so that many slots are
                            few objects; the properties below are views of these rows
    values                  the counters of the entry that is in job_stats now, or was there last
    bases                   earlier entries of the same job, added up; only jobs with more than one
                            entry have a row here

A slot is free where `id_number` is -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.harvest.resets.counters import COUNTED, KINDS, SUM_LIMIT, CounterColumn, CounterTotals
from iostats.wire.messages.arrays import differs, list_integers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Union

    from iostats.harvest.resets.counters import ArrivedValues
    from iostats.harvest.resets.job_ids import JobIds
    from iostats.wire.messages.arrays import Array, Bools, Bytes, Counts, Floats, Integers, Rows
    from iostats.wire.messages.sweep import BlockRows

NO_ENTRY = 255                  # `absent`: there is no entry that could go on
MOST_ABSENT = 250
GONE_FOR_CERTAIN = 3            # `absent` of an entry that will not come back

U64, I64, I32 = numpy.uint64, numpy.int64, numpy.int32
NO_SLOTS = numpy.zeros(0, I32)
# What a target begins with; never written to, because nothing is in them.
_NO_LONGS, _NO_INTS = numpy.zeros((4, 0), I64), numpy.zeros((2, 0), I32)
_NO_BYTES = numpy.zeros((3, 0), numpy.uint8)
_NO_INDEX, _NO_VALUES = numpy.zeros((2, 0), I32), numpy.zeros((0, 0), U64)
_U32 = numpy.uint32
_HALF = U64(32)
_NONE = numpy.zeros((0, 0), _U32)


class Entries:
    """
    The entries of all jobs at one target, a slot for each.

    Attributes:
        job_ids: the JobIds of all targets.
        used: slots in use are below this.
        layout: which column of the tables each counter is.
        values: NarrowTable, [slot, column of `layout`].
        bases: array of uint64, [row, column of layout.counted]; `bases_used`: rows in use are below
            this.
    """

    __slots__ = ("_bases_free", "_bytes", "_free", "_index", "_ints", "_longs", "bases",
                 "bases_used", "job_ids", "layout", "used", "values")

    def __init__(self, job_ids: JobIds) -> None:
        self.job_ids, self.layout = job_ids, job_ids.empty
        self._index: Integers = _NO_INDEX   # [id numbers, ascending; the slot of each]
        self.used = 0
        self._free: list[int] = []
        self._longs: Integers = _NO_LONGS
        self._ints: Integers = _NO_INTS
        self._bytes: Bytes = _NO_BYTES
        self.values = NarrowTable()
        self.bases = _NO_VALUES
        self.bases_used = 0
        self._bases_free: list[int] = []

    # ---- properties of a slot: arrays by slot

    @property
    def seen_ns(self) -> Integers:
        """The time when each entry was last used, ns."""
        return self._longs[0, :]

    @property
    def made_ns(self) -> Integers:
        """The creation time of each entry, by start_time; or its first reading; ns."""
        return self._longs[1, :]

    @property
    def origin_ns(self) -> Integers:
        """`made_ns` of the job's first entry here, by the site's clock, ns; 0: not known."""
        return self._longs[2, :]

    @property
    def absent_at_s(self) -> Floats:
        """The first reading that the entry was absent from, s."""
        return self._longs[3, :].view(numpy.float64)

    @property
    def has_places(self) -> bool:
        """`place` and `not_in` are recorded: not all entries have start_time."""
        return len(self._longs) > 4

    @property
    def place(self) -> Integers:
        """
        The place of each entry in the file at its first reading: reading << 32 | place; -1:
        unknown.  Only where has_places.
        """
        return self._longs[4, :]

    @property
    def not_in(self) -> Integers:
        """The last reading that certainly precedes the entry's creation; numbered as `place`."""
        return self._ints[2, :]

    @property
    def id_number(self) -> Integers:
        """The job id, as its number in JobIds; -1: the slot is free."""
        return self._ints[0, :]

    @property
    def base_row(self) -> Integers:
        """The job's row in `bases`, or -1."""
        return self._ints[1, :]

    @property
    def dated(self) -> Bools:
        """True for entries whose creation time the kernel prints (start_time)."""
        return self._bytes[0, :].view(bool)

    @property
    def absent(self) -> Bytes:
        """0: it is in the file; n+1: n proofs of its absence; NO_ENTRY."""
        return self._bytes[1, :]

    @property
    def forgotten(self) -> Bools:
        """The job was forgotten, and its entry is still in the file."""
        return self._bytes[2, :].view(bool)

    # ---- which slots

    def list_used_slots(self) -> Integers:
        """All slots in use."""
        return numpy.flatnonzero(self.id_number[:self.used] >= 0)

    def list_remembered_slots(self) -> Integers:
        """All slots in use but those of forgotten jobs."""
        return numpy.flatnonzero((self.id_number[:self.used] >= 0) & ~self.forgotten[:self.used])

    def ids(self, slots: Integers) -> list[str]:
        """The job ids of these slots."""
        return self.job_ids.ids(self.id_number[slots])

    def find(self, ids: Sequence[str]) -> Integers:
        """The slots of these ids; -1 for an unknown one."""
        return self._find_slots(self.job_ids.find_numbers(ids))

    def known(self, ids: Sequence[str]) -> Integers:
        """The slots of those of these ids that have one."""
        slots = self.find(ids)
        return slots[slots >= 0]

    def assign_slots(self, ids: Sequence[str]) -> Integers:
        """The slots of these ids; new ids get one, with NO_ENTRY."""
        numbers = self.job_ids.numbers(ids)
        slots = self._find_slots(numbers)
        fresh = slots < 0
        if fresh.any():
            new_numbers = numbers[fresh]
            new_slots = self._allot(len(new_numbers))
            slots[fresh] = new_slots
            index = numpy.concatenate((self._index, (new_numbers, new_slots)), axis=1, dtype=I32)
            self._index = index[:, numpy.argsort(index[0], kind="stable")]
            self.id_number[new_slots] = new_numbers
            self.absent[new_slots] = NO_ENTRY
            self.base_row[new_slots] = -1
            if self.has_places:
                self.place[new_slots] = self.not_in[new_slots] = -1
            self.job_ids.hold(new_numbers)
        return slots

    def fill(self, ids: Sequence[str]) -> None:
        """Assign the slots, of which there are as many, to these ids, in this order."""
        numbers = self.job_ids.numbers(ids)
        self.job_ids.hold(numbers)
        self.id_number[:] = numbers
        order = numpy.argsort(numbers, kind="stable").astype(I32)
        self._index = numpy.stack((numbers[order], order))

    def _find_slots(self, numbers: Integers) -> Integers:
        """The slots of these numbers of JobIds; -1 for an unknown one."""
        if not len(self._index[0]):
            return numpy.full(len(numbers), -1, I32)
        at = self._index[0].searchsorted(numbers)
        unknown = differs(self._index[0].take(at, mode="clip"), numbers)
        slots: Integers = numpy.where(unknown, I32(-1), self._index[1].take(at, mode="clip"))
        return slots

    def _allot(self, count: int) -> Integers:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        more = count - len(reused)
        if self.used + more > self._longs.shape[1]:
            self.resize(slice(self.used), max(self.used + more, self.used * 9 // 8 + 2))
        new = numpy.arange(self.used, self.used + more, dtype=I32)
        self.used += more
        return numpy.concatenate([numpy.array(reused, I32), new]) if reused else new

    def resize(self, rows: Rows, length: int) -> None:
        """Drop all slots but `rows` (array or slice), and make room for `length`."""
        for name in ("_longs", "_ints", "_bytes"):
            setattr(self, name, _copy_columns(getattr(self, name), rows, length))
        self.values.select_rows(rows, length)

    def need_places(self) -> None:
        """Record `place` and `not_in` from now on."""
        if not self.has_places:
            for name in ("_longs", "_ints"):
                table = getattr(self, name)
                none = numpy.full((1, table.shape[1]), -1, table.dtype)
                setattr(self, name, numpy.concatenate((table, none)))

    # ---- counters

    def learn(self, block: BlockRows, all_dated: bool) -> None:
        """Add a column for each counter of a block that has to be stored."""
        layout = self.layout
        units = {name: unit for name, unit in block.units.items()
                 if name not in layout.units or (unit and unit != layout.units[name])}
        more = [(name, kind) for name, kind in ((name, KINDS[field])
                                                for name, field in block.columns)
                if (name, kind) not in layout.at and not (all_dated and kind not in COUNTED)]
        if units or more:
            self.layout = layout = self.job_ids.layout({**layout.units, **units},
                                                       (*layout.columns, *more))
            self.values.widen(len(layout.columns))
            self.bases = _copy_rows(self.bases, slice(None), len(self.bases),
                                    len(layout.counted_at))

    def store(self, slots: Integers, arrived: ArrivedValues) -> Integers:
        """
        Store the values that arrived in these slots; returns their gains, [entry, of `counted`].
        """
        old = self.values.get(slots)
        now: Counts = old.copy()
        arrived.put_into(now)
        self.values.put(slots, now)
        counted = self.layout.counted
        return _compute_gain(now[:, counted], old[:, counted])

    def fold(self, slots: Integers) -> None:
        """Add the counters of these ended entries to the bases, and restart them at 0."""
        if not len(slots):
            return
        rows = self._get_base_rows(slots)
        self.bases[rows] += self.values.get(slots)[:, self.layout.counted]
        self.values.clear(slots)

    def end_all(self) -> None:
        """Mark all entries as ended."""
        self.fold(self.list_used_slots())
        self.absent[:] = NO_ENTRY

    def drop_slots(self, slots: Integers) -> None:
        """Set the totals of these slots to 0: their present counters become a negative base."""
        rows = self._get_base_rows(slots)
        values = self.values.get(slots)[:, self.layout.counted]
        self.bases[rows] = U64(0) - values                  # modulo 2**64
        self.forgotten[slots] = True

    def totals(self, ids: Sequence[str], slots: Integers) -> CounterTotals:
        """CounterTotals of the `ids` in these slots; 0 where the slot is -1."""
        layout = self.layout
        values = self.values.get(slots)[:, layout.counted]
        based = numpy.flatnonzero((slots >= 0) & (self.base_row[slots] >= 0))
        if len(based):
            values[based] += self.bases[self.base_row[slots[based]]]
        values[slots < 0] = 0
        at = layout.counted_at
        return CounterTotals(ids, {name: CounterColumn(
            unit, values[:, at[name, "samples"]],
            values[:, at[name, "sums"]] if (name, "sums") in at else None)
            for name, unit in layout.units.items()})

    def is_at_limit(self, slot: int) -> bool:
        """Whether a sum of this slot has reached the kernel's limit."""
        base, layout = self.base_row.item(slot), self.layout
        for column, place in layout.counted_at.items():
            if column[1] == "sums":
                now = int(self.values.column(layout.at[column], slot))
                if base >= 0:
                    now = max(now, (now + self.bases.item(base, place)) % 2**64)
                if now >= SUM_LIMIT:
                    return True
        return False

    def list_slots_near_limit(self) -> set[int]:
        """The slots of which is_at_limit() may be true: those with one number at the limit."""
        slots, base_rows = set(), self.base_row[:self.used]
        for (_, kind), column in self.layout.at.items():
            if kind == "sums":
                full = self.values.column(column, slice(self.used)) >= SUM_LIMIT
                slots.update(list_integers(numpy.flatnonzero(full)))
        if self.bases_used:
            for (_, kind), column in self.layout.counted_at.items():
                full = self.bases[:, column] >= SUM_LIMIT
                if kind == "sums" and full.any():
                    slots.update(list_integers(numpy.flatnonzero(
                        numpy.isin(base_rows, numpy.flatnonzero(full)))))
        return slots

    def _get_base_rows(self, slots: Integers) -> Integers:
        """The rows of these slots in `bases`; missing ones are created."""
        without = slots[self.base_row[slots] < 0]
        if len(without):
            reused = [self._bases_free.pop() for _ in range(min(len(without),
                                                                len(self._bases_free)))]
            more = len(without) - len(reused)
            self.base_row[without] = reused + list(range(self.bases_used, self.bases_used + more))
            used, self.bases_used = self.bases_used, self.bases_used + more
            if self.bases_used > len(self.bases):
                self._resize_bases(slice(used))
        return self.base_row[slots]

    def _resize_bases(self, rows: Rows) -> None:
        """Drop all rows of `bases` but these, and make room for `bases_used` and some more."""
        self.bases = _copy_rows(self.bases, rows, self.bases_used * 9 // 8 + 1,
                                self.bases.shape[1])

    # ---- slots that are freed

    def release(self, slots: Integers) -> Bools:
        """Free these slots; returns an array of bool: which of all slots remain."""
        self.forgotten[slots] = False
        bases = self.base_row[slots]
        self.job_ids.release(self.id_number[slots])
        self.id_number[slots] = -1
        self.origin_ns[slots] = 0
        self.dated[slots] = False
        self.absent[slots] = NO_ENTRY
        self.absent_at_s[slots] = 0
        if self.has_places:
            self.place[slots] = self.not_in[slots] = -1
        self.values.clear(slots)
        bases = bases[bases >= 0]
        self.bases[bases] = 0
        self._bases_free.extend(list_integers(bases))
        self.base_row[slots] = -1
        self._free.extend(list_integers(slots))
        in_use = numpy.ones(self.used, bool)
        in_use[slots] = False
        self._index = self._index[:, in_use[self._index[1]]]
        return in_use

    def is_sparse(self) -> bool:
        """Whether enough slots are free for compact() to be worth it."""
        return len(self._free) > 256 and 2 * len(self._free) > self.used

    def renumber_slots(self) -> tuple[Integers, Integers]:
        """Return (the slots in use; for each slot its position among these, -1 for a free one)."""
        live = self.list_used_slots()
        now = numpy.full(max(self.used, 1), -1, I32)
        now[live] = numpy.arange(len(live), dtype=I32)
        return live, now

    def compact(self, live: Integers, now: Integers) -> None:
        """Move all slots together, as computed by renumber_slots()."""
        self.resize(live, len(live) * 9 // 8 + 2)
        self.used, self._free = len(live), []
        self._index[1] = now[self._index[1]]
        based = numpy.flatnonzero(self.base_row[:self.used] >= 0)
        bases: Integers = self.base_row[based].copy()
        self.bases_used, self._bases_free = len(bases), []
        self._resize_bases(bases)
        self.base_row[based] = numpy.arange(len(bases), dtype=I32)


def _compute_gain(now: Counts, before: Counts) -> Integers:
    """now - before as int64, 0 where it is less."""
    return numpy.where(now > before, now - before, 0).astype(I64)


def _copy_columns(table: Array, columns: Rows, length: int) -> Array:
    """Copy these columns to the beginning of a table of `length` columns."""
    longer = numpy.zeros((len(table), length), table.dtype)
    copied = table[:, columns]
    longer[:, :copied.shape[1]] = copied
    return longer


def _copy_rows(table: Array, rows: Rows, length: int, width: int) -> Array:
    """Copy these rows to the beginning of a table of `length` rows and `width` columns."""
    larger = numpy.zeros((length, width), table.dtype)
    copied = table[rows]
    larger[:len(copied), :copied.shape[1]] = copied
    return larger


class NarrowTable:
    """`length` rows of `width` numbers, which are 0."""

    __slots__ = ("_high", "_low", "_tall")

    def __init__(self, length: int = 0, width: int = 0) -> None:
        self._low = numpy.zeros((length, width), _U32) if length or width else _NONE
        self._high = _NONE                          # [row, of _tall]
        self._tall: tuple[int, ...] = ()            # columns that have high halves

    def __len__(self) -> int:
        return len(self._low)

    def get(self, rows: Union[Rows, int]) -> Counts:
        """The numbers of these rows: array of uint64."""
        values: Counts = self._low[rows].astype(U64)
        if self._tall:
            values[..., self._tall] |= self._high[rows].astype(U64) << _HALF
        return values

    def put(self, rows: Integers, values: Counts) -> None:
        """Set these rows to `values`, [row, column]."""
        self._low[rows] = values.astype(_U32)       # modulo 2^32
        high = (values >> _HALF).astype(_U32)
        if high.any():
            more = set(list_integers(numpy.flatnonzero(high.any(axis=0)))) - set(self._tall)
            if more:
                wider = numpy.zeros((len(self._low), len(self._tall) + len(more)), _U32)
                if self._tall:
                    wider[:, :len(self._tall)] = self._high
                self._high, self._tall = wider, (*self._tall, *sorted(more))
        if self._tall:
            self._high[rows] = high[:, self._tall]

    def column(self, place: int, rows: Union[Rows, int]) -> Counts:
        """Return a column of these rows."""
        values: Counts = self._low[rows, place].astype(U64)
        if place in self._tall:
            values |= self._high[rows, self._tall.index(place)].astype(U64) << _HALF
        return values

    def clear(self, rows: Integers) -> None:
        """Set these rows to 0."""
        self._low[rows] = 0
        if self._tall:
            self._high[rows] = 0

    @property
    def nbytes(self) -> int:
        """The memory of the numbers in bytes."""
        return self._low.nbytes + self._high.nbytes

    def widen(self, width: int) -> None:
        """Grow to `width` columns; the new ones are 0."""
        self._low = _copy_rows(self._low, slice(None), len(self._low), width)

    def select_rows(self, rows: Rows, length: int) -> None:
        """Drop all rows but these, with room for `length`."""
        self._low = _copy_rows(self._low, rows, length, self._low.shape[1])
        if self._tall:
            self._high = _copy_rows(self._high, rows, length, self._high.shape[1])
