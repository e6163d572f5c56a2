"""
The site server's answers to `job_history` and `file_system_lines`: docs/explanation/time_lines.md.

The data are collected in one step, since a fold moves them from memory to the store; they are added
up in many steps, between which the server receives sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import msgspec
import numpy

from iostats.answers.selected_run import JobHistoryParams, RunTime, select_run
from iostats.base.errors import StateError, WireError, sanitize
from iostats.harvest.time_lines.binned import BinnedLine
from iostats.harvest.time_lines.known_time import compute_known_shares
from iostats.harvest.time_lines.series_sums import (
    MAX_BINS,
    JobLines,
    TargetLines,
    TargetReadings,
    add_up_job,
    add_up_target,
    add_up_targets,
    estimate_load,
    find_bin_width,
    select_job,
)
from iostats.load.time_lines import METRICS, TIMES
from iostats.wire import protocol
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from iostats.harvest.intake import Harvest
    from iostats.harvest.time_lines.intake import LineIntake
    from iostats.harvest.time_lines.known_time import Piece
    from iostats.harvest.time_lines.readings import LineReading
    from iostats.load.time_lines import FileSystemSeries, JobSeries, SeriesOfJob, TimeSeries

    _Readings = dict[str, list[LineReading]]        # target ->

MAX_SPAN_S = 400 * 86400.0
_MIN_AROUND_S, _MAX_AROUND_S = 3600.0, 86400.0  # before and after a job, for `all`
_MAX_ANSWERED_BINS = 480        # bins of `all`
_MAX_BINS_OF_TARGETS, _MIN_BINS_OF_TARGET = 24_000, 24  # bins of all targets, and of each
_MAX_OTHER_JOBS = 5             # jobs of one target
NO_JOB = "(no job)"

_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_PLAIN = [name for name in METRICS if name != "requests"]
_WHOLE = 1 - 1e-6               # seconds are floats


class FileSystemLinesParams(msgspec.Struct):
    """The params of `file_system_lines`."""

    file_system: _Name
    # since, until: s since 1970
    since: _Moment
    until: _Moment
    # up to this many jobs, those with the highest load
    most: Annotated[int, msgspec.Meta(ge=0, le=12)] = 5

    def __post_init__(self) -> None:
        if not self.since < self.until <= self.since + MAX_SPAN_S:
            raise ValueError("until: expected a moment after `since`, and up to 400 days after it")


class TimeLineAnswers:
    """
    Answers queries of `harvest.lines`.

    `has_events`: whether storage servers report events.
    """

    def __init__(self, harvest: Harvest, has_events: Callable[[], bool],
                 now: Callable[[], float]) -> None:
        self._harvest, self._lines = harvest, harvest.lines
        self._has_events, self._now = has_events, now

    # -- a job

    def job_history(self, params: JobHistoryParams, user: Optional[str]
                    ) -> Generator[None, None, JobSeries]:
        """The answer to JobHistoryParams, in steps; `user`: an ordinary user, None: a reader."""
        try:
            run = select_run(params, user, self._harvest)
            return (yield from self._answer_job_history(run, user))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _answer_job_history(self, run: RunTime,
                            user: Optional[str]) -> Generator[None, None, JobSeries]:
        began, ended, now = run.began, run.ended, self._now()
        snapshot = SeriesSnapshot(self._lines, run.job)
        lines_by_file_system: dict[str, JobLines] = {}
        for file_system, readings in snapshot.readings.items():
            first = snapshot.rows.get(file_system)
            every_s = find_bin_width(target_readings[-1] for target_readings in readings.values()
                                     if target_readings)
            prepared = {}
            for target, readings_here in snapshot.unfold_readings(file_system):
                prepared[target] = TargetReadings(select_job(readings_here, run.job))
                yield
            lines = add_up_job(run.job, prepared, every_s, first.targets if first else ())
            if first is not None:
                first.add(lines)
                lines = first
            if lines.line.length or lines.line.unplaced:
                lines_by_file_system[file_system] = lines
        for file_system, lines in snapshot.rows.items():
            lines_by_file_system.setdefault(file_system, lines)
        spans = [target_readings.times for target_readings in lines_by_file_system.values()
                 if target_readings.times]
        low = began if began is not None else min((span[0] for span in spans), default=None)
        high = now if run.runs else ended if ended is not None else max(
            (span[1] for span in spans), default=None)
        answer: JobSeries = {"began": low, "ended": ended, "has": [], "why_not": {},
                               "file_systems": [], "targets": []}
        if low is None and lines_by_file_system:                    # all of it at an unknown time
            low = now
        if low is not None:
            high = max(low, now if high is None else high)
            around = min(max(high - low, _MIN_AROUND_S), _MAX_AROUND_S)
            for file_system, lines in sorted(lines_by_file_system.items()):
                yield from self._add_file_system(answer, snapshot, run, user, file_system, lines,
                                                 (low, high, low - around, high + around))
        self._list_sources(answer, run, lines_by_file_system)
        return answer

    def _add_file_system(self, answer: JobSeries, snapshot: SeriesSnapshot, run: RunTime,
                         user: Optional[str], file_system: str, lines: JobLines,
                         times: tuple[float, float, float, float]) -> Generator[None, None, None]:
        began, ended, since, until = times
        targets = sorted(lines.targets, key=lambda target: (-estimate_load(_sum_amounts(
            lines.targets[target][0])), target))
        parts = {target: snapshot.target_rows(file_system, target, since, until)
                 for target in ("", *targets)}
        whole = yield from self._sum_all_jobs(snapshot, file_system, "", parts[""], since, until)
        self._limit_to_run(lines.line, run, (began, ended), whole)
        is_timed = has_times(lines.line, *([whole.line] if whole else []))
        known, count = (whole.known, whole.targets) if whole else ([], 1)
        answer["file_systems"].append({
            "name": file_system, "job": as_form(lines.line, known, count, is_timed),
            "all": as_form(whole.line, known, count, is_timed) if whole else None})
        did = lines.line.totals()
        if not is_timed and any(did.get(name) for name in ("reads", "writes", "operations")):
            answer["why_not"]["latency"] = ("job_stats there do not time requests (Lustre servers "
                                            "do since 2.14)")
        for target in targets:
            line, from_s = lines.targets[target]
            all_of = yield from self._sum_all_jobs(snapshot, file_system, target, parts[target],
                                                   since,
                                                   until)
            self._limit_to_run(line, run, (began, ended), whole)
            pieces = [] if all_of is None else all_of.known
            answer["targets"].append({
                "file_system": file_system, "target": target,
                "job": as_form(line, _cut_before(pieces, from_s), 1, is_timed),
                "all": as_form(all_of.line, pieces, 1, is_timed) if all_of else None,
                "others": self._list_other_jobs(all_of, run.job, (began, ended), user, is_timed)})
            yield

    def _limit_to_run(self, line: BinnedLine, run: RunTime, times: tuple[float, float],
                      whole: Optional[TargetLines]) -> None:
        """Limit the job's series to the time of its run, also if there are several runs."""
        began, ended = times
        if not run.is_only:
            line.cut(began, ended + line.every_s)
            line.unplaced = {}
        elif line.length:
            began, ended = min(began, line.began), max(ended, line.ended)
        known_until = max((until for _, until, _ in whole.known), default=began) if whole else began
        line.span(began, max(min(ended, known_until), line.ended if line.length else began))

    def _sum_all_jobs(self, snapshot: SeriesSnapshot, file_system: str, target: str,
                      rows: list[tuple[int, bytes]],
                      since: float, until: float) -> Generator[None, None, Optional[TargetLines]]:
        """Add up all jobs on a target, or on all targets: the stored series, and newer readings."""
        parts = []
        for row, body in rows:
            part = self._lines.store.decode("target_lines", (row,), body, TargetLines.decode)
            if part is not None:
                parts.append(part)
            yield
        recent = []
        readings = snapshot.readings.get(file_system, {})
        every_s = find_bin_width(target_readings[-1] for target_readings in readings.values()
                                 if target_readings)
        for name in [target] if target else sorted(readings):
            recent_readings = _select_period(readings.get(name, ()), since, until)
            if recent_readings:
                recent.append(add_up_target(recent_readings, every_s,
                                            TargetReadings(recent_readings) if target
                                            else None))
            yield
        if target:
            parts += recent
        elif recent:
            parts.append(add_up_targets(recent, every_s, self._lines.count_targets(file_system)))
        whole = join_parts(parts)
        if whole is not None:
            times = [time for piece in whole.known for time in piece[:2]]
            if whole.line.length:
                times += [whole.line.began, whole.line.ended]
            if times:
                whole.line.span(max(since, min(times)), min(until, max(times)))
            whole.line.at_most(_MAX_ANSWERED_BINS)
        return whole

    def _list_other_jobs(self, of_target: Optional[TargetLines], job: str,
                         times: tuple[float, float],
                         user: Optional[str], is_timed: bool) -> list[SeriesOfJob]:
        if of_target is None:
            return []
        rows = []
        for name, line in of_target.tops.items():
            if name == job:
                continue
            line.cut(*times)
            load = estimate_load(line.totals())
            if load:
                began, ended = times
                line.span(began, min(ended, of_target.line.ended))
                rows.append((-load, name, line))
        return [self._make_other_row(name, user,
                                     as_form(line, of_target.tops_known.get(name, ()), 1, is_timed))
                for _, name, line in sorted(rows, key=lambda row: row[:2])[:_MAX_OTHER_JOBS]]

    def _make_other_row(self, job: str, user: Optional[str], line: TimeSeries) -> SeriesOfJob:
        """A row of another job; only a reader sees its id and user, others only for own jobs."""
        if not job:
            return {"job": NO_JOB, "user": "", "line": line}
        unsettled, owner, name = self._harvest.lives.find_life(job), "", job
        if unsettled is not None:
            facts = unsettled[1].facts
            owner, name = facts.get("user") or "", facts.get("job") or job
        else:
            owner, name = next(iter(self._lines.store.query_owners(job)), ("", ""))
        if user is not None and owner != user:
            return {"job": "", "user": "", "line": line}
        return {"job": sanitize(name or job), "user": sanitize(owner), "line": line}

    def _list_sources(self, answer: JobSeries, run: RunTime,
                      lines_by_file_system: dict[str, JobLines]) -> None:
        has, why_not = answer["has"], answer["why_not"]
        if lines_by_file_system:
            has.append("harvest")
        else:
            why_not["harvest"] = self._explain_no_harvest(run)
        if run.series:
            has.append("watch")
        else:
            why_not["watch"] = "no node ran `iostats watch`, or there is no record yet"
        if run.events or self._has_events():
            has.append("events")
        else:
            why_not["events"] = "no storage server reports events"
        why_not["exports"] = "per node, not per job; see iostats query"

    def _explain_no_harvest(self, run: RunTime) -> str:
        lines = self._lines
        days = lines.days
        if not days[-1]:
            return "series_days is 0 ([site] of site.cfg): no time series are stored"
        if not self._harvest.targets:
            return "no storage server has reported job_stats (iostats harvest)"
        if run.ended is not None and self._now() - run.ended > days[-1] * 86400:
            return f"series_days is over: time series are stored for {days[-1]} days"
        return ("no storage server has reported this job: it did no I/O there, no agent ran then, "
                "or its requests carry no job id")

    # -- a file system

    def file_system_lines(self, params: FileSystemLinesParams, user: Optional[str]
                          ) -> Generator[None, None, FileSystemSeries]:
        """The answer to FileSystemLinesParams, in steps; `user` as in job_history."""
        try:
            return (yield from self._answer_file_system_lines(params, user))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _answer_file_system_lines(self, params: FileSystemLinesParams, user: Optional[str]
                                  ) -> Generator[None, None, FileSystemSeries]:
        name, since, until = params.file_system, params.since, params.until
        snapshot = SeriesSnapshot(self._lines, None)
        names = sorted({*snapshot.readings.get(name, ()),
                        *self._lines.store.list_targets(name, since, until)})
        parts = {target: snapshot.target_rows(name, target, since, until)
                 for target in ("", *names)}
        whole = yield from self._sum_all_jobs(snapshot, name, "", parts[""], since, until)
        if whole is None:
            raise WireError(protocol.REFUSED, (
                f"no data for {name[:80]} in this period: no storage server has reported it, "
                f"or series_days is over"))
        is_timed = has_times(whole.line)
        answer: FileSystemSeries = {
            "name": name, "all": as_form(whole.line, whole.known, whole.targets, is_timed),
            "targets": [], "jobs": []}
        for target in names:
            target_all = yield from self._sum_all_jobs(snapshot, name, target, parts[target], since,
                                                       until)
            if target_all is not None:
                target_all.line.at_most(max(_MIN_BINS_OF_TARGET,
                                            min(MAX_BINS, _MAX_BINS_OF_TARGETS // len(names))))
                answer["targets"].append({"target": target, "line": as_form(
                    target_all.line, target_all.known, 1, is_timed)})
        recent = yield from self._list_recent_jobs(snapshot, name, since, until)
        for job, line in recent.items():
            whole.add_top(job, line, whole.known)
        rows = sorted(((-estimate_load(line.totals()), job, line) for job,
                       line in whole.tops.items()),
                      key=lambda row: row[:2])
        for load, job, line in rows[:params.most]:
            if load:
                line.span(max(since, line.began), min(until, line.ended))
                answer["jobs"].append(self._make_other_row(job, user, as_form(
                    line, whole.tops_known[job], whole.targets, is_timed)))
                yield
        return answer

    def _list_recent_jobs(self, snapshot: SeriesSnapshot, file_system: str, since: float,
                          until: float) -> Generator[None, None, dict[str, BinnedLine]]:
        lines: dict[str, BinnedLine] = {}
        readings = snapshot.readings.get(file_system, {})
        every_s = find_bin_width(target_readings[-1] for target_readings in readings.values()
                                 if target_readings)
        for target_readings in readings.values():
            prepared = TargetReadings(_select_period(target_readings, since, until))
            for job in prepared.jobs:
                part = prepared.line(job, every_s)
                if job in lines:
                    lines[job].add_line(part)
                else:
                    lines[job] = part
            yield
        return lines


def _select_period(readings: Iterable[LineReading], since: float,
                   until: float) -> list[LineReading]:
    return [reading for reading in readings if reading.until > since and reading.since < until]


def _sum_amounts(line: BinnedLine) -> dict[str, int]:
    totals = line.totals()
    return {metric: totals.get(metric, 0) + line.unplaced.get(metric, 0)
            for metric in {**totals, **line.unplaced}}


def _cut_before(pieces: list[Piece], since: float) -> list[Piece]:
    """Drop the parts of these pieces of time that lie before a moment."""
    return [(max(began, since), ended, count) for began, ended, count in pieces if ended > since]


def as_form(line: BinnedLine, pieces: Iterable[Piece], targets: int, is_timed: bool) -> TimeSeries:
    """Return a series in the format of the answer.

    `pieces`: [(since, until, how many of the `targets` were read)]; `is_timed`: the release times
    requests.
    """
    share = compute_known_shares(pieces, targets, line.began, line.every_s, line.length)
    zeros = numpy.zeros(line.length, numpy.int64)
    columns = {metric: line.columns.get(metric, zeros)
               for metric in dict.fromkeys((*_PLAIN, *(TIMES if is_timed else ()),
                                            *sorted(line.columns)))}
    columns["requests"] = columns["reads"] + columns["writes"] + columns["operations"]
    shares: list[float] = share.tolist()
    requests = sum(line.unplaced.get(name, 0) for name in ("reads", "writes", "operations"))
    return {
        "began": line.began, "every_s": line.every_s,
        "amounts": {metric: [None if known_share <= 0 and not amount else amount
                             for amount, known_share in zip(list_integers(column), shares)]
                    for metric, column in columns.items()},
        "known": None if min(shares, default=1.0) >= _WHOLE else [
            1.0 if known_share >= _WHOLE else round(known_share, 4) for known_share in shares],
        "unplaced": {**line.unplaced, **({"requests": requests} if requests else {})}}


def has_times(*lines: BinnedLine) -> bool:
    """Whether requests were timed."""
    return any(bool(line.columns.get("timed", numpy.zeros(1)).any() or line.unplaced.get("timed"))
               for line in lines)


def join_parts(parts: Iterable[TargetLines]) -> TargetLines | None:
    """Join parts of one target's time; None for no parts."""
    whole: TargetLines | None = None
    for part in parts:
        if whole is None:
            whole = TargetLines(part.line.every_s, part.targets)
        whole.add(part)
    return whole


class SeriesSnapshot:
    """The readings and rows at one moment; rows that are added later are not included.

    Attributes:
        readings: {file system: {target: [LineReading]}}.
        rows: {file system: JobLines} of the job.
    """

    def __init__(self, lines: LineIntake, job: str | None) -> None:
        self._store, self._last = lines.store, lines.store.last_row()
        self.readings: dict[str, _Readings] = {}
        for (file_system, target), readings in lines.recent.items():
            if readings:
                self.readings.setdefault(file_system, {})[target] = list(readings)
        self._folded: dict[str, dict[str, int]] = {}
        self.rows: dict[str, JobLines] = {}
        rows = lines.store.job_rows(job) if job else []
        for file_system, fold, body in rows:
            job_lines = lines.store.decode("job_lines", (job, file_system), body, JobLines.decode)
            if job_lines is not None:
                self.rows[file_system] = job_lines
                if lines.folding and fold == lines.fold_number:
                    self._folded[file_system] = {
                        target: count for (name, target), count in lines.folding.items()
                        if name == file_system}

    def unfold_readings(self, file_system: str) -> Iterator[tuple[str, list[LineReading]]]:
        """Yield (target, [LineReading]) of readings that are not yet in the job's stored row."""
        folded = self._folded.get(file_system, {})
        for target, readings in self.readings[file_system].items():
            yield target, readings[folded.get(target, 0):]

    def target_rows(self, file_system: str, target: str, since: float,
                    until: float) -> list[tuple[int, bytes]]:
        """Return [(id, body)] of the stored rows."""
        return self._store.target_rows(file_system, target, since, until, self._last)
