"""
Events in the file of store.py.

    events           one row for each event, as it is known now, by its `place`
    events_numbering one row: the name of the numbering of places, and what went for lack of room
    events_tellers   what each storage server has said of itself
    events_nids      the NIDs that events name, so that they have names after a restart

A place is a number that only grows.  An event that grows moves to a new one, so who has seen all
up to a place has only to ask for what is behind it.  Rows are added at the end and removed at the
beginning of the file, and no index of it has to be changed at a random place: which ids are there
is a table in memory, in the same transactions, made anew when the store is opened.
"""

from __future__ import annotations

import os
import zlib
from collections import namedtuple
from itertools import islice

import msgspec

from iostats.events.event import Event, merge_copy
from iostats.site.events.followers import Change
from iostats.site.events.spans import Spans
from iostats.site.harvest_store import SweepStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from iostats.site.store import Store

MOST_AT_ONCE = 500              # events in one step: SQLite before 3.32 accepts 999 values
MOST_NIDS = 250_000             # that are kept; others are found by themselves alone
MOST_KNOWN_DAMAGED = 1000       # that are put aside in one look
_CHECKSUM = 4

Placed = namedtuple("Placed", "place event")
Placed.__doc__ = """An Event and its place."""

Kept = namedtuple("Kept", "changes refused")
Kept.__doc__ = """
What became of events.

Attributes:
    changes: [Change] of those that are new or know more.
    refused: how many have the id of an event that another machine has told, or of another kind.
"""

_encode = msgspec.msgpack.Encoder().encode
_list_of = msgspec.msgpack.Decoder(list).decode


def encoded_event(event: Event) -> bytes:
    """The bytes of a row, with a checksum."""
    body = _encode(tuple(event))
    return body + zlib.crc32(body).to_bytes(_CHECKSUM, "big")


def decoded_event(body: Any) -> Event:
    """What encoded_event() made; ValueError or msgspec.MsgspecError."""
    if not isinstance(body, bytes) or zlib.crc32(
            body[:-_CHECKSUM]) != int.from_bytes(body[-_CHECKSUM:], "big"):
        raise ValueError("its checksum is another one")
    fields = _list_of(body[:-_CHECKSUM])
    if len(fields) != len(Event._fields):
        raise ValueError(f"expected {len(Event._fields)} members, got {len(fields)}")
    fields[_CLIENTS] = tuple(fields[_CLIENTS])
    return Event(*fields)


def ended(event: Event) -> float:
    """The last moment that an event is about."""
    return float(max(event.time, event.last, event.time if event.over is None else event.over))


