"""
The tables of events.

    events           one row for each event, as it is known now, by its `place`
    events_numbering one row: the name of the numbering of places, the last one that was given, and
                     how many events were dropped for lack of space
    events_tellers   the last status of each storage server
    events_followers the position of each receiver of new events (harvest/events/followers.py)
    events_nids      the NIDs that events name, so that they have names after a restart

A place is a number that only grows.  An event that grows moves to a new one, so who has seen all
up to a place has only to ask for what is behind it.  A store may lose its last transactions: a
replica without them is promoted, or a copy is restored.  So with each opening places continue at a
number that follows from the time, above all that were given before.

Rows are added at the end and removed at the beginning of the file, and no index of it has to be
changed at a random place: which ids are there is a temporary table, in the same transactions,
filled when the store is opened.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from iostats.events.event import Event, merge_copy
from iostats.store.database import MOST_DAMAGED, make_placeholders, upsert
from iostats.store.harvest_store import SweepStore
from iostats.store.record_store import Store

MOST_AT_ONCE = 500              # events in one step: SQLite before 3.32 accepts 999 values
MOST_NIDS = 250_000             # that are stored; events of another one are found by that NID only
_CHECKSUM = 4
_PUT_ID = upsert("known_ids", "id", "place")
_PUT_REPORTER = upsert("events_tellers", "node", "reported_at, body")
_PUT_FOLLOWER = upsert("events_followers", "name", "body")
_LAST = "UPDATE events_numbering SET last = ?"      # where a removed event may have had it
# More than come in a second, so that no opening gives a place twice; still exact in JSON.
_PLACES_A_SECOND = 1 << 20
_BITS = 9


class Change(NamedTuple):
    """A new or updated event."""

    event: Event    # the Event after the change
    # the increase of its count, including lines that the kernel skipped; 0 if only its end became
    # known
    gained: int


class Placed(NamedTuple):
    """An Event and its place."""

    place: int
    event: Event


class StoredEvents(NamedTuple):
    """The result of storing events."""

    changes: list[Change]   # [Change] of those that are new or know more
    # how many have the id of an event that another machine has reported, or of another kind
    refused: int


_encode = msgspec.msgpack.Encoder().encode
_list_of = msgspec.msgpack.Decoder(list).decode


def encode_event(event: Event) -> bytes:
    """The bytes of a row, with a checksum."""
    body = _encode(tuple(event))
    return body + zlib.crc32(body).to_bytes(_CHECKSUM, "big")


def decode_event(body: object) -> Event:
    """Decode an event of encode_event(); ValueError or msgspec.MsgspecError."""
    if not isinstance(body, bytes) or zlib.crc32(
            body[:-_CHECKSUM]) != int.from_bytes(body[-_CHECKSUM:], "big"):
        raise ValueError("its checksum is another one")
    fields = _list_of(body[:-_CHECKSUM])
    if len(fields) != len(Event._fields):
        raise ValueError(f"expected {len(Event._fields)} members, got {len(fields)}")
    fields[_CLIENTS] = tuple(fields[_CLIENTS])
    return Event(*fields)


def get_end(event: Event) -> float:
    """The end of an event: its last known moment."""
    return float(max(event.time, event.last, event.time if event.over is None else event.over))


class EventStore(SweepStore):
    """
    The tables of events in a store.Store; every method may raise StateError.

    Attributes:
        last: the newest place that was given.
        count: how many events there are.
        numbering: the name of the numbering of places: a new name for each restart of it.
        nids: the stored NIDs.
        dropped: the number of events dropped for lack of space; dropped_until: the last one's time.
    """

    def __init__(self, store: Store, keep_count: int) -> None:
        super().__init__(store)
        self._keep_count = keep_count
        self._spans = Spans()
        self._removed = 0                               # the newest place, since the last commit
        self.nids: set[str] = set()
        self._new_nids: list[str] = []                  # since the last commit
        self.last = self.count = self.dropped = 0
        self.dropped_until, self.numbering = 0.0, ""
        store.change(store.connection.known_ids)
        self.reload()

    def reload(self) -> None:
        """Load the state from the store."""
        [(newest,)] = self._store.rows("SELECT max(place) FROM events", (), tuple[int])
        self.last = max(self.last, newest if isinstance(newest, int) else 0)
        if self._store.rows("SELECT one FROM events_numbering", (), tuple[int]):
            self.last = max(self.last, int(time.time() * _PLACES_A_SECOND))
        self._put_damaged_aside()
        damaged = self._store.mistyped("events_numbering", "one",
                                       {"name": "text", "last": "integer"}, 1)
        self._store.change(
            ("DELETE FROM known_ids", ()),
            ("INSERT INTO known_ids SELECT id, max(place) FROM events GROUP BY id", ()),
            *(("DELETE FROM events_numbering WHERE one = ?", (row,)) for row in damaged),
            ("INSERT INTO events_numbering VALUES (1, ?, 0, 0, ?) ON CONFLICT DO NOTHING",
             (os.urandom(8).hex(), self.last)))
        self.nids = {nid for nid, in self._store.rows("SELECT nid FROM events_nids", (), tuple[str])
                     if isinstance(nid, str)}
        self._spans = Spans.of(self._store.rows(Spans.SELECT, (), tuple[int, float, float]))
        self.drop_changes()

    def drop_changes(self) -> None:
        """Drop the changes since the last commit."""
        self.nids.difference_update(self._new_nids)
        self._new_nids.clear()
        [(self.numbering, dropped, until, last)] = self._store.rows(
            "SELECT name, dropped, dropped_until, last FROM events_numbering", (),
            tuple[str, int, float, int])
        self.dropped = dropped if isinstance(dropped, int) else 0
        self.dropped_until = until if isinstance(until, float) else 0.0
        self._removed = 0
        [(self.count,)] = self._store.rows("SELECT count(*) FROM known_ids", (), tuple[int])
        # Places that were given once are not given again.
        self.last = max(self.last, last)

    def committed(self) -> None:
        """Note that the changes are on the disk."""
        self._new_nids.clear()
        if self._removed:
            self._spans.remove_before(self._removed)
            self._removed = 0

    def _put_damaged_aside(self) -> None:
        for place in self._store.mistyped("events", "place", {
                "id": "integer", "made": "real", "time": "real", "ended": "real", "body": "blob"},
                MOST_DAMAGED):
            self.put_aside("events", (place,), ValueError("its columns are of other types"))

    # -- events: on the disk with the next `commit`

    def add_events(self, events: Sequence[Event]) -> StoredEvents:
        """Store up to MOST_AT_ONCE events: new ones, and those with new information."""
        stored = self._load_known([*{_convert_id(event.id): None for event in events}])
        batch: dict[int, Event] = {}
        refused = 0
        for event in events:
            id = _convert_id(event.id)
            before = batch.get(id) or stored.get(id, (0, None))[1]
            if before is not None and not _is_same(before, event):
                refused += 1
            else:
                batch[id] = merge_copy(before, event)
        made, changes = self._store.now(), []
        over: list[tuple[int]] = []
        rows, ids = [], []
        for id, event in batch.items():
            place, old = stored.get(id, (None, None))
            if event is old:
                continue
            if place is not None:
                over.append((place,))
            self.last += 1
            last = get_end(event)
            rows.append((self.last, id, made, float(event.time), float(last), event.severity,
                         event.kind, event.file_system, encode_event(event), event.target,
                         event.node, event.count))
            ids.append((id, self.last))
            self._spans.add(self.last, event.time, last)
            gained = event.count + event.skipped
            changes.append(Change(event, gained if old is None else
                                  max(0, gained - old.count - old.skipped)))
        if over:
            self._store.do_all("DELETE FROM events WHERE place = ?", over)
        if rows:
            self._store.do_all(f"INSERT INTO events VALUES ({make_placeholders(rows[0])})", rows)
            self._store.do_all(_PUT_ID, ids)
            self.count += len(rows) - len(over)
            self._store_nids(batch.values())
            # A little more than came, so that it gets down to a smaller limit.
            self._make_room(len(rows) + len(rows) // 8 + 1)
        return StoredEvents(changes, refused)

    def _store_nids(self, events: Iterable[Event]) -> None:
        new = {client for event in events for client in event.clients
               if "@" in client and client not in self.nids}
        if new and len(self.nids) + len(new) <= MOST_NIDS:
            self._store.do_all("INSERT INTO events_nids VALUES (?) ON CONFLICT DO NOTHING",
                               [(nid,) for nid in sorted(new)])
            self.nids |= new
            self._new_nids += new

    def _load_known(self, ids: list[int]) -> dict[int, tuple[int, Event | None]]:
        """Return {id: (place, Event)} of the stored ones of these; None for a damaged event."""
        stored: dict[int, tuple[int, Event | None]] = {}
        for at in range(0, len(ids), MOST_AT_ONCE):
            part = ids[at:at + MOST_AT_ONCE]
            for id, place, body in self._store.rows(
                    f"SELECT known_ids.id, known_ids.place, body FROM known_ids JOIN events "
                    f"ON events.place = known_ids.place WHERE known_ids.id IN "
                    f"({make_placeholders(part)})", part, tuple[int, int, bytes]):
                try:
                    stored[id] = place, decode_event(body)
                except Exception:                   # it is replaced by what came now
                    stored[id] = place, None
        return stored

    def _make_room(self, limit: int) -> None:
        """Remove up to `limit` of the oldest events beyond the limit."""
        over = min(self.count - self._keep_count, limit)
        if over > 0:
            removed = self._remove("", (), over)
            self.dropped += len(removed)
            self.dropped_until = max([self.dropped_until, *(last for _, last in removed)])
            self._store.do("UPDATE events_numbering SET dropped = ?, dropped_until = ?",
                           (self.dropped, self.dropped_until))

    def delete_old(self, before: float) -> int:
        """
        Remove some of the events stored before this moment, by the store's time; return their
        number.
        """
        # Up to a day's worth at once, so that there is time to notice a mistake.
        return len(self._remove("WHERE made < ?", (before,), MOST_AT_ONCE))

    def _remove(self, where: str, values: tuple[object, ...],
                limit: int) -> list[tuple[int, float]]:
        rows = self._store.rows(f"SELECT place, id, ended FROM events {where} "
                                f"ORDER BY place LIMIT ?", (*values, limit), tuple[int, int, float])
        if rows:
            self._store.do_all("DELETE FROM events WHERE place = ?",
                               [(place,) for place, _, _ in rows])
            self._store.do_all("DELETE FROM known_ids WHERE id = ? AND place = ?",
                               [(id, place) for place, id, _ in rows])
            self._store.do(_LAST, (self.last,))
            self.count -= len(rows)
            self._removed = rows[-1][0]
        return [(place, last if isinstance(last, float) else 0.0) for place, _, last in rows]

    # -- questions

    def after(self, place: int, last: int, limit: int) -> list[Placed]:
        """Up to `limit` events behind `place` and up to `last`, by place."""
        events: list[Placed] = []
        while place < last and not events:           # more than one turn where all are damaged
            rows = self._store.rows(
                "SELECT place, body FROM events WHERE place > ? AND place <= ? "
                "ORDER BY place LIMIT ?", (place, last, limit), tuple[int, bytes])
            events = list(self._decode_rows(rows))
            if not rows:
                break
            place = rows[-1][0]
        return events

    def parts(self, after: int, last: int, since: float, until: float,
              newest_first: bool = False) -> Iterator[tuple[int, int, float]]:
        """
        Return [(after, up to, latest end)]: ranges of places, none of which takes long to read,
        with all events of this time; by place, or those that may have the latest events first.
        """
        return self._spans.parts(after, last, since, until, newest_first)

    def part(self, after: int, last: int, where: str = "", values: Sequence[object] = ()
             ) -> list[Placed]:
        """The events of one of `parts` for which `where` (SQL) holds."""
        return list(self._decode_rows(self._store.rows(
            f"SELECT place, body FROM events WHERE place > ? AND place <= ? {where} "
            f"ORDER BY place", (after, last, *values), tuple[int, bytes])))

    def _decode_rows(self, rows: Iterable[tuple[int, bytes]]) -> Iterator[Placed]:
        for place, body in rows:
            try:
                yield Placed(place, decode_event(body))
            except Exception as error:              # whatever these bytes do to msgspec
                self._put_event_aside(place, error)

    def _put_event_aside(self, place: int, error: Exception) -> None:
        self.put_aside("events", (place,), error)
        self._store.change((_LAST, (self.last,)),
                           ("DELETE FROM known_ids WHERE place = ?", (place,)))
        [(self.count,)] = self._store.rows("SELECT count(*) FROM known_ids", (), tuple[int])

    # -- receivers of new events

    def follower(self, name: str) -> bytes | None:
        """Return the state that save_follower() stored for this receiver."""
        rows = self._store.rows("SELECT body FROM events_followers WHERE name = ?", (name,),
                                tuple[bytes])
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None

    def save_follower(self, name: str, body: bytes) -> None:
        """Store the position of a receiver; committed."""
        self._store.change(_PUT_FOLLOWER, (name, body))

    # -- storage servers

    def store_reporter(self, node: str, received_at: float, body: bytes) -> None:
        """Store a storage server's report of its own state; on the disk with the next `commit`."""
        self._store.do(_PUT_REPORTER, (node, received_at, body))

    def load_reporting_servers(self) -> dict[str, tuple[float, bytes]]:
        """Return {node: (time of its last message, bytes)}."""
        return {node: (received_at, body) for node, received_at, body in self._store.rows(
            "SELECT node, reported_at, body FROM events_tellers", (), tuple[str, float, bytes])}

    def delete_reporters(self, nodes: Iterable[str]) -> None:
        """Delete these storage servers' rows, and commit."""
        self._store.change(*(("DELETE FROM events_tellers WHERE node = ?", (node,))
                             for node in islice(nodes, MOST_AT_ONCE)))


