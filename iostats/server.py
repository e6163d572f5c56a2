"""
The server of one job: a port, the nodes' messages, and the totals that they add up to.

HTTP is read by httptools (the parser of Node.js and uvicorn) in one asyncio protocol, without a
framework between: a connection is a few hundred bytes, a limit is checked while a message
arrives, and the end comes in the same turn of the loop as the last report.  Measured against
granian, uvicorn and threads in benchmarks/README.md.
"""

import asyncio
import errno
import logging
import socket
import time
from collections import OrderedDict, deque
from typing import Annotated, Optional

import httptools
import msgspec

from iostats import jsonrpc, wire
from iostats.errors import NotDelivered, WireError
from iostats.jobid import LONGEST_JOB_ID, LONGEST_NODE_NAME, is_node_name, ports
from iostats.jsonrpc import Method

log = logging.getLogger("iostats")

_ACCEPT_AT_ONCE, _QUEUE = 16, 65535

_Gain = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LONGEST_NAME, _MOST_METRICS = 128, 10_000
_Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Why = Annotated[str, msgspec.Meta(max_length=500)]
_Seconds = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]


class Delta(msgspec.Struct, gc=False):
    """What one counter file gained; see delta.py."""

    source: _Name
    file_system: _Name
    target: _Name = ""
    values: Optional[dict[str, _Gain]] = None         # names: JobServer._check_names
    lower_bound: bool = False
    why: _Why = ""
    proved: bool = False


class Phase(msgspec.Struct):
    """One part of a node's work, between two marks."""

    name: _Name
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    deltas: list[Delta]


_Amounts = Annotated[list[_Gain], msgspec.Meta(max_length=1000)]


class Series(msgspec.Struct):
    """What `watch` saw of one file system."""

    began: _Seconds
    every_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e9)]     # 2e12 s / 1e-3 is no infinity
    read_bytes: _Amounts
    write_bytes: _Amounts
    operations: _Amounts

    def __post_init__(self):
        if not len(self.read_bytes) == len(self.write_bytes) == len(self.operations):
            raise ValueError(f"expected arrays of equal length, got {len(self.read_bytes)}, "
                             f"{len(self.write_bytes)} and {len(self.operations)}")


class Hello(msgspec.Struct):
    """The params of the method `hello`."""

    job: str = ""


class Report(msgspec.Struct):
    """The params of the method `report`; docs/wire.md."""

    protocol: int
    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
    seq: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    ended: _Seconds
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    boot_id: _Name = ""
    user: _Name = ""
    reason: _Why = ""
    clock_ahead_s: _Seconds = 0.0
    uptime_s: _Seconds = 0.0
    mounts: Annotated[dict[_Name, Annotated[list[str], msgspec.Meta(max_length=1000)]],
                      msgspec.Meta(max_length=1000)] = {}
    deltas: list[Delta] = []
    dirty_bytes: Optional[dict[_Name, _Gain]] = None
    other_jobs: Optional[_Gain] = None
    phases: Annotated[list[Phase], msgspec.Meta(max_length=100)] = []
    series: Annotated[dict[_Name, Series], msgspec.Meta(max_length=1000)] = {}


class _Disbelieved(WireError):
    """
    Why a message is not believed.

    Attributes:
        claimed: the node that it says it is from; None where that is no name.
    """

    def __init__(self, code, message, claimed):
        super().__init__(code, message)
        self.claimed = claimed


