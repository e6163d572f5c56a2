"""
A server of HTTP: the port where it listens, its open connections, and their limits and timeouts.

A subclass has `answering`, which makes the answers to POSTs (rpc_server.py); one with `pages` has
these for GET, and nothing for POST.
"""

import asyncio
import errno
import socket
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable
from typing import Optional

from iostats.base.errors import NotDelivered
from iostats.server.http import HttpConnection
from iostats.server.long_answers import LongAnswers, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

MAX_UNFINISHED_BYTES = 256 << 20    # of all messages that are not there to their ends
MAX_UNREAD_PAGE_BYTES = 64 << 20    # of all pages that clients have not read yet
_ACCEPT_AT_ONCE, _BACKLOG = 16, 65535
_SHORTEST_LOOK_S = 0.05


class HttpLimits(namedtuple("HttpLimits", "connections idle_timeout_s message_bytes "
                                          "unfinished_bytes unread_page_bytes")):
    """
    What a server takes.

    Attributes:
        connections: open at once; one more closes that which has been idle longest.
        idle_timeout_s: a connection that completes no message for this long is closed.
        message_bytes: of one body, inflated.
        unfinished_bytes: of all messages that are not there to their ends; the longest is rejected.
        unread_page_bytes: of all pages that clients have not read yet.
    """

    __slots__ = ()

    @classmethod
    def of(cls, config: "Config") -> "HttpLimits":
        """As site.cfg has them."""
        message_bytes = config["server.max_message_bytes"]
        return cls(config["server.max_connections"], config["server.idle_timeout"], message_bytes,
                   max(MAX_UNFINISHED_BYTES, 2 * message_bytes), MAX_UNREAD_PAGE_BYTES)

    def too_large(self) -> str:
        """What a sender of a longer message is told."""
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
        Make the answer to a POST, in steps: (its body or None, a header "NAME: value" or "").

        `authorization`: the request's header; `is_deflated`: Content-Encoding: deflate.
        RejectedRequest for an HTTP error.
        """
        raise NotImplementedError

    def content_type(self, answer: bytes) -> str:
        """What kind of text `answer`, to a POST, is."""
        return "application/json"

    def new_connection(self) -> HttpConnection:
        """What reads a new connection."""
        return HttpConnection(self)

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        """A message was refused; `node`: its sender, or whom it names as such, where known."""

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """
        Send the answer `data`, then close the connection unless it is to be kept.

        A subclass may do so later; in the order in which it was called for each transport.
        """
        if not transport.is_closing():
            transport.write(data)
            if not keep:
                transport.close()

    # -- listening ---------------------------------------------------------------------------

    async def listen_on(self, host: str, ports: Iterable[int]) -> Optional[int]:
        """Listen on the first free one of `ports`, which is then `self.port`; None if none is."""
        for port in ports:
            try:
                bound = bound_socket(host, port)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise NotDelivered(f"{host or 'all addresses'}: cannot listen there: "
                                       f"{error.strerror}") from None
                continue
            await self.listen_at(bound)
            self.port = bound.getsockname()[1]
            break
        return self.port

    async def listen_at(self, bound: socket.socket) -> None:
        """Listen at a socket of `bound_socket`; several may be listened at."""
        loop = asyncio.get_running_loop()
        # asyncio accepts `backlog` connections before it tells of one of them: fewer than the
        # files that are kept free.  The kernel's queue is made long again afterwards.
        if not self._listeners:
            self.connections.watch(loop)
        self._listeners.append(await loop.create_server(self.new_connection, sock=bound,
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
    All open connections of a server, the one that has been idle longest first.

    Attributes:
        held: bytes of messages that are not there to their ends.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.held, self._limits = 0, limits
        # Idle time is counted in looks, not on the clock: a turn of the loop in which thousands
        # of messages are worked off may take longer, and between two looks whatever came is read.
        self._pause_s = max(limits.idle_timeout_s / 4, _SHORTEST_LOOK_S)
        self._looks, self._most_looks = 0, max(1, round(limits.idle_timeout_s / self._pause_s))
        # The look before the last message of each.
        self._open: OrderedDict[HttpConnection, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop             # as of `watch`, before the first look
        self._timer: Optional[asyncio.TimerHandle] = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close idle connections from now on."""
        self._loop = loop
        self._timer = loop.call_later(self._pause_s, self._close_idle)

    def _close_idle(self) -> None:
        self._looks += 1
        for _ in range(len(self._open)):       # those that wait are put last: once is enough
            connection, since = next(iter(self._open.items()))
            if self._looks - since <= self._most_looks:
                break
            if connection.is_waiting:
                self.has_sent_message(connection)
                continue
            self.forget(connection)
            connection.abort()
        self.watch(self._loop)

    def add(self, connection: HttpConnection) -> None:
        """A new one; if there are too many, the one that has been idle longest is closed."""
        if len(self._open) >= self._limits.connections:
            oldest, _ = self._open.popitem(last=False)
            oldest.abort()
        self._open[connection] = self._looks

    def has_sent_message(self, connection: HttpConnection) -> None:
        """A whole message has come: nothing less keeps a connection open."""
        if connection in self._open:
            self._open[connection] = self._looks
            self._open.move_to_end(connection)

    def forget(self, connection: HttpConnection) -> None:
        """It is closed."""
        self._open.pop(connection, None)

    def to_reject(self) -> Optional[HttpConnection]:
        """
        The connection with the longest unfinished message, when all together have too many bytes;
        None when they have not.  A message shorter than an equal share is never the longest.
        """
        if self.held <= self._limits.unfinished_bytes or not self._open:
            return None
        return max(self._open, key=lambda one: one.held)

    def unread(self) -> int:
        """Bytes that were answered, and that clients have not read."""
        return sum(one.unread for one in self._open)

    def make_room_for_page(self, length: int) -> None:
        """Close those that have not read theirs for the longest, until `length` bytes have room."""
        unread = [(one, one.unread) for one in self._open if one.unread]
        total = sum(size for _, size in unread)
        for one, size in unread:
            if total + length <= self._limits.unread_page_bytes:
                return
            one.abort()
            total -= size

    def close(self) -> None:
        """Close all."""
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
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not host:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind(address)
        one.listen(_BACKLOG)
    except OSError:
        one.close()
        raise
    return one
