"""
A job's record as text: grid, plain, markdown, csv or json.

The record is that of totals/record.py (docs/record.schema.json); nothing is computed here but
means, rates and forms.  Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import re

from iostats.base.errors import one_line
from iostats.base.text import bars, cut, width_of
from iostats.base.units import amount_text, brief_rate, bytes_text, count_text
from iostats.lustre.metric_meanings import OPERATIONS
from iostats.lustre.metrics import operations_in
from iostats.node import sources
from iostats.report import (
    coverage,
    event_tables,
    explanation,
    long_tables,
    one_screen,
    storage_server_tables,
)
from iostats.report.accounting_comment import OTHERS
from iostats.report.advice import block, finding
from iostats.report.advice.findings import looked_at
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import most_asked
from iostats.report.json_and_csv import as_csv, as_json
from iostats.report.newer_release import as_known
from iostats.report.screen import BLOCKS, LOG, MARKDOWN, finished
from iostats.report.shown import busy_and_idle, busy_by_node, notes_of
from iostats.report.text_table import bytes_of_programs, file_systems_of, table, with_legend
from iostats.report.why import headline
from iostats.report.why.cause import NOT_IN_LUSTRE, main_cause
from iostats.report.why.causes import judgement_of
from iostats.totals.bounds import mark, mark_of_node_mean, mark_of_operation, mark_of_source
from iostats.totals.record import PhaseFileSystem, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord


def labelled(form: Mapping[str, Any], config: Any) -> Record:
    """
    The record in the JSON object `form`, as far as this release knows it, with the site's names
    for its file systems.
    """
    def named(one: Any) -> Any:
        return one.replaced(file_systems=[fs.replaced(label=config.labels.get(fs.name, fs.name))
                                          for fs in one.file_systems])
    record = as_known(form)
    found: Record = named(record)
    return found.replaced(phases=[named(phase) for phase in record.phases],
                          harvest=record.harvest and named(record.harvest),
                          by_node=record.by_node and named(record.by_node))


def text(record: Record, config: Any, form: str = "grid", long: bool = False,
         explain: bool = False, screen: Screen = LOG, has_page: bool = False,
         measured: str = "") -> str:
    """
    The report of a labelled `record`, ending with a newline.

    `form`: one of options.FORMATS.  `long`, `explain`: --long and --explain.  `screen`: where it
    will be read.  `has_page`: the site's pages have one of the job.  `measured`: what its numbers
    are of, where one job may have several reports.
    """
    if form == "json":
        return as_json(with_findings(record, config))
    screen = screen._replace(form=form)
    advised = [] if form == "csv" else _findings(record, config, screen)
    shown = record if form == "csv" else _with_short_names(record)
    show = _show_of(screen)
    record = Record.of(_visible(shown, show))
    if form == "csv":
        return as_csv(record)
    parts = _head(record, screen)
    if measured and record.coverage.reported:
        parts.append(f"Measured: {show(cut(measured, _LONGEST_MEASURED))}")
    parts += _tables(record, config, long, explain, screen, advised)
    if has_page:
        parts += _page_of(record, config["web.address"])
    # Markdown takes a line right below a table for a row of it.
    return ("\n\n" if form == MARKDOWN else "\n").join(
        "\n".join(finished([part], screen)) for part in with_legend(parts)) + "\n"


def with_findings(record: Record, config: Any) -> Record:
    """The record as it is printed: with its findings and main cause."""
    found = judgement_of(record, config)
    return record.replaced(findings=list(map(finding.as_form, found.findings)),
                           main_cause=headline.as_form(main_cause(found.causes)))


def _findings(record: Record, config: Any, screen: Screen) -> list[str]:
    """The block of the main cause and the findings, or what was looked at."""
    most = config["advice.most"]
    if not most:
        return []
    judgement = judgement_of(record, config)
    found, cause = judgement.findings, main_cause(judgement.causes)
    is_answered = bool(found or (cause and cause.kind == NOT_IN_LUSTRE))
    return block.lines(found[:most], "" if is_answered else looked_at(record, config),
                       config.labels, _show_of(screen), screen.form == MARKDOWN, screen.width,
                       headline.line(cause) if cause else "")


def _with_short_names(value: Any) -> Any:
    """`value` with texts of kilobytes cut, so that no line is endless."""
    if isinstance(value, list):
        return [_with_short_names(one) for one in value]
    if not isinstance(value, dict):
        return _short(value, _LONGEST_TEXT) if isinstance(value, str) else value
    found: dict[str, Any] = {}
    for key, one in value.items():
        short = _short(key)
        is_name = key in _NAMES and isinstance(one, str)
        # Two that are the same when cut stay two.
        found[key if short in found else short] = _short(one) if is_name else _with_short_names(one)
    return found


_NAMES = frozenset(("name", "label", "id", "user", "account", "cluster", "partition", "file_system",
                    "target", "kind", "cause"))
_LONGEST_NAME, _LONGEST_TEXT = 256, 2000
_MOST_NOTES, _LONGEST_NOTE, _LONGER = 12, 160, " ... (--long)"     # without --long
_LONGEST_MEASURED = 69              # a line of 79 columns


def _short(text: str, longest: int = _LONGEST_NAME) -> str:
    return text if len(text) <= longest else f"{text[:longest - 3]}..."


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


def _show_of(screen: Screen) -> Callable[[str], str]:
    """What makes a text safe in a report of this form."""
    return _in_markdown if screen.form == MARKDOWN else _on_terminal


def _page_of(record: Record, address: str) -> list[str]:
    """A line with the address of the job's page, at a site with pages."""
    def quoted(text: str) -> str:
        return "".join(c if c.isascii() and (c.isalnum() or c in "-._~") else
                       "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)
    job, batch = record.job, record.batch
    query = [f"cluster={quoted(batch.cluster)}"] if batch and batch.cluster else []
    query += [f"run={job.attempt}"] if job.attempt else []
    path = quoted(batch.raw_job if batch and batch.raw_job else job.id)
    return [f"Page: {address.rstrip('/')}/job/{path}{'?' * bool(query)}{'&'.join(query)}"
            ] if address else []


def _tables(record: Record, config: Any, long: bool, explain: bool, screen: Screen,
            advised: list[str]) -> list[str]:
    """Its parts below the line about the job: sentences, tables, lines that are drawn already."""
    below = screen._replace(form=BLOCKS) if long and screen.form != MARKDOWN else screen
    shown, idle = busy_and_idle(record, config)
    harvested = file_systems_of(record.harvest, config) if record.harvest else []
    by_node = busy_by_node(record, config, {fs.name for fs in (*shown, *harvested)})
    units = config["report.units"]
    parts = event_tables.about_data(record)
    alone = coverage.has_storage_servers_only(record)
    no_node_has_reported = alone or coverage.is_known_by_node_only(record)
    if no_node_has_reported:
        parts += storage_server_tables.period(record)
    elif not shown:
        parts.append("No Lustre file system was seen." if record.coverage.reported else
                     "No numbers: no node has reported.")
    else:
        parts += _tables_of_nodes(record, shown, idle, config, long, screen, below, advised)
    if record.harvest or by_node:
        parts += storage_server_tables.both_sides(shown, harvested, by_node, long, units, below)
        if alone:
            parts += storage_server_tables.mean_rates(record, harvested, units)
            parts += storage_server_tables.targets_table(harvested, long, units, below)
        if no_node_has_reported:
            parts += advised
    parts += event_tables.lines(record, config.labels, below, long)
    if explain:
        parts += explanation.lines([*shown, *idle], config)
    notes = notes_of(record, shown, harvested, by_node, long, config)
    return parts + (notes if long or screen.form == MARKDOWN else _brief(notes))


def _brief(notes: list[str]) -> list[str]:
    """The notes without what is long in them, and without some of very many: --long has all."""
    found = []
    for note in notes[:_MOST_NOTES]:
        if width_of(note) > _LONGEST_NOTE:
            head = note[:_LONGEST_NOTE - len(_LONGER)]
            ends = [head.rfind(mark) for mark in ("; ", ". ", ", ", " ")]
            note = head[:next((end for end in ends if end > _LONGEST_NOTE // 2), None)] + _LONGER
        found.append(note)
    left = len(notes) - len(found)
    return [*found, f"and {count_text(left, 'more note')} (--long)"] if left else found


def _head(record: Record, screen: Screen) -> list[str]:
    """The line about the job; two, where it has no room in one."""
    first, rest = coverage.parts_of_line(record)
    if screen.form == MARKDOWN or width_of(first) + 2 + width_of(rest) <= screen.width:
        return [f"{first}: {rest}"]
    return [f"{first}:", f"  {rest}"]


def _tables_of_nodes(record: Record, shown: list[FileSystemRecord],
                     idle: list[FileSystemRecord], config: Any, long: bool, screen: Screen,
                     below: Screen, advised: list[str]) -> list[str]:
    """
    What the nodes' reports say: on the file systems `shown`, and that nothing was on `idle`; with
    what is `advised` right below the two tables that everyone knows; `below`: for further tables.
    """
    units, is_markdown = config["report.units"], screen.form == MARKDOWN
    of_lustre = [fs for fs in shown if _is_lustre(fs)] or shown
    headings = (FILE_SYSTEM, "File Read", "File Write")
    rows = [(fs.label, *(bytes_of_programs(fs, f"{way}_bytes", units)
                         for way in ("read", "write"))) for fs in of_lustre]
    parts = ["File data transfer statistics for this job:",
             table(headings, rows, screen), *_operations_table(of_lustre, config, screen),
             *([f"No I/O on: {', '.join(fs.label for fs in idle)}"] if idle else []), *advised]
    if long and not is_markdown:
        parts += one_screen.lines(of_lustre, record, units, screen)
    parts += _sources_table(shown, units, below)
    unread = [fs for fs in shown if fs.operations is None and fs.metadata]
    if is_markdown if long else unread:
        parts += _metadata_tables(shown if long else unread, screen)
    if record.phases:
        parts += _phases_table(record, config, {fs.name for fs in idle}, units, below)
    if is_markdown or not long:
        parts += _rates(shown, record.coverage.reported, units, screen)
    if is_markdown and long:
        parts += long_tables.tables(shown, record, units, screen)
    return parts


def _is_lustre(fs: FileSystemRecord) -> bool:
    """False for a file system of which only a site's own source has counted something."""
    return not fs.sources or any(fs[layer] for layer in (
        "application", "network", "operations", "metadata"))


def _sources_table(shown: list[FileSystemRecord], units: str, screen: Screen) -> list[str]:
    """What sources counted that have no place in the other tables: not Lustre's, mostly."""
    rows = [(fs.label, sources.title_of(source), metric,
             (">= " if counted.lower_bound else "") + amount_text(metric, value, units))
            for fs in shown for source, counted in fs.sources.items()
            for metric, value in counted.totals.items()]
    return ["Other counters:", table((FILE_SYSTEM, "Counter", "Metric", "Total"), rows, screen,
                                     ("left", "left", "left", "right"))] if rows else []


def _operations_table(shown: list[FileSystemRecord], config: Any,
                      screen: Screen) -> list[str]:
    columns = config["report.columns"]
    if not columns:
        # Every operation that happened, in the order of OPERATIONS.
        place = {name: number for number, name in enumerate(OPERATIONS)}
        columns = sorted({name for fs in shown for name in fs.operations or {}},
                         key=lambda name: (place.get(name, len(place)), name == OTHERS, name))
    if not columns:
        return []                         # nothing happened, or nothing could be read
    known = {*OPERATIONS, *(name for fs in shown for name in fs.operations or {})}
    rows = [(fs.label, *(_operation(fs, name, known) for name in columns)) for fs in shown]
    headings, align = (FILE_SYSTEM, *columns), ("left",) + ("right",) * len(columns)
    return ["Metadata statistics for this job:", table(headings, rows, screen, align)]


def _operation(fs: FileSystemRecord, name: str, known: Container[str]) -> str:
    if fs.operations is None:
        return "-"
    row = fs.operations.get(name)
    if row is None and (OTHERS in fs.operations or name not in known):
        return "-"                        # it may be among those; or it is no operation at all
    return f"{mark_of_operation(fs, name)}{count_text(row.count if row else 0)}"


def _metadata_tables(shown: list[FileSystemRecord], screen: Screen) -> list[str]:
    """What each MDT was asked: the number by which administrators judge a job."""
    rows = []
    for fs in shown:
        low, of_mean = mark_of_source(fs, "md_stats"), mark_of_node_mean(fs, "md_stats")
        for target, metadata in fs.metadata.items():
            peak = metadata.peak
            rate = metadata.per_second_per_node
            rows.append((fs.label, target, low + count_text(metadata.requests),
                         "-" if rate is None else f"{of_mean}{rate:.1f}",
                         f"{low}{peak.per_second:.1f}" if peak else "-",
                         peak.node if peak else "-",
                         ", ".join(f"{name} {low}{count_text(count)}"
                                   for name, count in most_asked(metadata))))
    if not rows:
        return []
    return ["Metadata requests by MDT (rates per second and node; the peak of one node):",
            table((FILE_SYSTEM, "MDT", "Requests", "Average", "Peak", "Peak node", "Most"), rows,
                  screen if screen.form == MARKDOWN else screen._replace(form=BLOCKS),
                  ("left", "left", "right", "right", "right", "left", "left"))]


def _phases_table(record: Record, config: Any, idle: set[str], units: str,
                  screen: Screen) -> list[str]:
    """One row for each part of the job and file system, in the order of time."""
    rows = []
    for phase in record.phases:
        for fs in [fs for fs in file_systems_of(phase, config) if fs.name not in idle] or [
                PhaseFileSystem.of({"label": "-", "application": None, "operations": None})]:
            operations = fs.operations
            rows.append((phase.name, f"{phase.elapsed_s:.1f} s", fs.label,
                         *(bytes_of_programs(fs, f"{way}_bytes", units)
                           for way in ("read", "write")),
                         "-" if operations is None else mark(fs, "operations") + count_text(
                             operations_in(operations))))
    parts = ["Parts of this job:",
             table(("Part", "Time", FILE_SYSTEM, "File Read", "File Write", "Ops"),
                   rows, screen, ("left", "right", "left", "left", "left", "right"))]
    parts += [f"note: the part {phase.name} is from `start` to the first mark: what the nodes "
              f"did by themselves, if the job did nothing before that mark"
              for phase in record.phases if phase.name.startswith("(before ")]
    return parts


def _rates(shown: list[FileSystemRecord], reported: int, units: str,
           screen: Screen) -> list[str]:
    """A line of blocks for each metric that `watch` saw."""
    lines = []
    for fs in shown:
        series = fs.series
        for metric, name in (("read_bytes", "read"), ("write_bytes", "written"),
                             ("operations", "operations")):
            if series and any(series[metric]):
                peak = max(series[metric]) / series.every_s
                most = brief_rate(peak) if metric == "operations" else bytes_text(peak, units)
                of = f", on {series.nodes} of {reported} nodes"
                lines.append((f"{fs.label} {name:<10} |", series[metric],
                              f"| peak {mark(fs, metric)}{most}/s"
                              f"{of if series.nodes < reported else ''}"))
    room = min((screen.width - width_of(before + behind) for before, _, behind in lines), default=0)
    return ["I/O over time (sum over the nodes running `iostats_client.py watch`):",
            *(before + bars(values, max(8, min(60, room)), screen.is_ascii) + behind
              for before, values, behind in lines)] if lines else []
