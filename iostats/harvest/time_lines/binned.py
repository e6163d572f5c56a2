"""
Amounts in bins of one width on a grid since 1970, so that series can be added up in any order.

An amount is never split or scaled: it is in the bin of its middle, and the sum over the bins is the
sum of the amounts.  Amounts of a time longer than a bin are `unplaced`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec
import numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.wire.messages.arrays import Array, Floats, Integers


MAX_AMOUNT = 2**53              # of one reading: a JSON number, and 1000 of them are an int64
_WIDTHS = (1, 2, 4, 8)


class StoredLine(msgspec.Struct, array_like=True):
    """A BinnedLine in the store."""

    # every_s, first, length, unplaced: as of BinnedLine
    every_s: float
    first: int
    length: int
    # {metric: little-endian integers of as few bytes as the largest needs}
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
        unplaced: {metric: amounts without a bin: their time is not known exactly enough}.
    """

    __slots__ = ("columns", "every_s", "first", "length", "max_bins", "unplaced")

    def __init__(self, every_s: float, max_bins: int) -> None:
        """`max_bins`: above this number, each two are joined."""
        self.every_s, self.max_bins = float(every_s), max_bins
        self.first = self.length = 0
        self.columns: dict[str, Array] = {}
        self.unplaced: dict[str, int] = {}

    @property
    def began(self) -> float:
        """The begin of the first bin, s since 1970."""
        return self.first * self.every_s

    @property
    def ended(self) -> float:
        """The end of the last bin."""
        return (self.first + self.length) * self.every_s

    def add(self, at: Floats, columns: Mapping[str, Array]) -> None:
        """
        Add amounts at some moments: `at`, s since 1970, and {metric: amounts of the same length}.
        """
        if not len(at):
            return
        places = self._make_room(at)
        for metric, values in columns.items():
            column = self.columns.get(metric)
            if column is None:
                column = self.columns[metric] = numpy.zeros(self.length, numpy.int64)
            numpy.add.at(column, places, values.astype(numpy.int64))

    def add_unplaced(self, amounts: Mapping[str, int]) -> None:
        """Add amounts at an unknown time."""
        for metric, amount in amounts.items():
            if amount:
                self.unplaced[metric] = self.unplaced.get(metric, 0) + int(amount)

    def add_line(self, line: BinnedLine) -> None:
        """Add another series; this one gets the wider bins of both."""
        self.widen(line.every_s)
        if line.length:
            middles = (line.first + 0.5 + numpy.arange(line.length)) * line.every_s
            self.add(middles, line.columns)
        self.add_unplaced(line.unplaced)

    def widen(self, every_s: float) -> None:
        """Join bins until they are at least this wide, in seconds."""
        while self.every_s < every_s:
            self._join()

    def at_most(self, max_bins: int) -> None:
        """Join bins until their number is at most this; later ones are joined, too."""
        self.max_bins = max_bins
        while self.length > max_bins:
            self._join()

    def cut(self, began: float, ended: float) -> None:
        """Drop all bins outside of this time."""
        low = max(self.first, int(began // self.every_s))
        high = min(self.first + self.length, int(-(-ended // self.every_s)))
        part = slice(low - self.first, max(low, high) - self.first)
        self.columns = {metric: column[part] for metric, column in self.columns.items()}
        self.first, self.length = low, max(0, high - low)

    def span(self, began: float, ended: float) -> None:
        """Cover exactly this time: add empty bins, drop others."""
        self.cut(began, ended)
        if ended > began:
            self._make_room(numpy.array([began, numpy.nextafter(ended, began)]))

    def totals(self) -> dict[str, int]:
        """Return {metric: sum over the bins}."""
        return {metric: int(column.sum()) for metric, column in self.columns.items()}

    def _make_room(self, at: Floats) -> Integers:
        """Add bins, and join them if needed, for these moments; returns their places."""
        low, high = float(at.min()), float(at.max())
        while True:
            first, last = int(low // self.every_s), int(high // self.every_s)
            if self.length:
                first = min(first, self.first)
                last = max(last, self.first + self.length - 1)
            if last - first < self.max_bins:
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
        """Merge each pair of neighbouring bins."""
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

    # -- in the store

    def stored(self) -> StoredLine:
        """The StoredLine, without empty metrics."""
        return StoredLine(self.every_s, self.first, self.length,
                          {metric: narrow(column) for metric, column in self.columns.items()
                           if column.any()}, self.unplaced)

    @classmethod
    def of(cls, stored: StoredLine, max_bins: int) -> BinnedLine:
        """The BinnedLine of stored()'s result; ValueError if it is not valid."""
        line = cls(stored.every_s, max_bins)
        if not 0 < stored.every_s < 1e10 or not 0 <= stored.length <= 1 << 16:
            raise ValueError(f"expected bins, got {stored.length} of {stored.every_s} s")
        line.first, line.length, line.unplaced = stored.first, stored.length, stored.unplaced
        line.columns = {metric: widen(data, stored.length)
                        for metric, data in stored.columns.items()}
        return line


def narrow(column: Array) -> bytes:
    """Non-negative integers in the fewest bytes."""
    largest = int(column.max()) if len(column) else 0
    width = next(width for width in _WIDTHS if largest < 1 << 8 * width)
    data: bytes = column.astype(f"<u{width}").tobytes()
    return data


def widen(data: bytes, length: int) -> Array:
    """The integers of narrow()'s bytes."""
    if not length:
        return numpy.zeros(0, numpy.int64)
    width, rest = divmod(len(data), length)
    if rest or width not in _WIDTHS:
        raise ValueError(f"expected {length} integers, got {len(data)} bytes")
    return numpy.frombuffer(data, f"<u{width}").astype(numpy.int64)


_encode = msgspec.msgpack.Encoder().encode


def pack_row(row: msgspec.Struct) -> bytes:
    """A row as bytes, with a checksum."""
    return zlib.compress(_encode(row), 6)
