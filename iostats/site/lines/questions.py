"""
The site server's answers to `job_history` and `file_system_lines`: docs/time_lines.md.

What is known is taken in one step, since a fold moves it from memory to the store; it is added up
in many, between which the server takes sweeps.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional

import msgspec

from iostats.base.errors import StateError, WireError, one_line
from iostats.site.lines import shown
from iostats.site.lines.binned import BinnedLine
from iostats.site.lines.folding import (
    MOST_BINS,
    JobLines,
    TargetLines,
    TargetReadings,
    base_of,
    job_lines,
    load_of,
    of_job,
    target_lines,
    whole_of,
)
from iostats.site.lines.lines_now import LinesNow
from iostats.site.lines.runs import JobHistoryParams, RunTime, run_of
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from iostats.site.harvest_intake import Harvest
    from iostats.site.lines.known_time import Piece
    from iostats.site.lines.readings import LineReading

    _Answer = Generator[None, None, dict[str, Any]]

MOST_SPAN_S = 400 * 86400.0
_LEAST_AROUND_S, _MOST_AROUND_S = 3600.0, 86400.0   # before and after a job, of `all`
_MOST_ANSWERED = 480                                # bins of `all`
_MOST_OF_TARGETS, _LEAST_OF_TARGET = 24_000, 24     # bins of all targets, and of one
_OTHERS = 5                                         # jobs of one target
NO_JOB = "(no job)"

_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class FileSystemLinesParams(msgspec.Struct):
    """
    The params of `file_system_lines`.

    Attributes:
        since, until: s since 1970.
        most: how many jobs at most, those that loaded it most.
    """

    file_system: _Name
    since: _Moment
    until: _Moment
    most: Annotated[int, msgspec.Meta(ge=0, le=12)] = 5

    def __post_init__(self) -> None:
        if not self.since < self.until <= self.since + MOST_SPAN_S:
            raise ValueError("until: expected a moment after `since`, and up to 400 days after it")


class LineAnswers:
    """
    Answers of `harvest.lines`.

    `told`: whether storage servers tell of events.
    """

    def __init__(self, harvest: Harvest, told: Callable[[], bool],
                 now: Callable[[], float]) -> None:
        self._harvest, self._lines = harvest, harvest.lines
        self._told, self._now = told, now

    # -- a job

    def job_history(self, ask: JobHistoryParams, user: Optional[str]) -> _Answer:
        """The answer to JobHistoryParams, in steps; `user`: an ordinary one, None: a reader."""
        try:
            run = run_of(ask, user, self._harvest)
            return (yield from self._job_history(run, user))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _job_history(self, run: RunTime, user: Optional[str]) -> _Answer:
        began, ended, now = run.began, run.ended, self._now()
        found = LinesNow(self._lines, run.job)
        mine: dict[str, JobLines] = {}
        for file_system, readings in found.readings.items():
            first = found.rows.get(file_system)
            every_s = base_of(one[-1] for one in readings.values() if one)
            prepared = {}
            for target, some in found.of_job(file_system):
                prepared[target] = TargetReadings(of_job(some, run.job))
                yield
            lines = job_lines(run.job, prepared, every_s, first.targets if first else ())
            if first is not None:
                first.add(lines)
                lines = first
            if lines.line.length or lines.line.unplaced:
                mine[file_system] = lines
        for file_system, lines in found.rows.items():
            mine.setdefault(file_system, lines)
        spans = [one.times for one in mine.values() if one.times]
        low = began if began is not None else min((span[0] for span in spans), default=None)
        high = now if run.runs else ended if ended is not None else max(
            (span[1] for span in spans), default=None)
        answer: dict[str, Any] = {"began": low, "ended": ended, "has": [], "why_not": {},
                                  "file_systems": [], "targets": []}
        if low is None and mine:                    # all of it happened at some time
            low = now
        if low is not None:
            high = max(low, now if high is None else high)
            around = min(max(high - low, _LEAST_AROUND_S), _MOST_AROUND_S)
            for file_system, lines in sorted(mine.items()):
                yield from self._of_file_system(answer, found, run, user, file_system, lines,
                                                (low, high, low - around, high + around))
        self._say_what_it_has(answer, run, mine)
        return answer

    def _of_file_system(self, answer: dict[str, Any], found: LinesNow, run: RunTime,
                        user: Optional[str], file_system: str, lines: JobLines,
                        times: tuple[float, float, float, float]) -> Generator[None, None, None]:
        began, ended, since, until = times
        targets = sorted(lines.targets, key=lambda one: (-load_of(_amounts(
            lines.targets[one][0])), one))
        parts = {target: found.target_rows(file_system, target, since, until)
                 for target in ("", *targets)}
        whole = yield from self._all(found, file_system, "", parts[""], since, until)
        self._own(lines.line, run, (began, ended), whole)
        is_timed = shown.is_timed(lines.line, *([whole.line] if whole else []))
        known, count = (whole.known, whole.targets) if whole else ([], 1)
        answer["file_systems"].append({
            "name": file_system, "job": shown.form_of(lines.line, known, count, is_timed),
            "all": shown.form_of(whole.line, known, count, is_timed) if whole else None})
        did = lines.line.totals()
        if not is_timed and any(did.get(name) for name in ("reads", "writes", "operations")):
            answer["why_not"]["latency"] = ("job_stats there do not time requests (Lustre servers "
                                            "do since 2.14)")
        for target in targets:
            line, from_s = lines.targets[target]
            all_of = yield from self._all(found, file_system, target, parts[target], since, until)
            self._own(line, run, (began, ended), whole)
            pieces = [] if all_of is None else all_of.known
            answer["targets"].append({
                "file_system": file_system, "target": target,
                "job": shown.form_of(line, _from(pieces, from_s), 1, is_timed),
                "all": shown.form_of(all_of.line, pieces, 1, is_timed) if all_of else None,
                "others": self._others(all_of, run.job, (began, ended), user, is_timed)})
            yield

    def _own(self, line: BinnedLine, run: RunTime, times: tuple[float, float],
             whole: Optional[TargetLines]) -> None:
        """The job's line from its begin to its end; of one run, where there are several."""
        began, ended = times
        if not run.is_only:
            line.cut(began, ended + line.every_s)
            line.unplaced = {}
        elif line.length:
            began, ended = min(began, line.began), max(ended, line.ended)
        known_until = max((until for _, until, _ in whole.known), default=began) if whole else began
        line.span(began, max(min(ended, known_until), line.ended if line.length else began))

    def _all(self, found: LinesNow, file_system: str, target: str, rows: list[tuple[int, Any]],
             since: float, until: float) -> Generator[None, None, Optional[TargetLines]]:
        """All jobs on a target, or on all of them: the lines of the store, and what came since."""
        parts = []
        for row, body in rows:
            part = self._lines.store.decoded("target_lines", (row,), body, TargetLines.decoded)
            if part is not None:
                parts.append(part)
            yield
        recent = []
        readings = found.readings.get(file_system, {})
        every_s = base_of(one[-1] for one in readings.values() if one)
        for name in [target] if target else sorted(readings):
            some = _within(readings.get(name, ()), since, until)
            if some:
                recent.append(target_lines(some, every_s, TargetReadings(some) if target else None))
            yield
        if target:
            parts += recent
        elif recent:
            parts.append(whole_of(recent, every_s, self._lines.targets_of(file_system)))
        whole = shown.joined(parts)
        if whole is not None:
            times = [time for piece in whole.known for time in piece[:2]]
            if whole.line.length:
                times += [whole.line.began, whole.line.ended]
            if times:
                whole.line.span(max(since, min(times)), min(until, max(times)))
            whole.line.at_most(_MOST_ANSWERED)
        return whole

    def _others(self, of_target: Optional[TargetLines], job: str, times: tuple[float, float],
                user: Optional[str], is_timed: bool) -> list[dict[str, Any]]:
        if of_target is None:
            return []
        rows = []
        for name, line in of_target.tops.items():
            if name == job:
                continue
            line.cut(*times)
            load = load_of(line.totals())
            if load:
                began, ended = times
                line.span(began, min(ended, of_target.line.ended))
                rows.append((-load, name, line))
        return [self._named(name, user, shown.form_of(line, of_target.tops_known.get(name, ()), 1,
                                                      is_timed))
                for _, name, line in sorted(rows, key=lambda row: row[:2])[:_OTHERS]]

    def _named(self, job: str, user: Optional[str], line: dict[str, Any]) -> dict[str, Any]:
        """A row of another job; only a reader sees whose it is, and a user that it is an own."""
        if not job:
            return {"job": NO_JOB, "user": "", "line": line}
        found, owner, name = self._harvest.lives.life_of(job), "", job
        if found is not None:
            facts = found[1].facts
            owner, name = facts.get("user") or "", facts.get("job") or job
        else:
            owner, name = next(iter(self._lines.store.owners(job)), ("", ""))
        if user is not None and owner != user:
            return {"job": "", "user": "", "line": line}
        return {"job": one_line(name or job), "user": one_line(owner), "line": line}

    def _say_what_it_has(self, answer: dict[str, Any], run: RunTime,
                         mine: dict[str, JobLines]) -> None:
        has, why_not = answer["has"], answer["why_not"]
        if mine:
            has.append("harvest")
        else:
            why_not["harvest"] = self._why_no_harvest(run)
        if run.series:
            has.append("watch")
        else:
            why_not["watch"] = "no node ran `iostats watch`, or there is no record yet"
        if run.events or self._told():
            has.append("events")
        else:
            why_not["events"] = "no storage server reports events"
        why_not["exports"] = "per node, not per job; see iostats query"

    def _why_no_harvest(self, run: RunTime) -> str:
        lines = self._lines
        days = lines.days
        if not days[-1]:
            return "series_days is 0 ([site] of site.cfg): no time lines are kept"
        if not self._harvest.targets:
            return "no storage server has reported job_stats (iostats harvest)"
        if run.ended is not None and self._now() - run.ended > days[-1] * 86400:
            return f"series_days is over: time lines are kept for {days[-1]} days"
        return ("no storage server has reported this job: it did no I/O there, no agent ran then, "
                "or its requests carry no job id")

    # -- a file system

    def file_system_lines(self, ask: FileSystemLinesParams, user: Optional[str]) -> _Answer:
        """The answer to FileSystemLinesParams, in steps; `user` as in job_history."""
        try:
            return (yield from self._file_system_lines(ask, user))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def _file_system_lines(self, ask: FileSystemLinesParams, user: Optional[str]) -> _Answer:
        name, since, until = ask.file_system, ask.since, ask.until
        found = LinesNow(self._lines, None)
        names = sorted({*found.readings.get(name, ()),
                        *self._lines.store.targets_of(name, since, until)})
        parts = {target: found.target_rows(name, target, since, until) for target in ("", *names)}
        whole = yield from self._all(found, name, "", parts[""], since, until)
        if whole is None:
            raise WireError(protocol.REFUSED, (
                f"nothing is known of {name[:80]} in this time: no storage server has told of it, "
                f"or series_days is over"))
        is_timed = shown.is_timed(whole.line)
        answer: dict[str, Any] = {
            "name": name, "all": shown.form_of(whole.line, whole.known, whole.targets, is_timed),
            "targets": [], "jobs": []}
        for target in names:
            one = yield from self._all(found, name, target, parts[target], since, until)
            if one is not None:
                one.line.at_most(max(_LEAST_OF_TARGET,
                                     min(MOST_BINS, _MOST_OF_TARGETS // len(names))))
                answer["targets"].append({"target": target, "line": shown.form_of(
                    one.line, one.known, 1, is_timed)})
        recent = yield from self._recent_jobs(found, name, since, until)
        for job, line in recent.items():
            whole.add_top(job, line, whole.known)
        rows = sorted(((-load_of(line.totals()), job, line) for job, line in whole.tops.items()),
                      key=lambda row: row[:2])
        for load, job, line in rows[:ask.most]:
            if load:
                line.span(max(since, line.began), min(until, line.ended))
                answer["jobs"].append(self._named(job, user, shown.form_of(
                    line, whole.tops_known[job], whole.targets, is_timed)))
                yield
        return answer

    def _recent_jobs(self, found: LinesNow, file_system: str, since: float,
                     until: float) -> Generator[None, None, dict[str, BinnedLine]]:
        lines: dict[str, BinnedLine] = {}
        readings = found.readings.get(file_system, {})
        every_s = base_of(one[-1] for one in readings.values() if one)
        for some in readings.values():
            prepared = TargetReadings(_within(some, since, until))
            for job in prepared.jobs:
                part = prepared.line(job, every_s)
                if job in lines:
                    lines[job].add_line(part)
                else:
                    lines[job] = part
            yield
        return lines


def _within(readings: Iterable[LineReading], since: float, until: float) -> list[LineReading]:
    return [one for one in readings if one.until > since and one.since < until]


def _amounts(line: BinnedLine) -> dict[str, int]:
    totals = line.totals()
    return {metric: totals.get(metric, 0) + line.unplaced.get(metric, 0)
            for metric in {**totals, **line.unplaced}}


def _from(pieces: list[Piece], since: float) -> list[Piece]:
    """Of these times, that since a moment."""
    return [(max(began, since), ended, count) for began, ended, count in pieces if ended > since]
