"""
Forecast of the time when a target is full, if its use grows as in the last week.

    readings   [(time, amount used)], about one an hour   ->   Forecast

The forecast is the mean rate of the whole days of the week, counted back from the last reading.
`earliest` and `latest` are the same forecast at the rates of the fastest and the slowest of these
days: not bounds of the future, but the range that the readings support.
Less than a day of readings supports no forecast.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Reading = tuple[float, int]

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
_LONGEST_S = 3650 * DAY_S                   # a forecast beyond ten years is none


class Forecast(NamedTuple):
    """A forecast of one resource of one target; times in s since 1970."""

    since: float    # the first reading that it is made of
    per_day: float  # the mean growth; negative where the use shrinks
    # when nothing is left at this rate; None where it does not grow, or in ten years
    full_at: float | None
    # earliest, latest: the same at the rates of the fastest and the slowest day; None where there
    # are fewer than two days of readings, and `latest` also where the slowest day had no growth
    earliest: float | None
    latest: float | None


def forecast(readings: Sequence[_Reading], available: int) -> Forecast | None:
    """
    The Forecast from readings, by time, of the last of which `available` was left; None where they
    cover less than a day.

    >>> week = [(day * DAY_S, used) for day, used in enumerate((100, 105, 130, 133))]
    >>> [found / DAY_S for found in forecast(week, 110)[2:]]
    [13.0, 7.4, 39.666666666666664]
    """
    days = _pair_days([reading for reading in readings if reading[0] >= readings[-1][0] - WEEK_S])
    if not days:
        return None
    first, last = days[-1][0], days[0][1]
    rates, mean = [_compute_rate(*day) for day in days], _compute_rate(first, last)

    def full_at(per_s: float) -> float | None:
        return (last[0] + available / per_s
                if per_s > 0 and available / per_s < _LONGEST_S else None)
    at = full_at(mean)
    has_range = len(days) > 1 and at is not None
    return Forecast(first[0], mean * DAY_S, at, full_at(max(rates)) if has_range else None,
                    full_at(min(rates)) if has_range else None)


def _pair_days(readings: Sequence[_Reading]) -> list[tuple[_Reading, _Reading]]:
    """
    The first and last reading of each whole day, from the last one backwards; a gap makes a longer
    day.
    """
    times = [time for time, _ in readings]
    days: list[tuple[_Reading, _Reading]] = []
    end = len(readings) - 1
    while True:
        begin = bisect_right(times, times[end] - DAY_S) - 1
        if begin < 0:
            return days
        days.append((readings[begin], readings[end]))
        end = begin


def _compute_rate(first: _Reading, last: _Reading) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
