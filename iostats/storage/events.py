"""
What went wrong on this storage server, told to the site's server as it comes, beside the sweeps.

    Gathering.look()  ->  messages, kept in [harvest] spool_dir/events  ->  Gathering.told()
                          ... sent to the site's server, and then forgotten

Two threads, since the kernel's log does not wait for a network: one reads the log and looks each
[events] every, the other sends.  What was gathered is on the disk before the place in the log moves
on, so a kill at any point loses none; what is then told again has the same ids, by which the
server takes events.  Nothing that fails here, or takes long, keeps a sweep back.

How the storage server stands goes with the next events, or alone, where it has changed, and each
STATUS_EVERY_S.  A message goes each HEARD_EVERY_S, by which the server knows that it is still told.
What has no events is not kept on the disk: the next one says more.
"""

from __future__ import annotations

import os
import select
import threading
import time

from iostats.base import private_files
from iostats.base.disk_queue import Full, Spool
from iostats.base.errors import IostatsError, NotDelivered, StateError
from iostats.events.event import as_json
from iostats.events.gather import Gathering
from iostats.node import identity as this_node
from iostats.storage.delivery import ANSWER_WITHIN_S, LATER, MOVED, TAKEN, Delivery
from iostats.storage.schedule import Pace
from iostats.wire.messages.events_encoder import packed_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.events.gather import Look

DIRECTORY, STATE = "events", "events.state"     # in [harvest] spool_dir
HEARD_EVERY_S, STATUS_EVERY_S = 15.0, 600.0
# What it takes, as systemd/iostats-harvest.service has it.
RIGHT = "its unit needs CapabilityBoundingSet=CAP_SYSLOG and DeviceAllow=/dev/kmsg r"
_SHARE = 4                                      # of [harvest] spool_bytes: a quarter, beside sweeps
_LEAST_BYTES = 1 << 20
_AGAIN_S = 30.0                                 # after a failure
_STEP_S = 5.0
_PAUSE_S = 0.02                                 # a ring of 1 MiB has 0.1 s of a flood


