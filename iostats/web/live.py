"""
Live parts of pages, as server-sent events: one poller for all who see the same.

A poller runs while a page is open; it makes the part once, and each watcher is sent
the newest one when there is a new one.  So a hundred watchers cost the site's server what one
costs, and one that reads slowly misses parts, and keeps none.  A stream ends after some minutes,
and when its watcher may see more or less than before: the browser asks anew then.

    event: part         data: HTML
    event: trouble      data: a line: why there is no new part
"""

from __future__ import annotations

import asyncio
import logging
import time

from iostats.base.errors import IostatsError
from iostats.base.logs import log_internal_error
from iostats.web.asking import PageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from iostats.web.who import Asker

log = logging.getLogger("iostats")

_LONGEST_S = 600.0                  # of a stream
_SILENT_S = 15.0                    # then a comment is sent, so that proxies keep the connection
_AGAIN_MS = 3000
_TOO_MANY = "too many live pages are shown; this one is updated by reloading"


class Live:
    """
    All streams.

    Attributes:
        watchers: how many there are.
    """

    def __init__(self, part: Callable[[Asker, str], Awaitable[str]],
                 scope: Callable[[Asker], Awaitable[str]], every_s: float, most: int) -> None:
        """`part(asker, query string)`: HTML; `scope(asker)`: who has the same one sees the same."""
        self._part, self._scope, self._every_s, self._most = part, scope, every_s, most
        self._feeds: dict[tuple[str, str], _Feed] = {}
        self._ended = False
        self.watchers = 0

    async def stream(self, asker: Asker, query_string: str) -> AsyncIterator[bytes]:
        """The bytes of a stream; PageError where there are too many."""
        self._require_place()
        scope = await self._scope(asker)
        self._require_place()
        return self._stream(asker, (scope, query_string))

    def _require_place(self) -> None:
        if self.watchers >= self._most:
            raise PageError(503, _TOO_MANY)

    async def _stream(self, asker: Asker, key: tuple[str, str]) -> AsyncIterator[bytes]:
        # A place is taken where it is sure to be given back; of many who ask at once some are late.
        if self.watchers >= self._most:
            yield b"retry: %d\n\n" % _AGAIN_MS + _event("trouble", _TOO_MANY)
            return
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = _Feed(self._part, key[1], self._every_s)
        self.watchers += 1
        feed.askers.append(asker)
        feed.begin()
        try:
            yield b"retry: %d\n\n" % _AGAIN_MS
            ends, seen = time.monotonic() + _LONGEST_S, 0
            while not self._ended and time.monotonic() < ends:
                if await feed.newer_than(seen):
                    seen, event = feed.number, feed.event
                    try:
                        if await self._scope(asker) != key[0]:
                            break
                    except PageError as error:      # nor does the browser ask again after another
                        event = _event("trouble", str(error))       # status than 200
                    yield event
                elif not self._ended:
                    yield b": still here\n\n"
        finally:
            self.watchers -= 1
            feed.askers.remove(asker)
            if not feed.askers:
                feed.end()
                self._feeds.pop(key, None)

    def end(self) -> None:
        """End all streams: their browsers ask anew, and find what has come in our place."""
        self._ended = True
        for feed in self._feeds.values():
            feed.wake()


class _Feed:
    """
    One poller.

    Attributes:
        askers: of those who watch; the first of them is asked for.
        event: the newest, as it is sent; number: how many there were.
    """

    def __init__(self, part: Callable[[Asker, str], Awaitable[str]], query: str,
                 every_s: float) -> None:
        self._part, self._query, self._every_s = part, query, every_s
        self.askers: list[Asker] = []
        self.event, self.number = b"", 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._poll())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def newer_than(self, number: int) -> bool:
        """Whether there is a newer event, after some time at most."""
        if self.number > number:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), _SILENT_S)
        except asyncio.TimeoutError:
            return False
        return self.number > number

    async def _poll(self) -> None:
        while True:
            began = time.monotonic()
            try:
                kind, text = "part", await self._part(self.askers[0], self._query)
            except IostatsError as error:
                kind, text = "trouble", str(error)
            except Exception as error:
                log_internal_error(error)
                kind, text = "trouble", "internal error"
            self._tell(kind, text)
            await asyncio.sleep(max(0.05, self._every_s - (time.monotonic() - began)))

    def _tell(self, kind: str, text: str) -> None:
        self.event, self.number = _event(kind, text), self.number + 1
        self.wake()

    def wake(self) -> None:
        """Let those who wait look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(kind: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {kind}\n{lines}\n".encode()
