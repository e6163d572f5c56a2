"""
The tables of a job's page: headings and rows of text, of which templates make HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iostats.base.config import Config
from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_amount, format_bytes, format_percent, format_range
from iostats.load.time_lines import JobHistory, compute_total
from iostats.lustre.metric_meanings import METRICS
from iostats.lustre.metrics import count_all_operations
from iostats.node import sources
from iostats.report import storage_server_tables
from iostats.report.accounting_comment import OTHERS
from iostats.report.event_tables import EventRow
from iostats.report.explanation import select_metrics
from iostats.report.job_numbers import (
    APPLICATION,
    BY_NODE,
    IMPORTED,
    NETWORK,
    SERVERS,
    add_read_and_write,
    find_most_frequent,
    format_request_size,
    make_sides,
    make_transfers,
    name_metadata_server,
)
from iostats.report.text_table import find_busiest, format_metric_name, format_program_bytes
from iostats.totals.bounds import (
    LUSTRE,
    get_mark,
    mark,
    mark_layer,
    mark_metadata,
    mark_operation,
    mark_ratio,
    mark_source,
    mark_spread,
)
from iostats.totals.kinds import BY_SOURCE
from iostats.totals.record import FileSystemRecord, NodesFileSystem, Record, ServersFileSystem

MOST_ROWS = 40                      # of one table of operations or counters
_MOST_TARGETS = 20
_SHORTEST_US = 500                  # less is shown as 0.000 s
_DONE = {"read": "Read", "write": "Written"}
_BY = {APPLICATION: "by the application", NETWORK: "over the network",
       SERVERS: "on OSS and MDS, by job id", BY_NODE: "on OSS and MDS, by its nodes"}


class PageTable(NamedTuple):
    """A table of a page: title, heading and rows of cells."""

    title: str              # its caption
    about: str              # a sentence on its numbers, or ""
    headings: list[str]     # [text] of the columns
    left: int               # how many of the first columns are text; the others are numbers
    rows: list[list[Any]]   # [[text, or a ShareCell]]; the first cell of a row is its heading
    rest: str = ""          # what is not in it, or ""


class ShareCell(NamedTuple):
    """A cell with a bar of `share` (0 to 1) beside its text; `kind`: of a curve."""

    share: float
    kind: str
    text: str


def make_file_system_table(shown: Sequence[FileSystemRecord], units: str) -> PageTable:
    """Make the table of bytes and operations, a row for each file system."""
    rows = []
    for fs in shown:
        if not fs.application and not fs.network and fs.sources and fs.kind not in BY_SOURCE:
            continue                                                # other counters alone
        rows.append([
            fs.label,
            *(format_program_bytes(fs, f"{direction}_bytes", units)
              for direction in ("read", "write")),
            "-" if fs.operations is None else _format_marked(
                mark(fs, "operations"), f"{count_all_operations(fs.operations):,}"),
            *(_format_layer(fs.network, f"{direction}_bytes", units)
              for direction in ("read", "write"))])
    return PageTable("File systems", "", ["File system", "Read", "Written", "Operations",
                                          "Network read", "Network written"],
                     1, rows[:MOST_ROWS], _describe_rest(rows, MOST_ROWS))


def _format_marked(sign: str, text: str) -> str:
    return sign + text


def _format_layer(numbers: dict[str, Any] | None, metric: str, units: str) -> str:
    value = None if numbers is None else numbers[metric]
    if value is None:
        return "-"
    return _format_marked(mark_layer(numbers), format_bytes(value, units)
                          if metric.endswith("_bytes")
                          else f"{value:,}")


def make_transfer_table(fs: FileSystemRecord, units: str) -> PageTable:
    """Bytes, calls and their mean size, by the application and over the network."""
    rows = [[f"{_DONE[transfer.direction]} {_BY[transfer.layer]}",
             "-" if transfer.total is None
             else _format_marked(transfer.of_bytes, format_bytes(transfer.total, units)),
             "-" if transfer.count is None else
             _format_marked(transfer.of_calls, f"{transfer.count:,}"),
             "-" if transfer.mean is None else _format_marked(
                 transfer.of_mean, format_bytes(int(transfer.mean), units))]
            for transfer in make_transfers(fs)]
    return PageTable("Transfers", "", ["Transfer", "Bytes", "Calls, requests", "Mean size"], 1,
                     rows)


def make_operation_table(fs: FileSystemRecord) -> PageTable | None:
    """Make the table of operations with their number and time; the longest first."""
    low = mark(fs, "operations")
    of_mean = mark_ratio(low, low)
    busy = sorted(((name, row) for name, row in add_read_and_write(fs).items() if row.count),
                  key=lambda item: (-(item[1].seconds or 0), -item[1].count, item[0]))
    if not busy:
        return None
    whole = sum(row.seconds or 0 for _, row in busy)
    rows: list[list[Any]] = []
    for name, row in busy[:MOST_ROWS]:
        seconds = row.seconds
        rows.append([
            name, _format_marked(mark_operation(fs, name), f"{row.count:,}"),
            "-" if seconds is None else _format_marked(low, f"{seconds:,.3f}"),
            "-" if seconds is None
            else _format_marked(of_mean, f"{seconds / row.count * 1000:,.3f}"),
            "-" if row.stddev_s is None else _format_marked(of_mean, f"{row.stddev_s * 1000:,.3f}"),
            "-" if seconds is None or not whole
            else _make_share_cell(seconds / whole, "latency", of_mean)])
    return PageTable(
        "Operations and their time",
        "Seconds are of all threads of all nodes together, so they may be more than the job took; "
        "a create is also in its open.",
        ["Operation", "Count", "Seconds", "Mean ms", "Std. dev. ms", "Share of time"], 1, rows,
        _describe_rest(busy, MOST_ROWS))


def _make_share_cell(share: float, kind: str, sign: str) -> ShareCell:
    return ShareCell(share, kind, _format_marked(sign, format_percent(share, bool(sign))))


def _describe_rest(rows: Sequence[Any], limit: int) -> str:
    return f"and {len(rows) - limit:,} more" if len(rows) > limit else ""


def make_metadata_table(fs: FileSystemRecord) -> PageTable | None:
    """Make the table of requests to each MDT; the busiest first."""
    low, of_mean = mark_metadata(fs)
    rows = []
    targets = sorted(((server, requests) for server, requests in fs.metadata.items()
                      if requests.requests or fs.kind == LUSTRE),
                     key=lambda item: (-item[1].requests, item[0]))
    for target, requests in targets[:_MOST_TARGETS]:
        rate = requests.per_second_per_node
        rows.append([target, ", ".join(f"{name} {_format_marked(low, f'{count:,}')}"
                                       for name, count in find_most_frequent(requests)) or "-",
                     requests.peak.node if requests.peak else "-",
                     _format_marked(low, f"{requests.requests:,}"),
                     "-" if rate is None else _format_marked(of_mean, f"{rate:,.1f}"),
                     _format_marked(low, f"{requests.peak.per_second:,.1f}")
                     if requests.peak else "-"])
    return PageTable(
        f"Metadata requests by {name_metadata_server(fs)}",
        "Rates are per second and node: the mean, "
        "and the peak of one node over its whole time.",
        [name_metadata_server(fs), "Most", "Peak node", "Requests", "Average", "Peak"], 3, rows,
        _describe_rest(targets, _MOST_TARGETS)) if rows else None


def make_size_table(fs: FileSystemRecord) -> PageTable | None:
    """Make the table of the sizes of network requests."""
    low, rows = mark_source(fs, "rpc_stats"), []
    for direction, pages in (fs.request_pages or {}).items():
        total = sum(pages.values())
        rows += [[direction, format_request_size(size), _format_marked(low, f"{count:,}"),
                  _make_share_cell(count / total, direction, mark_ratio(low, low))]
                 for size, count in pages.items() if count]
    return PageTable("Size of network requests", "A request carried up to this much (4 KiB "
                     "pages).", ["Direction", "Up to", "Requests", "Share"], 1,
                     rows[:MOST_ROWS], _describe_rest(rows, MOST_ROWS)) if rows else None


def make_spread_table(fs: FileSystemRecord, nodes: int, units: str) -> PageTable | None:
    """Each metric's minimum, median and maximum over the nodes, without those that are all 0."""
    if nodes < 2 or not fs.per_node:
        return None
    rows = []
    shown = [(name, spread) for name, spread in fs.per_node.items()
             if not name.endswith("_us") or spread.max >= _SHORTEST_US]
    for name, spread in shown[:MOST_ROWS]:
        marks = mark_spread(fs, name)
        rows.append([format_metric_name(name), find_busiest(spread, marks), *(
            _format_marked(sign, format_amount(name, spread[at], units))
            for sign, at in zip(marks, ("min", "median", "max")))])
    return PageTable("Spread over the nodes", "", ["Metric", "Busiest node", "Least", "Median",
                                                   "Most"], 2, rows,
                     _describe_rest(shown, MOST_ROWS))


