"""
Job id <-> number, the same for all targets; and the layouts of tables that targets share.

An id that no target knows any more frees its number.
"""

from __future__ import annotations

from array import array
from weakref import WeakValueDictionary

import numpy

from iostats.site.resets.counters import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]


class JobIds:
    """
    What the targets of one site share.

    Attributes:
        empty: the Layout without counters.
    """

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._ids: list[Any] = []               # None at a free number
        self._users = array("i")                # how many targets know it
        self._free: list[int] = []
        self._layouts: WeakValueDictionary[Any, Layout] = WeakValueDictionary()
        self.empty = self.layout({}, ())

    def __len__(self) -> int:
        return len(self._number_of)

    def layout(self, units: dict[str, str], columns: tuple[tuple[str, str], ...]) -> Layout:
        """The Layout of these units and columns, one for all targets."""
        key = (tuple(units.items()), columns)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = Layout(*key)
        return layout

    def numbers(self, ids: Sequence[str]) -> _Array:
        """The numbers of these ids, array of int32; new ids get one."""
        numbers: list[Any] = list(map(self._number_of.get, ids))
        if None in numbers:
            for at, number in enumerate(numbers):
                if number is None:
                    numbers[at] = self._add(ids[at])
        return numpy.frombuffer(array("i", numbers), numpy.int32)

    def known_numbers(self, ids: Sequence[str]) -> _Array:
        """The numbers of these ids, array of int32; -1 where an id is not known."""
        get = self._number_of.get
        return numpy.frombuffer(array("i", [get(one, -1) for one in ids]), numpy.int32)

    def ids(self, numbers: _Array) -> list[str]:
        """The ids of these numbers."""
        return list(map(self._ids.__getitem__, numbers.tolist()))

    def hold(self, numbers: _Array) -> None:
        """One more target knows these."""
        for number in numbers.tolist():
            self._users[number] += 1

    def release(self, numbers: _Array) -> None:
        """One target less knows these."""
        for number in numbers.tolist():
            self._users[number] -= 1
            if not self._users[number]:
                del self._number_of[self._ids[number]]
                self._ids[number] = None
                self._free.append(number)

    def _add(self, one: str) -> int:
        known = self._number_of.get(one)                # it comes twice in `ids`
        if known is not None:
            return known
        if self._free:
            number = self._free.pop()
            self._ids[number] = one
        else:
            number = len(self._ids)
            self._ids.append(one)
            self._users.append(0)
        self._number_of[one] = number
        return number
