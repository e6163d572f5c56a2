"""
Targets that were slow for a job, as causes: what is the same of several of one file system once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from iostats.base.config import Config
from iostats.base.units import format_percent
from iostats.load.amounts import is_mdt
from iostats.load.time_lines import JobOnTarget
from iostats.report.why import words
from iostats.report.why.axis import spread_over_axis
from iostats.report.why.busy_targets import SlowTarget
from iostats.report.why.cause import (
    BUSY_TARGET,
    HIGH,
    LOW,
    MEDIUM,
    SLOW_TARGET,
    SLOWER,
    SMALLEST,
    Cause,
)
from iostats.report.why.like_runs import AS_USUAL, LikeRuns, describe_factor
from iostats.report.why.target_loads import is_enough
from iostats.report.why.time_in_lustre import TimeInLustre

_NO_JOB = "(no job)"
_MOST_NAMED = 3                     # targets
_MOST_OF_IT = 0.5                   # of the others' load, or it is not said to be of those alone
_METRICS = ("read_bytes", "write_bytes", "requests")


def find_slow_causes(slow: Sequence[SlowTarget], time: TimeInLustre, elapsed_s: float | None,
                     node_seconds: float | None, like: LikeRuns, config: Config) -> list[Cause]:
    """[Cause] of slow targets, without what cost hardly anything; `node_seconds`: of the job."""
    groups: dict[tuple[object, ...], list[SlowTarget]] = {}
    for target in slow:
        history = target.loads.history
        key = (history.file_system, is_mdt(history.target), target.is_others,
               target.jobs[0][0].job if target.jobs else None)
        groups.setdefault(key, []).append(target)
    causes = [_make_cause(group, _estimate_cost_share(group, time, elapsed_s, node_seconds),
                          _find_highest_cost(group, time, elapsed_s),
                          _compute_known_part(group[0], elapsed_s), like,
                          config)
              for group in groups.values()]
    return [cause for cause in causes if cause.weight >= SMALLEST]


def _estimate_cost_share(group: Sequence[SlowTarget], time: TimeInLustre, elapsed_s: float | None,
                         node_seconds: float | None) -> float:
    """Estimate the share of the job's time that slow targets cost, from the longer time of calls.
    """
    excess_s = sum(target.excess_us for target in group) / 1e6
    weight = _find_highest_cost(group, time, elapsed_s)
    weight = 1.0 if weight is None else weight
    known = time.known
    if known is not None:
        weight = min(weight, known.busiest_share * sum(target.part for target in group))
        if node_seconds and known.share:
            # Of the node that waited most.
            weight = min(weight, excess_s / node_seconds * known.busiest_share / known.share)
    return weight


def _find_highest_cost(group: Sequence[SlowTarget], time: TimeInLustre,
                       elapsed_s: float | None) -> float | None:
    """Return an upper bound of the share of the run time that slow targets cost; None if unknown.

    A call that waits for a request is delayed by at most the request's delay.  So the nodes waited
    no longer than the delays that the servers measured, no longer than all calls took, and no
    longer than the target was slow.
    """
    if not elapsed_s:
        return None
    highest: float = min(sum(target.excess_us for target in group) / 1e6,
                         _compute_longest_wait_s(group)) / elapsed_s
    return min(1.0, highest, time.known.serial_share if time.known and time.is_whole else 1.0)


def _compute_longest_wait_s(group: Sequence[SlowTarget]) -> float:
    """Return an upper bound of the job's waiting time: each slow interval less its usual time."""
    lost_s: dict[float, float] = {}
    for target in group:
        axis = target.loads.axis
        for place in target.places:
            began = axis.began + place * axis.every_s
            lost = axis.every_s * (1 - 1 / (target.loads.slowness[place] or 1))
            lost_s[began] = max(lost, lost_s.get(began, 0.0))
    return sum(lost_s.values())


def _compute_known_part(target: SlowTarget, elapsed_s: float | None) -> float:
    """Return the part of the job's time in which its load on the target is known."""
    known_s = target.loads.axis.every_s * sum(own is not None for own in target.loads.own)
    return min(1.0, known_s / elapsed_s) if elapsed_s else 1.0


