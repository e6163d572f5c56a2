"""
Events of LDMS' daemons, told to the log, and to the site's server where there is one.

They wait in memory: those of a group are in etcd as well, and who has the group tells them again.
The site's server takes an event by its id, so that one that comes twice is one.
"""

from __future__ import annotations

import os
import threading
import time

from iostats.base.errors import IostatsError
from iostats.events.event import as_json, in_words, merge_copy
from iostats.storage.schedule import ServerClock
from iostats.wire import auth, protocol
from iostats.wire.messages.events_encoder import METHOD, packed_events
from iostats.wire.site_servers import site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.wire.site_servers import SiteServers

MOST_WAITING, MOST_TOLD = 10_000, 20_000
_WITHIN_S, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 1.0, 60.0
_EVERY_S = 10.0
_FINAL = (protocol.REFUSED, protocol.INVALID_PARAMS)


class Telling:
    """
    `who`: the machine that tells, as it is named in events: that of the cluster, since each of its
    instances may go on with what another began.  `say`: gets a line for the log.

    Attributes:
        told: how many events the site's server took.
        dropped: how many it did not, since it refused them, or too many waited.
    """

    def __init__(self, config: Config, who: str, say: Callable[[str], None]) -> None:
        self._config, self._who, self._say = config, who, say
        self._known: dict[str, Event] = {}          # what was told last of each
        self._waiting: dict[str, Event] = {}        # for the site's server
        self._changed = threading.Condition()       # guards both
        self._is_ended, self._seq = False, 0
        self._clock = ServerClock()
        self._servers: SiteServers | None = None
        self.told = self.dropped = 0
        self._is_on = bool(config["site.host"])
        self._thread = threading.Thread(target=self._send, name="events sent", daemon=True)
        if self._is_on:
            self._thread.start()

    def tell(self, events: Iterable[Event], old: Iterable[str] = ()) -> None:
        """
        Tell what is new, or has grown; at once, and from any thread.

        `old`: ids of those that another instance has logged.
        """
        with self._changed:
            for event in events:
                before = self._known.get(event.id)
                event = merge_copy(before, event)
                if event is before:
                    continue
                self._known[event.id] = event
                if event.id not in old or before is not None:
                    self._say(in_words(event, with_node=False))
                if self._is_on:
                    self._waiting[event.id] = event
                    if len(self._waiting) > MOST_WAITING:
                        del self._waiting[next(iter(self._waiting))]
                        self.dropped += 1
            for event_id in list(self._known)[:max(0, len(self._known) - MOST_TOLD)]:
                del self._known[event_id]
            self._changed.notify_all()

    def end(self, within_s: float = 2.0) -> None:
        """Send what waits, for so long at most."""
        until = time.monotonic() + within_s
        with self._changed:
            while self._is_on and self._waiting and time.monotonic() < until:
                self._changed.wait(0.1)
            self._is_ended = True
            self._changed.notify_all()

    def _send(self) -> None:
        pause = _FIRST_PAUSE_S
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
                pause = _FIRST_PAUSE_S
                if is_away:
                    is_away = False
                    self._say("the site's server is back")
                continue
            except IostatsError as error:
                if getattr(error, "code", None) in _FINAL:
                    self._say(f"{error}; {len(batch)} events are not told there")
                    self._forget(batch, 0)
                    continue
                if not is_away:
                    self._say(f"{error}; events wait until it answers")
                is_away = True
            except Exception as error:
                self._say(f"internal error; please report: {error!r}; events wait")
            with self._changed:
                if not self._is_ended:
                    self._changed.wait_for(lambda: self._is_ended,
                                           pause * (0.5 + os.urandom(1)[0] / 256))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _deliver(self, batch: dict[str, Event]) -> None:
        """Send what is in `batch`, in as many messages as it takes; IostatsError."""
        if self._servers is None:
            self._servers = site_servers(self._config)
        signs = auth.client_credentials(self._sign_with(), protocol.SITE,
                                        self._config["site.secret"], self._say)
        if self._servers.may_look_back():
            self._servers.look_back(signs, self._who, _WITHIN_S)
        clock, now = self._clock, time.time()
        head = {"node": self._who, "boot_id": "", "seq": self._seq + 1, "made": round(now, 6),
                "every": _EVERY_S, "is_server": False,
                "ahead_s": round(now - clock.now(), 3) if clock.is_known else None}
        left = list(batch.items())
        for data, count in packed_events(head, [as_json(event) for event in batch.values()], None):
            self._servers.call(signs, self._who, METHOD, data, _WITHIN_S, learn=clock.learn)
            self._seq += 1
            self._forget(dict(left[:count]), count)
            left = left[count:]

    def _sign_with(self) -> Mapping[str, Any]:
        """By munge the site's server takes events of root alone: else the secret comes first."""
        if os.geteuid() == 0 or not os.access(self._config["site.secret"], os.R_OK):
            return self._config
        ways = sorted(self._config["server.auth"], key=lambda word: word != "secret")
        return {**self._config, "server.auth": ways}

    def _forget(self, batch: dict[str, Event], taken: int) -> None:
        """These wait no more, but for what has grown meanwhile."""
        with self._changed:
            for event_id, event in batch.items():
                if self._waiting.get(event_id) is event:
                    del self._waiting[event_id]
            self.told += taken
            self.dropped += len(batch) - taken
            self._changed.notify_all()
