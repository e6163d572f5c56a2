"""
A job's record as text: grid, plain, markdown, csv or json.

The record is that of totals/record.py (docs/record.schema.json); nothing is computed here but
means, rates and forms.  Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import re

from iostats.base.errors import one_line
from iostats.base.units import amount_text, bytes_text
from iostats.lustre.metric_meanings import OPERATIONS
from iostats.lustre.metrics import LOCAL_MD_STATS, operations_in
from iostats.node import sources
from iostats.report import (
    coverage,
    event_tables,
    explanation,
    long_tables,
    storage_server_tables,
)
from iostats.report.accounting_comment import OTHERS
from iostats.report.json_and_csv import as_csv, as_json
from iostats.report.network_bytes import why_network_differs
from iostats.report.text_table import bytes_of_programs, file_systems_of, table
from iostats.totals.bounds import mark, mark_of_source
from iostats.base.text import bars
from iostats.totals.record import PhaseFileSystem, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from iostats.totals.record import FileSystemRecord, NodesFileSystem, ServersFileSystem


def labelled(form: Mapping[str, Any], config: Any) -> Record:
    """The record in the JSON object `form`, with the site's names for its file systems."""
    def named(one: Any) -> Any:
        return one.replaced(file_systems=[fs.replaced(label=config.labels.get(fs.name, fs.name))
                                          for fs in one.file_systems])
    record = Record.of(form)
    found: Record = named(record)
    return found.replaced(phases=[named(phase) for phase in record.phases],
                          harvest=record.harvest and named(record.harvest),
                          by_node=record.by_node and named(record.by_node))


def text(record: Record, config: Any, form: str = "grid", long: bool = False,
         explain: bool = False) -> str:
    """
    The report of a labelled `record`, ending with a newline.

    `form`: one of options.FORMATS.  `long`, `explain`: --long and --explain.
    """
    if form == "json":
        return as_json(record)
    record = Record.of(_visible(record, _in_markdown if form == "markdown" else _on_terminal))
    if form == "csv":
        return as_csv(record)
    return "\n".join(map(one_line, _tables(record, config, form, long, explain).split("\n")))


def _visible(value: Any, show: Callable[[str], str]) -> Any:
    """`value` with `show` applied to every text in it: names that nodes have sent."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, dict):
        return {show(key): _visible(found, show) for key, found in value.items()}
    return [_visible(found, show) for found in value] if isinstance(value, list) else value


def _on_terminal(text: str) -> str:
    return one_line(text)


def _in_markdown(text: str) -> str:
    """The text without HTML, links and pictures, which markdown would let through."""
    return re.sub(r"[\\`<]|\](?=\()", r"\\\g<0>", _on_terminal(text))


def _tables(record: Record, config: Any, form: str, long: bool, explain: bool) -> str:
    shown, idle = _busy_and_idle(record, config)
    harvested = file_systems_of(record.harvest, config) if record.harvest else []
    by_node = _busy_by_node(record, config, {fs.name for fs in (*shown, *harvested)})
    units = config["report.units"]
    parts = [coverage.line(record), *event_tables.about_data(record)]
    alone = coverage.has_storage_servers_only(record)
    if alone or coverage.is_known_by_node_only(record):
        parts.append(storage_server_tables.period(record))
    elif not shown:
        parts.append("No Lustre file system was seen." if record.coverage.reported else
                     "No numbers: no node has reported.")
    else:
        parts += _tables_of_nodes(record, shown, idle, config, form, long)
    if record.harvest or by_node:
        parts += storage_server_tables.both_sides(shown, harvested, by_node, long, units, form)
        if alone:
            parts += storage_server_tables.mean_rates(record, harvested, units)
            parts += storage_server_tables.targets_table(harvested, long, units, form)
    parts += event_tables.lines(record, config.labels, form, long)
    if explain:
        parts += explanation.lines([*shown, *idle], config)
    parts += _notes(record, shown, harvested, by_node, long, units)
    # Markdown takes a line right below a table for a row of it.
    return ("\n\n" if form == "markdown" else "\n").join(parts) + "\n"


def _tables_of_nodes(record: Record, shown: list[FileSystemRecord],
                     idle: list[FileSystemRecord], config: Any, form: str, long: bool) -> list[str]:
    """What the nodes' reports say: on the file systems `shown`, and that nothing was on `idle`."""
    units = config["report.units"]
    of_lustre = [fs for fs in shown if _is_lustre(fs)] or shown
    parts = ["File data transfer statistics for this job:",
             table(("File System", "File Read", "File Write"),
                   [(fs.label, *(bytes_of_programs(fs, f"{way}_bytes", units)
                                    for way in ("read", "write"))) for fs in of_lustre], form),
             *_operations_table(of_lustre, config, form),
             *_sources_table(shown, units, form)]
    unread = [fs for fs in shown if fs.operations is None and fs.metadata]
    if long or unread:
        parts += _metadata_tables(shown if long else unread, form)
    if idle:
        parts.append(f"No I/O on: {', '.join(fs.label for fs in idle)}")
    if record.phases:
        parts += _phases_table(record, config, {fs.name for fs in idle}, units, form)
    parts += _rates(shown, record.coverage.reported, units)
    if long:
        parts += long_tables.tables(shown, record.coverage.node_seconds, units, form)
    return parts


