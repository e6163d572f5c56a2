"""
One cluster to which this server relays: a thread that stores messages on the disk and sends them.

Each storage server has a chain of messages of its own.  A chain that lost a message is given up;
the next one begins with all counts of that storage server.
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
from typing import TYPE_CHECKING

from iostats.base import private_files
from iostats.base.disk_queue import Spool
from iostats.base.errors import IostatsError, StateError
from iostats.lustre.nids import find_lnet
from iostats.storage.delivery import ACCEPTED, ANSWER_WITHIN_S, Delivery
from iostats.storage.schedule import Pace
from iostats.wire import auth, relays
from iostats.wire.messages.clients_encoder import MAGIC, encode_clients, make_block_head
from iostats.wire.messages.sweep_encoder import SweepMessages
from iostats.wire.relays import RelaySecret, load_destination_secret, require_safe_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.harvest.relay.outgoing import RelayedReading, RelayedSweep
    from iostats.wire.messages.clients_encoder import SentLoss
    from iostats.wire.relays import Destination

log = logging.getLogger(__name__)

_MAX_WAITING = 1000             # sweeps of storage servers that the thread has not stored yet
_CPU_PERCENT = 50.0             # of a core: the rest is for the server's loop
_PART_BYTES = 1 << 20           # of a message, before compression
_TURN_S = 2.0                   # of sending, before new sweeps are stored
_EARLY_S = 2.0                  # a sweep's moment may be so far in the other's future
_LOG_AGAIN_S, _MAX_LOGGED = 3600.0, 1000
_SAVE_EVERY_S = 30.0

lnet_of_known = lru_cache(1 << 17)(find_lnet)


@dataclass
class _Chain:
    """The messages about one storage server."""

    run: str = ""   # 16 hex digits; "" before the first message
    seq: int = 0    # of the last message
    waits: int = 0  # bytes stored since it began, or since all was sent
    # {seq of a sweep's last message: when its readings ended}, of those that wait
    reads: dict[int, float] = field(default_factory=dict)


class AcknowledgedUntil:
    """
    The last reading of each storage server that a cluster has acknowledged, in a file; a file that
    is missing or damaged counts as empty.

    Attributes:
        until: {storage server: the end of that reading, s since 1970}.
    """

    def __init__(self, path: str) -> None:
        self._path, self._saved_at, self._has_news = path, 0.0, False
        self.until: dict[str, float] = {}
        try:
            saved = json.loads(private_files.read_text(path))
            self.until = {name: float(until) for name, until in saved.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def set(self, server: str, until: float) -> None:
        self.until[server], self._has_news = until, True

    def save_sometimes(self) -> None:
        if time.monotonic() - self._saved_at >= _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write the file; data that is not saved is sent twice, which does no harm."""
        if not self._has_news:
            return
        self._saved_at, self._has_news = time.monotonic(), False
        try:
            private_files.write_atomically(self._path, json.dumps(self.until).encode())
        except (OSError, StateError):
            pass


