"""
Targets that were slow for a job, as causes: what is the same of several of one file system once.
"""

from __future__ import annotations

from iostats.base.units import percent_text
from iostats.load.amounts import is_mdt
from iostats.report.why import words
from iostats.report.why.axis import on_axis
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
from iostats.report.why.like_runs import AS_USUAL, beside
from iostats.report.why.target_loads import enough

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.load.time_lines import JobOnTarget
    from iostats.report.why.busy_targets import SlowTarget
    from iostats.report.why.like_runs import LikeRuns
    from iostats.report.why.time_in_lustre import TimeInLustre

_NO_JOB = "(no job)"
_MOST_NAMED = 3                     # targets
_MOST_OF_IT = 0.5                   # of the others' load, or it is not said to be of those alone
_METRICS = ("read_bytes", "write_bytes", "requests")


def causes_of_slow(slow: Sequence[SlowTarget], time: TimeInLustre, elapsed_s: float | None,
                   node_seconds: float | None, like: LikeRuns, config: Any) -> list[Cause]:
    """[Cause] of slow targets, without what cost hardly anything; `node_seconds`: of the job."""
    groups: dict[tuple[object, ...], list[SlowTarget]] = {}
    for one in slow:
        history = one.loads.history
        key = (history.file_system, is_mdt(history.target), one.is_others,
               one.jobs[0][0].job if one.jobs else None)
        groups.setdefault(key, []).append(one)
    found = [_cause(group, _weight(group, time, elapsed_s, node_seconds),
                    _most(group, time, elapsed_s), _known_part(group[0], elapsed_s), like, config)
             for group in groups.values()]
    return [one for one in found if one.weight >= SMALLEST]


def _weight(group: Sequence[SlowTarget], time: TimeInLustre, elapsed_s: float | None,
            node_seconds: float | None) -> float:
    """The part of the job's time that it cost, estimated: where calls took longer by as much."""
    excess_s = sum(one.excess_us for one in group) / 1e6
    weight = _most(group, time, elapsed_s)
    weight = 1.0 if weight is None else weight
    if time.busiest_share is not None:
        weight = min(weight, time.busiest_share * sum(one.part for one in group))
        if node_seconds and time.share:
            # Of the node that waited most.
            weight = min(weight, excess_s / node_seconds * time.busiest_share / time.share)
    return weight


def _most(group: Sequence[SlowTarget], time: TimeInLustre,
          elapsed_s: float | None) -> float | None:
    """
    The part of the run time that it cost, at most; None where that is not known.

    A call that waits for a request waits as much longer as the request takes; so the nodes have
    waited as long as the servers measured, no longer than all of their calls took, and only then.
    """
    if not elapsed_s:
        return None
    most: float = min(sum(one.excess_us for one in group) / 1e6, _longest_s(group)) / elapsed_s
    return min(1.0, most, float(time.serial_share) if time.is_whole else 1.0)


def _longest_s(group: Sequence[SlowTarget]) -> float:
    """How long the job can have waited: all of each slow interval, but for its usual time."""
    found: dict[float, float] = {}
    for one in group:
        axis = one.loads.axis
        for place in one.places:
            began = axis.began + place * axis.every_s
            lost = axis.every_s * (1 - 1 / (one.loads.slowness[place] or 1))
            found[began] = max(lost, found.get(began, 0.0))
    return sum(found.values())


def _known_part(one: SlowTarget, elapsed_s: float | None) -> float:
    """Of the job's time, the part of which its load on the target is known."""
    known_s = one.loads.axis.every_s * sum(own is not None for own in one.loads.own)
    return min(1.0, known_s / elapsed_s) if elapsed_s else 1.0


