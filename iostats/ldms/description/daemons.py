"""
The section `daemons`: names, hosts, endpoints.
"""

from __future__ import annotations

from iostats.ldms.description.normal import Endpoint, LdmsDaemon
from iostats.ldms.description.problems import shown
from iostats.ldms.description.reading import DAEMON, ENDPOINT
from iostats.ldms.description.values import boolean, nearest, word_of, permissions, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.ldms.description.reading import Draft
    from iostats.ldms.description.values import Value

    Options = tuple[tuple[str, str | tuple[tuple[str, str], ...]], ...]

TRANSPORTS = ("sock", "rdma", "ugni", "fabric")
_OWN_KEYS = ("names", "hosts", "endpoints", "environment", "stream_enable", "msg_enable")
_ENDPOINT_KEYS = ("hosts", "xprt", "maestro_comm", "bind_all", "auth")


def read_daemons(section: Value, reading: Draft) -> None:
    """Fill `reading.daemons` and `reading.endpoints`."""
    if section.node.kind != "list":
        reading.unread.update((DAEMON, ENDPOINT))
    for value in section.items("daemons"):
        _read_entry(value, reading)


def _read_entry(value: Value, reading: Draft) -> None:
    # All other keys are options of ldmsd, whatever they are.
    fields = value.fields(("names", "hosts", "endpoints"), _OWN_KEYS, takes_others=True)
    names = reading.lists.expanded(fields.get("names"))
    if "names" not in fields or not names:
        reading.unread.update((DAEMON, ENDPOINT))
        return
    _check_names(fields["names"], names, reading)
    hosts = _repeated(fields.get("hosts"), len(names), "names", reading)
    of_daemon: list[list[Endpoint]] = [[] for _ in names]
    entries = fields["endpoints"].items("endpoints") if "endpoints" in fields else []
    if not entries:
        reading.unread.add(ENDPOINT)
        if "endpoints" in fields and fields["endpoints"].node.kind == "list":
            fields["endpoints"].problem("expected at least one endpoint")
    for entry in entries:
        _read_endpoints(entry, names, hosts, of_daemon, reading)
    group = group_name(fields["names"])
    environment = tuple((key, _scalar(at)) for key, at in fields["environment"].pairs(
        "variables").items()) if "environment" in fields else ()
    options = _options(value.pairs("names, hosts, endpoints"))
    for name, host, endpoints in zip(names, hosts, of_daemon):
        reading.daemons[name] = LdmsDaemon(name, host, group, tuple(endpoints), environment,
                                           options)


def group_name(value: Value) -> str:
    """A host list as it was written; the items of a YAML list with commas between."""
    if value.node.kind == "list":
        return ",".join(item.text or "" for item in value.node.items)
    return value.node.text or ""


def _check_names(value: Value, names: list[str], reading: Draft) -> None:
    """Tell of the first that is wrong."""
    for name in names:
        if name in reading.daemons:
            value.problem(f"daemon {shown(name)} is defined already")
        elif "/" in name or name in (".", ".."):
            value.problem(f"expected a daemon name without a slash (it is the name of a file), got "
                          f"{shown(name)}")
        elif name.isdigit():
            value.problem(f"expected a daemon name with a letter, got {shown(name)}")
        else:
            continue
        reading.unread.add(DAEMON)
        return


