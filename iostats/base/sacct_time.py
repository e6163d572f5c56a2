"""
Parse times as users of Slurm write them for sacct's -S and -E.

    YYYY-MM-DD[THH:MM[:SS]]     2026-11-21T13:37
    MMDD[YY][-HH:MM[:SS]]       1121-13:37, also 11.21 and 11/21
    HH:MM[:SS][AM|PM]           of today
    today, yesterday, tomorrow  at 00:00, or today-13:37
    midnight, noon, fika (15:00), teatime (16:00)              of today, or 1121-noon
    now[(+|-)COUNT[UNIT]]       seconds, minutes, hours, days (of 24 hours), weeks; s, m, h, d, w
    utsSECONDS                  since 1970

A date without a year is one of the last twelve months: of a later month than this one, last year's.
All in local time.

Source: sacct(1) of Slurm 22.05; parse_time() with past = 1, src/common/parse_time.c.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from iostats.base.errors import UsageError

_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 7 * 86400}
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}

_CLOCK = (rf"(?:(?P<word>{'|'.join(_HOURS)})|(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})"
          r"(?::(?P<second>\d{2}))?(?: *(?P<half>[ap]m))?)")
_DATE = "|".join((
    r"(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})",
    r"(?P<m2>\d{2})(?P<d2>\d{2})(?P<y2>\d{2})?",
    r"(?P<m3>\d{1,2})(?P<by>[./])(?P<d3>\d{1,2})(?:(?P=by)(?P<y3>\d{2}))?",
    rf"(?P<day>{'|'.join(_DAYS)})"))
_is_relative = re.compile(r"now(?: *(?P<sign>[+-]) *(?P<count>\d{1,9}) *(?P<unit>[a-z]*))?",
                          re.ASCII).fullmatch
_is_day = re.compile(rf"(?:{_DATE})(?: *[-t ] *{_CLOCK})?", re.ASCII).fullmatch
_is_clock = re.compile(rf"{_CLOCK}(?: *[- ] *(?:{_DATE}))?", re.ASCII).fullmatch
_is_seconds = re.compile(r"uts(\d{1,12})", re.ASCII).fullmatch


def parse_time(text: str, now: float, name: str = "time") -> float:
    """
    Return `text` as seconds since 1970, relative to `now`; UsageError names the option `name`.

    >>> parse_time("now-3days", 1_795_225_060.0)
    1794965860.0
    """
    try:
        return _parse_time(text.strip().lower(), now)
    except (ValueError, OverflowError, OSError):           # no such day, or no such year
        raise UsageError(f"{name}: expected a time such as 2026-11-21T13:37, 1121, 13:37, today or "
                         f"now-3days, got {text[:40]!r}") from None


def _parse_time(text: str, now: float) -> float:
    relative = _is_relative(text)
    if relative:
        seconds = int(relative["count"] or 0) * _find_unit_seconds(relative["unit"] or "seconds")
        return now - seconds if relative["sign"] == "-" else now + seconds
    seconds_since = _is_seconds(text)
    if seconds_since:
        return datetime.fromtimestamp(int(seconds_since[1])).timestamp()
    today = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    match = _is_day(text) or _is_clock(text)
    if not match:
        raise ValueError
    return _add_clock(_find_midnight(match, today), match).timestamp()


def _find_unit_seconds(unit: str) -> int:
    for name, seconds in _UNITS.items():
        if name.startswith(unit):
            return seconds
    raise ValueError


def _add_clock(day: datetime, match: re.Match[str]) -> datetime:
    """Return `day` at the time of a match of _CLOCK; at midnight if it has no time."""
    if match["word"]:
        return day.replace(hour=_HOURS[match["word"]])
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if match["half"] == "pm" else 0)
    return day.replace(hour=hour, minute=minute, second=second)


def _find_midnight(match: re.Match[str], today: datetime) -> datetime:
    """
    Return the midnight at the start of the day of a match of _DATE; `today` if it has no date.
    """
    if match["day"]:
        return today + timedelta(days=_DAYS[match["day"]])
    if not (match["mo"] or match["m2"] or match["m3"]):
        return today
    month = int(match["mo"] or match["m2"] or match["m3"])
    day = int(match["d"] or match["d2"] or match["d3"])
    short = match["y2"] or match["y3"]
    if match["y"]:
        year = int(match["y"])
    elif short:
        year = 2000 + int(short)
    else:
        year = today.year - (month > today.month)
    return datetime(year, month, day)
