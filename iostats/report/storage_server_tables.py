"""
The storage servers' counts of a job, and of its nodes: beside the nodes' own counts, or alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import (
    DATE_TIME,
    find_zone_format,
    format_amount,
    format_bytes,
    format_count,
    format_duration,
    format_moment,
    format_range,
)
from iostats.lustre.metrics import count_all_operations, is_operation
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import APPLICATION, BY_NODE, IMPORTED, NETWORK, SERVERS, make_sides
from iostats.report.screen import MARKDOWN
from iostats.report.text_table import format_table, select_file_systems
from iostats.totals.bounds import get_mark, mark_layer

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.report.screen import Screen
    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        NodesRecord,
        Record,
        ServersFileSystem,
        ServersRecord,
    )
    from iostats.totals.record_additions import ImportedRecord

STEP = "Step"
# Tables of parts of a job: heading, member of the record.
PARTS = ((STEP, "steps"), ("Program", "programs"))
_MOST_TARGETS, _MOST_LONG = 8, 24
_COUNTED_BY = {APPLICATION: "Application", NETWORK: "Network", SERVERS: "OSS and MDS",
               BY_NODE: "By its nodes"}


def make_comparison_tables(shown: list[FileSystemRecord], harvested: list[ServersFileSystem],
                           by_node: list[NodesFileSystem], long: bool, units: str,
                           screen: Screen) -> list[str]:
    """
    Make a table for each file system: the storage servers' counts, under the job's id and by its
    nodes, beside the nodes' own counts.
    """
    columns: dict[str, list[list[str]]] = {}
    for side in make_sides(shown, harvested, by_node):
        columns.setdefault(side.label, []).append([_COUNTED_BY[side.counted_by], *(
            "-" if number is None else mark + format_amount(metric, number, units)
            for metric, number, mark in side.numbers),
            *(format_range(low, high, metric, units) for metric, low, high in side.bounds)])
    parts = ["The nodes and the storage servers compared:" if shown else
             "At the storage servers, under this job's id:" if not by_node else
             "At the storage servers, under this job's id and by its nodes:" if harvested else
             "At the storage servers, by its nodes, which it had alone:"]
    for label, sides in columns.items():
        headings, *rows = zip((label, "Read", "Written", "Reads", "Writes", "Operations"), *sides)
        parts.append(format_table(headings, rows, screen, ("left",) + ("right",) * len(sides)))
    if long:
        rows = [(fs.label, name, f"{mark_layer(fs)}{format_count(row.count)}",
                 "-" if row.seconds is None else f"{mark_layer(fs)}{row.seconds:.3f}")
                for fs in harvested for name, row in fs.operations.items()]
        parts += ["Operations at the storage servers:",
                  format_table((FILE_SYSTEM, "Operation", "Count", "Seconds"), rows, screen,
                               ("left", "left", "right", "right"))] if rows else []
    return parts


def list_imported_rows(imported: ImportedRecord, config: Config) -> list[tuple[str, ...]]:
    """
    A row for each file system that site.cfg shows: its label, bytes read and written, requests to
    OSTs and to MDTs, each of which may be too low or too high.
    """
    return [(fs.label, *("-" if fs[name] is None else get_mark(True, True) + format_amount(
        name, fs[name], config.report.units) for name in IMPORTED))
        for fs in select_file_systems(imported, config)]


def make_imported_table(imported: ImportedRecord, config: Config, screen: Screen) -> list[str]:
    """Make the table of the totals that another tool has stored, and their notes."""
    return [f"The last totals that {imported.tool} has stored, at the storage servers "
            f"{_format_span(imported.began, imported.ended)}:",
            format_table((FILE_SYSTEM, *IMPORTED.values()), list_imported_rows(imported, config),
                         screen, ("left",) + ("right",) * len(IMPORTED)),
            *(f"note: {note}" for note in list_imported_notes(imported))]


def list_imported_notes(imported: ImportedRecord) -> list[str]:
    """List the notes on the totals that another tool has stored."""
    return [*(f"{fs.label}, {imported.tool}: {note}" for fs in imported.file_systems
              for note in fs.notes),
            f"{imported.tool} stored no mark where a total is wrong, so each may be"]


def list_notes(harvest: ServersRecord, harvested: list[ServersFileSystem]) -> list[str]:
    """List the notes on the storage servers' numbers, a line each."""
    notes = [f"note: storage servers: {note}" for note in harvest.notes]
    for fs in harvested:
        notes += [f"note: {fs.label}, storage servers: {note}" for note in fs.notes]
    if not harvest.final:
        notes.append("note: the storage servers' counts are not final yet")
    return notes


def list_notes_on_bounds(nodes: NodesRecord, file_systems: list[NodesFileSystem], is_better: bool,
                         units: str) -> list[str]:
    """List the notes on the bounds, a line each; `is_better`: better numbers are in the report."""
    if nodes.why_none:
        return [] if is_better else [f"note: by its nodes: no numbers, as {nodes.why_none}"]
    notes = [f"note: by its nodes: {note}" for note in nodes.notes]
    for fs in file_systems:
        if fs.later_write_bytes:
            later = format_bytes(fs.later_write_bytes, units)
            notes.append(f"note: {fs.label}, by its nodes: {later} more were written in the minute "
                         f"after its end, while no other job was on them")
        notes += [f"note: {fs.label}, by its nodes: {note}" for note in fs.notes]
    return notes


