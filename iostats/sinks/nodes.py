"""
Clients as nodes: a node may have several NIDs, and each is a row of its own in a sweep's rates.

    ClientSweep -> rows by NID -> sums by node

The storage servers' own connections, 0@lo, are one more row, STORAGE_SERVERS, and no node.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from iostats.base.cooperative import AT_ONCE
from iostats.lustre.exports import is_server_itself
from iostats.site.clients.node_names import STORAGE_SERVERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any

    from iostats.sinks.gains import Array

NodePlaces = namedtuple("NodePlaces", "names places is_known")
NodePlaces.__doc__ = """
Which rows are which node's.

Attributes:
    names: [node], in the order of their first rows; STORAGE_SERVERS may be one.
    places: for each row, where its node is in `names`.
    is_known: for each node, False where nobody has told its name, which is its NID then.
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
    return NodePlaces(list(found), places, is_known)


def sums_of(nodes: NodePlaces, rows: Array) -> Array:
    """`rows`, a column or columns by client, added up by node; of bools: whether any is True."""
    sums = np.zeros((len(nodes.names), *rows.shape[1:]), rows.dtype)
    (np.logical_or if rows.dtype == bool else np.add).at(sums, nodes.places, rows)
    return sums
