"""
A daemon's complete configuration, in the order that ldmsd needs.

    the daemon itself: environment, options, authentication domains, listeners
    advertisers
    a sampler's plugins
    an aggregator's producers; listeners for advertised producers; subscriptions, plugins,
    updaters (they match the producers that exist by then), storage policies
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional, Union

from iostats.base.errors import IostatsError
from iostats_ldms.balance import assign_items
from iostats_ldms.description.model import (
    Advertise,
    AggregatorGroup,
    Auth,
    Description,
    LdmsDaemon,
    Listen,
    Plugin,
    Producer,
    SamplerGroup,
    StoragePolicy,
)
from iostats_ldms.statements import parts
from iostats_ldms.statements.checker import find_problems
from iostats_ldms.statements.dialect import (
    DEFAULT_RELEASE,
    NEWEST,
    Dialect,
    Statement,
    format_statement,
    get_dialect,
)


class RefusedConfiguration(IostatsError):
    """A configuration that ldmsd of that release would refuse."""


class Configurations:
    """
    The configurations of all daemons of a description.

    A group's producers are spread over its aggregators evenly, or by their capacities.
    """

    def __init__(self, description: Description, dialect: Dialect) -> None:
        self.description, self.dialect = description, dialect
        self._samplers: dict[str, list[SamplerGroup]] = {}
        self._aggregators: dict[str, list[AggregatorGroup]] = {}
        self._stores: dict[str, list[StoragePolicy]] = {}
        self._producers: dict[tuple[str, str], list[int]] = {}
        self._have_streams = find_stream_daemons(description)
        for sampler_group in description.samplers:
            for member in sampler_group.members:
                self._samplers.setdefault(member, []).append(sampler_group)
        for policy in description.stores:
            for member in policy.daemons:
                self._stores.setdefault(member, []).append(policy)
        for group in description.aggregators:
            for member in group.members:
                self._aggregators.setdefault(member, []).append(group)
            place = place_producers(group)
            for number, producer in enumerate(group.producers):
                if producer.name in place:
                    self._producers.setdefault((group.name, place[producer.name]), []).append(
                        number)
        self._advertises = {
            (group.name, name): entries
            for group in self._list_groups()
            for name, entries in group.advertises}

    def _list_groups(self) -> list[Union[SamplerGroup, AggregatorGroup]]:
        return [*self.description.samplers, *self.description.aggregators]

    def make_statements(self, daemon: str, is_bare: bool = False) -> list[Statement]:
        """
        Build and check the statements of a daemon; `is_bare`: only those for the daemon itself.

        Raises RefusedConfiguration.
        """
        draft = _ConfigurationBuilder(self.description.daemons[daemon], self.dialect)
        draft.add_daemon(daemon in self._have_streams)
        if not is_bare:
            self._add_roles(draft, daemon)
        for wrong in find_problems(draft.statements, self.dialect):
            line = format_statement(draft.statements[wrong.line - 1])
            raise RefusedConfiguration(f"{daemon}: LDMS {self.dialect.release} would refuse "
                                       f"{line[:120]!r}: {wrong.text}")
        return draft.statements

    def _add_roles(self, draft: _ConfigurationBuilder, daemon: str) -> None:
        """Add the statements for the daemon's roles: sampler, aggregator, store."""
        samplers = self._samplers.get(daemon, [])
        aggregators = self._aggregators.get(daemon, [])
        groups: list[Union[SamplerGroup, AggregatorGroup]] = [*samplers, *aggregators]
        for group in groups:
            for entry in self._advertises.get((group.name, daemon), ()):
                draft.add_auths([entry.auth])
                draft.add(parts.build_advertiser(entry, self.dialect))
        plugins = self.description.plugins
        for sampler_group in samplers:
            draft.add_sampler_plugins(plugins[name] for name in sampler_group.plugins)
        for aggregator_group in aggregators:
            draft.producers(aggregator_group,
                            self._producers.get((aggregator_group.name, daemon), []))
        for aggregator_group in aggregators:
            draft.add_aggregator(aggregator_group, plugins)
        draft.policies(self._stores.get(daemon, []), plugins)


