"""
The numbers of a chart as rows of text: what a page has for who does not see the chart.
"""

from __future__ import annotations

from iostats.base.units import DATE_TIME, moment_text, zone_form
from iostats.report.charts.chart import NameAxis, means
from iostats.report.charts.ticks import clock_text, marked_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.report.charts.chart import Chart, Curve, Panel

MOST_ROWS = 60                      # of a chart over time
MOST_NAMES = 20                     # of targets or nodes, the busiest


def rows_of(chart: Chart, units: str = "binary", most_rows: int = MOST_ROWS,
            most_names: int = MOST_NAMES) -> tuple[list[str], list[list[str]], str]:
    """
    (headings, rows, what is left out or "") of a chart.

    Over time up to `most_rows`, each the mean of some intervals; of names the `most_names` with
    the most.
    """
    curves = [(panel, curve) for panel in chart.panels for curve in panel.curves]
    headings = [curve.name for _, curve in curves]
    if isinstance(chart.axis, NameAxis):
        return _of_names(chart, curves, headings, units, most_names)
    axis = chart.axis
    each = max(1, -(-axis.count // most_rows))
    columns = [means(curve.values, each) for _, curve in curves]
    starts = _times([axis.began + number * each * axis.every_s
                     for number in range(-(-axis.count // each))], axis.at)
    rows = [[start, *(marked_text(panel, column[number], units)
                      for (panel, _), column in zip(curves, columns))]
            for number, start in enumerate(starts)]
    return (["from", *headings], rows,
            f"Each row is the mean of {each} intervals of the chart." if each > 1 else "")


def _of_names(chart: Chart, curves: Sequence[tuple[Panel, Curve]], headings: list[str], units: str,
              most: int) -> tuple[list[str], list[list[str]], str]:
    names = chart.axis.names
    places: Sequence[int] = range(len(names))
    if len(names) > most:
        highest = [max((value or 0 for value in curve.values), default=0) or 1
                   for _, curve in curves]
        weights = [sum((curve.values[place] or 0) / top
                       for (_, curve), top in zip(curves, highest)) for place in places]
        places = sorted(places, key=lambda place: (-weights[place], place))[:most]
    rows = [[names[place], *(marked_text(panel, curve.values[place], units)
                             for panel, curve in curves)] for place in places]
    left = len(names) - len(rows)
    return (["name", *headings], rows, f"and {left:,} more" if left else "")


def _times(seconds: Sequence[float], at: float | None) -> list[str]:
    """Moments where `at`, the job's start, is given, else times since it; all in one form."""
    if at is not None and seconds and seconds[-1] - seconds[0] >= len(seconds) - 1:
        form = DATE_TIME + zone_form(at + seconds[0], at + seconds[-1])
        return [moment_text(at + one, form) for one in seconds]
    if all(abs(one) < 600 for one in seconds) and any(one != int(one) for one in seconds):
        return [f"{one:.1f} s" for one in seconds]
    return list(map(clock_text, seconds))
