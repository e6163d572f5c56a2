"""
The sections daemons, plugins, samplers, stores and iostats of a description.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from iostats.base.options import OPTIONS, RUN_TIME_OPTIONS
from iostats_ldms.description.context import (
    DAEMON,
    ENDPOINT,
    ENDPOINTS,
    NO_LIMIT,
    PLUGIN,
    Context,
)
from iostats_ldms.description.host_lists import strip_domain
from iostats_ldms.description.model import (
    Advertise,
    AgentGroup,
    Endpoint,
    LdmsDaemon,
    Plugin,
    SamplerGroup,
    StoragePolicy,
    format_config_line,
)
from iostats_ldms.description.problems import quote
from iostats_ldms.description.values import (
    parse_boolean,
    parse_choice,
    parse_integer,
    parse_interval,
    parse_offset,
    parse_permissions,
    parse_regex,
    parse_text,
    suggest,
    to_octal,
)

if TYPE_CHECKING:
    from iostats_ldms.description.model import ConfigLine
    from iostats_ldms.description.values import Value

    Options = tuple[tuple[str, str | tuple[tuple[str, str], ...]], ...]
    Advertises = tuple[tuple[str, tuple[Advertise, ...]], ...]

TRANSPORTS = ("sock", "rdma", "ugni", "fabric")
_OWN_KEYS = ("names", "hosts", "endpoints", "environment", "stream_enable", "msg_enable")
_ENDPOINT_KEYS = ("hosts", "xprt", "maestro_comm", "bind_all", "auth")


def read_daemons(section: Value, context: Context) -> None:
    """Read the section `daemons` into the context."""
    if section.node.kind != "list":
        context.unread.update((DAEMON, ENDPOINT))
    for value in section.items("daemons"):
        _read_daemon_entry(value, context)


def _read_daemon_entry(value: Value, context: Context) -> None:
    # All other keys are options of ldmsd, whatever they are.
    fields = value.fields(("names", "hosts", "endpoints"), _OWN_KEYS, takes_others=True)
    names = context.lists.expand(fields.get("names"))
    if "names" not in fields or not names:
        context.unread.update((DAEMON, ENDPOINT))
        return
    _check_names(fields["names"], names, context)
    hosts = _repeat_hosts(fields.get("hosts"), len(names), "names", context)
    of_daemon: list[list[Endpoint]] = [[] for _ in names]
    entries = fields["endpoints"].items("endpoints") if "endpoints" in fields else []
    if not entries:
        context.unread.add(ENDPOINT)
        if "endpoints" in fields and fields["endpoints"].node.kind == "list":
            fields["endpoints"].problem("expected at least one endpoint")
    for entry in entries:
        _read_endpoints(entry, names, hosts, of_daemon, context)
    group = get_group_name(fields["names"])
    environment = tuple((key, _parse_scalar(at)) for key, at in fields["environment"].pairs(
        "variables").items()) if "environment" in fields else ()
    options = _read_options(value.pairs("names, hosts, endpoints"))
    for name, host, endpoints in zip(names, hosts, of_daemon):
        context.daemons[name] = LdmsDaemon(name, host, group, tuple(endpoints), environment,
                                           options)


def get_group_name(value: Value) -> str:
    """Return a host list as written; items of a YAML list are joined by commas."""
    if value.node.kind == "list":
        return ",".join(item.text or "" for item in value.node.items)
    return value.node.text or ""


def _check_names(value: Value, names: list[str], context: Context) -> None:
    """Report the first invalid daemon name."""
    for name in names:
        if name in context.daemons:
            value.problem(f"daemon {quote(name)} is defined already")
        elif "/" in name or name in (".", ".."):
            value.problem(f"expected a daemon name without a slash (it is the name of a file), got "
                          f"{quote(name)}")
        elif name.isdigit():
            value.problem(f"expected a daemon name with a letter, got {quote(name)}")
        else:
            continue
        context.unread.add(DAEMON)
        return


def _repeat_hosts(value: Value | None, count: int, noun: str, context: Context) -> list[str]:
    """Return a host for each name; fewer hosts each repeat in a row.  Empty texts if invalid."""
    result = context.lists.expand(value)
    if value is not None and result and count % len(result):
        value.problem(f"expected as many hosts as {noun} ({count}), or a divisor of that, got "
                      f"{len(result)}")
        context.unread.update((DAEMON, ENDPOINT))           # it may be the names that are wrong
        result = []
    if not result:
        return [""] * count
    return [host for host in result for _ in range(count // len(result))]


def _read_endpoints(entry: Value, names: list[str], hosts: list[str],
                    of_daemon: list[list[Endpoint]], context: Context) -> None:
    """Read an entry of `endpoints`; each daemon gets the same number, in order."""
    fields = entry.fields(("names", "ports"), _ENDPOINT_KEYS)
    transport = parse_choice(fields.get("xprt"), TRANSPORTS, "sock")
    auth = context.read_auth(fields.get("auth"))
    is_control = bool(parse_boolean(fields.get("maestro_comm")))
    everywhere = bool(parse_boolean(fields.get("bind_all")))
    result = context.lists.expand(fields.get("names"))
    ports = _read_ports(fields.get("ports"), context) or [0]
    if result and len(result) % len(names) and DAEMON not in context.unread:
        fields["names"].problem(f"expected as many endpoints as daemons ({len(names)}), or a "
                                f"multiple of that, got {len(result)}")
    if not result or len(result) % len(names):
        context.unread.add(ENDPOINT)
        return
    if len(result) % len(ports):
        fields["ports"].problem(f"expected as many ports as endpoints ({len(result)}), or a "
                                f"divisor of that, got {len(ports)}")
    each = len(result) // len(names)
    own_hosts = [host for host in hosts for _ in range(each)]
    if "hosts" in fields:
        host_list = context.lists.expand(fields["hosts"])
        own_hosts = host_list if len(host_list) == len(result) else [
            host for host in _repeat_hosts(fields["hosts"], len(names), "daemons", context)
            for _ in range(each)]
    is_reported = False
    for at, (name, host) in enumerate(zip(result, own_hosts)):
        endpoint = Endpoint(name, host, ports[at % len(ports)], transport, auth, is_control,
                            everywhere)
        daemon = names[at // each]
        if name in context.endpoints:
            fields["names"].problem(f"endpoint {quote(name)} is already defined for "
                                    f"daemon {quote(context.endpoints[name][0])}; endpoint names "
                                    f"must be unique, since they name producers")
            context.unread.add(ENDPOINT)
            return
        # The second ldmsd at an address ends, and takes the pid file of the first with it.
        first = context.addresses.setdefault((host, endpoint.port, transport), daemon)
        if first != daemon and not is_reported:
            is_reported = True
            fields["names"].warning(f"{first} and {daemon} both listen at {host}:{endpoint.port} "
                                    f"({transport})")
        context.endpoints[name] = daemon, endpoint
        of_daemon[at // each].append(endpoint)


def _read_ports(value: Value | None, context: Context) -> list[int]:
    """Read ports; [] if there are none or one is invalid."""
    ports = context.lists.expand(value)
    off = next((port for port in ports if not (port.isascii() and port.isdigit()
                                               and len(port) < 7 and 0 < int(port) < 65536)), None)
    if off is not None and value is not None:
        value.problem(f"expected ports from 1 to 65535, got {quote(off)}")
        return []
    return [int(port) for port in ports]


def _parse_scalar(value: Value) -> str:
    return parse_text(value, may_have_blanks=True)


def _read_options(fields: dict[str, Value]) -> Options:
    """Read ldmsd's options: `option --key value`, or statements of their own."""
    result: list[tuple[str, str | tuple[tuple[str, str], ...]]] = []
    for key, value in fields.items():
        if key in ("names", "hosts", "endpoints", "environment"):
            continue
        if value.is_null:
            value.problem("has no value")
            continue
        if key in ("stream_enable", "msg_enable"):
            if parse_boolean(value):
                result.append((key, "true"))
            continue
        near = suggest(key, _OWN_KEYS)
        if near and value.node.kind == "list":          # it is missing, then
            continue
        if near:
            value.warning(f"treated as an option of ldmsd, --{key}{near}")
        if not key.isprintable() or any(c.isspace() or c in "='\"" for c in key):
            value.problem("expected the name of an option as the key")
        elif value.node.kind == "mapping":
            attributes = [(name, _read_option_value(name, item))
                          for name, item in value.pairs("attributes").items()]
            result.append((key, tuple(attributes)))
        else:
            result.append((key, _parse_scalar(value)))
    return tuple(result)


