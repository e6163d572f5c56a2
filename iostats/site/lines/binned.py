"""
Amounts in bins of one width on a grid since 1970, so that lines can be added up in any order.

A value is never split or scaled: it is in the bin of its middle, and the sum over the bins is the
sum of what was added.  What happened in a time longer than a bin is `unplaced`.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]

MOST_AMOUNT = 2**53             # of one reading: a JSON number, and 1000 of them are an int64
_WIDTHS = (1, 2, 4, 8)


class StoredLine(msgspec.Struct, array_like=True):
    """
    A BinnedLine as it is kept.

    Attributes:
        every_s, first, length, unplaced: as of BinnedLine.
        columns: {metric: little-endian integers of as few bytes as the largest needs}.
    """

    every_s: float
    first: int
    length: int
    columns: dict[str, bytes]
    unplaced: dict[str, int]


class BinnedLine:
    """
    Amounts of metrics over time.

    Attributes:
        every_s: width of a bin, s.
        first: number of the first bin; bin n begins at n * every_s since 1970.
        length: how many bins there are.
        columns: {metric: int64 [bin]}.
        unplaced: {metric: what happened at a time that is not known better}.
    """

    __slots__ = ("columns", "every_s", "first", "length", "most", "unplaced")

    def __init__(self, every_s: float, most: int) -> None:
        """`most`: bins; where there are more, each two are joined."""
        self.every_s, self.most = float(every_s), most
        self.first = self.length = 0
        self.columns: dict[str, _Array] = {}
        self.unplaced: dict[str, int] = {}

    @property
    def began(self) -> float:
        """When the first bin begins, s since 1970."""
        return self.first * self.every_s

    @property
    def ended(self) -> float:
        """When the last bin ends."""
        return (self.first + self.length) * self.every_s

    def add(self, at: _Array, columns: Mapping[str, _Array]) -> None:
        """Add amounts of moments: `at`, s since 1970, and {metric: as long}."""
        if not len(at):
            return
        places = self._room_for(at)
        for metric, values in columns.items():
            column = self.columns.get(metric)
            if column is None:
                column = self.columns[metric] = numpy.zeros(self.length, numpy.int64)
            numpy.add.at(column, places, values.astype(numpy.int64))

    def add_unplaced(self, amounts: Mapping[str, int]) -> None:
        """Add what happened at some time."""
        for metric, amount in amounts.items():
            if amount:
                self.unplaced[metric] = self.unplaced.get(metric, 0) + int(amount)

    def add_line(self, other: BinnedLine) -> None:
        """Add another line; this one is as coarse as the coarser of both from then on."""
        self.widen(other.every_s)
        if other.length:
            middles = (other.first + 0.5 + numpy.arange(other.length)) * other.every_s
            self.add(middles, other.columns)
        self.add_unplaced(other.unplaced)

    def widen(self, every_s: float) -> None:
        """Join bins until they are at least so wide."""
        while self.every_s < every_s:
            self._join()

    def at_most(self, most: int) -> None:
        """Join bins until there are up to this number, now and later."""
        self.most = most
        while self.length > most:
            self._join()

    def cut(self, began: float, ended: float) -> None:
        """Leave the bins of this time, and those at its edges."""
        low = max(self.first, int(began // self.every_s))
        high = min(self.first + self.length, int(-(-ended // self.every_s)))
        part = slice(low - self.first, max(low, high) - self.first)
        self.columns = {metric: column[part] for metric, column in self.columns.items()}
        self.first, self.length = low, max(0, high - low)

    def span(self, began: float, ended: float) -> None:
        """Have all bins of this time, if only with zeros; cut off others."""
        self.cut(began, ended)
        if ended > began:
            self._room_for(numpy.array([began, numpy.nextafter(ended, began)]))

    def totals(self) -> dict[str, int]:
        """{metric: sum over the bins}."""
        return {metric: int(column.sum()) for metric, column in self.columns.items()}

    def _room_for(self, at: _Array) -> _Array:
        """The places of these moments; bins are added, and joined, as it needs."""
        low, high = float(at.min()), float(at.max())
        while True:
            first, last = int(low // self.every_s), int(high // self.every_s)
            if self.length:
                first = min(first, self.first)
                last = max(last, self.first + self.length - 1)
            if last - first < self.most:
                break
            self._join()
        before, behind = self.first - first if self.length else 0, last - first + 1
        behind -= before + self.length
        if before or behind:
            self.columns = {metric: numpy.pad(column, (before, behind))
                            for metric, column in self.columns.items()}
        self.first, self.length = first, last - first + 1
        return (at // self.every_s).astype(numpy.int64) - first

    def _join(self) -> None:
        """Join each two bins."""
        self.every_s *= 2
        if not self.length:
            return
        odd = self.first % 2
        self.first, length = self.first // 2, (self.length + odd + 1) // 2
        for metric, column in self.columns.items():
            padded = numpy.zeros(2 * length, numpy.int64)
            padded[odd:odd + self.length] = column
            self.columns[metric] = padded.reshape(-1, 2).sum(axis=1)
        self.length = length

    # -- as it is kept

    def stored(self) -> StoredLine:
        """The same for the store, without metrics of which there is nothing."""
        return StoredLine(self.every_s, self.first, self.length,
                          {metric: narrow(column) for metric, column in self.columns.items()
                           if column.any()}, self.unplaced)

    @classmethod
    def of(cls, stored: StoredLine, most: int) -> BinnedLine:
        """What stored() made; ValueError where it cannot be that."""
        line = cls(stored.every_s, most)
        if not 0 < stored.every_s < 1e10 or not 0 <= stored.length <= 1 << 16:
            raise ValueError(f"expected bins, got {stored.length} of {stored.every_s} s")
        line.first, line.length, line.unplaced = stored.first, stored.length, stored.unplaced
        line.columns = {metric: widened(data, stored.length)
                        for metric, data in stored.columns.items()}
        return line


def narrow(column: _Array) -> bytes:
    """Integers, none below 0, in the fewest bytes."""
    largest = int(column.max()) if len(column) else 0
    width = next(width for width in _WIDTHS if largest < 1 << 8 * width)
    data: bytes = column.astype(f"<u{width}").tobytes()
    return data


def widened(data: bytes, length: int) -> _Array:
    """The integers that narrow() made bytes of."""
    if not length:
        return numpy.zeros(0, numpy.int64)
    width, rest = divmod(len(data), length)
    if rest or width not in _WIDTHS:
        raise ValueError(f"expected {length} integers, got {len(data)} bytes")
    return numpy.frombuffer(data, f"<u{width}").astype(numpy.int64)


_encode = msgspec.msgpack.Encoder().encode


def packed(row: msgspec.Struct) -> bytes:
    """A row as bytes, with a checksum."""
    return zlib.compress(_encode(row), 6)
