"""
Moments, times and rates in the sentences of `iostats why`.
"""

from __future__ import annotations

from datetime import datetime

from iostats.base.units import bytes_text, duration_text, zone_form

_DAY_S = 86400
_TIME = "%H:%M"


def moment(seconds: float, form: str = _TIME) -> str:
    """12:03, or as form_of() has it; ? for what no calendar has."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def span(began: float, ended: float, form: str = _TIME) -> str:
    """from 12:03 to 12:21"""
    first, last = moment(began, form), moment(ended, form)
    return f"at {first}" if first == last else f"from {first} to {last}"


def form_of(began: float | None, ended: float | None) -> str:
    """
    How moments of this time are written, by strftime: 12:03; with the day where it is longer than
    one, and with the zone where clocks were put forward or back meanwhile.
    """
    is_over_days = began is not None and ended is not None and ended - began > _DAY_S
    return ("%b %d " if is_over_days else "") + _TIME + zone_form(began, ended)


def times(factor: float) -> str:
    """9.3 times"""
    return f"{factor:.0f} times" if factor >= 20 else f"{factor:.1f} times"


def each(seconds: float) -> str:
    """
    The time of one call.

    >>> each(0.0041), each(2.5), each(0.000023)
    ('4.1 ms', '2.5 s', '23 us')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.1f} s"


def number(value: float) -> str:
    """
    A load.

    >>> number(4300.8), number(26.7), number(0.5), number(0)
    ('4,301', '27', '0.5', '0')
    """
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def lasted(seconds: float) -> str:
    """
    A time.

    >>> lasted(0.054), lasted(9.06), lasted(1867.4)
    ('0.05 s', '9.1 s', '00:31:07')
    """
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds >= 1 or not seconds else f"{seconds:.2f} s"
    return duration_text(seconds)


def rate(amounts: dict[str, float], seconds: float, units: str) -> str:
    """
    What a job did, a verb first: what weighs most of what it read, wrote and asked for.

    >>> rate({"write_bytes": 37 << 30, "writes": 9472, "requests": 9500}, 10, "binary")
    'wrote 3.7 GiB/s'
    >>> rate({"operations": 41000, "requests": 41100, "read_bytes": 0}, 10, "binary")
    'made 4,110 requests/s'
    """
    read, written = amounts.get("read_bytes", 0), amounts.get("write_bytes", 0)
    requests = amounts.get("requests", 0)
    if requests >= (read + written) / 65536:                # it is their number that weighs
        number = requests / seconds
        return f"made {number:,.0f} requests/s" if number >= 10 else f"made {number:.1f} requests/s"
    if min(read, written) >= 0.2 * max(read, written):
        return (f"read {bytes_text(round(read / seconds), units)}/s and wrote "
                f"{bytes_text(round(written / seconds), units)}/s")
    way, moved = ("read", read) if read > written else ("wrote", written)
    return f"{way} {bytes_text(round(moved / seconds), units)}/s"


def listed(several: list[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return several[0] if len(several) == 1 else f"{', '.join(several[:-1])} and {several[-1]}"
