"""
Collects each reading of a target, and adds it to time series once an hour.

    read     the jobs' amounts at a target go to memory; the target's blocks, from which they can
             be computed again, are in the store
    written  to `line_parts`: before blocks of the target leave the store, and
    folded   once an hour: added to the series of jobs and targets, and removed from memory and
             `line_parts`; then the bins of older ones are widened

A query reads series from the store and adds the amounts in memory.

With age, rows of hours become days, bins get wider, and the oldest are removed.  Each row has the
number of its thinnings, so that interrupted work continues there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Union

from iostats.base.config import Config
from iostats.base.errors import StateError
from iostats.harvest.resets.target import CorrectedTarget
from iostats.harvest.time_lines.readings import (
    LineReading,
    decode_part,
    encode_part,
    is_after_idle,
    make_reading,
)
from iostats.harvest.time_lines.series_sums import (
    MAX_BINS,
    MAX_TARGETS,
    MAX_TOPS,
    OF_TARGETS,
    JobLines,
    TargetLines,
    TargetReadings,
    add_up_job,
    add_up_target,
    add_up_targets,
    estimate_load,
    find_bin_width,
)
from iostats.store.line_store import NO_FOLD, LineStore
from iostats.store.record_store import Store

_Key = tuple[str, str]                          # file system, target
_Lines = Union[JobLines, TargetLines]

log = logging.getLogger(__name__)

FOLD_EVERY_S = 3600.0
_SAME_JOB_S = 30 * 86400.0      # after so long without I/O an id is another job
_SILENT_FOR_S = 86400.0         # a target without a reading for longer counts as removed
_RETRY_AFTER_S = 60.0           # after a failure to write the store
MAX_ENTRIES = 1_000_000         # jobs in the readings in memory: above, they are folded at once,
_MAX_UNWRITTEN = 2 * MAX_ENTRIES  # or, if that fails, the oldest are dropped
_ROWS_AT_ONCE = 64              # rows in one transaction
_MAX_TOPS = 12                  # jobs of a file system with a series in one row
_DAY_S = 86400.0
HOURS_FOR_S = 2 * _DAY_S        # after that the rows of a target's day are merged
_WIDENING = 4                   # times wider bins, at each age
_AT_ONCE = 20                   # rows in one transaction


class LineIntake:
    """
    The readings since the last fold.

    Attributes:
        store: the LineStore.
        recent: {(file system, target): [LineReading]}, the oldest first.
        folding: {(file system, target): how many of them are being added to series}; {} for none.
        fold_number: of the fold that was begun last.
    """

    def __init__(self, store: Store, config: Config, now: Callable[[], float],
                 targets: Callable[[], Mapping[_Key, CorrectedTarget]]) -> None:
        """`targets`: all that are known, {(file system, target): CorrectedTarget}."""
        self.store, self._config, self._now = LineStore(store), config, now
        self._targets = targets
        self._clear()

    def _clear(self) -> None:
        self.recent: dict[_Key, list[LineReading]] = {}
        self.folding: dict[_Key, int] = {}
        self.fold_number = 0
        self._last: dict[_Key, float] = {}          # the sweep of the last reading
        self._written: dict[_Key, int] = {}         # how many of `recent` are stored
        self._entries = 0
        self._work: Iterator[None] | None = None
        self._fold_at = self._wait_until = 0.0

    @property
    def days(self) -> list[int]:
        """The days for which time lines are stored: [site] series_days."""
        days = self._config.site.series_days
        return days

    @property
    def is_on(self) -> bool:
        """Whether time series are stored at all."""
        return bool(self.days[-1])

    def count_targets(self, file_system: str) -> int:
        """Count the targets of a file system: read within a day, or silent for less."""
        now = self._now()
        return sum(name == file_system and now - (target.swept_until or now) < _SILENT_FOR_S
                   for (name, _), target in self._targets().items())

    # -- readings

    def reload(self) -> None:
        """Begin with the stored readings; the others are replayed; StateError."""
        self._clear()
        self.fold_number, last = self.store.fold()
        for row, file_system, target, body in self.store.parts():
            try:
                if not isinstance(file_system, str) or not isinstance(target, str):
                    raise ValueError("the name of its target is not text")
                readings = decode_part(body)
                if not readings:
                    raise ValueError("it is empty")
            except Exception as error:              # damaged bytes can raise any error
                self.store.put_aside("line_parts", (row,), error)
                continue
            key = file_system, target
            self._add(key, readings)
            self._last[key] = readings[-1].until
            self._written[key] = len(self.recent[key])
            if row <= last:
                self.folding[key] = len(self.recent[key])
        if last != NO_FOLD:
            self._work = self._fold()
        self._fold_at = self._now() + FOLD_EVERY_S

    def _add(self, key: _Key, readings: list[LineReading]) -> None:
        self.recent.setdefault(key, []).extend(readings)
        self._entries += sum(len(reading.jobs) + 1 for reading in readings)

    def add_target(self, target: CorrectedTarget, find_job: Callable[[str], str], slot: float,
                   every_s: float) -> None:
        """Add a target's reading, in the sweep of this moment."""
        arrived = target.pop_arrived()
        if self.is_on:
            key = target.file_system, target.target
            ids, gains, span_s = arrived
            reading = make_reading(ids, gains, find_job, self._last.get(key), slot, every_s, span_s)
            self._last[key] = slot
            readings = self.recent.get(key, [])
            if len(readings) > self._written.get(key, 0) and is_after_idle(readings[-1], reading):
                readings[-1] = readings[-1]._replace(until=reading.until)
                return
            if readings and readings[-1].jobs == reading.jobs:            # one list for both
                reading = reading._replace(jobs=readings[-1].jobs)
            self._add(key, [reading])

    def note_stored_readings(self, key: _Key) -> None:
        """Note, in a replay, that the target's readings so far are in the store already."""
        readings = self.recent.get(key, [])
        written = self._written.get(key, 0)
        self._entries -= sum(len(reading.jobs) + 1 for reading in readings[written:])
        if readings:
            self._last[key] = readings[-1].until
        del readings[written:]

    # -- writing

    def write(self, keys: Iterable[_Key]) -> None:
        """Write the readings of these targets; if that fails, they stay in memory."""
        new = {key: unwritten for key in keys
               if (unwritten := self.recent.get(key, [])[self._written.get(key, 0):])}
        try:
            self.store.store_parts([(*key, encode_part(unwritten)) for key,
                                    unwritten in new.items()])
        except StateError as error:
            self.store.trouble.emit(error)
            return
        for key in new:
            self._written[key] = len(self.recent[key])

    def step(self) -> bool:
        """Do a part of the due work; False when none is left."""
        now = self._now()
        self._wait_until = min(self._wait_until, now + _RETRY_AFTER_S)
        if now < self._wait_until:
            return False
        if self._work is None:
            # The clock may have been set back.
            self._fold_at = min(self._fold_at, now + FOLD_EVERY_S)
            if now < self._fold_at and self._entries <= MAX_ENTRIES:
                return False
            self._fold_at = now + FOLD_EVERY_S
            self._work = self._write_all()
        if not self.store.is_quiet:
            return False
        try:
            next(self._work)
            return True
        except StopIteration:
            self._work = None
        except StateError as error:
            self.store.trouble.emit(error)
            # Again: some jobs have this fold already, and skip it.
            self._work = self._fold() if self.folding else None
            self._wait_until = self._now() + _RETRY_AFTER_S
            self._drop_oldest()
        return False

    def _drop_oldest(self) -> None:
        """
        Drop the oldest readings beyond the limit, if the store cannot be written: that time is
        unknown.
        """
        for key, readings in self.recent.items():
            if self._entries <= _MAX_UNWRITTEN:
                return
            first = self.folding.get(key, 0)
            last = first + (len(readings) - first + 1) // 2
            self._entries -= sum(len(reading.jobs) + 1 for reading in readings[first:last])
            self._written[key] = first + max(0, self._written.get(key, 0) - last)
            del readings[first:last]

    def _write_all(self) -> Iterator[None]:
        keys = list(self.recent)
        for at in range(0, len(keys), _ROWS_AT_ONCE):
            self.write(keys[at:at + _ROWS_AT_ONCE])
            yield
        if any(self._written.values()):
            self.store.begin_fold(self.fold_number + 1)
            self.fold_number += 1
            self.folding = {key: count for key, count in self._written.items() if count}
            yield
            yield from self._fold()
        yield from thin(self.store, self.days)

    # -- adding to series

    def _fold(self) -> Iterator[None]:
        """Add all readings in `folding` to series; StateError."""
        rows: list[tuple[str, str, float, float, bytes]] = []
        for file_system in dict.fromkeys(name for name, _ in self.folding):
            readings_of_target = {target: self.recent[name, target][:count]
                    for (name, target), count in self.folding.items() if name == file_system}
            yield from self._fold_file_system(file_system, readings_of_target, rows)
        self.store.end_fold(self.fold_number, rows)
        for key, count in self.folding.items():
            readings = self.recent[key]
            self._entries -= sum(len(reading.jobs) + 1 for reading in readings[:count])
            del readings[:count]
            self._written[key] -= count
            if not readings:
                del self.recent[key], self._written[key]
        self.folding = {}

    def _fold_file_system(self, file_system: str, targets: dict[str, list[LineReading]],
                  rows: list[tuple[str, str, float, float, bytes]]) -> Iterator[None]:
        every_s = find_bin_width(reading for readings in targets.values() for reading in readings)
        prepared: dict[str, TargetReadings] = {}
        lines: list[TargetLines] = []
        spans: list[tuple[float, float]] = []
        targets_of_job: dict[str, list[str]] = {}
        for target, readings in targets.items():
            prepared[target] = TargetReadings(readings)
            for job in prepared[target].jobs:
                targets_of_job.setdefault(job, []).append(target)
            lines.append(add_up_target(readings, every_s, prepared[target]))
            # A clock may have been set back between readings.
            spans.append((min(reading.since for reading in readings),
                          max(reading.until for reading in readings)))
            rows.append((file_system, target, *spans[-1], lines[-1].encode()))
            yield
        whole = add_up_targets(lines, every_s, self.count_targets(file_system))
        top_jobs: dict[str, JobLines] = {}
        new: list[tuple[str, str, bytes]] = []
        for job, names in targets_of_job.items():
            known, is_folded = self._load_row(job, file_system)
            lines_of_job = add_up_job(job, {target: prepared[target] for target in names}, every_s,
                             known.targets if known else ())
            _note_top(top_jobs, job, lines_of_job)
            if job and not is_folded:
                # An id may be used again: then the old series is another job's.
                if known is not None and not (known.times and lines_of_job.times
                                              and lines_of_job.times[0]
                                              - known.times[1] > _SAME_JOB_S):
                    known.add(lines_of_job)
                    lines_of_job = known
                new.append((job, file_system, lines_of_job.encode()))
            if len(new) >= _ROWS_AT_ONCE:
                self.store.store_jobs(self.fold_number, new)
                new = []
            yield
        self.store.store_jobs(self.fold_number, new)
        for job, reading in top_jobs.items():
            whole.add_top(job, reading.line, whole.known)
        whole.limit_parts()
        rows.append((file_system, "", min(since for since, _ in spans),
                     max(until for _, until in spans), whole.encode()))

    def _load_row(self, job: str, file_system: str) -> tuple[JobLines | None, bool]:
        """Return (the stored lines of a job, or None; whether they include this fold)."""
        row = self.store.job_row(job, file_system) if job else None
        if row is None:
            return None, False
        fold, body = row
        return (self.store.decode("job_lines", (job, file_system), body, JobLines.decode),
                fold == self.fold_number)


