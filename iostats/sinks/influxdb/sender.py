"""
The sink: points are written to a directory first, and from there to the database.

    DIRECTORY/NUMBER.COUNT.points    COUNT lines of the line protocol, compressed (base.disk_queue)
    DIRECTORY/refused/TIME.txt       lines that the database rejects

One thread writes files of some thousands of points, another sends them to the database, and removes
each file after that.  If the server is killed between the two, the points are sent twice; they have
the same tags and the same time, so the database has them once.  The directory has a bounded size;
while it cannot be written, some points wait in memory.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import os
import queue
import threading
import time
import zlib
from typing import TYPE_CHECKING

from iostats.base.disk_queue import Spool, Spooled
from iostats.base.errors import ConfigError, StateError
from iostats.base.private_files import make_directory, write_atomically
from iostats.harvest.sink import Number, Sink
from iostats.sinks.influxdb import NAME, NUMBERS, InfluxdbSection
from iostats.sinks.influxdb.database import (
    ACCEPTED,
    BAD,
    DENIED,
    LATER,
    NO_API,
    Answer,
    load_address,
    write,
)
from iostats.sinks.influxdb.lines import (
    EventLines,
    Lines,
    NodeLines,
    StatusLines,
    format_finished_jobs,
)
from iostats.sinks.nodes import collect_node_clients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Union

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.events.status import ServerStatus
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.sinks.influxdb.lines import SweepPoints
    from iostats.sinks.nodes import NodeClients
    from iostats.totals.record import Record

    _Sweep = tuple[SweepPoints, float, dict[str, NodeClients]]
    Batch = Union[Spooled, tuple[int, bytes]]       # a file, or (points, data) in memory

_IN_MEMORY = 16 << 20               # bytes, where the directory can't be written


class PointQueue:
    """
    Points that wait for the database; above `most_bytes` the oldest are dropped; ConfigError for an
    unusable directory.  One thread may add points while another removes them.

    Attributes:
        directory: where they wait.
        dropped: points dropped because the directory was full; `refused`: points put aside.
        trouble: why the directory can't be written, in words; "" when it can.
    """

    def __init__(self, directory: str, most_bytes: int) -> None:
        self.directory, self._limit = directory, most_bytes
        self._aside = os.path.join(directory, "refused")
        self.dropped = self.refused = 0
        self.trouble = ""
        self._changed = threading.Condition()
        self._memory: collections.deque[tuple[int, bytes]] = collections.deque()
        try:
            make_directory(self._aside, "in site.cfg: [influxdb] spool_dir")
            self._spool = Spool(directory, most_bytes, "[influxdb]", ".points", is_private=False)
        except StateError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{error.filename or directory}: cannot be used: {error.strerror}; "
                              f"name another directory in site.cfg: [influxdb] spool_dir") from None

    def put(self, lines: list[str]) -> None:
        """Store points, on the disk if possible, before this returns."""
        data = zlib.compress("\n".join(lines).encode("utf-8", "backslashreplace"), 1)
        with self._changed:
            # One that is being sent may be counted as dropped, and arrive all the same.
            self.dropped += sum(spooled.mark for spooled in self._spool.make_room(data))
        try:
            spooled = self._spool.write("", len(lines), data)
        except (OSError, StateError) as error:
            with self._changed:
                self.trouble = getattr(error, "strerror", None) or str(error)
                self._memory.append((len(lines), data))
                while sum(len(compressed) for _, compressed in self._memory) > _IN_MEMORY:
                    self.dropped += self._memory.popleft()[0]
                self._changed.notify_all()
            return
        with self._changed:
            self.trouble = ""
            self._spool.add(spooled)
            self._changed.notify_all()

    def oldest(self, within_s: float) -> tuple[Batch, list[bytes]] | None:
        """Return (handle, lines) of the oldest points, or None if none arrive in that time."""
        with self._changed:
            if not len(self._spool) and not self._memory:
                self._changed.wait(within_s)
            spooled = self._spool.find_first()
            if spooled is None:
                if not self._memory:
                    return None
                in_memory = self._memory[0]
                return in_memory, zlib.decompress(in_memory[1]).split(b"\n")
        try:
            return spooled, zlib.decompress(self._spool.load(spooled)).split(b"\n")
        except (StateError, zlib.error):
            # Somebody has removed or damaged it; what was in it can't be had any more.
            with self._changed:
                if self._spool.find_first() is spooled:
                    self.dropped += spooled.mark
            self.done(spooled)
            return None

    def done(self, batch: Batch) -> None:
        """Remove these points."""
        with self._changed:
            if not isinstance(batch, Spooled):
                if self._memory and self._memory[0] is batch:
                    self._memory.popleft()
            elif self._spool.find_first() is batch:
                self._spool.remove(batch)

    def put_aside(self, lines: list[bytes]) -> None:
        """
        Store points that the database rejects for an administrator, up to a limit, the newest.
        """
        self.refused += len(lines)
        name = f"{time.time_ns():020d}.txt"
        try:
            write_atomically(os.path.join(self._aside, name), b"\n".join(lines) + b"\n")
            names = sorted(os.listdir(self._aside), reverse=True)
            size_bytes = 0
            for file_name in names:
                path = os.path.join(self._aside, file_name)
                size_bytes += os.path.getsize(path)
                if size_bytes > self._limit // 10 and file_name != name:
                    os.unlink(path)
        except OSError:
            pass                                    # it is counted, and said

    def waiting(self) -> tuple[int, int]:
        """Return (points, bytes) that wait."""
        with self._changed:
            return (sum(spooled.mark for spooled in self._spool) + sum(count for count,
                                                                       _ in self._memory),
                    self._spool.size_bytes + sum(len(data) for _, data in self._memory))


log = logging.getLogger(__name__)

AGAIN_S = (1.0, 60.0)               # the first and the longest pause after a failure
SAY_AGAIN_S = 3600.0
_POINTS_AT_ONCE = 5000              # what InfluxDB recommends
_SWEEPS_WAITING = 8                 # for the thread that writes them to the directory
_PROBES = 64                        # to find the points that a database does not take


class InfluxDB:
    """
    The sink; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        walking: done when the points of the last sweep are made; None before the first.
        stopped: set at the end; all pauses end with it.
    """

    connections = 0
    name = NAME

    def __init__(self, config: Config, emit: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._config, self._emit = config, emit
        self._options = options = config.find_section(InfluxdbSection)
        self.others: list[Sink] = []
        self._where = load_address(config)
        self._queue = PointQueue(options.spool_dir, options.spool_bytes)
        self._lines = Lines(options.schema, options.by_target == "yes", clock)
        self._nodes = (NodeLines(options.max_nodes)
                       if options.by_node == "yes" else None)
        self._events, self._statuses = EventLines(), StatusLines()
        if options.events == "yes":
            self.store_events = self._store_events
        self._putting = threading.Lock()
        self.walking: asyncio.Future[None] | None = None
        # (points of jobs, seconds between two sweeps, what nodes did)
        self._sweeps: queue.Queue[_Sweep | None] = queue.Queue(_SWEEPS_WAITING)
        self.stopped = threading.Event()
        self.written = self.failures = self.late = 0
        self._logged_at: dict[str, float] = {}
        self._failing_since: float | None = None
        self._threads = [threading.Thread(target=work, name=f"influxdb {name}", daemon=True)
                         for name, work in (("keeps", self._write_sweeps), ("sends", self._send))]
        for thread in self._threads:
            thread.start()

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Read the totals of all targets in steps, between other tasks of the event loop."""
        if self._sweeps.full() or (self.walking is not None and not self.walking.done()):
            self.late += 1
            self._log_once("late", f"{self._queue.directory}: writing the points of a sweep takes "
                               f"longer than the time between sweeps; one sweep is skipped (the "
                               f"next one has its amounts)")
            return
        self.walking = asyncio.ensure_future(self._walk(sweep, harvest))

    def event_status(self, node: str, received_at: float, every_s: float,
                     status: ServerStatus) -> None:
        """Write the numbers that a storage server has reported, with the next sweep."""
        self._statuses.add(node, received_at, status)

    def records(self, records: Sequence[Record]) -> None:
        """Write the I/O of finished jobs on file systems other than Lustre."""
        lines = format_finished_jobs(records)
        if lines:
            asyncio.get_running_loop().run_in_executor(None, self._put, lines)

    def drop_ids(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._lines.drop_ids(ids)

    async def _walk(self, sweep: SiteSweep, harvest: Harvest) -> None:
        try:
            for _ in self._lines.walk(sweep, harvest):
                await asyncio.sleep(0)
            assert self._lines.ready is not None
            clients: dict[str, NodeClients] = {}
            rates = harvest.clients.sweep if self._nodes is not None else None
            if rates is not None and rates.slot == sweep.slot:
                for _ in collect_node_clients(rates, harvest.clients.names, clients):
                    await asyncio.sleep(0)
            self._sweeps.put_nowait((self._lines.ready, sweep.every_s, clients))
        except Exception:
            log.exception("internal error; please report: a sweep was not written")

    def _write_sweeps(self) -> None:
        """Write the points of each sweep to the directory; runs in a thread of its own."""
        while True:
            sweep = self._sweeps.get()
            if sweep is None:
                return
            try:
                self._store_sweep(*sweep)
            except Exception:                        # one sweep's trouble is not the next one's
                log.exception("internal error; please report: a sweep was not written")
            self._sweeps.task_done()

    def _store_sweep(self, sweep: SweepPoints, every_s: float,
                     clients: dict[str, NodeClients]) -> None:
        lines = [*sweep.lines(), *self._statuses.lines()]
        if self._nodes is not None and clients:
            lines += self._nodes.lines(sweep.slot, every_s, clients, sweep.too_large)
        if sweep.too_large:
            self._log_once("too large", f"{sweep.too_large[0]} is above 2**63 - 1, the largest "
                           f"integer of a database: {len(sweep.too_large)} such fields of this "
                           f"sweep are left out, the rest of their points is written")
        self._put(lines)

    def _store_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        """Store events, and return their number; 0 at the end."""
        if self.stopped.is_set():
            return 0
        self._put(self._events.lines(events, names))
        return len(events)

    def _put(self, lines: list[str]) -> None:
        with self._putting:
            self._put_alone(lines)

    def _put_alone(self, lines: list[str]) -> None:
        points, dropped, trouble = self._queue, self._queue.dropped, self._queue.trouble
        for first in range(0, len(lines), _POINTS_AT_ONCE):
            points.put(lines[first:first + _POINTS_AT_ONCE])
        if points.trouble and not trouble:
            self._emit(f"influxdb: {points.directory}: cannot be written: {points.trouble}; up to "
                       f"16 MiB of points wait in memory")
        elif trouble and not points.trouble:
            self._emit(f"influxdb: {points.directory} can be written again")
        if points.dropped > dropped:
            self._log_once("dropped", f"{points.directory} is full ([influxdb] spool_bytes): the "
                           f"oldest points are dropped, {points.dropped} so far")

    def _send(self) -> None:
        """The thread that writes points to the database."""
        pause_s = AGAIN_S[0]
        while not self.stopped.is_set():
            try:
                oldest = self._queue.oldest(0.5)
                if oldest is None:
                    continue
                batch, lines = oldest
                answer = self._write(lines)
                if answer.kind == ACCEPTED:
                    self._log_recovery()
                    self._queue.done(batch)
                    pause_s = AGAIN_S[0]
                    continue
            except Exception as error:
                log.exception("internal error; please report: points were not sent")
                answer = Answer(LATER, f"was not asked: {error!r}", None)
            self._handle_failure(answer)
            self.stopped.wait(pause_s if answer.after_s is None else answer.after_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    def _write(self, lines: list[bytes]) -> Answer:
        try:
            self._where = load_address(self._config)         # the token may have been corrected
        except ConfigError as error:
            return Answer(DENIED, str(error), None)
        waiting, probes = [lines], _PROBES
        while waiting:
            part = waiting.pop()
            answer = write(self._where, part, self._options.timeout,
                           self._options.ca_file)
            if answer.kind == ACCEPTED:
                self.written += len(part)
            elif answer.kind != BAD:
                return answer                            # all of it again, later
            elif len(part) > 1 and probes > 0:
                probes -= 1
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
            else:
                self._queue.put_aside(part)
                self._log_once("refused", f"{self._where.url} {answer.why}; {len(part)} points "
                               f"that it rejects are in {self._queue.directory}/refused, and are "
                               f"not sent again")
        return Answer(ACCEPTED, "", None)

    def _handle_failure(self, answer: Answer) -> None:
        self.failures += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if answer.kind == NO_API:
            fix = ("expected InfluxDB 2, InfluxDB 1.8 or later 1.x, or VictoriaMetrics: is "
                   "[influxdb] url in site.cfg right?")
        elif answer.kind == DENIED:
            fix = ("are the token, the bucket and the organization right? ([influxdb] in "
                   "site.cfg; the token's file is read again by itself)")
        else:
            fix = "tried again"
        self._log_once(answer.kind, f"{self._where.url} {answer.why}; points are stored in "
                       f"{self._queue.directory}; {fix}")

    def _log_recovery(self) -> None:
        if self._failing_since is not None:
            away_s = time.monotonic() - self._failing_since
            self._failing_since = None
            for kind in (DENIED, NO_API, LATER, "dropped"):
                self._logged_at.pop(kind, None)
            losses = f", {self._queue.dropped} points were dropped" if self._queue.dropped else ""
            self._emit(f"influxdb: {self._where.url} accepts points again, after {away_s:.0f} s"
                       f"{losses}")

    def _log_once(self, kind: str, text: str) -> None:
        """Log a line, but not more than once an hour."""
        now = time.monotonic()
        if now - self._logged_at.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._logged_at[kind] = now
            self._emit(f"influxdb: {text}")

    def count_pending_sweeps(self) -> int:
        """The number of sweeps that are not in the directory yet."""
        return self._sweeps.unfinished_tasks

    def numbers(self) -> list[Number]:
        """Return [Number] for other sinks to show."""
        points, size_bytes = self._queue.waiting()
        values = (self.written, self._queue.refused, self._queue.dropped, self._lines.too_old,
                  self.late, self.failures, points, size_bytes)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """End the threads; points in the directory are sent after the next start."""
        if self.walking is not None:
            self.walking.cancel()
        self.stopped.set()
        with contextlib.suppress(queue.Full):
            self._sweeps.put(None, timeout=1.0)
        for thread in self._threads:
            thread.join(2.0)
