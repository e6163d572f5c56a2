"""
Which aggregator collects what: producers by their number, or metric sets by their weight.

Nothing moves without need.  Where an aggregator fails, only what it had goes elsewhere, to those
with the most room; one that comes back gets its share, and nothing moves between the others.  What
has an aggregator stays there as long as all loads are within SLACK of what is fair.

All is decided by the arguments alone, whatever their order: two instances that see the same come
to the same plan.
"""

from __future__ import annotations

import heapq
from math import frexp, fsum, ldexp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SLACK = 0.1                 # of an aggregator's fair share
_LEAST = 1e-3               # of the mean weight: sets without a size are spread by their number


def set_weight(size_bytes: float, interval_us: float) -> float:
    """What a metric set costs: its bytes a second; where it is not updated, those of a day."""
    return size_bytes * 1e6 / (interval_us if interval_us > 0 else 86_400e6)


def balanced(weights: Mapping[str, float], capacity: Mapping[str, float],
             before: Mapping[str, str],
             only: Mapping[str, Collection[str]] | None = None) -> dict[str, str]:
    """
    {item: aggregator} for each item of `weights`; {} where there is no aggregator.

    `weights`: {item: its weight, 0 or more}; `capacity`: {aggregator: its part, above 0, of what it
    can take}, of those that are up; `before`: {item: aggregator} as it is, with what is gone now;
    `only`: {item: the aggregators that can take it}, of items that not all can take; one that none
    can take that is up has no aggregator.

    Each item has one aggregator.  Without `only` no load is above (1 + SLACK) of the aggregator's
    fair share and the largest weight.
    """
    fits = {item: sorted(set(names) & capacity.keys()) for item, names in (only or {}).items()
            if item in weights and not set(names) >= capacity.keys()}
    weights = {item: weight for item, weight in weights.items() if fits.get(item) != []}
    if not capacity or not weights:
        return {}
    # In units of a power of two, in which shares of tiny weights are not 0.
    exponent = -frexp(max(weights.values()))[1]
    weights = {item: ldexp(weight, exponent) for item, weight in weights.items()}
    least = _LEAST * fsum(weights.values()) / len(weights)
    costs = {item: max(weight, least) or 1.0 for item, weight in weights.items()}
    total, whole = fsum(costs.values()), fsum(capacity.values())
    fair = {name: total * part / whole for name, part in capacity.items()}
    kept = {item: name for item, name in before.items()
            if item in costs and name in fits.get(item, fair)}
    plan, loads = _placed(kept, costs, fair, fits)
    if not _is_fair(loads, fair, max(costs.values())):
        other, other_loads = _placed(_with_room(kept, costs, fair), costs, fair, fits)
        _fill(other, other_loads, costs, fair, fits)
        if not fits or _unfairness(other_loads, fair) < _unfairness(loads, fair):
            plan, loads = other, other_loads
    _fill_empty(plan, loads, costs, fair, fits)
    return plan


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The items that have another aggregator than before, in their order; new ones are not."""
    return sorted(item for item, name in after.items() if before.get(item, name) != name)


def _is_fair(loads: Mapping[str, float], fair: Mapping[str, float], largest: float) -> bool:
    """Whether none is far from its share; by one item it always may be."""
    return all(abs(load - fair[name]) <= max(SLACK * fair[name], largest)
               for name, load in loads.items())


def _unfairness(loads: Mapping[str, float], fair: Mapping[str, float]) -> float:
    """How far the loads are from the shares, the more so the larger: rounded, for a comparison."""
    return round(fsum((loads[name] / share - 1) ** 2 * share for name, share in fair.items())
                 / fsum(fair.values()), 9)


def _with_room(plan: Mapping[str, str], costs: Mapping[str, float],
               fair: Mapping[str, float]) -> dict[str, str]:
    """`plan` without what is above the aggregators' shares; the largest go first."""
    of: dict[str, list[str]] = {name: [] for name in fair}
    for item, name in plan.items():
        of[name].append(item)
    left = dict(plan)
    for name, items in of.items():
        excess = fsum(costs[item] for item in items) - fair[name]
        for item in sorted(items, key=lambda item: (-costs[item], item)):
            if costs[item] <= excess:
                excess -= costs[item]
                del left[item]
    return left


def _fill(plan: dict[str, str], loads: dict[str, float], costs: Mapping[str, float],
          fair: Mapping[str, float], fits: Mapping[str, list[str]]) -> None:
    """
    Give those that are far below their share an item of who has most above it: what each has above
    may be less than an item, and together be a share.
    """
    largest = max(costs.values())
    while True:
        low = max(fair, key=lambda name: (fair[name] - loads[name], name))
        if fair[low] - loads[low] <= max(SLACK * fair[low], largest):
            return
        over = [item for item, name in plan.items()
                if loads[name] > fair[name] and low in fits.get(item, fair)]
        if not over:
            return
        item = min(over, key=lambda item: (fair[plan[item]] - loads[plan[item]], -costs[item],
                                           item))
        loads[plan[item]] -= costs[item]
        loads[low] += costs[item]
        plan[item] = low


def _fill_empty(plan: dict[str, str], loads: Mapping[str, float], costs: Mapping[str, float],
                fair: Mapping[str, float], fits: Mapping[str, list[str]]) -> None:
    """
    Give each aggregator that has nothing a part of what the one has that can spare most.

    By one item an aggregator may be below its share, and where items are few, or one is large, that
    would be all of it: one that comes back would stay empty for good.
    """
    for name in sorted(name for name, load in loads.items() if not load):
        of: dict[str, list[str]] = {}
        for item, other in plan.items():
            of.setdefault(other, []).append(item)
        spare = {other: (fsum(map(costs.__getitem__, items)) - max(map(costs.__getitem__, items)))
                 / fair[other] for other, items in of.items() if len(items) > 1}
        for other in sorted(spare, key=lambda other: (-spare[other], other)):
            left, taken = fsum(costs[item] for item in of[other]), 0.0
            for item in sorted(of[other], key=lambda item: (-costs[item], item)):
                cost = costs[item]
                if name in fits.get(item, fair) and \
                        (left - cost) / fair[other] >= (taken + cost) / fair[name]:
                    plan[item], left, taken = name, left - cost, taken + cost
            if taken:
                break


def _placed(plan: Mapping[str, str], costs: Mapping[str, float], fair: Mapping[str, float],
            fits: Mapping[str, list[str]]) -> tuple[dict[str, str], dict[str, float]]:
    """
    (`plan` and all that has no place in it, the loads then); the largest first, each where most of
    the share is free; those first that not all can take.
    """
    found, loads = dict(plan), dict.fromkeys(fair, 0.0)
    largest_first = sorted(costs, key=lambda item: (-costs[item], item))
    for item in largest_first:
        if item in found:
            loads[found[item]] += costs[item]
    for item in largest_first:
        if item in fits and item not in found:
            name = min(fits[item], key=lambda name: (loads[name] / fair[name], name))
            loads[name] += costs[item]
            found[item] = name
    heap = [(loads[name] / fair[name], name) for name in fair]
    heapq.heapify(heap)
    for item in largest_first:
        if item not in found:
            _, name = heap[0]
            loads[name] += costs[item]
            found[item] = name
            heapq.heapreplace(heap, (loads[name] / fair[name], name))
    return found, loads