def _note_top(top_jobs: dict[str, JobLines], job: str, lines: JobLines) -> None:
    """Add a job's series on the whole file system, if it is one of those with the highest load."""
    line = lines.line
    load = estimate_load(line.totals())
    if len(top_jobs) >= _MAX_TOPS:
        least = min(top_jobs, key=lambda name: (estimate_load(top_jobs[name].line.totals()), name))
        if estimate_load(top_jobs[least].line.totals()) >= load:
            return
        del top_jobs[least]
    top = JobLines(line.every_s)
    top.line.add_line(line)
    top.line.columns = {metric: column for metric, column in top.line.columns.items()
                        if metric in OF_TARGETS}
    top_jobs[job] = top


def thin(store: LineStore, days: Sequence[int]) -> Iterator[None]:
    """
    Do the work that is due by the store's time, in steps; StateError.  `days`: [site] series_days.
    """
    now = store.now()
    yield from _merge_days(store, now - HOURS_FOR_S - _DAY_S)  # then the day's last row is as old
    for level, age in enumerate(days[:-1], 1):
        before, bins = now - age * _DAY_S, _reduce(MAX_BINS, _WIDENING, level)
        yield from _thin(store, "job_lines", level, before, JobLines.decode, bins,
                         _reduce(MAX_TARGETS, 2, level))
        # The rows of a day have been thinned once.
        yield from _thin(store, "target_lines", level + 1, before, TargetLines.decode, bins,
                         _reduce(MAX_TOPS, 2, level))
    store.delete_lines(now - days[-1] * _DAY_S)


