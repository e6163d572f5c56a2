"""
The charts of a job's record: over time, by OST, MDT and node, and by the size of requests.
"""

from __future__ import annotations

import json
import re

from iostats.events.kinds import INFO
from iostats.load.time_lines import has_lower_bounds, latencies_us, length_of
from iostats.lustre.metrics import is_operation
from iostats.report.charts.chart import (
    MOST_BARS,
    Chart,
    Curve,
    Mark,
    NameAxis,
    Panel,
    TimeAxis,
    fewer,
)
from iostats.report.job_numbers import request_size_text
from iostats.totals.bounds import mark, mark_of_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.load.time_lines import FileSystemHistory, JobHistory, Line
    from iostats.totals.record import FileSystemRecord, Record

_MOST_MARKS = 9
_LEAST_AROUND = 12                  # intervals before and after a job, beside all jobs
_MOVED = (("read_bytes", "Read", "read"), ("write_bytes", "Written", "write"))
_IN_TIME = (*((metric, title, kind, "bytes/s") for metric, title, kind in _MOVED),
            ("operations", "Operations", "operations", "/s"))


def by_importance(file_systems: Iterable[FileSystemRecord]) -> list[FileSystemRecord]:
    """Those in which the job spent most time first; then by bytes, and by name."""
    def order(fs: FileSystemRecord) -> tuple[float, int, str]:
        rows = [*(fs.calls or {}).values(), *(fs.operations or {}).values()]
        programs = fs.application
        moved = (programs.read_bytes or 0) + (programs.write_bytes or 0) if programs else 0
        return -sum(row.seconds or 0 for row in rows), -moved, fs.name
    return sorted(file_systems, key=order)


def time_chart(record: Record, fs: FileSystemRecord, history: JobHistory | None = None,
               _most: int = MOST_BARS) -> Chart | None:
    """
    Rates of a file system over the job's time: as `watch` has seen them on the nodes, or else as
    the storage servers have (`history`); None where neither has.
    """
    began, series = record.job.started, fs.series
    if series is not None:
        return _of_time(
            "I/O over time", fs.label,
            f"Sum of the {series.nodes} nodes that ran watch, in intervals of {series.every_s:g} "
            f"s.", record, series.began - (series.began if began is None else began),
            series.every_s,
            {metric: (series[metric], None) for metric, *_ in _IN_TIME},
            lambda metric: bool(mark(fs, metric)))
    line = _line_of(history, fs.name)
    if line is None or began is None or line.job is None:
        return None
    return _of_time(
        "I/O over time", fs.label,
        f"What the storage servers counted for this job, in intervals of {line.job.every_s:g} s.",
        record, line.job.began - began, line.job.every_s,
        {metric: (_amounts(line.job, metric), None) for metric, *_ in _IN_TIME},
        lambda _: has_lower_bounds(line.job))


def load_chart(record: Record, name: str, label: str,
               history: JobHistory | None) -> Chart | None:
    """A file system at its storage servers: this job, and all jobs together; None if not known."""
    line, began = _line_of(history, name), record.job.started
    if line is None or line.all is None or began is None:
        return None
    line = line._replace(all=_near(line.all, began, record.job.ended))
    job = _on_the_grid_of(line.all, line.job, began, record.job.ended)
    columns = {metric: (job(metric), _amounts(line.all, metric)) for metric, *_ in _IN_TIME}
    chart = _of_time(
        "This job among all jobs", label,
        f"What the storage servers counted for this job (area) and for all jobs (dashed line), in "
        f"intervals of {line.all.every_s:g} s.", record, line.all.began - began, line.all.every_s,
        columns, lambda _: any(one is not None and has_lower_bounds(one)
                               for one in (line.all, line.job)))
    panel = latency_panel(line.all, "Mean time of a request, all jobs")
    if panel is not None:
        if chart is None:
            axis = _time_axis(record, line.all.began - began, line.all.every_s, length_of(line.all))
            return Chart("Time of requests", "Mean of all jobs' requests.", axis, [panel],
                         _marks(record, axis), label)
        chart = chart._replace(panels=[*chart.panels, panel])
    return chart


def latency_panel(line: Line, title: str) -> Panel | None:
    """What a request took in each interval, in milliseconds; None where that is nowhere known."""
    times = [None if us is None else us / 1000 for us in latencies_us(line)]
    return Panel(title, "ms", [Curve("mean time of a request", "latency", times)]) if any(
        times) else None


