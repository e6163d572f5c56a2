r"""
An event as a syslog message.

    <26>1 2026-11-22T12:03:11.041000Z oss3 iostats - evicted [iostats@32473 id="..." ...] TEXT
    <26>Nov 22 12:03:11 iostats: TEXT [iostats@32473 id="..." ...]

The first is RFC 5424: HOSTNAME is the storage server or node that tells, MSGID the kind of event.
TCP has its length before it, "93 <26>1 ..." (RFC 6587, octet counting), so that a line's end in it
splits nothing.  The second is what daemons expect at /dev/log (RFC 3164 without a host, as glibc's
syslog(3) writes it): rsyslog takes the first for a program named "1" there, and journald, too.

    severity of an event    info    warning    critical    fatal
    severity of syslog      6       4          2           1        (0 is shown on all terminals)

Source: RFC 5424, 6; RFC 6587, 3.4.1; __vsyslog_internal(), misc/syslog.c of glibc.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iostats.events.event import Event

SYSLOG_SEVERITY = (6, 4, 2, 1)
APP_NAME = "iostats"
_MOST_CLIENTS = 8
_LONGEST_TEXT = 1000                # bytes; all receivers take messages of 2048 (5424, 6.1: SHOULD)
_LONGEST_VALUE = 400
_LATEST = 253402300799              # the end of the year 9999: RFC 3339 has four digits


def format_message(event: Event, names: Mapping[str, str], facility: int, sd_id: str) -> bytes:
    """Return `event` by RFC 5424; `names`: {NID: node}."""
    text = event.message.encode("utf-8", "backslashreplace")
    mark = b"" if text.isascii() else b"\xef\xbb\xbf"
    head = " ".join((f"<{facility * 8 + SYSLOG_SEVERITY[event.severity]}>1",
                     _format_rfc3339(event.time), _clean_name(event.node, 255), APP_NAME, "-",
                     _clean_name(event.kind, 32), format_structured_data(event, names, sd_id)))
    return head.encode() + b" " + mark + _shorten(text)


def add_length_prefix(data: bytes) -> bytes:
    """The message with its length, for TCP."""
    return b"%d %s" % (len(data), data)


def format_local_message(event: Event, names: Mapping[str, str], facility: int,
                         sd_id: str) -> bytes:
    """Return `event` in the format of /dev/log, with the event's local time."""
    at = datetime.datetime.fromtimestamp(min(event.time, _LATEST - 86400))
    day = f"{_MONTHS[at.month - 1]} {at.day:2d} {at:%H:%M:%S}"
    text = _shorten(f"{event.node}: {event.message}".encode("utf-8", "backslashreplace"))
    return (f"<{facility * 8 + SYSLOG_SEVERITY[event.severity]}>{day} {APP_NAME}: ".encode() + text
            + b" " + format_structured_data(event, names, sd_id,
                                            time=_format_rfc3339(event.time)).encode())


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()     # in every locale


def format_structured_data(event: Event, names: Mapping[str, str], sd_id: str, **more: str) -> str:
    r"""
    Return `[SD-ID NAME="VALUE" ...]` without unknown values.

    >>> _escape_value('a"b]\\')
    'a\\"b\\]\\\\'
    """
    clients = [names.get(client, client) for client in event.clients[:_MOST_CLIENTS]]
    values: Iterable[tuple[str, str]] = (
        ("id", event.id), *more.items(), ("kind", event.kind), ("cause", event.cause),
        ("fs", event.file_system), ("target", event.target), ("clients", " ".join(clients)),
        ("count", str(event.count)), ("skipped", str(event.skipped or "")),
        ("last", _format_rfc3339(event.last) if event.last != event.time else ""),
        ("over", "" if event.over is None else _format_rfc3339(event.over)))
    return f"[{sd_id} {' '.join(f'{name}={_quote(text)}' for name, text in values if text)}]"


def _quote(text: str) -> str:
    return f'"{_escape_value(text[:_LONGEST_VALUE])}"'


def _escape_value(text: str) -> str:
    """A PARAM-VALUE of RFC 5424, 6.3.3, without characters that do not print."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def _clean_name(text: str, longest: int) -> str:
    """Printable ASCII without blanks, or "-"."""
    return "".join(c if "!" <= c <= "~" else "?" for c in text)[:longest] or "-"


def _format_rfc3339(moment: float) -> str:
    at = datetime.datetime.fromtimestamp(min(moment, _LATEST), datetime.timezone.utc)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _shorten(text: bytes) -> bytes:
    """Cut a text between two characters."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return text[:_LONGEST_TEXT].decode("utf-8", "ignore").encode()
