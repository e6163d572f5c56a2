"""
Answers in several steps (base/cooperative.py), between which the loop serves the network.

    queue      a step computes; one long answer is computed at a time: together they would take as
               long, and more memory
    elsewhere  a step is a call that may block (munged): it runs in one of a few threads

The connection gets each answer when it is finished.

Both stay, beside asyncio.to_thread and anyio: those threads are no daemons, so a process waits at
its end for a munged that was stopped, which never answers; a call's time-out has to include its
time in the queue; and one that has timed out must leave its place to the next. A CapacityLimiter
counts it until it returns. No task is needed for each of 10,000 nodes' reports, most of which are
answered in their first step.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Optional, Protocol
from weakref import WeakSet

from iostats.base.logs import log_internal_error

if TYPE_CHECKING:
    Then = Callable[[object, BaseException | None], object]        # result, or why there is none


class TimedOut(Exception):
    """The call took too long; its result will be ignored."""


class _Call:
    """A call and the callback for its result; both are None after it has ended."""

    def __init__(self, function: Callable[[], object], then: Then) -> None:
        self.function: Callable[[], object] | None = function
        self.then: Then | None = then


class Threads:
    """Up to `max_threads` threads, started with the first calls; for one event loop."""

    def __init__(self, max_threads: int, timeout_s: float) -> None:
        """`timeout_s`: from the call to TimedOut, its time in the queue included."""
        self._max_threads, self._timeout_s = max_threads, timeout_s
        self._queue: deque[_Call] = deque()
        self._ready, self._lock = threading.Semaphore(0), threading.Lock()
        self._count = self._busy = 0

    def call(self, function: Callable[[], object], then: Then) -> None:
        """
        Arrange that `then(result, None)` or `then(None, error)` is called in the running loop.
        """
        loop = asyncio.get_running_loop()
        pending = _Call(function, then)
        loop.call_later(self._timeout_s, _finish_call, pending, None, TimedOut())
        with self._lock:
            while self._queue and self._queue[0].then is None:   # it has timed out
                self._queue.popleft()
                self._busy -= 1
            self._queue.append(pending)
        self._busy += 1
        if self._count < min(self._busy, self._max_threads):
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
                pending = self._queue.popleft()
            function, result, error = pending.function, None, None
            if function is not None:
                try:
                    result = function()
                except BaseException as raised:
                    error = raised
            try:
                loop.call_soon_threadsafe(self._call_done, pending, result, error)
            except RuntimeError:                         # the loop is closed
                return

    def _call_done(self, pending: _Call, result: object, error: BaseException | None) -> None:
        self._busy -= 1
        _finish_call(pending, result, error)


def _finish_call(pending: _Call, result: object, error: BaseException | None) -> None:
    then, pending.then, pending.function = pending.then, None, None
    if then is not None:
        then(result, error)


_STEP_S = 0.001                 # of a long answer, before the network has its turn
BLOCKING_AT_ONCE = 8            # calls to munged
BLOCKING_TIMEOUT_S = 10.0

NeededCall = Optional[Callable[[], object]]     # of a step: it may block, and is run in a thread
# Its result: the answer, and the header that authenticates it or "".
Work = Generator[NeededCall, Any, tuple[Optional[bytes], str]]


class RejectedRequest(Exception):
    """
    A request that gets an HTTP error, after which the connection is closed.

    Attributes:
        status: HTTP's code and words.
    """

    status = "400 Bad Request"


class AnswerReceiver(Protocol):
    """The part of a connection that a long answer uses."""

    def is_open(self) -> bool:
        """True while the answer can be sent."""

    def finish_answer(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        """Send the answer."""

    def reject(self, error: RejectedRequest) -> None:
        """Send an HTTP error instead."""

    def abort(self) -> None:
        """Close at once."""


class LongAnswer:
    """
    One unfinished answer.

    Attributes:
        connection: gets it.
        has_begun: its first step after the sender's authentication has run.
        is_discarded: it may confirm data that were not stored.
        is_over: it is sent, or dropped.
    """

    def __init__(self, work: Work, connection: AnswerReceiver, keep: bool) -> None:
        self.connection, self._work, self._keep = connection, work, keep
        self.has_begun = self.is_discarded = self.is_over = False

    def step(self, result: object = None,
             error: Optional[BaseException] = None) -> NeededCall:
        """
        Run one step, and return the call that it needs, if any; when `is_over`, the connection has
        its answer.
        """
        self.has_begun = True
        try:
            return self._work.throw(error) if error is not None else self._work.send(result)
        except StopIteration as end:
            self.is_over = True
            if self.is_discarded:
                self.connection.abort()
            else:
                answer, proof = end.value
                self.connection.finish_answer(answer, proof, self._keep)
        except RejectedRequest as rejected:
            self.is_over = True
            self.connection.reject(rejected)
        except Exception as rejected:
            self.is_over = True
            log_internal_error(rejected)
            self.connection.abort()
        return None

    def drop(self) -> None:
        """Free the answer's memory: the connection is closed."""
        if not self.is_over:
            self.is_over = True
            with contextlib.suppress(ValueError):          # it is just running
                self._work.close()


class LongAnswers:
    """
    All long answers of one server; for one event loop.

    Attributes:
        blocking_timeout_s: of a call that may block, including its time in the queue.
    """

    def __init__(self) -> None:
        self.blocking_timeout_s = BLOCKING_TIMEOUT_S
        self._queue: deque[LongAnswer] = deque()
        self._open: WeakSet[LongAnswer] = WeakSet()     # those that are not over, and some that are
        self._threads = Threads(BLOCKING_AT_ONCE, self.blocking_timeout_s)
        self._working: Optional[asyncio.Future[None]] = None

    def begin(self, work: Work, first: NeededCall, connection: AnswerReceiver,
              keep: bool) -> LongAnswer:
        """The LongAnswer of `work`, whose first step has yielded `first`."""
        answer = LongAnswer(work, connection, keep)
        self._open.add(answer)
        self._continue(answer, first)
        return answer

    def discard(self) -> None:
        """Mark unfinished answers: the work that they would confirm is not stored."""
        for answer in self._open:
            answer.is_discarded = True

    def is_idle(self) -> bool:
        """True when nothing is left in the queue."""
        return not self._queue and (self._working is None or self._working.done())

    async def finished(self) -> None:
        """Wait for answers that have begun, as long as munged may need for them."""
        begun = [answer for answer in self._open if answer.has_begun and not answer.is_over]
        while not all(answer.is_over for answer in begun):
            await asyncio.sleep(_STEP_S)

    def close(self) -> None:
        """Stop the threads."""
        if self._working is not None:
            self._working.cancel()

    def _continue(self, answer: LongAnswer, call: NeededCall) -> None:
        """Continue; `call`: the result of the last step."""
        if call is not None:
            self._threads.call(call, lambda result, error: self._take_result(answer, result, error))
            return
        self._queue.append(answer)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._run_queue())

    def _take_result(self, answer: LongAnswer, result: object,
                     error: Optional[BaseException]) -> None:
        if answer.connection.is_open():
            call = answer.step(result, error)
            if not answer.is_over:
                self._continue(answer, call)

    async def _run_queue(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._queue:
            answer, call = self._queue.popleft(), None
            while answer.connection.is_open() and not answer.is_over and call is None:
                ends_at = clock() + _STEP_S
                while clock() < ends_at and not answer.is_over and call is None:
                    call = answer.step()
                if call is not None:
                    self._continue(answer, call)
                await asyncio.sleep(0)