def place_producers(group: AggregatorGroup) -> dict[str, str]:
    """Place a group's named producers: {producer: aggregator}."""
    capacity = {**dict.fromkeys(group.members, 1.0), **dict(group.capacity)}
    return assign_items({producer.name: 1.0 for producer in group.producers
                         if parts.is_added(producer)}, capacity, {})


def find_stream_daemons(description: Description) -> set[str]:
    """
    Find the daemons that need stream_enable: subscribers to streams, and their producers.

    Since 4.5 a daemon without it refuses stream commands (errno 38); in 4.4 streams are always
    enabled.
    """
    result: set[str] = set()
    for group in description.aggregators:
        if any(not subscription.is_message for subscription in group.subscriptions):
            result.update(group.members)
            result.update(producer.daemon for producer in group.producers)
    return result


def check_description(description: Description) -> None:
    """Raise RefusedConfiguration if a daemon would refuse its configuration."""
    configurations = Configurations(description, get_dialect(
        description.ldms_release or DEFAULT_RELEASE))
    for name in description.daemons:
        configurations.make_statements(name)


class _ConfigurationBuilder:
    """Collects the statements of one daemon."""

    def __init__(self, daemon: LdmsDaemon, dialect: Dialect) -> None:
        self.daemon, self.dialect = daemon, dialect
        self.statements: list[Statement] = []
        self._auths: dict[str, Auth] = {}
        self._plugins: dict[str, Plugin] = {}
        self._producers: set[str] = set()

    def add(self, statements: Iterable[Statement]) -> None:
        """Append statements."""
        self.statements += statements

    def add_daemon(self, has_streams: bool) -> None:
        """Add environment, options and listeners."""
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
                    (name, parts.normalize_permission(text) if name == "perm" else text)
                    for name, text in value)))
        if has_streams:
            enabled.add("stream_enable")
        self.statements += [Statement(verb, ()) for verb in ("stream_enable", "msg_enable")
                            if verb in enabled and verb in self.dialect.verbs]
        for endpoint in daemon.endpoints:
            self.add_auths([endpoint.auth])
            self.statements.append(parts.build_listen(endpoint, self.dialect))

    def add_auths(self, auths: Iterable[Auth | None]) -> None:
        """Add auth_add for each new authentication domain."""
        for auth in auths:
            if auth is None:
                continue
            auth_before = self._auths.get(auth.name)
            if auth_before is None:
                self._auths[auth.name] = auth
                self.statements.append(parts.build_auth_add(auth, self.dialect))
            elif auth_before != auth:
                raise RefusedConfiguration(
                    f"{self.daemon.name}: authentication domain {auth.name[:60]!r} is "
                    f"{auth_before.plugin} {auth_before.conf} and {auth.plugin} {auth.conf}; give "
                    "one of them another name")

    def add_sampler_plugins(self, plugins: Iterable[Plugin]) -> None:
        """Add a sampler's plugins."""
        for plugin in plugins:
            if self._is_new_plugin(plugin):
                self.add(parts.build_sampler_plugin(plugin, self.daemon.name, self.dialect))

    def producers(self, group: AggregatorGroup, numbers: Iterable[int]) -> None:
        """Add the producers it collects from."""
        chosen = [group.producers[number] for number in numbers]
        self.add_auths(producer.endpoint.auth for producer in chosen)
        for producer in chosen:
            if producer.name not in self._producers:
                self._producers.add(producer.name)
                self.add([parts.build_producer_add(producer, self.dialect),
                          parts.build_named("prdcr_start", producer.name)])

    def add_aggregator(self, group: AggregatorGroup, plugins: Mapping[str, Plugin]) -> None:
        """Add an aggregator's statements, except for producers and storage policies."""
        for listens in group.listens:
            self.add_auths([listens.advertiser_auth])
            self.add(parts.build_producer_listener(listens, self.dialect))
        for subscription in group.subscriptions:
            self.add(parts.build_subscribe(subscription, self.dialect))
        for name in group.plugins:
            if self._is_new_plugin(plugins[name]):
                self.add(parts.build_aggregator_plugin(plugins[name], self.daemon.name,
                                                       self.dialect))
        for updater in group.updaters:
            self.add(parts.build_updater(updater, self.dialect))

    def policies(self, policies: Iterable[StoragePolicy], plugins: Mapping[str, Plugin]) -> None:
        """Add storage policies and their plugins."""
        for policy in policies:
            plugin = plugins[policy.plugin]
            if self._is_new_plugin(plugin):
                self.add(parts.build_store_plugin(plugin, self.dialect))
            self.add(parts.build_storage_policy(policy, plugin, self.dialect))

    def _is_new_plugin(self, plugin: Plugin) -> bool:
        """True if the plugin must be loaded; RefusedConfiguration for a second instance in 4.4."""
        name = parts.get_plugin_name(plugin, self.dialect)
        plugin_before = self._plugins.get(name)
        if plugin_before is None:
            self._plugins[name] = plugin
            return True
        if plugin_before.instance != plugin.instance and (
                _get_effective_settings(plugin_before) != _get_effective_settings(plugin)):
            raise RefusedConfiguration(
                f"{self.daemon.name}: {plugin_before.instance[:60]!r} and {plugin.instance[:60]!r} "
                f"are both {plugin.plugin[:60]!r}, and LDMS {self.dialect.release} loads a plugin "
                "once; leave one of them, or give both the same configuration")
        return False


