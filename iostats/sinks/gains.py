"""
What all jobs have done so far, as of one sweep and of the one before.

An IdTable has a row for each job id of job_stats, and a column for each counter's samples and sums,
of one target, or of all targets of one kind (ost, mdt) of a file system added up.  What a job did
between two sweeps is the difference of two tables, so nothing is lost or counted twice when a sweep
was missed, and no job loses what a target forgets.

    targets -> IdTables -> jobs, by what the batch system calls them -> a database

The walk over the targets is a generator, so that a loop can do other things between two of them.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    import numpy.typing

    from iostats.site.harvest_intake import Harvest, SiteSweep
    from iostats.site.harvested_job import SettledCounters
    from iostats.site.resets.target import CorrectedTarget

    Array = numpy.typing.NDArray[Any]
    Columns = dict[str, tuple[Array, Array]]        # counter -> samples, sums
    Key = tuple[str, str, str]                      # fs, component, target or ""

# I/O of no job (ids such as cp.0, kworker), added up.  The name is a value of tags and labels in
# databases, where another one would be another series.
UNATTRIBUTED = "(unattributed)"
OTHERS = "(others)"                     # jobs, or nodes, that have no series of their own
BYTES = ("read_bytes", "write_bytes")
_DEAD_ROWS = 1000
_MOST = 2**63 - 1
AT_ONCE = 500                           # ids that are looked at in one step of the walk

JobLabels = namedtuple("JobLabels", "cluster job raw_job user account")
JobLabels.__doc__ = """
Whose I/O it was.

Attributes:
    job: as users write it; as in job_stats where the batch system does not know it; or
        UNATTRIBUTED.
    raw_job: the batch system's own id.
    cluster, user, account: "" where they are not known.
"""
NO_JOB = JobLabels("", UNATTRIBUTED, UNATTRIBUTED, "", "")


def component_of(target: str) -> str:
    """
    What kind of target it is, as exporters call it.

    >>> component_of("OST000a"), component_of("MDT0000")
    ('ost', 'mdt')
    """
    return target[:3].lower()


class IdTable:
    """
    A table of job ids.

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

    def begin(self, forgotten: Iterable[str]) -> None:
        """Begin a sweep: `now` becomes `before`; the ids of `forgotten` count from 0."""
        dead = len(self.ids) - int(self.here.sum())
        if dead > _DEAD_ROWS and 2 * dead > len(self.ids):
            self._keep(np.flatnonzero(self.here))
        self.before, self.now = self.now, {}
        self.was_here, self.here = self.here, np.zeros(len(self.ids), bool)
        anew = [self.index[job_id] for job_id in forgotten if job_id in self.index]
        if anew:                                     # others may still read these arrays
            self.before = {name: (_with(samples, anew, 0), _with(sums, anew, 0))
                           for name, (samples, sums) in self.before.items()}

    def _keep(self, rows: Array) -> None:
        self.ids = [self.ids[row] for row in rows.tolist()]
        self.index = {job_id: row for row, job_id in enumerate(self.ids)}
        self.now = {name: (samples[rows], sums[rows])
                    for name, (samples, sums) in self.now.items()}
        self.here, self.low, self.is_job = self.here[rows], self.low[rows], self.is_job[rows]
        self._rows_of = {}

    def add(self, target: CorrectedTarget, is_job: Callable[[str], bool]) -> set[str]:
        """Add the totals of `target`; {id} that it did not have at the sweep before."""
        totals, new, came = target.totals(), [], set()
        ids = list(totals.ids)
        known = self._rows_of.get(target.target)
        if known is None or known[0] != ids:
            came = set(ids).difference(known[0] if known else ())
            new = [job_id for job_id in ids if job_id not in self.index]
            for job_id in new:
                self.index[job_id] = len(self.ids)
                self.ids.append(job_id)
            rows = np.fromiter(map(self.index.__getitem__, ids), np.int64, len(ids))
            known = self._rows_of[target.target] = (ids, rows)
        rows, size = known[1], len(self.ids)
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
        return came

    def _add_to(self, totals: Array, rows: Array, values: Array) -> None:
        """Add `values` to `totals`, which end at _MOST, and are lower bounds there."""
        added = totals[rows] + np.minimum(values, _MOST).astype(np.int64)
        is_over = added < 0                              # of two that are up to _MOST
        if is_over.any():
            added[is_over] = _MOST
            self.low[rows[is_over]] = True
        totals[rows] = added

    def _grow(self, size: int, are_jobs: Array) -> None:
        self.here, self.was_here, self.low = (_longer(flags, size) for flags in
                                              (self.here, self.was_here, self.low))
        self.is_job = np.concatenate((self.is_job, are_jobs))
        self.now, self.before = ({name: (_longer(samples, size), _longer(sums, size))
                                  for name, (samples, sums) in columns.items()}
                                 for columns in (self.now, self.before))

    def continue_from(self, job_id: str, settled: SettledCounters, is_back: bool) -> None:
        """
        Add what was counted of an id's job before it was settled; `is_back`: not at the sweep
        before, when it is taken to have been there as well.
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
                samples, sums = (_with(column, row, amount) for column, amount in zip(
                    self.before.get(name, (zeros, zeros)), amounts))
                self.before[name] = samples, sums

    def end(self) -> None:
        """
        End a sweep: no total decreases as long as its id is here.  A target may forget a job during
        the walk, and a database takes a counter that decreases for a new one.

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
        found = {}
        for name, (samples, sums) in self.now.items():
            then = self.before.get(name, (zeros, zeros))
            # What a target has forgotten is gone, and was not undone.
            found[name] = (np.maximum(samples - then[0], 0), np.maximum(sums - then[1], 0))
        return found


