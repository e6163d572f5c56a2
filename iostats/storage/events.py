"""
Events of this storage server, sent to the site's server at once, beside the sweeps.

    Gathering.scan()  ->  messages in [harvest] spool_dir/events  ->  Gathering.acknowledge()
                          ... sent to the site's server, and then forgotten

Two threads, since the kernel's log does not wait for a network: one reads the log and looks each
[events] every, the other sends.  What was gathered is on the disk before the place in the log moves
on, so a kill at any point loses none; events reported again have the same ids, by which the
server recognizes them.  Nothing that fails here, or takes long, keeps a sweep back.

The storage server's state is sent with the next events, or alone when it has changed, and each
STATUS_EVERY_S.  A message is sent each HEARD_EVERY_S, so that the server knows the agent is alive.
A message without events is not stored on the disk: the next one has a newer state.
"""

from __future__ import annotations

import os
import select
import threading
import time

from iostats.base import private_files
from iostats.base.disk_queue import Spool, SpoolFull
from iostats.base.errors import IostatsError, NotDelivered, StateError
from iostats.events.event import as_json
from iostats.events.gather import Gathering
from iostats.lustre.capacity import RESOURCES, Capacity, compute_used_percent
from iostats.node import identity as this_node
from iostats.storage.delivery import ACCEPTED, ANSWER_WITHIN_S, LATER, MOVED, Delivery
from iostats.storage.schedule import Pace
from iostats.wire.messages.events_encoder import encode_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.events.gather import ScanResult
    from iostats.events.status import ServerStatus
    from iostats.wire.messages.events_encoder import MessageHead

DIRECTORY, STATE = "events", "events.state"     # in [harvest] spool_dir
HEARD_EVERY_S, STATUS_EVERY_S = 15.0, 60.0
# What it takes, as systemd/iostats-harvest.service has it.
RIGHT = "its unit needs CapabilityBoundingSet=CAP_SYSLOG and DeviceAllow=/dev/kmsg r"
_SHARE = 4                                      # of [harvest] spool_bytes: a quarter, beside sweeps
_LEAST_BYTES = 1 << 20
_AGAIN_S = 30.0                                 # after a failure
_STEP_S = 5.0
_PAUSE_S = 0.02                                 # a ring of 1 MiB has 0.1 s of a flood


