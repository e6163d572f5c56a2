"""
Format numbers for people: bytes, counts, durations, times.
"""

from __future__ import annotations

DATE_TIME, ISO_TIME = "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"
_STEP = {"binary": 1024, "decimal": 1000}
_NAMES = {
    "binary": ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"),
    "decimal": ("kB", "MB", "GB", "TB", "PB", "EB"),
}


def format_bytes(number: float, units: str = "binary") -> str:
    """
    Format a number of bytes in `units`: "binary" (1 MiB = 2**20), "decimal" (1 MB = 10**6),
    "bytes".

    >>> format_bytes(335544320), format_bytes(335544320, "decimal")
    ('320.0 MiB', '335.5 MB')
    >>> format_bytes(335544320, "bytes")
    '335,544,320 bytes'
    >>> [format_bytes(number) for number in (0, 0.3, 1, 23)]
    ['0 bytes', '<1 byte', '1 byte', '23 bytes']
    """
    if units == "bytes" or abs(number) < _STEP[units]:
        return "<1 byte" if 0 < number < 1 else format_count(round(number), "byte")
    step, names = _STEP[units], _NAMES[units]
    value, power = number / step, 0
    while abs(value) >= step - 0.05 and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{value:,.1f} {names[power]}"


def format_count(number: int | None, noun: str = "", several: str = "") -> str:
    """
    Format a count with commas and its noun; "-" for None.  `several`: an irregular plural.

    >>> format_count(1363149), format_count(None)
    ('1,363,149', '-')
    >>> format_count(0, "node"), format_count(1, "node"), format_count(23, "entry", "entries")
    ('0 nodes', '1 node', '23 entries')
    """
    if number is None:
        return "-"
    return f"{number:,}" + (f" {noun if number == 1 else several or noun + 's'}" if noun else "")


def format_seconds(seconds: float) -> str:
    """
    Format a time with at most four digits.

    >>> [format_seconds(seconds) for seconds in (0, 0.0000234, 0.0023, 46, 1867.4, 12345, 1e6)]
    ['0 s', '23.4 us', '2.30 ms', '46.0 s', '1867 s', '3.43 h', '11.6 d']
    """
    if seconds == 0:
        return "0 s"
    for unit, size, limit in (("us", 1e-6, 999.5), ("ms", 1e-3, 999.5), ("s", 1, 9999.5),
                              ("h", 3600, 99.95)):
        if seconds / size < limit:
            return f"{_format_brief(seconds / size)} {unit}"
    return f"{_format_brief(seconds / 86400)} d"


def format_rate(per_second: float) -> str:
    """
    Format a rate per second in at most four digits, with commas.

    >>> [format_rate(rate) for rate in (0, 0.004, 0.073, 33.3, 1018.8)]
    ['0', '<0.01', '0.07', '33.3', '1,019']
    """
    if per_second >= 999.5:
        return format_count(round(per_second))
    return "0" if per_second == 0 else "<0.01" if per_second < 0.005 else _format_brief(per_second)


def format_share(share: float | None) -> str:
    """
    Format a share of 1 in percent; only 0 is shown as 0, and only 1 as 100 %; "-" for None.

    >>> [format_share(part) for part in (1, 0.99963, 0.995, 0.843, 0.0123, 0.00023, 0, 12.3, None)]
    ['100 %', '99.9 %', '99.5 %', '84.3 %', '1.2 %', '<0.1 %', '0 %', '1,230 %', '-']
    """
    if share is None:
        return "-"
    percent = 100 * share
    if 0 < percent < 0.05:
        return "<0.1 %"
    if 99.95 <= percent < 100:
        return "99.9 %"
    return f"{percent:,.{0 if percent >= 99.95 or not percent else 1}f} %"


def format_percent(share: float, is_low: bool = False) -> str:
    """
    Format a share of 1 in percent for a sentence: fewer digits, and 100 % only for all of it.
    `is_low`: the share is a lower bound, so "less than" would be wrong.

    >>> [format_percent(share) for share in (0, 0.0004, 0.0234, 0.968, 0.9952, 0.99996, 1, 12.3)]
    ['0 %', '<0.1 %', '2.3 %', '97 %', '99.5 %', '99.9 %', '100 %', '1,230 %']
    >>> format_percent(0.0004, True)
    '0.04 %'
    """
    percent = 100 * share
    if 0 < percent < 0.1:
        return f"{percent:.1g} %" if is_low else "<0.1 %"
    if 99.5 <= percent < 100:
        return f"{int(10 * percent) / 10} %"
    return f"{percent:,.{0 if percent >= 9.95 or not percent else 1}f} %"


