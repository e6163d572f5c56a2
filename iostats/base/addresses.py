"""
Addresses of host names, for programs that run for months and connect to many hosts.

    addresses = Addresses()
    found = addresses.get("node-23", 411, 3.0)                  waits up to 3 s
    found = await addresses.when_known("node-23", 411, 3.0)     the same, with asyncio

getaddrinfo() takes up to half a minute for a name whose name server does not answer, and nothing
interrupts it.  So each name is looked up in a thread of its own, once at a time, and no name waits
for another.  An answer is used for an hour, while it is refreshed in the background each minute: a
name server that fails for a while stops nothing that has run before.  An IP address is used as it
is.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections import namedtuple
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    AddressInfo = tuple[Any, ...]               # as getaddrinfo() gives them

_FRESH_S, _USABLE_S = 60.0, 3600.0
_MOST_THREADS = 512                             # of names without an answer
_MOST_KNOWN = 100_000

_Answer = namedtuple("_Answer", "addresses at")


class Addresses:
    """Looks up addresses; `resolve` is called as socket.getaddrinfo, `clock` gives seconds."""

    def __init__(self, resolve: Callable[..., list[AddressInfo]] = socket.getaddrinfo,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve, self._clock = resolve, clock
        self._known: dict[tuple[str, int, int], _Answer] = {}
        self._pending: dict[tuple[str, int, int], Future[list[AddressInfo]]] = {}
        self._lock = threading.Lock()

    def get(self, host: str, port: int, timeout_s: float,
            kind: int = socket.SOCK_STREAM) -> list[AddressInfo]:
        """What getaddrinfo() gives of a host; OSError, TimeoutError without an answer in time."""
        known = self._at_hand(host, port, kind)
        if isinstance(known, list):
            return known
        try:
            return known.result(timeout_s)
        except FutureTimeout:
            raise _no_answer(host, timeout_s) from None

    async def when_known(self, host: str, port: int, timeout_s: float,
                         kind: int = socket.SOCK_STREAM) -> list[AddressInfo]:
        """The same, for asyncio."""
        known = self._at_hand(host, port, kind)
        if isinstance(known, list):
            return known
        waiting = asyncio.wrap_future(known)
        done, _ = await asyncio.wait({waiting}, timeout=timeout_s)
        if not done:
            raise _no_answer(host, timeout_s)
        return waiting.result()

    def _at_hand(self, host: str, port: int, kind: int
                 ) -> list[AddressInfo] | Future[list[AddressInfo]]:
        """The addresses of a host that is known, or the look-up that is under way."""
        if is_address(host):
            return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
        key = host, port, kind
        with self._lock:
            answer, now = self._known.get(key), self._clock()
            age_s = now - answer.at if answer else _USABLE_S
            if answer and age_s < _FRESH_S:
                return list(answer.addresses)
            pending = self._pending.get(key) or self._start(key)
            return list(answer.addresses) if answer and age_s < _USABLE_S else pending

    def _start(self, key: tuple[str, int, int]) -> Future[list[AddressInfo]]:
        future: Future[list[AddressInfo]] = Future()
        future.set_running_or_notify_cancel()           # who stops waiting does not cancel it
        if len(self._pending) >= _MOST_THREADS:
            future.set_exception(socket.gaierror(socket.EAI_AGAIN, (
                f"{_MOST_THREADS} other names are without an answer of the name server")))
            return future
        self._pending[key] = future
        threading.Thread(target=self._look_up, args=(key, future), daemon=True,
                         name=f"address of {key[0]}").start()
        return future

    def _look_up(self, key: tuple[str, int, int], future: Future[list[AddressInfo]]) -> None:
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


def is_address(host: str) -> bool:
    """True for an IP address, of IPv6 also with a zone (fe80::1%eth0); False for a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _no_answer(host: str, timeout_s: float) -> OSError:
    return socket.timeout(f"no address of {host} within {timeout_s:g} s: the name server does not "
                          f"answer")
