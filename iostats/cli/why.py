"""
iostats why: where a job's time went, beside what the storage servers did then.
"""

from __future__ import annotations

import sys

from iostats.base import config as site
from iostats.base.errors import DONE, UNREADABLE, IostatsError, UsageError
from iostats.base.job_id import checked_batch_job
from iostats.cli import site_client, unfinished
from iostats.cli.parser import parser, put_out, status_of, whole_number
from iostats.cli.report import latest_runs, records_of
from iostats.cli.terminal_form import screen_of
from iostats.load.time_lines import history_of
from iostats.report import job_tables, json_and_csv
from iostats.report.newer_release import as_known
from iostats.report.why import answer, like_runs
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from iostats.load.time_lines import JobHistory

HELP = """\
usage: iostats why [options] JOB

Say where a job's time went: mostly not in Lustre; how it does its I/O; an OST
or MDT that was busy, and with whose job; a fault; or that it cannot be told,
and why.  Each with its evidence, and how sure it is.

From the job's record, from what its targets did meanwhile (harvest), from
events, and from other runs of the same name and user.  Jobs of other users
have a name for root and [site] readers alone.

options:
  --like N              compare with the last N runs of the same name and user
                        (default: 10; 0: with none)
  --json                one JSON document (docs/why.md)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats why 4711
  iostats why --like 30 4711_3
  iostats why --json 4711 | jq '.causes[0].text'

exit status:
  0 printed   1 the job has no report, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and the job is not known from elsewhere
"""

LIKE, _MOST_LIKE = 10, 100


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats why", HELP, ("--like", "--config"), ("--json",))
    command_line.add_argument("jobs", nargs="*")
    return status_of(lambda: _run(command_line.parse_intermixed_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if len(options.jobs) != 1:
        raise UsageError(f"expected one job, got {' '.join(options.jobs)[:80] or 'none'} "
                         f"(see --help)")
    job = checked_batch_job(options.jobs[0], "JOB")
    most = 0 if options.like == "0" else whole_number("--like", options.like or str(LIKE),
                                                      _MOST_LIKE)
    records, failed = records_of(job, config)
    if not records:
        print(f"iostats: {failed or unfinished.reasons([job], config)[job]}", file=sys.stderr)
        return failed.exit_status if failed else UNREADABLE
    with site_client.form_checked("a record"):
        found = latest_runs(records)
        if len(found) > 1:
            raise UsageError(f"{job}: expected one job, got the number of {len(found)}: "
                             f"{', '.join(one.job.id for one in found[:3])} ...")
        record = job_tables.labelled(found[0], config)
    history, why_not = history_of_job(record, config)
    like = runs_like(record, most, config)
    with site_client.form_checked("a job's time lines"):
        told = answer.answer_of(record, history, like, config, why_not)
        if options.json:
            put_out([json_and_csv.as_json(answer.as_form(told))])
        else:
            put_out(f"{line}\n" for line in answer.lines(
                told, screen_of(sys.stdout), config.labels, config["report.units"]))
    return DONE


def history_of_job(record: Record, config: site.Config) -> tuple[JobHistory | None, str]:
    """(the job's JobHistory, why there is none, in words)."""
    params: dict[str, object] = {"job": record.batch.raw_job if record.batch else record.job.id}
    if record.batch and record.batch.cluster:
        params["cluster"] = record.batch.cluster
    if record.job.attempt is not None:
        params["attempt"] = record.job.attempt
    try:
        form = site_client.ask_site(config, "job_history", params)
    except IostatsError as error:
        return None, f"the site's server does not answer about it ({error})"
    if form is None:
        return None, ""
    with site_client.form_checked("a job's time lines"):
        return history_of(form), ""


def runs_like(record: Record, most: int, config: site.Config) -> list[Record]:
    """Records of the last runs of the same name and user that ended by themselves; up to `most`."""
    question = like_runs.question_of(record, most)
    found: list[Record] = []
    if question is None:
        return found
    try:
        rows = site_client.ask_site(config, "jobs", question)
        with site_client.form_checked("a list of jobs"):
            others = like_runs.rows_like(record, rows["jobs"])
        for row in others[:most]:
            runs = site_client.ask_site(config, "record", {"job": row["raw_job_id"]})
            with site_client.form_checked("a record"):
                run = like_runs.run_of(row, map(as_known, runs))
            found += [run] if run else []
    except IostatsError as error:
        # Without them there is less to compare, and no less to tell.
        print(f"iostats: other runs are not known: {error}", file=sys.stderr)
    return found