def make_counter_table(fs: FileSystemRecord, units: str) -> PageTable | None:
    """Make the table of counters that no other table has."""
    low = mark_source(fs, "llite")
    rows = [["llite", name, _format_marked(low, format_amount(name, value, units) if name.endswith((
             "_bytes", "_us")) else f"{value:,}")]
            for name, value in (fs.other or {}).items() if value]
    rows += [[sources.get_title(source), format_metric_name(name),
              _format_marked(get_mark(counted.lower_bound, sources.is_upper_bound(source, name)),
                             format_amount(name, value, units))]
             for source, counted in fs.sources.items() for name, value in counted.totals.items()]
    return PageTable("Other counters", "", ["Counter", "Metric", "Total"], 2, rows[:MOST_ROWS],
                     _describe_rest(rows, MOST_ROWS)) if rows else None


def make_phase_table(record: Record, idle: set[str], units: str) -> PageTable | None:
    """One row for each part of the job and file system."""
    rows = []
    for phase in record.phases:
        for fs in (fs for fs in phase.file_systems if fs.name not in idle):
            rows.append([
                phase.name, fs.label, f"{phase.elapsed_s:,.1f}",
                *(format_program_bytes(fs, f"{direction}_bytes", units)
                  for direction in ("read", "write")),
                "-" if fs.operations is None else _format_marked(
                    mark(fs, "operations"), f"{count_all_operations(fs.operations):,}")])
    return PageTable("Parts of this job", "", ["Part", "File system", "Seconds", "Read", "Written",
                                               "Operations"], 2, rows[:MOST_ROWS],
                     _describe_rest(rows, MOST_ROWS)) if rows else None


