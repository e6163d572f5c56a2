"""
A job's page: `page` is a whole document in one file, `sections` its contents for another layout.

The document asks for nothing: its style and its script are in it, and its Content-Security-Policy
allows these two by their hashes, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from collections import namedtuple
from hashlib import sha256

from markupsafe import Markup

from iostats import __version__
from iostats.base.units import duration_text
from iostats.report import coverage, event_tables, explanation, newer_release
from iostats.report.charts import as_table, svg
from iostats.report.html import answer, markup, tables
from iostats.report.job_charts import CHARTS, by_importance, load_chart
from iostats.report.network_bytes import why_network_differs
from iostats.report.shown import busy_and_idle, busy_by_node, notes_of
from iostats.report.text_table import file_systems_of
from iostats.report.why.cause import UNKNOWN
from iostats.report.why.headline import confidence_and_cost
from iostats.totals.record import SCHEMA, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iostats.load.time_lines import JobHistory
    from iostats.report.advice.finding import Finding
    from iostats.report.charts.chart import Chart
    from iostats.report.why.cause import Cause
    from iostats.totals.record import FileSystemRecord

MOST_FINDINGS = 5                   # that are open at once
LONGEST_BYTES = 200_000             # of a document
_MOST_DETAILS = 4                   # file systems with charts and tables of their own
_MOST_BARS, _FEWER_BARS = 1000, 160     # of a chart, of the busiest file system and of others
_MOST_NOTES = 40

Figure = namedtuple("Figure", "ident title label svg remarks headings rows rest")
Figure.__doc__ = """
A chart with its numbers.

Attributes:
    ident: of its elements on the page.
    title, label: of the chart; what it shows, and that with the name of its file system.
    svg: the chart as markup.
    remarks: [text], what its marks are.
    headings, rows, rest: of charts.as_table.
