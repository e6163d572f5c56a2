"""
The agent on a storage server: what changed in job_stats, to the site's server, sweep after sweep.

    targets.py   which OSTs and MDTs are here  ->  encoding.py  messages of what changed, of jobs
                 and (clients.py) of clients  ->  delivery.py  kept on the disk, sent to the site's
                 server

schedule.py says when.  The agent itself keeps no totals.  events.py reports faults, in
threads of its own.  What may change while it runs (settings.py) does between two sweeps.
"""

from __future__ import annotations

import os
import threading
import time

from iostats.base.errors import IostatsError, NotDelivered
from iostats.base.options import RUN_TIME_OPTIONS
from iostats.storage import settings
from iostats.storage.clients import STATE, Clients
from iostats.storage.delivery import Delivery, SweepNotStored
from iostats.storage.encoding import SweepEncoder
from iostats.storage.events import AgentEvents
from iostats.storage.schedule import Pace, SweepClock, find_next_slot, find_pause_s
from iostats.storage.targets import find_local_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iostats.base.config import Config
    from iostats.storage.follow_settings import FollowedSettings

_PART_BYTES = 1 << 20
_LATE = 0.25                       # of the interval: a sweep that would be later is left out
_STEP_S = 5.0                      # between two readings of the clock, which may be set
_SAY_AGAIN_S, _MOST_SAID = 3600.0, 1000


