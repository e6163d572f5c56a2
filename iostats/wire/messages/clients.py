"""
What a message of clients says: what each client of a storage server has done, by its exports.

    ReceivedClients     a message: the SweepHead of sweep.py, and its blocks
    ClientBlock         a block: a ClientBlockHead, and its numbers in an array

These types check all that can be checked without knowing what came before; clients_decoder.py makes
them of bytes, whose form is in docs/wire.md (packed_clients).
"""

from collections import namedtuple
from typing import Annotated, Literal, Optional

import msgspec

from iostats.wire.messages.sweep import Count, Seconds, TargetName, Why

MOST_NIDS = 5_000                       # of a block
MOST_LOSSES = 20_000
_MOST_TARGETS = 10_000

Nid = Annotated[str, msgspec.Meta(max_length=64, pattern=r"\A[0-9A-Za-z.:]+@[a-z][a-z0-9]*\Z")]
_OrNone = Annotated[str, msgspec.Meta(
    max_length=64, pattern=r"\A(?:[0-9A-Za-z.:]+@[a-z][a-z0-9]*)?\Z")]
_Width = Literal[1, 2, 4, 8]


class ClientLoss(msgspec.Struct, frozen=True):
    """
    When something may be missing in the amounts of a client, or of all.

    Attributes:
        since, until: agent's clock, seconds since 1970.
        why: the reason, a few words: those of clients_encoder.py.
        target: "OST000a"; "": all of this storage server's.
        nid: the client; "": all of them.
    """

    since: Seconds
    until: Seconds
    why: Annotated[str, msgspec.Meta(pattern=r"\A[\w ,.;:()/'-]{1,200}\Z")]
    target: Annotated[str, msgspec.Meta(pattern=r"\A[\w.-]{0,64}\Z")] = ""
    nid: _OrNone = ""


class ClientBlockHead(msgspec.Struct, kw_only=True):
    """
    What a block has beside its numbers: of one file system's OSTs, or MDTs, of a storage server.

    Attributes:
        epoch: the amounts are cumulative since it began: 16 hex digits.
        read_from, read_until: agent's clock when this reading began and ended, s since 1970.
        ended: it is the last block of this reading.
        targets: those that were read whole; `unreadable`: {target: why it was not}.
        bad: files that could not be understood; `why`: the first of them.
        clients: how many are known.
        nids: clients with news, in a block each once; in a full sweep all.
        losses: what may be missing in the amounts.
        widths: bytes of a number in each of the five columns.
        instances: {target: how often it was started, on whatever storage server}, of those of
            `targets` that show it.
        started: {target: a moment by which it had been}, of those that were started since the
            reading before, where that is known.
        began: since when the amounts are added up, agent's clock: the first reading of the epoch,
            or the reading before the first target came; None where that is not told.
        since_boot: (boot id of the storage server, seconds since that boot when this reading began,
            by a clock that cannot be set); None where that is not known.
    """

    file_system: TargetName
    kind: Annotated[str, msgspec.Meta(pattern=r"\A(?:OST|MDT)\Z")]
    epoch: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    read_from: Seconds
    read_until: Seconds
    ended: bool
    targets: Annotated[list[TargetName], msgspec.Meta(max_length=_MOST_TARGETS)] = []
    unreadable: Annotated[dict[TargetName, Why], msgspec.Meta(max_length=_MOST_TARGETS)] = {}
    bad: Count = 0
    why: Why = ""
    clients: Count = 0
    nids: Annotated[list[Nid], msgspec.Meta(max_length=MOST_NIDS)] = []
    losses: Annotated[list[ClientLoss], msgspec.Meta(max_length=MOST_LOSSES)] = []
    widths: tuple[_Width, _Width, _Width, _Width, _Width] = (1, 1, 1, 1, 1)
    began: Optional[Seconds] = None
    since_boot: Optional[tuple[Annotated[str, msgspec.Meta(max_length=128)], Seconds]] = None
    instances: Annotated[dict[TargetName, Count], msgspec.Meta(max_length=_MOST_TARGETS)] = {}
    started: Annotated[dict[TargetName, Seconds], msgspec.Meta(max_length=_MOST_TARGETS)] = {}

    def __post_init__(self) -> None:
        if len(set(self.nids)) != len(self.nids):
            raise ValueError("expected every NID once in a block")
        if self.read_until < self.read_from:
            raise ValueError(f"expected `read_until` after `read_from`, {self.read_from}, got "
                             f"{self.read_until}")


ClientBlock = namedtuple("ClientBlock", "head amounts")
ClientBlock.__doc__ = """
A block: a ClientBlockHead, and what each of its `nids` has done since the epoch began.

    amounts: int64 [nid, of exports.ClientAmounts]
"""

ReceivedClients = namedtuple("ReceivedClients", "head clock_ahead_s blocks")
ReceivedClients.__doc__ = """
A message of clients.

Attributes:
    head: the SweepHead; its clock_ahead_s may be of long ago.
    clock_ahead_s: the agent's clock less the server's, when it was sent.
    blocks: [(ClientBlock, its bytes)].
"""
