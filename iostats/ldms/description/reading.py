"""
What the readers of a description's parts share: the problems, the names, what was read so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iostats.ldms.description.host_lists import HostLists
from iostats.ldms.description.normal import Auth
from iostats.ldms.description.problems import Findings, shown
from iostats.ldms.description.values import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from iostats.ldms.description.normal import Endpoint, LdmsDaemon, Plugin
    from iostats.ldms.description.values import Value

MOST_OBJECTS = 1_000_000           # producers and advertisers of all daemons together
AUTH_PLUGINS = ("none", "ovis", "munge", "naive")
NO_LIMIT = -1
DAEMON, ENDPOINT, PLUGIN = "daemon", "endpoint", "plugin instance"
ENDPOINTS = "names of daemons[].endpoints"      # expected where one is not known


@dataclass
class Draft:
    """
    Attributes:
        daemons: by name.
        endpoints: name -> (its daemon's name, endpoint).
        addresses: (host, port, transport) -> the first daemon that listens there.
        plugins: by instance, in written order; inline ones too.
        plugin_places: instance -> where it is defined.
        auths: domain -> its first definition.
        listen_places: (group of aggregators, prdcr_listen) -> where it is.
        instead_of_plugins: where there is no such section: what is there, for a message.
        unread: kinds of names, such as DAEMON, that are not all known, since something is wrong
            where they are defined; what refers to them is not looked at.
        told: names that are defined nowhere; each is told of once.
    """
    findings: Findings = field(default_factory=Findings)
    lists: HostLists = field(default_factory=HostLists)
    daemons: dict[str, LdmsDaemon] = field(default_factory=dict)
    endpoints: dict[str, tuple[str, Endpoint]] = field(default_factory=dict)
    addresses: dict[tuple[str, int, str], str] = field(default_factory=dict)
    plugins: dict[str, Plugin] = field(default_factory=dict)
    plugin_places: dict[str, Value] = field(default_factory=dict)
    auths: dict[str, Auth] = field(default_factory=dict)
    listen_places: dict[tuple[str, str], Value] = field(default_factory=dict)
    instead_of_plugins: str = ""
    unread: set[str] = field(default_factory=set)
    told: set[tuple[str, str]] = field(default_factory=set)
    objects_left: int = MOST_OBJECTS

    def daemons_of(self, value: Value | None) -> tuple[str, ...]:
        """The daemons of a host list; a problem where one is not defined."""
        names = self.lists.expanded(value)
        self.require(DAEMON, names, self.daemons, value, "names of `daemons`")
        return tuple(names)

    def knows(self, daemons: Sequence[str]) -> bool:
        """Whether there are some, and all are defined, and nothing is wrong where they are."""
        return DAEMON not in self.unread and bool(daemons) and all(
            name in self.daemons for name in daemons)

    def require(self, kind: str, names: Iterable[str], known: Container[str], value: Value | None,
                expected: str) -> bool:
        """Whether all `names` are known; a problem where one is new among those that are not."""
        missing = [name for name in names if name not in known]
        if missing and value is not None and kind not in self.unread:
            new = [name for name in missing if (kind, name) not in self.told]
            self.told.update((kind, name) for name in new)
            if new:
                more = f" and {len(new) - 1} more" if len(new) > 1 else ""
                value.problem(f"no {kind} is called {shown(new[0])}{more}: expected {expected}")
        return not missing

    def take_objects(self, value: Value, count: int) -> bool:
        """Whether `count` more may be made; a problem where they are too many."""
        self.objects_left -= count
        if self.objects_left < 0:
            value.problem(f"expected at most {MOST_OBJECTS} producers and advertisers in a file")
        return self.objects_left >= 0

    def auth(self, value: Value | None) -> Auth | None:
        """
        An authentication domain.  One that has a name alone is that of the same name elsewhere in
        the file, or its name is the plugin's, as ldmsd's auth_add has it.
        """
        if value is None:
            return None
        fields = value.fields(("name",), ("plugin", "conf"))
        name = text(fields.get("name"))
        plugin = text(fields.get("plugin"))
        if not name:
            return None
        if plugin and plugin not in AUTH_PLUGINS:
            fields["plugin"].warning(f"{shown(plugin)} is none of LDMS' own: "
                                     f"{', '.join(AUTH_PLUGINS)}")
        if not plugin and name in self.auths:
            return self.auths[name]
        found = Auth(name, plugin or name, _conf(fields.get("conf")))
        known = self.auths.setdefault(name, found)
        if known.plugin != found.plugin:
            value.warning(f"domain {shown(name)} is {known.plugin} elsewhere, and "
                          f"{found.plugin} here")
        return found


def _conf(value: Value | None) -> str:
    """A path, or a mapping with one, as the man page ldmsd_yaml_parser has it."""
    if value is not None and value.node.kind == "mapping":
        fields = value.fields((), ("path", "conf"))
        return text(fields.get("path") or fields.get("conf"))
    return text(value)
