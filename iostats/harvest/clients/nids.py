"""
The clients of one file system: each NID has a number, its row in all tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from iostats.base.ids import Nid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.wire.messages.arrays import Integers


MAX_KNOWN = 200_000             # of a file system


class KnownNids:
    """
    Maps NIDs to numbers and back.

    Attributes:
        names: the NID of each number.
        left_out: the number of NIDs beyond the limit, at least.
    """

    __slots__ = ("_index", "_left_out", "_max_known", "names")

    def __init__(self, max_known: int = MAX_KNOWN) -> None:
        self.names: list[Nid] = []
        self._index: dict[Nid, int] = {}
        self._max_known, self._left_out = max_known, set[int]()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    def numbers(self, nids: Iterable[Nid]) -> Integers:
        """The numbers of these NIDs; new ones get a number, or -1 beyond the limit."""
        index, names = self._index, self.names
        numbers = []
        for nid in nids:
            number = index.get(nid, -1)
            if number < 0 and len(names) < self._max_known:
                number = index[nid] = len(names)
                names.append(nid)
            elif number < 0 and len(self._left_out) < self._max_known:
                self._left_out.add(hash(nid))
            numbers.append(number)
        return numpy.array(numbers, numpy.int32)

    def put(self, number: int, nid: Nid) -> None:
        """Add a stored NID; numbers arrive in their order."""
        self.names += [Nid("")] * (number + 1 - len(self.names))
        self.names[number] = nid
        self._index[nid] = number

    def find(self, nid: Nid) -> int:
        """The number of a NID; -1 if it is unknown."""
        return self._index.get(nid, -1)
