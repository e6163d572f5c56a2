"""
--long in markdown, in tables of all rows: transfers, request sizes, time in operations, the spread
over the nodes; and the sentences on what these numbers mean, which one_screen has as well.
"""

from __future__ import annotations

from iostats.base.units import (
    amount_text,
    brief_seconds,
    bytes_text,
    count_text,
    percent_text,
    share_text,
)
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import (
    APPLICATION,
    NETWORK,
    is_nothing,
    request_size_text,
    transfers_of,
    with_calls,
)
from iostats.report.network_bytes import why_network_differs
from iostats.report.text_table import busiest_of, table
from iostats.totals.bounds import (
    mark,
    mark_of_operation,
    mark_of_ratio,
    mark_of_source,
    marks_of_spread,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, Record

_BY = {APPLICATION: "by the application", NETWORK: "over the network"}


def tables(shown: list[FileSystemRecord], record: Record, units: str, screen: Screen) -> list[str]:
    """The tables of --long, and sentences on what their numbers mean."""
    transfers, times, spreads, sizes = ([row for fs in shown for row in rows_of(fs, units)]
                                        for rows_of in (_transfers, _times, _spreads, _sizes))
    parts = ["Transfers by the application and over the network:",
             table((FILE_SYSTEM, "Transfer", "Bytes", "Calls, RPCs", "Mean size"), transfers,
                   screen, ("left", "left", "right", "right", "right"))]
    for fs in shown:
        parts += [f"{fs.label}: {line}" for line in [*ratios(fs, units), *balance(fs)]]
    if sizes:
        parts += ["Size of network requests (up to this much; 4 KiB pages):",
                  table((FILE_SYSTEM, "Way", "Up to", "RPCs", "Share"), sizes, screen,
                        ("left", "left", "right", "right", "right"))]
    if times:
        parts += ["Time in operations (of all threads of all nodes, so it may be more than the "
                  "job took):",
                  table((FILE_SYSTEM, "Operation", "Calls", "Seconds", "Mean ms", "Stddev ms"),
                        times, screen, ("left", "left", "right", "right", "right", "right"))]
        parts += time_in_lustre(shown, record.coverage.node_seconds)
    if spreads and record.coverage.reported > 1:
        parts += ["Per node:",
                  table((FILE_SYSTEM, "Metric", "Min", "Median", "Max", "Busiest node"),
                        spreads, screen, ("left", "left", "right", "right", "right", "left"))]
    return parts


def time_in_lustre(shown: Sequence[FileSystemRecord], node_seconds: float | None) -> list[str]:
    """A sentence; [] where no time is known."""
    known = [row.seconds for fs in shown for row in with_calls(fs).values()
             if row.seconds is not None and row.count]
    if not known or not node_seconds:
        return []
    seconds = sum(known)
    low = ">= " if any(mark_of_source(fs, "llite") for fs in shown) else ""
    share = share_text(seconds / node_seconds)
    share = "" if low and share.startswith("<") else f", {low}{share}"
    return [f"Time in Lustre: {low}{brief_seconds(seconds)} of {brief_seconds(node_seconds)} of "
            f"all nodes that reported{share} (more than 100 % "
            f"when threads overlap; a create is also in its open)"]


def _transfers(fs: FileSystemRecord, units: str) -> Iterator[tuple[str, ...]]:
    """What was read and written, by whom, in how many calls or RPCs."""
    for one in transfers_of(fs):
        if not is_nothing(one):
            yield (fs.label, f"{one.way}, {_BY[one.layer]}",
                   "-" if one.total is None else one.of_bytes + bytes_text(one.total, units),
                   "-" if one.count is None else f"{one.of_calls}{one.count}",
                   "-" if one.mean is None else
                   one.of_mean + bytes_text(one.total // one.count, units))


def _times(fs: FileSystemRecord, _units: str) -> Iterator[tuple[str, ...]]:
    """How long each kind of operation took."""
    low = mark(fs, "operations")
    of_mean = mark_of_ratio(low, low)
    for name, row in with_calls(fs).items():
        if row.seconds is not None and row.count:
            yield (fs.label, name, mark_of_operation(fs, name) + count_text(row.count),
                   f"{low}{row.seconds:.3f}",
                   f"{of_mean}{row.seconds / row.count * 1000:.3f}",
                   "-" if row.stddev_s is None else f"{of_mean}{row.stddev_s * 1000:.3f}")


def _sizes(fs: FileSystemRecord, _units: str) -> Iterator[tuple[str, ...]]:
    """How large the network requests were."""
    low = mark_of_source(fs, "rpc_stats")
    for way, pages in (fs.request_pages or {}).items():
        total = sum(pages.values())
        for count_of_pages, rpcs in pages.items():
            if rpcs:
                yield (fs.label, way, request_size_text(count_of_pages), low + count_text(rpcs),
                       f"{mark_of_ratio(low, low)}{percent_text(rpcs / total)}")


def _spreads(fs: FileSystemRecord, units: str) -> Iterator[tuple[str, ...]]:
    """The least, median and most of a node."""
    for name, spread in fs.per_node.items():
        if not spread.max:
            continue
        marks = marks_of_spread(fs, name)
        yield (fs.label, name, *(
            sign + amount_text(name, spread[at], units)
            for sign, at in zip(marks, ("min", "median", "max"))), busiest_of(spread, marks))


def ratios(fs: FileSystemRecord, units: str) -> list[str]:
    """Sentences on one file system: what the numbers mean beside each other."""
    lines = why_network_differs(fs, units)
    if fs.cached_read_bytes:
        lines.append(f"{mark(fs, 'operations')}{bytes_text(fs.cached_read_bytes, units)} of "
                     f"what was read were in the page cache when they were asked for (read-ahead "
                     f"counts too)")
    return lines


def balance(fs: FileSystemRecord) -> list[str]:
    """A sentence on how the bytes were spread over the OSTs; [] where it is not known."""
    found, low = fs.balance, mark_of_source(fs, "osc")
    if not found or found.busiest_share is None:
        return []
    return [f"{low}{found.used} of {low}{found.osts} OSTs carried data; "
            f"{found.busiest} the most{' of what is known' if low else ''}, "
            f"{percent_text(found.busiest_share)}"]