def _cause(group: list[SlowTarget], weight: float, cost: float | None, known: float,
           like: LikeRuns, config: Any) -> Cause:
    first = group[0]
    history, axis = first.loads.history, first.loads.axis
    label = config.labels.get(history.file_system, history.file_system)
    names = [one.loads.history.target for one in group]
    shown = words.listed(names) if len(names) <= _MOST_NAMED else (
        f"{names[0]} and {len(names) - 1} more")
    began, ended = min(one.began for one in group), max(one.ended for one in group)
    form = words.form_of(axis.began, axis.began + axis.count * axis.every_s)
    usual_us = first.loads.usual_us
    request = _request(first)
    text = (f"{shown} of {label} {'was' if len(names) == 1 else 'were'} "
            f"{'busy' if first.is_others else 'slow'}: {request} took {words.times(first.factor)} "
            f"its usual{f' {words.each(usual_us / 1e6)}' if usual_us else ' time'} "
            f"{words.span(began, ended, form)}")
    text += f", while {_who(first, config)}" if first.is_others else (
        ", and no load that is known explains it")
    evidence = [f"{sum(len(one.places) for one in group)} of "
                f"{sum(_known(one) for one in group)} intervals of {axis.every_s:.0f} s; its "
                f"requests took {_seconds(group)} longer than usual, all together"]
    evidence.append(_loads_then(first))
    if first.is_others:
        evidence += [f"{_name(other)} did {percent_text(part)} of the others' load there"
                     for other, part in first.jobs]
    else:
        evidence.append("a rebuild, a failing disk or the network may be behind it: iostats events")
    if like.factor is not None:
        evidence.append(beside(like.factor) + (
            ": it may be as it always is" if like.factor < AS_USUAL else ""))
    about = {"file_system": history.file_system, "target": names[0],
             "targets": names, "known": known, "factor": first.factor, "usual_us": usual_us,
             "began": began, "ended": ended, "job": first.jobs[0][0].job if first.jobs else "",
             "user": first.jobs[0][0].user if first.jobs else "",
             "jobs": [{"job": other.job, "user": other.user, "part": part}
                      for other, part in first.jobs],
             "series": {"began": axis.began, "every_s": axis.every_s,
                        "latency_us": first.loads.latency_us, "own": first.loads.own,
                        "others": first.loads.others}}
    return Cause(BUSY_TARGET if first.is_others else SLOW_TARGET, weight,
                 _confidence(first, like), cost, text, evidence, about)


def _known(one: SlowTarget) -> int:
    return sum(value is not None for value in one.loads.slowness)


def _confidence(one: SlowTarget, like: LikeRuns) -> str:
    if like.factor is not None and like.factor < AS_USUAL:
        return LOW
    if not one.is_others:
        return MEDIUM
    is_one = bool(one.jobs) and one.jobs[0][1] >= 0.5
    return HIGH if is_one and like.factor is not None and like.factor >= SLOWER else MEDIUM


def _seconds(group: Iterable[SlowTarget]) -> str:
    seconds = sum(one.excess_us for one in group) / 1e6
    return words.each(seconds) if seconds < 100 else f"{seconds:,.0f} s"


def _request(one: SlowTarget) -> str:
    """What most of the job's time there went into."""
    line = one.loads.history.job
    if line is not None:
        spent = {way: sum(value or 0 for value in line.amounts.get(f"{way}s_us", ()))
                 or sum(value or 0 for value in line.amounts.get(f"{way}s", ()))
                 for way in ("read", "write")}
        whole = sum(value or 0 for value in line.amounts.get(
            "busy_us" if "reads_us" in line.amounts or "writes_us" in line.amounts
            else "requests", ()))
        for way, amount in spent.items():
            if whole and amount >= 0.8 * whole:
                return f"a {way}"
    return "a request"


def _who(one: SlowTarget, config: Any) -> str:
    loads, units = one.loads, config["report.units"]
    seconds = len(one.places) * loads.axis.every_s
    each = [f"{_name(other)} {_did(other.line, one, seconds, units)}" for other, _ in one.jobs]
    if sum(part for _, part in one.jobs) >= _MOST_OF_IT:
        return words.listed([f"{text} there" for text in each])
    amounts = {metric: sum((whole[place] or 0) - (mine[place] or 0) for place in one.places)
               for metric in _METRICS
               for whole, mine in [(on_axis(loads.history.all, metric, loads.axis),
                                    on_axis(loads.history.job, metric, loads.axis))]}
    together = f"other jobs together {words.rate(amounts, seconds, units)} there"
    return f"{together} (of these {words.listed(each)})" if each else together


def _did(line: Any, one: SlowTarget, seconds: float, units: str) -> str:
    amounts = {metric: sum(found[place] or 0 for place in one.places) for metric in _METRICS
               for found in [on_axis(line, metric, one.loads.axis)]}
    return words.rate(amounts, seconds, units)


def _name(other: JobOnTarget) -> str:
    if not other.job:
        return "another user's job"
    if other.job == _NO_JOB:
        return "I/O that belongs to no job"
    return f"job {other.job} ({other.user})" if other.user else f"job {other.job}"


def _loads_then(one: SlowTarget) -> str:
    """The others' load, and the job's own, in these intervals beside all others."""
    inside = set(one.places)
    rows = [(place in inside, own, others) for place, (own, others, timed) in enumerate(zip(
        one.loads.own, one.loads.others, one.loads.timed))
        if own is not None and others is not None and enough(timed)]

    def mean(is_in: bool, which: int) -> float:
        found = [float(row[which] or 0) for row in rows if row[0] == is_in]
        return sum(found) / len(found) / one.loads.axis.every_s if found else 0.0
    then, else_ = ([words.number(mean(is_in, which)) for which in (2, 1)]
                   for is_in in (True, False))
    return (f"load there (requests, and MiB that they moved, a second): of others {then[0]}, at "
            f"other times {else_[0]}; its own {then[1]}, at other times {else_[1]}")
