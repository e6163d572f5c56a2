"""
The statements for each part of a description; the same in a file and on the control connection.

Intervals are written as microseconds, permissions as an octal number with a leading 0.  Attributes
that the dialect does not have are left out; losses.losses() tells of them.
"""

from __future__ import annotations

import re

from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Optional

    from iostats.ldms.description.normal import (
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
    from iostats.ldms.statements.dialect import Dialect

    Attributes = tuple[tuple[str, Optional[str]], ...]

_RWX = re.compile(r"([r-][w-][x-]){3}\Z")
_OCTAL = re.compile(r"(?:0o|0O)?0*([0-7]{1,4})\Z")
_OTHER_MODES = {"push": ("push", "true"), "onchange": ("push", "onchange"),
                "auto_interval": ("auto_interval", "true")}


def named(verb: str, name: str) -> Statement:
    """
    A statement about something by its name.

    >>> named("prdcr_stop", "node-23")
    Statement(verb='prdcr_stop', attributes=(('name', 'node-23'),))
    """
    return Statement(verb, (("name", name),))


def permission(text: str) -> str:
    """
    "0777" of "777", "0o777", "rwxrwxrwx"; what is none of these as it is.

    ldmsd reads most with strtol(base 0): "777" would be decimal, and "0o777" is 0.
    """
    if _RWX.match(text):
        return "0" + "".join(str(sum(bit for letter, bit in zip(text[i:i + 3], (4, 2, 1))
                                     if letter != "-")) for i in (0, 3, 6))
    octal = _OCTAL.match(text)
    return "0" + octal[1] if octal else text


def authentication(auth: Auth, dialect: Dialect) -> Statement:
    """auth_add; `conf` is ovis' file, and munge's socket, which ldmsd calls so."""
    return _statement(dialect, "auth_add", name=auth.name, plugin=auth.plugin,
                      **{"socket" if auth.plugin == "munge" else "conf": auth.conf})


def listen(endpoint: Endpoint, dialect: Dialect) -> Statement:
    """listen; authentication() of the endpoint's domain has to come first."""
    return _statement(dialect, "listen", xprt=endpoint.transport, port=endpoint.port,
                      auth=endpoint.auth.name if endpoint.auth else None,
                      host="0.0.0.0" if endpoint.listens_everywhere else endpoint.host)


def advertiser(advertise: Advertise, dialect: Dialect) -> list[Statement]:
    """advertiser_add and advertiser_start."""
    return [_statement(dialect, "advertiser_add", name=advertise.name, host=advertise.host,
                       xprt=advertise.transport, port=advertise.port,
                       reconnect=advertise.reconnect_us,
                       auth=advertise.auth.name if advertise.auth else None,
                       perm=advertise.perm, rail=advertise.rail,
                       quota=advertise.quota, rx_rate=advertise.rx_rate),
            named("advertiser_start", advertise.name)]


def plugin_name(plugin: Plugin, dialect: Dialect) -> str:
    """What the daemon calls it: until 4.4 an instance has the name of its plugin."""
    return plugin.instance if dialect.has_plugin_instances else plugin.plugin


def plugin_load(plugin: Plugin, dialect: Dialect) -> Statement:
    """load."""
    return _statement(dialect, "load", name=plugin_name(plugin, dialect), plugin=plugin.plugin)


def plugin_config(plugin: Plugin, dialect: Dialect, daemon: str = "") -> list[Statement]:
    """
    config, one for each line.

    `daemon`: of a sampler; the first line that is not a text gets producer=DAEMON and
    instance=DAEMON/INSTANCE where it has none; it is made where there is no line.
    """
    lines: tuple[ConfigLine, ...] = plugin.config or (((),) if daemon else ())
    found, needs_names = [], bool(daemon)
    for line in lines:
        attributes = _config_line(line)
        if needs_names and not isinstance(line, str):
            needs_names = False
            there = {name for name, _ in attributes}
            attributes += tuple(
                (name, value) for name, value in (("producer", daemon),
                                                  ("instance", f"{daemon}/{plugin.instance}"),
                                                  ("perm", plugin.perm))
                if value and name not in there)
        found.append(Statement("config", (("name", plugin_name(plugin, dialect)), *attributes)))
    return found


def plugin_start(plugin: Plugin, dialect: Dialect) -> Statement:
    """start, of a plugin with an interval."""
    return _statement(dialect, "start", name=plugin_name(plugin, dialect),
                      interval=plugin.interval_us, offset=plugin.offset_us)


def sampler_plugin(plugin: Plugin, daemon: str, dialect: Dialect) -> list[Statement]:
    """load, config and, where it has an interval (a stream's sampler has none), start."""
    return [plugin_load(plugin, dialect), *plugin_config(plugin, dialect, daemon),
            *([plugin_start(plugin, dialect)] if plugin.interval_us is not None else [])]


def aggregator_plugin(plugin: Plugin, daemon: str, dialect: Dialect) -> list[Statement]:
    """load and config; one with an interval is a sampler on an aggregator."""
    if plugin.interval_us is not None:
        return sampler_plugin(plugin, daemon, dialect)
    return store_plugin(plugin, dialect)


def store_plugin(plugin: Plugin, dialect: Dialect) -> list[Statement]:
    """load and config of a store."""
    return [plugin_load(plugin, dialect), *plugin_config(plugin, dialect)]


def producer_add(producer: Producer, dialect: Dialect) -> Statement:
    """prdcr_add; authentication() of its domain has to come first."""
    endpoint = producer.endpoint
    return _statement(dialect, "prdcr_add", name=producer.name, host=endpoint.host,
                      port=endpoint.port, xprt=endpoint.transport, type=producer.kind,
                      reconnect=producer.reconnect_us,
                      cache_ip=None if producer.cache_ip is None
                      else "true" if producer.cache_ip else "false",
                      perm=producer.perm,
                      auth=endpoint.auth.name if endpoint.auth else None,
                      rail=producer.rail, rx_rate=producer.rx_rate, quota=producer.quota)


def is_added(producer: Producer) -> bool:
    """Whether it is told by prdcr_add; an advertised one comes by itself (prdcr_listen_add)."""
    return producer.kind != "advertised"


def listen_for_producers(listens: Listen, dialect: Dialect) -> list[Statement]:
    """prdcr_listen_add and prdcr_listen_start."""
    auth = listens.advertiser_auth
    return [_statement(dialect, "prdcr_listen_add", name=listens.name,
                       disable_start="true" if listens.disable_start else None,
                       regex=listens.regex, ip=listens.ip, quota=listens.quota,
                       rx_rate=listens.rx_rate, type=listens.kind,
                       advertiser_xprt=listens.advertiser_xprt,
                       advertiser_port=listens.advertiser_port,
                       advertiser_auth=auth.name if auth else None, rail=listens.rail,
                       reconnect=listens.reconnect_us),
            named("prdcr_listen_start", listens.name)]


def subscribe(subscription: Subscription, dialect: Dialect) -> list[Statement]:
    """prdcr_subscribe; [] for a message channel where there are none (until 4.4)."""
    return _subscription("prdcr_subscribe", subscription, dialect)


def unsubscribe(subscription: Subscription, dialect: Dialect) -> list[Statement]:
    """prdcr_unsubscribe."""
    return _subscription("prdcr_unsubscribe", subscription, dialect)


def updater(updater: Updater, dialect: Dialect,
            producers: Iterable[str] | None = None) -> list[Statement]:
    """
    updtr_add, updtr_prdcr_add and updtr_match_add of each expression, updtr_start.

    `producers`: others than its own.  An expression matches the producers that the daemon
    has by then, so they are added first.
    """
    mode = _OTHER_MODES.get(updater.mode)
    if producers is None:
        producers = updater.producers
    return [Statement("updtr_add", (
                ("name", updater.name), *([mode] if mode else []),
                *_written({"interval": updater.interval_us, "perm": updater.perm,
                           "offset": updater.offset_us}))),
            *(Statement("updtr_prdcr_add", (("name", updater.name), ("regex", regex)))
              for regex in list(producers) or [".*"]),
            *(Statement("updtr_match_add", (("name", updater.name), ("regex", match.regex),
                                            ("match", match.field))) for match in updater.sets),
            named("updtr_start", updater.name)]


def storage_policy(policy: StoragePolicy, plugin: Plugin, dialect: Dialect) -> list[Statement]:
    """strgp_add and strgp_start, for all producers; store_plugin() has to come first."""
    return [_statement(dialect, "strgp_add", name=policy.name,
                       plugin=plugin_name(plugin, dialect), container=policy.container,
                       decomposition=policy.decomposition, schema=policy.schema,
                       regex=policy.regex, perm=policy.perm, flush=policy.flush_us),
            named("strgp_start", policy.name)]


def _subscription(verb: str, subscription: Subscription, dialect: Dialect) -> list[Statement]:
    kind = "message_tag" if subscription.is_message else "stream"
    if not dialect.has(verb, kind):
        return []
    return [_statement(dialect, verb, **{kind: subscription.name}, rx_rate=subscription.rx_rate,
                       regex=subscription.producers)]


def _statement(dialect: Dialect, verb: str, **attributes: str | int | None) -> Statement:
    """Those attributes that have a value, and that the dialect has."""
    known = dialect.verbs[verb]
    return Statement(verb, tuple(
        (name, value) for name, value in _written(attributes)
        if known.takes_others or name in known.attributes))


def _written(attributes: dict[str, str | int | None]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in attributes.items()
            if value is not None and value != ""]


def _config_line(line: ConfigLine) -> Attributes:
    """A line's attributes; permissions are octal whichever way they were written."""
    if isinstance(line, str):
        pairs = [word.partition("=") for word in line.split()]
        line = tuple((name, value if equals else None) for name, equals, value in pairs)
    return tuple((name, permission(value) if name == "perm" and value else value)
                 for name, value in line)
