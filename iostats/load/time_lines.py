"""
What jobs and targets did over time: the form in which the site's server answers about it.

    {"began": 1795176000.0, "ended": 1795177867.0, "has": ["harvest", "events"],
     "why_not": {"exports": "..."},
     "file_systems": [{"name": "scratch", "job": LINE, "all": LINE}],
     "targets": [{"file_system": "scratch", "target": "OST0007", "job": LINE, "all": LINE,
                  "others": [{"job": "4733", "user": "bob", "line": LINE}]}]}

    LINE = {"began": 1795175700.0, "every_s": 30.0, "amounts": {"write_bytes": [23, null, 41]},
            "known": [1.0, 0.0, 0.5], "unplaced": {"write_bytes": 37}}

A line's amounts are of intervals of the same width, one after the other; null is an interval of
which nothing is known, 0 one in which nothing happened.  `_bytes` are bytes, `_us` microseconds of
all requests of that name together, others counts.  `known` is the share of each interval that is
known: below 1 its amounts are lower bounds; null where all of it is known.  `unplaced` happened at
a time that is not known better, in or before an interval that is not known.  `all` begins before
the job and ends after it, as far as there is something, so that what is usual can be told; its
intervals may be longer than those of `job`.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Of all lines of harvest, where there is something; `requests`: all three of reads, writes
# and operations; `busy_us`: the time that `timed` of them took.
METRICS = ("read_bytes", "write_bytes", "reads", "writes", "operations", "requests")
TIMES = ("busy_us", "timed")

Line = namedtuple("Line", "began every_s amounts known unplaced", defaults=(None, {}))
Line.__doc__ = """
Amounts over time.

Attributes:
    began: seconds since 1970 of the begin of the first interval.
    every_s: width of an interval.
    amounts: {metric: [number, or None where nothing is known]}.
    known: [share of each interval that is known], 0 to 1; None: all of each.
    unplaced: {metric: what happened at a time that is not known better}.
"""

FileSystemHistory = namedtuple("FileSystemHistory", "name job all")
FileSystemHistory.__doc__ = """A file system: Lines of the job and of all jobs; None: not known."""

JobOnTarget = namedtuple("JobOnTarget", "job user line")
JobOnTarget.__doc__ = """
Another job on a target; `job` and `user` are "" where the one who asks may not see them.
"""

TargetHistory = namedtuple("TargetHistory", "file_system target job all others")
TargetHistory.__doc__ = """
An OST or MDT: Lines of the job and of all jobs, None where not known; [JobOnTarget], most first.
"""

JobHistory = namedtuple("JobHistory", "began ended has why_not file_systems targets")
JobHistory.__doc__ = """
What is known of a job over time, and of the targets that it used.

Attributes:
    began, ended: of the job, in seconds since 1970; None where not known.
    has: out of "harvest" (job_stats by sweep), "watch", "exports", "events".
    why_not: {one of these: why it is not there}; and why something of them is missing.
    file_systems, targets: [FileSystemHistory], [TargetHistory].
"""


def history_of(form: Mapping[str, Any]) -> JobHistory:
    """The JobHistory in the JSON object `form`; LookupError, TypeError, AttributeError."""
    return JobHistory(
        form["began"], form["ended"], list(form["has"]), dict(form["why_not"]),
        [FileSystemHistory(one["name"], line_of(one["job"]), line_of(one["all"]))
         for one in form["file_systems"]],
        [TargetHistory(one["file_system"], one["target"], line_of(one["job"]), line_of(one["all"]),
                       [JobOnTarget(other["job"], other["user"], line_of(other["line"]))
                        for other in one["others"]])
         for one in form["targets"]])


def line_of(form: Mapping[str, Any] | None) -> Line | None:
    """The Line in the JSON object LINE, or None; LookupError, TypeError, AttributeError."""
    return None if form is None else Line(form["began"], form["every_s"], dict(form["amounts"]),
                                          form.get("known"), dict(form.get("unplaced") or {}))


def length_of(line: Line) -> int:
    """
    How many intervals a line has.

    >>> length_of(Line(0.0, 60.0, {"reads": [23, None]}))
    2
    """
    return max(map(len, line.amounts.values()), default=0)


def is_known(line: Line, place: int) -> bool:
    """Whether all of an interval is known, so that its amounts are no lower bounds."""
    return bool(line.known is None or line.known[place] >= 1)


def has_lower_bounds(line: Line) -> bool:
    """
    Whether amounts of it are lower bounds: of an interval something is known, and not all.

    >>> [has_lower_bounds(Line(0.0, 60.0, {}, known)) for known in (None, [1.0, 0.0], [1.0, 0.5])]
    [False, False, True]
    """
    return any(0 < share < 1 for share in line.known or ())


def total(line: Line, metric: str, began: float | None = None,
          ended: float | None = None) -> tuple[int, bool]:
    """
    (the sum of what is known, whether that is all of it) of a metric, in the intervals whose middle
    is in this time; without one in all, and with what is unplaced.

    >>> line = Line(0.0, 60.0, {"reads": [23, None, 41]}, [1.0, 0.0, 1.0], {"reads": 37})
    >>> total(line, "reads"), total(line, "reads", 120.0, 180.0), total(line, "opens")
    ((101, False), (41, True), (0, False))
    """
    places = [place for place in range(length_of(line))
              if (began is None or line.began + (place + 0.5) * line.every_s >= began)
              and (ended is None or line.began + (place + 0.5) * line.every_s < ended)]
    values = line.amounts.get(metric) or [0] * length_of(line)
    whole = began is None and ended is None
    return (sum(values[place] or 0 for place in places)
            + (line.unplaced.get(metric, 0) if whole else 0),
            all(is_known(line, place) for place in places))


def rates(line: Line, metric: str) -> list[float | None]:
    """
    A metric per second of each interval; None where nothing is known.

    >>> rates(Line(0.0, 60.0, {"reads": [30, None]}, [1.0, 0.0]), "reads")
    [0.5, None]
    """
    return [None if value is None else value / line.every_s
            for value in line.amounts.get(metric, ())]


def latencies_us(line: Line) -> list[float | None]:
    """
    Microseconds that a request took, on average, in each interval, of all that are timed; None
    where there was none, or where it is not known.

    >>> latencies_us(Line(0.0, 60.0, {"busy_us": [460, 0], "timed": [23, 0]}))
    [20.0, None]
    """
    return [took / count if count and took is not None else None for count, took in zip(
        line.amounts.get("timed", ()), line.amounts.get("busy_us", ()))]
