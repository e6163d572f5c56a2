"""
What a node reports of its work, and whether two reports of a node are of the same time.
"""

from __future__ import annotations

from collections import namedtuple

_OVERLAP_S = 1.0                    # the wall clocks of two reports of a node agree to this
_EQUAL_S = 1e-3                     # seconds since boot are rounded, and have no other error

Report = namedtuple("Report", "node seq boot_id user reason ended elapsed_s clock_ahead_s mounts "
                              "deltas dirty_bytes other_jobs phases series uptime_s events "
                              "events_dropped events_unseen idle",
                    defaults=(None, None, None, None, 0.0, None, 0, "", None))
Report.__doc__ = """
What a node says of its work, as in docs/wire.md; the server has it as a type of its own.

Attributes:
    dirty_bytes: {file system: bytes} not yet sent at the end; None where not known.
    other_jobs: how many other jobs were on the node; None where not known.
    phases: [with name, elapsed_s, deltas]; None for a job in one piece.
    uptime_s: seconds since boot at the end, by the clock that cannot be set; 0 where not known.
    series: {file system: with began, every_s, read_bytes, write_bytes, operations}, of `watch`.
    events: what went wrong on the node meanwhile, at most 100: each with the attributes of
        events/event.py's Event, times by the server's clock, in the order of time; None: it does
        not look for events.
    events_dropped: how many more there were.
    events_unseen: what could not be seen, and why, in the same words on all nodes; "".
    idle: {file system: with seconds, values}: what the node has done while no job was there,
        {metric: amount} in that number of seconds of it; None where not known.
"""


WorkPeriod = namedtuple("WorkPeriod", "seq boot_id started ended started_up ended_up")
WorkPeriod.__doc__ = """
The time that one report is of.

Attributes:
    started, ended: seconds since 1970, by the node's clock.
    started_up, ended_up: seconds since boot; ended_up is 0 where that is not known.
"""


def period_of(report: Report) -> WorkPeriod:
    """The time that a report is of."""
    return WorkPeriod(report.seq, report.boot_id, report.ended - report.elapsed_s, report.ended,
                      report.uptime_s - report.elapsed_s, report.uptime_s)


def overlap(a: WorkPeriod, b: WorkPeriod) -> bool:
    """True when two reports of one node, of one boot, are of the same time."""
    if a.boot_id != b.boot_id:
        return False
    if a.ended_up and b.ended_up:
        return bool(a.started_up < b.ended_up - _EQUAL_S and b.started_up < a.ended_up - _EQUAL_S)
    return bool(a.started < b.ended - _OVERLAP_S and b.started < a.ended - _OVERLAP_S)