class AgentEvents:
    """The events of one storage server.  StateError if their directory cannot be used.

    `servers`: (host, port) of the site's servers, in their order; `emit`: gets a line, and what it
    is about where the line has numbers.

    Attributes:
        spool: the messages that wait.
        delivery: what sends them.
        dropped: events that were dropped because the spool was full, or that the server refused,
            and that no message has reported yet.
    """

    def __init__(self, config: Config, root: str, node: str, servers: Sequence[tuple[str, int]],
                 emit: Callable[..., None]) -> None:
        self._config, self._root, self._node, self._emit = config, root, node, emit
        self._boot_id = this_node.read_boot_id(root)
        own = config.harvest.spool_dir
        self._state_path = os.path.join(own, STATE)
        self.spool = Spool(os.path.join(own, DIRECTORY), _find_spool_bytes(config), "[harvest]")
        # Of these threads alone: what sweeps use is theirs.
        self._pace = Pace(config.harvest.cpu_percent, time.thread_time)
        self.delivery = Delivery(config, node, servers, self._pace, emit, lambda run: None,
                                 spool=self.spool, after_refusal="these events are dropped",
                                 logs_outage=False,     # the sweeps' says so
                                 moved=self._request_status)
        self.dropped = 0
        self._seq = 0
        self._gathering: Gathering | None = None
        self._unstored: list[tuple[bytes, int]] = []      # for which the disk had no room
        self._every_s = float(config.events.every)
        self._status: tuple[object, float] = None, 0.0  # the last that was reported, and when
        self._made_at = 0.0                             # when the last message was made
        self._alone: bytes | None = None                # how the server stands, to be sent
        self._changed = threading.Condition()           # guards spool, dropped, _alone, _is_ended
        self._is_ended = False
        self._has_settings = False
        self._woken, self._wake = os.pipe()
        self._threads: list[threading.Thread] = []

    # -- as threads, or at once

    def start(self) -> None:
        """Collect and send events until end()."""
        for name, work in (("events", self._gather), ("events sent", self._send)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, within_s: float = 2.0) -> None:
        """Stop; waiting messages stay on the disk, and later events in the log."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        os.write(self._wake, b"x")
        until = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            if self._gathering is not None:
                self._gathering.close()
            self.spool.close()
            os.close(self._woken)
            os.close(self._wake)

    def apply_settings(self) -> None:
        """Apply the settings in `config` that may change at run time."""
        self._pace.limit(self._config.harvest.cpu_percent)
        with self._changed:
            self.spool.most_bytes = _find_spool_bytes(self._config)
        self._has_settings = True
        os.write(self._wake, b"x")

    def scan_once(self) -> None:
        """Scan once, and store the events for delivery."""
        try:
            self._scan(self._get_gathering())
        except (IostatsError, OSError) as error:
            self._emit(f"events: {error}")

    def send_all(self, until: float) -> None:
        """
        Send the waiting messages until time.monotonic() is `until`; NotDelivered if one is not
        accepted.

        An older server will not take it, however often it is asked: it waits.
        """
        while self._send_next() and not self.delivery.is_older:
            left = until - time.monotonic()
            if left <= 0:
                raise NotDelivered(f"{len(self.spool)} messages of events wait in "
                                   f"{self.spool.directory}; the next run sends them")
            time.sleep(min(max(0.0, self.delivery.retry_at - time.monotonic()), left))

    # -- gathering

    def _gather(self) -> None:
        scan_at = time.monotonic()
        while not self._is_ended:
            try:
                gathering = self._get_gathering()
                self._pace.begin()
                if self._wait_for(gathering.fileno(), scan_at):
                    gathering.read_log()
                    self._pace.pause()
                    time.sleep(_PAUSE_S)        # or a flood would be read line by line
                if self._has_settings:
                    self._has_settings = False
                    gathering.limit_events(self._config.events.max_kept)
                    scan_at = min(scan_at, time.monotonic() + self._config.events.every)
                if time.monotonic() >= scan_at and not self._is_ended:
                    scan_at = self._scan_and_store(gathering)
            except (IostatsError, OSError) as error:
                self._emit(f"events: {error}")
                scan_at = self._restart()
            except Exception as error:          # a bug here is no reason to end the sweeps
                self._emit(f"internal error; please report: {error!r}; events are read again")
                scan_at = self._restart()

    def _get_gathering(self) -> Gathering:
        if self._gathering is None:
            self._gathering = Gathering(self._root, self._config, self._node, self._boot_id,
                                        self._state_path, ("server",))
        return self._gathering

    def _restart(self) -> float:
        """
        Restart after a failure: unsent events are read again.  Returns the time of the next scan.
        """
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            try:
                gathering.close()
            except OSError:
                pass
        with self._changed:
            if not self._is_ended:
                self._changed.wait(_AGAIN_S)
        return time.monotonic()

    def _wait_for(self, log: int, until: float) -> bool:
        """Wait until time.monotonic() is `until`; True as soon as the log can be read."""
        left = max(0.0, until - time.monotonic())
        handles = [self._woken] if log < 0 else [self._woken, log]
        readable, _, _ = select.select(handles, [], [], left)
        if self._woken in readable and not self._is_ended:
            os.read(self._woken, 100)
        return log in readable

    def _scan_and_store(self, gathering: Gathering) -> float:
        """Scan, and store the events; returns the time of the next scan, time.monotonic()."""
        interval_s = float(self._config.events.every)
        began, cpu = time.monotonic(), time.thread_time()
        has_more = self._scan(gathering)
        took_s = (time.thread_time() - cpu) * 100 / self._config.harvest.cpu_percent
        self._every_s = max(interval_s, round(took_s, 1))
        if self._every_s > interval_s:
            self._emit(f"events: a scan of this storage server takes {took_s:.1f} s of [harvest] "
                       f"cpu_percent; looking each {took_s:.0f} s, not each {interval_s:.0f} s",
                       "events: a scan takes long")
        return began + (took_s if has_more else self._every_s)

    def _scan(self, gathering: Gathering) -> bool:
        """Scan once; True if there is more to send at once."""
        if not self._store_messages():
            return False
        scanned = gathering.scan()
        for line in gathering.unused:
            self._emit(f"events: {line}")
        gathering.unused.clear()
        log = scanned.status["log"]
        if (log["source"] == "none" and self._config.events.kernel_log != "no"
                and (self._root == "/" or os.path.lexists(f"{self._root}/dev/kmsg"))):
            self._emit(f"events: the kernel's log cannot be read: {log['why']}; its events are "
                       f"not reported ({RIGHT}; or [events] kernel_log = no)")
        now = time.time()
        self._unstored = list(self._encode_messages(scanned, now))
        if not self._store_messages():
            return False
        try:
            gathering.acknowledge()
        except OSError as error:                # another agent would tell it again, by the same ids
            self._emit(
                f"{self._state_path}: cannot be written: {private_files.explain_error(error)}")
        return bool(scanned.more)

    def _encode_messages(self, scanned: ScanResult, now: float) -> list[tuple[bytes, int]]:
        """Return the messages to store after a scan; a status alone is passed to the sender."""
        with self._changed:
            dropped, self.dropped = self.dropped + scanned.dropped, 0
            is_waiting = self._alone is not None
        last, at = self._status
        has_events = bool(scanned.events or dropped)
        status = _remove_growth(scanned.status)
        is_new = is_waiting or status != last or not 0 <= now - at < STATUS_EVERY_S
        if not has_events and not is_new and 0 <= now - self._made_at < HEARD_EVERY_S:
            return []
        clock = self.delivery.clock
        head: MessageHead = {
                "node": self._node, "boot_id": self._boot_id, "seq": self._seq + 1,
                "made": round(now, 6), "every": self._every_s,
                "ahead_s": round(now - clock.now(), 3) if clock.is_known else None}
        messages = list(encode_events(head, [as_json(event) for event in scanned.events],
                                    scanned.status if is_new else None, dropped))
        self._seq, self._made_at = self._seq + len(messages), now
        if is_new:
            self._status = status, now
        if has_events:
            # The count of dropped events is in the message, and is lost if that is dropped.
            data, count = messages.pop()
            return [*messages, (data, count + dropped)]
        with self._changed:
            self._alone = messages[0][0]
            self._changed.notify_all()
        return []

    def _store_messages(self) -> bool:
        """Store the events on the disk; False if it is full."""
        while self._unstored:
            data, count = self._unstored[0]
            run = os.urandom(8).hex()               # messages are no chain: each is its own
            try:
                with self._changed:
                    dropped = self.spool.make_room(data, run)
                    self.dropped += sum(message.mark for message in dropped)
                    self.spool.require_room(data)
                    self.spool.add(self.spool.write(run, count, data))
                    self._changed.notify_all()
            except (OSError, SpoolFull) as error:
                why = error if isinstance(error, StateError) else (
                    f"{self.spool.directory}: events cannot be written: {error.strerror}")
                # The place in the log has not moved on; it is sent at once where that can be.
                if len(self.spool) or self.delivery.retry_at > time.monotonic() or (
                        self.delivery.send(data, ANSWER_WITHIN_S) is not ACCEPTED):
                    self._emit(f"{why}; they stay in the kernel's log, as long as it has them")
                    return False
            else:
                if dropped:
                    self._emit(f"{self.spool.directory}: the oldest events are dropped: more than "
                               f"a quarter of {self._config.harvest.spool_bytes} bytes wait "
                               f"(site.cfg: [harvest] spool_bytes)")
            del self._unstored[0]
        return True

    # -- sending

    def _send(self) -> None:
        while True:
            try:
                self.delivery.learn_time()
                while self._wait_to_send():
                    self._send_next()
                return
            except IostatsError as error:
                self._emit(f"events: {error}")
            except Exception as error:
                self._emit(f"internal error; please report: {error!r}; events wait")
            with self._changed:
                if not self._is_ended:
                    self._changed.wait(_AGAIN_S)

    def _wait_to_send(self) -> bool:
        """Wait until there is something to send, and a server to send it to; False at the end."""
        with self._changed:
            while not self._is_ended:
                left = self.delivery.retry_at - time.monotonic()
                if left <= 0 and (len(self.spool) or self._alone is not None):
                    return True
                self._changed.wait(min(left, _STEP_S) if left > 0 else _STEP_S)
            return False

    def _send_next(self) -> bool:
        """Send the oldest waiting message, or else the status; False if nothing waits."""
        with self._changed:
            message, alone = self.spool.find_first(), self._alone
            if message is None:
                self._alone = None
        if message is None:
            if alone is not None and self.delivery.send(alone, ANSWER_WITHIN_S) is not ACCEPTED:
                self._request_status()
            return False
        try:
            data = self.spool.load(message)
        except StateError as error:
            with self._changed:
                if not self._has(message):          # it was dropped, as the spool was full
                    return True
                self.spool.set_aside(message)
                self.dropped += message.mark
            self._emit(f"{error}; it is put aside")
            return True
        outcome = self.delivery.send(data, ANSWER_WITHIN_S)
        self.delivery.try_preferred_servers()
        if outcome not in (LATER, MOVED):
            with self._changed:
                if self._has(message):
                    self.spool.remove(message)
                    self.dropped += 0 if outcome is ACCEPTED else message.mark
        return True

    def _request_status(self) -> None:
        """Make the next scan send the server's status, even if it did not change."""
        self._status = None, 0.0

    def _has(self, entry: Spooled) -> bool:
        first = self.spool.find_first()
        return first is not None and first.number == entry.number


def _remove_growth(status: ServerStatus) -> dict[str, object]:
    """A status without what changes with every scan, and is sent each STATUS_EVERY_S."""
    return {**status, "log": {**status["log"], "lines": 0}, "metrics": None, "quotas": None,
            "lnet": status.get("lnet", {}).get("down"), "targets": {
        name: {**target, "capacity": _round_percents(target.get("capacity"))}
        for name, target in status.get("targets", {}).items()}}


def _round_percents(capacity: dict[str, int] | None) -> list[int] | None:
    return None if capacity is None else [
        int(compute_used_percent(Capacity(**capacity), resource)) for resource in RESOURCES]


def _find_spool_bytes(config: Config) -> int:
    """Bytes of messages that may wait."""
    return max(_LEAST_BYTES, int(config.harvest.spool_bytes) // _SHARE)
