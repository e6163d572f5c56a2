"""
Decodes a message of a sweep: the params of packed_sweep, whose form is in docs/wire.md.

    decoded_sweep(params, most)   a message, whose sender is authenticated, still compressed
    decoded_block(data)           one block of it, as the store keeps it

All that is in a message is checked before it is used: its length when it is inflated, how many
blocks, ids, counters and bytes there are, names, and that times fit in 63 bits.
"""

import zlib
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
import numpy

from iostats.lustre.job_stats_rows import FIELDS
from iostats.wire.messages.sweep import (
    MOST_BLOCKS,
    MOST_COUNTERS,
    BlockHead,
    BlockRows,
    Counter,
    ReceivedSweep,
    Seconds,
    SweepHead,
    Unit,
    without_impossible,
)
from iostats.wire.messages.sweep_encoder import MAGIC, PROTOCOL
from iostats.wire.messages.sweep_json import JsonSweep

_Width = Literal[0, 1, 2, 4, 8]
_Some = Literal[1, 2, 4, 8]


class PackedSweep(msgspec.Struct):
    """
    The params of the method `packed_sweep`.

    Attributes:
        sweep: the message, compressed (in JSON: base64).
        clock_ahead_s: the agent's clock less the server's, now.
    """

    protocol: int
    sweep: bytes
    clock_ahead_s: Seconds = 0.0


class PackedHead(SweepHead, kw_only=True):
    blocks: Annotated[int, msgspec.Meta(ge=0, le=MOST_BLOCKS)]


class _BlockHead(BlockHead, kw_only=True):
    times: tuple[_Some, _Some] = (1, 1)
    counters: Annotated[
        dict[Counter, tuple[Unit, _Some, _Width, _Width, _Width, _Width]],
        msgspec.Meta(max_length=MOST_COUNTERS)] = {}


head_of = msgspec.json.Decoder(PackedHead).decode
_block_head_of = msgspec.json.Decoder(_BlockHead).decode
_old_of = msgspec.json.Decoder(JsonSweep).decode


def decoded_sweep(packed: PackedSweep, most: int) -> ReceivedSweep:
    """
    The sweep in `packed`, of which no more than `most` bytes are inflated; ValueError.

    An agent that was updated from release 0.1 has JSON in its spool, as of `sweep`.
    """
    data = inflated(packed.sweep, most)
    if data[:len(MAGIC)] != MAGIC:
        return _old_of(data).received(packed.clock_ahead_s)
    line, at = line_at(data, len(MAGIC))
    head, blocks = head_of(line), []
    check_protocol_of(head)
    for number in range(head.blocks):
        begin = at
        try:
            rows, at = _block(data, begin)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ValueError(f"block {number + 1} of {head.blocks}: {error}") from None
        blocks.append((rows, data[begin:at]))
    if at != len(data):
        raise ValueError(f"expected {head.blocks} blocks, got {len(data) - at} bytes more")
    return ReceivedSweep(head, packed.clock_ahead_s, blocks)


def inflated(message: bytes, most: int) -> bytes:
    """The bytes of a compressed message, of which no more than `most` are inflated; ValueError."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(message, most + 1)
    except zlib.error as error:
        raise ValueError(f"expected a whole compressed sweep, got: {error}") from None
    if len(data) > most:
        raise ValueError(f"expected at most {most} bytes, inflated (site.cfg: [server] "
                         f"max_message_bytes)")
    if not inflate.eof or inflate.unused_data:
        raise ValueError("expected one whole compressed sweep, got "
                         f"{'more' if inflate.eof else 'a part of one'}")
    return data


def decoded_block(data: bytes) -> BlockRows:
    """The BlockRows of one block; ValueError or msgspec.MsgspecError."""
    rows, end = _block(data, 0)
    if end != len(data):
        raise ValueError(f"expected one block, got {len(data) - end} bytes more")
    return rows


def check_protocol_of(head: SweepHead) -> None:
    """ValueError for a message of another release's form."""
    if head.protocol != PROTOCOL:
        raise ValueError(f"expected protocol {PROTOCOL}, got {head.protocol}; use one "
                         f"release on all servers")


def line_at(data: bytes, at: int) -> tuple[bytes, int]:
    """(a line of JSON, where the next byte is)."""
    end = data.find(b"\n", at)
    if end < 0:
        raise ValueError("expected a line of JSON, got no end of line")
    return data[at:end], end + 1


def _block(data: bytes, at: int) -> tuple[BlockRows, int]:
    """(the block that begins at `at`, where it ends)."""
    line, at = line_at(data, at)
    head = _block_head_of(line)
    rows, columns = len(head.ids), []
    widths: list[int] = list(head.times)
    for name, (_, *each) in head.counters.items():
        for field, width in zip(FIELDS, each):
            if width:
                columns.append((name, field))
                widths.append(width)
    if rows * sum(widths) > len(data) - at:
        raise ValueError(f"expected {rows * sum(widths)} bytes of {rows} entries, got "
                         f"{len(data) - at}")
    values, order = numpy.empty((len(widths), rows), numpy.uint64), _order(tuple(widths))
    place = 0
    for width in (8, 4, 2, 1):
        count = widths.count(width)
        if count:
            values[order[place:place + count]] = numpy.frombuffer(
                data, f"<u{width}", count * rows, at).reshape(count, rows)
            at, place = at + count * rows * width, place + count
    times = values[:2].view(numpy.int64)
    if rows and times.min() < 0:
        raise ValueError("expected times below 2^63 nanoseconds")
    return without_impossible(BlockRows(
        head, times[0], times[1], {name: unit for name, (unit, *_) in head.counters.items()},
        columns, values[2:].T)), at


@lru_cache(1000)
def _order(widths: tuple[int, ...]) -> list[int]:
    """Places of the columns, the widest first; those of one width in their order."""
    return sorted(range(len(widths)), key=lambda place: -widths[place])
