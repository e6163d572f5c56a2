"""
One cluster to which this server relays: a thread that keeps messages on the disk and sends them.

Each storage server has a chain of messages of its own.  A chain that lost a message is given up;
the next one begins with all that is known of that storage server.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache

from iostats.base import private_files
from iostats.base.disk_queue import Spool
from iostats.base.errors import IostatsError, StateError
from iostats.lustre.nids import lnet_of
from iostats.storage.delivery import ANSWER_WITHIN_S, TAKEN, Delivery
from iostats.storage.schedule import Pace
from iostats.wire import relays, secret
from iostats.wire.messages.clients_encoder import MAGIC, block_head, packed_clients
from iostats.wire.messages.sweep_encoder import SweepMessages
from iostats.wire.relay_auth import RelaySecret, require_safe_directory, secret_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.site.relay.outgoing import RelayedReading, RelayedSweep
    from iostats.wire.relays import Destination

log = logging.getLogger("iostats")

_MOST_WAITING = 1000                # sweeps of storage servers, before the thread has kept them
_CPU_PERCENT = 50.0                 # of a core: the server's loop is to have the rest
_PART_BYTES = 1 << 20               # of a message, before compression
_TURN_S = 2.0                       # of sending, between two looks at what is to be kept
_EARLY_S = 2.0                      # a sweep's moment may be so far in the other's future
_SAY_AGAIN_S, _MOST_SAID = 3600.0, 1000
_SAVE_EVERY_S = 30.0

lnet_of_known = lru_cache(1 << 17)(lnet_of)


@dataclass
class _Chain:
    """
    Messages about one storage server.

    Attributes:
        run: 16 hex digits; "" before the first message.
        seq: of the last message.
        reads: {seq of a sweep's last message: when its readings ended}, of those that wait.
        waits: bytes that were kept since it began, or since all was sent.
    """

    run: str = ""
    seq: int = 0
    waits: int = 0
    reads: dict[int, float] = field(default_factory=dict)


class ToldUntil:
    """
    Up to which reading of each storage server a cluster was told, in a file; one that is gone or
    damaged is as none.

    Attributes:
        until: {storage server: when that reading ended, s since 1970}.
    """

    def __init__(self, path: str) -> None:
        self._path, self._saved_at, self._has_news = path, 0.0, False
        self.until: dict[str, float] = {}
        try:
            known = json.loads(private_files.read_text(path))
            self.until = {name: float(until) for name, until in known.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def set(self, server: str, until: float) -> None:
        self.until[server], self._has_news = until, True

    def save_sometimes(self) -> None:
        if time.monotonic() - self._saved_at >= _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """What is not saved is told twice, which marks nothing more."""
        if not self._has_news:
            return
        self._saved_at, self._has_news = time.monotonic(), False
        try:
            private_files.write_whole(self._path, json.dumps(self.until).encode())
        except (OSError, StateError):
            pass


class RelayDestination:
    """
    See the module.  `name`: ours; ConfigError, or StateError where its spool can't be used.

    Attributes:
        clock: the ServerClock of the cluster's server.
    """

    def __init__(self, config: Config, to: Destination, name: str, say: Callable[[str], object],
                 now: Callable[[], float]) -> None:
        self._to, self._name, self._tell, self._now = to, name, say, now
        self._said: dict[object, float] = {}
        self._most = config["site.relay_spool_bytes"]
        try:
            require_safe_directory(to.secret)
        except StateError as error:
            say(f"relay to {to.cluster}: {error}")
        try:
            if secret.make(to.secret):
                say(f"{to.secret}: a new secret; copy it to {to.host}, to the directory [site] "
                    f"relay_secrets there, as {name}.secret")
        except StateError:
            say(f"relay to {to.cluster}: {to.secret}: expected a secret of mode 0600, got none, "
                f"and this user cannot make it; make it as root, or set [site] relay_secrets")
        spool = Spool(os.path.join(config["site.relay_spool_dir"], to.cluster), self._most,
                      "[site]", prefix="relay_", other="another site's server relays")
        self._pace = Pace(_CPU_PERCENT, time.thread_time)
        self._told = ToldUntil(os.path.join(spool.directory, "told"))
        self._delivery = Delivery(
            config, name, [(to.host, to.port)], self._pace, self._say,
            self._lost, spool, lambda: [RelaySecret(name, secret_to(to), cluster=to.cluster)],
            f"the server of cluster {to.cluster}", self._taken)
        self.clock = self._delivery.clock
        self._chains: dict[str, _Chain] = {}
        self._known: set[str] = set()               # storage servers of which all was told
        self._sweeps: queue.Queue[RelayedSweep] = queue.Queue(_MOST_WAITING)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"relay {to.cluster}", daemon=True)

    def start(self) -> None:
        """Begin to keep and to send what is put."""
        self._thread.start()

    # -- on the server's loop

    def needs_all(self, server: str) -> bool:
        """Whether all of a storage server is to be told, whatever was told before."""
        return server not in self._known

    @property
    def has_room(self) -> bool:
        return self._sweeps.qsize() < _MOST_WAITING // 2

    def told_until(self, server: str, otherwise: float) -> float:
        """The last reading of a storage server that the cluster has; `otherwise`: not known."""
        return self._told.until.get(server, otherwise)

    def need_all(self, server: str) -> None:
        self._known.discard(server)

    def put(self, sweep: RelayedSweep) -> None:
        """Let the thread have a RelayedSweep; where it is too slow, the next one is a full one."""
        if sweep.is_full:
            self._known.add(sweep.server)
        try:
            self._sweeps.put_nowait(sweep)
        except queue.Full:
            self.need_all(sweep.server)

    def close(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(2.0)
        self._told.save()
        self._delivery.spool.close()

    # -- in its thread

    def _work(self) -> None:
        self._pace.begin()
        self._delivery.learn_time()
        while not self._stopped.is_set():
            try:
                self.turn(0.2)
            except Exception as error:
                if not isinstance(error, (IostatsError, OSError)):
                    log.exception("internal error; please report: in the relay")
                self._say(f"{error}")
                self._known.clear()
                self._stopped.wait(1.0)

    def turn(self, within_s: float) -> None:
        """Keep a sweep, if one comes in that time, and send what waits, for a moment."""
        try:
            self._keep(self._sweeps.get(timeout=within_s))
        except queue.Empty:
            pass
        if self._sweeps.empty() and len(self._delivery.spool):
            # What came meanwhile is to be kept; an answer has its own time.
            ends = time.monotonic() + _TURN_S
            self._delivery.deliver(ends + ANSWER_WITHIN_S, lambda: (
                not self._sweeps.empty() or self._stopped.is_set() or time.monotonic() > ends))
            self._told.save_sometimes()

    def _keep(self, sweep: RelayedSweep) -> None:
        """Keep the messages of one storage server's sweep."""
        readings = [one for one in sweep.readings if self._lnets(one.file_system)]
        chain = self._chains.setdefault(sweep.server, _Chain())
        spool, clock = self._delivery.spool, self.clock
        if not readings and not chain.run:
            return
        if not len(spool):
            for one in self._chains.values():
                one.waits = 0
        if sweep.is_full:
            chain.run, chain.seq, chain.waits, chain.reads = os.urandom(8).hex(), 0, 0, {}
        elif not chain.run or chain.waits > self._most // 4 // len(self._chains):
            self.need_all(sweep.server)
            return
        ahead_s = self._now() - clock.now() if clock.is_known else None
        early_s = min(_EARLY_S, sweep.every / 4)
        slot = int((sweep.slot - (ahead_s or 0.0) + early_s) // sweep.every * sweep.every)
        if clock.is_known:                          # it may be a moment before that there
            self._stopped.wait(min(max(0.0, slot - clock.now()), early_s))

        def head() -> dict[str, Any]:
            chain.seq += 1
            return {"node": relays.relayed_name(sweep.server, self._name),
                    "boot_id": sweep.boot_id, "run": chain.run, "seq": chain.seq,
                    "full": sweep.is_full, "slot": max(0, slot), "every": sweep.every,
                    "read_ahead_s": None if ahead_s is None else round(ahead_s, 3)}
        until = max((one.read_until for one in readings), default=0.0)
        messages = SweepMessages(lambda data: self._keep_message(chain, sweep.server, data), head,
                                 _PART_BYTES, MAGIC)
        for reading in readings:
            for block, is_last in self._blocks(reading):
                messages.add_packed(block, is_last)
        messages.end()
        chain.reads[chain.seq] = until

    def _lnets(self, file_system: str) -> frozenset[str]:
        """The networks of the cluster's clients in a file system."""
        return frozenset(network for network, names in self._to.lnets.items()
                         if not names or file_system in names)

    def _blocks(self, reading: RelayedReading) -> Iterator[tuple[bytes, bool]]:
        """(a packed block, it is the last one) of what the cluster's clients did."""
        lnets = self._lnets(reading.file_system)
        places = [place for place, nid in enumerate(reading.nids) if lnet_of_known(nid) in lnets]
        amounts = reading.amounts[places]
        losses = [one._asdict() for one in reading.losses
                  if not one.nid or lnet_of_known(one.nid) in lnets]
        return packed_clients(
            block_head(reading.file_system, reading.kind,
                       relays.filtered_epoch(reading.epoch, sorted(lnets)), reading.read_from,
                       reading.read_until, len(places), reading.targets, reading.unreadable,
                       losses, since_boot=reading.since_boot),
            [reading.nids[place] for place in places], amounts.T.tolist(), _PART_BYTES)

    def _keep_message(self, chain: _Chain, server: str, data: bytes) -> None:
        """Let a message wait; where it can't, its chain ends."""
        if not chain.run:
            return                                  # a message before it was not kept
        spool = self._delivery.spool
        gone = {one.run for one in spool.make_room(data, chain.run)}
        if gone:
            self._say(f"{spool.directory}: the oldest messages are dropped: more than "
                      f"{self._most} bytes wait ([site] relay_spool_bytes)")
            for run in gone:
                self._lost(run)
        try:
            before = spool.size
            spool.require_room(data)
            spool.add(spool.write(chain.run, chain.seq, data))
            chain.waits += spool.size - before
        except (OSError, StateError) as error:
            # What waits may go now, and this one after it.
            if not (self._delivery.deliver(time.monotonic() + ANSWER_WITHIN_S)
                    and self._delivery.send(data, ANSWER_WITHIN_S) is TAKEN):
                self._say(f"{spool.directory}: a message of {server} can't be kept: "
                          f"{getattr(error, 'strerror', None) or error}")
                spool.drop(chain.run)
                self._lost(chain.run)

    def _taken(self, one: Spooled) -> None:
        """The cluster has acknowledged a message."""
        for server, chain in self._chains.items():
            if chain.run == one.run and one.mark in chain.reads:
                self._told.set(server, chain.reads.pop(one.mark))

    def _lost(self, run: str) -> None:
        """A message of the chain `run` will not reach the cluster."""
        for server, chain in self._chains.items():
            if chain.run == run:
                chain.run = ""
                self.need_all(server)

    def _say(self, text: str, key: object = None) -> None:
        """`text`, once in an hour; `key`: what it is about, where the text has numbers."""
        now, key = time.monotonic(), key or text
        if now - self._said.get(key, -_SAY_AGAIN_S) < _SAY_AGAIN_S:
            return
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said[key] = now
        self._tell(f"relay to {self._to.cluster}: {text}")
