"""
The counters that a target has, where each of them stands in the target's tables, and what is read
from these tables: totals, and gains between two readings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy

from iostats.lustre.metrics import (
    SINGLE_OPERATIONS,
    TIME_UNITS,
    is_counted_again,
    is_operation,
)
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional

    from iostats.wire.messages.arrays import Array, Bools, Counts, Integers, Rows
    from iostats.wire.messages.sweep import BlockRows


class CounterColumn(NamedTuple):
    """A counter of several jobs: one array for each of its fields."""

    unit: str                 # bytes, reqs or usecs, as the file has it
    samples: Counts           # how often
    sums: Optional[Counts]    # of what was counted, in `unit`; None where the file has none


class CounterTotals(NamedTuple):
    """
    The entries of each job, over all their lifetimes, added up: counter name -> CounterColumn, in
    the order of `ids`.
    """

    ids: Sequence[str]
    counters: dict[str, CounterColumn]


class Gains(NamedTuple):
    """The gains of the jobs that changed between the last two readings."""

    ids: Sequence[str]        # of these jobs
    # read_bytes, write_bytes, reads, writes, operations: int64, in the order of `ids`;
    # operations: samples of all counters but read, write, read_bytes and write_bytes, and those
    # that count a rename once more
    read_bytes: Integers
    write_bytes: Integers
    reads: Integers
    writes: Integers
    operations: Integers
    span_s: float             # between the two readings; 0 after the first one, which has no gains
    # {name: array of float32} of metrics.SINGLE_OPERATIONS, "us" (microseconds that the server
    # took) and "timed" (the requests that these are of), as far as the target has them
    more: dict[str, Array] = {}
    is_measured: bool = True  # span_s is by a clock that cannot be set; else it may be wrong


WHOLE_GAINS = ("read_bytes", "write_bytes", "reads", "writes", "operations")
MORE_GAINS = ("us", "timed", *SINGLE_OPERATIONS)
# Times of one counter: of what it counts, which is in the column of the name before "_us".
TIME_GAINS = {"read": "reads_us", "write": "writes_us",
              **{name: f"{name}_us" for name in SINGLE_OPERATIONS}}
GAIN_NAMES = (*WHOLE_GAINS, *MORE_GAINS, *TIME_GAINS.values())
_SUM_GAINS = {"read_bytes": ("read_bytes", "reads"), "write_bytes": ("write_bytes", "writes")}
# A column is (counter, kind); the kinds, and the field of the file that each is read from.
FIELDS = {"samples": "samples", "sums": "sum", "minima": "min", "maxima": "max",
          "squares": "sumsq"}
KINDS = {field: kind for kind, field in FIELDS.items()}
SUM_LIMIT = 2**63 - 1           # sums stay there from 2.17 on (lprocfs_counter_add)
COUNTED = ("samples", "sums")           # the others are stored for entries without start_time only


class Layout:
    """
    The counters of a target, and the column of its tables for each of them.

    Attributes:
        units: {counter: unit}.
        columns: ((counter, kind), ...), kind: of FIELDS; `at`: {(counter, kind): its column}.
        counted: index of the columns that only grow, samples and sums: only these are stored of
            earlier entries, at the places of `counted_at`.
        gains: [of `counted`, of GAIN_NAMES], 1 where the one is a part of the other.
    """

    def __init__(self, units: Sequence[tuple[str, str]],
                 columns: Sequence[tuple[str, str]]) -> None:
        self.units, self.columns = dict(units), columns
        self.at = {column: place for place, column in enumerate(columns)}
        counted = [column for column in columns if column[1] in COUNTED]
        self.counted: Rows = slice(None)
        if len(counted) < len(columns):
            self.counted = numpy.array([self.at[column] for column in counted], numpy.intp)
        self.counted_at = {column: place for place, column in enumerate(counted)}
        self.gains = numpy.zeros((len(counted), len(GAIN_NAMES)), numpy.int64)
        for (name, kind), place in self.counted_at.items():
            of_sums, of_samples = _SUM_GAINS.get(name, ("", ""))
            gain = of_sums if kind == "sums" else of_samples
            if kind == "samples" and is_operation(name):
                gain = "operations"
            if gain:
                self.gains[place, GAIN_NAMES.index(gain)] = 1
            if kind == "samples" and name in SINGLE_OPERATIONS:
                self.gains[place, GAIN_NAMES.index(name)] = 1
            if self.units[name] in TIME_UNITS and not is_counted_again(name) and (
                    (name, "sums") in self.counted_at):
                self.gains[place, GAIN_NAMES.index("us" if kind == "sums" else "timed")] = 1
                if kind == "sums" and name in TIME_GAINS:
                    self.gains[place, GAIN_NAMES.index(TIME_GAINS[name])] = 1


class ArrivedValues:
    """
    The numbers of a received block, in the columns of a Layout.

    `all_dated`: values stored only for entries without start_time are left out.
    """

    def __init__(self, block: BlockRows, layout: Layout, all_dated: bool) -> None:
        self._block, self._width, columns = block, len(layout.columns), block.columns
        self._values, self._there = block.values, block.are_there()
        places = [place for place, (_, field) in enumerate(columns)
                  if not all_dated or KINDS[field] in COUNTED]
        if len(places) < len(columns):
            self._values, self._there = self._values[:, places], self._there[:, places]
        self._at = numpy.array([layout.at[columns[place][0], KINDS[columns[place][1]]]
                                for place in places], numpy.intp)

    def put_into(self, table: Counts) -> None:
        """Write the values to their columns of `table`, [entry, column]; other columns stay."""
        table[:, self._at] = numpy.where(self._there, self._values, table[:, self._at])

    def table(self) -> tuple[Counts, Bools]:
        """Return (the values, 0 if absent; which are present): [entry, column]."""
        values = numpy.zeros((len(self._values), self._width), numpy.uint64)
        here = numpy.zeros(values.shape, bool)
        self.put_into(values)
        here[:, self._at] = self._there
        return values, here

    def of(self, row: int) -> Iterator[tuple[str, list[Optional[int]]]]:
        """Yield (counter, [its numbers of one entry as int, in the order of FIELDS])."""
        numbers = dict(zip(self._block.columns, list_integers(self._block.values[row])))
        for name in self._block.units:
            if numbers.get((name, "samples")):
                yield name, [numbers.get((name, field)) for field in FIELDS.values()]