def _of_time(title: str, of: str, about: str, record: Record, began: float, every_s: float,
             columns: Mapping[str, tuple[list[Any], list[Any] | None]],
             is_low: Callable[[str], bool]) -> Chart | None:
    """A chart of {metric: (amounts of the job, those of all jobs or None)}."""
    panels, count = [], 0
    for metric, name, kind, unit in _IN_TIME:
        amounts, others = columns[metric]
        count = max(count, len(amounts), len(others or ()))
        if not any(amounts) and not any(others or ()):
            continue
        curves = [Curve(f"{name.lower()}{' by this job' if others else ''}", kind,
                        _per_second(amounts, every_s))]
        if others:
            curves.append(Curve("all jobs", "all", _per_second(others, every_s)))
        panels.append(Panel(name, unit, curves, is_low(metric)))
    if not panels or not count or every_s <= 0:
        return None
    axis = _time_axis(record, began, every_s, count)
    marks = _marks(record, axis)
    if marks:
        about += f" {len(marks)} {'event is' if len(marks) == 1 else 'events are'} marked."
    return Chart(title, about, axis, panels, marks, of)


def _time_axis(record: Record, began: float, every_s: float, count: int) -> TimeAxis:
    """A TimeAxis that has all of the job's time, with clock times where its start is known."""
    started, ended = record.job.started, record.job.ended
    return TimeAxis(began, every_s, count, started, 0.0,
                    None if started is None or ended is None else ended - started)


def _per_second(amounts: Sequence[float | None], every_s: float) -> list[float | None]:
    return [None if amount is None else amount / every_s for amount in amounts]


def _marks(record: Record, axis: TimeAxis) -> list[Mark]:
    """The events that hit the job, warnings and worse."""
    began = record.job.started
    found = [] if began is None else [
        Mark(one.time - began, f"{one.kind.replace('_', ' ')} {one.target or one.file_system}")
        for one in record.events or () if one.severity > INFO and one.is_certain
        and axis.began <= one.time - began <= axis.began + axis.every_s * axis.count]
    return found[:_MOST_MARKS]


def _line_of(history: JobHistory | None, name: str) -> FileSystemHistory | None:
    return next((fs for fs in history.file_systems if fs.name == name), None) if history else None


def _amounts(line: Line, metric: str) -> list[Any]:
    found: list[Any] = line.amounts.get(metric) or []
    return found


