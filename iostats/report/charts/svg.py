"""
A chart as SVG: in a page, where it is as wide as there is room, or standing alone.

In a page texts and lines stand at percentages, and only the curves are stretched: each panel is an
<svg> in the <svg>, whose unit along x is an interval or a name.  So letters keep their size on a
phone.  A curve is one path, however many values it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite

from iostats.base.errors import sanitize
from iostats.base.text import cut
from iostats.base.units import describe_duration, format_moment
from iostats.report.charts import style
from iostats.report.charts.chart import Chart, NameAxis, Panel, TimeAxis, find_shown_period
from iostats.report.charts.ticks import (
    format_marked,
    format_value,
    make_clock_ticks,
    make_ticks,
    make_time_ticks,
)

PLOT = 76                           # height of a panel's plot, in pixels
_HEAD, _BELOW, _AXIS = 26, 8, 18    # above a plot, below it, and of the axis' texts
_TITLE_AT = -62                     # x of the panels' titles, above their values
_FEW = 48                           # bars up to this number stand apart
_LEAST = 0.8                        # height of what is not 0
_LEAST_GAP = 0.001                  # of the width, before or after the intervals, that is drawn
_LONGEST, _LONGEST_TEXT = 28, 300   # columns of a name, and of a sentence
_LONGEST_END = 17                   # of a name at an end of the axis: two have room on a phone
_LEFT, _RIGHT, _TOP, _BOTTOM = 82, 26, 42, 30       # around the plots of one that stands alone
_ALONE = 640                        # and its plots' width
_ROOM, _LETTER = 440, 7             # of a page's plot that has its full width; a letter's width


def draw_inline(chart: Chart, ident: str, units: str = "binary") -> str:
    """
    The chart for a page; `ident`: begins its ids, and is no other chart's there.

    The page has style.rules(), and svg.chart with a margin at its left for the values' texts.
    """
    body, height = _draw_panels(chart, None, units)
    title, about = _escape_text(format_title(chart)), _escape_text(chart.about)
    return (f'<svg class="chart" role="img" aria-labelledby="{ident}-t {ident}-d" width="100%" '
            f'height="{height}"><title id="{ident}-t">{title}</title>'
            f'<desc id="{ident}-d">{about}</desc>{body}</svg>')


def draw_file(chart: Chart, source: str, units: str = "binary",
              theme: dict[str, str] | None = None) -> str:
    """A whole SVG file, with its title above it and its `source` below."""
    theme = theme or style.LIGHT
    body, height = _draw_panels(chart, _ALONE, units)
    source = "; ".join([sanitize(source), *list_remarks(chart)])
    wide, high = _LEFT + _ALONE + _RIGHT, _TOP + height + _BOTTOM
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'aria-labelledby="chart-t chart-d" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}"><title id="chart-t">{_escape_text(format_title(chart))}'
        f'</title><desc id="chart-d">{_escape_text(chart.about)}</desc>'
        f'<style>{style.make_theme_rules(theme)}</style>'
        f'<rect width="{wide}" height="{high}" fill="{theme["ground"]}"/>'
        f'<text class="c-title c-head" x="16" y="26">{_escape_text(format_title(chart))}</text>'
        f'<g transform="translate({_LEFT},{_TOP})">{body}</g>'
        f'<text class="c-value" x="16" y="{high - 12}">{_escape_text(cut(source, 110))}</text>'
        f'</svg>\n')


def format_title(chart: Chart) -> str:
    """Format the chart's title, with its subject."""
    return f"{chart.title}, {cut(sanitize(chart.of), 60)}" if chart.of else chart.title


def list_remarks(chart: Chart) -> list[str]:
    """List remarks below a chart, such as ["1: evicted scratch-OST0003, after 14 min"]."""
    axis = chart.axis
    at = None if isinstance(axis, NameAxis) else axis.at
    remarks = [f"{number}: {cut(sanitize(mark.text), 60)}, " + (
        f"after {describe_duration(mark.at_s)}" if at is None else
        format_moment(at + mark.at_s, "%H:%M:%S")) for number, mark in enumerate(chart.marks, 1)]
    grey = {curve.kind for panel in chart.panels for curve in panel.curves[:1]
            for value in curve.values if not _is_known(value)}
    if grey or _is_wider(axis):
        remarks.append("grey: not known" + (", or no request" if "latency" in grey else ""))
    return remarks


