"""
A table of unsigned 64-bit numbers, most of which are small: 4 bytes for each, and 4 more in the
columns that have had one of 2^32 or more.
"""

from __future__ import annotations

import numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]
    _Rows = Union[_Array, slice, int]

_U64, _U32 = numpy.uint64, numpy.uint32
_HALF = _U64(32)
_NONE = numpy.zeros((0, 0), _U32)


class NarrowTable:
    """`length` rows of `width` numbers, which are 0."""

    __slots__ = ("_high", "_low", "_tall")

    def __init__(self, length: int = 0, width: int = 0) -> None:
        self._low = numpy.zeros((length, width), _U32) if length or width else _NONE
        self._high = _NONE                          # [row, of _tall]
        self._tall: tuple[int, ...] = ()            # columns that have high halves

    def __len__(self) -> int:
        return len(self._low)

    def get(self, rows: _Rows) -> _Array:
        """The numbers of these rows: array of uint64."""
        values: _Array = self._low[rows].astype(_U64)
        if self._tall:
            values[..., self._tall] |= self._high[rows].astype(_U64) << _HALF
        return values

    def put(self, rows: _Array, values: _Array) -> None:
        """Set these rows to `values`, [row, column]."""
        self._low[rows] = values.astype(_U32)       # modulo 2^32
        high = (values >> _HALF).astype(_U32)
        if high.any():
            more = set(numpy.flatnonzero(high.any(axis=0)).tolist()) - set(self._tall)
            if more:
                wider = numpy.zeros((len(self._low), len(self._tall) + len(more)), _U32)
                if self._tall:
                    wider[:, :len(self._tall)] = self._high
                self._high, self._tall = wider, (*self._tall, *sorted(more))
        if self._tall:
            self._high[rows] = high[:, self._tall]

    def column(self, place: int, rows: _Rows) -> _Array:
        """One column of these rows."""
        values: _Array = self._low[rows, place].astype(_U64)
        if place in self._tall:
            values |= self._high[rows, self._tall.index(place)].astype(_U64) << _HALF
        return values

    def clear(self, rows: _Array) -> None:
        """Set these rows to 0."""
        self._low[rows] = 0
        if self._tall:
            self._high[rows] = 0

    @property
    def nbytes(self) -> int:
        """How much memory the numbers take."""
        return self._low.nbytes + self._high.nbytes

    def widen(self, width: int) -> None:
        """Grow to `width` columns; the new ones are 0."""
        self._low = _larger(self._low, slice(None), len(self._low), width)

    def keep(self, rows: _Rows, length: int) -> None:
        """Keep these rows alone, with room for `length`."""
        self._low = _larger(self._low, rows, length, self._low.shape[1])
        if self._tall:
            self._high = _larger(self._high, rows, length, self._high.shape[1])


def _larger(table: _Array, rows: _Rows, length: int, width: int) -> _Array:
    larger = numpy.zeros((length, width), table.dtype)
    kept = table[rows]
    larger[:len(kept), :kept.shape[1]] = kept
    return larger
