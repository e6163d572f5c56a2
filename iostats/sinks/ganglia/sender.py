"""
The sink: a thread that makes the datagrams of a sweep, and sends them no faster than gmond can take
them.

gmond has one thread for datagrams and, unless its configuration says otherwise, room for some
hundred that wait; what comes in faster is lost, and nobody is told.  So a few are sent at a time,
over half of the time between two sweeps, or faster where that is not enough.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import threading
import time

from iostats.sinks import Number
from iostats.sinks.ganglia import NUMBERS
from iostats.sinks.ganglia.destinations import GmondAddress, addresses_of, interface_of
from iostats.sinks.ganglia.hosts import Hosts
from iostats.sinks.ganglia.packet import Host, safe
from iostats.sinks.ganglia.datagrams import Datagrams, NodeRates
from iostats.sinks.nodes import of_sweep, sums_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.base.config import Config
    from iostats.sinks.nodes import NodeClients
    from iostats.site.harvest_intake import Harvest, SiteSweep

    _Sweep = tuple[float, float, dict[str, NodeClients]]

log = logging.getLogger("iostats")

SAY_AGAIN_S = 3600.0
_AT_ONCE = 20                       # datagrams; the receiver's buffer takes some 250 of these
_LEAST_PER_S = 1000.0               # a small site has them all at once
_PART = 0.5                         # of the time between two sweeps
_LONG_S = 0.1                       # a pause that ends early when the server ends
_TOO_OLD = 3                        # sweeps: what was so long ago is not now
_PATIENCE = 5                       # sweeps until somebody is told of nodes that are not sent


class Ganglia:
    """
    See the module; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        walking: done when the last sweep is with the thread; None before the first.
        destinations: [GmondAddress].
    """

    connections = 0

    def __init__(self, config: Config, say: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self.others: list[Any] = []
        interface = interface_of(config)
        self.destinations = [GmondAddress(host, port, config["ganglia.ttl"], interface)
                             for host, port in addresses_of(config)]
        self._most_per_s = config["ganglia.packets_per_second"]
        self._sends_low = config["ganglia.lower_bounds"] == "yes"
        self._datagrams = Datagrams(
            config["ganglia.metrics"], dict(word.split("=") for word in config["ganglia.names"]),
            Hosts(config["ganglia.address"], config["ganglia.domain"],
                  config["ganglia.unnamed"] == "yes"),
            _sums_host(config["ganglia.sums_host"]), config["ganglia.idle"],
            config["ganglia.send_metadata_interval"], self._sends_low)
        self.walking: asyncio.Future[None] | None = None
        # (slot, every, {file system: NodeClients})
        self._sweeps: queue.Queue[_Sweep | None] = queue.Queue(1)
        self._stopped = threading.Event()
        self._left_out = 0
        self._said_at: dict[str, float] = {}
        self._often: dict[str, int] = {}
        self._failing: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="ganglia", daemon=True)
        self._thread.start()

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Take the rates of all clients, between the other things that the loop does."""
        rates = harvest.clients.sweep
        if rates is None or rates.slot != sweep.slot:
            return
        if self._clock() - rates.slot > _TOO_OLD * rates.every_s:
            self._left_out += 1
            return
        if self._sweeps.unfinished_tasks or (self.walking is not None and not self.walking.done()):
            self._left_out += 1
            self._say_once("late", "sending a sweep takes longer than the time between sweeps; "
                           "one sweep is skipped; [ganglia] packets_per_second can be larger, or "
                           "metrics fewer")
            return
        self.walking = asyncio.ensure_future(self._walk(rates, harvest.clients.names))

    def forget(self, ids: Iterable[str]) -> None:
        """It knows no ids of job_stats."""

    async def _walk(self, sweep: Any, names: Any) -> None:
        try:
            found: dict[str, NodeClients] = {}
            for _ in of_sweep(sweep, names, found):
                await asyncio.sleep(0)
            self._sweeps.put_nowait((sweep.slot, sweep.every_s, found))
        except Exception:
            log.exception("internal error; please report: a sweep was not sent")

    def _run(self) -> None:
        """The thread that sends."""
        while True:
            sweep = self._sweeps.get()
            if sweep is None:
                return
            try:
                self._send_sweep(*sweep)
            except Exception:                            # one sweep's trouble is not the next one's
                log.exception("internal error; please report: a sweep was not sent")
            self._sweeps.task_done()

    def _send_sweep(self, slot: float, every_s: float,
                    file_systems: dict[str, NodeClients]) -> None:
        made = self._datagrams.of(slot, every_s, {
            fs: NodeRates(places.names, places.nids, places.is_known,
                          sums_of(places, rates.rates),
                          # An estimate is no rate to compare with others, whichever way it is off.
                          sums_of(places, rates.is_lower_bound | bool(rates.estimated)).tolist(),
                          len(rates.missing))
            for fs, (places, rates) in file_systems.items()})
        self._tell(file_systems)
        per_s = min(self._most_per_s, max(_LEAST_PER_S, len(made) / (every_s * _PART)))
        failed = dict.fromkeys(self.destinations, 0)
        due = time.monotonic()
        for first in range(0, len(made), _AT_ONCE):
            some = made[first:first + _AT_ONCE]
            for destination in self.destinations:
                failed[destination] += destination.send(some)
            due += len(some) / per_s
            pause = due - time.monotonic()
            if pause < 0:                                # what was late is not made up for
                due -= pause
            elif pause > _LONG_S:
                self._stopped.wait(pause)
            else:
                time.sleep(pause)                        # costs less
            if self._stopped.is_set():
                break
        for destination, count in failed.items():
            self._after(destination, count, len(made))

    def _after(self, destination: GmondAddress, failed: int, of: int) -> None:
        """Tell what became of a sweep's datagrams."""
        name = destination.name
        if failed:
            self._failing.add(name)
            destination.close()
            self._say_once(f"to {name}", f"{name}: {destination.trouble}: {failed} of {of} "
                           f"datagrams could not be sent; is gmond running there, and does "
                           f"[ganglia] send_to in site.cfg name its udp_recv_channel?")
            self._datagrams.tell_again()                 # it may be another gmond when it is back
        elif name in self._failing:
            self._failing.discard(name)
            self._said_at.pop(f"to {name}", None)
            self._say(f"ganglia: {name}: datagrams can be sent again")

    def _tell(self, file_systems: dict[str, NodeClients]) -> None:
        """Tell of nodes that are not sent, when it has been so for some sweeps."""
        made = self._datagrams
        if self._is_often("unnamed", bool(made.unnamed)):
            self._say_once("unnamed", f"{made.unnamed} clients are not sent, such as "
                           f"{made.an_unnamed}: their names are not known; name them in the file "
                           f"[clients] names of site.cfg, or set [ganglia] unnamed = yes")
        if self._is_often("unplaced", bool(made.unplaced)):
            self._say_once("unplaced", f"{made.unplaced} nodes are not sent, such as "
                           f"{made.an_unplaced}: /etc/hosts and DNS have not told their addresses "
                           f"yet ([ganglia] address = lookup)")
        if self._is_often("low", bool(made.low) and not self._sends_low):
            missing = [f"{node}: {why}" for _, rates in file_systems.values()
                       for node, why in rates.missing.items()]
            why = f" ({missing[0]})" if missing else ""
            self._say_once("low", f"the rates of {made.low} nodes are not sent, since they may be "
                           f"too low{why}; [ganglia] lower_bounds = yes sends them all the same")

    def _is_often(self, kind: str, is_so: bool) -> bool:
        self._often[kind] = self._often.get(kind, 0) + 1 if is_so else 0
        return self._often[kind] >= _PATIENCE

    def _say_once(self, kind: str, text: str) -> None:
        """Say it, and again after an hour at the earliest."""
        now = time.monotonic()
        if now - self._said_at.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said_at[kind] = now
            self._say(f"ganglia: {text}")

    def is_sent(self) -> bool:
        """Whether all that was given to it is on its way."""
        return not self._sweeps.unfinished_tasks

    def numbers(self) -> list[Number]:
        """[Number] for other sinks to show."""
        made = self._datagrams
        values = (sum(one.sent for one in self.destinations),
                  sum(one.failures for one in self.destinations), self._left_out,
                  made.shown, made.unnamed + made.unplaced, made.low)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """What is not sent yet is not sent: it would not be of now."""
        if self.walking is not None:
            self.walking.cancel()
        self._stopped.set()
        try:
            self._sweeps.put(None, timeout=1.0)
        except queue.Full:
            pass
        self._thread.join(2.0)
        for destination in self.destinations:
            destination.close()


def _sums_host(text: str) -> Host:
    """The Host of [ganglia] sums_host."""
    if not text:
        return Host(safe(socket.gethostname()), False)
    address, _, name = text.partition(":")
    return Host(f"{safe(address)}:{safe(name)}", True)