def _is_wider(axis: TimeAxis | NameAxis) -> bool:
    """Whether the chart shows more time than its intervals cover."""
    if isinstance(axis, NameAxis):
        return False
    began, ended = find_shown_period(axis)
    return bool(ended - began - axis.every_s * axis.count > _LEAST_GAP * (ended - began))


def _escape_text(text: str) -> str:
    """Text that is safe in XML: no tag, no character that XML has not; cut."""
    return escape(cut(sanitize(text)[:_LONGEST_TEXT + 1], _LONGEST_TEXT))


def _draw_panels(chart: Chart, wide: int | None, units: str) -> tuple[str, int]:
    """Return (elements, height) of all panels; `wide`: pixels of a plot, None: as there is room."""
    place = _HorizontalScale(chart.axis, wide)
    parts: list[str] = []
    top = 0
    for panel in chart.panels:
        parts += _draw_panel(panel, place, top, units)
        top += _HEAD + PLOT + _BELOW
    bottom = top - _BELOW
    plots = [at * (_HEAD + PLOT + _BELOW) + _HEAD for at in range(len(chart.panels))]
    for number, mark in enumerate(chart.marks, 1):
        x = place.format_time_position(mark.at_s)
        if x is not None:
            lines = "".join(f'<line class="c-mark" x1="{x}" x2="{x}" y1="{y}" y2="{y + PLOT}"/>'
                            for y in plots)
            parts.append(f'<g><title>{_escape_text(cut(mark.text, 80))}</title>{lines}'
                         f'<circle class="c-flag" cx="{x}" cy="{_HEAD}" r="7"/><text '
                         f'class="c-number c-m" x="{x}" y="{_HEAD + 4}">{number}</text></g>')
    parts += place.draw_labels(bottom + 14)
    return "".join(parts), bottom + _AXIS


class _HorizontalScale:
    """Positions along the x axis."""

    def __init__(self, axis: TimeAxis | NameAxis, wide: int | None) -> None:
        self.count = len(axis.names) if isinstance(axis, NameAxis) else axis.count
        self._axis, self._wide = axis, wide
        self.full = "100%" if wide is None else str(wide)
        # Where the intervals begin and end: shares of the width.
        self.first, self.last = 0.0, 1.0
        if not isinstance(axis, NameAxis):
            self._began, self._ended = find_shown_period(axis)
            if self._ended > self._began:
                self.first = (axis.began - self._began) / (self._ended - self._began)
                self.last = self.first + axis.every_s * axis.count / (self._ended - self._began)
        # Of an interval or name: in a page it is stretched, which not all programs do well.
        self.each = (1.0 if wide is None else
                     wide * (self.last - self.first) / max(1, self.count))

    def format_position(self, share: float) -> str:
        """Return `share` of the width, from 0 to 1, as a coordinate."""
        if self._wide is None:
            return f"{_format_coordinate(100 * share, 2)}%"
        return _format_coordinate(self._wide * share)

    def format_time_position(self, seconds: float) -> str | None:
        """A moment's coordinate; None outside of the chart."""
        if isinstance(self._axis, NameAxis) or not self.count:
            return None
        share = (seconds - self._began) / (self._ended - self._began)
        return self.format_position(share) if 0 <= share <= 1 else None

    def draw_labels(self, y: int) -> Iterator[str]:
        """
        The axis' texts: all names where there is room, else the first, one and the last; every
        other one of those that want more room than a phone or a sheet of paper has is .c-odd.
        """
        if not isinstance(self._axis, NameAxis):
            began, end, at = self._began, self._ended, self._axis.at
            for seconds, text in (make_time_ticks(began, end) if at is None else
                                  make_clock_ticks(at, began, end)):
                share = (seconds - began) / (end - began)
                yield self._draw_label(self.format_time_position(seconds) or "0", y, text,
                                       "s" if share < 0.02
                                       else
                                       "e" if share > 0.98 else "m")
            return
        names = list(map(sanitize, self._axis.names))
        width = len(names) * (max(map(len, names), default=0) * _LETTER + _LETTER)
        if width <= (self._wide or _ROOM):
            for number, name in enumerate(names):
                odd = " c-odd" if number % 2 and width > _ROOM / 2 else ""
                yield self._draw_label(self.format_position((number + 0.5) / len(names)), y, name,
                                       "m" + odd)
            return
        for share in (0, 0.5, 1) if len(names[0]) <= 12 and len(names) > 2 else (0, 1):
            number = round(share * (len(names) - 1))
            name = cut(names[number], _LONGEST_END if share in (0, 1) else 12)
            yield self._draw_label(self.format_position(share if share in (0, 1)
                                           else (number + 0.5) / len(names)),
                                   y, name, "s" if not share else "e" if share == 1 else "m")

    @staticmethod
    def _draw_label(x: str, y: int, text: str, at: str) -> str:
        return f'<text class="c-{at}" x="{x}" y="{y}">{_escape_text(text)}</text>'


