"""
Adds up readings of a file system's targets: the series of each job, and of each target with the
jobs of the highest load.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Optional, TypeVar

import msgspec
import numpy

from iostats.harvest.resets.counters import WHOLE_GAINS
from iostats.harvest.time_lines.binned import BinnedLine, StoredLine, pack_row
from iostats.harvest.time_lines.known_time import MAX_PIECES, add_up, limit_pieces
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iostats.harvest.time_lines.known_time import Piece
    from iostats.harvest.time_lines.readings import LineReading
    from iostats.wire.messages.arrays import Array


MAX_BINS = 240                  # of a series
MAX_TARGETS = 8                 # of a job on a file system with a series of their own
MAX_TOPS = 12                   # jobs of a target with a series in one row
EACH_TOPS = 4  # of these in each sweep, so that a job that loads it briefly is not missed
# Metrics of targets, and of the jobs there.
OF_TARGETS = frozenset((*WHOLE_GAINS, "busy_us", "timed", "reads_us", "writes_us"))
_BYTES_OF_REQUEST = 1 << 16     # the weight of a request in bytes, if requests are not timed


_Amount = TypeVar("_Amount", int, "Array")


def estimate_load(amounts: Mapping[str, _Amount]) -> _Amount | int:
    """
    The load of {metric: number or array} on a target: the time of its requests, or, if releases do
    not report it (Lustre up to 2.13), bytes and requests.
    """
    if "busy_us" in amounts:
        return amounts["busy_us"]
    requests = sum(amounts.get(name, 0) for name in ("reads", "writes", "operations"))
    return amounts.get("read_bytes", 0) + amounts.get("write_bytes", 0) + (
        requests * _BYTES_OF_REQUEST)


class JobTargetRow(msgspec.Struct, array_like=True):
    """A job on one of its targets; `since`: the time before is unknown, s since 1970."""

    line: StoredLine
    since: float


class JobRow(msgspec.Struct, array_like=True):
    """A JobLines in the store."""

    line: StoredLine
    targets: dict[str, JobTargetRow]
    crowded: bool
    unplaced_at: list[float] = []


class JobLines:
    """
    The series of a job on one file system.

    Attributes:
        line: its amounts on all targets; `targets`: {target: (its amounts there, since when they
        are known)} for the targets with the highest load.
        crowded: it used more targets than these.
        unplaced_at: the ends of the first and the last reading with unplaced amounts, s since 1970;
        [] for none.
    """

    def __init__(self, every_s: float) -> None:
        self.line = BinnedLine(every_s, MAX_BINS)
        self.targets: dict[str, tuple[BinnedLine, float]] = {}
        self.crowded = False
        self.unplaced_at: list[float] = []

    @property
    def times(self) -> list[float]:
        """The first and the last moment of its known amounts, also unplaced ones; [] for none."""
        placed = [self.line.began, self.line.ended] if self.line.length else []
        return _get_first_and_last([*placed, *self.unplaced_at])

    def _join(self, target: str, part: BinnedLine, since: float) -> None:
        lines = self.targets.get(target)
        if lines is None:
            self.targets[target] = part, since
        else:
            lines[0].add_line(part)

    def add(self, later: JobLines) -> None:
        """Add the job's later amounts."""
        self.line.add_line(later.line)
        until = later.times[-1] if later.times else 0.0
        for target, (part, since) in later.targets.items():
            if self.crowded:                # the time without a series of its own is unknown
                since = part.began if part.length else until
            self._join(target, part, since)
        self.crowded = self.crowded or later.crowded
        self.unplaced_at = _get_first_and_last([*self.unplaced_at, *later.unplaced_at])
        self.limit_parts()

    def limit_parts(self, limit: int = MAX_TARGETS) -> None:
        """Drop the series of all but the `limit` targets with the highest load."""
        if len(self.targets) > limit:
            self.crowded = True
            self.targets = dict(sorted(
                self.targets.items(), key=lambda target_line: (
                    -estimate_load(_get_amounts(target_line[1][0])), target_line[0]))[:limit])

    def thin(self, bins: int, targets: int) -> None:
        """Reduce to this number of bins and of targets."""
        self.limit_parts(targets)
        for line in (self.line, *(line for line, _ in self.targets.values())):
            line.at_most(bins)

    def encode(self) -> bytes:
        """The lines as bytes for the store."""
        return pack_row(JobRow(self.line.stored(), {
            target: JobTargetRow(line.stored(), since)
            for target, (line, since) in self.targets.items()}, self.crowded, self.unplaced_at))

    @classmethod
    def decode(cls, body: bytes) -> JobLines:
        """The JobLines of encode()'s bytes; damaged bytes can raise any error."""
        row = _job_row(zlib.decompress(body))
        lines = cls(row.line.every_s)
        lines.line, lines.crowded = BinnedLine.of(row.line, MAX_BINS), row.crowded
        lines.unplaced_at = row.unplaced_at
        lines.targets = {target: (BinnedLine.of(target_row.line, MAX_BINS), target_row.since)
                         for target, target_row in row.targets.items()}
        return lines