def _merge_days(store: LineStore, before: float) -> Iterator[None]:
    """Merge the rows of a target, or of a whole file system, that began on one day."""
    while True:
        stored_rows = store.list_rows_to_merge(before)
        if not stored_rows:
            return
        day: TargetLines | None = None
        rows = []
        for row, since, until, body in stored_rows:
            lines = store.decode("target_lines", (row,), body, TargetLines.decode)
            if lines is not None:
                day = day or TargetLines(lines.line.every_s, lines.targets)
                day.add(lines)
                rows.append((row, since, until))
        if day is not None:
            day.thin(MAX_BINS, MAX_TOPS)
            store.replace_lines([row for row, *_ in rows], min(since for _, since, _ in rows),
                                max(until for *_, until in rows), day.encode())
        yield


def _thin(store: LineStore, table: str, level: int, before: float,
          decode: Callable[[bytes], _Lines | None], bins: int, max_parts: int) -> Iterator[None]:
    """
    Reduce rows of a table that were thinned less often to `bins`, and `max_parts` targets or jobs;
    rows of up to a day in one step.
    """
    before = min(before, store.oldest(table, level - 1) + _DAY_S)
    while True:
        due = store.list_rows_to_thin(table, level - 1, before, _AT_ONCE)
        if not due:
            return
        rows = []
        for key, body in due:
            lines = store.decode(table, key, body, decode)
            if lines is not None:
                lines.thin(bins, max_parts)
                rows.append((*key, lines.encode()))
        store.store_thinned(table, level, rows)
        yield


def _reduce(size: int, divided_by: int, times: int) -> int:
    """Halve `size` this number of times.

    >>> [_reduce(240, 4, times) for times in (1, 2, 3)]
    [60, 15, 4]
    """
    return int(max(1, round(size / divided_by ** times)))
