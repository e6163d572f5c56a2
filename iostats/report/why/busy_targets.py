"""
OSTs and MDTs that were slow for a job, and the jobs that loaded them.

An interval is slow where the job's requests took twice their usual time.  It is another job's doing
where the others' load had risen, and the job's own had not: where the target was as fast as usual
in other intervals in which the job asked as much of it, or where the others' load rose by more.
Others that were busy while the target stayed fast are no cause, so the slow intervals have to be
those of their load.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.load.amounts import is_mdt
from iostats.report.why.axis import compute_upper_median
from iostats.report.why.target_loads import load, read_loads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from iostats.load.time_lines import JobOnTarget, TargetHistory
    from iostats.report.why.axis import Amounts
    from iostats.report.why.target_loads import TargetLoads

SLOW = 2.0                          # times the usual
SLOW_ALONE = 3.0                    # where no load explains it
_FEWEST, _FEWEST_ALONE = 3, 5       # slow intervals
FEWEST_KNOWN = 8                    # intervals with a latency, or a target is not judged
_SMALLEST_PART = 0.03               # of the time of all the job's requests
_AS_MUCH = 0.8                      # of the job's own load: as much as in a slow interval
_ROSE = 1.5                         # times: the load of others, where it explains anything
_CAME, _OF_OTHERS = 3.0, 0.2         # the same of a single one; and its part of the others' load
_OF_OWN = 0.25                      # of the job's own load, at least: that of others
_OF_RISE = 0.2                      # of what others did more: a job that is named
_EXPLAINED = 0.6                    # of the time lost in slow intervals
_APART, _SURELY_APART = 0.75, 0.9   # of the pairs of a slow and another interval: more load in the
                                    # slow one (0.5 is chance)


class SlowTarget(NamedTuple):
    """A target that was slow for a job."""

    loads: TargetLoads
    places: list[int]   # [place on the axis] of the intervals it is about
    excess_us: float    # by how much the job's requests took longer than usual, together
    part: float         # that by the time of all the job's requests on all targets
    factor: float       # by how much a request took longer than usual
    is_others: bool     # other jobs' load explains it; else none that is known does
    # [(JobOnTarget, its part of the others' load)], of those with most of it
    jobs: list[tuple[JobOnTarget, float]]
    more: int           # how many others are known on the target
    # began, ended: seconds since 1970 of the first and behind the last of the intervals
    began: float
    ended: float


def find_slow_targets(targets: Iterable[TargetHistory],
                      without: Sequence[tuple[float, float]] = ()) -> tuple[list[SlowTarget], int]:
    """Return ([SlowTarget], the slowest first; the number of targets with enough data to judge).

    `without`: [(began, ended)] of what explains itself: a target that was down.
    """
    targets = list(targets)
    readable = [loads for target in targets for loads in [read_loads(target, [
        peer for peer in targets if peer is not target and peer.file_system == target.file_system
        and is_mdt(peer.target) == is_mdt(target.target)])] if loads is not None]
    time_of_all = sum(_sum_known(loads.busy_us) for loads in readable)
    slow_ones, count_judged = [], 0
    for loads in readable:
        if time_of_all and _sum_known(loads.busy_us) >= _SMALLEST_PART * time_of_all:
            slow, enough = _judge_target(loads, time_of_all, without)
            count_judged += enough
            slow_ones += [slow] if slow else []
    return sorted(slow_ones,
                  key=lambda target: (-target.excess_us, target.loads.history.target)), count_judged


def _sum_known(amounts: Iterable[float | None]) -> float:
    return sum(amount for amount in amounts if amount is not None)


def _judge_target(loads: TargetLoads, time_of_all: float,
                  without: Sequence[tuple[float, float]]) -> tuple[SlowTarget | None, bool]:
    """Return (SlowTarget or None if it was not slow, whether the data suffice to decide)."""
    axis = loads.axis
    rows = {place: (slowness, own, of_others)
        for place, (slowness, own, of_others) in enumerate(zip(
        loads.slowness, loads.own, loads.others))
        if slowness is not None and own is not None and of_others is not None
        and not any(began < axis.began + (place + 1) * axis.every_s
                    and axis.began + place * axis.every_s < ended for began, ended in without)}
    if len(rows) < FEWEST_KNOWN:
        return None, False
    slow = [place for place in rows if rows[place][0] >= SLOW]
    fast = [place for place in rows if rows[place][0] < SLOW]
    if len(slow) < _FEWEST:
        return None, True
    excess = {place: (loads.busy_us[place] or 0) * (1 - 1 / rows[place][0]) for place in slow}
    lost = sum(excess.values())
    by_others: list[int] = []
    for of_others in _list_other_loads(loads):
        places = _find_explained(loads, rows, slow, fast, of_others)
        if sum(excess[place] for place in places) > sum(excess[place] for place in by_others):
            by_others = places
    if (len(by_others) >= _FEWEST
            and sum(excess[place] for place in by_others) >= _EXPLAINED * lost):
        return _make_slow_target(loads, by_others, excess, time_of_all, True), True
    own_fast = sorted(rows[place][1] for place in fast)
    alone = [place for place in _find_runs(set(slow), [*rows]) if rows[place][0] >= SLOW_ALONE
             and _count_at_least(own_fast, _AS_MUCH * rows[place][1]) >= 3]
    if (len(alone) >= _FEWEST_ALONE
            and sum(excess[place] for place in alone) >= _EXPLAINED * lost
            and not _go_together([rows[place][1] for place in alone], own_fast, _SURELY_APART)):
        return _make_slow_target(loads, alone, excess, time_of_all, False), True
    return None, True


def _count_at_least(ordered: Sequence[float], least: float) -> int:
    """Count the values that are `least` or more."""
    return len(ordered) - bisect_left(ordered, least)


def _find_runs(slow: AbstractSet[int], known: Sequence[int]) -> list[int]:
    """Places of slow intervals that follow each other; a target hiccups now and then."""
    places: list[int] = []
    run: list[int] = []
    for place in (*known, -1):
        if place in slow:
            run.append(place)
        else:
            places += run if len(run) >= _FEWEST else []
            run = []
    return places


def _list_other_loads(loads: TargetLoads) -> list[Amounts]:
    """List the loads that may explain it: that of all others together, and of each known one."""
    each = [load(job.line, loads.axis) for job in loads.history.others]
    return [loads.others, *([None if all_of is None else amount or 0.0
                             for amount, all_of in zip(of_job, loads.others)] for of_job in each)]


def _find_explained(loads: TargetLoads, rows: dict[int, tuple[float, float, float]],
                    slow: Sequence[int], fast: Sequence[int], of_others: Amounts) -> list[int]:
    """Return the places of slow intervals that the load `of_others` explains."""
    is_all = of_others is loads.others
    there = {place: of_others[place] or 0.0 for place in rows}
    if len(fast) >= _FEWEST:
        own_usual = compute_upper_median(rows[place][1] for place in fast)
        below = [there[place] for place in fast]
    else:                                   # compared with the time in which the job was not there
        own_usual = 0.0
        below = loads.outside if is_all else [0.0]
    usual = compute_upper_median(below)
    rose = [place for place in slow
            if there[place] >= max((_ROSE if is_all else _CAME) * usual,
                                   _OF_OWN * rows[place][1],
                                   0 if is_all else _OF_OTHERS * rows[place][2])
            and there[place] > 0]
    own_fast = sorted(rows[place][1] for place in fast)
    rises = [place for place in rose
             if _count_at_least(own_fast, _AS_MUCH * rows[place][1]) >= 2
             or there[place] - usual >= 1.5 * max(0.0, rows[place][1] - own_usual)]
    if not rises or not _go_together([there[place] for place in slow], below):
        return []
    if not is_all:
        # It has to be slow, mostly, when this one does as much.
        least = 0.5 * compute_upper_median(there[place] for place in rises)
        if sum(there[place] >= least for place in fast) > 0.5 * len(rises):
            return []
    return rises


def _go_together(above: Sequence[float], below: Sequence[float], share: float = _APART) -> bool:
    """Whether a load was higher in slow intervals than in the other ones."""
    ordered, won, at = sorted(below), 0, 0
    for value in sorted(above):
        while at < len(ordered) and ordered[at] < value:
            at += 1
        won += at
    return bool(ordered) and won >= share * len(above) * len(ordered)


def _make_slow_target(loads: TargetLoads, places: list[int], excess: dict[int, float],
                      time_of_all: float,
                      is_others: bool) -> SlowTarget:
    axis, lost = loads.axis, sum(excess[place] for place in places)
    spent = sum(loads.busy_us[place] or 0 for place in places)
    inside = set(places)
    rises: list[tuple[float, JobOnTarget, float]] = []
    whole = sum(loads.others[place] or 0 for place in places)
    for job in loads.history.others if is_others else ():
        amounts = load(job.line, axis)
        there = sum(amounts[place] or 0 for place in places)
        else_ = [amount or 0 for place, amount in enumerate(amounts) if place not in inside]
        usual = sum(else_) / len(else_) if else_ else 0.0
        rises.append((there / len(places) - usual, job,
                      min(1.0, there / whole) if whole else 0.0))
    # Those whose load has risen, by how much of all that has.
    rises.sort(key=lambda row: (-row[0], row[1].job))
    known = [amount or 0 for place, amount in enumerate(loads.others) if place not in inside]
    risen = max(whole / len(places) - (sum(known) / len(known) if known else 0.0),
                max((rise for rise, _, _ in rises), default=0.0))
    jobs = [(job, part) for rise, job, part in rises if rise >= _OF_RISE * risen > 0][:2]
    return SlowTarget(loads, places, lost, lost / time_of_all,
                spent / (spent - lost) if spent > lost else 0.0, is_others,
                jobs, len(loads.history.others),
                axis.began + places[0] * axis.every_s, axis.began + (places[-1] + 1) * axis.every_s)
