"""
The numbers along an axis: 1, 2, 5 of a power of ten, of 1024 for bytes, and of a clock for time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import ceil, floor, isfinite, log10

from iostats.base.units import bytes_text, moment_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iostats.report.charts.chart import Panel

_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")
_DECIMAL = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")
_LEAST, _MOST = 1e-9, 1e30          # amounts beyond these are no amounts
_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
          86400, 172800, 604800)
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_MOST_CLOCKS = 4
_MOST_IN_UNIT = 600                 # seconds or minutes beyond these are a clock's


def ticks(most: float, unit: str = "count", units: str = "binary",
          steps: int = 3) -> list[tuple[float, str]]:
    """
    [(value, text)] from 0 to the first one that is not below `most`, in up to `steps` + 1 steps.

    >>> ticks(23)
    [(0, '0'), (10, '10'), (20, '20'), (30, '30')]
    >>> ticks(700 * 2**20, "bytes/s")[1:]
    [(262144000, '250 MiB/s'), (524288000, '500 MiB/s'), (786432000, '750 MiB/s')]
    >>> ticks(0.37, "share")[-1]
    (0.4, '40 %')
    """
    most = min(max(float(most), _LEAST), _MOST) if isfinite(most) and most > 0 else 1.0
    if unit == "share":
        step = _step(most * 100, steps)
        return [(value / 100, f"{_plain(value)} %") for value in _up_to(most * 100, step)]
    if unit.startswith("bytes"):
        base = 1000 if units == "decimal" else 1024
        power = 0
        while most >= base ** (power + 1) and power < len(_BINARY) - 1:
            power += 1
        scale, names = base ** power, _DECIMAL if units == "decimal" else _BINARY
        step = _step(most / scale, steps)
        name = names[power] + unit[len("bytes"):]
        return [(value * scale, f"{_plain(value)} {name}" if value else "0")
                for value in _up_to(most / scale, step)]
    step = _step(most, steps)
    return [(value, _count(value, step) + (f" {unit}" if unit == "ms" and value else
                                           unit if unit == "/s" and value else ""))
            for value in _up_to(most, step)]


def _step(most: float, steps: int) -> float:
    """The least step of 1, 2, 2.5, 5 times a power of ten with which `steps` reach `most`."""
    least = most / steps
    power = floor(log10(least)) if least > 0 else 0
    for digit in (1, 2, 2.5, 5, 10):
        step = digit * 10.0 ** power
        if step >= least * (1 - 1e-9):
            break
    return int(step) if step == int(step) else step


def _up_to(most: float, step: float) -> Iterator[float]:
    number = 0
    while True:
        value = number * step
        yield float(f"{value:.12g}") if isinstance(value, float) else value
        if value >= most * (1 - 1e-9):
            return
        number += 1


def _plain(value: float) -> str:
    text = f"{value:.10g}"
    return text if "e" in text else f"{float(text):,.10f}".rstrip("0").rstrip(".")


def _count(value: float, step: float) -> str:
    for size, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"),
                         (1e3, "k")):
        if (value and step >= size) or value >= 10 * size:
            return f"{_plain(value / size)}{letter}"
    return _plain(value)


def time_ticks(began: float, ended: float, most: int = 6) -> list[tuple[float, str]]:
    """
    [(seconds, text)] of round times from `began` to `ended`, up to `most`, all in one unit.

    >>> time_ticks(0, 1867)
    [(0, '0'), (600, '10 min'), (1200, '20 min'), (1800, '30 min')]
    >>> time_ticks(-60, 100)
    [(-60, '-60 s'), (-30, '-30 s'), (0, '0'), (30, '30 s'), (60, '60 s'), (90, '90 s')]
    >>> time_ticks(36_000, 36_050)[:2]
    [(36000, '10:00:00'), (36015, '10:00:15')]
    """
    span = ended - began
    step = next((step for step in _CLOCK if span / step < most), None)
    if step is None:
        step = 86400 * int(_step(max(1.0, span / 86400), most - 1))
    found = [number * step for number in range(ceil(began / step), floor(ended / step) + 1)]
    size, name = next((size, name) for size, name in _UNITS if step % size == 0)
    if size < 3600 and any(abs(seconds) >= _MOST_IN_UNIT * size for seconds in found):
        if most > _MOST_CLOCKS:                         # these are long
            return time_ticks(began, ended, _MOST_CLOCKS)
        return [(seconds, clock_text(seconds)) for seconds in found]
    return [(seconds, f"{seconds // size} {name}" if seconds else "0") for seconds in found]


def clock_ticks(at: float, began: float, ended: float) -> list[tuple[float, str]]:
    """
    [(seconds, text)] of round local times; `at`: seconds since 1970 of second 0.

    Midnight is written as its day.

    >>> import os, time; os.environ["TZ"] = "UTC"; time.tzset()
    >>> clock_ticks(1795168807, -7, 53)
    [(-7, '10:00:00'), (23, '10:00:30'), (53, '10:01:00')]
    >>> clock_ticks(1795168807, 0, 86400)[1:4]
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
    found = []
    for number in range(ceil((local + began) / step), floor((local + ended) / step) + 1):
        form = ("%b %d" if number * step % 86400 == 0 else "%H:%M:%S" if step < 60 else "%H:%M")
        seconds = number * step - local
        found.append((seconds, moment_text(at + seconds, form)))
    return found


def clock_text(seconds: float) -> str:
    """
    A time since the job's start, as a clock has it.

    >>> clock_text(37.04), clock_text(3723), clock_text(-23)
    ('00:00:37', '01:02:03', '-00:00:23')
    """
    whole = round(seconds)
    minutes, second = divmod(abs(whole), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if whole < 0 else ''}{hours:02d}:{minutes:02d}:{second:02d}"


def value_text(value: float | None, unit: str, units: str = "binary") -> str:
    """
    One value of a chart as text.

    >>> value_text(None, "bytes"), value_text(1234567, "count"), value_text(0.234, "share")
    ('-', '1,234,567', '23 %')
    >>> value_text(335544320, "bytes/s"), value_text(23.46, "/s"), value_text(0.123456, "ms")
    ('320.0 MiB/s', '23.5/s', '0.123 ms')
    """
    if value is None or not isfinite(value):
        return "-"
    if unit.startswith("bytes"):
        return bytes_text(round(value), units) + unit[len("bytes"):]
    if unit == "share":
        return f"{100 * value:.{0 if value >= 0.01 or not value else 2}f} %"
    if unit == "ms":
        return f"{value:,.3f} ms"
    whole = value == int(value) or value >= 1000
    return (f"{value:,.0f}" if whole else f"{value:.3g}") + ("/s" if unit == "/s" else "")


def marked_text(panel: Panel, value: float | None, units: str = "binary") -> str:
    """One value of a panel, with its mark: a share of lower bounds may be wrong either way."""
    low = "" if not panel.low or value is None else "~ " if panel.unit == "share" else ">= "
    return low + value_text(value, panel.unit, units)
