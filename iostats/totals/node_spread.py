"""
How much each of a job's nodes did: minimum, median and maximum of each metric.
"""

from __future__ import annotations

from iostats.totals.record import NodeSpread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def spread_of(shorts: Iterable[dict[str, Any]],
              names: Iterable[str]) -> dict[str, dict[str, NodeSpread]]:
    """
    {file system: {metric: NodeSpread}} over the nodes that could read it, of what each did
    (record.NodeRecord), in the order of the nodes' `names`.
    """
    columns: dict[str, dict[str, list[tuple[int, str]]]] = {}
    nodes: dict[str, int] = {}
    for node, short in zip(names, shorts):
        for name, values in short["file_systems"].items():
            nodes[name] = nodes.get(name, 0) + 1
            for metric, value in values.items():
                columns.setdefault(name, {}).setdefault(metric, []).append((value, node))
    return {name: {metric: _of_column(found[metric], nodes[name]) for metric in sorted(found)}
            for name, found in columns.items()}


def _of_column(column: list[tuple[int, str]], nodes: int) -> NodeSpread:
    """Minimum, median (the lower one of two) and maximum of [(value, node)] and zeros, and who."""
    values = [0] * (nodes - len(column)) + sorted(value for value, _ in column)
    most = values[-1]
    return NodeSpread(
        min=values[0], median=values[(nodes - 1) // 2], max=most,
        busiest=min(node for value, node in column if value == most) if most else "")
