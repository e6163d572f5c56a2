"""
What the description wants of one daemon, for one of the groups that it is in.

Statements are those of a configuration file (statements/): one rule for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from iostats.ldms.description.normal import SetMatch
from iostats.ldms.description.regexes import matching, one_of
from iostats.ldms.statements import parts
from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iostats.ldms.description.normal import (
        AggregatorGroup,
        Auth,
        Description,
        LdmsDaemon,
        Plugin,
        SamplerGroup,
        StoragePolicy,
        Updater,
    )
    from iostats.ldms.statements.dialect import Dialect

_MODES = {"push": "push", "onchange": "onchange"}


@dataclass(frozen=True)
class WantedPlugin:
    """`name`: as the daemon calls it; `start`: None for one that is not started."""
    name: str
    load: Statement
    config: tuple[Statement, ...]
    start: Statement | None = None
    interval_us: int = 0
    offset_us: int = 0

    def statements(self) -> list[Statement]:
        """From load to start."""
        return [self.load, *self.config, *([self.start] if self.start else [])]


@dataclass(frozen=True)
class WantedProducer:
    """`add` is None for one that comes by advertisement."""
    name: str
    add: Statement | None = None
    host: str = ""
    port: int = 0
    transport: str = ""


@dataclass(frozen=True)
class WantedUpdater:
    """
    Attributes:
        statements: from updtr_add to updtr_start.
        mode, auto_interval, interval_us, offset_us, matches: as UpdaterSeen has them.
        covers: the producers that it has to have, of those that are added by their names.
        has_others: it may have other producers, too.
    """
    name: str
    statements: tuple[Statement, ...]
    mode: str
    auto_interval: bool
    interval_us: int
    offset_us: int
    matches: tuple[tuple[str, str], ...]
    covers: frozenset[str]
    has_others: bool = True


@dataclass(frozen=True)
class WantedPolicy:
    """A storage policy; `seen`: what PolicySeen has of it, as (attribute, value)."""
    name: str
    statements: tuple[Statement, ...]
    seen: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WantedListen:
    name: str
    statements: tuple[Statement, ...]
    regex: str
    ip: str


@dataclass(frozen=True)
class WantedSubscription:
    """`covers`: the producers that it is about, of those that are added by their names."""
    subscribe: Statement
    unsubscribe: Statement
    covers: frozenset[str]


@dataclass(frozen=True)
class Wanted:
    """
    Attributes:
        producers: all of the group; `runs`: the names of those that this daemon collects from.
        silent: names of producers whose aggregators do not answer.
        shared: {producer: its sets that are for this daemon}, of those that several collect from.
        once: what no question tells: domains of authentication, further listeners, streams.
        former: ("producer" | "updater" | "plugin" | "policy" | "listen", name) that an earlier
            description wanted, or may have wanted, here and this one does not.
        unsubscribed: prdcr_unsubscribe of those that an earlier one wanted.
    """
    daemon: str
    group: str
    once: tuple[Statement, ...] = ()
    plugins: tuple[WantedPlugin, ...] = ()
    advertisers: tuple[tuple[Statement, ...], ...] = ()
    listens: tuple[WantedListen, ...] = ()
    producers: tuple[WantedProducer, ...] = ()
    runs: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    shared: tuple[tuple[str, frozenset[str]], ...] = ()
    updaters: tuple[WantedUpdater, ...] = ()
    policies: tuple[WantedPolicy, ...] = ()
    subscriptions: tuple[WantedSubscription, ...] = ()
    former: frozenset[tuple[str, str]] = frozenset()
    unsubscribed: tuple[Statement, ...] = ()

    def names(self) -> frozenset[tuple[str, str]]:
        """(what it is, its name) of all that this wants."""
        return frozenset(
            (kind, item.name)
            for kind, items in (("producer", self.producers), ("updater", self.updaters),
                                ("plugin", self.plugins), ("policy", self.policies),
                                ("listen", self.listens))
            for item in items)


@dataclass(frozen=True)
class Shared:
    """What all aggregators of a group have alike; made once for all of them."""
    auths: tuple[Auth | None, ...]
    listens: tuple[WantedListen, ...]
    producers: tuple[WantedProducer, ...]
    updaters: tuple[WantedUpdater, ...]
    subscriptions: tuple[WantedSubscription, ...]


def of_sampler(description: Description, group: SamplerGroup, daemon: LdmsDaemon,
               dialect: Dialect) -> Wanted:
    """What a sampler has: its plugins, and to whom it makes itself known."""
    return Wanted(
        daemon.name, group.name, _once(daemon, (), dialect),
        tuple(_plugin(description.plugins[name], daemon.name, dialect) for name in group.plugins),
        _advertisers(group, daemon, dialect))


@dataclass(frozen=True)
class Split:
    """
    Producers that several aggregators of a group share, as it concerns one of them.

    Attributes:
        names: of all producers that are shared.
        mine: {producer: its sets that are for this aggregator}.
        free: of these, the sets that no other has any more.
    """
    names: frozenset[str]
    mine: Mapping[str, frozenset[str]]
    free: frozenset[str]


def shared_of(group: AggregatorGroup, dialect: Dialect, is_alone: bool = True) -> Shared:
    """
    What the aggregators of a group have alike.

    `is_alone`: they are in no other aggregators' group, so that an updater for all producers is for
    all that a daemon has.
    """
    added = [producer for producer in group.producers if parts.is_added(producer)]
    names = [producer.name for producer in added]
    return Shared(
        tuple(dict.fromkeys(producer.endpoint.auth for producer in added)),
        tuple(WantedListen(
            each.name, tuple(parts.listen_for_producers(
                # Which of several collects is for the balance, not for who was heard first; a
                # peer that advertises itself is collected already.
                replace(each, disable_start=True) if len(group.members) > 1 or names else each,
                dialect)),
            each.regex, each.ip) for each in group.listens),
        tuple(WantedProducer(producer.name, parts.producer_add(producer, dialect),
                             producer.endpoint.host, producer.endpoint.port,
                             producer.endpoint.transport) for producer in added),
        tuple(_updater(each, names, dialect, is_alone) for each in group.updaters),
        tuple(WantedSubscription(subscribe, unsubscribe,
                                 frozenset(matching(each.producers, names)))
              for each in group.subscriptions
              for subscribe, unsubscribe in zip(parts.subscribe(each, dialect),
                                                parts.unsubscribe(each, dialect))))


def of_aggregator(description: Description, group: AggregatorGroup, daemon: LdmsDaemon,
                  dialect: Dialect, shared: Shared, runs: Collection[str],
                  advertised: Iterable[str] = (), split: Split | None = None,
                  silent: Iterable[str] = ()) -> Wanted:
    """
    What an aggregator has for one of its groups.

    `runs`: the producers that it is to collect from; all others of the group are there, stopped.
    `advertised`: those that it has by advertisement.  `split`: where producers are shared.
    `silent`: those whose aggregators do not answer.
    """
    updaters = shared.updaters if split is None else tuple(
        made for each in group.updaters
        for made in _split_updaters(each, [one.name for one in shared.producers], split, dialect))
    stores = [store for store in description.stores if daemon.name in store.daemons] \
        if group is _first_of(description, daemon.name) else []
    plugins = [*group.plugins, *(store.plugin for store in stores)]
    return Wanted(
        daemon.name, group.name, _once(daemon, shared.auths, dialect),
        tuple(_plugin(description.plugins[name], daemon.name, dialect,
                      is_store=name not in group.plugins)
              for name in dict.fromkeys(plugins)),
        _advertisers(group, daemon, dialect), shared.listens,
        (*shared.producers, *map(WantedProducer, advertised)), frozenset(runs),
        frozenset(silent), () if split is None else tuple(sorted(split.mine.items())), updaters,
        tuple(_policy(store, description.plugins[store.plugin], dialect) for store in stores),
        shared.subscriptions,
        # Left by another owner, when the group was balanced by sets.
        frozenset(("updater", _shared_name(each)) for each in group.updaters
                  if group.balance != "sets"))


def after(wanted: Wanted, former: Wanted | None) -> Wanted:
    """`wanted`, with what `former`, of an earlier description, wanted beside it."""
    if former is None:
        return wanted
    still = {each.unsubscribe for each in wanted.subscriptions}
    gone = {each.unsubscribe: None for each in former.subscriptions}
    gone.update(dict.fromkeys(former.unsubscribed))
    return replace(
        wanted, former=(wanted.former | former.names() | former.former) - wanted.names(),
        unsubscribed=tuple(each for each in gone if each not in still))


def _first_of(description: Description, daemon: str) -> AggregatorGroup | None:
    """The group that a daemon's storage policies are told with."""
    return next((group for group in description.aggregators if daemon in group.members), None)


