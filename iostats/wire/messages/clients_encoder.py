"""
Encodes what a storage server's clients have done, by its exports: docs/wire.md, packed_clients.

    packed_clients(...)   the blocks of one file system's OSTs, or MDTs: a line of JSON and five
                          columns each
    method_of(message)    by which method the bytes of a message are sent

The amounts are cumulative since an epoch began: the site's server subtracts.  The messages stand in
the same chain as those of sweep_encoder.py, and are made by its SweepMessages, with MAGIC.
"""

from __future__ import annotations

import zlib

from iostats.lustre.exports import ClientAmounts
from iostats.wire.messages import events_encoder
from iostats.wire.messages.sweep_encoder import LONGEST_WHY, add_column, json_length, packed_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

MAGIC = b"iostats clients 1\n"
METHOD, METHOD_OF_JOBS = "packed_clients", "packed_sweep"
_METHODS = ((MAGIC, METHOD), (events_encoder.MAGIC, events_encoder.METHOD))
_LONGEST_MAGIC = max(len(magic) for magic, _ in _METHODS)
KINDS = ("OST", "MDT")
MOST_NIDS = 5_000                  # of a block
MOST_LOSSES = 1_000                # of one reading; see `fewer`
LARGEST = 2**63 - 1                # of an amount
_ROW = 8 * len(ClientAmounts._fields)

# Why something may be missing: all that agents and servers say, in the words that people read.
# By what was found in the files of a target:
RESET = "its counters began again"
MAYBE_RESET = "its counters may have begun again"
REMOVED = "its counters were removed"
RESTARTED = "the target was restarted"
LEFT = "the target left this storage server"
UNREADABLE = "its counters could not be read"
NOT_UNDERSTOOD = "its counters could not be understood"
TOO_MANY = "more clients than are read"
# By what was lost on the way:
NEW_EPOCH = "the agent began anew"
WENT_DOWN = "its amounts went down"
OTHER_CLIENTS = "the relay tells of other clients than before"
LOSSES = (RESET, MAYBE_RESET, REMOVED, RESTARTED, LEFT, UNREADABLE, NOT_UNDERSTOOD, TOO_MANY,
          NEW_EPOCH, WENT_DOWN, OTHER_CLIENTS)


def packed_clients(head: dict[str, Any], nids: Sequence[str], amounts: Sequence[Sequence[int]],
                   longest: int) -> Iterator[tuple[bytes, bool]]:
    """
    (a block, it is the last one) of one reading of a file system's OSTs, or MDTs.

    Args:
        head: the members of ClientBlockHead without `ended`, `nids` and `widths`.  Those that say
            what is missing stand in the last block alone.
        amounts: a column for each field of ClientAmounts, as long as `nids`; 0 to LARGEST.
        longest: bytes of a block, about.
    """
    begin, whole = 0, dict(head, unreadable={}, losses=[], targets=[], bad=0, why="",
                           instances={}, started={})
    while True:
        end, size = begin, 0
        while end < len(nids) and end - begin < MOST_NIDS and (size < longest or end == begin):
            size += _ROW + json_length(nids[end:end + 1])
            end += 1
        is_last = end == len(nids)
        columns: list[tuple[int, array[int]]] = []
        widths = [add_column(columns, column[begin:end]) for column in amounts]
        yield packed_block({**(head if is_last else whole), "ended": is_last,
                            "nids": nids[begin:end], "widths": widths}, columns), is_last
        if is_last:
            return
        begin = end


def fewer(losses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """
    `losses`, or where there are more than MOST_LOSSES: each target's reasons once, for all its
    clients.
    """
    if len(losses) <= MOST_LOSSES:
        return [dict(one) for one in losses]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in losses:
        last = found.setdefault((one["target"], one["why"]), {**one, "nid": ""})
        last["since"] = min(last["since"], one["since"])
        last["until"] = max(last["until"], one["until"])
    return list(found.values())


def block_head(file_system: str, kind: str, epoch: str, read_from: float, read_until: float,
               clients: int, targets: Sequence[str] = (),
               unreadable: Mapping[str, str] | None = None,
               losses: Sequence[Mapping[str, Any]] = (), bad: int = 0,
               why: str = "", began: float | None = None,
               since_boot: tuple[str, float] | None = None,
               instances: Mapping[str, int] | None = None,
               started: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The `head` of packed_clients; the arguments are those of ClientBlockHead."""
    return {"file_system": file_system, "kind": kind, "epoch": epoch,
            "read_from": round(read_from, 6), "read_until": round(read_until, 6),
            "clients": clients, "targets": list(targets),
            "unreadable": {target: text[:LONGEST_WHY]
                           for target, text in (unreadable or {}).items()},
            "losses": fewer(losses), "bad": bad, "why": why[:LONGEST_WHY],
            "began": None if began is None else round(began, 6), "since_boot": since_boot,
            "instances": dict(instances or {}),
            "started": {target: round(at, 6) for target, at in (started or {}).items()}}


def method_of(message: bytes) -> str:
    """The method of a message as it is kept, by its first bytes; one that is damaged is a sweep."""
    try:
        begin = zlib.decompressobj().decompress(message, _LONGEST_MAGIC)
    except zlib.error:
        begin = b""
    return next((method for magic, method in _METHODS if begin.startswith(magic)), METHOD_OF_JOBS)
