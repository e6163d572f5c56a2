"""
A server of HTTP: the port where it listens, its open connections, and their limits and timeouts.

A subclass has `answering`, which makes the answers to POSTs (rpc_server.py); one with `pages` has
these for GET, and nothing for POST.

A connection speaks HTTP/1.1: POST with JSON-RPC, one request after another; or GET.  Requests are
parsed by httptools (the parser of Node.js and uvicorn) in an asyncio protocol: a connection takes a
few hundred bytes, limits are checked while a message arrives, and the last report is answered in
the same turn of the loop.  Measured against granian, uvicorn and threads in benchmarks/README.md.

Source: RFC 9110 and 9112.
"""

import asyncio
import errno
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Optional, Union, cast

import httptools

from iostats.base.errors import NotDelivered
from iostats.base.logs import log_internal_error
from iostats.server.long_answers import LongAnswer, LongAnswers, RejectedRequest, Work
from iostats.wire import jsonrpc
from iostats.wire.protocol import INVALID_REQUEST

if TYPE_CHECKING:
    from iostats.base.config import Config

MAX_HEAD_BYTES = 65536          # of a message beside its body: head, chunk sizes, trailers
MAX_UNREAD_BYTES = 1 << 20      # of answers that a client does not read while it sends more;
                                    # and of requests that wait for a long answer
_REQUEST_OVERHEAD_BYTES = 64    # bytes of it, beside the length of its body


class TooLarge(RejectedRequest):
    """The message is over the limit."""

    status = "413 Content Too Large"


class NoRoom(TooLarge):
    """All unfinished messages together are over the limit."""

    status = "503 Service Unavailable"


