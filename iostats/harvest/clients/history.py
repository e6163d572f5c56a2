"""
Client I/O between two moments: gains by sweep, and the losses that make them lower bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy

from iostats.harvest.clients.nids import KnownNids
from iostats.load.amounts import CLIENT_METRICS
from iostats.store.client_store import HistoryPart, MarkedLoss


class ClientTotals(NamedTuple):
    """A client's I/O on a file system between two moments."""

    low: Sequence[int]      # of CLIENT_METRICS, ints: its I/O in whole sweeps in between
    high: Sequence[int]     # the same, plus its I/O in sweeps that one of the moments falls into
    is_lower_bound: bool    # some I/O may be missing in both
    why: list[str]          # [reason]


_MAX_REASONS = 5
WHOLE, EDGE, OUTSIDE = "whole", "edge", "outside"


NO_SLACK = (0.0, 0.0)


def locate_period(since: float, until: float, began: float, ended: float,
                  slack_s: tuple[float, float] = NO_SLACK) -> str:
    """
    Whether I/O between `since` and `until` lies in a query from `began` to `ended`.

    `slack_s`: moments no further away from `began`, and from `ended`, count as equal.

    >>> [locate_period(20.0, 40.0, began, 60.0) for began in (20.0, 21.0, 40.0)]
    ['whole', 'edge', 'outside']
    >>> [locate_period(20.25, 40.25, began, 40.0, (10.0, 10.0)) for began in (20.0, 40.0)]
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
        `length`: the number of clients; `slack_s`: as of locate_period; `only`: the numbers of
        those in the query, sorted.
        """
        self.began, self.ended, self._slack_s = began, ended, slack_s
        self._only = None if only is None else numpy.array(only, numpy.int64)
        length = length if only is None else len(only)
        self.low = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
        self.edge = numpy.zeros((length, len(CLIENT_METRICS)), numpy.int64)
        self.reasons: dict[int, list[str]] = {}         # of one client; -1: of all

    def add(self, part: HistoryPart) -> None:
        place = locate_period(part.since, part.until, self.began, self.ended, self._slack_s)
        if place is OUTSIDE:
            return
        sums, numbers, gains = self.low if place is WHOLE else self.edge, part.numbers, part.gains
        if self._only is not None:
            if not len(self._only):
                return
            places = numpy.searchsorted(self._only, numbers).clip(max=len(self._only) - 1)
            is_selected = self._only[places] == numbers
            numbers, gains = places[is_selected], gains[is_selected]
        sums[numbers] += gains                      # a client is in a part once

    def mark(self, number: int, why: str) -> None:
        """Note that some I/O of this client may be missing; -1: of all."""
        reasons = self.reasons.setdefault(number, [])
        if why not in reasons and len(reasons) < _MAX_REASONS:
            reasons.append(why)

    def mark_loss(self, loss: MarkedLoss, node: str, file_system: str, nids: KnownNids) -> None:
        """Mark a loss of `node`, if it is in this time."""
        if locate_period(loss.since, loss.until, self.began, self.ended, self._slack_s) is OUTSIDE:
            return
        number = nids.find(loss.nid) if loss.nid else -1
        if loss.nid and number < 0:
            return
        where = [node, *([f"{file_system}-{loss.target}"] if loss.target else ())]
        self.mark(number, ": ".join(filter(None, (*where, loss.why))))

    def totals(self, number: int) -> ClientTotals:
        """The ClientTotals of one client of the query."""
        at = number if self._only is None else int(numpy.searchsorted(self._only, number))
        low = self.low[at]
        why = [*dict.fromkeys([*self.reasons.get(-1, ()), *self.reasons.get(number, ())])]
        return ClientTotals(low.tolist(), (low + self.edge[at]).tolist(), bool(why), why)

    def list_clients_with_data(self) -> list[int]:
        """The numbers of clients with I/O or a mark."""
        numbers: list[int] = numpy.flatnonzero(
            self.low.any(axis=1) | self.edge.any(axis=1)).tolist()
        return sorted({*numbers, *(number for number in self.reasons if number >= 0)})


def merge_parts(parts: list[HistoryPart]) -> HistoryPart:
    """All parts in one, from the first beginning to the last end."""
    numbers = numpy.unique(numpy.concatenate([part.numbers for part in parts]))
    gains = numpy.zeros((len(numbers), len(CLIENT_METRICS)), numpy.int64)
    for part in parts:
        gains[numpy.searchsorted(numbers, part.numbers)] += part.gains
    return HistoryPart(min(part.since for part in parts), max(part.until for part in parts),
                       numbers, gains)
