"""
Live parts of pages, as server-sent events: one poller for all who see the same.

A poller runs while a page is open; it makes the part once, and sends each watcher the newest one.
So a hundred watchers cost the site's server no more than one, and a slow reader misses parts, and
stores none. A stream ends after some minutes, and when its watcher's rights change: then the
browser connects again.

    event: part         data: HTML
    event: trouble      data: a line: why there is no new part
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from iostats.base.errors import IostatsError
from iostats.base.logs import log_internal_error
from iostats.web.site_calls import PageError

log = logging.getLogger(__name__)

_MAX_STREAM_S = 600.0           # of a stream
_COMMENT_AFTER_S = 15.0  # a comment is sent then, so that proxies do not close the connection
_RETRY_MS = 3000
Watcher = TypeVar("Watcher")    # a request of a user
_TOO_MANY = "too many live pages are open; reload this one to update it"


class Live(Generic[Watcher]):
    """
    All streams.

    Attributes:
        watchers: the number of open streams.
    """

    def __init__(self, part: Callable[[Watcher, str], Awaitable[str]],
                 scope: Callable[[Watcher], Awaitable[str]], every_s: float,
                 max_watchers: int) -> None:
        """
        `part(viewer, query string)`: HTML; `scope(viewer)`: equal for those who may see the same.
        """
        self._part, self._scope = part, scope
        self._every_s, self._max_watchers = every_s, max_watchers
        self._feeds: dict[tuple[str, str], _Feed[Watcher]] = {}
        self._ended = False
        self.watchers = 0

    async def stream(self, viewer: Watcher, query_string: str) -> AsyncIterator[bytes]:
        """The bytes of a stream; PageError if there are too many."""
        self._require_place()
        scope = await self._scope(viewer)
        self._require_place()
        return self._stream(viewer, (scope, query_string))

    def _require_place(self) -> None:
        if self.watchers >= self._max_watchers:
            raise PageError(503, _TOO_MANY)

    async def _stream(self, viewer: Watcher, key: tuple[str, str]) -> AsyncIterator[bytes]:
        # Counted where it is certainly uncounted again; the check is repeated for simultaneous
        # requests.
        if self.watchers >= self._max_watchers:
            yield b"retry: %d\n\n" % _RETRY_MS + _encode_event("trouble", _TOO_MANY)
            return
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = _Feed(self._part, key[1], self._every_s)
        self.watchers += 1
        feed.viewers.append(viewer)
        try:
            yield b"retry: %d\n\n" % _RETRY_MS
            ends, number = time.monotonic() + _MAX_STREAM_S, 0
            while not self._ended and time.monotonic() < ends:
                if await feed.wait_for_newer(number):
                    number, event = feed.number, feed.event
                    try:
                        if await self._scope(viewer) != key[0]:
                            break
                    except PageError as error:      # a browser does not connect again after another
                        event = _encode_event("trouble", str(error))       # status than 200
                    yield event
                elif not self._ended:
                    yield b": still here\n\n"
        finally:
            self.watchers -= 1
            feed.viewers.remove(viewer)
            if not feed.viewers:
                feed.task.cancel()
                self._feeds.pop(key, None)

    def end(self) -> None:
        """End all streams: their browsers connect again, to the next process."""
        self._ended = True
        for feed in self._feeds.values():
            feed.wake()


class _Feed(Generic[Watcher]):
    """
    The changing part of a page, queried again and again for all viewers with equal rights.

    Attributes:
        viewers: the users who watch; the part is made for the first of them.
        event: the newest event as bytes; number: the number of events so far.
        task: makes the parts.
    """

    def __init__(self, part: Callable[[Watcher, str], Awaitable[str]], query: str,
                 every_s: float) -> None:
        self._part, self._query, self._every_s = part, query, every_s
        self.viewers: list[Watcher] = []
        self.event, self.number = b"", 0
        self._changed = asyncio.Event()
        self.task = asyncio.ensure_future(self._poll())

    async def wait_for_newer(self, number: int) -> bool:
        """Wait for a newer event, for a limited time; False without one."""
        if self.number > number:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), _COMMENT_AFTER_S)
        except asyncio.TimeoutError:
            return False
        return self.number > number

    async def _poll(self) -> None:
        while True:
            began = time.monotonic()
            try:
                kind, text = "part", await self._part(self.viewers[0], self._query)
            except IostatsError as error:
                kind, text = "trouble", str(error)
            except Exception as error:
                log_internal_error(error)
                kind, text = "trouble", "internal error"
            self._publish(kind, text)
            await asyncio.sleep(max(0.05, self._every_s - (time.monotonic() - began)))

    def _publish(self, kind: str, text: str) -> None:
        self.event, self.number = _encode_event(kind, text), self.number + 1
        self.wake()

    def wake(self) -> None:
        """Wake the waiting streams."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _encode_event(kind: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {kind}\n{lines}\n".encode()
