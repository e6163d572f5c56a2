"""
The tables of clients.

    client_nids      the number of each client of a file system; for good
    client_sources   one row for each source (source.py): its state, as of some message
    client_blocks    what has come of a source since then, in its order: replayed after a restart
    client_gains     what clients gained, by sweep, and by hour when that is long ago
    client_losses    when something may be missing

A message is in `client_blocks` before it is answered; what goes to `client_gains` and leaves the
source is one transaction, with a row in `client_blocks` that says so.  So a server that is killed
at any byte counts each gain once.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import msgspec
import numpy

from iostats.base.ids import ALL_CLIENTS, ALL_TARGETS, Nid, Target
from iostats.base.packed import unpack_integers
from iostats.load.amounts import CLIENT_METRICS
from iostats.store.database import MOST_DAMAGED, upsert
from iostats.store.harvest_store import StateKey, SweepStore
from iostats.wire.messages.arrays import Integers

_Key = tuple[str, str, str]             # storage server, file system, kind

_DAY_S, FOR_EVER = 86400.0, 1e12
_COUNT = struct.Struct("<I7B")              # of clients; bytes of a number in each column
_WIDTHS = (0, 1, 2, 4, 8)
_ADD_BLOCK = "INSERT INTO client_blocks (node, file_system, kind, body) VALUES (?, ?, ?, ?)"
_ADD_PART = ("INSERT INTO client_gains (file_system, since, until, made, merged, body) "
             "VALUES (?, ?, ?, ?, ?, ?)")
_PUT_NODE_HOUR = upsert(
    "node_hours", "file_system, began, nid", "node, read_bytes, read_bytes_max, write_bytes, "
    "write_bytes_max, operations, operations_max, lower_bound")
_PUT_NID = upsert("client_nids", "file_system, number", "nid")
_PUT_SOURCE = upsert("client_sources", "node, file_system, kind", "state")


class HistoryPart(NamedTuple):
    """The activity of a file system's clients in one sweep, or one hour."""

    # since, until: by the site's clock
    since: float
    until: float
    numbers: Integers   # the clients' numbers
    gains: Integers     # [client, of CLIENT_METRICS]


class HistoryRow(NamedTuple):
    """A row of `client_gains`, without its HistoryPart."""

    id: int
    since: float
    until: float
    made: float


class MarkedLoss(NamedTuple):
    """A ClientLoss of wire/messages/clients.py, by the site's clock."""

    since: float
    until: float
    target: Target      # "": all of the storage server's
    nid: Nid            # "": all clients
    why: str


class LoggedBlock(NamedTuple):
    """A row for `client_blocks`: its source, an encode_block()."""

    node: str
    file_system: str
    kind: str
    body: bytes


class ClientBlockRow(msgspec.Struct, omit_defaults=True,
                     rename={"every_s": "every", "ahead_s": "ahead"}):
    """A row of `client_blocks`, as compressed MessagePack."""

    # slot, every_s, full: as in the message of the block
    slot: float = 0.0
    every_s: float = 60.0
    full: bool = False
    ahead_s: float = 0.0    # the storage server's clock less the site's, when it was read, s
    # is_new, arrived: as of ClientSource.take
    is_new: bool = False
    packed: bytes = b""     # the block's bytes
    kept: int = 0           # so many of the source's readings went to the history
    arrived: Optional[float] = None


_row_of = msgspec.msgpack.Decoder(ClientBlockRow).decode
_encode = msgspec.msgpack.Encoder().encode


def encode_block(row: ClientBlockRow) -> bytes:
    """The bytes of a row, with a checksum."""
    return zlib.compress(_encode(row), 1)


def decode_row(body: bytes) -> ClientBlockRow:
    """Decode a row of encode_block(); zlib.error, msgspec.MsgspecError."""
    return _row_of(zlib.decompress(body))


def encode_part(part: HistoryPart) -> bytes:
    """The numbers and gains of a HistoryPart, with a checksum: sorted, in the fewest bytes."""
    order = numpy.argsort(part.numbers)
    columns = [numpy.diff(part.numbers[order], prepend=0), *part.gains[order].T]
    widths = [0 if not len(column) or not (largest := int(column.max())) else
              next(width for width in _WIDTHS[1:] if largest < 1 << 8 * width)
              for column in columns]
    return zlib.compress(b"".join([
        _COUNT.pack(len(order), *widths),
        *(column.astype(f"<u{width}").tobytes() for column, width in zip(columns, widths)
          if width)]), 1)


def decode_part(since: float, until: float, body: bytes) -> HistoryPart:
    """Decode a row of encode_part(); zlib.error, struct.error, ValueError."""
    data = zlib.decompress(body)
    count, *widths = unpack_integers(_COUNT, data)
    if not set(widths) <= set(_WIDTHS) or len(data) != _COUNT.size + count * sum(widths):
        raise ValueError(f"expected {count * sum(widths)} bytes of {count} clients, got "
                         f"{len(data) - _COUNT.size}")
    at, columns = _COUNT.size, []
    for width in widths:
        columns.append(numpy.frombuffer(data, f"<u{width}", count, at).astype(numpy.int64)
                       if width else numpy.zeros(count, numpy.int64))
        at += count * width
    return HistoryPart(since, until, numpy.cumsum(columns[0]).astype(numpy.int32),
                       numpy.stack(columns[1:], axis=1).reshape(count, len(CLIENT_METRICS)))


