"""
What the site's server keeps of the runs of all jobs, in the file of store.py.

    job_runs     runs that are not decided yet, job_runs.JobRun
    job_lists    one row: which times are covered
    by_node      what the nodes of a run did, or why that is not known: a member of its record

What is known of runs is lost without harm but for what it costs to ask the accounting again.
"""

from __future__ import annotations

import logging

import msgspec

from iostats.base.errors import StateError
from iostats.site.job_runs import JobRun, decoded_run, encoded_run
from iostats.site.store import damage_reported
from iostats.totals.record import NodesRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iostats.site.store import Key, Store

log = logging.getLogger("iostats")

_DAY_S, _MORE_S = 86400.0, 30 * 86400.0
_THIS = "cluster = ? AND job = ? AND attempt = ?"


class ListState(msgspec.Struct):
    """
    What is known of the lists that were asked for.

    Attributes:
        covered: as of JobRuns.
        checked: up to when the accounting was asked.
    """

    covered: list[list[float]] = []
    checked: float = 0.0


class RunStore:
    """The tables of runs in a store.Store; every method may raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self) -> ListState:
        """The ListState that was kept; StateError where it is damaged."""
        rows = self._store.rows("SELECT body FROM job_lists")
        with damage_reported(self._store.path):
            return msgspec.msgpack.decode(rows[0][0], type=ListState) if rows else ListState()

    def runs(self) -> list[JobRun]:
        """All runs; StateError where one is damaged."""
        with damage_reported(self._store.path):
            return [decoded_run(body) for body, in self._store.rows("SELECT body FROM job_runs")]

    def keep(self, state: ListState, runs: Iterable[JobRun], old: Iterable[JobRun]) -> None:
        """Keep all this without `old`, in one commit."""
        self._store.change(
            ("INSERT OR REPLACE INTO job_lists VALUES (1, ?)", (msgspec.msgpack.encode(state),)),
            *(("INSERT OR REPLACE INTO job_runs VALUES (?, ?, ?)", (*run.key, encoded_run(run)))
              for run in runs),
            *(("DELETE FROM job_runs WHERE job = ? AND started = ?", run.key) for run in old))

    def forget_all(self) -> None:
        """Nothing of it can be used."""
        self._store.change(("DELETE FROM job_runs", ()), ("DELETE FROM job_lists", ()))

    def decide(self, found: Mapping[Key, tuple[JobRun, NodesRecord]]) -> None:
        """Keep the member of each of these runs' records."""
        now = self._store.now()
        self._store.change(
            *(("INSERT OR REPLACE INTO by_node VALUES (?, ?, ?, ?, ?)",
               (*key, now, msgspec.json.encode(member))) for key, (_, member) in found.items()),
            *(("INSERT OR REPLACE INTO job_runs VALUES (?, ?, ?)", (*run.key, encoded_run(run)))
              for run, _ in found.values()))

    def by_node(self, key: Key) -> NodesRecord | None:
        """The member of a run's record; None where it is not decided, or there are no exports."""
        rows = self._store.rows(f"SELECT body FROM by_node WHERE {_THIS}", key)
        try:
            with damage_reported(self._store.path):
                return NodesRecord.of(msgspec.json.decode(rows[0][0])) if rows else None
        except StateError as error:                     # it costs itself alone
            log.error("what the nodes of job %s did is left out: %s", key.job, error)
            self._store.change(f"DELETE FROM by_node WHERE {_THIS}", key)
            return None

    def forget(self, before: float) -> None:
        """
        Remove what was decided a month before this moment, from which on no report is added to a
        record: each has it by then.  By the store's time; up to a day's worth.
        """
        self._store.change("DELETE FROM by_node WHERE made < min(?, ? + (SELECT min(made) "
                           "FROM by_node))", (before - _MORE_S, _DAY_S))
