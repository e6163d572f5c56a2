"""
A job's record as text: grid, plain, markdown, csv or json.

The record is that of totals/record.py (docs/reference/record.schema.json); nothing is computed here
but means, rates and forms.  Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.text import cut, draw_bars, measure_width, pad
from iostats.base.units import format_amount, format_bytes, format_count, format_rate
from iostats.lustre.metric_meanings import OPERATIONS
from iostats.lustre.metrics import count_all_operations
from iostats.node import sources
from iostats.report import (
    event_tables,
    explanation,
    header,
    long_tables,
    one_screen,
    storage_server_tables,
)
from iostats.report.accounting_comment import OTHERS
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.findings import finding
from iostats.report.findings.evaluate import list_checks
from iostats.report.findings.finding import list_findings
from iostats.report.job_numbers import find_most_frequent, name_metadata_server
from iostats.report.json_and_csv import format_csv, format_json
from iostats.report.newer_release import read_known
from iostats.report.screen import BLOCKS, LOG, MARKDOWN, finish_lines
from iostats.report.shown_file_systems import find_busy_by_node, list_notes, split_by_activity
from iostats.report.text_table import (
    add_legend,
    format_metric_name,
    format_program_bytes,
    format_table,
    select_file_systems,
)
from iostats.report.why.cause import (
    NOT_IN_LUSTRE,
    format_headline_sentence,
    main_cause,
    make_headline_form,
)
from iostats.report.why.causes import judge_record
from iostats.totals import disk_values
from iostats.totals.bounds import (
    LUSTRE,
    get_mark,
    mark,
    mark_metadata,
    mark_operation,
)
from iostats.totals.other_values import CEPH
from iostats.totals.record import PhaseFileSystem, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any

    from iostats.base.config import Config
    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord


def add_labels(form: Mapping[str, object], config: Config) -> Record:
    """
    The record in the JSON object `form`, as far as this release knows it, with the site's names
    for its file systems.
    """
    def label(part: Any) -> Any:
        return part.replaced(file_systems=[fs.replaced(label=config.labels.get(fs.name, fs.name))
                                           for fs in part.file_systems])
    record = read_known(form)
    labelled: Record = label(record)
    return labelled.replaced(phases=[label(phase) for phase in record.phases],
                             harvest=record.harvest and label(record.harvest),
                             by_node=record.by_node and label(record.by_node),
                             imported=record.imported and label(record.imported))


def format_report(record: Record, config: Config, form: str = "grid", long: bool = False,
                  explain: bool = False, screen: Screen = LOG, has_page: bool = False,
                  measured: str = "") -> str:
    """
    The report of a labelled `record`, ending with a newline.

    `form`: one of options.FORMATS.  `long`, `explain`: --long and --explain.  `screen`: where it
    will be read.  `has_page`: the site's pages include this job's.  `measured`: which part of the
    job was measured, as a job may have several reports, unless the record has a command.
    """
    if form == "json":
        return format_json(add_findings(record, config))
    screen = screen._replace(form=form)
    advised = [] if form == "csv" else _format_findings(record, config, screen)
    shown = record if form == "csv" else _shorten_texts(record)
    show = _find_escape(screen)
    record = Record.of(_make_texts_safe(shown, show))
    if form == "csv":
        return format_csv(record)
    parts = _format_head(record, screen)
    if record.job.command:
        measured = f"the command {record.job.command}"
    if measured and record.coverage.reported:
        parts.append(f"Measured: {show(cut(measured, _LONGEST_MEASURED))}")
    parts += _make_parts(record, config, long, explain, screen, advised)
    if has_page:
        parts += _format_page_link(record, config.web.address)
    # Markdown takes a line right below a table for a row of it.
    return ("\n\n" if form == MARKDOWN else "\n").join(
        "\n".join(finish_lines([part], screen)) for part in add_legend(parts)) + "\n"


def add_findings(record: Record, config: Config) -> Record:
    """The record as it is printed: with its findings and main cause."""
    judgement = judge_record(record, config)
    return record.replaced(findings=list(map(finding.as_form, judgement.findings)),
                           main_cause=make_headline_form(main_cause(judgement.causes)))


def _format_findings(record: Record, config: Config, screen: Screen) -> list[str]:
    """The block of the main cause and the findings; without findings, the list of checks."""
    limit = config.findings.most
    if not limit:
        return []
    judgement = judge_record(record, config)
    findings, cause = judgement.findings, main_cause(judgement.causes)
    is_answered = bool(findings or (cause and cause.kind == NOT_IN_LUSTRE))
    return list_findings(findings[:limit], "" if is_answered else list_checks(record, config),
                         config.labels, _find_escape(screen), screen.form == MARKDOWN, screen.width,
                         format_headline_sentence(cause) if cause else "")


def _shorten_texts(value: Any) -> Any:
    """Return `value` with long texts cut, which protects the table from lines of kilobytes."""
    if isinstance(value, list):
        return [_shorten_texts(item) for item in value]
    if not isinstance(value, dict):
        return _shorten(value, _LONGEST_TEXT) if isinstance(value, str) else value
    shortened: dict[str, Any] = {}
    for key, item in value.items():
        short = _shorten(key)
        is_name = key in _NAMES and isinstance(item, str)
        # Two that are the same when cut stay two.
        shown = key if short in shortened else short
        shortened[shown] = _shorten(item) if is_name else _shorten_texts(item)
    return shortened


_NAMES = frozenset(("name", "label", "id", "user", "account", "cluster", "partition", "file_system",
                    "target", "kind", "cause"))
_LONGEST_NAME, _LONGEST_TEXT = 256, 2000
_MOST_NOTES, _LONGEST_NOTE, _LONGER = 12, 160, " ... (--long)"     # without --long
_LONGEST_MEASURED = 69              # a line of 79 columns


def _shorten(text: str, longest: int = _LONGEST_NAME) -> str:
    return text if len(text) <= longest else f"{text[:longest - 3]}..."


def _make_texts_safe(value: Any, show: Callable[[str], str]) -> Any:
    """Return `value` with `show` applied to every text in it: names that nodes have sent."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, dict):
        return {show(key): _make_texts_safe(item, show) for key, item in value.items()}
    return [_make_texts_safe(item, show) for item in value] if isinstance(value, list) else value


