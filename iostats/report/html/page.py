"""
A job's page: `make_page` makes a document in one file, `make_sections` its contents alone.

The document asks for nothing: its style and its script are in it, and its Content-Security-Policy
allows these two by their hashes, and nothing else.

It begins with an answer: was this job slow because of its I/O?  And with the most important
numbers.  Nothing is claimed that the numbers don't prove.  The kernel's times are of all threads of
all nodes: where all of them together are little beside the job's own time, I/O was not it,
whichever thread waited for which; the other way round there is only a share, which grows with the
number of threads.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from iostats import __version__
from iostats.base.config import Config
from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_bytes, format_count, format_duration, format_percent
from iostats.load.time_lines import JobHistory
from iostats.lustre.metrics import count_all_operations
from iostats.report import event_tables, explanation, header, newer_release
from iostats.report.charts import as_table, svg
from iostats.report.charts.chart import Chart
from iostats.report.findings.finding import Finding
from iostats.report.html import markup, tables
from iostats.report.job_charts import CHARTS, make_load_chart, sort_by_importance
from iostats.report.job_numbers import get_bytes
from iostats.report.network_bytes import explain_network_bytes
from iostats.report.shown_file_systems import find_busy_by_node, list_notes, split_by_activity
from iostats.report.storage_server_tables import list_imported_notes
from iostats.report.text_table import select_file_systems
from iostats.report.why.cause import (
    UNKNOWN,
    Cause,
    choose_colour,
    describe_confidence_and_cost,
    format_headline,
    main_cause,
)
from iostats.report.why.time_in_lustre import TimeInLustre, compute_time_in_lustre
from iostats.totals.bounds import get_mark, mark, mark_layer, mark_ratio, mark_source
from iostats.totals.disk_values import LOCAL_DISKS
from iostats.totals.kinds import measure_bytes
from iostats.totals.record import FileSystemRecord, Record
from iostats.totals.record_part import SCHEMA

MOST_FINDINGS = 5                   # that are open at once
LONGEST_BYTES = 200_000             # of a document
_MOST_DETAILS = 5                   # file systems with charts and tables of their own
_MOST_BARS, _FEWER_BARS = 1000, 160     # of a chart, of the busiest file system and of others
_MOST_NOTES = 40
SMALL_SHARE, LARGE_SHARE = 0.05, 0.3  # of the job's time, and of its nodes' time


class Figure(NamedTuple):
    """A chart with its numbers."""

    ident: str          # of its elements on the page
    # title, label: of the chart; what it shows, and that with the name of its file system
    title: str
    label: str
    svg: str            # the chart as markup
    remarks: list[str]  # [text], what its marks are
    # headings, rows, rest: of charts.as_table
    headings: list[str]
    rows: list[list[str]]
    rest: str


def make_page(record: Mapping[str, object], config: Config, findings: Sequence[Finding],
              causes: Sequence[Cause] | None = None, history: JobHistory | None = None,
              made_at: float | None = None, looked_at: str = "") -> str:
    """
    The whole document of a labelled record.

    `findings`, `causes`: highest weight first; `causes` None where none were looked for.
    `looked_at`: what to say where there are no findings.  `made_at`: seconds since 1970.
    """
    record = Record.of(record)
    style, script = markup.load_css(), markup.load_script()
    policy = (f"default-src 'none'; style-src '{_compute_hash(style)}'; script-src "
              f"'{_compute_hash(script)}'; "
              f"img-src data:; base-uri 'none'; form-action 'none'")
    text = ""
    for details in (_MOST_DETAILS, 1, 0):
        text = markup.make_environment().get_template("page.html").render(
            title=f"Job {markup.wrap_label(record.job.id)}", policy=policy, style=Markup(style),
            script=Markup(script), made_at=made_at, version=__version__,
            sections=make_sections(record, config, findings, causes, history, looked_at, details))
        if len(text.encode()) <= LONGEST_BYTES:
            break
    return text


def _compute_hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def make_sections(record: Mapping[str, object], config: Config, findings: Sequence[Finding],
                  causes: Sequence[Cause] | None = None, history: JobHistory | None = None,
                  looked_at: str = "", details: int = _MOST_DETAILS) -> Markup:
    """
    The report as one <article>, with an <h1>, without style and script: markup.css, .script.

    `details`: how many file systems have charts and tables of their own.
    """
    record = Record.of(record)
    return Markup(markup.make_environment().get_template("sections.html").render(
        **_make_values(record, config, findings, causes, history, details), looked_at=looked_at))


def _make_values(record: Record, config: Config, findings: Sequence[Finding],
                 causes: Sequence[Cause] | None, history: JobHistory | None,
                 details: int) -> dict[str, Any]:
    """Make the values of the template sections.html."""
    units = config.report.units
    shown, idle = split_by_activity(record, config)
    shown = sort_by_importance(shown)
    harvested = select_file_systems(record.harvest, config) if record.harvest else []
    by_node = find_busy_by_node(record, config, {
        *(fs.name for fs in shown), *(fs.name for fs in harvested)})
    findings = [item._replace(file_system=config.labels.get(item.file_system, item.file_system))
                for item in findings]
    events = event_tables.make_rows(record, config.labels)
    return {
        "record": record, "job": record.job, "batch": record.batch,
        "facts": _list_facts(record), "coverage_line": header.format_nodes(record),
        "is_complete": record.coverage.complete and not record.coverage.missing_count,
        "data_lost": event_tables.list_data_losses(record),
        "answer": make_answer(record, causes or ()),
        "tiles": make_tiles(record, shown, units, event_tables.count_events(record)),
        "findings": findings[:MOST_FINDINGS], "more_findings": findings[MOST_FINDINGS:],
        "causes": _list_other_causes(causes or (), findings),
        "overview": tables.make_file_system_table(shown, units) if len(shown) > 1 else None,
        "file_systems": [_make_file_system_values(record, fs, place, units, history)
                         for place, fs in enumerate(shown[:details])],
        "only_in_overview": [fs.label for fs in shown[details:]],
        "idle": [fs.label for fs in idle],
        "loads": _make_load_figures(record, config, history, {fs.name for fs in shown}, units),
        "others": tables.make_other_job_table(history, config.labels, units) if history else None,
        "phases": tables.make_phase_table(record, {fs.name for fs in idle}, units),
        "servers": [item for item in (
            tables.make_imported_table(record, config),
            tables.make_comparison_table(shown, harvested, by_node, units),
            *tables.make_part_tables(harvested, units),
            *map(tables.make_server_operation_table, harvested[:_MOST_DETAILS])) if item],
        "events": tables.make_event_table(events, record.events_more)
        if events or record.events_more else None,
        "no_events": record.events is not None,
        "notes": _format_notes([
            *list_notes(record, shown, harvested, by_node, True, config),
            *(list_imported_notes(record.imported) if record.imported else ())]),
        "meanings": tables.make_meaning_table(shown),
        "always": explanation.explain_all_numbers(shown),
        "unknown": _list_unknown_members(record)}


def _list_other_causes(causes: Sequence[Cause], findings: Sequence[Finding]) -> list[Cause]:
    """
    Return the causes with their confidence, without sentences that the findings above them repeat.
    """
    texts = {text for item in findings for text in (item.meaning, item.advice, item.link)}
    return [item._replace(
        evidence=[*([describe_confidence_and_cost(item)] if item.kind != UNKNOWN else []),
                  *(line for line in item.evidence if line not in texts)])
            for item in causes]


def _list_facts(record: Record) -> list[tuple[str, str]]:
    """Return [(what, text)] of the job, as far as they are known."""
    batch, job, nodes = record.batch, record.job, record.coverage
    facts = [("User", job.user or ""), ("Ran", "" if job.elapsed_s is None else
                                        format_duration(job.elapsed_s))]
    if nodes.complete:
        facts.append(("Nodes", f"{nodes.reported:,}"))
    if batch:
        facts += [("Cluster", batch.cluster), ("Partition", batch.partition),
                  ("Account", batch.account)]
        if batch.outcome:
            facts.append(("Outcome", batch.outcome))
    if job.attempt:
        facts.append(("Run", f"{job.attempt + 1}."))
    return [(heading, text) for heading, text in facts if text]


def _make_file_system_values(record: Record, fs: FileSystemRecord, place: int, units: str,
                             history: JobHistory | None) -> dict[str, Any]:
    """Make the template's values of one file system."""
    figures = [figure for kind, make in CHARTS.items()
               for chart in [make(record, fs, history, _FEWER_BARS if place else _MOST_BARS)]
               if chart
               for figure in [_make_figure(chart, f"fs{place}-{kind}", units)]]
    tables_shown = [tables.make_transfer_table(fs, units) if fs.application or fs.network else None,
                    tables.make_operation_table(fs), tables.make_metadata_table(fs),
                    tables.make_size_table(fs),
                    tables.make_spread_table(fs, record.coverage.reported, units),
                    tables.make_counter_table(fs, units)]
    return {"label": fs.label, "mounts": fs.mounts[:4], "ident": f"fs{place}",
            "figures": figures, "tables": [table for table in tables_shown if table],
            "sentences": explain_network_bytes(fs, units)}


