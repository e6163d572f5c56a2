"""
A statement as the daemon reads it: its attributes by name, and what is wrong with them.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple

from iostats_ldms.statements.dialect import Statement

EPERM, ENOENT, ENOEXEC, EBUSY, EEXIST, EINVAL, ENOSYS, ENOTSUP = 1, 2, 8, 16, 17, 22, 38, 95

Reply = namedtuple("Reply", "errno text")
Reply.__doc__ = """
What the daemon answers: errno, 0 for done, negative where ldmsd's own is; a text, or JSON.
"""

_TIME = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*(us|ms|s|m|h|d)?\s*", re.IGNORECASE)
_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000,
             "d": 86_400_000_000}


# Names of attributes that share a number on the wire, by which ldmsd knows them.
_SAME_AS = {"reconnect": "interval", "interval_us": "interval", "flush": "interval",
            "cache_ip": "ip", "disable_start": "auto_interval", "message_channel": "message_tag",
            "advertiser_auth": "auth", "advertiser_port": "port", "advertiser_xprt": "xprt"}


class Refused(Exception):
    """The statement is refused with this errno and text."""

    def __init__(self, errno: int, text: str):
        super().__init__(text)
        self.reply = Reply(errno, text)


class Crashed(Exception):
    """The real ldmsd dies of this statement, and so does this one."""


def time_us(text: str) -> int | None:
    """
    Microseconds of `20s`, `100ms`, `-50000` (a bare number is microseconds); None for others.

    Source: ovis_time_str2us(), lib/src/ovis_util/util.c.
    """
    found = _TIME.fullmatch(text)
    return int(float(found[1]) * _UNITS_US[(found[2] or "us").lower()]) if found else None


class Asked:
    """The attributes of a statement; the last of a name counts."""

    def __init__(self, statement):
        self.verb = statement.verb
        self.pairs = tuple(statement.attributes)
        self._values = {self._own_name(name): value for name, value in self.pairs}

    def _own_name(self, name: str) -> str:
        return name if self.verb in ("config", "env") else _SAME_AS.get(name, name)

    def get(self, name: str, default=None):
        return self._values.get(self._own_name(name), default)

    def needed(self, name: str) -> str:
        value = self.get(name)
        if not value:
            raise Refused(EINVAL, f"{self.verb}: the attribute '{name}' is required")
        return value

    def interval_us(self, name: str, errno: int = EINVAL) -> int | None:
        """None where it was not given; refused where it is no time."""
        if self.get(name) is None:
            return None
        value = time_us(self.get(name))
        if value is None:
            raise Refused(errno, f"{self.verb}: '{name}={self.get(name)}' is not a time")
        return value

    def regex(self, name: str = "regex", errno: int = EINVAL):
        """It is searched for: ldmsd's expressions match anywhere in a name."""
        text = self.needed(name)
        try:
            return re.compile(text)
        except re.error as error:
            raise Refused(errno, f"{self.verb}: '{text}' is not a regular expression: "
                                 f"{error}") from error


def parsed(line: str) -> Statement:
    """The statement of a configuration line; a word without `=` has the value None."""
    verb, *words = line.split()
    return Statement(verb, tuple((word.partition("=")[0],
                                  word.partition("=")[2] if "=" in word else None)
                                 for word in words))


def as_json(value: object) -> str:
    """As ldmsd prints it: with printf, which escapes nothing."""
    return re.sub(r'\\(["\\])', r"\1", json.dumps(value, ensure_ascii=False))
