"""
Numbers for people: bytes, counts and durations as text.
"""

from __future__ import annotations

DATE_TIME, ISO_TIME = "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"
_STEP = {"binary": 1024, "decimal": 1000}
_NAMES = {
    "binary": ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"),
    "decimal": ("kB", "MB", "GB", "TB", "PB", "EB"),
}


def bytes_text(number: float, units: str = "binary") -> str:
    """
    `number` bytes in `units`: "binary" (1 MiB = 2**20), "decimal" (1 MB = 10**6), "bytes".

    >>> bytes_text(335544320), bytes_text(335544320, "decimal"), bytes_text(335544320, "bytes")
    ('320.0 MiB', '335.5 MB', '335,544,320 bytes')
    >>> [bytes_text(number) for number in (0, 0.3, 1, 23)]
    ['0 bytes', '<1 byte', '1 byte', '23 bytes']
    """
    if units == "bytes" or abs(number) < _STEP[units]:
        return "<1 byte" if 0 < number < 1 else count_text(round(number), "byte")
    step, names = _STEP[units], _NAMES[units]
    value, power = number / step, 0
    while abs(value) >= step - 0.05 and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{value:,.1f} {names[power]}"


def count_text(number: int | None, noun: str = "", several: str = "") -> str:
    """
    A count with commas, and of what; "-" for None.

    `several`: the plural of `noun`, where it is not made by an s.

    >>> count_text(1363149), count_text(None)
    ('1,363,149', '-')
    >>> count_text(0, "node"), count_text(1, "node"), count_text(23, "entry", "entries")
    ('0 nodes', '1 node', '23 entries')
    """
    if number is None:
        return "-"
    return f"{number:,}" + (f" {noun if number == 1 else several or noun + 's'}" if noun else "")


def brief_seconds(seconds: float) -> str:
    """
    A time with at most four digits.

    >>> [brief_seconds(seconds) for seconds in (0, 0.0000234, 0.0023, 46, 1867.4, 12345, 1e6)]
    ['0 s', '23.4 us', '2.30 ms', '46.0 s', '1867 s', '3.43 h', '11.6 d']
    """
    if seconds == 0:
        return "0 s"
    for unit, size, most in (("us", 1e-6, 999.5), ("ms", 1e-3, 999.5), ("s", 1, 9999.5),
                             ("h", 3600, 99.95)):
        if seconds / size < most:
            return f"{_brief(seconds / size)} {unit}"
    return f"{_brief(seconds / 86400)} d"


def brief_rate(per_second: float) -> str:
    """
    How often a second, in at most four digits and commas.

    >>> [brief_rate(rate) for rate in (0, 0.004, 0.073, 33.3, 1018.8)]
    ['0', '<0.01', '0.07', '33.3', '1,019']
    """
    if per_second >= 999.5:
        return count_text(round(per_second))
    return "0" if per_second == 0 else "<0.01" if per_second < 0.005 else _brief(per_second)


