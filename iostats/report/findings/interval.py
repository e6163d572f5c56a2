"""
A number that may be too low or too high, as the two values that it lies between.

Rules compare these and nothing else, so that what is marked with >= in a report can never make one
hold by mistake: `surely_at_least` and `surely_at_most` are true of each number in the interval.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Interval(NamedTuple):
    """A number between `low` and `high`, both 0 or more; `high` is infinite without an upper bound.
    """

    low: float
    high: float = inf


UNKNOWN, ZERO = Interval(0, inf), Interval(0, 0)


def make_exact(number: float) -> Interval:
    """
    A number that is known.

    >>> make_exact(23)
    Interval(low=23, high=23)
    """
    return Interval(number, number)


def is_surely_at_least(number: Interval, least: float) -> bool:
    """
    Return True if `number` is certainly not below `least`.

    >>> is_surely_at_least(Interval(23, inf), 23), is_surely_at_least(Interval(22, 41), 23)
    (True, False)
    """
    return bool(number.low >= least)


def is_surely_at_most(number: Interval, limit: float) -> bool:
    """
    Return True if `number` is certainly not above `limit`.

    >>> is_surely_at_most(Interval(0, 23), 23), is_surely_at_most(Interval(0, inf), 23)
    (True, False)
    """
    return bool(number.high <= limit)


def add_up(several: Iterable[Interval]) -> Interval:
    """Add up Intervals.

    >>> add_up([make_exact(23), Interval(37, inf)])
    Interval(low=60.0, high=inf)
    """
    low, high = 0.0, 0.0
    for number in several:
        low, high = low + number.low, high + number.high
    return Interval(low, high)


def divide(dividend: Interval, divisor: Interval) -> Interval:
    """Divide two independent Intervals.

    >>> divide(make_exact(74), Interval(2, 37)), divide(make_exact(1), ZERO)
    (Interval(low=2.0, high=37.0), Interval(low=0, high=inf))
    """
    low = dividend.low / divisor.high if 0 < divisor.high < inf else 0
    high = dividend.high / divisor.low if divisor.low > 0 and dividend.high < inf else (
        0 if dividend.high == 0 < divisor.low else inf)
    return Interval(low, high)


def multiply(number: Interval, factor: float) -> Interval:
    """
    Multiply an Interval by a factor.

    >>> multiply(Interval(23, 37), 2.0)
    Interval(low=46.0, high=74.0)
    """
    return Interval(number.low * factor, number.high * factor)


def compute_share(part: Interval, rest: Interval) -> Interval:
    """
    Return the share of `part` in `part` and `rest` together, from 0 to 1.

    >>> compute_share(make_exact(3), make_exact(1)), compute_share(make_exact(3), Interval(1, inf))
    (Interval(low=0.75, high=0.75), Interval(low=0, high=0.75))
    """
    return Interval(
        part.low / (part.low + rest.high) if 0 < part.low and rest.high < inf else 0,
        1 if part.high == inf or rest.low == 0 else part.high / (part.high + rest.low))
