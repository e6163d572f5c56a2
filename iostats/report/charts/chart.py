"""
A chart as a value: panels above each other with one axis, each with one or two curves.

Panels instead of many colours in one plot: each curve has its own title and scale, so nothing
depends on telling colours apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iostats.base.named_tuple import NamedTuple

MOST_BARS = 1000                    # of a chart: with more names, neighbours share one


class Chart(NamedTuple):
    """A chart: its title, its time axis, and its panels."""

    title: str                  # what it shows: "I/O over time"
    about: str                  # a description, a sentence or two, for readers who cannot see it
    axis: TimeAxis | NameAxis   # TimeAxis or NameAxis, of all panels
    panels: list[Panel]         # [Panel], from top to bottom
    marks: Sequence[Mark] = ()  # [Mark], of a TimeAxis
    of: str = ""                # of what: the name of a file system; "" where the title has it


class TimeAxis(NamedTuple):
    """An axis of equal intervals of time.

    Attributes:
        began: seconds from the job's start to the begin of the first one; it may be less than 0.
        every_s: width of one in seconds.
        count: how many there are.
        at: the job's start, seconds since 1970, where the axis is labelled with clock times; or
            None.
        since, until: the period that is shown where the intervals cover less of it, like `began`.
    """

    began: float
    every_s: float
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    at: float | None = None
    since: float | None = None
    until: float | None = None


class NameAxis(NamedTuple):
    """An axis of names: targets, nodes, sizes, ..."""

    names: list[str]    # [text] in their order
    each: int = 1       # how many neighbours each of them stands for: see `join_names`


class Panel(NamedTuple):
    """A plot of a chart, with its own y axis: lines, areas or bars over the chart's time."""

    title: str  # "Read"
    unit: str   # of the values: "bytes", "bytes/s", "count", "/s", "s", "ms", "share" (0 to 1)
    curves: list[Curve]  # [Curve], the first one as an area, others as lines
    # ">= ", "<= ", "~ " or "": how each value may be wrong; of shares, of the numbers behind them
    mark: str = ""
    # what each name would have if all had the same; None for no such line
    even: float | None = None


class Curve(NamedTuple):
    """Values, one for each interval or name."""

    name: str                       # "read", "all jobs"
    kind: str                       # how it looks, one of style.KINDS
    values: Sequence[float | None]  # [number, or None if unknown], none below 0


class Mark(NamedTuple):
    """An event in a chart: seconds from the job's start, and a label."""

    at_s: float
    text: str


def find_shown_period(axis: TimeAxis) -> tuple[float, float]:
    """
    Return the begin and end of a TimeAxis: its intervals, and the period that was asked for.

    >>> find_shown_period(TimeAxis(30, 10, 3)), find_shown_period(TimeAxis(30, 10, 3, None, 0, 45))
    ((30, 60), (0, 60))
    """
    began, ended = axis.began, axis.began + axis.every_s * axis.count
    return (began if axis.since is None else min(began, axis.since),
            ended if axis.until is None else max(ended, axis.until))


def join_names(names: Sequence[str], columns: Sequence[Sequence[float | None]],
               limit: int = MOST_BARS) -> tuple[NameAxis, list[list[float | None]]]:
    """
    Return (NameAxis, columns) with up to `limit` names: of neighbours that share one the first
    name, and the most that any of them has.
    """
    each = max(1, -(-len(names) // limit))
    if each == 1:
        return NameAxis(list(names)), [list(column) for column in columns]
    return (NameAxis(list(names[::each]), each),
            [_join_neighbours(column, each, max) for column in columns])


def join_means(values: Sequence[float | None], each: int) -> list[float | None]:
    """The mean of each group of `each` neighbours, over the known values."""
    return _join_neighbours(values, each, lambda known: sum(known) / len(known))


def _join_neighbours(values: Sequence[float | None], each: int,
                     of: Callable[[list[float]], float]) -> list[float | None]:
    joined: list[float | None] = []
    for place in range(0, len(values), each):
        numbers = [value for value in values[place:place + each] if value is not None]
        joined.append(of(numbers) if numbers else None)
    return joined
