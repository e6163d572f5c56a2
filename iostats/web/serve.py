"""
The server of the pages: uvicorn, with limits for slow, silent and many connections, and with the
user of a local socket's client.
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
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from iostats.base.config import Config
from iostats.base.errors import ConfigError, NotDelivered, StateError
from iostats.server import process
from iostats.web.asgi import make_application
from iostats.web.pages import Pages
from iostats.web.viewer import UNIX, UserDetector
from iostats.wire.client import split_server

log = logging.getLogger(__name__)

_HEAD_WITHIN_S = 10.0           # from a connection's begin, or its last answer, to a complete head
_MAX_HEAD_BYTES = 1 << 16       # bytes of a request's line and headers
_READ_WITHIN_S = 60.0           # 64 KiB of an answer
_BACKLOG = 512
_CREDENTIALS = struct.Struct("3i")  # of unix(7): pid, uid, gid


class PagesProtocol(HttpToolsProtocol):
    """
    uvicorn's protocol, with a timeout and a size limit for each request's head, and a timeout for
    each reader of an answer.

    At the limit of connections, one that waits for a head is closed for the next. A limit for each
    peer would not help: behind a proxy all have the same.
    """

    _silent: ClassVar[dict[PagesProtocol, None]] = {}   # the longest silent first
    _timer: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _head = 0                                           # bytes of the head so far

    # asyncio calls it with a Transport; h11's and httptools' classes name the base.
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
                longest._cancel_timer("_timer")
                longest.transport.abort()
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._cancel_timer("_timer")
        self._head = 0
        self._timer = self.loop.call_later(_HEAD_WITHIN_S, self.transport.abort)
        self._silent[self] = None

    def _cancel_timer(self, name: str) -> None:
        if name == "_timer":
            self._silent.pop(self, None)
        timer = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)

    def data_received(self, data: bytes) -> None:
        if self in self._silent:
            self._head += len(data)
            if self._head > _MAX_HEAD_BYTES:
                self._cancel_timer("_timer")
                self.send_400_response(f"expected a head of up to {_MAX_HEAD_BYTES} bytes")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._cancel_timer("_timer")
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        self._wait_for_head()                       # also for a pipelined request
        super().on_message_begin()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._cancel_timer("_slow")
        self._slow = self.loop.call_later(_READ_WITHIN_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._cancel_timer("_slow")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer("_timer")
        self._cancel_timer("_slow")
        super().connection_lost(exc)


def refuse_root() -> None:
    """ConfigError for root: pages contain names chosen by others."""
    if os.geteuid() == 0:
        raise ConfigError("iostats web does not run as root: start it as a user of its own who is "
                          "one of [site] readers (User= in its unit: make install-web)")


def bind_sockets(config: Config) -> list[socket.socket]:
    """The sockets of [web] listen and socket; ConfigError, NotDelivered."""
    sockets = []
    if config.web.listen:
        where = config.locate("web.listen")
        host, port = split_server(config.web.listen, where)
        if port is None:
            raise ConfigError(f"{where}: expected HOST:PORT, got {config.web.listen!r}")
        if not config.web.user_header:
            raise ConfigError(f"{where}: expected [web] user_header and trusted with it, by which "
                              f"the site's proxy names the user; without a proxy: [web] socket")
        sockets += _bind_tcp(host, port)
    if config.web.socket:
        sockets.append(_bind_unix(config.web.socket))
    if not sockets:
        raise ConfigError("expected [web] listen or socket in site.cfg, got neither")
    return sockets


def _bind_tcp(host: str, port: int) -> list[socket.socket]:
    sockets = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM):
            tcp_socket = socket.socket(family, socket.SOCK_STREAM)
            tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tcp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tcp_socket.bind(address)
            sockets.append(tcp_socket)
    except OSError as error:
        raise NotDelivered(f"{host}:{port}: cannot listen there: {error.strerror or error} ([web] "
                           f"listen; check: ss -ltnp sport = :{port})") from None
    return sockets


def _bind_unix(path: str) -> socket.socket:
    unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise StateError(f"{path}: expected a socket or nothing, got another file "
                                 f"([web] socket)")
            _require_unused(path)
            os.unlink(path)
        unix_socket.bind(path)
        os.chmod(path, 0o666)                      # the kernel reports the client's user
    except OSError as error:
        raise StateError(f"{path}: cannot listen there: {error.strerror or error} ([web] "
                         f"socket)") from None
    return unix_socket


def _require_unused(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return
    raise NotDelivered(f"{path}: another `iostats web` listens there ([web] socket)")


def run(config: Config) -> None:
    """Serve the pages until a signal."""
    refuse_root()
    detector, pages = UserDetector(config), Pages(config)
    process.raise_limits(config)
    sockets = bind_sockets(config)
    try:
        app = make_application(pages, detector)
        server = _Server(uvicorn.Config(
            app, http=PagesProtocol, ws="none", lifespan="on",
            log_config=None, access_log=False, server_header=False, date_header=True,
            proxy_headers=False, timeout_keep_alive=60, timeout_graceful_shutdown=3,
            limit_concurrency=config.web.max_connections, backlog=_BACKLOG))
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        logging.getLogger("uvicorn.error").addFilter(_is_logged)
        asyncio.run(server.run_until_signal(sockets, app.state.end_live))
    finally:
        for bound_socket in sockets:
            bound_socket.close()
        if config.web.socket:
            with contextlib.suppress(OSError):
                os.unlink(config.web.socket)


class _Server(uvicorn.Server):
    async def run_until_signal(self, sockets: Sequence[socket.socket],
                               end_live: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        self.names, self.end_live = ", ".join(map(_format_address, sockets)), end_live
        await self._serve(list(sockets))

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        log.info("pages at %s", self.names)
        process.notify_systemd("READY=1")

    def _end(self) -> None:
        self.should_exit = True
        self.end_live()


def _is_logged(line: logging.LogRecord) -> bool:
    """False for a page that was cancelled at shutdown."""
    return not (line.exc_info and isinstance(line.exc_info[1], asyncio.CancelledError))


def _format_address(bound_socket: socket.socket) -> str:
    at = bound_socket.getsockname()
    if isinstance(at, str):
        return at
    host, port = at[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