class ClientStore(SweepStore):
    """The tables of clients in a store.Store; every method may raise StateError."""

    def now(self) -> float:
        """The store's own time."""
        return self._store.now()

    # -- messages: on the disk with the store's next `commit`

    def add_blocks(self, logged: Iterable[LoggedBlock]) -> None:
        """Store the blocks of a message."""
        self._store.do_all(_ADD_BLOCK, logged)

    def mark(self, file_system: str, node: str, loss: MarkedLoss) -> None:
        """Store a loss that the server itself detected."""
        for statement, values in _make_loss_statements(file_system, node, loss, self.now()):
            self._store.do(statement, values)

    # -- committed at once

    def checkpoint(self, states: Mapping[StateKey, bytes]) -> None:
        """
        Store {(storage server, file system, kind): state} in place of all earlier rows of these.
        """
        self._store.change(*(
            statement for key, state in states.items() for statement in (
                ("DELETE FROM client_blocks WHERE node = ? AND file_system = ? AND kind = ?", key),
                (_PUT_SOURCE, (*key, state)))))

    def store_history(self, nids: Iterable[tuple[str, int, str]],
                      parts: Iterable[tuple[str, HistoryPart]],
                      losses: Iterable[tuple[str, str, MarkedLoss]],
                      logged: Iterable[LoggedBlock]) -> None:
        """
        Store [(file system, number, NID)], [(file system, HistoryPart)] and [(file system, storage
        server, MarkedLoss)]; and [LoggedBlock], which remove them from their sources.
        """
        made = self.now()
        self._store.change(
            *((_PUT_NID, row) for row in nids),
            *((_ADD_PART, (name, part.since, part.until, made, 0, encode_part(part)))
              for name, part in parts),
            *(statement for row in losses for statement in _make_loss_statements(*row, made)),
            *((_ADD_BLOCK, row) for row in logged))

    def replace_parts(self, rows: Sequence[int], file_system: str, made: float,
                      part: HistoryPart) -> None:
        """Replace rows of `client_gains` by one with their sum."""
        self._store.change(
            *(("DELETE FROM client_gains WHERE id = ?", (row,)) for row in rows),
            (_ADD_PART, (file_system, part.since, part.until, made, 1, encode_part(part))))

    def store_node_hours(self, rows: Iterable[tuple[object, ...]]) -> None:
        """
        Store [(file system, began, NID, node, least and most bytes read, written, and operations,
        1 for a lower bound)], in place of those that are there.
        """
        self._store.change(rows_of={_PUT_NODE_HOUR: [*rows]})

    def query_next_node_hour(self, file_system: str) -> float | None:
        """
        Return the last hour that has rows, which may not be all of them; where there is none, the
        beginning of the first sweep; None without one.
        """
        for sql in ("SELECT max(began) FROM node_hours WHERE file_system = ?",
                    "SELECT min(since) FROM client_gains WHERE file_system = ?"):
            [(moment,)] = self._store.rows(sql, (file_system,), tuple[float])
            if isinstance(moment, float):
                return moment
        return None

    def delete_history(self, before: float, file_systems: Iterable[str]) -> None:
        """
        Remove history before this moment, by the store's time, up to a day's worth; and the hourly
        rows of nodes in these file systems that are older than the rest.
        """
        self._store.change(*((
            f"DELETE FROM {table} WHERE made < ? AND made < ? + (SELECT min(made) FROM {table})",
            (before, _DAY_S)) for table in ("client_gains", "client_losses")),
            *(("DELETE FROM node_hours WHERE file_system = ? AND began < (SELECT min(until) - 3600 "
               "FROM client_gains WHERE file_system = ?)", (name, name)) for name in file_systems))

    def delete_sources(self, keys: Iterable[_Key]) -> None:
        """Delete the rows of these sources."""
        self._store.change(*((
            f"DELETE FROM {table} WHERE node = ? AND file_system = ? AND kind = ?", key)
            for key in keys for table in ("client_sources", "client_blocks")))

    # -- what is there: where the file is damaged, not always text and bytes

    def nids(self) -> list[tuple[str, int, str]]:
        """Return [(file system, number, NID)]."""
        return self._store.rows("SELECT file_system, number, nid FROM client_nids "
                                "ORDER BY file_system, number", (), tuple[str, int, str])

    def sources(self) -> dict[_Key, bytes]:
        """Return {(storage server, file system, kind): state}."""
        return {(node, name, kind): state for node, name, kind, state in self._store.rows(
            "SELECT node, file_system, kind, state FROM client_sources", (),
            tuple[str, str, str, bytes])}

    def client_blocks(self) -> Iterator[tuple[int, LoggedBlock]]:
        """Yield (its row, LoggedBlock), one after the other in the order in which they came."""
        last = 0
        while True:
            rows = self._store.rows("SELECT id, node, file_system, kind, body FROM client_blocks "
                                    "WHERE id > ? ORDER BY id LIMIT 100", (last,),
                                    tuple[int, str, str, str, bytes])
            for row, node, file_system, kind, body in rows:
                yield row, LoggedBlock(node, file_system, kind, body)
            if not rows:
                return
            last = rows[-1][0]

    def list_gain_rows(self, file_system: str, since: float, until: float) -> list[int]:
        """List the rows of `client_gains` that overlap this time."""
        return [row for row, in self._store.rows(
            "SELECT id FROM client_gains WHERE file_system = ? AND until > ? AND since < ?",
            (file_system, since, until), tuple[int])]

    def part(self, row: int, file_system: str) -> HistoryPart | None:
        """
        Return the HistoryPart of a row; None for a damaged one, which is set aside and its time
        marked.
        """
        [(since, until, body)] = self._store.rows(
            "SELECT since, until, body FROM client_gains WHERE id = ?", (row,),
            tuple[float, float, bytes])
        try:
            return decode_part(since, until, body)
        except Exception as error:              # whatever these bytes do to zlib and numpy
            self.put_aside("client_gains", (row,), error)
            self._mark(file_system, since, until)
            return None

    def _mark(self, file_system: str, since: float, until: float) -> None:
        loss = MarkedLoss(since, until, ALL_TARGETS, ALL_CLIENTS, "a row of the store was damaged")
        self._store.change(*_make_loss_statements(file_system, "", loss, self.now()))

    def put_damaged_aside(self, file_systems: Iterable[str]) -> None:
        """
        Set aside rows whose time, or file system, cannot be decoded, and mark their file systems.
        """
        for table in ("client_gains", "client_losses"):
            for row in self._store.mistyped(table, "id", {
                    "file_system": "text", "since": "real", "until": "real"}, MOST_DAMAGED):
                self.put_aside(table, (row,), ValueError("its time, or file system, is invalid"))
                for name in file_systems:
                    self._mark(name, 0.0, FOR_EVER)

    def spans(self, file_system: str, since: float, until: float) -> list[tuple[float, float]]:
        """Return [(since, until)] of the rows of `client_gains` that overlap this time, sorted."""
        return self._store.rows(
            "SELECT since, until FROM client_gains WHERE (? = '' OR file_system = ?) AND until > ? "
            "AND since < ? ORDER BY until", (file_system, file_system, since, until),
            tuple[float, float])

    def query_latest_sweep_end(self, before: float, file_system: str = "") -> float | None:
        """Return the latest end of a sweep up to this moment; None without one."""
        rows = self._store.rows("SELECT max(until) FROM client_gains WHERE until <= ? AND "
                                "(? = '' OR file_system = ?)", (before, file_system, file_system),
                                tuple[float])
        return rows[0][0] if isinstance(rows[0][0], float) else None

    def losses(self, file_system: str, since: float,
               until: float) -> list[tuple[str, MarkedLoss]]:
        """Return [(storage server, MarkedLoss)] of this time."""
        return [(str(node), MarkedLoss(began, ended, target, nid, str(why)))
                for node, began, ended, target, nid, why in self._store.rows(
                    "SELECT node, since, until, target, nid, why FROM client_losses WHERE "
                    "file_system = ? AND until > ? AND since < ? ORDER BY since",
                    (file_system, since, until), tuple[str, float, float, Target, Nid, str])]

    def list_rows_to_merge(self, before: float) -> tuple[str, list[HistoryRow]] | None:
        """
        Return (file system, [HistoryRow]) of one hour that was kept before this
        moment, by the store's time, sweep by sweep; None: there is none.
        """
        oldest = self._store.rows(
            "SELECT file_system, until FROM client_gains WHERE merged = 0 AND made < ? "
            "ORDER BY made LIMIT 1", (before,), tuple[str, float])
        for name, until in oldest:
            hour = until // 3600 * 3600
            return name, self._store.rows(
                "SELECT id, since, until, made FROM client_gains WHERE merged = 0 AND made < ? AND "
                "file_system = ? AND until >= ? AND until < ?", (before, name, hour, hour + 3600),
                HistoryRow)
        return None


def _make_loss_statements(file_system: str, node: str, loss: MarkedLoss,
                          made: float) -> list[tuple[str, tuple[object, ...]]]:
    """The statements that store a loss; a loss that continues the last of its kind extends it."""
    same = (file_system, node, loss.target, loss.nid, loss.why, loss.since, loss.until)
    where = ("file_system = ? AND node = ? AND target = ? AND nid = ? AND why = ? AND until >= ? "
             "AND since <= ?")
    return [
        (f"UPDATE client_losses SET since = CASE WHEN since < ? THEN since ELSE ? END, "
         f"until = CASE WHEN until > ? THEN until ELSE ? END, made = ? WHERE {where}",
         (loss.since, loss.since, loss.until, loss.until, made, *same)),
        (f"INSERT INTO client_losses (file_system, node, target, nid, why, since, until, made) "
         f"SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM client_losses WHERE "
         f"{where})", (*same, made, *same))]
