"""
Calls that may block, in a few threads: a server's loop goes on meanwhile.

Not concurrent.futures: a process waits for its threads when it ends, and a munged that was stopped
never answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Then = Callable[[Any, BaseException | None], object]        # result, or why there is none


class TimedOut(Exception):
    """The call took too long; its result will be ignored."""


class _Call:
    """One call, and what takes its result; both are None when it is over."""

    def __init__(self, function: Callable[[], Any], then: Then) -> None:
        self.function: Callable[[], Any] | None = function
        self.then: Then | None = then


class Threads:
    """Up to `most` threads, started with the first calls; for one event loop."""

    def __init__(self, most: int, timeout_s: float) -> None:
        """`timeout_s`: from the call to TimedOut, its time in the queue included."""
        self._most, self._timeout_s = most, timeout_s
        self._queue: deque[_Call] = deque()
        self._ready, self._lock = threading.Semaphore(0), threading.Lock()
        self._count = self._busy = 0

    def call(self, function: Callable[[], Any], then: Then) -> None:
        """`then(result, None)` or `then(None, error)` is called in the running loop."""
        loop = asyncio.get_running_loop()
        one = _Call(function, then)
        loop.call_later(self._timeout_s, _over, one, None, TimedOut())
        with self._lock:
            while self._queue and self._queue[0].then is None:   # it has timed out
                self._queue.popleft()
                self._busy -= 1
            self._queue.append(one)
        self._busy += 1
        if self._count < min(self._busy, self._most):
            self._count += 1
            threading.Thread(target=self._work, args=(loop,), name="blocking call",
                             daemon=True).start()
        self._ready.release()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            self._ready.acquire()
            with self._lock:
                if not self._queue:                      # it has timed out, see `call`
                    continue
                one = self._queue.popleft()
            function, result, error = one.function, None, None
            if function is not None:
                try:
                    result = function()
                except BaseException as found:
                    error = found
            try:
                loop.call_soon_threadsafe(self._done, one, result, error)
            except RuntimeError:                         # the loop is closed
                return

    def _done(self, one: _Call, result: Any, error: BaseException | None) -> None:
        self._busy -= 1
        _over(one, result, error)


def _over(one: _Call, result: Any, error: BaseException | None) -> None:
    then, one.then, one.function = one.then, None, None
    if then is not None:
        then(result, error)
