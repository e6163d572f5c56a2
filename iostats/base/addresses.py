"""
Addresses of host names, for programs that run for months and connect to many hosts.

    addresses = Addresses()
    found = addresses.get("node-23", 411, 3.0)                  waits up to 3 s
    found = await addresses.when_known("node-23", 411, 3.0)     the same, with asyncio

getaddrinfo() takes up to half a minute where the name server does not answer, and cannot be
interrupted.  So each name is resolved in its own thread, by one thread at a time, and no name
delays another.  An answer is cached for an hour and refreshed in the background after a minute:
hosts that were resolved before stay reachable while the name server fails.  An IP address is not
looked up.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.option_kinds import is_ip_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    AddressInfo = tuple[Any, ...]               # an element of what getaddrinfo() returns

_FRESH_S, _USABLE_S = 60.0, 3600.0
_MOST_THREADS = 512                             # for names that are not answered yet
_MOST_KNOWN = 100_000


class _Answer(NamedTuple):
    addresses: Any
    at: float


class Addresses:
    """A cache of addresses; `resolve` is called as socket.getaddrinfo, `clock` returns seconds."""

    def __init__(self, resolve: Callable[..., list[AddressInfo]] = socket.getaddrinfo,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve, self._clock = resolve, clock
        self._known: dict[tuple[str, int, int], _Answer] = {}
        self._pending: dict[tuple[str, int, int], Future[list[AddressInfo]]] = {}
        self._lock = threading.Lock()

    def get(self, host: str, port: int, timeout_s: float,
            kind: int = socket.SOCK_STREAM) -> list[AddressInfo]:
        """Resolve a host as getaddrinfo() does; raises OSError, also when `timeout_s` is over."""
        cached = self._get_cached_or_pending(host, port, kind)
        if isinstance(cached, list):
            return cached
        try:
            return cached.result(timeout_s)
        except FutureTimeout:
            raise make_timeout_error(host, timeout_s) from None

    async def resolve_async(self, host: str, port: int, timeout_s: float,
                            kind: int = socket.SOCK_STREAM) -> list[AddressInfo]:
        """Resolve a host like `get`, for asyncio."""
        cached = self._get_cached_or_pending(host, port, kind)
        if isinstance(cached, list):
            return cached
        waiting = asyncio.wrap_future(cached)
        done, _ = await asyncio.wait({waiting}, timeout=timeout_s)
        if not done:
            raise make_timeout_error(host, timeout_s)
        return waiting.result()

    def _get_cached_or_pending(self, host: str, port: int, kind: int
                 ) -> list[AddressInfo] | Future[list[AddressInfo]]:
        """Return the cached addresses of a host, or the Future of the look-up in progress."""
        if is_ip_address(host):
            return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
        key = host, port, kind
        with self._lock:
            answer, now = self._known.get(key), self._clock()
            age_s = now - answer.at if answer else _USABLE_S
            if answer and age_s < _FRESH_S:
                return list(answer.addresses)
            pending = self._pending.get(key) or self._start_look_up(key)
            return list(answer.addresses) if answer and age_s < _USABLE_S else pending

    def _start_look_up(self, key: tuple[str, int, int]) -> Future[list[AddressInfo]]:
        """Start the look-up of one host in a thread of its own."""
        future: Future[list[AddressInfo]] = Future()
        future.set_running_or_notify_cancel()   # a caller that stops waiting does not cancel it
        if len(self._pending) >= _MOST_THREADS:
            future.set_exception(socket.gaierror(socket.EAI_AGAIN, (
                f"{_MOST_THREADS} other names are without an answer of the name server")))
            return future
        self._pending[key] = future
        threading.Thread(target=self._look_up, args=(key, future), daemon=True,
                         name=f"address of {key[0]}").start()
        return future

    def _look_up(self, key: tuple[str, int, int], future: Future[list[AddressInfo]]) -> None:
        """Resolve one host in the current thread, and set the result of its Future."""
        host, port, kind = key
        try:
            addresses = self._resolve(host, port, type=kind)
        except (OSError, UnicodeError) as error:
            with self._lock:
                del self._pending[key]
            future.set_exception(error if isinstance(error, OSError) else socket.gaierror(
                socket.EAI_NONAME, f"no host name: {host[:80]!r}"))
            return
        with self._lock:
            del self._pending[key]
            self._known.pop(key, None)
            self._known[key] = _Answer(tuple(addresses), self._clock())
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        future.set_result(addresses)


def make_timeout_error(host: str, timeout_s: float) -> OSError:
    """Return the error for a name server that did not answer in time."""
    return socket.timeout(f"no address of {host} within {timeout_s:g} s: the name server does not "
                          f"answer")
