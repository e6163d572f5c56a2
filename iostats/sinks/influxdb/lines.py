"""
From sweeps to lines of InfluxDB's line protocol: which jobs did something, and where.

    measurement   tags                                        fields, all integers
    lustre        job fs server                               read_bytes write_bytes iops
    lustre_job    cluster job user account fs [target]        read_bytes write_bytes read_rpcs
                                                              write_rpcs operations requests
                                                              lower_bound, and each operation:
                                                              open close ...

`lustre` is jobHarvest's: `server` is oss or mds, the amounts are totals of the job so far, iops is
the number of all operations but reads and writes, and a job has a point when it did something; none
of a sweep that was an hour ago.  `lustre_job` has totals too, which only grow, so the database
makes the rates: a job that did something has a point, and one of the sweep before if that has none
yet, so that an increase is seen from where it began.

Source: line protocol of InfluxDB 2; influxWrite() of jobHarvest for its schema.
"""

from __future__ import annotations

import collections

from iostats.lustre.metrics import is_operation, is_transfer
from iostats.sinks.gains import AT_ONCE, BYTES, NO_JOB, Tally, job_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import Any

    from iostats.sinks.gains import IdTable, JobLabels, Key
    from iostats.site.harvest_intake import Harvest, SiteSweep

    Row = tuple[Mapping[str, tuple[Any, Any]], int]      # counter -> samples, sums; the row
    Totals = dict[str, tuple[list[int], list[int]]]

TOO_OLD_S = 3600                    # jobHarvest's rule
_MOST = 2**63 - 1                   # of a field: with a larger one the database rejects the point
SERVER_OF = {"ost": "oss", "mdt": "mds"}


def tag(text: str) -> str:
    r"""
    `text` as the value of a tag.

    A backslash and what is not printed stand as in job_stats, \x5c: databases differ in what they
    make of a backslash before a comma or at the end, and \x is the same for all.

    >>> tag("a b,c=d"), tag("a\\b"), tag("a\nb")
    ('a\\ b\\,c\\=d', 'a\\x5cb', 'a\\x0ab')
    """
    if text.isalnum() and text.isascii():
        return text
    return "".join(_escaped(c) for c in text)


def _escaped(c: str) -> str:
    if c in " ,=":
        return "\\" + c
    if c == "\\" or not c.isprintable():
        number = ord(c)
        return ("\\x%02x" if number < 1 << 8 else "\\u%04x" if number < 1 << 16 else "\\U%08x"
                ) % number
    return c


def tags_of(**tags: str) -> str:
    return "".join(f",{name}={tag(text)}" for name, text in tags.items() if text)


def line(head: str, fields: Iterable[tuple[str, int]], moment_ms: int,
         too_large: list[str]) -> str:
    """
    One point; `head` is the measurement with its tags.

    A field that no database takes is left out and added to `too_large`; "" where no other is left.
    """
    shown = []
    for name, amount in fields:
        if amount <= _MOST:
            shown.append(f"{name}={amount}i")
        else:
            too_large.append(f"{name} of {head}")
    return f"{head} {','.join(shown)} {moment_ms}" if shown else ""


def fields_of(rows: Iterable[Row]) -> dict[str, int]:
    """
    {field: amount} of the rows [({counter: (samples, sums)}, row)] added up; zeros have none.
    """
    found: dict[str, int] = {}
    for columns, row in rows:
        for counter, (samples, sums) in columns.items():
            count = int(samples[row])
            if not count:
                continue
            if counter in BYTES:
                _add(found, counter, int(sums[row]))
                _add(found, counter.replace("bytes", "rpcs"), count)
                _add(found, "requests", count)
            elif not is_transfer(counter):
                _add(found, tag(counter), count)
                if is_operation(counter):
                    _add(found, "operations", count)
                    _add(found, "requests", count)
    return found


def iops_of(rows: Iterable[Row]) -> int:
    """jobHarvest's iops: all operations but reads and writes; a rename is one."""
    return sum(int(samples[row]) for columns, row in rows
               for counter, (samples, _) in columns.items() if is_operation(counter))


