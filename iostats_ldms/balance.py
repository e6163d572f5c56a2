"""
Balance: assign producers or metric sets to aggregators, and groups of daemons to instances.

Assignments are sticky.  If an aggregator fails, only its items move, to the aggregators with the
most free share; when it returns it gets a share back, and nothing moves between the others.  An
item stays where it is while all loads are within SLACK of the fair share.

The result depends on the arguments alone, not on their order, so two instances with the same view
compute the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from math import frexp, fsum, ldexp
from typing import NamedTuple

SLACK = 0.1                 # tolerated deviation, relative to the fair share
_LEAST = 1e-3               # minimum weight relative to the mean: spreads sets of size 0, too


def weigh_set(size_bytes: float, interval_us: float) -> float:
    """Return a metric set's cost in bytes per second; without an interval it counts once a day."""
    return size_bytes * 1e6 / (interval_us if interval_us > 0 else 86_400e6)


def assign_items(weights: Mapping[str, float], capacity: Mapping[str, float],
                 before: Mapping[str, str],
                 only: Mapping[str, Collection[str]] | None = None) -> dict[str, str]:
    """
    Assign each item of `weights` to an aggregator: {item: aggregator}; {} without aggregators.

    `weights`: {item: weight, 0 or more}; `capacity`: {aggregator that is up: its relative capacity,
    above 0}; `before`: {item: aggregator} so far, including aggregators that are down; `only`:
    {item: the aggregators able to take it}, for items that not every aggregator can take.  An item
    that no running aggregator can take is left out.

    Without `only`, no load exceeds the fair share by more than SLACK of it plus the largest weight.
    """
    fits = {item: sorted(set(names) & capacity.keys()) for item, names in (only or {}).items()
            if item in weights and not set(names) >= capacity.keys()}
    weights = {item: weight for item, weight in weights.items() if fits.get(item) != []}
    if not capacity or not weights:
        return {}
    # Scaled by a power of two, so that shares of tiny weights are not 0.
    exponent = -frexp(max(weights.values()))[1]
    weights = {item: ldexp(weight, exponent) for item, weight in weights.items()}
    least = _LEAST * fsum(weights.values()) / len(weights)
    costs = {item: max(weight, least) or 1.0 for item, weight in weights.items()}
    total, whole = fsum(costs.values()), fsum(capacity.values())
    fair = {name: total * part / whole for name, part in capacity.items()}
    retained = {item: name for item, name in before.items()
                if item in costs and name in fits.get(item, fair)}
    plan, loads = _place_rest(retained, costs, fair, fits)
    if not _is_balanced(loads, fair, max(costs.values())):
        plan_b, loads_b = _place_rest(_drop_excess(retained, costs, fair), costs, fair, fits)
        _fill_underloaded(plan_b, loads_b, costs, fair, fits)
        if not fits or _measure_imbalance(loads_b, fair) < _measure_imbalance(loads, fair):
            plan, loads = plan_b, loads_b
    _fill_idle(plan, loads, costs, fair, fits)
    return plan


