"""
The site server's answer to `nodes`: each compute node's I/O between two moments, from the storage
servers' counts by client.

    harvest.clients.between(...)  ->  sums over a node's clients  ->  rows, sorted, in parts

docs/how-to/clients.md defines the numbers.  A client's counters include all its users, so only
root, the server's own user and [site] readers get an answer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import msgspec

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.errors import WireError, sanitize
from iostats.base.ids import NodeName
from iostats.harvest import client_load
from iostats.load.amounts import CLIENT_METRICS
from iostats.load.ranking import make_natural_sort_key
from iostats.lustre.exports import is_server_itself
from iostats.lustre.nids import find_lnet
from iostats.report.node_list import METRICS, MOST_NODES, MOST_ROWS, NAMES, REQUESTS, SORTED_BY
from iostats.wire import protocol

if TYPE_CHECKING:
    from iostats.harvest.clients.history import ClientTotals
    from iostats.harvest.clients.intake import ClientHarvest
    from iostats.harvest.clients.rates import ClientSweep
    from iostats.harvest.events.reported_lnet import ShortPeers

    Row = dict[str, Any]

_MAX_NAMED = 20                 # NIDs, and reasons, in a row
_NEARLY_NOW_SWEEPS = 2.0        # sweeps: a query that ends this close to now ends at the last sweep

_UNKNOWN = "no client has this name or NID"
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Key = tuple[str, str]                          # node, file system or "" for all


class NodesParams(msgspec.Struct):
    """The params of the site server's `nodes`: which nodes, when, in which order."""

    # since, until: seconds since 1970; None: up to the last sweep
    since: _Moment
    until: Optional[_Moment] = None
    # names of nodes, or NIDs; [] for all with I/O
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NODES)] = []
    file_system: _Name = ""     # only this one; "" for all
    apart: bool = False         # a row for each file system of a node
    sort: _Name = "node"        # a name of node_fields.SORTED_BY
    descending: bool = False
    # up to this many rows in the answer
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 1000
    # `next` of the previous answer, to continue there; with its `until`
    after: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0

    def __post_init__(self) -> None:
        if self.sort not in SORTED_BY:
            raise ValueError(f"sort: expected one of {', '.join(SORTED_BY)}")
        if self.until is not None and self.until < self.since:
            raise ValueError("until: expected no moment before `since`")


class LnetsParams(msgspec.Struct):
    """The params of the site server's `lnets`: none."""


def count_lnets(clients: ClientHarvest, user: Optional[str]) -> Generator[None, None,
                                                                dict[str, dict[str, int]]]:
    """{file system: {LNet: the number of its known clients}}, in steps; `user`: None for all."""
    if user is not None:
        raise WireError(protocol.REFUSED, f"expected root or one of [site] readers, got {user}")
    counts_by_file_system: dict[str, dict[str, int]] = {}
    for file_system, clients_of in list(clients.nids.items()):
        counts = counts_by_file_system[file_system] = {}
        for number in range(len(clients_of)):
            if number % ITEMS_PER_STEP == 0:
                yield
            network = find_lnet(clients_of.names[number])
            if network is not None:
                counts[network] = counts.get(network, 0) + 1
    return counts_by_file_system


class _NodeSum:
    """The sum over the clients of one node."""

    __slots__ = ("nids", "file_systems", "low", "high", "is_low", "why")

    def __init__(self) -> None:
        self.nids: dict[str, None] = {}
        self.file_systems: dict[str, None] = {}
        self.low, self.high = [0] * len(CLIENT_METRICS), [0] * len(CLIENT_METRICS)
        self.is_low, self.why = False, dict[str, None]()

    def add(self, fs: str, nid: str, totals: ClientTotals) -> None:
        self.nids[nid] = self.file_systems[fs] = None
        self.low = [amount + more for amount, more in zip(self.low, totals.low)]
        self.high = [amount + more for amount, more in zip(self.high, totals.high)]
        self.is_low = self.is_low or bool(totals.is_lower_bound)
        self.why.update(dict.fromkeys(totals.why))


class _HeldRows(NamedTuple):
    question: NodesParams
    sweep: ClientSweep
    rows: list[Row]


