"""
All daemons of a description as last observed, and the placement of producers on aggregators.

The placement is not stored: an instance that starts, or takes over a group, reads it from the
aggregators.  There is no I/O and no clock here: callers pass observations with their time.

An aggregator that hangs, or whose host disappeared, stays connected to the level above: its sets
are stale there, and the same sets of another producer are refused permanently (ldmsd 4.4.6 and
4.5.3).  So its producer is stopped there once others have its sets, and started again when it
answers, or when its process is known to be dead, which ends its connections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import replace
from itertools import takewhile
from math import fsum

from iostats_ldms.balance import SetPlacement, assign_items, assign_sets, list_moved, weigh_set
from iostats_ldms.control.observed import ObservedProducer, ObservedState
from iostats_ldms.description.host_lists import is_same_host, strip_domain
from iostats_ldms.description.model import AggregatorGroup, Description, SamplerGroup, SetMatch
from iostats_ldms.description.values import select_matching
from iostats_ldms.reconcile.commands import COLLECTED_STATES, find_impossible, plan_commands
from iostats_ldms.reconcile.daemon import (
    UNKNOWN,
    UP,
    AppliedCommands,
    DaemonState,
    PlannedCommand,
    list_advertised,
)
from iostats_ldms.reconcile.desired import (
    CommonDesired,
    DesiredState,
    PreviousDescriptions,
    SplitProducers,
    make_aggregator_state,
    make_common_state,
    make_sampler_state,
)


class Fleet:
    """
    The daemons, their groups, and the placement of producers.

    Attributes:
        daemons: {name: DaemonState} of the description, then of removed daemons that still have
            objects of it.
        placement: {group: {producer: aggregator}}.
        split: {group: {producer: {set: aggregator}}} of producers shared by several aggregators.
        waits_for_stop: start a producer only after other aggregators have stopped it; False for a
            plan, which shows both commands.
    """

    waits_for_stop = True

    def __init__(self) -> None:
        self.description: Description | None = None
        self.daemons: dict[str, DaemonState] = {}
        self.placement: dict[str, dict[str, str]] = {}
        self.split: dict[str, dict[str, dict[str, str]]] = {}
        self._previous = PreviousDescriptions()
        self._shared: dict[tuple[str, str], CommonDesired] = {}
        self._peers: dict[str, AdvertisingPeers] = {}                      # by group
        self._groups: dict[str, list[AggregatorGroup | SamplerGroup]] = {}      # by daemon
        self._weighed_by: dict[str, set[str]] = {}              # {sampler: groups}
        self.levels = Levels((), {})
        self._due: set[str] = set()
        self._pending_samplers = PendingSamplers()
        self._returned: set[tuple[str, str]] = set()        # (group, aggregator), not placed since

    # ---- input

    def describe(self, description: Description) -> None:
        """Put `description` in force."""
        for name, state in self.daemons.items():
            if state.observed is not None:
                self.make_desired_states(name)               # objects of the previous description
        self._previous.replace(self.description, self._groups, self.daemons)
        before, self.description = self.daemons, description
        self.daemons = {}
        for name, daemon in description.daemons.items():
            known = before.get(name)
            is_same = known is not None and known.daemon.control == daemon.control
            self.daemons[name] = replace(known if known and is_same else DaemonState(daemon),
                                         daemon=daemon, named_release=description.ldms_release)
        self.daemons.update((name, known) for name, known in before.items()
                            if name not in self.daemons
                            and self._previous.may_have_leftovers(known))
        self._shared.clear()
        self._peers = {each.name: AdvertisingPeers(description, each) for each
                       in description.aggregators}
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
        self._pending_samplers = PendingSamplers()
        self._due = {group.name for group in description.aggregators}
        self.placement = {name: plan for name, plan in self.placement.items() if name in self._due}

    def observe(self, name: str, observed: ObservedState, now: float,
                restarted: bool = False) -> None:
        """Record an answer of the daemon."""
        state = self.daemons[name]
        if restarted:
            state.applied = AppliedCommands()
            state.restarts += 1
        elif state.may_be_restarted(observed):
            state.applied = AppliedCommands()
        if state.state != UP:
            state.state, state.since, state.why = UP, now, ""
            state.is_uncontrollable = state.is_unreachable = False
            self._returned.update((group, name) for group in self.list_groups(name))
            self._mark_due(name)
        elif state.observed and list_advertised(state.observed) != list_advertised(observed):
            self._mark_due(name)
        state.observed, state.read_at = observed, now
        state.started = state.had = frozenset(
            producer for producer, status in observed.producers.items()
            if status.is_started and status.state != "STANDBY" and status.kind != "advertiser")
        if observed.sets:
            weights = {each.instance: weigh_set(each.data_size_bytes, each.update_hint_us or 0)
                       for each in observed.sets}
            if weights != state.weights:
                state.weights = weights
                self._due |= self._weighed_by.get(name, set())

    def mark_lost(self, name: str, state: str, why: str, now: float,
                  is_uncontrollable: bool = False,
                  is_unreachable: bool = False) -> None:
        """
        Record that the daemon does not answer: DOWN or HUNG.

        `is_uncontrollable`: it runs but rejects our commands; `is_unreachable`: its host does not
        answer either, as for HUNG.
        """
        if self.daemons[name].mark_lost(state, why, now, is_uncontrollable, is_unreachable):
            self._mark_due(name)

    def mark_unknown(self, name: str) -> None:
        """Forget the daemon's state: it is not queried any more."""
        if name in self.daemons:
            self.daemons[name].drop()
            self._mark_due(name)

    def release_others(self, owned: Collection[str] | None) -> None:
        """Forget the placement of groups that are not ours: their owners decide it."""
        for group in list(self.placement):
            if owned is not None and group not in owned:
                del self.placement[group]
                self.split.pop(group, None)
                self._pending_samplers.drop(group)
        self._due.update(group.name for group in self._list_aggregator_groups()
                         if group.name not in self.placement)

    # ---- results

    def list_groups(self, name: str) -> list[str]:
        """List the groups of a daemon."""
        return [group.name for group in self._groups.get(name, ())]

    def first_group(self, name: str) -> str:
        """Return the first group of a daemon, or ""."""
        return next(iter(self.list_groups(name)), "")

    def list_members(self, group: str) -> list[str]:
        """List the aggregators of a group."""
        return [name for each in self._list_aggregator_groups() if each.name == group
                for name in each.members]

    def is_needed(self, name: str, owned: Collection[str] | None) -> bool:
        """
        True if we need a connection to the daemon: a group of ours contains, weighs or reads it.

        A daemon outside the description belongs to the owner of the first group.
        """
        groups = self._groups.get(name)
        if owned is None or any(group.name in owned for group in groups or self._list_groups()[:1]):
            return True
        return not (self._weighed_by.get(name, set()) | self.levels.list_consumers(name)
                    ).isdisjoint(owned)

    def place_producers(self,
                        owned: Collection[str] | None) -> list[tuple[str, list[str], list[str]]]:
        """
        Place the producers of our groups where something changed.

        Returns (group, moved producers, producers without an aggregator) for each changed group.  A
        group waits until each of its aggregators has answered or failed once, and, if it is
        balanced by sets and already running, until its connected samplers have, too.
        """
        changes = []
        for group in self._list_aggregator_groups():
            if group.name not in self._due or (owned is not None and group.name not in owned):
                continue
            if any(self.daemons[name].state == UNKNOWN for name in group.members):
                continue
            self._due.discard(group.name)
            up = {name: part for name, part in self._get_capacity(group).items()
                  if self.daemons[name].is_up}
            if not up:
                continue                        # no change until one returns
            before = self.placement.get(group.name)
            split_before = self.split.get(group.name, {})
            is_first = before is None
            if before is None:
                if group.balance == "sets" and self._pending_samplers.are_pending(group,
                                                                                  self.daemons):
                    self._due.add(group.name)
                    continue
                before, split_before = read_placement(group, self.daemons), read_split(group,
                                                                                       self.daemons)
            # A daemon that was hung continues with its producers: it keeps them first.
            retained = {producer: name for name in sorted(group.members)
                    if (group.name, name) in self._returned
                    for producer in self.daemons[name].started if producer in before}
            weights, only = self._compute_weights(group)
            fixed = {producer: name for producer, name in before.items() if producer in weights
                     and name in group.members and self.daemons[name].is_uncontrollable}
            if fixed:                           # balance the others by producers
                plan, is_changed = assign_items({item: weight for item, weight in weights.items()
                                                 if item not in fixed}, up, before, only), False
                plan.update(fixed)
            elif group.balance == "sets" and not group.listens:
                plan, split = assign_sets(self._collect_set_weights(group), up, SetPlacement(
                    {**before, **retained}, split_before))
                is_changed = split != self.split.get(group.name, {})
                self.split[group.name] = split
            else:
                plan = assign_items(weights, up, {**before, **retained}, only)
                is_changed = bool(self.split.pop(group.name, None))       # balanced by sets before
            self._returned = {each for each in self._returned if each[0] != group.name}
            if is_changed or plan != self.placement.get(group.name):
                self.placement[group.name] = plan
                moves = list_moved(before, plan) if not is_first else list_takeover_moves(
                    before, split_before, plan, len(up) < len(group.members))
                changes.append((group.name, moves, sorted(weights.keys() - plan.keys())))
        return changes

    def make_desired_states(self, name: str) -> list[DesiredState]:
        """Build the desired states of a daemon, one for each current or former group."""
        description, state = self.description, self.daemons[name]
        if description is None:
            return []
        groups = self._groups.get(name, ())
        result = {(type(group).__name__, group.name): self._make_group_state(description, state,
                                                                             group)
                  for group in groups}
        heirs = [*groups, *self._list_groups()]
        return self._previous.add_former_states(state, result, heirs[0].name if heirs else "")

    def plan_commands(self, name: str,
                      owned: Collection[str] | None = None) -> list[tuple[str, PlannedCommand]]:
        """Plan [(group, PlannedCommand)] for the daemon; [] if it is not up."""
        state = self.daemons[name]
        if not state.is_up or state.observed is None:
            return []
        waits = self.list_undecided(name)
        return [(desired.group, command) for desired in self.make_desired_states(name)
                if desired.group not in waits
                and (owned is None or desired.group in owned or not desired.group)
                for command in plan_commands(desired, state.observed, state.applied)]

    def list_undecided(self, name: str) -> list[str]:
        """List groups whose split producers are not placed yet: their updaters depend on it."""
        return [group.name for group in self._groups.get(name, ())
                if getattr(group, "balance", "") == "sets" and group.name not in self.placement]

    def list_impossible(self, name: str) -> list[str]:
        """Describe desired changes that no command can make on the daemon."""
        state = self.daemons[name]
        if state.observed is None or not state.applied.kept:
            return []
        return [line for desired in self.make_desired_states(name)
                for line in find_impossible(desired, state.observed, state.applied)]

    def find_collector(self, producer: str, name: str) -> str:
        """Return an aggregator other than `name` that collects from the producer, or ""."""
        groups = self._groups.get(name, ())
        return next((member for group in groups for member in group.members
                     if member != name and producer in self.daemons[member].started), "")

    def drop(self, name: str) -> None:
        """Forget a removed daemon: nothing of the description is left on it."""
        self.daemons.pop(name, None)
        self._previous.drop(name)

    def has_left(self, name: str) -> bool:
        """True if the description does not contain the daemon."""
        return self.description is not None and name not in self.description.daemons

    def compute_loads(self, group: AggregatorGroup) -> dict[str, float]:
        """Return {aggregator that is up: load relative to its fair share}."""
        plan = self.placement.get(group.name, {})
        weights, _ = self._compute_weights(group)
        up = {name: part for name, part in self._get_capacity(group).items()
              if self.daemons[name].is_up}
        total = fsum(weights.get(producer, 0.0) for producer in plan)
        if not up or not total:
            return {}
        loads = dict.fromkeys(up, 0.0)
        split = self.split.get(group.name, {})
        for producer, name in plan.items():
            if producer in split:
                daemon = self.daemons[next(each.daemon for each in group.producers
                                           if each.name == producer)].weights
                for item, place in split[producer].items():
                    loads[place] = loads.get(place, 0.0) + daemon.get(item, 0.0)
            elif name in loads:
                loads[name] += weights.get(producer, 0.0)
        whole = fsum(up.values())
        return {name: loads[name] * whole / (total * up[name]) for name in up}

    # ---- helpers

    def _list_aggregator_groups(self) -> tuple[AggregatorGroup, ...]:
        return self.description.aggregators if self.description else ()

    def _list_groups(self) -> list[AggregatorGroup | SamplerGroup]:
        return [*self.description.aggregators, *self.description.samplers] \
            if self.description else []

    def _list_departed(self) -> list[str]:
        return [*takewhile(self.has_left, reversed(self.daemons))]

    def _mark_due(self, name: str) -> None:
        self._due.update(group.name for group in self._groups.get(name, ()))

    def _get_capacity(self, group: AggregatorGroup) -> dict[str, float]:
        return {**dict.fromkeys(group.members, 1.0), **dict(group.capacity)}

    def _compute_weights(self, group: AggregatorGroup) -> tuple[dict[str, float],
                                                                Mapping[str, Collection[str]]]:
        """Return ({producer: weight}, {advertised producer: the aggregators it advertised to})."""
        weights = {producer.name: 1.0 for producer in group.producers
                   if producer.kind != "advertised"}
        if group.balance == "sets":
            measured = {producer: fsum(of.values()) for producer, of
                        in self._collect_set_weights(group).items() if of}
            mean = fsum(measured.values()) / len(measured) if measured else 1.0
            weights = {name: measured.get(name, mean) for name in weights}
        only: dict[str, list[str]] = {}
        for member in group.members:
            state = self.daemons[member]
            if state.is_up and state.observed and group.listens:
                for name in list_advertised(state.observed):
                    if not self._peers[group.name].contains(state.observed.producers[name]):
                        only.setdefault(name, []).append(member)
        for name in only:
            weights.setdefault(name, 1.0)
        return weights, only

    def _make_group_state(self, description: Description, state: DaemonState,
                          group: AggregatorGroup | SamplerGroup) -> DesiredState:
        if isinstance(group, SamplerGroup):
            return make_sampler_state(description, group, state.daemon, state.dialect)
        key = (group.name, state.dialect.release)
        if key not in self._shared:
            self._shared[key] = make_common_state(group, state.dialect, all(
                len([each for each in description.aggregators if member in each.members]) == 1
                for member in group.members))
        advertised = list_advertised(state.observed) if state.observed and group.listens else ()
        return make_aggregator_state(description, group, state.daemon, state.dialect,
                                     self._shared[key],
                                     self._select_collected(group, state), advertised,
                                     self._make_split(group, state),
                                     self.levels.list_unreachable(group.name))

    def _select_collected(self, group: AggregatorGroup, state: DaemonState) -> frozenset[str]:
        """Select the producers placed on the aggregator and not collected elsewhere any more."""
        name = state.daemon.name
        plan = self.placement.get(group.name)
        if plan is None:                        # not decided yet: no change
            return state.started
        split = self.split.get(group.name, {})
        own = {producer for producer, place in plan.items() if place == name} - split.keys()
        own -= self.levels.list_stopped(group.name, state)
        elsewhere: set[str] = set()
        for member in (*group.members, *self._list_departed()) if self.waits_for_stop else ():
            if member != name:
                elsewhere |= self.daemons[member].started
        return frozenset(producer for producer in own
                         if producer in state.started or producer not in elsewhere) | {
                             producer for producer, of in split.items() if name in of.values()}

    def _make_split(self, group: AggregatorGroup, state: DaemonState) -> SplitProducers | None:
        """Return the shared producers from this aggregator's view; None if there are none."""
        split = self.split.get(group.name)
        if split is None or not (split or any(name.endswith("_shared") for name in (
                state.observed.updaters if state.observed else ()))):
            return None
        name = state.daemon.name
        own = {producer: frozenset(item for item, place in of.items() if place == name)
               for producer, of in split.items() if name in of.values()}
        peers = [self.daemons[member].observed for member in group.members
                 if member != name and self.daemons[member].is_up]
        held = {item.instance for observed in peers if observed for producer in own
                if producer in observed.producers for item in observed.producers[producer].sets
                if item.state in COLLECTED_STATES}
        return SplitProducers(frozenset(split), own, frozenset().union(*own.values()) - held)

    def _collect_set_weights(self, group: AggregatorGroup) -> dict[str, dict[str, float]]:
        """Return {producer: {set: weight}} of the sets that the group's updaters match."""
        result = {producer.name: self.daemons[producer.daemon].weights
                  if producer.daemon in self.daemons else {} for producer in group.producers}
        rules = [match for updater in group.updaters for match in updater.sets or [SetMatch(".*")]]
        if any(match.field != "inst" or match.regex == ".*" for match in rules):
            return result
        return {name: {item: weights[item] for match in rules
                       for item in select_matching(match.regex, weights)}
                for name, weights in result.items()}


