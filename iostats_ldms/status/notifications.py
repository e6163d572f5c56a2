"""
Events of LDMS' daemons, sent to the log, and to the site's server if there is one.

They wait in memory: a group's events are in etcd as well, and its next owner sends them again.  The
site's server recognizes an event by its id, so duplicates do no harm.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from iostats.base.config import Config
from iostats.base.errors import IostatsError
from iostats.events.event import Event, as_json, describe_event, merge_copy
from iostats.storage.schedule import ServerClock
from iostats.wire import auth, protocol
from iostats.wire.messages.events_encoder import METHOD, encode_events
from iostats.wire.site_servers import SiteServers, make_site_servers

if TYPE_CHECKING:
    from iostats.wire.messages.events_encoder import MessageHead

MOST_WAITING, MAX_REMEMBERED = 10_000, 20_000
_WITHIN_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 1.0, 60.0
_EVERY_S = 10.0
_FINAL = (protocol.REFUSED, protocol.INVALID_PARAMS)


class EventSender:
    """
    Sends events to the log and to the site's server.

    `who`: the machine named in events: that of the cluster, since any instance may complete an
    event.  `emit`: receives lines for the log.

    Attributes:
        delivered: number of events that the site's server accepted.
        dropped: number of events refused, or dropped because too many waited.
    """

    def __init__(self, config: Config, node: str, emit: Callable[[str], None]) -> None:
        self._config, self._node, self._log = config, node, emit
        self._last_sent: dict[str, Event] = {}          # the last sent state of each
        self._waiting: dict[str, Event] = {}        # to be sent to the site's server
        self._changed = threading.Condition()       # guards both
        self._is_ended, self._seq = False, 0
        self._clock = ServerClock()
        self._servers: SiteServers | None = None
        self.delivered = self.dropped = 0
        self._is_on = bool(config.site.host)
        self._thread = threading.Thread(target=self._send, name="events sent", daemon=True)
        if self._is_on:
            self._thread.start()

    def send(self, events: Iterable[Event], old: Iterable[str] = ()) -> None:
        """
        Send new and changed events; returns at once, from any thread.

        `old`: ids of events that another instance has logged.
        """
        with self._changed:
            for event in events:
                before = self._last_sent.get(event.id)
                event = merge_copy(before, event)
                if event is before:
                    continue
                self._last_sent[event.id] = event
                if event.id not in old or before is not None:
                    self._log(describe_event(event, with_node=False))
                if self._is_on:
                    self._waiting[event.id] = event
                    if len(self._waiting) > MOST_WAITING:
                        del self._waiting[next(iter(self._waiting))]
                        self.dropped += 1
            for event_id in list(self._last_sent)[:max(0, len(self._last_sent) - MAX_REMEMBERED)]:
                del self._last_sent[event_id]
            self._changed.notify_all()

    def end(self, within_s: float = 2.0) -> None:
        """Send waiting events for at most `within_s`, then stop."""
        until = time.monotonic() + within_s
        with self._changed:
            while self._is_on and self._waiting and time.monotonic() < until:
                self._changed.wait(0.1)
            self._is_ended = True
            self._changed.notify_all()

    def _send(self) -> None:
        pause_s = _FIRST_PAUSE_S
        is_away = False
        while True:
            with self._changed:
                while not self._waiting and not self._is_ended:
                    self._changed.wait(60.0)
                if self._is_ended:
                    return
                batch = dict(self._waiting)
            try:
                self._deliver(batch)
                pause_s = _FIRST_PAUSE_S
                if is_away:
                    is_away = False
                    self._log("the site's server answers again")
                continue
            except IostatsError as error:
                if getattr(error, "code", None) in _FINAL:
                    self._log(f"{error}; {len(batch)} events were dropped")
                    self._remove_waiting(batch, 0)
                    continue
                if not is_away:
                    self._log(f"{error}; events wait until it answers")
                is_away = True
            except Exception as error:
                self._log(f"internal error; please report: {error!r}; events wait")
            with self._changed:
                if not self._is_ended:
                    self._changed.wait_for(lambda: self._is_ended,
                                                  pause_s * (0.5 + os.urandom(1)[0] / 256))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _deliver(self, batch: dict[str, Event]) -> None:
        """Deliver a batch in as many messages as needed; IostatsError."""
        if self._servers is None:
            self._servers = make_site_servers(self._config)
        signs = auth.load_client_credentials(self._config, protocol.SITE, self._config.site.secret,
                                             self._log, methods=self._choose_methods())
        if self._servers.should_try_preferred():
            self._servers.try_preferred_servers(signs, self._node, _WITHIN_S)
        clock, now = self._clock, time.time()
        head: MessageHead = {
                "node": self._node, "boot_id": "", "seq": self._seq + 1, "made": round(now, 6),
                "every": _EVERY_S, "is_server": False,
                "ahead_s": round(now - clock.now(), 3) if clock.is_known else None}
        left = list(batch.items())
        for data, count in encode_events(head, [as_json(event) for event in batch.values()], None):
            self._servers.call(signs, self._node, METHOD, data, _WITHIN_S, learn=clock.learn)
            self._seq += 1
            self._remove_waiting(dict(left[:count]), count)
            left = left[count:]

    def _choose_methods(self) -> list[str]:
        """Prefer the secret unless we are root: by munge only root's events are accepted."""
        if os.geteuid() == 0 or not os.access(self._config.site.secret, os.R_OK):
            return self._config.server.auth
        return sorted(self._config.server.auth, key=lambda word: word != "secret")

    def _remove_waiting(self, batch: dict[str, Event], accepted: int) -> None:
        """Remove events from those waiting, unless they changed since."""
        with self._changed:
            for event_id, event in batch.items():
                if self._waiting.get(event_id) is event:
                    del self._waiting[event_id]
            self.delivered += accepted
            self.dropped += len(batch) - accepted
            self._changed.notify_all()
