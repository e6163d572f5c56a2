"""
iostats report: the I/O of finished jobs, from the site's server, or from the batch system's own
accounting.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from iostats import schedulers
from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, AccessDenied, IostatsError, StateError, UsageError
from iostats.base.job_id import check_batch_job, expand_tasks
from iostats.base.messages import print_message
from iostats.base.named_tuple import NamedTuple
from iostats.cli import (
    CONFIG,
    Options,
    flag,
    operands,
    option,
    record_file,
    site_client,
    unfinished,
)
from iostats.cli.parser import (
    parse_options,
    parse_whole_number,
    require_packages,
    run_role,
    write_output,
)
from iostats.cli.report_file import check_writable, write_report
from iostats.cli.terminal_form import detect_screen
from iostats.report import array_total, comment_reader, job_tables
from iostats.report.newer_release import read_known
from iostats.report.site_methods import LATEST, RECORD
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iostats.base.config import Config
    from iostats.load.time_lines import JobHistory
    from iostats.report.charts.chart import Chart
    from iostats.totals.record import FileSystemRecord

_KINDS = ("time", "osts", "mdts", "nodes", "sizes")
_SUFFIXES = (".svg", ".png")
_NO_CAIROSVG = (f"PNG needs CairoSVG, which is not installed: {sys.executable} -m pip install "
                f"CairoSVG, or name a file that ends with .svg")


require_packages("msgspec", "ClusterShell")
_MAX_LATEST = 1000


class ReportOptions(Options, help="""\
usage: iostats report [options] JOB ...
       iostats report --latest N [options]

Print the I/O of finished jobs on Lustre: the record of the site's server, or
else the short form in the batch system's accounting.

For an array, the report has the total and the tasks that stand out; with
--tasks each task as well; 100_[1-3] selects tasks.  For a requeued job it has
the latest run; with --all every run.
A JOB with a / in it, or .json at its end, is a file written by --format json or
--json; - is standard input.  Files of `iostats run` for one job are its steps:
the report has their sum and a row for each, with --tasks each one as well.

options:
{options}

examples:
  iostats report 4711
  iostats report --long 4711_3 4712
  iostats report --format json 4711 | jq '.file_systems[].application'
  iostats report --html 4711.html 4711
  iostats report --html 4711.html ./4711.json
  iostats report ./prepare.json ./solve.json
  iostats report --chart time --output 4711.png 4711

exit status:
  0 printed   1 a job has no report, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and no other source has the job
