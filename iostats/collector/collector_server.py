"""
The collector's port: calls of XML-RPC and JSON-RPC, and streams of events.

A client's connection is a series of POSTs, each with a call of XML-RPC or JSON-RPC; or
GET /events, a stream of server-sent events until it is closed.

    id: 1883257233408023
    data: {"id": "...", "time": ..., "kind": "evicted", ..., "place": 1883257233408023}

    :                                       a heartbeat, so that both ends detect a dead peer

A stream reads the collector's events after its own place, and no faster than its client: events
that are not written yet wait in the event buffer.  After a reconnect it continues after the header
Last-Event-ID, which browsers and similar clients send automatically, or `?after=PLACE`.  Where
events were dropped in between, `event: dropped` has their number.

Source: HTML Standard, section 9.2 (server-sent events).
"""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Optional

import msgspec

from iostats.base.errors import NotDelivered, WireError, sanitize
from iostats.base.logs import log_internal_error
from iostats.collector import access, xml_rpc
from iostats.collector.access import Forbidden, Network
from iostats.collector.journal_of_events import CollectedEvent, EventsJournal
from iostats.collector.methods import Answers
from iostats.events.event import as_json
from iostats.server.http_server import HttpConnection, HttpLimits, HttpServer, make_error_response
from iostats.server.long_answers import RejectedRequest, Work
from iostats.wire import jsonrpc
from iostats.wire.protocol import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

EVENTS_PATH = "/events"
_MOST_AT_ONCE = 50                  # events that are written before the buffer is checked
_DIES_AFTER_MS = 60_000             # without an acknowledgement of what was sent
_STREAM_HEAD = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                b"X-Accel-Buffering: no\r\nConnection: close\r\n\r\nretry: 5000\n\n")
_FAR = (b"content-type", b"host", b"origin", b"sec-fetch-site", b"last-event-id")


class WrongType(RejectedRequest):
    """A body with a content type other than XML or JSON."""

    status = "415 Unsupported Media Type"


class TooManyStreams(RejectedRequest):
    """The limit of open streams is reached."""

    status = "503 Service Unavailable"


class CollectorConnection(HttpConnection):
    """
    One client's connection: calls, or a stream of events.

    Attributes:
        place: of the last event that the stream has; None where it is none.
    """

    __slots__ = ("_headers", "_is_allowed", "_is_full", "_quiet_looks", "place")
    server: "CollectorServer"

    def __init__(self, server: "CollectorServer") -> None:
        super().__init__(server)
        self.place: Optional[int] = None
        self._headers: dict[bytes, str] = {}
        self._is_full = self._is_allowed = False
        self._quiet_looks = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer: tuple[object, ...] = transport.get_extra_info("peername") or ("",)
        self._is_allowed = access.is_in(str(peer[0]), self.server.allowed)
        super().connection_made(transport)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.server.streams.discard(self)
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if not self._is_allowed:               # it is not parsed
            self.reject(Forbidden("expected an address of [collector] allow in site.cfg"))
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        name = name.lower()
        if name in _FAR:
            if name == b"host" and name in self._headers:
                raise RejectedRequest("expected one Host, got two")
            self._headers[name] = value.decode("latin-1").strip()

    def _take_message(self) -> None:
        headers, method = self._headers, self._parser.get_method()
        try:
            self._check(headers)
            if method == b"GET" and self._parse_path() == EVENTS_PATH:
                self._send_stream()
                return
            if method != b"POST":
                self._reject_method()
                return
            kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
            if kind not in access.XML_TYPES + access.JSON_TYPES:
                raise WrongType("expected Content-Type: text/xml (XML-RPC) or application/json "
                                "(JSON-RPC)")
            if self._content_encoding not in (b"", b"identity"):
                raise WrongType("expected no Content-Encoding")
        except RejectedRequest as error:
            self.reject(error)
            return
        super()._take_message()

    def _check(self, headers: dict[bytes, str]) -> None:
        access.check_headers(headers.get(b"host", ""), headers.get(b"origin", ""),
                             headers.get(b"sec-fetch-site", ""), self.server.names)

    def _parse_path(self) -> str:
        return self._url.partition(b"?")[0].decode("latin-1")

    def _reject_method(self) -> None:
        """Reject a method as in RFC 9110, with the list of those allowed."""
        is_there = self._parse_path() == EVENTS_PATH
        answer = make_error_response("405 Method Not Allowed", INVALID_REQUEST, (
            "expected GET" if is_there else "expected POST"),
            f"Allow: {'GET' if is_there else 'POST'}\r\n")
        self.server.refuse("method not allowed")
        self._drop()
        self._ended = True
        self.server.send(self._transport, answer, keep=False)

    # -- streams

    def _send_stream(self) -> None:
        if len(self.server.streams) >= self.server.most_streams:
            raise TooManyStreams(f"expected at most {self.server.most_streams} streams; try again")
        after = self._headers.get(b"last-event-id", "")
        if not after:
            name, _, after = self._url.partition(b"?")[2].decode("latin-1").partition("=")
            if name not in ("", "after"):
                raise RejectedRequest("expected /events or /events?after=PLACE")
        if not ((after.isascii() and after.isdigit() and len(after) < 17) or not after):
            raise RejectedRequest("expected a place, a whole number, as the last event's id")
        self.place = int(after or 0)
        self._ended = True                     # nothing more is read
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DIES_AFTER_MS)
        self._transport.write(_STREAM_HEAD)
        self.server.streams.add(self)
        self.feed()

    @property
    def is_waiting(self) -> bool:
        """True for a stream, whose client may stay silent."""
        return self.place is not None or super().is_waiting

    def pause_writing(self) -> None:
        """The client reads too slowly: stop writing."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The client has read enough: continue."""
        self._is_full = False
        self.feed()

    def feed(self) -> None:
        """Write new events, as far as the client reads them."""
        while self.place is not None and not self._is_full and not self._transport.is_closing():
            place, data = self.server.stream_after(self.place, _MOST_AT_ONCE)
            if not data:
                return
            self.place = place
            self._quiet_looks = 0
            self._transport.write(data)

    def beat(self) -> None:
        """Send a heartbeat; close a client that has not read several of them."""
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            self._quiet_looks += 1
            if self._quiet_looks > self.server.most_quiet_looks:
                self._transport.abort()
            return
        self._quiet_looks = 0
        self._transport.write(b":\n\n")
        self.server.connections.has_sent_message(self)


