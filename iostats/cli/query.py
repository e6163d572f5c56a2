"""
iostats query: what the site's server knows of the jobs on the storage servers, at five levels of
detail.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys

from iostats.base import config as site
from iostats.base.errors import DONE, NotDelivered, UsageError, one_line
from iostats.cli.parser import parser, put_out, status_of
from iostats.cli.site_server import asked, of_its_form
from iostats.load import query_table, ranking
from iostats.report import job_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

HELP = """\
usage: iostats query LEVEL [options]

Print what the storage servers have counted, from the site's server.

LEVEL is a letter or its word:
  a  targets            totals of each job on each target
  b  jobs               totals of each job on each file system
  c  rates              rates of each job on each file system, of the last sweep
  d  rates-summed       rates of each job, all file systems together
  e  file-systems       totals and rates of each file system

Totals are of the jobs that are not settled yet, since their entries began;
finished ones are in `iostats report` and `iostats jobs`.  a and e also say which
part of each target's requests came under ids that are no job's.

SWEPT is how long ago the storage servers' agents last read the targets.  ">="
is a lower bound: a target was not read for longer than two sweeps, or has
forgotten something; the notes say which.

options:
  --fs NAME             this file system alone
  --job ID              this job alone, or all of an array
  --user NAME           this user's jobs alone
  --sort WHAT           write, read, requests or metadata (default: write)
  --count N             up to N rows (default: 1000)
  --page N              the N-th page of --count rows (default: 1)
  --all                 all rows, however many
  --json                a JSON document, with what each counter has counted
  --csv                 comma-separated values
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  -h, --help            this text

examples:
  iostats query b --user alice
  iostats query targets --job 4711 --json
  iostats query e --csv
  iostats query a --count 100 --page 2

exit status:
  0 printed   1 it could not be written   2 bad usage or site.cfg
  3 the site's server was not reached, or refused
"""

_LEVELS = ("a", "b", "c", "d", "e", "targets", "jobs", "rates", "rates-summed", "file-systems")
_WITHIN_S = 60.0
_NOT_IN_TABLES = ("counters", "notes", "is_job")


def main(arguments: list[str] | None = None) -> int:
    """Print; the exit status."""
    command_line = parser("iostats query", HELP,
                          ("--fs", "--job", "--user", "--sort", "--count", "--page", "--config"),
                          ("--json", "--csv", "--all"))
    command_line.add_argument("level", nargs="*")
    return status_of(lambda: _run(command_line.parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    if len(options.level) != 1 or options.level[0] not in _LEVELS:
        raise UsageError(f"LEVEL: expected one of {' '.join(_LEVELS)}, got "
                         f"{' '.join(options.level)[:40] or 'none'}")
    if options.sort is not None and options.sort not in ranking.SORT:
        raise UsageError(f"--sort: expected {', '.join(ranking.SORT)}, got {options.sort[:40]!r}")
    if options.json and options.csv:
        raise UsageError("expected --json or --csv, got both")
    if options.all and (options.count or options.page):
        raise UsageError("--all: expected neither --count nor --page with it")
    count = _number("--count", options.count or str(ranking.MOST_ROWS if options.all else 1000),
                    ranking.MOST_ROWS)
    page = _number("--page", options.page or "1", 10**6)
    answer = _answer(config, {
        "level": options.level[0], "file_system": options.fs or "", "user": options.user or "",
        "job": options.job or "", "sort": options.sort or "write", "count": count}, page,
        options.all)
    with of_its_form("a row"):
        if options.json:
            put_out([json.dumps(answer, indent=2), "\n"])
        elif options.csv:
            put_out([_csv(answer["rows"])])
        else:
            width = None
            if sys.stdout.isatty() or os.environ.get("COLUMNS"):
                width = max(1, shutil.get_terminal_size().columns)
            put_out(f"{line}\n" for line in query_table.lines(
                answer, width, config["report.units"], config.labels, page))
    return DONE


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise UsageError(f"{name}: expected a number from 1 to {most}, got {text[:40]!r}")
    return int(text)


def _answer(config: site.Config, params: dict[str, Any], page: int,
            is_all: bool) -> dict[str, Any]:
    """The answer of one page, or of all: with the rows of all."""
    answer = _asked(config, params)
    rows, number = answer["rows"], 1
    while answer["next"] is not None and (is_all or number < page):
        answer = _asked(config, {**params, "after": answer["next"]})
        rows = [*(rows if is_all else ()), *answer["rows"]]
        number += 1
    if number < page and not is_all:
        raise UsageError(f"--page: expected a number from 1 to {number}, got {page}: there are no "
                         f"more rows")
    return {**answer, "rows": rows}


def _asked(config: site.Config, params: dict[str, Any]) -> dict[str, Any]:
    answer = asked(config, "query", params, _WITHIN_S)
    if not isinstance(answer, dict) or not {"rows", "left_off", "level", "next"} <= set(answer):
        raise NotDelivered("the site's server answers in another form: use one release of iostats "
                           "here and there")
    return answer


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _columns(rows)
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else int(row[name])
                         if isinstance(row[name], bool) else _cell(row[name]) for name in columns])
    return text.getvalue()


def _cell(value: object) -> object:
    """A text that a spreadsheet does not take for a formula, nor a terminal for a command."""
    if not isinstance(value, str):
        return value
    return one_line(job_tables.cell(value))


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return [name for name in rows[0] if name not in _NOT_IN_TABLES] if rows else []

