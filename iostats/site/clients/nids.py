"""
The clients of one file system: each NID has a number, its row in all tables.
"""

from __future__ import annotations

import numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]

MOST_KNOWN = 200_000            # of a file system


class KnownNids:
    """
    NID <-> number.

    Attributes:
        names: the NID of each number.
        left_out: how many more there were, at least.
    """

    __slots__ = ("_index", "_left_out", "_most", "names")

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._most, self._left_out = most, set[int]()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    def numbers(self, nids: Iterable[str]) -> _Array:
        """The number of each of these, new ones too; -1 where there are too many."""
        index, names = self._index, self.names
        found = []
        for nid in nids:
            number = index.get(nid, -1)
            if number < 0 and len(names) < self._most:
                number = index[nid] = len(names)
                names.append(nid)
            elif number < 0 and len(self._left_out) < self._most:
                self._left_out.add(hash(nid))
            found.append(number)
        return numpy.array(found, numpy.int32)

    def put(self, number: int, nid: str) -> None:
        """As it is in the store; numbers come in their order."""
        self.names += [""] * (number + 1 - len(self.names))
        self.names[number] = nid
        self._index[nid] = number

    def find(self, nid: str) -> int:
        """Its number; -1 for one that is not known."""
        return self._index.get(nid, -1)