def _repeated(value: Value | None, count: int, what: str, reading: Draft) -> list[str]:
    """
    As many hosts as there are names; each stands for several in a row where they are fewer.  Empty
    ones where they are wrong.
    """
    found = reading.lists.expanded(value)
    if value is not None and found and count % len(found):
        value.problem(f"expected as many hosts as {what} ({count}), or a divisor of that, got "
                      f"{len(found)}")
        reading.unread.update((DAEMON, ENDPOINT))           # it may be the names that are wrong
        found = []
    if not found:
        return [""] * count
    return [host for host in found for _ in range(count // len(found))]


def _read_endpoints(entry: Value, names: list[str], hosts: list[str],
                    of_daemon: list[list[Endpoint]], reading: Draft) -> None:
    """Each daemon has the same number of the endpoints, one after the other."""
    fields = entry.fields(("names", "ports"), _ENDPOINT_KEYS)
    transport = word_of(fields.get("xprt"), TRANSPORTS, "sock")
    auth = reading.auth(fields.get("auth"))
    is_control = bool(boolean(fields.get("maestro_comm")))
    everywhere = bool(boolean(fields.get("bind_all")))
    found = reading.lists.expanded(fields.get("names"))
    ports = _ports(fields.get("ports"), reading) or [0]
    if found and len(found) % len(names) and DAEMON not in reading.unread:
        fields["names"].problem(f"expected as many endpoints as daemons ({len(names)}), or a "
                                f"multiple of that, got {len(found)}")
    if not found or len(found) % len(names):
        reading.unread.add(ENDPOINT)
        return
    if len(found) % len(ports):
        fields["ports"].problem(f"expected as many ports as endpoints ({len(found)}), or a divisor "
                                f"of that, got {len(ports)}")
    each = len(found) // len(names)
    own_hosts = [host for host in hosts for _ in range(each)]
    if "hosts" in fields:
        given = reading.lists.expanded(fields["hosts"])
        own_hosts = given if len(given) == len(found) else [
            host for host in _repeated(fields["hosts"], len(names), "daemons", reading)
            for _ in range(each)]
    is_told = False
    for at, (name, host) in enumerate(zip(found, own_hosts)):
        endpoint = Endpoint(name, host, ports[at % len(ports)], transport, auth, is_control,
                            everywhere)
        daemon = names[at // each]
        if name in reading.endpoints:
            fields["names"].problem(f"endpoint {shown(name)} is one of daemon "
                                    f"{shown(reading.endpoints[name][0])} already; its name is a "
                                    f"producer's, and has to be the only one")
            reading.unread.add(ENDPOINT)
            return
        # The second ldmsd at an address ends, and takes the pid file of the first with it.
        first = reading.addresses.setdefault((host, endpoint.port, transport), daemon)
        if first != daemon and not is_told:
            is_told = True
            fields["names"].warning(f"{first} and {daemon} both listen at {host}:{endpoint.port} "
                                    f"({transport})")
        reading.endpoints[name] = daemon, endpoint
        of_daemon[at // each].append(endpoint)


def _ports(value: Value | None, reading: Draft) -> list[int]:
    """[] where there is none, or one is wrong."""
    ports = reading.lists.expanded(value)
    off = next((port for port in ports if not (port.isascii() and port.isdigit()
                                               and len(port) < 7 and 0 < int(port) < 65536)), None)
    if off is not None and value is not None:
        value.problem(f"expected ports from 1 to 65535, got {shown(off)}")
        return []
    return [int(port) for port in ports]


def _scalar(value: Value) -> str:
    return text(value, may_have_blanks=True)


def _options(fields: dict[str, Value]) -> Options:
    """What ldmsd is told by `option --key value`, or by a statement of its own."""
    found: list[tuple[str, str | tuple[tuple[str, str], ...]]] = []
    for key, value in fields.items():
        if key in ("names", "hosts", "endpoints", "environment"):
            continue
        if value.is_null:
            value.problem("has no value")
            continue
        if key in ("stream_enable", "msg_enable"):
            if boolean(value):
                found.append((key, "true"))
            continue
        near = nearest(key, _OWN_KEYS)
        if near and value.node.kind == "list":          # it is missing, then
            continue
        if near:
            value.warning(f"is taken for an option of ldmsd, --{key}{near}")
        if not key.isprintable() or any(c.isspace() or c in "='\"" for c in key):
            value.problem("expected the name of an option as the key")
        elif value.node.kind == "mapping":
            attributes = [(name, _attribute(name, one))
                          for name, one in value.pairs("attributes").items()]
            found.append((key, tuple(attributes)))
        else:
            found.append((key, _scalar(value)))
    return tuple(found)


def _attribute(name: str, value: Value) -> str:
    found = text(value)
    return permissions(found) or found if name == "perm" else found
