"""
The server of the pages: uvicorn, with bounds for connections that are slow, silent or many, and the
user at the other end of a local socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import stat
import struct

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from iostats.base.errors import ConfigError, NotDelivered, StateError
from iostats.server import process
from iostats.web.asgi import UNIX, application
from iostats.web.pages import Pages
from iostats.web.who import WhoAsks
from iostats.wire.client import split_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar

    from iostats.base.config import Config

_HEAD_WITHIN_S = 10.0               # from a connection's begin, or its last answer, to a whole head
_LONGEST_HEAD = 1 << 16            # bytes of a request's line and headers
_READ_WITHIN_S = 60.0               # 64 KiB of an answer
_BACKLOG = 512
_CREDENTIALS = struct.Struct("3i")  # of unix(7): pid, uid, gid


class PagesProtocol(HttpToolsProtocol):
    """
    uvicorn's, with a time and a size for each request's head, and a time for each reader of an
    answer.

    Where there are as many connections as may be, one that waits for a head makes room for the
    next.  A limit for each peer would not do: behind a proxy all are one.
    """

    _silent: ClassVar[dict[PagesProtocol, None]] = {}   # the longest silent first
    _timer: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _head = 0                                           # bytes of the head that came so far

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family == socket.AF_UNIX:
            _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            self.client = (UNIX, uid)
        if self.limit_concurrency and len(self.connections) >= self.limit_concurrency:
            longest = next(iter(self._silent), None)
            if longest is not None:
                longest._no_more("_timer")
                longest.transport.abort()
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._no_more("_timer")
        self._head = 0
        self._timer = self.loop.call_later(_HEAD_WITHIN_S, self.transport.abort)
        self._silent[self] = None

    def _no_more(self, name: str) -> None:
        if name == "_timer":
            self._silent.pop(self, None)
        timer = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)

    def data_received(self, data: bytes) -> None:
        if self in self._silent:
            self._head += len(data)
            if self._head > _LONGEST_HEAD:
                self._no_more("_timer")
                self.send_400_response(f"expected a head of up to {_LONGEST_HEAD} bytes")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._no_more("_timer")
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        self._wait_for_head()                       # of one behind another that came in one packet
        super().on_message_begin()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._no_more("_slow")
        self._slow = self.loop.call_later(_READ_WITHIN_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._no_more("_slow")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_more("_timer")
        self._no_more("_slow")
        super().connection_lost(exc)


def refuse_root() -> None:
    """ConfigError for root: pages are made of what others have named."""
    if os.geteuid() == 0:
        raise ConfigError("iostats web does not run as root: start it as a user of its own who is "
                          "one of [site] readers (User= in its unit: make install-web)")


def bound(config: Config) -> list[socket.socket]:
    """The sockets of [web] listen and socket; ConfigError, NotDelivered."""
    found = []
    if config["web.listen"]:
        where = f"{config.origin['web.listen']}: [web] listen"
        host, port = split_server(config["web.listen"], where)
        if port is None:
            raise ConfigError(f"{where}: expected HOST:PORT, got {config['web.listen']!r}")
        if not config["web.user_header"]:
            raise ConfigError(f"{where}: expected [web] user_header and trusted with it, by which "
                              f"the site's proxy tells who asks; without a proxy: [web] socket")
        found += _of_tcp(host, port)
    if config["web.socket"]:
        found.append(_of_unix(config["web.socket"]))
    if not found:
        raise ConfigError("expected [web] listen or socket in site.cfg, got neither")
    return found


def _of_tcp(host: str, port: int) -> list[socket.socket]:
    found = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
            one = socket.socket(family, socket.SOCK_STREAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            found.append(one)
    except OSError as error:
        raise NotDelivered(f"{host}:{port}: cannot listen there: {error.strerror or error} ([web] "
                           f"listen; who has it: ss -ltnp sport = :{port})") from None
    return found


def _of_unix(path: str) -> socket.socket:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise StateError(f"{path}: expected a socket or nothing, got another file "
                                 f"([web] socket)")
            _require_dead(path)
            os.unlink(path)
        one.bind(path)
        os.chmod(path, 0o666)                      # who asks is known by the kernel's word
    except OSError as error:
        raise StateError(f"{path}: cannot listen there: {error.strerror or error} ([web] "
                         f"socket)") from None
    return one


def _require_dead(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return
    raise NotDelivered(f"{path}: another `iostats web` listens there ([web] socket)")


def run(config: Config, say: Callable[[str], object]) -> None:
    """Serve the pages until a signal."""
    refuse_root()
    who, pages = WhoAsks(config), Pages(config)
    process.raise_limits(config)
    sockets = bound(config)
    try:
        made = application(pages, who)
        server = _Server(uvicorn.Config(
            made, http=PagesProtocol, ws="none", lifespan="off",
            log_config=None, access_log=False, server_header=False, date_header=True,
            proxy_headers=False, timeout_keep_alive=60, timeout_graceful_shutdown=3,
            limit_concurrency=config["web.max_connections"], backlog=_BACKLOG))
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_is_no_end)
        asyncio.run(server.run_until_signal(sockets, say, made.state.end_live))
    finally:
        for one in sockets:
            one.close()
        if config["web.socket"]:
            with contextlib.suppress(OSError):
                os.unlink(config["web.socket"])


class _Server(uvicorn.Server):
    async def run_until_signal(self, sockets: Sequence[socket.socket],
                               say: Callable[[str], object],
                               end_live: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self.say, self.names = say, ", ".join(map(_name, sockets))
        self.end_live = end_live
        await self._serve(list(sockets))

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.say(f"pages at {self.names}")
        process.notify_systemd("READY=1")

    def _end(self) -> None:
        self.should_exit = True
        self.end_live()


def _is_no_end(line: logging.LogRecord) -> bool:
    """Whether it is to be logged: that a page was given up at our end is no fault of it."""
    return not (line.exc_info and isinstance(line.exc_info[1], asyncio.CancelledError))


def _name(one: socket.socket) -> str:
    at = one.getsockname()
    if isinstance(at, str):
        return at
    host, port = at[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
