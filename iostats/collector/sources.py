"""
Where a collector's events come from: a thread of its own, which waits, reads, and gives them to the
collector's loop.  What was given is kept before the source goes on.

    machine_source   this machine: its kernel's log, and the files of /proc and /sys
    site_source      the site's server
"""

from __future__ import annotations

import asyncio
import os
import threading

from iostats.base.logs import log_internal_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.events.event import Event

    # (events, where to go on or None, in whose numbers): kept, when it returns.
    Give = Callable[[Iterable[Event], Any, str], None]

_AGAIN_S = 5.0


class EventSource:
    """
    A source; a subclass has `work`, which is called in the thread until `ended` is set.

    Attributes:
        node: the name of the machine where the collector runs.
        next, of: where to go on, and in whose numbers, for a source that has places.
        ended: set when the thread is to end; `wake`, a file that can be read then, for select().
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.next, self.of = 0, ""
        self.ended = threading.Event()
        self.wake, self._waker = os.pipe()
        self._thread: threading.Thread | None = None

    def work(self, give: Give) -> None:
        """Look once, wait for what comes next, and give it."""
        raise NotImplementedError

    def begin(self, loop: asyncio.AbstractEventLoop,
              take: Callable[[Iterable[Event], Any, str], object], next: int, of: str) -> None:
        """Start the thread, which goes on at `next`; `take` is called on the loop."""
        self.next, self.of = next, of

        def give(found: Iterable[Event], next: Any = None, of: str = "") -> None:
            done = threading.Event()

            def take_now() -> None:
                try:
                    take(found, next, of)
                finally:
                    done.set()
            loop.call_soon_threadsafe(take_now)
            while not done.wait(0.5):
                if self.ended.is_set():
                    raise _SourceEnded

        def run() -> None:
            while not self.ended.is_set():
                try:
                    self.work(give)
                except (_SourceEnded, RuntimeError):         # the loop is closed
                    return
                except Exception as error:
                    log_internal_error(error)
                    self.ended.wait(_AGAIN_S)
        self._thread = threading.Thread(target=run, name="events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, unless it waits for a disk or a network that does not answer."""
        self.ended.set()
        os.write(self._waker, b"\0")
        if self._thread is not None:
            self._thread.join(2.0)

    # -- what is known beside events

    def nodes_of(self, file_system: str) -> Iterable[str]:
        """Names of nodes that are known to have to do with it; of all for ""."""
        raise NotImplementedError

    def file_systems(self) -> Iterable[str]:
        """Names of those that are known."""
        raise NotImplementedError

    def about_node(self, name: str) -> dict[str, Any] | None:
        """What is known of a node; None for one that is not known."""
        raise NotImplementedError

    def not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        """Nodes that are lost, and how many more; None where only the events can tell."""
        raise NotImplementedError


class _SourceEnded(BaseException):
    """The collector ends: what was given is not kept any more."""
