"""
iostats jobs: a line for each job, from the site's server; options as those of sacct.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base.errors import DONE, UsageError
from iostats.base.job_id import check_batch_job, expand_tasks
from iostats.base.messages import print_message
from iostats.cli import flag, option, repeated, unfinished
from iostats.cli.list_options import (
    ListOptions,
    describe_hidden_fields,
    make_number_form,
    parse_delimiter,
    parse_limit,
    run_list_command,
)
from iostats.cli.parser import Times, choose_table_width, parse_times, write_output
from iostats.cli.site_client import ask_site, check_format
from iostats.report import job_fields, job_list, json_and_csv
from iostats.report.listing import ALL, FieldColumn, NumberForm
from iostats.report.site_methods import JOBS

if TYPE_CHECKING:
    from iostats.report.job_fields import ListedJob
    from iostats.store.job_index import JobsParams

_MAX_LINES = 5                  # about jobs without a row


class JobsOptions(ListOptions, Times, help="""\
usage: iostats jobs [options]

Print a line for each job with its reads, writes and opens, from the site's
server.  Options, fields and times are those of sacct if possible.

Without -S and -j: the jobs of today.  Users see their own jobs; root and [site]
readers see all.  Of a job that was requeued the last run is listed.

which jobs:
{common}
{which}

what is shown:
{shown}

{options}

times:
  YYYY-MM-DD[THH:MM[:SS]]  MMDD[YY][-HH:MM]  HH:MM[:SS]  today  yesterday
  midnight  noon  1121-noon  now-3days  now-2hours  utsSECONDS ...

examples:
  iostats jobs
  iostats jobs -S now-7days --sort -write_bytes --limit 10
  iostats jobs -u alice -S 2026-11-01 -o JobID,Elapsed,ReadBytes,ServerReadBytes
  iostats jobs -j 4711 -P -n --noconvert -o ReadBytes,WriteBytes

exit status:
  0 printed, also if no job was found   1 the output could not be written
  2 bad usage or site.cfg        3 the site's server was not reached, or refused
