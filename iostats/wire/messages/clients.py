"""
The params of the method packed_clients (docs/reference/wire.md), decoded: the activity of each
client of a storage server, from its exports.

    ReceivedClients     a message: the SweepHead of sweep.py, and its blocks
    ClientBlock         a block: a ClientBlockHead, and its numbers in an array

    decode_clients(params, most)   a message of an authenticated sender, still compressed
    decode_client_block(data)      one block of it, as in the store

A message is checked before it is used: its inflated length, the number of blocks, NIDs, losses and
bytes, names, and that amounts fit in 63 bits.
"""

from typing import Annotated, Literal, Optional

import msgspec
import numpy

from iostats.base import ids
from iostats.base.named_tuple import NamedTuple
from iostats.wire.messages.arrays import Integers
from iostats.wire.messages.clients_encoder import LARGEST, MAGIC
from iostats.wire.messages.sweep import (
    Count,
    FileSystemName,
    Seconds,
    SweepHead,
    TargetName,
    Why,
)
from iostats.wire.messages.sweep_decoder import (
    PackedSweep,
    check_magic,
    decode_head_and_blocks,
    decode_single_block,
    inflate_message,
    read_line,
)

MOST_NIDS = 5_000                       # of a block
MOST_LOSSES = 20_000
MOST_UNREAD = 1_000                     # of a target
_MOST_TARGETS = 10_000

Nid = Annotated[ids.Nid, msgspec.Meta(max_length=64, pattern=r"\A[0-9A-Za-z.:]+@[a-z][a-z0-9]*\Z")]
_OrNone = Annotated[ids.Nid, msgspec.Meta(
    max_length=64, pattern=r"\A(?:[0-9A-Za-z.:]+@[a-z][a-z0-9]*)?\Z")]
_Width = Literal[1, 2, 4, 8]


class ClientLoss(msgspec.Struct, frozen=True):
    """A time in which amounts of a client, or of all clients, may be missing."""

    # since, until: agent's clock, seconds since 1970
    since: Seconds
    until: Seconds
    # the reason, a few words: those of clients_encoder.py
    why: Annotated[str, msgspec.Meta(pattern=r"\A[\w ,.;:()/'-]{1,200}\Z")]
    # "OST000a"; "": all of this storage server's
    target: Annotated[ids.Target, msgspec.Meta(pattern=r"\A[\w.-]{0,64}\Z")] = ids.Target("")
    nid: _OrNone = ids.Nid("")   # the client; "": all of them


class ClientBlockHead(msgspec.Struct, kw_only=True):
    """The head of a block: one file system's OSTs or MDTs on a storage server."""

    file_system: FileSystemName
    kind: Annotated[str, msgspec.Meta(pattern=r"\A(?:OST|MDT)\Z")]
    # the amounts are cumulative since it began: 16 hex digits
    epoch: Annotated[ids.Epoch, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    # read_from, read_until: agent's clock when this reading began and ended, s since 1970
    read_from: Seconds
    read_until: Seconds
    ended: bool         # it is the last block of this reading
    # those that were read whole
    targets: Annotated[list[TargetName], msgspec.Meta(max_length=_MOST_TARGETS)] = []
    # {target: why it was not}
    unreadable: Annotated[dict[TargetName, Why], msgspec.Meta(max_length=_MOST_TARGETS)] = {}
    # {target of `targets`: clients whose files could not be read; "": all of them}: what they do is
    # counted once it can be
    unread: Annotated[dict[TargetName, Annotated[list[_OrNone], msgspec.Meta(
        max_length=MOST_UNREAD)]], msgspec.Meta(max_length=_MOST_TARGETS)] = {}
    bad: Count = 0      # files that could not be understood
    why: Why = ""       # the first of them
    clients: Count = 0  # how many are known
    # clients with news, in a block each once; in a full sweep all
    nids: Annotated[list[Nid], msgspec.Meta(max_length=MOST_NIDS)] = []
    # what may be missing in the amounts
    losses: Annotated[list[ClientLoss], msgspec.Meta(max_length=MOST_LOSSES)] = []
    # bytes of a number in each of the five columns
    widths: tuple[_Width, _Width, _Width, _Width, _Width] = (1, 1, 1, 1, 1)
    # since when the amounts are added up, agent's clock: the first reading of the epoch, or the
    # reading before the first target came; None where that is not reported
    began: Optional[Seconds] = None
    # (boot id of the storage server, seconds since that boot when this reading began, by a clock
    # that cannot be set); None if unknown
    since_boot: Optional[tuple[Annotated[str, msgspec.Meta(max_length=128)], Seconds]] = None
    # {target: how often it was started, on whatever storage server}, of those of `targets` that
    # show it
    instances: Annotated[dict[TargetName, Count], msgspec.Meta(max_length=_MOST_TARGETS)] = {}
    # {target: a moment by which it had been}, of those that were started since the reading before,
    # where that is known
    started: Annotated[dict[TargetName, Seconds], msgspec.Meta(max_length=_MOST_TARGETS)] = {}

    def __post_init__(self) -> None:
        if len(set(self.nids)) != len(self.nids):
            raise ValueError("expected every NID once in a block")
        if self.read_until < self.read_from:
            raise ValueError(f"expected `read_until` after `read_from`, {self.read_from}, got "
                             f"{self.read_until}")


class ClientBlock(NamedTuple):
    """
    A block: a ClientBlockHead, and the I/O of each of its `nids` since the epoch began.

        amounts: [nid, of exports.ClientAmounts]
    """

    head: ClientBlockHead
    amounts: Integers


class ReceivedClients(NamedTuple):
    """A message of clients."""

    head: SweepHead         # the SweepHead; its clock_ahead_s may be of long ago
    clock_ahead_s: float    # the agent's clock less the server's, when it was sent
    blocks: list[tuple[ClientBlock, bytes]]


_block_head_of = msgspec.json.Decoder(ClientBlockHead).decode


def decode_clients(packed: PackedSweep, max_bytes: int) -> ReceivedClients:
    """The message in `packed`, of which no more than `max_bytes` bytes are inflated; ValueError."""
    data = inflate_message(packed.sweep, max_bytes)
    check_magic(data, MAGIC)
    head, blocks = decode_head_and_blocks(data, len(MAGIC), _decode_block)
    return ReceivedClients(head, packed.clock_ahead_s, blocks)


def decode_client_block(data: bytes) -> ClientBlock:
    """The ClientBlock of one block; ValueError or msgspec.MsgspecError."""
    return decode_single_block(data, _decode_block)


def _decode_block(data: bytes, at: int) -> tuple[ClientBlock, int]:
    """Return (the block that begins at `at`, where it ends)."""
    line, at = read_line(data, at)
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
