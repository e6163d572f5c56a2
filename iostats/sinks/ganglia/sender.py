"""
The sink: a thread that makes the datagrams of a sweep, and sends them to a gmond or to the
multicast group of many, no faster than gmond can take them.

gmond has one thread for datagrams and, unless its configuration says otherwise, room for some
hundred that wait; faster ones are lost without a message.  So a few are sent at a time, over half
of the time between two sweeps, or faster where that is not enough.

A node's entry in gmond has an address, which identifies it, and a name.  A wrong one would create a
second entry beside the node's own, so a node has no Host until both are known.

A socket is opened when it is needed, and again after an error, with the current address of the
host name.  A gmond that is not running is noticed if it is on this host or the network reports it
(ECONNREFUSED, after ICMP); a datagram that is lost on the way is not.

Source: create_mcast_client(), lib/apr_net.c of ganglia; ip(7), ipv6(7), udp(7).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import queue
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from iostats.base.addresses import Addresses
from iostats.base.errors import ConfigError
from iostats.harvest.sink import Number, Sink
from iostats.sinks.ganglia import NUMBERS, GangliaSection
from iostats.sinks.ganglia.datagrams import (
    Datagrams,
    Host,
    NodeRates,
    clean_name,
    find_ipv4,
    make_host_name,
)
from iostats.sinks.nodes import collect_node_clients, sum_by_node

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.sinks.nodes import NodeClients

    _Sweep = tuple[float, float, dict[str, NodeClients]]

_KEEP_S, _TRY_AGAIN_S = 3600.0, 600.0       # an address; that there is none


class AddressLookup:
    """
    Looks up addresses by /etc/hosts and DNS, in a thread of its own.

    `resolve(name)` gives an address, or raises OSError; `clock` gives seconds.
    """

    def __init__(self, resolve: Callable[[str], str] = socket.gethostbyname,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve, self._clock = resolve, clock
        self._known: dict[str, tuple[str, float]] = {}          # name -> address, until
        self._asked: set[str] = set()
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def get(self, name: str) -> str | None:
        """The address; "" if there is none; None while the lookup runs."""
        address, until = self._known.get(name, (None, 0.0))
        if self._clock() >= until and name not in self._asked:
            self._asked.add(name)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True,
                                                name="ganglia looks up")
                self._thread.start()
            self._queue.put(name)
        return address

    def _run(self) -> None:
        while True:
            name = self._queue.get()
            try:
                address, keep_s = self._resolve(name), _KEEP_S
            except (OSError, UnicodeError):                # UnicodeError: a label is too long
                address, keep_s = "", _TRY_AGAIN_S
            if address.startswith("127."):                 # Debian's /etc/hosts has this of itself
                address, keep_s = "", _TRY_AGAIN_S
            self._known[name] = address, self._clock() + keep_s
            self._asked.discard(name)


class Hosts:
    """
    The hosts of nodes; the options of [ganglia]: `address`, `domain`, whether `unnamed` are sent.
    """

    def __init__(self, address: str, domain: str, unnamed: bool,
                 lookup: AddressLookup | None = None) -> None:
        self._way, self._domain, self._unnamed = address, domain.strip("."), unnamed
        self._lookup = lookup or AddressLookup()

    def find_host(self, node: str, nids: Iterable[str], is_known: bool,
                  ambiguous: Container[str] = ()) -> Host | None:
        """
        The Host of a node with these NIDs; None where it has none, or none yet.

        `ambiguous`: addresses that other nodes have as well, as in two networks of LNet; gmond
        would take these nodes for one, so they are known to it by their names.
        """
        own = find_ipv4(nids)
        if own in ambiguous:
            own = ""
        if not is_known:
            name = own or make_host_name(node)
            return Host(f"{name}:{name}", True) if self._unnamed else None
        full = f"{node}.{self._domain}" if self._domain and "." not in node else node
        name = make_host_name(full)
        if self._way == "name":
            return Host(f"{name}:{name}", True)
        if self._way == "lookup":
            looked_up = self._lookup.get(full)
            if looked_up is None:
                return None
            own = own if looked_up in ambiguous else looked_up or own
        return Host(f"{own or name}:{name}", True)


PORT = 8649                             # gmond's
_NAME_TIMEOUT_S = 3.0
_addresses = Addresses()


def parse_destinations(config: Config) -> list[tuple[str, int]]:
    """Return [(host, port)] of [ganglia] send_to; ConfigError."""
    addresses = []
    for word in config.find_section(GangliaSection).send_to:
        host, colon, port = word.rpartition(":")
        if not colon or word.endswith("]") or (":" in host.strip("[]") and word[0] != "["):
            host, port = word, str(PORT)
        if not (host.strip("[]") and port.isascii() and port.isdigit()
                and 0 < int(port) <= 65535):
            raise ConfigError(f"{config.locate('ganglia.send_to')}: expected HOST:PORT "
                              f"such as 239.2.11.71:8649, got {word!r}")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def find_interface(config: Config) -> int:
    """The number of [ganglia] interface, 0 for none; ConfigError."""
    name = config.find_section(GangliaSection).interface
    try:
        return socket.if_nametoindex(name) if name else 0
    except OSError:
        try:
            there = "; there are: " + " ".join(interface for _, interface in socket.if_nameindex())
        except OSError:                                 # a service may be kept from asking
            there = ""
        raise ConfigError(f"{config.locate('ganglia.interface')}: no network interface "
                          f"{name!r}{there}") from None


class GmondAddress:
    """
    One destination of datagrams; `ttl` and `interface`, a number or 0, are for a multicast group.

    Attributes:
        name: as in messages.
        sent, failures: datagrams, so far.
        trouble: why the last one could not be sent; "" when it could.
    """

    def __init__(self, host: str, port: int, ttl: int, interface: int) -> None:
        self._host, self._port, self._ttl, self._interface = host, port, ttl, interface
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.sent = self.failures = 0
        self.trouble = ""
        self._socket: socket.socket | None = None

    def send(self, datagrams: Sequence[bytes]) -> int:
        """
        Send datagrams, and return the number of failures; it may wait for the network's queue, and
        for DNS.
        """
        failed = 0
        try:
            send = (self._socket or self._open()).send
        except OSError as error:
            self._fail(error, len(datagrams))
            return len(datagrams)
        for datagram in datagrams:
            try:
                send(datagram)
            except OSError as error:
                failed += 1
                self._fail(error, 1)
        if not failed:
            self.trouble = ""
        self.sent += len(datagrams) - failed
        return failed

    def _fail(self, error: OSError, count: int) -> None:
        self.failures += count
        self.trouble = error.strerror or str(error)

    def _open(self) -> socket.socket:
        # gmond listens to IPv4 by default.
        family, kind, protocol, _, address = min(_addresses.get(
            self._host, self._port, _NAME_TIMEOUT_S, socket.SOCK_DGRAM),
            key=lambda resolved: resolved[0] != socket.AF_INET)
        opened = socket.socket(family, kind, protocol)
        try:
            if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_multicast:
                self._set_multicast(opened, family)
            opened.connect(address)
        except OSError:
            opened.close()
            raise
        self._socket = opened
        return opened

    def _set_multicast(self, opened: socket.socket, family: int) -> None:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, self._ttl)
            if self._interface:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._interface)
            return
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
        if self._interface:                                     # struct ip_mreqn
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                              struct.pack("4s4si", b"", b"", self._interface))

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


log = logging.getLogger(__name__)

SAY_AGAIN_S = 3600.0
_AT_ONCE = 20                       # datagrams; the receiver's buffer takes some 250 of these
_LEAST_PER_S = 1000.0               # a small site has them all at once
_PART = 0.5                         # of the time between two sweeps
_LONG_S = 0.1                       # a pause that ends early when the server ends
_TOO_OLD = 3                        # sweeps: what was so long ago is not now
_PATIENCE = 5                       # sweeps until nodes that are not sent are logged


class Ganglia:
    """
    The sink; `clock` gives seconds since 1970.

    Attributes:
        connections: up to how many clients may be connected.
        walking: done when the last sweep is with the thread; None before the first.
        destinations: [GmondAddress].
    """

    connections = 0

    def __init__(self, config: Config, emit: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self._emit, self._clock = emit, clock
        self.others: list[Sink] = []
        options, interface = config.find_section(GangliaSection), find_interface(config)
        self.destinations = [GmondAddress(host, port, options.ttl, interface)
                             for host, port in parse_destinations(config)]
        self._most_per_s = options.packets_per_second
        self._sends_low = options.lower_bounds == "yes"
        self._datagrams = Datagrams(
            options.metrics, dict(word.split("=") for word in options.names),
            Hosts(options.address, options.domain,
                  options.unnamed == "yes"),
            _parse_sums_host(options.sums_host), options.idle,
            options.send_metadata_interval, self._sends_low)
        self.walking: asyncio.Future[None] | None = None
        # (slot, every, {file system: NodeClients})
        self._sweeps: queue.Queue[_Sweep | None] = queue.Queue(1)
        self._stopped = threading.Event()
        self._left_out = 0
        self._logged_at: dict[str, float] = {}
        self._often: dict[str, int] = {}
        self._failing: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="ganglia", daemon=True)
        self._thread.start()

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Read the rates of all clients in steps, between other tasks of the event loop."""
        rates = harvest.clients.sweep
        if rates is None or rates.slot != sweep.slot:
            return
        if self._clock() - rates.slot > _TOO_OLD * rates.every_s:
            self._left_out += 1
            return
        if self._sweeps.unfinished_tasks or (self.walking is not None and not self.walking.done()):
            self._left_out += 1
            self._log_once("late", "sending a sweep takes longer than the time between sweeps; "
                           "one sweep is skipped; [ganglia] packets_per_second can be larger, or "
                           "metrics fewer")
            return
        self.walking = asyncio.ensure_future(self._walk(rates, harvest.clients.names))

    def drop_ids(self, ids: Iterable[str]) -> None:
        """Ignored: Ganglia has no ids of job_stats."""

    async def _walk(self, sweep: Any, names: Any) -> None:
        try:
            by_file_system: dict[str, NodeClients] = {}
            for _ in collect_node_clients(sweep, names, by_file_system):
                await asyncio.sleep(0)
            self._sweeps.put_nowait((sweep.slot, sweep.every_s, by_file_system))
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
                          sum_by_node(places, rates.rates),
                          # An estimate is no rate to compare with others, whichever way it is off.
                          sum_by_node(places,
                                      rates.is_lower_bound | bool(rates.estimated)).tolist(),
                          len(rates.missing))
            for fs, (places, rates) in file_systems.items()})
        self._log_missing_nodes(file_systems)
        per_s = min(self._most_per_s, max(_LEAST_PER_S, len(made) / (every_s * _PART)))
        failed = dict.fromkeys(self.destinations, 0)
        due = time.monotonic()
        for first in range(0, len(made), _AT_ONCE):
            batch = made[first:first + _AT_ONCE]
            for destination in self.destinations:
                failed[destination] += destination.send(batch)
            due += len(batch) / per_s
            pause_s = due - time.monotonic()
            if pause_s < 0:                                # what was late is not made up for
                due -= pause_s
            elif pause_s > _LONG_S:
                self._stopped.wait(pause_s)
            else:
                time.sleep(pause_s)                        # costs less
            if self._stopped.is_set():
                break
        for destination, count in failed.items():
            self._log_sent(destination, count, len(made))

    def _log_sent(self, destination: GmondAddress, failed: int, total: int) -> None:
        """Log the result of sending a sweep's datagrams."""
        name = destination.name
        if failed:
            self._failing.add(name)
            destination.close()
            self._log_once(f"to {name}", f"{name}: {destination.trouble}: {failed} of {total} "
                           f"datagrams could not be sent; is gmond running there, and does "
                           f"[ganglia] send_to in site.cfg name its udp_recv_channel?")
            # it may be another gmond when it is back
            self._datagrams.resend_metadata()
        elif name in self._failing:
            self._failing.discard(name)
            self._logged_at.pop(f"to {name}", None)
            self._emit(f"ganglia: {name}: datagrams can be sent again")

    def _log_missing_nodes(self, file_systems: dict[str, NodeClients]) -> None:
        """Log nodes that are not sent, if this has lasted for several sweeps."""
        made = self._datagrams
        if self._is_often("unnamed", bool(made.unnamed)):
            self._log_once("unnamed", f"{made.unnamed} clients are not sent, such as "
                           f"{made.an_unnamed}: their names are unknown; name them in the file "
                           f"[clients] names of site.cfg, or set [ganglia] unnamed = yes")
        if self._is_often("unplaced", bool(made.unplaced)):
            self._log_once("unplaced", f"{made.unplaced} nodes are not sent, such as "
                           f"{made.an_unplaced}: /etc/hosts and DNS have not returned their "
                           f"addresses yet ([ganglia] address = lookup)")
        if self._is_often("low", bool(made.low) and not self._sends_low):
            missing = [f"{node}: {why}" for _, rates in file_systems.values()
                       for node, why in rates.missing.items()]
            why = f" ({missing[0]})" if missing else ""
            self._log_once("low", f"the rates of {made.low} nodes are not sent, since they may be "
                           f"too low{why}; [ganglia] lower_bounds = yes sends them all the same")

    def _is_often(self, kind: str, is_so: bool) -> bool:
        self._often[kind] = self._often.get(kind, 0) + 1 if is_so else 0
        return self._often[kind] >= _PATIENCE

    def _log_once(self, kind: str, text: str) -> None:
        """Log a line, but not more than once an hour."""
        now = time.monotonic()
        if now - self._logged_at.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._logged_at[kind] = now
            self._emit(f"ganglia: {text}")

    def is_sent(self) -> bool:
        """True if everything was passed to the network."""
        return not self._sweeps.unfinished_tasks

    def numbers(self) -> list[Number]:
        """Return [Number] for other sinks to show."""
        made = self._datagrams
        values = (sum(destination.sent for destination in self.destinations),
                  sum(destination.failures for destination in self.destinations), self._left_out,
                  made.shown, made.unnamed + made.unplaced, made.low)
        return [Number(*about, value) for about, value in zip(NUMBERS, values)]

    def close(self) -> None:
        """Drop unsent datagrams: they would be outdated."""
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


def _parse_sums_host(text: str) -> Host:
    """The Host of [ganglia] sums_host."""
    if not text:
        return Host(clean_name(socket.gethostname()), False)
    address, _, name = text.partition(":")
    return Host(f"{clean_name(address)}:{clean_name(name)}", True)
