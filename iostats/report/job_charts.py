"""
The charts of a job's record: over time, by OST, MDT and node, and by the size of requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from iostats.events.kinds import INFO
from iostats.load.time_lines import (
    FileSystemHistory,
    JobHistory,
    Line,
    compute_latencies_us,
    count_intervals,
    has_lower_bounds,
)
from iostats.lustre.metrics import is_operation
from iostats.report.charts.chart import (
    MOST_BARS,
    Chart,
    Curve,
    Mark,
    NameAxis,
    Panel,
    TimeAxis,
    join_names,
)
from iostats.report.job_numbers import format_request_size
from iostats.totals.bounds import get_mark, mark, mark_source
from iostats.totals.record import FileSystemRecord, Record

_MOST_MARKS = 9
_LEAST_AROUND = 12                  # intervals before and after a job, beside all jobs
_MOVED = (("read_bytes", "Read", "read"), ("write_bytes", "Written", "write"))
_IN_TIME = (*((metric, title, kind, "bytes/s") for metric, title, kind in _MOVED),
            ("operations", "Operations", "operations", "/s"))


def sort_by_importance(file_systems: Iterable[FileSystemRecord]) -> list[FileSystemRecord]:
    """
    Sort file systems by the job's time in them, the longest first; then by bytes, and by name.
    """
    def order(fs: FileSystemRecord) -> tuple[float, int, str]:
        rows = [*(fs.calls or {}).values(), *(fs.operations or {}).values()]
        programs = fs.application
        moved = (programs.read_bytes or 0) + (programs.write_bytes or 0) if programs else 0
        return -sum(row.seconds or 0 for row in rows), -moved, fs.name
    return sorted(file_systems, key=order)


def make_time_chart(record: Record, fs: FileSystemRecord, history: JobHistory | None = None,
                    _most: int = MOST_BARS) -> Chart | None:
    """
    Rates of a file system over the job's time: as `watch` has seen them on the nodes, or else as
    the storage servers have (`history`); None where neither has.
    """
    began, series = record.job.started, fs.series
    if series is not None:
        return _make_chart_over_time(
            "I/O over time", fs.label,
            f"Sum of the {series.nodes} nodes that ran watch, in intervals of {series.every_s:g} "
            f"s.", record, series.began - (series.began if began is None else began),
            series.every_s,
            {metric: (series[metric], None) for metric, *_ in _IN_TIME},
            lambda metric: mark(fs, metric))
    line = _find_history(history, fs.name)
    of_job = line.job if line is not None else None
    if began is None or of_job is None:
        return None
    return _make_chart_over_time(
        "I/O over time", fs.label,
        f"What the storage servers counted for this job, in intervals of {of_job.every_s:g} s.",
        record, of_job.began - began, of_job.every_s,
        {metric: (_find_amounts(of_job, metric), None) for metric, *_ in _IN_TIME},
        lambda _: get_mark(has_lower_bounds(of_job), False))


def make_load_chart(record: Record, name: str, label: str,
                    history: JobHistory | None) -> Chart | None:
    """A file system at its storage servers: this job, and all jobs together; None if not known."""
    line, began = _find_history(history, name), record.job.started
    if line is None or line.all is None or began is None:
        return None
    of_all = _cut_to_job(line.all, began, record.job.ended)
    job = _align_with(of_all, line.job, began, record.job.ended)
    columns = {metric: (job(metric), _find_amounts(of_all, metric)) for metric, *_ in _IN_TIME}
    chart = _make_chart_over_time(
        "This job among all jobs", label,
        f"What the storage servers counted for this job (area) and for all jobs (dashed line), in "
        f"intervals of {of_all.every_s:g} s.", record, of_all.began - began, of_all.every_s,
        columns, lambda _: get_mark(any(line_of is not None and has_lower_bounds(line_of)
                                        for line_of in (of_all, line.job)), False))
    panel = make_latency_panel(of_all, "Mean time of a request, all jobs")
    if panel is not None:
        if chart is None:
            axis = _make_time_axis(record, of_all.began - began, of_all.every_s,
                                   count_intervals(of_all))
            return Chart("Time of requests", "Mean of all jobs' requests.", axis, [panel],
                         _make_marks(record, axis), label)
        chart = chart._replace(panels=[*chart.panels, panel])
    return chart


def make_latency_panel(line: Line, title: str) -> Panel | None:
    """Make the panel of mean request times in milliseconds; None if no interval has one."""
    times = [None if us is None else us / 1000 for us in compute_latencies_us(line)]
    return Panel(title, "ms", [Curve("mean time of a request", "latency", times)]) if any(
        times) else None


def _make_chart_over_time(title: str, file_system: str, about: str, record: Record, began: float,
                          every_s: float,
                          columns: Mapping[str, tuple[list[Any], list[Any] | None]],
                          find_mark: Callable[[str], str]) -> Chart | None:
    """Make a chart of {metric: (amounts of the job, those of all jobs or None)}."""
    panels, count = [], 0
    for metric, name, kind, unit in _IN_TIME:
        amounts, of_all_jobs = columns[metric]
        count = max(count, len(amounts), len(of_all_jobs or ()))
        if not any(amounts) and not any(of_all_jobs or ()):
            continue
        curves = [Curve(f"{name.lower()}{' by this job' if of_all_jobs else ''}", kind,
                        _make_rates(amounts, every_s))]
        if of_all_jobs:
            curves.append(Curve("all jobs", "all", _make_rates(of_all_jobs, every_s)))
        panels.append(Panel(name, unit, curves, find_mark(metric)))
    if not panels or not count or every_s <= 0:
        return None
    axis = _make_time_axis(record, began, every_s, count)
    marks = _make_marks(record, axis)
    if marks:
        about += f" {len(marks)} {'event is' if len(marks) == 1 else 'events are'} marked."
    return Chart(title, about, axis, panels, marks, file_system)


def _make_time_axis(record: Record, began: float, every_s: float, count: int) -> TimeAxis:
    """A TimeAxis that has all of the job's time, with clock times where its start is known."""
    started, ended = record.job.started, record.job.ended
    return TimeAxis(began, every_s, count, started, 0.0,
                    None if started is None or ended is None else ended - started)


