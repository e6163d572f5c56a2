"""
What the site's server keeps of clients, in the file of store.py.

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
from collections import namedtuple

import msgspec
import numpy

from iostats.load.amounts import CLIENT_METRICS
from iostats.site.clients.history import HistoryPart
from iostats.site.clients.readings import MarkedLoss
from iostats.site.harvest_store import SweepStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]
    _Key = tuple[str, str, str]             # storage server, file system, kind

_DAY_S, FOR_EVER = 86400.0, 1e12
_COUNT = struct.Struct("<I7B")              # of clients; bytes of a number in each column
_WIDTHS = (0, 1, 2, 4, 8)

LoggedBlock = namedtuple("LoggedBlock", "node file_system kind body")
LoggedBlock.__doc__ = """What is to be kept in `client_blocks`: its source, an encoded_block()."""


class ClientBlockRow(msgspec.Struct, omit_defaults=True):
    """
    A row of `client_blocks`, as compressed MessagePack.

    Attributes:
        slot, every, full: as in the message of the block.
        ahead: the storage server's clock less the site's, when it was read, s.
        is_new: as of ClientSource.take.
        packed: the block's bytes.
        kept: so many of the source's readings went to the history.
    """

    slot: float = 0.0
    every: float = 60.0
    full: bool = False
    ahead: float = 0.0
    is_new: bool = False
    packed: bytes = b""
    kept: int = 0


_row_of = msgspec.msgpack.Decoder(ClientBlockRow).decode
_encode = msgspec.msgpack.Encoder().encode


def encoded_block(row: ClientBlockRow) -> bytes:
    """The bytes of a row, with a checksum."""
    return zlib.compress(_encode(row), 1)


def decoded_row(body: bytes) -> ClientBlockRow:
    """What encoded_block() made; zlib.error, msgspec.MsgspecError."""
    return _row_of(zlib.decompress(body))


def encoded_part(part: HistoryPart) -> bytes:
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


def decoded_part(since: float, until: float, body: bytes) -> HistoryPart:
    """What encoded_part() made; zlib.error, struct.error, ValueError."""
    data = zlib.decompress(body)
    count, *widths = _COUNT.unpack_from(data)
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
        """Keep the blocks of a message."""
        self._store.do_all("INSERT INTO client_blocks (node, file_system, kind, body) "
                           "VALUES (?, ?, ?, ?)", logged)

    def mark(self, file_system: str, node: str, loss: MarkedLoss) -> None:
        """Keep a loss that the server itself has found."""
        for statement, values in _to_keep(file_system, node, loss, self.now()):
            self._store.do(statement, values)

    # -- committed at once

    def checkpoint(self, states: Mapping[Any, bytes]) -> None:
        """{(storage server, file system, kind): state} replaces all that came of these so far."""
        self._store.change(*(
            statement for key, state in states.items() for statement in (
                ("DELETE FROM client_blocks WHERE node = ? AND file_system = ? AND kind = ?", key),
                ("INSERT OR REPLACE INTO client_sources VALUES (?, ?, ?, ?)", (*key, state)))))

    def keep_history(self, nids: Iterable[tuple[str, int, str]],
                     parts: Iterable[tuple[str, HistoryPart]],
                     losses: Iterable[tuple[str, str, MarkedLoss]],
                     logged: Iterable[LoggedBlock]) -> None:
        """
        Keep [(file system, number, NID)], [(file system, HistoryPart)] and [(file system, storage
        server, MarkedLoss)]; and [LoggedBlock] say that their sources have them no more.
        """
        made = self.now()
        self._store.change(
            *(("INSERT OR REPLACE INTO client_nids VALUES (?, ?, ?)", one) for one in nids),
            *(("INSERT INTO client_gains (file_system, since, until, made, merged, body) VALUES "
               "(?, ?, ?, ?, 0, ?)", (name, part.since, part.until, made, encoded_part(part)))
              for name, part in parts),
            *(statement for one in losses for statement in _to_keep(*one, made)),
            *(("INSERT INTO client_blocks (node, file_system, kind, body) VALUES (?, ?, ?, ?)", one)
              for one in logged))

    def replace_parts(self, rows: Sequence[int], file_system: str, made: float,
                      part: HistoryPart) -> None:
        """One row for what these rows of `client_gains` say together."""
        self._store.change(
            *(("DELETE FROM client_gains WHERE id = ?", (row,)) for row in rows),
            ("INSERT INTO client_gains (file_system, since, until, made, merged, body) VALUES "
             "(?, ?, ?, ?, 1, ?)", (file_system, part.since, part.until, made, encoded_part(part))))

    def forget_history(self, before: float) -> None:
        """Remove what was kept before this moment, by the store's time; up to a day's worth."""
        self._store.change(*((
            f"DELETE FROM {table} WHERE made < min(?, ? + (SELECT min(made) FROM {table}))",
            (before, _DAY_S)) for table in ("client_gains", "client_losses")))

    def forget_sources(self, keys: Iterable[_Key]) -> None:
        """Remove what is known of these sources."""
        self._store.change(*((
            f"DELETE FROM {table} WHERE node = ? AND file_system = ? AND kind = ?", key)
            for key in keys for table in ("client_sources", "client_blocks")))

    # -- what is there: where the file is damaged, not always text and bytes

    def nids(self) -> list[tuple[Any, Any, Any]]:
        """[(file system, number, NID)]."""
        return self._store.rows("SELECT file_system, number, nid FROM client_nids "
                                "ORDER BY file_system, number")

    def sources(self) -> dict[tuple[Any, Any, Any], Any]:
        """{(storage server, file system, kind): state}."""
        return {(node, name, kind): state for node, name, kind, state in self._store.rows(
            "SELECT node, file_system, kind, state FROM client_sources")}

    def client_blocks(self) -> Iterator[tuple[int, LoggedBlock]]:
        """(its row, LoggedBlock), one after the other in the order in which they came."""
        last = 0
        while True:
            found = self._store.rows("SELECT id, node, file_system, kind, body FROM client_blocks "
                                     "WHERE id > ? ORDER BY id LIMIT 100", (last,))
            for row, *block in found:
                yield row, LoggedBlock(*block)
            if not found:
                return
            last = found[-1][0]

    def part_rows(self, file_system: str, since: float, until: float) -> list[int]:
        """Rows of `client_gains` that reach into this time."""
        return [row for row, in self._store.rows(
            "SELECT id FROM client_gains WHERE file_system = ? AND until > ? AND since < ?",
            (file_system, since, until))]

    def part(self, row: int, file_system: str) -> HistoryPart | None:
        """
        The HistoryPart of a row; None for one that is damaged: it is put aside, and its time is
        marked.
        """
        [(since, until, body)] = self._store.rows(
            "SELECT since, until, body FROM client_gains WHERE id = ?", (row,))
        try:
            return decoded_part(since, until, body)
        except Exception as error:              # whatever these bytes do to zlib and numpy
            self.put_aside("client_gains", (row,), error)
            self._mark(file_system, since, until)
            return None

    def _mark(self, file_system: str, since: float, until: float) -> None:
        loss = MarkedLoss(since, until, "", "", "a row of the store was damaged")
        self._store.change(*_to_keep(file_system, "", loss, self.now()))

    def put_damaged_aside(self, file_systems: Iterable[str]) -> None:
        """
        Rows whose time, or file system, cannot be understood: these file systems are marked.
        """
        for table in ("client_gains", "client_losses"):
            for row, in self._store.rows(
                    f"SELECT id FROM {table} WHERE typeof(file_system) != 'text' OR "
                    f"typeof(since) != 'real' OR typeof(until) != 'real'"):
                self.put_aside(table, (row,), ValueError("its time, or file system, is none"))
                for name in file_systems:
                    self._mark(name, 0.0, FOR_EVER)

    def spans(self, file_system: str, since: float, until: float) -> list[tuple[float, float]]:
        """[(since, until)] of the rows of `client_gains` that reach into this time, sorted."""
        return [(began, ended) for began, ended in self._store.rows(
            "SELECT since, until FROM client_gains WHERE (? = '' OR file_system = ?) AND until > ? "
            "AND since < ? ORDER BY until", (file_system, file_system, since, until))]

    def latest_until(self, before: float, file_system: str = "") -> float | None:
        """The last end of a sweep up to this moment; None."""
        rows = self._store.rows("SELECT max(until) FROM client_gains WHERE until <= ? AND "
                                "(? = '' OR file_system = ?)", (before, file_system, file_system))
        return rows[0][0] if isinstance(rows[0][0], float) else None

    def losses(self, file_system: str, since: float,
               until: float) -> list[tuple[str, MarkedLoss]]:
        """[(storage server, MarkedLoss)] of this time."""
        return [(str(node), MarkedLoss(began, ended, str(target), str(nid), str(why)))
                for node, began, ended, target, nid, why in self._store.rows(
                    "SELECT node, since, until, target, nid, why FROM client_losses WHERE "
                    "file_system = ? AND until > ? AND since < ? ORDER BY since",
                    (file_system, since, until))]

    def to_merge(self, before: float) -> tuple[str, list[tuple[Any, ...]]] | None:
        """
        (file system, [(row, since, until, made)]) of one hour that was kept before this moment, by
        the store's time, sweep by sweep; None: there is none.
        """
        oldest = self._store.rows("SELECT file_system, until FROM client_gains WHERE merged = 0 "
                                  "AND made < ? ORDER BY made LIMIT 1", (before,))
        for name, until in oldest:
            hour = until // 3600 * 3600
            return name, self._store.rows(
                "SELECT id, since, until, made FROM client_gains WHERE merged = 0 AND made < ? AND "
                "file_system = ? AND until >= ? AND until < ?", (before, name, hour, hour + 3600))
        return None


def _to_keep(file_system: str, node: str, loss: MarkedLoss,
             made: float) -> list[tuple[str, tuple[Any, ...]]]:
    """Statements that keep a loss: one that goes on from the last of its kind makes it longer."""
    same = (file_system, node, loss.target, loss.nid, loss.why, loss.since, loss.until)
    where = ("file_system = ? AND node = ? AND target = ? AND nid = ? AND why = ? AND until >= ? "
             "AND since <= ?")
    return [
        (f"UPDATE client_losses SET since = min(since, ?), until = max(until, ?), made = ? WHERE "
         f"{where}", (loss.since, loss.until, made, *same)),
        (f"INSERT INTO client_losses (file_system, node, target, nid, why, since, until, made) "
         f"SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM client_losses WHERE "
         f"{where})", (*same, made, *same))]