def _make_cause(group: list[SlowTarget], weight: float, cost: float | None, known_share: float,
                like: LikeRuns, config: Config) -> Cause:
    first = group[0]
    history, axis = first.loads.history, first.loads.axis
    label = config.labels.get(history.file_system, history.file_system)
    names = [target.loads.history.target for target in group]
    shown = words.join_words(names) if len(names) <= _MOST_NAMED else (
        f"{names[0]} and {len(names) - 1} more")
    began, ended = min(target.began for target in group), max(target.ended for target in group)
    form = words.choose_format(axis.began, axis.began + axis.count * axis.every_s)
    usual_us = first.loads.usual_us
    request = _request(first)
    text = (f"{shown} of {label} {'was' if len(names) == 1 else 'were'} "
            f"{'busy' if first.is_others else 'slow'}: {request} took "
            f"{words.format_factor(first.factor)} "
            f"its usual{f' {words.format_time(usual_us / 1e6)}' if usual_us else ' time'} "
            f"{words.format_period(began, ended, form)}")
    text += f", while {_describe_other_loads(first, config)}" if first.is_others else (
        ", and no load that is known explains it")
    known_count = sum(_count_known(target) for target in group)
    evidence = [f"{sum(len(target.places) for target in group)} of {known_count} intervals of "
                f"{axis.every_s:.0f} s; its requests took {_sum_excess(group)} longer "
                f"than usual, all together"]
    evidence.append(_compare_loads(first))
    if first.is_others:
        evidence += [f"{_describe_job(job)} did {format_percent(part)} of the others' load there"
                     for job, part in first.jobs]
    else:
        evidence.append("a rebuild, a failing disk or the network may be behind it: iostats events")
    if like.factor is not None:
        evidence.append(describe_factor(like.factor) + (
            ": this may be its usual time" if like.factor < AS_USUAL else ""))
    about = {"file_system": history.file_system, "target": names[0],
             "targets": names, "known": known_share, "factor": first.factor, "usual_us": usual_us,
             "began": began, "ended": ended, "job": first.jobs[0][0].job if first.jobs else "",
             "user": first.jobs[0][0].user if first.jobs else "",
             "jobs": [{"job": job.job, "user": job.user, "part": part}
                      for job, part in first.jobs],
             "series": {"began": axis.began, "every_s": axis.every_s,
                        "latency_us": first.loads.latency_us, "own": first.loads.own,
                        "others": first.loads.others}}
    return Cause(BUSY_TARGET if first.is_others else SLOW_TARGET, weight,
                 _judge_confidence(first, like), cost, text, evidence, about)


def _count_known(target: SlowTarget) -> int:
    return sum(value is not None for value in target.loads.slowness)


def _judge_confidence(target: SlowTarget, like: LikeRuns) -> str:
    if like.factor is not None and like.factor < AS_USUAL:
        return LOW
    if not target.is_others:
        return MEDIUM
    is_one = bool(target.jobs) and target.jobs[0][1] >= 0.5
    return HIGH if is_one and like.factor is not None and like.factor >= SLOWER else MEDIUM


def _sum_excess(group: Iterable[SlowTarget]) -> str:
    seconds = sum(target.excess_us for target in group) / 1e6
    return words.format_time(seconds) if seconds < 100 else f"{seconds:,.0f} s"


def _request(target: SlowTarget) -> str:
    """Name the kind of request that took most of the job's time there."""
    line = target.loads.history.job
    if line is not None:
        spent = {direction: sum(value or 0 for value in line.amounts.get(f"{direction}s_us", ()))
                 or sum(value or 0 for value in line.amounts.get(f"{direction}s", ()))
                 for direction in ("read", "write")}
        whole = sum(value or 0 for value in line.amounts.get(
            "busy_us" if "reads_us" in line.amounts or "writes_us" in line.amounts
            else "requests", ()))
        for direction, amount in spent.items():
            if whole and amount >= 0.8 * whole:
                return f"a {direction}"
    return "a request"


def _describe_other_loads(target: SlowTarget, config: Config) -> str:
    loads, units = target.loads, config.report.units
    seconds = len(target.places) * loads.axis.every_s
    each = [f"{_describe_job(job)} {_format_load(job.line, target, seconds, units)}"
            for job, _ in target.jobs]
    if sum(part for _, part in target.jobs) >= _MOST_OF_IT:
        return words.join_words([f"{text} there" for text in each])
    amounts = {metric: sum((whole[place] or 0) - (of_job[place] or 0) for place in target.places)
               for metric in _METRICS
               for whole, of_job in [(spread_over_axis(loads.history.all, metric, loads.axis),
                                      spread_over_axis(loads.history.job, metric, loads.axis))]}
    together = f"other jobs together {words.format_heaviest_rate(amounts, seconds, units)} there"
    return f"{together} (of these {words.join_words(each)})" if each else together


def _format_load(line: Any, target: SlowTarget, seconds: float, units: str) -> str:
    amounts = {metric: sum(amounts_at[place] or 0 for place in target.places) for metric in _METRICS
               for amounts_at in [spread_over_axis(line, metric, target.loads.axis)]}
    return words.format_heaviest_rate(amounts, seconds, units)


def _describe_job(job: JobOnTarget) -> str:
    if not job.job:
        return "another user's job"
    if job.job == _NO_JOB:
        return "I/O that belongs to no job"
    return f"job {job.job} ({job.user})" if job.user else f"job {job.job}"


def _compare_loads(target: SlowTarget) -> str:
    """Compare the load of the other jobs, and the job's own, in these intervals and in all others.
    """
    inside = set(target.places)
    rows = [(place in inside, own, of_others) for place, (own, of_others, timed) in enumerate(zip(
        target.loads.own, target.loads.others, target.loads.timed))
        if own is not None and of_others is not None and is_enough(timed)]

    def mean(is_in: bool, column: int) -> float:
        amounts = [float(row[column] or 0) for row in rows if row[0] == is_in]
        return sum(amounts) / len(amounts) / target.loads.axis.every_s if amounts else 0.0
    then, else_ = ([words.format_load(mean(is_in, column)) for column in (2, 1)]
                   for is_in in (True, False))
    return (f"load there (requests, and MiB that they moved, a second): of others {then[0]}, at "
            f"other times {else_[0]}; its own {then[1]}, at other times {else_[1]}")