def _get_effective_settings(plugin: Plugin) -> tuple[object, ...]:
    return plugin.config, plugin.interval_us, plugin.offset_us, plugin.perm


# Values that equal the default of a release without the attribute.
_DEFAULTS = {"rail": (None, 1), "quota": (None, -1), "rx_rate": (None, -1)}


def find_unsupported(description: Description, dialect: Dialect) -> list[str]:
    """Describe parts of a description that the release does not support, and that are left out."""
    return list(dict.fromkeys(f"LDMS {dialect.release} has no {text}"
                              for text in _iterate_unsupported(description, dialect)))


def _iterate_unsupported(description: Description, dialect: Dialect) -> Iterator[str]:
    for daemon in description.daemons.values():
        for key, value in daemon.options:
            if isinstance(value, str):
                option = "--" + key.lstrip("-")
                if key == "msg_enable" and value == "true" and key not in dialect.verbs:
                    yield f"message channels: msg_enable is left out of {daemon.group}"
                elif option in NEWEST.options and option not in dialect.options:
                    yield f"option {option}: it is left out of {daemon.group}"
            elif key in NEWEST.verbs and key not in dialect.verbs:
                yield f"statement {key}: it is left out of {daemon.group}"
    for group in description.aggregators:
        yield from _iterate_limits("prdcr_add", group.producers, f"producers of {group.name}",
                                   dialect)
        yield from _iterate_limits("prdcr_listen_add", group.listens,
                                   f"prdcr_listen of {group.name}",
                                   dialect)
        for listens in group.listens:
            if listens.kind == "active" and not dialect.has("prdcr_listen_add", "type"):
                yield (f"active prdcr_listen: {listens.name} of {group.name} waits for the "
                       "samplers' own connections")
        for subscription in group.subscriptions:
            if subscription.is_message and not dialect.has("prdcr_subscribe", "message_tag"):
                yield (f"message channels: {group.name} does not subscribe to "
                       f"{subscription.name}")
            elif (subscription.rx_rate not in _DEFAULTS["rx_rate"]
                  and not dialect.has("prdcr_subscribe", "rx_rate")):
                yield (f"rx_rate of a subscription: it is left out of {subscription.name} of "
                       f"{group.name}")
    groups: list[Union[SamplerGroup, AggregatorGroup]] = [*description.samplers,
                                                          *description.aggregators]
    for each in groups:
        advertises = [entry for _, entries in each.advertises for entry in entries]
        yield from _iterate_limits("advertiser_add", advertises, f"advertisers of {each.name}",
                                   dialect)


def _iterate_limits(verb: str, items: Sequence[Producer | Listen | Advertise], where: str,
                    dialect: Dialect) -> Iterable[str]:
    """Yield a text for each of rail, quota, rx_rate that is set but unsupported by `verb`."""
    for name, defaults in _DEFAULTS.items():
        if not dialect.has(verb, name):
            values: set[Optional[int]] = {getattr(item, name) for item in items}
            if values - set(defaults):
                yield f"{name} with {verb}: it is left out of the {where}"
