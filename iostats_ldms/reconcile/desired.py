"""
The desired state of a daemon, for each of its groups.

The statements are those of its configuration file (statements/), built by the same code.  Objects
of earlier descriptions are removed: PreviousDescriptions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Union

from iostats_ldms.description.model import (
    AggregatorGroup,
    Auth,
    Description,
    LdmsDaemon,
    Plugin,
    SamplerGroup,
    SetMatch,
    StoragePolicy,
    Updater,
)
from iostats_ldms.description.values import make_regexes, select_matching
from iostats_ldms.reconcile.daemon import DaemonState
from iostats_ldms.statements import parts
from iostats_ldms.statements.dialect import Dialect, Statement

Group = Union[AggregatorGroup, SamplerGroup]
Key = tuple[str, str]               # (class of the group, its name)

_MODES = {"push": "push", "onchange": "onchange"}


@dataclass(frozen=True)
class DesiredPlugin:
    """A plugin; `name`: as the daemon calls it; `start`: None for one that is not started."""
    name: str
    load: Statement
    config: tuple[Statement, ...]
    start: Statement | None = None
    interval_us: int = 0
    offset_us: int = 0

    def statements(self) -> list[Statement]:
        """List the statements from load to start."""
        return [self.load, *self.config, *([self.start] if self.start else [])]


@dataclass(frozen=True)
class DesiredProducer:
    """A producer; `add` is None for an advertised one."""
    name: str
    add: Statement | None = None
    host: str = ""
    port: int = 0
    transport: str = ""


@dataclass(frozen=True)
class DesiredUpdater:
    """An updater that a daemon has to have."""
    name: str
    statements: tuple[Statement, ...]   # from updtr_add to updtr_start
    # mode, auto_interval, interval_us, offset_us, matches: as in ObservedUpdater
    mode: str
    auto_interval: bool
    interval_us: int
    offset_us: int
    matches: tuple[tuple[str, str], ...]
    covers: frozenset[str]              # the producers it must have, of those added by name
    allows_others: bool = True          # it may have further producers


@dataclass(frozen=True)
class DesiredPolicy:
    """A storage policy; `seen`: the attributes of ObservedPolicy to compare, as (name, value)."""
    name: str
    statements: tuple[Statement, ...]
    seen: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DesiredListener:
    """A listener for advertised producers."""
    name: str
    statements: tuple[Statement, ...]
    regex: str
    ip: str


@dataclass(frozen=True)
class DesiredSubscription:
    """A subscription; `covers`: the producers it applies to, of those added by name."""
    subscribe: Statement
    unsubscribe: Statement
    covers: frozenset[str]


@dataclass(frozen=True)
class DesiredState:
    """The desired state of one daemon for one of its groups."""
    daemon: str
    group: str
    # statements that no query reports: authentication domains, additional listeners, streams
    once: tuple[Statement, ...] = ()
    plugins: tuple[DesiredPlugin, ...] = ()
    advertisers: tuple[tuple[Statement, ...], ...] = ()
    listens: tuple[DesiredListener, ...] = ()
    producers: tuple[DesiredProducer, ...] = ()  # all of the group
    runs: frozenset[str] = frozenset()      # the names of those this daemon collects from
    silent: frozenset[str] = frozenset()    # names of producers whose aggregators do not answer
    # {producer: its sets for this daemon}, of producers that several aggregators share
    shared: tuple[tuple[str, frozenset[str]], ...] = ()
    updaters: tuple[DesiredUpdater, ...] = ()
    policies: tuple[DesiredPolicy, ...] = ()
    subscriptions: tuple[DesiredSubscription, ...] = ()
    # ("producer" | "updater" | "plugin" | "policy" | "listen", name) of earlier descriptions only
    former: frozenset[tuple[str, str]] = frozenset()
    # prdcr_unsubscribe for subscriptions of earlier descriptions
    unsubscribed: tuple[Statement, ...] = ()

    def list_names(self) -> frozenset[tuple[str, str]]:
        """Return (kind, name) of all desired objects."""
        return frozenset(
            (kind, item.name)
            for kind, items in (("producer", self.producers), ("updater", self.updaters),
                                ("plugin", self.plugins), ("policy", self.policies),
                                ("listen", self.listens))
            for item in items)


@dataclass(frozen=True)
class CommonDesired:
    """The part of the desired state common to all aggregators of a group."""
    auths: tuple[Auth | None, ...]
    listens: tuple[DesiredListener, ...]
    producers: tuple[DesiredProducer, ...]
    updaters: tuple[DesiredUpdater, ...]
    subscriptions: tuple[DesiredSubscription, ...]


def make_sampler_state(description: Description, group: SamplerGroup, daemon: LdmsDaemon,
                       dialect: Dialect) -> DesiredState:
    """Build the desired state of a sampler: its plugins and advertisers."""
    return DesiredState(
        daemon.name, group.name, _build_unobservable(daemon, (), dialect),
        tuple(_make_plugin(description.plugins[name], daemon.name, dialect) for name
              in group.plugins),
        _build_advertisers(group, daemon, dialect))


@dataclass(frozen=True)
class SplitProducers:
    """Producers shared by several aggregators of a group, from the view of one of them."""
    names: frozenset[str]               # of all shared producers
    mine: Mapping[str, frozenset[str]]  # {producer: its sets for this aggregator}
    free: frozenset[str]                # those of these sets that no other aggregator still has


def make_common_state(group: AggregatorGroup, dialect: Dialect,
                      is_exclusive: bool = True) -> CommonDesired:
    """
    Build the desired state common to the aggregators of a group.

    `is_exclusive`: they are in no other aggregator group, so an updater for all producers covers
    all of a daemon's.
    """
    added = [producer for producer in group.producers if parts.is_added(producer)]
    names = [producer.name for producer in added]
    return CommonDesired(
        tuple(dict.fromkeys(producer.endpoint.auth for producer in added)),
        tuple(DesiredListener(
            each.name, tuple(parts.build_producer_listener(
                # The balance decides which aggregator collects; a peer that advertises itself
                # is collected already.
                replace(each, disable_start=True) if len(group.members) > 1 or names else each,
                dialect)),
            each.regex, each.ip) for each in group.listens),
        tuple(DesiredProducer(producer.name, parts.build_producer_add(producer, dialect),
                              producer.endpoint.host, producer.endpoint.port,
                              producer.endpoint.transport) for producer in added),
        tuple(_make_updater(each, names, dialect, is_exclusive) for each in group.updaters),
        tuple(DesiredSubscription(subscribe, unsubscribe,
                                  frozenset(select_matching(each.producers, names)))
              for each in group.subscriptions
              for subscribe, unsubscribe in zip(parts.build_subscribe(each, dialect),
                                                parts.build_unsubscribe(each, dialect))))


def make_aggregator_state(description: Description, group: AggregatorGroup, daemon: LdmsDaemon,
                          dialect: Dialect, shared: CommonDesired, runs: Collection[str],
                          advertised: Iterable[str] = (), split: SplitProducers | None = None,
                          silent: Iterable[str] = ()) -> DesiredState:
    """
    Build the desired state of an aggregator for one of its groups.

    `runs`: the producers it collects from; the group's other producers exist, stopped.
    `advertised`: its advertised producers.  `split`: if producers are shared.  `silent`: producers
    whose aggregators do not answer.
    """
    updaters = shared.updaters if split is None else tuple(
        made for each in group.updaters
        for made
        in _make_split_updaters(each, [item.name for item in shared.producers], split, dialect))
    stores = [store for store in description.stores if daemon.name in store.daemons] \
        if group is _find_first_group(description, daemon.name) else []
    plugins = [*group.plugins, *(store.plugin for store in stores)]
    return DesiredState(
        daemon.name, group.name, _build_unobservable(daemon, shared.auths, dialect),
        tuple(_make_plugin(description.plugins[name], daemon.name, dialect,
                           is_store=name not in group.plugins)
              for name in dict.fromkeys(plugins)),
        _build_advertisers(group, daemon, dialect), shared.listens,
        (*shared.producers, *map(DesiredProducer, advertised)), frozenset(runs),
        frozenset(silent), () if split is None else tuple(sorted(split.mine.items())), updaters,
        tuple(_make_policy(store, description.plugins[store.plugin], dialect) for store in stores),
        shared.subscriptions,
        # Left over from an owner that balanced the group by sets.
        frozenset(("updater", _make_split_name(each)) for each in group.updaters
                  if group.balance != "sets"))


def add_former(desired: DesiredState, former: DesiredState | None) -> DesiredState:
    """Add the objects of an earlier description that this one does not contain."""
    if former is None:
        return desired
    still = {each.unsubscribe for each in desired.subscriptions}
    removed = {each.unsubscribe: None for each in former.subscriptions}
    removed.update(dict.fromkeys(former.unsubscribed))
    return replace(
        desired,
        former=(desired.former | former.list_names() | former.former) - desired.list_names(),
        unsubscribed=tuple(each for each in removed if each not in still))


def _find_first_group(description: Description, daemon: str) -> AggregatorGroup | None:
    """Return the group with which a daemon's storage policies are configured."""
    return next((group for group in description.aggregators if daemon in group.members), None)