def _with(array: Array, rows: int | list[int], amount: int) -> Array:
    """A copy in which these rows are `amount`."""
    copy: Array = array.copy()
    copy[rows] = amount
    return copy


def _longer(array: Array, size: int) -> Array:
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
        self._forgotten: set[str] = set()        # ids, since the last walk began
        self._looked_up: set[str] = set()        # jobs, whether they were settled before
        # {id: what was counted of its job before it was settled, by file system and target}, and
        # for which of these ids that was added in the last sweep.
        self._settled: dict[str, dict[tuple[str, str], SettledCounters]] = {}
        self._continued: set[str] = set()

    def forget(self, ids: Iterable[str]) -> None:
        """The targets have forgotten these ids: their jobs are settled, and may come back."""
        self._forgotten.update(ids)
        for job_id in ids:
            self._looked_up.discard(self.names.get(job_id, ""))
            self._settled.pop(job_id, None)
            self._continued.discard(job_id)

    def walk(self, sweep: SiteSweep, harvest: Harvest) -> Iterator[None]:
        """Generator: take all targets, one at a step."""
        self.slot_before, self.slot = self.slot, sweep.slot
        forgotten, self._forgotten = self._forgotten, set()
        for table in self.tables.values():
            table.begin(forgotten)

        def is_job(job_id: str) -> bool:
            if job_id not in self.names:
                self.names[job_id] = harvest.job_of(job_id)
            return bool(self.names[job_id])
        for fs, name in sorted(harvest.targets):
            target = harvest.targets.get((fs, name))
            if target is None:                           # it was forgotten meanwhile
                continue
            table = self._table_of(fs, name)
            came = table.add(target, is_job)
            for job_id in came:
                self.first.setdefault(job_id, self.slot_before)
            yield
            yield from self._look_up(came, harvest)
            yield from self._mark(table, target, harvest, came)
        yield from self._look_up([job_id for job_id in forgotten if any(
            table.has(job_id) for table in self.tables.values())], harvest)
        for job_id, targets in self._settled.items():
            for (fs, name), settled in targets.items():
                self._table_of(fs, name).continue_from(job_id, settled,
                                                       job_id not in self._continued)
        self._continued = set(self._settled)
        for table in self.tables.values():
            table.end()
        self._forget()

    def _look_up(self, ids: Iterable[str], harvest: Harvest) -> Iterator[None]:
        """Generator: note what was counted of the jobs of these ids before they were settled."""
        for number, job_id in enumerate(ids):
            if number % AT_ONCE == 0:
                yield
            job = self.names[job_id]
            if job and job not in self._looked_up:
                self._looked_up.add(job)
                found = harvest.settled(job)
                if found:
                    self._settled[job_id] = found

    def _table_of(self, fs: str, name: str) -> IdTable:
        key = self.key_of(fs, name)
        if key not in self.tables:
            self.tables[key] = IdTable(*key)
        return self.tables[key]

    def key_of(self, fs: str, name: str) -> Key:
        """The key of the IdTable to which a target adds."""
        return fs, component_of(name), f"{fs}-{name}" if self._by_target else ""

    def _mark(self, table: IdTable, target: CorrectedTarget, harvest: Harvest,
              came: set[str]) -> Iterator[None]:
        """
        Generator: note whose totals may be too low.

        Totals can become uncertain of an id that is new, of one whose start has just become known,
        and of a suspect; or of all ids, with a gap.
        """
        key, gaps = (table.fs, target.target), (target.cleanup_s is None, target.gaps[-1:])
        everyone = self._gaps.get(key) != gaps
        self._gaps[key] = gaps
        suspects = set(target.suspects())
        since = float("inf") if target.swept_since is None else target.swept_since
        ids = target.ids() if everyone else {
            **dict.fromkeys(came), **dict.fromkeys(suspects),
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

    def _forget(self) -> None:
        if len(self.first) > _DEAD_ROWS + 2 * max(
                (len(table.ids) for table in self.tables.values()), default=0):
            alive = set().union(*(table.ids for table in self.tables.values()))
            self.first = {job_id: slot for job_id, slot in self.first.items()
                          if job_id in alive}
            self._without_start &= alive
            self.names = {job_id: job for job_id, job in self.names.items() if job_id in alive}
            self._looked_up.intersection_update(self.names.values())


def job_of(job_id: str, harvest: Harvest) -> JobLabels:
    """The JobLabels of an id of a job, as far as the batch system has told it by now."""
    facts, job = harvest.facts(job_id), harvest.job_of(job_id)
    if facts is None:
        return JobLabels("", job, job, "", "")
    return JobLabels(facts.cluster, facts.job or job, facts.raw_job or job, facts.user,
                     facts.account)