def _once(daemon: LdmsDaemon, others: Iterable[Auth | None],
          dialect: Dialect) -> tuple[Statement, ...]:
    auths = [endpoint.auth for endpoint in daemon.endpoints]
    found = [parts.authentication(auth, dialect)
             for auth in dict.fromkeys([*auths, *others]) if auth is not None]
    found += [parts.listen(endpoint, dialect) for endpoint in daemon.endpoints
              if endpoint is not daemon.control]
    found += [Statement(key, ()) for key, value in daemon.options
              if key in ("stream_enable", "msg_enable") and value == "true" and dialect.has(key)]
    return tuple(dict.fromkeys(found))


def _plugin(plugin: Plugin, daemon: str, dialect: Dialect, is_store: bool = False) -> WantedPlugin:
    is_started = plugin.interval_us is not None and not is_store
    return WantedPlugin(
        parts.plugin_name(plugin, dialect), parts.plugin_load(plugin, dialect),
        tuple(parts.plugin_config(plugin, dialect, daemon if is_started else "")),
        parts.plugin_start(plugin, dialect) if is_started else None,
        plugin.interval_us or 0, plugin.offset_us or 0)


def _advertisers(group: SamplerGroup | AggregatorGroup, daemon: LdmsDaemon,
                 dialect: Dialect) -> tuple[tuple[Statement, ...], ...]:
    return tuple(tuple(parts.advertiser(each, dialect))
                 for name, advertises in group.advertises if name == daemon.name
                 for each in advertises)


