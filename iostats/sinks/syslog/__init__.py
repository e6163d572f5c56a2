"""
A log server: each event as a message of RFC 5424, by UDP, by TCP, or to /dev/log.

    messages    an event as a message
    sender      the sink: where they are sent, and what is done while nothing takes them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.option_kinds import (
    Section,
    check_printable,
    choice_option,
    duration_option,
    option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.sinks.syslog.sender import Syslog

NAME = "syslog"
ABOUT = "a log server (RFC 5424): rsyslog, syslog-ng, Loki, Splunk; a message of each event"
IMPORTS = ""
REQUIRES = ()

# RFC 5424, 6.2.1; those below "daemon" that are no program's are left out.
FACILITIES = {"user": 1, "daemon": 3, **{f"local{n}": 16 + n for n in range(8)}}
SEVERITIES = ("info", "warning", "critical", "fatal")          # an event's, from 0


def log_server(where: str) -> tuple[str, str, int]:
    """
    Return ("udp" or "tcp", host, port) of udp://HOST:PORT; ("local", path, 0) of a path;
    ValueError.

    >>> log_server("udp://[fd00::7]:514"), log_server("/dev/log")
    (('udp', 'fd00::7', 514), ('local', '/dev/log', 0))
    """
    if where.startswith("/"):
        return "local", check_printable(where), 0
    protocol, _, rest = where.partition("://")
    host, _, port = rest.rpartition(":")
    if host[:1] == "[" and host[-1:] == "]":
        host = host[1:-1]
    elif ":" in host:
        raise ValueError
    if not (protocol in ("udp", "tcp") and len(host.split()) == 1 and host.isprintable()
            and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError
    return protocol, host, int(port)


def _log_server_or_empty(where: str) -> str:
    if where:
        log_server(where)
    return where


def _parse_sd_id(text: str) -> str:
    """RFC 5424, 6.3.2: a name and an enterprise number."""
    name, at, number = text.partition("@")
    if (len(text) > 32 or not name or not at
            or not all("!" <= c <= "~" and c not in '="]' for c in name)
            or not all(part.isascii() and part.isdigit() for part in number.split("."))):
        raise ValueError
    return text


class SyslogSection(Section):
    """[syslog]: the log server."""

    send_to = option("", _log_server_or_empty, (
        "udp://HOST:PORT, tcp://HOST:PORT or a path such as /dev/log"), (
        "The log server that gets a message of each event: udp://log1:514, tcp://log1:601, or "
        "/dev/log for the one of this host.  Empty: none."))
    severity = choice_option("info", SEVERITIES, (
        "Events of this severity and above are sent."))
    facility = choice_option("daemon", tuple(FACILITIES), "The facility of the messages.")
    sd_id = option("iostats@32473", _parse_sd_id, (
        "NAME@NUMBER of up to 32 characters, such as iostats@32473"), (
        "The name of the structured data: behind the @ a private enterprise number, where yours "
        "may stand.  32473 is the one for examples, which no vendor has (RFC 5612)."))
    timeout = duration_option(
        10, "TCP: a connection, or a message, that takes longer is tried again.")
    max_age = duration_option(86400, (
        "Events that are older than this when the log server takes messages again are left out."))


SECTION = SyslogSection

NUMBERS = (
    ("iostats_syslog_sent_events", "counter", "Events sent to the log server."),
    ("iostats_syslog_left_out_events", "counter",
     "Events not sent, since the log server took none for [syslog] max_age."),
    ("iostats_syslog_failures", "counter", "Failed tries to send; they are repeated."),
)


def is_on(config: Config) -> bool:
    """Whether a log server is named."""
    return bool(config.find_section(SyslogSection).send_to)


def make(config: Config, emit: Callable[[str], None], clock: Callable[[], float]) -> Syslog:
    """The sink; ConfigError."""
    from iostats.sinks.syslog.sender import Syslog
    return Syslog(config, emit, clock)