def _is_lustre(fs: FileSystemRecord) -> bool:
    """False for a file system of which only a site's own source has counted something."""
    return not fs.sources or any(fs[layer] for layer in (
        "application", "network", "operations", "metadata"))


def _sources_table(shown: list[FileSystemRecord], units: str, form: str) -> list[str]:
    """What sources counted that have no place in the other tables: not Lustre's, mostly."""
    rows = [(fs.label, sources.title_of(source), metric,
             (">= " if counted.lower_bound else "") + amount_text(metric, value, units))
            for fs in shown for source, counted in fs.sources.items()
            for metric, value in counted.totals.items()]
    return ["Other counters:", table(("File System", "Counter", "Metric", "Total"), rows, form,
                                     ("left", "left", "left", "right"))] if rows else []


def _notes(record: Record, shown: list[FileSystemRecord], harvested: list[ServersFileSystem],
           by_node: list[NodesFileSystem], long: bool, units: str) -> list[str]:
    """What to know of the numbers, a line each."""
    missing, found = record.coverage.missing_count, []
    if missing and shown:
        found.append(f"note: {missing} {'node has' if missing == 1 else 'nodes have'} no numbers: "
                     f"every number is a lower bound (>=)")
    found += coverage.notes_on_shared_nodes(record.coverage.shared)
    found += [f"note: {note}" for note in record.notes]
    for fs in shown:
        found += [f"note: {fs.label}: {note}" for note in fs.notes]
    if record.harvest:
        both = {fs.name for fs in record.harvest.file_systems}
        found += [f"note: {fs.label}: {line}" for fs in shown if fs.name in both and not long
                  for line in why_network_differs(fs, units)]
        found += storage_server_tables.notes(record.harvest, harvested)
    if record.by_node:
        found += storage_server_tables.notes_by_node(
            record.by_node, by_node, bool(record.coverage.reported or harvested) and not long,
            units)
    refused = record.coverage.refused
    if refused:
        found.append("note: messages refused: "
                     + ", ".join(f"{count} {why}" for why, count in sorted(refused.items())))
    return found


def _busy_and_idle(record: Record,
                   config: Any) -> tuple[list[FileSystemRecord], list[FileSystemRecord]]:
    """
    The file systems for the tables, and those on which nothing was done, which would only fill
    them.  All are in the tables where site.cfg names them, or where nothing was done on any.
    """
    shown = file_systems_of(record, config)
    at_servers = {fs.name for fs in (record.harvest.file_systems if record.harvest else ())}
    idle = [] if config["report.file_systems"] else [
        fs for fs in shown if fs.name not in at_servers and _is_idle(fs)]
    if len(idle) == len(shown):
        return shown, []
    return [fs for fs in shown if fs not in idle], idle


def _busy_by_node(record: Record, config: Any, names: set[str]) -> list[NodesFileSystem]:
    """What its nodes did: on file systems that are in the tables anyway, or where they did much."""
    found: list[NodesFileSystem] = file_systems_of(record.by_node, config) if record.by_node else []
    busy = [fs for fs in found if fs.name in names or fs.high is None
            or any(high for _, _, high in storage_server_tables.bounds_of(fs))]
    return busy or found


def _is_idle(fs: FileSystemRecord) -> bool:
    """True where it is known that nothing was done there, and there is nothing to say of it."""
    return (fs.application is not None and fs.operations is not None
            and not fs.notes and not fs.dirty_bytes
            and not any(fs.application.values()) and not any((fs.network or {}).values())
            and fs.application.read_bytes is not None
            and not any(row.count for row in fs.operations.values())
            and not any(mdt.requests for mdt in fs.metadata.values()))