def read_placement(group: AggregatorGroup, daemons: Mapping[str, DaemonState]) -> dict[str, str]:
    """Return the current placement: {producer: the aggregator that collects from it}."""
    return {producer: name for name in sorted(group.members, reverse=True)
            for producer in daemons[name].started}


def read_split(group: AggregatorGroup, daemons: Mapping[str, DaemonState]) -> dict[str,
                                                                                   dict[str, str]]:
    """Return {producer: {set: aggregator}} of producers with several aggregators now."""
    places: dict[str, dict[str, str]] = {}
    for name, observed in _iterate_producers(group, daemons):
        if observed.name in daemons[name].started:
            places.setdefault(observed.name, {}).update(
                (item.instance, name) for item in observed.sets if item.state in COLLECTED_STATES)
    return {producer: of for producer, of in places.items() if len({*of.values()}) > 1}


def list_takeover_moves(before: Mapping[str, str], shared_before: Mapping[str, Mapping[str, str]],
                        plan: Mapping[str, str], is_one_away: bool) -> list[str]:
    """
    List the producers that `plan` moves, after taking over a group found as `before` and
    `shared_before`.

    Producers of an aggregator that is down were found on none.  A shared producer moves only to an
    aggregator that had none of its sets.
    """
    stay = {name: plan[name] for name, of in shared_before.items() if plan.get(name) in of.values()}
    moves = list_moved({**before, **stay}, plan)
    if is_one_away and not before.keys().isdisjoint(plan):
        moves += sorted(plan.keys() - before.keys())
    return moves


