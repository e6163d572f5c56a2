"""
Decodes a message of a sweep: the params of packed_sweep, whose form is in docs/reference/wire.md.

    decode_sweep(params, most)   a message, whose sender is authenticated, still compressed
    decode_block(data)           one block of it, as the store keeps it

All that is in a message is checked before it is used: its length when it is inflated, how many
blocks, ids, counters and bytes there are, names, and that times fit in 63 bits.
"""

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

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
    drop_impossible,
)
from iostats.wire.messages.sweep_encoder import MAGIC, PROTOCOL

_Width = Literal[0, 1, 2, 4, 8]
_Some = Literal[1, 2, 4, 8]
Block = TypeVar("Block")
BlockDecoder = Callable[[bytes, int], tuple[Block, int]]


class PackedSweep(msgspec.Struct):
    """The params of the method `packed_sweep`."""

    protocol: int
    sweep: bytes                    # the message, compressed (in JSON: base64)
    clock_ahead_s: Seconds = 0.0    # the agent's clock less the server's, now


class PackedHead(SweepHead, kw_only=True):
    blocks: Annotated[int, msgspec.Meta(ge=0, le=MOST_BLOCKS)]


class _BlockHead(BlockHead, kw_only=True):
    times: tuple[_Some, _Some] = (1, 1)
    counters: Annotated[
        dict[Counter, tuple[Unit, _Some, _Width, _Width, _Width, _Width]],
        msgspec.Meta(max_length=MOST_COUNTERS)] = {}


_head_of = msgspec.json.Decoder(PackedHead).decode
_block_head_of = msgspec.json.Decoder(_BlockHead).decode


def decode_sweep(packed: PackedSweep, max_bytes: int) -> ReceivedSweep:
    """
    The sweep in `packed`, of which no more than `max_bytes` bytes are inflated; ValueError.
    """
    data = inflate_message(packed.sweep, max_bytes)
    check_magic(data, MAGIC)
    head, blocks = decode_head_and_blocks(data, len(MAGIC), _decode_block)
    return ReceivedSweep(head, packed.clock_ahead_s, blocks)


def inflate_message(message: bytes, max_bytes: int) -> bytes:
    """The bytes of a compressed message; ValueError for more than `max_bytes` of them."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(message, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"expected a whole compressed sweep, got: {error}") from None
    if len(data) > max_bytes:
        raise ValueError(f"expected at most {max_bytes} bytes, inflated (site.cfg: [server] "
                         f"max_message_bytes)")
    if not inflate.eof or inflate.unused_data:
        raise ValueError("expected one whole compressed sweep, got "
                         f"{'more' if inflate.eof else 'a part of one'}")
    return data


def check_magic(data: bytes, magic: bytes) -> None:
    """Raise ValueError if `data`, decompressed, does not begin with `magic`."""
    if data[:len(magic)] != magic:
        raise ValueError(f"expected {magic.decode()!r} at the beginning, got "
                         f"{data[:len(magic)].decode('ascii', 'replace')!r}")


def check_protocol(protocol: int, expected: int) -> None:
    """ValueError for a message of another release's form."""
    if protocol != expected:
        raise ValueError(f"expected protocol {expected}, got {protocol}; use one release on all "
                         f"servers")


def decode_head_and_blocks(data: bytes, at: int, decode: BlockDecoder[Block]
                           ) -> tuple[PackedHead, list[tuple[Block, bytes]]]:
    """
    Return (head, [(block, its bytes)]) of a message, whose head begins at `at`; ValueError.

    `decode(data, begin)` returns (the block that begins there, its end).
    """
    line, at = read_line(data, at)
    head = _head_of(line)
    check_protocol(head.protocol, PROTOCOL)
    blocks = []
    for number in range(head.blocks):
        begin = at
        try:
            block, at = decode(data, begin)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ValueError(f"block {number + 1} of {head.blocks}: {error}") from None
        blocks.append((block, data[begin:at]))
    if at != len(data):
        raise ValueError(f"expected {head.blocks} blocks, got {len(data) - at} bytes more")
    return head, blocks


def decode_block(data: bytes) -> BlockRows:
    """Decode a block of a sweep; ValueError or msgspec.MsgspecError."""
    return decode_single_block(data, _decode_block)


def decode_single_block(data: bytes, decode: BlockDecoder[Block]) -> Block:
    """Decode `data`, exactly one block; ValueError or msgspec.MsgspecError."""
    block, end = decode(data, 0)
    if end != len(data):
        raise ValueError(f"expected one block, got {len(data) - end} bytes more")
    return block


def read_line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return (a line of JSON, where the next byte is)."""
    end = data.find(b"\n", at)
    if end < 0:
        raise ValueError("expected a line of JSON, got no end of line")
    return data[at:end], end + 1


def _decode_block(data: bytes, at: int) -> tuple[BlockRows, int]:
    """Return (the block that begins at `at`, where it ends)."""
    line, at = read_line(data, at)
    head = _block_head_of(line)
    rows, columns = len(head.ids), []
    widths: list[int] = list(head.times)
    for name, (_, *widths_of_counter) in head.counters.items():
        for field, width in zip(FIELDS, widths_of_counter):
            if width:
                columns.append((name, field))
                widths.append(width)
    if rows * sum(widths) > len(data) - at:
        raise ValueError(f"expected {rows * sum(widths)} bytes of {rows} entries, got "
                         f"{len(data) - at}")
    values, order = numpy.empty((len(widths), rows), numpy.uint64), _order_columns(tuple(widths))
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
    return drop_impossible(BlockRows(
        head, times[0], times[1], {name: unit for name, (unit, *_) in head.counters.items()},
        columns, values[2:].T)), at


@lru_cache(1000)
def _order_columns(widths: tuple[int, ...]) -> list[int]:
    """Places of the columns, the widest first; those of one width in their order."""
    return sorted(range(len(widths)), key=lambda place: -widths[place])
