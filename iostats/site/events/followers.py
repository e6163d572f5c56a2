"""
Those who are told of events as they come: sinks, and the command of [events] on_critical.

    SiteEvents commits   ->  changed()  ->  sinks that only count; on the loop, at once
                         ->  followers: each reads the store behind its own place, at its own pace

A follower waits for its receiver in a thread of its own.  What it has not told yet waits in the
site's store, which has its bounds ([events] keep_days, keep_count), so a receiver that is away or
slow costs no memory, delays no report, and misses nothing that the store still has.  Its place is
in a file beside the store: after a restart it goes on there.  The first time it begins with what
comes from then on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import threading
from collections import namedtuple

from iostats.base.errors import StateError
from iostats.base.private_files import read_text, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Rows = list[tuple[int, Any]]                        # (place, Event), by their place

log = logging.getLogger("iostats")

Change = namedtuple("Change", "event gained")
Change.__doc__ = """
An event that is new, or knows more than before.

Attributes:
    event: the Event as it is now.
    gained: by how much its count, with what the kernel skipped, is more than before: all of it
        for a new one; 0 where only its end became known.
"""

MOST_AT_ONCE = 500                  # events that are told together
_AGAIN_S = 5.0                      # until a store that cannot be read is asked again


class Follower:
    """
    One receiver of events; `tell(events, names)`, in its thread, is given [Event] and {NID: node},
    and returns how many of them, from the first on, are told: fewer when it was closed meanwhile.

    Attributes:
        name, path: of its file, `events.NAME` beside the store.
        place: up to which all are told.
    """

    def __init__(self, name: str, directory: str,
                 tell: Callable[[Sequence[Any], dict[str, str]], int]) -> None:
        self.name, self.path = name, os.path.join(directory, f"events.{name}")
        self._tell = tell
        self.place: int | None = None
        self._places = ""
        self._given: queue.SimpleQueue[tuple[Rows, dict[str, str]] | None] = queue.SimpleQueue()
        self._busy = False
        self._thread: threading.Thread | None = None

    def begin(self, last: int, places: str) -> None:
        """
        Go on where the one before stopped; `last`: the place of the store's newest event;
        `places`: the name of the numbering, another one of a store that began anew.
        """
        found, of = _place_in(self.path)
        is_known = found is not None and of == places and found <= last
        self.place, self._places = found if is_known else last, places
        if not is_known:
            self.keep()

    def look(self, after: Callable[[int, int], Rows], names: Callable[[Iterable[Any]],
                                                                      dict[str, str]]) -> None:
        """Take what is new, unless it is still telling; on the loop."""
        if self._busy or self.place is None:
            return
        try:
            rows = after(self.place, MOST_AT_ONCE)
        except StateError as error:
            log.warning("%s", error)
            asyncio.get_running_loop().call_later(_AGAIN_S, self.look, after, names)
            return
        if not rows:
            return
        self._busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"events {self.name}",
                                            args=(asyncio.get_running_loop(),
                                                  lambda: self._told(after, names)), daemon=True)
            self._thread.start()
        self._given.put((rows, names(event for _, event in rows)))

    def _told(self, after: Callable[[int, int], Rows],
              names: Callable[[Iterable[Any]], dict[str, str]]) -> None:
        self._busy = False
        self.look(after, names)

    def _run(self, loop: asyncio.AbstractEventLoop, done: Callable[[], None]) -> None:
        while True:
            given = self._given.get()
            if given is None:
                return
            rows, names = given
            told = len(rows)
            try:
                told = self._tell([event for _, event in rows], names)
            except Exception:                           # these events' trouble is not the others'
                log.exception("internal error; please report: events were not told by %s",
                              self.name)
            if told:
                self.place = rows[told - 1][0]
                self.keep()
            if told < len(rows):
                return
            try:
                loop.call_soon_threadsafe(done)
            except RuntimeError:                        # the loop is closed
                return

    def kept(self) -> dict[str, Any]:
        """What its file has."""
        return {"place": self.place, "places": self._places}

    def keep(self) -> None:
        """Write its file."""
        try:
            write_whole(self.path, json.dumps(self.kept()).encode())
        except OSError as error:
            log.warning("%s: cannot be written: %s; after a restart some events may be told twice",
                        self.path, error.strerror)

    def close(self) -> None:
        """After its receiver is closed: what is not told is told after the next start."""
        self._given.put(None)
        if self._thread is not None:
            self._thread.join(2.0)


class Followers:
    """
    All who are told of events.

    `sinks`: as in iostats.sinks; `more`: Followers besides them; `directory`: where their places
    are kept, the store's; `after(place, limit)` gives [(place, Event)] of what is committed, by
    place; `last()` the newest place, 0 for none; `places()` the name of their numbering;
    `node_of(nid)` a node's name, or the NID.
    """

    def __init__(self, sinks: Iterable[Any], directory: str, after: Callable[[int, int], Rows],
                 last: Callable[[], int], node_of: Callable[[str], str],
                 more: Iterable[Follower] = (), places: Callable[[], str] = str) -> None:
        sinks = list(sinks)
        self._rows_after, self._last, self._node_of = after, last, node_of
        self._latest: tuple[int, Rows] = (-1, [])       # what was read last, and behind what
        self._places = places
        self._counting = [sink for sink in sinks if hasattr(sink, "events")]
        self._shows_status = [sink for sink in sinks if hasattr(sink, "event_status")]
        self.followers = [*(Follower(sink.name, directory, sink.keep_events) for sink in sinks
                            if hasattr(sink, "keep_events")), *more]

    def begin(self) -> None:
        """Once, in the running loop, when the store is open; StateError."""
        for one in self.followers:
            one.begin(self._last(), self._places())
        self._look()

    def changed(self, changes: Sequence[Change]) -> None:
        """These are committed; on the loop, returns at once."""
        names = self._names(change.event for change in changes)
        for sink in self._counting:
            try:
                sink.events(changes, names)
            except Exception:
                log.exception("internal error; please report: events were not counted")
        self._look()

    def status(self, node: str, heard: float, every_s: float, status: dict[str, Any]) -> None:
        """A storage server has told how it is: `heard`, s since 1970; `status` of a Look."""
        for sink in self._shows_status:
            sink.event_status(node, heard, every_s, status)

    def _after(self, place: int, limit: int) -> Rows:
        """Those who are equally far are given what was read once; it may be a little old."""
        if self._latest[0] != place:
            rows = self._rows_after(place, limit)
            if not rows:
                return rows
            self._latest = place, rows
        return self._latest[1]

    def _look(self) -> None:
        for one in self.followers:
            one.look(self._after, self._names)

    def _names(self, events: Iterable[Any]) -> dict[str, str]:
        return {nid: self._node_of(nid) for event in events for nid in event.clients}

    def close(self) -> None:
        """After the sinks are closed, which ends what their threads wait for."""
        for one in self.followers:
            one.close()


def _place_in(path: str) -> tuple[int | None, str]:
    """(place, name of the numbering) in a follower's file; (None, "") where there is none."""
    try:
        found = json.loads(read_text(path))
        place, places = found["place"], found["places"]
        if (isinstance(place, int) and not isinstance(place, bool) and place >= 0
                and isinstance(places, str)):
            return place, places
        raise ValueError
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s: expected {\"place\": NUMBER, \"places\": NAME}, got %s; only new events "
                    "are told from now on", path,
                    getattr(error, "strerror", None) or "something else")
    return None, ""