"""


def page(record: Mapping[str, Any], config: Any, findings: Sequence[Finding],
         causes: Sequence[Cause] | None = None, history: JobHistory | None = None,
         made_at: float | None = None, looked_at: str = "") -> str:
    """
    The whole document of a labelled record.

    `findings`, `causes`: highest weight first; `causes` None where none were looked for.
    `looked_at`: what to say where there are no findings.  `made_at`: seconds since 1970.
    """
    record = Record.of(record)
    style, script = markup.css(), markup.script()
    policy = (f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
              f"img-src data:; base-uri 'none'; form-action 'none'")
    text = ""
    for details in (_MOST_DETAILS, 1, 0):
        text = markup.environment().get_template("page.html").render(
            title=f"Job {markup.label(record.job.id)}", policy=policy, style=Markup(style),
            script=Markup(script), made_at=made_at, version=__version__,
            sections=sections(record, config, findings, causes, history, looked_at, details))
        if len(text.encode()) <= LONGEST_BYTES:
            break
    return text


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def sections(record: Mapping[str, Any], config: Any, findings: Sequence[Finding],
             causes: Sequence[Cause] | None = None, history: JobHistory | None = None,
             looked_at: str = "", details: int = _MOST_DETAILS) -> Markup:
    """
    The report as one <article>, with an <h1>, without style and script: markup.css, .script.

    `details`: how many file systems have charts and tables of their own.
    """
    record = Record.of(record)
    return Markup(markup.environment().get_template("sections.html").render(
        **_values(record, config, findings, causes, history, details), looked_at=looked_at))


def _values(record: Record, config: Any, findings: Sequence[Finding],
            causes: Sequence[Cause] | None, history: JobHistory | None,
            details: int) -> dict[str, Any]:
    """What the template sections.html has."""
    units = config["report.units"]
    shown, idle = busy_and_idle(record, config)
    shown = by_importance(shown)
    harvested = file_systems_of(record.harvest, config) if record.harvest else []
    by_node = busy_by_node(record, config, {fs.name for fs in (*shown, *harvested)})
    findings = [one._replace(file_system=config.labels.get(one.file_system, one.file_system))
                for one in findings]
    events = event_tables.rows(record, config.labels)
    return {
        "record": record, "job": record.job, "batch": record.batch,
        "facts": _facts(record), "coverage_line": coverage.nodes_line(record),
        "is_complete": record.coverage.complete and not record.coverage.missing_count,
        "data_lost": event_tables.about_data(record),
        "answer": answer.answer_of(record, causes or ()),
        "tiles": answer.tiles_of(record, shown, units, event_tables.count_of(record)),
        "findings": findings[:MOST_FINDINGS], "more_findings": findings[MOST_FINDINGS:],
        "causes": _beside_findings(causes or (), findings),
        "overview": tables.file_systems(shown, units) if len(shown) > 1 else None,
        "file_systems": [_of_one(record, fs, place, units, history)
                         for place, fs in enumerate(shown[:details])],
        "only_in_overview": [fs.label for fs in shown[details:]],
        "idle": [fs.label for fs in idle],
        "loads": _loads(record, config, history, {fs.name for fs in shown}, units),
        "others": tables.others(history, config.labels, units) if history else None,
        "phases": tables.phases(record, {fs.name for fs in idle}, units),
        "servers": [one for one in (
            tables.both_sides(shown, harvested, by_node, units),
            *map(tables.server_operations, harvested[:_MOST_DETAILS])) if one],
        "events": tables.events(events, record.events_more)
        if events or record.events_more else None,
        "no_events": record.events is not None,
        "notes": _notes(notes_of(record, shown, harvested, by_node, True, config)),
        "meanings": tables.meanings(shown), "always": explanation.of_all(shown),
        "unknown": _unknown_members(record)}


def _beside_findings(causes: Sequence[Cause], findings: Sequence[Finding]) -> list[Cause]:
    """Causes, how sure they are, and without what the findings above them say in the same words."""
    said = {text for one in findings for text in (one.meaning, one.advice, one.link)}
    return [one._replace(evidence=[*([confidence_and_cost(one)] if one.kind != UNKNOWN else []), *(
        line for line in one.evidence if line not in said)]) for one in causes]


def _facts(record: Record) -> list[tuple[str, str]]:
    """[(what, text)] of the job, as far as they are known."""
    batch, job, nodes = record.batch, record.job, record.coverage
    found = [("User", job.user or ""), ("Ran", "" if job.elapsed_s is None else
                                        duration_text(job.elapsed_s))]
    if nodes.complete:
        found.append(("Nodes", f"{nodes.reported:,}"))
    if batch:
        found += [("Cluster", batch.cluster), ("Partition", batch.partition),
                  ("Account", batch.account)]
        if batch.outcome:
            found.append(("Outcome", batch.outcome))
    if job.attempt:
        found.append(("Run", f"{job.attempt + 1}."))
    return [(what, text) for what, text in found if text]


def _of_one(record: Record, fs: FileSystemRecord, place: int, units: str,
            history: JobHistory | None) -> dict[str, Any]:
    """What the template has of one file system."""
    figures = [figure for kind, make in CHARTS.items()
               for chart in [make(record, fs, history, _FEWER_BARS if place else _MOST_BARS)]
               if chart
               for figure in [_figure(chart, f"fs{place}-{kind}", units)]]
    found = [tables.transfers(fs, units) if fs.application or fs.network else None,
             tables.operations(fs), tables.metadata(fs), tables.sizes(fs),
             tables.spread(fs, record.coverage.reported, units), tables.other_counters(fs, units)]
    return {"label": fs.label, "mounts": fs.mounts[:4], "ident": f"fs{place}",
            "figures": figures, "tables": [one for one in found if one],
            "sentences": why_network_differs(fs, units)}


def _figure(chart: Chart, ident: str, units: str) -> Figure:
    headings, rows, rest = as_table.rows_of(chart, units)
    return Figure(ident, chart.title, svg.title_of(chart), Markup(svg.inline(
        chart, ident, units)), svg.remarks(chart), headings, rows, rest)


def _loads(record: Record, config: Any, history: JobHistory | None, names: set[str],
           units: str) -> list[Figure]:
    """Each file system among all jobs, where the site's server keeps it."""
    found = [load_chart(record, fs.name, config.labels.get(fs.name, fs.name), history)
             for fs in (history.file_systems if history else ()) if fs.name in names]
    figures = [_figure(chart, f"load{number}", units)
               for number, chart in enumerate(found[:_MOST_DETAILS]) if chart]
    return [figure._replace(title=figure.label) for figure in figures]


def _notes(lines: Sequence[str]) -> list[str]:
    """Lines of the report's notes as sentences of a page."""
    return [line.partition("note: ")[2] if line.startswith("note: ") else line
            for line in lines[:_MOST_NOTES] if newer_release.NOTE not in line]


def _unknown_members(record: Record) -> list[str]:
    """Names in a record of a newer release that this one shows nothing of."""
    for note in record.notes:
        if note.startswith(newer_release.NOTE):
            return note[len(newer_release.NOTE):].split(", ")
    found = sorted(map(str, set(record) - set(Record.__annotations__)))
    if record.get("schema") != SCHEMA:
        found.insert(0, f"schema {record.get('schema')}")
    return found[:20]
