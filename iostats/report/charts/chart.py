"""
A chart as a value: panels above each other with one axis, each with one or two curves.

Panels instead of many colours in one plot: each curve has its own title and scale, so nothing
depends on telling colours apart.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_BARS = 1000                    # of a chart: with more names, neighbours share one

Chart = namedtuple("Chart", "title about axis panels marks of", defaults=((), ""))
Chart.__doc__ = """
A chart.

Attributes:
    title: what it shows: "I/O over time".
    about: what one sees in it, a sentence or two, for who does not.
    axis: TimeAxis or NameAxis, of all panels.
    panels: [Panel], from top to bottom.
    marks: [Mark], of a TimeAxis.
    of: of what: the name of a file system; "" where the title has it.
"""

TimeAxis = namedtuple("TimeAxis", "began every_s count at since until", defaults=(
    None, None, None))
TimeAxis.__doc__ = """
Equal intervals of time.

Attributes:
    began: seconds from the job's start to the begin of the first one; it may be less than 0.
    every_s: width of one in seconds.
    count: how many there are.
    at: the job's start, seconds since 1970, where the axis is labelled with clock times; or None.
    since, until: the period that is shown where the intervals cover less of it, like `began`.
"""

NameAxis = namedtuple("NameAxis", "names each", defaults=(1,))
NameAxis.__doc__ = """
Targets, nodes, sizes, ...

Attributes:
    names: [text] in their order.
    each: how many neighbours each of them stands for: see `fewer`.
"""

Panel = namedtuple("Panel", "title unit curves low even", defaults=(False, None))
Panel.__doc__ = """
One plot.

Attributes:
    title: "Read".
    unit: of the values: "bytes", "bytes/s", "count", "/s", "ms", "share" (0 to 1).
    curves: [Curve], the first one as an area, others as lines.
    low: the values may be too low, so each is a lower bound; or, of shares, made of such.
    even: what each name would have if all had the same; None for no such line.
"""

Curve = namedtuple("Curve", "name kind values")
Curve.__doc__ = """
Values, one for each interval or name.

Attributes:
    name: "read", "all jobs".
    kind: how it looks, one of style.KINDS.
    values: [number, or None where nothing is known], none below 0.
"""

Mark = namedtuple("Mark", "at_s text")
Mark.__doc__ = """An event: seconds from the job's start, and what it was."""


def shown_period(axis: TimeAxis) -> tuple[float, float]:
    """
    From where to where a TimeAxis goes: its intervals, and the period that was asked for.

    >>> shown_period(TimeAxis(30, 10, 3)), shown_period(TimeAxis(30, 10, 3, None, 0, 45))
    ((30, 60), (0, 60))
    """
    began, ended = axis.began, axis.began + axis.every_s * axis.count
    return (began if axis.since is None else min(began, axis.since),
            ended if axis.until is None else max(ended, axis.until))


def fewer(names: Sequence[str], columns: Sequence[Sequence[float | None]],
          most: int = MOST_BARS) -> tuple[NameAxis, list[list[float | None]]]:
    """
    (NameAxis, columns) with up to `most` names: of neighbours that share one the first name, and
    the most that any of them has.
    """
    each = max(1, -(-len(names) // most))
    if each == 1:
        return NameAxis(list(names)), [list(column) for column in columns]
    return (NameAxis(list(names[::each]), each),
            [_joined(column, each, max) for column in columns])


def means(values: Sequence[float | None], each: int) -> list[float | None]:
    """The mean of each `each` neighbours, of what is known of them."""
    return _joined(values, each, lambda known: sum(known) / len(known))


def _joined(values: Sequence[float | None], each: int,
            of: Callable[[list[float]], float]) -> list[float | None]:
    found: list[float | None] = []
    for place in range(0, len(values), each):
        known = [value for value in values[place:place + each] if value is not None]
        found.append(of(known) if known else None)
    return found
