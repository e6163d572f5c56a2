"""
Amounts of jobs and targets over time; a JobSeries is the answer of the site's server.

A line's amounts are of intervals of the same width, one after the other; null is an interval
without data, 0 one without I/O.  `_bytes` are bytes, `_us` microseconds of
all requests of that name together, others counts.  `known` is the share of each interval that is
known: below 1 its amounts are lower bounds; null where all of it is known.  `unplaced` happened at
a time that is not known better, in or before an interval that is not known.  `all` begins before
the job and ends after it, as far as there is something, so that it shows the usual load; its
intervals may be longer than those of `job`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, TypedDict, Union

from iostats.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Amount = Optional[Union[int, float]]


class TimeSeries(TypedDict):
    """
    Amounts in intervals of one width; null: unknown.

    `known`: the share of each interval that is known (null: all), `unplaced`: amounts at a time
    that is not known better.
    """

    began: float
    every_s: float
    amounts: dict[str, list[Amount]]
    known: Optional[list[float]]
    unplaced: dict[str, Union[int, float]]


class SeriesOfJob(TypedDict):
    """A job's series; `job` and `user` are "" if the caller may not know them."""

    job: str
    user: str
    line: TimeSeries


class SeriesOnFileSystem(TypedDict):
    """A job's series on a file system, and that of all jobs."""

    name: str
    job: Optional[TimeSeries]
    all: Optional[TimeSeries]


class SeriesOnTarget(TypedDict):
    """A job's series on an OST or MDT, that of all jobs, and those of the largest others."""

    file_system: str
    target: str
    job: Optional[TimeSeries]
    all: Optional[TimeSeries]
    others: list[SeriesOfJob]


class JobSeries(TypedDict):
    """The sources in `has` are there; `why_not` has the reasons for the others."""

    began: Optional[float]
    ended: Optional[float]
    has: list[str]
    why_not: dict[str, str]
    file_systems: list[SeriesOnFileSystem]
    targets: list[SeriesOnTarget]


class SeriesOfTarget(TypedDict):
    """All jobs on an OST or MDT over time."""

    target: str
    line: TimeSeries


class FileSystemSeries(TypedDict):
    """All jobs, each target, and the jobs with the highest load."""

    name: str
    all: TimeSeries
    targets: list[SeriesOfTarget]
    jobs: list[SeriesOfJob]


# Of all lines of harvest, where there is something; `requests`: all three of reads, writes
# and operations; `busy_us`: the time that `timed` of them took.
METRICS = ("read_bytes", "write_bytes", "reads", "writes", "operations", "requests")
TIMES = ("busy_us", "timed")


class Line(NamedTuple):
    """Amounts over time."""

    began: float                    # seconds since 1970 of the begin of the first interval
    every_s: float                  # width of an interval
    amounts: dict[str, list[float | None]]  # {metric: [number, or None if unknown]}
    # [share of each interval that is known], 0 to 1; None: all of each
    known: list[float] | None = None
    unplaced: dict[str, float] = {}     # {metric: what happened at a time that is not known better}


class FileSystemHistory(NamedTuple):
    """A file system: Lines of the job and of all jobs; None: not known."""

    name: str
    job: Line | None
    all: Line | None


class JobOnTarget(NamedTuple):
    """A job of others on the target; `job` and `user` are "" if the caller may not see them."""

    job: str
    user: str
    line: Line


class TargetHistory(NamedTuple):
    """
    An OST or MDT: Lines of the job and of all jobs, None where not known; [JobOnTarget], most
    first.
    """

    file_system: str
    target: str
    job: Line | None
    all: Line | None
    others: list[JobOnTarget]


class JobHistory(NamedTuple):
    """The time series of a job, and of the targets that it used."""

    # began, ended: of the job, in seconds since 1970; None where not known
    began: float | None
    ended: float | None
    has: Sequence[str]  # out of "harvest" (job_stats by sweep), "watch", "exports", "events"
    # {one of these: why it is not there}; and why something of them is missing
    why_not: dict[str, str]
    # file_systems, targets: [FileSystemHistory], [TargetHistory]
    file_systems: list[FileSystemHistory]
    targets: list[TargetHistory]


