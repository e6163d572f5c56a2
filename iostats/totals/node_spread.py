"""
How much each of a job's nodes did: minimum, median and maximum of each metric.
"""

from __future__ import annotations

from itertools import chain, compress, repeat
from operator import eq

from iostats.totals.record import NodeSpread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    _Table = tuple[list[str], list[tuple[int, ...]]]       # nodes, and a row of values of each
    _Column = tuple[list[str], tuple[int, ...]]


def spread_of(shorts: Iterable[dict[str, Any]],
              names: Iterable[str]) -> dict[str, dict[str, NodeSpread]]:
    """
    {file system: {metric: NodeSpread}} over the nodes that could read it, of what each did
    (record.NodeRecord), in the order of the nodes' `names`.
    """
    # Most nodes have the same metrics: their values are a table, of which each column is a metric.
    tables: dict[str, dict[tuple[str, ...], _Table]] = {}
    for node, short in zip(names, shorts):
        for name, values in short["file_systems"].items():
            nodes, rows = tables.setdefault(name, {}).setdefault(tuple(values), ([], []))
            nodes.append(node)
            rows.append(tuple(values.values()))
    found = {}
    for name, by_metrics in tables.items():
        columns: dict[str, list[_Column]] = {}
        for metrics, (nodes, rows) in by_metrics.items():
            for metric, column in zip(metrics, zip(*rows)):
                columns.setdefault(metric, []).append((nodes, column))
        count = sum(len(nodes) for nodes, _ in by_metrics.values())
        if columns:
            found[name] = {metric: _of_column(columns[metric], count) for metric in sorted(columns)}
    return found


def _of_column(columns: list[_Column], nodes: int) -> NodeSpread:
    """Minimum, median (the lower one of two) and maximum of the values and zeros, and who."""
    values = sorted(chain.from_iterable([column for _, column in columns]))
    values[:0] = [0] * (nodes - len(values))
    most = values[-1]
    return NodeSpread(
        min=values[0], median=values[(nodes - 1) // 2], max=most,
        busiest=min(chain.from_iterable([compress(nodes, map(eq, column, repeat(most)))
                                         for nodes, column in columns])) if most else "")