class HttpConnection(asyncio.Protocol):
    """
    One client's connection.

    Attributes:
        server: the HttpServer.
        held: bytes of an unfinished message, and of one whose sender is not authenticated yet.
    """

    __slots__ = ("_accept_encoding", "_answered", "_authorization", "_begun_now", "_beside",
                 "_body", "_content_encoding", "_ended", "_ended_now", "_head", "_is_unfinished",
                 "_long", "_parked", "_parser", "_size_bytes", "_transport", "_url", "_waiting",
                 "_waiting_bytes", "held", "server")

    def __init__(self, server: "HttpServer") -> None:
        self.server = server
        self._transport: asyncio.Transport              # set before the parser is used
        self._ended = False                             # True: its last answer is being sent
        self._parser = httptools.HttpRequestParser(self)
        self.held = self._parked = self._answered = self._beside = 0
        self._long: Optional[LongAnswer] = None
        self._is_unfinished = self._begun_now = self._ended_now = False
        # Requests that wait for a long answer, and their bytes; None: there is no long answer.
        self._waiting: Optional[deque[tuple[bytes, str, bool, bool]]] = None
        self._waiting_bytes = 0
        self._reset()

    def _reset(self) -> None:
        self.server.connections.held -= self.held - self._parked
        self.held = self._parked
        # One piece of memory, however many parts arrive: thousands of them would stay in the heap.
        self._body: Union[bytes, bytearray] = b""
        self._size_bytes, self._head, self._authorization = 0, 0, ""
        self._content_encoding = b""
        self._url = self._accept_encoding = b""         # for pages only

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)    # uvloop's is no subclass of it
        self.server.connections.add(self)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.server.connections.remove(self)
        self._drop()

    def _drop(self) -> None:
        """Free the client's input, and unfinished answers to it."""
        self._parked = 0
        self._reset()
        self._waiting = deque() if self.is_waiting else None
        if self._long is not None:
            self._long.drop()
            self._long = None

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def close(self) -> None:
        """Close after all written data has been sent."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._answered, before = 0, self._size_bytes
        self._begun_now = self._ended_now = False      # by these data
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
        Limit what the parser itself buffers: a header without an end (which it copies with each
        part), chunks of one byte, trailers.  `before`: `_size_bytes` before these data.
        """
        if self._ended or (self._ended_now and not self._is_unfinished):
            return
        beside = max(0, length - self._size_bytes + (0 if self._begun_now else before))
        if not self._begun_now:                        # else it may belong to an earlier message
            self._beside += beside
            if self._beside > MAX_HEAD_BYTES:
                raise TooLarge(_HEAD_TOO_LARGE)
        if self._is_unfinished:
            self._count(0, beside)

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._reset()
        self._is_unfinished, self._begun_now, self._beside = True, True, 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        if self.server.pages:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)    # with ": " and the line's end
        name = name.lower()
        # The parser accepts any number of leading zeros, and int() only some thousands.
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
        self._size_bytes += length
        if self._size_bytes > self.server.limits.message_bytes + MAX_HEAD_BYTES:
            raise TooLarge(self.server.limits.too_large())
        self._count_held(length + beside)

    def _count_held(self, length: int) -> None:
        connections = self.server.connections
        self.held += length
        connections.held += length
        while True:
            longest = connections.find_longest_unfinished()
            if longest is None:
                return
            error = NoRoom("too many messages arrive at once; try again")
            if longest is self:
                raise error
            longest.reject(error)

    def _count_head(self, length: int) -> None:
        """Count a part of the head: its total is limited, also when it arrives at once."""
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
        """Answer a complete message, or reject it."""
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
        self._reset()
        request = body, authorization, is_deflated, self._parser.should_keep_alive()
        if self._waiting is not None:          # answers leave in the order of the requests
            self._waiting.append(request)
            self._waiting_bytes += len(body) + _REQUEST_OVERHEAD_BYTES
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
        self._count_held(len(body))                  # until its sender is authenticated
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
        headers, body = page(b"gzip" in {coding.partition(b";")[0].strip()
                                         for coding in self._accept_encoding.lower().split(b",")})
        self._reset()
        self.server.connections.make_room_for_page(len(body))
        head = (f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n"
                f"{'' if keep else _CLOSE}\r\n").encode()
        self._ended = not keep
        self._answered += len(body)
        self.server.send(self._transport, head + (body if method == b"GET" else b""), keep)

    @property
    def unread(self) -> int:
        """Bytes of answers that the other end has not read yet."""
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """True while the client waits for a long answer: then it may be idle."""
        return self._waiting is not None

    def is_open(self) -> bool:
        """True while an answer can be sent."""
        return not self._ended and not self._transport.is_closing()

    def finish_answer(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        """Send a long answer, and answer the requests that waited for it."""
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
        self.server.send(self._transport, make_error_response(status, INVALID_REQUEST, detail),
                         keep=False)


def make_error_response(status: str, code: int, detail: str, headers: str = "") -> bytes:
    """An HTTP error, with a JSON-RPC error as its body, after which the connection is closed."""
    body = jsonrpc.make_error_answer(code, detail=detail)
    return (f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"{headers}Content-Length: {len(body)}\r\n{_CLOSE}\r\n").encode() + body


_CLOSE = "Connection: close\r\n"
_HEAD_TOO_LARGE = f"expected at most {MAX_HEAD_BYTES} bytes beside the body"


MAX_UNFINISHED_BYTES = 256 << 20  # of all unfinished messages
MAX_UNREAD_PAGE_BYTES = 64 << 20  # of all pages that clients have not read yet
_ACCEPT_AT_ONCE, _BACKLOG = 16, 65535
_MIN_CHECK_PAUSE_S = 0.05


class HttpLimits(NamedTuple):
    """The limits of a server."""

    connections: int        # open at once; one more closes the one that has been idle longest
    idle_timeout_s: float   # a connection that completes no message for this long is closed
    message_bytes: int      # of one body, inflated
    unfinished_bytes: int   # of all unfinished messages; above it, the longest is rejected
    unread_page_bytes: int  # of all pages that clients have not read yet

    @classmethod
    def of(cls, config: "Config") -> "HttpLimits":
        """The limits of site.cfg."""
        message_bytes = config.server.max_message_bytes
        return cls(config.server.max_connections, config.server.idle_timeout, message_bytes,
                   max(MAX_UNFINISHED_BYTES, 2 * message_bytes), MAX_UNREAD_PAGE_BYTES)

    def too_large(self) -> str:
        """The error text for a message that is too long."""
        return (f"expected at most {self.message_bytes} bytes (site.cfg: [server] "
                f"max_message_bytes)")


class HttpServer:
    """
    Listens, reads HTTP, and sends the answers.

    Attributes:
        limits: the HttpLimits.
        port: where it listens; None before `listen_on`.
        pages: {path: (is gzip accepted) -> (header lines, body)}, for GET.
        connections: the OpenConnections.
        long_answers: the LongAnswers.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self.port: Optional[int] = None
        self.pages: dict[str, Callable[[bool], tuple[str, bytes]]] = {}
        self.connections, self.long_answers = OpenConnections(limits), LongAnswers()
        self._listeners: list[asyncio.Server] = []

    # -- for subclasses ----------------------------------------------------------------------

    def answering(self, body: bytes, authorization: str, is_deflated: bool) -> Work:
        """
        Generator: the answer to a POST, (its body or None, a header "NAME: value" or "").

        `authorization`: the request's header; `is_deflated`: Content-Encoding: deflate.
        RejectedRequest for an HTTP error.
        """
        raise NotImplementedError

    def content_type(self, answer: bytes) -> str:
        """The content type of `answer`, to a POST."""
        return "application/json"

    def make_connection(self) -> HttpConnection:
        """The protocol object of a new connection."""
        return HttpConnection(self)

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        """Hook: a message was refused; `node`: its sender, or the claimed one, if known."""

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """
        Send the answer `data`, then close the connection unless it is persistent.

        A subclass may send it later, in the order of the calls for each transport.
        """
        if not transport.is_closing():
            transport.write(data)
            if not keep:
                transport.close()

    # -- listening ---------------------------------------------------------------------------

    async def listen_on(self, host: str, ports: Iterable[int]) -> Optional[int]:
        """
        Listen on the first free port of `ports`, which becomes `self.port`; None if none is free.
        """
        for port in ports:
            try:
                bound = bound_socket(host, port)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise NotDelivered(f"{host or 'all addresses'}: cannot listen there: "
                                       f"{error.strerror}") from None
                continue
            await self.listen_on_socket(bound)
            self.port = bound.getsockname()[1]
            break
        return self.port

    async def listen_on_socket(self, bound: socket.socket) -> None:
        """Listen at a socket of `bound_socket`; call it again for more sockets."""
        loop = asyncio.get_running_loop()
        # asyncio accepts `backlog` connections before it reports one of them: fewer than the files
        # that are left free.  The kernel's queue is made long again afterwards.
        if not self._listeners:
            self.connections.watch(loop)
        self._listeners.append(await loop.create_server(self.make_connection, sock=bound,
                                                        backlog=_ACCEPT_AT_ONCE))
        bound.listen(_BACKLOG)

    def close(self) -> None:
        """Stop listening and end all connections."""
        for listener in self._listeners:
            listener.close()
        self.long_answers.close()
        self.connections.close()


class OpenConnections:
    """
    All open connections of a server, in the order of their last message.

    Attributes:
        held: bytes of unfinished messages.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.held, self._limits = 0, limits
        # Idle time is counted in checks, not on the clock: a turn of the loop that processes
        # thousands of messages may take longer, and all input is read between two checks.
        self._pause_s = max(limits.idle_timeout_s / 4, _MIN_CHECK_PAUSE_S)
        self._checks, self._max_idle_checks = 0, max(1,
                                                     round(limits.idle_timeout_s / self._pause_s))
        # The number of the check before the last message of each.
        self._open: OrderedDict[HttpConnection, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop             # set by `watch`
        self._timer: Optional[asyncio.TimerHandle] = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close idle connections from now on."""
        self._loop = loop
        self._timer = loop.call_later(self._pause_s, self._close_idle)

    def _close_idle(self) -> None:
        self._checks += 1
        for _ in range(len(self._open)):  # waiting ones are moved to the end: one pass is enough
            connection, since = next(iter(self._open.items()))
            if self._checks - since <= self._max_idle_checks:
                break
            if connection.is_waiting:
                self.has_sent_message(connection)
                continue
            self.remove(connection)
            connection.abort()
        self.watch(self._loop)

    def add(self, connection: HttpConnection) -> None:
        """Add a connection; above the limit, the one that has been idle longest is closed."""
        if len(self._open) >= self._limits.connections:
            oldest, _ = self._open.popitem(last=False)
            oldest.abort()
        self._open[connection] = self._checks

    def has_sent_message(self, connection: HttpConnection) -> None:
        """Note a complete message: only these keep an idle connection open."""
        if connection in self._open:
            self._open[connection] = self._checks
            self._open.move_to_end(connection)

    def remove(self, connection: HttpConnection) -> None:
        """Remove a closed connection."""
        self._open.pop(connection, None)

    def find_longest_unfinished(self) -> Optional[HttpConnection]:
        """
        The connection with the longest unfinished message, if all together have too many bytes;
        else None.  A message shorter than an equal share is never the longest.
        """
        if self.held <= self._limits.unfinished_bytes or not self._open:
            return None
        return max(self._open, key=lambda connection: connection.held)

    def unread(self) -> int:
        """Bytes of answers that clients have not read yet."""
        return sum(connection.unread for connection in self._open)

    def make_room_for_page(self, length: int) -> None:
        """
        Close connections with unread answers, the longest idle first, until `length` bytes have
        room.
        """
        unread = [(connection, connection.unread) for connection in self._open if connection.unread]
        total = sum(size for _, size in unread)
        for connection, size in unread:
            if total + length <= self._limits.unread_page_bytes:
                return
            connection.abort()
            total -= size

    def close(self) -> None:
        """Close all connections."""
        if self._timer:
            self._timer.cancel()
        for connection in list(self._open):
            connection.close()
        self._open.clear()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket on `host` and `port`: IPv6 and IPv4 in one where the kernel has both; OSError."""
    family = socket.AF_INET6 if not host and socket.has_dualstack_ipv6() else socket.AF_INET
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    else:
        address = ("", port)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not host:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
