"""
Context: the names, problems and limits shared by the readers of a description's sections.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from iostats_ldms.description.host_lists import HostLists
from iostats_ldms.description.model import Auth, Endpoint, LdmsDaemon, Plugin
from iostats_ldms.description.problems import Findings, quote
from iostats_ldms.description.values import Value, parse_text

MOST_OBJECTS = 1_000_000           # producers and advertisers of all daemons together
AUTH_PLUGINS = ("none", "ovis", "munge", "naive")
NO_LIMIT = -1
DAEMON, ENDPOINT, PLUGIN = "daemon", "endpoint", "plugin instance"
ENDPOINTS = "names of daemons[].endpoints"      # for messages


@dataclass
class Context:
    """State shared by the readers of all sections."""
    findings: Findings = field(default_factory=Findings)
    lists: HostLists = field(default_factory=HostLists)
    daemons: dict[str, LdmsDaemon] = field(default_factory=dict)    # by name
    # name -> (name of its daemon, endpoint)
    endpoints: dict[str, tuple[str, Endpoint]] = field(default_factory=dict)
    # (host, port, transport) -> the first daemon listening there
    addresses: dict[tuple[str, int, str], str] = field(default_factory=dict)
    # by instance, in written order, including inline ones
    plugins: dict[str, Plugin] = field(default_factory=dict)
    plugin_places: dict[str, Value] = field(default_factory=dict)   # instance -> its definition
    auths: dict[str, Auth] = field(default_factory=dict)            # domain -> its first definition
    # (group of aggregators, prdcr_listen) -> its definition
    listen_places: dict[tuple[str, str], Value] = field(default_factory=dict)
    # a key similar to `plugins`, for a message if that section is missing
    instead_of_plugins: str = ""
    # kinds of names, such as DAEMON, with invalid definitions; references to them are not checked
    unread: set[str] = field(default_factory=set)
    reported: set[tuple[str, str]] = field(default_factory=set)  # undefined names already reported
    objects_left: int = MOST_OBJECTS

    def resolve_daemons(self, value: Value | None) -> tuple[str, ...]:
        """Expand a host list of daemons; a problem if one is not defined."""
        names = self.lists.expand(value)
        self.require(DAEMON, names, self.daemons, value, "names of `daemons`")
        return tuple(names)

    def are_known(self, daemons: Sequence[str]) -> bool:
        """True if there are daemons and all of them are validly defined."""
        return DAEMON not in self.unread and bool(daemons) and all(
            name in self.daemons for name in daemons)

    def require(self, kind: str, names: Iterable[str], known: Container[str], value: Value | None,
                expected: str) -> bool:
        """True if all `names` are known; a problem for those not reported before."""
        missing = [name for name in names if name not in known]
        if missing and value is not None and kind not in self.unread:
            new = [name for name in missing if (kind, name) not in self.reported]
            self.reported.update((kind, name) for name in new)
            if new:
                more = f" and {len(new) - 1} more" if len(new) > 1 else ""
                value.problem(f"no {kind} {quote(new[0])}{more}: expected {expected}")
        return not missing

    def reserve_objects(self, value: Value, count: int) -> bool:
        """True if `count` more objects are within the limit; a problem if not."""
        self.objects_left -= count
        if self.objects_left < 0:
            value.problem(f"expected at most {MOST_OBJECTS} producers and advertisers in a file")
        return self.objects_left >= 0

    def read_auth(self, value: Value | None) -> Auth | None:
        """
        Read an authentication domain.

        A domain with a name only refers to the domain of that name elsewhere in the file; otherwise
        its name is the plugin's, as in ldmsd's auth_add.
        """
        if value is None:
            return None
        fields = value.fields(("name",), ("plugin", "conf"))
        name = parse_text(fields.get("name"))
        plugin = parse_text(fields.get("plugin"))
        if not name:
            return None
        if plugin and plugin not in AUTH_PLUGINS:
            fields["plugin"].warning(f"{quote(plugin)} is not one of LDMS' own: "
                                     f"{', '.join(AUTH_PLUGINS)}")
        if not plugin and name in self.auths:
            return self.auths[name]
        result = Auth(name, plugin or name, _read_conf(fields.get("conf")))
        known = self.auths.setdefault(name, result)
        if known.plugin != result.plugin:
            value.warning(f"domain {quote(name)} is {known.plugin} elsewhere, and "
                          f"{result.plugin} here")
        return result


def _read_conf(value: Value | None) -> str:
    """Read `conf`: a path, or a mapping with one, as in the man page ldmsd_yaml_parser."""
    if value is not None and value.node.kind == "mapping":
        fields = value.fields((), ("path", "conf"))
        return parse_text(fields.get("path") or fields.get("conf"))
    return parse_text(value)
