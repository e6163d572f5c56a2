"""
The section `aggregators` of a description.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iostats.base import node_list
from iostats.base.option_kinds import is_ip_address
from iostats_ldms.description.context import ENDPOINT, ENDPOINTS, Context
from iostats_ldms.description.host_lists import strip_domain
from iostats_ldms.description.model import (
    AggregatorGroup,
    Auth,
    Listen,
    Producer,
    SetMatch,
    Subscription,
    Updater,
)
from iostats_ldms.description.problems import quote
from iostats_ldms.description.sections import (
    LIMITS,
    TRANSPORTS,
    get_group_name,
    read_advertise,
    read_limits,
    read_plugin_list,
)
from iostats_ldms.description.values import (
    FAULTS,
    check_regex,
    compile_regex,
    escape_regex,
    make_regexes,
    parse_boolean,
    parse_choice,
    parse_integer,
    parse_interval,
    parse_number,
    parse_offset,
    parse_permissions,
    parse_regex,
    parse_text,
    suggest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats_ldms.description.model import LdmsDaemon, SamplerGroup
    from iostats_ldms.description.sections import Advertises
    from iostats_ldms.description.values import Value

MODES = ("pull", "push", "onchange", "auto", "auto_interval")
PRODUCER_TYPES = ("active", "passive", "advertised", "bridge")
_GROUP_KEYS = ("peers", "prdcr_listen", "subscribe", "plugins", "advertise", "balance", "capacity")
_LISTEN_KEYS = ("name", "names", "regex", "ip", "disable_start", "reconnect", "type", "auth",
                "advertiser_xprt", "advertiser_port", "advertiser_auth", "updaters", *LIMITS)
_MESSAGE_KEYS = ("message_tag", "message_channel", "msg_tag")
_MOST_CAPACITY = 1e6
_REGEX_COST = 5                       # names elsewhere cost as much as one in an expression


@dataclass(eq=False)
class _ProducerSource:
    """The producers and updaters of an entry; `producers`: None for a prdcr_listen."""
    producers: list[str] | None
    updaters: list[tuple[Value, Updater]]


@dataclass
class _GroupDraft:
    """A group of aggregators, collected from all entries with the same daemons."""
    name: str
    value: Value
    members: tuple[str, ...]
    producers: dict[str, Producer] = field(default_factory=dict)
    sources: list[_ProducerSource] = field(default_factory=list)
    listens: dict[str, Listen] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)
    plugins: tuple[str, ...] = ()
    advertises: Advertises = ()
    balance: str = ""
    capacity: tuple[tuple[str, float], ...] = ()


def read_aggregators(section: Value, context: Context) -> tuple[AggregatorGroup, ...]:
    """Read the groups of aggregators, in order; entries with the same daemons are one group."""
    groups: dict[str, _GroupDraft] = {}
    of_daemon: dict[str, str] = {}
    for value in section.items("aggregators"):
        fields = value.fields(("daemons",), _GROUP_KEYS)
        if "daemons" not in fields:
            continue
        name = get_group_name(fields["daemons"])
        members = context.resolve_daemons(fields["daemons"])
        if name not in groups:
            twice = next((member for member in members if member in of_daemon), None)
            if twice:
                fields["daemons"].problem(
                    f"{quote(twice)} is in the group {quote(of_daemon[twice])} already")
            of_daemon.update(dict.fromkeys(members, name))
            groups[name] = _GroupDraft(name, value, members)
        _read_group(groups[name], fields, context)
    levels = _compute_levels(groups, context)
    result: list[AggregatorGroup] = []
    count = 0
    for name, group in groups.items():
        level = levels[name]
        if group.balance == "sets" and level > 1:
            group.value.problem(f"expected balance: producers, got sets: this group is of level "
                                f"{level}, and sets are balanced on level 1")
        updaters = [replace(updater, name=f"updtr_{count + at}")
                    for at, updater in enumerate(_merge_updaters(group, context))]
        count += len(updaters)
        result.append(AggregatorGroup(
            name, group.members, level, tuple(group.producers.values()), tuple(updaters),
            tuple(group.listens.values()), tuple(group.subscriptions), group.plugins,
            group.advertises, group.balance or "producers", group.capacity))
    return tuple(result)


def _read_group(group: _GroupDraft, fields: dict[str, Value], context: Context) -> None:
    for value in fields["peers"].items("peers") if "peers" in fields else []:
        _read_peers(value, group, context)
    for value in fields["prdcr_listen"].items("listeners") if "prdcr_listen" in fields else []:
        _read_listen(value, group, context)
    for value in fields["subscribe"].items("subscriptions") if "subscribe" in fields else []:
        _read_subscription(value, group)
    group.plugins += read_plugin_list(fields.get("plugins"), context, is_started=False)
    group.advertises += read_advertise(fields.get("advertise"), group.members, context)
    balance = parse_choice(fields.get("balance"), ("producers", "sets"))
    if balance and group.balance not in ("", balance):
        fields["balance"].problem(f"is {group.balance} in another entry of these daemons")
    group.balance = group.balance or balance
    if "capacity" in fields:
        group.capacity = _read_capacity(fields["capacity"], group.members, context)


def _read_capacity(value: Value, members: tuple[str, ...],
                   context: Context) -> tuple[tuple[str, float], ...]:
    """Read capacities by aggregator; a single number applies to all."""
    if value.node.kind != "mapping":
        part = parse_number(value, _MOST_CAPACITY)
        return tuple((member, part) for member in members) if part else ()
    result: dict[str, float] = {}
    for key, item in value.pairs("capacities by aggregator").items():
        part = parse_number(item, _MOST_CAPACITY)
        if key not in members and context.are_known(members):
            item.problem(f"{quote(key)} is not an aggregator of this group"
                         + suggest(key, members[:1000]))
        elif part:
            result[key] = part
    return tuple((member, result[member]) for member in members if member in result)


def _read_peers(value: Value, group: _GroupDraft, context: Context) -> None:
    fields = value.fields(("endpoints", "reconnect", "type"),
                          ("daemons", "perm", "cache_ip", "updaters", *LIMITS))
    kind = parse_choice(fields.get("type"), PRODUCER_TYPES, "active")
    reconnect_us = parse_interval(fields.get("reconnect")) or 1
    rail, quota, rx_rate = read_limits(fields)
    permissions = parse_permissions(fields.get("perm"))
    cache_ip = parse_boolean(fields.get("cache_ip"))
    names = context.lists.expand(fields.get("endpoints"))
    daemons = context.resolve_daemons(fields.get("daemons"))
    updaters = _read_updaters(fields.get("updaters"), context)
    group.sources.append(_ProducerSource(names, updaters))
    if not context.reserve_objects(value, len(names)) or "endpoints" not in fields:
        return
    if daemons and not context.are_known(daemons):
        return
    if not context.require(ENDPOINT, names, context.endpoints, fields["endpoints"],
                           ENDPOINTS + _suggest_endpoints(daemons, context)):
        return
    allowed = set(daemons)
    collected: dict[str, str] = {}
    is_reported = False
    for name in names:
        daemon, endpoint = context.endpoints[name]
        if allowed and daemon not in allowed:
            fields["endpoints"].problem(f"endpoint {quote(name)} is one of daemon {quote(daemon)}, "
                                        "which is not in `daemons` here")
            return
        if daemon in group.members:
            fields["endpoints"].problem(f"{quote(daemon)} would collect from itself")
            return
        producer = Producer(daemon, endpoint, kind, reconnect_us, rail, quota, rx_rate, permissions,
                            cache_ip)
        if group.producers.setdefault(name, producer) != producer:
            fields["endpoints"].problem(f"{quote(name)} is already a producer of this group, with "
                                        "different values")
            return
        if collected.setdefault(daemon, name) != name and not is_reported:
            is_reported = True
            fields["endpoints"].warning(f"{collected[daemon]} and {name} both belong to {daemon}: "
                                        "sets are collected twice")
    left = [daemon for daemon in daemons if daemon not in collected]
    if left:
        fields["endpoints"].warning(f"no endpoint of {len(left)} of the daemons, such as "
                                    f"{left[0]}: they are not collected")


def _suggest_endpoints(daemons: tuple[str, ...], context: Context) -> str:
    """Suggest an endpoint that exists, for a message."""
    own = context.daemons[daemons[0]].endpoints if daemons else ()
    return f"; {daemons[0]} has {own[0].name}" if own else ""


# -- updaters -----------------------------------------------------------------------------------

def _read_updaters(value: Value | None, context: Context) -> list[tuple[Value, Updater]]:
    result: list[tuple[Value, Updater]] = []
    for item in value.items("updaters") if value is not None else []:
        fields = item.fields(("interval",), ("mode", "offset", "perm", "producers", "sets"))
        mode = parse_choice(fields.get("mode"), MODES, "pull")
        sets = tuple(_read_match(match) for match in fields["sets"].items("mappings")) \
            if "sets" in fields else ()
        interval_us = parse_interval(fields.get("interval"))
        result.append((item, Updater(
            "", interval_us or 1, parse_offset(fields.get("offset"), interval_us),
            "auto_interval" if mode == "auto" else mode, parse_permissions(fields.get("perm")),
            _read_producers(fields.get("producers"), context), sets)))
    return result


def _read_match(value: Value) -> SetMatch:
    fields = value.fields(("regex",), ("field",))
    return SetMatch(parse_regex(fields.get("regex")),
                    parse_choice(fields.get("field"), ("inst", "schema"),
                                 "inst"))


def _read_producers(value: Value | None, context: Context) -> tuple[str, ...]:
    """Read an updater's producers as regular expressions; a host list becomes one for each name."""
    if value is None:
        return ()
    result: list[str] = []
    for item in value.items("regular expressions") if value.node.kind == "list" else [value]:
        if item.node.kind == "mapping":
            result.append(parse_regex(item.fields(("regex",), ()).get("regex")))
            continue
        expression = parse_text(item)
        names = _expand_names(expression) if context.lists.reserve(item, 0) else []
        if names and context.lists.reserve(item, _REGEX_COST * len(names)):
            result += [f"^{escape_regex(name)}$" for name in names]
        elif not names:
            check_regex(item, expression)
            result.append(expression)
    return tuple(producer for producer in result if producer)