def share_text(share: float | None) -> str:
    """
    A share of 1 in percent; what is not 0 is never shown as 0, nor what is not all as 100 %; "-"
    for None.

    >>> [share_text(share) for share in (1, 0.99963, 0.995, 0.843, 0.0123, 0.00023, 0, 12.3, None)]
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


def percent_text(share: float, is_low: bool = False) -> str:
    """
    A share of 1 in percent, in a sentence: fewer digits, and 100 % only where it is all.

    `is_low`: of a lower bound it is not known that it is less than anything.

    >>> [percent_text(share) for share in (0, 0.0004, 0.0234, 0.968, 0.9952, 0.99996, 1, 12.3)]
    ['0 %', '<0.1 %', '2.3 %', '97 %', '99.5 %', '99.9 %', '100 %', '1,230 %']
    >>> percent_text(0.0004, True)
    '0.04 %'
    """
    percent = 100 * share
    if 0 < percent < 0.1:
        return f"{percent:.1g} %" if is_low else "<0.1 %"
    if 99.5 <= percent < 100:
        return f"{int(10 * percent) / 10} %"
    return f"{percent:,.{0 if percent >= 9.95 or not percent else 1}f} %"


def _brief(value: float) -> str:
    """Three digits, or the four before the point."""
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def amount_text(metric: str, number: int, units: str = "binary") -> str:
    """
    `number` of a metric, by the end of its name: bytes, microseconds or a count.

    >>> amount_text("read_bytes", 37888), amount_text("read_us", 2500000), amount_text("reads", 23)
    ('37.0 KiB', '2.500 s', '23')
    """
    if metric.endswith("_bytes"):
        return bytes_text(number, units)
    return f"{number / 1e6:.3f} s" if metric.endswith("_us") else count_text(number)


def range_text(low: int, high: int | None, metric: str, units: str = "binary") -> str:
    """
    What is at least `low` and at most `high` of a metric; None: with no upper bound.

    >>> range_text(1319413953331, 1539316278886, "read_bytes"), range_text(23, None, "reads")
    ('1.2-1.4 TiB', '>= 23')
    >>> range_text(37, 1024, "read_bytes"), range_text(23, 23, "reads"), range_text(0, 41, "reads")
    ('37 bytes-1.0 KiB', '23', '0-41')
    """
    first = amount_text(metric, low, units)
    return f">= {first}" if high is None else between_text(first, amount_text(metric, high, units))


def between_text(first: str, last: str) -> str:
    """
    Two bounds in one text; one of them, where they look alike.

    >>> between_text("1.2 TiB", "1.4 TiB"), between_text("37 bytes", "1.0 KiB")
    ('1.2-1.4 TiB', '37 bytes-1.0 KiB')
    >>> between_text("0 bytes", "1.0 KiB"), between_text("23", "23")
    ('0-1.0 KiB', '23')
    """
    if first == last:
        return first
    number, _, unit = first.partition(" ")
    return f"{number if unit == last.partition(' ')[2] or number == '0' else first}-{last}"


def bytes_in(number: int, unit: str, units: str = "binary") -> str:
    """
    `number` bytes in one unit: K, M, G, T or P; what is not 0 is never shown as 0.

    >>> bytes_in(335544320, "G"), bytes_in(335544320, "M", "decimal"), bytes_in(23, "G")
    ('0.31 GiB', '335.54 MB', '2.1e-08 GiB')
    """
    units = "binary" if units == "bytes" else units
    power = "KMGTP".index(unit)
    value = number / _STEP[units] ** (power + 1)
    shown = f"{value:,.2f}"
    return f"{f'{value:.2g}' if number and shown == '0.00' else shown} {_NAMES[units][power]}"


def duration_text(seconds: float) -> str:
    """
    Hours, minutes and seconds.

    >>> duration_text(1867.4)
    '00:31:07'
    """
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}"


def duration_in_words(seconds: float) -> str:
    """
    About how long, in one unit.

    >>> [duration_in_words(seconds) for seconds in (0.4, 119.9, 150, 7199, 7200, 200_000)]
    ['0 s', '119 s', '2 min', '119 min', '2 h', '2 days']
    """
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{int(seconds)} s"


def moment_text(seconds: float | None, form: str = DATE_TIME, unknown: str = "-") -> str:
    """
    Seconds since 1970 as local time; `unknown` for None, and for what no calendar has, as some
    machine's clock may say.

    >>> moment_text(None), moment_text(1e12, unknown="?")
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


def zone_form(*moments: float | None) -> str:
    """
    " %Z" for strftime, where clocks were put forward or back between two moments in seconds since
    1970: "02:50 CEST to 02:10 CET"; else "".
    """
    from datetime import datetime  # nodes write no moments
    try:
        offsets = {datetime.fromtimestamp(one).astimezone().utcoffset()
                   for one in moments if one is not None}
    except (ValueError, OverflowError, OSError):                # some clock said so
        return ""
    return " %Z" if len(offsets) > 1 else ""
