"""
The site server's answer to `nodes`: what each compute node did between two moments, as the storage
servers counted it by client.

    harvest.clients.between(...)  ->  sums over a node's clients  ->  rows, sorted, in parts

docs/clients.md has what the numbers are.  A client's counters are of all who use it, so only root,
the server's own user and [site] readers are answered.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Generator, Iterable
from typing import Annotated, Any, Optional

import msgspec

from iostats.base.cooperative import AT_ONCE
from iostats.base.errors import WireError, one_line
from iostats.load.amounts import CLIENT_METRICS
from iostats.load.ranking import natural
from iostats.lustre.exports import is_server_itself
from iostats.lustre.nids import lnet_of
from iostats.report.node_fields import (
    METRICS,
    MOST_NODES,
    MOST_ROWS,
    NAMES,
    REQUESTS,
    SORTED_BY,
)
from iostats.site import client_load
from iostats.wire import protocol

_MOST_NAMED = 20                    # NIDs, and reasons, in a row
_AT_THE_END = 2.0                   # sweeps before its end, up to which a question is answered

_UNKNOWN = "no client is known by this name or NID"
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Key = tuple[str, str]                          # node, file system or "" for all


class NodesParams(msgspec.Struct):
    """
    Which nodes, when, in which order: the params of the site server's `nodes`.

    Attributes:
        since, until: seconds since 1970; None: up to the last sweep.
        nodes: names of nodes, or NIDs; [] for all that did something.
        file_system: this one alone; "" for all.
        apart: a row for each file system of a node.
        sort: a name of node_fields.SORTED_BY.
        count: up to this many rows in the answer.
        after: `next` of the previous answer, to continue there; with its `until`.
    """

    since: _Moment
    until: Optional[_Moment] = None
    nodes: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NODES)] = []
    file_system: _Name = ""
    apart: bool = False
    sort: _Name = "node"
    descending: bool = False
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 1000
    after: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0

    def __post_init__(self) -> None:
        if self.sort not in SORTED_BY:
            raise ValueError(f"sort: expected one of {', '.join(SORTED_BY)}")
        if self.until is not None and self.until < self.since:
            raise ValueError("until: expected no moment before `since`")


class LnetsParams(msgspec.Struct):
    """The params of the site server's `lnets`: none."""


def lnets(clients: Any, user: Optional[str]) -> Generator[None, None, dict[str, dict[str, int]]]:
    """{file system: {LNet: how many of its clients are known}}, in steps; `user`: None for all."""
    if user is not None:
        raise WireError(protocol.REFUSED, f"expected root or one of [site] readers, got {user}")
    found: dict[str, dict[str, int]] = {}
    for file_system, known in list(clients.nids.items()):
        counts = found[file_system] = {}
        for number in range(len(known)):
            if number % AT_ONCE == 0:
                yield
            network = lnet_of(known.names[number])
            if network is not None:
                counts[network] = counts.get(network, 0) + 1
    return found


class _NodeSum:
    """What the clients of one node did, while it is added up."""

    __slots__ = ("nids", "file_systems", "low", "high", "is_low", "why")

    def __init__(self) -> None:
        self.nids: dict[str, None] = {}
        self.file_systems: dict[str, None] = {}
        self.low, self.high = [0] * len(CLIENT_METRICS), [0] * len(CLIENT_METRICS)
        self.is_low, self.why = False, dict[str, None]()

    def add(self, fs: str, nid: str, totals: Any) -> None:
        self.nids[nid] = self.file_systems[fs] = None
        self.low = [one + more for one, more in zip(self.low, totals.low)]
        self.high = [one + more for one, more in zip(self.high, totals.high)]
        self.is_low = self.is_low or bool(totals.is_lower_bound)
        self.why.update(dict.fromkeys(totals.why))


_Made = namedtuple("_Made", "question sweep rows")


