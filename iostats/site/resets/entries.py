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

import numpy

from iostats.site.narrow_columns import NarrowTable
from iostats.site.resets.counters import (
    COUNTED,
    KINDS,
    SUM_LIMIT,
    CounterColumn,
    CounterTotals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union

    import numpy.typing

    from iostats.site.resets.counters import ArrivedValues
    from iostats.site.resets.job_ids import JobIds

    _Array = numpy.typing.NDArray[Any]
    _Some = Union[_Array, slice]

NO_ENTRY = 255                             # `absent`: there is no entry that could go on
MOST_ABSENT = 250
GONE_FOR_CERTAIN = 3                       # `absent` of an entry that will not come back

U64, I64, I32 = numpy.uint64, numpy.int64, numpy.int32
NO_SLOTS = numpy.zeros(0, I32)
# What a target begins with; never written to, because nothing is in them.
_NO_LONGS, _NO_INTS, _NO_BYTES = (numpy.zeros((rows, 0), kind) for rows, kind in (
    (4, I64), (2, I32), (3, numpy.uint8)))
_NO_INDEX, _NO_VALUES = numpy.zeros((2, 0), I32), numpy.zeros((0, 0), U64)


class Entries:
    """
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
        self._index = _NO_INDEX                         # [id numbers, ascending; the slot of each]
        self.used = 0
        self._free: list[int] = []
        self._longs: Any = _NO_LONGS
        self._ints: Any = _NO_INTS
        self._bytes: Any = _NO_BYTES
        self.values = NarrowTable()
        self.bases = _NO_VALUES
        self.bases_used = 0
        self._bases_free: list[int] = []

    # ---- properties of a slot: arrays by slot

    @property
    def seen(self) -> Any:
        """When the entry was last used, ns."""
        return self._longs[0]

    @property
    def made(self) -> Any:
        """When the entry was made, as start_time tells; or when it was first seen; ns."""
        return self._longs[1]

    @property
    def origin(self) -> Any:
        """`made` of the job's first entry here, by the site's clock, ns; 0: not known."""
        return self._longs[2]

    @property
    def absent_at(self) -> Any:
        """The first reading that the entry was absent from, s."""
        return self._longs[3].view(numpy.float64)

    @property
    def place(self) -> Any:
        """
        Where it stood in the file when it was first seen: reading << 32 | place; -1: not known.

        None: all entries have start_time, so it is not needed.
        """
        return self._longs[4] if len(self._longs) > 4 else None

    @property
    def not_in(self) -> Any:
        """The last reading that certainly was before the entry was made; otherwise as `place`."""
        return self._ints[2] if len(self._ints) > 2 else None

    @property
    def id_number(self) -> Any:
        """The job id, as its number in JobIds; -1: the slot is free."""
        return self._ints[0]

    @property
    def base_row(self) -> Any:
        """The job's row in `bases`, or -1."""
        return self._ints[1]

    @property
    def dated(self) -> Any:
        """`made` is start_time."""
        return self._bytes[0].view(bool)

    @property
    def absent(self) -> Any:
        """0: it is in the file; n+1: n proofs of its absence; NO_ENTRY."""
        return self._bytes[1]

    @property
    def forgotten(self) -> Any:
        """The job was forgotten, and its entry is still in the file."""
        return self._bytes[2].view(bool)

    # ---- which slots

    def live(self) -> _Array:
        """All slots in use."""
        return numpy.flatnonzero(self.id_number[:self.used] >= 0)

    def remembered(self) -> _Array:
        """All slots in use but those of forgotten jobs."""
        return numpy.flatnonzero((self.id_number[:self.used] >= 0) & ~self.forgotten[:self.used])

    def ids(self, slots: _Array) -> list[str]:
        """The job ids of these slots."""
        return self.job_ids.ids(self.id_number[slots])

    def find(self, ids: Sequence[str]) -> _Array:
        """The slots of these ids; -1 where one is not known here."""
        return self._found(self.job_ids.known_numbers(ids))

    def known(self, ids: Sequence[str]) -> _Array:
        """The slots of those of these ids that are known here."""
        slots = self.find(ids)
        return slots[slots >= 0]

    def slots_for(self, ids: Sequence[str]) -> _Array:
        """The slots of these ids; new ids get one, with NO_ENTRY."""
        numbers = self.job_ids.numbers(ids)
        slots = self._found(numbers)
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
            if self.place is not None:
                self.place[new_slots] = self.not_in[new_slots] = -1
            self.job_ids.hold(new_numbers)
        return slots

    def fill(self, ids: Sequence[str]) -> None:
        """Give the slots, of which there are as many, to these ids, in this order."""
        numbers = self.job_ids.numbers(ids)
        self.job_ids.hold(numbers)
        self.id_number[:] = numbers
        order = numpy.argsort(numbers, kind="stable").astype(I32)
        self._index = numpy.stack((numbers[order], order))

    def _found(self, numbers: _Array) -> _Array:
        """The slots of these numbers of JobIds; -1 where one is not known here."""
        if not len(self._index[0]):
            return numpy.full(len(numbers), -1, I32)
        at = self._index[0].searchsorted(numbers)
        found: _Array = numpy.where(self._index[0].take(at, mode="clip") == numbers,
                                    self._index[1].take(at, mode="clip"), I32(-1))
        return found

    def _allot(self, count: int) -> _Array:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        more = count - len(reused)
        if self.used + more > self._longs.shape[1]:
            self.resize(slice(self.used), max(self.used + more, self.used * 9 // 8 + 2))
        new = numpy.arange(self.used, self.used + more, dtype=I32)
        self.used += more
        return numpy.concatenate([numpy.array(reused, I32), new]) if reused else new

    def resize(self, kept: _Some, length: int) -> None:
        """Keep the slots `kept` (array or slice), and make room for `length`."""
        for name in ("_longs", "_ints", "_bytes"):
            setattr(self, name, _resized(getattr(self, name), kept, length))
        self.values.keep(kept, length)

    def need_places(self) -> None:
        """Have `place` and `not_in` from now on."""
        if self.place is None:
            for name in ("_longs", "_ints"):
                table = getattr(self, name)
                none = numpy.full((1, table.shape[1]), -1, table.dtype)
                setattr(self, name, numpy.concatenate((table, none)))

    # ---- counters

    def learn(self, block: Any, all_dated: bool) -> None:
        """Have a column for each counter of a block that is to be kept."""
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
            self.bases = _wider(self.bases, len(layout.counted_at))

    def store(self, slots: _Array, arrived: ArrivedValues) -> _Array:
        """Store the values that arrived in these slots; what they gained, [entry, of `counted`]."""
        old = self.values.get(slots)
        now = old.copy()
        arrived.put_into(now)
        self.values.put(slots, now)
        counted = self.layout.counted
        return _gain(now[:, counted], old[:, counted])

    def fold(self, slots: _Array) -> None:
        """These entries have ended: add their counters to the bases, and begin again at 0."""
        if not len(slots):
            return
        rows = self._base_rows(slots)
        self.bases[rows] += self.values.get(slots)[:, self.layout.counted]
        self.values.clear(slots)

    def end_all(self) -> None:
        """All entries have ended."""
        self.fold(self.live())
        self.absent[:] = NO_ENTRY

    def forget(self, slots: _Array) -> None:
        """Totals of these slots are 0 from now on: what they show is taken off as a base."""
        rows = self._base_rows(slots)
        values = self.values.get(slots)[:, self.layout.counted]
        self.bases[rows] = U64(0) - values                  # modulo 2**64
        self.forgotten[slots] = True

    def totals(self, ids: Sequence[str], slots: _Array) -> CounterTotals:
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
        base, layout = int(self.base_row[slot]), self.layout
        for column, place in layout.counted_at.items():
            if column[1] == "sums":
                now = int(self.values.column(layout.at[column], slot))
                if base >= 0:
                    now = max(now, (now + int(self.bases[base, place])) % 2**64)
                if now >= SUM_LIMIT:
                    return True
        return False

    def near_limit(self) -> set[int]:
        """The slots of which is_at_limit() may be true: those with one number at the limit."""
        slots, base_rows = set(), self.base_row[:self.used]
        for (_, kind), column in self.layout.at.items():
            if kind == "sums":
                full = self.values.column(column, slice(self.used)) >= SUM_LIMIT
                slots.update(numpy.flatnonzero(full).tolist())
        if self.bases_used:
            for (_, kind), column in self.layout.counted_at.items():
                full = self.bases[:, column] >= SUM_LIMIT
                if kind == "sums" and full.any():
                    slots.update(numpy.flatnonzero(
                        numpy.isin(base_rows, numpy.flatnonzero(full))).tolist())
        return slots

    def _base_rows(self, slots: _Array) -> _Array:
        """Their rows in `bases`; those without one get one."""
        without = slots[self.base_row[slots] < 0]
        if len(without):
            reused = [self._bases_free.pop() for _ in range(min(len(without),
                                                                len(self._bases_free)))]
            more = len(without) - len(reused)
            self.base_row[without] = reused + list(range(self.bases_used, self.bases_used + more))
            used, self.bases_used = self.bases_used, self.bases_used + more
            if self.bases_used > len(self.bases):
                self.bases = _resized(self.bases.T, slice(used), self.bases_used * 9 // 8 + 1,
                                      "F").T
        rows: _Array = self.base_row[slots]
        return rows

    # ---- slots that are freed

    def release(self, slots: _Array) -> _Array:
        """Free these slots; array of bool, which of all slots were not freed."""
        self.forgotten[slots] = False
        bases = self.base_row[slots]
        self.job_ids.release(self.id_number[slots])
        self.id_number[slots] = -1
        self.origin[slots] = 0
        self.dated[slots] = False
        self.absent[slots] = NO_ENTRY
        self.absent_at[slots] = 0
        if self.place is not None:
            self.place[slots] = self.not_in[slots] = -1
        self.values.clear(slots)
        bases = bases[bases >= 0]
        self.bases[bases] = 0
        self._bases_free.extend(bases.tolist())
        self.base_row[slots] = -1
        self._free.extend(slots.tolist())
        kept = numpy.ones(self.used, bool)
        kept[slots] = False
        self._index = self._index[:, kept[self._index[1]]]
        return kept

    def is_sparse(self) -> bool:
        """Whether enough slots are free for compact() to be worth it."""
        return len(self._free) > 256 and 2 * len(self._free) > self.used

    def renumbered(self) -> tuple[_Array, _Array]:
        """(the slots in use; by slot, the place of each among these, -1 for a free one)."""
        live = self.live()
        now = numpy.full(max(self.used, 1), -1, I32)
        now[live] = numpy.arange(len(live), dtype=I32)
        return live, now

    def compact(self, live: _Array, now: _Array) -> None:
        """Move all slots together: to where renumbered() has them."""
        self.resize(live, len(live) * 9 // 8 + 2)
        self.used, self._free = len(live), []
        self._index[1] = now[self._index[1]]
        based = numpy.flatnonzero(self.base_row[:self.used] >= 0)
        bases = self.base_row[based].copy()
        self.bases = _resized(self.bases.T, bases, len(bases) * 9 // 8 + 1, "F").T
        self.base_row[based] = numpy.arange(len(bases), dtype=I32)
        self.bases_used, self._bases_free = len(bases), []


def _gain(now: _Array, before: _Array) -> _Array:
    """now - before as int64, 0 where it is less."""
    return numpy.where(now > before, now - before, 0).astype(I64)


def _resized(table: _Array, kept: _Some, length: int, order: Any = "C") -> _Array:
    """The same rows with other columns: `kept`, and zeros up to `length`."""
    longer = numpy.zeros((len(table), length), table.dtype, order)
    values = table[:, kept]
    longer[:, :values.shape[1]] = values
    return longer


def _wider(table: _Array, width: int) -> _Array:
    """`table` with `width` columns."""
    wider = numpy.zeros((len(table), width), table.dtype)
    wider[:, :table.shape[1]] = table
    return wider
