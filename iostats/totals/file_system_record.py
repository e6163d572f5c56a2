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
from iostats.totals.sums import add_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

OVER_NETWORK = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs")
_NETWORK_SOURCES = ("osc", "mdc")


def format_notes(notes: Mapping[str, Iterable[str]], fold: Callable[[list[str]], str]) -> list[str]:
    """Format {note: {node}} as a line for each note; `fold`: [node name] -> text."""
    return [f"{fold(sorted(nodes))}: {text}" for text, nodes in sorted(notes.items())]


def make_operation_rows(llite: dict[str, int], unspread: set[str]) -> tuple[
        dict[str, OperationRow], dict[str, OperationRow], dict[str, int]]:
    """
    Return ({operation: row}, {"read", "write": row}, {metric: value} of all else that is no bytes).

    `unspread`: metrics of time of which some node has no sum of squares.
    """
    operations, calls, rest = {}, {}, {}
    for metric, value in llite.items():
        if metric in OF_PROGRAMS or metric.endswith(("_us", "_us2")):
            continue
        if is_operation(metric):
            operations[metric] = _make_row(llite, metric, unspread)
        elif metric in ("read", "write"):
            calls[metric] = _make_row(llite, metric, unspread)
        else:
            rest[metric] = value
            if f"{metric}_us" in llite:
                rest[f"{metric}_us"] = llite[f"{metric}_us"]
    order = {name: place for place, name in enumerate(OPERATIONS)}
    ordered = sorted(operations, key=lambda name: (order.get(name, len(order)), name))
    return ({name: operations[name] for name in ordered}, dict(sorted(calls.items())),
            dict(sorted(rest.items())))


def _make_row(llite: dict[str, int], metric: str, unspread: set[str]) -> OperationRow:
    us, us2 = (llite.get(metric + part) for part in ("_us", "_us2"))
    count, stddev_s = llite[metric], None
    if count and us is not None and us2 is not None and f"{metric}_us" not in unspread:
        stddev_s = round(max(0.0, us2 / count - (us / count) ** 2) ** 0.5 / 1e6, 9)
    return OperationRow(count=count, seconds=_convert_to_seconds(us), stddev_s=stddev_s)


def _convert_to_seconds(us: int | None) -> float | None:
    return None if us is None else round(us / 1e6, 6)


def make_network_io(by_source: dict[str, dict[str, int]], low: set[str],
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
        f"{direction}_rpcs": sum(count for metric, count in rpcs.items()
                                 if metric.startswith(f"{direction}_rpcs_pages_"))
        for direction in ("read", "write")},
        lower_bound=bool(incomplete or low.intersection((*_NETWORK_SOURCES, "rpc_stats"))))


def compute_balance(by_source: dict[str, dict[str, int]],
                    targets: dict[str, dict[str, int]]) -> OstBalance | None:
    """Compute how the bytes were spread over the OSTs; None if the network was not read."""
    if "osc" not in by_source:
        return None
    moved = {target: values.get("read_bytes", 0) + values.get("write_bytes", 0)
             for target, values in targets.items() if target.startswith("OST")}
    busiest = max(sorted(moved), key=moved.__getitem__, default="")
    total = sum(moved.values())
    return OstBalance(osts=len(moved), used=sum(1 for value in moved.values() if value),
                      busiest=busiest if total else "",
                      busiest_share=round(moved[busiest] / total, 6) if total else None)


def make_request_pages(rpcs: dict[str, int] | None) -> RequestPages | None:
    """Return the sizes of bulk requests from rpc_stats; None if not read."""
    if rpcs is None:
        return None
    pages = RequestPages(read={}, write={})
    for metric in sorted(rpcs, key=lambda metric: (len(metric), metric)):
        direction, _, size = metric.partition("_rpcs_pages_")
        if direction in pages and size:
            pages[direction][size] = rpcs[metric]
    return pages


def make_server_record(name: str, targets: dict[str, dict[str, int]],
                       programs: dict[str, dict[str, int]], steps: dict[str, dict[str, int]],
                       lower_bound: bool, notes: list[str]) -> ServersFileSystem:
    """
    Make the record of the storage servers' counts from {target: metrics of job_stats}, {program:
    metrics} and {step: metrics}.
    """
    total: dict[str, int] = {}
    for values in targets.values():
        add_values(total, values)
    return ServersFileSystem(
        name=name, label=name, **{metric: total.get(metric, 0) for metric in OVER_NETWORK},
        read_seconds=_convert_to_seconds(total.get("read_us")),
        write_seconds=_convert_to_seconds(total.get("write_us")),
        operations={call: TimedCount(count=total[call],
                                     seconds=_convert_to_seconds(total.get(f"{call}_us")))
                    for call in sorted(filter(is_call, total))},
        targets=targets, programs=programs, steps=steps, lower_bound=lower_bound, notes=notes)