def _make_figure(chart: Chart, ident: str, units: str) -> Figure:
    headings, rows, rest = as_table.make_rows(chart, units)
    return Figure(ident, chart.title, svg.format_title(chart), Markup(svg.draw_inline(
        chart, ident, units)), svg.list_remarks(chart), headings, rows, rest)


def _make_load_figures(record: Record, config: Config, history: JobHistory | None, names: set[str],
                       units: str) -> list[Figure]:
    """Each file system among all jobs, where the site's server keeps it."""
    charts = [make_load_chart(record, fs.name, config.labels.get(fs.name, fs.name), history)
              for fs in (history.file_systems if history else ()) if fs.name in names]
    figures = [_make_figure(chart, f"load{number}", units)
               for number, chart in enumerate(charts[:_MOST_DETAILS]) if chart]
    return [figure._replace(title=figure.label) for figure in figures]


def _format_notes(lines: Sequence[str]) -> list[str]:
    """Lines of the report's notes as sentences of a page."""
    return [line.partition("note: ")[2] if line.startswith("note: ") else line
            for line in lines[:_MOST_NOTES] if newer_release.NOTE not in line]


def _list_unknown_members(record: Record) -> list[str]:
    """List the members of a newer release's record that this release does not show."""
    for note in record.notes:
        if note.startswith(newer_release.NOTE):
            return note[len(newer_release.NOTE):].split(", ")
    unknown = sorted(map(str, set(record) - set(Record.__annotations__)))
    if record.get("schema") != SCHEMA:
        unknown.insert(0, f"schema {record.get('schema')}")
    return unknown[:20]


