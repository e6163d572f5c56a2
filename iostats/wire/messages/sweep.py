"""
The message `sweep`: what a storage server's agent read in its job_stats, as docs/wire.md has it.

    Sweep   one message of one sweep; its `targets`: [Block]
    Block   a part of one reading of one target's job_stats: rows, by the jobs' ids
    Column  one counter of these rows

    Taken   the same, whichever form it came in (sweep_reader.py has the other one); its blocks:
    Rows    a Block in arrays

These types check all that can be checked without knowing what came before: what has been decoded
can be indexed, and put into arrays of 64 bits, without another look.
"""

from array import array
from collections import namedtuple
from collections.abc import Sequence
from typing import Annotated, Any, Optional

import msgspec
import numpy
import numpy.typing

from iostats.base.config import LONGEST_PAUSE_S
from iostats.base.job_id import LONGEST_NODE_NAME

LONGEST_ID = 128                   # characters of a job's id, unescaped; the kernel keeps 31 bytes
MOST_COUNTERS, MOST_BLOCKS = 256, 10_000
_MOST_ROWS, _MOST_GONE = 20_000, 200_000
FIELDS = ("samples", "min", "max", "sum", "sumsq")
_COUNTED = ("samples", "sum")      # the others are asked of entries without start_time alone
_LARGEST_SUM = numpy.uint64(2**63 - 1)        # sums stay there from 2.17 on
_LARGEST = 2**64 - 1               # the kernel prints %llu; msgspec's own bounds end at 2**63 - 1

_Array = numpy.typing.NDArray[Any]

