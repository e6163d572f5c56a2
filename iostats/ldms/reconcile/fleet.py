"""
All daemons of a description as they were heard of last, and where each producer's place is.

What runs is the memory: an instance that begins, or takes over, reads from the aggregators where
producers are.  No time and no connection is here: what was heard is told, with the moment.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from math import fsum

from iostats.ldms.balance import balanced, moved, set_weight
from iostats.ldms.description.normal import SamplerGroup, SetMatch
from iostats.ldms.description.regexes import matching
from iostats.ldms.reconcile.commands import HOLDS, beyond_us, commands
from iostats.ldms.reconcile.earlier import Earlier
from iostats.ldms.reconcile.found import Unweighed, first_moves, running, shared
from iostats.ldms.reconcile.heard import UNKNOWN, UP, Heard, advertised
from iostats.ldms.reconcile.levels import Levels
from iostats.ldms.reconcile.memory import Memory
from iostats.ldms.reconcile.peers import Peers
from iostats.ldms.reconcile.shares import Shares, shared_out
from iostats.ldms.reconcile.wanted import (
    Split,
    Wanted,
    of_aggregator,
    of_sampler,
    shared_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from iostats.ldms.control.observed import Observed
    from iostats.ldms.description.normal import AggregatorGroup, Description
    from iostats.ldms.reconcile.memory import Step
    from iostats.ldms.reconcile.wanted import Shared


class Fleet:
    """
    daemons: {name: Heard}, of the description, then of those that left it and still have producers
        of it.
    placement: {group: {producer: aggregator}}.
    split: {group: {producer: {set: aggregator}}} of producers that several aggregators share.
    waits: a producer is started where its place is only when no other collects from it any more;
        not so for a plan, which shows both commands.
    """

    waits = True

    def __init__(self) -> None:
        self.description: Description | None = None
        self.daemons: dict[str, Heard] = {}
        self.placement: dict[str, dict[str, str]] = {}
        self.split: dict[str, dict[str, dict[str, str]]] = {}
        self._earlier = Earlier()
        self._shared: dict[tuple[str, str], Shared] = {}
        self._peers: dict[str, Peers] = {}                      # by group
        self._groups: dict[str, list[AggregatorGroup | SamplerGroup]] = {}      # by daemon
        self._weighed_by: dict[str, set[str]] = {}              # {sampler: groups}
        self.levels = Levels((), {})
        self._due: set[str] = set()
        self._unweighed = Unweighed()
        self._returned: set[tuple[str, str]] = set()        # (group, aggregator), not placed since

    # ---- what is told

    def describe(self, description: Description) -> None:
        """From now on `description` is in force."""
        for name, heard in self.daemons.items():
            if heard.observed is not None:
                self.wanted(name)               # what it may have of the one before
        self._earlier.was(self.description, self._groups, self.daemons)
        before, self.description = self.daemons, description
        self.daemons = {}
        for name, daemon in description.daemons.items():
            known = before.get(name)
            is_same = known is not None and known.daemon.control == daemon.control
            self.daemons[name] = replace(known if known and is_same else Heard(daemon),
                                         daemon=daemon, named_release=description.ldms_release)
        self.daemons.update((name, known) for name, known in before.items()
                            if name not in self.daemons and self._earlier.concerns(known))
        self._shared.clear()
        self._peers = {each.name: Peers(description, each) for each in description.aggregators}
        self._groups = {}
        groups: list[AggregatorGroup | SamplerGroup] = [*description.aggregators,
                                                        *description.samplers]
        for group in groups:
            for name in group.members:
                self._groups.setdefault(name, []).append(group)
        self._weighed_by, self.levels = {}, Levels(description.aggregators, self.daemons)
        for aggregators in description.aggregators:
            if aggregators.balance == "sets":
                for producer in aggregators.producers:
                    self._weighed_by.setdefault(producer.daemon, set()).add(aggregators.name)
        self._unweighed = Unweighed()
        self._due = {group.name for group in description.aggregators}
        self.placement = {name: plan for name, plan in self.placement.items() if name in self._due}

    def heard(self, name: str, observed: Observed, now: float, restarted: bool = False) -> None:
        """The daemon answered: this is what it has."""
        heard = self.daemons[name]
        if restarted:
            heard.memory = Memory()
            heard.restarts += 1
        elif heard.may_be_another(observed):
            heard.memory = Memory()
        if heard.state != UP:
            heard.state, heard.since, heard.why = UP, now, ""
            heard.is_alone = heard.is_silent = False
            self._returned.update((group, name) for group in self.groups(name))
            self._dirty(name)
        elif heard.observed and advertised(heard.observed) != advertised(observed):
            self._dirty(name)
        heard.observed = observed
        heard.started = heard.had = frozenset(
            producer for producer, seen in observed.producers.items()
            if seen.is_started and seen.state != "STANDBY" and seen.kind != "advertiser")
        if observed.sets:
            weights = {each.instance: set_weight(each.data_size_bytes, each.update_hint_us or 0)
                       for each in observed.sets}
            if weights != heard.weights:
                heard.weights = weights
                self._due |= self._weighed_by.get(name, set())

    def lost(self, name: str, state: str, why: str, now: float, is_alone: bool = False,
             is_silent: bool = False) -> None:
        """
        It does not answer: DOWN, or HUNG; `is_alone`: it runs, and does not let us in; `is_silent`:
        nothing comes from its host either, as where it is HUNG.
        """
        if self.daemons[name].lost(state, why, now, is_alone, is_silent):
            self._dirty(name)

    def unknown(self, name: str) -> None:
        """It is not asked any more."""
        if name in self.daemons:
            self.daemons[name].forget()
            self._dirty(name)

    def keep_only(self, owned: Collection[str] | None) -> None:
        """Where producers are is forgotten of groups that are not ours: others decide it now."""
        for group in list(self.placement):
            if owned is not None and group not in owned:
                del self.placement[group]
                self.split.pop(group, None)
                self._unweighed.forget(group)
        self._due.update(group.name for group in self._aggregators()
                         if group.name not in self.placement)

    # ---- what follows from it

    def groups(self, name: str) -> list[str]:
        """The groups that the daemon is in."""
        return [group.name for group in self._groups.get(name, ())]

    def first_group(self, name: str) -> str:
        return next(iter(self.groups(name)), "")

    def members(self, group: str) -> list[str]:
        """The aggregators of a group, or of several of that name."""
        return [name for each in self._aggregators() if each.name == group
                for name in each.members]

    def is_needed(self, name: str, owned: Collection[str] | None) -> bool:
        """
        Whether we talk with it: it, or who weighs its sets or collects from it, is of ours; one
        that left the description is for who has the first group.
        """
        groups = self._groups.get(name)
        if owned is None or any(group.name in owned for group in groups or self._every()[:1]):
            return True
        return not (self._weighed_by.get(name, set()) | self.levels.readers(name)
                    ).isdisjoint(owned)

    def place(self, owned: Collection[str] | None) -> list[tuple[str, list[str], list[str]]]:
        """
        Give each producer of our groups its place, where something changed.

        (group, producers that moved, producers that have no aggregator) of each group that changed.
        Groups wait until each of their aggregators has answered once, or has not within its time,
        and, for one that is balanced by sets and runs already, its connected samplers as well.
        """
        told = []
        for group in self._aggregators():
            if group.name not in self._due or (owned is not None and group.name not in owned):
                continue
            if any(self.daemons[name].state == UNKNOWN for name in group.members):
                continue
            self._due.discard(group.name)
            up = {name: part for name, part in self._capacity(group).items()
                  if self.daemons[name].is_up}
            if not up:
                continue                        # all stays as it is until one is back
            before = self.placement.get(group.name)
            split_before = self.split.get(group.name, {})
            is_first = before is None
            if before is None:
                if group.balance == "sets" and self._unweighed.has(group, self.daemons):
                    self._due.add(group.name)
                    continue
                before, split_before = running(group, self.daemons), shared(group, self.daemons)
            # One that hung goes on with what it had: it keeps that before all else.
            kept = {producer: name for name in sorted(group.members)
                    if (group.name, name) in self._returned
                    for producer in self.daemons[name].started if producer in before}
            weights, only = self._weights(group)
            fixed = {producer: name for producer, name in before.items() if producer in weights
                     and name in group.members and self.daemons[name].is_alone}
            if fixed:                           # balanced without them; by producers alone
                plan, is_other = balanced({one: weight for one, weight in weights.items()
                                           if one not in fixed}, up, before, only), False
                plan.update(fixed)
            elif group.balance == "sets" and not group.listens:
                plan, split = shared_out(self._sets(group), up, Shares(
                    {**before, **kept}, split_before))
                is_other = split != self.split.get(group.name, {})
                self.split[group.name] = split
            else:
                plan = balanced(weights, up, {**before, **kept}, only)
                is_other = bool(self.split.pop(group.name, None))       # by sets before
            self._returned = {each for each in self._returned if each[0] != group.name}
            if is_other or plan != self.placement.get(group.name):
                self.placement[group.name] = plan
                moves = moved(before, plan) if not is_first else first_moves(
                    before, split_before, plan, len(up) < len(group.members))
                told.append((group.name, moves, sorted(weights.keys() - plan.keys())))
        return told

    def wanted(self, name: str) -> list[Wanted]:
        """What the daemon is to have, one for each group that it is, or was, in."""
        description, heard = self.description, self.daemons[name]
        if description is None:
            return []
        groups = self._groups.get(name, ())
        found = {(type(group).__name__, group.name): self._of_group(description, heard, group)
                 for group in groups}
        heirs = [*groups, *self._every()]
        return self._earlier.all_wanted(heard, found, heirs[0].name if heirs else "")

    def steps(self, name: str, owned: Collection[str] | None = None) -> list[tuple[str, Step]]:
        """(group, what to tell the daemon now), in this order; [] where it is not up."""
        heard = self.daemons[name]
        if not heard.is_up or heard.observed is None:
            return []
        waits = self.undecided(name)
        return [(wanted.group, step) for wanted in self.wanted(name)
                if wanted.group not in waits
                and (owned is None or wanted.group in owned or not wanted.group)
                for step in commands(wanted, heard.observed, heard.memory)]

    def undecided(self, name: str) -> list[str]:
        """Its groups whose shared producers are not known yet: their updaters differ by them."""
        return [group.name for group in self._groups.get(name, ())
                if getattr(group, "balance", "") == "sets" and group.name not in self.placement]

    def beyond_us(self, name: str) -> list[str]:
        """What no command makes as it is wanted there, one line each."""
        heard = self.daemons[name]
        if heard.observed is None or not heard.memory.kept:
            return []
        return [line for wanted in self.wanted(name)
                for line in beyond_us(wanted, heard.observed, heard.memory)]

    def holder(self, producer: str, name: str) -> str:
        """Another aggregator than `name` that collects from the producer; "" for none."""
        groups = self._groups.get(name, ())
        return next((other for group in groups for other in group.members
                     if other != name and producer in self.daemons[other].started), "")

    def forget(self, name: str) -> None:
        """A daemon that left the description has nothing of it any more."""
        self.daemons.pop(name, None)
        self._earlier.forget(name)

    def has_left(self, name: str) -> bool:
        """Whether it is not in the description any more."""
        return self.description is not None and name not in self.description.daemons

    def loads(self, group: AggregatorGroup) -> dict[str, float]:
        """{aggregator that is up: its load in parts of its fair share}."""
        plan = self.placement.get(group.name, {})
        weights, _ = self._weights(group)
        up = {name: part for name, part in self._capacity(group).items()
              if self.daemons[name].is_up}
        total = fsum(weights.get(producer, 0.0) for producer in plan)
        if not up or not total:
            return {}
        loads = dict.fromkeys(up, 0.0)
        split = self.split.get(group.name, {})
        for producer, name in plan.items():
            if producer in split:
                known = self.daemons[next(each.daemon for each in group.producers
                                          if each.name == producer)].weights
                for one, place in split[producer].items():
                    loads[place] = loads.get(place, 0.0) + known.get(one, 0.0)
            elif name in loads:
                loads[name] += weights.get(producer, 0.0)
        whole = fsum(up.values())
        return {name: loads[name] * whole / (total * up[name]) for name in up}

    # ---- helpers

    def _aggregators(self) -> tuple[AggregatorGroup, ...]:
        return self.description.aggregators if self.description else ()

    def _every(self) -> list[AggregatorGroup | SamplerGroup]:
        return [*self.description.aggregators, *self.description.samplers] \
            if self.description else []

    def _left(self) -> list[str]:
        return [*takewhile(self.has_left, reversed(self.daemons))]

    def _dirty(self, name: str) -> None:
        self._due.update(group.name for group in self._groups.get(name, ()))

    def _capacity(self, group: AggregatorGroup) -> dict[str, float]:
        return {**dict.fromkeys(group.members, 1.0), **dict(group.capacity)}

    def _weights(self, group: AggregatorGroup) -> tuple[dict[str, float],
                                                        Mapping[str, Collection[str]]]:
        """({producer: weight}, {advertised producer, no peer: the aggregators with it})."""
        weights = {producer.name: 1.0 for producer in group.producers
                   if producer.kind != "advertised"}
        if group.balance == "sets":
            seen = {producer: fsum(of.values()) for producer, of in self._sets(group).items() if of}
            mean = fsum(seen.values()) / len(seen) if seen else 1.0
            weights = {name: seen.get(name, mean) for name in weights}
        only: dict[str, list[str]] = {}
        for member in group.members:
            heard = self.daemons[member]
            if heard.is_up and heard.observed and group.listens:
                for name in advertised(heard.observed):
                    if not self._peers[group.name].has(heard.observed.producers[name]):
                        only.setdefault(name, []).append(member)
        for name in only:
            weights.setdefault(name, 1.0)
        return weights, only

    def _of_group(self, description: Description, heard: Heard,
                  group: AggregatorGroup | SamplerGroup) -> Wanted:
        if isinstance(group, SamplerGroup):
            return of_sampler(description, group, heard.daemon, heard.dialect)
        key = (group.name, heard.dialect.release)
        if key not in self._shared:
            self._shared[key] = shared_of(group, heard.dialect, all(
                len([each for each in description.aggregators if member in each.members]) == 1
                for member in group.members))
        came = advertised(heard.observed) if heard.observed and group.listens else ()
        return of_aggregator(description, group, heard.daemon, heard.dialect, self._shared[key],
                             self._runs(group, heard), came, self._split(group, heard),
                             self.levels.silent(group.name))

    def _runs(self, group: AggregatorGroup, heard: Heard) -> frozenset[str]:
        """What has its place here, and is not collected elsewhere yet."""
        name = heard.daemon.name
        plan = self.placement.get(group.name)
        if plan is None:                        # nothing is decided yet: all stays as it is
            return heard.started
        split = self.split.get(group.name, {})
        mine = {producer for producer, place in plan.items() if place == name} - split.keys()
        mine -= self.levels.stopped(group.name, heard)
        elsewhere: set[str] = set()
        for other in (*group.members, *self._left()) if self.waits else ():
            if other != name:
                elsewhere |= self.daemons[other].started
        return frozenset(producer for producer in mine
                         if producer in heard.started or producer not in elsewhere) | {
                             producer for producer, of in split.items() if name in of.values()}

    def _split(self, group: AggregatorGroup, heard: Heard) -> Split | None:
        """What of shared producers is for this aggregator; None where none are shared."""
        split = self.split.get(group.name)
        if split is None or not (split or any(name.endswith("_shared") for name in (
                heard.observed.updaters if heard.observed else ()))):
            return None
        name = heard.daemon.name
        mine = {producer: frozenset(one for one, place in of.items() if place == name)
                for producer, of in split.items() if name in of.values()}
        others = [self.daemons[other].observed for other in group.members
                  if other != name and self.daemons[other].is_up]
        held = {one.instance for observed in others if observed for producer in mine
                if producer in observed.producers for one in observed.producers[producer].sets
                if one.state in HOLDS}
        return Split(frozenset(split), mine, frozenset().union(*mine.values()) - held)

    def _sets(self, group: AggregatorGroup) -> dict[str, dict[str, float]]:
        """{producer: {set: weight}}, of the sets that the group's updaters are for."""
        found = {producer.name: self.daemons[producer.daemon].weights
                 if producer.daemon in self.daemons else {} for producer in group.producers}
        rules = [match for updater in group.updaters for match in updater.sets or [SetMatch(".*")]]
        if any(match.field != "inst" or match.regex == ".*" for match in rules):
            return found
        return {name: {one: weights[one] for match in rules
                       for one in matching(match.regex, weights)}
                for name, weights in found.items()}
