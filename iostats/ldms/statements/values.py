"""
Values of attributes as ldmsd reads them: intervals, numbers, regular expressions.
"""

from __future__ import annotations

import re

_INTERVAL = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) *(.*)\Z")


def interval_us(text: str) -> int | None:
    """
    Microseconds of an interval as ldmsd reads it; None for what it does not.

    Source: ovis_time_str2us() in lib/src/ovis_util/util.c: "m" is minutes whatever follows, "ms"
    and "milli..." are not.
    """
    match = _INTERVAL.match(text)
    if not match:
        return None
    number, unit = float(match[1]), match[2]
    if unit in ("", "us") or unit.startswith("micro"):
        factor = 1.0
    elif unit == "ms" or unit.startswith("milli"):
        factor = 1e3
    else:
        factor = {"s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6}.get(unit[:1], 0.0)
    return int(number * factor) if factor and abs(number) < 1e15 else None


def wrong_schedule(given: dict[str, str]) -> str:
    """What is wrong with an interval and an offset; ""."""
    interval = None
    for name in ("interval", "interval_us"):
        if name in given:
            interval = interval_us(given[name])
            if interval is None or interval <= 0:
                return (f"{name}: expected an interval above 0, such as 1s, "
                        f"got {given[name][:40]!r}")
    if "offset" in given:
        offset = interval_us(given["offset"])
        if offset is None:
            return f"offset: expected a time such as 100ms, got {given['offset'][:40]!r}"
        if interval is not None and interval < 2 * abs(offset):
            return (f"offset: expected up to half of the interval ({interval // 2} us), "
                    f"got {offset} us")
    return ""


def wrong_mode(given: dict[str, str]) -> str:
    """What is wrong with an updater's push and auto_interval; ""."""
    auto, push = given.get("auto_interval", "").lower(), given.get("push", "").lower()
    if auto not in ("", "true", "false"):
        return f"auto_interval: expected true or false, got {auto[:40]!r}"
    if push not in ("", "true", "yes", "onchange"):
        return f"push: expected true or onchange, got {push[:40]!r}"
    if push and auto == "true":
        return "expected one of push and auto_interval, got both"
    return ""


def wrong_listen(given: dict[str, str]) -> str:
    """What is wrong with a prdcr_listen_add of LDMS 4.5; ""."""
    kind = given.get("type", "passive").lower()
    if kind not in ("active", "passive"):
        return f"type: expected active or passive, got {kind[:40]!r}"
    if kind == "active":
        for name in ("advertiser_port", "reconnect", "advertiser_xprt"):
            if not given.get(name):
                return f"{name} is required where type is active"
    return ""


def why_not_regex(text: str) -> str:
    r"""
    Why regcomp() with REG_EXTENDED would refuse it, of the usual mistakes; "".

    A ")" without its "(" is a letter.

    >>> why_not_regex("node-[0-9"), why_not_regex("(a|b)*"), why_not_regex("(a")
    ('unmatched [', '', 'unmatched (')
    """
    depth, place = 0, 0
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            if place + 1 == len(text):
                return "a backslash at the end"
            place += 1
        elif letter == "[":
            # "]" is a member where it is first; [:class:] has its own bracket.
            start = place + 2 if text[place + 1:place + 2] == "^" else place + 1
            end = start + 1 if text[start:start + 1] == "]" else start
            while end < len(text) and text[end] != "]":
                if text[end] == "[" and text[end + 1:end + 2] in (":", ".", "="):
                    close = text.find(text[end + 1] + "]", end + 2)
                    if close < 0:
                        return "unmatched ["
                    end = close + 1
                end += 1
            if end >= len(text):
                return "unmatched ["
            place = end
        elif letter == "(":
            depth += 1
        elif letter == ")" and depth:
            depth -= 1
        place += 1
    return "unmatched (" if depth else ""


def integer(text: str) -> int:
    """The number as strtol() with base 0 reads it, -1 for what is no number."""
    try:
        return int(text, 8 if re.match(r"0[0-7]+\Z", text) else 0)
    except ValueError:
        return -1