class Verdict(NamedTuple):
    """The answer to whether I/O slowed the job."""

    kind: str   # "good", "warn", "bad" or "unknown"; a sign and a colour
    head: str   # a few words
    text: str   # a sentence, with its numbers


class Tile(NamedTuple):
    """One of the most important numbers."""

    # title, text: "Read", ">= 1.3 TiB"
    title: str
    text: str
    value: Any                  # the number itself, for programs; "" if unknown
    about: str = ""             # a few words more
    share: float | None = None  # to be shown as a bar, from 0 to 1; None for none


_IN_WORDS = {">= ": "at least ", "<= ": "up to "}


def make_answer(record: Record, causes: Sequence[Cause] = ()) -> Verdict:
    """The answer, by the main cause where one was found, or else by the record alone."""
    cause = main_cause(causes)
    if cause:
        return Verdict(choose_colour(cause), format_headline(cause),
                       f"{cause.text}.  {describe_confidence_and_cost(cause)}")
    if causes and causes[0].about.get("too_short"):
        return Verdict("unknown", "Too short to judge", f"{causes[0].text}.")
    coverage, elapsed_s, time = record.coverage, record.job.elapsed_s, compute_time_in_lustre(
        record)
    known = time.known
    if known is None or not elapsed_s:
        why = time.why_not or "the record has no times"
        return Verdict("unknown", "The time it waited for Lustre is unknown",
                       f"{why[0].upper()}{why[1:]}.")
    low, high = time.mark in (">= ", "~ "), time.mark in ("<= ", "~ ")
    took = _IN_WORDS.get(time.mark, time.mark) + _format_seconds(known.seconds)
    nodes = format_count(coverage.reported, "node")
    whose = f"the {nodes} that reported" if coverage.missing_count else f"its {nodes}"
    text = (f"Its programs spent {took} in Lustre, {time.share_mark}"
            f"{format_percent(known.share, bool(time.share_mark))} of the time of {whose}")
    if known.serial_share <= SMALL_SHARE and not low:
        return Verdict("good", "I/O did not make this job slow",
                       f"All its calls to Lustre together took {took}, "
                       f"{format_percent(known.serial_share)} of the {format_duration(elapsed_s)} "
                       f"that "
                       f"it ran.")
    task_share = known.task_share
    if (low and task_share < LARGE_SHARE) or (high and task_share > SMALL_SHARE):
        why = time.why_not or "some numbers are missing"
        return Verdict("unknown", "It is unknown whether I/O slowed this job",
                       f"{text}; {why}." if known.seconds else f"{why[0].upper()}{why[1:]}.")
    if task_share <= SMALL_SHARE:
        return Verdict("good", "I/O hardly slowed this job",
                       f"{text}; unless most of it waited for the few that did it.")
    if time.of_tasks:
        text += f" ({time.of_tasks})"
    if coverage.reported > 1 and known.busiest_share > 2 * known.share and not low:
        text += f", and up to {format_percent(known.busiest_share)} on one node"
    text += f"{_find_longest_call(record, time, known.seconds)}." + (
        "  Threads that wait at the same time each count." if known.share > 1 else "")
    if task_share >= LARGE_SHARE:
        return Verdict("bad", "I/O took much of this job's time", text)
    return Verdict("warn", "I/O took a part of this job's time", text)