def _expand_names(expression: str) -> list[str]:
    """Return the names of a host list with more than one; [] for other texts."""
    if re.fullmatch(r"(?:[\w:/,-]|\[[0-9]+(?:[-,][0-9]+)*\])+", expression, re.ASCII):
        try:
            names = node_list.expand_node_list(expression)
        except ValueError:
            return []
        return names if len(names) > 1 else []
    return []


def _merge_updaters(group: _GroupDraft, context: Context) -> list[Updater]:
    """
    Merge the updaters of a group's entries; equal ones become one.

    An updater without producers applies to its own entries; if all entries have it, to the whole
    group.
    """
    with_updaters = [source for source in group.sources if source.updaters]
    result: dict[Updater, dict[_ProducerSource, None]] = {}
    places: dict[Updater, Value] = {}
    for source in with_updaters:
        for value, updater in source.updaters:
            result.setdefault(updater, {})[source] = None
            places.setdefault(updater, value)
    updaters: list[Updater] = []
    for updater, sources in result.items():
        if updater.producers == (".*",):
            updater = replace(updater, producers=())
        elif not updater.producers and len(sources) < len(with_updaters):
            count = sum(len(source.producers or ()) for source in sources)
            if any(source.producers is None for source in sources):
                places[updater].warning("applies to all producers of the group: without "
                                        "`producers`, advertised ones cannot be distinguished")
            elif context.lists.reserve(places[updater], _REGEX_COST * count):
                updater = replace(updater, producers=make_regexes(dict.fromkeys(
                    name for source in sources for name in source.producers or ())))
        updaters.append(updater)
    return updaters


