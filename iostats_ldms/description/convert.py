"""
The model -> YAML of today's schema, which LDMS 4.5 and newer read as well.

Two things are not in LDMS' own schema: our keys (`iostats`, `ldms_release`, `balance`, `capacity`),
and a list under `advertise` for daemons that advertise in more than one way.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iostats_ldms.description.host_lists import fold
from iostats_ldms.description.values import format_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Union

    from iostats_ldms.description.model import (
        Advertise,
        AggregatorGroup,
        Auth,
        ConfigLine,
        Description,
        LdmsDaemon,
        Listen,
        Producer,
        Updater,
    )

    Tree = Union[str, int, bool, None, list["Tree"], dict[str, "Tree"]]

_SAFE = re.compile(r"[A-Za-z_/][\w./%+-]*", re.ASCII)
# What YAML 1.1 takes for something else than a text.
_WORDS = ("true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "nan", "inf")


def to_yaml(description: Description) -> str:
    """Return a YAML text with the same meaning; comments and anchors are lost."""
    groups: dict[str, list[LdmsDaemon]] = {}
    for daemon in description.daemons.values():
        groups.setdefault(daemon.group, []).append(daemon)
    sections: dict[str, Tree] = {
        "daemons": [_convert_daemons(name, daemons) for name, daemons in groups.items()],
        "aggregators": [_convert_aggregators(group) for group in description.aggregators],
        "samplers": [_drop_empty(daemons=group.name, plugins=list(group.plugins),
                                 advertise=_convert_advertise(group.advertises))
                     for group in description.samplers],
        "plugins": {plugin.instance: _drop_empty(
            name=plugin.plugin, interval=_format_interval(plugin.interval_us),
            offset=_format_interval(plugin.offset_us), perm=plugin.perm,
            config=[_convert_config(line) for line in plugin.config])
            for plugin in description.plugins.values()},
        "stores": {policy.name: _drop_empty(
            daemons=fold(policy.daemons), plugin=policy.plugin, container=policy.container,
            schema=policy.schema, regex=policy.regex, decomposition=policy.decomposition,
            flush=_format_interval(policy.flush_us), perm=policy.perm) for policy
                   in description.stores},
        "iostats": [_drop_empty(names=group.name, hosts=fold(group.hosts),
                                settings=_convert_settings(group.settings)) for group
                    in description.agents]}
    release = description.ldms_release
    first = f"ldms_release: {_format_scalar(release)}\n" if release else ""
    return first + "".join(f"{key}:\n" + "".join(f"{line}\n" for line in _format_lines(tree, 2))
                           for key, tree in sections.items() if tree)


def _drop_empty(**values: Tree) -> dict[str, Tree]:
    """Return the values that are set; empty lists stay only where the schema requires them."""
    return {key: value for key, value in values.items()
            if value is not None and value is not False and value != ""
            and (value != [] or key in ("config", "plugins"))}


def _format_interval(microseconds: int | None) -> str | None:
    return None if microseconds is None else format_interval(microseconds)


def _convert_auth(auth: Auth | None) -> Tree:
    return None if auth is None else _drop_empty(name=auth.name, plugin=auth.plugin, conf=auth.conf)


# -- daemons ------------------------------------------------------------------------------------

def _convert_daemons(group: str, daemons: list[LdmsDaemon]) -> Tree:
    """Convert a group of daemons; each endpoint of a daemon is an entry."""
    first = daemons[0]
    entries: list[Tree] = []
    for at, endpoint in enumerate(first.endpoints):
        endpoints = [daemon.endpoints[at] for daemon in daemons]
        own = [item.host for item in endpoints] != [daemon.host for daemon in daemons]
        entries.append(_drop_empty(
            names=fold([item.name for item in endpoints]),
            ports=_fold_unique(str(item.port) for item in endpoints),
            hosts=_fold_unique(item.host for item in endpoints) if own else None,
            xprt=endpoint.transport,
            maestro_comm=endpoint.is_control, bind_all=endpoint.listens_everywhere,
            auth=_convert_auth(endpoint.auth)))
    entry = _drop_empty(names=group, hosts=_fold_unique(daemon.host for daemon in daemons),
                        endpoints=entries, environment=dict(first.environment) or None)
    for key, value in first.options:
        if key in ("stream_enable", "msg_enable"):
            entry[key] = True
        else:
            entry[key] = value if isinstance(value, str) else dict(value)
    return entry


def _fold_unique(values: Iterable[str]) -> str:
    """Fold unique values to a host list: hosts apply to several daemons, ports repeat."""
    return fold(list(dict.fromkeys(values)))


# -- aggregators --------------------------------------------------------------------------------

def _convert_aggregators(group: AggregatorGroup) -> Tree:
    updaters = [_convert_updater(updater) for updater in group.updaters]
    peers: list[Tree] = []
    for producers in _split_runs(group.producers):
        first = producers[0]
        peers.append(_drop_empty(
            daemons=_fold_unique(item.daemon for item in producers),
            endpoints=fold([item.name for item in producers]),
            reconnect=_format_interval(first.reconnect_us), type=first.kind, rail=first.rail,
            quota=first.quota, rx_rate=first.rx_rate, perm=first.perm,
            cache_ip=None if first.cache_ip is None else "true" if first.cache_ip else "false",
            updaters=[] if peers else updaters))
    listens: list[Tree] = [_convert_listener(listen, [] if peers or at else updaters)
                           for at, listen in enumerate(group.listens)]
    subscribe: list[Tree] = [
        _drop_empty(**{"message_tag" if item.is_message else "stream": item.name},
                regex=item.producers, rx_rate=item.rx_rate) for item in group.subscriptions]
    entry = _drop_empty(daemons=group.name, peers=peers, prdcr_listen=listens, subscribe=subscribe,
                        advertise=_convert_advertise(group.advertises),
                        balance=group.balance if group.balance != "producers" else None,
                    capacity={name: _format_number(part) for name, part in group.capacity} or None)
    if group.plugins:
        entry["plugins"] = list(group.plugins)
    return entry


def _split_runs(producers: Iterable[Producer]) -> Iterator[list[Producer]]:
    """Split producers into runs with the same settings."""
    run: list[Producer] = []
    for producer in producers:
        if run and _get_settings(run[0]) != _get_settings(producer):
            yield run
            run = []
        run.append(producer)
    if run:
        yield run


def _get_settings(producer: Producer) -> tuple[object, ...]:
    return (producer.kind, producer.reconnect_us, producer.rail, producer.quota, producer.rx_rate,
            producer.perm, producer.cache_ip)


def _convert_updater(updater: Updater) -> Tree:
    return _drop_empty(
        mode="auto" if updater.mode == "auto_interval" else updater.mode,
        interval=_format_interval(updater.interval_us), offset=_format_interval(updater.offset_us),
        perm=updater.perm, producers=list(updater.producers),
        sets=[_drop_empty(regex=match.regex, field=match.field) for match in updater.sets])


def _convert_listener(listen: Listen, updaters: list[Tree]) -> Tree:
    return _drop_empty(
        name=listen.name, regex=listen.regex, ip=listen.ip, disable_start=listen.disable_start,
        reconnect=_format_interval(listen.reconnect_us), rail=listen.rail, quota=listen.quota,
        rx_rate=listen.rx_rate, type=listen.kind, advertiser_xprt=listen.advertiser_xprt,
        advertiser_port=listen.advertiser_port, auth=_convert_auth(listen.advertiser_auth),
        updaters=updaters)


def _format_number(part: float) -> str:
    return f"{part:.0f}" if part == int(part) else repr(part)


# -- what advertises ----------------------------------------------------------------------------

def _convert_advertise(advertises: Iterable[tuple[str, tuple[Advertise, ...]]]) -> Tree:
    """Convert advertisers: one entry for all hosts and daemons with equal settings."""
    groups: dict[tuple[Advertise, ...], list[str]] = {}
    for daemon, entries in advertises:
        groups.setdefault(tuple(replace(item, name="") for item in entries), []).append(daemon)
    result: list[Tree] = []
    for targets, daemons in groups.items():
        at = 0
        while at < len(targets):
            first = targets[at]
            hosts: dict[str, None] = {}
            for item in targets[at:]:
                if item.host in hosts or replace(item, host=first.host) != first:
                    break
                hosts[item.host] = None
            at += len(hosts)
            result.append(_drop_empty(
                names=fold(daemons), hosts=fold(list(hosts)), xprt=first.transport,
                port=first.port, reconnect=_format_interval(first.reconnect_us),
                auth=_convert_auth(first.auth),
                perm=first.perm, rail=first.rail, quota=first.quota, rx_rate=first.rx_rate))
    return result[0] if len(result) == 1 else result


def _convert_config(line: ConfigLine) -> Tree:
    if isinstance(line, str):
        return line
    result: dict[str, Tree] = {}
    for key, value in line:
        if key not in result:
            result[key] = value
        else:
            before = result[key]
            result[key] = [*before, value] if isinstance(before, list) else [before, value]
    return result


def _convert_settings(settings: Iterable[tuple[str, str]]) -> Tree:
    result: dict[str, Any] = {}
    for name, value in settings:
        section, _, key = name.partition(".")
        result.setdefault(section, {})[key] = value
    return result


# -- YAML ---------------------------------------------------------------------------------------

def _format_lines(tree: Tree, indent: int) -> Iterator[str]:
    """Format a mapping or list in block style."""
    blanks = " " * indent
    if isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, (dict, list)) and value:
                yield f"{blanks}{_format_scalar(key)}:"
                yield from _format_lines(value, indent + 2)
            else:
                yield f"{blanks}{_format_scalar(key)}:{_format_value(value)}"
    elif isinstance(tree, list):
        for item in tree:
            if isinstance(item, (dict, list)) and item:
                lines = list(_format_lines(item, indent + 2))
                yield f"{blanks}- {lines[0].lstrip(' ')}"
                yield from lines[1:]
            else:
                yield f"{blanks}-{_format_value(item)}"


def _format_value(value: Tree) -> str:
    if value is None:
        return ""
    if value in ([], {}):
        return " []" if value == [] else " {}"
    return f" {_format_scalar(value)}"


def _format_scalar(value: Tree) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _SAFE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
