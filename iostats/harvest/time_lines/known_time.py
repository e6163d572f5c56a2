"""
The time for which something is known: how many targets of a series were read, from when to when.

    [(since, until, targets)]   pieces, in any order; where they overlap they add up
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.wire.messages.arrays import Array

    Piece = tuple[float, float, float]

MAX_PIECES = 200                # in one row


def add_up(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces of time in order, without overlaps.

    >>> add_up([(0, 60, 1), (60, 120, 1), (60, 180, 1), (240, 300, 1)])
    [(0, 60, 1.0), (60, 120, 2.0), (120, 180, 1.0), (240, 300, 1.0)]
    """
    changes: dict[float, float] = {}
    for since, until, count in pieces:
        changes[since] = changes.get(since, 0) + count
        changes[until] = changes.get(until, 0) - count
    pieces_in_order: list[Piece] = []
    level, began = 0.0, 0.0
    for at in sorted(changes):
        if not changes[at]:
            continue
        if level:
            pieces_in_order.append((began, at, level))
        level, began = level + changes[at], at
    return pieces_in_order


def limit_pieces(pieces: list[Piece], max_pieces: int = MAX_PIECES) -> list[Piece]:
    """
    Reduce the pieces of add_up() to `max_pieces`: neighbours are merged, with the fewer targets.

    >>> limit_pieces([(0, 60, 2), (60, 70, 1), (70, 120, 2), (180, 240, 3)], 2)
    [(0, 70, 1), (180, 240, 3)]
    """
    while len(pieces) > max_pieces:
        joined: list[Piece] = []
        for at in range(0, len(pieces) - 1, 2):
            (began, until, a), (since, ended, b) = pieces[at:at + 2]
            if since > until:                   # the time in between is unknown
                joined.append((began, until, a) if until - began > ended - since else
                              (since, ended, b))
            else:
                joined.append((began, ended, min(a, b)))
        pieces = joined + pieces[len(pieces) - len(pieces) % 2:]
    return pieces


def compute_known_shares(pieces: Iterable[Piece], targets: int, began: float, every_s: float,
                 length: int) -> Array:
    """The share of the time of these targets that is known, 0 to 1, for each of `length` bins."""
    shares = numpy.zeros(length)
    if not length or not targets:
        return shares
    edges = began + every_s * numpy.arange(length + 1)
    for since, until, count in add_up(pieces):
        low = max(0, int((since - began) // every_s))
        high = min(length, int(-(-(until - began) // every_s)))
        if low < high:
            overlap = numpy.minimum(edges[low + 1:high + 1], until) - numpy.maximum(
                edges[low:high], since)
            shares[low:high] += numpy.maximum(overlap, 0) * count
    return numpy.minimum(shares / (every_s * targets), 1.0)
