"""
Encodes what a storage server's clients have done, by its exports: docs/reference/wire.md,
packed_clients.

    packed_clients(...)   the blocks of one file system's OSTs, or MDTs: a line of JSON and five
                          columns each
    find_method(message)    by which method the bytes of a message are sent

The amounts are cumulative since an epoch began: the site's server subtracts.  The messages stand in
the same chain as those of sweep_encoder.py, and are made by its SweepMessages, with MAGIC.
"""

from __future__ import annotations

import zlib

from iostats.lustre.exports import ClientAmounts
from iostats.wire.messages import events_encoder
from iostats.wire.messages.sweep_encoder import (
    LONGEST_WHY,
    add_column,
    compute_json_length,
    pack_block,
)
from iostats.wire.method_name import MethodName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypedDict

    from iostats.base.ids import Target

    class SentLoss(TypedDict):
        """A loss in the JSON of a block; clients.Loss has its meaning."""

        since: float
        until: float
        target: str
        nid: str
        why: str

MAGIC = b"iostats clients 1\n"
METHOD: MethodName[object] = MethodName("packed_clients")
METHOD_OF_JOBS: MethodName[object] = MethodName("packed_sweep")
_METHODS = ((MAGIC, METHOD), (events_encoder.MAGIC, events_encoder.METHOD))
_LONGEST_MAGIC = max(len(magic) for magic, _ in _METHODS)
KINDS = ("OST", "MDT")
MOST_NIDS = 5_000                  # of a block
MOST_LOSSES = 1_000                # of one reading; see `merge_losses`
MOST_UNREAD = 100                  # clients of a target by name; more are all: ""
LARGEST = 2**63 - 1                # of an amount
_ROW = 8 * len(ClientAmounts._fields)

# Why something may be missing: all that agents and servers say, in the words that people read.
# By what was found in the files of a target:
RESET = "its counters were reset"
MAYBE_RESET = "its counters may have begun again"
REMOVED = "its counters were removed"
RESTARTED = "the target was restarted"
LEFT = "the target left this storage server"
UNREADABLE = "its counters could not be read"
NOT_SEEN = "its counters are older than the last sweep, which has not seen them"
NOT_UNDERSTOOD = "its counters could not be understood"
TOO_MANY = "more clients than are read"
# By what was lost on the way:
NEW_EPOCH = "the agent started a new epoch"
WENT_DOWN = "its amounts decreased"
OTHER_CLIENTS = "the relay reports other clients than before"
LOSSES = (RESET, MAYBE_RESET, REMOVED, RESTARTED, LEFT, UNREADABLE, NOT_SEEN, NOT_UNDERSTOOD,
          TOO_MANY, NEW_EPOCH, WENT_DOWN, OTHER_CLIENTS)


def encode_clients(head: dict[str, object], nids: Sequence[str], amounts: Sequence[Sequence[int]],
                 longest: int) -> Iterator[tuple[bytes, bool]]:
    """
    Yield (a block, whether it is the last) for one reading of a file system's OSTs or MDTs.

    Args:
        head: the members of ClientBlockHead without `ended`, `nids` and `widths`.  Those that say
            what is missing stand in the last block alone.
        amounts: a column for each field of ClientAmounts, as long as `nids`; 0 to LARGEST.
        longest: bytes of a block, about.
    """
    begin, whole = 0, dict(head, unreadable={}, losses=[], targets=[], bad=0, why="",
                           instances={}, started={}, unread={})
    while True:
        end, size = begin, 0
        while end < len(nids) and end - begin < MOST_NIDS and (size < longest or end == begin):
            size += _ROW + compute_json_length(nids[end:end + 1])
            end += 1
        is_last = end == len(nids)
        columns: list[tuple[int, array[int]]] = []
        widths = [add_column(columns, column[begin:end]) for column in amounts]
        yield pack_block({**(head if is_last else whole), "ended": is_last,
                          "nids": nids[begin:end], "widths": widths}, columns), is_last
        if is_last:
            return
        begin = end


def merge_losses(losses: Sequence[SentLoss]) -> list[SentLoss]:
    """Merge `losses` above MOST_LOSSES: each target's reasons once, for all clients together."""
    if len(losses) <= MOST_LOSSES:
        return [loss.copy() for loss in losses]
    merged: dict[tuple[str, str], SentLoss] = {}
    for loss in losses:
        last = merged.setdefault((loss["target"], loss["why"]), {**loss, "nid": ""})
        last["since"] = min(last["since"], loss["since"])
        last["until"] = max(last["until"], loss["until"])
    return list(merged.values())


def make_block_head(file_system: str, kind: str, epoch: str, read_from: float, read_until: float,
                    clients: int, targets: Sequence[str] = (),
                    unreadable: Mapping[Target, str] | None = None,
                    losses: Sequence[SentLoss] = (), bad: int = 0,
                    why: str = "", began: float | None = None,
                    since_boot: tuple[str, float] | None = None,
                    instances: Mapping[Target, int] | None = None,
                    started: Mapping[Target, float] | None = None,
                    unread: Mapping[str, Sequence[str]] | None = None) -> dict[str, object]:
    """Make the `head` for encode_clients; the arguments are those of ClientBlockHead."""
    return {"file_system": file_system, "kind": kind, "epoch": epoch,
            "read_from": round(read_from, 6), "read_until": round(read_until, 6),
            "clients": clients, "targets": list(targets),
            "unreadable": {target: text[:LONGEST_WHY]
                           for target, text in (unreadable or {}).items()},
            "losses": merge_losses(losses), "bad": bad, "why": why[:LONGEST_WHY],
            "began": None if began is None else round(began, 6), "since_boot": since_boot,
            "instances": dict(instances or {}),
            "started": {target: round(at, 6) for target, at in (started or {}).items()},
            "unread": {target: list(nids) if len(nids) <= MOST_UNREAD else [""]
                       for target, nids in (unread or {}).items()}}


def find_method(message: bytes) -> MethodName[object]:
    """The method of a stored message, by its first bytes; `packed_sweep` for a damaged one."""
    try:
        begin = zlib.decompressobj().decompress(message, _LONGEST_MAGIC)
    except zlib.error:
        begin = b""
    return next((method for magic, method in _METHODS if begin.startswith(magic)), METHOD_OF_JOBS)