def _read_option_value(name: str, value: Value) -> str:
    result = parse_text(value)
    return to_octal(result) or result if name == "perm" else result


_KEYS = ("interval", "offset", "perm")
_MOST_NEAR = 1000               # names that one may be meant for


def read_plugins(section: Value, context: Context) -> None:
    """Read the section `plugins` into the context."""
    if section.node.kind != "mapping":
        context.unread.add(PLUGIN)
    for instance, value in section.pairs("plugins by their instances' names").items():
        if not instance or any(c.isspace() for c in instance) or not instance.isprintable():
            value.problem("expected a plugin instance's name without blanks")
            continue
        context.plugin_places[instance] = value
        if value.is_null:
            value.problem("expected a mapping with name, config, got nothing")
            continue
        plugin = _read_plugin(value, instance)
        if plugin is not None:
            context.plugins[instance] = plugin


def read_plugin_list(value: Value | None, context: Context, *, is_started: bool) -> tuple[str, ...]:
    """
    Read a list of plugin instances: names, or inline plugins.

    `is_started`: they are samplers, and need an interval.
    """
    if value is None:
        return ()
    result: list[str] = []
    for item in value.items("plugin instances"):
        instance = read_plugin_reference(item, context)
        if not instance:
            continue
        if instance in result:
            item.problem(f"{quote(instance)} is in this list already")
            continue
        result.append(instance)
        plugin = context.plugins.get(instance)
        if is_started and plugin is not None and plugin.interval_us is None:
            place = context.plugin_places.get(instance, item)
            # An interval that is there and off has its problem.
            if place.node.kind == "mapping" and not any(
                    key.text == "interval" and (node.kind != "scalar" or node.text is not None)
                    for key, node in place.node.pairs):
                place.problem("interval is missing: a sampler needs one")
    return tuple(result)


