"""
The numbers along an axis: 1, 2, 5 of a power of ten, of 1024 for bytes, and of a clock for time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from math import ceil, floor, isfinite, log10

from iostats.base.units import format_bytes, format_moment
from iostats.report.charts.chart import Panel

_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")
_DECIMAL = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")
_LEAST, _MOST = 1e-9, 1e30          # amounts beyond these are no amounts
_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
          86400, 172800, 604800)
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_MOST_CLOCKS = 4
_MOST_IN_UNIT = 600                 # seconds or minutes beyond these are a clock's


def make_ticks(largest: float, unit: str = "count", units: str = "binary",
               steps: int = 3) -> list[tuple[float, str]]:
    """
    Return [(value, text)] from 0 to the first one that is not below `largest`, in up to `steps` + 1
    steps.

    >>> make_ticks(23)
    [(0, '0'), (10, '10'), (20, '20'), (30, '30')]
    >>> make_ticks(700 * 2**20, "bytes/s")[1:]
    [(262144000, '250 MiB/s'), (524288000, '500 MiB/s'), (786432000, '750 MiB/s')]
    >>> make_ticks(0.37, "share")[-1]
    (0.4, '40 %')
    """
    largest = min(max(float(largest), _LEAST), _MOST) if isfinite(largest) and largest > 0 else 1.0
    if unit == "share":
        step = _find_step(largest * 100, steps)
        return [(value / 100, f"{_format_plain(value)} %")
                for value in _step_up_to(largest * 100, step)]
    if unit.startswith("bytes"):
        base = 1000 if units == "decimal" else 1024
        power = 0
        while largest >= base ** (power + 1) and power < len(_BINARY) - 1:
            power += 1
        scale, names = base ** power, _DECIMAL if units == "decimal" else _BINARY
        step = _find_step(largest / scale, steps)
        name = names[power] + unit[len("bytes"):]
        return [(value * scale, f"{_format_plain(value)} {name}" if value else "0")
                for value in _step_up_to(largest / scale, step)]
    step = _find_step(largest, steps)
    return [(value, _format_count(value, step) + (f" {unit}" if unit in ("s", "ms") and value else
                                                  unit if unit == "/s" and value else ""))
            for value in _step_up_to(largest, step)]


def _find_step(largest: float, steps: int) -> float:
    """The least step of 1, 2, 2.5, 5 times a power of ten with which `steps` reach `largest`."""
    least = largest / steps
    power = floor(log10(least)) if least > 0 else 0
    for digit in (1, 2, 2.5, 5, 10):
        step = digit * 10.0 ** power
        if step >= least * (1 - 1e-9):
            break
    return int(step) if step == int(step) else step


def _step_up_to(limit: float, step: float) -> Iterator[float]:
    number = 0
    while True:
        value = number * step
        yield float(f"{value:.12g}") if isinstance(value, float) else value
        if value >= limit * (1 - 1e-9):
            return
        number += 1


def _format_plain(value: float) -> str:
    text = f"{value:.10g}"
    return text if "e" in text else f"{float(text):,.10f}".rstrip("0").rstrip(".")


def _format_count(value: float, step: float) -> str:
    for size, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"),
                         (1e3, "k")):
        if (value and step >= size) or value >= 10 * size:
            return f"{_format_plain(value / size)}{letter}"
    return _format_plain(value)


def make_time_ticks(began: float, ended: float, limit: int = 6) -> list[tuple[float, str]]:
    """
    Return [(seconds, text)] of round times from `began` to `ended`, up to `limit`, all in one unit.

    >>> make_time_ticks(0, 1867)
    [(0, '0'), (600, '10 min'), (1200, '20 min'), (1800, '30 min')]
    >>> make_time_ticks(-60, 100)
    [(-60, '-60 s'), (-30, '-30 s'), (0, '0'), (30, '30 s'), (60, '60 s'), (90, '90 s')]
    >>> make_time_ticks(36_000, 36_050)[:2]
    [(36000, '10:00:00'), (36015, '10:00:15')]
    """
    span = ended - began
    step = next((step for step in _CLOCK if span / step < limit), None)
    if step is None:
        step = 86400 * int(_find_step(max(1.0, span / 86400), limit - 1))
    seconds_of_ticks = [number * step
                        for number in range(ceil(began / step), floor(ended / step) + 1)]
    size, name = next((size, name) for size, name in _UNITS if step % size == 0)
    if size < 3600 and any(abs(seconds) >= _MOST_IN_UNIT * size for seconds in seconds_of_ticks):
        if limit > _MOST_CLOCKS:                         # these are long
            return make_time_ticks(began, ended, _MOST_CLOCKS)
        return [(seconds, format_clock(seconds)) for seconds in seconds_of_ticks]
    return [(seconds, f"{seconds // size} {name}" if seconds else "0")
            for seconds in seconds_of_ticks]


def make_clock_ticks(at: float, began: float, ended: float) -> list[tuple[float, str]]:
    """
    Return [(seconds, text)] of round local times; `at`: seconds since 1970 of second 0.

    Midnight is written as its day.

    >>> import os, time; os.environ["TZ"] = "UTC"; time.tzset()
    >>> make_clock_ticks(1795168807, -7, 53)
    [(-7, '10:00:00'), (23, '10:00:30'), (53, '10:01:00')]
    >>> make_clock_ticks(1795168807, 0, 86400)[1:4]
    [(28793, '18:00'), (50393, 'Nov 21'), (71993, '06:00')]
    """
    try:
        offset = datetime.fromtimestamp(at + began).astimezone().utcoffset() or timedelta()
        local = at + round(offset.total_seconds())
    except (ValueError, OverflowError, OSError):                # not a time that a calendar has
        return []
    span = ended - began
    step = next((step for step in _CLOCK if span / step < (_MOST_CLOCKS if step < 60 else 6)),
                86400 * ceil(span / 86400 / 5))
    clock_ticks = []
    for number in range(ceil((local + began) / step), floor((local + ended) / step) + 1):
        form = ("%b %d" if number * step % 86400 == 0 else "%H:%M:%S" if step < 60 else "%H:%M")
        seconds = number * step - local
        clock_ticks.append((seconds, format_moment(at + seconds, form)))
    return clock_ticks


def format_clock(seconds: float) -> str:
    """
    A time since the job's start, as a clock has it.

    >>> format_clock(37.04), format_clock(3723), format_clock(-23)
    ('00:00:37', '01:02:03', '-00:00:23')
    """
    whole = round(seconds)
    minutes, second = divmod(abs(whole), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if whole < 0 else ''}{hours:02d}:{minutes:02d}:{second:02d}"


def format_value(value: float | None, unit: str, units: str = "binary") -> str:
    """
    One value of a chart as text.

    >>> format_value(None, "bytes"), format_value(1234567, "count"), format_value(0.234, "share")
    ('-', '1,234,567', '23 %')
    >>> format_value(335544320, "bytes/s"), format_value(23.46, "/s"), format_value(0.123456, "s")
    ('320.0 MiB/s', '23.5/s', '0.123 s')
    """
    if value is None or not isfinite(value):
        return "-"
    if unit.startswith("bytes"):
        return format_bytes(round(value), units) + unit[len("bytes"):]
    if unit == "share":
        return f"{100 * value:.{0 if value >= 0.01 or not value else 2}f} %"
    if unit in ("s", "ms"):
        return f"{value:,.3f} {unit}"
    whole = value == int(value) or value >= 1000
    return (f"{value:,.0f}" if whole else f"{value:.3g}") + ("/s" if unit == "/s" else "")


def format_marked(panel: Panel, value: float | None, units: str = "binary") -> str:
    """One value of a panel, with its mark: a share of such bounds may be wrong either way."""
    mark = "" if value is None else panel.mark and ("~ " if panel.unit == "share" else panel.mark)
    return mark + format_value(value, panel.unit, units)