_Pieces = list[tuple[float, float, float]]


class TargetRow(msgspec.Struct, array_like=True):
    """TargetLines in the store; `tops`: (series, the time for which it is known)."""

    line: StoredLine
    known: _Pieces
    targets: int
    tops: dict[str, tuple[StoredLine, _Pieces]]


class TargetLines:
    """
    The series of all jobs on a target, or on all targets of a file system.

    Attributes:
        line: the sum, including (no job).
        known: [(since, until, how many targets were read)].
        targets: the number of targets.
        tops: {job: its series}, of the jobs with the highest load; "": (no job).
        tops_known: {job: the time for which that series is known}: while it was one of them.
    """

    def __init__(self, every_s: float, targets: int = 1) -> None:
        self.line, self.targets = BinnedLine(every_s, MAX_BINS), targets
        self.known: list[Piece] = []
        self.tops: dict[str, BinnedLine] = {}
        self.tops_known: dict[str, list[Piece]] = {}

    def add(self, later: TargetLines) -> None:
        """Add the lines of another time."""
        self.line.add_line(later.line)
        self.known += later.known
        self.targets = max(self.targets, later.targets)
        for job, line in later.tops.items():
            self.add_top(job, line, later.tops_known[job])

    def add_top(self, job: str, line: BinnedLine, pieces: list[Piece]) -> None:
        """Add a job's series of some time."""
        if job in self.tops:
            self.tops[job].add_line(line)
            self.tops_known[job] = [*self.tops_known[job], *pieces]
        else:
            self.tops[job], self.tops_known[job] = line, pieces

    def limit_parts(self, tops: int = MAX_TOPS) -> None:
        """Drop all but the `tops` jobs with the highest load, and merge pieces of time."""
        self.known = limit_pieces(add_up(self.known))
        if len(self.tops) > tops:
            self.tops = dict(sorted(self.tops.items(), key=lambda top: (
                -estimate_load(_get_amounts(top[1])), top[0]))[:tops])
        self.tops_known = {job: limit_pieces(add_up(self.tops_known[job]), MAX_PIECES // 10)
                           for job in self.tops}

    def thin(self, bins: int, tops: int) -> None:
        """Reduce to this number of bins and of jobs."""
        self.limit_parts(tops)
        for line in (self.line, *self.tops.values()):
            line.at_most(bins)

    def encode(self) -> bytes:
        """The lines as bytes for the store."""
        return pack_row(TargetRow(self.line.stored(), self.known, self.targets,
                                  {job: (line.stored(), self.tops_known[job])
                                   for job, line in self.tops.items()}))

    @classmethod
    def decode(cls, body: bytes) -> TargetLines:
        """The TargetLines of encode()'s bytes; damaged bytes can raise any error."""
        row = _target_row(zlib.decompress(body))
        lines = cls(row.line.every_s, row.targets)
        lines.line, lines.known = BinnedLine.of(row.line, MAX_BINS), list(row.known)
        for job, (line, known) in row.tops.items():
            lines.tops[job], lines.tops_known[job] = BinnedLine.of(line, MAX_BINS), known
        return lines


def _get_first_and_last(moments: list[float]) -> list[float]:
    """Return [the first, the last] of some moments; [] for none."""
    return [min(moments), max(moments)] if moments else []


_job_row = msgspec.msgpack.Decoder(JobRow).decode
_target_row = msgspec.msgpack.Decoder(TargetRow).decode


def _get_amounts(line: BinnedLine) -> dict[str, int]:
    """Return {metric: all amounts of a series, also unplaced ones}."""
    totals = line.totals()
    return {metric: totals.get(metric, 0) + line.unplaced.get(metric, 0)
            for metric in {**totals, **line.unplaced}}


class TargetReadings:
    """
    The readings of one target, by job.

    Attributes:
        jobs: those with I/O.
        at: the middle of the reading of each entry, s since 1970; `columns`: {metric: integers of
        the same}; `part`: {job: (from, to)} of its entries.
        unplaced: {job: [{metric: amount}]} of readings that are not placed; `unplaced_at`: {job:
        [the end of each of them]}.
    """

    def __init__(self, readings: Sequence[LineReading]) -> None:
        numbers: dict[str, int] = {}
        codes: list[int] = []
        placed: list[LineReading] = []
        self.unplaced: dict[str, list[dict[str, int]]] = {}
        self.unplaced_at: dict[str, list[float]] = {}
        for reading in readings:
            if reading.placed:
                placed.append(reading)
                codes += [numbers.setdefault(job, len(numbers)) for job in reading.jobs]
                continue
            for place, job in enumerate(reading.jobs):
                self.unplaced_at.setdefault(job, []).append(reading.until)
                self.unplaced.setdefault(job, []).append(
                    {metric: int(column[place]) for metric, column in reading.columns.items()})
        order = numpy.argsort(numpy.array(codes, numpy.int64), kind="stable")
        counts = numpy.bincount(numpy.array(codes, numpy.int64), minlength=len(numbers))
        ends = list_integers(numpy.cumsum(counts))
        self.part = dict(zip(numbers, zip([0, *ends], ends)))
        self.at = numpy.repeat([(reading.since + reading.until) / 2 for reading in placed],
                               [len(reading.jobs) for reading in placed])[order]
        self.columns: dict[str, Array] = {}
        for metric in {metric for reading in placed for metric in reading.columns}:
            self.columns[metric] = numpy.concatenate([
                reading.columns[metric] if metric in reading.columns else
                numpy.zeros(len(reading.jobs), numpy.uint8) for reading in placed])[order]
        self.jobs = list({**numbers, **self.unplaced})

    def line(self, job: str, every_s: float) -> BinnedLine:
        """Return the series of a job on this target, of OF_TARGETS."""
        line = BinnedLine(every_s, MAX_BINS)
        part = slice(*self.part.get(job, (0, 0)))
        line.add(self.at[part], {
            metric: column[part] for metric, column in self.columns.items()
            if metric in OF_TARGETS and column[part].any()})
        for amounts in self.unplaced.get(job, ()):
            line.add_unplaced({metric: amount for metric, amount in amounts.items()
                               if metric in OF_TARGETS})
        return line


def select_job(readings: Iterable[LineReading], job: str) -> list[LineReading]:
    """The readings in which a job had I/O, with this job alone; without `sums`."""
    readings_with_job = []
    for reading in readings:
        if job in reading.jobs:
            place = reading.jobs.index(job)
            readings_with_job.append(reading._replace(jobs=[job], sums={}, columns={
                metric: column[place:place + 1] for metric, column in reading.columns.items()}))
    return readings_with_job


def find_bin_width(readings: Iterable[LineReading]) -> float:
    """The width of bins for these readings, s."""
    return max((reading.every_s for reading in readings), default=60.0)


def add_up_job(job: str, targets: Mapping[str, TargetReadings], every_s: float,
               continued: Collection[str] = ()) -> JobLines:
    """
    The JobLines of a job on a file system, from {target: its readings}; `continued`: targets that
    have a series already, which continues.
    """
    lines = JobLines(every_s)
    placed = [(target, readings, *readings.part[job]) for target, readings in targets.items()
              if job in readings.part]
    loads: dict[str, float] = {}
    if placed:
        columns = {metric: numpy.concatenate([
            readings.columns[metric][low:high] if metric in readings.columns else
            numpy.zeros(high - low, numpy.uint8) for _, readings, low, high in placed])
            for metric in sorted({metric for _, target_readings, *_ in placed
                                  for metric in target_readings.columns})}
        columns = {metric: column for metric, column in columns.items() if column.any()}
        lines.line.add(numpy.concatenate([readings.at[low:high]
                                          for _, readings, low, high in placed]), columns)
        begins = numpy.cumsum([0, *(high - low for *_, low, high in placed[:-1])])
        load = estimate_load({metric: numpy.add.reduceat(column, begins, dtype=numpy.int64)
                              for metric, column in columns.items()})
        if not isinstance(load, int):                   # an int: there was no load
            loads = dict(zip((target for target, *_ in placed), load.tolist()))
    for target, readings in targets.items():
        for amounts in readings.unplaced.get(job, ()):
            lines.line.add_unplaced(amounts)
            loads[target] = loads.get(target, 0) + estimate_load(amounts)
    lines.unplaced_at = _get_first_and_last([at for target_readings in targets.values()
                                             for at in target_readings.unplaced_at.get(job, ())])
    used = sorted(loads, key=lambda target: (-loads[target], target))
    shown = [*used[:MAX_TARGETS], *(target_readings for target_readings in used[MAX_TARGETS:]
                                    if target_readings in continued)]
    lines.crowded = len(used) > len(shown)
    lines.targets = {target: (targets[target].line(job, every_s), 0.0) for target in shown}
    return lines


def add_up_target(readings: Sequence[LineReading], every_s: float,
                  prepared: Optional[TargetReadings] = None) -> TargetLines:
    """
    The TargetLines of all jobs at one target; `prepared`: the same readings, for its jobs with the
    highest load.
    """
    lines = TargetLines(every_s)
    placed = [reading for reading in readings if reading.placed]
    lines.known = add_up((reading.since, reading.until, 1.0) for reading in placed)
    at = numpy.array([(reading.since + reading.until) / 2 for reading in placed])
    lines.line.add(at, {metric: numpy.array([reading.sums.get(metric, 0) for reading in placed],
                                            numpy.int64)
                        for metric in sorted({metric for reading in placed
                                              for metric in reading.sums})})
    for reading in readings:
        if not reading.placed:
            lines.line.add_unplaced(reading.sums)
    if prepared is not None:
        for job in _select_top_jobs(placed):
            lines.add_top(job, prepared.line(job, every_s), lines.known)
        lines.limit_parts()
    return lines


def _select_top_jobs(readings: Iterable[LineReading]) -> set[str]:
    """The jobs with the highest load in at least one of these readings."""
    top_jobs: set[str] = set()
    for reading in readings:
        if len(reading.jobs) <= EACH_TOPS:
            top_jobs.update(reading.jobs)
            continue
        load = estimate_load({metric: column.astype(numpy.float64)
                              for metric, column in reading.columns.items()})
        if not isinstance(load, int):                   # an int: there was no load
            top_jobs.update(reading.jobs[place] for place in
                            list_integers(numpy.argpartition(load, -EACH_TOPS)[-EACH_TOPS:])
                            if load[place] > 0)
    return top_jobs


def add_up_targets(targets: Sequence[TargetLines], every_s: float, count: int) -> TargetLines:
    """All targets of a file system as one; `count`: their number, with silent ones."""
    whole = TargetLines(every_s, max(count, len(targets)))
    for target_lines in targets:
        whole.line.add_line(target_lines.line)
        whole.known += target_lines.known
    whole.known = add_up(whole.known)
    return whole
