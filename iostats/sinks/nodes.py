"""
Clients as nodes: a node may have several NIDs, and each is a row of its own in a sweep's rates.

    ClientSweep -> rows by NID -> sums by node -> counters of the busiest nodes, and of the others

The storage servers' own connections, 0@lo, are one more row, STORAGE_SERVERS, and no node.

A node's counters include its I/O while it had a series of its own; the rest is in that of OTHERS.
So no I/O is in two series, and no counter ever decreases.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.ids import NodeName
from iostats.harvest.clients.node_names import STORAGE_SERVERS
from iostats.load.amounts import CLIENT_METRICS
from iostats.lustre.exports import is_server_itself
from iostats.sinks.gains import OTHERS
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from iostats.base.ids import Nid
    from iostats.harvest.clients.node_names import NodeNames
    from iostats.harvest.clients.rates import ClientRates, ClientSweep
    from iostats.wire.messages.arrays import Array, Integers

_BYTES, _REQUESTS = slice(0, 2), slice(2, None)         # of CLIENT_METRICS
_FADES = 0.8                    # of a node's weight stays from one sweep to the next
_STAYS = 2.0                    # a node that is shown counts double, so that it does not flicker
_FORGOTTEN = 1e-9
_DEAD_ROWS = 1000


class NodePlaces(NamedTuple):
    """The rows of each node."""

    names: list[NodeName]   # [node], in the order of their first rows; STORAGE_SERVERS may be one
    places: Integers        # for each row, where its node is in `names`
    # for each node, False where its name is unknown, and is its NID
    is_known: list[bool]
    nids: list[list[Nid]]   # for each node, its NIDs in any file system


def place_nodes(nids: Sequence[Nid], names: NodeNames) -> Generator[None, None, NodePlaces]:
    """Generator, some rows a step: the NodePlaces of these NIDs; `names`: harvest.clients.names."""
    index: dict[NodeName, int] = {}
    is_known = []
    places = np.zeros(len(nids), np.int64)
    for row, nid in enumerate(nids):
        if row % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
            yield
        node = NodeName(STORAGE_SERVERS) if is_server_itself(nid) else names.find_node(nid)
        place = index.get(node)
        if place is None:
            place = index[node] = len(index)
            is_known.append(node == STORAGE_SERVERS or names.is_known(nid))
        places[row] = place
    return NodePlaces(list(index), places, is_known,
                      [names.list_nids(node) for node in index])


def sum_by_node(nodes: NodePlaces, rows: Array) -> Array:
    """`rows`, a column or columns by client, added up by node; of bools: whether any is True."""
    sums = np.zeros((len(nodes.names), *rows.shape[1:]), rows.dtype)
    (np.logical_or if rows.dtype == bool else np.add).at(sums, nodes.places, rows)
    return sums


class NodeClients(NamedTuple):
    """A file system in one sweep."""

    places: NodePlaces  # the NodePlaces of its clients
    rates: ClientRates


def collect_node_clients(sweep: ClientSweep, names: NodeNames,
                         by_file_system: dict[str, NodeClients]) -> Iterator[
    None]:
    """Generator: put into `by_file_system` {file system: NodeClients} of a ClientSweep."""
    for fs, rates in sweep.file_systems.items():
        by_file_system[fs] = NodeClients((yield from place_nodes(rates.nids, names)), rates)
        yield


class NodeCounter(NamedTuple):
    """The counters of one node and file system."""

    fs: str
    node: str       # its name, STORAGE_SERVERS or OTHERS
    # totals, before: [int] in the order of CLIENT_METRICS, after this sweep and before it
    totals: Sequence[int]
    before: Sequence[int]
    is_low: bool    # whether `totals` may lack something of this sweep


class NodeCounters:
    """
    Counters of up to `limit` nodes, the busiest ones, and of all others together.

    `backdated`: a series that is new begins with `before` at the time of the sweep before; else
    nobody sees from where it began, and what a node did in that sweep is still one of the others'.

    Attributes:
        nodes: how many there are; `shown`: {node} of those with counters of their own.
    """

    def __init__(self, limit: int, backdated: bool) -> None:
        self._most, self._backdated = limit, backdated
        self.nodes, self.shown = 0, frozenset[str]()
        self._clients: dict[str, tuple[list[Nid], dict[Nid, int], Array, Array]] = {}
        self._weight: dict[str, float] = {}
        self._known: set[str] = set()
        self._own: dict[tuple[str, str], list[int]] = {}
        self._any_hidden = False

    def add(self, file_systems: Mapping[str, NodeClients]) -> list[NodeCounter]:
        """The counters after one more sweep."""
        gains = {
            fs: sum_by_node(clients.places,
                            self._compute_gains(fs, clients.rates.nids, clients.rates.totals))
                 for fs, clients in file_systems.items()}
        self._weigh(file_systems, gains)
        before, self.shown = self.shown, self._choose_nodes(file_systems)
        rows = [row for fs, clients in file_systems.items()
                for row in self._count(fs, clients, gains[fs], before)]
        present = {name for clients in file_systems.values() for name in clients.places.names}
        self._known |= present
        if len(self._own) > _DEAD_ROWS + 2 * len(rows):
            alive = {(row.fs, row.node) for row in rows}
            self._own = {key: row for key, row in self._own.items()
                         if key in alive or key[1] in (OTHERS, STORAGE_SERVERS)}
            self._known &= present
        return rows

    def _compute_gains(self, fs: str, nids: list[Nid], totals: Array) -> Array:
        """The gains of each client since the sweep before."""
        old, index, rows, then = self._clients.get(fs, ([], {}, np.zeros(0, np.int64),
                                                        np.zeros((0, len(CLIENT_METRICS)),
                                                                 np.int64)))
        if old != nids:
            rows = np.fromiter((index.setdefault(nid, len(index)) for nid in nids), np.int64,
                               len(nids))
            if len(index) > len(then):
                more = np.zeros((len(index) - len(then), len(CLIENT_METRICS)), np.int64)
                then = np.concatenate((then, more))
        if (totals < then[rows]).any():         # the store was read again: all begin at 0
            then[:] = 0
        gains: Array = totals - then[rows]
        then[rows] = totals
        self._clients[fs] = list(nids), index, rows, then
        return gains

    def _weigh(self, file_systems: Mapping[str, NodeClients], gains: Mapping[str, Array]) -> None:
        """Each node's share of all bytes and of all requests, of late."""
        self._weight = {node: weight * _FADES for node, weight in self._weight.items()
                        if weight > _FORGOTTEN}
        for part in (_BYTES, _REQUESTS):
            everything = max(1, sum(int(gain[:, part].sum()) for gain in gains.values()))
            for fs, clients in file_systems.items():
                sums = gains[fs][:, part].sum(axis=1)
                for place in list_integers(sums.nonzero()[0]):
                    node = clients.places.names[place]
                    self._weight[node] = (self._weight.get(node, 0.0)
                                          + float(sums[place]) / everything)

    def _choose_nodes(self, file_systems: Mapping[str, NodeClients]) -> frozenset[str]:
        nodes = {name for clients in file_systems.values() for name in clients.places.names}
        nodes.discard(STORAGE_SERVERS)
        self.nodes = len(nodes)
        if len(nodes) <= self._most:
            return frozenset(nodes)
        self._any_hidden = True
        return frozenset(heapq.nlargest(self._most, nodes, key=lambda node: (
            self._weight.get(node, 0.0) * (_STAYS if node in self.shown else 1.0), node)))

    def _count(self, fs: str, clients: NodeClients, gains: Array, before: frozenset[str]
               ) -> Generator[NodeCounter, None, None]:
        is_low = sum_by_node(clients.places, clients.rates.is_lower_bound)
        rest, others_low = [0] * len(CLIENT_METRICS), False
        for node, gains_of_node, is_node_low in zip(clients.places.names, gains, is_low):
            gained, low = list_integers(gains_of_node), bool(is_node_low)
            is_shown = node in self.shown or node == STORAGE_SERVERS
            if is_shown:
                then = self._own.get((fs, node), [0] * len(CLIENT_METRICS))
                if (self._backdated or not self._any_hidden or node not in self._known
                        or node in before or node == STORAGE_SERVERS):
                    now = [a + b for a, b in zip(then, gained)]
                else:
                    now = then
                    rest = [a + b for a, b in zip(rest, gained)]
                self._own[fs, node] = now
                yield NodeCounter(fs, node, now, then, low)
            else:
                rest = [a + b for a, b in zip(rest, gained)]
                others_low = others_low or low
        if self._any_hidden:
            then = self._own.get((fs, OTHERS), [0] * len(CLIENT_METRICS))
            now = self._own[fs, OTHERS] = [a + b for a, b in zip(then, rest)]
            yield NodeCounter(fs, OTHERS, now, then, others_low)
