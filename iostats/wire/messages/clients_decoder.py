"""
Decodes a message of clients: the params of packed_clients, whose form is in docs/wire.md.

    decoded_clients(params, most)   a message, whose sender is authenticated, still compressed
    decoded_client_block(data)      one block of it, as the store keeps it

All that is in a message is checked before it is used: its length when it is inflated, how many
blocks, NIDs, losses and bytes there are, names, and that amounts fit in 63 bits.
"""

import msgspec
import numpy

from iostats.wire.messages.clients import ClientBlock, ClientBlockHead, ReceivedClients
from iostats.wire.messages.clients_encoder import LARGEST, MAGIC
from iostats.wire.messages.sweep_decoder import (
    PackedSweep,
    check_protocol_of,
    head_of,
    inflated,
    line_at,
)

_block_head_of = msgspec.json.Decoder(ClientBlockHead).decode


def decoded_clients(packed: PackedSweep, most: int) -> ReceivedClients:
    """The message in `packed`, of which no more than `most` bytes are inflated; ValueError."""
    data = inflated(packed.sweep, most)
    if data[:len(MAGIC)] != MAGIC:
        raise ValueError(f"expected {MAGIC.decode()!r} at the beginning, got "
                         f"{data[:len(MAGIC)].decode('ascii', 'replace')!r}")
    line, at = line_at(data, len(MAGIC))
    head, blocks = head_of(line), []
    check_protocol_of(head)
    for number in range(head.blocks):
        begin = at
        try:
            block, at = _block(data, begin)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ValueError(f"block {number + 1} of {head.blocks}: {error}") from None
        blocks.append((block, data[begin:at]))
    if at != len(data):
        raise ValueError(f"expected {head.blocks} blocks, got {len(data) - at} bytes more")
    return ReceivedClients(head, packed.clock_ahead_s, blocks)


def decoded_client_block(data: bytes) -> ClientBlock:
    """The ClientBlock of one block; ValueError or msgspec.MsgspecError."""
    block, end = _block(data, 0)
    if end != len(data):
        raise ValueError(f"expected one block, got {len(data) - end} bytes more")
    return block


def _block(data: bytes, at: int) -> tuple[ClientBlock, int]:
    """(the block that begins at `at`, where it ends)."""
    line, at = line_at(data, at)
    head = _block_head_of(line)
    rows = len(head.nids)
    if rows * sum(head.widths) > len(data) - at:
        raise ValueError(f"expected {rows * sum(head.widths)} bytes of {rows} clients, got "
                         f"{len(data) - at}")
    amounts = numpy.empty((rows, len(head.widths)), numpy.uint64)
    # The widest first; those of one width in their order.
    for column in sorted(range(len(head.widths)), key=lambda place: -head.widths[place]):
        width = head.widths[column]
        amounts[:, column] = numpy.frombuffer(data, f"<u{width}", rows, at)
        at += rows * width
    if rows and int(amounts.max()) > LARGEST:
        raise ValueError("expected amounts below 2^63")
    return ClientBlock(head, amounts.view(numpy.int64)), at