def _operations_table(shown: list[FileSystemRecord], config: Any, form: str) -> list[str]:
    columns = config["report.columns"]
    if not columns:
        # Every operation that happened, in the order of OPERATIONS.
        place = {name: number for number, name in enumerate(OPERATIONS)}
        columns = sorted({name for fs in shown for name in fs.operations or {}},
                         key=lambda name: (place.get(name, len(place)), name == OTHERS, name))
    if not columns:
        return []                         # nothing happened, or nothing could be read
    rows = [(fs.label, *(_operation(fs, name) for name in columns)) for fs in shown]
    return ["Metadata statistics for this job:",
            table(("File System", *columns), rows, form, ("left",) + ("right",) * len(columns))]


def _operation(fs: FileSystemRecord, name: str) -> str:
    if fs.operations is None:
        return "-"
    row = fs.operations.get(name)
    if row is None and OTHERS in fs.operations:
        return "-"                        # it may be among those
    return f"{mark(fs, 'operations')}{row.count if row else 0}"


def _metadata_tables(shown: list[FileSystemRecord], form: str) -> list[str]:
    """What each MDT was asked: the number by which administrators judge a job."""
    rows = []
    for fs in shown:
        low, too_low = mark_of_source(fs, "md_stats"), ">= " if "md_stats" in fs.low else ""
        for target, metadata in fs.metadata.items():
            peak = metadata.peak
            rate = metadata.per_second_per_node
            asked = {name: count for name, count in metadata.operations.items()
                     if count and name not in LOCAL_MD_STATS}
            most = sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:4]
            # The average is that of the nodes that reported, whoever is missing.
            rows.append((fs.label, target, low + str(metadata.requests),
                         "-" if rate is None else f"{too_low}{rate:.1f}",
                         f"{low}{peak.per_second:.1f}" if peak else "-",
                         peak.node if peak else "-",
                         ", ".join(f"{name} {low}{count}" for name, count in most)))
    if not rows:
        return []
    return ["Metadata requests by MDT (rates are per second and node: the mean, and the peak of "
            "one node):",
            table(("File System", "MDT", "Requests", "Average", "Peak", "Peak node", "Most"), rows,
                   form, ("left", "left", "right", "right", "right", "left", "left"))]


def _phases_table(record: Record, config: Any, idle: set[str], units: str,
                  form: str) -> list[str]:
    """One row for each part of the job and file system, in the order of time."""
    rows = []
    for phase in record.phases:
        for fs in [fs for fs in file_systems_of(phase, config) if fs.name not in idle] or [
                PhaseFileSystem.of({"label": "-", "application": None, "operations": None})]:
            operations = fs.operations
            rows.append((phase.name, f"{phase.elapsed_s:.1f}", fs.label,
                         *(bytes_of_programs(fs, f"{way}_bytes", units)
                           for way in ("read", "write")),
                         "-" if operations is None else mark(fs, "operations") + str(
                             operations_in(operations))))
    parts = ["Parts of this job:",
             table(("Part", "Seconds", "File System", "File Read", "File Write", "Operations"),
                    rows, form, ("left", "right", "left", "left", "left", "right"))]
    parts += [f"note: the part {phase.name} is from `start` to the first mark: what the nodes "
              f"did by themselves, if the job did nothing before that mark"
              for phase in record.phases if phase.name.startswith("(before ")]
    return parts


def _rates(shown: list[FileSystemRecord], reported: int, units: str) -> list[str]:
    """A line of blocks for each metric that `watch` saw."""
    lines = []
    for fs in shown:
        series = fs.series
        for metric, name in (("read_bytes", "read"), ("write_bytes", "written"),
                             ("operations", "operations")):
            if series and any(series[metric]):
                peak = max(series[metric]) / series.every_s
                most = f"{peak:.0f}" if metric == "operations" else bytes_text(round(peak), units)
                most = mark(fs, metric) + most
                of = f", on {series.nodes} of {reported} nodes"
                lines.append(f"{fs.label} {name:<10} |{bars(series[metric])}| peak "
                             f"{most}/s{of if series.nodes < reported else ''}")
    return ["I/O over time (sum of the nodes that ran `watch`):", *lines] if lines else []