def _add(fields: dict[str, int], name: str, amount: int) -> None:
    if amount:
        fields[name] = fields.get(name, 0) + amount


class PointGroup:
    """The points of one sweep with the same tags but for the job: of a file system, or a target."""

    def __init__(self, fs: str, target: str, server: str) -> None:
        self.fs, self.target, self.server = fs, target, server
        # (JobLabels, [(now, row)], [(before, row)], low, goes_on)
        self.entries: list[tuple[JobLabels, list[Row], list[Row], bool, bool]] = []


class SweepPoints:
    """
    The points of one sweep; `lines` makes the text, in a thread.

    Attributes:
        too_large: fields that were left out, in words.
    """

    def __init__(self, slot: float, slot_before: float | None, groups: list[PointGroup]) -> None:
        self.slot, self.slot_before, self.groups = slot, slot_before, groups
        self.too_large: list[str] = []

    def lines(self) -> Iterator[str]:
        """Its points, one line each."""
        return filter(None, self._lines())

    def _lines(self) -> Iterator[str]:
        now_ms, before_ms = round(self.slot * 1000), round((self.slot_before or 0) * 1000)
        for group in self.groups:
            for job, now, before, low, goes_on in group.entries:
                fields = fields_of(now)
                if group.server:
                    head = "lustre" + tags_of(job=job.job, fs=group.fs, server=group.server)
                    yield line(head, (*((name, fields.get(name, 0)) for name in BYTES),
                                      ("iops", iops_of(now))), now_ms, self.too_large)
                    continue
                head = "lustre_job" + tags_of(cluster=job.cluster, job=job.job, user=job.user,
                                            account=job.account, fs=group.fs, target=group.target)
                if self.slot_before is not None:
                    then = fields_of(before)
                    begin = [(name, then.get(name, 0)) for name in sorted(fields)
                             if not goes_on or name not in then]
                    if begin:
                        yield line(head, begin, before_ms, self.too_large)
                yield line(head, [*sorted(fields.items()), ("lower_bound", int(low))], now_ms,
                           self.too_large)