def read_plugin_reference(value: Value, context: Context) -> str:
    """Read the name of a plugin instance, or an inline plugin; "" if invalid."""
    if value.node.kind == "mapping":
        return _read_inline_plugin(value, context)
    name = parse_text(value)
    if not name:
        if value.is_null or value.node.text == "":
            value.problem("expected the name of a plugin instance, got nothing")
        return ""
    if name not in context.plugins:
        if name not in context.plugin_places:
            context.require(PLUGIN, [name], (), value, "one of `plugins`" + (
                context.instead_of_plugins
                or suggest(name, islice(context.plugin_places, _MOST_NEAR))))
            if not context.plugin_places:           # then each of them is not there
                context.unread.add(PLUGIN)
        return ""
    return name


def _read_inline_plugin(value: Value, context: Context) -> str:
    """Read an inline plugin; a second one of that name with other settings gets a number."""
    plugin = _read_plugin(value, "")
    if plugin is None:
        return ""
    name, number = plugin.plugin, 1
    while name in context.plugin_places:
        known = context.plugins.get(name)
        if known is not None and _get_effective_settings(known) == _get_effective_settings(plugin):
            return name
        number += 1
        name = f"{plugin.plugin}_{number}"
    if number > 1:
        value.warning(f"this {plugin.plugin} differs from the first one: this "
                      f"instance is named {name}")
    context.plugins[name] = replace(plugin, instance=name)
    context.plugin_places[name] = value
    return name


