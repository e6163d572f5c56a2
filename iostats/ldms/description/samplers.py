"""
The sections `samplers`, `stores` and `iostats`, and `advertise` of samplers and aggregators.
"""

from __future__ import annotations

from iostats.base.options import OPTIONS, RENAMED, RUN_TIME_OPTIONS
from iostats.ldms.description.daemons import TRANSPORTS, group_name
from iostats.ldms.description.host_lists import without_domain
from iostats.ldms.description.normal import Advertise, AgentGroup, SamplerGroup, StoragePolicy
from iostats.ldms.description.plugins import plugin_instance, plugin_instances
from iostats.ldms.description.problems import shown
from iostats.ldms.description.reading import ENDPOINT, ENDPOINTS, NO_LIMIT
from iostats.ldms.description.values import (
    integer,
    interval_us,
    nearest,
    word_of,
    perm,
    regex,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.reading import Draft
    from iostats.ldms.description.values import Value

    Advertises = tuple[tuple[str, tuple[Advertise, ...]], ...]

LIMITS = ("rail", "quota", "credits", "rx_rate")
_STORE_KEYS = ("name", "container", "schema", "decomposition", "decomp", "regex", "flush", "perm")


def limits(fields: dict[str, Value]) -> tuple[int | None, int | None, int | None]:
    """(rail, quota, rx_rate); `credits` is quota's name until LDMS 4.4."""
    if "quota" in fields and "credits" in fields:
        fields["credits"].problem("expected quota or credits (its name until LDMS 4.4), got both")
    return (integer(fields.get("rail"), 1, 1024),
            integer(fields.get("quota") or fields.get("credits"), NO_LIMIT, 1 << 62),
            integer(fields.get("rx_rate"), NO_LIMIT, 1 << 62))


# -- samplers -----------------------------------------------------------------------------------

def read_samplers(section: Value, reading: Draft) -> tuple[SamplerGroup, ...]:
    """The groups of samplers, in written order."""
    found: list[SamplerGroup] = []
    loaded: dict[str, set[str]] = {}            # {plugin: daemons}
    for value in section.items("samplers"):
        fields = value.fields(("daemons", "plugins"), ("advertise",))
        if "daemons" not in fields:
            continue
        members = reading.daemons_of(fields["daemons"])
        plugins = plugin_instances(fields.get("plugins"), reading, is_started=True)
        if not reading.lists.take(value, len(members) * len(plugins)):
            continue
        for plugin in plugins:
            having = loaded.setdefault(plugin, set())
            twice = next((name for name in members if name in having), None)
            if twice is not None:
                fields["plugins"].problem(f"{twice} has {shown(plugin)} already")
                break
            having.update(members)
        found.append(SamplerGroup(group_name(fields["daemons"]), members, plugins,
                                  read_advertise(fields.get("advertise"), members, reading)))
    return tuple(found)


def read_advertise(value: Value | None, members: tuple[str, ...], reading: Draft) -> Advertises:
    """What each of `members` advertises to, from one entry or a list of them."""
    if value is None:
        return ()
    entries = value.items("mappings") if value.node.kind == "list" else [value]
    found: dict[str, list[Advertise]] = {name: [] for name in members}
    for entry in entries:
        _read_entry(entry, members, reading, found)
    return tuple((name, tuple(entries)) for name, entries in found.items() if entries)


def _read_entry(value: Value, members: tuple[str, ...], reading: Draft,
                found: dict[str, list[Advertise]]) -> None:
    has_to = any(key.text == "to" for key, _ in value.node.pairs)
    required = ("names", "to", "reconnect") if has_to else (
        "names", "hosts", "xprt", "port", "reconnect")
    fields = value.fields(required, ("auth", "perm", *LIMITS))
    reconnect = interval_us(fields.get("reconnect")) or 1
    auth = reading.auth(fields.get("auth"))
    permissions = perm(fields.get("perm"))
    rail, quota, rx_rate = limits(fields)
    names = reading.lists.expanded(fields.get("names"))
    if has_to:
        # The seed's form: endpoints of these daemons, to endpoints of the aggregators.
        daemons = dict.fromkeys(reading.endpoints[name][0] for name in names
                                if name in reading.endpoints)
        reading.require(ENDPOINT, names, reading.endpoints, fields.get("names"), ENDPOINTS)
        others = [name for name in daemons if name not in found]
        if others:
            fields["names"].problem(f"expected endpoints of this entry's daemons, got one of "
                                    f"{shown(others[0])}")
            return
        to = reading.lists.expanded(fields.get("to"))
        reading.require(ENDPOINT, to, reading.endpoints, fields.get("to"), ENDPOINTS)
        targets = [(one.host, one.port, one.transport, auth or one.auth) for one in
                   (reading.endpoints[name][1] for name in to if name in reading.endpoints)]
    else:
        # Fewer names that are daemons' own: only these advertise.
        is_part = len(names) < len(members) and set(names) <= set(members)
        daemons = dict.fromkeys(names if is_part else members)
        if names and len(names) != len(members) and not is_part and reading.knows(members):
            fields["names"].problem(f"expected as many names as daemons ({len(members)}), got "
                                    f"{len(names)}")
        transport = word_of(fields.get("xprt"), TRANSPORTS, "sock")
        hosts = reading.lists.expanded(fields.get("hosts"))
        ports = reading.lists.expanded(fields.get("port"))
        wrong = next((port for port in ports
                      if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)),
                     None)
        if wrong is not None or (ports and len(hosts) % len(ports)):
            fields["port"].problem("expected one port from 1 to 65535, or as many as hosts "
                                   f"({len(hosts)}), got {fields['port'].got()}")
            return
        targets = [(host, int(ports[at % len(ports)]), transport, auth)
                   for at, host in enumerate(hosts) if ports]
    if not reading.take_objects(value, len(daemons) * len(targets)):
        return
    for daemon in daemons:
        known = {one.name for one in found[daemon]}
        for host, port, transport, domain in targets:
            name = f"{daemon}-{host}"
            if name in known:
                name = f"{name}-{port}"
            if name in known:
                continue
            known.add(name)
            found[daemon].append(Advertise(name, host, port, transport, reconnect, domain,
                                           permissions, rail, quota, rx_rate))