"""):
    jobs = operands("JOB")
    latest = option("--latest N", "the N jobs that ended last")
    all = flag("--all", "every run of a requeued job")
    tasks = flag("--tasks", "each task of an array as well, below the total")
    format = option("--format FORM", "grid, plain, json, csv or markdown (default: grid)")
    long = flag("--long", "more: calls, mean sizes, network, times, MDTs, nodes")
    explain = flag("--explain", "explain what each number counts, and what it does not")
    html = option("--html FILE", "a page in one file, with charts; for a browser or a mail")
    chart = option("--chart KIND", "a chart alone: time, osts, mdts, nodes or sizes")
    output = option("--output FILE", "where the chart goes: FILE.svg or FILE.png")
    file_system = option("--file-system NAME",
                         "of the chart (default: the one with most of the time)")
    from_ = option("--from WHERE", "site or comment (default: site, then comment)")
    config = CONFIG


def main(arguments: list[str] | None = None) -> int:
    """Print reports; returns the exit status."""
    return run_role(lambda: _run(parse_options(ReportOptions, arguments)))


def _run(options: ReportOptions) -> int:
    config = site.load(options.config)
    if options.format is not None:
        config.set_value("report.format", options.format, "--format")
    where = options.from_
    if where not in (None, "site", "comment"):
        raise UsageError(f"--from: expected site or comment, got {where!r}")
    is_file = is_file_requested(options)
    if options.latest is not None:
        count = parse_whole_number("--latest", options.latest, _MAX_LATEST)
        if options.jobs:
            raise UsageError(f"expected --latest or jobs, got both: {' '.join(options.jobs)[:80]}")
        with site_client.check_format("a record"):
            latest = site_client.ask_site(config, LATEST, {"count": count})
            if not latest:
                print_message("there is no record yet that you may read")
            records = list(map(read_known, latest))
            if not is_file:
                _print(records, config, options)
            elif records:
                write_files(records, options, config, True)
        return DONE if latest or not is_file else UNREADABLE
    if not options.jobs:
        raise UsageError("expected a job, got none (see --help)")
    status = DONE
    shown_items: list[Record | _JobGroup] = []
    job_texts = [text for text in options.jobs if not record_file.is_file_name(text)]
    files = [text for text in options.jobs if record_file.is_file_name(text)]
    from_files = [record for path in files for record in record_file.read_records(path)]
    without_pages = frozenset(map(id, from_files))
    shown_items += [_JobGroup(job, steps)
                    for job, steps in array_total.find_steps(from_files).items()]
    shown_items += from_files
    for job in [check_batch_job(job, "JOB") for text in job_texts
                for job in expand_tasks(text, "JOB")]:
        records, failed = fetch_records(job, config, where)
        if not records:
            why = failed or (f"the accounting has no comment of iostats for job {job}"
                             if where == "comment"
                             else unfinished.explain_missing_reports([job], config)[job])
            print_message(why)
            status = max(status, failed.exit_status if failed else UNREADABLE)
        with site_client.check_format("a record"):
            shown = select_latest_runs(records)
            if array_total.are_parts_of(shown, job):
                shown_items.append(_JobGroup(job, shown))
            shown_items += records if options.all else shown
    with (record_file.check_format(files[0], [
            item for item in shown_items if not isinstance(item, _JobGroup)]) if files
          else site_client.check_format("a record")):
        if not is_file:
            _print(shown_items, config, options, without_pages)
        elif shown_items:
            write_files([item for item in shown_items
                         if not isinstance(item, _JobGroup)], options,
                        config, not files and where != "comment")
    return status


def fetch_records(job: str, config: site.Config, where: str | None = None,
                  within_s: float = site_client.WITHIN_S, for_anybody: bool = False
               ) -> tuple[list[Record], IostatsError | None]:
    """
    Return ([Record] of a job, the IostatsError if there is none, or None if the job is unknown).

    `where`: "site" or "comment"; None for both, then the site's server has to answer within
    `within_s`.  `for_anybody`: a comment is used whichever user runs this.
    """
    failure, answered, answer = None, False, list[dict[str, object]]()
    if where != "comment":
        try:
            answer = site_client.ask_site(config, RECORD, {"job": job}, within_s)
            answered = True
        except IostatsError as error:
            failure = error
    if answer:
        with site_client.check_format("a record"):
            return list(map(read_known, answer)), None
    if where != "site":
        try:
            records = _load_records_from_comments(job, config, for_anybody)
            if records:
                return records, None
        except AccessDenied as error:
            failure = error
        except IostatsError as error:
            failure = failure or (None if answered else error)
    return [], failure


def _load_records_from_comments(job: str, config: site.Config, for_anybody: bool) -> list[Record]:
    """Return [Record] in short, from the batch system's accounting; AccessDenied."""
    records: list[Record] = []
    system = schedulers.find_scheduler_with_comments(config, os.environ)
    if system is None:
        return records
    for shown_as, (user, text) in system.read_all_comments(job).items():
        comment = comment_reader.find_comment(text)
        if comment:
            if not for_anybody and not site_client.may_read_reports(user, config):
                raise AccessDenied(job, user)
            records.append(comment_reader.make_record(comment_reader.decode(comment), shown_as))
    return records


def select_latest_runs(records: list[Record]) -> list[Record]:
    """The record of the last run of each job among the records."""
    latest = {}
    for record in records:
        latest[record.batch and record.batch.cluster, record.job.id] = record
    return list(latest.values())


class _JobGroup(NamedTuple):
    job: str
    records: list[Record]


def _print(records: Sequence[Record | _JobGroup], config: site.Config, options: ReportOptions,
           without_pages: Collection[int] = ()) -> None:
    """
    Print the reports.

    `without_pages`: id() of each record that was read from a file: the site's pages may not have
    that job, so its report ends without the address of a page.
    """
    form, screen = config.report.format, detect_screen(sys.stdout)
    if form in ("json", "csv"):
        records = [record for record in records if not isinstance(record, _JobGroup)]
    elif not (options.tasks or options.all):
        parts = {id(part) for whole in records if isinstance(whole, _JobGroup)
                 for part in whole.records}
        records = [record for record in records if id(record) not in parts]
    for number, record in enumerate(records):
        if isinstance(record, _JobGroup):
            other_parts = "" if record.records[0].job.command else (
                unfinished.describe_other_parts(record.job, record.records, config))
            write_output(["\n" * bool(number) + array_total.format_total(record.job, [
                job_tables.add_labels(part, config) for part in record.records], config,
                screen._replace(form=form), other_parts)])
            continue
        text = job_tables.format_report(job_tables.add_labels(record, config), config, form,
                                        options.long,
                                        options.explain, screen, id(record) not in without_pages)
        if form == "csv" and number:
            text = text.partition("\n")[2]                 # one heading for all
        elif form != "json" and number:
            text = "\n" + text
        write_output([text])


