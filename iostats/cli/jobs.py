"""
iostats jobs: a line for each job, from the site's server; options as those of sacct.
"""

from __future__ import annotations

import sys
import time

from iostats.base import config as site
from iostats.base.errors import DONE, UsageError
from iostats.base.job_id import checked_batch_job, tasks_of
from iostats.cli import unfinished
from iostats.cli.list_options import (
    ListOptions,
    command_line,
    limit_of,
    notes_on_room,
    number_form,
    without_descending,
)
from iostats.cli.parser import moments_of, put_out, status_of, table_width
from iostats.cli.site_client import ask_site, form_checked
from iostats.report import job_fields, job_list, json_and_csv
from iostats.report.listing import ALL, FieldColumn, NumberForm
from iostats.site import job_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Any

_MOST_LINES = 5                 # on jobs without a row

HELP = """\
usage: iostats jobs [options]

Print a line for each job with what it read, wrote and opened, from the site's
server.  Options, fields and times are those of sacct where they fit.

Without -S and -j: the jobs of today.  Users see their own jobs; root and [site]
readers see all.  Of a job that was requeued the last run is listed.

which jobs:
  -S, --starttime, --since TIME    that ran at or after TIME (default: 00:00 of
                        today; with -j: any)
  -E, --endtime, --until TIME      that ran at or before TIME
  -u, --user USERS      of these users: names or numbers, separated by commas
  -a, --allusers        of all users whose jobs you may see (the default)
  -A, --account ACCOUNTS
  -r, --partition PARTITIONS
  -M, --cluster CLUSTERS
  -j, --jobs JOBS       an array's number means all of its tasks; 100_[1-3] are
                        some of them
  --name NAMES          with these names
  -s, --state STATES    how they ended: FAILED, TIMEOUT, ... or F, TO, ...
  -D, --duplicates      every run of a job that was requeued
  --events              with events: something went wrong while they ran
  --lost                that lost data by an event, or may have lost some

what is shown:
  -o, --format FIELDS   such as JobID,User%-10,ReadBytes%12: %12 is 12 wide,
                        right-aligned, %-10 is 10 wide, left-aligned; text that
                        is too long ends with +, numbers are never cut; ALL for
                        every field (default: [report] job_fields)
  -l, --long            -o ALL
  -b, --brief           JobID,State,ReadBytes,WriteBytes
  -e, --helpformat      list the fields
  --sort FIELD          the smallest first; -FIELD: the largest (default: Start)
  --reverse             reverse the order
  --limit N             the first N jobs in that order
  -n, --noheader        no heading
  -p, --parsable        | after every field
  -P, --parsable2       | between fields
  --delimiter TEXT      with -p and -P: TEXT instead of |
  --units UNIT          bytes in K, M, G, T or P
  --noconvert           bytes as plain numbers
  --json                one JSON document (docs/jobs.md)

  -X, --allocations     ignored: there are no job steps here
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

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
"""

LISTS: ListOptions = (
    (("-u", "--user", "--uid"), "users"), (("-A", "--account", "--accounts"), "accounts"),
    (("-r", "--partition"), "partitions"), (("-M", "--cluster", "--clusters"), "clusters"),
    (("-j", "--jobs"), "jobs"), (("-s", "--state"), "states"),
    (("--name",), "names"))
FLAGS: ListOptions = (
    (("-a", "--allusers"), "all_users"), (("-D", "--duplicates"), "all_runs"),
    (("-b", "--brief"), "brief"), (("-X", "--allocations"), "steps"),
    (("--events",), "hit"), (("--lost",), "lost"))


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    return status_of(lambda: _run(_parsed(sys.argv[1:] if arguments is None else arguments)))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    return command_line("iostats jobs", HELP, lists=LISTS, flags=FLAGS).parse_args(
        without_descending(arguments))


def _run(options: argparse.Namespace) -> int:
    if options.helpformat:
        put_out([job_fields.field_help()])
        return DONE
    config = site.load(options.config)
    columns, how = _columns(options, config), number_form(options, config)
    delimiter = job_list.checked_delimiter("|" if options.delimiter is None else options.delimiter)
    question = _question(options, time.time())
    rows = _rows(config, question, limit_of(options))
    with form_checked("a job"):
        columns, without = _for_the_terminal(rows, columns, how, options, config)
        put_out(_lines(rows, question, columns, how, delimiter, options, config))
        for line in [*_without_row(rows, question, options, config), *without]:
            print(f"iostats: {line}", file=sys.stderr)
    return DONE


def _for_the_terminal(rows: list[dict[str, Any]], columns: list[FieldColumn], how: NumberForm,
                      options: argparse.Namespace,
                      config: site.Config) -> tuple[list[FieldColumn], list[str]]:
    """(columns that have something and fit into the terminal, [message]); all that were chosen."""
    chosen = (options.format or options.long or options.brief or options.json or options.parsable
              or options.parsable2 or config["report.job_fields"])
    if not chosen and not any(row.get("events") for row in rows):
        columns = [column for column in columns if column.field.name != "events"]
    if chosen:
        return columns, []
    found, without = job_list.fitting(rows, columns, how, table_width())
    return found, notes_on_room(without)