class Agent:
    """The agent of one storage server.

    `servers`: (host, port) of the site's servers, in their order; `emit`: gets one line at a time.
    `fixed`: keys of site.cfg that the command line has set, so that etcd does not change them.
    Raises StateError where the spool can't be used.

    Attributes:
        encoder, delivery: what makes the messages, and what sends them.
        clients: what exports say; None where they are not read.
        events: what went wrong; None where that cannot be kept.
    """

    def __init__(self, config: Config, root: str, node: str,
                 servers: Sequence[tuple[str, int]], file_systems: Sequence[str],
                 emit: Callable[[str], None], fixed: Collection[str] = ()) -> None:
        self._config, self._root, self._file_systems = config, root, list(file_systems)
        self._tell = emit
        self._logged: dict[object, float] = {}
        self._saying = threading.Lock()
        # Its own thread's: events have a share of their own.
        self._pace = Pace(config.harvest.cpu_percent, time.thread_time)
        self._clock = SweepClock()
        self.encoder = SweepEncoder(
            node, min(_PART_BYTES, config.server.max_message_bytes // 5), self._clock,
            self._pace, self._log_change)
        self.delivery = Delivery(config, node, servers, self._pace, self._log_change,
                                 self.encoder.note_lost_message,
                                 moved=self._use_another_server)
        self._settings: FollowedSettings | None = None
        self._of_site_cfg = {name: config.get_value(name) for name in RUN_TIME_OPTIONS}
        self._fixed, self._in_force = frozenset(fixed), settings.NOTHING
        self.clients: Clients | None = None
        self.events: AgentEvents | None = None
        if config.etcd.endpoints:
            from iostats.storage.follow_settings import FollowedSettings
            self._settings = FollowedSettings(
                config, node, self.delivery.spool.directory, self._log_change)
            self._take_settings()
        if self.clients is None:
            self._begin_clients()
        self._make_events: Callable[[], AgentEvents] = lambda: AgentEvents(
            config, root, node, servers, self._log_change)
        self._start_events()

    def _start_events(self, starts: bool = False) -> None:
        """Report events, too; if that is impossible, sweeps are sent all the same."""
        if self.events is None:
            try:
                self.events = self._make_events()
            except (IostatsError, OSError) as error:
                self._log_change(f"events are not sent: {error}")
                return
        if starts:
            self.events.start()

    def _begin_clients(self) -> None:
        """Read exports from the next sweep on, or not, by [harvest] exports."""
        self.clients = None if self._config.harvest.exports == "no" else Clients(
            os.path.join(self.delivery.spool.directory, STATE), self._file_systems, self._clock,
            self._pace, self._log_change)
        self.encoder.is_broken = True          # what a chain has of clients begins with all of them

    def _take_settings(self) -> None:
        """Apply new settings from etcd, between two sweeps."""
        group_settings = self._settings.take_new_settings() if self._settings is not None else None
        if group_settings is None:
            return
        config, self._in_force = self._config, group_settings
        values = {**self._of_site_cfg, **settings.check_values(group_settings.settings)}
        news = {name: value for name, value in values.items()
                if value != config.get_value(name) and name not in self._fixed}
        config.replace_values(news)
        self._pace.limit(config.harvest.cpu_percent)
        self.delivery.spool.most_bytes = config.harvest.spool_bytes
        if "harvest.file_systems" in news:
            self._file_systems = config.harvest.file_systems
            if self.clients is not None:
                self.clients.choose(self._file_systems)
        if "harvest.exports" in news and (
                self.clients is None or not self.clients.is_on
                or config.harvest.exports == "no"):
            if self.clients is not None:
                self.clients.save()
            self._begin_clients()
        if news:
            if self.events is not None:
                self.events.apply_settings()
            of = ("site.cfg: there is no description" if group_settings.revision is None else
                  f"description {group_settings.revision}, group {group_settings.group}"
                  if group_settings.group else
                  "site.cfg: no group of the description has this storage server")
            self._tell(f"settings: {', '.join(sorted(news))} changed, by {of}")

    def run(self) -> None:
        """Sweep until a signal ends it."""
        self._start_events(starts=True)
        if self._settings is not None:
            self._settings.start()
        self.delivery.learn_time()
        last = None
        while True:
            self._take_settings()
            every_s = self._find_interval()
            if self._settings is not None:
                self._settings.note_in_force(self._in_force, {
                    **{name: self._config.get_value(name) for name in RUN_TIME_OPTIONS},
                    "harvest.file_systems": self._file_systems}, every_s)
            slot = self._wait_for_slot(every_s, last)
            if slot is None:
                continue
            last = slot
            if self.events is None:
                self._start_events(starts=True)
            try:
                self.sweep(slot, every_s)
            except (IostatsError, OSError) as error:
                self.encoder.is_broken = True
                self._log_change(str(error))
            except Exception as error:         # a bug is no reason to leave all jobs uncounted
                self.encoder.is_broken = True
                self._log_change(f"internal error; please report: {error!r}")
            self._deliver(time.monotonic() + max(2.0, every_s / 2))

    def end(self) -> None:
        """Store the state from which the next agent continues."""
        if self._settings is not None:
            self._settings.end()
        if self.clients is not None:
            self.clients.save()
        if self.events is not None:
            self.events.end()

    def _use_another_server(self) -> None:
        """Switch to another of the site's servers, which gets all counts in a new chain."""
        self.encoder.is_broken = True
        if self.clients is not None:
            self.clients.use_another_server()

    def _deliver(self, until: float) -> bool:
        is_all = self.delivery.deliver(until, self._has_news)
        if is_all and not self.encoder.is_broken and self.clients is not None:
            self.clients.delivered()
        return is_all

    def _has_news(self) -> bool:
        return self._settings is not None and self._settings.has_news

    def run_once(self) -> None:
        """
        Do one sweep and one scan for events, and deliver all messages; NotDelivered if the server
        did not accept them.
        """
        delivery, until = self.delivery, time.monotonic() + self._config.node.retry_timeout
        if self._settings is not None:
            self._settings.ask()
            self._take_settings()
        delivery.learn_time()
        if self.events is not None:
            self.events.scan_once()
        every_s = self._find_interval()
        self.sweep(int(delivery.clock.now() // every_s) * every_s, every_s)
        delivery.refused = ""
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

    def sweep(self, slot: int, every_s: int) -> None:
        """
        Read all targets and queue the changes; `slot`: the time at which this was due, s since
        1970.
        """
        self._pace.begin()
        began_s = time.thread_time()
        targets = find_local_targets(self._root, self._file_systems)
        if not targets and not self._file_systems:
            self._log_change(
                "no OST and no MDT on this machine, or none that this user may see; waiting "
                "for one")
        file_systems = {target.file_system for target in targets}
        for name in self._file_systems:
            if name not in file_systems:
                self._log_change(
                    f"no target of file system {name!r} on this machine; waiting for one")
        if self._clock.reset_if_wrong():
            self.encoder.is_broken = True
            self._log_change(
                "the clock was set back by more than an hour; this sweep is a full one")
        if self.delivery.is_behind:
            self.encoder.is_broken = True
        server = self.delivery.clock
        ahead_s = round(self._clock.now() - server.now(), 3) if server.is_known else None
        try:
            self.encoder.sweep(targets, slot, every_s, ahead_s, self.delivery.store, self.clients)
        except SweepNotStored:
            self.delivery.spool.drop(self.encoder.run, self.encoder.began)
            raise
        # A full sweep parses every file, and is no measure of those that follow.
        if (self.clients is not None and self._config.harvest.exports == "auto"
                and self.encoder.began > 1):
            self.clients.note_cpu_time(time.thread_time() - began_s, every_s,
                                       self._config.harvest.cpu_percent)

    def _find_interval(self) -> int:
        return find_pause_s(self._config.harvest.interval,
                            find_local_targets(self._root, self._file_systems), self._log_change)

    def _wait_for_slot(self, every_s: int, last: int | None) -> int | None:
        """Deliver messages until the next slot, and return it.

        None where it was missed, or the clock was set, or the settings have changed: then the next
        one has to be computed again.
        """
        delivery = self.delivery
        slot = find_next_slot(delivery.clock.now(), every_s, last)
        while True:
            if self._has_news():
                return None
            left = slot - delivery.clock.now()
            if left <= 0:
                return slot if -left <= max(1.0, every_s * _LATE) else None
            if left > 2 * every_s:
                return None
            if delivery.waits and left > 0.5 and time.monotonic() >= delivery.retry_at:
                self._pace.begin()
                self._deliver(time.monotonic() + left - 0.3)
                continue
            step = min(left, _STEP_S)
            if delivery.waits and delivery.retry_at > time.monotonic():
                step = min(step, delivery.retry_at - time.monotonic() + 0.01)
            if self._settings is None:
                time.sleep(step)
            else:
                self._settings.wait(step)

    def _log_change(self, text: str, key: object = None) -> None:
        """Log `text`, at most once an hour; `key`: its subject, where the text has numbers."""
        now, key = time.monotonic(), key or text
        with self._saying:
            if now - self._logged.get(key, -_SAY_AGAIN_S) < _SAY_AGAIN_S:
                return
            if len(self._logged) >= _MOST_SAID:
                self._logged = {name: at for name, at in self._logged.items()
                                if now - at < _SAY_AGAIN_S}
                if len(self._logged) >= _MOST_SAID:
                    return
            self._logged[key] = now
        self._tell(text)
