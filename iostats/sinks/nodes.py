"""
Clients as nodes: a node may have several NIDs, and each is a row of its own in a sweep's rates.

    ClientSweep -> rows by NID -> sums by node -> counters of the busiest nodes, and of the others

The storage servers' own connections, 0@lo, are one more row, STORAGE_SERVERS, and no node.

A counter of a node is what it did while it had a series of its own; the rest is in that of OTHERS.
So nothing is in two series, and no counter ever falls.
"""

from __future__ import annotations

import heapq
from collections import namedtuple

import numpy as np

from iostats.base.cooperative import AT_ONCE
from iostats.load.amounts import CLIENT_METRICS
from iostats.lustre.exports import is_server_itself
from iostats.sinks.gains import OTHERS
from iostats.site.clients.node_names import STORAGE_SERVERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import Any

    from iostats.sinks.gains import Array

_BYTES, _REQUESTS = slice(0, 2), slice(2, None)         # of CLIENT_METRICS
_FADES = 0.8                    # of a node's weight stays from one sweep to the next
_STAYS = 2.0                    # a node that is shown counts double, so that it does not flicker
_FORGOTTEN = 1e-9
_DEAD_ROWS = 1000

NodePlaces = namedtuple("NodePlaces", "names places is_known nids")
NodePlaces.__doc__ = """
Which rows are which node's.

Attributes:
    names: [node], in the order of their first rows; STORAGE_SERVERS may be one.
    places: for each row, where its node is in `names`.
    is_known: for each node, False where nobody has told its name, which is its NID then.
    nids: for each node, its NIDs in any file system.
"""


def nodes_of(nids: Sequence[str], names: Any) -> Generator[None, None, NodePlaces]:
    """Generator, some rows a step: the NodePlaces of these NIDs; `names`: harvest.clients.names."""
    found: dict[str, int] = {}
    is_known = []
    places = np.zeros(len(nids), np.int64)
    for row, nid in enumerate(nids):
        if row % AT_ONCE == AT_ONCE - 1:
            yield
        node = STORAGE_SERVERS if is_server_itself(nid) else names.node_of(nid)
        place = found.get(node)
        if place is None:
            place = found[node] = len(found)
            is_known.append(node == STORAGE_SERVERS or names.is_known(nid))
        places[row] = place
    return NodePlaces(list(found), places, is_known, [names.nids_of(node) for node in found])


def sums_of(nodes: NodePlaces, rows: Array) -> Array:
    """`rows`, a column or columns by client, added up by node; of bools: whether any is True."""
    sums = np.zeros((len(nodes.names), *rows.shape[1:]), rows.dtype)
    (np.logical_or if rows.dtype == bool else np.add).at(sums, nodes.places, rows)
    return sums


NodeClients = namedtuple("NodeClients", "places rates")
NodeClients.__doc__ = """
A file system in one sweep.

Attributes:
    places: the NodePlaces of its clients; `rates`: its ClientRates.
"""


def of_sweep(sweep: Any, names: Any, found: dict[str, NodeClients]) -> Iterator[None]:
    """Generator: put into `found` {file system: NodeClients} of a ClientSweep."""
    for fs, rates in sweep.file_systems.items():
        found[fs] = NodeClients((yield from nodes_of(rates.nids, names)), rates)
        yield


NodeCounter = namedtuple("NodeCounter", "fs node totals before is_low")
NodeCounter.__doc__ = """
What is to be shown of one node and file system.

Attributes:
    node: its name, STORAGE_SERVERS or OTHERS.
    totals, before: [int] in the order of CLIENT_METRICS, after this sweep and before it.
    is_low: whether `totals` may lack something of this sweep.
"""


class NodeCounters:
    """
    Counters of up to `most` nodes, the busiest ones, and of all others.

    `backdated`: a series that is new begins with `before` at the time of the sweep before; else
    nobody sees from where it began, and what a node did in that sweep is still one of the others'.

    Attributes:
        nodes: how many there are; `shown`: {node} of those with counters of their own.
    """

    def __init__(self, most: int, backdated: bool) -> None:
        self._most, self._backdated = most, backdated
        self.nodes, self.shown = 0, frozenset[str]()
        self._clients: dict[str, tuple[list[str], dict[str, int], Array, Array]] = {}
        self._weight: dict[str, float] = {}
        self._known: set[str] = set()
        self._own: dict[tuple[str, str], list[int]] = {}
        self._any_hidden = False

    def take(self, file_systems: Mapping[str, NodeClients]) -> list[NodeCounter]:
        """The counters after one more sweep."""
        gains = {fs: sums_of(one.places, self._gains(fs, one.rates.nids, one.rates.totals))
                 for fs, one in file_systems.items()}
        self._weigh(file_systems, gains)
        before, self.shown = self.shown, self._chosen(file_systems)
        found = [row for fs, one in file_systems.items()
                 for row in self._count(fs, one, gains[fs], before)]
        present = {name for one in file_systems.values() for name in one.places.names}
        self._known |= present
        if len(self._own) > _DEAD_ROWS + 2 * len(found):
            alive = {(row.fs, row.node) for row in found}
            self._own = {key: row for key, row in self._own.items()
                         if key in alive or key[1] in (OTHERS, STORAGE_SERVERS)}
            self._known &= present
        return found

    def _gains(self, fs: str, nids: list[str], totals: Array) -> Array:
        """What each client gained since the sweep before."""
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
            everything = max(1, sum(int(one[:, part].sum()) for one in gains.values()))
            for fs, one in file_systems.items():
                sums = gains[fs][:, part].sum(axis=1)
                for place in sums.nonzero()[0].tolist():
                    node = one.places.names[place]
                    self._weight[node] = (self._weight.get(node, 0.0)
                                          + float(sums[place]) / everything)

    def _chosen(self, file_systems: Mapping[str, NodeClients]) -> frozenset[str]:
        nodes = {name for one in file_systems.values() for name in one.places.names}
        nodes.discard(STORAGE_SERVERS)
        self.nodes = len(nodes)
        if len(nodes) <= self._most:
            return frozenset(nodes)
        self._any_hidden = True
        return frozenset(heapq.nlargest(self._most, nodes, key=lambda node: (
            self._weight.get(node, 0.0) * (_STAYS if node in self.shown else 1.0), node)))

    def _count(self, fs: str, one: NodeClients, gains: Array, before: frozenset[str]
               ) -> Generator[NodeCounter, None, None]:
        is_low = sums_of(one.places, one.rates.is_lower_bound).tolist()
        others, others_low = [0] * len(CLIENT_METRICS), False
        for node, gained, low in zip(one.places.names, gains.tolist(), is_low):
            is_shown = node in self.shown or node == STORAGE_SERVERS
            if is_shown:
                then = self._own.get((fs, node), [0] * len(CLIENT_METRICS))
                if (self._backdated or not self._any_hidden or node not in self._known
                        or node in before or node == STORAGE_SERVERS):
                    now = [a + b for a, b in zip(then, gained)]
                else:
                    now = then
                    others = [a + b for a, b in zip(others, gained)]
                self._own[fs, node] = now
                yield NodeCounter(fs, node, now, then, low)
            else:
                others = [a + b for a, b in zip(others, gained)]
                others_low = others_low or low
        if self._any_hidden:
            then = self._own.get((fs, OTHERS), [0] * len(CLIENT_METRICS))
            now = self._own[fs, OTHERS] = [a + b for a, b in zip(then, others)]
            yield NodeCounter(fs, OTHERS, now, then, others_low)
