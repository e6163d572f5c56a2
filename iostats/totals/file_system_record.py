"""
One file system's part of the record, made of the sums over all nodes: metric -> integer.
"""

from __future__ import annotations

from iostats.lustre.metric_meanings import OPERATIONS
from iostats.lustre.metrics import is_call, is_operation
from iostats.totals.llite_values import OF_PROGRAMS
from iostats.totals.record import (
    NetworkIO,
    OperationRow,
    OstBalance,
    RequestPages,
    ServersFileSystem,
    TimedCount,
)
from iostats.totals.sums import added

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

OVER_NETWORK = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs")
_NETWORK_SOURCES = ("osc", "mdc")


def notes_of(notes: Mapping[str, Iterable[str]], fold: Callable[[list[str]], str]) -> list[str]:
    """[line] of {text: {node}}; `fold`: [node name] -> text."""
    return [f"{fold(sorted(nodes))}: {text}" for text, nodes in sorted(notes.items())]


def operations_of_record(llite: dict[str, int], unspread: set[str]) -> tuple[
        dict[str, OperationRow], dict[str, OperationRow], dict[str, int]]:
    """
    ({operation: row}, {"read", "write": row}, {metric: value} of all else that is no bytes).

    `unspread`: metrics of time of which some node has no sum of squares.
    """
    operations, calls, other = {}, {}, {}
    for metric, value in llite.items():
        if metric in OF_PROGRAMS or metric.endswith(("_us", "_us2")):
            continue
        if is_operation(metric):
            operations[metric] = _row(llite, metric, unspread)
        elif metric in ("read", "write"):
            calls[metric] = _row(llite, metric, unspread)
        else:
            other[metric] = value
            if f"{metric}_us" in llite:
                other[f"{metric}_us"] = llite[f"{metric}_us"]
    order = {name: place for place, name in enumerate(OPERATIONS)}
    ordered = sorted(operations, key=lambda name: (order.get(name, len(order)), name))
    return ({name: operations[name] for name in ordered}, dict(sorted(calls.items())),
            dict(sorted(other.items())))


def _row(llite: dict[str, int], metric: str, unspread: set[str]) -> OperationRow:
    us, us2 = (llite.get(metric + part) for part in ("_us", "_us2"))
    count, stddev_s = llite[metric], None
    if count and us is not None and us2 is not None and f"{metric}_us" not in unspread:
        stddev_s = round(max(0.0, us2 / count - (us / count) ** 2) ** 0.5 / 1e6, 9)
    return OperationRow(count=count, seconds=_seconds(us), stddev_s=stddev_s)


def _seconds(us: int | None) -> float | None:
    return None if us is None else round(us / 1e6, 6)


def network_of(by_source: dict[str, dict[str, int]], low: set[str],
               incomplete: bool) -> NetworkIO | None:
    """Bytes and RPCs of osc and mdc; the bytes None where only rpc_stats could be read."""
    read = [by_source[source] for source in _NETWORK_SOURCES if source in by_source]
    if read and ("osc" in by_source or "osc" not in low):      # mdc alone is not the network
        return NetworkIO(**{metric: sum(layer.get(metric, 0) for layer in read)
                            for metric in OVER_NETWORK},
                         lower_bound=bool(incomplete or low.intersection(_NETWORK_SOURCES)))
    rpcs = by_source.get("rpc_stats")
    if rpcs is None:
        return None
    return NetworkIO(read_bytes=None, write_bytes=None, **{
        f"{way}_rpcs": sum(count for metric, count in rpcs.items()
                           if metric.startswith(f"{way}_rpcs_pages_"))
        for way in ("read", "write")},
        lower_bound=bool(incomplete or low.intersection((*_NETWORK_SOURCES, "rpc_stats"))))


def balance_of(by_source: dict[str, dict[str, int]],
               targets: dict[str, dict[str, int]]) -> OstBalance | None:
    """How the bytes were spread over the OSTs; None where the network was not read."""
    if "osc" not in by_source:
        return None
    moved = {target: values.get("read_bytes", 0) + values.get("write_bytes", 0)
             for target, values in targets.items() if target.startswith("OST")}
    busiest = max(sorted(moved), key=moved.__getitem__, default="")
    total = sum(moved.values())
    return OstBalance(osts=len(moved), used=sum(1 for value in moved.values() if value),
                      busiest=busiest if total else "",
                      busiest_share=round(moved[busiest] / total, 6) if total else None)


def request_pages_of(rpcs: dict[str, int] | None) -> RequestPages | None:
    """How large the bulk requests were, of rpc_stats; None if not read."""
    if rpcs is None:
        return None
    pages = RequestPages(read={}, write={})
    for metric in sorted(rpcs, key=lambda metric: (len(metric), metric)):
        way, _, size = metric.partition("_rpcs_pages_")
        if way in pages and size:
            pages[way][size] = rpcs[metric]
    return pages


def at_servers(name: str, targets: dict[str, dict[str, int]], lower_bound: bool,
               notes: list[str]) -> ServersFileSystem:
    """What storage servers counted, of {target: metrics of job_stats}."""
    total: dict[str, int] = {}
    for values in targets.values():
        added(total, values)
    return ServersFileSystem(
        name=name, label=name, **{metric: total.get(metric, 0) for metric in OVER_NETWORK},
        read_seconds=_seconds(total.get("read_us")), write_seconds=_seconds(total.get("write_us")),
        operations={call: TimedCount(count=total[call], seconds=_seconds(total.get(f"{call}_us")))
                    for call in sorted(filter(is_call, total))},
        targets=targets, lower_bound=lower_bound, notes=notes)