def is_file_requested(options: ReportOptions) -> bool:
    """
    Whether files are requested instead of text; UsageError for invalid options, before any work.
    """
    if (options.chart is None) != (options.output is None):
        raise UsageError("expected --chart and --output together, as in: --chart time --output "
                         "FILE.svg")
    if options.chart is not None and options.chart not in _KINDS:
        raise UsageError(f"--chart: expected one of {', '.join(_KINDS)}, got "
                         f"{options.chart[:40]!r}")
    if options.output not in (None, "-") and not options.output.endswith(_SUFFIXES):
        raise UsageError(f"--output: expected a file that ends with .svg or .png, got "
                         f"{options.output[:200]!r}")
    if options.output and options.output.endswith(".png"):
        _as_png("")
    if options.file_system is not None and options.chart is None:
        raise UsageError("--file-system is for --chart")
    for path in (options.html, options.output):
        if path not in (None, "-"):
            check_writable(path)
    return options.html is not None or options.chart is not None


def write_files(records: Sequence[Record], options: ReportOptions, config: Config,
                from_site: bool) -> None:
    """
    Write the requested files of the one record; UsageError if there are several. `from_site`: the
    site's server has the record, and may have more about the job.
    """
    if len(records) != 1:
        names = ", ".join(record.job.id for record in records[:8])
        raise UsageError(f"{'--html' if options.html else '--chart'}: expected one run of one job, "
                         f"got {len(records)}; name one of them: {names}"
                         + (", ..." if len(records) > 8 else ""))
    record = job_tables.add_labels(records[0], config)
    history, similar = None, []
    if from_site:
        from iostats.cli import why
        history, _ = why.fetch_history(record, config)
        similar = why.fetch_similar_runs(record, why.DEFAULT_SIMILAR,
                                         config) if history and options.html else []
    if options.html is not None:
        _write(options.html, make_page(record, config, history, similar))
    if options.chart is not None and options.output is not None:
        fs, chart = _select_chart(record, options.chart, options.file_system, history)
        _write(options.output, _draw_chart(record, fs, chart, options.output, config))


def make_page(record: Record, config: Config, history: JobHistory | None = None,
              like: Sequence[Record] = ()) -> str:
    """The page of a labelled record."""
    from iostats.report.findings.evaluate import list_checks
    from iostats.report.html.page import make_page
    from iostats.report.why.causes import judge_record
    judgement = judge_record(record, config, history, like)
    return make_page(record, config, judgement.findings, judgement.causes, history, time.time(),
                     list_checks(record, config))


def _write(path: str, data: str | bytes) -> None:
    if path != "-":
        write_report(path, data)
    elif isinstance(data, str):
        write_output([data])
    else:
        sys.stdout.buffer.write(data)


def _draw_chart(record: Record, fs: FileSystemRecord, chart: Chart, path: str,
                config: Config) -> str | bytes:
    """Draw a chart as the bytes of a file: SVG or PNG."""
    from iostats.report.charts import svg
    name = f" ({record.batch.name})" if record.batch and record.batch.name else ""
    source = f"job {record.job.id}{name}, {fs.label}; iostats"
    text = svg.draw_file(chart, source, config.report.units)
    return _as_png(text) if path.endswith(".png") else text


def _select_chart(record: Record, kind: str, name: str | None,
                  history: JobHistory | None) -> tuple[FileSystemRecord, Chart]:
    """The chart of the given file system, or of the busiest one that has such a chart."""
    from iostats.report.job_charts import CHARTS, sort_by_importance
    candidates = sort_by_importance(record.lustre)
    if name is not None:
        candidates = [fs for fs in candidates if name in (fs.name, fs.label)]
        if not candidates:
            names = ", ".join(fs.label for fs in record.lustre[:8])
            raise UsageError(f"--file-system: job {record.job.id} has no {name[:80]!r}; there are: "
                             f"{names}")
    for fs in candidates:
        chart = CHARTS[kind](record, fs, history)
        if chart is not None:
            return fs, chart
    raise StateError(f"job {record.job.id}: no chart of {kind}: {_REASONS_WITHOUT_CHART[kind]}")


_REASONS_WITHOUT_CHART = {
    "time": "there are no time series: nodes report them with `watch`, storage servers with "
            "`harvest`",
    "osts": "fewer than two OSTs have known counts, or nothing was read and written",
    "mdts": "fewer than two MDTs have known counts, or none got a request",
    "nodes": "fewer than two nodes have known counts",
    "sizes": "the sizes of requests are unknown (rpc_stats)"}


def _as_png(text: str) -> bytes:
    """The PNG of an SVG, with twice the pixels; b"" for "", a check that PNG can be made."""
    try:
        import cairosvg
    except ImportError:
        raise UsageError(_NO_CAIROSVG) from None
    except OSError:                                # no libcairo.so
        raise UsageError("PNG needs the library cairo: apt-get install libcairo2, or name a file "
                         "that ends with .svg") from None
    if not text:
        return b""
    png: bytes = cairosvg.svg2png(bytestring=text.encode(), scale=2)
    return png
