"""
Tables of the runs of all jobs in the site's store.

    job_runs     runs that are not decided yet: JobRun
    job_lists    one row: which times are covered
    by_node      what the nodes of a run did, or why that is not known: a member of its record

What is known of runs is lost without harm but for what it costs to ask the accounting again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Optional

import msgspec

from iostats.base.errors import StateError
from iostats.store.database import upsert
from iostats.store.record_store import Key, Store, report_damage
from iostats.totals.record import NodesRecord

RunKey = tuple[str, float]                  # (raw job, its start)

log = logging.getLogger(__name__)

_DAY_S, _MORE_S = 86400.0, 30 * 86400.0
_THIS = "cluster = ? AND job = ? AND attempt = ?"
_PUT_RUN = upsert("job_runs", "job, started", "body")
_PUT_LISTS = upsert("job_lists", "one", "body")
_PUT_BY_NODE = upsert("by_node", "cluster, job, attempt", "made, body")


class JobRun(msgspec.Struct):
    """A run of a job, as the batch system reported it and as it is stored."""

    job: str                            # the batch system's own id
    started: float                      # when it began
    decided: bool = False               # what is known of it is in its record
    ended: Optional[float] = None       # when it ended; None if unknown
    seen: float = 0.0                   # when it was last seen to run
    # when it was first seen to run no more, where its end is not known; None
    gone: Optional[float] = None
    nodes: str = ""                     # its nodes, in the batch system's spelling
    exclusive: bool = False             # it had whole nodes, each time it was seen
    in_part: bool = False               # its first nodes had been released when it was first seen
    resized: bool = False               # its nodes changed while it ran
    facts: dict[str, Any] = {}          # what the batch system says, as the dict of a Facts
    # {node: [job, when that began, when it ended or None]} of runs that are forgotten, and were on
    # the node in its time
    others: dict[str, list[Any]] = {}
    before: dict[str, list[Any]] = {}   # the same of those before it

    @property
    def key(self) -> RunKey:
        return self.job, self.started

    @property
    def over(self) -> float:
        """The time at which the run had certainly ended; infinity for one that runs."""
        end = self.gone if self.ended is None else self.ended
        return float("inf") if end is None else end

    @property
    def shown_as(self) -> str:
        """The job as its users write it."""
        return str(self.facts.get("job") or self.job)


encode_run = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(JobRun).decode


class ListState(msgspec.Struct):
    """The times that the batch system's lists cover."""

    covered: list[list[float]] = []     # as of JobRuns
    checked: float = 0.0                # up to when the accounting was asked


class RunStore:
    """The tables of runs in a store.Store; every method may raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self) -> ListState:
        """Return the stored ListState; StateError if it is damaged."""
        rows = self._store.rows("SELECT body FROM job_lists", (), tuple[bytes])
        with report_damage(self._store.path):
            return msgspec.msgpack.decode(rows[0][0], type=ListState) if rows else ListState()

    def runs(self) -> list[JobRun]:
        """All runs; StateError where one is damaged."""
        with report_damage(self._store.path):
            return [decode_run(body) for body, in self._store.rows("SELECT body FROM job_runs", (),
                                                                   tuple[bytes])]

    def store(self, state: ListState, runs: Iterable[JobRun], old: Iterable[JobRun]) -> None:
        """Store these rows and remove `old`, in one commit."""
        self._store.change(
            (_PUT_LISTS, (1, msgspec.msgpack.encode(state))),
            *((_PUT_RUN, (*run.key, encode_run(run))) for run in runs),
            *(("DELETE FROM job_runs WHERE job = ? AND started = ?", run.key) for run in old))

    def delete_all(self) -> None:
        """Delete all rows: none of them can be used."""
        self._store.change(("DELETE FROM job_runs", ()), ("DELETE FROM job_lists", ()))

    def decide(self, decided: Mapping[Key, tuple[JobRun, NodesRecord]]) -> None:
        """Store the member of the record of each of these runs."""
        now = self._store.now()
        self._store.change(
            *((_PUT_BY_NODE, (*key, now, msgspec.json.encode(member)))
              for key, (_, member) in decided.items()),
            *((_PUT_RUN, (*run.key, encode_run(run))) for run, _ in decided.values()))

    def by_node(self, key: Key) -> NodesRecord | None:
        """The member of a run's record; None where it is not decided, or there are no exports."""
        rows = self._store.rows(f"SELECT body FROM by_node WHERE {_THIS}", key, tuple[bytes])
        try:
            with report_damage(self._store.path):
                return NodesRecord.of(msgspec.json.decode(rows[0][0])) if rows else None
        except StateError as error:                     # it costs itself alone
            log.error("the nodes' I/O of job %s is left out: %s", key.job, error,
                      extra={"job": key.job})
            self._store.change(f"DELETE FROM by_node WHERE {_THIS}", key)
            return None

    def delete_before(self, before: float) -> None:
        """
        Remove what was decided a month before this moment, from which on no report is added to a
        record: each has it by then.  By the store's time; up to a day's worth.
        """
        self._store.change("DELETE FROM by_node WHERE made < ? AND made < ? + (SELECT min(made) "
                           "FROM by_node)", (before - _MORE_S, _DAY_S))