def _make_rates(amounts: Sequence[float | None], every_s: float) -> list[float | None]:
    return [None if amount is None else amount / every_s for amount in amounts]


def _make_marks(record: Record, axis: TimeAxis) -> list[Mark]:
    """Make the marks of the events that hit the job, warnings and worse."""
    began = record.job.started
    marks = [] if began is None else [
        Mark(event.time - began,
             f"{event.kind.replace('_', ' ')} {event.target or event.file_system}")
        for event in record.events or () if event.severity > INFO and event.is_certain
        and axis.began <= event.time - began <= axis.began + axis.every_s * axis.count]
    return marks[:_MOST_MARKS]


def _find_history(history: JobHistory | None, name: str) -> FileSystemHistory | None:
    return next((fs for fs in history.file_systems if fs.name == name), None) if history else None


def _find_amounts(line: Line, metric: str) -> list[Any]:
    amounts: list[Any] = line.amounts.get(metric) or []
    return amounts


def _cut_to_job(line: Line, began: float, ended: float | None) -> Line:
    """Cut a time series to the job's time, and as many intervals before and after it."""
    last = line.began + count_intervals(line) * line.every_s
    ended = max(began, last if ended is None else ended)
    around = max(ended - began, _LEAST_AROUND * line.every_s)
    first = max(0, int((began - around - line.began) // line.every_s))
    end = max(first, int(-(-(ended + around - line.began) // line.every_s)))
    return line._replace(
        began=line.began + first * line.every_s, known=line.known and line.known[first:end],
        amounts={metric: values[first:end] for metric, values in line.amounts.items()})


def _align_with(whole: Line, part: Line | None, began: float,
                ended: float | None) -> Callable[[str], list[Any]]:
    """
    Return a function that fits the amounts of a metric in `part` to the intervals of `whole`, which
    may be longer: None if unknown, or if they do not fit; 0 before `began` and after `ended`.
    """
    length = count_intervals(whole)
    each = 0.0 if part is None else whole.every_s / part.every_s
    ahead = 0.0 if part is None else (part.began - whole.began) / part.every_s
    fits = each > 0.99 and all(abs(number - round(number)) < 0.01 for number in (each, ahead))

    def values(metric: str) -> list[Any]:
        aligned: list[Any] = [None] * length
        if not fits or part is None:
            return aligned
        for number in range(length):
            at = whole.began + number * whole.every_s
            if at + whole.every_s <= began or (ended is not None and at >= ended):
                aligned[number] = 0
        joined: dict[int, list[Any]] = {}
        for number, amount in enumerate(_find_amounts(part, metric)):
            joined.setdefault((number + round(ahead)) // round(each), []).append(amount)
        for at_place, amounts in joined.items():
            if 0 <= at_place < length:
                aligned[at_place] = None if None in amounts else sum(amounts)
        return aligned
    return values


def make_ost_chart(record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
                   limit: int = MOST_BARS) -> Chart | None:
    """Bytes by OST, as the nodes have counted them or else the storage servers; None: not known."""
    sign, targets, where = mark_source(fs, "osc"), _sort_osts(fs.targets), "the nodes"
    if not targets and record.harvest:
        for there in record.harvest.file_systems:
            if there.name == fs.name:
                sign, targets, where = get_mark(there.lower_bound, False), _sort_osts(
                    there.targets), "storage servers"
    if not targets:
        return None
    names = sorted(targets, key=_make_sort_key)
    return _make_chart_by_name(
        "Bytes by OST", fs.label, f"What {where} counted at each of {len(names):,} OSTs.", names,
        [(title, kind, "bytes", [targets[name].get(metric, 0) for name in names], sign)
         for metric, title, kind in _MOVED], limit)


def _sort_osts(targets: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: values for name, values in targets.items() if name.startswith("OST")}


def make_mdt_chart(_record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
                   limit: int = MOST_BARS) -> Chart | None:
    """Metadata requests by MDT; None where not two of them are known."""
    names = sorted(fs.metadata, key=_make_sort_key)
    return _make_chart_by_name(
        "Metadata requests by MDT", fs.label,
        f"What the nodes asked of each of {len(names)} MDTs.", names,
        [("Requests", "operations", "count", [fs.metadata[name].requests for name in names],
          mark_source(fs, "md_stats"))], limit)


def make_node_chart(record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
                    limit: int = MOST_BARS) -> Chart | None:
    """Make the chart of I/O by node; None if the record has no single nodes."""
    by_node: dict[str, dict[str, int] | None] = {}
    for name, node in record.nodes.items():
        parts: Any = json.loads(node) if isinstance(node, str) else node
        by_node[name] = parts["file_systems"].get(fs.name)
    by_node.update({name: None for name in record.coverage.missing if name not in by_node})
    if not any(by_node.values()):
        return None
    names = sorted(by_node, key=_make_sort_key)
    rows = [by_node[name] for name in names]
    none = sum(row is None for row in rows)
    about = f"What programs did on each of {len(names):,} nodes."
    if none:
        about += f" No data for {none} of them."
    return _make_chart_by_name("I/O by node", fs.label, about, names, [
        *((title, kind, "bytes", [None if row is None else row.get(metric, 0) for row in rows],
           mark(fs, metric)) for metric, title, kind in _MOVED),
        *((f"Time in {direction}", direction, "s",
           [None if row is None else row.get(f"{direction}_us", 0) / 1e6 for row in rows],
           mark(fs, "operations")) for direction in ("read", "write")),
        ("Operations", "operations", "count",
         [None if row is None else sum(value for metric, value in row.items()
                                       if is_operation(metric)) for row in rows],
         mark(fs, "operations"))], limit)


def make_size_chart(_record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
                    _most: int = MOST_BARS) -> Chart | None:
    """Make the chart of request sizes, as shares of the number of requests; None if unknown."""
    pages = fs.request_pages
    ways = [(title, kind, pages[kind]) for title, kind in (
        ("Read requests", "read"), ("Write requests", "write"))] if pages else []
    sizes = sorted({size for _, _, counts in ways for size in counts}, key=_make_sort_key)
    if not any(any(counts.values()) for _, _, counts in ways):
        return None
    panels = []
    for title, kind, counts in ways:
        total = sum(counts.values())
        if total:
            panels.append(Panel(f"{title} ({total:,})", "share", [Curve(title.lower(), kind, [
                counts.get(size, 0) / total for size in sizes])],
                mark_source(fs, "rpc_stats")))
    return Chart("Size of network requests",
                 "Share of the requests that carried up to this much (4 KiB pages).",
                 NameAxis(list(map(format_request_size, sizes))), panels, of=fs.label)


def _make_chart_by_name(title: str, file_system: str, about: str, names: list[str],
                        candidates: Sequence[tuple[str, str, str, list[Any], str]],
                        limit: int) -> Chart | None:
    """
    A chart of [(title, kind, unit, values, mark)], without panels of zeros; None where
    there are no two names to be compared.
    """
    shown = [panel for panel in candidates if any(panel[3])]
    if not shown or len(names) < 2:
        return None
    axis, columns = join_names(names, [values for *_, values, _ in shown], limit)
    if axis.each > 1:
        about += f" Each bar is the highest of {axis.each} neighbours."
    panels = []
    for (name, kind, unit, values, sign), column in zip(shown, columns):
        numbers = [value for value in values if value is not None]
        even = sum(numbers) / len(numbers) if len(numbers) > 1 and axis.each == 1 else None
        panels.append(Panel(name, unit, [Curve(name.lower(), kind, column)], sign, even))
    return Chart(title, about, axis, panels, of=file_system)


def _make_sort_key(name: str) -> list[tuple[int, int | str]]:
    """
    Return a key that sorts OST2 before OST10; hexadecimal names of one length sort correctly
    anyway.

    >>> sorted(["nid10", "nid9", "OST000a", "OST0002"], key=_make_sort_key)
    ['OST0002', 'OST000a', 'nid9', 'nid10']
    """
    if re.fullmatch(r"(OST|MDT)[0-9a-f]{4}", name):
        return [(1, name[:3]), (0, int(name[3:], 16))]
    return [(0, int(part)) if part.isdecimal() and len(part) < 16 else (1, part)
            for part in re.split(r"(\d+)", name) if part]


# In the order of the page; each of (record, file system, history or None, most bars).
CHARTS = {"time": make_time_chart, "osts": make_ost_chart, "nodes": make_node_chart,
          "sizes": make_size_chart,
          "mdts": make_mdt_chart}
