"""
Producers of an aggregator, its subscriptions to them, advertisers and those that listen for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from .asked import EBUSY, EEXIST, EINVAL, ENOENT, EPERM, Crashed, Refused, as_json
from .sets import Collected

_KINDS = ("active", "passive", "advertiser", "advertised")


@dataclass
class Producer:
    """
    Attributes:
        state: STOPPED, DISCONNECTED, CONNECTED, or STANDBY: it advertised itself and is stopped.
        was_started: 4.5 never lets go of such a one: prdcr_del stays busy.
        is_closing: it was stopped while it was connected, in this turn.
        try_at_s: when the next connection is tried.
        sets: what its directory showed, by instance.
        streams: subscribed to, in their order; a message channel begins with "msg:".
        listens_at: of one that advertised itself, where it said it listens.
    """
    name: str
    host: str
    port: int
    transport: str
    kind: str
    reconnect_us: int
    auth: str = ""
    rail: str = "1"
    quota: str = "-1"
    rx_rate: str = "-1"
    state: str = "STOPPED"
    was_started: bool = False
    is_closing: bool = False
    try_at_s: float = 0.0
    sets: dict[str, Collected] = field(default_factory=dict)
    streams: dict[str, None] = field(default_factory=dict)
    listens_at: tuple[str, int] | None = None


@dataclass
class Listening:
    """A prdcr_listen."""
    name: str
    regex: str = ""
    ip: str = ""
    kind: str = "passive"
    reconnect_us: int = 20_000_000
    starts_producers: bool = True
    is_running: bool = False
    producers: list[str] = field(default_factory=list)


class Producers:
    def __init__(self, daemon):
        self._daemon = daemon
        self.all: dict[str, Producer] = {}
        self.listens: dict[str, Listening] = {}

    # Producers.

    def add(self, asked) -> str | None:
        self.all[asked.get("name")] = self._made(asked)
        given = asked.get("port")
        if self._daemon.is_4_5 and given and asked.get("type") == "passive":
            return f"prdcr_add: port {given} of a passive producer is not used"
        return None

    def _made(self, asked) -> Producer:
        name = asked.needed("name")
        kind = "advertiser" if asked.verb.startswith("advertiser") else asked.needed("type")
        if kind not in _KINDS + (("bridge",) if self._daemon.is_4_5 else ()):
            raise Refused(EINVAL, f"{asked.verb}: the type '{kind}' is invalid")
        transport, host = asked.needed("xprt"), asked.needed("host")
        port = 0
        if kind != "passive" or not self._daemon.is_4_5:
            text = asked.needed("port")
            port = int(text) if re.fullmatch(r"\d{1,5}", text) else 0
            if not 1 <= port <= 65_535:
                raise Refused(EINVAL, f"{asked.verb}: the attribute 'port' is required")
        reconnect = asked.interval_us("reconnect")
        if reconnect is None or reconnect <= 0:
            raise Refused(EINVAL, f"{asked.verb}: 'reconnect' has to be a positive interval")
        auth = asked.get("auth") or ""
        if auth and auth not in self._daemon.auth:
            raise Refused(ENOENT, f"{asked.verb}: there is no authentication '{auth}'")
        if name in self.all:
            raise Refused(EEXIST, f"{asked.verb}: '{name}' exists already")
        return Producer(name, host, port, transport, kind, reconnect, auth,
                        asked.get("rail") or "1", asked.get("quota") or "-1",
                        asked.get("rx_rate") or "-1")

    def delete(self, asked) -> None:
        producer = self._found(asked)
        if producer.state != "STOPPED" or producer.is_closing or producer.listens_at or (
                self._daemon.is_4_5 and producer.was_started):
            raise Refused(EBUSY, f"{asked.verb}: '{producer.name}' is in use")
        del self.all[producer.name]
        self._daemon.updaters.forget(producer.name)

    def start(self, asked) -> None:
        self._start(asked, self._found(asked))

    def start_regex(self, asked) -> int:
        regex = asked.regex(errno=ENOENT)
        found = [one for one in self.all.values() if regex.search(one.name)]
        for one in found:
            if one.state in ("STOPPED", "STANDBY"):
                self._start(asked, one)
        if not found and not self._daemon.is_4_5:
            raise Refused(EPERM, "")

    def _start(self, asked, producer: Producer) -> None:
        reconnect = asked.interval_us("reconnect")
        if reconnect is not None and reconnect <= 0:
            raise Refused(-EINVAL, f"{asked.verb}: 'reconnect' has to be a positive interval")
        if producer.state not in ("STOPPED", "STANDBY"):
            raise Refused(EBUSY, f"{asked.verb}: '{producer.name}' is running already")
        if reconnect is not None:
            producer.reconnect_us = reconnect
        producer.state = "CONNECTED" if producer.state == "STANDBY" else "DISCONNECTED"
        producer.was_started = True
        producer.try_at_s = self._daemon.clock()

    def stop(self, asked) -> None:
        self._stop(self._found(asked))

    def stop_regex(self, asked) -> None:
        regex = asked.regex(errno=ENOENT)
        for one in self.all.values():
            if regex.search(one.name):
                self._stop(one)

    def _stop(self, producer: Producer) -> None:
        producer.is_closing |= producer.state == "CONNECTED"
        producer.state = "STOPPED"
        producer.sets.clear()

    # What the network says of them.

    def connected(self, name: str) -> None:
        if self.all[name].state != "STOPPED":       # meanwhile
            self.all[name].state = "CONNECTED"

    def lost(self, name: str) -> None:
        """Its connection is gone, or could not be made; the next one is tried in time."""
        producer = self.all.get(name)
        if producer is not None and producer.state != "STOPPED":
            producer.state = "DISCONNECTED"
            producer.sets.clear()
            producer.try_at_s = self._daemon.clock() + producer.reconnect_us / 1e6

    def took(self, name: str, directory) -> None:
        """The directory of a connected producer, as it is now."""
        producer = self.all[name]
        if producer.state == "STOPPED":             # while it was asked for
            return
        shown = {one.instance: one for one in directory}
        for instance in [each for each in producer.sets if each not in shown]:
            del producer.sets[instance]
        for instance, source in shown.items():
            if instance in producer.sets:
                producer.sets[instance].source = source
            else:
                producer.sets[instance] = Collected(source)
        self._daemon.updaters.update(producer)

    def collected(self):
        """Those that the daemon has in its own directory: (producer, collected set)."""
        return [(producer, one) for producer in self.all.values()
                for one in producer.sets.values() if one.held is not None]

    # Status.

    def status(self, asked) -> str:
        name = asked.get("name")
        if name is not None and name not in self.all:
            raise Refused(ENOENT, f"prdcr_status: there is no producer '{name}'")
        return as_json([self._row(one) for one in sorted(self.all.values(), key=_by_name)
                           if name in (None, one.name)])

    def _row(self, producer: Producer) -> dict:
        row = {"name": producer.name, "type": producer.kind, "host": producer.host,
               "port": producer.port, "transport": producer.transport}
        if self._daemon.is_4_5:
            row.update(auth=producer.auth or "DEFAULT", rail=producer.rail,
                       quota=producer.quota, rx_rate=producer.rx_rate)
        row.update(reconnect_us=str(producer.reconnect_us), state=producer.state,
                   sets=[{"inst_name": instance, "schema_name": one.source.schema,
                          "state": one.state} for instance, one in sorted(producer.sets.items())])
        return row

    def set_status(self, asked) -> str:
        rows = []
        for producer in sorted(self.all.values(), key=_by_name):
            if asked.get("producer") not in (None, producer.name):
                continue
            for instance, one in sorted(producer.sets.items()):
                if asked.get("instance") not in (None, instance) or \
                        asked.get("schema") not in (None, one.source.schema):
                    continue
                sampled = one.held.sampled_s if one.held else 0.0
                rows.append({"inst_name": instance, "schema_name": one.source.schema,
                             "state": one.state, "origin": one.held.origin if one.held else "",
                             "producer": producer.name, "timestamp.sec": str(int(sampled)),
                             "timestamp.usec": str(int(sampled * 1e6) % 1_000_000),
                             "duration.sec": "0", "duration.usec": "23" if sampled else "0"})
        return as_json(rows)

    # Streams.

    def subscribe(self, asked) -> None:
        stream = self._stream(asked)
        for one in self._matching(asked):
            one.streams.setdefault(stream)

    def unsubscribe(self, asked) -> None:
        """
        4.5 dies where the one that it looks at first is of the other kind: the last added is.
        """
        stream = self._stream(asked)
        for one in self._matching(asked):
            for each in reversed(one.streams):
                if each == stream:
                    break
                if self._daemon.is_4_5 and (each[:4] == "msg:") != (stream[:4] == "msg:"):
                    raise Crashed("prdcr_unsubscribe of a producer with streams and messages")
            one.streams.pop(stream, None)

    def _stream(self, asked) -> str:
        asked.needed("regex")
        stream, tag = asked.get("stream"), asked.get("message_tag") if self._daemon.is_4_5 else None
        if bool(stream) == bool(tag):
            raise Refused(EINVAL, f"{asked.verb}: one of 'stream' and 'message_tag' is required")
        return stream or f"msg:{tag}"

    def _matching(self, asked):
        regex = asked.regex(errno=ENOENT)
        return [one for one in self.all.values() if regex.search(one.name)]

    def stream_status(self, asked) -> str:
        found = [one for one in self._matching(asked) if one.state == "CONNECTED"]
        if not found:
            raise Refused(ENOENT, "prdcr_stream_status: no producer matches")
        streams = sorted({stream for one in found for stream in one.streams})
        if self._daemon.is_4_5 or not streams:
            return "{}"
        rows = {stream: {one.name: {"mode": "subscribed", "pub": {}, "recv": {}} for one in found
                         if stream in one.streams} for stream in streams}
        rows["_OVERALL_"] = {one.name: {"pub": {}, "recv": {}} for one in found}
        return as_json(rows)

    # Those that advertise themselves.

    def listen_add(self, asked) -> None:
        name = asked.needed("name")
        if asked.get("regex"):
            asked.regex()
        if asked.get("ip") and not re.fullmatch(r"[\da-fA-F.:]+(/\d+)?", asked.get("ip")):
            raise Refused(EINVAL, f"prdcr_listen_add: '{asked.get('ip')}' is no range")
        if name in self.listens:
            raise Refused(EEXIST, f"prdcr_listen_add: '{name}' exists already")
        self.listens[name] = Listening(
            name, asked.get("regex") or "", asked.get("ip") or "", asked.get("type") or "passive",
            asked.interval_us("reconnect") or 20_000_000,
            (asked.get("disable_start") or "false").lower() not in ("true", "1"))

    def _listening(self, asked) -> Listening:
        name = asked.needed("name")
        if name not in self.listens:
            raise Refused(ENOENT, f"{asked.verb}: there is no prdcr_listen '{name}'")
        return self.listens[name]

    def listen_start(self, asked) -> None:
        self._listening(asked).is_running = True

    def listen_stop(self, asked) -> None:
        self._listening(asked).is_running = False

    def listen_del(self, asked) -> None:
        listening = self._listening(asked)
        if listening.is_running or self._daemon.is_4_5:         # 4.5 never lets go of one
            raise Refused(EBUSY, f"prdcr_listen_del: '{listening.name}' is in use")
        del self.listens[listening.name]

    def listen_status(self, asked) -> str:
        own = {"quota": "-1", "rx_rate": "-1"} if self._daemon.is_4_5 else {}
        return as_json([
            {"name": one.name, "state": "running" if one.is_running else "stopped",
             "regex": one.regex or "-", "IP range": one.ip or "-", **own,
             **({"type": one.kind} if self._daemon.is_4_5 else {}), "producers": one.producers}
            for one in self.listens.values()])

    def advertised(self, hostname: str, address: str, port: int, from_port: int) -> str:
        """
        A daemon at `address` makes itself known, and says that it listens on `port`; the name of
        its producer, HOSTNAME:PORT.  It is there as long as its connection, from `from_port`, is.
        """
        listening = next((one for one in self.listens.values()
                          if one.is_running and _takes(one, hostname, address)), None)
        if listening is None:
            raise Refused(ENOENT, f"advertise: no prdcr_listen takes '{hostname}'")
        name = f"{hostname}:{port}"
        producer = self.all.get(name)
        if producer is None:
            kind = f"advertised, {listening.kind}" if self._daemon.is_4_5 else "advertised"
            producer = Producer(name, hostname, from_port, "sock", kind, 2_147_483_647)
            producer.was_started = True
            producer.state = "DISCONNECTED" if listening.starts_producers else "STOPPED"
            self.all[name] = producer
            listening.producers.append(name)
            self._daemon.updaters.joined(name)
        elif producer.state in ("CONNECTED", "STANDBY"):
            raise Refused(EBUSY, f"advertise: '{name}' is connected already")
        producer.listens_at, producer.port = (address, port), from_port
        producer.state = "STANDBY" if producer.state == "STOPPED" else "CONNECTED"
        return name

    def advertised_no_more(self, name: str) -> None:
        """The connection by which it advertised itself is gone."""
        producer = self.all.get(name)
        if producer is not None:
            producer.state = {"CONNECTED": "DISCONNECTED", "STANDBY": "STOPPED"}.get(
                producer.state, producer.state)
            producer.sets.clear()

    def advertiser_start(self, asked) -> None:
        """One that is not there is added by it."""
        if asked.needed("name") not in self.all:
            self.add(asked)
        self.start(asked)

    def _found(self, asked) -> Producer:
        name = asked.needed("name")
        if name not in self.all:
            raise Refused(ENOENT, f"{asked.verb}: there is no producer '{name}'")
        return self.all[name]


def _by_name(producer: Producer) -> str:
    return producer.name


def _takes(listening: Listening, hostname: str, address: str) -> bool:
    if listening.ip and ip_address(address) not in ip_network(listening.ip, strict=False):
        return False
    return not listening.regex or re.search(listening.regex, hostname) is not None
