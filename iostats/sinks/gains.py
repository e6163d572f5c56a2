"""
The totals of all jobs at one sweep and at the sweep before.

An IdTable has a row for each job id of job_stats, and a column for each counter's samples and sums,
of one target, or of all targets of one kind (ost, mdt) of a file system added up.  What a job did
between two sweeps is the difference of two tables, so nothing is lost or counted twice when a sweep
was missed, and no job loses what a target forgets.

    targets -> IdTables -> jobs, by what the batch system calls them -> a database

The walk over the targets is a generator, so that a loop can do other things between two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from iostats.harvest.harvested_job import SettledCounters
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.harvest.resets.target import CorrectedTarget
    from iostats.wire.messages.arrays import Array

    Columns = dict[str, tuple[Array, Array]]        # counter -> samples, sums
    Key = tuple[str, str, str]                      # fs, component, target or ""

# I/O of no job (ids such as cp.0, kworker), added up.  The name is a value of tags and labels in
# databases, where another one would be another series.
UNATTRIBUTED = "(unattributed)"
OTHERS = "(others)"                     # jobs, or nodes, that have no series of their own
BYTES = ("read_bytes", "write_bytes")
_DEAD_ROWS = 1000
_MOST = 2**63 - 1
AT_ONCE = 500                           # ids of one step of the walk


class JobLabels(NamedTuple):
    """The names of a job, its user and its cluster."""

    # cluster, user, account: "" if unknown
    cluster: str
    # as users write it; as in job_stats where the batch system does not know it; or UNATTRIBUTED
    job: str
    raw_job: str    # the batch system's own id
    user: str
    account: str


NO_JOB = JobLabels("", UNATTRIBUTED, UNATTRIBUTED, "", "")


def get_component(target: str) -> str:
    """
    The kind of a target, in the words of exporters.

    >>> get_component("OST000a"), get_component("MDT0000")
    ('ost', 'mdt')
    """
    return target[:3].lower()


class IdTable:
    """The totals of job ids, from sweep to sweep.

    Attributes:
        fs, component, target: what it is of; target is "" for all of that component.
        ids: the id of each row; `index`: the row of each id.
        now, before: {counter: (samples, sums)}, arrays as long as `ids`, at this sweep and at
            the one before.  They are not changed any more once the walk is over.
        here, was_here: whether a target knew the id then.
        is_job: whether the id is a job's; `low`: what is there may be too low, for good.
    """

    def __init__(self, fs: str, component: str, target: str) -> None:
        self.fs, self.component, self.target = fs, component, target
        self.ids: list[str] = []
        self.index: dict[str, int] = {}
        self._rows_of: dict[str, tuple[list[str], Array]] = {}
        self.now: Columns = {}
        self.before: Columns = {}
        self.here = self.was_here = self.low = self.is_job = np.zeros(0, bool)

    def has(self, job_id: str) -> bool:
        """Whether a target has this id in this sweep."""
        row = self.index.get(job_id)
        return row is not None and bool(self.here[row])

    def begin(self, dropped: Iterable[str]) -> None:
        """Begin a sweep: `now` becomes `before`; the ids of `dropped` count from 0."""
        dead = len(self.ids) - int(self.here.sum())
        if dead > _DEAD_ROWS and 2 * dead > len(self.ids):
            self._select_rows(np.flatnonzero(self.here))
        self.before, self.now = self.now, {}
        self.was_here, self.here = self.here, np.zeros(len(self.ids), bool)
        reset = [self.index[job_id] for job_id in dropped if job_id in self.index]
        if reset:                                    # others may still read these arrays
            self.before = {name: (_replace_rows(samples, reset, 0), _replace_rows(sums, reset, 0))
                           for name, (samples, sums) in self.before.items()}

    def _select_rows(self, rows: Array) -> None:
        self.ids = [self.ids[row] for row in list_integers(rows)]
        self.index = {job_id: row for row, job_id in enumerate(self.ids)}
        self.now = {name: (samples[rows], sums[rows])
                    for name, (samples, sums) in self.now.items()}
        self.here, self.low, self.is_job = self.here[rows], self.low[rows], self.is_job[rows]
        self._rows_of = {}

    def add(self, target: CorrectedTarget, is_job: Callable[[str], bool]) -> set[str]:
        """Add the totals of `target`; {id} that it did not have at the sweep before."""
        totals, new, added = target.totals(), [], set()
        ids = list(totals.ids)
        ids_and_rows = self._rows_of.get(target.target)
        if ids_and_rows is None or ids_and_rows[0] != ids:
            added = set(ids).difference(ids_and_rows[0] if ids_and_rows else ())
            new = [job_id for job_id in ids if job_id not in self.index]
            for job_id in new:
                self.index[job_id] = len(self.ids)
                self.ids.append(job_id)
            rows = np.fromiter(map(self.index.__getitem__, ids), np.int64, len(ids))
            ids_and_rows = self._rows_of[target.target] = (ids, rows)
        rows, size = ids_and_rows[1], len(self.ids)
        if new:
            self._grow(size, np.fromiter(map(is_job, new), bool, len(new)))
        self.here[rows] = True
        for name, column in totals.counters.items():
            if name not in self.now:
                self.now[name] = (np.zeros(size, np.int64), np.zeros(size, np.int64))
            samples, sums = self.now[name]
            self._add_to(samples, rows, column.samples)
            if column.sums is not None and name in BYTES:
                self._add_to(sums, rows, column.sums)
        return added

    def _add_to(self, totals: Array, rows: Array, values: Array) -> None:
        """Add `values` to `totals`, which end at _MOST, and are lower bounds there."""
        added = totals[rows] + np.minimum(values, _MOST).astype(np.int64)
        is_over = added < 0                              # of two that are up to _MOST
        if is_over.any():
            added[is_over] = _MOST
            self.low[rows[is_over]] = True
        totals[rows] = added

    def _grow(self, size: int, are_jobs: Array) -> None:
        self.here, self.was_here, self.low = (_lengthen(flags, size) for flags in
                                              (self.here, self.was_here, self.low))
        self.is_job = np.concatenate((self.is_job, are_jobs))
        self.now, self.before = ({name: (_lengthen(samples, size), _lengthen(sums, size))
                                  for name, (samples, sums) in columns.items()}
                                 for columns in (self.now, self.before))

    def continue_from(self, job_id: str, settled: SettledCounters, is_back: bool) -> None:
        """
        Add an id's counts from before its job was settled; `is_back`: it was absent from the sweep
        before, and is taken to have been there.
        """
        row = self.index.setdefault(job_id, len(self.ids))
        if row == len(self.ids):
            self.ids.append(job_id)
            self._grow(row + 1, np.ones(1, bool))
        self.here[row], zeros = True, np.zeros(len(self.ids), np.int64)
        self.low[row] |= settled.lower_bound
        for name, amounts in settled.counters.items():
            now = self.now.setdefault(name, (zeros.copy(), zeros.copy()))
            for column, amount in zip(now, amounts):
                column[row] += amount
            if is_back:
                samples, sums = (_replace_rows(column, row, amount) for column, amount in zip(
                    self.before.get(name, (zeros, zeros)), amounts))
                self.before[name] = samples, sums

    def end(self) -> None:
        """
        End a sweep, after which no total decreases as long as its id is present: a target may drop
        a job during the walk, and a database takes a decreasing counter for a new one.

        What an id that was forgotten before the walk had is left out of that.
        """
        stays = self.here & self.was_here
        zeros = np.zeros(len(self.ids), np.int64)
        for name, then in self.before.items():
            now = self.now.get(name, (zeros, zeros))
            if any((old[stays] > new[stays]).any() for old, new in zip(then, now)):
                samples, sums = (np.where(stays, np.maximum(old, new), new)
                                 for old, new in zip(then, now))
                self.now[name] = samples, sums

    def gains(self) -> Columns:
        """{counter: (samples, sums)} of I/O since the sweep before; of a new id, all of it."""
        zeros = np.zeros(len(self.ids), np.int64)
        increases = {}
        for name, (samples, sums) in self.now.items():
            then = self.before.get(name, (zeros, zeros))
            # A target that dropped an id lowers its numbers; the I/O was not undone.
            increases[name] = (np.maximum(samples - then[0], 0), np.maximum(sums - then[1], 0))
        return increases


def _replace_rows(array: Array, rows: int | list[int], amount: int) -> Array:
    """A copy in which these rows are `amount`."""
    copy: Array = array.copy()
    copy[rows] = amount
    return copy


def _lengthen(array: Array, size: int) -> Array:
    longer = np.zeros(size, array.dtype)
    longer[:len(array)] = array
    return longer


class Tally:
    """
    The tables of all targets, from sweep to sweep.

    `by_target`: a table for each target, else one for each kind of target of a file system.

    Attributes:
        tables: {(fs, component, target or ""): IdTable}.
        slot, slot_before: the times of this sweep and of the one before, s; None for none.
        first: {id: the sweep before the one that it was first seen in, or None}.
        names: {id: its job, as job_stats have it; "" for no job}.
    """

    def __init__(self, by_target: bool) -> None:
        self.tables: dict[Key, IdTable] = {}
        self.first: dict[str, float | None] = {}
        self.names: dict[str, str] = {}
        self.slot: float | None = None
        self.slot_before: float | None = None
        self._by_target = by_target
        self._gaps: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._without_start: set[str] = set()    # ids whose job's start is not known
        self._dropped: set[str] = set()        # ids, since the last walk began
        self._looked_up: set[str] = set()        # jobs, whether they were settled before
        # {id: what was counted of its job before it was settled, by file system and target}, and
        # for which of these ids that was added in the last sweep.
        self._settled: dict[str, dict[tuple[str, str], SettledCounters]] = {}
        self._continued: set[str] = set()

    def drop_ids(self, ids: Iterable[str]) -> None:
        """Drop ids that the targets have expired: their jobs are settled, and may return."""
        self._dropped.update(ids)
        for job_id in ids:
            self._looked_up.discard(self.names.get(job_id, ""))
            self._settled.pop(job_id, None)
            self._continued.discard(job_id)

    def walk(self, sweep: SiteSweep, harvest: Harvest) -> Iterator[None]:
        """Generator: read all targets, one in each step."""
        self.slot_before, self.slot = self.slot, sweep.slot
        dropped, self._dropped = self._dropped, set()
        for table in self.tables.values():
            table.begin(dropped)

        def is_job(job_id: str) -> bool:
            if job_id not in self.names:
                self.names[job_id] = harvest.find_job(job_id)
            return bool(self.names[job_id])
        for fs, name in sorted(harvest.targets):
            target = harvest.targets.get((fs, name))
            if target is None:                           # it has expired
                continue
            table = self._get_table(fs, name)
            added = table.add(target, is_job)
            for job_id in added:
                self.first.setdefault(job_id, self.slot_before)
            yield
            yield from self._load_settled(added, harvest)
            yield from self._mark(table, target, harvest, added)
        yield from self._load_settled([job_id for job_id in dropped if any(
            table.has(job_id) for table in self.tables.values())], harvest)
        for job_id, targets in self._settled.items():
            for (fs, name), settled in targets.items():
                self._get_table(fs, name).continue_from(job_id, settled,
                                                        job_id not in self._continued)
        self._continued = set(self._settled)
        for table in self.tables.values():
            table.end()
        self._drop_dead()

    def _load_settled(self, ids: Iterable[str], harvest: Harvest) -> Iterator[None]:
        """Generator: note the counts of these ids from before their jobs were settled."""
        for number, job_id in enumerate(ids):
            if number % AT_ONCE == 0:
                yield
            job = self.names[job_id]
            if job and job not in self._looked_up:
                self._looked_up.add(job)
                record = harvest.settled(job)
                if record:
                    self._settled[job_id] = record

    def _get_table(self, fs: str, name: str) -> IdTable:
        key = self.make_table_key(fs, name)
        if key not in self.tables:
            self.tables[key] = IdTable(*key)
        return self.tables[key]

    def make_table_key(self, fs: str, name: str) -> Key:
        """The key of the IdTable that a target is added to."""
        return fs, get_component(name), f"{fs}-{name}" if self._by_target else ""

    def _mark(self, table: IdTable, target: CorrectedTarget, harvest: Harvest,
              added: set[str]) -> Iterator[None]:
        """
        Generator: mark totals that may be too low.

        Totals can become uncertain of an id that is new, of one whose start has just become known,
        and of a suspect; or of all ids, with a gap.
        """
        key, gaps = (table.fs, target.target), (target.cleanup_s is None, target.gaps[-1:])
        everyone = self._gaps.get(key) != gaps
        self._gaps[key] = gaps
        suspects = set(target.list_suspect_ids())
        since = float("inf") if target.swept_since is None else target.swept_since
        ids = target.ids() if everyone else {
            **dict.fromkeys(added), **dict.fromkeys(suspects),
            **dict.fromkeys(job_id for job_id in target.changed() if job_id in self._without_start)}
        for number, job_id in enumerate(ids):
            if number % AT_ONCE == 0:
                yield
            row = table.index.get(job_id)
            if row is None or table.low[row] or not table.is_job[row]:
                continue
            facts = harvest.facts(job_id)
            began = facts.started if facts is not None else None
            if not began:
                self._without_start.add(job_id)
                began = self.first.get(job_id) or target.swept_since or 0.0
            else:
                self._without_start.discard(job_id)
            # marks() of all ids of all targets would take longer than a sweep on a large system.
            if ((began < since or gaps[0] or target.gaps or job_id in suspects)
                    and target.marks(job_id, began, None)):
                table.low[row] = True

    def _drop_dead(self) -> None:
        if len(self.first) > _DEAD_ROWS + 2 * max(
                (len(table.ids) for table in self.tables.values()), default=0):
            alive = set().union(*(table.ids for table in self.tables.values()))
            self.first = {job_id: slot for job_id, slot in self.first.items()
                          if job_id in alive}
            self._without_start &= alive
            self.names = {job_id: job for job_id, job in self.names.items() if job_id in alive}
            self._looked_up.intersection_update(self.names.values())


def make_job_labels(job_id: str, harvest: Harvest) -> JobLabels:
    """The JobLabels of an id, with the batch facts received so far."""
    facts, job = harvest.facts(job_id), harvest.find_job(job_id)
    if facts is None:
        return JobLabels("", job, job, "", "")
    return JobLabels(facts.cluster, facts.job or job, facts.raw_job or job, facts.user,
                     facts.account)
