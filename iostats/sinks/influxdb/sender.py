"""
The sink: points go to a directory first, and from there to the database.

Points are kept in one file for some thousands of them, by one thread, and written to the database
by another.  A file is removed when the database has it.  If the server is killed between the two,
the points are written twice; they have the same tags and the same time, so they are there once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time

from iostats.base.errors import ConfigError
from iostats.sinks import Number
from iostats.sinks.influxdb import NAME, NUMBERS
from iostats.sinks.influxdb.database import (
    BAD,
    DENIED,
    LATER,
    NO_API,
    TAKEN,
    Answer,
    Database,
    where_of,
)
from iostats.sinks.influxdb.event_lines import EventLines
from iostats.sinks.influxdb.lines import Lines
from iostats.sinks.influxdb.node_lines import NodeLines
from iostats.sinks.influxdb.queue import PointQueue
from iostats.sinks.nodes import of_sweep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.sinks.influxdb.lines import SweepPoints
    from iostats.sinks.nodes import NodeClients
    from iostats.site.harvest_intake import Harvest, SiteSweep

    _Sweep = tuple[SweepPoints, float, dict[str, NodeClients]]

log = logging.getLogger("iostats")

AGAIN_S = (1.0, 60.0)               # the first and the longest pause after a failure
SAY_AGAIN_S = 3600.0
_POINTS_AT_ONCE = 5000              # what InfluxDB recommends
_SWEEPS_WAITING = 8                 # for the thread that writes them to the directory
_PROBES = 64                        # to find the points that a database does not take


class InfluxDB:
    """
    See the module; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        walking: done when the points of the last sweep are made; None before the first.
        stopped: set at the end; all pauses end with it.
    """

    connections = 0
    name = NAME

    def __init__(self, config: Config, say: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._config, self._say = config, say
        self.others: list[Any] = []
        self._where = where_of(config)
        self._queue = PointQueue(config["influxdb.spool_dir"], config["influxdb.spool_bytes"])
        self._lines = Lines(config["influxdb.schema"], config["influxdb.by_target"] == "yes", clock)
        self._nodes = (NodeLines(config["influxdb.max_nodes"])
                       if config["influxdb.by_node"] == "yes" else None)
        self._events = EventLines()
        if config["influxdb.events"] == "yes":
            self.keep_events = self._keep_events
        self._putting = threading.Lock()
        self.walking: asyncio.Future[None] | None = None
        # (points of jobs, seconds between two sweeps, what nodes did)
        self._sweeps: queue.Queue[_Sweep | None] = queue.Queue(_SWEEPS_WAITING)
        self.stopped = threading.Event()
        self.written = self.failures = self.late = 0
        self._database: Database | None = None
        self._said_at: dict[str, float] = {}
        self._failing_since: float | None = None
        self._threads = [threading.Thread(target=work, name=f"influxdb {name}", daemon=True)
                         for name, work in (("keeps", self._keep), ("sends", self._send))]
        for thread in self._threads:
            thread.start()

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Take all targets' totals, between the other things that the loop does."""
        if self._sweeps.full() or (self.walking is not None and not self.walking.done()):
            self.late += 1
            self._say_once("late", f"{self._queue.directory}: writing the points of a sweep takes "
                               f"longer than the time between sweeps; one sweep is skipped (the "
                               f"next one has its amounts)")
            return
        self.walking = asyncio.ensure_future(self._walk(sweep, harvest))

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._lines.forget(ids)

    async def _walk(self, sweep: SiteSweep, harvest: Harvest) -> None:
        try:
            for _ in self._lines.walk(sweep, harvest):
                await asyncio.sleep(0)
            assert self._lines.ready is not None
            clients: dict[str, NodeClients] = {}
            rates = harvest.clients.sweep if self._nodes is not None else None
            if rates is not None and rates.slot == sweep.slot:
                for _ in of_sweep(rates, harvest.clients.names, clients):
                    await asyncio.sleep(0)
            self._sweeps.put_nowait((self._lines.ready, sweep.every_s, clients))
        except Exception:
            log.exception("internal error; please report: a sweep was not written")

    def _keep(self) -> None:
        """The thread that writes points to the directory."""
        while True:
            sweep = self._sweeps.get()
            if sweep is None:
                return
            try:
                self._keep_one(*sweep)
            except Exception:                        # one sweep's trouble is not the next one's
                log.exception("internal error; please report: a sweep was not written")
            self._sweeps.task_done()

    def _keep_one(self, sweep: SweepPoints, every_s: float,
                  clients: dict[str, NodeClients]) -> None:
        lines = list(sweep.lines())
        if self._nodes is not None and clients:
            lines += self._nodes.lines(sweep.slot, every_s, clients, sweep.too_large)
        if sweep.too_large:
            self._say_once("too large", f"{sweep.too_large[0]} is above 2**63 - 1, the largest "
                           f"integer of a database: {len(sweep.too_large)} such fields of this "
                           f"sweep are left out, the rest of their points is written")
        self._put(lines)

    def _keep_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        """How many of them are in the directory: all, but none at the end."""
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
            self._say(f"influxdb: {points.directory}: cannot be written: {points.trouble}; up to "
                      f"16 MiB of points wait in memory")
        elif trouble and not points.trouble:
            self._say(f"influxdb: {points.directory} can be written again")
        if points.dropped > dropped:
            self._say_once("dropped", f"{points.directory} is full ([influxdb] spool_bytes): the "
                           f"oldest points are dropped, {points.dropped} so far")

    def _send(self) -> None:
        """The thread that writes points to the database."""
        pause_s = AGAIN_S[0]
        while not self.stopped.is_set():
            try:
                found = self._queue.oldest(0.5)
                if found is None:
                    continue
                what, lines = found
                answer = self._write(lines)
                if answer.kind == TAKEN:
                    self._reached_again()
                    self._queue.done(what)
                    pause_s = AGAIN_S[0]
                    continue
            except Exception as error:
                log.exception("internal error; please report: points were not sent")
                answer = Answer(LATER, f"was not asked: {error!r}", None)
            self._failed(answer)
            self.stopped.wait(pause_s if answer.after_s is None else answer.after_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    def _write(self, lines: list[bytes]) -> Answer:
        if self._database is None:
            try:
                self._where = where_of(self._config)     # the token may have been put right
            except ConfigError as error:
                return Answer(DENIED, str(error), None)
            self._database = Database(self._where, self._config["influxdb.timeout"],
                                      self._config["influxdb.ca_file"])
        waiting, probes = [lines], _PROBES
        while waiting:
            some = waiting.pop()
            answer = self._database.write(some)
            if answer.kind == TAKEN:
                self.written += len(some)
            elif answer.kind != BAD:
                return answer                            # all of it again, later
            elif len(some) > 1 and probes > 0:
                probes -= 1
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
            else:
                self._queue.put_aside(some)
                self._say_once("refused", f"{self._where.url} {answer.why}; {len(some)} points "
                               f"that it rejects are in {self._queue.directory}/refused, and are "
                               f"not sent again")
        return Answer(TAKEN, "", None)

    def _failed(self, answer: Answer) -> None:
        self.failures += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if answer.kind in (DENIED, NO_API):
            self._forget_database()
        if answer.kind == NO_API:
            fix = ("expected InfluxDB 2, InfluxDB 1.8 or later 1.x, or VictoriaMetrics: is "
                   "[influxdb] url in site.cfg right?")
        elif answer.kind == DENIED:
            fix = ("are the token, the bucket and the organization right? ([influxdb] in "
                   "site.cfg; the token's file is read again by itself)")
        else:
            fix = "tried again"
        self._say_once(answer.kind, f"{self._where.url} {answer.why}; points are kept in "
                       f"{self._queue.directory}; {fix}")

    def _forget_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _reached_again(self) -> None:
        if self._failing_since is not None:
            away_s = time.monotonic() - self._failing_since
            self._failing_since = None
            for kind in (DENIED, NO_API, LATER, "dropped"):
                self._said_at.pop(kind, None)
            gone = f", {self._queue.dropped} points were dropped" if self._queue.dropped else ""
            self._say(f"influxdb: {self._where.url} accepts points again, after {away_s:.0f} s"
                      f"{gone}")

    def _say_once(self, kind: str, text: str) -> None:
        """Say it, and again after an hour at the earliest."""
        now = time.monotonic()
        if now - self._said_at.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said_at[kind] = now
            self._say(f"influxdb: {text}")

    def unkept_sweeps(self) -> int:
        """How many sweeps are not in the directory yet."""
        return self._sweeps.unfinished_tasks

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        points, size = self._queue.waiting()
        values = (self.written, self._queue.refused, self._queue.dropped, self._lines.too_old,
                  self.late, self.failures, points, size)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """What waits in the directory is sent after the next start."""
        if self.walking is not None:
            self.walking.cancel()
        self.stopped.set()
        with contextlib.suppress(queue.Full):
            self._sweeps.put(None, timeout=1.0)
        for thread in self._threads:
            thread.join(2.0)
        self._forget_database()