class Lines:
    """
    From sweeps to points: which jobs did something, and where; `clock` gives seconds since 1970.

    Attributes:
        too_old: points of jobHarvest's schema that were not made, since the sweep was too long ago.
    """

    def __init__(self, schema: str, by_target: bool,
                 clock: Callable[[], float]) -> None:
        self._full, self._harvest = schema in ("full", "both"), schema in ("jobharvest", "both")
        self._by_target, self._clock = by_target, clock
        self._tally = Tally(by_target)
        self._job: dict[str, JobLabels] = {}
        self._ids: dict[JobLabels | None, set[str]] = collections.defaultdict(set)
        # (group, JobLabels) -> the slot of its last point
        self._written: dict[tuple[Any, ...], float | None] = {}
        self._no_job: dict[Key, Totals] = {}           # since we began
        self.too_old = 0
        self.ready: SweepPoints | None = None

    def walk(self, sweep: SiteSweep, harvest: Harvest) -> Iterator[None]:
        """Generator: take a sweep, a little at a step; then `ready` is its SweepPoints."""
        self.ready = None
        yield from self._tally.walk(sweep, harvest)
        tally, changed, no_job_before = self._tally, {}, dict(self._no_job)
        for key, table in tally.tables.items():
            changed[key] = yield from self._changed(key, table, harvest)
            yield
        full = collections.defaultdict(list)
        harvested = collections.defaultdict(list)
        for table in tally.tables.values():
            full[table.fs, table.target].append(table)
            harvested[table.fs, SERVER_OF.get(table.component, table.component)].append(table)
        groups = []
        if self._full:
            for (fs, target), tables in full.items():
                group = PointGroup(fs, target, "")
                yield from self._fill(group, tables, changed, no_job_before)
                groups.append(group)
        if self._harvest:
            for (fs, server), tables in harvested.items():
                group = PointGroup(fs, "", server)
                yield from self._fill(group, tables, changed, None)
                if self._clock() - sweep.slot > TOO_OLD_S:
                    self.too_old += len(group.entries)
                else:
                    groups.append(group)
        self._forget()
        self.ready = SweepPoints(sweep.slot, tally.slot_before, groups)

    def forget(self, ids: Iterable[str]) -> None:
        """The targets count these ids from 0."""
        self._tally.forget(ids)

    def _changed(self, key: Key, table: IdTable,
                 harvest: Harvest) -> Generator[None, None, dict[JobLabels, None]]:
        """
        Generator: {JobLabels} of those that did something in `table`; I/O of no job is added up.
        """
        moved, no_job = None, {}
        for counter, (samples, sums) in table.gains().items():
            some = samples > 0
            moved = some if moved is None else moved | some
            if counter in BYTES or not is_transfer(counter):
                no_job[counter] = (int(samples[~table.is_job].sum()),
                                   int(sums[~table.is_job].sum()))
        self._count_no_job(key, no_job)
        found: dict[JobLabels, None] = {}
        if moved is not None:
            for number, row in enumerate((moved & table.is_job).nonzero()[0].tolist()):
                if number % AT_ONCE == 0:
                    yield
                job_id = table.ids[row]
                job = job_of(job_id, harvest)
                old = self._job.get(job_id)
                if old != job:
                    self._ids[old].discard(job_id)
                    self._job[job_id] = job
                    self._ids[job].add(job_id)
                found[job] = None
        return found

    def _count_no_job(self, key: Key, gained: dict[str, tuple[int, int]]) -> None:
        # Ids that are no jobs come and go; from our own beginning on the sum only grows.
        first = self._tally.slot_before is None
        old = self._no_job.get(key, {})
        new = dict(old)
        for counter, (samples, sums) in gained.items():
            before = old.get(counter, ([0], [0]))
            new[counter] = before if first else ([before[0][0] + samples], [before[1][0] + sums])
        self._no_job[key] = new

    def _fill(self, group: PointGroup, tables: list[IdTable],
              changed: dict[Key, dict[JobLabels, None]],
              no_job_before: dict[Key, Totals] | None) -> Iterator[None]:
        """Generator: enter the points of `group`; those of no job where `no_job_before` is told."""
        keys = [(table.fs, table.component, table.target) for table in tables]
        jobs = dict.fromkeys(job for key in keys for job in changed[key])
        for number, job in enumerate(jobs):
            if number % AT_ONCE == 0:
                yield
            now: list[Row] = []
            before: list[Row] = []
            low = False
            for table in tables:
                for job_id in self._ids[job]:
                    row = table.index.get(job_id)
                    if row is not None:
                        now.append((table.now, row))
                        before.append((table.before, row))
                        low = low or bool(table.low[row])
            self._enter(group, job, now, before, low)
        if no_job_before is not None:
            now = [(self._no_job[key], 0) for key in keys]
            before = [(no_job_before.get(key, {}), 0) for key in keys]
            if fields_of(now) != fields_of(before):
                self._enter(group, NO_JOB, now, before, False)

    def _enter(self, group: PointGroup, job: JobLabels, now: list[Row], before: list[Row],
               low: bool) -> None:
        key, slot = (group.fs, group.target, group.server, job), self._tally.slot
        goes_on = self._written.get(key) == self._tally.slot_before
        self._written[key] = slot
        group.entries.append((job, now, before, low, goes_on))

    def _forget(self) -> None:
        if len(self._job) > 1000 + 2 * len(self._tally.first):
            self._job = {job_id: job for job_id, job in self._job.items()
                         if job_id in self._tally.first}
            self._ids = collections.defaultdict(set)
            for job_id, job in self._job.items():
                self._ids[job].add(job_id)
            self._written = {key: slot for key, slot in self._written.items()
                             if key[-1] in self._ids or key[-1] == NO_JOB}
