"""
Balance by metric sets: a producer is whole where that is fair, and shared among aggregators where
it is not.

Whole producers cost least: an aggregator that gives away some sets of a producer has to connect to
it anew, since ldmsd forgets a set only with its producer.
"""

from __future__ import annotations

from collections import namedtuple
from math import fsum

from iostats.ldms.balance import SLACK, balanced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

Shares = namedtuple("Shares", "places split")
Shares.__doc__ = """
Attributes:
    places: {producer: the aggregator that has it, or most of it}.
    split: {producer: {set: aggregator}} of producers that several aggregators share.
"""


def shared_out(sets: Mapping[str, Mapping[str, float]], capacity: Mapping[str, float],
               before: Shares) -> Shares:
    """
    Give each set of each producer its place.

    `sets`: {producer: {set: weight}}; {} for one whose sets are not known: it counts as the mean
    of the others.  `capacity`: of the aggregators that are up.  A producer that is split stays so
    while the shares are fair.
    """
    known = [fsum(of.values()) for of in sets.values() if of]
    mean = fsum(known) / len(known) if known else 1.0
    weights = {name: fsum(of.values()) if of else mean for name, of in sets.items()}
    largest = max((weight for of in sets.values() for weight in of.values()), default=mean)
    if not any(name in sets for name in before.split):
        places = balanced(weights, capacity, before.places)
        if _is_fair(places, weights, capacity, largest):
            return Shares(places, {})
    items = {(name, one): weight for name, of in sets.items()
             for one, weight in (of or {"": mean}).items()}
    keys = {f"{name}\0{one}": (name, one) for name, one in items}
    was = {}
    for key, (name, one) in keys.items():
        place = before.split.get(name, {}).get(one, before.places.get(name))
        if place is not None:
            was[key] = place
    plan = balanced({key: items[item] for key, item in keys.items()}, capacity, was)
    of_producer: dict[str, dict[str, str]] = {}
    for key, place in plan.items():
        name, one = keys[key]
        of_producer.setdefault(name, {})[one] = place
    places = {name: _most(of, sets[name]) for name, of in of_producer.items()}
    return Shares(places, {name: of for name, of in of_producer.items()
                           if len(set(of.values())) > 1})


def _is_fair(places: Mapping[str, str], weights: Mapping[str, float],
             capacity: Mapping[str, float], largest: float) -> bool:
    loads = dict.fromkeys(capacity, 0.0)
    for name, place in places.items():
        loads[place] += weights[name]
    total, whole = fsum(loads.values()), fsum(capacity.values())
    return all(load <= (1 + SLACK) * total * capacity[name] / whole + largest
               for name, load in loads.items())


def _most(of: Mapping[str, str], weights: Mapping[str, float]) -> str:
    loads: dict[str, float] = {}
    for one, place in of.items():
        loads[place] = loads.get(place, 0.0) + weights.get(one, 1.0)
    return max(sorted(loads), key=lambda place: loads[place])
