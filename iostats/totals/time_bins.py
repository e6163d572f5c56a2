"""
Amounts over time in a bounded number of equal bins: when all are in use, each two are joined.

A value is never split or scaled: the sum over the bins is the sum of what was added.

`Series` is what one node sees, one reading after the other.  `Bins` is what many nodes saw, added
up on a grid that all of them share, so that their order makes no difference.
"""

from __future__ import annotations

from math import frexp

from iostats.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_BINS = 240
_PLACES = 4                     # of the grid in one bin
MOST_PLACES = _PLACES * MOST_BINS


class Series:
    """
    Amounts of several metrics over time.

    Attributes:
        every_s: width of a bin.
        began: where the first bin begins, in seconds of any clock; None while that is open.
        bins: metric -> [amount of each bin].
    """

    def __init__(self, every_s: float, metrics: Iterable[str], began: float | None = None,
                 max_bins: int = MOST_BINS) -> None:
        """`max_bins`: 4 or more."""
        self.every_s, self.began, self._most = every_s, began, max_bins
        self.bins: dict[str, list[int]] = {metric: [] for metric in metrics}

    def __len__(self) -> int:
        return len(next(iter(self.bins.values())))

    def add(self, at: float, amounts: Mapping[str, int]) -> None:
        """Add `amounts` (metric -> integer) of the moment `at` to its bin."""
        if self.began is None:
            self.began = at
        elif at < self.began:
            self._begin_at(at)
        place = int((at - self.began) / self.every_s)
        while place >= self._most:
            self._halve()
            place = int((at - self.began) / self.every_s)
        for metric, values in self.bins.items():
            values.extend([0] * (place + 1 - len(values)))
            values[place] += amounts.get(metric, 0)

    def add_all(self, other: Series) -> None:
        """Add another Series: each bin at its middle."""
        while self.every_s < other.every_s:
            self._halve()             # or its bins would be peaks with a gap beside each
        began = other.began or 0.0    # None only of one without bins
        for place in range(len(other)):
            self.add(began + (place + 0.5) * other.every_s,
                     {metric: values[place] for metric, values in other.bins.items()})

    def _begin_at(self, at: float) -> None:
        """Bins in front, down to `at`: an even number, so that those that are there stay pairs."""
        began = self.began or 0.0

        def missing() -> int:
            return 2 * (int((began - at) / (2 * self.every_s)) + 1)
        while missing() + len(self) > self._most:
            self._halve()
        self.began, in_front = began - missing() * self.every_s, [0] * missing()
        for values in self.bins.values():
            values[:0] = in_front

    def _halve(self) -> None:
        self.every_s *= 2
        for metric, values in self.bins.items():
            self.bins[metric] = _pair_up(values)

    def as_dict(self) -> dict[str, object]:
        """Return {"began", "every_s", and each metric's amounts}; for JSON."""
        return {"began": self.began, "every_s": self.every_s, **self.bins}


class Bins(NamedTuple):
    """Amounts of several nodes over time."""

    every_s: float  # width of a bin
    began: float    # when the first node began
    # first, rows: [[amount of each place]] of each metric, where place n is the n-th quarter of a
    # bin since 1970, and `first` that of the first amount
    first: int
    rows: Sequence[list[int]]


def make_bins(every_s: float, began: float, rows: Sequence[Sequence[int]]) -> Bins:
    """The Bins of one node: each amount at the middle of its bin."""
    first = int((began + every_s / 2) // (every_s / _PLACES))
    apart = [[0] * max(0, _PLACES * (len(row) - 1) + 1) for row in rows]
    for places, row in zip(apart, rows):
        places[::_PLACES] = row
    return Bins(every_s, began, first, apart)


def find_common_factor(bins: Bins) -> float:
    """Return a number that is the same for all widths that become one another by doubling."""
    return frexp(bins.every_s)[0]


def join_bins(*several: Bins, max_places: int = MOST_PLACES) -> Bins:
    """Add up the Bins of one family.

    Doubling and adding can change places, since the half of a place's number is that of the place
    it becomes; so the widths are the widest of all, and no wider than all together need.
    """
    widest = max(bins.every_s for bins in several)
    widened = [_widen(bins, widest) for bins in several]
    while _find_end(widened) - min(bins.first for bins in widened) > max_places:
        widened = [_widen(bins, 2 * bins.every_s) for bins in widened]
    first, end = min(bins.first for bins in widened), _find_end(widened)
    rows = [[0] * (end - first) for _ in widened[0].rows]
    for bins in widened:
        at = bins.first - first
        for whole, row in zip(rows, bins.rows):
            whole[at:at + len(row)] = map(int.__add__, whole[at:at + len(row)], row)
    return Bins(widened[0].every_s, min(bins.began for bins in widened), first, rows)


def _find_end(several: Iterable[Bins]) -> int:
    end: int = max(bins.first + len(bins.rows[0]) for bins in several)
    return end


def _widen(bins: Bins, every_s: float) -> Bins:
    while bins.every_s < every_s:
        odd = [0] * (bins.first % 2)
        bins = Bins(2 * bins.every_s, bins.began, bins.first // 2,
                    [_pair_up(odd + row) for row in bins.rows])
    return bins


def _pair_up(row: list[int]) -> list[int]:
    return [sum(row[place:place + 2]) for place in range(0, len(row), 2)]


def make_series(several: Iterable[Bins], metrics: Sequence[str]) -> Series:
    """The Series of `metrics` that Bins of different families are together."""
    apart = []
    for bins in sorted(several, reverse=True):
        series = Series(bins.every_s, metrics, bins.began)
        series.bins = {metric: [sum(row[at:at + _PLACES]) for at in range(0, len(row), _PLACES)]
                       for metric, row in zip(metrics, bins.rows)}
        apart.append(series)
    for series in apart[1:]:
        apart[0].add_all(series)
    return apart[0]
