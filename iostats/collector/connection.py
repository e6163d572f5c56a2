"""
One connection of a client: a POST with a call of XML-RPC or JSON-RPC, one after another; or
GET /events, which is a stream of server-sent events until it is closed.

    id: 1883257233408023
    data: {"id": "...", "time": ..., "kind": "evicted", ..., "place": 1883257233408023}

    :                                       a heartbeat, so that both ends learn that the other died

A stream reads the collector's events behind its own place, and no faster than its client: what it
has not written yet waits there and not here.  After a reconnect it goes on behind the header
Last-Event-ID, which browsers and their like send by themselves, or `?after=PLACE`.  Where events
were dropped meanwhile, `event: dropped` says how many.

Source: HTML Standard, section 9.2 (server-sent events).
"""

import socket
from typing import TYPE_CHECKING, Any, Optional

from iostats.collector import access
from iostats.server.http import HttpConnection, error_response
from iostats.server.long_answers import RejectedRequest
from iostats.wire.protocol import INVALID_REQUEST

if TYPE_CHECKING:
    from iostats.collector.collector_server import CollectorServer

EVENTS_PATH = "/events"
_MOST_AT_ONCE = 50                  # events that are written before the buffer is looked at
_DIES_AFTER_MS = 60_000             # without an acknowledgement of what was sent
_STREAM_HEAD = (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                b"X-Accel-Buffering: no\r\nConnection: close\r\n\r\nretry: 5000\n\n")
_FAR = (b"content-type", b"host", b"origin", b"sec-fetch-site", b"last-event-id")


class Forbidden(RejectedRequest):
    """A request that is not from whom it may be."""

    status = "403 Forbidden"


class WrongType(RejectedRequest):
    """A body that is not said to be XML or JSON."""

    status = "415 Unsupported Media Type"


class TooManyStreams(RejectedRequest):
    """There are as many streams as there may be."""

    status = "503 Service Unavailable"


class CollectorConnection(HttpConnection):
    """
    One connection.

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

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("peername") or ("",)
        self._is_allowed = access.is_in(str(peer[0]), self.server.allowed)
        super().connection_made(transport)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.server.streams.discard(self)
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if not self._is_allowed:               # nothing of it is looked at
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
            if method == b"GET" and self._path() == EVENTS_PATH:
                self._stream()
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
        why = access.why_refused(headers.get(b"host", ""), headers.get(b"origin", ""),
                                 headers.get(b"sec-fetch-site", ""), self.server.names)
        if why:
            raise Forbidden(why)

    def _path(self) -> str:
        return self._url.partition(b"?")[0].decode("latin-1")

    def _reject_method(self) -> None:
        """As RFC 9110 has it, with the methods that there are."""
        is_there = self._path() == EVENTS_PATH
        answer = error_response("405 Method Not Allowed", INVALID_REQUEST, (
            "expected GET" if is_there else "expected POST"),
            f"Allow: {'GET' if is_there else 'POST'}\r\n")
        self.server.refuse("method not allowed")
        self._drop()
        self._ended = True
        self.server.send(self._transport, answer, keep=False)

    # -- streams

    def _stream(self) -> None:
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
        raw = self._transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DIES_AFTER_MS)
        self._transport.write(_STREAM_HEAD)
        self.server.streams.add(self)
        self.feed()

    @property
    def is_waiting(self) -> bool:
        """True for a stream, whose client need not send anything."""
        return self.place is not None or super().is_waiting

    def pause_writing(self) -> None:
        """The client takes less than there is."""
        self._is_full = True

    def resume_writing(self) -> None:
        """It has taken what was written."""
        self._is_full = False
        self.feed()

    def feed(self) -> None:
        """Write what is new, as far as the client takes it."""
        while self.place is not None and not self._is_full and not self._transport.is_closing():
            place, data = self.server.stream_after(self.place, _MOST_AT_ONCE)
            if not data:
                return
            self.place = place
            self._quiet_looks = 0
            self._transport.write(data)

    def beat(self) -> None:
        """A heartbeat; a client that has taken nothing for some of them is gone."""
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
