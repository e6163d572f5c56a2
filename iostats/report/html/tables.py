"""
The tables of a job's page: headings and rows of text, of which templates make HTML.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.units import amount_text, bytes_text, percent_text, range_text
from iostats.load.time_lines import total
from iostats.lustre.metric_meanings import METRICS
from iostats.lustre.metrics import operations_in
from iostats.node import sources
from iostats.report.accounting_comment import OTHERS
from iostats.report.explanation import metrics_of
from iostats.report.job_numbers import (
    APPLICATION,
    BY_NODE,
    NETWORK,
    SERVERS,
    most_asked,
    request_size_text,
    sides_of,
    transfers_of,
    with_calls,
)
from iostats.report.text_table import busiest_of, bytes_of_programs
from iostats.totals.bounds import (
    mark,
    mark_of_layer,
    mark_of_node_mean,
    mark_of_operation,
    mark_of_ratio,
    mark_of_source,
    marks_of_spread,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.load.time_lines import JobHistory
    from iostats.report.event_tables import EventRow
    from iostats.totals.record import FileSystemRecord, NodesFileSystem, Record, ServersFileSystem

MOST_ROWS = 40                      # of one table of operations or counters
_MOST_TARGETS = 20
_DONE = {"read": "Read", "write": "Written"}
_BY = {APPLICATION: "by the application", NETWORK: "over the network",
       SERVERS: "on OSS and MDS, by job id", BY_NODE: "on OSS and MDS, by its nodes"}

PageTable = namedtuple("PageTable", "title about headings left rows rest", defaults=("",))
PageTable.__doc__ = """
A table.

Attributes:
    title: its caption.
    about: a sentence on its numbers, or "".
    headings: [text] of the columns.
    left: how many of the first columns are text; the others are numbers.
    rows: [[text, or a ShareCell]]; the first cell of a row is its heading.
    rest: what is not in it, or "".