_Number = Annotated[int, msgspec.Meta(ge=0)]
_Numbers = Annotated[list[_Number], msgspec.Meta(max_length=_MOST_ROWS)]
_Samples = Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(max_length=_MOST_ROWS)]
_Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Times = Annotated[list[_Nanoseconds], msgspec.Meta(max_length=_MOST_ROWS)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Id = Annotated[str, msgspec.Meta(max_length=LONGEST_ID)]
_Why = Annotated[str, msgspec.Meta(max_length=500)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
_Name = Annotated[str, msgspec.Meta(pattern=r"\A[\w.-]{1,64}\Z")]
Counter = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{1,128}\Z")]
Unit = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{0,32}\Z")]


class Column(msgspec.Struct, gc=False):
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
        """The rest of the checks, which take a fifth of all decoding: Block knows who needs it."""
        _check_bits(self.min, self.max, self.sumsq)


def _check_bits(*lists: Optional[list[int]]) -> None:
    for numbers in lists:
        if numbers and max(numbers) > _LARGEST:
            raise ValueError(f"expected numbers of at most 64 bits, got {max(numbers)}"[:200])


class BlockHead(msgspec.Struct, kw_only=True):
    """
    What a block has beside its numbers.

    Attributes:
        read_at: agent's clock when this reading began, seconds since 1970.
        cleanup_s: the target's job_cleanup_interval; None where it can't be read.
        ended: it is the last block of this reading; it has `entries` and `gone`.
        entries: how many the whole file has.
        bad: entries of this block that could not be understood; `why`: the first of them.
        refused: their ids, as far as they are known.
        unreadable: why the file could not be read; such a block proves nothing.
        ids: of the entries that changed; in a block each once.
        gone: ids that the reading before had, and this one has not.
    """

    file_system: _Name
    target: _Name
    read_at: Seconds
    ended: bool
    cleanup_s: Optional[_Count] = None
    entries: _Count = 0
    bad: _Count = 0
    why: _Why = ""
    unreadable: _Why = ""
    ids: Annotated[list[_Id], msgspec.Meta(max_length=_MOST_ROWS)] = []
    gone: Annotated[list[_Id], msgspec.Meta(max_length=_MOST_GONE)] = []
    refused: Annotated[list[_Id], msgspec.Meta(max_length=_MOST_ROWS)] = []

    def __post_init__(self) -> None:
        if len(set(self.ids)) != len(self.ids) or len(set(self.gone)) != len(self.gone):
            raise ValueError("expected every id once in a block")
        if self.unreadable and (self.ids or self.gone):
            raise ValueError("expected no ids of a file that could not be read")
        if self.gone and not self.ended:
            raise ValueError("expected `gone` in the last block of a reading")


class Block(BlockHead, kw_only=True):
    """
    A part of one reading of one target's job_stats.

    Attributes:
        started, seen: of each entry, nanoseconds since 1970; `started` 0 where the file has none.
        counters: name -> Column.
    """

    started: _Times = []
    seen: _Times = []
    counters: Annotated[dict[Counter, Column], msgspec.Meta(max_length=MOST_COUNTERS)] = {}

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
        """Where every entry has a start_time, nobody asks for min, max and sumsq."""
        if all(self.started):
            for column in self.counters.values():
                column.min = column.max = column.sumsq = None

    def rows(self) -> "Rows":
        """The same as arrays."""
        wanted = _COUNTED if all(self.started) else FIELDS
        columns = [(name, field, column.at, numbers) for name, column in self.counters.items()
                   for field in wanted if (numbers := getattr(column, field)) is not None]
        values = numpy.zeros((len(columns), len(self.ids)), numpy.uint64)
        for place, (_, _, at, numbers) in enumerate(columns):
            values[place, at] = numpy.frombuffer(array("Q", numbers), numpy.uint64)
        return possible(Rows(
            self, _nanoseconds(self.started), _nanoseconds(self.seen),
            {name: column.unit for name, column in self.counters.items()},
            [(name, field) for name, field, _, _ in columns], values.T))


def _nanoseconds(numbers: list[int]) -> "_Array":
    return numpy.frombuffer(array("q", numbers), numpy.int64)


class Rows:
    """
    A block in arrays.

    Attributes:
        head: the BlockHead.
        started, seen: of each entry; int64.
        units: {counter: unit}; `columns`: [(counter, one of FIELDS)]: with those of `samples`.
        values: [entry, column], uint64; all 0 where the entry has not this counter.
    """

    __slots__ = ("columns", "head", "seen", "started", "units", "values")

    def __init__(self, head: BlockHead, started: "_Array", seen: "_Array", units: dict[str, str],
                 columns: Sequence[tuple[str, str]], values: "_Array") -> None:
        self.head, self.started, self.seen = head, started, seen
        self.units, self.columns, self.values = units, columns, values

    def rows(self) -> "Rows":
        """Itself; as Block.rows."""
        return self

    def are_there(self) -> "_Array":
        """[entry, column] of bool: the entry has this counter."""
        at = {name: place for place, (name, field) in enumerate(self.columns) if field == "samples"}
        there: _Array = self.values[:, [at[name] for name, _ in self.columns]] > 0
        return there


def possible(rows: Rows) -> Rows:
    """
    `rows` without the entries that no kernel can have kept, which then are some that could not be
    understood: agents of before send them, and a total of them would be above the truth.
    """
    at = {column: rows.values[:, place] for place, column in enumerate(rows.columns)}
    wrong = numpy.zeros(len(rows.values), bool)
    for (name, field), totals in at.items():
        if field != "sum" or not len(totals):
            continue
        samples, largest = at[name, "samples"], at.get((name, "max"))
        wrong |= (totals > _LARGEST_SUM) | ((totals > 0) & (samples == 0))
        if largest is not None:                # without a product, which may have 128 bits
            each = numpy.maximum(largest, 1)
            wrong |= (totals > 0) & (samples < totals // each + (totals % each > 0))
    if not wrong.any():
        return rows
    refused = [rows.head.ids[place] for place in numpy.flatnonzero(wrong)]
    told = {name: getattr(rows.head, name) for name in BlockHead.__struct_fields__}
    told.update(
        ids=[one for one, is_wrong in zip(rows.head.ids, wrong) if not is_wrong],
        bad=rows.head.bad + len(refused),
        refused=list(dict.fromkeys([*rows.head.refused, *refused]))[:_MOST_ROWS],
        why=rows.head.why or f"job {refused[0]!a}: expected a sum of at most samples x maximum, "
                             f"below 2**63, got a larger one")
    return Rows(BlockHead(**told), rows.started[~wrong], rows.seen[~wrong], rows.units,
                rows.columns, rows.values[~wrong])


class Head(msgspec.Struct, kw_only=True):
    """
    One message of one sweep, but for what was read.

    Attributes:
        clock_ahead_s: the agent's clock less the server's, when it was sent.
        read_ahead_s: the same when it was read; None where the agent had not heard of ours.
        run, seq: the agent's chain of messages, and the place in it, from 1.
        full: nothing that was sent before is presumed.
        slot: the planned moment of the sweep, in the server's time; a multiple of `every`.
        last: no other message of this sweep follows.
    """

    protocol: int
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
    run: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    seq: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    full: bool
    slot: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    every: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_PAUSE_S)]
    last: bool
    boot_id: Annotated[str, msgspec.Meta(max_length=128)] = ""
    clock_ahead_s: Seconds = 0.0
    read_ahead_s: Optional[Seconds] = None


class Sweep(Head, kw_only=True):
    """The params of the method `sweep`: one message of one sweep."""

    targets: Annotated[list[Block], msgspec.Meta(max_length=MOST_BLOCKS)]

    def taken(self, clock_ahead_s: Optional[float] = None) -> "Taken":
        """The same as what came in the other form; `clock_ahead_s`: now, where that is known."""
        for block in self.targets:
            block.leave_out_extremes()
        return Taken(self, self.clock_ahead_s if clock_ahead_s is None else clock_ahead_s,
                     [(block.rows(), block) for block in self.targets])


Taken = namedtuple("Taken", "head clock_ahead_s blocks")
Taken.__doc__ = """
A message of one sweep, whichever form it came in.

Attributes:
    head: the Head; its clock_ahead_s may be of long ago.
    clock_ahead_s: the agent's clock less the server's, when it was sent.
    blocks: [(Rows, what is kept of it: the Block, or its bytes)].
"""
