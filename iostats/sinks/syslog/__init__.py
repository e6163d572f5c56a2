"""
A log server: each event as a message of RFC 5424, by UDP, by TCP, or to /dev/log.

    messages    an event as a message
    sender      the sink: where they are sent, and what is done while nothing takes them
"""

from __future__ import annotations

from iostats.base.options import Option, choice, duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config

NAME = "syslog"
ABOUT = "a log server (RFC 5424): rsyslog, syslog-ng, Loki, Splunk; a message of each event"
IMPORTS = ""
REQUIRES = ()

# RFC 5424, 6.2.1; those below "daemon" that are no program's are left out.
FACILITIES = {"user": 1, "daemon": 3, **{f"local{n}": 16 + n for n in range(8)}}
SEVERITIES = ("info", "warning", "critical", "fatal")          # an event's, from 0

OPTIONS = {
    "send_to": Option("", printable, "udp://HOST:PORT, tcp://HOST:PORT or a socket's path", (
        "The log server that gets a message of each event: udp://log1:514, tcp://log1:601, or "
        "/dev/log for the one of this host.  Empty: none.")),
    "severity": choice("info", SEVERITIES, (
        "Events of this severity and above are sent.")),
    "facility": choice("daemon", tuple(FACILITIES), "The facility of the messages."),
    "sd_id": Option("iostats@32473", printable, "NAME@NUMBER", (
        "The name of the structured data: behind the @ a private enterprise number, where yours "
        "may stand.  32473 is the one for examples, which no vendor has (RFC 5612).")),
    "timeout": duration(10, "TCP: a connection, or a message, that takes longer is tried again."),
    "max_age": duration(86400, (
        "Events that are older than this when the log server takes messages again are left out.")),
}

NUMBERS = (
    ("iostats_syslog_sent_events", "counter", "Events sent to the log server."),
    ("iostats_syslog_left_out_events", "counter",
     "Events not sent, since the log server took none for [syslog] max_age."),
    ("iostats_syslog_failures", "counter", "Failed tries to send; they are repeated."),
)


def is_on(config: Config) -> bool:
    """Whether a log server is named."""
    return bool(config["syslog.send_to"])


def make(config: Config, say: Callable[[str], None], clock: Callable[[], float]) -> Any:
    """The sink; ConfigError."""
    from iostats.sinks.syslog.sender import Syslog
    return Syslog(config, say, clock)
