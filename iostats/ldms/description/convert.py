"""
The normal form -> YAML of today's generation, which LDMS 4.5 and newer read too.

Two things are not in LDMS' own schema: our keys (`iostats`, `ldms_release`, `balance`, `capacity`),
and a list under `advertise` where daemons advertise in more than one way.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from iostats.ldms.description.host_lists import folded
from iostats.ldms.description.values import interval_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Union

    from iostats.ldms.description.normal import (
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


def as_yaml(description: Description) -> str:
    """
    A text that reads as the same description; comments and anchors of the old one are lost.
    """
    groups: dict[str, list[LdmsDaemon]] = {}
    for daemon in description.daemons.values():
        groups.setdefault(daemon.group, []).append(daemon)
    sections: dict[str, Tree] = {
        "daemons": [_daemons(name, daemons) for name, daemons in groups.items()],
        "aggregators": [_aggregators(group) for group in description.aggregators],
        "samplers": [_filled(daemons=group.name, plugins=list(group.plugins),
                             advertise=_advertise(group.advertises))
                     for group in description.samplers],
        "plugins": {plugin.instance: _filled(
            name=plugin.plugin, interval=_interval(plugin.interval_us),
            offset=_interval(plugin.offset_us), perm=plugin.perm,
            config=[_config(line) for line in plugin.config])
            for plugin in description.plugins.values()},
        "stores": {policy.name: _filled(
            daemons=folded(policy.daemons), plugin=policy.plugin, container=policy.container,
            schema=policy.schema, regex=policy.regex, decomposition=policy.decomposition,
            flush=_interval(policy.flush_us), perm=policy.perm) for policy in description.stores},
        "iostats": [_filled(names=group.name, hosts=folded(group.hosts),
                            settings=_settings(group.settings)) for group in description.agents]}
    first = f"ldms_release: {_scalar(description.ldms_release)}\n" * bool(description.ldms_release)
    return first + "".join(f"{key}:\n" + "".join(f"{line}\n" for line in _lines(tree, 2))
                   for key, tree in sections.items() if tree)


def _filled(**values: Tree) -> dict[str, Tree]:
    """What says something; a list of a plugin's lines may be empty and has to be there."""
    return {key: value for key, value in values.items()
            if value is not None and value is not False and value != ""
            and (value != [] or key in ("config", "plugins"))}


def _interval(microseconds: int | None) -> str | None:
    return None if microseconds is None else interval_text(microseconds)


def _auth(auth: Auth | None) -> Tree:
    return None if auth is None else _filled(name=auth.name, plugin=auth.plugin, conf=auth.conf)


# -- daemons ------------------------------------------------------------------------------------

def _daemons(group: str, daemons: list[LdmsDaemon]) -> Tree:
    """One entry of endpoints for each that a daemon has: all generations pair those alike."""
    first = daemons[0]
    entries: list[Tree] = []
    for at, endpoint in enumerate(first.endpoints):
        those = [daemon.endpoints[at] for daemon in daemons]
        own = [one.host for one in those] != [daemon.host for daemon in daemons]
        entries.append(_filled(
            names=folded([one.name for one in those]), ports=_once(str(one.port) for one in those),
            hosts=_once(one.host for one in those) if own else None, xprt=endpoint.transport,
            maestro_comm=endpoint.is_control, bind_all=endpoint.listens_everywhere,
            auth=_auth(endpoint.auth)))
    entry = _filled(names=group, hosts=_once(daemon.host for daemon in daemons),
                    endpoints=entries, environment=dict(first.environment) or None)
    for key, value in first.options:
        if key in ("stream_enable", "msg_enable"):
            entry[key] = True
        else:
            entry[key] = value if isinstance(value, str) else dict(value)
    return entry


def _once(values: Iterable[str]) -> str:
    """Hosts stand for several daemons in a row, ports come again by turns."""
    return folded(list(dict.fromkeys(values)))


# -- aggregators --------------------------------------------------------------------------------

def _aggregators(group: AggregatorGroup) -> Tree:
    updaters = [_updater(updater) for updater in group.updaters]
    peers: list[Tree] = []
    for producers in _runs(group.producers):
        first = producers[0]
        peers.append(_filled(
            daemons=_once(one.daemon for one in producers),
            endpoints=folded([one.name for one in producers]),
            reconnect=_interval(first.reconnect_us), type=first.kind, rail=first.rail,
            quota=first.quota, rx_rate=first.rx_rate, perm=first.perm,
            cache_ip=None if first.cache_ip is None else "true" if first.cache_ip else "false",
            updaters=[] if peers else updaters))
    listens: list[Tree] = [_listen(listen, [] if peers or at else updaters)
                           for at, listen in enumerate(group.listens)]
    subscribe: list[Tree] = [
        _filled(**{"message_tag" if one.is_message else "stream": one.name},
                regex=one.producers, rx_rate=one.rx_rate) for one in group.subscriptions]
    entry = _filled(daemons=group.name, peers=peers, prdcr_listen=listens, subscribe=subscribe,
                    advertise=_advertise(group.advertises),
                    balance=group.balance if group.balance != "producers" else None,
                    capacity={name: _number(part) for name, part in group.capacity} or None)
    if group.plugins:
        entry["plugins"] = list(group.plugins)
    return entry


