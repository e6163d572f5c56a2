"""
Readings of the targets of a file system added up: the line of each job, and of each target with the
jobs that loaded it most.
"""

from __future__ import annotations

import zlib
from typing import Any, Optional

import msgspec
import numpy

from iostats.site.lines.binned import BinnedLine, StoredLine, packed
from iostats.site.lines.known_time import MOST_PIECES, added_up, bounded
from iostats.site.resets.counters import WHOLE_GAINS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy.typing

    from iostats.site.lines.known_time import Piece
    from iostats.site.lines.readings import LineReading

    _Array = numpy.typing.NDArray[Any]

MOST_BINS = 240                 # of a line
MOST_TARGETS = 8                # of a job on a file system that have a line of their own
MOST_TOPS = 12                  # jobs of a target with a line in one row
EACH_TOPS = 4                   # of these in each sweep: one may be the job that is asked for
# Of targets, and of the jobs there.
OF_TARGETS = frozenset((*WHOLE_GAINS, "busy_us", "timed", "reads_us", "writes_us"))
_BYTES_OF_REQUEST = 1 << 16     # what a request weighs beside bytes, where it has no time


def load_of(amounts: Mapping[str, Any]) -> Any:
    """
    How much {metric: number or array} loads a target: the time that its requests took, or where
    releases do not tell (Lustre up to 2.13), bytes and requests.
    """
    if "busy_us" in amounts:
        return amounts["busy_us"]
    requests = sum(amounts.get(name, 0) for name in ("reads", "writes", "operations"))
    return amounts.get("read_bytes", 0) + amounts.get("write_bytes", 0) + (
        requests * _BYTES_OF_REQUEST)


class JobTargetRow(msgspec.Struct, array_like=True):
    """A job at one of its targets; `since`: nothing is known of the time before, s since 1970."""

    line: StoredLine
    since: float


class JobRow(msgspec.Struct, array_like=True):
    """JobLines as they are kept; rows of older servers have no `unplaced_at`."""

    line: StoredLine
    targets: dict[str, JobTargetRow]
    crowded: bool
    unplaced_at: list[float] = []


class JobLines:
    """
    A job on one file system.

    Attributes:
        line: what it did on all targets; `targets`: {target: (what it did there, since when that
            is known)} of those that it loaded most.
        crowded: it used more than these.
        unplaced_at: when the first and the last reading ended whose amounts are unplaced, s since
            1970; [] for none.
    """

    def __init__(self, every_s: float) -> None:
        self.line = BinnedLine(every_s, MOST_BINS)
        self.targets: dict[str, tuple[BinnedLine, float]] = {}
        self.crowded = False
        self.unplaced_at: list[float] = []

    @property
    def times(self) -> list[float]:
        """The first and the last moment of what is known of it, also unplaced; [] for none."""
        placed = [self.line.began, self.line.ended] if self.line.length else []
        return _ends([*placed, *self.unplaced_at])

    def _join(self, target: str, part: BinnedLine, since: float) -> None:
        known = self.targets.get(target)
        if known is None:
            self.targets[target] = part, since
        else:
            known[0].add_line(part)

    def add(self, later: JobLines) -> None:
        """Add what it did later."""
        self.line.add_line(later.line)
        until = later.times[-1] if later.times else 0.0
        for target, (part, since) in later.targets.items():
            if self.crowded:                # nothing is known of the time in which it had no line
                since = part.began if part.length else until
            self._join(target, part, since)
        self.crowded = self.crowded or later.crowded
        self.unplaced_at = _ends([*self.unplaced_at, *later.unplaced_at])
        self.keep_most()

    def keep_most(self, most: int = MOST_TARGETS) -> None:
        """Keep the lines of those targets that it loaded most."""
        if len(self.targets) > most:
            self.crowded = True
            self.targets = dict(sorted(
                self.targets.items(), key=lambda one: (-load_of(_all(one[1][0])), one[0]))[:most])

    def thin(self, bins: int, targets: int) -> None:
        """Have up to this number of bins and of targets."""
        self.keep_most(targets)
        for line in (self.line, *(line for line, _ in self.targets.values())):
            line.at_most(bins)

    def encoded(self) -> bytes:
        """The same as bytes."""
        return packed(JobRow(self.line.stored(), {
            target: JobTargetRow(line.stored(), since)
            for target, (line, since) in self.targets.items()}, self.crowded, self.unplaced_at))

    @classmethod
    def decoded(cls, body: bytes) -> JobLines:
        """What encoded() made; any error that bytes can cause."""
        row = _job_row(zlib.decompress(body))
        lines = cls(row.line.every_s)
        lines.line, lines.crowded = BinnedLine.of(row.line, MOST_BINS), row.crowded
        lines.unplaced_at = row.unplaced_at
        lines.targets = {target: (BinnedLine.of(one.line, MOST_BINS), one.since)
                         for target, one in row.targets.items()}
        return lines


