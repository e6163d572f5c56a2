"""
Tables of the harvest in the site's store.

    agents     who has sent what: the last message of each storage server
    targets    one row for each target: its state, as of some sweep (a checkpoint)
    blocks     what has come of a target since then, in its order: replayed after a restart
    lives      jobs that are not settled
    harvests   what the storage servers counted for settled jobs
    damaged    rows of these that could not be understood, put aside

A message is in `blocks` before it is answered, and `agents` says so in the same transaction; a
checkpoint takes the place of a target's blocks in one transaction.  So a server that is killed at
any byte restarts with each message counted once, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional, TypeVar, Union

import msgspec

from iostats.base.errors import sanitize
from iostats.base.logs import FIELDS
from iostats.store.database import upsert
from iostats.store.record_store import Store

log = logging.getLogger(__name__)

_Name = TypeVar("_Name", bound=Union[str, tuple[str, ...]])
_Body = TypeVar("_Body")
_Row = TypeVar("_Row")
StateKey = TypeVar("StateKey", bound=tuple[str, ...])     # of what has a state
_DAY_S = 86400.0
ADD_BLOCK = "INSERT INTO blocks (file_system, target, body) VALUES (?, ?, ?)"
_PUT_AGENT, _PUT_LIFE = upsert("agents", "node", "body"), upsert("lives", "job", "body")
_PUT_TARGET = upsert("targets", "file_system, target", "state")
_PUT_HARVEST = upsert("harvests", "job", "made, body")


class BlockRow(msgspec.Struct, omit_defaults=True,
               rename={"ahead_s": "ahead", "kernel_ahead_s": "kernel_ahead"}):
    """
    The body of one row of `blocks`, as MessagePack: a received block, or ids to drop.
    """

    # node, boot_id, slot: as in the message of the block
    node: str = ""
    boot_id: str = ""
    full: bool = False      # of the message, or the block
    slot: float = 0.0
    ahead_s: float = 0.0    # of the storage server's clock, when it was read, s
    # the same of its kernel's, which may have been set back
    kernel_ahead_s: Optional[float] = None
    packed: bytes = b""     # the block's bytes in its message
    forget: list[str] = []  # ids that the target drops
    lined: bool = False     # what came before is in the time lines (harvest/time_lines/)
    late: bool = False      # another storage server has read the target since then; it is not added


encode_row = msgspec.msgpack.Encoder().encode
decode_row = msgspec.msgpack.Decoder(BlockRow).decode


class LoggedRow(NamedTuple):
    """A row for `blocks`: its target, and an encoded BlockRow."""

    file_system: str
    target: str
    body: bytes


class StoredRow(NamedTuple):
    """A LoggedRow in the store: the id of its row, and its fields."""

    id: int
    file_system: str
    target: str
    body: bytes


# Rows of each table, in words.
_IN_WORDS = {"agents": "the state of the agent", "targets": "the saved entries",
             "blocks": "a part of a sweep, row", "lives": "the state of job",
             "harvests": "what was counted for job", "client_sources": "the clients",
             "client_blocks": "a part of a message of clients, row",
             "client_gains": "the client I/O of a sweep, row",
             "client_losses": "a gap in the client I/O, row", "events": "the event, place",
             "line_parts": "a part of the time lines, row", "job_lines": "the time line of job",
             "target_lines": "a time line, row",
             "events_tellers": "the status of storage server"}
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
        """Store a message: [LoggedRow], and the new state of its agent (bytes)."""
        self._store.do_all(ADD_BLOCK, logged)
        self._store.do(_PUT_AGENT, (node, agent))

    # -- committed at once

    def store_lives(self, lives: Mapping[str, bytes]) -> None:
        """Store {job: bytes}."""
        self._store.change(*((_PUT_LIFE, life) for life in lives.items()))

    def checkpoint(self, states: Mapping[StateKey, bytes]) -> None:
        """Store {(file system, target): state} in place of all earlier rows of these targets."""
        self._store.change(*(
            statement for key, state in states.items() for statement in (
                ("DELETE FROM blocks WHERE file_system = ? AND target = ?", key),
                (_PUT_TARGET, (*key, state)))))

    def settle(self, harvests: Mapping[str, bytes], logged: Iterable[LoggedRow]) -> None:
        """
        Store {job: bytes}, the storage servers' counts; the jobs leave `lives`, and [LoggedRow]
        makes the targets drop them when it is replayed.
        """
        self._store.change(
            *((ADD_BLOCK, block) for block in logged),
            *(("DELETE FROM lives WHERE job = ?", (job,)) for job in harvests),
            *((_PUT_HARVEST, (job, self._store.now(), body))
              for job, body in harvests.items() if body))

    def delete_before(self, before: float) -> None:
        """
        Remove what was counted for jobs that were settled before this moment, by the store's time;
        up to a day's worth.
        """
        self._store.change("DELETE FROM harvests WHERE made < ? AND made < ? + (SELECT min(made) "
                           "FROM harvests)", (before, _DAY_S))

    # -- damage

    def decode_rows(self, table: str, rows: Mapping[_Name, _Body],
                    understand: Callable[[_Body], _Row]) -> dict[_Name, _Row]:
        """Return {key: the decoded row}; damaged rows are set aside."""
        decoded = {}
        for key, body in rows.items():
            names: tuple[object, ...] = key if isinstance(key, tuple) else (key,)
            try:
                if not all(isinstance(name, str) for name in names):
                    raise ValueError("its name is no text")
                decoded[key] = understand(body)
            except Exception as error:              # whatever these bytes do to who reads them
                self.put_aside(table, names, error)
        return decoded

    def put_aside(self, table: str, key: Sequence[object], error: Exception,
                  instead: bytes | None = None) -> None:
        """
        Move a row that cannot be decoded to `damaged`, and log it; `instead`: bytes to replace it.
        """
        columns, body = _ROWS[table]
        log.error("%s: %s of %s: %s; put aside (table damaged)", self.path, _IN_WORDS[table],
                  sanitize("-".join(map(str, key))), sanitize(str(error))[:300],
                  extra={name: value for name, value in zip(columns, key) if name in FIELDS})
        why, row = sanitize(str(error))[:300], " ".join(map(str, key))
        where = " AND ".join(f"{column} IS NULL" if value is None else f"{column} = ?"
                             for column, value in zip(columns, key))
        key = [value for value in key if value is not None]
        self._store.change(
            (f"INSERT INTO damaged (place, row, why, body) SELECT CAST(? AS text), "
             f"CAST(? AS text), CAST(? AS text), {body} FROM {table} WHERE {where}",
             (table, row, why, *key)),
            (f"DELETE FROM {table} WHERE {where}", key) if instead is None else
            (f"UPDATE {table} SET {body} = ? WHERE {where}", (instead, *key)))

    def drop(self, blocks: Iterable[int], agents: Mapping[str, bytes]) -> None:
        """Remove these rows of `blocks`, which have no effect without others; store {node: bytes}.
        """
        self._store.change(
            *(("DELETE FROM blocks WHERE id = ?", (item,)) for item in blocks),
            *((_PUT_AGENT, item) for item in agents.items()))

    # -- what is there: where the file is damaged, not always text and bytes

    def agents(self) -> dict[str, bytes]:
        """Return {node: the encoded state of its agent}."""
        return dict(self._store.rows("SELECT node, body FROM agents", (), tuple[str, bytes]))

    def targets(self) -> dict[tuple[str, str], bytes]:
        """Return {(file system, target): state}."""
        return {(file_system, target): state for file_system, target, state in self._store.rows(
            "SELECT file_system, target, state FROM targets", (), tuple[str, str, bytes])}

    def blocks(self) -> Iterator[StoredRow]:
        """Yield each StoredRow in the order of arrival."""
        last = 0
        while True:
            rows = self._store.rows("SELECT id, file_system, target, body FROM blocks "
                                    "WHERE id > ? ORDER BY id LIMIT 100", (last,),
                                    StoredRow)
            yield from rows
            if not rows:
                return
            last = rows[-1].id

    def lives(self) -> dict[str, bytes]:
        """Return {job: the encoded JobLife}."""
        return dict(self._store.rows("SELECT job, body FROM lives", (), tuple[str, bytes]))

    def read_times(self, job: str) -> tuple[float | None, float | None]:
        """
        Return (began, ended) of a job in all its runs, as its nodes report; (None, None) where not
        all of them have reported.
        """
        [(runs, began, ended)] = self._store.rows(
            "SELECT count(CASE WHEN s.reported < coalesce(s.nodes, s.reported) OR s.reported = 0 "
            "THEN 1 END), min(s.started), max(s.ended) FROM jobs AS j JOIN summaries AS s "
            "USING (cluster, job, attempt) WHERE j.job = ?", (job,),
            tuple[int, Optional[float], Optional[float]])
        return (began, ended) if runs == 0 else (None, None)

    def read_harvest(self, job: str) -> bytes | None:
        """Return the stored counts of a settled job, as bytes, or None."""
        rows = self._store.rows("SELECT body FROM harvests WHERE job = ?", (job,),
                                tuple[bytes])
        return rows[0][0] if rows else None