_CLIENTS = Event._fields.index("clients")


def _convert_id(id: str) -> int:
    """Convert an id to the signed 64 bits of SQLite."""
    number = int(id, 16)
    return number - (1 << 64) if number >> 63 else number


def _is_same(event: Event, other_event: Event) -> bool:
    """Whether two events with one id can be copies of one."""
    return bool(event.node == other_event.node and event.kind == other_event.kind)


class Spans:
    """The time spans of all buckets of events: {number: [began, ended]}."""

    SELECT = (f"SELECT place >> {_BITS}, min(time), max(ended) FROM events "
              f"GROUP BY place >> {_BITS}")

    def __init__(self) -> None:
        self._of: dict[int, list[float]] = {}

    @classmethod
    def of(cls, rows: Iterable[tuple[int, float, float]]) -> Spans:
        """Make the Spans of rows (number, began, ended)."""
        spans = cls()
        spans._of = {number: [began, ended] for number, began, ended in rows}
        return spans

    def add(self, place: int, began: float, ended: float) -> None:
        """Add an event with this number (`place`)."""
        span = self._of.get(place >> _BITS)
        if span is None:
            self._of[place >> _BITS] = [began, ended]
            return
        if began < span[0]:
            span[0] = began
        if ended > span[1]:
            span[1] = ended

    def remove_before(self, place: int) -> None:
        """Remove all events before this place."""
        for number in list(self._of):
            if number >= place >> _BITS:
                break
            del self._of[number]

    def parts(self, after: int, last: int, since: float, until: float,
              newest_first: bool) -> Iterator[tuple[int, int, float]]:
        """
        Yield [(behind which place, up to which, the latest end there)] of the buckets that may have
        events of this time; by place, or by the latest end, the newest first.
        """
        chosen = [(number, ended) for number, (began, ended) in self._of.items()
                  if ended >= since and began <= until
                  and after >> _BITS <= number <= last >> _BITS]
        chosen.sort(key=lambda span: -span[1] if newest_first else span[0])
        for number, ended in chosen:
            first = (number << _BITS) - 1
            yield max(after, first), min(last, first + (1 << _BITS)), ended
