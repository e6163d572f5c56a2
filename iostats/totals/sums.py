"""
Metrics of many nodes added up: metric -> sum.
"""

from __future__ import annotations

from operator import add

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def add_values(sums: dict[str, int], values: Mapping[str, int]) -> None:
    """Add metric -> integer to `sums`."""
    if not sums:
        sums.update(values)
        return
    for metric, value in values.items():
        try:
            sums[metric] += value
        except KeyError:                  # once for each metric of a job, so cheaper than get()
            sums[metric] = value


class Sums:
    """The sums of metrics; those with the same names are added together.

    Adding two lists by operator.add takes a fifth of the time of adding two dicts (and int.__add__
    three times as long as that), and with all nodes at the door in the same second that is what the
    server does.
    """

    _MOST = 64                      # different sets of names; more are added one by one

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], list[int]] = {}          # (names) -> [sums]
        self._rest: dict[str, int] = {}     # metric -> sum

    def add(self, values: dict[str, int]) -> bool:
        """Add metric -> integer; True when these names were not seen before."""
        names = tuple(values)
        sums = self._lists.get(names)
        if sums is not None:
            self._lists[names] = list(map(add, sums, values.values()))
            return False
        if len(self._lists) < self._MOST:
            self._lists[names] = list(values.values())
        else:
            add_values(self._rest, values)
        return True

    def by_names(self) -> list[dict[str, int]]:
        """Return [metric -> sum], to be added up."""
        return [*(dict(zip(names, sums)) for names, sums in self._lists.items()), self._rest]

    def whole(self) -> dict[str, int]:
        """Return {metric: sum} of all that was added."""
        total: dict[str, int] = {}
        for values in self.by_names():
            add_values(total, values)
        return total
