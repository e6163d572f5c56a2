"""
Which places of the store may have events of a time, as far as a question must not read others.

Places are divided into buckets of 512.  Of each it is known when its first event began, and its
last one ended, at the most: an event that moved to another place, or was removed, leaves them as
they were.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BITS = 9


class Spans:
    """Of all buckets: {number: [began, ended]}."""

    SELECT = (f"SELECT place >> {_BITS}, min(time), max(ended) FROM main.events "
              f"GROUP BY place >> {_BITS}")

    def __init__(self) -> None:
        self._of: dict[int, list[float]] = {}

    @classmethod
    def of(cls, rows: Iterable[tuple[int, float, float]]) -> Spans:
        """Those of [(number, began, ended)], as SELECT finds them."""
        found = cls()
        found._of = {number: [began, ended] for number, began, ended in rows}
        return found

    def add(self, place: int, began: float, ended: float) -> None:
        """There is an event at this place."""
        span = self._of.get(place >> _BITS)
        if span is None:
            self._of[place >> _BITS] = [began, ended]
            return
        if began < span[0]:
            span[0] = began
        if ended > span[1]:
            span[1] = ended

    def remove_before(self, place: int) -> None:
        """All before this place are gone."""
        for number in list(self._of):
            if number >= place >> _BITS:
                break
            del self._of[number]

    def parts(self, after: int, last: int, since: float, until: float,
              newest_first: bool) -> Iterator[tuple[int, int, float]]:
        """
        [(behind which place, up to which, the latest end there)] of the buckets that may have
        events of this time; by place, or by the latest end, the newest first.
        """
        wanted = [(number, ended) for number, (began, ended) in self._of.items()
                  if ended >= since and began <= until
                  and after >> _BITS <= number <= last >> _BITS]
        wanted.sort(key=lambda one: -one[1] if newest_first else one[0])
        for number, ended in wanted:
            first = (number << _BITS) - 1
            yield max(after, first), min(last, first + (1 << _BITS)), ended
