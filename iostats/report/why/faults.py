"""
Which events cost a job time: those while which it stood still.

A target that was down, an eviction or a connection that was lost stops what needs it.  Whether the
job needed it is told by its rate: it stood still meanwhile, and seldom does otherwise.  A job that
computes for minutes at a time may not have noticed; then nothing is said.
"""

from __future__ import annotations

from collections import namedtuple
from math import inf

from iostats.events.kinds import INFO
from iostats.lustre import kernel_log, system_log
from iostats.report.why.axis import axis_of, on_axis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.load.time_lines import JobHistory, Line
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import JobEvent, Record

# What makes requests wait; the first is what is told of several that come together.
STOPS = (kernel_log.TARGET_DOWN, system_log.POOL_SUSPENDED, system_log.READ_ONLY,
         system_log.BACKEND_ERROR, kernel_log.NOT_HEALTHY, kernel_log.LBUG, kernel_log.EVICTED,
         kernel_log.RECOVERY, kernel_log.CONNECTION_LOST, kernel_log.DEACTIVATED,
         system_log.HUNG_TASK, system_log.DISK_FAILED, system_log.DISK_TIMEOUT,
         system_log.DISK_ERROR, system_log.PATH_FAILED,
         kernel_log.LOCK_TIMEOUT, kernel_log.TIMEOUTS)
_TOGETHER_S = 60.0                  # from the end of one to the begin of the next
_STILL = 0.2                        # of the job's mean rate
_MOST_OF_IT = 0.6                   # of the time of an event it has to stand still
_LONGER = 1.5                       # times as long as it stands still without any
_FEWEST = 4                         # intervals outside, to say what its rate is
_SELDOM = 0.1                       # of the times outside that are as long: with as few requests
_WAITED = 0.3                       # of the time of an event: calls have to have taken as much

SEEN = ("its requests fell to less than a fifth of their mean meanwhile, which they seldom do "
        "otherwise")
_SEEN_IN_PART = ("in the longer intervals around that time it made as many requests less as if it "
                 "had stood still")
_LITTLE_KNOWN = "its rate at other times is hardly known, so it is not known whether it waited"
_NOT_KNOWN = "no rate is known of that time, so it is not known whether it waited"

CostlyFault = namedtuple("CostlyFault", "events began ended still_s part cost is_seen evidence")
CostlyFault.__doc__ = """
Events that belong together, and what they cost.

Attributes:
    events: [JobEvent], that which is told first.
    began, ended: seconds since 1970, within the job.
    still_s: for how long of that the job stood still, more than it does otherwise.
    part: of the job's time, by the nodes that it hit: an estimate, as the others may have waited.
    cost: the same as if all nodes had waited.
    is_seen: the job's rate shows it; False: it may be so.
    evidence: what its rate says: a text.
"""


def faults_of(record: Record, history: JobHistory | None, time: TimeInLustre) -> list[CostlyFault]:
    """[CostlyFault], the costliest first."""
    started, ended = period(record, history)
    if started is None or ended is None or ended <= started:
        return []
    groups = _together([(one, *window) for one in record.events or () if _may_stop(one, record)
                        for window in [_window(one, started, ended)] if window[1] > window[0]])
    found = []
    windows = [(began, over) for _, began, over in groups]
    for events, began, over in groups:
        fault = _fault(events, began, over, history, windows)
        # No wait is longer than all calls of all threads together.
        most_s = time.seconds if time.seconds is not None and time.is_whole else inf
        if fault.still_s > 0 and most_s >= _WAITED * fault.still_s:
            still_s = min(fault.still_s, most_s)
            cost = min(1.0, still_s / (ended - started))
            found.append(fault._replace(still_s=still_s, cost=cost,
                                        part=cost * _of_nodes(events, record)))
    return sorted(found, key=lambda one: (-one.part, one.began))


def period(record: Record, history: JobHistory | None) -> tuple[float | None, float | None]:
    """When the job began and ended, in seconds since 1970; None: not known."""
    job = record.job
    if job.started is not None and job.ended is not None:
        return job.started, job.ended
    if history is not None and history.began is not None and history.ended is not None:
        return history.began, history.ended
    harvest = record.harvest
    return (harvest.began, harvest.ended) if harvest else (None, None)


def _may_stop(one: JobEvent, record: Record) -> bool:
    if one.severity <= INFO or one.kind not in STOPS or not one.is_certain:
        return False
    used = _used(record)
    if one.file_system not in used:
        return False
    target = one.target.rpartition("-")[2]
    targets = used[one.file_system]
    return not target or target in targets or not targets


def _used(record: Record) -> dict[str, set[str]]:
    """{file system that the job used: its targets there, empty where they are not known}."""
    found: dict[str, set[str]] = {}
    for fs in record.file_systems:
        targets = {target for target, metrics in fs.targets.items() if any(metrics.values())}
        if targets or any((fs.application or {}).values()) or any(
                row.count for row in (fs.operations or {}).values()):
            # Without the counters of osc and mdc, which users can't read, no target is ruled out.
            found[fs.name] = targets if fs.network else set()
    for at_servers in record.harvest.file_systems if record.harvest else ():
        targets = {target for target, metrics in at_servers.targets.items()
                   if any(metrics.values())}
        if at_servers.name not in found or found[at_servers.name]:
            found[at_servers.name] = found.get(at_servers.name, set()) | targets
    return found


