"""
What the storage servers counted for a job, and for its nodes: beside what these did, or alone.
"""

from __future__ import annotations

from iostats.base.units import (
    DATE_TIME,
    amount_text,
    bytes_text,
    count_text,
    duration_text,
    moment_text,
    range_text,
    zone_form,
)
from iostats.lustre.metrics import is_operation, operations_in
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import APPLICATION, BY_NODE, NETWORK, SERVERS, sides_of
from iostats.report.screen import MARKDOWN
from iostats.report.text_table import table
from iostats.totals.bounds import mark_of_layer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.report.screen import Screen
    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        NodesRecord,
        Record,
        ServersFileSystem,
        ServersRecord,
    )

_MOST_TARGETS, _MOST_LONG = 8, 24
_COUNTED_BY = {APPLICATION: "Application", NETWORK: "Network", SERVERS: "OSS and MDS",
               BY_NODE: "By its nodes"}


def both_sides(shown: list[FileSystemRecord], harvested: list[ServersFileSystem],
               by_node: list[NodesFileSystem], long: bool, units: str,
               screen: Screen) -> list[str]:
    """
    What the storage servers counted under the job's id, and of its nodes, beside what these
    counted: a table for each file system.
    """
    columns: dict[str, list[list[str]]] = {}
    for side in sides_of(shown, harvested, by_node):
        columns.setdefault(side.label, []).append([_COUNTED_BY[side.counted_by], *(
            "-" if number is None else mark + amount_text(metric, number, units)
            for metric, number, mark in side.numbers),
            *(range_text(low, high, metric, units) for metric, low, high in side.bounds)])
    parts = ["The nodes and the storage servers compared:" if shown else
             "At the storage servers, under this job's id:" if not by_node else
             "At the storage servers, under this job's id and by its nodes:" if harvested else
             "At the storage servers, by its nodes, which it had alone:"]
    for label, sides in columns.items():
        headings, *rows = zip((label, "Read", "Written", "Reads", "Writes", "Operations"), *sides)
        parts.append(table(headings, rows, screen, ("left",) + ("right",) * len(sides)))
    if long:
        rows = [(fs.label, name, f"{mark_of_layer(fs)}{count_text(row.count)}",
                 "-" if row.seconds is None else f"{mark_of_layer(fs)}{row.seconds:.3f}")
                for fs in harvested for name, row in fs.operations.items()]
        parts += ["Operations at the storage servers:",
                  table((FILE_SYSTEM, "Operation", "Count", "Seconds"), rows, screen,
                        ("left", "left", "right", "right"))] if rows else []
    return parts


def notes(harvest: ServersRecord, harvested: list[ServersFileSystem]) -> list[str]:
    """What to know of the storage servers' numbers, a line each."""
    notes = [f"note: storage servers: {note}" for note in harvest.notes]
    for fs in harvested:
        notes += [f"note: {fs.label}, storage servers: {note}" for note in fs.notes]
    if not harvest.final:
        notes.append("note: the storage servers' counts are not final yet")
    return notes


def notes_by_node(found: NodesRecord, file_systems: list[NodesFileSystem], is_better: bool,
                  units: str) -> list[str]:
    """What to know of the bounds, a line each; `is_better`: something better is known."""
    if found.why_none:
        return [] if is_better else [f"note: by its nodes: no numbers, as {found.why_none}"]
    notes = [f"note: by its nodes: {note}" for note in found.notes]
    for fs in file_systems:
        if fs.later_write_bytes:
            later = bytes_text(fs.later_write_bytes, units)
            notes.append(f"note: {fs.label}, by its nodes: {later} more were written in the minute "
                         f"after its end, while no other job was on them")
        notes += [f"note: {fs.label}, by its nodes: {note}" for note in fs.notes]
    return notes


def period(record: Record) -> list[str]:
    """When a job known from the storage servers ran, if the line about the job lacks that."""
    job, harvest = record.job, record.harvest
    if job.started is not None and job.ended is not None and job.elapsed_s is not None:
        return []
    if job.started is not None and job.ended is not None:
        return [f"It ran {_span(job.started, job.ended)}."]
    assert harvest is not None                             # of which this job is
    began = "" if job.started is None else f"It began at {_time_text(job.started)}; end unknown.  "
    return [f"{began}Sweeps of the storage servers saw I/O of it "
            f"{_span(harvest.began, harvest.ended)}."]


def _span(began: float, ended: float) -> str:
    zone = zone_form(began, ended)
    return f"from {_time_text(began, zone)} to {_time_text(ended, zone)}"


def _time_text(seconds: float, zone: str = "") -> str:
    return moment_text(seconds, DATE_TIME + zone, f"{seconds:.0f}")


def mean_rates(record: Record, harvested: list[ServersFileSystem], units: str) -> list[str]:
    """What a job of the storage servers did a second, over all of its time."""
    took_s, about = _seen_s(record)
    if not took_s or took_s <= 0:
        return []
    lines = []
    for fs in harvested:
        calls = operations_in(fs.operations)
        read, written = (bytes_text(round(fs[f"{way}_bytes"] / took_s), units)
                         for way in ("read", "write"))
        low = mark_of_layer(fs)
        lines.append(f"{fs.label}: mean rates over {about}{duration_text(took_s)}: "
                     f"read {low}{about}{read}/s, written {low}{about}{written}/s, operations "
                     f"{low}{about}{calls / took_s:.1f}/s")
    return lines


def _seen_s(record: Record) -> tuple[float | None, str]:
    """(seconds that a job of the storage servers took, "about " where they have seen it alone)."""
    if record.job.elapsed_s is not None or record.harvest is None:
        return record.job.elapsed_s, ""
    return record.harvest.ended - record.harvest.began, "about "


def targets_table(harvested: list[ServersFileSystem], long: bool, units: str,
                  screen: Screen) -> list[str]:
    """What a job of the storage servers did at each target; the busiest ones, more if `long`."""
    rows, left_off = [], 0
    few = all(len(fs.targets) <= _MOST_LONG for fs in harvested)
    for fs in harvested:
        found = []
        for target, values in fs.targets.items():
            calls = sum(count for name, count in values.items() if is_operation(name))
            read, written = values.get("read_bytes", 0), values.get("write_bytes", 0)
            found.append((read + written, calls, target, read, written))
        found.sort(key=lambda row: (-row[0], -row[1], row[2]))
        most = (_MOST_TARGETS if not long else len(found) if screen.form == MARKDOWN else
                _MOST_LONG)
        left_off += len(found[most:])
        low = mark_of_layer(fs)
        rows += [(fs.label, target, low + bytes_text(read, units),
                  low + bytes_text(written, units), low + count_text(calls))
                 for _, calls, target, read, written in found[:most]]
    if not rows:
        return []
    return ["By target:", table((FILE_SYSTEM, "Target", "Read", "Written", "Operations"), rows,
                                screen, ("left", "left", "right", "right", "right")),
            *([f"({left_off} more with {'--long' if few else '--format json'})"] * bool(left_off))]