class JobServer:
    """
    Receives the reports of one job.

    Attributes:
        totals: the aggregate.Totals.
        port: where it listens; None before `listen`.
        heard: an asyncio.Event, set by the first report and when all nodes are heard.
    """

    def __init__(self, totals, secret, config, now=time.time):
        self.totals, self.port, self.heard = totals, None, asyncio.Event()
        self.first_report_at = None
        self._config, self._now = config, now
        self._key = wire.key_of(secret, totals.job)
        self._nonces, self._nonces_by_age = set(), deque()
        self._metrics = set()
        self._methods = {"hello": Method(self._hello, Hello),
                         "report": Method(self._report, Report),
                         "status": Method(self._status, None)}
        self._listener = None
        self.connections = _Connections(config)

    # -- methods ---------------------------------------------------------------------------

    def _hello(self, hello, node):
        """Who am I: open to all, so that a node can tell another job's server from its own."""
        if _code(node) == wire.NOT_AUTHENTICATED and hello.job == self.totals.job:
            # ours by its name, with another secret
            self.totals.refuse("not authenticated", node.claimed)
        return {"job": self.totals.job, "protocol": wire.PROTOCOL, "time": self._now()}

    def _report(self, report, node):
        self._must_be(node)
        if report.protocol != wire.PROTOCOL:
            raise WireError(wire.REFUSED, f"protocol {report.protocol} is not spoken here, only "
                                          f"{wire.PROTOCOL}; use one release on nodes and server")
        if report.job != self.totals.job or report.node != node:
            raise WireError(wire.REFUSED, "the report is of another job or node than its header")
        self._check_names(report)
        # The node's clock, as far as its hello showed it to be off.
        report.ended -= report.clock_ahead_s
        outcome = self.totals.add(report)
        if self.first_report_at is None or self.totals.all_heard:
            self.first_report_at = self.first_report_at or self._now()
            self.heard.set()
        if not outcome.counted:
            raise WireError(wire.REFUSED, outcome.why)
        return {"counted": True, "why": outcome.why}

    def _check_names(self, report):
        """
        Refuse metrics with names that are too long, or too many different ones.

        Names are checked when they are first seen: as a constraint of the type, the check of
        each name of each message would take a quarter of its decoding.
        """
        for deltas in (report.deltas, *(phase.deltas for phase in report.phases)):
            for delta in deltas:
                if delta.values and not self._metrics.issuperset(delta.values):
                    self._metrics.update(delta.values)
                    if (max(map(len, delta.values)) > _LONGEST_NAME
                            or len(self._metrics) > _MOST_METRICS):
                        self._metrics.difference_update(delta.values)
                        raise WireError(wire.INVALID_PARAMS, (
                            f"expected metrics' names of at most {_LONGEST_NAME} characters, and "
                            f"at most {_MOST_METRICS} of them"))

    def _status(self, params, node):
        self._must_be(node)
        totals = self.totals
        return {"job": totals.job, "expected": totals.expected_count,
                "reported": totals.reported, "missing": totals.missing()}

    def _must_be(self, node):
        if isinstance(node, WireError):
            self.totals.refuse(_WHY_REFUSED[node.code], node.claimed)
            raise node
        if node is None:
            self.totals.refuse("not authenticated")
            raise WireError(wire.NOT_AUTHENTICATED, "no Authorization header; see docs/wire.md")

    # -- one request -------------------------------------------------------------------------

    def answer(self, body, authorization):
        """
        (answer or None, its mac or "") of one request body and its Authorization header.

        The caller of a method is its node's name, or the WireError that says why it is not
        believed, or None; only `hello` answers those.
        """
        node, nonce = self._authenticate(body, authorization) if authorization else (None, "")
        reply = jsonrpc.dispatch(body, self._methods, node, _log_bug)
        if reply is None or not nonce:
            return reply, ""
        return reply, wire.answer_mac(self._key, nonce, reply)

    def _authenticate(self, body, header):
        """(node, nonce) of a believed request; (WireError, nonce or "") of another."""
        fields = wire.fields_of(header)
        claimed = fields["node"] if fields and is_node_name(fields["node"]) else None
        if (claimed is None or len(fields["nonce"]) != 32
                or not wire.same(fields["mac"], wire.request_mac(
                    self._key, claimed, fields["time"], fields["nonce"], body))):
            return _Disbelieved(wire.NOT_AUTHENTICATED, "the message was not made with the secret "
                                "of this job, or was altered", claimed), ""
        now, nonce = self._now(), fields["nonce"]
        tolerance = self._config["server.clock_tolerance"]
        if not _is_time(fields["time"]) or abs(int(fields["time"]) - now) > tolerance:
            return _Disbelieved(wire.STALE, f"the message's time is more than {tolerance:g} s from "
                                f"the server's", claimed), nonce
        if nonce in self._nonces:
            return _Disbelieved(wire.REPLAYED, "this very message was here before", claimed), nonce
        self._nonces.add(nonce)
        self._nonces_by_age.append((now, nonce))
        # A message is stale on both sides of `now`, so a nonce is kept for twice the tolerance.
        while self._nonces_by_age and self._nonces_by_age[0][0] < now - 2 * tolerance - 1:
            self._nonces.discard(self._nonces_by_age.popleft()[1])
        return claimed, nonce

    # -- listening ---------------------------------------------------------------------------

    async def listen(self, host="", port=None):
        """Listen on the first free port of the job's, or on `port`; sets `self.port`."""
        config, loop = self._config, asyncio.get_running_loop()
        wanted = [port] if port else ports(self.totals.job, config["server.port_first"],
                                           config["server.port_last"],
                                           config["server.port_tries"])
        for number in wanted:
            try:
                bound = _bound(host, number)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise NotDelivered(f"{host or 'all addresses'}: cannot listen there: "
                                       f"{error.strerror} (see --listen)") from None
                continue
            # asyncio accepts `backlog` connections before it tells of one of them: fewer than the
            # files that are kept free.  The kernel's queue is made long again afterwards.
            self._listener = await loop.create_server(lambda: _Connection(self), sock=bound,
                                                      backlog=_ACCEPT_AT_ONCE)
            bound.listen(_QUEUE)
            self.port = number
            self.connections.watch(loop)
            return
        raise NotDelivered(f"all ports of job {self.totals.job} are taken "
                           f"({' '.join(map(str, wanted))}); widen [server] port_first, port_last "
                           f"or port_tries in site.cfg")

    def close(self):
        """Stop listening and end all connections."""
        if self._listener:
            self._listener.close()
        self.connections.close()


