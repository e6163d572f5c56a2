"""
What a message of a sweep says, whichever form it came in: docs/wire.md.

    ReceivedSweep   a message: SweepHead, and its blocks
    BlockRows       a block: BlockHead, and its numbers in arrays

sweep_decoder.py has the form that agents send (packed_sweep), sweep_json.py that of release 0.1.

These types check all that can be checked without knowing what came before: what has been decoded
can be indexed, and put into arrays of 64 bits, without another look.
"""

from collections import namedtuple
from collections.abc import Sequence
from typing import Annotated, Any, Optional

import msgspec
import numpy
import numpy.typing

from iostats.base.options import LONGEST_PAUSE_S
from iostats.base.job_id import LONGEST_NODE_NAME
from iostats.lustre.job_stats import LONGEST_ID

MOST_COUNTERS, MOST_BLOCKS, MOST_ROWS = 256, 10_000, 20_000
_MOST_GONE = 200_000
_LARGEST_SUM = numpy.uint64(2**63 - 1)        # sums stay there from 2.17 on

Array = numpy.typing.NDArray[Any]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Id = Annotated[str, msgspec.Meta(max_length=LONGEST_ID)]
Why = Annotated[str, msgspec.Meta(max_length=500)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
TargetName = Annotated[str, msgspec.Meta(pattern=r"\A[\w.-]{1,64}\Z")]
Counter = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{1,128}\Z")]
Unit = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{0,32}\Z")]


class BlockHead(msgspec.Struct, kw_only=True):
    """
    What a block has beside its numbers.

    Attributes:
        read_at: agent's clock when this reading began, seconds since 1970.
        since_boot_s: seconds since the storage server's boot then, by a clock that cannot be set;
            None where that is not known.
        cleanup_s: the target's job_cleanup_interval; None where it can't be read.
        ended: it is the last block of this reading; it has `entries` and `gone`.
        entries: how many the whole file has.
        bad: entries of this block that could not be understood; `why`: the first of them.
        refused: their ids, as far as they are known.
        unreadable: why the file could not be read; such a block proves nothing.
        ids: of the entries that changed; in a block each once.
        gone: ids that the reading before had, and this one has not.
        full: this reading has all entries, as in a full sweep: there was none before it in the
            chain that was read to its end.
    """

    file_system: TargetName
    target: TargetName
    read_at: Seconds
    ended: bool
    since_boot_s: Optional[Seconds] = None
    full: bool = False
    cleanup_s: Optional[Count] = None
    entries: Count = 0
    bad: Count = 0
    why: Why = ""
    unreadable: Why = ""
    ids: Annotated[list[_Id], msgspec.Meta(max_length=MOST_ROWS)] = []
    gone: Annotated[list[_Id], msgspec.Meta(max_length=_MOST_GONE)] = []
    refused: Annotated[list[_Id], msgspec.Meta(max_length=MOST_ROWS)] = []

    def __post_init__(self) -> None:
        if len(set(self.ids)) != len(self.ids) or len(set(self.gone)) != len(self.gone):
            raise ValueError("expected every id once in a block")
        if self.unreadable and (self.ids or self.gone):
            raise ValueError("expected no ids of a file that could not be read")
        if self.gone and not self.ended:
            raise ValueError("expected `gone` in the last block of a reading")


class BlockRows:
    """
    A block, its numbers in arrays.

    Attributes:
        head: the BlockHead.
        started, seen: of each entry; int64.
        units: {counter: unit}; `columns`: [(counter, one of FIELDS)]: with those of `samples`.
        values: [entry, column], uint64; all 0 where the entry has not this counter.
    """

    __slots__ = ("columns", "head", "seen", "started", "units", "values")

    def __init__(self, head: BlockHead, started: "Array", seen: "Array", units: dict[str, str],
                 columns: Sequence[tuple[str, str]], values: "Array") -> None:
        self.head, self.started, self.seen = head, started, seen
        self.units, self.columns, self.values = units, columns, values

    def rows(self) -> "BlockRows":
        """Itself; as JsonBlock.rows."""
        return self

    def are_there(self) -> "Array":
        """[entry, column] of bool: the entry has this counter."""
        at = {name: place for place, (name, field) in enumerate(self.columns) if field == "samples"}
        there: Array = self.values[:, [at[name] for name, _ in self.columns]] > 0
        return there


def without_impossible(rows: BlockRows) -> BlockRows:
    """
    `rows` without the entries that no kernel can have kept; these are then counted as entries that
    could not be understood.  Agents of release 0.1 send them, and totals would be too high.
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
    fields = {name: getattr(rows.head, name) for name in BlockHead.__struct_fields__}
    fields.update(
        ids=[one for one, is_wrong in zip(rows.head.ids, wrong) if not is_wrong],
        bad=rows.head.bad + len(refused),
        refused=list(dict.fromkeys([*rows.head.refused, *refused]))[:MOST_ROWS],
        why=rows.head.why or f"job {refused[0]!a}: expected a sum of at most samples x maximum, "
                             f"below 2**63, got a larger one")
    return BlockRows(BlockHead(**fields), rows.started[~wrong], rows.seen[~wrong], rows.units,
                rows.columns, rows.values[~wrong])


class SweepHead(msgspec.Struct, kw_only=True):
    """
    One message of one sweep, without its blocks.

    Attributes:
        clock_ahead_s: the agent's clock less the server's, when it was sent.
        read_ahead_s: the same when it was read; None where the agent had not heard of ours.
        run, seq: the agent's chain of messages, and the place in it, from 1.
        full: it does not build on what was sent before.
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


ReceivedSweep = namedtuple("ReceivedSweep", "head clock_ahead_s blocks")
ReceivedSweep.__doc__ = """
A message of one sweep, whichever form it came in.

Attributes:
    head: the SweepHead; its clock_ahead_s may be of long ago.
    clock_ahead_s: the agent's clock less the server's, when it was sent.
    blocks: [(BlockRows, what the store keeps of it: the JsonBlock, or its bytes)].
"""