def _without_row(rows: list[dict[str, Any]], question: dict[str, Any], options: argparse.Namespace,
                 config: site.Config) -> list[str]:
    """
    [line] on jobs that were asked for and have no row; or else, below a table for people, on those
    of today that wait for nodes.  [] where options have left rows out.
    """
    chosen = any(question[name] for name in ("accounts", "partitions", "clusters", "states",
                                             "names", "hit", "lost"))
    if chosen or question["until"] is not None:
        return []
    if question["jobs"]:
        if question["users"] or question["since"] is not None:
            return []
        left = [job for job in question["jobs"] if not any(_is_of(row, job) for row in rows)]
        found = unfinished.reasons(left, config)
        return [found[job] for job in left[:_MOST_LINES] if job in found] + _and_more(left)
    if options.json or options.parsable or options.parsable2:
        return []
    there = {(row["raw_job_id"], row["attempt"]) for row in rows}
    waiting = [one for one in unfinished.waiting_jobs([], config)
               if (one["job"], one["attempt"]) not in there
               and (not question["users"] or one["user"] in question["users"])]
    return [f"not in the list: job {one['job']} {unfinished.awaited(one)}"
            for one in waiting[:_MOST_LINES]] + _and_more(waiting)


def _and_more(found: list[Any]) -> list[str]:
    return [f"... and {len(found) - _MOST_LINES} more"] if len(found) > _MOST_LINES else []


def _is_of(row: dict[str, Any], job: str) -> bool:
    """Whether a row belongs to `job`, as it was asked for: a job, an array, a part of one."""
    shown = row["job_id"]
    return job in (shown, row["raw_job_id"]) or (
        shown.startswith(job) and shown[len(job)] in "_+.[")


def _lines(rows: list[dict[str, Any]], question: dict[str, Any], columns: list[FieldColumn],
           how: NumberForm, delimiter: str, options: argparse.Namespace,
           config: site.Config) -> Iterable[str]:
    """What is printed, line by line."""
    if options.json:
        return [json_and_csv.as_json({"schema": 1, "since": question["since"],
                                    "until": question["until"], "jobs": rows})]
    for row in rows:
        row["file_systems"] = [config.labels.get(name, name) for name in row["file_systems"]]
    if options.parsable or options.parsable2:
        return job_list.parsable(rows, columns, how, not options.noheader, delimiter,
                                 not options.parsable2)
    return job_list.table(rows, columns, how, not options.noheader)


def _columns(options: argparse.Namespace, config: site.Config) -> list[FieldColumn]:
    if options.format:
        return job_list.columns_of(",".join(options.format))
    if options.long:
        return job_list.columns_of(ALL)
    if options.brief:
        return job_list.columns_of(job_fields.BRIEF)
    where = config.origin["report.job_fields"]
    return job_list.columns_of(config["report.job_fields"] or job_fields.DEFAULT,
                               f"{where}: [report] job_fields")


def _question(options: argparse.Namespace, now: float) -> dict[str, Any]:
    """The params of the site server's `jobs`, as a dict."""
    sort, descending = job_fields.sort_of("Start" if options.sort is None else options.sort)
    most = job_index.MOST_JOBS
    jobs = [checked_batch_job(job, "--jobs") for job in _words(
        [job for text in options.jobs for job in tasks_of(text, "--jobs", most)], "--jobs", most)]
    # No limit without -E: a node's clock may be ahead of ours.
    since, until = moments_of(options, now, None if jobs else "today")
    if options.all_users and options.users:
        raise UsageError("expected --allusers or --user, got both")
    return {
        "users": _words(options.users, "--user"), "accounts": _words(options.accounts, "--account"),
        "partitions": _words(options.partitions, "--partition"),
        "clusters": _words(options.clusters, "--cluster"), "jobs": jobs,
        "states": [job_fields.state_of(state) for state in _words(options.states, "--state")],
        "names": _words(options.names, "--name"),
        "since": since, "until": until, "hit": options.hit, "lost": options.lost,
        "all_runs": options.all_runs, "sort": sort,
        "descending": descending != options.reverse}


def _words(texts: list[str], what: str, most: int = job_index.MOST_NAMES) -> list[str]:
    """[word] of ["a,b", "c"], each once; UsageError names `what`."""
    found = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if texts and not found:
        raise UsageError(f"{what}: expected names separated by commas, got {texts[0][:40]!r}")
    if len(found) > most:
        raise UsageError(f"{what}: expected up to {most}, got {len(found)}")
    for word in found:
        if len(word) > 128 or not word.isprintable():
            raise UsageError(f"{what}: expected up to 128 printable characters, got "
                             f"{word[:40]!r}")
    return list(dict.fromkeys(found))


def _rows(config: site.Config, question: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Up to `limit` rows, asked for in parts, so that no answer occupies the server for long."""
    rows: list[dict[str, Any]] = []
    after: Any = None
    while len(rows) < limit:
        part = min(job_index.MOST_ROWS, limit - len(rows))
        answer = ask_site(config, "jobs", {**question, "limit": part, "after": after})
        with form_checked("a list of jobs"):
            found, before, after = answer["jobs"], after, answer["next"]
            if after is not None and (not found or repr(after) == repr(before)):
                raise ValueError("no other jobs, but more are announced")
            rows += found
        if (question.get("hit") or question.get("lost")) and found and "events" not in found[0]:
            raise UsageError("--events, --lost: the site's server is of an earlier release, "
                             "and knows of no events")
        if after is None:
            break
    return rows