def _bound(host, port):
    """A socket on `host` and `port`: IPv6 and IPv4 in one where the kernel has both."""
    family = socket.AF_INET6 if not host and socket.has_dualstack_ipv6() else socket.AF_INET
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    else:
        address = ("", port)
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not host:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind(address)
        one.listen(_QUEUE)
    except OSError:
        one.close()
        raise
    return one


_WHY_REFUSED = {wire.NOT_AUTHENTICATED: "not authenticated", wire.STALE: "stale",
                wire.REPLAYED: "replayed"}


def _code(node):
    return node.code if isinstance(node, WireError) else None


def _is_time(text):
    return text.isascii() and text.isdigit() and len(text) <= 12


def _log_bug(error):
    log.error("a bug of ours, please report it: %r", error, exc_info=error)


class _Connections:
    """All open connections, the one that has been silent longest first."""

    def __init__(self, config):
        self._most, self._silence = config["server.max_connections"], config["server.silence"]
        self._open = OrderedDict()         # _Connection -> loop time of its last sign of life
        self._loop = self._timer = None

    def watch(self, loop):
        self._loop = loop
        self._timer = loop.call_later(max(self._silence / 4, 0.05), self._close_silent)

    def _close_silent(self):
        while self._open:
            connection, since = next(iter(self._open.items()))
            if self._loop.time() - since < self._silence:
                break
            self.forget(connection)
            connection.abort()
        self.watch(self._loop)

    def add(self, connection):
        if len(self._open) >= self._most:
            oldest, _ = self._open.popitem(last=False)
            oldest.abort()
        self._open[connection] = self._loop.time()

    def complete(self, connection):
        """A whole message has come: only that counts as a sign of life, no trickle does."""
        if connection in self._open:
            self._open[connection] = self._loop.time()
            self._open.move_to_end(connection)

    def forget(self, connection):
        self._open.pop(connection, None)

    def close(self):
        if self._timer:
            self._timer.cancel()
        for connection in list(self._open):
            connection.close()
        self._open.clear()


class _Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: POST with a Content-Length, one request after another."""

    __slots__ = ("_authorization", "_parser", "_parts", "_server", "_size", "_transport")

    def __init__(self, server):
        self._server = server
        self._transport = None
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def _begin(self):
        self._parts, self._size, self._authorization = [], 0, ""

    def connection_made(self, transport):
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, error):
        self._server.connections.forget(self)

    def abort(self):
        self._transport.abort()

    def close(self):
        self._transport.close()

    def data_received(self, data):
        try:
            self._parser.feed_data(data)
        except _TooLarge as error:
            self._reject("413 Content Too Large", str(error))
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, _TooLarge):
                self._reject("413 Content Too Large", str(error.__context__))
            else:
                _log_bug(error)
                self._transport.abort()
        except httptools.HttpParserUpgrade:
            self._transport.close()            # answered by now, and not upgraded
        except httptools.HttpParserError:
            self._reject("400 Bad Request", "expected an HTTP/1.1 POST")

    # -- called by the parser

    def on_message_begin(self):
        self._begin()

    def on_url(self, url):
        self._count(len(url))

    def on_header(self, name, value):
        self._count(len(name) + len(value))
        name = name.lower()
        if name == b"content-length" and int(value) > self._server._config[
                "server.max_message_bytes"]:
            raise _TooLarge(self._limit())
        if name == b"authorization":
            self._authorization = value.decode("latin-1")

    def on_body(self, part):
        self._count(len(part))
        self._parts.append(part)

    def _count(self, length):
        self._size += length
        if self._size > self._server._config["server.max_message_bytes"] + 65536:
            raise _TooLarge(self._limit())

    def _limit(self):
        return (f"expected at most {self._server._config['server.max_message_bytes']} bytes "
                f"(site.cfg: [server] max_message_bytes)")

    def on_message_complete(self):
        server = self._server
        server.connections.complete(self)
        if self._transport.is_closing():
            return
        if self._parser.get_method() != b"POST":
            self._reject("405 Method Not Allowed", "expected POST")
            return
        body, authorization = b"".join(self._parts), self._authorization
        self._begin()
        answer, mac = server.answer(body, authorization)
        keep = self._parser.should_keep_alive()
        head = ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n" if answer is None else
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(answer)}\r\n")
        if mac:
            head += f"IOSTATS-MAC: {mac}\r\n"
        if not keep:
            head += "Connection: close\r\n"
        self._transport.write(head.encode() + b"\r\n" + (answer or b""))
        if not keep:
            self._transport.close()

    def _reject(self, status, detail):
        if self._transport.is_closing():
            return
        self._server.totals.refuse(status[4:].lower())
        body = jsonrpc.error_answer(wire.INVALID_REQUEST, detail=detail)
        self._transport.write(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            f"\r\nConnection: close\r\n\r\n".encode() + body)
        self._transport.close()


class _TooLarge(Exception):
    """The message is over the limit."""
