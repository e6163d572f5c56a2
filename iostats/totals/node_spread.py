"""
The spread of a job's I/O over its nodes: minimum, median and maximum of each metric.

Slow nodes took much longer than the others to read or write as much.  A node is slow in one of
these if both a byte and a call took it 2.5 times as long as they took
the upper quartile of the nodes: with larger or smaller calls than the others only one of them is
longer.  It did no more than twice what the upper quartile did: what one node does for all may be
slower for other reasons.  So up to a quarter of the nodes can be slow, of four nodes and more.
"""

from __future__ import annotations

from array import array
from itertools import chain, compress
from operator import truediv

from iostats.base.named_tuple import NamedTuple
from iostats.totals.record import NodeSpread, SlowNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import TypedDict

    class Short(TypedDict):
        """A node's amounts in short: its time, and the sum of each metric by file system."""

        elapsed_s: float
        file_systems: dict[str, dict[str, int]]     # {file system: {metric: amount}}

    _Place = tuple["NodeTable", int]            # of a column

_TIMES, _AS_MUCH = 2.5, 2.0
_FEWEST = 4                         # nodes
_LEAST = 0.01                       # of the job's time: less is not worth a row
_MORE_THAN_ROUNDED = 1 + 1e-9       # quotients and products are off by less


class NodeTable(NamedTuple):
    """The I/O of nodes with the same metrics on one file system."""

    metrics: tuple[str, ...]
    nodes: list[str]                        # sorted
    # Of the first node by the metrics, then of the second; an array needs less memory, a list has
    # room for numbers from 2**63.
    values: array[int] | list[int]

    def column(self, place: int) -> list[int]:
        """Return the values of the metric at this place, by the nodes."""
        return list(self.values[place::len(self.metrics)])


def make_tables(shorts: Iterable[Short],
                names: Iterable[str]) -> dict[str, list[NodeTable]]:
    """
    Return {file system: [NodeTable]} over the nodes that could read it, of what each did
    (record.NodeRecord), in the order of the nodes' `names`, which are sorted; most nodes have the
    same metrics, and share a table.
    """
    tables_of: dict[str, dict[tuple[str, ...], NodeTable]] = {}
    for node, short in zip(names, shorts):
        for name, values in short["file_systems"].items():
            metrics, row = tuple(values), list(values.values())
            tables = tables_of.setdefault(name, {})
            table = tables.get(metrics)
            if table is None:
                table = tables[metrics] = NodeTable(metrics, [], array("q"))
            table.nodes.append(node)
            try:
                if isinstance(table.values, list):
                    table.values.extend(row)
                else:
                    table.values.fromlist(row)          # all of it, or nothing
            except OverflowError:
                tables[metrics] = table._replace(values=[*table.values, *row])
    return {name: list(tables.values()) for name, tables in tables_of.items()}


def add_idle_nodes(tables: list[NodeTable], names: Iterable[str]) -> list[NodeTable]:
    """Return `tables` and one more, of the nodes of `names` that are in none: nodes without I/O."""
    there = {node for table in tables for node in table.nodes}
    return [*tables, NodeTable((), [name for name in names if name not in there], [])]


def compute_spread(tables: Iterable[NodeTable]) -> dict[str, NodeSpread]:
    """Return {metric: NodeSpread} of one file system's tables."""
    places: dict[str, list[_Place]] = {}
    count = 0
    for table in tables:
        count += len(table.nodes)
        for place, metric in enumerate(table.metrics):
            places.setdefault(metric, []).append((table, place))
    return {metric: _compute_column(places[metric], count) for metric in sorted(places)}


def _compute_column(places: list[_Place], nodes: int) -> NodeSpread:
    """The NodeSpread of the values and zeros; its median is the lower one of two."""
    columns = [table.column(place) for table, place in places]
    values = sorted(chain.from_iterable(columns))
    values[:0] = [0] * (nodes - len(values))
    largest = values[-1]
    return NodeSpread(
        min=values[0], median=values[(nodes - 1) // 2],
        second=values[-2] if nodes > 1 else 0, max=largest,
        busiest=min([table.nodes[column.index(largest)]
                     for (table, _), column in zip(places, columns)
                     if largest in column]) if largest else "")


def find_slow_nodes(tables: Collection[NodeTable], elapsed_s: float,
                    fold: Callable[[list[str]], str]) -> list[SlowNodes]:
    """Return [SlowNodes] of one file system's tables; `elapsed_s`: of the job."""
    slow = (_find_slow_in(direction, tables, elapsed_s * 1e6, fold)
            for direction in ("read", "write"))
    return [nodes for nodes in slow if nodes is not None]


def _find_slow_in(direction: str, tables: Iterable[NodeTable], elapsed_us: float,
                  fold: Callable[[list[str]], str]) -> SlowNodes | None:
    nodes, us, moved, calls = _make_columns(direction, tables)
    if len(nodes) < _FEWEST or max(us) < _LEAST * elapsed_us:
        return None
    place = (3 * len(nodes) - 1) // 4           # of the upper quartile
    us_of_byte: list[float] = list(map(truediv, us, moved))
    us_of_call: list[float] = list(map(truediv, us, calls))
    for times in us_of_byte, us_of_call:        # for nearly all jobs that decides, without sorting
        usual_at_most = max(times) / _TIMES * _MORE_THAN_ROUNDED
        if sum(map(usual_at_most.__lt__, times)) >= len(times) - place:
            return None
    usual_of_byte, usual_of_call = sorted(us_of_byte)[place], sorted(us_of_call)[place]
    most_moved = _AS_MUCH * sorted(moved)[place]
    slow: list[tuple[float, str, int, float]] = []
    for node, own_us, own_moved, own_calls in zip(nodes, us, moved, calls):
        usual_us = max(usual_of_byte * own_moved, usual_of_call * own_calls)
        if (own_us >= _TIMES * usual_us and own_us - usual_us >= _LEAST * elapsed_us
                and own_moved <= most_moved):
            slow.append((usual_us - own_us, node, own_us, usual_us))
    if not slow:
        return None
    _, slowest, slowest_us, usual_us = min(slow)
    return SlowNodes(call=direction, nodes=fold(sorted(node for _, node, _, _ in slow)),
                     node_count=len(slow), slowest=slowest, seconds=round(slowest_us / 1e6, 6),
                     usual_seconds=round(usual_us / 1e6, 6))


def _make_columns(direction: str, tables: Iterable[NodeTable]) -> tuple[
        list[str], list[int], list[int], list[int]]:
    """The nodes that did this, and their microseconds, bytes and calls, none of them 0."""
    nodes: list[str] = []
    us: list[int] = []
    moved: list[int] = []
    calls: list[int] = []
    names = f"{direction}_us", f"{direction}_bytes", f"{direction}_calls"
    for table in tables:
        if set(names).issubset(table.metrics):
            columns = [table.column(table.metrics.index(name)) for name in names]
            used = list(map(all, zip(*columns)))
            nodes += compress(table.nodes, used)
            for values, column in zip((us, moved, calls), columns):
                values += compress(column, used)
    return nodes, us, moved, calls