# -- stores -------------------------------------------------------------------------------------

def read_stores(section: Value, reading: Draft) -> tuple[StoragePolicy, ...]:
    """The storage policies, of a mapping by their names or (until 2024) a list."""
    entries: list[tuple[str, Value]] = []
    if section.node.kind == "list":
        for value in section.items("stores"):
            named = value.pairs("name, daemons, plugin").get("name")
            if value.node.kind == "mapping" and (named is None or named.is_null):
                value.problem("name is missing")
            entries.append((text(named), value))
    else:
        entries = list(section.pairs("storage policies by their names").items())
    found: dict[str, StoragePolicy] = {}
    for name, value in entries:
        if name in found:
            value.problem(f"{shown(name)} is the name of a store already")
            continue
        if any(c.isspace() for c in name) or not name.isprintable():
            value.problem("expected the name of a storage policy without blanks")
        policy = _read_store(name, value, reading)
        if policy is not None and name:
            found[name] = policy
    return tuple(found.values())


def _read_store(name: str, value: Value, reading: Draft) -> StoragePolicy | None:
    fields = value.fields(("daemons", "plugin"), _STORE_KEYS)
    members = reading.daemons_of(fields.get("daemons"))
    plugin = plugin_instance(fields["plugin"], reading) if "plugin" in fields else ""
    decomposition = text(fields.get("decomposition") or fields.get("decomp"))
    schema = text(fields.get("schema"))
    expression = regex(fields.get("regex"))
    there = {key for key in fields if fields[key].node.text != ""}
    if value.node.kind != "mapping":
        return None
    if not there & {"decomposition", "decomp"}:
        if "schema" not in there:
            value.problem("schema is missing; only a store with a decomposition may have none")
        if "regex" in fields:
            fields["regex"].problem("expected no regex without a decomposition")
    elif len(there & {"schema", "regex"}) != 1:
        value.problem("expected either schema or regex beside decomposition, got "
                      + ("both" if "schema" in there else "none of them"))
    flush = interval_us(fields.get("flush"), low=0)
    if not plugin:
        return None
    return StoragePolicy(name, members, plugin, text(fields.get("container")), schema, expression,
                         decomposition, flush, perm(fields.get("perm")))


# -- our own agents -----------------------------------------------------------------------------

def read_agents(section: Value, reading: Draft) -> tuple[AgentGroup, ...]:
    """The groups of our own agents; their settings are keys of site.cfg."""
    found: list[AgentGroup] = []
    seen: dict[str, str] = {}
    for value in section.items("groups of agents"):
        fields = value.fields(("hosts", "settings"), ("names",))
        hosts = tuple(dict.fromkeys(without_domain(host) for host in
                                    reading.lists.expanded(fields.get("hosts"))))
        name = text(fields.get("names"), may_have_blanks=True) or (
            group_name(fields["hosts"]) if "hosts" in fields else "")
        if value.node.kind != "mapping":
            continue
        if any(name == group.name for group in found):
            value.problem(f"{shown(name)} is the name of a group already")
        twice = next((host for host in hosts if host in seen), None)
        if twice:
            fields["hosts"].warning(f"{twice} is in {seen[twice]} already; that one counts")
        for host in hosts:
            seen.setdefault(host, name)
        settings = _settings(fields["settings"]) if "settings" in fields else ()
        found.append(AgentGroup(name, hosts, settings))
    return tuple(found)


def _settings(value: Value) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    sections = dict.fromkeys(key.partition(".")[0] for key in RUN_TIME_OPTIONS)
    for section, keys in value.pairs("sections of site.cfg").items():
        if section not in sections:
            keys.problem(f"expected a section of site.cfg that may change at run time, "
                         f"{' or '.join(sections)}" + nearest(section, sections))
            continue
        for key, one in keys.pairs(f"keys of [{section}]").items():
            name = f"{section}.{key}"
            before = one.findings.problem_count
            said = " ".join(text(item) for item in one.items("words")) \
                if one.node.kind == "list" else text(one, may_have_blanks=True)
            if one.findings.problem_count > before:
                continue
            if name in RENAMED and RENAMED[name][0] in RUN_TIME_OPTIONS:
                one.problem(f"the name is now {RENAMED[name][0].partition('.')[2]}")
            elif name in RUN_TIME_OPTIONS:
                try:
                    RUN_TIME_OPTIONS[name].check(said)
                except ValueError:
                    one.problem(f"expected {RUN_TIME_OPTIONS[name].expected}, got {one.got()}")
                found.append((name, said))
            else:
                known = [other.partition(".")[2] for other in RUN_TIME_OPTIONS
                         if other.startswith(f"{section}.")]
                why = "changes with a restart only" if name in OPTIONS else "is no key"
                one.problem(f"{why}; expected {', '.join(known)}" + nearest(key, known))
    return tuple(found)
