"""
What the site's server keeps of the harvest, in the file of store.py.

    agents     who has sent what: the last message of each storage server
    targets    one row for each target: its state, as of some sweep (a checkpoint)
    blocks     what has come of a target since then, in its order: replayed after a restart
    lives      jobs that are not settled
    harvests   what the storage servers counted for settled jobs
    damaged    rows of these that could not be understood, put aside

A message is in `blocks` before it is answered, and `agents` says so in the same transaction; a
checkpoint takes the place of a target's blocks in one transaction.  So a server that is killed at
any byte begins again with each message taken once, or not at all.
"""

from __future__ import annotations

import logging
from collections import namedtuple
from typing import Any, Optional

import msgspec

from iostats.base.errors import one_line
from iostats.wire.messages import sweep, sweep_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iostats.site.store import Store

log = logging.getLogger("iostats")

_DAY_S = 86400.0


class BlockRow(msgspec.Struct, omit_defaults=True):
    """
    The body of one row of `blocks`, as MessagePack: a block as it came, or ids to be forgotten.

    Attributes:
        node, boot_id, slot: as in the message of the block; full: of the message, or the block.
        ahead: of the storage server's clock, when it was read, s; kernel_ahead: the same of its
            kernel's, which may have been set back.
        block: of the method `sweep`; packed: of `packed_sweep`.
        forget: ids that the target forgets.
        lined: what came before is in the time lines (site/lines/).
    """

    node: str = ""
    boot_id: str = ""
    full: bool = False
    slot: float = 0.0
    ahead: float = 0.0
    kernel_ahead: Optional[float] = None
    block: Optional[sweep_json.JsonBlock] = None
    packed: bytes = b""
    forget: list[Any] = []
    lined: bool = False

    @classmethod
    def of(cls, node: str, taken: sweep.ReceivedSweep, slot: float, ahead: float,
           head: sweep.BlockHead, kept: sweep_json.JsonBlock | bytes) -> BlockRow:
        """The row of one block of a message; `head`, `kept`: of sweep.ReceivedSweep.blocks."""
        row = cls(node, taken.head.boot_id, taken.head.full or head.full, slot, ahead,
                  taken.clock_ahead_s)
        if isinstance(kept, bytes):
            row.packed = kept
        else:
            row.block = kept
        return row


encoded_row = msgspec.msgpack.Encoder().encode
decoded_row = msgspec.msgpack.Decoder(BlockRow).decode

LoggedRow = namedtuple("LoggedRow", "file_system target body")
LoggedRow.__doc__ = """What is to be kept in `blocks`: its target, and an encoded BlockRow."""

StoredRow = namedtuple("StoredRow", "id file_system target body")
StoredRow.__doc__ = """A LoggedRow as it is kept: its row's id, and the same."""

# Rows of each table, in words.
_IN_WORDS = {"agents": "what is known of the agent", "targets": "the saved entries",
             "blocks": "a part of a sweep, row", "lives": "what is known of job",
             "harvests": "what was counted for job", "client_sources": "the clients",
             "client_blocks": "a part of a message of clients, row",
             "client_gains": "what clients did in a sweep, row",
             "client_losses": "what may be missing of clients, row", "events": "the event, place",
             "line_parts": "a part of the time lines, row", "job_lines": "the time line of job",
             "target_lines": "a time line, row",
             "events_tellers": "what a storage server said of itself:"}
# The key of a row, and the column with its bytes.
_ROWS = {"agents": (("node",), "body"), "targets": (("file_system", "target"), "state"),
         "blocks": (("id",), "body"), "lives": (("job",), "body"), "harvests": (("job",), "body"),
         "client_sources": (("node", "file_system", "kind"), "state"),
         "client_blocks": (("id",), "body"), "client_gains": (("id",), "body"),
         "client_losses": (("id",), "why"), "events": (("place",), "body"),
         "events_tellers": (("node",), "body"), "line_parts": (("id",), "body"),
         "job_lines": (("job", "file_system"), "body"),
         "target_lines": (("id",), "body")}