def _escape_for_terminal(text: str) -> str:
    return sanitize(text)


def _escape_for_markdown(text: str) -> str:
    """The text without HTML, links and pictures, which markdown would let through."""
    return re.sub(r"[\\`<]|\](?=\()", r"\\\g<0>", _escape_for_terminal(text))


def _find_escape(screen: Screen) -> Callable[[str], str]:
    """Return the function that makes a text safe in a report of this form."""
    return _escape_for_markdown if screen.form == MARKDOWN else _escape_for_terminal


def _format_page_link(record: Record, address: str) -> list[str]:
    """A line with the URL of the job's page; [] if the site has no pages."""
    def quote(text: str) -> str:
        return "".join(c if c.isascii() and (c.isalnum() or c in "-._~") else
                       "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)
    job, batch = record.job, record.batch
    query = [f"cluster={quote(batch.cluster)}"] if batch and batch.cluster else []
    query += [f"run={job.attempt}"] if job.attempt else []
    path = quote(batch.raw_job if batch and batch.raw_job else job.id)
    return [f"Page: {address.rstrip('/')}/job/{path}{'?' * bool(query)}{'&'.join(query)}"
            ] if address else []


def _make_parts(record: Record, config: Config, long: bool, explain: bool, screen: Screen,
                advised: list[str]) -> list[str]:
    """
    Make the parts below the line about the job: sentences, tables, lines that are drawn already.
    """
    below = screen._replace(form=BLOCKS) if long and screen.form != MARKDOWN else screen
    shown, idle = split_by_activity(record, config, long)
    harvested = select_file_systems(record.harvest, config) if record.harvest else []
    by_node = find_busy_by_node(record, config, {
        *(fs.name for fs in shown), *(fs.name for fs in harvested)})
    units = config.report.units
    parts = event_tables.list_data_losses(record)
    alone = header.has_storage_servers_only(record)
    no_node_has_reported = alone or header.is_known_by_node_only(record)
    if no_node_has_reported:
        parts += storage_server_tables.describe_period(record)
    elif record.imported:
        parts += storage_server_tables.make_imported_table(record.imported, config, below)
    elif not shown:
        parts.append("No Lustre file system was seen." if record.coverage.reported else
                     "No numbers: no node has reported.")
    else:
        parts += _make_node_parts(record, shown, idle, config, long, screen, below, advised)
    if record.harvest or by_node:
        parts += storage_server_tables.make_comparison_tables(shown, harvested, by_node, long,
                                                              units, below)
        if alone:
            parts += storage_server_tables.list_mean_rates(record, harvested, units)
            parts += storage_server_tables.make_target_table(harvested, long, units, below)
        parts += storage_server_tables.make_part_tables(harvested, long, units, below)
        if no_node_has_reported:
            parts += advised
    parts += event_tables.format_lines(record, config.labels, below, long)
    if explain:
        parts += explanation.explain_report([*shown, *idle], config)
    notes = list_notes(record, shown, harvested, by_node, long, config)
    return parts + (notes if long or screen.form == MARKDOWN else _shorten_notes(notes))


def _shorten_notes(notes: list[str]) -> list[str]:
    """The notes, long ones cut and only the first of very many: --long has all."""
    shortened = []
    for note in notes[:_MOST_NOTES]:
        if measure_width(note) > _LONGEST_NOTE:
            head = note[:_LONGEST_NOTE - len(_LONGER)]
            ends = [head.rfind(mark) for mark in ("; ", ". ", ", ", " ")]
            note = head[:next((end for end in ends if end > _LONGEST_NOTE // 2), None)] + _LONGER
        shortened.append(note)
    left = len(notes) - len(shortened)
    return [*shortened, f"and {format_count(left, 'more note')} (--long)"] if left else shortened


def _format_head(record: Record, screen: Screen) -> list[str]:
    """The line about the job; two lines if it is wider than the screen."""
    first, rest = header.format_line_parts(record)
    if screen.form == MARKDOWN or measure_width(first) + 2 + measure_width(rest) <= screen.width:
        return [f"{first}: {rest}"]
    return [f"{first}:", f"  {rest}"]


def _make_node_parts(record: Record, shown: list[FileSystemRecord],
                     idle: list[FileSystemRecord], config: Config, long: bool, screen: Screen,
                     below: Screen, advised: list[str]) -> list[str]:
    """
    Make the tables of the nodes' numbers: of the file systems `shown`, and a line for the `idle`
    ones.  `advised` follows the two main tables; `below`: the screen for further tables.
    """
    units, is_markdown = config.report.units, screen.form == MARKDOWN
    of_lustre = [fs for fs in shown if _is_lustre(fs)] or shown
    headings = (FILE_SYSTEM, "File Read", "File Write")
    rows = [(fs.label, *(format_program_bytes(fs, f"{direction}_bytes", units)
                         for direction in ("read", "write")))
            for fs in shown if fs in of_lustre or disk_values.OF_JOB in fs.sources]
    parts = ["File data transfer statistics for this job:",
             format_table(headings, rows, screen),
             *_make_operation_table(of_lustre, config, screen),
             *([f"No I/O on: {', '.join(fs.label for fs in idle)}"] if idle else []), *advised]
    if long and not is_markdown:
        parts += one_screen.format_lines(of_lustre, record, units, screen)
    parts += _make_source_table(shown, config, below, long)
    unread = [fs for fs in shown if fs.operations is None
              and any(server.requests for server in fs.metadata.values())]
    if is_markdown if long else unread:
        parts += _make_metadata_tables(shown if long else unread, screen)
    if record.phases:
        parts += _make_phase_table(record, config, {fs.name for fs in idle}, units, below)
    if is_markdown or not long:
        parts += _draw_rates(shown, record.coverage.reported, units, screen)
    if is_markdown and long:
        parts += long_tables.make_tables(shown, record, units, screen)
    return parts


def _is_lustre(fs: FileSystemRecord) -> bool:
    """False for a file system with counters of a site's own source only."""
    return not fs.sources or fs.kind == CEPH or any(fs[layer] for layer in (
        "application", "network", "operations", "metadata"))


def _make_source_table(shown: list[FileSystemRecord], config: Config, screen: Screen,
                       long: bool) -> list[str]:
    """
    Make the table of counters that no other table has; with their times, and those of whole nodes,
    if `long`.
    """
    units, least = config.report.units, config.findings.from_bytes
    rows = [(fs.label, sources.get_title(source), format_metric_name(metric),
             get_mark(counted.lower_bound, sources.is_upper_bound(source, metric))
             + format_amount(metric, value, units))
            for fs in shown for source, counted in fs.sources.items()
            for metric, value in counted.totals.items()
            if long or not (metric.endswith("_us") or (sources.is_upper_bound(source) and not (
                source == disk_values.TMPDIR and disk_values.has_tmpdir_io(fs, least))))]
    return ["Other counters:",
            format_table((FILE_SYSTEM, "Counter", "Metric", "Total"), rows, screen,
                         ("left", "left", "left", "right"))] if rows else []


def _make_operation_table(shown: list[FileSystemRecord], config: Config,
                          screen: Screen) -> list[str]:
    columns = config.report.columns
    shown = [fs for fs in shown if fs.kind == LUSTRE or fs.operations]
    if not columns:
        # Every operation that happened, in the order of OPERATIONS.
        place = {name: number for number, name in enumerate(OPERATIONS)}
        columns = sorted({name for fs in shown for name in fs.operations or {}},
                         key=lambda name: (place.get(name, len(place)), name == OTHERS, name))
    if not columns or not shown:
        return []                         # nothing happened, or nothing could be read
    operations = {*OPERATIONS, *(name for fs in shown for name in fs.operations or {})}
    rows = [(fs.label, *(_format_operation(fs, name, operations) for name in columns))
            for fs in shown]
    headings, align = (FILE_SYSTEM, *columns), ("left",) + ("right",) * len(columns)
    return ["Metadata statistics for this job:", format_table(headings, rows, screen, align)]


def _format_operation(fs: FileSystemRecord, name: str, operations: Container[str]) -> str:
    if fs.operations is None:
        return "-"
    row = fs.operations.get(name)
    if row is None and (OTHERS in fs.operations or name not in operations or fs.kind != LUSTRE):
        return "-"      # it may be in OTHERS; it is no operation; or GPFS does not count it
    return f"{mark_operation(fs, name)}{format_count(row.count if row else 0)}"


def _make_metadata_tables(shown: list[FileSystemRecord], screen: Screen) -> list[str]:
    """
    Make the tables of requests to each MDT or NFS server, by which administrators judge a job.
    """
    rows = []
    server = " or ".join(dict.fromkeys(name_metadata_server(fs) for fs in shown if fs.metadata))
    for fs in shown:
        low, of_mean = mark_metadata(fs)
        for target, metadata in fs.metadata.items():
            peak = metadata.peak
            rate = metadata.per_second_per_node
            rows.append((fs.label, target, low + format_count(metadata.requests),
                         "-" if rate is None else f"{of_mean}{rate:.1f}",
                         f"{low}{peak.per_second:.1f}" if peak else "-",
                         peak.node if peak else "-",
                         ", ".join(f"{name} {low}{format_count(count)}"
                                   for name, count in find_most_frequent(metadata))))
    if not rows:
        return []
    return [f"Metadata requests by {server} (rates per second and node):",
            format_table((FILE_SYSTEM, server, "Requests", "Average", "Peak", "Peak node", "Most"),
                         rows,
                         screen if screen.form == MARKDOWN else screen._replace(form=BLOCKS),
                         ("left", "left", "right", "right", "right", "left", "left"))]


def _make_phase_table(record: Record, config: Config, idle: set[str], units: str,
                      screen: Screen) -> list[str]:
    """One row for each part of the job and file system, in the order of time."""
    rows = []
    for phase in record.phases:
        for fs in [fs for fs in select_file_systems(phase, config) if fs.name not in idle] or [
                PhaseFileSystem.of({"label": "-", "application": None, "operations": None})]:
            operations = fs.operations
            rows.append((phase.name, f"{phase.elapsed_s:.1f} s", fs.label,
                         *(format_program_bytes(fs, f"{direction}_bytes", units)
                           for direction in ("read", "write")),
                         "-" if operations is None else mark(fs, "operations") + format_count(
                             count_all_operations(operations))))
    parts = ["Parts of this job:",
             format_table(("Part", "Time", FILE_SYSTEM, "File Read", "File Write", "Ops"),
                          rows, screen, ("left", "right", "left", "left", "left", "right"))]
    parts += [f"note: the part {phase.name} is from `start` to the first mark: what the nodes "
              f"did by themselves, if the job did nothing before that mark"
              for phase in record.phases if phase.name.startswith("(before ")]
    return parts


def _draw_rates(shown: list[FileSystemRecord], reported: int, units: str,
                screen: Screen) -> list[str]:
    """Draw a line of bars for each metric that `watch` recorded."""
    lines = []
    widest = max((measure_width(fs.label) for fs in shown if fs.series), default=0)
    for fs in shown:
        series = fs.series
        for metric, name in (("read_bytes", "read"), ("write_bytes", "written"),
                             ("operations", "operations")):
            if series and any(series[metric]):
                peak = max(series[metric]) / series.every_s
                highest = format_rate(peak) if metric == "operations" else format_bytes(peak, units)
                of = f", on {series.nodes} of {reported} nodes"
                lines.append((f"{pad(fs.label, widest)} {name:<10} |", series[metric],
                              f"| peak {mark(fs, metric)}{highest}/s"
                              f"{of if series.nodes < reported else ''}"))
    room = min((screen.width - measure_width(before + behind) for before, _, behind in lines),
               default=0)
    return ["I/O over time (sum over the nodes running `iostats_client.py watch`):",
            *(before + draw_bars(values, max(8, min(60, room)), screen.is_ascii) + behind
              for before, values, behind in lines)] if lines else []