class NodeAnswers:
    """Answers `nodes`; remembers the rows of the last question, whose other parts are asked for."""

    def __init__(self) -> None:
        self._made: Optional[_Made] = None

    def answer(self, clients: Any, ask: NodesParams, user: Optional[str],
               ) -> Generator[None, None, dict[str, Any]]:
        """The answer to NodesParams, in steps; `clients`: of the harvest; `user`: None for all."""
        if user is not None:
            raise WireError(protocol.REFUSED, (
                f"expected root or one of [site] readers, got user {user}: what a node did is of "
                f"all who used it; your jobs: iostats jobs"))
        sweep = clients.sweep
        if sweep is None:
            raise WireError(protocol.REFUSED, "no storage server tells of its clients: [harvest] "
                            "exports of site.cfg there")
        last = float(clients.told_until)
        until = last if ask.until is None or (
            last < ask.until <= sweep.slot + _AT_THE_END * sweep.every_s) else ask.until
        question = msgspec.structs.replace(ask, until=max(until, ask.since), count=1, after=0)
        made = self._made
        if made is None or made.question != question or made.sweep is not sweep:
            self._made = None                       # not both of them in memory
            rows = yield from _rows(clients, question, max(until, ask.since))
            made = self._made = _Made(question, sweep, rows)
        part = made.rows[ask.after:ask.after + ask.count]
        following = ask.after + len(part)
        return {"since": question.since, "until": question.until, "swept": last, "nodes": part,
                "count": len(made.rows),
                "next": following if following < len(made.rows) else None}


def _rows(clients: Any, ask: NodesParams,
          until: float) -> Generator[None, None, list[dict[str, Any]]]:
    """[row] of all nodes that are asked for, sorted; up to `until`."""
    node_of = clients.names.node_of
    asked: dict[str, str] = {}                  # NID -> node
    for number, name in enumerate(ask.nodes):
        if number % AT_ONCE == 0:
            yield
        if "@" in name:
            asked.setdefault(name, name)            # a row of its own, if its node has none
        else:
            asked.update(dict.fromkeys(clients.names.nids_of(name), name))
    totals = yield from clients.between(ask.since, until, ask.file_system,
                                        list(asked) if ask.nodes else None,
                                        client_load.slack_of(clients.sweep, ask.since, until))
    sums: dict[_Key, _NodeSum] = {}
    for number, ((fs, nid), one) in enumerate(totals.items()):
        if number % AT_ONCE == 0:
            yield
        if is_server_itself(nid):
            continue
        key = asked.get(nid) or node_of(nid), fs if ask.apart else ""
        found = sums.get(key)
        if found is None:
            found = sums[key] = _NodeSum()
        found.add(fs, nid, one)
    keyed = []
    for number, (key, found) in enumerate(sums.items()):
        if number % AT_ONCE == 0:
            yield
        if ask.nodes or any(found.high) or found.is_low:
            row = _row(key, found)
            keyed.append((_place(row, ask), row))
    known = {node for node, _ in sums} | {nid for one in sums.values() for nid in one.nids}
    for number, name in enumerate(dict.fromkeys(ask.nodes)):
        if number % AT_ONCE == 0:
            yield
        if name not in known:
            row = _unknown(name)
            keyed.append((_place(row, ask), row))
    keyed.sort(key=lambda one: one[0])
    rows = [row for _, row in keyed]
    return rows[::-1] if ask.descending and ask.sort not in METRICS else rows


def _row(key: _Key, found: _NodeSum) -> dict[str, Any]:
    low, high = _numbers(found.low), _numbers(found.high)
    return {"node": one_line(key[0]), "nids": _some(sorted(found.nids)), "nid_count":
            len(found.nids), "file_systems": sorted(found.file_systems), **low,
            "at_most": None if found.is_low else {
                name: number for name, number in high.items() if number != low[name]},
            "lower_bound": found.is_low, "notes": _some(found.why)}


def _unknown(name: str) -> dict[str, Any]:
    return {"node": one_line(name), "nids": [], "nid_count": 0, "file_systems": [],
            **dict.fromkeys(METRICS), "at_most": None, "lower_bound": False, "notes": [_UNKNOWN]}


def _numbers(amounts: list[int]) -> dict[str, int]:
    return {**dict(zip(CLIENT_METRICS, amounts)), REQUESTS: sum(amounts[2:])}


def _some(names: Iterable[str]) -> list[str]:
    return [one_line(name) for name in names][:_MOST_NAMED]


def _place(row: dict[str, Any], ask: NodesParams) -> tuple[Any, ...]:
    """Where a row stands among others: a number that is not known comes last in either order."""
    behind = natural(row["node"]), row["file_systems"]
    if ask.sort not in METRICS:
        return (row["file_systems"], *behind) if ask.sort == "file_systems" else behind
    number = row[ask.sort]
    return number is None, -(number or 0) if ask.descending else number or 0, *behind


assert set(METRICS) == {*CLIENT_METRICS, REQUESTS} and set(SORTED_BY) <= set(NAMES)
