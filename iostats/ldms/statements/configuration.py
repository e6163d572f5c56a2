"""
A daemon's whole configuration, in the order that ldmsd needs.

    what concerns the daemon itself: environment, options, domains of authentication, listeners
    what makes it known: advertisers
    a sampler's plugins
    an aggregator's producers, those that it collects from; what it takes that advertises;
    subscriptions, plugins, updaters (they match the producers that are there by then), policies
"""

from __future__ import annotations

from iostats.base.errors import IostatsError
from iostats.ldms.balance import balanced
from iostats.ldms.statements import parts
from iostats.ldms.statements.checker import problems
from iostats.ldms.statements.dialect import DEFAULT_RELEASE, NEWEST, of_release
from iostats.ldms.statements.statement import Statement, as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Union

    from iostats.ldms.description.normal import (
        AggregatorGroup,
        Auth,
        Description,
        LdmsDaemon,
        Plugin,
        SamplerGroup,
        StoragePolicy,
    )
    from iostats.ldms.statements.dialect import Dialect


class NotToldError(IostatsError):
    """Something of a description cannot be told to a daemon of that release."""


class Configurations:
    """
    The configurations of all daemons of a description; a group's producers are spread over its
    aggregators evenly, or as their capacities are.
    """

    def __init__(self, description: Description, dialect: Dialect) -> None:
        self.description, self.dialect = description, dialect
        self._samplers: dict[str, list[SamplerGroup]] = {}
        self._aggregators: dict[str, list[AggregatorGroup]] = {}
        self._stores: dict[str, list[StoragePolicy]] = {}
        self._producers: dict[tuple[str, str], list[int]] = {}
        self._have_streams = daemons_with_streams(description)
        for sampler_group in description.samplers:
            for member in sampler_group.members:
                self._samplers.setdefault(member, []).append(sampler_group)
        for policy in description.stores:
            for member in policy.daemons:
                self._stores.setdefault(member, []).append(policy)
        for group in description.aggregators:
            for member in group.members:
                self._aggregators.setdefault(member, []).append(group)
            place = placement(group)
            for number, producer in enumerate(group.producers):
                if producer.name in place:
                    self._producers.setdefault((group.name, place[producer.name]), []).append(
                        number)
        self._advertises = {
            (group.name, name): entries
            for group in self._groups()
            for name, entries in group.advertises}

    def _groups(self) -> list[Union[SamplerGroup, AggregatorGroup]]:
        return [*self.description.samplers, *self.description.aggregators]

    def of(self, daemon: str, is_bare: bool = False) -> list[Statement]:
        """
        The statements of that daemon, checked; `is_bare`: what concerns the daemon itself alone.

        Raises: NotToldError where ldmsd would not take them.
        """
        draft = _Draft(self.description.daemons[daemon], self.dialect)
        draft.daemon_itself(daemon in self._have_streams)
        if not is_bare:
            self._roles(draft, daemon)
        for wrong in problems(draft.statements, self.dialect):
            line = as_line(draft.statements[wrong.line - 1])
            raise NotToldError(f"{daemon}: LDMS {self.dialect.release} would refuse "
                               f"{line[:120]!r}: {wrong.text}")
        return draft.statements

    def _roles(self, draft: _Draft, daemon: str) -> None:
        """What it does as a sampler, an aggregator and a store."""
        samplers = self._samplers.get(daemon, [])
        aggregators = self._aggregators.get(daemon, [])
        groups: list[Union[SamplerGroup, AggregatorGroup]] = [*samplers, *aggregators]
        for group in groups:
            for entry in self._advertises.get((group.name, daemon), ()):
                draft.authentications([entry.auth])
                draft.add(parts.advertiser(entry, self.dialect))
        plugins = self.description.plugins
        for sampler_group in samplers:
            draft.sampler_plugins(plugins[name] for name in sampler_group.plugins)
        for aggregator_group in aggregators:
            draft.producers(aggregator_group,
                            self._producers.get((aggregator_group.name, daemon), []))
        for aggregator_group in aggregators:
            draft.aggregator(aggregator_group, plugins)
        draft.policies(self._stores.get(daemon, []), plugins)


def placement(group: AggregatorGroup) -> dict[str, str]:
    """{producer: aggregator} of those that are added by name."""
    capacity = {**dict.fromkeys(group.members, 1.0), **dict(group.capacity)}
    return balanced({producer.name: 1.0 for producer in group.producers
                     if parts.is_added(producer)}, capacity, {})


def daemons_with_streams(description: Description) -> set[str]:
    """
    Those that need stream_enable: the subscribers to streams, and those that they subscribe at.

    Since 4.5 a daemon without it answers to all about streams that it has none (errno 38); until
    4.4 streams are always there.
    """
    found: set[str] = set()
    for group in description.aggregators:
        if any(not subscription.is_message for subscription in group.subscriptions):
            found.update(group.members)
            found.update(producer.daemon for producer in group.producers)
    return found