def _near(line: Line, began: float, ended: float | None) -> Line:
    """Of a line the intervals of the job's time, and as many before and after it."""
    last = line.began + length_of(line) * line.every_s
    ended = max(began, last if ended is None else ended)
    around = max(ended - began, _LEAST_AROUND * line.every_s)
    first = max(0, int((began - around - line.began) // line.every_s))
    end = max(first, int(-(-(ended + around - line.began) // line.every_s)))
    return line._replace(
        began=line.began + first * line.every_s, known=line.known and line.known[first:end],
        amounts={metric: values[first:end] for metric, values in line.amounts.items()})


def _on_the_grid_of(whole: Line, part: Line | None, began: float,
                    ended: float | None) -> Callable[[str], list[Any]]:
    """
    What makes [amount] of `part` in the intervals of `whole`, which may be longer: None where they
    are not known, or do not fit; 0 before `began` and after `ended`.
    """
    length = length_of(whole)
    each = 0.0 if part is None else whole.every_s / part.every_s
    ahead = 0.0 if part is None else (part.began - whole.began) / part.every_s
    fits = each > 0.99 and all(abs(number - round(number)) < 0.01 for number in (each, ahead))

    def values(metric: str) -> list[Any]:
        found: list[Any] = [None] * length
        if not fits or part is None:
            return found
        for number in range(length):
            at = whole.began + number * whole.every_s
            if at + whole.every_s <= began or (ended is not None and at >= ended):
                found[number] = 0
        joined: dict[int, list[Any]] = {}
        for number, amount in enumerate(_amounts(part, metric)):
            joined.setdefault((number + round(ahead)) // round(each), []).append(amount)
        for at_place, amounts in joined.items():
            if 0 <= at_place < length:
                found[at_place] = None if None in amounts else sum(amounts)
        return found
    return values


def ost_chart(record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
              most: int = MOST_BARS) -> Chart | None:
    """Bytes by OST, as the nodes have counted them or else the storage servers; None: not known."""
    low, targets, where = bool(mark_of_source(fs, "osc")), _osts(fs.targets), "the nodes"
    if not targets and record.harvest:
        for there in record.harvest.file_systems:
            if there.name == fs.name:
                low, targets, where = there.lower_bound, _osts(there.targets), "storage servers"
    if not targets:
        return None
    names = sorted(targets, key=_in_order)
    return _of_names(
        "Bytes by OST", fs.label, f"What {where} counted at each of {len(names)} OSTs.", names,
        [(title, kind, "bytes", [targets[name].get(metric, 0) for name in names], low)
         for metric, title, kind in _MOVED], most)


def _osts(targets: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: values for name, values in targets.items() if name.startswith("OST")}


def mdt_chart(_record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
              most: int = MOST_BARS) -> Chart | None:
    """Metadata requests by MDT; None where not two of them are known."""
    names = sorted(fs.metadata, key=_in_order)
    return _of_names(
        "Metadata requests by MDT", fs.label,
        f"What the nodes asked of each of {len(names)} MDTs.", names,
        [("Requests", "operations", "count", [fs.metadata[name].requests for name in names],
          bool(mark_of_source(fs, "md_stats")))], most)


def node_chart(record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
               most: int = MOST_BARS) -> Chart | None:
    """What each node's programs did; None where there are no single nodes."""
    found: dict[str, dict[str, int] | None] = {}
    for name, node in record.nodes.items():
        parts: Any = json.loads(node) if isinstance(node, str) else node
        found[name] = parts["file_systems"].get(fs.name)
    found.update({name: None for name in record.coverage.missing if name not in found})
    if not any(found.values()):
        return None
    names = sorted(found, key=_in_order)
    rows = [found[name] for name in names]
    none = sum(row is None for row in rows)
    about = f"What programs did on each of {len(names)} nodes."
    if none:
        about += f" Of {none} of them nothing is known."
    return _of_names("I/O by node", fs.label, about, names, [
        *((title, kind, "bytes", [None if row is None else row.get(metric, 0) for row in rows],
           bool(mark(fs, metric))) for metric, title, kind in _MOVED),
        ("Operations", "operations", "count",
         [None if row is None else sum(value for metric, value in row.items()
                                       if is_operation(metric)) for row in rows],
         bool(mark(fs, "operations")))], most)


def size_chart(_record: Record, fs: FileSystemRecord, _history: JobHistory | None = None,
               _most: int = MOST_BARS) -> Chart | None:
    """How large the network requests were, as shares of their number; None where not known."""
    pages = fs.request_pages
    ways = [(title, kind, pages[kind]) for title, kind in (
        ("Read requests", "read"), ("Write requests", "write"))] if pages else []
    sizes = sorted({size for _, _, counts in ways for size in counts}, key=_in_order)
    if not any(any(counts.values()) for _, _, counts in ways):
        return None
    panels = []
    for title, kind, counts in ways:
        total = sum(counts.values())
        if total:
            panels.append(Panel(f"{title} ({total:,})", "share", [Curve(title.lower(), kind, [
                counts.get(size, 0) / total for size in sizes])], bool(
                    mark_of_source(fs, "rpc_stats"))))
    return Chart("Size of network requests",
                 "Share of the requests that carried up to this much (4 KiB pages).",
                 NameAxis(list(map(request_size_text, sizes))), panels, of=fs.label)


def _of_names(title: str, of: str, about: str, names: list[str],
              wanted: Sequence[tuple[str, str, str, list[Any], bool]], most: int) -> Chart | None:
    """
    A chart of [(title, kind, unit, values, is a lower bound)], without panels of zeros; None where
    there are no two names to be compared.
    """
    shown = [one for one in wanted if any(one[3])]
    if not shown or len(names) < 2:
        return None
    axis, columns = fewer(names, [values for *_, values, _ in shown], most)
    if axis.each > 1:
        about += f" Each bar is the highest of {axis.each} neighbours."
    panels = []
    for (name, kind, unit, values, low), column in zip(shown, columns):
        known = [value for value in values if value is not None]
        even = sum(known) / len(known) if len(known) > 1 and axis.each == 1 else None
        panels.append(Panel(name, unit, [Curve(name.lower(), kind, column)], low, even))
    return Chart(title, about, axis, panels, of=of)


def _in_order(name: str) -> list[tuple[int, int | str]]:
    """
    A key by which OST2 comes before OST10; hexadecimal names of one length come in order anyway.

    >>> sorted(["nid10", "nid9", "OST000a", "OST0002"], key=_in_order)
    ['OST0002', 'OST000a', 'nid9', 'nid10']
    """
    if re.fullmatch(r"(OST|MDT)[0-9a-f]{4}", name):
        return [(1, name[:3]), (0, int(name[3:], 16))]
    return [(0, int(part)) if part.isdecimal() and len(part) < 16 else (1, part)
            for part in re.split(r"(\d+)", name) if part]


# In the order of the page; each of (record, file system, history or None, most bars).
CHARTS = {"time": time_chart, "osts": ost_chart, "nodes": node_chart, "sizes": size_chart,
          "mdts": mdt_chart}