def _format_brief(value: float) -> str:
    """Format a number with three digits, or with the four before the decimal point."""
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def format_amount(metric: str, number: int, units: str = "binary") -> str:
    """
    Format a number by its metric's name: bytes, microseconds or a count.

    >>> format_amount("read_bytes", 37888), format_amount("read_us", 2500000)
    ('37.0 KiB', '2.500 s')
    >>> format_amount("reads", 23)
    '23'
    """
    if metric.endswith("_bytes"):
        return format_bytes(number, units)
    return f"{number / 1e6:.3f} s" if metric.endswith("_us") else format_count(number)


def format_range(low: int, high: int | None, metric: str, units: str = "binary") -> str:
    """
    Format a number between `low` and `high`; None: no upper bound is known.

    >>> format_range(1319413953331, 1539316278886, "read_bytes"), format_range(23, None, "reads")
    ('1.2-1.4 TiB', '>= 23')
    >>> format_range(37, 1024, "read_bytes"), format_range(0, 41, "reads")
    ('37 bytes-1.0 KiB', '0-41')
    >>> format_range(23, 23, "reads")
    '23'
    """
    first = format_amount(metric, low, units)
    return f">= {first}" if high is None else format_bounds(first,
                                                            format_amount(metric, high, units))


def format_bounds(first: str, last: str) -> str:
    """
    Join two formatted bounds into one text; if they are the same text, use it once.

    >>> format_bounds("1.2 TiB", "1.4 TiB"), format_bounds("37 bytes", "1.0 KiB")
    ('1.2-1.4 TiB', '37 bytes-1.0 KiB')
    >>> format_bounds("0 bytes", "1.0 KiB"), format_bounds("23", "23")
    ('0-1.0 KiB', '23')
    """
    if first == last:
        return first
    number, _, unit = first.partition(" ")
    return f"{number if unit == last.partition(' ')[2] or number == '0' else first}-{last}"


def format_bytes_in(number: int, unit: str, units: str = "binary") -> str:
    """
    Format bytes in a given unit: K, M, G, T or P; a number above 0 is never shown as 0.

    >>> format_bytes_in(335544320, "G"), format_bytes_in(23, "G")
    ('0.31 GiB', '2.1e-08 GiB')
    >>> format_bytes_in(335544320, "M", "decimal")
    '335.54 MB'
    """
    units = "binary" if units == "bytes" else units
    power = "KMGTP".index(unit)
    value = number / _STEP[units] ** (power + 1)
    shown = f"{value:,.2f}"
    return f"{f'{value:.2g}' if number and shown == '0.00' else shown} {_NAMES[units][power]}"


def format_duration(seconds: float) -> str:
    """
    Format seconds as hours, minutes and seconds.

    >>> format_duration(1867.4)
    '00:31:07'
    """
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}"


def describe_duration(seconds: float) -> str:
    """
    Format a duration roughly, in one unit.

    >>> [describe_duration(seconds) for seconds in (0.4, 119.9, 150, 7199, 7200, 200_000)]
    ['0 s', '119 s', '2 min', '119 min', '2 h', '2 days']
    """
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{int(seconds)} s"


def format_moment(seconds: float | None, form: str = DATE_TIME, unknown: str = "-") -> str:
    """
    Format seconds since 1970 as local time; `unknown` for None and for times that no calendar has,
    which a wrong clock may send.

    >>> format_moment(None), format_moment(1e12, unknown="?")
    ('-', '?')
    """
    if seconds is None:
        return unknown
    from datetime import datetime  # nodes write no moments
    try:
        there = datetime.fromtimestamp(seconds)
        # A list has 10,000: a zone, which few want, takes longer than all else.
        return (there.astimezone() if "%Z" in form else there).strftime(form)
    except (ValueError, OverflowError, OSError):
        return unknown


def find_zone_format(*moments: float | None) -> str:
    """
    Return " %Z" for strftime if clocks were put forward or back between two moments in seconds
    since 1970: "02:50 CEST to 02:10 CET"; else "".
    """
    from datetime import datetime  # nodes write no moments
    try:
        offsets = {datetime.fromtimestamp(moment).astimezone().utcoffset()
                   for moment in moments if moment is not None}
    except (ValueError, OverflowError, OSError):                # some clock said so
        return ""
    return " %Z" if len(offsets) > 1 else ""