def make_comparison_table(shown: Sequence[FileSystemRecord], harvested: Sequence[ServersFileSystem],
                          by_node: Sequence[NodesFileSystem], units: str) -> PageTable | None:
    """Make the table of the nodes' counts beside the storage servers' counts."""
    rows = [[side.label, _BY[side.counted_by], *(
        "-" if value is None else _format_marked(
            sign, format_bytes(value, units) if metric.endswith("_bytes") else f"{value:,}")
        for metric, value, sign in side.numbers),
        *(format_range(low, high, metric, units) for metric, low, high in side.bounds)]
        for side in make_sides(shown, harvested, by_node)]
    return PageTable("Nodes and storage servers", "", ["File system", "Counted", "Read", "Written",
                                                       "Reads", "Writes", "Operations"],
                     2, rows[:MOST_ROWS], _describe_rest(rows, MOST_ROWS)) if rows else None


def make_imported_table(record: Record, config: Config) -> PageTable | None:
    """Make the table of the totals that another tool has stored."""
    if record.imported is None:
        return None
    return PageTable(
        f"Imported from {record.imported.tool}", "The last totals that it has stored.",
        ["File system", *IMPORTED.values()], 1,
        [list(row) for row in storage_server_tables.list_imported_rows(record.imported, config)],
        "")


