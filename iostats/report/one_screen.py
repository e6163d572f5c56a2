"""
--long on one screen: of each file system what was transferred, in requests of which sizes, how long
operations took, which OSTs and MDTs and which nodes did it, and when.

What is 0 has no row, unless it is a lower bound; what is not known is "-".  Of many targets,
operations and nodes the first few have rows, and the others are counted: `--format json` has all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.text import count_bins_per_bar, draw_bars
from iostats.base.units import (
    format_amount,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
    format_share,
)
from iostats.lustre.metric_meanings import OPERATIONS
from iostats.report import long_tables
from iostats.report.blocks import BAR, ITEMS, NAME, NUMBER, SERIES, TEXT, Block, draw_blocks
from iostats.report.job_numbers import (
    APPLICATION,
    NETWORK,
    add_read_and_write,
    find_most_frequent,
    format_request_size,
    is_nothing,
    make_transfers,
    name_metadata_server,
)
from iostats.report.screen import draw_rule
from iostats.report.text_table import METRIC_WORDS, find_busiest, format_metric_name
from iostats.totals.bounds import (
    mark,
    mark_metadata,
    mark_operation,
    mark_ratio,
    mark_source,
    mark_spread,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from iostats.report.blocks import Cell, Row
    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, Record

    Item = TypeVar("Item")

_MOST_OPERATIONS, _MOST_OSTS, _MOST_MDTS, _MOST_METRICS, _MOST_SIZES = 8, 4, 4, 8, 12
_MOST_TIMES = 2
_WIDEST_TIME = 100                      # columns of bars over time
_DIRECTIONS = (("read", "read"), ("write", "written"))
_LAYERS = {APPLICATION: "by the application", NETWORK: "over the network"}


def format_lines(shown: Sequence[FileSystemRecord], record: Record, units: str,
                 screen: Screen) -> list[str]:
    """The screens of the file systems that did something, one below the other."""
    lines: list[str] = []
    several = len(shown) > 1
    for fs in shown:
        blocks = _make_blocks(fs, record, units, screen)
        sentences = long_tables.describe_ratios(fs, units)
        if several and (blocks or sentences):
            lines.append(draw_rule(screen, fs.label))
        lines += draw_blocks(blocks, screen)
        lines += [f"{fs.label}: {line}" for line in sentences]
    return [*lines, *long_tables.describe_time_in_lustre(shown, record.coverage.node_seconds)]


def _make_blocks(fs: FileSystemRecord, record: Record, units: str, screen: Screen) -> list[Block]:
    several_nodes = record.coverage.reported > 1
    blocks = [_make_transfer_block(fs, record, units), _make_time_block(fs), _make_size_block(fs),
              _make_ost_block(fs, units), _make_mdt_block(fs, several_nodes),
              _make_node_block(fs, units) if several_nodes else None,
              _make_series_block(fs, record.coverage.reported, units, screen)]
    return [block for block in blocks if block is not None and block.rows]


def _make_transfer_block(fs: FileSystemRecord, record: Record, units: str) -> Block:
    """Make the block of bytes and calls or RPCs, by direction and layer."""
    elapsed_s, rows = record.job.elapsed_s, []
    of_time = ">= " if record.coverage.missing_count else ""    # such a node may have taken longer
    for transfer in sorted(make_transfers(fs), key=lambda transfer: transfer.direction):
        if is_nothing(transfer):
            continue
        if transfer.layer == NETWORK and fs.network is None and fs.application and not (
                fs.application[f"{transfer.direction}_bytes"]
                or mark(fs, f"{transfer.direction}_bytes")):
            continue
        rows.append((f"  {transfer.direction}, {_LAYERS[transfer.layer]}",
                     "-" if transfer.total is None else transfer.of_bytes
                     + format_bytes(transfer.total, units),
                     "-" if transfer.count is None else transfer.of_calls
                     + format_count(transfer.count),
                     "-" if transfer.mean is None else transfer.of_mean
                     + format_bytes(transfer.mean, units),
                     "-" if transfer.total is None or not elapsed_s else
                     f"{mark_ratio(transfer.of_bytes, of_time)}"
                     f"{format_bytes(transfer.total / elapsed_s, units)}/s"))
    return Block(("Transfers", "bytes", "calls, RPCs", "mean size", "mean rate"),
                 (NAME, NUMBER, NUMBER, NUMBER, NUMBER), rows, ("mean rate", "mean size"))


def _make_time_block(fs: FileSystemRecord) -> Block | None:
    """Make the block of the time in each operation, the longest first."""
    low = mark(fs, "operations")
    of_mean = mark_ratio(low, low)
    timed = sorted(((name, row) for name, row in add_read_and_write(fs).items()
                    if row.seconds is not None and row.count),
                   key=lambda item: (-(item[1].seconds or 0), item[0]))
    whole = sum(row.seconds or 0 for _, row in timed)
    first, rest = _split_rows(timed, _MOST_OPERATIONS)
    rows: list[Row] = [(
        f"  {name}", *_make_share_cells(row.seconds or 0, whole, low),
        mark_operation(fs, name) + format_count(row.count),
        low + format_seconds(row.seconds or 0),
        of_mean + format_seconds((row.seconds or 0) / row.count),
        "-" if row.stddev_s is None else of_mean + format_seconds(row.stddev_s))
        for name, row in first]
    if rest:
        count, seconds = (sum(getattr(row, unit) for _, row in rest)
                          for unit in ("count", "seconds"))
        rows.append((f"  {_format_others(rest)}", *_make_share_cells(seconds, whole, low),
                     low + format_count(count), low + format_seconds(seconds), "", ""))
    headings = ("Time in operations", "", "share", "calls", "time", "mean", "stddev")
    kinds = (NAME, BAR, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER)
    if all(row.stddev_s is None for _, row in first):
        return Block(headings[:-1], kinds[:-1], [row[:-1] for row in rows])
    return Block(headings, kinds, rows, ("stddev",))


def _make_size_block(fs: FileSystemRecord) -> Block | None:
    """Make the block of the sizes of network requests, by their number of pages."""
    low = mark_source(fs, "rpc_stats")
    ways: list[tuple[str, dict[str, int]]] = [
        (words, fs.request_pages[direction]) for direction, words in _DIRECTIONS
        if fs.request_pages and any(fs.request_pages[direction].values())]
    sizes = sorted({size for _, pages in ways for size, rpcs in pages.items() if rpcs},
                   key=lambda size: (int(size) if size.isdigit() else 0, size))
    first, rest = _split_rows(sizes, _MOST_SIZES)
    rows: list[Row] = []
    for name, of in [*((f"up to {format_request_size(size)}", [size]) for size in first),
                     *([(_format_others(rest), rest)] if rest else [])]:
        row: list[Cell] = [f"  {name}"]
        for _, pages in ways:
            rpcs = sum(pages.get(size, 0) for size in of)
            row += [low + format_count(rpcs), *_make_share_cells(rpcs, sum(pages.values()), low)
                    ] if rpcs else ["", None, ""]
        rows.append(row)
    headings, kinds = ["Requests (4 KiB pages)"], [NAME]
    for words, _ in ways:
        headings += [f"{words}, RPCs", "", "share"]
        kinds += [NUMBER, BAR, NUMBER]
    return Block(headings, kinds, rows)


def _make_ost_block(fs: FileSystemRecord, units: str) -> Block | None:
    """The OSTs that carried the most."""
    low, balance = mark_source(fs, "osc"), fs.balance
    if balance is None or balance.busiest_share is None:
        return None
    moved = sorted(((values.get("read_bytes", 0), values.get("write_bytes", 0), target)
                    for target, values in fs.targets.items() if target.startswith("OST")),
                   key=lambda row: (-row[0] - row[1], row[2]))
    moved = [row for row in moved if row[0] or row[1]]
    whole = sum(read + written for read, written, _ in moved)
    first, rest = _split_rows(moved, _MOST_OSTS)
    rows: list[Row] = [_make_ost_row(target, read, written, whole, low, units)
                                 for read, written, target in first]
    if rest:
        read, written = sum(row[0] for row in rest), sum(row[1] for row in rest)
        rows.append(_make_ost_row(_format_others(rest), read, written, whole, low, units))
    if not rows:                            # the short form of a record
        rows = [(f"  {balance.busiest}", *_make_share_cells(balance.busiest_share, 1, low), "-",
                 "-")]
    return Block((f"OSTs, {low}{balance.used} of {low}{balance.osts} used", "", "share", "read",
                  "written"), (NAME, BAR, NUMBER, NUMBER, NUMBER), rows)


def _make_ost_row(name: str, read: int, written: int, whole: int, low: str,
                  units: str) -> Row:
    return (f"  {name}", *_make_share_cells(read + written, whole, low),
            *(low + format_bytes(number, units) if number or low else "" for number in (
                read, written)))


def _make_mdt_block(fs: FileSystemRecord, several_nodes: bool) -> Block:
    """Make the block of requests to each MDT, by which administrators judge a job."""
    low, of_mean = mark_metadata(fs)
    mdts = sorted(((name, requests_to) for name, requests_to in fs.metadata.items()
                   if requests_to.requests or low),
                  key=lambda item: (-item[1].requests, item[0]))
    whole = sum(requests_to.requests for _, requests_to in mdts)
    first, rest = _split_rows(mdts, _MOST_MDTS)
    rows: list[Row] = []
    for name, requests_to in first:
        rate, peak = requests_to.per_second_per_node, requests_to.peak
        rows.append((f"  {name}", *_make_share_cells(requests_to.requests, whole, low),
                     low + format_count(requests_to.requests),
                     "-" if rate is None else of_mean + format_rate(rate),
                     low + format_rate(peak.per_second) if peak else "-",
                     (peak.node if peak else "-") or "-",
                     ", ".join(f"{operation} {low}{format_count(count)}"
                               for operation, count in find_most_frequent(requests_to))))
    if rest:
        requests = sum(requests_to.requests for _, requests_to in rest)
        rows.append((f"  {_format_others(rest)}", *_make_share_cells(requests, whole, low),
                     low + format_count(requests), "", "", "", ""))
    headings = [f"{name_metadata_server(fs)}s", "", "share", "requests", "/s, node", "peak",
                "of node", "most"]
    kinds = [NAME, BAR, NUMBER, NUMBER, NUMBER, NUMBER, TEXT, ITEMS]
    empty = {1, 2} if len(mdts) == 1 else set()
    empty |= set() if several_nodes else {5, 6}
    columns = [at for at in range(len(headings)) if at not in empty]
    return Block([headings[at] for at in columns], [kinds[at] for at in columns],
                 [[row[at] for at in columns] for row in rows],
                 [name for name in ("of node", "peak", "most")
                  if headings.index(name) not in empty])


def _make_node_block(fs: FileSystemRecord, units: str) -> Block:
    """Make the block with the minimum, median and maximum over the nodes."""
    place = {name: number for number, name in enumerate((*METRIC_WORDS, *OPERATIONS))}
    spreads = sorted(((name, spread) for name, spread in fs.per_node.items() if spread.max),
                     key=lambda item: (item[0] not in METRIC_WORDS, place.get(item[0], -1)
                                       if item[0] in METRIC_WORDS else -item[1].max, item[0]))
    spent = [item for item in spreads if item[0].endswith("_us")]
    first, rest = _split_rows([item for item in spreads if item not in spent], _MOST_METRICS)
    longest, shorter = _split_rows(spent, _MOST_TIMES)
    rows: list[Row] = []
    for name, spread in (*first, *longest):
        marks = mark_spread(fs, name)
        rows.append((f"  {format_metric_name(name)}", *(
            sign + (format_seconds(spread[at] / 1e6) if name.endswith("_us") else
                    format_amount(name, spread[at], units))
            for sign, at in zip(marks, ("min", "median", "max"))),
            find_busiest(spread, marks)))
    rest = [*rest, *shorter]
    if rest:
        rows.append((f"  {_format_others(rest)}", "", "", "", ""))
    return Block(("Per node", "least", "median", "most", "busiest"),
                 (NAME, NUMBER, NUMBER, NUMBER, TEXT), rows)


def _make_series_block(fs: FileSystemRecord, reported: int, units: str,
                       screen: Screen) -> Block | None:
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
            highest = format_rate(peak) if metric == "operations" else format_bytes(peak, units)
            rows.append((f"  {name}", f"|{draw_bars(series[metric], room, screen.is_ascii)}|",
                         f"{mark(fs, metric)}{highest}/s"))
    bins = max(len(series[metric]) for metric in ("read_bytes", "write_bytes", "operations"))
    each = format_seconds(series.every_s * count_bins_per_bar(bins, room))
    of = f", {series.nodes} of {reported} nodes" if series.nodes < reported else ""
    return Block(("I/O over time", f"a column is {each}{of}", "peak"),
                 (NAME, SERIES, NUMBER), rows)


def _make_share_cells(part: float, whole: float, low: str) -> tuple[float | None, str]:
    """Return (bar, text) for a part of a whole; `low`: the mark of both numbers, ">= " or ""."""
    if not whole:
        return None, "-"
    return part / whole, mark_ratio(low, low) + format_share(part / whole)


def _split_rows(rows: Sequence[Item], limit: int) -> tuple[Sequence[Item], Sequence[Item]]:
    """Return (the rows that are shown, the others, never one alone)."""
    return (rows, ()) if len(rows) <= limit + 1 else (rows[:limit], rows[limit:])


def _format_others(rest: Sequence[object]) -> str:
    return f"and {len(rest):,} others"
