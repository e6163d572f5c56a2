"""
HTTP/1.1 as a server of ours speaks it: POST with JSON-RPC, one request after another; or GET.

Read by httptools (the parser of Node.js and uvicorn) in one asyncio protocol, without a framework
between: a connection takes a few hundred bytes, limits are checked while a message arrives, and
the last report is answered in the same turn of the loop.  Measured against granian, uvicorn and
threads in benchmarks/README.md.

Source: RFC 9110 and 9112.
"""

import asyncio
from collections import deque
from typing import Any, Optional, Union

import httptools

from iostats.base.logs import log_internal_error
from iostats.server.long_answers import LongAnswer, RejectedRequest
from iostats.wire import jsonrpc
from iostats.wire.protocol import INVALID_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.server.http_server import HttpServer

MAX_HEAD_BYTES = 65536              # of a message beside its body: head, chunk sizes, trailers
MAX_UNREAD_BYTES = 1 << 20          # of answers that a client does not read while it asks for more;
                                    # and of requests behind one whose answer takes long
_EACH_REQUEST = 64                  # bytes of it, beside the length of its body


class TooLarge(RejectedRequest):
    """The message is over the limit."""

    status = "413 Content Too Large"


class NoRoom(TooLarge):
    """All unfinished messages together are over the limit."""

    status = "503 Service Unavailable"


