"""
Statements for each part of a description, both for files and for the control connection.

Intervals are in microseconds, permissions octal with a leading 0. Attributes that the dialect does
not have are left out; configuration.find_unsupported() reports them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

from iostats_ldms.description.model import (
    Advertise,
    Auth,
    ConfigLine,
    Endpoint,
    Listen,
    Plugin,
    Producer,
    StoragePolicy,
    Subscription,
    Updater,
)
from iostats_ldms.statements.dialect import Dialect, Statement

Attributes = tuple[tuple[str, Optional[str]], ...]

_RWX = re.compile(r"([r-][w-][x-]){3}\Z")
_OCTAL = re.compile(r"(?:0o|0O)?0*([0-7]{1,4})\Z")
_OTHER_MODES = {"push": ("push", "true"), "onchange": ("push", "onchange"),
                "auto_interval": ("auto_interval", "true")}


def build_named(verb: str, name: str) -> Statement:
    """
    Build a statement on a named object.

    >>> build_named("prdcr_stop", "node-23")
    Statement(verb='prdcr_stop', attributes=(('name', 'node-23'),))
    """
    return Statement(verb, (("name", name),))


def normalize_permission(text: str) -> str:
    """
    Convert "777", "0o777" or "rwxrwxrwx" to "0777"; other texts are unchanged.

    ldmsd reads most with strtol(base 0): "777" would be decimal, and "0o777" is 0.
    """
    if _RWX.match(text):
        return "0" + "".join(str(sum(bit for letter, bit in zip(text[i:i + 3], (4, 2, 1))
                                     if letter != "-")) for i in (0, 3, 6))
    octal = _OCTAL.match(text)
    return "0" + octal[1] if octal else text


def build_auth_add(auth: Auth, dialect: Dialect) -> Statement:
    """Build auth_add; `conf` is the secret file of ovis, or munge's socket."""
    return _build(dialect, "auth_add", name=auth.name, plugin=auth.plugin,
                  **{"socket" if auth.plugin == "munge" else "conf": auth.conf})


def build_listen(endpoint: Endpoint, dialect: Dialect) -> Statement:
    """Build listen; the endpoint's auth_add must come first."""
    return _build(dialect, "listen", xprt=endpoint.transport, port=endpoint.port,
                  auth=endpoint.auth.name if endpoint.auth else None,
                  host="0.0.0.0" if endpoint.listens_everywhere else endpoint.host)


def build_advertiser(advertise: Advertise, dialect: Dialect) -> list[Statement]:
    """Build advertiser_add and advertiser_start."""
    return [_build(dialect, "advertiser_add", name=advertise.name, host=advertise.host,
                   xprt=advertise.transport, port=advertise.port,
                   reconnect=advertise.reconnect_us,
                   auth=advertise.auth.name if advertise.auth else None,
                   perm=advertise.perm, rail=advertise.rail,
                   quota=advertise.quota, rx_rate=advertise.rx_rate),
            build_named("advertiser_start", advertise.name)]


def get_plugin_name(plugin: Plugin, dialect: Dialect) -> str:
    """Return the daemon's name for a plugin instance: in 4.4 the name of the plugin."""
    return plugin.instance if dialect.has_plugin_instances else plugin.plugin


def build_plugin_load(plugin: Plugin, dialect: Dialect) -> Statement:
    """Build load."""
    return _build(dialect, "load", name=get_plugin_name(plugin, dialect), plugin=plugin.plugin)


def build_plugin_config(plugin: Plugin, dialect: Dialect, daemon: str = "") -> list[Statement]:
    """
    Build one config statement for each configuration line.

    `daemon`: of a sampler; the first line that is not a text gets producer=DAEMON and
    instance=DAEMON/INSTANCE if it has none; it is added if there is no line.
    """
    lines: tuple[ConfigLine, ...] = plugin.config or (((),) if daemon else ())
    result, needs_names = [], bool(daemon)
    for line in lines:
        attributes = _parse_config_line(line)
        if needs_names and not isinstance(line, str):
            needs_names = False
            there = {name for name, _ in attributes}
            attributes += tuple(
                (name, value) for name, value in (("producer", daemon),
                                                  ("instance", f"{daemon}/{plugin.instance}"),
                                                  ("perm", plugin.perm))
                if value and name not in there)
        result.append(Statement("config", (("name", get_plugin_name(plugin, dialect)),
                                           *attributes)))
    return result


def build_plugin_start(plugin: Plugin, dialect: Dialect) -> Statement:
    """Build start, for a plugin with an interval."""
    return _build(dialect, "start", name=get_plugin_name(plugin, dialect),
                  interval=plugin.interval_us, offset=plugin.offset_us)


def build_sampler_plugin(plugin: Plugin, daemon: str, dialect: Dialect) -> list[Statement]:
    """Build load, config and, if it has an interval (a stream's sampler has none), start."""
    return [build_plugin_load(plugin, dialect), *build_plugin_config(plugin, dialect, daemon),
            *([build_plugin_start(plugin, dialect)] if plugin.interval_us is not None else [])]


