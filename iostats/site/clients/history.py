"""
What clients did between two moments: gains by sweep, and what may be missing in them.
"""

from __future__ import annotations

from collections import namedtuple

import numpy

from iostats.load.amounts import CLIENT_METRICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy.typing

    from iostats.site.clients.nids import KnownNids
    from iostats.site.clients.readings import MarkedLoss

    _Array = numpy.typing.NDArray[Any]

ClientTotals = namedtuple("ClientTotals", "low high is_lower_bound why")
ClientTotals.__doc__ = """
What a client did in a file system between two moments.

Attributes:
    low: of CLIENT_METRICS, ints: what it certainly did in between.
    high: the same with what it did in sweeps that one of the moments falls into.
    is_lower_bound: something may be missing in both.
    why: [reason].
"""

HistoryPart = namedtuple("HistoryPart", "since until numbers gains")
HistoryPart.__doc__ = """
What clients of a file system gained in one sweep, or one hour.

Attributes:
    since, until: by the site's clock.
    numbers: of the clients; `gains`: int64 [client, of CLIENT_METRICS].
"""

_MOST_REASONS = 5
WHOLE, EDGE, OUTSIDE = "whole", "edge", "outside"


NO_SLACK = (0.0, 0.0)


def place_of(since: float, until: float, began: float, ended: float,
             slack_s: tuple[float, float] = NO_SLACK) -> str:
    """
    Where what happened between `since` and `until` lies, of a question from `began` to `ended`.

    `slack_s`: what is no further away from `began`, and from `ended`, counts as that moment.

    >>> [place_of(20.0, 40.0, began, 60.0) for began in (20.0, 21.0, 40.0)]
    ['whole', 'edge', 'outside']
    >>> [place_of(20.25, 40.25, began, 40.0, (10.0, 10.0)) for began in (20.0, 40.0)]
    ['whole', 'outside']
    """
    at_first, at_last = slack_s
    if until <= began + at_first or since >= ended - at_last:
        return OUTSIDE
    return WHOLE if began - at_first <= since and until <= ended + at_last else EDGE


class ClientSums:
    """Adds up the parts of one file system between two moments."""

    def __init__(self, began: float, ended: float, length: int,
                 slack_s: tuple[float, float] = NO_SLACK, only: list[int] | None = None) -> None:
        """
        `length`: how many clients there are; `slack_s`: as of place_of; `only`: the numbers of
        those that are asked for, sorted.
        """
        self.began, self.ended, self._slack_s = began, ended, slack_s
        self._only = None if only is None else numpy.array(only, numpy.int64)
        length = length if only is None else len(only)
        self.low = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
        self.edge = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
        self.reasons: dict[int, list[str]] = {}         # of one client; -1: of all

    def add(self, part: HistoryPart) -> None:
        place = place_of(part.since, part.until, self.began, self.ended, self._slack_s)
        if place is OUTSIDE:
            return
        sums, numbers, gains = self.low if place is WHOLE else self.edge, part.numbers, part.gains
        if self._only is not None:
            if not len(self._only):
                return
            places = numpy.searchsorted(self._only, numbers).clip(max=len(self._only) - 1)
            wanted = self._only[places] == numbers
            numbers, gains = places[wanted], gains[wanted]
        sums[numbers] += gains                      # a client is in a part once

    def mark(self, number: int, why: str) -> None:
        """Something may be missing of this client; -1: of all."""
        known = self.reasons.setdefault(number, [])
        if why not in known and len(known) < _MOST_REASONS:
            known.append(why)

    def mark_loss(self, loss: MarkedLoss, node: str, file_system: str, known: KnownNids) -> None:
        """Mark what `node` may have lost, as far as that was in between."""
        if place_of(loss.since, loss.until, self.began, self.ended, self._slack_s) is OUTSIDE:
            return
        number = known.find(loss.nid) if loss.nid else -1
        if loss.nid and number < 0:
            return
        where = [node, *([f"{file_system}-{loss.target}"] if loss.target else ())]
        self.mark(number, ": ".join(filter(None, (*where, loss.why))))

    def totals(self, number: int) -> ClientTotals:
        """The ClientTotals of one client, of those that are asked for."""
        at = number if self._only is None else int(numpy.searchsorted(self._only, number))
        low = self.low[at]
        why = [*dict.fromkeys([*self.reasons.get(-1, ()), *self.reasons.get(number, ())])]
        return ClientTotals(low.tolist(), (low + self.edge[at]).tolist(), bool(why), why)

    def having(self) -> list[int]:
        """The numbers of clients of which there is something."""
        some: list[int] = numpy.flatnonzero(
            self.low.any(axis=1) | self.edge.any(axis=1)).tolist()
        return sorted({*some, *(number for number in self.reasons if number >= 0)})


def merged(parts: list[HistoryPart]) -> HistoryPart:
    """All of them in one, from the first beginning to the last end."""
    numbers = numpy.unique(numpy.concatenate([part.numbers for part in parts]))
    gains = numpy.zeros((len(numbers), len(CLIENT_METRICS)), numpy.int64)
    for part in parts:
        gains[numpy.searchsorted(numbers, part.numbers)] += part.gains
    return HistoryPart(min(part.since for part in parts), max(part.until for part in parts),
                       numbers, gains)