def _get_effective_settings(plugin: Plugin) -> tuple[object, ...]:
    """Return the settings that ldmsd receives: a line as text equals one as a mapping."""
    return (plugin.plugin, tuple(map(format_config_line, plugin.config)), plugin.interval_us,
            plugin.offset_us, plugin.perm)


def _read_plugin(value: Value, instance: str) -> Plugin | None:
    fields = value.fields(("name", "config"), _KEYS)
    name = parse_text(fields.get("name"))
    interval_us = parse_interval(fields.get("interval"))
    offset_us = parse_offset(fields.get("offset"), interval_us)
    lines: list[ConfigLine] = []
    for item in fields["config"].items("mappings or texts") if "config" in fields else []:
        if item.node.kind == "scalar" and not item.is_null:
            lines.append(_read_config_text(item))
        else:
            lines.append(_read_config_attributes(item))
    if not name:
        return None
    return Plugin(instance or name, name, tuple(lines), interval_us, offset_us,
                  parse_permissions(fields.get("perm")))


def _read_config_text(value: Value) -> str:
    result = parse_text(value, may_have_blanks=True).strip()
    for word in result.split():
        key, _, value_text = word.partition("=")
        if key == "perm" and value_text.startswith("0o"):
            value.warning(f"ldmsd reads {word} as 0, and refuses that; write "
                          f"perm={to_octal(value_text) or '0777'}")
    return result


def _read_config_attributes(value: Value) -> ConfigLine:
    """Read (name, value) in order; a list is a repeated attribute, null a bare keyword."""
    result: list[tuple[str, str | None]] = []
    if value.node.kind != "mapping":
        value.problem(f"expected a mapping of attributes or a text, got {value.got()}")
    for key, entry in value.pairs("attributes").items() if value.node.kind == "mapping" else ():
        if not key or not key.isprintable() or any(c.isspace() or c == "=" for c in key):
            entry.problem(f"expected the name of an attribute as the key, got {quote(key)}")
        elif entry.node.kind == "list":
            result += [(key, None if item.is_null else _read_attribute(key, item))
                       for item in entry.items("values")]
        else:
            result.append((key, None if entry.is_null else _read_attribute(key, entry)))
    return tuple(result)


def _read_attribute(key: str, value: Value) -> str:
    result = parse_text(value)
    if key == "perm" and result.startswith(("0o", "r", "-")):
        return parse_permissions(value)
    return result


LIMITS = ("rail", "quota", "credits", "rx_rate")
_STORE_KEYS = ("name", "container", "schema", "decomposition", "decomp", "regex", "flush", "perm")


def read_limits(fields: dict[str, Value]) -> tuple[int | None, int | None, int | None]:
    """Read (rail, quota, rx_rate); `credits` is the name of quota until LDMS 4.4."""
    if "quota" in fields and "credits" in fields:
        fields["credits"].problem("expected quota or credits (its name until LDMS 4.4), got both")
    return (parse_integer(fields.get("rail"), 1, 1024),
            parse_integer(fields.get("quota") or fields.get("credits"), NO_LIMIT, 1 << 62),
            parse_integer(fields.get("rx_rate"), NO_LIMIT, 1 << 62))


# -- samplers -----------------------------------------------------------------------------------

def read_samplers(section: Value, context: Context) -> tuple[SamplerGroup, ...]:
    """Read the groups of samplers, in written order."""
    result: list[SamplerGroup] = []
    loaded: dict[str, set[str]] = {}            # {plugin: daemons}
    for value in section.items("samplers"):
        fields = value.fields(("daemons", "plugins"), ("advertise",))
        if "daemons" not in fields:
            continue
        members = context.resolve_daemons(fields["daemons"])
        plugins = read_plugin_list(fields.get("plugins"), context, is_started=True)
        if not context.lists.reserve(value, len(members) * len(plugins)):
            continue
        for plugin in plugins:
            having = loaded.setdefault(plugin, set())
            twice = next((name for name in members if name in having), None)
            if twice is not None:
                fields["plugins"].problem(f"{twice} has {quote(plugin)} already")
                break
            having.update(members)
        result.append(SamplerGroup(get_group_name(fields["daemons"]), members, plugins,
                                   read_advertise(fields.get("advertise"), members, context)))
    return tuple(result)


