"""
A number that may be too low or too high, as the two values that it lies between.

Rules compare these and nothing else, so that what is marked with >= in a report can never make one
hold by mistake: `surely_at_least` and `surely_at_most` are true of each number in the interval.
"""

from __future__ import annotations

from collections import namedtuple
from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Interval = namedtuple("Interval", "low high", defaults=(inf,))
Interval.__doc__ = """
The true number is at least `low` and at most `high`, both 0 or more; `high` is inf where there is
no upper bound.
"""

UNKNOWN, ZERO = Interval(0, inf), Interval(0, 0)


def exactly(number: float) -> Interval:
    """
    A number that is known.

    >>> exactly(23)
    Interval(low=23, high=23)
    """
    return Interval(number, number)


def surely_at_least(number: Interval, least: float) -> bool:
    """
    >>> surely_at_least(Interval(23, inf), 23), surely_at_least(Interval(22, 41), 23)
    (True, False)
    """
    return bool(number.low >= least)


def surely_at_most(number: Interval, most: float) -> bool:
    """
    >>> surely_at_most(Interval(0, 23), 23), surely_at_most(Interval(0, inf), 23)
    (True, False)
    """
    return bool(number.high <= most)


def added_up(several: Iterable[Interval]) -> Interval:
    """
    The sum of numbers.

    >>> added_up([exactly(23), Interval(37, inf)])
    Interval(low=60, high=inf)
    """
    low, high = 0, 0
    for number in several:
        low, high = low + number.low, high + number.high
    return Interval(low, high)


def ratio(one: Interval, other: Interval) -> Interval:
    """
    One number by another that is independent of it.

    >>> ratio(exactly(74), Interval(2, 37)), ratio(exactly(1), ZERO)
    (Interval(low=2.0, high=37.0), Interval(low=0, high=inf))
    """
    low = one.low / other.high if 0 < other.high < inf else 0
    high = one.high / other.low if other.low > 0 and one.high < inf else (
        0 if one.high == 0 < other.low else inf)
    return Interval(low, high)


def share_of(part: Interval, rest: Interval) -> Interval:
    """
    What `part` is of itself and the rest together, from 0 to 1.

    >>> share_of(exactly(3), exactly(1)), share_of(exactly(3), Interval(1, inf))
    (Interval(low=0.75, high=0.75), Interval(low=0, high=0.75))
    """
    return Interval(
        part.low / (part.low + rest.high) if 0 < part.low and rest.high < inf else 0,
        1 if part.high == inf or rest.low == 0 else part.high / (part.high + rest.low))