def _build_unobservable(daemon: LdmsDaemon, more_auths: Iterable[Auth | None],
                        dialect: Dialect) -> tuple[Statement, ...]:
    auths = [endpoint.auth for endpoint in daemon.endpoints]
    result = [parts.build_auth_add(auth, dialect)
              for auth in dict.fromkeys([*auths, *more_auths]) if auth is not None]
    result += [parts.build_listen(endpoint, dialect) for endpoint in daemon.endpoints
               if endpoint is not daemon.control]
    result += [Statement(key, ()) for key, value in daemon.options
               if key in ("stream_enable", "msg_enable") and value == "true" and dialect.has(key)]
    return tuple(dict.fromkeys(result))


def _make_plugin(plugin: Plugin, daemon: str, dialect: Dialect,
                 is_store: bool = False) -> DesiredPlugin:
    is_started = plugin.interval_us is not None and not is_store
    return DesiredPlugin(
        parts.get_plugin_name(plugin, dialect), parts.build_plugin_load(plugin, dialect),
        tuple(parts.build_plugin_config(plugin, dialect, daemon if is_started else "")),
        parts.build_plugin_start(plugin, dialect) if is_started else None,
        plugin.interval_us or 0, plugin.offset_us or 0)


def _build_advertisers(group: SamplerGroup | AggregatorGroup, daemon: LdmsDaemon,
                       dialect: Dialect) -> tuple[tuple[Statement, ...], ...]:
    return tuple(tuple(parts.build_advertiser(each, dialect))
                 for name, advertises in group.advertises if name == daemon.name
                 for each in advertises)


