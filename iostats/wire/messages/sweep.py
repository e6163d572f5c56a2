"""
A decoded message of a sweep: docs/reference/wire.md, packed_sweep.

    ReceivedSweep   a message: SweepHead, and its blocks
    BlockRows       a block: BlockHead, and its numbers in arrays

These types check all that can be checked without knowing what came before: what has been decoded
can be indexed, and put into arrays of 64 bits, without another look.
"""

from collections.abc import Sequence
from typing import Annotated, Optional

import msgspec
import numpy

from iostats.base.ids import FileSystem, Target
from iostats.base.job_id import LONGEST_NODE_NAME
from iostats.base.named_tuple import NamedTuple
from iostats.base.options import LONGEST_PAUSE_S
from iostats.lustre.job_stats import LONGEST_ID
from iostats.wire.messages.arrays import Bools, Counts, Integers

MOST_COUNTERS, MOST_BLOCKS, MOST_ROWS = 256, 10_000, 20_000
_MOST_GONE = 200_000
_LARGEST_SUM = numpy.uint64(2**63 - 1)        # sums stay there from 2.17 on


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Id = Annotated[str, msgspec.Meta(max_length=LONGEST_ID)]
Why = Annotated[str, msgspec.Meta(max_length=500)]
Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
FileSystemName = Annotated[FileSystem, msgspec.Meta(pattern=r"\A[\w.-]{1,64}\Z")]
TargetName = Annotated[Target, msgspec.Meta(pattern=r"\A[\w.-]{1,64}\Z")]
Counter = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{1,128}\Z")]
Unit = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_]{0,32}\Z")]


class BlockHead(msgspec.Struct, kw_only=True):
    """The head of a block: everything but its numbers."""

    file_system: FileSystemName
    target: TargetName
    read_at: Seconds        # agent's clock when this reading began, seconds since 1970
    ended: bool             # it is the last block of this reading; it has `entries` and `gone`
    # seconds since the storage server's boot then, by a clock that cannot be set; None where that
    # is not known
    since_boot_s: Optional[Seconds] = None
    # this reading has all entries, as in a full sweep: there was none before it in the chain that
    # was read to its end
    full: bool = False
    # the target's job_cleanup_interval; None where it can't be read
    cleanup_s: Optional[Count] = None
    # how often the target was started, on any storage server; None if unknown
    instance: Optional[Count] = None
    entries: Count = 0      # how many the whole file has
    bad: Count = 0          # entries of this block that could not be understood
    why: Why = ""           # the first of them
    unreadable: Why = ""    # why the file could not be read; such a block proves nothing
    # of the entries that changed; in a block each once
    ids: Annotated[list[_Id], msgspec.Meta(max_length=MOST_ROWS)] = []
    # ids that the reading before had, and this one has not
    gone: Annotated[list[_Id], msgspec.Meta(max_length=_MOST_GONE)] = []
    # their ids, as far as they are known
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
    A block with its numbers in arrays.

    Attributes:
        head: the BlockHead.
        started_ns, seen_ns: of each entry, as the kernel shows them in ns.
        units: {counter: unit}; `columns`: [(counter, one of FIELDS)]: with those of `samples`.
        values: [entry, column], uint64; all 0 where the entry has not this counter.
    """

    __slots__ = ("columns", "head", "seen_ns", "started_ns", "units", "values")

    def __init__(self, head: BlockHead, started_ns: Integers, seen_ns: Integers,
                 units: dict[str, str],
                 columns: Sequence[tuple[str, str]], values: Counts) -> None:
        self.head, self.started_ns, self.seen_ns = head, started_ns, seen_ns
        self.units, self.columns, self.values = units, columns, values

    def are_there(self) -> Bools:
        """Return [entry, column] of bool: the entry has this counter."""
        at = {name: place for place, (name, field) in enumerate(self.columns) if field == "samples"}
        return self.values[:, [at[name] for name, _ in self.columns]] > 0


def drop_impossible(rows: BlockRows) -> BlockRows:
    """
    Return `rows` without the entries whose numbers no kernel can have counted, which are reported
    as entries that could not be parsed.
    """
    at = {column: rows.values[:, place] for place, column in enumerate(rows.columns)}
    wrong = numpy.zeros(len(rows.values), bool)
    for (name, field), totals in at.items():
        if field != "sum" or not len(totals):
            continue
        samples, largest = at[name, "samples"], at.get((name, "max"))
        wrong |= (totals > _LARGEST_SUM) | ((totals > 0) & (samples == 0))
        if largest is not None:                # without a product, which may have 128 bits
            per_sample = numpy.maximum(largest, 1)
            wrong |= (totals > 0) & (samples < totals // per_sample + (totals % per_sample > 0))
    if not wrong.any():
        return rows
    refused = [rows.head.ids[place] for place in numpy.flatnonzero(wrong)]
    fields = {name: getattr(rows.head, name) for name in BlockHead.__struct_fields__}
    fields.update(
        ids=[job_id for job_id, is_wrong in zip(rows.head.ids, wrong) if not is_wrong],
        bad=rows.head.bad + len(refused),
        refused=list(dict.fromkeys([*rows.head.refused, *refused]))[:MOST_ROWS],
        why=rows.head.why or f"job {refused[0]!a}: expected a sum of at most samples x maximum, "
                             f"below 2**63, got a larger one")
    return BlockRows(BlockHead(**fields), rows.started_ns[~wrong], rows.seen_ns[~wrong], rows.units,
                     rows.columns, rows.values[~wrong])


class SweepHead(msgspec.Struct, kw_only=True, rename={"every_s": "every"}):
    """The head of a message of a sweep: all but its blocks."""

    protocol: int
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
    # run, seq: the agent's chain of messages, and the place in it, from 1
    run: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    seq: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    full: bool                      # it does not build on what was sent before
    # the planned moment of the sweep, in the server's time; a multiple of `every_s`
    slot: Annotated[int, msgspec.Meta(ge=0, le=2**40)]
    every_s: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_PAUSE_S)]
    last: bool                      # no other message of this sweep follows
    boot_id: Annotated[str, msgspec.Meta(max_length=128)] = ""
    # the agent's clock less the server's when it read the files; None where the agent did not know
    # the server's
    read_ahead_s: Optional[Seconds] = None


class ReceivedSweep(NamedTuple):
    """A received message of a sweep, with its blocks."""

    head: SweepHead
    clock_ahead_s: float    # the agent's clock less the server's, when it was sent
    blocks: list[tuple[BlockRows, bytes]]   # each with its bytes, which the store keeps
