"""
--long on one screen: of each file system what was transferred, in requests of which sizes, how long
operations took, which OSTs and MDTs and which nodes did it, and when.

What is 0 has no row, unless it is a lower bound; what is not known is "-".  Of many targets,
operations and nodes the first few have rows, and the others are counted: `--format json` has all.
"""

from __future__ import annotations

from iostats.base.text import bars, bins_of_a_bar
from iostats.base.units import brief_rate, brief_seconds, bytes_text, count_text, share_text
from iostats.lustre.metric_meanings import OPERATIONS
from iostats.report import long_tables
from iostats.report.blocks import BAR, ITEMS, NAME, NUMBER, SERIES, TEXT, Block, drawn
from iostats.report.job_numbers import (
    APPLICATION,
    NETWORK,
    is_nothing,
    most_asked,
    request_size_text,
    transfers_of,
    with_calls,
)
from iostats.report.screen import rule
from iostats.report.text_table import busiest_of
from iostats.totals.bounds import (
    mark,
    mark_of_node_mean,
    mark_of_operation,
    mark_of_ratio,
    mark_of_source,
    marks_of_spread,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, Record

_MOST_OPERATIONS, _MOST_OSTS, _MOST_MDTS, _MOST_METRICS, _MOST_SIZES = 8, 4, 4, 8, 12
_WIDEST_TIME = 100                      # columns of bars over time
_NAMES = {"read_bytes": "bytes read", "write_bytes": "bytes written", "read_calls": "reads",
          "write_calls": "writes"}
_WAYS = (("read", "read"), ("write", "written"))
_LAYERS = {APPLICATION: "by the application", NETWORK: "over the network"}


def lines(shown: Sequence[FileSystemRecord], record: Record, units: str,
          screen: Screen) -> list[str]:
    """The screens of the file systems that did something, one below the other."""
    found: list[str] = []
    several = len(shown) > 1
    for fs in shown:
        blocks = _blocks(fs, record, units, screen)
        sentences = long_tables.ratios(fs, units)
        if several and (blocks or sentences):
            found.append(rule(screen, fs.label))
        found += drawn(blocks, screen)
        found += [f"{fs.label}: {line}" for line in sentences]
    return [*found, *long_tables.time_in_lustre(shown, record.coverage.node_seconds)]


def _blocks(fs: FileSystemRecord, record: Record, units: str, screen: Screen) -> list[Block]:
    several_nodes = record.coverage.reported > 1
    found = [_transfers(fs, record, units), _times(fs), _sizes(fs),
             _osts(fs, units), _mdts(fs, several_nodes),
             _nodes(fs, units) if several_nodes else None,
             _over_time(fs, record.coverage.reported, units, screen)]
    return [block for block in found if block is not None and block.rows]


def _transfers(fs: FileSystemRecord, record: Record, units: str) -> Block:
    """What was read and written, by whom, in how many calls or RPCs."""
    elapsed_s, rows = record.job.elapsed_s, []
    of_time = ">= " if record.coverage.missing_count else ""    # such a node may have taken longer
    for one in sorted(transfers_of(fs), key=lambda one: one.way):
        if is_nothing(one):
            continue
        if one.layer == NETWORK and fs.network is None and fs.application and not (
                fs.application[f"{one.way}_bytes"] or mark(fs, f"{one.way}_bytes")):
            continue
        rows.append((f"  {one.way}, {_LAYERS[one.layer]}",
                     "-" if one.total is None else one.of_bytes + bytes_text(one.total, units),
                     "-" if one.count is None else one.of_calls + count_text(one.count),
                     "-" if one.mean is None else one.of_mean + bytes_text(one.mean, units),
                     "-" if one.total is None or not elapsed_s else
                     f"{mark_of_ratio(one.of_bytes, of_time)}"
                     f"{bytes_text(one.total / elapsed_s, units)}/s"))
    return Block(("Transfers", "bytes", "calls, RPCs", "mean size", "mean rate"),
                 (NAME, NUMBER, NUMBER, NUMBER, NUMBER), rows, ("mean rate", "mean size"))


def _times(fs: FileSystemRecord) -> Block | None:
    """How long each kind of operation took, the longest first."""
    low = mark(fs, "operations")
    of_mean = mark_of_ratio(low, low)
    timed = sorted(((name, row) for name, row in with_calls(fs).items()
                    if row.seconds is not None and row.count),
                   key=lambda item: (-item[1].seconds, item[0]))
    whole = sum(row.seconds for _, row in timed)
    first, others = _first(timed, _MOST_OPERATIONS)
    rows: list[Sequence[Any]] = [(
        f"  {name}", *_share(row.seconds, whole, low),
        mark_of_operation(fs, name) + count_text(row.count),
        low + brief_seconds(row.seconds), of_mean + brief_seconds(row.seconds / row.count),
        "-" if row.stddev_s is None else of_mean + brief_seconds(row.stddev_s))
        for name, row in first]
    if others:
        count, seconds = (sum(getattr(row, what) for _, row in others)
                          for what in ("count", "seconds"))
        rows.append((f"  {_and_others(others)}", *_share(seconds, whole, low),
                     low + count_text(count), low + brief_seconds(seconds), "", ""))
    headings = ("Time in operations", "", "share", "calls", "time", "mean", "stddev")
    kinds = (NAME, BAR, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)
    if all(row.stddev_s is None for _, row in first):
        return Block(headings[:-1], kinds[:-1], [row[:-1] for row in rows])
    return Block(headings, kinds, rows, ("stddev",))


def _sizes(fs: FileSystemRecord) -> Block | None:
    """How large the network requests were, by their number of pages."""
    low = mark_of_source(fs, "rpc_stats")
    ways: list[tuple[str, dict[str, int]]] = [
        (words, fs.request_pages[way]) for way, words in _WAYS
        if fs.request_pages and any(fs.request_pages[way].values())]
    sizes = sorted({size for _, pages in ways for size, rpcs in pages.items() if rpcs},
                   key=lambda size: (int(size) if size.isdigit() else 0, size))
    first, others = _first(sizes, _MOST_SIZES)
    rows: list[Sequence[Any]] = []
    for name, of in [*((f"up to {request_size_text(size)}", [size]) for size in first),
                     *([(_and_others(others), others)] if others else [])]:
        row: list[Any] = [f"  {name}"]
        for _, pages in ways:
            rpcs = sum(pages.get(size, 0) for size in of)
            row += [low + count_text(rpcs), *_share(rpcs, sum(pages.values()), low)
                    ] if rpcs else ["", None, ""]
        rows.append(row)
    headings, kinds = ["Requests (4 KiB pages)"], [NAME]
    for words, _ in ways:
        headings += [f"{words}, RPCs", "", "share"]
        kinds += [NUMBER, BAR, NUMBER]
    return Block(headings, kinds, rows)


def _osts(fs: FileSystemRecord, units: str) -> Block | None:
    """The OSTs that carried the most."""
    low, balance = mark_of_source(fs, "osc"), fs.balance
    if balance is None or balance.busiest_share is None:
        return None
    moved = sorted(((values.get("read_bytes", 0), values.get("write_bytes", 0), target)
                    for target, values in fs.targets.items() if target.startswith("OST")),
                   key=lambda row: (-row[0] - row[1], row[2]))
    moved = [row for row in moved if row[0] or row[1]]
    whole = sum(read + written for read, written, _ in moved)
    first, others = _first(moved, _MOST_OSTS)
    rows: list[Sequence[Any]] = [_ost(target, read, written, whole, low, units)
                                 for read, written, target in first]
    if others:
        read, written = (sum(row[at] for row in others) for at in (0, 1))
        rows.append(_ost(_and_others(others), read, written, whole, low, units))
    if not rows:                            # the short form of a record
        rows = [(f"  {balance.busiest}", *_share(balance.busiest_share, 1, low), "-", "-")]
    return Block((f"OSTs, {low}{balance.used} of {low}{balance.osts} used", "", "share", "read",
                  "written"), (NAME, BAR, NUMBER, NUMBER, NUMBER), rows)


def _ost(name: str, read: int, written: int, whole: int, low: str,
         units: str) -> tuple[Any, ...]:
    return (f"  {name}", *_share(read + written, whole, low),
            *(low + bytes_text(number, units) if number or low else "" for number in (
                read, written)))


def _mdts(fs: FileSystemRecord, several_nodes: bool) -> Block:
    """What each MDT was asked: the number by which administrators judge a job."""
    low, of_mean = mark_of_source(fs, "md_stats"), mark_of_node_mean(fs, "md_stats")
    asked = sorted(((name, one) for name, one in fs.metadata.items() if one.requests or low),
                   key=lambda item: (-item[1].requests, item[0]))
    whole = sum(one.requests for _, one in asked)
    first, others = _first(asked, _MOST_MDTS)
    rows: list[Sequence[Any]] = []
    for name, one in first:
        rate, peak = one.per_second_per_node, one.peak
        rows.append((f"  {name}", *_share(one.requests, whole, low),
                     low + count_text(one.requests),
                     "-" if rate is None else of_mean + brief_rate(rate),
                     low + brief_rate(peak.per_second) if peak else "-",
                     (peak.node if peak else "-") or "-",
                     ", ".join(f"{operation} {low}{count_text(count)}"
                               for operation, count in most_asked(one))))
    if others:
        requests = sum(one.requests for _, one in others)
        rows.append((f"  {_and_others(others)}", *_share(requests, whole, low),
                     low + count_text(requests), "", "", "", ""))
    headings = ["MDTs", "", "share", "requests", "/s, node", "peak", "of node", "most"]
    kinds = [NAME, BAR, NUMBER, NUMBER, NUMBER, NUMBER, TEXT, ITEMS]
    gone = {1, 2} if len(asked) == 1 else set()
    gone |= set() if several_nodes else {5, 6}
    kept = [at for at in range(len(headings)) if at not in gone]
    return Block([headings[at] for at in kept], [kinds[at] for at in kept],
                 [[row[at] for at in kept] for row in rows],
                 [name for name in ("of node", "peak", "most")
                  if headings.index(name) not in gone])


def _nodes(fs: FileSystemRecord, units: str) -> Block:
    """The least, median and most of a node."""
    place = {name: number for number, name in enumerate((*_NAMES, *OPERATIONS))}
    spreads = sorted(((name, spread) for name, spread in fs.per_node.items() if spread.max),
                     key=lambda item: (item[0] not in _NAMES, place.get(item[0], -1)
                                       if item[0] in _NAMES else -item[1].max, item[0]))
    first, others = _first(spreads, _MOST_METRICS)
    rows: list[Sequence[Any]] = []
    for name, spread in first:
        text: Callable[[int], str] = (
            (lambda number: bytes_text(number, units)) if name.endswith("_bytes") else count_text)
        marks = marks_of_spread(fs, name)
        rows.append((f"  {_NAMES.get(name, name)}", *(
            sign + text(spread[at]) for sign, at in zip(marks, ("min", "median", "max"))),
            busiest_of(spread, marks)))
    if others:
        rows.append((f"  {_and_others(others)}", "", "", "", ""))
    return Block(("Per node", "least", "median", "most", "busiest"),
                 (NAME, NUMBER, NUMBER, NUMBER, TEXT), rows)


def _over_time(fs: FileSystemRecord, reported: int, units: str, screen: Screen) -> Block | None:
    """A line of bars for each metric that `watch` saw."""
    series = fs.series
    if not series:
        return None
    room = max(8, min(_WIDEST_TIME, screen.width - 37))
    rows = []
    for metric, name in (("read_bytes", "read"), ("write_bytes", "written"),
                         ("operations", "operations")):
        if any(series[metric]):
            peak = max(series[metric]) / series.every_s
            most = brief_rate(peak) if metric == "operations" else bytes_text(peak, units)
            rows.append((f"  {name}", f"|{bars(series[metric], room, screen.is_ascii)}|",
                         f"{mark(fs, metric)}{most}/s"))
    bins = max(len(series[metric]) for metric in ("read_bytes", "write_bytes", "operations"))
    each = brief_seconds(series.every_s * bins_of_a_bar(bins, room))
    of = f", {series.nodes} of {reported} nodes" if series.nodes < reported else ""
    return Block(("I/O over time", f"a column is {each}{of}", "peak"),
                 (NAME, SERIES, NUMBER), rows)


def _share(part: float, whole: float, low: str) -> tuple[float | None, str]:
    """(bar, text) of a part of a whole that both have the mark `low`."""
    if not whole:
        return None, "-"
    return part / whole, mark_of_ratio(low, low) + share_text(part / whole)


def _first(rows: Sequence[Any], most: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """(the rows that are shown, the others, never one alone)."""
    return (rows, ()) if len(rows) <= most + 1 else (rows[:most], rows[most:])


def _and_others(others: Sequence[Any]) -> str:
    return f"and {len(others)} others"