def _draw_panel(panel: Panel, place: _HorizontalScale, top: int, units: str) -> list[str]:
    """The elements of one panel, whose head begins at y = `top`."""
    numbers = [value for curve in panel.curves for value in curve.values if _is_known(value)]
    largest = max([*filter(None, numbers), panel.even or 0])
    scale = make_ticks(largest, panel.unit, units)
    full = scale[-1][0]
    plot = top + _HEAD
    about, more = _describe_panel(panel, place, units)
    parts = [f'<text class="c-title" x="{_TITLE_AT}" y="{top + 12}">{_escape_text(panel.title)}'
             f'<tspan class="c-value" dx="8">{_escape_text(about)}</tspan>'
             + (f'<tspan class="c-value c-more" dx="6">{_escape_text(more)}</tspan>' if more
                else "")
             + '</text>']
    for value, text in scale:
        y = _format_coordinate(plot + PLOT - PLOT * value / full)
        parts.append(f'<line class="{"c-grid" if value else "c-base"}" x1="0" x2="{place.full}" '
                     f'y1="{y}" y2="{y}"/><text class="c-y" x="-7" y="{y}" dy="4">'
                     f'{_escape_text(text)}</text>')
    apart = isinstance(place._axis, NameAxis) and place.count <= _FEW
    bars = isinstance(place._axis, NameAxis)
    paths = []
    for number, curve in enumerate(panel.curves):
        values = [value if _is_known(value) else None for value in curve.values]
        if number == 0:
            if None in values:
                paths.append(f'<path class="c-gap" d="{draw_gaps(values, place.each)}"/>')
            path = (draw_bars if apart else draw_area)(values, full, place.each)
            how = "c-bar" if bars else "c-area"
        else:
            path, how = draw_line(values, full, place.each), "c-line"
        paths.append(f'<path class="{how} c-{curve.kind}" d="{path}"/>')
    across = _format_coordinate(max(1, place.count) * place.each)
    for begin, end in ((0.0, place.first), (place.last, 1.0)):
        if end - begin > _LEAST_GAP:
            parts.append(f'<rect class="c-gap" x="{place.format_position(begin)}" y="{plot}" '
                         f'width="{place.format_position(end - begin)}" height="{PLOT}"/>')
    parts.append(f'<svg x="{place.format_position(place.first)}" y="{plot}" '
                 f'width="{place.format_position(place.last - place.first)}" height="{PLOT}" '
                 f'viewBox="0 0 {across} {PLOT}" preserveAspectRatio="none">{"".join(paths)}</svg>')
    if panel.even:
        y = _format_coordinate(plot + PLOT - PLOT * panel.even / full)
        parts.append(f'<line class="c-even" x1="0" x2="{place.full}" y1="{y}" y2="{y}"/>')
    return parts


