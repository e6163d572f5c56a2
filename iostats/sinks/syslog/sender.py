"""
The sink: events to a log server.

While nothing takes them, events wait in the site's store, so a log server that is dead costs no
memory and delays nothing.  UDP tells of no loss; a receiver on this host that is not there is seen
(ECONNREFUSED), and on others where the network tells.  TCP may lose what was on its way when the
receiver died: the protocol has no answers (RFC 6587, 4.1).
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from contextlib import suppress

from iostats.base.addresses import Addresses
from iostats.sinks import Number
from iostats.sinks.syslog import FACILITIES, NAME, NUMBERS, SEVERITIES, log_server
from iostats.sinks.syslog.messages import counted, local_message, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event

AGAIN_S = (1.0, 60.0)               # the first and the longest pause after a failure
SAY_AGAIN_S = 3600.0
# A receiver that accepts connections and never reads takes some messages after each new connection:
# one that fails again so soon after it recovered has not recovered.
STEADY_S = 60.0

_addresses = Addresses()


class LogServer:
    """
    Where messages go; `where` is [syslog] send_to; ValueError.

    Attributes:
        is_local: a socket's path.
    """

    def __init__(self, where: str, timeout_s: float) -> None:
        self.name, self._timeout_s = where, timeout_s
        self._protocol, self._host, self._port = log_server(where)
        self.is_local = self._protocol == "local"
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> None:
        """OSError; with TCP, what was sent before may then be lost as well."""
        opened = self._socket
        if opened is not None and self._protocol == "tcp" and _has_ended(opened):
            self.close()
            opened = None
        try:
            opened = self._socket = opened or self._opened()
            opened.sendall(counted(data) if self._protocol == "tcp" else data)
            # On this host a port that has no receiver is known at once.
            refused = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refused:
                raise OSError(refused, os.strerror(refused))
        except OSError:
            self.close()
            raise

    def _opened(self) -> socket.socket:
        if self.is_local:
            return self._connected(socket.AF_UNIX, socket.SOCK_DGRAM, self.name)
        kind = socket.SOCK_STREAM if self._protocol == "tcp" else socket.SOCK_DGRAM
        addresses = _addresses.get(self._host, self._port, self._timeout_s, kind)
        # Connecting by UDP does not show whether anybody receives there.
        *others, last = addresses if kind == socket.SOCK_STREAM else addresses[:1]
        for family, *_, address in others:
            with suppress(OSError):
                return self._connected(family, kind, address)
        return self._connected(last[0], kind, last[-1])

    def _connected(self, family: int, kind: int, address: Any) -> socket.socket:
        found = socket.socket(family, kind)
        try:
            found.settimeout(self._timeout_s)           # a full queue of /dev/log is waited for
            found.connect(address)
        except OSError:
            found.close()
            raise
        return found

    def close(self) -> None:
        """The next message opens it again."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()


def _has_ended(opened: socket.socket) -> bool:
    """A log server sends nothing; so what can be read is the end."""
    try:
        ready, _, _ = select.select([opened], [], [], 0)
        return bool(ready) and not opened.recv(4096)
    except (OSError, ValueError):
        return True


class Syslog:
    """
    See the module; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        stopped: set at the end; all pauses end with it.
    """

    connections = 0
    name = NAME

    def __init__(self, config: Config, say: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self.others: list[Any] = []
        self._to = LogServer(config["syslog.send_to"], config["syslog.timeout"])
        self._sd_id = config["syslog.sd_id"]
        self._facility = FACILITIES[config["syslog.facility"]]
        self._least = SEVERITIES.index(config["syslog.severity"])
        self._oldest_s = config["syslog.max_age"]
        self.stopped = threading.Event()
        self._sent = self._left_out = self._failures = 0
        self._failing_since: float | None = None
        self._well_since: float | None = None       # of a receiver that failed soon after that
        self._said_at = self._recovered_at = -SAY_AGAIN_S
        self._outage_began = 0.0

    def sweep(self, sweep: Any, harvest: Any) -> None:
        """It has nothing of sweeps."""

    def forget(self, ids: Iterable[str]) -> None:
        """It knows no ids of job_stats."""

    def keep_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        """How many of them, from the first on, are sent or not to be sent; all, but at the end."""
        form = local_message if self._to.is_local else message
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
        """Whether it is sent, or not to be sent any more."""
        if self._clock() - event.last > self._oldest_s:
            self._left_out += 1
            return True
        try:
            self._to.send(data)
        except OSError as error:
            if not self.stopped.is_set():           # else close() has taken the socket
                self._failures += 1
                self._tell(error.strerror or str(error))
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
            gone = self._left_out
            left_out = ("" if not gone else ", 1 event was left out" if gone == 1 else
                        f", {gone:,} events were left out")
            self._say(f"syslog: {self._to.name} takes messages again, after {away_s:.0f} s"
                      f"{left_out}")
        return True

    def _tell(self, why: str) -> None:
        now = time.monotonic()
        self._well_since = None
        if self._failing_since is None:
            if now - self._recovered_at >= STEADY_S:
                self._outage_began, self._said_at = now, -SAY_AGAIN_S
            self._failing_since = self._outage_began
        if now - self._said_at >= SAY_AGAIN_S:
            self._said_at = now
            self._say(f"syslog: {self._to.name}: {why}; events wait in the site's store ([syslog] "
                      f"max_age); is a log server there, and [syslog] send_to in site.cfg right?")

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        values = (self._sent, self._left_out, self._failures)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """What is not sent yet is sent after the next start."""
        self.stopped.set()
        self._to.close()