# -- listeners and subscriptions ----------------------------------------------------------------

def _read_listen(value: Value, group: _GroupDraft, context: Context) -> None:
    fields = value.fields((), _LISTEN_KEYS)
    if value.node.kind != "mapping":
        return
    name = parse_text(fields.get("name"))
    if "name" not in fields and "names" in fields:
        # The first form of 2024, in documents only: which endpoints advertise.
        name = f"listen_{len(group.listens)}"
        fields["names"].warning(f"the listener is named {name} and accepts all advertised "
                                "producers; set `regex` to restrict it")
    elif "name" not in fields:
        value.problem("name is missing")
    kind = parse_choice(fields.get("type"), ("passive", "active"))
    domain = fields.get("advertiser_auth")
    auth = context.read_auth(fields.get("auth"))
    if domain is not None and domain.node.kind == "mapping":
        auth = context.read_auth(domain)
    elif domain is not None:
        auth = context.auths.get(parse_text(domain)) or Auth(parse_text(domain), parse_text(domain))
    rail, quota, rx_rate = read_limits(fields)
    listen = Listen(
        name, parse_regex(fields.get("regex")), parse_text(fields.get("ip")),
        bool(parse_boolean(fields.get("disable_start"))), parse_interval(fields.get("reconnect")),
        rail,
        quota, rx_rate, kind,
        parse_choice(fields.get("advertiser_xprt"), TRANSPORTS),
        parse_integer(fields.get("advertiser_port"), 1, 65535), auth)
    for key in ("advertiser_xprt", "advertiser_port", "reconnect") if kind == "active" else ():
        if key not in fields:
            value.problem(f"{key} is missing: an active listener connects to what advertises")
    if name in group.listens:
        value.problem(f"{quote(name)} is already a listener of this group")
    group.listens[name] = listen
    context.listen_places.setdefault((group.name, name), value)
    group.sources.append(_ProducerSource(None, _read_updaters(fields.get("updaters"), context)))