def _runs(producers: Iterable[Producer]) -> Iterator[list[Producer]]:
    """Producers in a row that have the same values."""
    run: list[Producer] = []
    for producer in producers:
        if run and _values_of(run[0]) != _values_of(producer):
            yield run
            run = []
        run.append(producer)
    if run:
        yield run


def _values_of(producer: Producer) -> tuple[object, ...]:
    return (producer.kind, producer.reconnect_us, producer.rail, producer.quota, producer.rx_rate,
            producer.perm, producer.cache_ip)


def _updater(updater: Updater) -> Tree:
    return _filled(
        mode="auto" if updater.mode == "auto_interval" else updater.mode,
        interval=_interval(updater.interval_us), offset=_interval(updater.offset_us),
        perm=updater.perm, producers=list(updater.producers),
        sets=[_filled(regex=match.regex, field=match.field) for match in updater.sets])


def _listen(listen: Listen, updaters: list[Tree]) -> Tree:
    return _filled(
        name=listen.name, regex=listen.regex, ip=listen.ip, disable_start=listen.disable_start,
        reconnect=_interval(listen.reconnect_us), rail=listen.rail, quota=listen.quota,
        rx_rate=listen.rx_rate, type=listen.kind, advertiser_xprt=listen.advertiser_xprt,
        advertiser_port=listen.advertiser_port, auth=_auth(listen.advertiser_auth),
        updaters=updaters)


def _number(part: float) -> str:
    return f"{part:.0f}" if part == int(part) else repr(part)


# -- what advertises ----------------------------------------------------------------------------

def _advertise(advertises: Iterable[tuple[str, tuple[Advertise, ...]]]) -> Tree:
    """One entry for all hosts with the same values; daemons that differ have their own."""
    alike: dict[tuple[Advertise, ...], list[str]] = {}
    for daemon, entries in advertises:
        alike.setdefault(tuple(replace(one, name="") for one in entries), []).append(daemon)
    found: list[Tree] = []
    for targets, daemons in alike.items():
        at = 0
        while at < len(targets):
            first = targets[at]
            hosts: dict[str, None] = {}
            for one in targets[at:]:
                if one.host in hosts or replace(one, host=first.host) != first:
                    break
                hosts[one.host] = None
            at += len(hosts)
            found.append(_filled(
                names=folded(daemons), hosts=folded(list(hosts)), xprt=first.transport,
                port=first.port, reconnect=_interval(first.reconnect_us), auth=_auth(first.auth),
                perm=first.perm, rail=first.rail, quota=first.quota, rx_rate=first.rx_rate))
    return found[0] if len(found) == 1 else found


def _config(line: ConfigLine) -> Tree:
    if isinstance(line, str):
        return line
    found: dict[str, Tree] = {}
    for key, value in line:
        if key not in found:
            found[key] = value
        else:
            before = found[key]
            found[key] = [*before, value] if isinstance(before, list) else [before, value]
    return found


def _settings(settings: Iterable[tuple[str, str]]) -> Tree:
    found: dict[str, Any] = {}
    for name, value in settings:
        section, _, key = name.partition(".")
        found.setdefault(section, {})[key] = value
    return found


# -- YAML ---------------------------------------------------------------------------------------

def _lines(tree: Tree, indent: int) -> Iterator[str]:
    """The lines of a mapping or list, in block style."""
    blanks = " " * indent
    if isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, (dict, list)) and value:
                yield f"{blanks}{_scalar(key)}:"
                yield from _lines(value, indent + 2)
            else:
                yield f"{blanks}{_scalar(key)}:{_after(value)}"
    elif isinstance(tree, list):
        for item in tree:
            if isinstance(item, (dict, list)) and item:
                lines = list(_lines(item, indent + 2))
                yield f"{blanks}- {lines[0].lstrip(' ')}"
                yield from lines[1:]
            else:
                yield f"{blanks}-{_after(item)}"


def _after(value: Tree) -> str:
    if value is None:
        return ""
    if value in ([], {}):
        return " []" if value == [] else " {}"
    return f" {_scalar(value)}"


def _scalar(value: Tree) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _SAFE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
