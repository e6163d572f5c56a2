"""
Receivers of new events: sinks, and the command of [events] on_critical.

    SiteEvents commits   ->  changed()  ->  sinks that only count; on the loop, at once
                         ->  followers: each reads the store from its own position, at its own pace

A follower waits for its receiver in a thread of its own.  Events that are not sent yet wait in the
site's store, which has its bounds ([events] keep_days, keep_count), so a receiver that is down or
slow costs no memory, delays no report, and misses nothing that the store still has.  The position
is in the store, too: after a restart, here or at another server of the same store, the follower
continues there.  The first time it begins with new events.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
from typing import TYPE_CHECKING

from iostats.base.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iostats.events.event import Event
    from iostats.events.status import ServerStatus
    from iostats.harvest.sink import Sink
    from iostats.store.event_store import Change, EventStore

    Rows = list[tuple[int, Event]]                      # by their place

log = logging.getLogger(__name__)

MAX_AT_ONCE = 500               # events that are sent together
_SAVED_WITHIN_S = 5.0           # by the loop, before the thread continues without
_RETRY_AFTER_S = 5.0            # until a store that cannot be read is tried again


class Follower:
    """
    One receiver of events; `tell(events, names)`, in its thread, gets [Event] and {NID: node}, and
    returns how many of them, from the first on, were sent: fewer if it was closed.

    Attributes:
        name: of its row in the store.
        place: the position of the last event that was sent.
    """

    def __init__(self, name: str, tell: Callable[[Sequence[Event], dict[str, str]], int]) -> None:
        self.name, self._send = name, tell
        self._store: EventStore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._saved: bytes | None = None
        self._is_closed = threading.Event()
        self.place: int | None = None
        self._places = ""
        self._batches: queue.SimpleQueue[tuple[Rows, dict[str, str]] | None] = queue.SimpleQueue()
        self._busy = False
        self._thread: threading.Thread | None = None

    def begin(self, last: int, store: EventStore) -> None:
        """
        Continue where the previous process stopped, in the running loop; `last`: the place of the
        newest event of `store`; StateError.
        """
        self._store, self._loop = store, asyncio.get_running_loop()
        self._saved = store.follower(self.name)
        place, numbering = self._read_place()
        self._places = store.numbering
        is_known = place is not None and numbering == self._places and place <= last
        self.place = place if is_known else last
        if not is_known:
            self._save_on_loop()

    def saved_members(self) -> dict[str, object]:
        """The state that was saved last, {} for none; ValueError."""
        members = {} if self._saved is None else json.loads(self._saved)
        if not isinstance(members, dict):
            raise ValueError("expected an object")
        return members

    def _read_place(self) -> tuple[int | None, str]:
        """Return (place, name of the numbering) that were saved; (None, "") without valid ones."""
        try:
            members = self.saved_members()
            if not members:
                return None, ""
            place, places = members["place"], members["places"]
            if (isinstance(place, int) and not isinstance(place, bool) and place >= 0
                    and isinstance(places, str)):
                return place, places
        except (ValueError, KeyError):
            pass
        log.warning("the position of %s in the events is damaged; only new events are sent from "
                    "now on", self.name)
        return None, ""

    def send_new(self, after: Callable[[int, int], Rows], names: Callable[[Iterable[Event]],
                                                                          dict[str, str]]) -> None:
        """Send new events, unless it is still sending; on the loop."""
        if self._busy or self.place is None:
            return
        try:
            rows = after(self.place, MAX_AT_ONCE)
        except StateError as error:
            log.warning("%s", error)
            asyncio.get_running_loop().call_later(_RETRY_AFTER_S, self.send_new, after, names)
            return
        if not rows:
            return
        self._busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"events {self.name}",
                                            args=(asyncio.get_running_loop(),
                                                  lambda: self._finish_batch(after, names)),
                                            daemon=True)
            self._thread.start()
        self._batches.put((rows, names(event for _, event in rows)))

    def _finish_batch(self, after: Callable[[int, int], Rows],
                      names: Callable[[Iterable[Event]], dict[str, str]]) -> None:
        self._busy = False
        self.send_new(after, names)

    def _run(self, loop: asyncio.AbstractEventLoop, done: Callable[[], None]) -> None:
        while True:
            batch = self._batches.get()
            if batch is None:
                return
            rows, names = batch
            sent = len(rows)
            try:
                sent = self._send([event for _, event in rows], names)
            except Exception:                           # later events are sent in any case
                log.exception("internal error; please report: events were not sent by %s",
                              self.name)
            if sent:
                self.place = rows[sent - 1][0]
                self.save()
            if sent < len(rows):
                return
            try:
                loop.call_soon_threadsafe(done)
            except RuntimeError:                        # the loop is closed
                return

    def saved_state(self) -> dict[str, object]:
        """Make the state to save."""
        return {"place": self.place, "places": self._places}

    def save(self) -> None:
        """Save the position, in the thread: it is in the store afterwards, if that is possible."""
        done = threading.Event()

        def save_on_loop() -> None:
            self._save_on_loop()
            done.set()
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(save_on_loop)
        except RuntimeError:                            # it is closed; close() saves
            return
        waited_s = 0.0
        while waited_s < _SAVED_WITHIN_S and not self._is_closed.is_set() and not done.wait(0.05):
            waited_s += 0.05

    def _save_on_loop(self) -> None:
        body = json.dumps(self.saved_state()).encode()
        if self._store is None or body == self._saved:
            return
        try:
            self._store.save_follower(self.name, body)
            self._saved = body
        except StateError as error:
            log.warning("%s; after a restart some events may be sent twice", error)

    def close(self) -> None:
        """Stop, after its receiver is closed: the rest is sent after the next start."""
        self._batches.put(None)
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(2.0)
        self._save_on_loop()


class Followers:
    """
    All receivers of events.

    `sinks`: as in iostats.sinks; `more`: Followers besides them; `store`: the EventStore, for their
    positions; `after(place, limit)`: [(place, Event)] of committed events, by place; `last()`: the
    newest place, 0 for none; `find_node(nid)`: a node's name, or the NID.
    """

    def __init__(self, sinks: Iterable[Sink], store: EventStore, after: Callable[[int, int], Rows],
                 last: Callable[[], int], find_node: Callable[[str], str],
                 more: Iterable[Follower] = ()) -> None:
        sinks = list(sinks)
        self._rows_after, self._last, self._node_of = after, last, find_node
        self._latest: tuple[int, Rows] = (-1, [])       # what was read last, and after which place
        self._store = store
        self._counting = [sink for sink in sinks if hasattr(sink, "events")]
        self._shows_status = [sink for sink in sinks if hasattr(sink, "event_status")]
        self.followers = [*(Follower(sink.name, sink.store_events) for sink in sinks
                            if hasattr(sink, "store_events")), *more]

    def begin(self) -> None:
        """Start once, in the running loop, when the store is open; StateError."""
        for follower in self.followers:
            follower.begin(self._last(), self._store)
        self._send_to_all()

    def changed(self, changes: Sequence[Change]) -> None:
        """Forward committed changes; on the loop, returns at once."""
        names = self._find_node_names(change.event for change in changes) if self._counting else {}
        for sink in self._counting:
            try:
                sink.events(changes, names)
            except Exception:
                log.exception("internal error; please report: events were not counted")
        self._send_to_all()

    def status(self, node: str, received_at: float, every_s: float, status: ServerStatus) -> None:
        """
        Forward a storage server's status to sinks; `received_at`: its time, s since 1970;
        `status`: of a ScanResult.
        """
        for sink in self._shows_status:
            sink.event_status(node, received_at, every_s, status)

    def _read_after(self, place: int, limit: int) -> Rows:
        """Return the rows after a place; followers at the same place share the result of one query.
        """
        if self._latest[0] != place:
            rows = self._rows_after(place, limit)
            if not rows:
                return rows
            self._latest = place, rows
        return self._latest[1]

    def _send_to_all(self) -> None:
        for follower in self.followers:
            follower.send_new(self._read_after, self._find_node_names)

    def _find_node_names(self, events: Iterable[Event]) -> dict[str, str]:
        return {nid: self._node_of(nid) for nid in {nid for event in events
                                                    for nid in event.clients}}

    def close(self) -> None:
        """Close all, after the sinks, which ends what their threads wait for."""
        for follower in self.followers:
            follower.close()