class SweepStore:
    """The tables of the harvest in a store.Store; every method may raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store, self.path, self.trouble = store, store.path, store.trouble

    # -- sweeps: on the disk with the store's next `commit`

    def add(self, node: str, agent: bytes, logged: Iterable[LoggedRow]) -> None:
        """Keep a message: [LoggedRow], and what is known of its agent from now on (bytes)."""
        self._store.do_all("INSERT INTO blocks (file_system, target, body) VALUES (?, ?, ?)",
                           logged)
        self._store.do("INSERT OR REPLACE INTO agents VALUES (?, ?)", (node, agent))

    # -- committed at once

    def keep_lives(self, lives: Mapping[str, bytes]) -> None:
        """Keep {job: bytes}."""
        self._store.change(*(("INSERT OR REPLACE INTO lives VALUES (?, ?)", one)
                             for one in lives.items()))

    def checkpoint(self, states: Mapping[tuple[str, str], bytes]) -> None:
        """{(file system, target): state} replaces all that came of these targets so far."""
        self._store.change(*(
            statement for key, state in states.items() for statement in (
                ("DELETE FROM blocks WHERE file_system = ? AND target = ?", key),
                ("INSERT OR REPLACE INTO targets VALUES (?, ?, ?)", (*key, state)))))

    def settle(self, harvests: Mapping[str, bytes], logged: Iterable[LoggedRow]) -> None:
        """
        {job: bytes} is what the storage servers counted; the jobs leave `lives`, and [LoggedRow]
        makes the targets forget them when it is replayed.
        """
        self._store.change(
            *(("INSERT INTO blocks (file_system, target, body) VALUES (?, ?, ?)", one)
              for one in logged),
            *(("DELETE FROM lives WHERE job = ?", (job,)) for job in harvests),
            *(("INSERT OR REPLACE INTO harvests VALUES (?, ?, ?)", (job, self._store.now(), body))
              for job, body in harvests.items() if body))

    def forget(self, before: float) -> None:
        """
        Remove what was counted for jobs that were settled before this moment, by the store's time;
        up to a day's worth.
        """
        self._store.change("DELETE FROM harvests WHERE made < min(?, ? + (SELECT min(made) "
                           "FROM harvests))", (before, _DAY_S))

    # -- damage

    def understood(self, table: str, rows: Mapping[Any, Any],
                   understand: Callable[[Any], Any]) -> dict[Any, Any]:
        """{key: what a row says}; rows that cannot be understood are put aside."""
        found = {}
        for key, body in rows.items():
            names = key if isinstance(key, tuple) else (key,)
            try:
                if not all(isinstance(name, str) for name in names):
                    raise ValueError("its name is no text")
                found[key] = understand(body)
            except Exception as error:              # whatever these bytes do to who reads them
                self.put_aside(table, names, error)
        return found

    def put_aside(self, table: str, key: Sequence[Any], error: Exception,
                  instead: bytes | None = None) -> None:
        """
        A row that cannot be understood: it is logged, and goes to `damaged`; `instead`: bytes in
        its place.
        """
        log.error("%s: %s of %s: %s; put aside (table damaged)", self.path, _IN_WORDS[table],
                  one_line("-".join(map(str, key))), one_line(str(error))[:300])
        why = one_line(str(error))[:300]
        columns, body = _ROWS[table]
        where = " AND ".join(f"{column} IS ?" for column in columns)
        self._store.change(
            ("CREATE TABLE IF NOT EXISTS damaged (place TEXT, row TEXT, why TEXT, body BLOB)", ()),
            (f"INSERT INTO damaged SELECT ?, ?, ?, {body} FROM {table} WHERE {where}",
             (table, " ".join(map(str, key)), why, *key)),
            (f"DELETE FROM {table} WHERE {where}", key) if instead is None else
            (f"UPDATE {table} SET {body} = ? WHERE {where}", (instead, *key)))

    def drop(self, blocks: Iterable[int], agents: Mapping[str, bytes]) -> None:
        """Remove these rows of `blocks`, which say nothing by themselves; keep {node: bytes}."""
        self._store.change(
            *(("DELETE FROM blocks WHERE id = ?", (one,)) for one in blocks),
            *(("INSERT OR REPLACE INTO agents VALUES (?, ?)", one) for one in agents.items()))

    # -- what is there: where the file is damaged, not always text and bytes

    def agents(self) -> dict[Any, Any]:
        """{node: bytes}."""
        return dict(self._store.rows("SELECT node, body FROM agents"))

    def targets(self) -> dict[tuple[Any, Any], Any]:
        """{(file system, target): state}."""
        return {(file_system, target): state for file_system, target, state in self._store.rows(
            "SELECT file_system, target, state FROM targets")}

    def blocks(self) -> Iterator[StoredRow]:
        """StoredRow, one after the other in the order in which they came."""
        last = 0
        while True:
            found = self._store.rows("SELECT id, file_system, target, body FROM blocks "
                                     "WHERE id > ? ORDER BY id LIMIT 100", (last,))
            for row in found:
                yield StoredRow(*row)
            if not found:
                return
            last = found[-1][0]

    def lives(self) -> dict[Any, Any]:
        """{job: bytes}."""
        return dict(self._store.rows("SELECT job, body FROM lives"))

    def times_of(self, job: str) -> tuple[float | None, float | None]:
        """
        (began, ended) of a job in all its runs, as its nodes report; (None, None) where not all of
        them have reported.
        """
        [(runs, began, ended)] = self._store.rows(
            "SELECT sum(s.reported < coalesce(s.nodes, s.reported) OR s.reported = 0), "
            "min(s.started), max(s.ended) FROM jobs j JOIN summaries s USING (cluster, job, "
            "attempt) WHERE j.job = ?", (job,))
        return (began, ended) if runs == 0 else (None, None)

    def harvest_of(self, job: str) -> Any:
        """What was counted for a settled job, as bytes, or None."""
        found = self._store.rows("SELECT body FROM harvests WHERE job = ?", (job,))
        return found[0][0] if found else None
