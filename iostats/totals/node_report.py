"""A node's report, and whether two reports of a node are of the same time."""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.totals.received_report import (
        Deltas,
        EventsOfReport,
        IdleOfReport,
        PhasesOfReport,
        ReceivedReport,
        SeriesOfReport,
    )

_OVERLAP_S = 1.0                    # the wall clocks of two reports of a node agree to this
_EQUAL_S = 1e-3                     # seconds since boot are rounded, and have no other error


class Report(NamedTuple):
    """A node's report, as in docs/reference/wire.md; the server has it as a type of its own."""

    node: str
    seq: str
    boot_id: str
    user: str
    reason: str
    ended: float
    elapsed_s: float
    clock_ahead_s: float
    mounts: dict[str, list[str]]
    deltas: Deltas
    # {file system: bytes} not yet sent at the end; None where not known
    dirty_bytes: dict[str, int] | None = None
    other_jobs: int | None = None   # how many other jobs were on the node; None where not known
    phases: PhasesOfReport = None   # None for a job in one piece
    # {file system: readings}, of `watch`
    series: SeriesOfReport = None
    # seconds since boot at the end, by the clock that cannot be set; 0 where not known
    uptime_s: float = 0.0
    # events on the node during the job, at most 100: each with the attributes of
    # events/event.py's Event, times by the server's clock, in the order of time; None: the node
    # does not report events
    events: EventsOfReport = None
    events_dropped: int = 0         # how many more there were
    events_unseen: str = ""  # what could not be seen, and why, in the same words on all nodes; ""
    # {file system: with seconds, values}: what the node has done while no job was there, {metric:
    # amount} in that number of seconds of it; None where not known
    idle: IdleOfReport = None
    cpus: int = 0                   # online CPUs of the node; 0 where not known
    lnet: Sequence[int] = ()        # of lustre.lnet.NODE_COUNTS, as far as they are known


class WorkPeriod(NamedTuple):
    """The period that a report covers."""

    seq: str
    boot_id: str
    # started, ended: seconds since 1970, by the node's clock
    started: float
    ended: float
    # started_up, ended_up: seconds since boot; ended_up is 0 where that is not known
    started_up: float
    ended_up: float


def find_period(report: ReceivedReport) -> WorkPeriod:
    """Return the period that a report covers."""
    return WorkPeriod(report.seq, report.boot_id, report.ended - report.elapsed_s, report.ended,
                      report.uptime_s - report.elapsed_s, report.uptime_s)


def do_overlap(a: WorkPeriod, b: WorkPeriod) -> bool:
    """True if two reports of one boot of a node cover a common time."""
    if a.boot_id != b.boot_id:
        return False
    if a.ended_up and b.ended_up:
        return bool(a.started_up < b.ended_up - _EQUAL_S and b.started_up < a.ended_up - _EQUAL_S)
    return bool(a.started < b.ended - _OVERLAP_S and b.started < a.ended - _OVERLAP_S)