def _find_longest_call(record: Record, time: TimeInLustre, whole_s: float) -> str:
    """Return the call that took most of the time, and its file system."""
    (name, call), (_, seconds) = max(time.by_operation.items(), key=lambda item: item[1][1])
    label = next(fs.label for fs in record.file_systems if fs.name == name)
    either = "~ " if time.mark else ""
    return f": {either}{format_percent(seconds / whole_s)} of that in {call} on {label}"


def make_tiles(record: Record, shown: Sequence[FileSystemRecord], units: str,
               events: int | None) -> list[Tile]:
    """The most important numbers of all file systems together; `events`: how many hit the job."""
    tiles = [_make_transfer_tile(record, shown, direction, units)
             for direction in ("read", "write")]
    counted = [fs for fs in shown if fs.operations is not None]
    count = sum(count_all_operations(fs.operations or {}) for fs in counted)
    low = _find_sum_mark([mark(fs, "operations") for fs in counted])
    tiles.append(Tile("Operations", f"{low}{count:,}" if counted else "-",
                      str(count) if counted else "", _find_most_frequent(counted, low)))
    time = compute_time_in_lustre(record)
    known = time.known
    if known is not None:
        share = f"{format_percent(known.share, bool(time.share_mark))} of node time"
        tiles.append(Tile("Time in Lustre", f"{time.mark}{_format_seconds(known.seconds)}",
                          f"{known.seconds:.6f}", time.share_mark + share, known.share))
    balance = _make_ost_tile(shown)
    if balance:
        tiles.append(balance)
    if events:
        tiles.append(Tile("Events", f"{events:,}", str(events), "warnings and worse"))
    return tiles


def _make_transfer_tile(record: Record, shown: Sequence[FileSystemRecord], direction: str,
                        units: str) -> Tile:
    title, metric = {"read": "Read", "write": "Written"}[direction], f"{direction}_bytes"
    counted = [(fs, known) for fs in shown if fs.name != LOCAL_DISKS
               for known in [measure_bytes(fs, metric)] if known]
    if not counted:
        return _make_server_tile(record, title, direction, units)
    total = sum(amount for _, (amount, *_) in counted)
    of_each = [fs.application[f"{direction}_calls"] if fs.application else None
               for fs, _ in counted]
    calls = [number for number in of_each if number is not None]
    low = _find_sum_mark([get_mark(*marks) for _, (_, *marks) in counted])
    low_calls = _find_sum_mark([mark(fs, f"{direction}_calls") for fs, _ in counted])
    about = ""
    if len(calls) == len(of_each) and any(calls):
        each = mark_ratio(low, low_calls) + format_bytes(total // sum(calls), units)
        about = f"in {low_calls}{format_count(sum(calls), 'call')}, {each} each"
    return Tile(title, low + format_bytes(total, units), str(total), about)


def _make_server_tile(record: Record, title: str, direction: str, units: str) -> Tile:
    servers = record.harvest.file_systems if record.harvest else []
    if not servers:
        return Tile(title, "-", "", "not known")
    total = sum(get_bytes(fs, direction) for fs in servers)
    low = _find_sum_mark([mark_layer(fs) for fs in servers])
    return Tile(title, low + format_bytes(total, units), str(total), "at the storage servers")


def _find_most_frequent(counted: Sequence[FileSystemRecord], low: str) -> str:
    """Return the most frequent operation."""
    totals: dict[str, int] = {}
    for fs in counted:
        for name, row in (fs.operations or {}).items():
            totals[name] = totals.get(name, 0) + row.count
    top = max(totals, key=lambda name: totals[name], default="")
    return f"mostly {top} ({low}{totals[top]:,})" if top and totals[top] else ""


def _make_ost_tile(shown: Sequence[FileSystemRecord]) -> Tile | None:
    moved = [((fs.network.read_bytes or 0) + (fs.network.write_bytes or 0) if fs.network else 0, fs)
             for fs in shown if fs.balance and fs.balance.busiest_share is not None]
    if not moved:
        return None
    _, fs = max(moved, key=lambda pair: pair[0])
    balance = fs.balance
    assert balance is not None and balance.busiest_share is not None
    low = mark_source(fs, "osc")
    return Tile(f"Busiest OST of {fs.label}"[:60],
                mark_ratio(low, low) + format_percent(balance.busiest_share),
                str(balance.busiest_share),
                f"{balance.busiest}; {low}{balance.used:,} of {low}{balance.osts:,} OSTs used",
                balance.busiest_share)


def _find_sum_mark(marks: Sequence[str]) -> str:
    """Return the mark of a sum."""
    kinds = set(marks) - {""}
    return kinds.pop() if len(kinds) == 1 else "~ " if kinds else ""


def _format_seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 600 else format_duration(seconds)