def _describe_panel(panel: Panel, place: _HorizontalScale, units: str) -> tuple[str, str]:
    """
    Return the texts beside a panel's title: the peak and its name, and, if there is room, the
    meaning of the dashed line.
    """
    values = panel.curves[0].values if panel.curves else []
    numbers = [(value, -number) for number, value in enumerate(values) if _is_known(value)]
    more = ", ".join(curve.name for curve in panel.curves[1:])
    dashed = f"dashed line: {more}" if more else ""
    if not numbers:
        return "not known", dashed
    largest, number = max(numbers)
    text = format_marked(panel, largest, units)
    axis = place._axis
    if isinstance(axis, NameAxis):
        text = f"most: {cut(sanitize(axis.names[-number]), _LONGEST)}, {text}"
        either = "~ " if panel.mark else ""
        even = panel.even and format_value(panel.even, panel.unit, units)
        return text, f"dashed line: even share, {either}{even}" if even else ""
    return f"peak {text}", dashed


def _is_known(value: float | None) -> bool:
    return value is not None and isfinite(value) and value >= 0


def _scale_height(value: float, full: float) -> float:
    """Return the y of a value: 0 at the bottom; any other value is visible."""
    return PLOT - max(_LEAST if value else 0.0, min(float(PLOT), PLOT * (value / full)))


def draw_area(values: Sequence[float | None], full: float, each: float = 1) -> str:
    """
    Steps down to the base line, `each` wide; None is a gap.

    >>> draw_area([38, 38, 19, None, 0], 76)
    'M0 76V38H2V57H3V76ZM4 76V76H5V76Z'
    """
    parts = []
    for begin, end in _find_runs(values):
        steps = _draw_steps(values, begin, end, full, each)
        parts.append(f"M{_format_coordinate(begin * each)} {PLOT}{steps}V{PLOT}Z")
    return "".join(parts)


def draw_line(values: Sequence[float | None], full: float, each: float = 1) -> str:
    """
    Steps without a ground; None is a gap.

    >>> draw_line([38, None, 19, 57], 76)
    'M0 38H1M2 57H3V19H4'
    """
    return "".join(f"M{_format_coordinate(begin * each)} "
                   + _draw_steps(values, begin, end, full, each)[1:]
                   for begin, end in _find_runs(values))


def _draw_steps(values: Sequence[float | None], begin: int, end: int, full: float,
                each: float) -> str:
    parts: list[str] = []
    last = None
    for number in range(begin, end):
        y = _format_coordinate(_scale_height(values[number] or 0, full))
        if y == last:
            parts[-1] = f"H{_format_coordinate((number + 1) * each)}"
        else:
            parts += [f"V{y}", f"H{_format_coordinate((number + 1) * each)}"]
            last = y
    return "".join(parts)


def draw_bars(values: Sequence[float | None], full: float, each: float = 1) -> str:
    """
    Return the path of the bars, with gaps between them; None and 0 have no bar.

    >>> draw_bars([38, None, 76], 76)
    'M.12 76V38H.88V76ZM2.12 76V0H2.88V76Z'
    """
    return "".join(
        f"M{_format_coordinate((number + 0.12) * each, 2)} "
        f"{PLOT}V{_format_coordinate(_scale_height(value, full))}"
        f"H{_format_coordinate((number + 0.88) * each, 2)}V{PLOT}Z"
        for number, value in enumerate(values) if value)


def draw_gaps(values: Sequence[float | None], each: float = 1) -> str:
    """
    Return the path of the grey areas, of full height, where values are unknown.

    >>> draw_gaps([23, None, None, 37])
    'M1 0H3V76H1Z'
    """
    unknown = [None if value is not None else 0 for value in values]
    return "".join(f"M{_format_coordinate(begin * each)} "
                   f"0H{_format_coordinate(end * each)}V{PLOT}H{_format_coordinate(begin * each)}Z"
                   for begin, end in _find_runs(unknown))


def _find_runs(values: Sequence[float | None]) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each run of known values."""
    begin = None
    for number, value in enumerate(values):
        if value is None:
            if begin is not None:
                yield begin, number
            begin = None
        elif begin is None:
            begin = number
    if begin is not None:
        yield begin, len(values)


def _format_coordinate(value: float, digits: int = 1) -> str:
    """A coordinate in few characters."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    text = text[1:] if text.startswith("0.") else text
    return "0" if text in ("-0", "") else text
