"""
The sink: events to a log server.

While nothing takes them, events wait in the site's store, so a log server that is dead costs no
memory and delays nothing.  UDP reports no loss; a missing receiver on this host is detected
(ECONNREFUSED), one on another host if the network sends ICMP errors.  TCP may lose messages in
transit when the receiver dies: the protocol has no acknowledgements (RFC 6587, 4.1).
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from iostats.base.addresses import Addresses
from iostats.harvest.sink import Number
from iostats.sinks.syslog import FACILITIES, NAME, NUMBERS, SEVERITIES, SyslogSection, log_server
from iostats.sinks.syslog.messages import add_length_prefix, format_local_message, format_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.harvest.intake import Harvest, SiteSweep

AGAIN_S = (1.0, 60.0)               # the first and the longest pause after a failure
SAY_AGAIN_S = 3600.0
# A receiver that accepts connections and never reads takes some messages after each new connection:
# one that fails again so soon after it recovered has not recovered.
STEADY_S = 60.0

_addresses = Addresses()


class LogServer:
    """
    The destination of messages; `where` is [syslog] send_to; ValueError.

    Attributes:
        is_local: a socket's path.
    """

    def __init__(self, where: str, timeout_s: float) -> None:
        self.name, self._timeout_s = where, timeout_s
        self._protocol, self._host, self._port = log_server(where)
        self.is_local = self._protocol == "local"
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> None:
        """Send a message; OSError; with TCP, earlier ones may then be lost as well."""
        opened = self._socket
        if opened is not None and self._protocol == "tcp" and _has_ended(opened):
            self.close()
            opened = None
        try:
            opened = self._socket = opened or self._open()
            opened.sendall(add_length_prefix(data) if self._protocol == "tcp" else data)
            # On this host a port that has no receiver is known at once.
            refused = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refused:
                raise OSError(refused, os.strerror(refused))
        except OSError:
            self.close()
            raise

    def _open(self) -> socket.socket:
        if self.is_local:
            return self._connect(socket.AF_UNIX, socket.SOCK_DGRAM, self.name)
        kind = socket.SOCK_STREAM if self._protocol == "tcp" else socket.SOCK_DGRAM
        addresses = _addresses.get(self._host, self._port, self._timeout_s, kind)
        # Connecting by UDP does not show whether anybody receives there.
        *earlier, last = addresses if kind == socket.SOCK_STREAM else addresses[:1]
        for family, *_, address in earlier:
            with suppress(OSError):
                return self._connect(family, kind, address)
        return self._connect(last[0], kind, last[-1])

    def _connect(self, family: int, kind: int, address: Any) -> socket.socket:
        connection = socket.socket(family, kind)
        try:
            # a full queue of /dev/log is waited for
            connection.settimeout(self._timeout_s)
            connection.connect(address)
        except OSError:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connection."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()


def _has_ended(opened: socket.socket) -> bool:
    """True if the connection was closed: a log server sends nothing else."""
    try:
        ready, _, _ = select.select([opened], [], [], 0)
        return bool(ready) and not opened.recv(4096)
    except (OSError, ValueError):
        return True


class Syslog:
    """
    The sink; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        stopped: set at the end; all pauses end with it.
    """

    connections = 0
    name = NAME

    def __init__(self, config: Config, emit: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._emit, self._clock = emit, clock
        self.others: list[Any] = []
        options = config.find_section(SyslogSection)
        self._to = LogServer(options.send_to, options.timeout)
        self._sd_id = options.sd_id
        self._facility = FACILITIES[options.facility]
        self._least = SEVERITIES.index(options.severity)
        self._oldest_s = options.max_age
        self.stopped = threading.Event()
        self._sent = self._left_out = self._failures = 0
        self._failing_since: float | None = None
        self._well_since: float | None = None       # of a receiver that failed soon after that
        self._logged_at = self._recovered_at = -SAY_AGAIN_S
        self._outage_began = 0.0

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Ignored: syslog gets events only."""

    def drop_ids(self, ids: Iterable[str]) -> None:
        """Ignored: syslog has no ids of job_stats."""

    def store_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        """
        Send events, and return the number, from the first on, that are sent or excluded; less than
        all only at the end.
        """
        form = format_local_message if self._to.is_local else format_message
        for count, event in enumerate(events):
            if event.severity < self._least:
                continue
            pause_s, data = AGAIN_S[0], form(event, names, self._facility, self._sd_id)
            while not self._is_sent(event, data):
                if self.stopped.wait(pause_s):
                    return count
                pause_s = min(2 * pause_s, AGAIN_S[1])
        return len(events)

    def _is_sent(self, event: Event, data: bytes) -> bool:
        """Whether an event was sent, or will never be."""
        if self._clock() - event.last > self._oldest_s:
            self._left_out += 1
            return True
        try:
            self._to.send(data)
        except OSError as error:
            if not self.stopped.is_set():           # else close() has taken the socket
                self._failures += 1
                self._log_failure(error.strerror or str(error))
            return False
        self._sent += 1
        if self._failing_since is not None:
            now = time.monotonic()
            if self._well_since is None:
                self._well_since = now
            is_unsteady = self._outage_began <= self._recovered_at
            if is_unsteady and now - self._well_since < STEADY_S:
                return True
            away_s = self._well_since - self._failing_since
            self._failing_since, self._recovered_at = None, now
            left_out_count = self._left_out
            left_out = ("" if not left_out_count else ", 1 event was left out"
                        if left_out_count == 1 else
                        f", {left_out_count:,} events were left out")
            self._emit(f"syslog: {self._to.name} takes messages again, after {away_s:.0f} s"
                       f"{left_out}")
        return True

    def _log_failure(self, why: str) -> None:
        now = time.monotonic()
        self._well_since = None
        if self._failing_since is None:
            if now - self._recovered_at >= STEADY_S:
                self._outage_began, self._logged_at = now, -SAY_AGAIN_S
            self._failing_since = self._outage_began
        if now - self._logged_at >= SAY_AGAIN_S:
            self._logged_at = now
            self._emit(f"syslog: {self._to.name}: {why}; events wait in the site's store ([syslog] "
                       f"max_age); is a log server there, and [syslog] send_to in site.cfg right?")

    def numbers(self) -> list[Number]:
        """Return [Number] for other sinks to show."""
        values = (self._sent, self._left_out, self._failures)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """Stop sending; the remaining events are sent after the next start."""
        self.stopped.set()
        self._to.close()