class HttpConnection(asyncio.Protocol):
    """
    One connection.

    Attributes:
        server: the HttpServer.
        held: bytes of an unfinished message, and of one whose sender is not authenticated yet.
    """

    __slots__ = ("_accept_encoding", "_answered", "_authorization", "_begun_now", "_beside",
                 "_body", "_content_encoding", "_ended", "_ended_now", "_head", "_is_unfinished",
                 "_long", "_parked", "_parser", "_size", "_transport", "_url", "_waiting",
                 "_waiting_bytes", "held", "server")

    def __init__(self, server: "HttpServer") -> None:
        self.server = server
        self._transport: Any = None                     # before anything is called
        self._ended = False                             # True: its last answer is on its way
        self._parser = httptools.HttpRequestParser(self)
        self.held = self._parked = self._answered = self._beside = 0
        self._long: Optional[LongAnswer] = None
        self._is_unfinished = self._begun_now = self._ended_now = False
        # Requests behind one whose answer takes long, and their bytes; None: there is no such one.
        self._waiting: Optional[deque[tuple[bytes, str, bool, bool]]] = None
        self._waiting_bytes = 0
        self._begin()

    def _begin(self) -> None:
        self.server.connections.held -= self.held - self._parked
        self.held = self._parked
        # One piece of memory, however many parts come: thousands of them would stay in the heap.
        self._body: Union[bytes, bytearray] = b""
        self._size, self._head, self._authorization = 0, 0, ""
        self._content_encoding = b""
        self._url = self._accept_encoding = b""         # where there are pages

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.server.connections.add(self)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.server.connections.forget(self)
        self._drop()

    def _drop(self) -> None:
        """Free what it has sent, and answers to it that are in the making."""
        self._parked = 0
        self._begin()
        self._waiting = deque() if self.is_waiting else None
        if self._long is not None:
            self._long.drop()
            self._long = None

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def close(self) -> None:
        """Close when all that was written has been sent."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._answered, before = 0, self._size
        self._begun_now = self._ended_now = False      # by this very data
        try:
            self._parser.feed_data(data)
            self._count_overhead(len(data), before)
        except RejectedRequest as error:
            self.reject(error)
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, RejectedRequest):
                self.reject(error.__context__)
            else:
                log_internal_error(error)
                self._transport.abort()
        except httptools.HttpParserUpgrade:
            if not self._ended:                # answered by now, and not upgraded
                self._ended = True
                self.server.send(self._transport, b"", keep=False)
        except httptools.HttpParserError:
            self._reject("400 Bad Request", "expected an HTTP/1.1 request")

    def _count_overhead(self, length: int, before: int) -> None:
        """
        Limit what the parser keeps to itself: a header that does not end (which it copies with
        each part), chunks of one byte, trailers.  `before`: of `_size`.
        """
        if self._ended or (self._ended_now and not self._is_unfinished):
            return
        beside = max(0, length - self._size + (0 if self._begun_now else before))
        if not self._begun_now:                        # else it may be of an earlier message
            self._beside += beside
            if self._beside > MAX_HEAD_BYTES:
                raise TooLarge(_HEAD_TOO_LARGE)
        if self._is_unfinished:
            self._count(0, beside)

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._begin()
        self._is_unfinished, self._begun_now, self._beside = True, True, 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        if self.server.pages:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)    # and ": ", and the line's end
        name = name.lower()
        # The parser takes any number of zeros before it, and int() no more than some thousands.
        if name == b"content-length" and int(value.strip().lstrip(b"0") or 0) > (
                self.server.limits.message_bytes):
            raise TooLarge(self.server.limits.too_large())
        if name == b"authorization":
            self._authorization = value.decode("latin-1")
        elif name == b"content-encoding":
            self._content_encoding = value.strip().lower()
        elif name == b"accept-encoding" and self.server.pages:
            self._accept_encoding = value

    def on_body(self, part: bytes) -> None:
        self._count(len(part))
        if not self._body:
            self._body = part
            return
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += part

    def _count(self, length: int, beside: int = 0) -> None:
        self._size += length
        if self._size > self.server.limits.message_bytes + MAX_HEAD_BYTES:
            raise TooLarge(self.server.limits.too_large())
        self._hold(length + beside)

    def _hold(self, length: int) -> None:
        connections = self.server.connections
        self.held += length
        connections.held += length
        while True:
            longest = connections.to_reject()
            if longest is None:
                return
            error = NoRoom("too many messages come at once; try again")
            if longest is self:
                raise error
            longest.reject(error)

    def _count_head(self, length: int) -> None:
        """A part of the first lines: together they are bounded, also where they come at once."""
        self._count(length)
        self._head += length
        if self._head > MAX_HEAD_BYTES:
            raise TooLarge(_HEAD_TOO_LARGE)

    def on_message_complete(self) -> None:
        server = self.server
        self._is_unfinished, self._ended_now = False, True
        server.connections.has_sent_message(self)
        if self._ended or self._transport.is_closing():
            return
        if self._answered + self._transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self._ended = True
            self._transport.abort()
            return
        self._take_message()

    def _take_message(self) -> None:
        """Answer the message that is there to its end, or reject it."""
        if self.server.pages:
            self._send_page()
            return
        if self._parser.get_method() != b"POST":
            self._reject("405 Method Not Allowed", "expected POST")
            return
        if self._content_encoding not in (b"", b"identity", b"deflate"):
            self._reject("415 Unsupported Media Type",
                         "expected Content-Encoding: deflate, or none")
            return
        body, authorization = bytes(self._body), self._authorization
        is_deflated = self._content_encoding == b"deflate"
        self._begin()
        request = body, authorization, is_deflated, self._parser.should_keep_alive()
        if self._waiting is not None:          # answers leave in the order of the requests
            self._waiting.append(request)
            self._waiting_bytes += len(body) + _EACH_REQUEST
            if self._waiting_bytes > MAX_UNREAD_BYTES:
                self._ended = True
                self._transport.abort()
        else:
            self._answer(*request)

    # -- answers

    def _answer(self, body: bytes, authorization: str, is_deflated: bool, keep: bool) -> None:
        work = self.server.answering(body, authorization, is_deflated)
        try:
            call = next(work)
        except StopIteration as end:
            answer, proof = end.value
            self._send(answer, proof, keep)
            return
        self._waiting, self._waiting_bytes = deque(), 0
        self._hold(len(body))                  # until its sender is known
        self._parked = len(body)
        self._long = self.server.long_answers.begin(work, call, self, keep)

    def _send_page(self) -> None:
        method, keep = self._parser.get_method(), self._parser.should_keep_alive()
        if method not in (b"GET", b"HEAD"):
            self._reject("405 Method Not Allowed", "expected GET")
            return
        page = self.server.pages.get(self._url.partition(b"?")[0].decode("latin-1"))
        if page is None:
            self._reject("404 Not Found", f"expected {' or '.join(self.server.pages)}")
            return
        headers, body = page(b"gzip" in {one.partition(b";")[0].strip()
                                         for one in self._accept_encoding.lower().split(b",")})
        self._begin()
        self.server.connections.make_room_for_page(len(body))
        head = (f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n"
                f"{'' if keep else _CLOSE}\r\n").encode()
        self._ended = not keep
        self._answered += len(body)
        self.server.send(self._transport, head + (body if method == b"GET" else b""), keep)

    @property
    def unread(self) -> int:
        """Bytes that were answered, and not taken by the other end yet."""
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """True while the client waits for an answer that takes long: then it may be silent."""
        return self._waiting is not None

    def is_open(self) -> bool:
        """True while an answer can be sent."""
        return not self._ended and not self._transport.is_closing()

    def finish_answer(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        """Send the answer that took long, and answer what has waited behind it."""
        waiting, self._waiting = self._waiting or deque(), None
        self.server.connections.held -= self._parked
        self.held -= self._parked
        self._long, self._parked = None, 0
        self.server.connections.has_sent_message(self)
        self._send(answer, proof, keep)
        try:
            while waiting and self.is_open():
                self._answer(*waiting.popleft())
                if self._waiting is not None:
                    self._waiting = waiting
                    return
        except RejectedRequest as error:
            self.reject(error)

    def _send(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        head = ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n" if answer is None else
                f"HTTP/1.1 200 OK\r\nContent-Type: {self.server.content_type(answer)}\r\n"
                f"Content-Length: {len(answer)}\r\n")
        if proof:
            head += f"{proof}\r\n"
        if not keep:
            head += _CLOSE
        self._ended = not keep
        self._answered += len(answer or b"")
        self.server.send(self._transport, head.encode() + b"\r\n" + (answer or b""), keep)

    def reject(self, error: RejectedRequest) -> None:
        """Send an HTTP error, and close."""
        self._reject(error.status, str(error))

    def _reject(self, status: str, detail: str) -> None:
        self._drop()
        if self._ended or self._transport.is_closing():
            return
        self.server.refuse(status[4:].lower())
        self._ended = True
        self.server.send(self._transport, error_response(status, INVALID_REQUEST, detail),
                         keep=False)


def error_response(status: str, code: int, detail: str, headers: str = "") -> bytes:
    """An HTTP error, with a JSON-RPC error as its body, after which the connection is closed."""
    body = jsonrpc.error_answer(code, detail=detail)
    return (f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"{headers}Content-Length: {len(body)}\r\n{_CLOSE}\r\n").encode() + body


_CLOSE = "Connection: close\r\n"
_HEAD_TOO_LARGE = f"expected at most {MAX_HEAD_BYTES} bytes beside the body"
