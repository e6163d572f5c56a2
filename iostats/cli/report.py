"""
iostats report: what finished jobs did, from the site's server, or from the batch system's own
accounting.
"""

from __future__ import annotations

import contextlib
import os
import sys

from iostats import compact, credentials, node, post, report, schedulers, wire
from iostats import config as site
from iostats.cli.parser import parser, put_out, status_of
from iostats.errors import DONE, UNREADABLE, IostatsError, NotDelivered, UsageError
from iostats.jobid import checked_job_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

_LONGEST = 1 << 28
_MOST_LATEST = 1000
_WITHIN_S = 30.0

HELP = """\
usage: iostats report [options] JOB ...
       iostats report --latest N [options]

Print what finished jobs did to Lustre: as the site's server has it, or else the
short form that the batch system keeps with its accounting.

An array's number stands for all of its tasks; of a requeued job it is the latest
run, and all of them with --all.

options:
  --latest N            the N jobs that ended last
  --all                 every run of a requeued job
  --format FORM         grid, plain, json, csv or markdown (default: grid)
  --long                more: calls, mean sizes, network, times, MDTs, nodes
  --explain             say of each number what it counts, and what it does not
  --from WHERE          site or comment (default: site, then comment)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats report 4711
  iostats report --long 4711_3 4712
  iostats report --format json 4711 | jq '.file_systems[].application'

exit status:
  0 printed   1 a job has no report, or it could not be written
  2 bad usage or site.cfg
  3 the site's server was not reached, and nobody else knows the job
"""


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats report", HELP, ("--latest", "--format", "--from", "--config"),
                          ("--long", "--explain", "--all"))
    command_line.add_argument("jobs", nargs="*")
    return status_of(lambda: _run(command_line.parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if options.format is not None:
        config.take("report.format", options.format, "--format")
    where = getattr(options, "from")
    if where not in (None, "site", "comment"):
        raise UsageError(f"--from: expected site or comment, got {where!r}")
    if options.latest is not None:
        count = options.latest
        if not (count.isascii() and count.isdigit() and len(count) < 10
                and 1 <= int(count) <= _MOST_LATEST):
            raise UsageError(f"--latest: expected a number from 1 to {_MOST_LATEST}, got "
                             f"{count[:40]!r}")
        if options.jobs:
            raise UsageError(f"expected --latest or jobs, got both: {' '.join(options.jobs)[:80]}")
        with of_its_form("a record"):
            _print(asked(config, "latest", {"count": int(count)}), config, options)
        return DONE
    if not options.jobs:
        raise UsageError("expected a job, got none (see --help)")
    status, found = DONE, []
    for job in [checked_job_id(job, "JOB") for job in options.jobs]:
        records, failed = records_of(job, config, where)
        if not records:
            print(f"iostats: {failed or _why_none(job, config, where)}", file=sys.stderr)
            status = max(status, failed.exit_status if failed else UNREADABLE)
        with of_its_form("a record"):
            found += records if options.all else latest_runs(records)
    with of_its_form("a record"):
        _print(found, config, options)
    return status


@contextlib.contextmanager
def of_its_form(what: str) -> Iterator[None]:
    """NotDelivered where `what`, which a server has answered, is not as this release knows it."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise NotDelivered(f"the site's server answers in another form: {what} cannot be shown "
                           f"({error!r:.200}); use one release of iostats here and there") from None


def _why_none(job: str, config: site.Config, where: str | None) -> str:
    """What to say of a job that nobody has a record of."""
    if where != "comment":
        with contextlib.suppress(IostatsError), of_its_form("a row"):
            rows = asked(config, "query", {"level": "jobs", "job": job}, _WITHIN_S)["rows"]
            if any(row["is_job"] for row in rows):
                return (f"job {job} has no report yet: it runs, or its numbers are not final; "
                        f"`iostats query jobs --job {job}` has what came to the storage servers")
    return f"nothing is known of job {job}"


def records_of(job: str, config: site.Config, where: str | None = None,
               within_s: float = _WITHIN_S) -> tuple[list[dict[str, Any]], IostatsError | None]:
    """
    ([record] of a job, why there is none: an IostatsError, or None where nobody knows the job).

    `where`: "site" or "comment"; None for both, where it is the site's server that has to answer,
    within `within_s`.
    """
    failed, answered = None, False
    if where != "comment":
        try:
            found = asked(config, "record", {"job": job}, within_s)
            if found:
                return found, None
            answered = True
        except IostatsError as error:
            failed = error
    if where != "site":
        try:
            found = _from_comment(job, config)
            if found:
                return found, None
        except IostatsError as error:
            failed = failed or (None if answered else error)
    return [], failed


def asked(config: site.Config, method: str, params: dict[str, Any],
          within_s: float = _WITHIN_S) -> Any:
    """The result of a method of the site's server; NotDelivered where it can't be asked."""
    host, port = post.site_server(config)
    signs = credentials.of_client(config, wire.SITE, config["site.secret"])
    return post.call(host, port, wire.SITE, signs, node.name(), method, params, within_s, _LONGEST)


def _from_comment(job: str, config: site.Config) -> list[dict[str, Any]]:
    """[record] in short, from the batch system's accounting."""
    system = schedulers.chosen(config, os.environ)
    if not hasattr(system, "comments_of_all"):
        system = schedulers.named("slurm")            # the only one that has comments
    found = []
    for shown_as, text in system.comments_of_all(job).items():
        ours = compact.find(text)
        if ours:
            found.append(compact.as_record(compact.decode(ours), shown_as))
    return found


def latest_runs(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each job among the records the one of its last run."""
    latest = {}
    for record in records:
        batch = record.get("batch") or {}
        latest[batch.get("cluster"), record["job"]["id"]] = record
    return list(latest.values())


def _print(records: list[dict[str, Any]], config: site.Config, options: argparse.Namespace) -> None:
    form = config["report.format"]
    for number, record in enumerate(records):
        text = report.text(report.labelled(record, config), config, form, options.long,
                           options.explain)
        if form == "csv" and number:
            text = text.partition("\n")[2]                 # one heading for all
        elif form != "json" and number:
            text = "\n" + text
        put_out([text])