MESSAGE_BYTES = 65536               # of a call
# A monitor asks each few seconds, by the same connection.
IDLE_TIMEOUT_S = 120.0
HEARTBEAT_S = 15.0
_MOST_CONNECTIONS, _MOST_STREAMS = 4096, 1000
# Monitors ask the same again and again, until there is something new.
_SHORT = 1024
_read_before = lru_cache(128)(xml_rpc.parse_call)
_XML_METHODS = ("getTraps", "getNodesNames", "getNodeInfo", "getFileSystems", "getFileSystemInfo")


class _Limits(HttpLimits):
    """Fixed limits, without keys in site.cfg."""

    __slots__ = ()

    def too_large(self) -> str:
        return f"expected at most {self.message_bytes} bytes"


class CollectorServer(HttpServer):
    """
    The HTTP server that answers the requests of monitors.

    Attributes:
        allowed: the ranges of addresses that may ask.
        names: by which it may be asked, in lower case.
        streams: connections that are streams of events.
        most_streams: as many there may be.
        most_quiet_looks: heartbeats for which a stream's client may take nothing.
    """

    def __init__(self, journal: "EventsJournal", answers: "Answers",
                 allowed: "Sequence[Network]", names: Sequence[str], connections: int,
                 heartbeat_s: float = HEARTBEAT_S) -> None:
        max_connections = min(connections, _MOST_CONNECTIONS)
        super().__init__(_Limits(max_connections, IDLE_TIMEOUT_S, MESSAGE_BYTES, 16 << 20, 0))
        self.allowed, self.names, self.most_quiet_looks = allowed, names, 4
        self.streams: set[CollectorConnection] = set()
        self.most_streams = max(1, min(max_connections // 2, _MOST_STREAMS))
        self._journal, self._answers, self._heartbeat_s = journal, answers, heartbeat_s
        self._written: dict[int, bytes] = {}           # place: the event's lines of a stream
        self._beats: Optional[asyncio.TimerHandle] = None

    def make_connection(self) -> HttpConnection:
        return CollectorConnection(self)

    def content_type(self, answer: bytes) -> str:
        return "text/xml" if answer[:1] == b"<" else "application/json"

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """Listen at sockets of `bound_sockets`."""
        for listening in bound:
            await self.listen_on_socket(listening)
            self.port = listening.getsockname()[1]
        self._beat()

    def close(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
        super().close()

    # -- calls

    def answering(self, body: bytes, authorization: str, is_deflated: bool) -> Work:
        """The answer to a call; XML begins with `<`, which no JSON does."""
        if body.lstrip()[:1] in (b"{", b"["):
            answer = yield from jsonrpc.answering(body, self._answers.methods, None,
                                                  log_internal_error)
            return answer, ""
        return self._make_xml_answer(body), ""

    def _make_xml_answer(self, body: bytes) -> bytes:
        try:
            call = (_read_before if len(body) <= _SHORT else xml_rpc.parse_call)(body)
            return xml_rpc.answer(self._run_call(call))
        except WireError as error:
            return xml_rpc.encode_fault(error.code, str(error))
        except Exception as error:
            log_internal_error(error)
            return xml_rpc.encode_fault(INTERNAL_ERROR,
                                        "internal error; the collector's log has it")

    def _run_call(self, call: xml_rpc.Call) -> object:
        if call.method not in _XML_METHODS:
            raise WireError(METHOD_NOT_FOUND, f"no method {sanitize(call.method[:40])!r}; there "
                                              f"are: {' '.join(_XML_METHODS)}")
        method = self._answers.methods[call.method]
        names: tuple[str, ...] = (
            method.params.__struct_encode_fields__ if method.params is not None
            and issubclass(method.params, msgspec.Struct) else ())
        if len(call.params) != len(names):
            raise WireError(INVALID_PARAMS, (
                f"{call.method}: expected {len(names)} argument{'s' * (len(names) != 1)} "
                f"({', '.join(names)}), got {len(call.params)}").replace(" ()", ""))
        params: object = None
        if method.params:
            try:
                params = msgspec.convert(dict(zip(names, call.params)), method.params)
            except msgspec.ValidationError as error:
                raise WireError(INVALID_PARAMS,
                                f"{call.method}: {jsonrpc.describe_error(error)}") from None
        result = method.function(params, None)
        return "" if call.method == "getFileSystems" and not result else result

    # -- streams

    def notify(self, collected: Sequence[CollectedEvent]) -> None:
        """Write new events to the streams."""
        if not collected or not self.streams:
            self._written.clear()
            return
        for stream in list(self.streams):
            stream.feed()
        self._written.clear()

    def stream_after(self, place: int, max_events: int) -> tuple[int, bytes]:
        """(place of the last event, lines of a stream): up to `max_events` events after `place`."""
        parts: list[bytes] = []
        buffer = self._journal.buffer
        dropped = buffer.count_dropped_after(place)
        for collected in buffer.after(place):
            if len(parts) == max_events:
                break
            place = collected.place
            lines = self._written.get(place)
            if lines is None:
                lines = self._written[place] = _stream_lines(collected)
            parts.append(lines)
        if dropped and parts:
            parts.insert(0, b'event: dropped\ndata: {"dropped": %d}\n\n' % dropped)
        return place, b"".join(parts)

    def _beat(self) -> None:
        self._written.clear()
        for stream in list(self.streams):
            stream.beat()
        self._beats = asyncio.get_running_loop().call_later(self._heartbeat_s, self._beat)


def _stream_lines(collected: CollectedEvent) -> bytes:
    """An event in a stream; its JSON has no line break."""
    text = json.dumps({**as_json(collected.event), "place": collected.place}, ensure_ascii=False)
    return f"id: {collected.place}\ndata: {text}\n\n".encode()


def bound_sockets(host: str, port: int,
                  bind: Callable[[str, int], socket.socket]) -> list[socket.socket]:
    """
    Sockets at all addresses of `host`, by `bind`, http_server.bound_socket; NotDelivered.

    localhost has two, and a client that connects to 127.0.0.1 does not try the other.
    """
    try:
        addresses = list(dict.fromkeys(
            str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        ) if host else [""]
    except OSError as error:
        raise NotDelivered(f"{host}: cannot listen there: {error.strerror} (see --host)") from None
    sockets: list[socket.socket] = []
    failed = ""
    for address in addresses:
        try:
            sockets.append(bind(address, port))
        except OSError as error:
            failed = failed or f"{host or 'all addresses'}:{port}: cannot listen there: " \
                               f"{error.strerror}"
            if error.errno not in (97, 99):            # no IPv6 here: its address is left out
                for listening in sockets:
                    listening.close()
                raise NotDelivered(f"{failed}; is another collector running?  (see --port)"
                                   ) from None
    if not sockets:
        raise NotDelivered(f"{failed} (see --host)")
    return sockets