def make_part_tables(harvested: Sequence[ServersFileSystem], units: str) -> list[PageTable]:
    """Make the tables of I/O by step and by program, those with most bytes."""
    made = []
    for heading, member in storage_server_tables.PARTS:
        counted = [(fs, storage_server_tables.list_busiest(getattr(fs, member), units))
                   for fs in harvested]
        rows = [[fs.label, name, *(_format_marked(mark_layer(fs), text) for text in texts)]
                for fs, busiest in counted for name, texts in storage_server_tables.sort_parts(
                    busiest[:MOST_ROWS], heading)]
        if rows:
            made.append(PageTable(
                f"By {heading.lower()}", "As the storage servers counted the requests of each.",
                ["File system", heading, "Read", "Written", "Operations"], 2, rows[:MOST_ROWS],
                _describe_rest([row for _, busiest in counted for row in busiest], MOST_ROWS)))
    return made


def make_server_operation_table(fs: ServersFileSystem) -> PageTable | None:
    """Operations of the job at the storage servers."""
    low = mark_layer(fs)
    rows = [[name, _format_marked(low, f"{row.count:,}"),
             "-" if row.seconds is None else _format_marked(low, f"{row.seconds:,.3f}")]
            for name, row in fs.operations.items() if row.count]
    return PageTable(f"{fs.label}: operations at the storage servers", "",
                     ["Operation", "Count", "Seconds"], 1, rows[:MOST_ROWS],
                     _describe_rest(rows, MOST_ROWS)) if rows else None


def make_other_job_table(history: JobHistory, labels: dict[str, str],
                         units: str) -> PageTable | None:
    """Make the table of other jobs on the targets of this one, those with most bytes first."""
    jobs = []
    for target in history.targets:
        for job in target.others:
            read, written, requests = (
                compute_total(job.line, metric, history.began, history.ended)[0]
                for metric in ("read_bytes", "write_bytes", "requests"))
            if not (read or written or requests):
                continue
            jobs.append((-(read + written), -requests, [
                labels.get(target.file_system, target.file_system), target.target,
                job.job or "(another user's)", job.user or "-", format_bytes(read, units),
                format_bytes(written, units), f"{requests:,}" if requests else "-"]))
    jobs.sort(key=lambda row: row[:2])
    return PageTable(
        "Other jobs on the same targets", "While this job ran, as the storage servers counted it.",
        ["File system", "Target", "Job", "User", "Read", "Written", "Requests"], 4,
        [row for *_, row in jobs[:_MOST_TARGETS]],
        _describe_rest(jobs, _MOST_TARGETS)) if jobs else None


def make_event_table(rows: Sequence[EventRow], more: int) -> PageTable:
    """Make the table of events; the worst first."""
    words = {0: "info", 1: "warning", 2: "critical", 3: "fatal"}
    shown = [[row.time, words.get(row.severity, "-"),
              row.what + (f"; data {row.data}" if row.data else ""),
              row.nodes, row.where, row.message or "-", row.how_long] for row in rows[:MOST_ROWS]]
    hidden = max(0, len(rows) - MOST_ROWS) + more
    return PageTable("Events during this job", "",
                     ["Time", "Severity", "What", "Node", "Target", "Kernel", "For"], 6, shown,
                     f"and {hidden:,} more" if hidden else "")


def make_meaning_table(shown: Sequence[FileSystemRecord]) -> PageTable:
    """Make the table with the meaning and the source of each number of the page."""
    happened = {name for fs in shown for name, row in (fs.operations or {}).items() if row.count}
    happened -= {OTHERS}
    rows = [[metric.name, f"{metric.meaning} {metric.caveat}".strip(),
             f"{metric.source}: {metric.counter}, {metric.takes}; {metric.unit}; "
             f"since Lustre {metric.since}"]
            for metric in select_metrics(happened)]
    rows += [[name, "Unknown to this release of iostats: the kernel's counter of that name.",
              f"llite: {name}"]
             for name in sorted(happened - {metric.name for metric in METRICS})[:9]]
    return PageTable("What each number is", "", ["Number", "What it is", "Where it comes from"], 3,
                     rows)
