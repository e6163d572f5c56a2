"""
Descriptions made by hand, simulated daemons of a description, and a loop that cares for them
without sockets: what is asked is answered in the same moment.
"""

import asyncio
from dataclasses import replace

from iostats_ldms.control import queries
from iostats_ldms.control.observed import SetInfo
from iostats_ldms.description.model import (
    Advertise,
    AggregatorGroup,
    Description,
    Endpoint,
    LdmsDaemon,
    Listen,
    Plugin,
    Producer,
    SamplerGroup,
    Updater,
)
from iostats_ldms.reconcile.daemon import DOWN, HUNG, UNKNOWN
from iostats_ldms.reconcile.fleet import Fleet
from simldms.cluster import Away, Cluster

MEMINFO = Plugin("meminfo", "meminfo", (), 1_000_000, 0)


def daemon(name, group, port):
    return LdmsDaemon(name, "127.0.0.1", group, (
        Endpoint(name, "127.0.0.1", port, is_control=True),))


def described(samplers=4, aggregators=2, tops=0, interval_us=1_000_000, updater_us=1_000_000,
              plugins=(MEMINFO,), ports=None, stores=(), **of_group):
    """
    node-1 ..., collected by agg-1 ..., and those, where `tops`, by top-1 ...; `ports`: theirs.
    """
    def some(kind, group, count, first_port):
        return [daemon(f"{kind}-{n}", group, ports[f"{kind}-{n}"] if ports else first_port + n)
                for n in range(1, count + 1)]
    nodes = some("node", "nodes", samplers, 10000)
    aggs, above = some("agg", "aggs", aggregators, 20000), some("top", "tops", tops, 30000)
    groups = [AggregatorGroup("aggs", names(aggs), 1, producers(nodes),
                              (Updater("updtr_0", updater_us, 100_000),), **of_group)]
    if tops:
        groups.append(AggregatorGroup("tops", names(above), 2, producers(aggs),
                                      (Updater("updtr_1", updater_us, 200_000),)))
    return Description(
        {one.name: one for one in (*nodes, *aggs, *above)}, tuple(groups),
        (SamplerGroup("nodes", names(nodes), tuple(plugin.instance for plugin in plugins)),),
        {plugin.instance: replace(plugin, interval_us=interval_us if plugin.interval_us else None)
         for plugin in plugins}, tuple(stores))


def advertised(description, ports):
    """`description` with samplers that make themselves known to all aggregators instead."""
    group, samplers = description.aggregators[0], description.samplers[0]
    return replace(
        description,
        aggregators=(replace(group, producers=(), listens=(Listen("all"),)),
                     *description.aggregators[1:]),
        samplers=(replace(samplers, advertises=tuple(
            (name, tuple(Advertise(f"{name}-{to}", "127.0.0.1", ports[to], "sock", 1_000_000)
                         for to in group.members)) for name in samplers.members)),))


def names(daemons):
    return tuple(one.name for one in daemons)


def producers(daemons):
    return tuple(Producer(one.name, one.endpoints[0], "active", 1_000_000) for one in daemons)


class Direct:
    """A connection to a daemon of a simulated cluster: no socket, no wait."""

    dialect = "4.5"

    def __init__(self, cluster, name):
        self.cluster, self.where = cluster, name

    async def command(self, statement):
        return self.cluster.tell(self.where, statement)

    async def sets(self):
        return [SetInfo(one.instance, one.schema, one.data_size_bytes, one.meta_size_bytes,
                        *(one.hint_us or (None, None)))
                for one in self.cluster.up[self.where].directory()]


class Carer:
    """
    Cares for a simulated cluster as the service does, one poll at a time.

    Attributes:
        told: (daemon, verb, name) of each command, in order.
        placed: what Fleet.place_producers() said, in order.
    """

    def __init__(self, description, cluster=None, start=True, makes=None):
        self.cluster = cluster or Cluster()
        self.fleet = Fleet()
        self.fleet.describe(description)
        self.told = []
        self.placed = []
        self._known = {}
        self.makes = makes or {}                # {daemon: what simldms' plugins of it make}
        for one in description.daemons.values():
            if start and one.name not in self.cluster.up:
                self.start(one.name)

    def start(self, name):
        self.cluster.add(name, self.fleet.daemons[name].daemon.control.port,
                         self.makes.get(name))

    def poll(self):
        """Ask all, place, and tell until there is nothing to tell."""
        for name in list(self.fleet.daemons):
            self.ask(name)
        self.placed += self.fleet.place_producers(None)
        for _ in range(10):
            if not sum(self._tell(name) for name in list(self.fleet.daemons)):
                return
        raise AssertionError(f"there is always more to tell: {self.told[-20:]}")

    def ask(self, name):
        cluster = self.cluster
        if name not in cluster.up or name in cluster.hung:
            was_up = self.fleet.daemons[name].state != UNKNOWN
            self.fleet.mark_lost(name, HUNG if was_up and name in cluster.hung else DOWN, "away",
                                 0.0)
            return
        link = Direct(cluster, name)
        observed = asyncio.run(queries.read_observed_state(link, with_sets=True))
        restarted = self._known.get(name) is not cluster.up[name]
        self._known[name] = cluster.up[name]
        self.fleet.observe(name, observed, 0.0, restarted)

    def _tell(self, name):
        steps = self.fleet.plan_commands(name)
        for _, step in steps:
            attributes = dict(step.statement.attributes)
            self.told.append((name, step.statement.verb, attributes.get("name", "")))
            try:
                reply = self.cluster.tell(name, step.statement)
            except Away:
                break
            assert self.fleet.daemons[name].applied.record(step, reply.errno), (name, step, reply)
        if steps:
            self.ask(name)
        return len(steps)

    def verbs(self):
        """{daemon: its verbs, in order} of all that was told since the last call."""
        found = {}
        for name, verb, _ in self.told:
            found.setdefault(name, []).append(verb)
        self.told.clear()
        return found
