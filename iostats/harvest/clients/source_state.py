"""
A ClientSource as bytes, and back: a checkpoint of its messages.

Clients are stored by their NIDs, so that a state means the same whatever numbers they get.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Optional

import msgspec
import numpy

from iostats.base.ids import Epoch, Nid, Target
from iostats.harvest.clients.readings import AMOUNTS, ClientReading, GainEntry
from iostats.store.client_store import MarkedLoss
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from iostats.harvest.clients.source import ClientSource
    from iostats.wire.messages.arrays import Integers


_Row = tuple[bytes, bytes]                      # clients, by their place in `nids`; amounts
_Loss = tuple[float, float, Target, Nid, str]


class ReadingState(msgspec.Struct, array_like=True):
    """A ClientReading in the store; the same attributes."""

    slot: float
    every_s: float
    since: Optional[float]
    at: float
    until: float
    span_s: float
    entries: list[tuple[float, float, bytes, bytes]]
    losses: list[_Loss]
    targets: list[Target]
    unreadable: dict[Target, str]
    bad: int
    is_measured: bool


class SourceState(msgspec.Struct):
    """A ClientSource in the store; `nids`: of all its clients."""

    epoch: Epoch
    nids: list[Nid]
    amounts: _Row
    known: bytes
    behind: bytes
    first: Optional[float]
    read_from: Optional[float]
    read_until: Optional[float]
    sent_from: Optional[float]
    since_boot: Optional[tuple[str, float]]
    broken_since: Optional[float]
    whole: dict[Target, float]
    began_of: dict[Target, float]
    left: dict[Target, float]
    instances: dict[Target, int]
    last: Optional[ReadingState]
    unstored: list[ReadingState]
    gains: list[_Row]
    losses: list[_Loss]
    unread: list[tuple[Target, Nid, float, float]] = []
    gained_since: Optional[float] = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SourceState).decode


def encode_source(source: ClientSource) -> bytes:
    """The state of a source, with a checksum."""
    rows = [numpy.flatnonzero(source.is_known), *(
        numbers for numbers, _ in source.gains), *(
        entry.numbers for reading in (source.last, *source.unstored) if reading is not None
        for entry in reading.entries)]
    stored = numpy.unique(numpy.concatenate(rows)).astype(numpy.int64)
    place = numpy.zeros(len(source.nids), numpy.int32)
    place[stored] = numpy.arange(len(stored))
    names = source.nids.names

    def pack_numbers(numbers: Integers) -> bytes:
        return place[numbers].astype("<i4").tobytes()

    def make_reading_state(reading: ClientReading) -> ReadingState:
        return ReadingState(
            reading.slot, reading.every_s, reading.since, reading.at, reading.until, reading.span_s,
            [(entry.since, entry.until, pack_numbers(entry.numbers), _pack_amounts(entry.gains))
             for entry in reading.entries], [(*loss,) for loss in reading.losses], reading.targets,
            reading.unreadable, reading.bad, reading.is_measured)
    amounts = numpy.zeros((len(stored), AMOUNTS), numpy.int64)
    there = stored < len(source.amounts)
    amounts[there] = source.amounts[stored[there]]
    is_known = numpy.zeros(len(source.nids), bool)
    is_known[:len(source.is_known)] = source.is_known
    return zlib.compress(_encode(SourceState(
        source.epoch, [names[number] for number in list_integers(stored)],
        (pack_numbers(stored), _pack_amounts(amounts)), is_known[stored].tobytes(),
        pack_numbers(numpy.fromiter(source.behind, numpy.int64, len(source.behind))),
        source.first, source.read_from, source.read_until, source.sent_from, source.since_boot,
        source.broken_since, source.whole, source.began_of, source.left, source.instances,
        None if source.last is None else make_reading_state(source.last),
        list(map(make_reading_state, source.unstored)),
        [(pack_numbers(numbers), _pack_amounts(gains)) for numbers, gains in source.gains],
        [(*loss,) for loss in source.losses],
        [(*key, *times) for key, times in source.unread.items()],
        None if source.gained_since == math.inf else source.gained_since)), 1)


def decode_source(source: ClientSource, state: bytes) -> ClientSource:
    """
    Return `source`, which is new, as a state has it; zlib.error, msgspec.MsgspecError, ValueError,
    LookupError.
    """
    state_read, nids = _decode(zlib.decompress(state)), source.nids
    at = nids.numbers(state_read.nids)
    if len(at) and int(at.min()) < 0:
        raise ValueError(f"expected clients that are known, got {int((at < 0).sum())} more")

    def unpack_numbers(packed: bytes) -> Integers:
        state_read: Integers = at[numpy.frombuffer(packed, "<i4")]
        return state_read

    def unpack_row(pair: _Row) -> tuple[Integers, Integers]:
        where, amounts = unpack_numbers(pair[0]), _unpack_amounts(pair[1])
        if len(where) != len(amounts):
            raise ValueError(f"expected {len(where)} rows, got {len(amounts)}")
        return where, amounts

    def restore_reading(state: ReadingState) -> ClientReading:
        return ClientReading(
            state.slot, state.every_s, state.since, state.at, state.until, state.span_s,
            [GainEntry(since, until, *unpack_row((where, amounts)))
             for since, until, where, amounts in state.entries],
            [MarkedLoss(*loss) for loss in state.losses], state.targets, state.unreadable,
            state.bad, state.is_measured)
    source.grow(int(at.max()) + 1 if len(at) else 0)
    where, amounts = unpack_row(state_read.amounts)
    source.epoch, source.amounts[where] = state_read.epoch, amounts
    source.is_known[at] = numpy.frombuffer(state_read.known, bool)
    source.behind = set(list_integers(unpack_numbers(state_read.behind)))
    source.first, source.read_from = state_read.first, state_read.read_from
    source.read_until, source.since_boot = state_read.read_until, state_read.since_boot
    source.sent_from = state_read.sent_from
    source.broken_since = state_read.broken_since
    source.whole, source.began_of = state_read.whole, state_read.began_of
    source.left, source.instances = state_read.left, state_read.instances
    source.last = None if state_read.last is None else restore_reading(state_read.last)
    source.unstored = list(map(restore_reading, state_read.unstored))
    source.gains = list(map(unpack_row, state_read.gains))
    source.losses = [MarkedLoss(*loss) for loss in state_read.losses]
    if state_read.gained_since is not None:
        source.gained_since = state_read.gained_since
    source.unread = {(target, nid): (began, tried) for target, nid, began,
                     tried in state_read.unread}
    return source


def _pack_amounts(rows: Integers) -> bytes:
    # Columns, as their numbers resemble each other: zlib makes them half as long.
    return numpy.ascontiguousarray(rows.T, "<i8").tobytes()


def _unpack_amounts(packed: bytes) -> Integers:
    rows: Integers = numpy.frombuffer(packed, "<i8").reshape(AMOUNTS, -1).T.astype(numpy.int64)
    return rows
