"""
Events that cost a job time: it did no I/O while they lasted.

A target that is down, an eviction or a lost connection blocks I/O that needs it.  Whether it
blocked this job is decided by the job's rate: it was 0 during the fault, and is rarely 0 at other
times.  A job that computes for minutes at a time may not have noticed; then no cause is reported.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.events.kinds import INFO
from iostats.report.findings.faults import STOPS
from iostats.report.why.axis import make_axis, spread_over_axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.load.time_lines import JobHistory, Line
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import JobEvent, Record

_KINDS = tuple(STOPS)               # of several events that come together the first is reported
_TOGETHER_S = 60.0                  # from the end of one to the begin of the next
_STILL = 0.2                        # of the job's mean rate
_MOST_OF_IT = 0.6                   # of the time of an event it has to stand still
_LONGER = 1.5                       # times as long as it stands still without any
_FEWEST = 4                         # intervals outside, to say what its rate is
_SELDOM = 0.1                       # of the times outside that are as long: with as few requests
_WAITED = 0.3                       # of the time of an event: calls have to have taken as much

SEEN = ("its requests fell to less than a fifth of their mean during that time, and are rarely "
        "as few otherwise")
_SEEN_IN_PART = ("in the longer intervals around that time it made as many requests less as if it "
                 "had stood still")
_LITTLE_KNOWN = "its rate at other times is hardly known, so whether it waited is unknown"
_NOT_KNOWN = "no rate is known for that time, so whether it waited is unknown"


class CostlyFault(NamedTuple):
    """Events that belong together, and their cost."""

    events: list[JobEvent]  # the one to report first
    # began, ended: seconds since 1970, within the job
    began: float
    ended: float
    still_s: float      # for how long of that the job stood still, more than it does otherwise
    # an estimate of the part of the job's time that it cost: where its rate does not show that all
    # nodes waited, by the share of nodes that the events name
    part: float
    cost: float         # the same if all nodes waited
    is_seen: bool       # the job's rate shows that all nodes waited; False: it may be so
    evidence: str       # what its rate says: a text


def find_faults(record: Record, history: JobHistory | None,
                time: TimeInLustre) -> list[CostlyFault]:
    """Return [CostlyFault], the costliest first."""
    started, ended = get_job_period(record, history)
    if started is None or ended is None or ended <= started:
        return []
    groups = _group_overlapping([(event, *window) for event in record.events or ()
                                 if _may_stop(event, record)
                                 for window in [_get_event_period(event, started,
                                                                  ended)] if window[1] > window[0]])
    faults = []
    hulls = [(windows[0][0], windows[-1][1]) for _, windows in groups]
    for events, windows in groups:
        fault = _make_fault(events, windows, history, hulls)
        # No wait is longer than all calls of all threads together.
        most_s = time.known.seconds if time.known and time.is_whole else inf
        if fault.still_s > 0 and most_s >= _WAITED * fault.still_s:
            still_s = min(fault.still_s, most_s)
            cost = min(1.0, still_s / (ended - started))
            share = 1.0 if fault.is_seen else _compute_node_share(events, record)
            faults.append(fault._replace(still_s=still_s, cost=cost, part=cost * share))
    return sorted(faults, key=lambda fault: (-fault.part, fault.began))


def get_job_period(record: Record, history: JobHistory | None) -> tuple[float | None, float | None]:
    """Return the begin and end of the job, in seconds since 1970; None: unknown."""
    job = record.job
    if job.started is not None and job.ended is not None:
        return job.started, job.ended
    if history is not None and history.began is not None and history.ended is not None:
        return history.began, history.ended
    harvest = record.harvest
    return (harvest.began, harvest.ended) if harvest else (None, None)


def _may_stop(event: JobEvent, record: Record) -> bool:
    if event.severity <= INFO or event.kind not in _KINDS or not event.is_certain:
        return False
    used = _list_used(record)
    if event.file_system not in used:
        return False
    target = event.target.rpartition("-")[2]
    targets = used[event.file_system]
    return not target or target in targets or not targets


def _list_used(record: Record) -> dict[str, set[str]]:
    """Return {file system that the job used: its targets there, empty where they are not known}."""
    targets_of: dict[str, set[str]] = {}
    for fs in record.lustre:
        targets = {target for target, metrics in fs.targets.items() if any(metrics.values())}
        if targets or any((fs.application or {}).values()) or any(
                row.count for row in (fs.operations or {}).values()):
            # Without the counters of osc and mdc, which users can't read, no target is ruled out.
            targets_of[fs.name] = targets if fs.network else set()
    for at_servers in record.harvest.file_systems if record.harvest else ():
        targets = {target for target, metrics in at_servers.targets.items()
                   if any(metrics.values())}
        if at_servers.name not in targets_of or targets_of[at_servers.name]:
            targets_of[at_servers.name] = targets_of.get(at_servers.name, set()) | targets
    return targets_of


def _get_event_period(event: JobEvent, started: float, ended: float) -> tuple[float, float]:
    over = event.over if event.over is not None else max(event.last,
                                                         event.time + (event.longest_s or 0))
    return max(event.time, started), min(over, ended)


def _group_overlapping(events: Iterable[tuple[JobEvent, float, float]]
                       ) -> list[tuple[list[JobEvent], list[tuple[float, float]]]]:
    """
    Return [([JobEvent], windows)] of those of one file system that overlap, or nearly.

    Windows: the times of the events, those that overlap joined, in order: a connection that is lost
    again and again leaves the job time to go on in between.
    """
    groups: list[tuple[list[JobEvent], list[tuple[float, float]]]] = []
    for event, began, ended in sorted(events, key=lambda event: (
            event[0].file_system, event[1], event[2])):
        if not (groups and groups[-1][0][0].file_system == event.file_system
                and began <= groups[-1][1][-1][1] + _TOGETHER_S):
            groups.append(([event], [(began, ended)]))
            continue
        group, windows = groups[-1]
        group.append(event)
        if began <= windows[-1][1]:
            windows[-1] = windows[-1][0], max(windows[-1][1], ended)
        else:
            windows.append((began, ended))
    return [(sorted(group, key=lambda event: (_KINDS.index(event.kind), event.time)), windows)
            for group, windows in groups]


def _make_fault(events: list[JobEvent], windows: Sequence[tuple[float, float]],
                history: JobHistory | None, hulls: Sequence[tuple[float, float]]) -> CostlyFault:
    """
    Make the CostlyFault of `events`; `windows`: of the events; `hulls`: of each group, from its
    first event to its last.
    """
    began, ended = windows[0][0], windows[-1][1]
    window_s = sum(last - first for first, last in windows)
    line = _find_line(events, history)
    axis = make_axis(line)
    if line is None or axis is None:
        return CostlyFault(events, began, ended, window_s, 0.0, 0.0, False, _NOT_KNOWN)
    inside, outside = [], []            # [(seconds in the windows, is it all, amount)], [amount]
    for place, amount in enumerate(spread_over_axis(line, "requests", axis)):
        start = axis.began + place * axis.every_s
        end = start + axis.every_s
        overlap = sum(max(0.0, min(end, last) - max(start, first)) for first, last in windows)
        if amount is not None and overlap > 0:
            inside.append((overlap, overlap >= 0.99 * axis.every_s, amount))
        elif amount is not None and not any(start < last and first < end for first, last in hulls):
            outside.append(amount)
    if not inside:
        return CostlyFault(events, began, ended, window_s, 0.0, 0.0, False, _NOT_KNOWN)
    is_little = len(outside) < _FEWEST
    amounts = [*outside, *(amount for _, _, amount in inside if is_little)]
    usual = sum(amounts) / len(amounts)
    whole = [(overlap, amount) for overlap, is_all, amount in inside if is_all]
    if whole:
        still_s, evidence = _compute_still_share(whole, outside, usual) * window_s, SEEN
    else:                               # shorter than an interval: what is missing around it
        least = usual - 0.8 * window_s / axis.every_s * usual / len(inside)
        is_still = (sum(amount for *_, amount in inside) <= least * len(inside)
                    and _compute_share_of_low_runs(outside, len(inside), least) <= _SELDOM)
        still_s, evidence = window_s * is_still, _SEEN_IN_PART
    if is_little and (still_s or not usual):
        still_s, evidence = window_s, _LITTLE_KNOWN
    return CostlyFault(events, began, ended, still_s, 0.0, 0.0, evidence == SEEN, evidence)


def _compute_share_of_low_runs(amounts: Sequence[float], count: int, least: float) -> float:
    """Return the share of runs of `count` intervals with a mean of `least` or less."""
    runs = range(len(amounts) - count + 1)
    few = sum(sum(amounts[at:at + count]) <= least * count for at in runs)
    return few / len(runs) if runs else 0.0


def _compute_still_share(inside: Sequence[tuple[float, float]], outside: Sequence[float],
                         usual: float) -> float:
    """
    The share of the time `inside`, [(seconds, amount)], in which it stood still, beyond what it
    does `outside`; 0 where that was only for a part of it, or is nearly as long outside.
    """
    known_s = sum(seconds for seconds, _ in inside)
    if not known_s or not usual:
        return 0.0
    few = [amount for _, amount in inside if amount <= _STILL * usual]
    still = sum(seconds for seconds, amount in inside if amount <= _STILL * usual) / known_s
    if still < _MOST_OF_IT:
        return 0.0
    # A job that does little for most of the time does not stand still then.
    as_few = min(_STILL * usual, 2 * sum(few) / len(few))
    often = sum(amount <= as_few for amount in outside) / max(1, len(outside))
    if often >= 1 or (_count_longest_run([amount for _, amount in inside], _STILL * usual)
                      < _LONGER * _count_longest_run(outside, as_few)):
        return 0.0
    return max(0.0, (still - often) / (1 - often))


def _count_longest_run(amounts: Iterable[float], low: float) -> int:
    """Return the length of the longest run of intervals with no more than `low`."""
    longest = now = 0
    for amount in amounts:
        now = now + 1 if amount <= low else 0
        longest = max(longest, now)
    return longest


def _find_line(events: Sequence[JobEvent], history: JobHistory | None) -> Line | None:
    """The job's line that shows whether it stood still: of the file system, or of the target."""
    if history is None:
        return None
    first = events[0]
    # Other targets do not wait, but a job that needs this one soon does nothing on them either.
    target = first.target.rpartition("-")[2]
    lines: list[Line | None] = [fs.job for fs in history.file_systems
                                if fs.name == first.file_system]
    lines += [each.job for each in history.targets
              if (each.file_system, each.target) == (first.file_system, target)]
    return next((line for line in lines if line is not None), None)


def _compute_node_share(events: Sequence[JobEvent], record: Record) -> float:
    """Return the part of the job's nodes that the events hit; one of them may stop all others."""
    counts = [event.node_count for event in events]
    nodes = record.coverage.expected or record.coverage.reported
    if not nodes or not all(counts):
        return 1.0
    return min(1.0, max(counts) / nodes)
