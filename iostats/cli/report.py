"""
iostats report: what finished jobs did, from the site's server, or from the batch system's own
accounting.
"""

from __future__ import annotations

import os
import sys
from collections import namedtuple

from iostats import schedulers
from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, IostatsError, NotYours, UsageError
from iostats.base.job_id import checked_batch_job, tasks_of
from iostats.cli import packages, record_file, report_page, site_client, unfinished
from iostats.cli.parser import parser, put_out, status_of, whole_number
from iostats.cli.terminal_form import screen_of
from iostats.report import array_total, comment_reader, job_tables
from iostats.report.newer_release import as_known
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence

packages.needed("msgspec", "ClusterShell")
_MOST_LATEST = 1000

HELP = """\
usage: iostats report [options] JOB ...
       iostats report --latest N [options]

Print what finished jobs did to Lustre: as the site's server has it, or else the
short form that the batch system keeps with its accounting.

For an array, the report has the total and the tasks that stand out; with --tasks
each task as well; 100_[1-3] selects tasks.  For a requeued job it has the latest
run; with --all every run.
A JOB with a / in it, or .json at its end, is a file that --format json or --json
has written; - is standard input.

options:
  --latest N            the N jobs that ended last
  --all                 every run of a requeued job
  --tasks               each task of an array as well, below the total
  --format FORM         grid, plain, json, csv or markdown (default: grid)
  --long                more: calls, mean sizes, network, times, MDTs, nodes
  --explain             say of each number what it counts, and what it does not
  --html FILE           a page in one file, with charts; for a browser, or a mail
  --chart KIND          a chart alone: time, osts, mdts, nodes or sizes
  --output FILE         where the chart goes: FILE.svg or FILE.png
  --file-system NAME    of the chart (default: where the job spent most time)
  --from WHERE          site or comment (default: site, then comment)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats report 4711
  iostats report --long 4711_3 4712
  iostats report --format json 4711 | jq '.file_systems[].application'
  iostats report --html 4711.html 4711
  iostats report --html 4711.html ./4711.json
  iostats report --chart time --output 4711.png 4711

exit status:
  0 printed   1 a job has no report, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and the job is not known from elsewhere
"""


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats report", HELP, (
        "--latest", "--format", "--from", "--config", "--html", "--chart", "--output",
        "--file-system"), ("--long", "--explain", "--all", "--tasks"))
    command_line.add_argument("jobs", nargs="*")
    return status_of(lambda: _run(command_line.parse_intermixed_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if options.format is not None:
        config.take("report.format", options.format, "--format")
    where = getattr(options, "from")
    if where not in (None, "site", "comment"):
        raise UsageError(f"--from: expected site or comment, got {where!r}")
    is_file = report_page.is_wanted(options)
    if options.latest is not None:
        count = whole_number("--latest", options.latest, _MOST_LATEST)
        if options.jobs:
            raise UsageError(f"expected --latest or jobs, got both: {' '.join(options.jobs)[:80]}")
        with site_client.form_checked("a record"):
            latest = site_client.ask_site(config, "latest", {"count": count})
            if not latest:
                print("iostats: there is no record yet that you may see", file=sys.stderr)
            records = list(map(as_known, latest))
            if not is_file:
                _print(records, config, options)
            elif records:
                report_page.write(records, options, config, True)
        return DONE if latest or not is_file else UNREADABLE
    if not options.jobs:
        raise UsageError("expected a job, got none (see --help)")
    status = DONE
    found: list[Record | _Whole] = []
    wanted = [text for text in options.jobs if not record_file.is_named(text)]
    files = [text for text in options.jobs if record_file.is_named(text)]
    for path in files:
        found += record_file.records_in(path)
    without_pages = frozenset(map(id, found))
    for job in [checked_batch_job(job, "JOB") for text in wanted for job in tasks_of(text, "JOB")]:
        records, failed = records_of(job, config, where)
        if not records:
            why = failed or (f"the accounting has no comment of iostats for job {job}"
                             if where == "comment" else unfinished.reasons([job], config)[job])
            print(f"iostats: {why}", file=sys.stderr)
            status = max(status, failed.exit_status if failed else UNREADABLE)
        with site_client.form_checked("a record"):
            shown = latest_runs(records)
            if array_total.whole_of(shown, job):
                found.append(_Whole(job, shown))
            found += records if options.all else shown
    with (record_file.form_checked(files[0]) if files
          else site_client.form_checked("a record")):
        if not is_file:
            _print(found, config, options, without_pages)
        elif found:
            report_page.write([one for one in found if not isinstance(one, _Whole)], options,
                              config, not files and where != "comment")
    return status


def records_of(job: str, config: site.Config, where: str | None = None,
               within_s: float = site_client.WITHIN_S, for_anybody: bool = False
               ) -> tuple[list[Record], IostatsError | None]:
    """
    ([Record] of a job, why there is none: an IostatsError, or None where the job is not known).

    `where`: "site" or "comment"; None for both, where it is the site's server that has to answer,
    within `within_s`.  `for_anybody`: a comment is taken whoever asks here.
    """
    failed, answered, found = None, False, []
    if where != "comment":
        try:
            found = site_client.ask_site(config, "record", {"job": job}, within_s)
            answered = True
        except IostatsError as error:
            failed = error
    if found:
        with site_client.form_checked("a record"):
            return list(map(as_known, found)), None
    if where != "site":
        try:
            found = _from_comment(job, config, for_anybody)
            if found:
                return found, None
        except NotYours as error:
            failed = error
        except IostatsError as error:
            failed = failed or (None if answered else error)
    return [], failed


def _from_comment(job: str, config: site.Config, for_anybody: bool) -> list[Record]:
    """[Record] in short, from the batch system's accounting; NotYours."""
    found: list[Record] = []
    system = schedulers.with_comments(config, os.environ)
    if system is None:
        return found
    for shown_as, (user, text) in system.comments_of_all(job).items():
        ours = comment_reader.find(text)
        if ours:
            if not for_anybody and not site_client.may_read(user, config):
                raise NotYours(job, user)
            found.append(comment_reader.as_record(comment_reader.decode(ours), shown_as))
    return found


def latest_runs(records: list[Record]) -> list[Record]:
    """Of each job among the records the one of its last run."""
    latest = {}
    for record in records:
        latest[record.batch and record.batch.cluster, record.job.id] = record
    return list(latest.values())


_Whole = namedtuple("_Whole", "job records")         # an array or heterogeneous job, and its parts


def _print(records: Sequence[Record | _Whole], config: site.Config, options: argparse.Namespace,
           without_pages: Collection[int] = ()) -> None:
    """
    Print the reports.

    `without_pages`: id() of each record that was read from a file: the site's pages may not have
    that job, so its report ends without the address of a page.
    """
    form, screen = config["report.format"], screen_of(sys.stdout)
    if form in ("json", "csv"):
        records = [record for record in records if not isinstance(record, _Whole)]
    elif not (options.tasks or options.all):
        parts = {id(part) for whole in records if isinstance(whole, _Whole)
                 for part in whole.records}
        records = [record for record in records if id(record) not in parts]
    for number, record in enumerate(records):
        if isinstance(record, _Whole):
            others = unfinished.others(record.job, record.records, config)
            put_out(["\n" * bool(number) + array_total.as_text(record.job, [
                job_tables.labelled(part, config) for part in record.records], config,
                screen._replace(form=form), others)])
            continue
        text = job_tables.text(job_tables.labelled(record, config), config, form, options.long,
                               options.explain, screen, id(record) not in without_pages)
        if form == "csv" and number:
            text = text.partition("\n")[2]                 # one heading for all
        elif form != "json" and number:
            text = "\n" + text
        put_out([text])
