"""
The section `aggregators`: producers, updaters, listeners, subscriptions, levels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from iostats.base import node_list
from iostats.ldms.description.daemons import TRANSPORTS, group_name
from iostats.ldms.description.normal import (
    AggregatorGroup,
    Auth,
    Listen,
    Producer,
    SetMatch,
    Subscription,
    Updater,
)
from iostats.ldms.description.plugins import plugin_instances
from iostats.ldms.description.problems import shown
from iostats.ldms.description.reading import ENDPOINT, ENDPOINTS
from iostats.ldms.description.regexes import literal, one_of
from iostats.ldms.description.samplers import LIMITS, limits, read_advertise
from iostats.ldms.description.values import (
    boolean,
    check_regex,
    integer,
    interval_us,
    nearest,
    number,
    offset_us,
    word_of,
    perm,
    regex,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.reading import Draft
    from iostats.ldms.description.samplers import Advertises
    from iostats.ldms.description.values import Value

MODES = ("pull", "push", "onchange", "auto", "auto_interval")
PRODUCER_TYPES = ("active", "passive", "advertised", "bridge")
_GROUP_KEYS = ("peers", "prdcr_listen", "subscribe", "plugins", "advertise", "balance", "capacity")
_LISTEN_KEYS = ("name", "names", "regex", "ip", "disable_start", "reconnect", "type", "auth",
                "advertiser_xprt", "advertiser_port", "advertiser_auth", "updaters", *LIMITS)
_MESSAGE_KEYS = ("message_tag", "message_channel", "msg_tag")
_MOST_CAPACITY = 1e6
_A_REGEX = 5                       # names elsewhere cost as much as one in an expression


@dataclass(eq=False)
class _ProducerSource:
    """What one entry of peers or prdcr_listen brings; `producers`: None for a prdcr_listen."""
    producers: list[str] | None
    updaters: list[tuple[Value, Updater]]


@dataclass
class _AggregatorDraft:
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


def read_aggregators(section: Value, reading: Draft) -> tuple[AggregatorGroup, ...]:
    """The groups of aggregators, in written order; entries of the same daemons are one group."""
    groups: dict[str, _AggregatorDraft] = {}
    of_daemon: dict[str, str] = {}
    for value in section.items("aggregators"):
        fields = value.fields(("daemons",), _GROUP_KEYS)
        if "daemons" not in fields:
            continue
        name = group_name(fields["daemons"])
        members = reading.daemons_of(fields["daemons"])
        if name not in groups:
            twice = next((member for member in members if member in of_daemon), None)
            if twice:
                fields["daemons"].problem(
                    f"{shown(twice)} is in the group {shown(of_daemon[twice])} already")
            of_daemon.update(dict.fromkeys(members, name))
            groups[name] = _AggregatorDraft(name, value, members)
        _read_group(groups[name], fields, reading)
    levels = _levels(groups, reading)
    found: list[AggregatorGroup] = []
    count = 0
    for name, group in groups.items():
        level = levels[name]
        if group.balance == "sets" and level > 1:
            group.value.problem(f"expected balance: producers, got sets: this group is of level "
                                f"{level}, and sets are balanced on level 1")
        updaters = [replace(updater, name=f"updtr_{count + at}")
                    for at, updater in enumerate(_updaters(group, reading))]
        count += len(updaters)
        found.append(AggregatorGroup(
            name, group.members, level, tuple(group.producers.values()), tuple(updaters),
            tuple(group.listens.values()), tuple(group.subscriptions), group.plugins,
            group.advertises, group.balance or "producers", group.capacity))
    return tuple(found)


def _read_group(group: _AggregatorDraft, fields: dict[str, Value], reading: Draft) -> None:
    for value in fields["peers"].items("peers") if "peers" in fields else []:
        _read_peers(value, group, reading)
    for value in fields["prdcr_listen"].items("listeners") if "prdcr_listen" in fields else []:
        _read_listen(value, group, reading)
    for value in fields["subscribe"].items("subscriptions") if "subscribe" in fields else []:
        _read_subscription(value, group)
    group.plugins += plugin_instances(fields.get("plugins"), reading, is_started=False)
    group.advertises += read_advertise(fields.get("advertise"), group.members, reading)
    balance = word_of(fields.get("balance"), ("producers", "sets"))
    if balance and group.balance not in ("", balance):
        fields["balance"].problem(f"is {group.balance} in another entry of these daemons")
    group.balance = group.balance or balance
    if "capacity" in fields:
        group.capacity = _capacity(fields["capacity"], group.members, reading)


def _capacity(value: Value, members: tuple[str, ...],
              reading: Draft) -> tuple[tuple[str, float], ...]:
    """For each that is named; one number is for all."""
    if value.node.kind != "mapping":
        part = number(value, _MOST_CAPACITY)
        return tuple((member, part) for member in members) if part else ()
    found: dict[str, float] = {}
    for key, one in value.pairs("capacities by aggregator").items():
        part = number(one, _MOST_CAPACITY)
        if key not in members and reading.knows(members):
            one.problem(f"{shown(key)} is none of this group's aggregators"
                        + nearest(key, members[:1000]))
        elif part:
            found[key] = part
    return tuple((member, found[member]) for member in members if member in found)


def _read_peers(value: Value, group: _AggregatorDraft, reading: Draft) -> None:
    fields = value.fields(("endpoints", "reconnect", "type"),
                          ("daemons", "perm", "cache_ip", "updaters", *LIMITS))
    kind = word_of(fields.get("type"), PRODUCER_TYPES, "active")
    reconnect = interval_us(fields.get("reconnect")) or 1
    rail, quota, rx_rate = limits(fields)
    permissions = perm(fields.get("perm"))
    cache_ip = boolean(fields.get("cache_ip"))
    names = reading.lists.expanded(fields.get("endpoints"))
    daemons = reading.daemons_of(fields.get("daemons"))
    updaters = _read_updaters(fields.get("updaters"), reading)
    group.sources.append(_ProducerSource(names, updaters))
    if not reading.take_objects(value, len(names)) or "endpoints" not in fields:
        return
    if daemons and not reading.knows(daemons):
        return
    if not reading.require(ENDPOINT, names, reading.endpoints, fields["endpoints"],
                           ENDPOINTS + _own_endpoints(daemons, reading)):
        return
    allowed = set(daemons)
    collected: dict[str, str] = {}
    is_told = False
    for name in names:
        daemon, endpoint = reading.endpoints[name]
        if allowed and daemon not in allowed:
            fields["endpoints"].problem(f"endpoint {shown(name)} is one of daemon {shown(daemon)}, "
                                        "which is not in `daemons` here")
            return
        if daemon in group.members:
            fields["endpoints"].problem(f"{shown(daemon)} would collect from itself")
            return
        producer = Producer(daemon, endpoint, kind, reconnect, rail, quota, rx_rate, permissions,
                            cache_ip)
        if group.producers.setdefault(name, producer) != producer:
            fields["endpoints"].problem(f"{shown(name)} is a producer of this group already, with "
                                        "other values")
            return
        if collected.setdefault(daemon, name) != name and not is_told:
            is_told = True
            fields["endpoints"].warning(f"{collected[daemon]} and {name} are both of {daemon}: its "
                                        "sets come twice, with the same names")
    left = [daemon for daemon in daemons if daemon not in collected]
    if left:
        fields["endpoints"].warning(f"no endpoint of {len(left)} of the daemons, such as "
                                    f"{left[0]}: they are not collected")


def _own_endpoints(daemons: tuple[str, ...], reading: Draft) -> str:
    """What there is instead."""
    own = reading.daemons[daemons[0]].endpoints if daemons else ()
    return f"; {daemons[0]} has {own[0].name}" if own else ""


# -- updaters -----------------------------------------------------------------------------------

def _read_updaters(value: Value | None, reading: Draft) -> list[tuple[Value, Updater]]:
    found: list[tuple[Value, Updater]] = []
    for item in value.items("updaters") if value is not None else []:
        fields = item.fields(("interval",), ("mode", "offset", "perm", "producers", "sets"))
        mode = word_of(fields.get("mode"), MODES, "pull")
        sets = tuple(_read_match(one) for one in fields["sets"].items("mappings")) \
            if "sets" in fields else ()
        interval = interval_us(fields.get("interval"))
        found.append((item, Updater(
            "", interval or 1, offset_us(fields.get("offset"), interval),
            "auto_interval" if mode == "auto" else mode, perm(fields.get("perm")),
            _read_producers(fields.get("producers"), reading), sets)))
    return found


def _read_match(value: Value) -> SetMatch:
    fields = value.fields(("regex",), ("field",))
    return SetMatch(regex(fields.get("regex")), word_of(fields.get("field"), ("inst", "schema"),
                                                       "inst"))


def _read_producers(value: Value | None, reading: Draft) -> tuple[str, ...]:
    """
    Regular expressions; a host list is one for each of its names, which match these alone.
    """
    if value is None:
        return ()
    found: list[str] = []
    for item in value.items("regular expressions") if value.node.kind == "list" else [value]:
        if item.node.kind == "mapping":
            found.append(regex(item.fields(("regex",), ()).get("regex")))
            continue
        said = text(item)
        names = _names_in(said) if reading.lists.take(item, 0) else []
        if names and reading.lists.take(item, _A_REGEX * len(names)):
            found += [f"^{literal(name)}$" for name in names]
        elif not names:
            check_regex(item, said)
            found.append(said)
    return tuple(one for one in found if one)


def _names_in(said: str) -> list[str]:
    """The names of a host list of more than one; [] where it is none."""
    if re.fullmatch(r"(?:[\w:/,-]|\[[0-9]+(?:[-,][0-9]+)*\])+", said, re.ASCII):
        try:
            names = node_list.expanded(said)
        except ValueError:
            return []
        return names if len(names) > 1 else []
    return []


def _updaters(group: _AggregatorDraft, reading: Draft) -> list[Updater]:
    """
    Those of the group's entries.  One that names no producers is for those of its entry; where
    that is all that there are, for all.  The same one in several entries is one.
    """
    with_updaters = [source for source in group.sources if source.updaters]
    found: dict[Updater, dict[_ProducerSource, None]] = {}
    places: dict[Updater, Value] = {}
    for source in with_updaters:
        for value, updater in source.updaters:
            found.setdefault(updater, {})[source] = None
            places.setdefault(updater, value)
    updaters: list[Updater] = []
    for updater, sources in found.items():
        if updater.producers == (".*",):
            updater = replace(updater, producers=())
        elif not updater.producers and len(sources) < len(with_updaters):
            count = sum(len(source.producers or ()) for source in sources)
            if any(source.producers is None for source in sources):
                places[updater].warning("is for all producers of the group: those that advertise "
                                        "cannot be told from others without `producers`")
            elif reading.lists.take(places[updater], _A_REGEX * count):
                updater = replace(updater, producers=one_of(dict.fromkeys(
                    name for source in sources for name in source.producers or ())))
        updaters.append(updater)
    return updaters


# -- listeners and subscriptions ----------------------------------------------------------------

def _read_listen(value: Value, group: _AggregatorDraft, reading: Draft) -> None:
    fields = value.fields((), _LISTEN_KEYS)
    if value.node.kind != "mapping":
        return
    name = text(fields.get("name"))
    if "name" not in fields and "names" in fields:
        # The first form of 2024, in documents only: which endpoints advertise.
        name = f"listen_{len(group.listens)}"
        fields["names"].warning(f"the listener is called {name}, and takes all that advertise; "
                                "`regex` says which")
    elif "name" not in fields:
        value.problem("name is missing")
    kind = word_of(fields.get("type"), ("passive", "active"))
    domain = fields.get("advertiser_auth")
    auth = reading.auth(fields.get("auth"))
    if domain is not None and domain.node.kind == "mapping":
        auth = reading.auth(domain)
    elif domain is not None:
        auth = reading.auths.get(text(domain)) or Auth(text(domain), text(domain))
    rail, quota, rx_rate = limits(fields)
    listen = Listen(
        name, regex(fields.get("regex")), text(fields.get("ip")),
        bool(boolean(fields.get("disable_start"))), interval_us(fields.get("reconnect")), rail,
        quota, rx_rate, kind,
        word_of(fields.get("advertiser_xprt"), TRANSPORTS),
        integer(fields.get("advertiser_port"), 1, 65535), auth)
    for key in ("advertiser_xprt", "advertiser_port", "reconnect") if kind == "active" else ():
        if key not in fields:
            value.problem(f"{key} is missing: an active listener connects to what advertises")
    if name in group.listens:
        value.problem(f"{shown(name)} is the name of a listener of this group already")
    group.listens[name] = listen
    reading.listen_places.setdefault((group.name, name), value)
    group.sources.append(_ProducerSource(None, _read_updaters(fields.get("updaters"), reading)))


def _read_subscription(value: Value, group: _AggregatorDraft) -> None:
    fields = value.fields(("regex",), ("stream", *_MESSAGE_KEYS, "rx_rate"))
    if value.node.kind != "mapping":
        return
    named = [key for key in ("stream", *_MESSAGE_KEYS) if key in fields]
    if len(named) != 1:
        value.problem("expected either stream or message_tag, got "
                      + (" and ".join(named) or "none of them"))
        return
    group.subscriptions.append(Subscription(
        text(fields[named[0]]), regex(fields.get("regex")), named[0] != "stream",
        integer(fields.get("rx_rate"), -1, 1 << 62)))


# -- levels -------------------------------------------------------------------------------------

def _levels(groups: dict[str, _AggregatorDraft], reading: Draft) -> dict[str, int]:
    """1 for a group whose producers are all samplers, one more above; a problem for a circle."""
    of_daemon = {member: name for name, group in groups.items() for member in group.members}
    below = {name: {of_daemon[producer.daemon] for producer in group.producers.values()
                    if producer.daemon in of_daemon} for name, group in groups.items()}
    at = {(one.host, one.port): daemon for daemon, one in reading.endpoints.values()}
    for name, group in groups.items():
        for _, entries in group.advertises:
            for entry in entries:
                daemon = at.get((entry.host, entry.port), "")
                if of_daemon.get(daemon, name) != name:
                    below[of_daemon[daemon]].add(name)
    levels: dict[str, int] = {}
    left = dict(below)
    while left:
        ready = [name for name, others in left.items() if not others & left.keys()]
        if not ready:
            name, others = next(iter(left.items()))
            groups[name].value.problem("these aggregators collect, by way of "
                                       f"{shown(sorted(others & left.keys())[0])}, from themselves")
            return {name: levels.get(name, 1) for name in groups}
        for name in ready:
            levels[name] = 1 + max((levels[other] for other in below[name]), default=0)
            del left[name]
    return levels
