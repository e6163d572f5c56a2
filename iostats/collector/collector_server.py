"""
The collector's port: calls of XML-RPC and JSON-RPC, and streams of events.
"""

import asyncio
import json
import socket
from functools import lru_cache
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from iostats.base.errors import NotDelivered, WireError, one_line
from iostats.base.logs import log_internal_error
from iostats.collector import xml_rpc
from iostats.collector.connection import CollectorConnection
from iostats.collector.kept import CollectedEvent
from iostats.events.event import as_json
from iostats.server.http import HttpConnection
from iostats.server.http_server import HttpLimits, HttpServer
from iostats.server.long_answers import Work
from iostats.wire import jsonrpc
from iostats.wire.protocol import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

if TYPE_CHECKING:
    from iostats.collector.access import Network
    from iostats.collector.journal_of_events import EventsJournal
    from iostats.collector.methods import Answers

MESSAGE_BYTES = 65536               # of a call
# A monitor asks each few seconds, by the same connection.
IDLE_TIMEOUT_S = 120.0
HEARTBEAT_S = 15.0
_MOST_CONNECTIONS, _MOST_STREAMS = 4096, 1000
# Monitors ask the same again and again, until there is something new.
_SHORT = 1024
_read_before = lru_cache(128)(xml_rpc.call_of)
_XML_METHODS = ("getTraps", "getNodesNames", "getNodeInfo", "getFileSystems", "getFileSystemInfo")


class _Limits(HttpLimits):
    """Its own: no key of site.cfg changes them."""

    __slots__ = ()

    def too_large(self) -> str:
        return f"expected at most {self.message_bytes} bytes"


class CollectorServer(HttpServer):
    """
    Answers monitors.

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
        most = min(connections, _MOST_CONNECTIONS)
        super().__init__(_Limits(most, IDLE_TIMEOUT_S, MESSAGE_BYTES, 16 << 20, 0))
        self.allowed, self.names, self.most_quiet_looks = allowed, names, 4
        self.streams: set[CollectorConnection] = set()
        self.most_streams = max(1, min(most // 2, _MOST_STREAMS))
        self._journal, self._answers, self._heartbeat_s = journal, answers, heartbeat_s
        self._written: dict[int, bytes] = {}           # place: the event's lines of a stream
        self._beats: Optional[asyncio.TimerHandle] = None

    def new_connection(self) -> HttpConnection:
        return CollectorConnection(self)

    def content_type(self, answer: bytes) -> str:
        return "text/xml" if answer[:1] == b"<" else "application/json"

    async def listen(self, bound: Sequence[socket.socket]) -> None:
        """Listen at sockets of `bound_sockets`."""
        for one in bound:
            await self.listen_at(one)
            self.port = one.getsockname()[1]
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
        return self._xml_answer(body), ""

    def _xml_answer(self, body: bytes) -> bytes:
        try:
            call = (_read_before if len(body) <= _SHORT else xml_rpc.call_of)(body)
            return xml_rpc.answer(self._result(call))
        except WireError as error:
            return xml_rpc.fault(error.code, str(error))
        except Exception as error:
            log_internal_error(error)
            return xml_rpc.fault(INTERNAL_ERROR, "internal error; the collector's log has it")

    def _result(self, call: xml_rpc.Call) -> Any:
        if call.method not in _XML_METHODS:
            raise WireError(METHOD_NOT_FOUND, f"no method {one_line(call.method[:40])!r}; there "
                                              f"are: {' '.join(_XML_METHODS)}")
        method = self._answers.methods[call.method]
        names = method.params.__struct_fields__ if method.params else ()
        if len(call.params) != len(names):
            raise WireError(INVALID_PARAMS, (
                f"{call.method}: expected {len(names)} argument{'s' * (len(names) != 1)} "
                f"({', '.join(names)}), got {len(call.params)}").replace(" ()", ""))
        params = None
        if method.params:
            try:
                params = msgspec.convert(dict(zip(names, call.params)), method.params)
            except msgspec.ValidationError as error:
                raise WireError(INVALID_PARAMS,
                                f"{call.method}: {jsonrpc.in_words(error)}") from None
        result = method.function(params, None)
        return "" if call.method == "getFileSystems" and not result else result

    # -- streams

    def tell(self, found: Sequence[CollectedEvent]) -> None:
        """Events have come: write them to the streams."""
        if not found or not self.streams:
            self._written.clear()
            return
        for one in list(self.streams):
            one.feed()
        self._written.clear()

    def stream_after(self, place: int, most: int) -> tuple[int, bytes]:
        """(place of the last event, lines of a stream) of up to `most` events behind `place`."""
        parts: list[bytes] = []
        kept = self._journal.kept
        dropped = kept.dropped_after(place)
        for one in kept.after(place):
            if len(parts) == most:
                break
            place = one.place
            lines = self._written.get(place)
            if lines is None:
                lines = self._written[place] = _stream_lines(one)
            parts.append(lines)
        if dropped and parts:
            parts.insert(0, b'event: dropped\ndata: {"dropped": %d}\n\n' % dropped)
        return place, b"".join(parts)

    def _beat(self) -> None:
        self._written.clear()
        for one in list(self.streams):
            one.beat()
        self._beats = asyncio.get_running_loop().call_later(self._heartbeat_s, self._beat)


def _stream_lines(one: CollectedEvent) -> bytes:
    """An event in a stream; its JSON has no line break."""
    text = json.dumps({**as_json(one.event), "place": one.place}, ensure_ascii=False)
    return f"id: {one.place}\ndata: {text}\n\n".encode()


def bound_sockets(host: str, port: int, bind: Any) -> list[socket.socket]:
    """
    Sockets at all addresses of `host`, by `bind`, http_server.bound_socket; NotDelivered.

    localhost has two, and a client that was told 127.0.0.1 does not try the other.
    """
    try:
        addresses = list(dict.fromkeys(
            one[4][0] for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        ) if host else [""]
    except OSError as error:
        raise NotDelivered(f"{host}: cannot listen there: {error.strerror} (see --host)") from None
    found: list[socket.socket] = []
    failed = ""
    for address in addresses:
        try:
            found.append(bind(address, port))
        except OSError as error:
            failed = failed or f"{host or 'all addresses'}:{port}: cannot listen there: " \
                               f"{error.strerror}"
            if error.errno not in (97, 99):            # no IPv6 here: its address is left out
                for one in found:
                    one.close()
                raise NotDelivered(f"{failed}; is another collector running?  (see --port)"
                                   ) from None
    if not found:
        raise NotDelivered(f"{failed} (see --host)")
    return found
