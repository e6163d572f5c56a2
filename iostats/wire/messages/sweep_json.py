"""
A message of a sweep in JSON, the params of the method `sweep`: docs/wire.md.

Agents of release 0.1 send it, and it waits in their spools; later ones send packed_sweep.  The
store keeps blocks in the form in which they came.
"""

from array import array
from typing import Annotated, Optional

import msgspec
import numpy

from iostats.lustre.job_stats_rows import FIELDS
from iostats.wire.messages.sweep import (
    MOST_BLOCKS,
    MOST_COUNTERS,
    MOST_ROWS,
    Array,
    BlockHead,
    BlockRows,
    Counter,
    ReceivedSweep,
    SweepHead,
    Unit,
    without_impossible,
)
from iostats.wire.messages.sweep_encoder import COUNTED

_LARGEST = 2**64 - 1               # the kernel prints %llu; msgspec's own bounds end at 2**63 - 1

_Number = Annotated[int, msgspec.Meta(ge=0)]
_Numbers = Annotated[list[_Number], msgspec.Meta(max_length=MOST_ROWS)]
_Samples = Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(max_length=MOST_ROWS)]
_Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Times = Annotated[list[_Nanoseconds], msgspec.Meta(max_length=MOST_ROWS)]


class JsonColumn(msgspec.Struct, gc=False):
    """
    One counter of some rows; an absent row has no samples.

    Attributes:
        unit: bytes, reqs or usecs.
        at: which rows; all other lists are as long.
        samples: how often it was counted, at least once.
        min, max, sum, sumsq: as the kernel prints them, 0 to 2^64-1; None where it does not.
    """

    unit: Unit
    at: _Numbers
    samples: _Samples
    min: Optional[_Numbers] = None
    max: Optional[_Numbers] = None
    sum: Optional[_Numbers] = None
    sumsq: Optional[_Numbers] = None

    def __post_init__(self) -> None:
        rows = len(self.at)
        for numbers in (self.samples, self.min, self.max, self.sum, self.sumsq):
            if numbers is not None and len(numbers) != rows:
                raise ValueError(f"expected lists as long as `at`, {rows}, got {len(numbers)}")
        _check_bits(self.samples, self.sum)
        if len(set(self.at)) != rows:
            raise ValueError("expected every row once in `at`")

    def check_extremes(self) -> None:
        """The rest of the checks, which take a fifth of all decoding; see JsonBlock."""
        _check_bits(self.min, self.max, self.sumsq)


def _check_bits(*lists: Optional[list[int]]) -> None:
    for numbers in lists:
        if numbers and max(numbers) > _LARGEST:
            raise ValueError(f"expected numbers of at most 64 bits, got {max(numbers)}"[:200])


class JsonBlock(BlockHead, kw_only=True):
    """
    A part of one reading of one target's job_stats.

    Attributes:
        started, seen: of each entry, nanoseconds since 1970; `started` 0 where the file has none.
        counters: name -> JsonColumn.
    """

    started: _Times = []
    seen: _Times = []
    counters: Annotated[dict[Counter, JsonColumn], msgspec.Meta(max_length=MOST_COUNTERS)] = {}

    def __post_init__(self) -> None:
        rows = len(self.ids)
        if len(self.started) != rows or len(self.seen) != rows:
            raise ValueError(f"expected lists as long as `ids`, {rows}, got {len(self.started)} "
                             f"and {len(self.seen)}")
        is_dated = all(self.started)
        for name, column in self.counters.items():
            if column.at and max(column.at) >= rows:
                raise ValueError(f"{name}: expected rows below {rows}, got {max(column.at)}")
            if not is_dated:
                column.check_extremes()
        super().__post_init__()

    def leave_out_extremes(self) -> None:
        """Drop min, max and sumsq, which are needed of entries without start_time alone."""
        if all(self.started):
            for column in self.counters.values():
                column.min = column.max = column.sumsq = None

    def rows(self) -> BlockRows:
        """The same as arrays."""
        wanted = COUNTED if all(self.started) else FIELDS
        columns = [(name, field, column.at, numbers) for name, column in self.counters.items()
                   for field in wanted if (numbers := getattr(column, field)) is not None]
        values = numpy.zeros((len(columns), len(self.ids)), numpy.uint64)
        for place, (_, _, at, numbers) in enumerate(columns):
            values[place, at] = numpy.frombuffer(array("Q", numbers), numpy.uint64)
        return without_impossible(BlockRows(
            self, _nanoseconds(self.started), _nanoseconds(self.seen),
            {name: column.unit for name, column in self.counters.items()},
            [(name, field) for name, field, _, _ in columns], values.T))


def _nanoseconds(numbers: list[int]) -> Array:
    return numpy.frombuffer(array("q", numbers), numpy.int64)


class JsonSweep(SweepHead, kw_only=True):
    """The params of the method `sweep`: one message of one sweep."""

    targets: Annotated[list[JsonBlock], msgspec.Meta(max_length=MOST_BLOCKS)]

    def received(self, clock_ahead_s: Optional[float] = None) -> ReceivedSweep:
        """The message as a ReceivedSweep; `clock_ahead_s`: as of now, where that is known."""
        for block in self.targets:
            block.leave_out_extremes()
        return ReceivedSweep(self, self.clock_ahead_s if clock_ahead_s is None else clock_ahead_s,
                     [(block.rows(), block) for block in self.targets])