def read_advertise(value: Value | None, members: tuple[str, ...], context: Context) -> Advertises:
    """Read the advertisements of `members`, from one entry or a list."""
    if value is None:
        return ()
    entries = value.items("mappings") if value.node.kind == "list" else [value]
    result: dict[str, list[Advertise]] = {name: [] for name in members}
    for entry in entries:
        _read_advertise_entry(entry, members, context, result)
    return tuple((name, tuple(entries)) for name, entries in result.items() if entries)


def _read_advertise_entry(value: Value, members: tuple[str, ...], context: Context,
                          result: dict[str, list[Advertise]]) -> None:
    has_to = any(key.text == "to" for key, _ in value.node.pairs)
    required = ("names", "to", "reconnect") if has_to else (
        "names", "hosts", "xprt", "port", "reconnect")
    fields = value.fields(required, ("auth", "perm", *LIMITS))
    reconnect_us = parse_interval(fields.get("reconnect")) or 1
    auth = context.read_auth(fields.get("auth"))
    permissions = parse_permissions(fields.get("perm"))
    rail, quota, rx_rate = read_limits(fields)
    names = context.lists.expand(fields.get("names"))
    if has_to:
        # The seed's form: endpoints of these daemons, to endpoints of the aggregators.
        daemons = dict.fromkeys(context.endpoints[name][0] for name in names
                                if name in context.endpoints)
        context.require(ENDPOINT, names, context.endpoints, fields.get("names"), ENDPOINTS)
        unknown = [name for name in daemons if name not in result]
        if unknown:
            fields["names"].problem(f"expected endpoints of this entry's daemons, got one of "
                                    f"{quote(unknown[0])}")
            return
        to = context.lists.expand(fields.get("to"))
        context.require(ENDPOINT, to, context.endpoints, fields.get("to"), ENDPOINTS)
        targets = [(item.host, item.port, item.transport, auth or item.auth) for item in
                   (context.endpoints[name][1] for name in to if name in context.endpoints)]
    else:
        # Fewer names that are daemons' own: only these advertise.
        is_part = len(names) < len(members) and set(names) <= set(members)
        daemons = dict.fromkeys(names if is_part else members)
        if names and len(names) != len(members) and not is_part and context.are_known(members):
            fields["names"].problem(f"expected as many names as daemons ({len(members)}), got "
                                    f"{len(names)}")
        transport = parse_choice(fields.get("xprt"), TRANSPORTS, "sock")
        hosts = context.lists.expand(fields.get("hosts"))
        ports = context.lists.expand(fields.get("port"))
        wrong = next((port for port in ports
                      if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)),
                     None)
        if wrong is not None or (ports and len(hosts) % len(ports)):
            fields["port"].problem("expected one port from 1 to 65535, or as many as hosts "
                                   f"({len(hosts)}), got {fields['port'].got()}")
            return
        targets = [(host, int(ports[at % len(ports)]), transport, auth)
                   for at, host in enumerate(hosts) if ports]
    if not context.reserve_objects(value, len(daemons) * len(targets)):
        return
    for daemon in daemons:
        known = {item.name for item in result[daemon]}
        for host, port, transport, domain in targets:
            name = f"{daemon}-{host}"
            if name in known:
                name = f"{name}-{port}"
            if name in known:
                continue
            known.add(name)
            result[daemon].append(Advertise(name, host, port, transport, reconnect_us, domain,
                                            permissions, rail, quota, rx_rate))


# -- stores -------------------------------------------------------------------------------------

