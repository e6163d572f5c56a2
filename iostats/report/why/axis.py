"""
Lines of different begins and widths on one axis of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.load.time_lines import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Optional

    Amounts = list[Optional[float]]

_MOST = 4000                        # intervals; the site's server has up to 1000
_COVERED = 0.9                      # of an interval has to be known, or it is not


class CommonAxis(NamedTuple):
    """A time axis: `count` intervals of `every_s` seconds from `began`, in seconds since 1970."""

    began: float
    every_s: float
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()


def make_axis(line: Line | None, *more: Line | None) -> CommonAxis | None:
    """The CommonAxis with the intervals of `line`, on which the others lie too; None: no line."""
    there = [item for item in (line, *more) if item is not None and item.every_s > 0
             and count_bins(item)]
    if line is None or line not in there:
        return None
    every_s = line.every_s
    began = min(item.began for item in there)
    began = line.began - every_s * -(-(line.began - began) // every_s)
    ended = max(item.began + item.every_s * count_bins(item) for item in there)
    return CommonAxis(began, every_s, max(0, min(_MOST, int(-(-(ended - began) // every_s)))))


def count_bins(line: Line) -> int:
    """Return the number of intervals of a line."""
    return max(map(len, line.amounts.values()), default=0)


def spread_over_axis(line: Line | None, metric: str, axis: CommonAxis) -> Amounts:
    """
    A metric's amount in each interval of the axis; None if unknown.

    An amount is spread evenly over its own interval.  A metric that a line does not have is 0 in
    what is known of the line.
    """
    unknown: Amounts = [None] * axis.count
    if line is None or line.every_s <= 0:
        return unknown
    amounts: Sequence[float | None] | None = line.amounts.get(metric)
    if amounts is None:
        amounts = [None if amount is None else 0
                   for amount in next(iter(line.amounts.values()), ())]
    known = getattr(line, "known", None)        # the share of an interval that is known
    if known:
        amounts = [amount if share >= _COVERED else None
                   for amount, share in zip(amounts, known)]
    shift = (line.began - axis.began) / axis.every_s
    if abs(line.every_s - axis.every_s) < 1e-6 * axis.every_s and abs(shift - round(shift)) < 0.02:
        place = round(shift)
        cut = max(0, -place)
        aligned = [None] * min(axis.count, max(0, place)) + list(amounts[cut:])
        return (aligned + unknown)[:axis.count]
    known, sums = [0.0] * axis.count, [0.0] * axis.count
    for number, amount in enumerate(amounts):
        if amount is None:
            continue
        start = (line.began + number * line.every_s - axis.began) / axis.every_s
        end = start + line.every_s / axis.every_s
        for place in range(max(0, int(start)), min(axis.count, int(-(-end // 1)))):
            part = min(end, place + 1) - max(start, place)
            if part > 0:
                known[place] += part
                sums[place] += amount * part / (end - start)
    # What is known of most of an interval stands for all of it.
    return [total / part if part >= _COVERED else None for total, part in zip(sums, known)]


def compute_upper_median(values: Iterable[float]) -> float:
    """Return the median, the upper of two middle values; 0 without values."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