def parse_history(form: JobSeries) -> JobHistory:
    """The JobHistory of an answer; LookupError, TypeError, AttributeError."""
    return JobHistory(
        form["began"], form["ended"], list(form["has"]), dict(form["why_not"]),
        [FileSystemHistory(file_system["name"], parse_line(file_system["job"]),
                           parse_line(file_system["all"]))
         for file_system in form["file_systems"]],
        [TargetHistory(target["file_system"], target["target"], parse_line(target["job"]),
                       parse_line(target["all"]),
                       [JobOnTarget(job["job"], job["user"], _make_line(job["line"]))
                        for job in target["others"]])
         for target in form["targets"]])


def parse_line(form: TimeSeries | None) -> Line | None:
    """The Line of a TimeSeries, or None; LookupError, TypeError, AttributeError."""
    return None if form is None else _make_line(form)


def _make_line(form: TimeSeries) -> Line:
    return Line(form["began"], form["every_s"], dict(form["amounts"]), form.get("known"),
                dict(form.get("unplaced") or {}))


def count_intervals(line: Line) -> int:
    """
    The number of intervals in a line.

    >>> count_intervals(Line(0.0, 60.0, {"reads": [23, None]}))
    2
    """
    return max(map(len, line.amounts.values()), default=0)


def is_known(line: Line, place: int) -> bool:
    """True if all of an interval is known, so that its amounts are no lower bounds."""
    return bool(line.known is None or line.known[place] >= 1)


def has_lower_bounds(line: Line) -> bool:
    """Whether some amounts are lower bounds: an interval is known in part only.

    >>> [has_lower_bounds(Line(0.0, 60.0, {}, known)) for known in (None, [1.0, 0.0], [1.0, 0.5])]
    [False, False, True]
    """
    return any(0 < share < 1 for share in line.known or ())


def compute_total(line: Line, metric: str, began: float | None = None,
                  ended: float | None = None) -> tuple[float, bool]:
    """
    Return (the sum of the known intervals whose middle is in this time, whether all are known) of a
    metric; without a time: of all, with amounts that have no interval.

    >>> line = Line(0.0, 60.0, {"reads": [23, None, 41]}, [1.0, 0.0, 1.0], {"reads": 37})
    >>> (compute_total(line, "reads"), compute_total(line, "reads", 120.0, 180.0),
    ...  compute_total(line, "opens"))
    ((101, False), (41, True), (0, False))
    """
    places = [place for place in range(count_intervals(line))
              if (began is None or line.began + (place + 0.5) * line.every_s >= began)
              and (ended is None or line.began + (place + 0.5) * line.every_s < ended)]
    values = line.amounts.get(metric) or [0] * count_intervals(line)
    whole = began is None and ended is None
    return (sum(values[place] or 0 for place in places)
            + (line.unplaced.get(metric, 0) if whole else 0),
            all(is_known(line, place) for place in places))


def compute_rates(line: Line, metric: str) -> list[float | None]:
    """
    A metric per second of each interval; None if unknown.

    >>> compute_rates(Line(0.0, 60.0, {"reads": [30, None]}, [1.0, 0.0]), "reads")
    [0.5, None]
    """
    return [None if value is None else value / line.every_s
            for value in line.amounts.get(metric, ())]


def compute_latencies_us(line: Line) -> list[float | None]:
    """
    Microseconds that a request took, on average, in each interval, of all that are timed; None
    where there was none, or where it is not known.

    >>> compute_latencies_us(Line(0.0, 60.0, {"busy_us": [460, 0], "timed": [23, 0]}))
    [20.0, None]
    """
    return [took / count if count and took is not None else None for count, took in zip(
        line.amounts.get("timed", ()), line.amounts.get("busy_us", ()))]