class RelayDestination:
    """
    A cluster's server, with its spool and its thread.

    `name`: ours; ConfigError, or StateError if its spool cannot be used.

    Attributes:
        clock: the ServerClock of the cluster's server.
    """

    def __init__(self, config: Config, to: Destination, name: str, emit: Callable[[str], object],
                 now: Callable[[], float]) -> None:
        self._to, self._name, self._log_line, self._now = to, name, emit, now
        self._logged_at: dict[object, float] = {}
        self._max_spool_bytes = config.site.relay_spool_bytes
        try:
            require_safe_directory(to.secret)
        except StateError as error:
            emit(f"relay to {to.cluster}: {error}")
        try:
            if auth.make(to.secret):
                emit(f"{to.secret}: a new secret; copy it to {to.host}, to the directory [site] "
                     f"relay_secrets there, as {name}.secret")
        except StateError:
            emit(f"relay to {to.cluster}: {to.secret}: expected a secret of mode 0600, got none, "
                 f"and this user cannot make it; make it as root, or set [site] relay_secrets")
        spool = Spool(os.path.join(config.site.relay_spool_dir, to.cluster),
                      self._max_spool_bytes,
                      "[site]", prefix="relay_", use="another site's server relays")
        self._pace = Pace(_CPU_PERCENT, time.thread_time)
        self._acknowledged = AcknowledgedUntil(os.path.join(spool.directory, "told"))
        self._delivery = Delivery(
            config, name, [(to.host, to.port)], self._pace, self._log_hourly,
            self._note_lost, spool,
            lambda: [RelaySecret(name, load_destination_secret(to), cluster=to.cluster)],
            f"the server of cluster {to.cluster}", self._note_acknowledged)
        self.clock = self._delivery.clock
        self._chains: dict[str, _Chain] = {}
        self._complete: set[str] = set()               # storage servers whose counts were all sent
        self._sweeps: queue.Queue[RelayedSweep] = queue.Queue(_MAX_WAITING)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"relay {to.cluster}", daemon=True)

    def start(self) -> None:
        """Begin to store and to send sweeps."""
        self._thread.start()

    # -- on the server's loop

    def needs_full_sweep(self, server: str) -> bool:
        """Whether all counts of a storage server have to be sent, also earlier ones."""
        return server not in self._complete

    @property
    def has_room(self) -> bool:
        return self._sweeps.qsize() < _MAX_WAITING // 2

    def get_acknowledged_until(self, server: str, otherwise: float) -> float:
        """
        The end of the last reading of a storage server that the cluster has; `otherwise`: if
        unknown.
        """
        return self._acknowledged.until.get(server, otherwise)

    def need_all(self, server: str) -> None:
        self._complete.discard(server)

    def put(self, sweep: RelayedSweep) -> None:
        """
        Queue a RelayedSweep for the thread; if the queue is full, the next one is a full sweep.
        """
        if sweep.is_full:
            self._complete.add(sweep.server)
        try:
            self._sweeps.put_nowait(sweep)
        except queue.Full:
            self.need_all(sweep.server)

    def close(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(2.0)
        self._acknowledged.save()
        self._delivery.spool.close()

    # -- in its thread

    def _work(self) -> None:
        self._pace.begin()
        self._delivery.learn_time()
        while not self._stopped.is_set():
            try:
                self.store_and_send(0.2)
            except Exception as error:
                if not isinstance(error, (IostatsError, OSError)):
                    log.exception("internal error; please report: in the relay")
                self._log_hourly(f"{error}")
                self._complete.clear()
                self._stopped.wait(1.0)

    def store_and_send(self, within_s: float) -> None:
        """Store a sweep, if one arrives in that time, and send spooled messages for a moment."""
        try:
            self._store_sweep(self._sweeps.get(timeout=within_s))
        except queue.Empty:
            pass
        if self._sweeps.empty() and len(self._delivery.spool):
            # New sweeps have to be stored; an answer has its own timeout.
            ends = time.monotonic() + _TURN_S
            self._delivery.deliver(ends + ANSWER_WITHIN_S, lambda: (
                not self._sweeps.empty() or self._stopped.is_set() or time.monotonic() > ends))
            self._acknowledged.save_sometimes()

    def _store_sweep(self, sweep: RelayedSweep) -> None:
        """Store the messages of one storage server's sweep."""
        readings = [reading for reading in sweep.readings
                    if self._list_networks(reading.file_system)]
        chain = self._chains.setdefault(sweep.server, _Chain())
        spool, clock = self._delivery.spool, self.clock
        if not readings and not chain.run:
            return
        if not len(spool):
            for reading in self._chains.values():
                reading.waits = 0
        if sweep.is_full:
            chain.run, chain.seq, chain.waits, chain.reads = os.urandom(8).hex(), 0, 0, {}
        elif not chain.run or chain.waits > self._max_spool_bytes // 4 // len(self._chains):
            self.need_all(sweep.server)
            return
        ahead_s = self._now() - clock.now() if clock.is_known else None
        early_s = min(_EARLY_S, sweep.every_s / 4)
        slot = int((sweep.slot - (ahead_s or 0.0) + early_s) // sweep.every_s * sweep.every_s)
        if clock.is_known:                          # the time there may be a moment earlier
            self._stopped.wait(min(max(0.0, slot - clock.now()), early_s))

        def head() -> dict[str, Any]:
            chain.seq += 1
            return {"node": relays.make_relayed_name(sweep.server, self._name),
                    "boot_id": sweep.boot_id, "run": chain.run, "seq": chain.seq,
                    "full": sweep.is_full, "slot": max(0, slot), "every": sweep.every_s,
                    "read_ahead_s": None if ahead_s is None else round(ahead_s, 3)}
        until = max((reading.read_until for reading in readings), default=0.0)
        messages = SweepMessages(lambda data: self._store_message(chain, sweep.server, data), head,
                                 _PART_BYTES, MAGIC)
        for part in readings:
            for block, is_last in self._encode_blocks(part):
                messages.add_packed(block, is_last)
        messages.end()
        chain.reads[chain.seq] = until

    def _list_networks(self, file_system: str) -> frozenset[str]:
        """The networks of the cluster's clients in a file system."""
        return frozenset(network for network, names in self._to.lnets.items()
                         if not names or file_system in names)

    def _encode_blocks(self, reading: RelayedReading) -> Iterator[tuple[bytes, bool]]:
        """
        Yield (a packed block, whether it is the last one) with the counts of the cluster's clients.
        """
        lnets = self._list_networks(reading.file_system)
        places = [place for place, nid in enumerate(reading.nids) if lnet_of_known(nid) in lnets]
        amounts = reading.amounts[places]
        losses: list[SentLoss] = [
            {"since": loss.since, "until": loss.until, "target": loss.target, "nid": loss.nid,
             "why": loss.why} for loss in reading.losses
            if not loss.nid or lnet_of_known(loss.nid) in lnets]
        unread = {target: [nid for nid in nids if not nid or lnet_of_known(nid) in lnets]
                  for target, nids in reading.unread.items()}
        return encode_clients(
            make_block_head(reading.file_system, reading.kind,
                            relays.make_filtered_epoch(reading.epoch, sorted(lnets)),
                            reading.read_from,
                            reading.read_until, len(places), reading.targets, reading.unreadable,
                            losses, since_boot=reading.since_boot, instances=reading.instances,
                            started=reading.started, unread=unread),
            [reading.nids[place] for place in places], amounts.T.tolist(), _PART_BYTES)

    def _store_message(self, chain: _Chain, server: str, data: bytes) -> None:
        """Spool a message; if that fails, its chain ends."""
        if not chain.run:
            return                                  # an earlier message was not stored
        spool = self._delivery.spool
        dropped_runs = {spooled.run for spooled in spool.make_room(data, chain.run)}
        if dropped_runs:
            self._log_hourly(f"{spool.directory}: the oldest messages are dropped: more than "
                             f"{self._max_spool_bytes} bytes wait ([site] relay_spool_bytes)")
            for run in dropped_runs:
                self._note_lost(run)
        try:
            before = spool.size_bytes
            spool.require_room(data)
            spool.add(spool.write(chain.run, chain.seq, data))
            chain.waits += spool.size_bytes - before
        except (OSError, StateError) as error:
            # Perhaps the spooled messages can be sent now, and this one after them.
            if not (self._delivery.deliver(time.monotonic() + ANSWER_WITHIN_S)
                    and self._delivery.send(data, ANSWER_WITHIN_S) is ACCEPTED):
                self._log_hourly(f"{spool.directory}: a message of {server} cannot be stored: "
                                 f"{getattr(error, 'strerror', None) or error}")
                spool.drop(chain.run)
                self._note_lost(chain.run)

    def _note_acknowledged(self, spooled: Spooled) -> None:
        """The cluster has acknowledged a message."""
        for server, chain in self._chains.items():
            if chain.run == spooled.run and spooled.mark in chain.reads:
                self._acknowledged.set(server, chain.reads.pop(spooled.mark))

    def _note_lost(self, run: str) -> None:
        """A message of the chain `run` will not reach the cluster."""
        for server, chain in self._chains.items():
            if chain.run == run:
                chain.run = ""
                self.need_all(server)

    def _log_hourly(self, text: str, key: object = None) -> None:
        """Log `text`, once an hour; `key`: its subject, if the text has numbers."""
        now, key = time.monotonic(), key or text
        if now - self._logged_at.get(key, -_LOG_AGAIN_S) < _LOG_AGAIN_S:
            return
        if len(self._logged_at) >= _MAX_LOGGED:
            self._logged_at.clear()
        self._logged_at[key] = now
        self._log_line(f"relay to {self._to.cluster}: {text}")
