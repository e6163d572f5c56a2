"""
Aggregators that collect from aggregators, and what one that does not answer means to those above.

One that hangs, or whose host went without a word, stays connected to the level above: its sets
stand still there, and the same sets of another producer are refused, for good (ldmsd 4.4.6 and
4.5.3).  So its producer is stopped there when others have what it had, and is started again when it
answers, or when its process is known to be dead, which ends its connections.
"""

from __future__ import annotations

from iostats.ldms.reconcile.heard import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from iostats.ldms.description.normal import AggregatorGroup
    from iostats.ldms.reconcile.heard import Heard


class Levels:
    """Of the groups of a description; `daemons`: {name: Heard}, as they are at each call."""

    def __init__(self, groups: tuple[AggregatorGroup, ...], daemons: Mapping[str, Heard]) -> None:
        self._daemons = daemons
        self._groups: dict[str, list[AggregatorGroup]] = {}     # by aggregator
        for group in groups:
            for name in group.members:
                self._groups.setdefault(name, []).append(group)
        self._below: dict[str, dict[str, str]] = {}     # {group: {producer: aggregator}}
        self._readers: dict[str, set[str]] = {}
        for group in groups:
            below = {producer.name: producer.daemon for producer in group.producers
                     if producer.daemon in self._groups}
            self._below.setdefault(group.name, {}).update(below)
            for of in {each.name: each for name in set(below.values())
                       for each in self._groups[name]}.values():
                for member in of.members:
                    self._readers.setdefault(member, set()).add(group.name)

    def readers(self, name: str) -> Set[str]:
        """The groups that collect from the aggregator, or from another of a group that it is in."""
        return self._readers.get(name, set())

    def stopped(self, group: str, at: Heard) -> frozenset[str]:
        """The producers of a group that are not to be started at this aggregator of it now."""
        return frozenset(producer for producer, name in self._below.get(group, {}).items()
                         if self._is_stopped(name, producer in at.started))

    def silent(self, group: str) -> dict[str, str]:
        """{producer: aggregator} of those that do not answer, and may still be connected."""
        return {producer: name for producer, name in self._below.get(group, {}).items()
                if self._daemons[name].is_silent}

    def _is_stopped(self, name: str, is_started: bool) -> bool:
        one = self._daemons[name]
        if one.state != UNKNOWN and not one.is_silent:
            return False
        # Until it is known, or others have its sets, all stays as it is.
        return not is_started or (one.is_silent and self._others_have(name))

    def _others_have(self, name: str) -> bool:
        """
        Whether each producer that it had is started at another that answers.

        Seen there, and not only decided: who decides may reach an aggregator that we do not.
        """
        had = self._daemons[name].had
        for group in self._groups[name]:
            others = [self._daemons[other] for other in group.members
                      if other != name and self._daemons[other].is_up]
            if not others:
                return False
            needed = {producer.name for producer in group.producers}
            for other in others:
                needed.update(other.observed.producers if other.observed and group.listens else ())
            if had is not None:
                needed &= had
            elif group.listens:
                needed = {producer.name for producer in group.producers}
            if not needed <= frozenset().union(*(other.started for other in others)):
                return False
        return True
