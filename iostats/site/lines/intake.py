"""
Takes what each reading of a target brings, and adds it to lines once an hour.

    read     what jobs gained at a target goes to memory; the target's blocks, from which it can be
             made again, are in the store
    written  to `line_parts`: before blocks of the target leave the store, and
    folded   once an hour: added to the lines of jobs and targets, by which it leaves memory and
             `line_parts`; then thinning.py makes older ones coarser

A question takes lines from the store and adds what is in memory.
"""

from __future__ import annotations

import logging

from iostats.base.errors import StateError
from iostats.site.lines.folding import (
    OF_TARGETS,
    JobLines,
    TargetLines,
    TargetReadings,
    base_of,
    job_lines,
    load_of,
    target_lines,
    whole_of,
)
from iostats.site.lines.line_store import NO_FOLD, LineStore
from iostats.site.lines.readings import decoded_part, encoded_part, follows_idle, reading_of
from iostats.site.lines.thinning import thin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from iostats.base.config import Config
    from iostats.site.lines.readings import LineReading
    from iostats.site.resets.target import CorrectedTarget
    from iostats.site.store import Store

    _Key = tuple[str, str]                          # file system, target

log = logging.getLogger("iostats")

FOLD_EVERY_S = 3600.0
_ANEW_S = 30 * 86400.0          # a job of which nothing came for so long
_GONE_S = 86400.0               # a target that is silent for longer counts as removed
_AGAIN_S = 60.0                 # after the store could not be written
MOST_ENTRIES = 1_000_000        # jobs of readings in memory: then they are folded at once,
_TOO_MANY = 2 * MOST_ENTRIES    # and where that cannot be, the oldest are lost
_AT_ONCE = 64                   # rows in one transaction
_MOST_TOPS = 12                 # jobs of a file system with a line in one row