"""):
    since = option("-S, --starttime, --since TIME",
                   "that ran at or after TIME (default: 00:00 of today; with -j: any)", "common")
    until = option("-E, --endtime, --until TIME", "that ran at or before TIME", "common")
    users = repeated("-u, --user USERS",
                     "of these users: names or numbers, separated by commas",
                     "which", aliases="--uid")
    all_users = flag("-a, --allusers", "of all users whose jobs you may see (the default)", "which")
    accounts = repeated("-A, --account ACCOUNTS",
                        "of these accounts", "which", aliases="--accounts")
    partitions = repeated("-r, --partition PARTITIONS", "of these partitions", "which")
    clusters = repeated("-M, --cluster CLUSTERS",
                        "of these clusters", "which", aliases="--clusters")
    jobs = repeated("-j, --jobs JOBS",
                    "an array's number means all of its tasks; 100_[1-3] are some of them", "which")
    names = repeated("--name NAMES", "with these names", "which")
    states = repeated("-s, --state STATES",
                      "how they ended: FAILED, TIMEOUT, ... or F, TO, ...", "which")
    all_runs = flag("-D, --duplicates", "every run of a job that was requeued", "which")
    used = repeated("--fstype TYPES",
                    "that used lustre, nfs, gpfs, cephfs or disk (the nodes' local disks), with "
                    "the bytes read from and written to these", "which")
    hit = flag("--events", "with events: something went wrong during the job", "which")
    lost = flag("--lost", "that lost data, or may have lost some, by an event", "which")
    format = repeated("-o, --format FIELDS",
                      "such as JobID,User%-10,ReadBytes%12: %12 is 12 wide, right-aligned, %-10 is "
                      "10 wide, left-aligned; text that is too long ends with +, numbers are never "
                      "cut; ALL for every field (default: [report] job_fields)", "shown")
    brief = flag("-b, --brief", "JobID,State,ReadBytes,WriteBytes", "shown")
    sort = option("--sort FIELD",
                  "the smallest first; -FIELD: the largest (default: Start)", "shown")
    json = flag("--json", "one JSON document (docs/reference/jobs.md)", "shown")
    steps = flag("-X, --allocations", "ignored: there are no job steps here")


def main(arguments: list[str] | None = None) -> int:
    """Print the list of jobs; returns the exit status."""
    return run_list_command(JobsOptions, _run, arguments)


def _run(options: JobsOptions) -> int:
    if options.helpformat:
        write_output([job_fields.format_field_help()])
        return DONE
    config = site.load(options.config)
    columns, form = _select_columns(options, config), make_number_form(options, config)
    delimiter = parse_delimiter(options)
    params = _make_params(options, time.time())
    rows = _fetch_rows(config, params, parse_limit(options))
    with check_format("a job"):
        columns, without = _fit_to_terminal(rows, columns, form, options, config)
        write_output(_format_lines(rows, params, columns, form, delimiter, options, config))
        for line in [*_explain_missing_rows(rows, params, options, config), *without]:
            print_message(line)
    return DONE


def _fit_to_terminal(rows: list[ListedJob], columns: list[FieldColumn], form: NumberForm,
                     options: JobsOptions,
                     config: site.Config) -> tuple[list[FieldColumn], list[str]]:
    """
    Return (columns with values that fit the terminal, [message]); all columns if the user chose
    them.
    """
    chosen = (options.format or options.long or options.brief or options.json or options.parsable
              or options.parsable2 or config.report.job_fields)
    if not chosen and not any(row.get("events") for row in rows):
        columns = [column for column in columns if column.field.name != "events"]
    if chosen:
        return columns, []
    fitting_columns, without = job_list.fit_columns(rows, columns, form, choose_table_width())
    return fitting_columns, describe_hidden_fields(without)


def _explain_missing_rows(rows: list[ListedJob], params: JobsParams,
                          options: JobsOptions,
                          config: site.Config) -> list[str]:
    """
    Return [line] on selected jobs without a row; or, below a table for people, on today's jobs that
    wait for nodes. [] if options have left out rows.
    """
    if (params.accounts or params.partitions or params.clusters or params.states or params.names
            or params.used or params.hit or params.lost or params.until is not None):
        return []
    if params.jobs:
        if params.users or params.since is not None:
            return []
        missing = [job for job in params.jobs if not any(_is_row_of_job(row, job) for row in rows)]
        reasons = unfinished.explain_missing_reports(missing, config)
        return [reasons[job] for job in missing[:_MAX_LINES]
                if job in reasons] + _format_more_line(missing)
    if options.json or options.parsable or options.parsable2:
        return []
    listed = {(row["raw_job_id"], row["attempt"]) for row in rows}
    waiting = [job_waiting for job_waiting in unfinished.query_waiting([], config)
               if (job_waiting["job"], job_waiting["attempt"]) not in listed
               and (not params.users or job_waiting["user"] in params.users)]
    return [f"not in the list: job {job_waiting['job']} {unfinished.describe_waiting(job_waiting)}"
            for job_waiting in waiting[:_MAX_LINES]] + _format_more_line(waiting)


def _format_more_line(items: Sequence[object]) -> list[str]:
    return [f"... and {len(items) - _MAX_LINES} more"] if len(items) > _MAX_LINES else []


def _is_row_of_job(row: ListedJob, job: str) -> bool:
    """True if a row belongs to `job` of the command line: a job, an array, or a part of one."""
    shown = row["job_id"]
    return job in (shown, row["raw_job_id"]) or (
        shown.startswith(job) and shown[len(job)] in "_+.[")


def _format_lines(rows: list[ListedJob], params: JobsParams, columns: list[FieldColumn],
                  form: NumberForm, delimiter: str, options: JobsOptions,
                  config: site.Config) -> Iterable[str]:
    """Yield the lines of the list of jobs, in the format that is asked for."""
    if options.json:
        return [json_and_csv.format_json({"schema": 1, "since": params.since,
                                          "until": params.until, "jobs": rows})]
    for row in rows:
        row["file_systems"] = [config.labels.get(name, name) for name in row["file_systems"]]
    if options.parsable or options.parsable2:
        return job_list.format_parsable(rows, columns, form, not options.noheader, delimiter,
                                        not options.parsable2)
    return job_list.format_table(rows, columns, form, not options.noheader)


def _select_columns(options: JobsOptions, config: site.Config) -> list[FieldColumn]:
    if options.format:
        return job_list.parse_columns(",".join(options.format))
    if options.long:
        return job_list.parse_columns(ALL)
    if options.brief:
        return job_list.parse_columns(job_fields.BRIEF)
    default = job_fields.DEFAULT.replace(
        ",".join(job_fields.OF_KIND["lustre"]),
        ",".join(job_fields.find_fields_of_kinds(_parse_types(options.used))))
    return job_list.parse_columns(config.report.job_fields or default,
                                  config.locate("report.job_fields"))


def _make_params(options: JobsOptions, now: float) -> JobsParams:
    """The params of the site server's `jobs`."""
    from iostats.store.job_index import JobsParams  # here, as completion has no use for it
    sort, descending = job_fields.parse_sort("Start" if options.sort is None else options.sort)
    maximum = job_fields.MOST_JOBS
    jobs = [check_batch_job(job, "--jobs") for job in _split_names(
        [job for text in options.jobs for job in expand_tasks(text, "--jobs", maximum)], "--jobs",
        maximum)]
    # No limit without -E: a node's clock may be ahead of ours.
    since, until = parse_times(options, now, None if jobs else "today")
    if options.all_users and options.users:
        raise UsageError("expected --allusers or --user, got both")
    return JobsParams(
        users=_split_names(options.users, "--user"),
        accounts=_split_names(options.accounts, "--account"),
        partitions=_split_names(options.partitions, "--partition"),
        clusters=_split_names(options.clusters, "--cluster"), jobs=jobs,
        states=[job_fields.parse_state(state)
                for state in _split_names(options.states, "--state")],
        names=_split_names(options.names, "--name"), used=_parse_types(options.used),
        since=since, until=until, hit=options.hit, lost=options.lost, all_runs=options.all_runs,
        sort=sort, descending=descending != options.reverse)