def describe_period(record: Record) -> list[str]:
    """
    Describe when a job known from the storage servers ran, unless the line about the job has it.
    """
    job, harvest = record.job, record.harvest
    if job.started is not None and job.ended is not None and job.elapsed_s is not None:
        return []
    if job.started is not None and job.ended is not None:
        return [f"It ran {_format_span(job.started, job.ended)}."]
    assert harvest is not None                             # of which this job is
    began = ("" if job.started is None else
             f"It began at {_format_time(job.started)}; end unknown.  ")
    return [f"{began}Sweeps of the storage servers saw I/O of it "
            f"{_format_span(harvest.began, harvest.ended)}."]


def _format_span(began: float, ended: float) -> str:
    zone = find_zone_format(began, ended)
    return f"from {_format_time(began, zone)} to {_format_time(ended, zone)}"


def _format_time(seconds: float, zone: str = "") -> str:
    return format_moment(seconds, DATE_TIME + zone, f"{seconds:.0f}")


def list_mean_rates(record: Record, harvested: list[ServersFileSystem], units: str) -> list[str]:
    """List the mean rates of a job known from the storage servers."""
    took_s, about = _find_duration(record)
    if not took_s or took_s <= 0:
        return []
    lines = []
    for fs in harvested:
        calls = count_all_operations(fs.operations)
        read, written = (format_bytes(round(fs[f"{direction}_bytes"] / took_s), units)
                         for direction in ("read", "write"))
        low = mark_layer(fs)
        lines.append(f"{fs.label}: mean rates over {about}{format_duration(took_s)}: "
                     f"read {low}{about}{read}/s, written {low}{about}{written}/s, operations "
                     f"{low}{about}{calls / took_s:.1f}/s")
    return lines


def _find_duration(record: Record) -> tuple[float | None, str]:
    """(seconds that a job of the storage servers took, "about " where they have seen it alone)."""
    if record.job.elapsed_s is not None or record.harvest is None:
        return record.job.elapsed_s, ""
    return record.harvest.ended - record.harvest.began, "about "


def make_target_table(harvested: list[ServersFileSystem], long: bool, units: str,
                      screen: Screen) -> list[str]:
    """Make the table of a job's I/O at each target; the busiest ones, more if `long`."""
    return _make_busiest_table("Target", [(fs, fs.targets) for fs in harvested], long, units,
                               screen)


def make_part_tables(harvested: list[ServersFileSystem], long: bool, units: str,
                     screen: Screen) -> list[str]:
    """Make the tables of I/O by step and by program, if the ids in job_stats name these."""
    return [line for heading, member in PARTS for line in _make_busiest_table(
        heading, [(fs, getattr(fs, member)) for fs in harvested], long, units, screen)]


def sort_parts(rows: list[tuple[str, tuple[str, str, str]]], heading: str
               ) -> list[tuple[str, tuple[str, str, str]]]:
    """The rows of list_busiest(); steps in their own order: batch, 0, 1, ..., (unknown)."""
    return sorted(rows, key=lambda row: (
        2 * (not row[0].isalnum()) or row[0].isdigit(), int(row[0]) if row[0].isdigit() else 0,
        row[0])) if heading == STEP else rows


def list_busiest(by_name: dict[str, dict[str, int]],
                 units: str) -> list[tuple[str, tuple[str, str, str]]]:
    """[(name, (read, written, operations))] of {name: metrics}, those with most bytes first."""
    rows = []
    for name, values in by_name.items():
        calls = sum(count for metric, count in values.items() if is_operation(metric))
        rows.append((values.get("read_bytes", 0), values.get("write_bytes", 0), calls, name))
    rows.sort(key=lambda row: (-row[0] - row[1], -row[2], row[3]))
    return [(name, (format_bytes(read, units), format_bytes(written, units), format_count(calls)))
            for read, written, calls, name in rows]


def _make_busiest_table(heading: str,
                        counted: list[tuple[ServersFileSystem, dict[str, dict[str, int]]]],
                        long: bool, units: str, screen: Screen) -> list[str]:
    rows, left_off = [], 0
    few = all(len(by_name) <= _MOST_LONG for _, by_name in counted)
    for fs, by_name in counted:
        rows_of = list_busiest(by_name, units)
        limit = (_MOST_TARGETS if not long else len(rows_of) if screen.form == MARKDOWN else
                 _MOST_LONG)
        left_off += len(rows_of[limit:])
        rows += [(fs.label, name, *(mark_layer(fs) + text for text in texts))
                 for name, texts in sort_parts(rows_of[:limit], heading)]
    if not rows:
        return []
    return [f"By {heading.lower()}:",
            format_table((FILE_SYSTEM, heading, "Read", "Written", "Operations"), rows,
                         screen, ("left", "left", "right", "right", "right")),
            *([f"({left_off} more with {'--long' if few else '--format json'})"] * bool(left_off))]