def _updater(updater: Updater, names: list[str], dialect: Dialect,
             is_alone: bool) -> WantedUpdater:
    producers = updater.producers
    if not producers and not is_alone:
        producers = one_of(sorted(names))
    covers = names if not updater.producers else [
        name for regex in updater.producers for name in matching(regex, names)]
    return WantedUpdater(
        updater.name, tuple(parts.updater(updater, dialect, producers=producers)),
        _MODES.get(updater.mode, "pull"), updater.mode == "auto_interval",
        updater.interval_us, updater.offset_us or 0,
        tuple((match.regex, match.field) for match in updater.sets), frozenset(covers))


def _split_updaters(updater: Updater, names: Iterable[str], split: Split,
                    dialect: Dialect) -> list[WantedUpdater]:
    """That of whole producers, and one for our sets of shared ones."""
    whole = frozenset(names) - split.names
    mine = frozenset(split.mine)
    sets = {each for each in split.free if not updater.sets or any(
        match.field != "inst" or matching(match.regex, [each]) for match in updater.sets)}
    # With no set of ours it has no producers; without matches it would be for all of their sets.
    matches = tuple(SetMatch(regex) for regex in one_of(sorted(sets)) or ["^$"])
    found = []
    for one, covers, rules in ((updater, whole, updater.sets),
                               (replace(updater, name=_shared_name(updater)), mine, matches)):
        wanted = _names_matching(one.producers, covers)
        made = replace(one, producers=one_of(sorted(wanted)) or ("^$",), sets=rules)
        found.append(replace(_updater(made, [], dialect, True), covers=wanted, has_others=False))
    return found


def _shared_name(updater: Updater) -> str:
    return f"{updater.name}_shared"


def _names_matching(regexes: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    every = list(regexes)
    return names if not every else frozenset(
        name for regex in every for name in matching(regex, names))


def _policy(store: StoragePolicy, plugin: Plugin, dialect: Dialect) -> WantedPolicy:
    return WantedPolicy(
        store.name, tuple(parts.storage_policy(store, plugin, dialect)),
        tuple((name, value) for name, value in (
            ("container", store.container), ("schema", store.schema), ("regex", store.regex),
            ("decomposition", store.decomposition)) if value))
