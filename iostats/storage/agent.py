"""
The agent on a storage server: what changed in job_stats, to the site's server, sweep after sweep.

    targets.py   which OSTs and MDTs are here  ->  encoding.py  messages of what changed, of jobs
                 and (clients.py) of clients  ->  delivery.py  kept on the disk, sent to the site's
                 server

schedule.py says when.  The agent itself keeps no totals.  events.py tells what went wrong, in
threads of its own.
"""

from __future__ import annotations

import os
import threading
import time

from iostats.base.errors import IostatsError, NotDelivered
from iostats.storage.clients import STATE, Clients
from iostats.storage.delivery import Delivery, SweepNotKept
from iostats.storage.encoding import SweepEncoder
from iostats.storage.events import AgentEvents
from iostats.storage.schedule import Pace, SweepClock, next_slot, pause_s
from iostats.storage.targets import local_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iostats.base.config import Config

_PART_BYTES = 1 << 20
_LATE = 0.25                       # of the interval: a sweep that would be later is left out
_STEP_S = 5.0                      # between two looks at the clock, which may be set
_SAY_AGAIN_S, _MOST_SAID = 3600.0, 1000


class Agent:
    """
    One storage server's agent.

    `server`: (host, port) of the site's server; `say`: gets one line at a time.  Raises StateError
    where the spool can't be used.

    Attributes:
        encoder, delivery: what makes the messages, and what sends them.
        clients: what exports say; None where they are not read.
        events: what went wrong; None where that cannot be kept.
    """

    def __init__(self, config: Config, root: str, node: str, server: tuple[str, int],
                 file_systems: Sequence[str], say: Callable[[str], None]) -> None:
        self._config, self._root, self._file_systems = config, root, file_systems
        self._tell = say
        self._said: dict[object, float] = {}
        self._saying = threading.Lock()
        # Its own thread's: events have a share of their own.
        self._pace = Pace(config["harvest.cpu_percent"], time.thread_time)
        self._clock = SweepClock()
        self.encoder = SweepEncoder(
            node, min(_PART_BYTES, config["server.max_message_bytes"] // 5), self._clock,
            self._pace, self._say)
        self.delivery = Delivery(config, node, server, self._pace, self._say, self.encoder.lost)
        self.clients = None if config["harvest.exports"] == "no" else Clients(
            os.path.join(self.delivery.spool.directory, STATE), file_systems, self._clock,
            self._pace, self._say)
        self.events: AgentEvents | None = None
        self._make_events: Callable[[], AgentEvents] = lambda: AgentEvents(
            config, root, node, server, self._say)
        self._with_events()

    def _with_events(self, starts: bool = False) -> None:
        """Tell events, too; where that cannot be, sweeps are told all the same."""
        if self.events is None:
            try:
                self.events = self._make_events()
            except (IostatsError, OSError) as error:
                self._say(f"events are not told: {error}")
                return
        if starts:
            self.events.start()

    def run(self) -> None:
        """Sweep until a signal ends it."""
        self._with_events(starts=True)
        self.delivery.learn_time()
        last = None
        while True:
            every = self._every()
            slot = self._wait(every, last)
            if slot is None:
                continue
            last = slot
            if self.events is None:
                self._with_events(starts=True)
            try:
                self.sweep(slot, every)
            except (IostatsError, OSError) as error:
                self.encoder.is_broken = True
                self._say(str(error))
            except Exception as error:         # a bug is no reason to leave all jobs uncounted
                self.encoder.is_broken = True
                self._say(f"internal error; please report: {error!r}")
            self._deliver(time.monotonic() + max(2.0, every / 2))

    def end(self) -> None:
        """Keep what another agent goes on from."""
        if self.clients is not None:
            self.clients.keep(is_last=True)
        if self.events is not None:
            self.events.end()

    def _deliver(self, until: float) -> bool:
        is_all = self.delivery.deliver(until)
        if is_all and not self.encoder.is_broken and self.clients is not None:
            self.clients.delivered()
        return is_all

    def once(self) -> None:
        """
        One sweep and one look for events now, and all that waits; NotDelivered where the server
        did not take it.
        """
        delivery = self.delivery
        delivery.learn_time()
        if self.events is not None:
            self.events.look_once()
        every = self._every()
        self.sweep(int(delivery.clock.now() // every) * every, every)
        until, delivery.refused = time.monotonic() + self._config["node.retry_timeout"], ""
        while not self._deliver(max(until, time.monotonic() + 1)):
            left = until - time.monotonic()
            if left <= 0:
                raise NotDelivered(f"{len(delivery.spool)} messages wait in "
                                   f"{delivery.spool.directory}; the next run sends them")
            time.sleep(min(max(0.05, delivery.retry_at - time.monotonic()), left))
        if delivery.refused:
            raise NotDelivered(delivery.refused)
        if self.events is not None:
            self.events.send_all(max(until, time.monotonic() + 1))

    def sweep(self, slot: int, every: int) -> None:
        """
        Read all targets, and let what changed wait; `slot`: when that was due, seconds since 1970.
        """
        self._pace.begin()
        began_s = time.thread_time()
        found = local_targets(self._root, self._file_systems)
        if not found and not self._file_systems:
            self._say("no OST and no MDT on this machine, or none that this user may see; waiting "
                      "for one")
        known = {one.file_system for one in found}
        for name in self._file_systems:
            if name not in known:
                self._say(f"no target of file system {name!r} on this machine; waiting for one")
        if self._clock.begins_anew():
            self.encoder.is_broken = True
            self._say("the clock was set back by more than an hour; this sweep is a full one")
        if self.delivery.is_behind:
            self.encoder.is_broken = True
        server = self.delivery.clock
        ahead_s = round(self._clock.now() - server.now(), 3) if server.is_known else None
        try:
            self.encoder.sweep(found, slot, every, ahead_s, self.delivery.keep, self.clients)
        except SweepNotKept:
            self.delivery.spool.drop(self.encoder.run, self.encoder.began)
            raise
        # A full sweep parses every file, and is no measure of those that follow.
        if (self.clients is not None and self._config["harvest.exports"] == "auto"
                and self.encoder.began > 1):
            self.clients.took(time.thread_time() - began_s, every,
                              self._config["harvest.cpu_percent"])

    def _every(self) -> int:
        return pause_s(self._config["harvest.interval"],
                       local_targets(self._root, self._file_systems), self._say)

    def _wait(self, every: int, last: int | None) -> int | None:
        """
        The slot whose time has come, delivering until then.

        None where it was missed, or the clock was set: then the next one is to be found anew.
        """
        delivery = self.delivery
        slot = next_slot(delivery.clock.now(), every, last)
        while True:
            left = slot - delivery.clock.now()
            if left <= 0:
                return slot if -left <= max(1.0, every * _LATE) else None
            if left > 2 * every:
                return None
            if len(delivery.spool) and left > 0.5 and time.monotonic() >= delivery.retry_at:
                self._pace.begin()
                self._deliver(time.monotonic() + left - 0.3)
                continue
            step = min(left, _STEP_S)
            if len(delivery.spool) and delivery.retry_at > time.monotonic():
                step = min(step, delivery.retry_at - time.monotonic() + 0.01)
            time.sleep(step)

    def _say(self, text: str, key: object = None) -> None:
        """`text`, once in an hour; `key`: what it is about, where the text has numbers."""
        now, key = time.monotonic(), key or text
        with self._saying:
            if now - self._said.get(key, -_SAY_AGAIN_S) < _SAY_AGAIN_S:
                return
            if len(self._said) >= _MOST_SAID:
                self._said = {one: at for one, at in self._said.items() if now - at < _SAY_AGAIN_S}
                if len(self._said) >= _MOST_SAID:
                    return
            self._said[key] = now
        self._tell(text)
