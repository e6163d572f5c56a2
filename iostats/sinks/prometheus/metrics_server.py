"""
GET /metrics on an address of its own, by the one HTTP server that there is, and a page of families.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from iostats.base.errors import ConfigError
from iostats.server.http_server import HttpLimits, HttpServer, bound_socket
from iostats.sinks.prometheus import MOST_CONNECTIONS, NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.core import Metric

    from iostats.base.config import Config

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def parse_address(text: str, where: str) -> tuple[str, int]:
    """Return (host, port) of HOST:PORT; ConfigError with `where`."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{where}: expected HOST:PORT such as 127.0.0.1:9464, got '{text}'")
    return host.strip("[]"), int(port)


class MetricsServer:
    """
    Serves the page in a thread and an event loop of its own, so that a request for it delays no
    report.

    Attributes:
        address: (host, port) that it listens on.
        http, loop: the server, and the event loop that it runs in.
    """

    def __init__(self, page: Callable[[], tuple[bytes, bytes]], config: Config, address: str,
                 option: str) -> None:
        """`address`: HOST:PORT; `option`: its key in site.cfg; ConfigError."""
        where = config.locate(option)
        try:
            self._socket = bound_socket(*parse_address(address, where))
        except OSError as error:
            raise ConfigError(f"{where}: cannot listen on {address}: {error.strerror}; is another "
                              f"exporter there?") from None
        self.address = self._socket.getsockname()[:2]
        self._page, self.loop = page, asyncio.new_event_loop()
        self.http = HttpServer(HttpLimits.of(config)._replace(connections=MOST_CONNECTIONS))
        self.http.pages["/metrics"] = self._answer
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.http.listen_on_socket(self._socket))
        self._listens.set()
        self.loop.run_forever()
        self.loop.close()

    def _answer(self, packed: bool) -> tuple[str, bytes]:
        encoding = "Content-Encoding: gzip\r\n" if packed else ""
        return f"Content-Type: {CONTENT_TYPE}\r\n{encoding}", self._page()[packed]

    def close(self) -> None:
        def end() -> None:
            self.http.close()
            self.loop.call_later(0, self.loop.stop)     # when the connections are closed
        if self._listens.wait(2.0):
            self.loop.call_soon_threadsafe(end)
            self._thread.join(2.0)


def format_page(families: list[Metric]) -> bytes:
    """The page of prometheus_client's families, bytes."""
    from prometheus_client import CollectorRegistry, generate_latest
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families))
    return generate_latest(registry)


class _Families:
    """The collector object that prometheus_client requires."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def utf8(text: str) -> str:
    """Return `text` without lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