class AgentEvents:
    """
    The events of one storage server.  StateError where the directory for them can't be used.

    `servers`: (host, port) of the site's servers, in their order; `say`: gets a line, and what it
    is about where the line has numbers.

    Attributes:
        spool: the messages that wait.
        delivery: what sends them.
        dropped: events that went for lack of room, or that the server refused, and that no message
            has told of yet.
    """

    def __init__(self, config: Config, root: str, node: str, servers: Sequence[tuple[str, int]],
                 say: Callable[..., None]) -> None:
        self._config, self._root, self._node, self._say = config, root, node, say
        self._boot_id = this_node.boot_id(root)
        own = config["harvest.spool_dir"]
        self._state_path = os.path.join(own, STATE)
        self.spool = Spool(os.path.join(own, DIRECTORY), _room(config), "[harvest]")
        # Of these threads alone: what sweeps use is theirs.
        self._pace = Pace(config["harvest.cpu_percent"], time.thread_time)
        self.delivery = Delivery(config, node, servers, self._pace, say, lambda run: None,
                                 spool=self.spool, after_refusal="these events are dropped",
                                 says_away=False,       # the sweeps' says so
                                 moved=self._tell_status)
        self.dropped = 0
        self._seq = 0
        self._gathering: Gathering | None = None
        self._unkept: list[tuple[bytes, int]] = []      # for which the disk had no room
        self._every = float(config["events.every"])
        self._status: tuple[object, float] = None, 0.0  # the last that was told, and when
        self._made_at = 0.0                             # when the last message was made
        self._alone: bytes | None = None                # how the server stands, to be sent
        self._changed = threading.Condition()           # guards spool, dropped, _alone, _is_ended
        self._is_ended = False
        self._has_settings = False
        self._woken, self._wake = os.pipe()
        self._threads: list[threading.Thread] = []

    # -- as threads, or at once

    def start(self) -> None:
        """Gather and send until end()."""
        for name, work in (("events", self._gather), ("events sent", self._send)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self, within_s: float = 2.0) -> None:
        """Stop; what waits is on the disk, and what was not told is in the log."""
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

    def take_settings(self) -> None:
        """What may change while it runs has changed in `config`."""
        self._pace.limit(self._config["harvest.cpu_percent"])
        with self._changed:
            self.spool.most_bytes = _room(self._config)
        self._has_settings = True
        os.write(self._wake, b"x")

    def look_once(self) -> None:
        """One look; what it finds waits."""
        try:
            self._look(self._gathered())
        except (IostatsError, OSError) as error:
            self._say(f"events: {error}")

    def send_all(self, until: float) -> None:
        """
        Send what waits, until time.monotonic() is `until`; NotDelivered where it was not taken.

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
        look_at = time.monotonic()
        while not self._is_ended:
            try:
                gathering = self._gathered()
                self._pace.begin()
                if self._wait_for(gathering.fileno(), look_at):
                    gathering.read_log()
                    self._pace.rest()
                    time.sleep(_PAUSE_S)        # or a flood would be read line by line
                if self._has_settings:
                    self._has_settings = False
                    gathering.keep_at_most(self._config["events.max_kept"])
                    look_at = min(look_at, time.monotonic() + self._config["events.every"])
                if time.monotonic() >= look_at and not self._is_ended:
                    look_at = self._looked(gathering)
            except (IostatsError, OSError) as error:
                self._say(f"events: {error}")
                look_at = self._begin_anew()
            except Exception as error:          # a bug here is no reason to end the sweeps
                self._say(f"internal error; please report: {error!r}; events are gathered anew")
                look_at = self._begin_anew()

    def _gathered(self) -> Gathering:
        if self._gathering is None:
            self._gathering = Gathering(self._root, self._config, self._node, self._boot_id,
                                        self._state_path, ("server",))
        return self._gathering

    def _begin_anew(self) -> float:
        """After a failure: what was not told is read again.  When to look next."""
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

    def _looked(self, gathering: Gathering) -> float:
        """Look, and keep what was found; when to look next, time.monotonic()."""
        wanted = float(self._config["events.every"])
        began, cpu = time.monotonic(), time.thread_time()
        has_more = self._look(gathering)
        took_s = (time.thread_time() - cpu) * 100 / self._config["harvest.cpu_percent"]
        self._every = max(wanted, round(took_s, 1))
        if self._every > wanted:
            self._say(f"events: a look at this storage server takes {took_s:.1f} s of [harvest] "
                      f"cpu_percent; looking each {took_s:.0f} s, not each {wanted:.0f} s",
                      "events: a look takes long")
        return began + (took_s if has_more else self._every)

    def _look(self, gathering: Gathering) -> bool:
        """True where there is more to tell at once."""
        if not self._keep():
            return False
        found = gathering.look()
        for line in gathering.unused:
            self._say(f"events: {line}")
        gathering.unused.clear()
        log = found.status["log"]
        if (log["source"] == "none" and self._config["events.kernel_log"] != "no"
                and (self._root == "/" or os.path.lexists(f"{self._root}/dev/kmsg"))):
            self._say(f"events: the kernel's log cannot be read: {log['why']}; events of it are "
                      f"not told ({RIGHT}; or [events] kernel_log = no)")
        now = time.time()
        self._unkept = list(self._messages(found, now))
        if not self._keep():
            return False
        try:
            gathering.told()
        except OSError as error:                # another agent would tell it again, by the same ids
            self._say(f"{self._state_path}: cannot be kept: {private_files.why(error)}")
        return bool(found.more)

    def _messages(self, found: Look, now: float) -> list[tuple[bytes, int]]:
        """What is to be kept of a look; a status alone is put aside for the sender."""
        with self._changed:
            dropped, self.dropped = self.dropped + found.dropped, 0
            is_waiting = self._alone is not None
        last, at = self._status
        has_events = bool(found.events or dropped)
        # Lines come all the time, and say nothing new.
        status = {**found.status, "log": {**found.status["log"], "lines": 0}}
        is_new = is_waiting or status != last or not 0 <= now - at < STATUS_EVERY_S
        if not has_events and not is_new and 0 <= now - self._made_at < HEARD_EVERY_S:
            return []
        clock = self.delivery.clock
        head = {"node": self._node, "boot_id": self._boot_id, "seq": self._seq + 1,
                "made": round(now, 6), "every": self._every,
                "ahead_s": round(now - clock.now(), 3) if clock.is_known else None}
        messages = list(packed_events(head, [as_json(one) for one in found.events],
                                      found.status if is_new else None, dropped))
        self._seq, self._made_at = self._seq + len(messages), now
        if is_new:
            self._status = status, now
        if has_events:
            # One that goes for lack of room takes along what it says was dropped.
            data, count = messages.pop()
            return [*messages, (data, count + dropped)]
        with self._changed:
            self._alone = messages[0][0]
            self._changed.notify_all()
        return []

    def _keep(self) -> bool:
        """Put what was found on the disk; False where it has no room for it."""
        while self._unkept:
            data, count = self._unkept[0]
            run = os.urandom(8).hex()               # messages are no chain: each is its own
            try:
                with self._changed:
                    gone = self.spool.make_room(data, run)
                    self.dropped += sum(one.mark for one in gone)
                    self.spool.require_room(data)
                    self.spool.add(self.spool.write(run, count, data))
                    self._changed.notify_all()
            except (OSError, Full) as error:
                why = error if isinstance(error, StateError) else (
                    f"{self.spool.directory}: events cannot be kept: {error.strerror}")
                # The place in the log has not moved on; it is sent at once where that can be.
                if len(self.spool) or self.delivery.retry_at > time.monotonic() or (
                        self.delivery.send(data, ANSWER_WITHIN_S) is not TAKEN):
                    self._say(f"{why}; they stay in the kernel's log, as long as it has them")
                    return False
            else:
                if gone:
                    self._say(f"{self.spool.directory}: the oldest events are dropped: more than "
                              f"a quarter of {self._config['harvest.spool_bytes']} bytes wait "
                              f"(site.cfg: [harvest] spool_bytes)")
            del self._unkept[0]
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
                self._say(f"events: {error}")
            except Exception as error:
                self._say(f"internal error; please report: {error!r}; events wait")
            with self._changed:
                if not self._is_ended:
                    self._changed.wait(_AGAIN_S)

    def _wait_to_send(self) -> bool:
        """Until there is something to send, and a server to ask; False at the end."""
        with self._changed:
            while not self._is_ended:
                left = self.delivery.retry_at - time.monotonic()
                if left <= 0 and (len(self.spool) or self._alone is not None):
                    return True
                self._changed.wait(min(left, _STEP_S) if left > 0 else _STEP_S)
            return False

    def _send_next(self) -> bool:
        """Send the oldest that waits, or else how the server stands; False: nothing waits."""
        with self._changed:
            one, alone = self.spool.first(), self._alone
            if one is None:
                self._alone = None
        if one is None:
            if alone is not None and self.delivery.send(alone, ANSWER_WITHIN_S) is not TAKEN:
                self._tell_status()
            return False
        try:
            data = self.spool.load(one)
        except StateError as error:
            with self._changed:
                if not self._has(one):          # it went for lack of room meanwhile
                    return True
                self.spool.put_aside(one)
                self.dropped += one.mark
            self._say(f"{error}; it is put aside")
            return True
        outcome = self.delivery.send(data, ANSWER_WITHIN_S)
        self.delivery.look_back()
        if outcome not in (LATER, MOVED):
            with self._changed:
                if self._has(one):
                    self.spool.remove(one)
                    self.dropped += 0 if outcome is TAKEN else one.mark
        return True

    def _tell_status(self) -> None:
        """The next look tells how the server stands, whether or not that is new."""
        self._status = None, 0.0

    def _has(self, one: Spooled) -> bool:
        first = self.spool.first()
        return first is not None and first.number == one.number


def _room(config: Config) -> int:
    """Bytes of messages that may wait."""
    return max(_LEAST_BYTES, int(config["harvest.spool_bytes"]) // _SHARE)