class PendingSamplers:
    """Connected samplers whose sets have not been read yet, for each group being taken over."""

    def __init__(self) -> None:
        self._list_departed: dict[str, set[str]] = {}

    def are_pending(self, group: AggregatorGroup, daemons: Mapping[str, DaemonState]) -> bool:
        """True if the group's loads are not known yet."""
        left = self._list_departed.get(group.name)
        if left is None:
            names = {observed.name for _, observed in _iterate_producers(group, daemons)
                     if observed.state == "CONNECTED"}
            left = self._list_departed[group.name] = {
                producer.daemon for producer in group.producers
                if producer.name in names and producer.daemon in daemons}
        while left:
            item = next(iter(left))
            if daemons[item].state == UNKNOWN:
                return True
            left.discard(item)
        return False

    def drop(self, group: str) -> None:
        """Forget a group that another instance owns."""
        self._list_departed.pop(group, None)


def _iterate_producers(group: AggregatorGroup,
          daemons: Mapping[str, DaemonState]) -> Iterator[tuple[str, ObservedProducer]]:
    for name in sorted(group.members, reverse=True):
        observed = daemons[name].observed
        for producer in observed.producers.values() if observed else ():
            yield name, producer


_LONGEST_NAME = 31                  # snprintf(.., 32, "%s:%s") in ldmsd_request.c, 4.4.6 and 4.5.3


