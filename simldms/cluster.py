"""
Many daemons and a clock, without sockets: what a random walk is made over in milliseconds.

    cluster = Cluster()
    cluster.add("node-23", port=10023)
    cluster.tell("agg-1", "prdcr_start name=node-23")
    cluster.advance(2.0)
    cluster.collected(since_s=cluster.now_s - 1.0)      # {instance: {aggregator: updates}}
"""

from __future__ import annotations

from .asked import Crashed, Reply, parsed
from .daemon import VERSIONS, Daemon

STEP_S = 0.1


class Away(Exception):
    """No daemon answers: it is dead, or it hangs."""


class Cluster:
    """
    Attributes:
        now_s: the clock of all; starts at 1,000,000.
        up: {name: its daemon}; a dead one is not in it.
        hung: names of those that are stopped.
    """

    def __init__(self, version: str = VERSIONS[0]):
        self.version = version
        self.now_s = 1_000_000.0
        self.up: dict[str, Daemon] = {}
        self.hung: set[str] = set()
        self._ports: dict[str, int] = {}
        self._peers: dict[tuple[int, str], Daemon] = {}       # whom a producer is connected to

    def add(self, name: str, port: int, makes=None) -> Daemon:
        """A fresh daemon on this port; a second one of the name takes the place of the first."""
        self._ports[name] = port
        self.hung.discard(name)
        daemon = Daemon(name, self.version, clock=lambda: self.now_s, makes=makes)
        self.up[name] = daemon
        return daemon

    def kill(self, name: str) -> None:
        self.up.pop(name, None)
        self.hung.discard(name)

    def hang(self, name: str) -> None:
        if name in self.up:
            self.hung.add(name)

    def wake(self, name: str) -> None:
        self.hung.discard(name)

    def tell(self, name: str, statement) -> Reply:
        """Raises Away where the daemon is dead, hangs, or dies of this."""
        if name not in self.up or name in self.hung:
            raise Away(name)
        if isinstance(statement, str):
            statement = parsed(statement)
        try:
            return self.up[name].handle(statement)
        except Crashed as crash:
            self.kill(name)
            raise Away(name) from crash

    def advance(self, seconds: float) -> None:
        end = self.now_s + seconds
        while self.now_s < end - 1e-9:
            self.now_s = min(self.now_s + STEP_S, end)
            for name, daemon in list(self.up.items()):
                if name not in self.hung:
                    self._turn(daemon)

    def _turn(self, daemon: Daemon) -> None:
        daemon.turn()
        for producer in list(daemon.producers.all.values()):
            peer, link = self._at(producer.port), (id(daemon), producer.name)
            if producer.state == "DISCONNECTED" and self.now_s >= producer.try_at_s:
                if peer is None or peer.name in self.hung:
                    daemon.producers.lost(producer.name)
                else:
                    daemon.producers.connected(producer.name)
                    self._peers[link] = peer
            if producer.state == "CONNECTED":
                if peer is None or peer is not self._peers[link]:
                    daemon.producers.lost(producer.name)
                elif peer.name not in self.hung:
                    daemon.producers.took(producer.name, peer.directory())

    def _at(self, port: int) -> Daemon | None:
        return next((self.up[name] for name, one in self._ports.items()
                     if one == port and name in self.up), None)

    def collected(self, since_s: float, aggregators=None) -> dict[str, dict[str, int]]:
        """{instance: {aggregator: how many times it updated the set since then}}, of those up."""
        found: dict[str, dict[str, int]] = {}
        for name, daemon in self.up.items():
            if name in self.hung or (aggregators is not None and name not in aggregators):
                continue
            for instance, count in daemon.collecting(since_s).items():
                found.setdefault(instance, {})[name] = count
        return found