_Pieces = list[tuple[float, float, float]]


class TargetRow(msgspec.Struct, array_like=True):
    """TargetLines as they are kept; `tops`: (line, time of which it is known)."""

    line: StoredLine
    known: _Pieces
    targets: int
    tops: dict[str, tuple[StoredLine, _Pieces]]


class TargetLines:
    """
    What all jobs did at a target, or on all targets of a file system.

    Attributes:
        line: their sum, with what is no job's.
        known: [(since, until, how many targets were read)].
        targets: how many there are.
        tops: {job: its line}, of those that loaded it most; "": all that is no job's.
        tops_known: {job: of which time that line is known}: when it was one of them.
    """

    def __init__(self, every_s: float, targets: int = 1) -> None:
        self.line, self.targets = BinnedLine(every_s, MOST_BINS), targets
        self.known: list[Piece] = []
        self.tops: dict[str, BinnedLine] = {}
        self.tops_known: dict[str, list[Piece]] = {}

    def add(self, other: TargetLines) -> None:
        """Add another time of the same."""
        self.line.add_line(other.line)
        self.known += other.known
        self.targets = max(self.targets, other.targets)
        for job, line in other.tops.items():
            self.add_top(job, line, other.tops_known[job])

    def add_top(self, job: str, line: BinnedLine, known: list[Piece]) -> None:
        """Add a job in some time."""
        if job in self.tops:
            self.tops[job].add_line(line)
            self.tops_known[job] = [*self.tops_known[job], *known]
        else:
            self.tops[job], self.tops_known[job] = line, known

    def keep_most(self, tops: int = MOST_TOPS) -> None:
        """Keep `tops` jobs at most, and few pieces of time."""
        self.known = bounded(added_up(self.known))
        if len(self.tops) > tops:
            self.tops = dict(sorted(self.tops.items(), key=lambda one: (
                -load_of(_all(one[1])), one[0]))[:tops])
        self.tops_known = {job: bounded(added_up(self.tops_known[job]), MOST_PIECES // 10)
                           for job in self.tops}

    def thin(self, bins: int, tops: int) -> None:
        """Have up to this number of bins and of jobs."""
        self.keep_most(tops)
        for line in (self.line, *self.tops.values()):
            line.at_most(bins)

    def encoded(self) -> bytes:
        """The same as bytes."""
        return packed(TargetRow(self.line.stored(), self.known, self.targets,
                                {job: (line.stored(), self.tops_known[job])
                                 for job, line in self.tops.items()}))

    @classmethod
    def decoded(cls, body: bytes) -> TargetLines:
        """What encoded() made; any error that bytes can cause."""
        row = _target_row(zlib.decompress(body))
        lines = cls(row.line.every_s, row.targets)
        lines.line, lines.known = BinnedLine.of(row.line, MOST_BINS), list(row.known)
        for job, (line, known) in row.tops.items():
            lines.tops[job], lines.tops_known[job] = BinnedLine.of(line, MOST_BINS), known
        return lines


def _ends(moments: list[float]) -> list[float]:
    """The first and the last of some moments; [] of none."""
    return [min(moments), max(moments)] if moments else []


_job_row = msgspec.msgpack.Decoder(JobRow).decode
_target_row = msgspec.msgpack.Decoder(TargetRow).decode


def _all(line: BinnedLine) -> dict[str, int]:
    """All amounts of a line, when ever they were."""
    totals = line.totals()
    return {metric: totals.get(metric, 0) + line.unplaced.get(metric, 0)
            for metric in {**totals, **line.unplaced}}


class TargetReadings:
    """
    Readings of one target, by job.

    Attributes:
        jobs: those that did something.
        at: the middle of the reading of each entry, s since 1970; `columns`: {metric:
            integers of the same}; `part`: {job: (from, to)} of its entries.
        unplaced: {job: [{metric: amount}]} of readings that are not placed; `unplaced_at`: {job:
            [when each of them ended]}.
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
        ends = numpy.cumsum(counts).tolist()
        self.part = dict(zip(numbers, zip([0, *ends], ends)))
        self.at = numpy.repeat([(reading.since + reading.until) / 2 for reading in placed],
                               [len(reading.jobs) for reading in placed])[order]
        self.columns: dict[str, _Array] = {}
        for metric in {metric for reading in placed for metric in reading.columns}:
            self.columns[metric] = numpy.concatenate([
                reading.columns[metric] if metric in reading.columns else
                numpy.zeros(len(reading.jobs), numpy.uint8) for reading in placed])[order]
        self.jobs = list({**numbers, **self.unplaced})

    def line(self, job: str, every_s: float) -> BinnedLine:
        """What a job did here, of OF_TARGETS."""
        line = BinnedLine(every_s, MOST_BINS)
        part = slice(*self.part.get(job, (0, 0)))
        line.add(self.at[part], {
            metric: column[part] for metric, column in self.columns.items()
            if metric in OF_TARGETS and column[part].any()})
        for amounts in self.unplaced.get(job, ()):
            line.add_unplaced({metric: amount for metric, amount in amounts.items()
                               if metric in OF_TARGETS})
        return line


def of_job(readings: Iterable[LineReading], job: str) -> list[LineReading]:
    """The readings in which a job did something, with this job alone; without `sums`."""
    found = []
    for reading in readings:
        if job in reading.jobs:
            place = reading.jobs.index(job)
            found.append(reading._replace(jobs=[job], sums={}, columns={
                metric: column[place:place + 1] for metric, column in reading.columns.items()}))
    return found


def base_of(readings: Iterable[LineReading]) -> float:
    """The width of bins for these readings, s."""
    return max((reading.every_s for reading in readings), default=60.0)


def job_lines(job: str, targets: Mapping[str, TargetReadings], every_s: float,
              also: Collection[str] = ()) -> JobLines:
    """
    A job on a file system, of {target: its readings}; `also`: targets that have a line already,
    which is to go on.
    """
    lines = JobLines(every_s)
    some = [(target, readings, *readings.part[job]) for target, readings in targets.items()
            if job in readings.part]
    loads: dict[str, float] = {}
    if some:
        columns = {metric: numpy.concatenate([
            readings.columns[metric][low:high] if metric in readings.columns else
            numpy.zeros(high - low, numpy.uint8) for _, readings, low, high in some])
            for metric in sorted({metric for _, one, *_ in some for metric in one.columns})}
        columns = {metric: column for metric, column in columns.items() if column.any()}
        lines.line.add(numpy.concatenate([readings.at[low:high]
                                          for _, readings, low, high in some]), columns)
        begins = numpy.cumsum([0, *(high - low for *_, low, high in some[:-1])])
        load = load_of({metric: numpy.add.reduceat(column, begins, dtype=numpy.int64)
                        for metric, column in columns.items()})
        if columns:
            loads = dict(zip((target for target, *_ in some), load.tolist()))
    for target, readings in targets.items():
        for amounts in readings.unplaced.get(job, ()):
            lines.line.add_unplaced(amounts)
            loads[target] = loads.get(target, 0) + load_of(amounts)
    lines.unplaced_at = _ends([at for one in targets.values()
                               for at in one.unplaced_at.get(job, ())])
    used = sorted(loads, key=lambda target: (-loads[target], target))
    kept = [*used[:MOST_TARGETS], *(one for one in used[MOST_TARGETS:] if one in also)]
    lines.crowded = len(used) > len(kept)
    lines.targets = {target: (targets[target].line(job, every_s), 0.0) for target in kept}
    return lines


def target_lines(readings: Sequence[LineReading], every_s: float,
                 prepared: Optional[TargetReadings] = None) -> TargetLines:
    """All jobs at one target; `prepared`: the same readings, to have its jobs that load it most."""
    lines = TargetLines(every_s)
    placed = [reading for reading in readings if reading.placed]
    lines.known = added_up((reading.since, reading.until, 1.0) for reading in placed)
    at = numpy.array([(reading.since + reading.until) / 2 for reading in placed])
    lines.line.add(at, {metric: numpy.array([reading.sums.get(metric, 0) for reading in placed],
                                            numpy.int64)
                        for metric in sorted({metric for one in placed for metric in one.sums})})
    for reading in readings:
        if not reading.placed:
            lines.line.add_unplaced(reading.sums)
    if prepared is not None:
        for job in _most(placed):
            lines.add_top(job, prepared.line(job, every_s), lines.known)
        lines.keep_most()
    return lines


def _most(readings: Iterable[LineReading]) -> set[str]:
    """The jobs that were among the first in one of these readings."""
    found: set[str] = set()
    for reading in readings:
        if len(reading.jobs) <= EACH_TOPS:
            found.update(reading.jobs)
            continue
        load = load_of({metric: column.astype(numpy.float64)
                        for metric, column in reading.columns.items()})
        if not isinstance(load, int):                   # else there was no load
            found.update(reading.jobs[place] for place in
                         numpy.argpartition(load, -EACH_TOPS)[-EACH_TOPS:].tolist()
                         if load[place] > 0)
    return found


def whole_of(targets: Sequence[TargetLines], every_s: float, count: int) -> TargetLines:
    """All targets of a file system as one; `count`: how many it has, with silent ones."""
    whole = TargetLines(every_s, max(count, len(targets)))
    for one in targets:
        whole.line.add_line(one.line)
        whole.known += one.known
    whole.known = added_up(whole.known)
    return whole