class NodeAnswers:
    """Answers `nodes`; holds the rows of the last query, for its next parts."""

    def __init__(self) -> None:
        self._held: Optional[_HeldRows] = None

    def answer(self, clients: ClientHarvest, params: NodesParams, user: Optional[str],
               short_peers: ShortPeers) -> Generator[None, None, dict[str, object]]:
        """The answer to NodesParams, in steps; `clients`: of the harvest; `user`: None for all."""
        if user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers, got user {user}: a node's counts include "
                f"all users; your jobs: iostats jobs"))
        sweep = clients.sweep
        if sweep is None:
            raise WireError(protocol.REFUSED, "no storage server reports its clients; check: "
                                              "[harvest] exports in its site.cfg")
        last = float(clients.complete_until)
        until = last if params.until is None or (
            last < params.until <= sweep.slot
            + _NEARLY_NOW_SWEEPS * sweep.every_s) else params.until
        question = msgspec.structs.replace(params, until=max(until, params.since), count=1, after=0)
        held = self._held
        if held is None or held.question != question or held.sweep is not sweep:
            self._held = None                       # free the old rows first
            rows = yield from _build_rows(clients, sweep, question, max(until, params.since),
                                          short_peers)
            held = self._held = _HeldRows(question, sweep, rows)
        part = held.rows[params.after:params.after + params.count]
        following = params.after + len(part)
        return {"since": question.since, "until": question.until, "swept": last, "nodes": part,
                "count": len(held.rows),
                "next": following if following < len(held.rows) else None}


def _build_rows(clients: ClientHarvest, sweep: ClientSweep, params: NodesParams, until: float,
                short_peers: ShortPeers) -> Generator[None, None, list[Row]]:
    """Return [row] of all selected nodes, sorted; up to `until`."""
    find_node = clients.names.find_node
    node_of_nid: dict[str, str] = {}                  # NID -> node
    for number, name in enumerate(params.nodes):
        if number % ITEMS_PER_STEP == 0:
            yield
        if "@" in name:
            node_of_nid.setdefault(name,
                                   name)            # a row for the NID, if its node has no name
        else:
            node_of_nid.update(dict.fromkeys(clients.names.list_nids(NodeName(name)), name))
    totals = yield from clients.between(params.since, until, params.file_system,
                                        list(node_of_nid) if params.nodes else None,
                                        client_load.compute_slack(sweep, params.since, until))
    sums: dict[_Key, _NodeSum] = {}
    for number, ((fs, nid), client_totals) in enumerate(totals.items()):
        if number % ITEMS_PER_STEP == 0:
            yield
        if is_server_itself(nid):
            continue
        key = node_of_nid.get(nid) or find_node(nid), fs if params.apart else ""
        node_sum = sums.get(key)
        if node_sum is None:
            node_sum = sums[key] = _NodeSum()
        node_sum.add(fs, nid, client_totals)
    keyed = []
    for number, (key, node_sum) in enumerate(sums.items()):
        if number % ITEMS_PER_STEP == 0:
            yield
        if params.nodes or any(node_sum.high) or node_sum.is_low:
            row = {**_make_row(key, node_sum), **short_peers.make_columns(node_sum.nids)}
            keyed.append((_sort_key(row, params), row))
    nodes = {node for node, _ in sums} | {nid for client_totals in sums.values()
                                          for nid in client_totals.nids}
    for number, name in enumerate(dict.fromkeys(params.nodes)):
        if number % ITEMS_PER_STEP == 0:
            yield
        if name not in nodes:
            row = _make_unknown_row(name)
            keyed.append((_sort_key(row, params), row))
    keyed.sort(key=lambda client_totals: client_totals[0])
    rows = [row for _, row in keyed]
    return rows[::-1] if params.descending and params.sort not in METRICS else rows


def _make_row(key: _Key, node_sum: _NodeSum) -> Row:
    low, high = _name_amounts(node_sum.low), _name_amounts(node_sum.high)
    return {"node": sanitize(key[0]), "nids": _list_first_names(sorted(node_sum.nids)), "nid_count":
            len(node_sum.nids), "file_systems": sorted(node_sum.file_systems), **low,
            "at_most": None if node_sum.is_low else {
                name: number for name, number in high.items() if number != low[name]},
            "lower_bound": node_sum.is_low, "notes": _list_first_names(node_sum.why)}


def _make_unknown_row(name: str) -> Row:
    return {"node": sanitize(name), "nids": [], "nid_count": 0, "file_systems": [],
            **dict.fromkeys((*METRICS, "lnet_waiting", "lnet_lowest")), "at_most": None,
            "lower_bound": False, "notes": [_UNKNOWN]}


def _name_amounts(amounts: list[int]) -> dict[str, int]:
    return {**dict(zip(CLIENT_METRICS, amounts)), REQUESTS: sum(amounts[2:])}


def _list_first_names(names: Iterable[str]) -> list[str]:
    return [sanitize(name) for name in names][:_MAX_NAMED]


def _sort_key(row: Row, params: NodesParams) -> tuple[object, ...]:
    """The position of a row among others: unknown numbers are last in either order."""
    behind = make_natural_sort_key(row["node"]), row["file_systems"]
    if params.sort not in METRICS:
        return (row["file_systems"], *behind) if params.sort == "file_systems" else behind
    number = row[params.sort]
    return number is None, -(number or 0) if params.descending else number or 0, *behind


assert set(METRICS) == {*CLIENT_METRICS, REQUESTS} and set(SORTED_BY) <= set(NAMES)