class AdvertisingPeers:
    """
    The described peers of a group, to recognize them when they advertise themselves.

    ldmsd names such a producer HOSTNAME:PORT, after gethostname() and the first `listen` of the
    sampler.  A peer described by an address, or by another name of its host, is not recognized.
    """

    def __init__(self, description: Description, group: AggregatorGroup) -> None:
        self._listen: dict[str, set[tuple[str, int]]] = {}
        for producer in group.producers if group.listens else ():
            daemon = description.daemons.get(producer.daemon)
            if producer.kind == "advertised" or daemon is None:
                continue
            for endpoint in daemon.endpoints:
                for host in (daemon.host, endpoint.host):
                    self._listen.setdefault(strip_domain(host).lower(), set()).add(
                        (host, endpoint.port))

    def contains(self, producer: ObservedProducer) -> bool:
        """True if this advertised producer is one of the peers."""
        return any(producer.name == f"{producer.host}:{port}"[:_LONGEST_NAME]
                   and is_same_host(host, producer.host)
                   for host, port in self._listen.get(strip_domain(producer.host).lower(), ()))


class Levels:
    """The levels of a description's groups; `daemons`: {name: DaemonState}, updated in place."""

    def __init__(self, groups: tuple[AggregatorGroup, ...],
                 daemons: Mapping[str, DaemonState]) -> None:
        self._daemons = daemons
        self._groups: dict[str, list[AggregatorGroup]] = {}     # by aggregator
        for group in groups:
            for name in group.members:
                self._groups.setdefault(name, []).append(group)
        self._below: dict[str, dict[str, str]] = {}     # {group: {producer: aggregator}}
        self._consumers: dict[str, set[str]] = {}
        for group in groups:
            below = {producer.name: producer.daemon for producer in group.producers
                     if producer.daemon in self._groups}
            self._below.setdefault(group.name, {}).update(below)
            for of in {each.name: each for name in set(below.values())
                       for each in self._groups[name]}.values():
                for member in of.members:
                    self._consumers.setdefault(member, set()).add(group.name)

    def list_consumers(self, name: str) -> Set[str]:
        """List the groups that collect from the aggregator or from another member of its group."""
        return self._consumers.get(name, set())

    def list_stopped(self, group: str, at: DaemonState) -> frozenset[str]:
        """List the group's producers that must stay stopped at this aggregator for now."""
        return frozenset(producer for producer, name in self._below.get(group, {}).items()
                         if self._must_stop(name, producer in at.started))

    def list_unreachable(self, group: str) -> dict[str, str]:
        """Return {producer: aggregator} of unreachable aggregators, possibly still connected."""
        return {producer: name for producer, name in self._below.get(group, {}).items()
                if self._daemons[name].is_unreachable}

    def _must_stop(self, name: str, is_started: bool) -> bool:
        item = self._daemons[name]
        if item.state != UNKNOWN and not item.is_unreachable:
            return False
        # No change until its state is known, or others have its sets.
        return not is_started or (item.is_unreachable and self._is_collected_elsewhere(name))

    def _is_collected_elsewhere(self, name: str) -> bool:
        """
        True if each of its producers is started at another aggregator that answers.

        This is observed, not only decided: the owner may reach an aggregator that we do not.
        """
        had = self._daemons[name].had
        for group in self._groups[name]:
            peers = [self._daemons[peer] for peer in group.members
                     if peer != name and self._daemons[peer].is_up]
            if not peers:
                return False
            needed = {producer.name for producer in group.producers}
            for peer in peers:
                needed.update(peer.observed.producers if peer.observed and group.listens else ())
            if had is not None:
                needed &= had
            elif group.listens:
                needed = {producer.name for producer in group.producers}
            if not needed <= frozenset().union(*(peer.started for peer in peers)):
                return False
        return True