def _window(one: JobEvent, started: float, ended: float) -> tuple[float, float]:
    over = one.over if one.over is not None else max(one.last, one.time + (one.longest_s or 0))
    return max(one.time, started), min(over, ended)


def _together(events: Iterable[tuple[JobEvent, float, float]]
              ) -> list[tuple[list[JobEvent], float, float]]:
    """[([JobEvent], began, ended)] of those of one file system that overlap, or nearly."""
    found: list[tuple[list[JobEvent], float, float]] = []
    for one, began, ended in sorted(events, key=lambda event: (
            event[0].file_system, event[1], event[2])):
        if (found and found[-1][0][0].file_system == one.file_system
                and began <= found[-1][2] + _TOGETHER_S):
            group, first, last = found[-1]
            found[-1] = [*group, one], first, max(last, ended)
        else:
            found.append(([one], began, ended))
    return [(sorted(group, key=lambda one: (STOPS.index(one.kind), one.time)), began, ended)
            for group, began, ended in found]


def _fault(events: list[JobEvent], began: float, ended: float, history: JobHistory | None,
           windows: Sequence[tuple[float, float]]) -> CostlyFault:
    line = _line_of(events, history)
    axis = axis_of(line)
    if line is None or axis is None:
        return CostlyFault(events, began, ended, ended - began, 0.0, 0.0, False, _NOT_KNOWN)
    inside, outside = [], []            # [(seconds in the window, is it all, amount)], [amount]
    for place, amount in enumerate(on_axis(line, "requests", axis)):
        start = axis.began + place * axis.every_s
        overlap = min(start + axis.every_s, ended) - max(start, began)
        if amount is not None and overlap > 0:
            inside.append((overlap, overlap >= 0.99 * axis.every_s, amount))
        elif amount is not None and not any(start < last and first < start + axis.every_s
                                            for first, last in windows):
            outside.append(amount)
    if not inside:
        return CostlyFault(events, began, ended, ended - began, 0.0, 0.0, False, _NOT_KNOWN)
    is_little = len(outside) < _FEWEST
    looked = [*outside, *(amount for _, _, amount in inside if is_little)]
    usual = sum(looked) / len(looked)
    whole = [(overlap, amount) for overlap, is_all, amount in inside if is_all]
    if whole:
        still_s, evidence = _still_share(whole, outside, usual) * (ended - began), SEEN
    else:                               # shorter than an interval: what is missing around it
        least = usual - 0.8 * (ended - began) / axis.every_s * usual / len(inside)
        is_still = (sum(amount for *_, amount in inside) <= least * len(inside)
                    and _often(outside, len(inside), least) <= _SELDOM)
        still_s, evidence = (ended - began) * is_still, _SEEN_IN_PART
    if is_little and (still_s or not usual):
        still_s, evidence = ended - began, _LITTLE_KNOWN
    return CostlyFault(events, began, ended, still_s, 0.0, 0.0, evidence == SEEN, evidence)


def _often(amounts: Sequence[float], count: int, least: float) -> float:
    """Of `count` intervals in a row, the share with a mean of `least` or less."""
    runs = range(len(amounts) - count + 1)
    few = sum(sum(amounts[at:at + count]) <= least * count for at in runs)
    return few / len(runs) if runs else 0.0


def _still_share(inside: Sequence[tuple[float, float]], outside: Sequence[float],
                 usual: float) -> float:
    """
    The share of the time `inside`, [(seconds, amount)], in which it stood still, beyond what it
    does `outside`; 0 where that was only for a part of it, or is nearly as long outside.
    """
    looked = sum(seconds for seconds, _ in inside)
    if not looked or not usual:
        return 0.0
    often = sum(amount <= _STILL * usual for amount in outside) / max(1, len(outside))
    still = sum(seconds for seconds, amount in inside if amount <= _STILL * usual) / looked
    if often >= 1 or still < _MOST_OF_IT or (
            _longest([amount for _, amount in inside], _STILL * usual)
            < _LONGER * _longest(outside, _STILL * usual)):
        return 0.0
    return max(0.0, (still - often) / (1 - often))


def _longest(amounts: Iterable[float], low: float) -> int:
    """Of intervals one after the other with no more than `low`, the most."""
    longest = now = 0
    for amount in amounts:
        now = now + 1 if amount <= low else 0
        longest = max(longest, now)
    return longest


def _line_of(events: Sequence[JobEvent], history: JobHistory | None) -> Line | None:
    """The job's line that shows whether it stood still: of the file system, or of the target."""
    if history is None:
        return None
    first = events[0]
    # Other targets do not wait, but a job that needs this one soon does nothing on them either.
    target = first.target.rpartition("-")[2]
    lines: list[Line | None] = [fs.job for fs in history.file_systems
                                if fs.name == first.file_system]
    lines += [one.job for one in history.targets
              if (one.file_system, one.target) == (first.file_system, target)]
    return next((line for line in lines if line is not None), None)


def _of_nodes(events: Sequence[JobEvent], record: Record) -> float:
    """Of the job's nodes, the part that the events hit; one of them may stop all others."""
    counts = [one.node_count for one in events]
    nodes = record.coverage.expected or record.coverage.reported
    if not nodes or not all(counts):
        return 1.0
    return min(1.0, max(counts) / nodes)
