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

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iostats.site.store import Store

_DAY_S = 86400.0

Logged = namedtuple("Logged", "file_system target body")
Logged.__doc__ = """Bytes that came of one target."""

Kept = namedtuple("Kept", "id file_system target body")
Kept.__doc__ = """A Logged as it is kept: its row's id, and the same."""

# What tells one row from the others, and what it keeps.
_ROWS = {"agents": (("node",), "body"), "targets": (("file_system", "target"), "state"),
         "blocks": (("id",), "body"), "lives": (("job",), "body"), "harvests": (("job",), "body")}


class SweepStore:
    """The tables of the harvest in a store.Store; every method may raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store, self.path = store, store.path

    # -- sweeps: on the disk with the store's next `commit`

    def add(self, node: str, agent: bytes, logged: Iterable[Logged]) -> None:
        """Keep a message: [Logged], and what is known of its agent from now on (bytes)."""
        self._store.do_all("INSERT INTO blocks (file_system, target, body) VALUES (?, ?, ?)",
                           logged)
        self._store.do("INSERT OR REPLACE INTO agents VALUES (?, ?)", (node, agent))

    # -- committed at once

    def keep_lives(self, lives: Mapping[str, bytes]) -> None:
        """Keep {job: bytes}."""
        self._store.change(*(("INSERT OR REPLACE INTO lives VALUES (?, ?)", one)
                             for one in lives.items()))

    def checkpoint(self, states: Mapping[tuple[str, str], bytes]) -> None:
        """{(file system, target): state} stands for all that came of these targets so far."""
        self._store.change(*(
            statement for key, state in states.items() for statement in (
                ("DELETE FROM blocks WHERE file_system = ? AND target = ?", key),
                ("INSERT OR REPLACE INTO targets VALUES (?, ?, ?)", (*key, state)))))

    def settle(self, harvests: Mapping[str, bytes], logged: Iterable[Logged]) -> None:
        """
        {job: bytes} is what the storage servers counted; the jobs leave `lives`, and [Logged]
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
        a day's worth at the most.
        """
        self._store.change("DELETE FROM harvests WHERE made < min(?, ? + (SELECT min(made) "
                           "FROM harvests))", (before, _DAY_S))

    # -- damage

    def put_aside(self, table: str, key: Sequence[Any], why: str, instead: bytes | None = None,
                  ) -> None:
        """A row that cannot be understood: it goes to `damaged`; `instead`: bytes in its place."""
        columns, body = _ROWS[table]
        where = " AND ".join(f"{column} IS ?" for column in columns)
        self._store.change(
            ("CREATE TABLE IF NOT EXISTS damaged (place TEXT, row TEXT, why TEXT, body BLOB)", ()),
            (f"INSERT INTO damaged SELECT ?, ?, ?, {body} FROM {table} WHERE {where}",
             (table, " ".join(map(str, key)), why, *key)),
            (f"DELETE FROM {table} WHERE {where}", key) if instead is None else
            (f"UPDATE {table} SET {body} = ? WHERE {where}", (instead, *key)))

    def drop(self, blocks: Iterable[int], agents: Mapping[str, bytes]) -> None:
        """Remove these rows of `blocks`, which nothing follows from; {node: bytes} are as here."""
        self._store.change(
            *(("DELETE FROM blocks WHERE id = ?", (one,)) for one in blocks),
            *(("INSERT OR REPLACE INTO agents VALUES (?, ?)", one) for one in agents.items()))

    # -- what is there; whatever the file has in place of text and bytes

    def agents(self) -> dict[Any, Any]:
        """{node: bytes}."""
        return dict(self._store.rows("SELECT node, body FROM agents"))

    def targets(self) -> dict[tuple[Any, Any], Any]:
        """{(file system, target): state}."""
        return {(file_system, target): state for file_system, target, state in self._store.rows(
            "SELECT file_system, target, state FROM targets")}

    def blocks(self) -> Iterator[Kept]:
        """Kept, one after the other in the order in which they came."""
        last = 0
        while True:
            found = self._store.rows("SELECT id, file_system, target, body FROM blocks "
                                     "WHERE id > ? ORDER BY id LIMIT 100", (last,))
            for row in found:
                yield Kept(*row)
            if not found:
                return
            last = found[-1][0]

    def lives(self) -> dict[Any, Any]:
        """{job: bytes}."""
        return dict(self._store.rows("SELECT job, body FROM lives"))

    def times_of(self, job: str) -> tuple[float | None, float | None]:
        """When a job's nodes say that it began and ended, in all its runs; None: not all tell."""
        [(runs, began, ended)] = self._store.rows(
            "SELECT sum(s.reported < coalesce(s.nodes, s.reported) OR s.reported = 0), "
            "min(s.started), max(s.ended) FROM jobs j JOIN summaries s USING (cluster, job, "
            "attempt) WHERE j.job = ?", (job,))
        return (began, ended) if runs == 0 else (None, None)

    def harvest_of(self, job: str) -> Any:
        """What was counted for a settled job, as bytes, or None."""
        found = self._store.rows("SELECT body FROM harvests WHERE job = ?", (job,))
        return found[0][0] if found else None
