"""
Of which time something is known: how many of the targets of a line were read, from when to when.

    [(since, until, targets)]   pieces, in any order, which may overlap: then they add up
"""

from __future__ import annotations

import numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]
    Piece = tuple[float, float, float]

MOST_PIECES = 200               # in one row


def added_up(pieces: Iterable[Piece]) -> list[Piece]:
    """
    The same in order, where none overlaps another.

    >>> added_up([(0, 60, 1), (60, 120, 1), (60, 180, 1), (240, 300, 1)])
    [(0, 60, 1.0), (60, 120, 2.0), (120, 180, 1.0), (240, 300, 1.0)]
    """
    changes: dict[float, float] = {}
    for since, until, count in pieces:
        changes[since] = changes.get(since, 0) + count
        changes[until] = changes.get(until, 0) - count
    found: list[Piece] = []
    level, began = 0.0, 0.0
    for at in sorted(changes):
        if not changes[at]:
            continue
        if level:
            found.append((began, at, level))
        level, began = level + changes[at], at
    return found


def bounded(pieces: list[Piece], most: int = MOST_PIECES) -> list[Piece]:
    """
    At most `most` pieces of added_up(): neighbours become one, with what is known of the worse.

    >>> bounded([(0, 60, 2), (60, 70, 1), (70, 120, 2), (180, 240, 3)], 2)
    [(0, 70, 1), (180, 240, 3)]
    """
    while len(pieces) > most:
        joined: list[Piece] = []
        for at in range(0, len(pieces) - 1, 2):
            (began, until, a), (since, ended, b) = pieces[at:at + 2]
            if since > until:                   # nothing is known in between
                joined.append((began, until, a) if until - began > ended - since else
                              (since, ended, b))
            else:
                joined.append((began, ended, min(a, b)))
        pieces = joined + pieces[len(pieces) - len(pieces) % 2:]
    return pieces


def shares(pieces: Iterable[Piece], targets: int, began: float, every_s: float,
           length: int) -> _Array:
    """Of each of `length` bins, the share of the time of these targets that is known, 0 to 1."""
    found = numpy.zeros(length)
    if not length or not targets:
        return found
    edges = began + every_s * numpy.arange(length + 1)
    for since, until, count in added_up(pieces):
        low = max(0, int((since - began) // every_s))
        high = min(length, int(-(-(until - began) // every_s)))
        if low < high:
            overlap = numpy.minimum(edges[low + 1:high + 1], until) - numpy.maximum(
                edges[low:high], since)
            found[low:high] += numpy.maximum(overlap, 0) * count
    return numpy.minimum(found / (every_s * targets), 1.0)