def _split_names(texts: list[str], option: str, maximum: int = job_fields.MOST_NAMES) -> list[str]:
    """Return [name] of ["a,b", "c"], each once; UsageError names `option`."""
    names = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if texts and not names:
        raise UsageError(f"{option}: expected names separated by commas, got {texts[0][:40]!r}")
    if len(names) > maximum:
        raise UsageError(f"{option}: expected up to {maximum}, got {len(names)}")
    for word in names:
        if len(word) > 128 or not word.isprintable():
            raise UsageError(f"{option}: expected up to 128 printable characters, got "
                             f"{word[:40]!r}")
    return list(dict.fromkeys(names))


def _parse_types(texts: list[str]) -> list[str]:
    """The kinds of file systems of --fstype; UsageError."""
    types = _split_names(texts, "--fstype")
    if not set(job_fields.TYPES) >= set(types):
        raise UsageError(f"--fstype: expected {', '.join(job_fields.TYPES)}, got "
                         f"{','.join(types)[:40]!r}")
    return types


def _fetch_rows(config: site.Config, params: JobsParams, limit: int) -> list[ListedJob]:
    """Up to `limit` rows, fetched in parts, so that no answer occupies the server for long."""
    import msgspec
    rows: list[ListedJob] = []
    while len(rows) < limit:
        params.limit, before = min(job_fields.MOST_ROWS, limit - len(rows)), params.after
        answer = ask_site(config, JOBS, msgspec.structs.asdict(params))
        with check_format("a list of jobs"):
            new_rows, params.after = answer["jobs"], answer["next"]
            if params.after is not None and (not new_rows or repr(params.after) == repr(before)):
                raise ValueError("no other jobs, but more are announced")
            rows += new_rows
        if (params.hit or params.lost) and new_rows and "events" not in new_rows[0]:
            raise UsageError("--events, --lost: the site's server is of an earlier release, "
                             "without events")
        if params.after is None:
            break
    return rows
