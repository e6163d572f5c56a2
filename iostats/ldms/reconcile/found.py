"""
What a group's aggregators are found to do, by who takes the group over.
"""

from __future__ import annotations

from iostats.ldms.balance import moved
from iostats.ldms.reconcile.commands import HOLDS
from iostats.ldms.reconcile.heard import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iostats.ldms.control.observed import ProducerSeen
    from iostats.ldms.description.normal import AggregatorGroup
    from iostats.ldms.reconcile.heard import Heard


def running(group: AggregatorGroup, daemons: Mapping[str, Heard]) -> dict[str, str]:
    """{producer: the aggregator that collects from it}."""
    return {producer: name for name in sorted(group.members, reverse=True)
            for producer in daemons[name].started}


def shared(group: AggregatorGroup, daemons: Mapping[str, Heard]) -> dict[str, dict[str, str]]:
    """{producer: {set: the aggregator that collects it}} of those that several share."""
    places: dict[str, dict[str, str]] = {}
    for name, seen in _seen(group, daemons):
        if seen.name in daemons[name].started:
            places.setdefault(seen.name, {}).update(
                (one.instance, name) for one in seen.sets if one.state in HOLDS)
    return {producer: of for producer, of in places.items() if len({*of.values()}) > 1}


def first_moves(before: Mapping[str, str], shared_before: Mapping[str, Mapping[str, str]],
                plan: Mapping[str, str], is_one_away: bool) -> list[str]:
    """
    The producers that `plan` has elsewhere than they were found, `before` and `shared_before`.

    What one had that is away was found with none.  Of a shared one only an aggregator that had
    nothing of it is another.
    """
    stay = {name: plan[name] for name, of in shared_before.items() if plan.get(name) in of.values()}
    moves = moved({**before, **stay}, plan)
    if is_one_away and not before.keys().isdisjoint(plan):
        moves += sorted(plan.keys() - before.keys())
    return moves


class Unweighed:
    """The samplers that groups are connected to, and that were not asked for their sets yet."""

    def __init__(self) -> None:
        self._left: dict[str, set[str]] = {}

    def has(self, group: AggregatorGroup, daemons: Mapping[str, Heard]) -> bool:
        """Whether there are such for the group: its loads are not known before."""
        left = self._left.get(group.name)
        if left is None:
            names = {seen.name for _, seen in _seen(group, daemons) if seen.state == "CONNECTED"}
            left = self._left[group.name] = {
                producer.daemon for producer in group.producers
                if producer.name in names and producer.daemon in daemons}
        while left:
            one = next(iter(left))
            if daemons[one].state == UNKNOWN:
                return True
            left.discard(one)
        return False

    def forget(self, group: str) -> None:
        """It is another's now."""
        self._left.pop(group, None)


def _seen(group: AggregatorGroup,
          daemons: Mapping[str, Heard]) -> Iterator[tuple[str, ProducerSeen]]:
    for name in sorted(group.members, reverse=True):
        observed = daemons[name].observed
        for seen in observed.producers.values() if observed else ():
            yield name, seen