class LineIntake:
    """
    What came since the last fold.

    Attributes:
        store: the LineStore.
        recent: {(file system, target): [LineReading]}, the oldest first.
        folding: {(file system, target): how many of them are being added to lines}; {} for none.
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
        """[site] series_days."""
        found: list[int] = self._config["site.series_days"]
        return found

    @property
    def is_on(self) -> bool:
        """Whether lines are kept at all."""
        return bool(self.days[-1])

    def targets_of(self, file_system: str) -> int:
        """How many targets a file system has: read within a day, or silent since."""
        now = self._now()
        return sum(name == file_system and now - (target.swept_until or now) < _GONE_S
                   for (name, _), target in self._targets().items())

    # -- what comes in

    def reload(self) -> None:
        """Begin with what is in the store; what was not written there is replayed; StateError."""
        self._clear()
        self.fold_number, last = self.store.fold()
        for row, file_system, target, body in self.store.parts():
            try:
                if not isinstance(file_system, str) or not isinstance(target, str):
                    raise ValueError("the name of its target is no text")
                readings = decoded_part(body)
                if not readings:
                    raise ValueError("there is nothing in it")
            except Exception as error:              # whatever these bytes do to who reads them
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

    def take(self, target: CorrectedTarget, job_of: Callable[[str], str], slot: float,
             every_s: float) -> None:
        """A target was read to its end, in the sweep of this moment."""
        arrived = target.pop_arrived()
        if self.is_on:
            key = target.file_system, target.target
            ids, gains, span_s = arrived
            reading = reading_of(ids, gains, job_of, self._last.get(key), slot, every_s, span_s)
            self._last[key] = slot
            known = self.recent.get(key, [])
            if len(known) > self._written.get(key, 0) and follows_idle(known[-1], reading):
                known[-1] = known[-1]._replace(until=reading.until)
                return
            if known and known[-1].jobs == reading.jobs:            # one list for both
                reading = reading._replace(jobs=known[-1].jobs)
            self._add(key, [reading])

    def were_written(self, key: _Key) -> None:
        """What came of a target so far is in the store, or in lines (in a replay)."""
        readings = self.recent.get(key, [])
        kept = self._written.get(key, 0)
        self._entries -= sum(len(reading.jobs) + 1 for reading in readings[kept:])
        if readings:
            self._last[key] = readings[-1].until
        del readings[kept:]

    # -- what goes to the store

    def write(self, keys: Iterable[_Key]) -> None:
        """Write what came of these targets; where that fails, it stays in memory."""
        new = {key: some for key in keys
               if (some := self.recent.get(key, [])[self._written.get(key, 0):])}
        try:
            self.store.keep_parts([(*key, encoded_part(some)) for key, some in new.items()])
        except StateError as error:
            self.store.trouble.say(error)
            return
        for key in new:
            self._written[key] = len(self.recent[key])

    def step(self) -> bool:
        """Do a part of what is due; False when there is no more to do."""
        now = self._now()
        self._wait_until = min(self._wait_until, now + _AGAIN_S)
        if now < self._wait_until:
            return False
        if self._work is None:
            self._fold_at = min(self._fold_at, now + FOLD_EVERY_S)  # the clock was set back
            if now < self._fold_at and self._entries <= MOST_ENTRIES:
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
            self.store.trouble.say(error)
            # Once more, as some jobs have it already.
            self._work = self._fold() if self.folding else None
            self._wait_until = self._now() + _AGAIN_S
            self._drop_oldest()
        return False

    def _drop_oldest(self) -> None:
        """The store takes nothing: of what is too much, the oldest is lost, and not known."""
        for key, readings in self.recent.items():
            if self._entries <= _TOO_MANY:
                return
            first = self.folding.get(key, 0)
            last = first + (len(readings) - first + 1) // 2
            self._entries -= sum(len(reading.jobs) + 1 for reading in readings[first:last])
            self._written[key] = first + max(0, self._written.get(key, 0) - last)
            del readings[first:last]

    def _write_all(self) -> Iterator[None]:
        keys = list(self.recent)
        for at in range(0, len(keys), _AT_ONCE):
            self.write(keys[at:at + _AT_ONCE])
            yield
        if any(self._written.values()):
            self.store.begin_fold(self.fold_number + 1)
            self.fold_number += 1
            self.folding = {key: count for key, count in self._written.items() if count}
            yield
            yield from self._fold()
        yield from thin(self.store, self.days)

    # -- adding to lines

    def _fold(self) -> Iterator[None]:
        """Add all that is in `folding` to lines; StateError."""
        rows: list[tuple[str, str, float, float, bytes]] = []
        for file_system in dict.fromkeys(name for name, _ in self.folding):
            mine = {target: self.recent[name, target][:count]
                    for (name, target), count in self.folding.items() if name == file_system}
            yield from self._fold_one(file_system, mine, rows)
        self.store.end_fold(self.fold_number, rows)
        for key, count in self.folding.items():
            readings = self.recent[key]
            self._entries -= sum(len(reading.jobs) + 1 for reading in readings[:count])
            del readings[:count]
            self._written[key] -= count
            if not readings:
                del self.recent[key], self._written[key]
        self.folding = {}

    def _fold_one(self, file_system: str, targets: dict[str, list[LineReading]],
                  rows: list[tuple[str, str, float, float, bytes]]) -> Iterator[None]:
        every_s = base_of(one for readings in targets.values() for one in readings)
        prepared: dict[str, TargetReadings] = {}
        lines: list[TargetLines] = []
        spans: list[tuple[float, float]] = []
        of_job: dict[str, list[str]] = {}
        for target, readings in targets.items():
            prepared[target] = TargetReadings(readings)
            for job in prepared[target].jobs:
                of_job.setdefault(job, []).append(target)
            lines.append(target_lines(readings, every_s, prepared[target]))
            # A clock may have been set back between them.
            spans.append((min(one.since for one in readings), max(one.until for one in readings)))
            rows.append((file_system, target, *spans[-1], lines[-1].encoded()))
            yield
        whole = whole_of(lines, every_s, self.targets_of(file_system))
        most: dict[str, JobLines] = {}
        new: list[tuple[str, str, bytes]] = []
        for job, names in of_job.items():
            known, has_it = self._row_of(job, file_system)
            mine = job_lines(job, {target: prepared[target] for target in names}, every_s,
                             known.targets if known else ())
            _note_most(most, job, mine)
            if job and not has_it:
                # An id may begin anew: then the line is that of another job.
                if known is not None and not (known.times and mine.times and mine.times[0]
                                              - known.times[1] > _ANEW_S):
                    known.add(mine)
                    mine = known
                new.append((job, file_system, mine.encoded()))
            if len(new) >= _AT_ONCE:
                self.store.keep_jobs(self.fold_number, new)
                new = []
            yield
        self.store.keep_jobs(self.fold_number, new)
        for job, one in most.items():
            whole.add_top(job, one.line, whole.known)
        whole.keep_most()
        rows.append((file_system, "", min(since for since, _ in spans),
                     max(until for _, until in spans), whole.encoded()))

    def _row_of(self, job: str, file_system: str) -> tuple[JobLines | None, bool]:
        """(what is kept of a job, or None; whether it has this fold already)."""
        row = self.store.job_row(job, file_system) if job else None
        if row is None:
            return None, False
        fold, body = row
        return (self.store.decoded("job_lines", (job, file_system), body, JobLines.decoded),
                fold == self.fold_number)


def _note_most(most: dict[str, JobLines], job: str, mine: JobLines) -> None:
    """Keep a job's line on the whole file system, if it is one of those that load it most."""
    line = mine.line
    mine_load = load_of(line.totals())
    if len(most) >= _MOST_TOPS:
        least = min(most, key=lambda one: (load_of(most[one].line.totals()), one))
        if load_of(most[least].line.totals()) >= mine_load:
            return
        del most[least]
    kept = JobLines(line.every_s)
    kept.line.add_line(line)
    kept.line.columns = {metric: column for metric, column in kept.line.columns.items()
                         if metric in OF_TARGETS}
    most[job] = kept
