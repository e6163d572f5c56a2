"""
The numbers of a chart as rows of text: for readers of a page who cannot see the chart.
"""

from __future__ import annotations

from collections.abc import Sequence

from iostats.base.units import DATE_TIME, find_zone_format, format_moment
from iostats.report.charts.chart import Chart, Curve, NameAxis, Panel, join_means
from iostats.report.charts.ticks import format_clock, format_marked

MOST_ROWS = 60                      # of a chart over time
MOST_NAMES = 20                     # of targets or nodes, the busiest


def make_rows(chart: Chart, units: str = "binary", most_rows: int = MOST_ROWS,
              most_names: int = MOST_NAMES) -> tuple[list[str], list[list[str]], str]:
    """
    Return (headings, rows, a note on omitted rows or "") of a chart.

    Over time up to `most_rows`, each the mean of some intervals; of names the `most_names` with
    the most.
    """
    curves = [(panel, curve) for panel in chart.panels for curve in panel.curves]
    headings = [curve.name for _, curve in curves]
    if isinstance(chart.axis, NameAxis):
        return _make_name_rows(chart, curves, headings, units, most_names)
    axis = chart.axis
    each = max(1, -(-axis.count // most_rows))
    columns = [join_means(curve.values, each) for _, curve in curves]
    starts = _format_times([axis.began + number * each * axis.every_s
                            for number in range(-(-axis.count // each))], axis.at)
    rows = [[start, *(format_marked(panel, column[number], units)
                      for (panel, _), column in zip(curves, columns))]
            for number, start in enumerate(starts)]
    return (["from", *headings], rows,
            f"Each row is the mean of {each} intervals of the chart." if each > 1 else "")


def _make_name_rows(chart: Chart, curves: Sequence[tuple[Panel, Curve]], headings: list[str],
                    units: str,
                    limit: int) -> tuple[list[str], list[list[str]], str]:
    assert isinstance(chart.axis, NameAxis)
    names = chart.axis.names
    places: Sequence[int] = range(len(names))
    if len(names) > limit:
        highest = [max((value or 0 for value in curve.values), default=0) or 1
                   for _, curve in curves]
        weights = [sum((curve.values[place] or 0) / top
                       for (_, curve), top in zip(curves, highest)) for place in places]
        places = sorted(places, key=lambda place: (-weights[place], place))[:limit]
    rows = [[names[place], *(format_marked(panel, curve.values[place], units)
                             for panel, curve in curves)] for place in places]
    left = len(names) - len(rows)
    return (["name", *headings], rows, f"and {left:,} more" if left else "")


def _format_times(seconds: Sequence[float], at: float | None) -> list[str]:
    """Moments where `at`, the job's start, is given, else times since it; all in one form."""
    if at is not None and seconds and seconds[-1] - seconds[0] >= len(seconds) - 1:
        form = DATE_TIME + find_zone_format(at + seconds[0], at + seconds[-1])
        return [format_moment(at + second, form) for second in seconds]
    if all(abs(second) < 600 for second in seconds) and any(second != int(second)
                                                            for second in seconds):
        return [f"{second:.1f} s" for second in seconds]
    return list(map(format_clock, seconds))