"""

ShareCell = namedtuple("ShareCell", "share kind text")
ShareCell.__doc__ = """A cell with a bar of `share` (0 to 1) beside its text; `kind`: of a curve."""


def file_systems(shown: Sequence[FileSystemRecord], units: str) -> PageTable:
    """What programs read, wrote and did, a row for each file system."""
    rows = []
    for fs in shown:
        rows.append([
            fs.label,
            *(bytes_of_programs(fs, f"{way}_bytes", units) for way in ("read", "write")),
            "-" if fs.operations is None else _marked(
                mark(fs, "operations"), f"{operations_in(fs.operations):,}"),
            *(_layer(fs.network, f"{way}_bytes", units) for way in ("read", "write"))])
    return PageTable("File systems", "", ["File system", "Read", "Written", "Operations",
                                          "Network read", "Network written"],
                     1, rows[:MOST_ROWS], _rest(rows, MOST_ROWS))


def _marked(sign: str, text: str) -> str:
    return sign + text


def _layer(numbers: dict[str, Any] | None, metric: str, units: str) -> str:
    value = None if numbers is None else numbers[metric]
    if value is None:
        return "-"
    return _marked(mark_of_layer(numbers), bytes_text(value, units) if metric.endswith("_bytes")
                   else f"{value:,}")


def transfers(fs: FileSystemRecord, units: str) -> PageTable:
    """Bytes, calls and their mean size, by the application and over the network."""
    rows = [[f"{_DONE[one.way]} {_BY[one.layer]}",
             "-" if one.total is None else _marked(one.of_bytes, bytes_text(one.total, units)),
             "-" if one.count is None else _marked(one.of_calls, f"{one.count:,}"),
             "-" if one.mean is None else _marked(
                 one.of_mean, bytes_text(one.total // one.count, units))]
            for one in transfers_of(fs)]
    return PageTable("Transfers", "", ["Transfer", "Bytes", "Calls, requests", "Mean size"], 1,
                     rows)


def operations(fs: FileSystemRecord) -> PageTable | None:
    """Each operation: how often, and how long; those that took longest first."""
    low = mark(fs, "operations")
    of_mean = mark_of_ratio(low, low)
    busy = sorted(((name, row) for name, row in with_calls(fs).items() if row.count),
                  key=lambda one: (-(one[1].seconds or 0), -one[1].count, one[0]))
    if not busy:
        return None
    whole = sum(row.seconds or 0 for _, row in busy)
    rows: list[list[Any]] = []
    for name, row in busy[:MOST_ROWS]:
        seconds = row.seconds
        rows.append([
            name, _marked(mark_of_operation(fs, name), f"{row.count:,}"),
            "-" if seconds is None else _marked(low, f"{seconds:,.3f}"),
            "-" if seconds is None else _marked(of_mean, f"{seconds / row.count * 1000:,.3f}"),
            "-" if row.stddev_s is None else _marked(of_mean, f"{row.stddev_s * 1000:,.3f}"),
            "-" if seconds is None or not whole else _share(seconds / whole, "latency", of_mean)])
    return PageTable(
        "Operations and their time",
        "Seconds are of all threads of all nodes together, so they may be more than the job took; "
        "a create is also in its open.",
        ["Operation", "Count", "Seconds", "Mean ms", "Std. dev. ms", "Share of time"], 1, rows,
        _rest(busy, MOST_ROWS))


def _share(share: float, kind: str, sign: str) -> ShareCell:
    return ShareCell(share, kind, _marked(sign, percent_text(share, bool(sign))))


def _rest(found: Sequence[Any], most: int) -> str:
    return f"and {len(found) - most:,} more" if len(found) > most else ""


def metadata(fs: FileSystemRecord) -> PageTable | None:
    """What each MDT was asked; the busiest first."""
    low, of_mean = mark_of_source(fs, "md_stats"), mark_of_node_mean(fs, "md_stats")
    rows = []
    targets = sorted(fs.metadata.items(), key=lambda one: (-one[1].requests, one[0]))
    for target, found in targets[:_MOST_TARGETS]:
        rate = found.per_second_per_node
        rows.append([target, ", ".join(f"{name} {_marked(low, f'{count:,}')}"
                                       for name, count in most_asked(found)) or "-",
                     found.peak.node if found.peak else "-",
                     _marked(low, f"{found.requests:,}"),
                     "-" if rate is None else _marked(of_mean, f"{rate:,.1f}"),
                     _marked(low, f"{found.peak.per_second:,.1f}") if found.peak else "-"])
    return PageTable(
        "Metadata requests by MDT", "Rates are per second and node: the mean, and the peak of one "
        "node over its whole time.",
        ["MDT", "Most", "Peak node", "Requests", "Average", "Peak"], 3, rows,
        _rest(targets, _MOST_TARGETS)) if rows else None


def sizes(fs: FileSystemRecord) -> PageTable | None:
    """How large the network requests were."""
    low, rows = mark_of_source(fs, "rpc_stats"), []
    for way, pages in (fs.request_pages or {}).items():
        total = sum(pages.values())
        rows += [[way, request_size_text(size), _marked(low, f"{count:,}"),
                  _share(count / total, way, mark_of_ratio(low, low))]
                 for size, count in pages.items() if count]
    return PageTable("Size of network requests", "A request carried up to this much (4 KiB "
                     "pages).", ["Direction", "Up to", "Requests", "Share"], 1,
                     rows[:MOST_ROWS], _rest(rows, MOST_ROWS)) if rows else None


def spread(fs: FileSystemRecord, nodes: int, units: str) -> PageTable | None:
    """Least, median and most of a node, of each metric."""
    if nodes < 2 or not fs.per_node:
        return None
    rows = []
    for name, found in list(fs.per_node.items())[:MOST_ROWS]:
        marks = marks_of_spread(fs, name)
        rows.append([name, busiest_of(found, marks), *(
            _marked(sign, amount_text(name, found[at], units) if name.endswith("_bytes")
                    else f"{found[at]:,}") for sign, at in zip(marks, ("min", "median", "max")))])
    return PageTable("Spread over the nodes", "", ["Metric", "Busiest node", "Least", "Median",
                                                   "Most"], 2, rows,
                     _rest(list(fs.per_node), MOST_ROWS))


def other_counters(fs: FileSystemRecord, units: str) -> PageTable | None:
    """What has no place in the other tables."""
    low = mark_of_source(fs, "llite")
    rows = [["llite", name, _marked(low, amount_text(name, value, units) if name.endswith((
             "_bytes", "_us")) else f"{value:,}")]
            for name, value in (fs.other or {}).items() if value]
    rows += [[sources.title_of(source), name,
              _marked(">= " if counted.lower_bound else "", amount_text(name, value, units))]
             for source, counted in fs.sources.items() for name, value in counted.totals.items()]
    return PageTable("Other counters", "", ["Counter", "Metric", "Total"], 2, rows[:MOST_ROWS],
                     _rest(rows, MOST_ROWS)) if rows else None


def phases(record: Record, idle: set[str], units: str) -> PageTable | None:
    """One row for each part of the job and file system."""
    rows = []
    for phase in record.phases:
        for fs in (fs for fs in phase.file_systems if fs.name not in idle):
            rows.append([
                phase.name, fs.label, f"{phase.elapsed_s:,.1f}",
                *(bytes_of_programs(fs, f"{way}_bytes", units) for way in ("read", "write")),
                "-" if fs.operations is None else _marked(
                    mark(fs, "operations"), f"{operations_in(fs.operations):,}")])
    return PageTable("Parts of this job", "", ["Part", "File system", "Seconds", "Read", "Written",
                                               "Operations"], 2, rows[:MOST_ROWS],
                     _rest(rows, MOST_ROWS)) if rows else None


def both_sides(shown: Sequence[FileSystemRecord], harvested: Sequence[ServersFileSystem],
               by_node: Sequence[NodesFileSystem], units: str) -> PageTable | None:
    """What the nodes counted, and what the storage servers did."""
    rows = [[side.label, _BY[side.counted_by], *(
        "-" if value is None else _marked(
            sign, bytes_text(value, units) if metric.endswith("_bytes") else f"{value:,}")
        for metric, value, sign in side.numbers),
        *(range_text(low, high, metric, units) for metric, low, high in side.bounds)]
        for side in sides_of(shown, harvested, by_node)]
    return PageTable("Nodes and storage servers", "", ["File system", "Counted", "Read", "Written",
                                                       "Reads", "Writes", "Operations"],
                     2, rows[:MOST_ROWS], _rest(rows, MOST_ROWS)) if rows else None


def server_operations(fs: ServersFileSystem) -> PageTable | None:
    """Operations of the job at the storage servers."""
    low = mark_of_layer(fs)
    rows = [[name, _marked(low, f"{row.count:,}"),
             "-" if row.seconds is None else _marked(low, f"{row.seconds:,.3f}")]
            for name, row in fs.operations.items() if row.count]
    return PageTable(f"{fs.label}: operations at the storage servers", "",
                     ["Operation", "Count", "Seconds"], 1, rows[:MOST_ROWS],
                     _rest(rows, MOST_ROWS)) if rows else None


def others(history: JobHistory, labels: dict[str, str], units: str) -> PageTable | None:
    """Which other jobs loaded the targets that this one used, those with most bytes first."""
    found = []
    for target in history.targets:
        for other in target.others:
            read, written, requests = (
                total(other.line, metric, history.began, history.ended)[0]
                for metric in ("read_bytes", "write_bytes", "requests"))
            if not (read or written or requests):
                continue
            found.append((-(read + written), -requests, [
                labels.get(target.file_system, target.file_system), target.target,
                other.job or "(another user's)", other.user or "-", bytes_text(read, units),
                bytes_text(written, units), f"{requests:,}" if requests else "-"]))
    found.sort(key=lambda one: one[:2])
    return PageTable(
        "Other jobs on the same targets", "While this job ran, as the storage servers counted it.",
        ["File system", "Target", "Job", "User", "Read", "Written", "Requests"], 4,
        [row for *_, row in found[:_MOST_TARGETS]], _rest(found, _MOST_TARGETS)) if found else None


def events(rows: Sequence[EventRow], more: int) -> PageTable:
    """What went wrong; worst first."""
    words = {0: "info", 1: "warning", 2: "critical", 3: "fatal"}
    shown = [[row.time, words.get(row.severity, "-"),
              row.what + (f"; data {row.data}" if row.data else ""),
              row.nodes, row.where, row.message or "-", row.how_long] for row in rows[:MOST_ROWS]]
    hidden = max(0, len(rows) - MOST_ROWS) + more
    return PageTable("Events during this job", "",
                     ["Time", "Severity", "What", "Node", "Target", "Kernel", "For"], 6, shown,
                     f"and {hidden:,} more" if hidden else "")


def meanings(shown: Sequence[FileSystemRecord]) -> PageTable:
    """What each number of the page is, and where it is from."""
    happened = {name for fs in shown for name, row in (fs.operations or {}).items() if row.count}
    happened -= {OTHERS}
    rows = [[one.name, f"{one.meaning} {one.caveat}".strip(),
             f"{one.source}: {one.counter}, {one.takes}; {one.unit}; since Lustre {one.since}"]
            for one in metrics_of(happened)]
    rows += [[name, "Not known to this release of iostats: the kernel's counter of that name.",
              f"llite: {name}"] for name in sorted(happened - {one.name for one in METRICS})[:9]]
    return PageTable("What each number is", "", ["Number", "What it is", "Where it comes from"], 3,
                     rows)

