"""
--long in markdown, in tables of all rows: transfers, request sizes, time in operations, the spread
over the nodes; and the sentences on what these numbers mean, which one_screen has as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import (
    format_amount,
    format_bytes,
    format_count,
    format_percent,
    format_seconds,
    format_share,
)
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import (
    APPLICATION,
    NETWORK,
    add_read_and_write,
    format_request_size,
    is_nothing,
    make_transfers,
)
from iostats.report.network_bytes import explain_network_bytes
from iostats.report.text_table import find_busiest, format_metric_name, format_table
from iostats.totals.bounds import (
    mark,
    mark_operation,
    mark_ratio,
    mark_source,
    mark_spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, Record, SlowNodes

_BY = {APPLICATION: "by the application", NETWORK: "over the network"}


def make_tables(shown: list[FileSystemRecord], record: Record, units: str,
                screen: Screen) -> list[str]:
    """The tables of --long, and sentences on what their numbers mean."""
    transfers, times, spreads, sizes = ([row for fs in shown for row in rows_of(fs, units)]
                                        for rows_of in (_list_transfers, _list_times, _list_spreads,
                                                        _list_sizes))
    parts = ["Transfers by the application and over the network:",
             format_table((FILE_SYSTEM, "Transfer", "Bytes", "Calls, RPCs", "Mean size"), transfers,
                          screen, ("left", "left", "right", "right", "right"))]
    for fs in shown:
        parts += [f"{fs.label}: {line}"
                  for line in [*describe_ratios(fs, units), *describe_balance(fs)]]
    if sizes:
        parts += ["Size of network requests (up to this much; 4 KiB pages):",
                  format_table((FILE_SYSTEM, "Way", "Up to", "RPCs", "Share"), sizes, screen,
                               ("left", "left", "right", "right", "right"))]
    if times:
        parts += ["Time in operations (of all threads of all nodes, so it may be more than the "
                  "job took):",
                  format_table((FILE_SYSTEM, "Operation", "Calls", "Seconds", "Mean ms",
                                "Stddev ms"),
                               times, screen, ("left", "left", "right", "right", "right", "right"))]
        parts += describe_time_in_lustre(shown, record.coverage.node_seconds)
    if spreads and record.coverage.reported > 1:
        parts += ["Per node:",
                  format_table((FILE_SYSTEM, "Metric", "Min", "Median", "Max", "Busiest node"),
                               spreads, screen,
                               ("left", "left", "right", "right", "right", "left"))]
    return parts


def describe_time_in_lustre(shown: Sequence[FileSystemRecord],
                            node_seconds: float | None) -> list[str]:
    """Describe the time in Lustre in a sentence; [] if no time is known."""
    known = [row.seconds for fs in shown for row in add_read_and_write(fs).values()
             if row.seconds is not None and row.count]
    if not known or not node_seconds:
        return []
    seconds = sum(known)
    low = ">= " if any(mark_source(fs, "llite") for fs in shown) else ""
    share = format_share(seconds / node_seconds)
    share = "" if low and share.startswith("<") else f", {low}{share}"
    return [f"Time in Lustre: {low}{format_seconds(seconds)} of {format_seconds(node_seconds)} of "
            f"all nodes that reported{share} (more than 100 % "
            f"when threads overlap; a create is also in its open)"]


def _list_transfers(fs: FileSystemRecord, units: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the transfers: bytes and calls or RPCs, by direction and layer."""
    for transfer in make_transfers(fs):
        if not is_nothing(transfer):
            yield (fs.label, f"{transfer.direction}, {_BY[transfer.layer]}",
                   "-" if transfer.total is None else transfer.of_bytes
                   + format_bytes(transfer.total, units),
                   "-" if transfer.count is None else
                   f"{transfer.of_calls}{format_count(transfer.count)}",
                   "-" if transfer.mean is None else
                   transfer.of_mean + format_bytes(int(transfer.mean), units))


def _list_times(fs: FileSystemRecord, _units: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the times of operations."""
    low = mark(fs, "operations")
    of_mean = mark_ratio(low, low)
    for name, row in add_read_and_write(fs).items():
        if row.seconds is not None and row.count:
            yield (fs.label, name, mark_operation(fs, name) + format_count(row.count),
                   f"{low}{row.seconds:.3f}",
                   f"{of_mean}{row.seconds / row.count * 1000:.3f}",
                   "-" if row.stddev_s is None else f"{of_mean}{row.stddev_s * 1000:.3f}")


def _list_sizes(fs: FileSystemRecord, _units: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the sizes of network requests."""
    low = mark_source(fs, "rpc_stats")
    for direction, pages in (fs.request_pages or {}).items():
        total = sum(pages.values())
        for count_of_pages, rpcs in pages.items():
            if rpcs:
                yield (fs.label, direction, format_request_size(count_of_pages),
                       low + format_count(rpcs),
                       f"{mark_ratio(low, low)}{format_percent(rpcs / total)}")


def _list_spreads(fs: FileSystemRecord, units: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows with the minimum, median and maximum over the nodes."""
    for name, spread in fs.per_node.items():
        if not spread.max:
            continue
        marks = mark_spread(fs, name)
        yield (fs.label, format_metric_name(name), *(
            sign + format_amount(name, spread[at], units)
            for sign, at in zip(marks, ("min", "median", "max"))), find_busiest(spread, marks))


def describe_ratios(fs: FileSystemRecord, units: str) -> list[str]:
    """Sentences on one file system: ratios of its numbers."""
    lines = explain_network_bytes(fs, units)
    if fs.cached_read_bytes:
        lines.append(f"{mark(fs, 'operations')}{format_bytes(fs.cached_read_bytes, units)} of "
                     f"what was read were in the page cache when they were asked for (read-ahead "
                     f"counts too)")
    return [*lines, *map(describe_slow_nodes, fs.slow_nodes)]


def describe_slow_nodes(slow_nodes: SlowNodes) -> str:
    """A sentence on nodes that took longer than the others."""
    slow = slow_nodes.nodes + ("" if slow_nodes.node_count == 1 else
                               f" (most of all {slow_nodes.slowest})")
    factor = slow_nodes.seconds / slow_nodes.usual_seconds
    return (
        f"{slow} took {factor:.1f} times as long as the other nodes to {slow_nodes.call} as much: "
        f"{format_seconds(slow_nodes.seconds)}, there "
        f"{format_seconds(slow_nodes.usual_seconds)}")


def describe_balance(fs: FileSystemRecord) -> list[str]:
    """A sentence on how the bytes were spread over the OSTs; [] where it is not known."""
    balance, low = fs.balance, mark_source(fs, "osc")
    if not balance or balance.busiest_share is None:
        return []
    return [f"{low}{format_count(balance.used)} of {low}{format_count(balance.osts)} OSTs carried "
            f"data; "
            f"{balance.busiest} the most{' of what is known' if low else ''}, "
            f"{format_percent(balance.busiest_share)}"]