def check(description: Description) -> None:
    """
    Raise NotToldError if a daemon of the description's release would refuse some of it; `generate`
    raises the same.
    """
    configurations = Configurations(description, of_release(
        description.ldms_release or DEFAULT_RELEASE))
    for name in description.daemons:
        configurations.of(name)


class _Draft:
    """One daemon's statements, as they are added."""

    def __init__(self, daemon: LdmsDaemon, dialect: Dialect) -> None:
        self.daemon, self.dialect = daemon, dialect
        self.statements: list[Statement] = []
        self._auths: dict[str, Auth] = {}
        self._plugins: dict[str, Plugin] = {}
        self._producers: set[str] = set()

    def add(self, statements: Iterable[Statement]) -> None:
        self.statements += statements

    def daemon_itself(self, has_streams: bool) -> None:
        """Environment, options, what it listens on."""
        daemon, enabled = self.daemon, set()
        for name, text in daemon.environment:
            self.statements.append(Statement("env", ((name, text),)))
        for key, value in daemon.options:
            if key in ("stream_enable", "msg_enable"):
                enabled.update([key] if value == "true" else [])
            elif isinstance(value, str):
                option = "--" + key.lstrip("-")
                if option in self.dialect.options or option not in NEWEST.options:
                    self.statements.append(Statement("option", (
                        (option, None), *((word, None) for word in value.split()))))
            elif key in self.dialect.verbs or key not in NEWEST.verbs:
                self.statements.append(Statement(key, tuple(
                    (name, parts.permission(text) if name == "perm" else text)
                    for name, text in value)))
        if has_streams:
            enabled.add("stream_enable")
        self.statements += [Statement(verb, ()) for verb in ("stream_enable", "msg_enable")
                            if verb in enabled and verb in self.dialect.verbs]
        for endpoint in daemon.endpoints:
            self.authentications([endpoint.auth])
            self.statements.append(parts.listen(endpoint, self.dialect))

    def authentications(self, auths: Iterable[Auth | None]) -> None:
        """auth_add for those that are new."""
        for auth in auths:
            if auth is None:
                continue
            known = self._auths.get(auth.name)
            if known is None:
                self._auths[auth.name] = auth
                self.statements.append(parts.authentication(auth, self.dialect))
            elif known != auth:
                raise NotToldError(
                    f"{self.daemon.name}: authentication domain {auth.name[:60]!r} is "
                    f"{known.plugin} {known.conf} and {auth.plugin} {auth.conf}; give one of them "
                    "another name")

    def sampler_plugins(self, plugins: Iterable[Plugin]) -> None:
        for plugin in plugins:
            if self._is_new(plugin):
                self.add(parts.sampler_plugin(plugin, self.daemon.name, self.dialect))

    def producers(self, group: AggregatorGroup, numbers: Iterable[int]) -> None:
        """Those that it collects from."""
        chosen = [group.producers[number] for number in numbers]
        self.authentications(producer.endpoint.auth for producer in chosen)
        for producer in chosen:
            if producer.name not in self._producers:
                self._producers.add(producer.name)
                self.add([parts.producer_add(producer, self.dialect),
                          parts.named("prdcr_start", producer.name)])

    def aggregator(self, group: AggregatorGroup, plugins: Mapping[str, Plugin]) -> None:
        """All but the producers and the storage policies."""
        for listens in group.listens:
            self.authentications([listens.advertiser_auth])
            self.add(parts.listen_for_producers(listens, self.dialect))
        for subscription in group.subscriptions:
            self.add(parts.subscribe(subscription, self.dialect))
        for name in group.plugins:
            if self._is_new(plugins[name]):
                self.add(parts.aggregator_plugin(plugins[name], self.daemon.name, self.dialect))
        for updater in group.updaters:
            self.add(parts.updater(updater, self.dialect))

    def policies(self, policies: Iterable[StoragePolicy], plugins: Mapping[str, Plugin]) -> None:
        for policy in policies:
            plugin = plugins[policy.plugin]
            if self._is_new(plugin):
                self.add(parts.store_plugin(plugin, self.dialect))
            self.add(parts.storage_policy(policy, plugin, self.dialect))

    def _is_new(self, plugin: Plugin) -> bool:
        """Whether it has to be loaded.  Raises NotToldError for a second instance until 4.4."""
        name = parts.plugin_name(plugin, self.dialect)
        known = self._plugins.get(name)
        if known is None:
            self._plugins[name] = plugin
            return True
        if known.instance != plugin.instance and _as_told(known) != _as_told(plugin):
            raise NotToldError(
                f"{self.daemon.name}: {known.instance[:60]!r} and {plugin.instance[:60]!r} are "
                f"both {plugin.plugin[:60]!r}, and LDMS {self.dialect.release} loads a plugin "
                "once; leave one of them, or give both the same configuration")
        return False


def _as_told(plugin: Plugin) -> tuple[object, ...]:
    return plugin.config, plugin.interval_us, plugin.offset_us, plugin.perm
