"""
Moments, times and rates in the sentences of `iostats why`.
"""

from __future__ import annotations

from datetime import datetime

from iostats.base.units import find_zone_format, format_bytes, format_duration

_DAY_S = 86400
_TIME = "%H:%M"


def format_moment(seconds: float, form: str = _TIME) -> str:
    """Format a moment as 12:03, or as choose_format() has it; ? for impossible dates."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def format_period(began: float, ended: float, form: str = _TIME) -> str:
    """Format a period: from 12:03 to 12:21."""
    first, last = format_moment(began, form), format_moment(ended, form)
    return f"at {first}" if first == last else f"from {first} to {last}"


def choose_format(began: float | None, ended: float | None) -> str:
    """
    Choose the strftime form of moments: 12:03; with the day if the time is longer than one, and
    with the zone where clocks were put forward or back in it.
    """
    is_over_days = began is not None and ended is not None and ended - began > _DAY_S
    return ("%b %d " if is_over_days else "") + _TIME + find_zone_format(began, ended)


def format_factor(factor: float) -> str:
    """Format a factor: 9.3 times."""
    return f"{factor:.0f} times" if factor >= 20 else f"{factor:.1f} times"


def format_time(seconds: float) -> str:
    """
    The time of one call.

    >>> format_time(0.0041), format_time(2.5), format_time(0.000023)
    ('4.1 ms', '2.5 s', '23 us')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.1f} s"


def format_load(value: float) -> str:
    """Format a load with a few digits.

    >>> format_load(4300.8), format_load(26.7), format_load(0.5), format_load(0)
    ('4,301', '27', '0.5', '0')
    """
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def format_elapsed(seconds: float) -> str:
    """
    Format an elapsed time with two digits or more.

    >>> [format_elapsed(seconds) for seconds in (0.054, 9.06, 1867.4)]
    ['0.05 s', '9.1 s', '00:31:07']
    """
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds >= 1 or not seconds else f"{seconds:.2f} s"
    return format_duration(seconds)


def format_heaviest_rate(amounts: dict[str, float], seconds: float, units: str) -> str:
    """
    Format the heaviest of a job's reads, writes and requests as a rate, a verb first.

    >>> format_heaviest_rate({"write_bytes": 37 << 30, "writes": 9472, "requests": 9500},
    ...     10, "binary")
    'wrote 3.7 GiB/s'
    >>> format_heaviest_rate({"operations": 41000, "requests": 41100, "read_bytes": 0},
    ...     10, "binary")
    'made 4,110 requests/s'
    """
    read, written = amounts.get("read_bytes", 0), amounts.get("write_bytes", 0)
    requests = amounts.get("requests", 0)
    if requests >= (read + written) / 65536:                # it is their number that weighs
        number = requests / seconds
        return f"made {number:,.0f} requests/s" if number >= 10 else f"made {number:.1f} requests/s"
    if min(read, written) >= 0.2 * max(read, written):
        return (f"read {format_bytes(round(read / seconds), units)}/s and wrote "
                f"{format_bytes(round(written / seconds), units)}/s")
    verb, moved = ("read", read) if read > written else ("wrote", written)
    return f"{verb} {format_bytes(round(moved / seconds), units)}/s"


def join_words(several: list[str]) -> str:
    """
    Join words with commas and "and".

    >>> join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return several[0] if len(several) == 1 else f"{', '.join(several[:-1])} and {several[-1]}"