def _read_subscription(value: Value, group: _GroupDraft) -> None:
    fields = value.fields(("regex",), ("stream", *_MESSAGE_KEYS, "rx_rate"))
    if value.node.kind != "mapping":
        return
    named = [key for key in ("stream", *_MESSAGE_KEYS) if key in fields]
    if len(named) != 1:
        value.problem("expected either stream or message_tag, got "
                      + (" and ".join(named) or "neither"))
        return
    group.subscriptions.append(Subscription(
        parse_text(fields[named[0]]), parse_regex(fields.get("regex")), named[0] != "stream",
        parse_integer(fields.get("rx_rate"), -1, 1 << 62)))


# -- levels -------------------------------------------------------------------------------------

def _compute_levels(groups: dict[str, _GroupDraft], context: Context) -> dict[str, int]:
    """Compute each group's level: 1 above samplers, one more above aggregators; report cycles."""
    of_daemon = {member: name for name, group in groups.items() for member in group.members}
    below = {name: {of_daemon[producer.daemon] for producer in group.producers.values()
                    if producer.daemon in of_daemon} for name, group in groups.items()}
    at = {(item.host, item.port): daemon for daemon, item in context.endpoints.values()}
    for name, group in groups.items():
        for _, entries in group.advertises:
            for entry in entries:
                daemon = at.get((entry.host, entry.port), "")
                if of_daemon.get(daemon, name) != name:
                    below[of_daemon[daemon]].add(name)
    levels: dict[str, int] = {}
    left = dict(below)
    while left:
        ready = [name for name, unplaced in left.items() if not unplaced & left.keys()]
        if not ready:
            name, unplaced = next(iter(left.items()))
            groups[name].value.problem("these aggregators collect from themselves, through "
                                       f"{quote(sorted(unplaced & left.keys())[0])}")
            return {name: levels.get(name, 1) for name in groups}
        for name in ready:
            levels[name] = 1 + max((levels[lower] for lower in below[name]), default=0)
            del left[name]
    return levels


def warn_about_double_collection(groups: Sequence[AggregatorGroup],
                                 advertising: Iterable[SamplerGroup | AggregatorGroup],
                                 context: Context) -> None:
    """Warn about each prdcr_listen that accepts peers of its own group."""
    with_both = {member: group for group in groups if group.listens and group.producers
                 for member in group.members}
    if not with_both:
        return
    listens_at = {(_normalize_host(host), endpoint.port): with_both[daemon]
                  for daemon, endpoint in context.endpoints.values() if daemon in with_both
                  for host in (endpoint.host, context.daemons[daemon].host)}
    peers = {group.name: {producer.daemon for producer in group.producers
                          if producer.kind != "advertised"} for group in with_both.values()}
    both: dict[tuple[str, str], dict[str, None]] = {}
    for each in advertising:
        for name, entries in each.advertises:
            for entry in entries:
                group = listens_at.get((_normalize_host(entry.host), entry.port))
                if group is None or name not in peers[group.name]:
                    continue
                taking = next((listen for listen in group.listens
                               if _may_accept(listen, context.daemons[name])), None)
                # With disable_start it is there, and ldmsd does not start it.
                if taking is not None and not taking.disable_start:
                    both.setdefault((group.name, taking.name), {})[name] = None
    for place, names in both.items():
        item = len(names) == 1
        context.listen_places[place].warning(
            f"{len(names)} peer{'' if item else 's'} of this group, such as {next(iter(names))}, "
            f"advertise{'s' if item else ''} to it as well: their sets would be collected twice, "
            "and stored twice; remove them from `peers` or `advertise`, or exclude them by "
            "`regex` or `ip` here")


def _may_accept(listen: Listen, daemon: LdmsDaemon) -> bool:
    """
    True if ldmsd may accept the advertisement: `regex` is for the host name, `ip` for the address
    (__is_advertiser_matched(), ldmsd_request.c). Unknown names and addresses may match.
    """
    hosts = {daemon.host, *(endpoint.host for endpoint in daemon.endpoints)}
    addresses = {host for host in hosts if is_ip_address(host)}
    names = {form for host in hosts - addresses for form in (host, strip_domain(host))}
    return (not listen.regex or not names
            or any(_matches_regex(listen.regex, name) for name in names)) \
        and (not listen.ip or not addresses
             or any(_is_in_network(host, listen.ip) for host in addresses))


def _matches_regex(expression: str, name: str) -> bool:
    try:
        return compile_regex(expression).search(name) is not None
    except FAULTS:
        return True


def _is_in_network(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return True


def _normalize_host(host: str) -> str:
    return strip_domain(host).lower()
