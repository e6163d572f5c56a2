"""
iostats why: where a job's time went, with the activity of the storage servers during it.
"""

from __future__ import annotations

import sys

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, IostatsError, UsageError
from iostats.base.job_id import check_batch_job
from iostats.base.messages import print_message
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
from iostats.cli.parser import parse_options, parse_whole_number, run_role, write_output
from iostats.cli.report import fetch_records, select_latest_runs
from iostats.cli.terminal_form import detect_screen
from iostats.load.time_lines import JobHistory, parse_history
from iostats.report import job_tables, json_and_csv
from iostats.report.newer_release import read_known
from iostats.report.site_methods import JOB_HISTORY, JOBS, RECORD
from iostats.report.why import answer, like_runs
from iostats.totals.record import Record


class WhyOptions(Options, help="""\
usage: iostats why [options] JOB

Report where a job's time went: its own I/O pattern; a busy OST or MDT, and the
job that loaded it; a fault; not in Lustre, or not in any file system that
iostats can see; or that the cause is unknown, with the reason.  Each cause has
its evidence and a confidence.

Sources: the job's record, the load of its targets during the job (harvest),
events, and other runs of the same name and user.  Other users'
jobs are named only for root and [site] readers.
A JOB with a / in it, or .json at its end, is a file with one record, written
by `iostats report --format json` or --json; - is standard input.  For a file
only the record is judged, and no server is queried.

options:
{options}

examples:
  iostats why 4711
  iostats why --like 30 4711_3
  iostats why --json 4711 | jq '.causes[0].text'
  iostats report --format json 4711 > slow.json; iostats why slow.json

exit status:
  0 printed   1 the job has no report, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and no other source has the job
"""):
    jobs = operands("JOB")
    like = option("--like N",
                  "compare with the last N runs of the same name and user (default: 10; 0: with "
                  "none)")
    json = flag("--json", "one JSON document (docs/explanation/why.md)")
    config = CONFIG

DEFAULT_SIMILAR, _MAX_SIMILAR = 10, 100


def main(arguments: list[str] | None = None) -> int:
    """Print where a job's time went; returns the exit status."""
    return run_role(lambda: _run(parse_options(WhyOptions, arguments)))


def _run(options: WhyOptions) -> int:
    config = site.load(options.config)
    if len(options.jobs) != 1:
        raise UsageError(f"expected one job, got {' '.join(options.jobs)[:80] or 'none'} "
                         f"(see --help)")
    job_argument = options.jobs[0]
    max_similar = 0 if options.like == "0" else parse_whole_number("--like", options.like
                                                                   or str(DEFAULT_SIMILAR),
                                                                   _MAX_SIMILAR)
    history, why_not, similar = None, "its record was read from a file", []
    is_file = record_file.is_file_name(job_argument)
    if is_file:
        record = _require_one(record_file.read_records(job_argument), job_argument)
    else:
        job = check_batch_job(job_argument, "JOB")
        records, failed = fetch_records(job, config)
        if not records:
            print_message(failed or unfinished.explain_missing_reports([job], config)[job])
            return failed.exit_status if failed else UNREADABLE
        with site_client.check_format("a record"):
            record = _require_one(select_latest_runs(records), job)
        history, why_not = fetch_history(record, config)
        similar = fetch_similar_runs(record, max_similar, config)
    with (record_file.check_format(job_argument, [record]) if is_file
          else site_client.check_format("a job's time lines")):
        explanation = answer.make_answer(job_tables.add_labels(record, config), history, similar,
                                         config,
                                         why_not)
        if options.json:
            write_output([json_and_csv.format_json(answer.as_form(explanation))])
        else:
            write_output(f"{line}\n" for line in answer.format_answer(
                explanation, detect_screen(sys.stdout), config.labels, config.report.units))
    return DONE


def _require_one(records: list[Record], job_argument: str) -> Record:
    """The one record; UsageError if there are several."""
    if len(records) > 1:
        raise UsageError(f"{job_argument}: expected one job, got {len(records)}: "
                         f"{', '.join(record.job.id for record in records[:3])} ...")
    return records[0]


def fetch_history(record: Record, config: site.Config) -> tuple[JobHistory | None, str]:
    """Return (the job's JobHistory, why there is none)."""
    params: dict[str, object] = {"job": record.batch.raw_job if record.batch else record.job.id}
    if record.batch and record.batch.cluster:
        params["cluster"] = record.batch.cluster
    if record.job.attempt is not None:
        params["attempt"] = record.job.attempt
    try:
        form = site_client.ask_site(config, JOB_HISTORY, params)
    except IostatsError as error:
        return None, f"the site's server did not answer ({error})"
    if form is None:
        return None, ""
    with site_client.check_format("a job's time lines"):
        return parse_history(form), ""


def fetch_similar_runs(record: Record, max_runs: int, config: site.Config) -> list[Record]:
    """Records of the last runs of the same name and user that ended normally; up to `max_runs`."""
    params = like_runs.make_query(record, max_runs)
    similar: list[Record] = []
    if params is None:
        return similar
    try:
        answer = site_client.ask_site(config, JOBS, params)
        with site_client.check_format("a list of jobs"):
            similar_rows = like_runs.select_comparable_runs(record, answer["jobs"])
        for row in similar_rows[:max_runs]:
            runs = site_client.ask_site(config, RECORD, {"job": row["raw_job_id"]})
            with site_client.check_format("a record"):
                run = like_runs.find_run(row, map(read_known, runs))
            similar += [run] if run else []
    except IostatsError as error:
        # Without them there is less to compare, and the causes remain.
        print_message(f"other runs are unknown: {error}")
    return similar
