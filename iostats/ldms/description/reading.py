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
    from iostats.ldms.description.normal import Endpoint, LdmsDaemon, Plugin
    from iostats.ldms.description.values import Value

MOST_OBJECTS = 1_000_000           # producers and advertisers of all daemons together
AUTH_PLUGINS = ("none", "ovis", "munge", "naive")
NO_LIMIT = -1


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
    objects_left: int = MOST_OBJECTS

    def known_daemons(self, value: Value | None) -> tuple[str, ...]:
        """The daemons of a host list; a problem where one is not defined."""
        names = self.lists.expanded(value)
        missing = [name for name in names if name not in self.daemons]
        if missing and value is not None:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            value.problem(f"no daemon is called {shown(missing[0])}{more}: expected names of "
                          f"`daemons`")
            return tuple(name for name in names if name in self.daemons)
        return tuple(names)

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