def build_aggregator_plugin(plugin: Plugin, daemon: str, dialect: Dialect) -> list[Statement]:
    """Build load and config; a plugin with an interval is a sampler on an aggregator."""
    if plugin.interval_us is not None:
        return build_sampler_plugin(plugin, daemon, dialect)
    return build_store_plugin(plugin, dialect)


def build_store_plugin(plugin: Plugin, dialect: Dialect) -> list[Statement]:
    """Build load and config of a store."""
    return [build_plugin_load(plugin, dialect), *build_plugin_config(plugin, dialect)]


def build_producer_add(producer: Producer, dialect: Dialect) -> Statement:
    """Build prdcr_add; its auth_add must come first."""
    endpoint = producer.endpoint
    return _build(dialect, "prdcr_add", name=producer.name, host=endpoint.host,
                  port=endpoint.port, xprt=endpoint.transport, type=producer.kind,
                  reconnect=producer.reconnect_us,
                  cache_ip=None if producer.cache_ip is None
                  else "true" if producer.cache_ip else "false",
                  perm=producer.perm,
                  auth=endpoint.auth.name if endpoint.auth else None,
                  rail=producer.rail, rx_rate=producer.rx_rate, quota=producer.quota)


def is_added(producer: Producer) -> bool:
    """True if the producer is added by prdcr_add; an advertised one appears by itself."""
    return producer.kind != "advertised"


def build_producer_listener(listens: Listen, dialect: Dialect) -> list[Statement]:
    """Build prdcr_listen_add and prdcr_listen_start."""
    auth = listens.advertiser_auth
    return [_build(dialect, "prdcr_listen_add", name=listens.name,
                   disable_start="true" if listens.disable_start else None,
                   regex=listens.regex, ip=listens.ip, quota=listens.quota,
                   rx_rate=listens.rx_rate, type=listens.kind,
                   advertiser_xprt=listens.advertiser_xprt,
                   advertiser_port=listens.advertiser_port,
                   advertiser_auth=auth.name if auth else None, rail=listens.rail,
                   reconnect=listens.reconnect_us),
            build_named("prdcr_listen_start", listens.name)]


def build_subscribe(subscription: Subscription, dialect: Dialect) -> list[Statement]:
    """Build prdcr_subscribe; [] for a message channel in 4.4, which has none."""
    return _build_subscription("prdcr_subscribe", subscription, dialect)


def build_unsubscribe(subscription: Subscription, dialect: Dialect) -> list[Statement]:
    """Build prdcr_unsubscribe."""
    return _build_subscription("prdcr_unsubscribe", subscription, dialect)


def build_updater(updater: Updater, dialect: Dialect,
                  producers: Iterable[str] | None = None) -> list[Statement]:
    """
    Build updtr_add, updtr_prdcr_add and updtr_match_add for each expression, and updtr_start.

    `producers`: replaces the updater's own.  An expression matches the producers that exist by
    then, so they must be added first.
    """
    mode = _OTHER_MODES.get(updater.mode)
    if producers is None:
        producers = updater.producers
    return [Statement("updtr_add", (
                ("name", updater.name), *([mode] if mode else []),
                *_format_values({"interval": updater.interval_us, "perm": updater.perm,
                                 "offset": updater.offset_us}))),
            *(Statement("updtr_prdcr_add", (("name", updater.name), ("regex", regex)))
              for regex in list(producers) or [".*"]),
            *(Statement("updtr_match_add", (("name", updater.name), ("regex", match.regex),
                                            ("match", match.field))) for match in updater.sets),
            build_named("updtr_start", updater.name)]


def build_storage_policy(policy: StoragePolicy, plugin: Plugin,
                         dialect: Dialect) -> list[Statement]:
    """Build strgp_add and strgp_start, for all producers; its plugin must be loaded first."""
    return [_build(dialect, "strgp_add", name=policy.name,
                   plugin=get_plugin_name(plugin, dialect), container=policy.container,
                   decomposition=policy.decomposition, schema=policy.schema,
                   regex=policy.regex, perm=policy.perm, flush=policy.flush_us),
            build_named("strgp_start", policy.name)]


def _build_subscription(verb: str, subscription: Subscription, dialect: Dialect) -> list[Statement]:
    kind = "message_tag" if subscription.is_message else "stream"
    if not dialect.has(verb, kind):
        return []
    return [_build(dialect, verb, **{kind: subscription.name}, rx_rate=subscription.rx_rate,
                   regex=subscription.producers)]


def _build(dialect: Dialect, verb: str, **attributes: str | int | None) -> Statement:
    """Build a statement from the attributes that have a value and that the dialect has."""
    known = dialect.verbs[verb]
    return Statement(verb, tuple(
        (name, value) for name, value in _format_values(attributes)
        if known.takes_others or name in known.attributes))


def _format_values(attributes: dict[str, str | int | None]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in attributes.items()
            if value is not None and value != ""]


def _parse_config_line(line: ConfigLine) -> Attributes:
    """Return a line's attributes, with octal permissions."""
    if isinstance(line, str):
        pairs = [word.partition("=") for word in line.split()]
        line = tuple((name, value if equals else None) for name, equals, value in pairs)
    return tuple((name, normalize_permission(value) if name == "perm" and value else value)
                 for name, value in line)