def list_moved(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """List the items, sorted, whose aggregator changed; new items are not included."""
    return sorted(item for item, name in after.items() if before.get(item, name) != name)


def _is_balanced(loads: Mapping[str, float], fair: Mapping[str, float], largest: float) -> bool:
    """True if every load is within SLACK, or within the largest item, of its fair share."""
    return all(abs(load - fair[name]) <= max(SLACK * fair[name], largest)
               for name, load in loads.items())


def _measure_imbalance(loads: Mapping[str, float], fair: Mapping[str, float]) -> float:
    """Return the weighted variance of the loads around their fair shares, rounded."""
    return round(fsum((loads[name] / share - 1) ** 2 * share for name, share in fair.items())
                 / fsum(fair.values()), 9)


def _drop_excess(plan: Mapping[str, str], costs: Mapping[str, float],
                 fair: Mapping[str, float]) -> dict[str, str]:
    """Return `plan` without items above the aggregators' fair shares, the largest removed first."""
    items_of: dict[str, list[str]] = {name: [] for name in fair}
    for item, name in plan.items():
        items_of[name].append(item)
    left = dict(plan)
    for name, items in items_of.items():
        excess = fsum(costs[item] for item in items) - fair[name]
        for item in sorted(items, key=lambda item: (-costs[item], item)):
            if costs[item] <= excess:
                excess -= costs[item]
                del left[item]
    return left


def _fill_underloaded(plan: dict[str, str], loads: dict[str, float], costs: Mapping[str, float],
                      fair: Mapping[str, float], fits: Mapping[str, list[str]]) -> None:
    """
    Move items to aggregators far below their share from the most overloaded ones.

    The excess of each aggregator may be smaller than an item, and still add up to a whole share.
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


def _fill_idle(plan: dict[str, str], loads: Mapping[str, float], costs: Mapping[str, float],
               fair: Mapping[str, float], fits: Mapping[str, list[str]]) -> None:
    """
    Give each aggregator without items part of the load of the aggregator that can spare most.

    One item may be more than an aggregator's whole share; without this step an aggregator that
    returns could stay empty forever.
    """
    for name in sorted(name for name, load in loads.items() if not load):
        items_of: dict[str, list[str]] = {}
        for item, owner in plan.items():
            items_of.setdefault(owner, []).append(item)
        spare = {owner: (fsum(map(costs.__getitem__, items)) - max(map(costs.__getitem__, items)))
                 / fair[owner] for owner, items in items_of.items() if len(items) > 1}
        for owner in sorted(spare, key=lambda owner: (-spare[owner], owner)):
            left, moved = fsum(costs[item] for item in items_of[owner]), 0.0
            for item in sorted(items_of[owner], key=lambda item: (-costs[item], item)):
                cost = costs[item]
                if name in fits.get(item, fair) and \
                        (left - cost) / fair[owner] >= (moved + cost) / fair[name]:
                    plan[item], left, moved = name, left - cost, moved + cost
            if moved:
                break


def _place_rest(plan: Mapping[str, str], costs: Mapping[str, float], fair: Mapping[str, float],
                fits: Mapping[str, list[str]]) -> tuple[dict[str, str], dict[str, float]]:
    """
    Complete `plan`; return (plan, loads).

    Items that only some aggregators can take are placed first, then the others, the largest first,
    each where most of the share is free.
    """
    result, loads = dict(plan), dict.fromkeys(fair, 0.0)
    largest_first = sorted(costs, key=lambda item: (-costs[item], item))
    for item in largest_first:
        if item in result:
            loads[result[item]] += costs[item]
    for item in largest_first:
        if item in fits and item not in result:
            name = min(fits[item], key=lambda name: (loads[name] / fair[name], name))
            loads[name] += costs[item]
            result[item] = name
    heap = [(loads[name] / fair[name], name) for name in fair]
    heapq.heapify(heap)
    for item in largest_first:
        if item not in result:
            _, name = heap[0]
            loads[name] += costs[item]
            result[item] = name
            heapq.heapreplace(heap, (loads[name] / fair[name], name))
    return result, loads


class SetPlacement(NamedTuple):
    """The placement of producers whose metric sets are balanced one by one."""

    places: dict[str, str]  # {producer: the aggregator with all or most of its sets}
    # {producer: {set: aggregator}} of producers shared by several aggregators
    split: dict[str, dict[str, str]]


def assign_sets(sets: Mapping[str, Mapping[str, float]], capacity: Mapping[str, float],
                before: SetPlacement) -> SetPlacement:
    """
    Assign every metric set to an aggregator, keeping producers whole where that is fair.

    A whole producer is cheapest: an aggregator that gives away some of a producer's sets has to
    reconnect to it, because ldmsd forgets a set only together with its producer.

    `sets`: {producer: {set: weight}}; {} for a producer whose sets are unknown, which counts as the
    mean of the others.  `capacity`: of the aggregators that are up.  A split producer stays split
    while the shares are fair.
    """
    known = [fsum(items_of.values()) for items_of in sets.values() if items_of]
    mean = fsum(known) / len(known) if known else 1.0
    weights = {name: fsum(items_of.values()) if items_of else mean for name, items_of
               in sets.items()}
    largest = max((weight for items_of in sets.values() for weight in items_of.values()),
                  default=mean)
    if not any(name in sets for name in before.split):
        places = assign_items(weights, capacity, before.places)
        if _is_balanced_split(places, weights, capacity, largest):
            return SetPlacement(places, {})
    items = {(name, set_name): weight for name, items_of in sets.items()
             for set_name, weight in (items_of or {"": mean}).items()}
    keys = {f"{name}\0{set_name}": (name, set_name) for name, set_name in items}
    was = {}
    for key, (name, set_name) in keys.items():
        place = before.split.get(name, {}).get(set_name, before.places.get(name))
        if place is not None:
            was[key] = place
    plan = assign_items({key: items[item] for key, item in keys.items()}, capacity, was)
    of_producer: dict[str, dict[str, str]] = {}
    for key, place in plan.items():
        name, set_name = keys[key]
        of_producer.setdefault(name, {})[set_name] = place
    places = {name: _find_main_aggregator(items_of, sets[name]) for name, items_of
              in of_producer.items()}
    return SetPlacement(places, {name: items_of for name, items_of in of_producer.items()
                                 if len(set(items_of.values())) > 1})


def _is_balanced_split(places: Mapping[str, str], weights: Mapping[str, float],
                       capacity: Mapping[str, float], largest: float) -> bool:
    """True if no aggregator exceeds its share by more than SLACK plus the largest set."""
    loads = dict.fromkeys(capacity, 0.0)
    for name, place in places.items():
        loads[place] += weights[name]
    total, whole = fsum(loads.values()), fsum(capacity.values())
    return all(load <= (1 + SLACK) * total * capacity[name] / whole + largest
               for name, load in loads.items())


def _find_main_aggregator(items_of: Mapping[str, str], weights: Mapping[str, float]) -> str:
    """Return the aggregator with the largest part of a producer's sets."""
    loads: dict[str, float] = {}
    for item, place in items_of.items():
        loads[place] = loads.get(place, 0.0) + weights.get(item, 1.0)
    return max(sorted(loads), key=lambda place: loads[place])


class GroupShare(NamedTuple):
    """The changes an instance makes to its groups."""

    take: list[str]     # unowned groups to acquire, the largest first
    give: list[str]     # own groups to release, the smallest first


def share_groups(me: str, groups: Mapping[str, int], instances: Collection[str],
                 owners: Mapping[str, str]) -> GroupShare:
    """
    Return the GroupShare of the instance `me`.

    Every instance owns the same number of groups, or one more.  Owners change only if that is
    violated, and then the smallest groups are released.  The result depends on the contents of etcd
    alone, so instances that read the same compute the same plan.

    `groups`: {group: number of daemons}; `instances`: the running instances, with or without `me`;
    `owners`: {group: instance}. Groups of `me` that are not in `groups` are released.
    """
    old = sorted(group for group, owner in owners.items() if owner == me and group not in groups)
    if me not in instances:
        return GroupShare([], old)
    has: dict[str, list[str]] = {name: [] for name in instances}
    for group in sorted(groups, key=lambda group: (groups[group], group)):
        if owners.get(group) in has:
            has[owners[group]].append(group)
    whole, more = divmod(len(groups), len(has))
    # Instances with the most groups get the larger shares, so that fewer move.
    limits = {name: whole + (place < more) for place, name in enumerate(
        sorted(has, key=lambda name: (-len(has[name]), name)))}
    give = has[me][:max(0, len(has[me]) - limits[me])]
    # Groups that others are about to release are shared again when they are free.
    free = [group for group in groups if group not in owners]
    take: list[str] = []
    load = {name: sum(groups[group] for group in owned[max(0, len(owned) - limits[name]):])
            for name, owned in has.items()}
    count = {name: min(len(owned), limits[name]) for name, owned in has.items()}
    for group in sorted(free, key=lambda group: (-groups[group], group)):
        open_to = [name for name in has if count[name] < limits[name]]
        if not open_to:
            break
        name = min(open_to, key=lambda name: (load[name], name))
        load[name] += groups[group]
        count[name] += 1
        if name == me:
            take.append(group)
    return GroupShare(take, [*old, *give])