class EventStore(SweepStore):
    """
    The tables of events in a store.Store; every method may raise StateError.

    Attributes:
        last: the newest place that was given.
        count: how many events there are.
        numbering: the name of the numbering of places: another one began again.
        nids: the NIDs that are kept.
        dropped: how many events went for lack of room; dropped_until: when the last of them was.
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
        # It is outside of transactions that a database can be attached.
        store.commit()
        if "known" not in {name for _, name, _ in store.rows("PRAGMA database_list")}:
            store.rows("ATTACH ':memory:' AS known")
            store.change("CREATE TABLE known.ids (id INTEGER PRIMARY KEY, place INTEGER NOT NULL)")
        self.reload()

    def reload(self) -> None:
        """Begin with what the store says."""
        self._put_damaged_aside()
        self._store.change(
            ("DELETE FROM known.ids", ()),
            ("INSERT OR REPLACE INTO known.ids SELECT id, place FROM main.events ORDER BY id", ()),
            ("DELETE FROM events_numbering WHERE typeof(name) != 'text'", ()),
            ("INSERT OR IGNORE INTO events_numbering VALUES (1, ?, 0, 0)",
             (os.urandom(8).hex(),)))
        self.nids = {nid for nid, in self._store.rows("SELECT nid FROM events_nids")
                     if isinstance(nid, str)}
        self._spans = Spans.of(self._store.rows(Spans.SELECT))
        self.after_failure()

    def after_failure(self) -> None:
        """What was changed since the last commit is dropped."""
        self.nids.difference_update(self._new_nids)
        self._new_nids.clear()
        [(self.numbering, dropped, until)] = self._store.rows(
            "SELECT name, dropped, dropped_until FROM events_numbering")
        self.dropped = dropped if isinstance(dropped, int) else 0
        self.dropped_until = until if isinstance(until, float) else 0.0
        self._removed = 0
        [(self.count,)] = self._store.rows("SELECT count(*) FROM known.ids")
        # Places that were given once are not given again.
        rows = self._store.rows("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        self.last = max([self.last, *(seq for seq, in rows if isinstance(seq, int))])

    def committed(self) -> None:
        """What was changed is on the disk."""
        self._new_nids.clear()
        if self._removed:
            self._spans.remove_before(self._removed)
            self._removed = 0

    def _put_damaged_aside(self) -> None:
        for place, in self._store.rows(
                "SELECT place FROM events WHERE typeof(id) != 'integer' OR typeof(made) != 'real' "
                "OR typeof(time) != 'real' OR typeof(ended) != 'real' OR typeof(body) != 'blob' "
                "LIMIT ?", (MOST_KNOWN_DAMAGED,)):
            self.put_aside("events", (place,), ValueError("its columns are of other types"))

    # -- events: on the disk with the next `commit`

    def keep(self, events: Sequence[Event]) -> Kept:
        """Keep up to MOST_AT_ONCE events: new ones, and those that know more than before."""
        known = self._known([*{_number_of(event.id): None for event in events}])
        batch: dict[int, Event] = {}
        refused = 0
        for event in events:
            id = _number_of(event.id)
            before = batch.get(id) or known.get(id, (0, None))[1]
            if before is not None and not _is_same(before, event):
                refused += 1
            else:
                batch[id] = merge_copy(before, event)
        made, changes = self._store.now(), []
        gone: list[tuple[int]] = []
        rows, ids = [], []
        for id, event in batch.items():
            place, old = known.get(id, (None, None))
            if event is old:
                continue
            if place is not None:
                gone.append((place,))
            self.last += 1
            last = ended(event)
            rows.append((self.last, id, made, float(event.time), float(last), event.severity,
                         event.kind, event.file_system, encoded_event(event)))
            ids.append((id, self.last))
            self._spans.add(self.last, event.time, last)
            gained = event.count + event.skipped
            changes.append(Change(event, gained if old is None else
                                  max(0, gained - old.count - old.skipped)))
        if gone:
            self._store.do_all("DELETE FROM main.events WHERE place = ?", gone)
        if rows:
            self._store.do_all("INSERT INTO main.events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._store.do_all("INSERT OR REPLACE INTO known.ids VALUES (?, ?)", ids)
            self.count += len(rows) - len(gone)
            self._keep_nids(batch.values())
            # A little more than came, so that it gets down to a smaller limit.
            self._make_room(len(rows) + len(rows) // 8 + 1)
        return Kept(changes, refused)

    def _keep_nids(self, events: Iterable[Event]) -> None:
        new = {client for event in events for client in event.clients
               if "@" in client and client not in self.nids}
        if new and len(self.nids) + len(new) <= MOST_NIDS:
            self._store.do_all("INSERT OR IGNORE INTO events_nids VALUES (?)",
                               [(nid,) for nid in sorted(new)])
            self.nids |= new
            self._new_nids += new

    def _known(self, ids: list[int]) -> dict[int, tuple[int, Event | None]]:
        """{id: (place, Event)} of those of these that are there; None for one that is damaged."""
        found: dict[int, tuple[int, Event | None]] = {}
        for at in range(0, len(ids), MOST_AT_ONCE):
            some = ids[at:at + MOST_AT_ONCE]
            for id, place, body in self._store.rows(
                    f"SELECT known.ids.id, known.ids.place, body FROM known.ids JOIN main.events "
                    f"ON main.events.place = known.ids.place WHERE known.ids.id IN "
                    f"({','.join('?' * len(some))})", some):
                try:
                    found[id] = place, decoded_event(body)
                except Exception:                   # it is replaced by what came now
                    found[id] = place, None
        return found

    def _make_room(self, most: int) -> None:
        """Remove up to `most` of the oldest events beyond the limit."""
        over = min(self.count - self._keep_count, most)
        if over > 0:
            gone = self._remove("", (), over)
            self.dropped += len(gone)
            self.dropped_until = max([self.dropped_until, *(last for _, last in gone)])
            self._store.do("UPDATE events_numbering SET dropped = ?, dropped_until = ?",
                           (self.dropped, self.dropped_until))

    def forget_old(self, before: float) -> int:
        """
        Remove some of the events that were kept before this moment, by the store's time; how many.
        """
        # Up to a day's worth at once, so that there is time to notice a mistake.
        return len(self._remove("WHERE made < ?", (before,), MOST_AT_ONCE))

    def _remove(self, where: str, values: tuple[Any, ...], most: int) -> list[tuple[int, float]]:
        rows = self._store.rows(f"SELECT place, id, ended FROM main.events {where} "
                                f"ORDER BY place LIMIT ?", (*values, most))
        if rows:
            self._store.do_all("DELETE FROM main.events WHERE place = ?",
                               [(place,) for place, _, _ in rows])
            self._store.do_all("DELETE FROM known.ids WHERE id = ? AND place = ?",
                               [(id, place) for place, id, _ in rows])
            self.count -= len(rows)
            self._removed = rows[-1][0]
        return [(place, last if isinstance(last, float) else 0.0) for place, _, last in rows]

    # -- questions

    def after(self, place: int, last: int, most: int) -> list[Placed]:
        """Up to `most` events behind `place` and up to `last`, by place."""
        found: list[Placed] = []
        while place < last and not found:           # more than one turn where all are damaged
            rows = self._store.rows(
                "SELECT place, body FROM main.events WHERE place > ? AND place <= ? "
                "ORDER BY place LIMIT ?", (place, last, most))
            found = list(self._understood(rows))
            if not rows:
                break
            place = rows[-1][0]
        return found

    def parts(self, after: int, last: int, since: float, until: float,
              newest_first: bool = False) -> Iterator[tuple[int, int, float]]:
        """
        [(after, up to, latest end)]: ranges of places, none of which takes long to read, with all
        events of this time; by place, or those that may have the latest events first.
        """
        return self._spans.parts(after, last, since, until, newest_first)

    def part(self, after: int, last: int, where: str = "", values: Sequence[Any] = ()
             ) -> list[Placed]:
        """The events of one of `parts` for which `where` (SQL) holds."""
        return list(self._understood(self._store.rows(
            f"SELECT place, body FROM main.events WHERE place > ? AND place <= ? {where} "
            f"ORDER BY place", (after, last, *values))))

    def _understood(self, rows: Iterable[tuple[Any, Any]]) -> Iterator[Placed]:
        for place, body in rows:
            try:
                yield Placed(place, decoded_event(body))
            except Exception as error:              # whatever these bytes do to msgspec
                self._put_event_aside(place, error)

    def _put_event_aside(self, place: int, error: Exception) -> None:
        self.put_aside("events", (place,), error)
        self._store.change("DELETE FROM known.ids WHERE place = ?", (place,))
        [(self.count,)] = self._store.rows("SELECT count(*) FROM known.ids")

    # -- storage servers

    def keep_teller(self, node: str, heard: float, body: bytes) -> None:
        """What a storage server has said of itself; on the disk with the next `commit`."""
        self._store.do("INSERT OR REPLACE INTO events_tellers VALUES (?, ?, ?)",
                       (node, heard, body))

    def tellers(self) -> dict[Any, Any]:
        """{node: (heard, bytes)}."""
        return {node: (heard, body) for node, heard, body in self._store.rows(
            "SELECT node, heard, body FROM events_tellers")}

    def forget_tellers(self, nodes: Iterable[str]) -> None:
        """These are known no more; committed."""
        self._store.change(*(("DELETE FROM events_tellers WHERE node = ?", (node,))
                             for node in islice(nodes, MOST_AT_ONCE)))


_CLIENTS = Event._fields.index("clients")


def _number_of(id: str) -> int:
    """An id as SQLite keeps it: 64 bits, with a sign."""
    number = int(id, 16)
    return number - (1 << 64) if number >> 63 else number


def _is_same(one: Event, other: Event) -> bool:
    """Whether two events with one id can be copies of one."""
    return bool(one.node == other.node and one.kind == other.kind)
