"""
The counters of a target's clients whose files have no start_time, as they were read last.

{counter: numbers} of each client, the numbers of all one after the other: nearly all clients have
the same counters, and go on having them, so that a row is written where it stood.
"""

from __future__ import annotations

from array import array

from iostats.storage.nid_sums import array_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Optional

    Counts = Mapping[str, tuple[int, ...]]

SUMMED = ("read_bytes", "write_bytes")  # have four numbers: samples, min, max, sum; others one
_MOST_FORMS = 60_000
_LEAST_WASTE = 10_000


class KeptCounts:
    """Glance.counts of the rows of a ClientTable; None where they are not known."""

    def __init__(self) -> None:
        self._numbers, self._places, self._forms = array("q"), array("I"), array("H")
        self._names: list[tuple[str, ...]] = [()]                  # of the forms; 0: not known
        self._form_of: dict[tuple[str, ...], int] = {}
        self._waste = 0

    def __len__(self) -> int:
        return len(self._forms)

    def of(self, row: int) -> Optional[dict[str, tuple[int, ...]]]:
        """What is kept of a row."""
        if not self._forms[row]:
            return None
        at, found = self._places[row], {}
        for name in self._names[self._forms[row]]:
            found[name] = tuple(self._numbers[at:at + _size(name)])
            at += _size(name)
        return found

    def put(self, row: int, counts: Optional[Counts]) -> None:
        """Keep those of a row; one more than there are makes another."""
        if row == len(self._forms):
            self._forms.append(0)
            self._places.append(0)
        names = () if counts is None else tuple(counts)
        form = 0 if counts is None else self._form(names)
        numbers = [number for some in (counts or {}).values() for number in some]
        if form and form == self._forms[row]:
            at = self._places[row]
            self._numbers[at:at + len(numbers)] = array("q", numbers)
            return
        self._waste += sum(map(_size, self._names[self._forms[row]]))
        self._forms[row] = form
        if form:
            self._places[row] = len(self._numbers)
            self._numbers.extend(numbers)
        if self._waste > max(_LEAST_WASTE, len(self._numbers) // 2):
            self.keep(range(len(self._forms)))

    def _form(self, names: tuple[str, ...]) -> int:
        form = self._form_of.get(names)
        if form is None and len(self._names) < _MOST_FORMS:
            form = self._form_of[names] = len(self._names)
            self._names.append(names)
        return form or 0

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows alone, in this order."""
        numbers, places = array("q"), array("I")
        for row in rows:
            at, size = self._places[row], sum(map(_size, self._names[self._forms[row]]))
            places.append(len(numbers) if size else 0)
            numbers += self._numbers[at:at + size]
        self._forms = array("H", [self._forms[row] for row in rows])
        self._numbers, self._places, self._waste = numbers, places, 0

    def forget(self) -> None:
        """Nothing of any row is known."""
        self._forms[:] = array("H", bytes(2 * len(self._forms)))
        self._numbers, self._waste = array("q"), 0

    def kept(self) -> tuple[list[tuple[str, ...]], list[array[int]]]:
        """(names of the forms, arrays), of which of_kept makes it again."""
        return self._names, [self._forms, self._places, self._numbers]

    @classmethod
    def of_kept(cls, names: Sequence[Sequence[str]], rows: int,
                arrays: Iterator[memoryview]) -> KeptCounts:
        """The KeptCounts of these; ValueError, TypeError, LookupError or StopIteration."""
        one = cls()
        one._names = [tuple(some) for some in names]
        if one._names[:1] != [()] or not all(type(name) is str for some in names for name in some):
            raise ValueError("expected names of counters")
        one._form_of = {some: form for form, some in enumerate(one._names) if form}
        one._forms = array_of("H", next(arrays), rows)
        one._places = array_of("I", next(arrays), rows)
        one._numbers.frombytes(next(arrays))
        for form, at in zip(one._forms, one._places):
            if form and at + sum(map(_size, one._names[form])) > len(one._numbers):
                raise ValueError("expected more numbers of counters")
        return one


def _size(name: str) -> int:
    return 4 if name in SUMMED else 1