def _make_updater(updater: Updater, names: list[str], dialect: Dialect,
                  is_exclusive: bool) -> DesiredUpdater:
    producers = updater.producers
    if not producers and not is_exclusive:
        producers = make_regexes(sorted(names))
    covers = names if not updater.producers else [
        name for regex in updater.producers for name in select_matching(regex, names)]
    return DesiredUpdater(
        updater.name, tuple(parts.build_updater(updater, dialect, producers=producers)),
        _MODES.get(updater.mode, "pull"), updater.mode == "auto_interval",
        updater.interval_us, updater.offset_us or 0,
        tuple((match.regex, match.field) for match in updater.sets), frozenset(covers))


def _make_split_updaters(updater: Updater, names: Iterable[str], split: SplitProducers,
                         dialect: Dialect) -> list[DesiredUpdater]:
    """Build two updaters: for whole producers, and for our sets of shared ones."""
    whole = frozenset(names) - split.names
    own = frozenset(split.mine)
    sets = {each for each in split.free if not updater.sets or any(
        match.field != "inst" or select_matching(match.regex, [each]) for match in updater.sets)}
    # Without sets it has no producers; without matches it would update all their sets.
    matches = tuple(SetMatch(regex) for regex in make_regexes(sorted(sets)) or ["^$"])
    result = []
    for item, covers, rules in ((updater, whole, updater.sets),
                                (replace(updater, name=_make_split_name(updater)), own, matches)):
        desired = _select_names(item.producers, covers)
        made = replace(item, producers=make_regexes(sorted(desired)) or ("^$",), sets=rules)
        result.append(replace(_make_updater(made, [], dialect, True), covers=desired,
                              allows_others=False))
    return result


