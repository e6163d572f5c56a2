"""
A ClientSource as bytes, and back: a checkpoint of its messages.

Clients stand there by their NIDs, so that a state means the same whatever numbers they get.
"""

from __future__ import annotations

import zlib
from typing import Any, Optional

import msgspec
import numpy

from iostats.site.clients.readings import AMOUNTS, ClientReading, GainEntry, MarkedLoss

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy.typing

    from iostats.site.clients.source import ClientSource

    _Array = numpy.typing.NDArray[Any]

_Row = tuple[bytes, bytes]                      # clients, by their place in `nids`; amounts
_Loss = tuple[float, float, str, str, str]


class ReadingState(msgspec.Struct, array_like=True):
    """A ClientReading: the members are its own."""

    slot: float
    every: float
    since: Optional[float]
    at: float
    until: float
    span_s: float
    entries: list[tuple[float, float, bytes, bytes]]
    losses: list[_Loss]
    targets: list[str]
    unreadable: dict[str, str]
    bad: int
    is_measured: bool


class SourceState(msgspec.Struct):
    """A ClientSource; `nids`: of all clients that it has anything of."""

    epoch: str
    nids: list[str]
    amounts: _Row
    known: bytes
    behind: bytes
    first: Optional[float]
    read_from: Optional[float]
    read_until: Optional[float]
    told_from: Optional[float]
    since_boot: Optional[tuple[str, float]]
    broken_since: Optional[float]
    whole: dict[str, float]
    began_of: dict[str, float]
    left: dict[str, float]
    instances: dict[str, int]
    last: Optional[ReadingState]
    unkept: list[ReadingState]
    gains: list[_Row]
    losses: list[_Loss]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SourceState).decode


def encoded_source(source: ClientSource) -> bytes:
    """The state of a source, with a checksum."""
    rows = [numpy.flatnonzero(source.is_known), *(
        numbers for numbers, _ in source.gains), *(
        entry.numbers for reading in (source.last, *source.unkept) if reading is not None
        for entry in reading.entries)]
    kept = numpy.unique(numpy.concatenate(rows)).astype(numpy.int64)
    place = numpy.zeros(len(source.nids), numpy.int32)
    place[kept] = numpy.arange(len(kept))
    names = source.nids.names

    def packed(numbers: _Array) -> bytes:
        return place[numbers].astype("<i4").tobytes()

    def reading_state(one: ClientReading) -> ReadingState:
        return ReadingState(
            one.slot, one.every, one.since, one.at, one.until, one.span_s,
            [(entry.since, entry.until, packed(entry.numbers), _amounts(entry.gains))
             for entry in one.entries], [tuple(loss) for loss in one.losses], one.targets,
            one.unreadable, one.bad, one.is_measured)
    amounts = numpy.zeros((len(kept), AMOUNTS), numpy.int64)
    there = kept < len(source.amounts)
    amounts[there] = source.amounts[kept[there]]
    is_known = numpy.zeros(len(source.nids), bool)
    is_known[:len(source.is_known)] = source.is_known
    return zlib.compress(_encode(SourceState(
        source.epoch, [names[number] for number in kept.tolist()],
        (packed(kept), _amounts(amounts)), is_known[kept].tobytes(),
        packed(numpy.fromiter(source.behind, numpy.int64, len(source.behind))),
        source.first, source.read_from, source.read_until, source.told_from, source.since_boot,
        source.broken_since, source.whole, source.began_of, source.left, source.instances,
        None if source.last is None else reading_state(source.last),
        list(map(reading_state, source.unkept)),
        [(packed(numbers), _amounts(gains)) for numbers, gains in source.gains],
        [tuple(loss) for loss in source.losses])), 1)


def decoded_source(source: ClientSource, state: bytes) -> ClientSource:
    """
    `source`, which is new, as a state has it; zlib.error, msgspec.MsgspecError, ValueError,
    LookupError.
    """
    found, nids = _decode(zlib.decompress(state)), source.nids
    at = nids.numbers(found.nids)
    if len(at) and int(at.min()) < 0:
        raise ValueError(f"expected clients that are known, got {int((at < 0).sum())} more")

    def numbers(packed: bytes) -> _Array:
        found: _Array = at[numpy.frombuffer(packed, "<i4")]
        return found

    def rows(pair: _Row) -> tuple[_Array, _Array]:
        where, amounts = numbers(pair[0]), _rows(pair[1])
        if len(where) != len(amounts):
            raise ValueError(f"expected {len(where)} rows, got {len(amounts)}")
        return where, amounts

    def reading(one: ReadingState) -> ClientReading:
        return ClientReading(
            one.slot, one.every, one.since, one.at, one.until, one.span_s,
            [GainEntry(since, until, *rows((where, amounts)))
             for since, until, where, amounts in one.entries],
            [MarkedLoss(*loss) for loss in one.losses], one.targets, one.unreadable, one.bad,
            one.is_measured)
    source.grow(int(at.max()) + 1 if len(at) else 0)
    where, amounts = rows(found.amounts)
    source.epoch, source.amounts[where] = found.epoch, amounts
    source.is_known[at] = numpy.frombuffer(found.known, bool)
    source.behind = set(numbers(found.behind).tolist())
    source.first, source.read_from = found.first, found.read_from
    source.read_until, source.since_boot = found.read_until, found.since_boot
    source.told_from = found.told_from
    source.broken_since = found.broken_since
    source.whole, source.began_of = found.whole, found.began_of
    source.left, source.instances = found.left, found.instances
    source.last = None if found.last is None else reading(found.last)
    source.unkept = list(map(reading, found.unkept))
    source.gains = list(map(rows, found.gains))
    source.losses = [MarkedLoss(*loss) for loss in found.losses]
    return source


def _amounts(rows: _Array) -> bytes:
    # Columns, as their numbers resemble each other: zlib makes them half as long.
    return numpy.ascontiguousarray(rows.T, "<i8").tobytes()


def _rows(packed: bytes) -> _Array:
    rows: _Array = numpy.frombuffer(packed, "<i8").reshape(AMOUNTS, -1).T.astype(numpy.int64)
    return rows
