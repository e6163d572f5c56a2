"""
Answers that take several steps (base/cooperative.py), and a look at the network between two.

    queue      a step computes; one long answer is worked on at a time: together they would take as
               long, and more memory
    elsewhere  a step is a call that may block (munged): it runs in a thread of blocking_calls.py

The connection of http.py gets each answer when it is finished.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator
from typing import Any, Optional, Protocol
from weakref import WeakSet

from iostats.base.logs import log_internal_error
from iostats.server.blocking_calls import Threads

_STEP_S = 0.005                     # of a long answer, between two looks at the network
BLOCKING_AT_ONCE = 8               # calls to munged
BLOCKING_TIMEOUT_S = 10.0

# Its result: the answer, and the header that authenticates it or "".
Work = Generator[Any, Any, tuple[Optional[bytes], str]]


class RejectedRequest(Exception):
    """
    A request that is answered with an HTTP error, after which the connection is closed.

    Attributes:
        status: HTTP's code and words.
    """

    status = "400 Bad Request"


class AnswerReceiver(Protocol):
    """A connection, as far as its long answers need it."""

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
    One answer in the making.

    Attributes:
        connection: gets it.
        has_begun: more than the sender's authentication has been asked for.
        is_discarded: it may say that something is kept which is not.
        is_over: it is sent, or dropped.
    """

    def __init__(self, work: Work, connection: AnswerReceiver, keep: bool) -> None:
        self.connection, self._work, self._keep = connection, work, keep
        self.has_begun = self.is_discarded = self.is_over = False

    def step(self, result: Any = None, error: Optional[BaseException] = None) -> Any:
        """One step more: what it yields; when `is_over` the connection has its answer."""
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
        except RejectedRequest as found:
            self.is_over = True
            self.connection.reject(found)
        except Exception as found:
            self.is_over = True
            log_internal_error(found)
            self.connection.abort()
        return None

    def drop(self) -> None:
        """The connection is gone: free what the answer has in memory."""
        if not self.is_over:
            self.is_over = True
            with contextlib.suppress(ValueError):          # it is just running
                self._work.close()


class LongAnswers:
    """
    All long answers of one server; for one event loop.

    Attributes:
        blocking_timeout_s: of a call that may block, its time in the queue included.
    """

    def __init__(self) -> None:
        self.blocking_timeout_s = BLOCKING_TIMEOUT_S
        self._queue: deque[LongAnswer] = deque()
        self._open: WeakSet[LongAnswer] = WeakSet()     # that are not over, and some that are
        self._threads = Threads(BLOCKING_AT_ONCE, self.blocking_timeout_s)
        self._working: Optional[asyncio.Future[None]] = None

    def begin(self, work: Work, first: Any, connection: AnswerReceiver, keep: bool) -> LongAnswer:
        """The LongAnswer of `work`, whose first step has yielded `first`."""
        one = LongAnswer(work, connection, keep)
        self._open.add(one)
        self._go_on(one, first)
        return one

    def discard(self) -> None:
        """What was done until now is not kept: no answer that was begun may say that it is."""
        for one in self._open:
            one.is_discarded = True

    def is_idle(self) -> bool:
        """True when nothing is left in the queue."""
        return not self._queue and (self._working is None or self._working.done())

    async def finished(self) -> None:
        """Wait for answers that have begun, as long as munged may take for them."""
        begun = [one for one in self._open if one.has_begun and not one.is_over]
        while not all(one.is_over for one in begun):
            await asyncio.sleep(_STEP_S)

    def close(self) -> None:
        """Stop working."""
        if self._working is not None:
            self._working.cancel()

    def _go_on(self, one: LongAnswer, call: Any) -> None:
        """`call`: what its last step has yielded."""
        if call is not None:
            self._threads.call(call, lambda result, error: self._called(one, result, error))
            return
        self._queue.append(one)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work_off())

    def _called(self, one: LongAnswer, result: Any, error: Optional[BaseException]) -> None:
        if one.connection.is_open():
            call = one.step(result, error)
            if not one.is_over:
                self._go_on(one, call)

    async def _work_off(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._queue:
            one, call = self._queue.popleft(), None
            while one.connection.is_open() and not one.is_over and call is None:
                ends_at = clock() + _STEP_S
                while clock() < ends_at and not one.is_over and call is None:
                    call = one.step()
                if call is not None:
                    self._go_on(one, call)
                await asyncio.sleep(0)