def _make_split_name(updater: Updater) -> str:
    return f"{updater.name}_shared"


def _select_names(regexes: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    every = list(regexes)
    return names if not every else frozenset(
        name for regex in every for name in select_matching(regex, names))


def _make_policy(store: StoragePolicy, plugin: Plugin, dialect: Dialect) -> DesiredPolicy:
    return DesiredPolicy(
        store.name, tuple(parts.build_storage_policy(store, plugin, dialect)),
        tuple((name, value) for name, value in (
            ("container", store.container), ("schema", store.schema), ("regex", store.regex),
            ("decomposition", store.decomposition)) if value))


class PreviousDescriptions:
    """
    Objects of earlier descriptions, to be removed from the daemons.

    For a daemon observed under an earlier description it is what was desired then.  For the others
    it is derived from the last description: another instance may have applied it.
    """

    def __init__(self) -> None:
        self._last: dict[str, dict[Key, DesiredState]] = {}           # by daemon
        self._former: dict[str, dict[Key, tuple[frozenset[tuple[str, str]],
                                                tuple[Statement, ...]]]] = {}
        # The description before, its groups by daemon, and daemons that _last has not from it.
        self._before: Description | None = None
        self._groups: Mapping[str, Iterable[Group]] = {}
        self._unobserved: set[str] = set()
        self._shared: dict[tuple[str, str], CommonDesired] = {}

    def replace(self, description: Description | None, groups: Mapping[str, Iterable[Group]],
                daemons: Mapping[str, DaemonState]) -> None:
        """Record that `description` is replaced; `groups`: its groups by daemon."""
        self._before, self._groups = description, groups
        self._unobserved = {name for name in groups if daemons[name].observed is None}
        self._shared.clear()
        self._former.clear()

    def may_have_leftovers(self, state: DaemonState) -> bool:
        """True if a daemon outside the description may still have objects of it."""
        name = state.daemon.name
        return name in self._unobserved or bool(self._last.get(name) and state.observed is not None)

    def add_former_states(self, state: DaemonState, states: dict[Key, DesiredState],
                          heir: str) -> list[DesiredState]:
        """
        Add former objects to `states`, {(class of a group, its name): the desired state}.

        Objects of a group that does not exist any more are removed by the group `heir`.
        """
        name = state.daemon.name
        last = self._restore_last(state)
        for key in last:
            states.setdefault(key, DesiredState(name, heir))
        if name not in self._former or self._former[name].keys() != states.keys():
            made = {key: add_former(desired, last.get(key)) for key, desired in states.items()}
            every: frozenset[tuple[str, str]] = frozenset().union(
                *(desired.list_names() for desired in made.values()))
            last.update(made)
            self._former[name] = {key: (desired.former - every, desired.unsubscribed)
                                  for key, desired in made.items()}
        former = self._former[name]
        return [replace(desired, former=former[key][0], unsubscribed=former[key][1])
                for key, desired in states.items()]

    def drop(self, name: str) -> None:
        """Forget a daemon: nothing of earlier descriptions is left on it."""
        self._last.pop(name, None)
        self._former.pop(name, None)
        self._unobserved.discard(name)

    def _restore_last(self, state: DaemonState) -> dict[Key, DesiredState]:
        name, before = state.daemon.name, self._before
        last = self._last.setdefault(name, {})
        if name in self._unobserved and before is not None and state.observed is not None:
            self._unobserved.discard(name)
            for group in self._groups.get(name, ()):
                key = (type(group).__name__, group.name)
                last[key] = add_former(self._make_group_state(before, state, group), last.get(key))
        return last

    def _make_group_state(self, description: Description, state: DaemonState,
                          group: Group) -> DesiredState:
        daemon = description.daemons[state.daemon.name]
        if isinstance(group, SamplerGroup):
            return make_sampler_state(description, group, daemon, state.dialect)
        key = (group.name, state.dialect.release)
        if key not in self._shared:
            self._shared[key] = make_common_state(group, state.dialect)
        return make_aggregator_state(description, group, daemon, state.dialect,
                                     self._shared[key], ())