def read_stores(section: Value, context: Context) -> tuple[StoragePolicy, ...]:
    """Read the storage policies: a mapping by name, or (until 2024) a list."""
    entries: list[tuple[str, Value]] = []
    if section.node.kind == "list":
        for value in section.items("stores"):
            named = value.pairs("name, daemons, plugin").get("name")
            if value.node.kind == "mapping" and (named is None or named.is_null):
                value.problem("name is missing")
            entries.append((parse_text(named), value))
    else:
        entries = list(section.pairs("storage policies by their names").items())
    result: dict[str, StoragePolicy] = {}
    for name, value in entries:
        if name in result:
            value.problem(f"{quote(name)} is already a store")
            continue
        if any(c.isspace() for c in name) or not name.isprintable():
            value.problem("expected the name of a storage policy without blanks")
        policy = _read_store(name, value, context)
        if policy is not None and name:
            result[name] = policy
    return tuple(result.values())


def _read_store(name: str, value: Value, context: Context) -> StoragePolicy | None:
    fields = value.fields(("daemons", "plugin"), _STORE_KEYS)
    members = context.resolve_daemons(fields.get("daemons"))
    plugin = read_plugin_reference(fields["plugin"], context) if "plugin" in fields else ""
    decomposition = parse_text(fields.get("decomposition") or fields.get("decomp"))
    schema = parse_text(fields.get("schema"))
    expression = parse_regex(fields.get("regex"))
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
                      + ("both" if "schema" in there else "neither"))
    flush_us = parse_interval(fields.get("flush"), low=0)
    if not plugin:
        return None
    return StoragePolicy(name, members, plugin, parse_text(fields.get("container")), schema,
                         expression,
                         decomposition, flush_us, parse_permissions(fields.get("perm")))


# -- our own agents -----------------------------------------------------------------------------

def read_agents(section: Value, context: Context) -> tuple[AgentGroup, ...]:
    """Read the groups of our own agents."""
    result: list[AgentGroup] = []
    entry_of: dict[str, str] = {}
    for value in section.items("groups of agents"):
        fields = value.fields(("hosts", "settings"), ("names",))
        hosts = tuple(dict.fromkeys(strip_domain(host) for host in
                                    context.lists.expand(fields.get("hosts"))))
        name = parse_text(fields.get("names"), may_have_blanks=True) or (
            get_group_name(fields["hosts"]) if "hosts" in fields else "")
        if value.node.kind != "mapping":
            continue
        if any(name == group.name for group in result):
            value.problem(f"{quote(name)} is already a group")
        twice = next((host for host in hosts if host in entry_of), None)
        if twice:
            fields["hosts"].warning(f"{twice} is in {entry_of[twice]} already; that entry applies")
        for host in hosts:
            entry_of.setdefault(host, name)
        settings = _read_settings(fields["settings"]) if "settings" in fields else ()
        result.append(AgentGroup(name, hosts, settings))
    return tuple(result)


def _read_settings(value: Value) -> tuple[tuple[str, str], ...]:
    result: list[tuple[str, str]] = []
    sections = dict.fromkeys(key.partition(".")[0] for key in RUN_TIME_OPTIONS)
    for section, keys in value.pairs("sections of site.cfg").items():
        if section not in sections:
            keys.problem(f"expected a section of site.cfg that may change at run time, "
                         f"{' or '.join(sections)}" + suggest(section, sections))
            continue
        for key, entry in keys.pairs(f"keys of [{section}]").items():
            name = f"{section}.{key}"
            before = entry.findings.problem_count
            value_text = " ".join(parse_text(item) for item in entry.items("words")) \
                if entry.node.kind == "list" else parse_text(entry, may_have_blanks=True)
            if entry.findings.problem_count > before:
                continue
            if name in RUN_TIME_OPTIONS:
                try:
                    RUN_TIME_OPTIONS[name].check(value_text)
                except ValueError:
                    entry.problem(f"expected {RUN_TIME_OPTIONS[name].expected}, got {entry.got()}")
                result.append((name, value_text))
            else:
                options = [option.partition(".")[2] for option in RUN_TIME_OPTIONS
                           if option.startswith(f"{section}.")]
                why = "requires a restart" if name in OPTIONS else "unknown key"
                entry.problem(f"{why}; expected {', '.join(options)}" + suggest(key, options))
    return tuple(result)
